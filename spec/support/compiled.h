/*
** compiled.h - Lua files that are parsed once a program.
** SPDX-License-Identifier: MIT
*/
#ifndef compiled_h
#define compiled_h

#include <lua.h>

/* From now on `require` and `dofile` of `L` parse no file that a state of this
** program has parsed before. */
void compiled_open(lua_State *L);

#endif
