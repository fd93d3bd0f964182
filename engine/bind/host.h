/*
** host.h - a C program beside Lua, with one engine.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_HOST_H
#define MWB_HOST_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Returns the engine that the program has attached, or NULL. */
mw_engine *mwb_attached(lua_State *L);

/* The engine calls the program's host for the program's objects from now on,
** and the binding for all others; without a host of the program, nothing
** changes. */
void mwb_join_hosts(mwb_state *s);

/* Makes what `mw_lua_touch` needs. */
void mwb_open_host(lua_State *L, mwb_state *s);

/* Gives the engine back to the program, without Lua's objects. */
void mwb_detach(mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
