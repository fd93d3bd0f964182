/*
** journal.h - what the files that keep entries share.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_JOURNAL_H
#define MWB_JOURNAL_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

typedef struct mwB_effects {
  size_t n;
  mwB_refs refs;
  mw_entry entries[1]; /* n of them */
} mwB_effects;

/* The effects at index 1, or raises. */
mwB_effects *mwB_checkeffects(lua_State *L, const char *name);

/* Whose references are meant is said by `refs` and by `table`: where the
** effects are on the stack, or 0 for the journal's. */

/* Pushes the table of references. */
void mwB_pushrefs(lua_State *L, const mwB_state *s, int table);

/* A new reference to the value at `index`. */
uint32_t mwB_newref(lua_State *L, const mwB_state *s, mwB_refs *refs, int table,
                    int index);

/* A reference to the string at `index`. */
uint32_t mwB_stringref(lua_State *L, mwB_state *s, mwB_refs *refs, int table,
                       int index);

/* Sets a part of an entry to the value at `index`, which must be absolute. */
void mwB_pack(lua_State *L, mwB_state *s, mwB_refs *refs, int table, int index,
              mw_entry *entry, int part);

/* Pushes a part of an entry. */
void mwB_unpack(lua_State *L, const mwB_state *s, int table,
                const mw_entry *entry, int part);

/* Gives the journal the table on the top, which is removed. */
void mwB_newrefs(lua_State *L, mwB_state *s);

/* Lets go of the journal's references after the first `n`. */
void mwB_forgetrefs(lua_State *L, mwB_state *s, uint32_t n);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
