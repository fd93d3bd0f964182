/*
** tree.h - the objects below a deeply watched one have shadows, too.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TREE_H
#define MWB_TREE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Includes all objects below the table at `index`, the root of tree `reach`.
** May raise half-way. */
void mwb_include(lua_State *L, mwb_state *s, mw_reach reach, int index);

/* Does the table on the top, which the object at `parent` has under the key
** below the top, belong to a reach (0: one without a rule)? */
int mwb_enters(lua_State *L, mwb_state *s, mw_reach reach, int parent);

/* Gives the root at `object` a rule, the function at `function`.  Returns the
** rule's number. */
uint32_t mwb_add_rule(lua_State *L, mwb_state *s, int object, int function);

/* Gives back at most `n` objects that are no longer in a tree. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n);

/* Gives back the objects that were released since the mark, which no rollback
** puts back: see mwi_tree_release_mark. */
void mwb_let_go_since(lua_State *L, mwb_state *s, uint32_t mark);

/* May there be orphans that can be given back now? */
static inline int mwb_has_orphans(const mwb_state *s) {
  return mw_tree_has_orphans(s->engine) && s->engine->journal.entries == 0;
}

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
