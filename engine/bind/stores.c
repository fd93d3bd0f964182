/*
** stores.c - several stores in one step, for the library's Lua files.
** SPDX-License-Identifier: MIT
**
** A debug hook may raise between two instructions of a Lua function, and memory
** may run out at any of them.  An object of the library whose parts must agree
** is changed by one call of a function here: no hook runs inside a function in
** C, and what needs memory comes before the first store.
*/
#include "library.h"

#include "bind.h"

static const char RESERVED = 0;

/* Pushes the table and the key of the store at place `i` of the list. */
static void push_field(lua_State *L, lua_Integer i) {
  lua_rawgeti(L, 1, i);
  lua_rawgeti(L, 1, i + 1);
}

/* Tells whether the field of the store at place `i` has this value, and leaves
** the table on the top. */
static int field_is(lua_State *L, lua_Integer i, const void *reserved) {
  int yes;
  push_field(L, i);
  lua_rawget(L, -2);
  yes =
      (reserved == NULL) ? lua_isnil(L, -1) : lua_touserdata(L, -1) == reserved;
  lua_pop(L, 1);
  return yes;
}

/* Gives each field that is absent a value, so that a later store needs no
** memory. */
static int reserve(lua_State *L) {
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, 1);
  for (i = 1; i < n; i += 3) {
    if (field_is(L, i, NULL)) {
      lua_rawgeti(L, 1, i + 1);
      lua_pushlightuserdata(L, (void *)&RESERVED);
      lua_rawset(L, -3);
    }
    lua_settop(L, 1);
  }
  return 0;
}

static void unreserve(lua_State *L) {
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, 1);
  for (i = 1; i < n; i += 3) {
    if (field_is(L, i, &RESERVED)) {
      lua_rawgeti(L, 1, i + 1);
      lua_pushnil(L);
      lua_rawset(L, -3);
    }
    lua_pop(L, 1);
  }
}

/* store_all { table, key, value, ... }: makes all stores, raw, or none.  No
** value is nil. */
static int store_all(lua_State *L) {
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, 1);
  lua_settop(L, 1);
  lua_pushcfunction(L, reserve);
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    unreserve(L);
    return lua_error(L);
  }
  for (i = 1; i < n; i += 3) {
    push_field(L, i);
    lua_rawgeti(L, 1, i + 2);
    lua_rawset(L, -3);
    lua_settop(L, 1);
  }
  return 0;
}

/* Stores what a call has returned, or the value that was given instead. */
static int finish_call(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  lua_settop(L, 4);
  if (lua_isnil(L, 3))
    lua_replace(L, 3);
  else
    lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    lua_pushboolean(L, 0);
    lua_replace(L, 3);
  }
  lua_rawset(L, 1);
  return 0;
}

/* store_after(table, key, value, f, ...): calls `f(...)` and then makes the
** store at once; without a value, of the call's result, or of false for nil.
** The field must be there already. */
static int store_after(lua_State *L) {
  lua_callk(L, lua_gettop(L) - 4, 1, 0, finish_call);
  return finish_call(L, LUA_OK, 0);
}

void mwb_open_stores(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"store_all", store_all}, {"store_after", store_after}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
