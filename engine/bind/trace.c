/*
** trace.c - mw.trace, mw.instant, mw.counter, and the other traced events.
** SPDX-License-Identifier: MIT
*/
#include "trace.h"

#include <string.h>

#include "class.h"
#include "guard.h"
#include "identity.h"
#include "options.h"
#include "timed.h"

/* Is there a userdata at 1 with one of the state's metatables? */
static int has_meta(lua_State *L, const mwb_state *s, int meta) {
  int has;
  if (lua_type(L, 1) != LUA_TUSERDATA || !lua_getmetatable(L, 1)) return 0;
  mwb_push(L, s, meta);
  has = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return has;
}

void mwb_check_self(lua_State *L, const mwb_state *s, const char *name,
                    int meta, const char *type) {
  if (has_meta(L, s, meta)) return;
  luaL_error(L, "calling '%s' on bad self (%s expected, got %s)", name, type,
             mwb_type_name(L, 1));
}

/* {======================================================
** Threads and names
** ======================================================= */

/* number(threads, thread, number), protected: there may be no memory. */
static int set_number(lua_State *L) {
  lua_rawset(L, 1);
  return 0;
}

/* Gives a number to the coroutine on the top, in the table below the top. */
static mw_thread new_number(lua_State *L, mwb_state *s) {
  lua_pushcfunction(L, set_number);
  lua_insert(L, -3);
  lua_pushinteger(L, s->threads + 2);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    lua_pop(L, 1);
    return 0;
  }
  return (mw_thread)(++s->threads + 1);
}

mw_thread mwb_thread(lua_State *L, mwb_state *s) {
  mw_thread number;
  if (L == s->main || !lua_checkstack(L, LUA_MINSTACK)) return 1;
  mwb_push(L, s, MWB_THREADS);
  lua_pushthread(L);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) == LUA_TNIL) {
    lua_pop(L, 1);
    return new_number(L, s);
  }
  number = (mw_thread)lua_tointeger(L, -1);
  lua_pop(L, 3);
  return number;
}

static mw_name name_in(mwb_state *s, const char *category, const char *name,
                       size_t len) {
  mw_name c = mw_trace_name(s->engine, category, strlen(category), 0);
  return mw_trace_name(s->engine, name, len, c);
}

/* }====================================================== */

/* {======================================================
** Events of writes, clocks and library scopes
** ======================================================= */

uint64_t mwb_trace_begin(lua_State *L, mwb_state *s, const char *category,
                         const char *name, size_t len) {
  mw_thread thread;
  if (!mwb_is_running(s)) return 0;
  thread = mwb_thread(L, s);
  return mw_trace_begin(s->engine, thread, name_in(s, category, name, len),
                        NULL, 0);
}

void mwb_trace_advance(lua_State *L, mwb_state *s, mw_clock clock) {
  mw_thread thread;
  if (!mwb_is_running(s)) return;
  thread = mwb_thread(L, s);
  mw_trace_advance(s->engine, thread, name_in(s, "epoch", "advance", 7), clock);
}

/* The events of writes are named after the kind, or INVALIDATE. */
#define INVALIDATE MW_KINDS

/* Returns the number of an event's name in the running trace. */
static mw_name write_name(mwb_state *s, int kind) {
  if (!mw_trace_has_name(s->engine, s->write_names[kind])) {
    const char *name =
        (kind == INVALIDATE) ? "invalidate" : mwb_kind_name(kind);
    s->write_names[kind] = name_in(s, "watch", name, strlen(name));
  }
  return s->write_names[kind];
}

static void set_details(lua_State *L, mw_trace_details *details, mw_handle h,
                        int key) {
  memset(details, 0, sizeof(*details));
  details->obj = h;
  details->key.type = MW_TABSENT;
  if (h == MW_NONE) return;
  switch (lua_type(L, key)) {
    case LUA_TNIL:
      details->key.type = MW_TNIL;
      break;
    case LUA_TBOOLEAN:
      details->key.type = MW_TBOOLEAN;
      details->key.u.i = lua_toboolean(L, key);
      break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, key)) {
        details->key.type = MW_TINTEGER;
        details->key.u.i = (int64_t)lua_tointeger(L, key);
      } else {
        details->key.type = MW_TFLOAT;
        details->key.u.f = (double)lua_tonumber(L, key);
      }
      break;
    case LUA_TSTRING:
      details->key.type = MW_TSTRING;
      details->string = lua_tolstring(L, key, &details->len);
      break;
    default: /* JSON has no such key: its type */
      details->key.type = MW_TSTRING;
      details->string = luaL_typename(L, key);
      details->len = strlen(details->string);
  }
}

void mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int key,
                     int kind) {
  mw_trace_details details;
  if (!mwb_is_running(s)) return;
  set_details(L, &details, h, key);
  mw_trace_change(s->engine, mwb_thread(L, s), write_name(s, kind), &details);
}

