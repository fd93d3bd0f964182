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

/* The name of a kind; the kind of the name at `index`, or raises. */
const char *mwb_kind_name(int kind);
void mwb_push_kind(lua_State *L, const mwb_state *s, int kind);
int mwb_kind(lua_State *L, int index);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
