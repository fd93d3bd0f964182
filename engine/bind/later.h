/*
** later.h - what waits until the library is not at work.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_LATER_H
#define MWB_LATER_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* In a finaliser that has interrupted the library: keeps the running function
** and its arguments, the whole stack, for the next call, and returns 1.  Else
** returns 0. */
int mwb_put_off(lua_State *L, mwb_state *s);

/* There: keeps a write, whose object, key and new value are at 1 to 3; the old
** value is on the top, and popped.  The caller stores the new value. */
void mwb_put_off_write(lua_State *L, mwb_state *s);

/* Something waits for the next call.  Needs no memory. */
void mwb_wait(mwb_state *s);

/* Does what waits.  Raises only if there is no memory; the rest still waits
** then. */
void mwb_end_waiting(lua_State *L, mwb_state *s);

/* Pops an error that no statement of the program has made: gives it to
** mw.on_error's function, with `where`; without that function, or if that
** raises, the next call raises the first such error. */
void mwb_late_error(lua_State *L, mwb_state *s, const char *where);

/* Raises an error that has waited for a call. */
void mwb_raise_late(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
