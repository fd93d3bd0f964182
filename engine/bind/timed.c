/*
** timed.c - mw.timed, mw.timing, and the time.
** SPDX-License-Identifier: MIT
**
** A scope is a userdata.  All scopes that are neither traced nor measured are
** one, the idle scope.  The first user value of a scope is the table of its
** data, if the scope has data; the second belongs to the library's Lua files,
** if the scope is measured; the third is the lane of the scope's coroutine.
*/
#include "timed.h"

#include <string.h>

#include "class.h"
#include "lane.h"
#include "options.h"
#include "os.h"
#include "trace.h"

/* {======================================================
** Time
** ======================================================= */

int64_t mwb_now(void *ud) {
  (void)ud;
  return mwb_os_now();
}

/* now() -> seconds since a fixed moment; never goes back */
static int now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)mwb_now(NULL) / 1e9);
  return 1;
}

/* nanoseconds() -> the time of now(), as an integer */
static int nanoseconds(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mwb_now(NULL));
  return 1;
}

/* }====================================================== */

/* {======================================================
** Scopes
** ======================================================= */

/* Upvalues of `timed`, after state and objects. */
#define UP_IDLE lua_upvalueindex(3)
#define UP_SCOPE lua_upvalueindex(4)

/* User values of a scope. */
enum { DATA = 1, MEASURED, LANE };

/* The functions in MWB_TIMERS. */
enum { ON_OPEN = 1, ON_CLOSE };

typedef struct scope {
  mwb_state *state;
  uint64_t id;    /* of the begin in the trace; 0: not traced */
  int64_t begun;  /* time of the begin, if the scope is measured */
  int64_t waited; /* how long the coroutine had been suspended then */
  mwb_lane *lane; /* the coroutine's, which LANE holds; NULL: none */
  uint8_t open;
  uint8_t measured;
  uint8_t data;    /* may the scope have data? */
  uint8_t changed; /* have data come since the begin? */
} scope;

/* Calls one of the functions that the library's Lua files have set. */
static void call_timer(lua_State *L, const mwb_state *s, int timer, int args,
                       int results) {
  mwb_push(L, s, MWB_TIMERS);
  lua_rawgeti(L, -1, timer);
  lua_replace(L, -2);
  lua_insert(L, -1 - args);
  lua_call(L, args, results);
}

/* Ends the scope at 1 in the trace. */
static void end_traced(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  const char *args = NULL;
  size_t len = 0;
  if (sc->id == 0 || !mwb_is_running(s)) return;
  if (sc->changed) {
    lua_getiuservalue(L, 1, DATA);
    args = mwb_args(L, s, -1, &len);
    lua_pop(L, 1);
  }
  mw_trace_end(s->engine, sc->id, args, len);
}

static void end_scope(lua_State *L, scope *sc) {
  int64_t time;
  if (!sc->open || sc->state->engine == NULL) return;
  time = sc->measured ? mwb_now(NULL) - sc->begun : 0;
  sc->open = 0;
  if (sc->lane != NULL) {
    time -= mwb_waited(sc->lane) - sc->waited;
    sc->lane->open--;
    sc->state->scopes--;
  }
  end_traced(L, sc);
  if (sc->data) {
    lua_pushnil(L);
    lua_setiuservalue(L, 1, DATA);
  }
  if (!sc->measured) return;
  lua_getiuservalue(L, 1, MEASURED);
  lua_pushinteger(L, (lua_Integer)time);
  call_timer(L, sc->state, ON_CLOSE, 2, 0);
}

static scope *check_scope(lua_State *L, const mwb_state *s, const char *name) {
  mwb_check_self(L, s, name, MWB_SCOPE, "scope");
  return (scope *)lua_touserdata(L, 1);
}

static int close_scope(lua_State *L) {
  end_scope(L, check_scope(L, mwb_state_of(L), "close"));
  return 0;
}

