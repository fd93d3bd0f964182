/*
** timed.c - mw.timed, mw.timing, and the time.
** SPDX-License-Identifier: MIT
**
** A scope is a userdata.  All scopes that are neither traced nor measured are
** one, the idle scope.  The program's other scopes that are open in a coroutine
** are a list, of which none is kept alive:
**
**     lane -- innermost --> element <--> element <--> element <-- outermost
**       +- MWB_ELEMENTS --> table: place --> element
**       +- MWB_HANDLES ---> table: place --> scope, weakly held
**
** The places of elements that are farther out are smaller: a scope that is
** opened takes the place after the innermost one's, with the element that was
** there before.  So the list refers to no scope, whose finaliser Lua may have
** to leave out.  An element stays in the list until its scope is closed; it
** stands for a scope that the program has dropped if there is no scope at its
** place.
** A second list has the scopes whose time is added to what is spent: at most
** one of a name, and one of a column, at a time.
*/
#include "trace.h"

#include <string.h>

#include "../base/base.h"
#include "../base/os.h"
#include "../journal/journal.h"

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

/* User values of a scope: the table of its data, and its lane. */
enum { DATA = 1, LANE };

/* User values of an element: the strings to which it points. */
enum { NAMED = 1, COLUMNED };

/* What the time of a scope with a column is added to: the scope is the
** outermost one with its name, with its column, or of all. */
enum { COUNTS_NAME = 1, COUNTS_COLUMN = 2, COUNTS = 4, COUNTS_ALL = 7 };

typedef mwb_scope element;

typedef struct scope {
  mwb_state *state;
  uint64_t id;    /* of the begin in the trace; 0: not traced */
  int64_t begun;  /* time of the begin, if the scope is measured */
  int64_t waited; /* how long the coroutine had been suspended then */
  mwb_lane *lane; /* the coroutine's, which LANE holds */
  element *at;    /* in the lane's list, or NULL */
  unsigned counts;
  uint8_t open;
  uint8_t measured;
  uint8_t column;  /* has the scope a column? */
  uint8_t data;    /* may the scope have data? */
  uint8_t changed; /* have data come since the begin? */
} scope;

static int is_same(mwb_text a, mwb_text b) {
  return a.len == b.len &&
         (a.bytes == b.bytes || memcmp(a.bytes, b.bytes, a.len) == 0);
}

/* Returns what leads to an element from outside in a list, and from inside. */
static inline element **from_outside(mwb_lane *lane, const element *e,
                                     int list) {
  return (e->outer[list] == NULL) ? &lane->outermost[list]
                                  : &e->outer[list]->inner[list];
}

static inline element **from_inside(mwb_lane *lane, const element *e,
                                    int list) {
  return (e->inner[list] == NULL) ? &lane->innermost[list]
                                  : &e->inner[list]->outer[list];
}

/* Makes an element the innermost one in a list. */
static void link_element(mwb_lane *lane, element *e, int list) {
  e->outer[list] = lane->innermost[list];
  e->inner[list] = NULL;
  *from_outside(lane, e, list) = *from_inside(lane, e, list) = e;
}

static void unlink_element(mwb_lane *lane, element *e, int list) {
  *from_outside(lane, e, list) = e->inner[list];
  *from_inside(lane, e, list) = e->outer[list];
}

static lua_Integer next_place(const mwb_lane *lane) {
  const element *e = lane->innermost[MWB_OPEN];
  return (e == NULL) ? 1 : e->place + 1;
}

/* Pushes the element that comes next in the list, with the table of elements on
** the top.  Finalisers may run meanwhile, and change the list. */
static element *push_element(lua_State *L, const mwb_lane *lane) {
  for (;;) {
    lua_Integer place = next_place(lane);
    element *e;
    if (lua_rawgeti(L, -1, place) == LUA_TNIL) { /* never so many open? */
      lua_pop(L, 1);
      e = (element *)lua_newuserdatauv(L, sizeof(element), COLUMNED);
      memset(e, 0, sizeof(element));
      e->place = place;
      lua_pushvalue(L, -1);
      lua_rawseti(L, -3, place);
    }
    e = (element *)lua_touserdata(L, -1);
    if (place == next_place(lane)) return e; /* is the list as it was? */
    lua_pop(L, 1);
  }
}

