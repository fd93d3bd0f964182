/*
** rollback.h - gives objects the values from before a transaction.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_ROLLBACK_H
#define MWB_ROLLBACK_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Tells the watches of the fields in the array at `list`, which MWB_UNDO has
** made, or nil; puts the first error at `error` if there is nil. */
void mwb_tell_undone(lua_State *L, mwb_state *s, int list, int error);

/* Others may inherit the thread's values now.  Returns their source, which the
** caller gives back by `mwb_keep_source`. */
uint32_t mwb_open_source(lua_State *L, mwb_state *s, const mwb_coroutine *t);

/* Are there heirs of the source but the caller? */
int mwb_has_heirs(lua_State *L, const mwb_state *s, uint32_t source);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
