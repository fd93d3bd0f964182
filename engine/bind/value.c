/*
** value.c - Lua's values as the engine sees them, where they are keys.
** SPDX-License-Identifier: MIT
*/
#include "bind.h"

/* Strings have numbers once a watch names them; 0 is none. */
static int64_t string_number(lua_State *L, int index, int add) {
  int64_t n;
  index = lua_absindex(L, index);
  mwB_push(L, MWB_STRINGS);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  n = lua_tointeger(L, -1);
  if (n == 0 && add) {
    n = (int64_t)lua_rawlen(L, -2) + 1;
    lua_pushvalue(L, index);
    lua_rawseti(L, -3, n); /* an array as well, for its length */
    lua_pushvalue(L, index);
    lua_pushinteger(L, n);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
  return n;
}

static int64_t object_number(lua_State *L, mwB_state *s, int index, int add) {
  int top = lua_gettop(L);
  mw_handle h =
      add ? mwB_identify(L, s, "watch", index, 3) : mwB_handleof(L, s, index);
  lua_settop(L, top);
  return (int64_t)h;
}

/* The key at `index` as the engine sees it.  A float that is an integer is one,
** as in a table. */
mw_value mwB_key(lua_State *L, mwB_state *s, int index, int add) {
  mw_value v;
  int ok;
  index = lua_absindex(L, index);
  v.type = MW_TOTHER;
  v.u.i = 0;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      v.type = MW_TNIL;
      break;
    case LUA_TBOOLEAN:
      v.type = MW_TBOOLEAN;
      v.u.i = lua_toboolean(L, index);
      break;
    case LUA_TNUMBER:
      v.type = MW_TINTEGER;
      v.u.i = lua_tointegerx(L, index, &ok);
      if (ok) break;
      v.type = MW_TFLOAT;
      v.u.f = lua_tonumber(L, index);
      break;
    case LUA_TSTRING:
      v.type = MW_TSTRING;
      v.u.i = string_number(L, index, add);
      break;
    case LUA_TLIGHTUSERDATA:
      v.u.i = (int64_t)(uintptr_t)lua_touserdata(L, index);
      break;
    default:
      v.type = MW_TOBJECT;
      v.u.i = object_number(L, s, index, add);
  }
  return v;
}
