/*
** library.c - building the library: one engine a Lua state, errors, memory.
** SPDX-License-Identifier: MIT
**
**     registry[&KEY] --> state (mwb_state) --> engine
**     each function: upvalues state, objects
**
** Invariant: while a function can be called, the state is alive.  The state's
** finaliser closes the engine and sets `engine` to NULL.  Every function tests
** `engine`, because finalisers may call functions while the Lua state is
** closed.
*/
#include "base.h"

#include <stdarg.h>
#include <string.h>

#include "../box/box.h"
#include "../journal/journal.h"
#include "../readers/readers.h"
#include "../trace/trace.h"
#include "../traps/traps.h"
#include "../watch/watch.h"
#include "moonwatch_lua.h"

static const char KEY = 0;

/* {======================================================
** The begin of every function
** ======================================================= */

void mwb_slice(lua_State *L, mwb_state *s) {
  if (s->engine == NULL) /* does a finaliser call after the close? */
    luaL_error(L, "moonwatch is closed with its Lua state");
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) return; /* not now */
  mwb_reap_slice(L, s);
  mwb_end_waiting(L, s);
  mwb_raise_late(L, s);
}

/* The probe is a coroutine, because Lua collects before it makes one, while for
** other values Lua collects after that, with the value on the stack: the probe
** would be old then, so young collections would not end it. */
void mwb_collected(lua_State *L, mwb_state *s) {
  if (s->engine == NULL) return; /* closed: nobody asks who died */
  s->collections++;
  s->pending = s->base->deserted = 1;
  mw_reap_begin(s->engine);
  mwb_push(L, s, MWB_OBJECTS);
  lua_newthread(L);
  lua_rawseti(L, -2, MWB_PROBE);
  lua_pushnil(L); /* see mwb_look_for_probe */
  lua_pop(L, 2);
}

void mwb_push_state(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY); }

void mwb_push_weak(lua_State *L, const char *mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

void mwb_new_ephemeron(lua_State *L, int value) {
  mwb_push_weak(L, "k");
  mwb_keep(L, mwb_state_of(L), value);
}

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

const char *mwb_type_name(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) /* of a class? */
    return lua_tostring(L, -1);
  if (lua_islightuserdata(L, index)) return "light userdata";
  if (lua_type(L, index) == LUA_TNUMBER && !lua_isinteger(L, index))
    return "float";
  return luaL_typename(L, index);
}

void mwb_check_dot(lua_State *L, const char *name, int args) {
  const void *library = mwb_state_of(L)->base->library;
  if (args > 1 && library != NULL && lua_topointer(L, 1) == library) /* mw:f? */
    luaL_error(L, "calling '%s' with a colon (use a dot: mw.%s)", name, name);
}

/* library(table): `table` has all functions of the library, and lives. */
static int set_library(lua_State *L) {
  mwb_state_of(L)->base->library = lua_topointer(L, 1);
  return 0;
}

int mwb_bad_argument(lua_State *L, const char *name, int index, int arg,
                     const char *expected) {
  mwb_check_dot(L, name, 2);
  return luaL_error(L, "bad argument #%d to '%s' (%s expected, got %s)", arg,
                    name, expected, mwb_type_name(L, index));
}

void mwb_check_nothing(lua_State *L, const char *name, int index) {
  if (!lua_isnoneornil(L, index))
    mwb_bad_argument(L, name, index, 1, "no argument");
}

lua_Integer mwb_integer(lua_State *L, const char *name, int index, int arg) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, index) == LUA_TNUMBER) n = lua_tointegerx(L, index, &ok);
  if (!ok) mwb_bad_argument(L, name, index, arg, "integer");
  return n;
}