/* Puts the scope at `index` into the list, with the name at `name`. */
static void add_scope(lua_State *L, scope *sc, int index, int name) {
  element *e;
  lua_getiuservalue(L, index, LANE);
  lua_getiuservalue(L, -1, MWB_ELEMENTS);
  e = push_element(L, sc->lane);
  lua_pushvalue(L, name);
  lua_setiuservalue(L, -2, NAMED);
  lua_getiuservalue(L, -3, MWB_HANDLES);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, e->place);
  lua_pop(L, 4);
  e->name.bytes = lua_tolstring(L, name, &e->name.len);
  e->counts = 0;
  e->entered = sc->state->engine->scope.orders;
  link_element(sc->lane, e, MWB_OPEN);
  mwb_turn_context(sc->state);
  sc->at = e;
}

/* Pushes the scope of an element of the lane at `index`, or nil if the program
** has dropped the scope. */
static int push_scope(lua_State *L, int index, const element *e) {
  int type;
  lua_getiuservalue(L, index, MWB_HANDLES);
  type = lua_rawgeti(L, -1, e->place);
  lua_replace(L, -2);
  return type != LUA_TNIL;
}

/* Gives the scope at `index` the column at `column`, and finds out what its
** time is added to.  Only the scopes that count are asked, as many as there are
** names and columns. */
static void count_scope(lua_State *L, scope *sc, int index, int column) {
  element *mine = sc->at, *e, *outer;
  int lane = lua_gettop(L) + 1;
  lua_getiuservalue(L, index, LANE);
  lua_getiuservalue(L, lane, MWB_ELEMENTS);
  lua_rawgeti(L, -1, mine->place);
  lua_pushvalue(L, column);
  lua_setiuservalue(L, -2, COLUMNED);
  mine->column.bytes = lua_tolstring(L, column, &mine->column.len);
  sc->column = 1;
  sc->counts = COUNTS_ALL;
  for (e = sc->lane->innermost[MWB_COUNTING]; e != NULL; e = outer) {
    unsigned same = e->counts & COUNTS;
    outer = e->outer[MWB_COUNTING];
    if (is_same(e->name, mine->name)) same |= e->counts & COUNTS_NAME;
    if (is_same(e->column, mine->column)) same |= e->counts & COUNTS_COLUMN;
    if ((same & sc->counts) == 0) continue; /* does it take nothing? */
    if (push_scope(L, lane, e)) { /* does the program still have it? */
      sc->counts &= ~same;
      if (sc->counts == 0) break; /* is nothing left to it? */
    } else { /* it ends when its finaliser runs, if that ever does */
      unlink_element(sc->lane, e, MWB_COUNTING);
      e->counts = 0;
    }
    lua_pop(L, 1);
  }
  lua_settop(L, lane - 1);
  mine->counts = sc->counts;
  if (mine->counts != 0) link_element(sc->lane, mine, MWB_COUNTING);
}

/* Tells the library's Lua files what the scope at 1 took, which has ended: its
** element is the next scope's, so nothing is allocated before the call. */
static void tell_time(lua_State *L, const scope *sc, int64_t time) {
  int its = lua_gettop(L) + 1;
  lua_getiuservalue(L, 1, LANE);
  lua_getiuservalue(L, its, MWB_ELEMENTS);
  lua_rawgeti(L, -1, sc->at->place);
  lua_replace(L, its);
  lua_settop(L, its);
  mwb_push(L, sc->state, MWB_TIMER);
  lua_getiuservalue(L, its, NAMED);
  lua_pushinteger(L, (lua_Integer)time);
  if (sc->column)
    lua_getiuservalue(L, its, COLUMNED);
  else
    lua_pushnil(L);
  lua_pushboolean(L, sc->counts & COUNTS_NAME);
  lua_pushboolean(L, sc->counts & COUNTS_COLUMN);
  lua_pushboolean(L, sc->counts & COUNTS);
  lua_call(L, 6, 0);
}

/* Ends the scope at 1 in the trace. */
static void end_traced(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  const char *args = NULL;
  size_t len = 0;
  if (sc->id == 0 || !mwb_is_running(s)) return; /* not traced, or over? */
  if (sc->changed) { /* has the begin not said it all? */
    lua_getiuservalue(L, 1, DATA);
    args = mwb_args(L, s, -1, &len);
    lua_pop(L, 1);
  }
  mw_trace_end(s->engine, sc->id, args, len);
}

