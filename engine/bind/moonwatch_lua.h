/*
** moonwatch_lua.h - moonwatch for C programs with Lua inside.
** SPDX-License-Identifier: MIT
**
** For programs that are linked with the engine and the binding; see
** moonwatch.h for what can be done with an engine.
*/
#ifndef MOONWATCH_LUA_H
#define MOONWATCH_LUA_H

#include <lua.h>

#include "../moonwatch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the module `moonwatch.core`, which `require "moonwatch"` asks for. */
LUA_API int luaopen_moonwatch_core(lua_State *L);

/*
** The engine of a Lua state; NULL when the module is not open there.  It is the
** library's and lives as long as the Lua state.  Its clocks can be advanced and
** read, its scopes entered and its trace written to from C, and Lua sees that.
** The objects that have an identity in it are Lua's: a C program must not
** give its own an identity there, nor set another host.
*/
MW_API mw_engine *mw_lua_engine(lua_State *L);

#ifdef __cplusplus
}
#endif

#endif
