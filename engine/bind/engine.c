/*
** engine.c - the binding's own: one engine a Lua state, errors, memory.
** SPDX-License-Identifier: MIT
**
**     registry[&KEY] --> state (mwB_state) --> engine
**                          |  user values: the library, metatables, queue
**     each function: upvalues state, objects
**
** Invariant: whoever can call a function has the state alive; the state's
** finaliser closes the engine and leaves `engine` NULL, which every function
** looks at, because finalisers may call when the Lua state is being closed.
*/
#include "trace.h"

#include <string.h>

#include "moonwatch_lua.h"

static const char KEY = 0;

/* Slots that a call looks at while the dead of a collection are sought. */
#define LOOKS 4

/* {======================================================
** What every function begins with
** ======================================================= */

void mwB_slice(lua_State *L, mwB_state *s) {
  if (s->engine == NULL)
    luaL_error(L, "moonwatch is closed with its Lua state");
  mwB_reap(L, s, LOOKS, 1);
}

void mwB_collected(lua_State *L, mwB_state *s) {
  if (s->engine == NULL) return;
  s->collections++;
  s->pending = 1;
  mw_collected(s->engine);
  lua_newuserdatauv(L, 0, 0);
  lua_rawseti(L, MWB_UPOBJECTS, 0);
}

void mwB_pushstate(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY); }

void mwB_push(lua_State *L, int uservalue) {
  lua_getiuservalue(L, MWB_UPSTATE, uservalue);
}

void mwB_newephemeron(lua_State *L, int uservalue) {
  lua_newtable(L);
  mwB_push(L, MWB_EPHEMERON);
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, MWB_UPSTATE, uservalue);
}

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

const char *mwB_typename(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING)
    return lua_tostring(L, -1);
  if (lua_islightuserdata(L, index)) return "light userdata";
  if (lua_type(L, index) == LUA_TNUMBER && !lua_isinteger(L, index))
    return "float";
  return luaL_typename(L, index);
}

int mwB_badarg(lua_State *L, const char *name, int index, int arg,
               const char *expected) {
  return luaL_error(L, "bad argument #%d to '%s' (%s expected, got %s)", arg,
                    name, expected, mwB_typename(L, index));
}

lua_Integer mwB_integer(lua_State *L, const char *name, int index, int arg) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, index) == LUA_TNUMBER) n = lua_tointegerx(L, index, &ok);
  if (!ok) mwB_badarg(L, name, index, arg, "integer");
  return n;
}

/* `lua_error` knows this message, and raises it as a memory error. */
static int no_memory(lua_State *L) {
  lua_pushliteral(L, "not enough memory");
  return lua_error(L);
}

void mwB_check(lua_State *L, int code) {
  if (code == MW_NOMEM) no_memory(L);
  if (code == MW_FULL) luaL_error(L, "too many objects or clocks");
}

/* }====================================================== */

/* {======================================================
** Memory
** ======================================================= */

typedef struct allocator {
  lua_Alloc alloc;
  void *ud;
} allocator;

static void *no_more(void *ud, void *ptr, size_t osize, size_t nsize) {
  allocator *real = (allocator *)ud;
  if (nsize > ((ptr == NULL) ? 0 : osize)) return NULL;
  return real->alloc(real->ud, ptr, osize, nsize);
}

/*
** Makes Lua collect its garbage as it does when its own memory runs out: fully,
** and without running finalisers, for the engine is in the middle of a call.
** No function of the API asks for that, so it is made to believe it has none
** left for a larger stack.  `L` is the main thread, whose life is long enough.
*/
static void collect(lua_State *L) {
  allocator real;
  real.alloc = lua_getallocf(L, &real.ud);
  lua_setallocf(L, no_more, &real);
  lua_checkstack(L, LUAI_MAXSTACK / 2);
  lua_setallocf(L, real.alloc, real.ud);
}

/* The engine's allocator: Lua's, and once again after a collection. */
static void *engine_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  mwB_state *s = (mwB_state *)ud;
  void *p = s->alloc(s->ud, ptr, osize, nsize);
  if (p != NULL || nsize == 0) return p;
  collect(s->main);
  return s->alloc(s->ud, ptr, osize, nsize);
}

/* }====================================================== */

/* {======================================================
** Opening and closing
** ======================================================= */

void mwB_setfuncs(lua_State *L, const luaL_Reg *list) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  luaL_setfuncs(L, list, 2);
}

void mwB_pushfunction(lua_State *L, lua_CFunction f) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushcclosure(L, f, 2);
}

static int close_state(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, 1);
  if (s->engine != NULL) {
    mwE_free(s->engine, s->uses, s->size_uses * sizeof(uint32_t));
    mwE_free(s->engine, s->resting, s->size_resting * sizeof(mw_handle));
    mwE_free(s->engine, s->scratch, s->size_scratch);
  }
  mw_close(s->engine);
  s->engine = NULL;
  s->pending = 1;
  return 0;
}

/* Pushes a state with an open engine, owned by a finaliser from the start. */
static void new_state(lua_State *L) {
  mwB_state *s =
      (mwB_state *)lua_newuserdatauv(L, sizeof(mwB_state), MWB_USERVALUES);
  memset(s, 0, sizeof(mwB_state));
  s->alloc = lua_getallocf(L, &s->ud);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  s->L = s->main = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, close_state);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  s->engine = mw_open(engine_alloc, s);
  if (s->engine == NULL) mwB_check(L, MW_NOMEM);
}

/* Pushes the array of objects.  A weak table gets its metatable at birth. */
static void new_objects(lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

mw_engine *mw_lua_engine(lua_State *L) {
  const mwB_state *s;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY);
  s = (const mwB_state *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return (s == NULL) ? NULL : s->engine;
}

/* Builds the library; runs with the upvalues of every function. */
static int build(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  lua_newtable(L);
  lua_pushliteral(L, MW_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushlightuserdata(L, NULL); /* as lua-cjson has it */
  lua_setfield(L, -2, "null");
  mwB_openidentity(L, s);
  mwB_openclock(L, s);
  mwB_openweakmap(L, s);
  mwB_openguard(L, s);
  mwB_openwatch(L, s);
  mwB_openwrite(L, s);
  mwB_openbatch(L);
  mwB_openreport(L);
  mwB_opentrack(L);
  mwB_opentrace(L);
  mwB_opentimed(L, s);
  lua_newtable(L);
  mwB_openpolicy(L);
  mwB_opencalls(L);
  mwB_opencell(L);
  mwB_openjournal(L);
  mwB_openeffects(L);
  mwB_openundo(L);
  mwB_openreports(L);
  mwB_openscope(L);
  mwB_openassign(L);
  mwB_opentime(L);
  mwB_opentimers(L);
  mwB_opentracing(L);
  mwB_openwriter(L);
  mwB_opentally(L);
  lua_setfield(L, -2, "private");
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, MWB_UPSTATE, MWB_LIBRARY);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &KEY);
  return 1;
}

LUAMOD_API int luaopen_moonwatch_core(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, MWB_LIBRARY); /* loaded before */
    return 1;
  }
  new_state(L);
  new_objects(L);
  lua_pushcclosure(L, build, 2);
  lua_call(L, 0, 1);
  return 1;
}

/* }====================================================== */