static void end_scope(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  int64_t time = 0;
  if (!sc->open || s->engine == NULL) return; /* closed, or all is? */
  if (sc->measured)
    time = mwb_now(NULL) - sc->begun - (mwb_waited(sc->lane) - sc->waited);
  sc->open = 0;
  mwb_turn_context(s);
  if (sc->at != NULL) unlink_element(sc->lane, sc->at, MWB_OPEN);
  if (sc->at != NULL && sc->at->counts != 0) /* does its time count? */
    unlink_element(sc->lane, sc->at, MWB_COUNTING);
  if (sc->column && --s->trace->columns == 0) mwb_note_measuring(L, s, 0);
  sc->lane->open--;
  if (sc->lane->number != MWB_MAIN) s->trace->scopes--;
  end_traced(L, sc);
  if (sc->data) { /* let go of what it holds */
    lua_pushnil(L);
    lua_setiuservalue(L, 1, DATA);
  }
  if (sc->measured) tell_time(L, sc, time);
}

static scope *check_scope(lua_State *L, const mwb_state *s, const char *name) {
  return (scope *)mwb_check_self(L, s, name, MWB_SCOPE, "scope");
}

static int close_scope(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  scope *sc = check_scope(L, s, "close");
  if (!mwb_put_off(L, s)) end_scope(L, sc);
  return 0;
}

static int finish_scope(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  scope *sc = (scope *)lua_touserdata(L, 1);
  if (sc == s->trace->idle || !mwb_is_of(L, s, 1, MWB_SCOPE) || !sc->open)
    return 0; /* never open, or ended already? */
  lua_settop(L, 1);
  if (!mwb_put_off(L, s)) end_scope(L, sc);
  return 0;
}

/* Pushes the table of data of the scope at 1, a new table if the scope has no
** data.  Returns 0 if the scope is not traced. */
static int push_data(lua_State *L, scope *sc) {
  if (!sc->open || sc->id == 0 || !mwb_is_running(sc->state)) return 0;
  if (lua_getiuservalue(L, 1, DATA) == LUA_TNIL) { /* its first data? */
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
  if (lua_isnil(L, 3)) { /* by one? */
    lua_pushinteger(L, 1);
    lua_replace(L, 3);
  }
  if (lua_type(L, 3) != LUA_TNUMBER)
    return mwb_bad_argument(L, "increment", 3, 2, "number");
  if (!push_data(L, sc)) return 0; /* is nobody going to read it? */
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 4) == LUA_TNIL) { /* not counted before? */
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
  if (lua_rawget(L, 4) != LUA_TNIL) return; /* is anything there? */
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
  is = lua_topointer(L, -1) == s->metas[MWB_SET];
  lua_pop(L, 1);
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
    if (lua_rawequal(L, -1, 3)) return 0; /* a member already? */
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
  static const mwb_option options[] = {
      MWB_OPTION("category", LUA_TSTRING), MWB_OPTION("args", LUA_TTABLE),
      MWB_OPTION("column", LUA_TSTRING), MWB_OPTION("reverse", LUA_TBOOLEAN),
      MWB_OPTION(NULL, 0)};
  size_t len;
  const char *column;
  lua_settop(L, OPTIONS);
  mwb_read_options(L, "timed", OPTIONS, options, 0);
  column = lua_tolstring(L, COLUMN, &len);
  if (column != NULL && (len <= 3 || strcmp(column + len - 3, "_us") != 0))
    luaL_error(L,
               "bad argument #2 to 'timed' (column '%s' does not end in "
               "'_us')",
               column);
}

/* Pushes a scope that is not open yet. */
static scope *new_scope(lua_State *L, mwb_state *s) {
  scope *sc = (scope *)lua_newuserdatauv(L, sizeof(scope), LANE);
  memset(sc, 0, sizeof(scope));
  sc->state = s;
  return sc;
}

/* Gives the scope at `index` the lane of the running coroutine. */
static void set_lane(lua_State *L, mwb_state *s, int index, scope *sc) {
  sc->lane = mwb_push_lane(L, s);
  if (sc->lane == NULL) mwb_check(L, MW_NOMEM);
  lua_setiuservalue(L, index, LANE);
}

