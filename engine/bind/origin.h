/*
** origin.h - who writes, and because of what.
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
  uint32_t cause;    /* the number of the write that is the cause, or 0 */
  const mw_change *guarded; /* the write whose guard began the origin */
};

/* Pushes the origin of a write that the coroutine `of` makes now, or nil. */
void mwb_push_origin(lua_State *L, mwb_state *s, lua_State *of);

/* The cause of a write made now, if that is no guard's write, or 0. */
uint32_t mwb_other_cause(lua_State *L, mwb_state *s);

/* The number of the write that is the cause of a write made now, or 0. */
static inline uint32_t mwb_cause(lua_State *L, mwb_state *s) {
  uint32_t cause = s->given;
  if (cause == 0 && s->origins > 0) cause = mwb_other_cause(L, s);
  return (cause != 0) ? cause : mw_cause_now(s->engine);
}

/* because(number, f, ...) -> results of f(...), whose writes have this cause */
int mwb_because(lua_State *L);

/* Has the running coroutine an origin of its own? */
int mwb_has_origin(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
