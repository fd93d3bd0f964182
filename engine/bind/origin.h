/*
** origin.h - who writes: mw.origin.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_ORIGIN_H
#define MWB_ORIGIN_H

#include "coroutine.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

struct mwb_origin {
  mwb_state *s;
  mwb_coroutine *of; /* NULL: the origin is not open */
  mwb_origin *outer; /* of the same coroutine */
  uint64_t order;    /* of the begin */
  int name;          /* in the registry */
};

/* Pushes the origin of a write that the coroutine `of` makes now, or nil. */
void mwb_push_origin(lua_State *L, mwb_state *s, lua_State *of);

/* Has the running coroutine an origin of its own? */
int mwb_has_origin(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
