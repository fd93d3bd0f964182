/*
** floor.c - what the measures need that Lua does not give.
** SPDX-License-Identifier: MIT
**
** floor:call(obj) -> obj      does nothing: the least that a C method costs
** floor.now() -> seconds      that this process has run; exact to nanoseconds
** floor.record() -> userdata  what the obvious design keeps for an object
** floor.store(shadow) -> f    f(obj, key, value) stores into the shadow: the
**                             least that a __newindex in C costs
** floor.count_memory()        counts what is allocated from now on
** floor.live() -> bytes       that have been, less what has been freed
** floor.collect()             begins to count instructions, or ends that; only
**                             where valgrind's header was found
*/
#define _POSIX_C_SOURCE 200809L

#include <lauxlib.h>
#include <lua.h>
#include <time.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

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

/* What Lua allocates, and the library through Lua's allocator.  One state is
** measured in a process. */
static struct {
  lua_Alloc alloc;
  void *ud;
  lua_Integer live;
} heap;

/* Lua passes a kind of object in `from` when a block is new. */
static void *counted(void *ud, void *block, size_t from, size_t to) {
  void *result = heap.alloc(heap.ud, block, from, to);
  (void)ud;
  if (result != NULL || to == 0)
    heap.live += (lua_Integer)to - (block == NULL ? 0 : (lua_Integer)from);
  return result;
}

static int count_memory(lua_State *L) {
  heap.alloc = lua_getallocf(L, &heap.ud);
  lua_setallocf(L, counted, NULL);
  return 0;
}

static int live(lua_State *L) {
  lua_pushinteger(L, heap.live);
  return 1;
}

#ifdef CALLGRIND_TOGGLE_COLLECT
static int collect(lua_State *L) {
  (void)L;
  CALLGRIND_TOGGLE_COLLECT;
  return 0;
}
#endif

LUAMOD_API int luaopen_floor(lua_State *L);

LUAMOD_API int luaopen_floor(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"call", call},       {"now", now},
      {"store", store},     {"count_memory", count_memory},
      {"live", live},
#ifdef CALLGRIND_TOGGLE_COLLECT
      {"collect", collect},
#endif
      {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_newtable(L);
  lua_pushcfunction(L, nothing);
  lua_setfield(L, -2, "__gc");
  lua_pushcclosure(L, record, 1);
  lua_setfield(L, -2, "record");
  return 1;
}