/* Calls the hooks of mw.context, and pushes the array of their results, or
** nil. */
static void push_contexts(lua_State *L, mwb_state *s) {
  mwb_push(L, s, MWB_CONTEXTS);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

void mwb_trace_heard(lua_State *L, mwb_state *s, mw_handle h, int key,
                     uint64_t guards) {
  mw_trace_details details;
  mw_thread thread;
  int top = 0;
  if (guards == 0 || !mwb_is_running(s)) return;
  thread = mwb_thread(L, s);
  set_details(L, &details, h, key);
  details.guards = guards;
  details.same_time = h != MW_NONE; /* the time of the write */
  if (s->contexts && lua_checkstack(L, LUA_MINSTACK)) {
    top = lua_gettop(L);
    push_contexts(L, s);
    if (lua_istable(L, -1))
      details.context = mwb_array_args(L, s, -1, &details.context_len);
  }
  if (mwb_is_running(s)) /* a hook may have stopped the trace */
    mw_trace_change(s->engine, thread, write_name(s, INVALIDATE), &details);
  if (top > 0) lua_settop(L, top);
}

/* }====================================================== */

/* {======================================================
** mw.instant, mw.counter
** ======================================================= */

static void check_name(lua_State *L, const char *name) {
  if (lua_type(L, 1) != LUA_TSTRING) mwb_bad_argument(L, name, 1, 1, "string");
}

static int instant(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const char *name, *args = NULL;
  size_t len, args_len = 0;
  mw_thread thread;
  check_name(L, "instant");
  lua_settop(L, 2);
  if (!lua_isnil(L, 2) && !lua_istable(L, 2))
    return mwb_bad_argument(L, "instant", 2, 2, "table");
  if (!mwb_is_running(s)) return 0;
  thread = mwb_thread(L, s);
  name = lua_tolstring(L, 1, &len);
  if (lua_istable(L, 2)) args = mwb_args(L, s, 2, &args_len);
  mw_trace_instant(s->engine, thread, mw_trace_name(s->engine, name, len, 0),
                   args, args_len);
  return 0;
}

static int counter(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const char *name;
  size_t len;
  mw_thread thread;
  mw_name number;
  check_name(L, "counter");
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TNUMBER)
    return mwb_bad_argument(L, "counter", 2, 2, "number");
  if (!mwb_is_running(s)) return 0;
  thread = mwb_thread(L, s);
  name = lua_tolstring(L, 1, &len);
  number = mw_trace_name(s->engine, name, len, 0);
  if (lua_isinteger(L, 2))
    mw_trace_integer(s->engine, thread, number, (int64_t)lua_tointeger(L, 2));
  else
    mw_trace_counter(s->engine, thread, number, lua_tonumber(L, 2));
  return 0;
}

/* }====================================================== */

/* {======================================================
** mw.trace
** ======================================================= */

typedef struct trace {
  mwb_state *state;
  mw_trace *ring;
  int sources;
} trace;

#define CAPACITY 262144
#define MAX_CAPACITY 0x10000000

static const char *const sources[] = {"watch", "epoch", "transaction",
                                      "hierarchy"};

#define N_SOURCES (int)(sizeof(sources) / sizeof(sources[0]))

/* Returns the bit of the source whose name is at `index`. */
static int source_bit(lua_State *L, int index) {
  const char *name = "?";
  int i;
  if (lua_type(L, index) == LUA_TSTRING) name = lua_tostring(L, index);
  for (i = 0; i < N_SOURCES; i++)
    if (strcmp(sources[i], name) == 0) return 1 << i;
  return luaL_error(L, "bad argument #1 to 'trace' (unknown source '%s')",
                    name);
}

/* Returns the bits of the sources in the table at `index`: names, or names with
** true. */
static int read_sources(lua_State *L, int index) {
  int bits = 0;
  if (lua_isnil(L, index)) return 0;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TNUMBER)
      bits |= source_bit(L, -1);
    else if (lua_toboolean(L, -1))
      bits |= source_bit(L, -2);
    else
      source_bit(L, -2);
  }
  return bits;
}

static size_t read_capacity(lua_State *L, int index) {
  lua_Integer n = lua_tointeger(L, index);
  if (lua_isnil(L, index)) return CAPACITY;
  if (!lua_isinteger(L, index) || n < 1 || n > MAX_CAPACITY)
    luaL_error(L,
               "bad argument #1 to 'trace' (option 'capacity' is not an "
               "integer from 1 to %d)",
               MAX_CAPACITY);
  return (size_t)n;
}

/* mw.trace([options]) */
static int new_trace(lua_State *L) {
  static const mwb_option options[] = {{"capacity", LUA_TNONE, NULL},
                                       {"sources", LUA_TTABLE, NULL},
                                       {NULL, 0, NULL}};
  mwb_state *s = mwb_enter(L);
  size_t capacity;
  trace *t;
  int bits;
  lua_settop(L, 1);
  mwb_read_options(L, "trace", 1, options); /* at 2 and 3 */
  capacity = read_capacity(L, 2);
  bits = read_sources(L, 3);
  t = (trace *)lua_newuserdatauv(L, sizeof(trace), 0);
  t->state = s;
  t->ring = NULL;
  t->sources = bits;
  mwb_push(L, s, MWB_TRACE);
  lua_setmetatable(L, -2);
  mwb_check(L, mw_trace_open(s->engine, capacity, mwb_now, NULL, &t->ring));
  return 1;
}

