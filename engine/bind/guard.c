/*
** guard.c - mw.guard: a guard that is a bit in the engine.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "bind.h"

int mwb_is_guard(lua_State *L, const mwb_state *s, int index) {
  const void *meta;
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
    return 0;
  meta = lua_topointer(L, -1);
  lua_pop(L, 1);
  return meta == s->guard_meta;
}

/* The handle of the guard at 1, or raises. */
static mw_handle self(lua_State *L, const char *name) {
  mwb_state *s = mwb_enter(L);
  if (!mwb_is_guard(L, s, 1))
    luaL_error(L, "calling '%s' on bad self (guard expected, got %s)", name,
               mwb_type_name(L, 1));
  return mwb_identify(L, s, name, 1, 1);
}

static int revalidate(lua_State *L) {
  mw_handle h = self(L, "revalidate");
  mwb_state *s = mwb_state_of(L);
  mwb_check(L, mw_guard_set_valid(s->engine, h, 1));
  return 0;
}

/* `valid`, or a method; the upvalue after the usual two is the method. */
static int field(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const char *name = (lua_type(L, 2) == LUA_TSTRING) ? lua_tostring(L, 2) : "";
  if (strcmp(name, "valid") == 0) {
    lua_pushboolean(L, mw_guard_is_valid(s->engine, self(L, "valid")));
  } else if (strcmp(name, "revalidate") == 0) {
    lua_pushvalue(L, lua_upvalueindex(3));
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static int guard(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 0);
  lua_newuserdatauv(L, 0, 0);
  mwb_push(L, mwb_state_of(L), MWB_GUARD);
  lua_setmetatable(L, 1);
  mwb_identify(L, s, "guard", 1, 1);
  lua_settop(L, 1);
  return 1;
}

void mwb_open_guard(lua_State *L, mwb_state *s) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {{"guard", guard}, {NULL, NULL}};
  s->guard_meta = mwb_new_meta(L, MWB_GUARD, "guard", none, none);
  mwb_push(L, mwb_state_of(L), MWB_GUARD);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  mwb_push_function(L, revalidate);
  lua_pushcclosure(L, field, 3);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  mwb_set_funcs(L, functions);
}
