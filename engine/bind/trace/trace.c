/*
** trace.c - mw.trace, mw.instant, mw.counter, and the other traced events.
** SPDX-License-Identifier: MIT
*/
#include "trace.h"

#include <stdio.h>
#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../traps/trap.h"
#include "../watch/watch.h"

static mw_name name_in(mwb_state *s, const char *category, const char *name,
                       size_t len) {
  mw_name c = mw_trace_name(s->engine, category, strlen(category), 0);
  return mw_trace_name(s->engine, name, len, c);
}

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

/* The events of writes are named after the kind; of batches, INVALIDATE. */
#define INVALIDATE MW_KINDS

/* Returns the number of an event's name in the running trace. */
static mw_name write_name(mwb_state *s, int kind) {
  if (!mw_trace_has_name(s->engine, s->trace->write_names[kind])) {
    const char *name =
        (kind == INVALIDATE) ? "invalidate" : mwi_kinds[kind].name;
    s->trace->write_names[kind] = name_in(s, "watch", name, strlen(name));
  }
  return s->trace->write_names[kind];
}

/* Sets a value of an event to a value without parts.  Returns 0 if the value at
** `index` has parts. */
static int set_plain(lua_State *L, int index, mw_trace_value *v) {
  v->string = NULL;
  v->len = 0;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
    case LUA_TNONE:
      v->value.type = MW_TNIL;
      return 1;
    case LUA_TBOOLEAN:
      v->value.type = MW_TBOOLEAN;
      v->value.u.i = lua_toboolean(L, index);
      return 1;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        v->value.type = MW_TINTEGER;
        v->value.u.i = (int64_t)lua_tointeger(L, index);
      } else {
        v->value.type = MW_TFLOAT;
        v->value.u.f = (double)lua_tonumber(L, index);
      }
      return 1;
    case LUA_TSTRING:
      v->value.type = MW_TSTRING;
      v->string = lua_tolstring(L, index, &v->len);
      return 1;
    default:
      return 0;
  }
}

/* Pushes what people call the object at `index`, and returns the text; NULL if
** the object has no name. */
static const char *push_label(lua_State *L, const mwb_state *s, int index,
                              size_t *len) {
  mwb_push(L, s, MWB_LABEL);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK || lua_type(L, -1) != LUA_TSTRING)
    return NULL; /* it failed, or has no name */
  return lua_tolstring(L, -1, len);
}

/* Sets a value of an event.  May push the value's label. */
static void set_value(lua_State *L, mwb_state *s, int index,
                      mw_trace_value *v) {
  mw_handle h;
  if (set_plain(L, index, v)) return; /* is that all of it? */
  h = (lua_type(L, index) == LUA_TLIGHTUSERDATA) ? MW_NONE
                                                 : mwb_handle_of(L, s, index);
  v->value.type = (h == MW_NONE) ? MW_TOTHER : MW_TOBJECT;
  v->value.u.i = (int64_t)h;
  if (h != MW_NONE && mw_trace_has_object(s->engine, h)) return; /* labelled? */
  if (lua_type(L, index) == LUA_TTABLE || lua_type(L, index) == LUA_TUSERDATA)
    v->string = push_label(L, s, index, &v->len);
  if (v->string == NULL && h == MW_NONE) { /* nothing to call it by? */
    v->string = luaL_typename(L, index);
    v->len = strlen(v->string);
  }
}

/* Sets the key of an event.  A key that is an object is the name of its
** type. */
static void set_key(lua_State *L, int index, mw_trace_details *details) {
  mw_trace_value key;
  if (!set_plain(L, index, &key)) { /* an object, then? */
    key.value.type = MW_TSTRING;
    key.string = luaL_typename(L, index);
    key.len = strlen(key.string);
  }
  details->key = key.value;
  details->string = key.string;
  details->len = key.len;
}

/* Writes "file:line" of the nearest function of the program to `text`.  Returns
** the number of bytes. */
#define WHERE_SIZE (LUA_IDSIZE + 16)
static size_t write_where(lua_State *L, char *text) {
  lua_Debug ar;
  if (!mwb_find_caller(L, &ar)) return 0; /* called by C alone? */
  return (size_t)snprintf(text, WHERE_SIZE, "%s:%d", ar.short_src,
                          ar.currentline);
}

uint64_t mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int kind) {
  mw_trace_details details;
  char where[WHERE_SIZE];
  int top = lua_gettop(L);
  uint64_t id;
  if (!mwb_is_running(s) || !lua_checkstack(L, LUA_MINSTACK)) return 0;
  details.obj = h;
  details.label = details.where = details.context = NULL;
  details.guards = 0;
  set_key(L, KEY, &details);
  set_value(L, s, OLD, &details.old);
  set_value(L, s, VALUE, &details.now);
  if (!mw_trace_has_object(s->engine, h)) /* does it need a label? */
    details.label = push_label(L, s, OBJECT, &details.label_len);
  if (s->trace->sources & MWB_WHERE) {
    details.where_len = write_where(L, where);
    details.where = (details.where_len > 0) ? where : NULL;
  }
  id = mw_trace_change(s->engine, mwb_thread(L, s), write_name(s, kind),
                       &details);
  lua_settop(L, top);
  return id;
}

