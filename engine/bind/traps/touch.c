/*
** touch.c - changes told as writes: touches, methods, raw writes, metatables.
** SPDX-License-Identifier: MIT
*/
#include "../journal/journal.h"

#include "../base/base.h"
#include "trap.h"
#include "traps.h"

/* {======================================================
** Touches and methods
** ======================================================= */

static int touch(lua_State *L) {
  mwb_state *s = mwb_enter_object(L, "touch", KEY);
  mw_handle h = mwb_intercepting_at(L, s, OBJECT);
  mwb_write w;
  if (h == MW_NONE) return 0; /* nobody watches or tracks it */
  mwb_push_current(L, s);     /* VALUE: the write keeps what is there */
  lua_pushnil(L);
  lua_pushvalue(L, VALUE); /* OLD */
  mwb_write_open(L, s, &w, h, MW_TOUCH, MWB_GIVEN);
  mwb_write_run(&w, mwb_store_nothing);
  return 0;
}

/* Opens the write that stands for a method that changes the object, with the
** object and the method's name on the stack. */
static void open_call(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h) {
  lua_settop(L, KEY);
  lua_settop(L, OLD);
  mwb_write_open(L, s, w, h, MW_CALL, MWB_GIVEN);
}

/* begin_call(object, name) -> the sequence number for `end_call`, and whether
** the call has an entry; nil if the object is not watched, or if the policy
** calls the method to read or set the object's state */
static int begin_method(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_intercepting_at(L, s, OBJECT);
  mwb_write w;
  if (h == MW_NONE || h == s->traps->quiet) return 0; /* nobody is to hear */
  open_call(L, s, &w, h);
  if (!mwb_write_check(&w)) return lua_error(L); /* a guard has refused it */
  mwb_write_count(&w);
  mwb_write_before(&w);
  if (w.failed) { /* has a guard raised? Then the method does not run */
    lua_settop(L, FAILURE);
    return lua_error(L);
  }
  lua_pushinteger(L, (lua_Integer)w.seq);
  lua_pushboolean(L, lua_isuserdata(L, OBJECT) && mwb_appends(s));
  return 2;
}

/* end_call(object, name, number): the method has returned */
static int end_method(lua_State *L) {
  uint64_t seq = (uint64_t)lua_tointeger(L, 3);
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  mwb_write w;
  if (h == MW_NONE) return 0;
  open_call(L, s, &w, h);
  w.seq = seq;
  w.batched = mwb_in_batch(L, s);
  if (mwb_write_after(&w)) return lua_error(L);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Raw writes and metatables
** ======================================================= */

int mwb_take_raw(lua_State *L) {
  lua_settop(L, KEY);
  lua_pushvalue(L, KEY);
  lua_rawget(L, OBJECT);                     /* VALUE */
  if (!mwb_push_shadow(L, OBJECT)) return 0; /* given back meanwhile? */
  lua_pushvalue(L, KEY);
  lua_rawget(L, SHADOW);   /* OLD */
  if (lua_isnil(L, OLD)) { /* makes room, so that the field is not lost */
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    lua_rawset(L, SHADOW);
    lua_pushvalue(L, KEY);
    lua_pushnil(L);
    lua_rawset(L, SHADOW);
  }
  lua_pushvalue(L, KEY); /* a guard's mw.sync must not find the field */
  lua_pushnil(L);
  lua_rawset(L, OBJECT);
  return 1;
}

/* move_raw(object, key) -> whether this is reported: moves a field from the
** object itself to the shadow, as a write.  A guard may have written the field,
** or ended the watch, since it was found. */
static int move_raw(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  mwb_write w;
  int ignored = mwb_is_ignored(L, s); /* may raise, so the field is not taken */
  if (!mwb_take_raw(L) || lua_isnil(L, VALUE)) return 0; /* gone since? */
  mwb_write_open(L, s, &w, h, MW_RAW, MWB_GIVEN);
  w.ignored = ignored;
  if (ignored) { /* does it only move? */
    mwb_store_contents(&w);
    return 0;
  }
  mwb_write_run(&w, mwb_store_contents);
  lua_pushboolean(L, 1);
  return 1;
}

/* absorb(object) -> whether it had raw fields that are reported.  What is in
** the object itself, but for metamethods, was put there raw, and becomes
** contents, unless the object's class is at work.  Each field is a write, so
** all are told before the first error is raised.  What a guard puts raw
** meanwhile is left for the next time. */
static int absorb(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer n = 0, i;
  int found = 0, failed = 0;
  luaL_checkstack(L, LUA_MINSTACK, "raw fields");
  lua_settop(L, 1);
  lua_newtable(L);
  if (mwb_push_own(L, 1) && !mwb_in_class(s, mwb_handle_of(L, s, 1)))
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
      if (mwb_is_meta(L, -2)) continue; /* no contents */
      lua_pushvalue(L, -2);
      lua_rawseti(L, 2, ++n);
    }
  for (i = 1; i <= n; i++) {
    lua_settop(L, 3); /* the first error */
    lua_pushvalue(L, 1);
    lua_rawgeti(L, 2, i);
    if (mwb_pcall(L, s, move_raw, 2, 1) == LUA_OK) {
      found |= lua_toboolean(L, -1);
      continue;
    }
    if (!failed) lua_replace(L, 3);
    found = failed = 1;
  }
  lua_settop(L, 3);
  if (failed) return lua_error(L);
  lua_pushboolean(L, found);
  return 1;
}