static trace *check_trace(lua_State *L, const mwb_state *s, const char *name) {
  mwb_check_self(L, s, name, MWB_TRACE, "trace");
  return (trace *)lua_touserdata(L, 1);
}

mw_trace *mwb_check_trace(lua_State *L, const mwb_state *s, const char *name) {
  return check_trace(L, s, name)->ring;
}

/* Tells the library's Lua files which sources are traced. */
static void show_sources(lua_State *L, const mwb_state *s, int bits) {
  int i;
  mwb_push(L, s, MWB_SOURCES);
  for (i = 0; i < N_SOURCES; i++) {
    lua_pushboolean(L, bits >> i & 1);
    lua_setfield(L, -2, sources[i]);
  }
  lua_pop(L, 1);
}

/* trace:start() -> trace */
static int start(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const trace *t = check_trace(L, s, "start");
  if (mw_trace_start(s->engine, t->ring) != MW_OK)
    return luaL_error(L, "'start': another trace is running");
  s->sources = t->sources;
  mwb_need(s, MWB_TRACES, mwb_tracing(s));
  show_sources(L, s, t->sources);
  lua_settop(L, 1);
  return 1;
}

static void stop_trace(lua_State *L, trace *t) {
  mwb_state *s = t->state;
  if (s->engine == NULL || mw_trace_running(s->engine) != t->ring) return;
  if (t->ring == NULL) return;
  mw_trace_stop(s->engine, t->ring);
  s->sources = 0;
  mwb_need(s, MWB_TRACES, 0);
  show_sources(L, s, 0);
}

/* trace:stop() -> trace */
static int stop(lua_State *L) {
  stop_trace(L, check_trace(L, mwb_enter(L), "stop"));
  lua_settop(L, 1);
  return 1;
}

/* trace:clear() -> trace */
static int clear(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_trace_clear(s->engine, check_trace(L, s, "clear")->ring);
  lua_settop(L, 1);
  return 1;
}

/* trace:len() -> number of events in the trace */
static int count(lua_State *L) {
  const trace *t = check_trace(L, mwb_enter(L), "len");
  lua_pushinteger(L, (lua_Integer)mw_trace_len(t->ring));
  return 1;
}

/* trace:lost() -> number of events that the trace has lost */
static int lost(lua_State *L) {
  const trace *t = check_trace(L, mwb_enter(L), "lost");
  lua_pushinteger(L, (lua_Integer)mw_trace_lost(t->ring));
  return 1;
}

static int free_trace(lua_State *L) {
  trace *t;
  if (!has_meta(L, mwb_state_of(L), MWB_TRACE)) return 0;
  t = (trace *)lua_touserdata(L, 1);
  stop_trace(L, t);
  if (t->state->engine != NULL) mw_trace_close(t->state->engine, t->ring);
  t->ring = NULL;
  return 0;
}

/* }====================================================== */

/* {======================================================
** For the library's Lua files
** ======================================================= */

/* contexts(ask): ask() -> array of strings; nil when mw.context has no hooks */
static int set_contexts(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_settop(L, 1);
  s->contexts = !lua_isnil(L, 1);
  mwb_keep(L, s, MWB_CONTEXTS);
  return 0;
}

/* traced() -> the table of sources */
static int traced(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_SOURCES);
  return 1;
}

/* json(table) -> the text of a JSON object */
static int json(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const char *text;
  size_t len;
  luaL_checktype(L, 1, LUA_TTABLE);
  text = mwb_args(L, s, 1, &len);
  if (text == NULL) return luaL_error(L, "not enough memory");
  lua_pushlstring(L, text, len);
  return 1;
}

/* trace_methods() -> the table of a trace's methods, its metatable */
static int trace_methods(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_TRACE);
  lua_getfield(L, -1, "__index");
  lua_insert(L, -2);
  return 2;
}

void mwb_open_tracing(lua_State *L) {
  static const luaL_Reg functions[] = {{"contexts", set_contexts},
                                       {"json", json},
                                       {"traced", traced},
                                       {"trace_methods", trace_methods},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* }====================================================== */

void mwb_open_trace(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"instant", instant},
                                       {"counter", counter},
                                       {"trace", new_trace},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", stop}, {"__gc", free_trace}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"start", start}, {"stop", stop},
                                     {"clear", clear}, {"len", count},
                                     {"lost", lost},   {NULL, NULL}};
  mwb_new_meta(L, MWB_TRACE, "trace", meta, methods);
  mwb_new_ephemeron(L, MWB_THREADS);
  lua_newtable(L);
  mwb_keep(L, s, MWB_SOURCES);
  mwb_set_funcs(L, functions);
}
