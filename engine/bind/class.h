/*
** class.h - the library's own objects.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_CLASS_H
#define MWB_CLASS_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The userdata that methods of one object have as third upvalue. */
#define MWB_UPDATA lua_upvalueindex(3)

/* Is the value at `index` one of the library's own objects? */
int mwb_is_ours(lua_State *L, const mwb_state *s, int index);

/* Makes the metatable at `index` that of a class: objects cannot be watched,
** and setting a field raises an error, which says what to `use`, or NULL. */
void mwb_seal(lua_State *L, const mwb_state *s, int index, const char *use);

/* Makes a metatable, with methods under `__index`, and makes the metatable the
** state's value `value`.  Returns the metatable's address. */
const void *mwb_new_meta(lua_State *L, int value, const char *type,
                         const luaL_Reg *meta, const luaL_Reg *methods);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
