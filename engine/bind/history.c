/*
** history.c - the simple steps of mw.history.
** SPDX-License-Identifier: MIT
**
** The Lua file moonwatch/history.lua knows what a history is.  The functions
** here do without Lua what most programs do most often: put the run of a few
** writes behind the last step, and undo or do again a single write that nobody
** hears.  They look first; what is not simple they leave to Lua functions.
*/
#include "history.h"

#include "class.h"
#include "effects.h"
#include "identity.h"
#include "library.h"
#include "shadow.h"
#include "trace.h"

/* Fields of the state of a history: as in history.lua. */
enum {
  AT = 1,
  FIRST,
  LAST,
  SEALED,
  N_PUTS,
  NAMES,
  STEPS,
  ON_STEP,
  SPECIAL,
  BASE
};

static lua_Integer number_of(lua_State *L, int history, int field) {
  lua_Integer n;
  lua_rawgeti(L, history, field);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void set_number(lua_State *L, int history, int field, lua_Integer n) {
  lua_pushinteger(L, n);
  lua_rawseti(L, history, field);
}

static int is_false(lua_State *L, int history, int field) {
  int yes;
  lua_rawgeti(L, history, field);
  yes = !lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* Can the core put steps?  Sets the limit, or 0 for none. */
static int is_simple(lua_State *L, int history, lua_Number *limit) {
  int simple;
  lua_rawgeti(L, history, SPECIAL);
  simple = !lua_isboolean(L, -1) || !lua_toboolean(L, -1);
  *limit = simple ? lua_tonumber(L, -1) : 0;
  lua_pop(L, 1);
  return simple;
}

/* Puts the state of the history at 1 there, where the class has the state; or
** returns 0 if no history is there. */
static int take_state(lua_State *L, int class_) {
  if (!lua_istable(L, 1) || !lua_getmetatable(L, 1)) return 0;
  if (!lua_rawequal(L, -1, class_)) {
    lua_pop(L, 1);
    return 0;
  }
  lua_rawget(L, 1);
  lua_replace(L, 1);
  return 1;
}

static int end_call(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

/* Calls the Lua function at `f` with all arguments instead. */
static int leave_to(lua_State *L, int f) {
  lua_pushvalue(L, f);
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, end_call);
  return end_call(L, LUA_OK, 0);
}

/* {======================================================
** Runs
** ======================================================= */

static void put_at(lua_State *L, int history, int field, lua_Integer at,
                   int value) {
  lua_rawgeti(L, history, field);
  lua_pushvalue(L, value);
  lua_rawseti(L, -2, at);
  lua_pop(L, 1);
}

static void clear_at(lua_State *L, int history, int field, lua_Integer at) {
  lua_rawgeti(L, history, field);
  lua_pushnil(L);
  lua_rawseti(L, -2, at);
  lua_pop(L, 1);
}

/* Drops the oldest step, which is the base from now on. */
static void drop_oldest(lua_State *L, int history, lua_Integer first) {
  lua_rawgeti(L, history, BASE);
  lua_rawgeti(L, history, STEPS);
  lua_rawgeti(L, -1, first);
  lua_rawseti(L, -3, 1); /* there is a place */
  lua_pop(L, 2);
  clear_at(L, history, NAMES, first);
  clear_at(L, history, STEPS, first);
  set_number(L, history, FIRST, first + 1);
}

int mwb_put_step(lua_State *L, int history, int label, int effects) {
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, effects);
  lua_Number limit;
  lua_Integer at;
  if (fx->n != 1 || fx->entries[0].kind > MW_DELETE) return 0;
  at = number_of(L, history, AT);
  if (at != number_of(L, history, LAST) || !is_simple(L, history, &limit))
    return 0;
  put_at(L, history, NAMES, at + 1, label);
  put_at(L, history, STEPS, at + 1, effects);
  set_number(L, history, AT, at + 1);
  set_number(L, history, LAST, at + 1);
  set_number(L, history, N_PUTS, number_of(L, history, N_PUTS) + 1);
  lua_pushboolean(L, 0);
  lua_rawseti(L, history, SEALED);
  if (limit > 0) {
    lua_Integer first = number_of(L, history, FIRST);
    if ((lua_Number)(at + 1 - first) >= limit) drop_oldest(L, history, first);
  }
  return 1;
}

/* The upvalues of `run`: the class of histories, the function for runs that are
** not simple, and the one that puts their steps. */
enum { CLASS = 3, RUN, ADD };

/* run(history, label, function, ...) -> results */
static int run(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Number limit;
  if (!take_state(L, lua_upvalueindex(CLASS)))
    return luaL_error(L, "calling 'run' on bad self (history expected, got %s)",
                      mwb_type_name(L, 1));
  if (lua_type(L, 2) != LUA_TSTRING || !lua_isfunction(L, 3)) {
    int arg = (lua_type(L, 2) != LUA_TSTRING) ? 1 : 2;
    lua_settop(L, 3);
    return mwb_bad_argument(L, "run", arg + 1, arg,
                            (arg == 1) ? "string" : "function");
  }
  if (s->engine->journal.open > 0 || !is_simple(L, 1, &limit))
    return leave_to(L, lua_upvalueindex(RUN));
  return mwb_run_step(L, s, lua_upvalueindex(ADD));
}

/* runner(class of histories, function, function) -> the method `run` */
static int make_runner(lua_State *L) {
  lua_settop(L, 3);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_rotate(L, 1, 2);
  lua_pushcclosure(L, run, ADD);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Undo and redo
** ======================================================= */

/* Can the write to the table be made by one `rawset`, because nobody hears it,
** records it or has a say? */
static int is_silent(const mwb_state *s, const mwi_object *r) {
  return !mwb_is_recorded(s) && s->batches == 0 &&
         s->engine->watch.results == 0 && !mwb_tracing(s) &&
         (s->needs & MWB_IGNORES) == 0 && r != NULL && !r->watched &&
         r->nodes == 0 && (r->needs & (MWI_SHORT | MWI_CLASS | MWI_META)) == 0;
}

/* Is the value on the top the same as a value of the effects at `fx_at`? */
static int is_part(lua_State *L, const mwb_effects *fx, int fx_at, int part) {
  const mw_entry *entry = &fx->entries[0];
  int same;
  if (entry->type[part] == MW_TINTEGER)
    return lua_isinteger(L, -1) &&
           lua_tointeger(L, -1) == (lua_Integer)entry->value[part].i;
  mwb_unpack(L, &fx->held, fx_at, entry, part);
  same = mwb_is_same(L, -1, -2);
  lua_pop(L, 1);
  return same;
}

/* Undoes (-1) or does again (1) the effects on the top, if they are a single
** write that nobody hears, and the field holds the value that it held then. */
static int write_simply(lua_State *L, mwb_state *s, int by) {
  int from = (by < 0) ? MW_NOW : MW_OLD, fx_at = lua_gettop(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, fx_at);
  const mw_entry *entry;
  mwi_object *r;
  if (fx == NULL || fx->n != 1 || fx->is_view) return 0;
  entry = &fx->entries[0];
  r = mwb_object_of(s, entry->obj);
  if (entry->kind > MW_DELETE || !is_silent(s, r)) return 0;
  if (lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(entry->obj)) != LUA_TTABLE ||
      !mwb_push_shadow(L, fx_at + 1))
    return 0;
  mwb_unpack(L, &fx->held, fx_at, entry, MW_KEY);
  if (mwb_is_meta(L, -1)) return 0;
  lua_pushvalue(L, -1);
  lua_rawget(L, -3);
  if (!is_part(L, fx, fx_at, from)) return 0;
  lua_pop(L, 1);
  mwb_unpack(L, &fx->held, fx_at, entry, MW_OLD + MW_NOW - from);
  lua_rawset(L, -3);
  mwi_object_renew(s->engine, r);
  return 1;
}

/* The upvalues of `travel`: the class of histories, the function for what is
** not simple, and -1 or 1. */
enum { TRAVEL = CLASS + 1, BY };

/* undo(history), redo(history) -> label */
static int travel(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int by = (int)lua_tointeger(L, lua_upvalueindex(BY));
  lua_Integer at;
  lua_settop(L, 1);
  if (!take_state(L, lua_upvalueindex(CLASS)))
    return luaL_error(L, "calling '%s' on bad self (history expected, got %s)",
                      (by < 0) ? "undo" : "redo", mwb_type_name(L, 1));
  at = number_of(L, 1, AT);
  if (is_false(L, 1, ON_STEP) &&
      ((by < 0) ? at >= number_of(L, 1, FIRST) : at < number_of(L, 1, LAST))) {
    lua_Integer step = (by < 0) ? at : at + 1;
    lua_rawgeti(L, 1, STEPS);
    lua_rawgeti(L, -1, step);
    if (write_simply(L, s, by)) {
      set_number(L, 1, AT, at + by);
      lua_pushboolean(L, 1);
      lua_rawseti(L, 1, SEALED);
      lua_rawgeti(L, 1, NAMES);
      lua_rawgeti(L, -1, step);
      return 1;
    }
  }
  lua_settop(L, 1);
  return leave_to(L, lua_upvalueindex(TRAVEL));
}

/* traveller(class of histories, function, -1 or 1) -> the method `undo` or
** `redo` */
static int make_traveller(lua_State *L) {
  lua_settop(L, 3);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_rotate(L, 1, 2);
  lua_pushcclosure(L, travel, BY);
  return 1;
}

/* }====================================================== */

void mwb_open_histories(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"runner", make_runner}, {"traveller", make_traveller}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
