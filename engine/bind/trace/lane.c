/*
** lane.c - coroutines in traces, and how long they are suspended.
** SPDX-License-Identifier: MIT
**
**     MWB_THREADS: coroutine --> lane (userdata)
**     MWB_LANE: the main program's lane
**
** The keys of MWB_THREADS are weak; an open scope holds its lane.  The time of
** a coroutine that is suspended belongs to others, so while somebody measures
** or traces, the library's own coroutine.yield takes the place of Lua's: it
** notes how long a coroutine with open scopes waits, in a trace as a span
** "suspended".
*/
#include "trace.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"

/* Pushes a new lane. */
static mwb_lane *push_new(lua_State *L, mw_thread number) {
  mwb_lane *lane =
      (mwb_lane *)lua_newuserdatauv(L, sizeof(mwb_lane), MWB_HANDLES);
  memset(lane, 0, sizeof(mwb_lane));
  lane->number = number;
  lua_newtable(L);
  lua_setiuservalue(L, -2, MWB_ELEMENTS);
  mwb_push_weak(L, "v");
  lua_setiuservalue(L, -2, MWB_HANDLES);
  return lane;
}

/* lane(thread, number) -> lane, protected: there may be no memory. */
static int new_lane(lua_State *L) {
  const mwb_state *s = (const mwb_state *)lua_touserdata(L, 3);
  push_new(L, (mw_thread)lua_tointeger(L, 2));
  mwb_push(L, s, MWB_THREADS);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return 1;
}

/* Pushes the lane of the running coroutine, or nil. */
static mwb_lane *push_known(lua_State *L, const mwb_state *s) {
  if (L == s->main) {
    mwb_push(L, s, MWB_LANE);
  } else {
    mwb_push(L, s, MWB_THREADS);
    lua_pushthread(L);
    lua_rawget(L, -2);
    lua_replace(L, -2);
  }
  return (mwb_lane *)lua_touserdata(L, -1);
}

mwb_lane *mwb_known_lane(lua_State *L, const mwb_state *s) {
  mwb_lane *lane;
  if (L == s->main) return s->trace->lane;
  if (s->trace->scopes == 0 || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
  lane = push_known(L, s);
  lua_pop(L, 1);
  return lane;
}

mwb_lane *mwb_push_lane(lua_State *L, mwb_state *s) {
  mwb_lane *lane;
  if (!lua_checkstack(L, LUA_MINSTACK)) return NULL;
  if ((lane = push_known(L, s)) != NULL) return lane;
  lua_pop(L, 1);
  lua_pushcfunction(L, new_lane);
  lua_pushthread(L);
  lua_pushinteger(L, s->trace->threads + MWB_MAIN + 1);
  lua_pushlightuserdata(L, s);
  if (lua_pcall(L, 3, 1, 0) != LUA_OK) { /* no memory? */
    lua_pop(L, 1);
    return NULL;
  }
  s->trace->threads++;
  return (mwb_lane *)lua_touserdata(L, -1);
}

mw_thread mwb_thread(lua_State *L, mwb_state *s) {
  const mwb_lane *lane;
  mw_thread number;
  if (L == s->main) return MWB_MAIN;
  lane = mwb_push_lane(L, s);
  if (lane == NULL) return 0; /* no memory? */
  number = lane->number;
  lua_pop(L, 1);
  return number;
}

int64_t mwb_waited(const mwb_lane *lane) {
  return lane->waited + ((lane->since != 0) ? mwb_now(NULL) - lane->since : 0);
}

/* The coroutine goes on; the identity of the span "suspended" is at 1. */
static int go_on(lua_State *L, int status, lua_KContext context) {
  mwb_state *s = mwb_state_of(L);
  mwb_lane *lane = push_known(L, s);
  (void)status;
  (void)context;
  lua_pop(L, 1);
  if (lane != NULL && lane->since != 0) { /* is the wait to be counted? */
    lane->waited = mwb_waited(lane);
    lane->since = 0;
  }
  if (s->engine != NULL) /* not closed meanwhile? */
    mw_trace_end(s->engine, (uint64_t)lua_tointeger(L, 1), NULL, 0);
  return lua_gettop(L) - 1;
}

/* coroutine.yield(...) */
static int yield(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int n = lua_gettop(L);
  mwb_lane *lane;
  uint64_t id;
  if (s->engine == NULL || !lua_isyieldable(L)) return lua_yield(L, n);
  lane = mwb_known_lane(L, s);
  if (lane == NULL || lane->open == 0) return lua_yield(L, n); /* no scopes? */
  id = mwb_trace_begin(L, s, "coroutine", "suspended", 9);
  lane->since = mwb_now(NULL);
  lua_pushinteger(L, (lua_Integer)id);
  lua_insert(L, 1);
  return lua_yieldk(L, n, 0, go_on);
}

/* Puts the library's function in the place of coroutine.yield, unless that is
** written in Lua; or puts back what was there, if ours is still there. */
static void put_yield(lua_State *L, const mwb_state *s, int ours) {
  int top = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) {
    lua_getfield(L, -1, "yield");
    if (ours && lua_iscfunction(L, -1)) { /* else the program has its own */
      mwb_keep(L, s, MWB_YIELD);
      mwb_push_function(L, s, yield);
      lua_setfield(L, -2, "yield");
    } else if (!ours && lua_tocfunction(L, -1) == yield) { /* still ours? */
      mwb_push(L, s, MWB_YIELD);
      lua_setfield(L, -3, "yield");
    }
  }
  lua_settop(L, top);
}

void mwb_note_measuring(lua_State *L, mwb_state *s, int soon) {
  int wanted =
      soon || mwb_is_running(s) || s->trace->timing || s->trace->columns > 0;
  if (wanted == s->trace->yields || !lua_checkstack(L, LUA_MINSTACK)) return;
  put_yield(L, s, wanted);
  s->trace->yields = wanted;
}

void mwb_open_lanes(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_new_ephemeron(L, MWB_THREADS);
  s->trace->lane = push_new(L, MWB_MAIN);
  mwb_keep(L, s, MWB_LANE);
}
