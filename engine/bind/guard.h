/*
** guard.h - guards, and kinds of changes.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_GUARD_H
#define MWB_GUARD_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Is there an `mw.guard` at `index`? */
int mwb_is_guard(lua_State *L, const mwb_state *s, int index);

/* Callbacks of the engine: call a guard; is a guard that is an object alive? */
int mwb_call_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                   const mw_change *change);
int mwb_guard_alive(void *ud, mw_handle guard);

/*
** Of a watch with MW_ASK the table of guards has a *term*: an array with the
** guard (a function, or the handle of any other guard), the function `when` or
** false, and the way of a watch with `equal = "skip"`.
*/
enum { MWB_TERM_GUARD = 1, MWB_TERM_WHEN, MWB_TERM_WAY };

/* Callback of the engine: do the terms of a watch allow the call? */
int mwb_ask_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                  const mw_change *change);

/* Is the guard of the term at a place alive? */
int mwb_is_term_alive(lua_State *L, mwb_state *s, int object,
                      lua_Integer place);

/* Drops the guard at a place of the object at `object`. */
void mwb_end_guard(lua_State *L, mwb_state *s, int object, mwi_object *r,
                   lua_Integer place);

/* The name of a kind; the kind of the name at `index`, or raises. */
const char *mwb_kind_name(int kind);
void mwb_push_kind(lua_State *L, const mwb_state *s, int kind);
int mwb_kind(lua_State *L, int index);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
