/*
** host.h - a C program with Lua inside, for the scenarios of faults.c.
** SPDX-License-Identifier: MIT
*/
#ifndef HOST_H
#define HOST_H

#include <lua.h>

/* Opens the module `host`. */
int luaopen_host(lua_State *L);

/* Closes the engine that `host.attach` has opened, after the Lua state was
** closed. */
void host_close(void);

#endif