/* Calls the hooks of mw.context and pushes the array of their results, or nil.
** Returns the text of the array, or NULL. */
static const char *push_contexts(lua_State *L, mwb_state *s, size_t *len) {
  if (!s->trace->contexts || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
  mwb_push(L, s, MWB_CONTEXTS);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK || !lua_istable(L, -1)) return NULL;
  return mwb_array_args(L, s, -1, len);
}

void mwb_trace_heard(lua_State *L, mwb_state *s, uint64_t id, uint64_t guards) {
  int top = lua_gettop(L);
  const char *context;
  size_t len = 0;
  if (guards == 0 || !mwb_is_running(s)) return; /* nobody heard, or asks? */
  context = push_contexts(L, s, &len);
  mw_trace_heard(s->engine, id, guards, context, len);
  lua_settop(L, top);
}

void mwb_trace_batch(lua_State *L, mwb_state *s, uint64_t guards) {
  mw_trace_details details;
  mw_thread thread;
  int top = lua_gettop(L);
  if (guards == 0 || !mwb_is_running(s)) return; /* nobody heard, or asks? */
  thread = mwb_thread(L, s);
  memset(&details, 0, sizeof(details));
  details.key.type = MW_TABSENT;
  details.guards = guards;
  details.context = push_contexts(L, s, &details.context_len);
  if (mwb_is_running(s)) /* a hook may have stopped the trace */
    mw_trace_change(s->engine, thread, write_name(s, INVALIDATE), &details);
  lua_settop(L, top);
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
  mw_trace_value v;
  check_name(L, "counter");
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TNUMBER)
    return mwb_bad_argument(L, "counter", 2, 2, "number");
  if (!mwb_is_running(s)) return 0;
  name = lua_tolstring(L, 1, &len);
  set_plain(L, 2, &v);
  mw_trace_counter(s->engine, mwb_thread(L, s),
                   mw_trace_name(s->engine, name, len, 0), &v.value);
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
    if (lua_type(L, -2) == LUA_TNUMBER) /* an element of a list? */
      bits |= source_bit(L, -1);
    else if (lua_toboolean(L, -1)) /* name = true? */
      bits |= source_bit(L, -2);
    else
      source_bit(L, -2); /* is there such a source? */
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
  static const mwb_option options[] = {
      MWB_OPTION("capacity", LUA_TNONE),
      MWB_OPTION("sources", LUA_TTABLE),
      {"where", LUA_TBOOLEAN, NULL, {0, MWB_WHERE}, 0, NULL},
      MWB_OPTION(NULL, 0)};
  mwb_state *s = mwb_enter(L);
  size_t capacity;
  trace *t;
  int bits;
  lua_settop(L, 1);
  bits = mwb_read_options(L, "trace", 1, options, 0); /* at 2, 3 and 4 */
  capacity = read_capacity(L, 2);
  bits |= read_sources(L, 3);
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
  return (trace *)mwb_check_self(L, s, name, MWB_TRACE, "trace");
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
  s->trace->sources = t->sources;
  mwb_need(s, MWB_TRACES, mwb_tracing(s));
  mwb_note_measuring(L, s, 0);
  show_sources(L, s, t->sources);
  lua_settop(L, 1);
  return 1;
}

static void stop_trace(lua_State *L, trace *t) {
  mwb_state *s = t->state;
  if (s->engine == NULL || mw_trace_running(s->engine) != t->ring) return;
  if (t->ring == NULL) return; /* not opened, or freed already? */
  mw_trace_stop(s->engine, t->ring);
  s->trace->sources = 0;
  mwb_need(s, MWB_TRACES, 0);
  mwb_note_measuring(L, s, 0);
  show_sources(L, s, 0);
}

/* trace:stop() -> trace */
static int stop(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  trace *t = check_trace(L, s, "stop");
  lua_settop(L, 1);
  if (mwb_put_off(L, s)) return 1; /* at work: it waits */
  stop_trace(L, t);
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
  const trace *t = check_trace(L, mwb_enter_to_read(L), "len");
  lua_pushinteger(L, (lua_Integer)mw_trace_len(t->ring));
  return 1;
}

/* trace:lost() -> number of events that the trace has lost */
static int lost(lua_State *L) {
  const trace *t = check_trace(L, mwb_enter_to_read(L), "lost");
  lua_pushinteger(L, (lua_Integer)mw_trace_lost(t->ring));
  return 1;
}

static int free_trace(lua_State *L) {
  trace *t;
  if (!mwb_is_of(L, mwb_state_of(L), 1, MWB_TRACE)) return 0;
  t = (trace *)lua_touserdata(L, 1);
  lua_settop(L, 1);
  if (t->state->engine != NULL && mwb_put_off(L, t->state)) return 0;
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
  s->trace->contexts = !lua_isnil(L, 1);
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
  text = mwb_json(L, s, 1, &len);
  if (text == NULL) {
    lua_pushliteral(L, "not enough memory");
    return lua_error(L);
  }
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

const luaL_Reg mwb_tracing_functions[] = {{"contexts", set_contexts},
                                          {"json", json},
                                          {"traced", traced},
                                          {"trace_methods", trace_methods},
                                          {NULL, NULL}};

/* }====================================================== */

void mwb_open_trace(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
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
  lua_newtable(L);
  mwb_keep(L, s, MWB_SOURCES);
  mwb_set_funcs(L, functions);
}
