/*
** floor.c - what the measures need that Lua does not give.
** SPDX-License-Identifier: MIT
**
** floor:call(obj) -> obj      does nothing: the least that a C method costs
** floor.now() -> seconds      that this process has run; exact to nanoseconds
** floor.record() -> userdata  what the obvious design keeps for an object
** floor.store(shadow) -> f    f(obj, key, value) stores into the shadow: the
**                             least that a __newindex in C costs
*/
#define _POSIX_C_SOURCE 200809L

#include <lauxlib.h>
#include <lua.h>
#include <time.h>

static int call(lua_State *L) {
  (void)L;
  return 1;
}

/* Not the wall's clock: a pause is what the collector takes, not what other
** processes take meanwhile. */
static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  lua_pushnumber(L, (lua_Number)t.tv_sec + (lua_Number)t.tv_nsec * 1e-9);
  return 1;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

struct record {
  lua_Integer serial, generation, writes;
};

/* A userdata as `lua_newuserdata` makes them, with a finaliser to tell of the
** death.  The upvalue is the metatable. */
static int record(lua_State *L) {
  lua_newuserdatauv(L, sizeof(struct record), 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_setmetatable(L, -2);
  return 1;
}

/* The upvalue is the shadow. */
static int store_into(lua_State *L) {
  lua_rawset(L, lua_upvalueindex(1));
  return 0;
}

static int store(lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, store_into, 1);
  return 1;
}

LUAMOD_API int luaopen_floor(lua_State *L);

LUAMOD_API int luaopen_floor(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"call", call}, {"now", now}, {"store", store}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_newtable(L);
  lua_pushcfunction(L, nothing);
  lua_setfield(L, -2, "__gc");
  lua_pushcclosure(L, record, 1);
  lua_setfield(L, -2, "record");
  return 1;
}
