/*
** moonwatch_lua.h - moonwatch for C programs with Lua inside.
** SPDX-License-Identifier: MIT
**
** For programs that are linked with the engine and the binding; moonwatch.h
** describes the functions of an engine.
*/
#ifndef MOONWATCH_LUA_H
#define MOONWATCH_LUA_H

#include <lua.h>

#include "../moonwatch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the module `moonwatch.core`, which `require "moonwatch"` loads. */
LUA_API int luaopen_moonwatch_core(lua_State *L);

/*
** Returns the engine of a Lua state; NULL if the module is not open there.  The
** library owns the engine, which lives as long as the Lua state.  From C, a
** program can advance and read the engine's clocks, enter and leave its scopes,
** and write to its trace, and Lua sees the effects.  The engine's objects are
** Lua's: a C program must not identify its own objects in this engine, nor set
** another host.
*/
MW_API mw_engine *mw_lua_engine(lua_State *L);

#ifdef __cplusplus
}
#endif

#endif
