/*
** origin.c - who writes, and because of what: mw.origin.
** SPDX-License-Identifier: MIT
**
** A coroutine has a list of the origins that it has begun, the last one first.
** A write has the first origin of the running coroutine; without one, the one
** that began last of those of the coroutines that wait for the running one.  So
** origins belong to coroutines as transactions do.
**
** An origin has a name and a cause, of which one is that of the origin around.
** The cause of a write is the one that is nearest: the guard's write if a guard
** has been called since the origin began, else the origin's cause.
**
** An origin is a userdata.  Its end, by `__close` or by its finaliser, takes
** the origin out of the list, wherever in the list the origin stands.
*/
#include "journal.h"

#include "../base/base.h"
#include "../trace/trace.h"

typedef struct origin {
  mwb_begun begun;
  mwb_state *s;
  mwb_coroutine *of; /* NULL: the origin is not open */
  int name;          /* in the registry */
  uint32_t cause;    /* the number of the write that is the cause, or 0 */
  const mw_change *guarded; /* the write whose guard began the origin */
} origin;

static const origin *newest(lua_State *L, mwb_state *s) {
  return (const origin *)mwb_owning(L, s, MWB_BY_ORIGIN);
}

void mwb_push_origin(lua_State *L, mwb_state *s, lua_State *of) {
  const origin *o = (s->journal->origins == 0) ? NULL : newest(of, s);
  if (o == NULL)
    lua_pushnil(L);
  else
    lua_rawgeti(L, LUA_REGISTRYINDEX, o->name);
}

uint32_t mwb_other_cause(lua_State *L, mwb_state *s) {
  const origin *o = newest(L, s);
  return (o == NULL || o->guarded != s->engine->watch.cause) ? 0 : o->cause;
}

/* Pushes an origin that has not begun, with the name on the top, which it pops,
** and a cause. */
static origin *new_origin(lua_State *L, mwb_state *s, uint32_t cause) {
  origin *o = (origin *)lua_newuserdatauv(L, sizeof(*o), 0);
  o->s = s;
  o->of = NULL;
  o->cause = cause;
  o->guarded = s->engine->watch.cause;
  mwb_push(L, s, MWB_ORIGIN);
  lua_setmetatable(L, -2);
  lua_insert(L, -2);
  o->name = luaL_ref(L, LUA_REGISTRYINDEX);
  return o;
}

/* Nothing raises from here on. */
static void begin_origin(mwb_state *s, mwb_coroutine *t, origin *o) {
  o->of = t;
  s->journal->origins++;
  mwb_turn_context(s);
  mwb_begin(s, t, MWB_BY_ORIGIN, &o->begun);
}

/* origin(name) -> origin; origin(name, f, ...) -> results of f(...) */
static int origin_function(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int args = lua_gettop(L);
  mwb_coroutine *t;
  origin *o;
  if (lua_type(L, 1) != LUA_TSTRING)
    return mwb_bad_argument(L, "origin", 1, 1, "string");
  if (args > 1 && !lua_isfunction(L, 2))
    return mwb_bad_argument(L, "origin", 2, 2, "function");
  t = mwb_need_coroutine(L, s);
  lua_pushvalue(L, 1);
  o = new_origin(L, s, mwb_cause(L, s));
  if (args > 1) { /* does the origin end with a call? */
    lua_replace(L, 1);
    lua_toclose(L, 1);
  }
  begin_origin(s, t, o);
  if (args == 1) return 1; /* does the program close it? */
  lua_callk(L, args - 2, LUA_MULTRET, 1, mwb_return);
  return mwb_return(L, LUA_OK, 1);
}

/* current_origin() -> name of the origin that a write would have, or nil */
static int current_origin(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mwb_check_nothing(L, "current_origin", 1);
  mwb_push_origin(L, s, L);
  return 1;
}

int mwb_because(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_coroutine *t = mwb_need_coroutine(L, s);
  mwb_push_origin(L, s, L);
  begin_origin(s, t, new_origin(L, s, (uint32_t)lua_tointeger(L, 1)));
  return 1;
}

static int close_origin(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  origin *o = (origin *)mwb_check_self(L, s, "close", MWB_ORIGIN, "origin");
  mwb_coroutine *t = o->of;
  if (mwb_put_off(L, s) || t == NULL || s->engine == NULL) return 0;
  o->of = NULL;
  s->journal->origins--;
  luaL_unref(L, LUA_REGISTRYINDEX, o->name);
  mwb_turn_context(s);
  mwb_end(L, s, t, MWB_BY_ORIGIN, &o->begun);
  return 0;
}

void mwb_open_origins(lua_State *L) {
  static const luaL_Reg functions[] = {{"origin", origin_function},
                                       {"current_origin", current_origin},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", close_origin}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_origin}, {"__gc", close_origin}, {NULL, NULL}};
  mwb_new_meta(L, MWB_ORIGIN, "origin", meta, methods);
  mwb_set_funcs(L, functions);
}