/* The metamethod's argument is nearly always a scope, so the address of the
** metatable is test enough. */
static int finish_scope(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  scope *sc = (scope *)lua_touserdata(L, 1);
  if (sc == s->idle || sc == NULL || !lua_getmetatable(L, 1)) return 0;
  if (lua_topointer(L, -1) == s->scope_meta && sc->open) {
    lua_settop(L, 1);
    end_scope(L, sc);
  }
  return 0;
}

/* Pushes the table of data of the scope at 1, a new table if the scope has no
** data.  Returns 0 if the scope is not traced. */
static int push_data(lua_State *L, scope *sc) {
  if (!sc->open || sc->id == 0 || !mwb_is_running(sc->state)) return 0;
  if (lua_getiuservalue(L, 1, DATA) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, DATA);
  }
  sc->data = sc->changed = 1;
  return 1;
}

/* Returns the scope at 1, with a key at 2, or raises. */
static scope *check_data(lua_State *L, const mwb_state *s, const char *name) {
  scope *sc = check_scope(L, s, name);
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TSTRING) mwb_bad_argument(L, name, 2, 1, "string");
  return sc;
}

/* scope:add(key, value) */
static int add_data(lua_State *L) {
  if (!push_data(L, check_data(L, mwb_state_of(L), "add"))) return 0;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, 4);
  return 0;
}

static int bad_data(lua_State *L, const char *name, const char *expected) {
  return luaL_error(L, "bad argument #1 to '%s' ('%s' is not a %s)", name,
                    lua_tostring(L, 2), expected);
}

/* scope:increment(key[, n]) */
static int increment_data(lua_State *L) {
  scope *sc = check_data(L, mwb_state_of(L), "increment");
  if (lua_isnil(L, 3)) {
    lua_pushinteger(L, 1);
    lua_replace(L, 3);
  }
  if (lua_type(L, 3) != LUA_TNUMBER)
    return mwb_bad_argument(L, "increment", 3, 2, "number");
  if (!push_data(L, sc)) return 0;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 4) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushinteger(L, 0);
  }
  if (lua_type(L, -1) != LUA_TNUMBER) return bad_data(L, "increment", "number");
  lua_pushvalue(L, 3);
  lua_arith(L, LUA_OPADD);
  lua_rawset(L, 4);
  return 0;
}

/* Pushes the value of the key at 2 in the table of data at 4, a new set if the
** value is nil. */
static void push_set(lua_State *L, const mwb_state *s) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 4) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  mwb_push(L, s, MWB_SET);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 4);
}

static int is_set(lua_State *L, const mwb_state *s, int index) {
  int is;
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return 0;
  mwb_push(L, s, MWB_SET);
  is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

/* scope:insert(key, member); a set is an array without duplicates */
static int insert_data(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_Unsigned i, n;
  if (!push_data(L, check_data(L, s, "insert"))) return 0;
  push_set(L, s);
  if (!is_set(L, s, 5)) return bad_data(L, "insert", "set");
  n = lua_rawlen(L, 5);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, 5, (lua_Integer)i);
    if (lua_rawequal(L, -1, 3)) return 0;
    lua_pop(L, 1);
  }
  lua_pushvalue(L, 3);
  lua_rawseti(L, 5, (lua_Integer)n + 1);
  return 0;
}

/* }====================================================== */

/* {======================================================
** mw.timed
** ======================================================= */

/* The stack of `timed` with options. */
enum { NAME = 1, OPTIONS, CATEGORY, ARGS, COLUMN, REVERSE, SCOPE };

