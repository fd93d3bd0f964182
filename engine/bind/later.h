/*
** later.h - errors that wait for the library's next call.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_LATER_H
#define MWB_LATER_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Pops an error that no statement of the program has made: gives it to
** mw.on_error's function, with `where`; without that function, or if that
** raises, the next call raises the first such error. */
void mwb_late_error(lua_State *L, mwb_state *s, const char *where);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
