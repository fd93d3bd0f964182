/*
** weakmap.h - the deaths of keys.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_WEAKMAP_H
#define MWB_WEAKMAP_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Calls on_death for at most `n` entries whose keys have died.  Returns the
** number of calls. */
size_t mwb_notify(lua_State *L, mwb_state *s, size_t n);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
