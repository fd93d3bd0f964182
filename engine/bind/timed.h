/*
** timed.h - timed scopes, and the time.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TIMED_H
#define MWB_TIMED_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Nanoseconds since a fixed moment; never goes back.  An `mw_now`. */
int64_t mwb_now(void *ud);

/* A scope of mw.timed that is open, and is traced or measured. */
typedef struct mwb_scope mwb_scope;

/* Returns the outermost such scope of the running coroutine, or NULL; and the
** next one inside a scope.  Scopes last until code in Lua or a finaliser may
** run.  Need no memory. */
const mwb_scope *mwb_outermost_scope(lua_State *L, const mwb_state *s);
const mwb_scope *mwb_inner_scope(const mwb_scope *scope);

/* Returns how many objects hierarchies had entered when the scope began. */
uint64_t mwb_scope_entered(const mwb_scope *scope);

/* Returns a scope's name, which lasts as long as the scope. */
const char *mwb_scope_name(const mwb_scope *scope, size_t *len);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