/* Reads the options and puts their values at CATEGORY to REVERSE. */
static void read_options(lua_State *L) {
  static const mwb_option options[] = {{"category", LUA_TSTRING, NULL},
                                       {"args", LUA_TTABLE, NULL},
                                       {"column", LUA_TSTRING, NULL},
                                       {"reverse", LUA_TBOOLEAN, NULL},
                                       {NULL, 0, NULL}};
  size_t len;
  const char *column;
  lua_settop(L, OPTIONS);
  mwb_read_options(L, "timed", OPTIONS, options);
  column = lua_tolstring(L, COLUMN, &len);
  if (column != NULL && (len <= 3 || strcmp(column + len - 3, "_us") != 0))
    luaL_error(L,
               "bad argument #2 to 'timed' (column '%s' does not end in "
               "'_us')",
               column);
}

/* Pushes a scope that is not open yet. */
static scope *new_scope(lua_State *L, mwb_state *s, int uservalues) {
  scope *sc = (scope *)lua_newuserdatauv(L, sizeof(scope),
                                         (L == s->main) ? uservalues : LANE);
  memset(sc, 0, sizeof(scope));
  sc->state = s;
  return sc;
}

/* Opens the scope at `index`. */
static void open_scope(lua_State *L, mwb_state *s, int index, scope *sc) {
  sc->open = 1;
  if (L == s->main || (sc->lane = mwb_push_lane(L, s)) == NULL) return;
  lua_setiuservalue(L, index, LANE);
  sc->lane->open++;
  s->scopes++;
  sc->waited = sc->lane->waited;
}

/* Gives the scope at SCOPE a copy of the args, plus `reverse`. */
static void copy_args(lua_State *L, scope *sc) {
  if (lua_isnil(L, ARGS) && lua_isnil(L, REVERSE)) return;
  sc->data = 1;
  lua_newtable(L);
  if (lua_istable(L, ARGS)) {
    for (lua_pushnil(L); lua_next(L, ARGS) != 0;) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, SCOPE + 1);
    }
  }
  if (!lua_isnil(L, REVERSE)) {
    lua_pushvalue(L, REVERSE);
    lua_setfield(L, SCOPE + 1, "reverse");
  }
  lua_setiuservalue(L, SCOPE, DATA);
}

static mw_name scope_name(lua_State *L, mwb_state *s) {
  size_t len, clen;
  const char *name = lua_tolstring(L, NAME, &len);
  const char *category = lua_tolstring(L, CATEGORY, &clen);
  mw_name c = 0;
  if (category != NULL) c = mw_trace_name(s->engine, category, clen, 0);
  return mw_trace_name(s->engine, name, len, c);
}

static void begin_traced(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  const char *args = NULL;
  size_t len = 0;
  mw_thread thread = mwb_thread(L, s);
  mw_name name = scope_name(L, s);
  if (lua_getiuservalue(L, SCOPE, DATA) == LUA_TTABLE)
    args = mwb_args(L, s, -1, &len);
  lua_pop(L, 1);
  sc->id = mw_trace_begin(s->engine, thread, name, args, len);
}

/* Tells the library's Lua files that the scope at SCOPE is measured. */
static void begin_measured(lua_State *L, scope *sc) {
  lua_pushvalue(L, NAME);
  lua_pushvalue(L, COLUMN);
  call_timer(L, sc->state, ON_OPEN, 2, 1);
  lua_setiuservalue(L, SCOPE, MEASURED);
  sc->measured = 1;
}

/* Begins a scope with options, or a measured scope. */
static int timed_fully(lua_State *L, mwb_state *s) {
  scope *sc;
  int measured;
  read_options(L);
  measured = s->timing || !lua_isnil(L, COLUMN);
  if (!measured && !mwb_is_running(s)) {
    lua_pushvalue(L, UP_IDLE);
    return 1;
  }
  sc = new_scope(L, s, measured ? 2 : 1);
  if (mwb_is_running(s)) copy_args(L, sc);
  lua_pushvalue(L, UP_SCOPE);
  lua_setmetatable(L, SCOPE);
  if (measured) begin_measured(L, sc);
  open_scope(L, s, SCOPE, sc);
  if (mwb_is_running(s)) begin_traced(L, sc);
  if (measured) sc->begun = mwb_now(NULL);
  return 1;
}