int mwb_is_same(lua_State *L, int a, int b) {
  lua_Number x, y;
  if (lua_type(L, a) != LUA_TNUMBER || lua_type(L, b) != LUA_TNUMBER)
    return lua_rawequal(L, a, b);
  if (lua_isinteger(L, a) || lua_isinteger(L, b)) /* 1 is not 1.0 */
    return lua_isinteger(L, a) == lua_isinteger(L, b) && lua_rawequal(L, a, b);
  x = lua_tonumber(L, a);
  y = lua_tonumber(L, b);
  if (x != x) return y != y;                   /* NaN? */
  return x == y && (x != 0 || 1 / x == 1 / y); /* 0.0 is not -0.0 */
}

/* Lua raises this message as a memory error. */
static const char MEMORY[] = "not enough memory";

static int no_memory(lua_State *L) {
  lua_pushstring(L, MEMORY);
  return lua_error(L);
}

#if LUA_VERSION_NUM >= 505
int mwb_error(lua_State *L, const char *format, ...) {
  const char *text;
  va_list values;
  va_start(values, format);
  luaL_where(L, 1);
  text = lua_pushvfstring(L, format, values);
  va_end(values);
  if (text == NULL) no_memory(L);
  lua_concat(L, 2);
  return lua_error(L);
}
#endif

int mwb_is_memory_error(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TSTRING &&
         strcmp(lua_tostring(L, index), MEMORY) == 0;
}

void mwb_check(lua_State *L, int code) {
  if (code == MW_NOMEM) no_memory(L);
  if (code == MW_FULL) luaL_error(L, "too many objects or clocks");
}

/* }====================================================== */

/* {======================================================
** mw.memory
** ======================================================= */

/* memory() -> bytes by part.  The engine knows its parts, and how much it has
** allocated in all.  The rest is the binding's: a buffer for traces, and what
** counts for the journal: the records of coroutines and transactions, and what
** feeds and last writers need. */
static int memory(lua_State *L) {
  static const char *const names[] = {"objects", "watches", "journal",
                                      "names",   "traces",  "total"};
  const mwb_state *s = mwb_enter_to_read(L);
  mw_memory m;
  int i;
  mwb_check_nothing(L, "memory", 1);
  memset(&m, 0, sizeof(m));
  m.size = sizeof(m);
  mw_memory_info(s->engine, &m);
  m.traces += s->trace->size_scratch;
  m.journal = m.total - (m.objects + m.watches + m.names + m.traces);
  lua_createtable(L, 0, 6);
  for (i = 0; i < 6; i++) {
    const size_t bytes[] = {m.objects, m.watches, m.journal,
                            m.names,   m.traces,  m.total};
    lua_pushinteger(L, (lua_Integer)bytes[i]);
    lua_setfield(L, -2, names[i]);
  }
  return 1;
}

const luaL_Reg mwb_memory_functions[] = {{"memory", memory}, {NULL, NULL}};

/* }====================================================== */

/* {======================================================
** Opening and closing
** ======================================================= */

void mwb_set_funcs(lua_State *L, const luaL_Reg *list) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  luaL_setfuncs(L, list, 2);
}

void mwb_push_function(lua_State *L, const mwb_state *s, lua_CFunction f) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)s);
  mwb_push(L, s, MWB_OBJECTS);
  lua_pushcclosure(L, f, 2);
}

/* called(..., function in C) -> results of the function */
static int called(lua_State *L) {
  lua_CFunction f = (lua_CFunction)(uintptr_t)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return f(L);
}

/* Puts MWB_CALLED below the top `n` values, which are its arguments, and the
** function above. */
static void prepare_call(lua_State *L, const mwb_state *s, lua_CFunction f,
                         int n) {
  mwb_push(L, s, MWB_CALLED);
  lua_insert(L, -(n + 1));
  lua_pushlightuserdata(L, (void *)(uintptr_t)f);
}

void mwb_call(lua_State *L, const mwb_state *s, lua_CFunction f, int n,
              int results) {
  prepare_call(L, s, f, n);
  lua_call(L, n + 1, results);
}

