/*
** see_through.c - raw functions that know watched objects.
** SPDX-License-Identifier: MIT
**
** Lua's own raw functions find a watched object empty.  The functions here do
** with the contents what Lua's functions do with a table, and a `rawset` is a
** write that only flags hear.  Each call of `see_through_functions` makes new
** functions, so that a handle knows its own.
*/
#include "../journal/journal.h"

#include "../base/base.h"
#include "trap.h"
#include "traps.h"

static int see_next(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  mwb_push_all(L, 1);
  lua_pushvalue(L, 2);
  if (lua_next(L, 3)) return 2;
  lua_pushnil(L);
  return 1;
}

static int see_rawget(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  mwb_push_all(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 1) != LUA_TNIL) return 1;
  lua_pushvalue(L, 2);
  lua_rawget(L, 3);
  return 1;
}

static int see_rawlen(lua_State *L) {
  int type = lua_type(L, 1);
  luaL_argexpected(L, type == LUA_TTABLE || type == LUA_TSTRING, 1,
                   "table or string");
  lua_settop(L, 1);
  mwb_push_all(L, 1);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 2));
  return 1;
}

/* A dead object, or one of a closed engine, stores as its trap does. */
static int see_rawset(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = MW_NONE;
  mwb_write w;
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  if (!mwb_push_own(L, OBJECT) ||
      mwb_in_class(s, mwb_handle_of(L, s, OBJECT))) {
    lua_settop(L, 3);
    lua_rawset(L, OBJECT);
    return 1;
  }
  if (s->engine != NULL) {
    mwb_absorb(L, mwb_enter(L), OBJECT); /* no raw field is to hide it */
    h = mwb_handle_of(L, s, OBJECT);
  }
  lua_settop(L, 3);
  if (h == MW_NONE) {
    lua_settable(L, OBJECT);
    return 1;
  }
  mwb_write_open(L, s, &w, h, MW_RAW, 0);
  w.change.flags_only = 1;
  w.ignored = mwb_is_ignored(L, s);
  if (w.ignored)
    mwb_store_contents(&w);
  else
    mwb_write_run(&w, mwb_store_contents);
  lua_settop(L, OBJECT);
  return 1;
}

#define UP_NEXT lua_upvalueindex(3)

static int end_see_pairs(lua_State *L, int status, lua_KContext context) {
  (void)L, (void)status, (void)context;
  return 3;
}

/* Of a table without `__pairs`, `next` of the same call of
** `see_through_functions`: libraries take from here the `next` that they use
** for other tables. */
static int see_pairs(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  if (luaL_getmetafield(L, 1, "__pairs") == LUA_TNIL) {
    lua_pushvalue(L, UP_NEXT);
    lua_insert(L, 1);
    lua_pushnil(L);
    return 3;
  }
  lua_insert(L, 1);
  lua_callk(L, 1, 3, 0, end_see_pairs);
  return 3;
}

/* An object without a class has no metatable. */
static int see_getmetatable(lua_State *L) {
  luaL_checkany(L, 1);
  if (!lua_getmetatable(L, 1)) {
    lua_pushnil(L);
  } else if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL &&
             mwb_is_no_class(L, -1)) {
    lua_pushnil(L);
  }
  return 1;
}

/* see_through_functions() -> name -> function */
static int see_through_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"next", see_next},
                                       {"rawget", see_rawget},
                                       {"rawset", see_rawset},
                                       {"rawlen", see_rawlen},
                                       {"getmetatable", see_getmetatable},
                                       {"setmetatable", mwb_setmetatable},
                                       {NULL, NULL}};
  lua_newtable(L);
  mwb_set_funcs(L, functions);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_getfield(L, -3, "next");
  lua_pushcclosure(L, see_pairs, 3);
  lua_setfield(L, -2, "pairs");
  return 1;
}

void mwb_open_see_through(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"see_through_functions", see_through_functions}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
