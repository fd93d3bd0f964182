/*
** effects.h - effects: entries as a value.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_EFFECTS_H
#define MWB_EFFECTS_H

#include "entry.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

typedef struct mwb_effects {
  size_t n;
  uint32_t first; /* of a view: number of the first entry in the log */
  int is_view;
  uint32_t made;  /* the age that they ended, of several the first */
  uint32_t last;  /* `made`; for the inverse of several, that of the last */
  uint32_t began; /* the age that ended when they were about to be undone, */
  uint32_t seen;  /* and that in which they were undone; or `made` */
  int inverted;   /* are they the inverse of effects that were done? */
  int turned;     /* are they, or a part of them, made as an inverse? */
  int undone;     /* is `context` of each entry the number of its undoing? */
  mwb_held held;
  mw_entry entries[1]; /* n of them, unless this is a view */
} mwb_effects;

/* An entry of effects, and where its values are. */
typedef struct mwb_place {
  const mw_entry *entries;
  const mwb_held *held;
  int table;
} mwb_place;

/* Was what happened in that age before the effects, or part of them? */
static inline int mwb_knows_age(const mwb_effects *fx, uint32_t age) {
  return age <= fx->made || (age > fx->began && age <= fx->seen);
}

/* Returns the effects at `index`, or NULL. */
mwb_effects *mwb_to_effects(lua_State *L, int index);

/* Returns the effects at index 1, or raises. */
mwb_effects *mwb_check_effects(lua_State *L, const char *name);

/* Finds the entries of the effects at `index`.  Pushes a value, which must stay
** as long as the place is used; a write to the journal moves the entries. */
mwb_place mwb_find_entries(lua_State *L, int index);

/* apply.c: puts what the table `instead`, or nil, says of the entry number `i`
** in the place of the value on the top.  Returns 0 if the entry is left out. */
int mwb_replace_value(lua_State *L, int instead, lua_Integer i);

/* Has none of the objects that the effects at `index` wrote been written
** since? */
int mwb_is_intact(lua_State *L, const mwb_state *s, int index);

/* Pushes the effects of an open transaction.  Returns whether they have all
** entries of the coroutine, and share the held values. */
int mwb_push_effects(lua_State *L, mwb_state *s, mw_owner owner);

/* Pushes effects with a copy of the entries of an open transaction; that the
** transaction is taken back makes no difference to the copy. */
void mwb_push_copy(lua_State *L, mwb_state *s, mw_owner owner);

/* The effects have been undone, and nobody had written the objects since. */
void mwb_see_effects(mwb_state *s, mwb_effects *fx);

/* The entries of the coroutine from number `from` on are about to change: gives
** effects that look at them a copy. */
void mwb_freeze(lua_State *L, mwb_state *s, mwb_coroutine *t, uint32_t from);

/* Entries of any coroutine are about to change. */
void mwb_freeze_all(lua_State *L, mwb_state *s);

/* The effects on the top have all entries of the coroutine, which end: gives
** other effects that look at them these instead. */
void mwb_hand_views(lua_State *L, mwb_coroutine *t);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