/* Opens a scope that has a lane. */
static void open_scope(mwb_state *s, scope *sc) {
  sc->open = 1;
  sc->lane->open++;
  if (sc->lane->number != MWB_MAIN) s->trace->scopes++;
  sc->waited = sc->lane->waited;
}

/* Gives the scope at SCOPE a copy of the args, plus `reverse`. */
static void copy_args(lua_State *L, scope *sc) {
  if (lua_isnil(L, ARGS) && lua_isnil(L, REVERSE)) return; /* has it no data? */
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

static mw_name trace_name(lua_State *L, mwb_state *s) {
  size_t len, clen;
  const char *name = lua_tolstring(L, NAME, &len);
  const char *category = lua_tolstring(L, CATEGORY, &clen);
  mw_name c = 0;
  if (category != NULL) c = mw_trace_name(s->engine, category, clen, 0);
  return mw_trace_name(s->engine, name, len, c);
}

/* Pushes the args of the scope at SCOPE as text, or nil. */
static void push_args(lua_State *L, const scope *sc) {
  const char *args;
  size_t len;
  if (lua_getiuservalue(L, SCOPE, DATA) == LUA_TNIL) return;
  args = mwb_args(L, sc->state, -1, &len);
  lua_pushlstring(L, args, len);
  lua_replace(L, -2);
}

/* Begins the scope at SCOPE in the trace, with its args on the top. */
static void begin_traced(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  size_t len = 0;
  const char *args = lua_tolstring(L, -1, &len);
  mw_name name = trace_name(L, s);
  sc->id = mw_trace_begin(s->engine, sc->lane->number, name, args, len);
}

/* Measures the scope at SCOPE, which is open. */
static void begin_measured(lua_State *L, scope *sc) {
  mwb_state *s = sc->state;
  sc->measured = 1;
  sc->begun = mwb_now(NULL);
  if (lua_isnil(L, COLUMN)) return; /* is nothing added up? */
  count_scope(L, sc, SCOPE, COLUMN);
  s->trace->columns++;
}

/* Begins a scope with options, or a measured scope. */
static int timed_fully(lua_State *L, mwb_state *s) {
  scope *sc;
  int measured;
  read_options(L);
  measured = s->trace->timing || !lua_isnil(L, COLUMN);
  if (!measured && !mwb_is_running(s)) { /* does nobody ask? */
    lua_pushvalue(L, UP_IDLE);
    return 1;
  }
  sc = new_scope(L, s);
  if (mwb_is_running(s)) copy_args(L, sc);
  lua_pushvalue(L, UP_SCOPE);
  lua_setmetatable(L, SCOPE);
  set_lane(L, s, SCOPE, sc);
  if (mwb_is_running(s)) push_args(L, sc); /* unless a finaliser ended it */
  if (!lua_isnil(L, COLUMN)) mwb_note_measuring(L, s, 1);
  add_scope(L, sc, SCOPE, NAME);
  open_scope(s, sc);
  if (mwb_is_running(s)) begin_traced(L, sc);
  if (measured) begin_measured(L, sc);
  lua_settop(L, SCOPE);
  return 1;
}

/* Begins a scope that is only traced. */
static int timed_quickly(lua_State *L, mwb_state *s) {
  scope *sc;
  mw_name name;
  lua_settop(L, NAME);
  sc = new_scope(L, s);
  lua_pushvalue(L, UP_SCOPE);
  lua_setmetatable(L, NAME + 1);
  set_lane(L, s, NAME + 1, sc);
  add_scope(L, sc, NAME + 1, NAME);
  open_scope(s, sc);
  name = mw_trace_name(s->engine, sc->at->name.bytes, sc->at->name.len, 0);
  sc->id = mw_trace_begin(s->engine, sc->lane->number, name, NULL, 0);
  return 1;
}

static int timed(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (s->pending) mwb_slice(L, s); /* is work due? */
  if (lua_type(L, NAME) != LUA_TSTRING)
    return mwb_bad_argument(L, "timed", NAME, 1, "string");
  if (s->trace->timing || !lua_isnoneornil(L, OPTIONS)) /* more than a trace? */
    return timed_fully(L, s);
  if (mwb_is_running(s)) return timed_quickly(L, s);
  lua_pushvalue(L, UP_IDLE);
  return 1;
}

/* begin_scope(category, name) -> scope, for the library's Lua files; the scope
** is not in the list */
static int begin_scope(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  size_t len;
  const char *category = luaL_checkstring(L, 1);
  const char *name = luaL_checklstring(L, 2, &len);
  scope *sc = new_scope(L, s);
  mwb_push(L, s, MWB_SCOPE);
  lua_setmetatable(L, -2);
  set_lane(L, s, lua_gettop(L), sc);
  open_scope(s, sc);
  sc->id = mwb_trace_begin(L, s, category, name, len);
  return 1;
}

/* }====================================================== */

/* {======================================================
** The scopes that are open
** ======================================================= */

const mwb_scope *mwb_outermost_scope(lua_State *L, const mwb_state *s) {
  const mwb_lane *lane = mwb_known_lane(L, s);
  return (lane == NULL) ? NULL : lane->outermost[MWB_OPEN];
}

/* current_scope([name]) -> scope or nil */
static int current_scope(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const mwb_lane *lane;
  const element *e;
  int any = lua_isnoneornil(L, 1);
  mwb_text name;
  mwb_check_dot(L, "current_scope", lua_gettop(L));
  if (!any && lua_type(L, 1) != LUA_TSTRING)
    return mwb_bad_argument(L, "current_scope", 1, 1, "string");
  lua_settop(L, 1);
  name.bytes = lua_tolstring(L, 1, &name.len);
  lane = mwb_known_lane(L, s);
  e = (lane == NULL) ? NULL : lane->innermost[MWB_OPEN];
  if (e != NULL) mwb_push_lane(L, s);
  for (; e != NULL; e = e->outer[MWB_OPEN])
    if ((any || is_same(e->name, name)) && push_scope(L, 2, e)) return 1;
  lua_pushnil(L);
  return 1;
}

/* outermost_scope() -> scope or nil */
static int outermost_scope(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const element *e = mwb_outermost_scope(L, s);
  mwb_check_nothing(L, "outermost_scope", 1);
  lua_settop(L, 0);
  if (e != NULL) mwb_push_lane(L, s);
  for (; e != NULL; e = e->inner[MWB_OPEN])
    if (push_scope(L, 1, e)) return 1; /* not dropped by the program? */
  lua_pushnil(L);
  return 1;
}

/* }====================================================== */

/* timing([on]) -> the previous setting */
static int timing(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int former = s->trace->timing;
  if (!lua_isnoneornil(L, 1)) {
    if (!lua_isboolean(L, 1))
      return mwb_bad_argument(L, "timing", 1, 1, "boolean");
    s->trace->timing = lua_toboolean(L, 1);
    mwb_note_measuring(L, s, 0);
  }
  lua_pushboolean(L, former);
  return 1;
}

const luaL_Reg mwb_timers_functions[] = {{"begin_scope", begin_scope},
                                         {"now", now},
                                         {"nanoseconds", nanoseconds},
                                         {NULL, NULL}};

/* Pushes `timed` with its upvalues. */
static void push_timed(lua_State *L, mwb_state *s) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  s->trace->idle = new_scope(L, s); /* never open */
  mwb_push(L, s, MWB_SCOPE);
  lua_pushvalue(L, -1);
  lua_setmetatable(L, -3);
  lua_pushcclosure(L, timed, 4);
}

void mwb_open_timed(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {{"current_scope", current_scope},
                                       {"outermost_scope", outermost_scope},
                                       {"timing", timing},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", finish_scope}, {"__gc", finish_scope}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"add", add_data},
                                     {"increment", increment_data},
                                     {"insert", insert_data},
                                     {"close", close_scope},
                                     {NULL, NULL}};
  mwb_new_meta(L, MWB_SCOPE, "scope", meta, methods);
  mwb_push(L, s, MWB_SCOPE);
  mwb_seal(L, -1, "scope:add");
  lua_pop(L, 1);
  mwb_new_meta(L, MWB_SET, "set", NULL, NULL);
  mwb_set_funcs(L, functions);
  push_timed(L, s);
  lua_setfield(L, -2, "timed");
}