int mwb_pcall(lua_State *L, const mwb_state *s, lua_CFunction f, int n,
              int results) {
  prepare_call(L, s, f, n);
  return lua_pcall(L, n + 1, results, 0);
}

int mwb_return(lua_State *L, int status, lua_KContext below) {
  (void)status;
  return lua_gettop(L) - (int)below;
}

/* end_waiting(state) */
static int end_waiting(lua_State *L) {
  mwb_end_waiting(L, (mwb_state *)lua_touserdata(L, 1));
  return 0;
}

static int close_state(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  lua_pushcfunction(L, end_waiting); /* what the handles have lost meanwhile */
  lua_pushvalue(L, 1);
  lua_pcall(L, 1, 0, 0);
  if (s->engine != NULL && s->base->is_attached) mwb_detach(s); /* it stays */
  if (s->engine != NULL) { /* was the state ever whole? */
    mwi_free(s->engine, s->trace->scratch, s->trace->size_scratch);
    mwb_close_batches(L, s);
    mwb_close_transactions(s);
  }
  if (!s->base->is_attached) mw_engine_close(s->engine); /* is it Lua's own? */
  s->engine = NULL;
  s->pending = 1;
  return 0;
}

/* The state, and the part of it that each room has. */
typedef struct whole_state {
  mwb_state state;
  mwb_base_state base;
  mwb_traps_state traps;
  mwb_watch_state watch;
  mwb_journal_state journal;
  mwb_readers_state readers;
  mwb_trace_state trace;
  mwb_box_state box;
} whole_state;

/* The values of a room begin after those of the room before. */
#define APART(end, next) \
  typedef char end##_FITS[((int)(end) <= (int)(next)) ? 1 : -1]
APART(MWB_BASE_END, MWB_TRAPS_VALUES);
APART(MWB_TRAPS_END, MWB_WATCH_VALUES);
APART(MWB_WATCH_END, MWB_JOURNAL_VALUES);
APART(MWB_JOURNAL_END, MWB_READERS_VALUES);
APART(MWB_READERS_END, MWB_TRACE_VALUES);
APART(MWB_TRACE_END, MWB_BOX_VALUES);
APART(MWB_BOX_END, MWB_VALUES);

/* Pushes a state with an open engine, owned by a finaliser from the start.  The
** meter is older: see sandbox.c. */
static void new_state(lua_State *L) {
  mwb_meter *meter = (mwb_meter *)lua_newuserdatauv(L, sizeof(mwb_meter), 0);
  whole_state *w = (whole_state *)lua_newuserdatauv(L, sizeof(whole_state), 2);
  mwb_state *s = &w->state;
  lua_Alloc alloc;
  void *ud;
  memset(w, 0, sizeof(*w));
  s->base = &w->base;
  s->traps = &w->traps;
  s->watch = &w->watch;
  s->journal = &w->journal;
  s->readers = &w->readers;
  s->trace = &w->trace;
  s->box = &w->box;
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 2);
  s->box->meter = meter;
  meter->alloc = lua_getallocf(L, &meter->ud);
  meter->budget = NULL;
  s->service = lua_newthread(L);
  lua_sethook(s->service, NULL, 0, 0);
  lua_setiuservalue(L, -2, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  s->main = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, close_state);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  s->engine = mwb_attached(L);
  s->base->is_attached = s->engine != NULL;
  alloc = lua_getallocf(L, &ud);
  if (!s->base->is_attached) s->engine = mw_engine_open(alloc, ud);
  if (s->engine == NULL) mwb_check(L, MW_NOMEM);
  if (s->base->is_attached) s->base->host = s->engine->watch.host; /* its own */
  s->base->has_host = s->base->host.call || s->base->host.restore;
}