/* raw_set(object, key, value) -> object: a write that only flags hear.
** A dead object, or one of a closed engine, stores as its trap does. */
static int raw_set(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = MW_NONE;
  mwb_write w;
  int n = lua_gettop(L);
  if (!lua_istable(L, 1)) return mwb_bad_argument(L, "rawset", 1, 1, "table");
  if (n < VALUE)
    return luaL_error(L, "bad argument #%d to 'rawset' (value expected)",
                      n + 1);
  lua_settop(L, VALUE);
  if (!mwb_push_own(L, OBJECT) ||                     /* a plain table? */
      mwb_in_class(s, mwb_handle_of(L, s, OBJECT))) { /* or by its class? */
    lua_settop(L, 3);
    lua_rawset(L, OBJECT);
    return 1;
  }
  if (s->engine != NULL) {
    mwb_enter(L);
    lua_pushvalue(L, OBJECT);
    mwb_call(L, s, absorb, 1, 0); /* no raw field is to hide it */
    h = mwb_handle_of(L, s, OBJECT);
  }
  lua_settop(L, 3);
  if (h == MW_NONE) { /* dead, or the engine closed? */
    lua_settable(L, OBJECT);
    return 1;
  }
  mwb_write_open(L, s, &w, h, MW_RAW, 0);
  w.change.flags_only = 1;
  w.ignored = mwb_is_ignored(L, s);
  if (w.ignored)
    mwb_store_contents(&w);
  else
    mwb_write_run(&w, mwb_store_contents);
  lua_settop(L, OBJECT);
  return 1;
}

static int sync(lua_State *L) {
  mwb_enter_object(L, "sync", 1);
  return absorb(L);
}

static void store_class(mwb_write *w) {
  mwb_change_class(w->L, w->s, w->obj, mwb_write_number(w));
}

static int set_metatable(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h;
  mwb_write w;
  mwb_check_dot(L, "setmetatable", lua_gettop(L));
  if (!lua_istable(L, 1))
    return mwb_bad_argument(L, "setmetatable", 1, 1, "table");
  if (lua_type(L, 2) != LUA_TNIL && !lua_istable(L, 2))
    return mwb_bad_argument(L, "setmetatable", 2, 2, "nil or table");
  lua_settop(L, 2);
  if (mwb_is_no_class(L, 2)) { /* by a function that copies objects? */
    lua_pushnil(L);
    lua_replace(L, 2);
  }
  mwb_push_class(L, 1);
  if (lua_istable(L, 3)) {
    lua_pushliteral(L, "__metatable");
    if (lua_rawget(L, 3) != LUA_TNIL)
      return luaL_error(L, "cannot change a protected metatable");
  }
  lua_settop(L, 3);
  h = mwb_intercepting_at(L, s, 1);
  if (h == MW_NONE) { /* does nobody watch or track it? */
    lua_pushvalue(L, 2);
    lua_setmetatable(L, 1);
  } else {
    lua_pushnil(L); /* no key */
    lua_insert(L, KEY);
    lua_pushvalue(L, SHADOW); /* OLD is the old class */
    mwb_write_open(L, s, &w, h, MW_METATABLE, MWB_GIVEN);
    if (!mwb_write_check(&w)) return lua_error(L);      /* refused */
    if (!lua_isnil(L, VALUE) && !lua_istable(L, VALUE)) /* given by a check? */
      return mwb_bad_argument(L, "setmetatable", VALUE, 2, "nil or table");
    if (mwb_is_weak_class(L, VALUE))
      return luaL_error(L,
                        "bad argument #2 to 'setmetatable' (a watched table "
                        "cannot become weak: it would lose entries without a "
                        "write)");
    mwb_write_run(&w, store_class);
  }
  lua_settop(L, 1);
  return 1;
}

/* }====================================================== */

const luaL_Reg mwb_calls_functions[] = {{"begin_call", begin_method},
                                        {"end_call", end_method},
                                        {"raw_set", raw_set},
                                        {NULL, NULL}};

const luaL_Reg mwb_touch_functions[] = {{"touch", touch},
                                        {"sync", sync},
                                        {"setmetatable", set_metatable},
                                        {NULL, NULL}};