/* Begins a scope that is only traced. */
static int timed_quickly(lua_State *L, mwb_state *s) {
  scope *sc = new_scope(L, s, 1);
  mw_thread thread = mwb_thread(L, s);
  size_t len;
  const char *name = lua_tolstring(L, NAME, &len);
  lua_pushvalue(L, UP_SCOPE);
  lua_setmetatable(L, -2);
  open_scope(L, s, lua_gettop(L), sc);
  sc->id = mw_trace_begin(s->engine, thread,
                          mw_trace_name(s->engine, name, len, 0), NULL, 0);
  return 1;
}

static int timed(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (s->pending) mwb_slice(L, s);
  if (lua_type(L, NAME) != LUA_TSTRING)
    return mwb_bad_argument(L, "timed", NAME, 1, "string");
  if (s->timing || !lua_isnoneornil(L, OPTIONS)) return timed_fully(L, s);
  if (mwb_is_running(s)) return timed_quickly(L, s);
  lua_pushvalue(L, UP_IDLE);
  return 1;
}

/* begin_scope(category, name) -> scope, for the library's Lua files */
static int begin_scope(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  size_t len;
  const char *category = luaL_checkstring(L, 1);
  const char *name = luaL_checklstring(L, 2, &len);
  scope *sc = new_scope(L, s, 1);
  mwb_push(L, s, MWB_SCOPE);
  lua_setmetatable(L, -2);
  open_scope(L, s, lua_gettop(L), sc);
  sc->id = mwb_trace_begin(L, s, category, name, len);
  return 1;
}

/* }====================================================== */

/* timing([on]) -> the previous setting */
static int timing(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int former = s->timing;
  if (!lua_isnoneornil(L, 1)) {
    if (!lua_isboolean(L, 1))
      return mwb_bad_argument(L, "timing", 1, 1, "boolean");
    s->timing = lua_toboolean(L, 1);
  }
  lua_pushboolean(L, former);
  return 1;
}

/* {======================================================
** For the library's Lua files
** ======================================================= */

/* timers(open, close): open(name, column) -> the second user value of a
** measured scope; close(this value, nanoseconds) */
static int set_timers(lua_State *L) {
  lua_settop(L, 2);
  lua_createtable(L, 2, 0);
  lua_insert(L, 1);
  lua_rawseti(L, 1, ON_CLOSE);
  lua_rawseti(L, 1, ON_OPEN);
  mwb_keep(L, mwb_state_of(L), MWB_TIMERS);
  return 0;
}

/* }====================================================== */

void mwb_open_timers(lua_State *L) {
  static const luaL_Reg functions[] = {{"timers", set_timers},
                                       {"begin_scope", begin_scope},
                                       {"now", now},
                                       {"nanoseconds", nanoseconds},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* Pushes `timed` with its upvalues. */
static void push_timed(lua_State *L, mwb_state *s) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  s->idle = new_scope(L, s, 1); /* never open */
  mwb_push(L, s, MWB_SCOPE);
  lua_pushvalue(L, -1);
  lua_setmetatable(L, -3);
  lua_pushcclosure(L, timed, 4);
}

void mwb_open_timed(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"timing", timing}, {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", finish_scope}, {"__gc", finish_scope}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"add", add_data},
                                     {"increment", increment_data},
                                     {"insert", insert_data},
                                     {"close", close_scope},
                                     {NULL, NULL}};
  s->scope_meta = mwb_new_meta(L, MWB_SCOPE, "scope", meta, methods);
  mwb_push(L, s, MWB_SCOPE);
  mwb_seal(L, s, -1, "scope:add");
  lua_pop(L, 1);
  mwb_new_meta(L, MWB_SET, "set", none, none);
  mwb_set_funcs(L, functions);
  push_timed(L, s);
  lua_setfield(L, -2, "timed");
}