/* Gives each of the state's values a place in the registry.  The array of
** objects is on the top, and stays there. */
static void make_places(lua_State *L, mwb_state *s) {
  int i;
  for (i = 0; i < MWB_VALUES; i++) {
    lua_pushvalue(L, -1);
    s->at[i] = luaL_ref(L, LUA_REGISTRYINDEX);
    if (i == MWB_OBJECTS) continue; /* the array, which is there */
    lua_pushnil(L);
    mwb_keep(L, s, i);
  }
}

mw_engine *mw_lua_engine(lua_State *L) {
  const mwb_state *s;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY);
  s = (const mwb_state *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return (s == NULL) ? NULL : s->engine; /* is it not open? */
}

#ifdef MW_CHECKS

static int add_text(void *ud, const char *bytes, size_t n) {
  luaL_addlstring((luaL_Buffer *)ud, bytes, n);
  return 1;
}

/* verify() raises the engine as a text if an invariant does not hold. */
static int verify(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  luaL_Buffer text;
  if (s->engine == NULL || mw_verify(s->engine) == MW_OK) return 0;
  luaL_buffinit(L, &text);
  mw_dump(s->engine, add_text, &text);
  luaL_pushresult(&text);
  return lua_error(L);
}

#endif

/* keep(name, value): a function of the library's Lua files that C calls */
static int keep(lua_State *L) {
  static const char *const names[] = {"deaths", "existing", "ends", "extras",
                                      "taken",  "paths",    "each", "timer",
                                      "label",  NULL};
  static const int values[] = {MWB_DEATH,   MWB_EXISTING, MWB_ENDS,
                               MWB_PREPARE, MWB_TAKEN,    MWB_PATHS,
                               MWB_EACH,    MWB_TIMER,    MWB_LABEL};
  lua_settop(L, 2);
  mwb_keep(L, mwb_state_of(L), values[luaL_checkoption(L, 1, NULL, names)]);
  return 0;
}

/* Builds the library; runs with the upvalues of every function. */
static int build(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_newtable(L);
  lua_pushliteral(L, MW_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushliteral(L, "moonwatch " MW_VERSION);
  lua_setfield(L, -2, "_VERSION");
  lua_pushlightuserdata(L, NULL); /* as in lua-cjson */
  lua_setfield(L, -2, "null");
  lua_pushglobaltable(L);
  lua_pushliteral(L, "next");
  lua_rawget(L, -2);
  s->next = lua_tocfunction(L, -1);
  lua_pop(L, 2);
  mwb_push_function(L, s, called);
  mwb_keep(L, s, MWB_CALLED);
#define ADD(file) mwb_set_funcs(L, mwb_##file##_functions);
#define OPEN(file) mwb_open_##file(L);
  MWB_PUBLIC(OPEN)
  MWB_PUBLIC_FUNCTIONS(ADD)
  lua_newtable(L);
  MWB_PRIVATE(OPEN)
  MWB_PRIVATE_FUNCTIONS(ADD)
#undef OPEN
#undef ADD
#ifdef MW_CHECKS
  mwb_push_function(L, s, verify);
  lua_setfield(L, -2, "verify");
#endif
  mwb_push_function(L, s, keep);
  lua_setfield(L, -2, "keep");
  mwb_push_function(L, s, set_library);
  lua_setfield(L, -2, "library");
  lua_setfield(L, -2, "private");
  lua_pushvalue(L, -1);
  mwb_keep(L, mwb_state_of(L), MWB_LIBRARY);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &KEY);
  return 1;
}

int luaopen_moonwatch_core(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY) == LUA_TUSERDATA) { /* not new? */
    mwb_push(L, (const mwb_state *)lua_touserdata(L, -1), MWB_LIBRARY);
    return 1;
  }
  new_state(L);
  mwb_push_weak(L, "v"); /* MWB_OBJECTS */
  make_places(L, (mwb_state *)lua_touserdata(L, -2));
  lua_pushcclosure(L, build, 2);
  lua_call(L, 0, 1);
  return 1;
}

/* }====================================================== */
