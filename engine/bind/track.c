/*
** track.c - objects whose writes can be recorded, though nobody watches them.
** SPDX-License-Identifier: MIT
*/
#include "bind.h"

/* track_one(object, below, reported): the object gets its trap. */
static int track_one(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int reported = lua_toboolean(L, 3);
  if (!reported && lua_istable(L, 1)) {
    mwb_push_class(L, 1);
    mwb_enshadow(L, 1, -1);
  }
  if (lua_toboolean(L, 2)) mwb_include(L, s, 1);
  if (!reported && lua_isuserdata(L, 1)) mwb_patch(L, 1);
  return 0;
}

/* What is below it? */
static int read_options(lua_State *L) {
  int below;
  if (lua_isnil(L, 2)) return 0;
  if (!lua_istable(L, 2)) mwb_bad_argument(L, "track", 2, 2, "table");
  for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
    lua_pushliteral(L, "deep");
    if (!lua_rawequal(L, -1, -3))
      luaL_error(L, "bad argument #2 to 'track' (unknown option '%s')",
                 luaL_tolstring(L, -3, NULL));
    lua_pop(L, 1);
    if (!lua_isboolean(L, -1))
      luaL_error(L,
                 "bad argument #2 to 'track' (option 'deep' is not a "
                 "boolean)");
  }
  lua_getfield(L, 2, "deep");
  below = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (below && !lua_istable(L, 1))
    luaL_error(L, "bad argument #2 to 'track' (option 'deep' is for tables)");
  return below;
}

static void give_up(lua_State *L, mwb_state *s, mw_handle h, int reported) {
  s->L = L;
  mw_object_untrack(s->engine, h);
  if (!reported) mwb_undo_shadow(L, 1);
  mwb_let_go(L, s, SIZE_MAX);
}

static int track(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int below, reported, code;
  mw_handle h;
  lua_settop(L, 2);
  mwb_trackable(L, "track");
  below = read_options(L);
  h = mwb_identify(L, s, "track", 1, 1);
  lua_settop(L, 1);
  reported = mwb_intercepts(s, h);
  mwb_push_function(L, track_one);
  s->L = L;
  code = mw_object_track(s->engine, h, below);
  mwb_check(L, code);
  lua_pushvalue(L, 1);
  lua_pushboolean(L, code == MW_NEW);
  lua_pushboolean(L, reported);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    give_up(L, s, h, reported);
    return lua_error(L);
  }
  mwb_wake(L, 1);
  lua_settop(L, 1);
  return 1;
}

static int untrack(lua_State *L) {
  mwb_state *s = mwb_enter_object(L, "untrack", 1);
  mw_handle h = mwb_handle_of(L, s, 1);
  s->L = L;
  if (mw_object_untrack(s->engine, h) != MW_OK) return 0;
  if (mwb_intercepts(s, h))
    mwb_rest(L, mwb_object_of(s, h), 1);
  else if (lua_istable(L, 1))
    mwb_unshadow(L, 1);
  else
    mwb_unpatch(L, 1);
  mwb_let_go(L, s, SIZE_MAX);
  return 0;
}

/* is_tracked(object) */
static int is_tracked(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mw_object_is_tracked(s->engine, mwb_handle_of(L, s, 1)));
  return 1;
}

/* reports(object): does it tell of its writes? */
static int reports(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mwb_intercepting_at(L, s, 1) != MW_NONE);
  return 1;
}

/* own(object) -> its own metatable */
static int own(lua_State *L) { return mwb_push_own(L, 1); }

/* reporting() -> array of all tables that tell of their writes */
static int reporting(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  uint32_t i;
  lua_Integer n = 0;
  lua_settop(L, 0);
  lua_newtable(L);
  for (i = 1; i < s->engine->identity.top; i++) {
    if (lua_rawgeti(L, MWB_UPOBJECTS, (lua_Integer)i) == LUA_TTABLE &&
        mwb_push_own(L, 2)) {
      lua_pop(L, 1);
      lua_rawseti(L, 1, ++n);
    }
    lua_settop(L, 1);
  }
  return 1;
}

void mwb_open_track(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"track", track}, {"untrack", untrack}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

void mwb_open_interception(lua_State *L) {
  static const luaL_Reg functions[] = {{"is_tracked", is_tracked},
                                       {"reports", reports},
                                       {"own", own},
                                       {"reporting", reporting},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
