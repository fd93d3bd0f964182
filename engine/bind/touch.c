/*
** touch.c - what is reported like a write: touches, calls, raw writes found.
** SPDX-License-Identifier: MIT
*/
#include "write.h"

/* {======================================================
** By hand, and of methods
** ======================================================= */

/* Puts what the report of a write needs on the stack, for a value that stays as
** it is. */
static void read_current(lua_State *L) {
  lua_settop(L, KEY);
  mwb_push_current(L); /* VALUE */
  lua_pushnil(L);
  lua_pushvalue(L, VALUE); /* OLD */
}

static int touch(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mw_handle h = mwb_intercepting_at(L, mwb_enter_object(L, "touch", 2), 1);
  if (h == MW_NONE) return 0;
  read_current(L);
  moment = mwb_begin_write(L, &f, h, MW_TOUCH);
  mwb_end_write(&f, moment);
  return 0;
}

/* Puts what the report of a method that changes the object needs on the stack,
** which has the object and the method's name. */
static void call_report(lua_State *L) {
  int i;
  lua_settop(L, KEY);
  for (i = VALUE; i <= OLD; i++) lua_pushnil(L);
}

/* begin_call(object, name) -> moment; nil if the object is not watched */
static int begin_call(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mw_handle h = mwb_intercepting_at(L, mwb_enter(L), OBJECT);
  if (h == MW_NONE) return 0;
  call_report(L);
  moment = mwb_begin_write(L, &f, h, MW_CALL);
  lua_pushinteger(L, (lua_Integer)moment);
  lua_replace(L, OBJECT);
  lua_settop(L, FAILURE);
  if (f.failed) return lua_error(L);
  lua_settop(L, OBJECT);
  return 1;
}

/* end_call(object, name, moment): the method has returned */
static int end_call(lua_State *L) {
  write_frame f;
  lua_Integer moment = lua_tointeger(L, 3);
  mwb_state *s = mwb_enter(L);
  call_report(L);
  mwb_set_change(L, &f, mwb_handle_of(L, s, OBJECT), MW_CALL);
  mwb_end_write(&f, (uint64_t)moment);
  return 0;
}

/* }====================================================== */

/* {======================================================
** What was written raw, and metatables
** ======================================================= */

/* Moves a field that was put into the object itself, key at KEY, to the shadow
** and reports it. */
static void report_raw(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  mwi_object *r;
  write_frame f;
  uint64_t moment;
  read_current(L);
  lua_pushvalue(L, KEY);
  lua_rawget(L, OBJECT);
  lua_replace(L, VALUE);
  if (!mwb_is_meta(L, KEY)) { /* so that a guard finds nothing to sync */
    lua_pushvalue(L, KEY);
    lua_pushnil(L);
    lua_rawset(L, OBJECT);
  }
  moment = mwb_begin_write(L, &f, h, MW_RAW);
  r = mwb_object_of(f.state, h);
  if (r != NULL) mwb_need_len(L, OBJECT, r);
  if (!mwb_push_shadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  lua_replace(L, SHADOW);
  mwb_put(L, SHADOW, r);
  mwb_end_write(&f, moment);
}

/* Are the two values on the top the same?  NaN is. */
static int are_same(lua_State *L) {
  return lua_rawequal(L, -1, -2) ||
         (!lua_rawequal(L, -1, -1) && !lua_rawequal(L, -2, -2));
}

/* Pushes a key that is in the object and not, or otherwise, in the shadow at
** index 2; 0 when there is none. */
static int find_raw(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 2)) {
    lua_pushvalue(L, -2);
    lua_rawget(L, 2);
    if (!mwb_is_meta(L, -3) || !are_same(L)) {
      lua_pop(L, 2);
      return 1;
    }
  }
  return 0;
}

static int report_one(lua_State *L) {
  report_raw(L);
  return 0;
}

static int sync(lua_State *L) {
  int found = 0;
  mwb_enter_object(L, "sync", 1);
  while (lua_settop(L, 1), mwb_push_shadow(L, 1) && find_raw(L)) {
    found = 1;
    mwb_push_function(L, report_one);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 3);
    lua_call(L, 2, 0);
  }
  lua_pushboolean(L, found);
  return 1;
}

static int set_metatable(lua_State *L) {
  write_frame f;
  mw_handle h;
  mwb_state *s = mwb_enter(L);
  uint64_t moment;
  if (!lua_istable(L, 1))
    return mwb_bad_argument(L, "setmetatable", 1, 1, "table");
  if (lua_type(L, 2) != LUA_TNIL && !lua_istable(L, 2))
    return mwb_bad_argument(L, "setmetatable", 2, 2, "nil or table");
  lua_settop(L, 2);
  mwb_push_class(L, 1);
  if (lua_istable(L, 3)) {
    lua_pushliteral(L, "__metatable");
    if (lua_rawget(L, 3) != LUA_TNIL)
      return luaL_error(L, "cannot change a protected metatable");
  }
  lua_settop(L, 3);
  h = mwb_intercepting_at(L, s, 1);
  if (h == MW_NONE) {
    lua_pushvalue(L, 2);
    lua_setmetatable(L, 1);
  } else {
    lua_pushnil(L); /* no key */
    lua_insert(L, 2);
    lua_pushvalue(L, 4); /* old class to OLD */
    lua_pushnil(L);
    lua_replace(L, SHADOW);
    moment = mwb_begin_write(L, &f, h, MW_METATABLE);
    mwb_change_class(L, s, h);
    mwb_end_write(&f, moment);
  }
  lua_settop(L, 1);
  return 1;
}

/* }====================================================== */

void mwb_open_calls(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"begin_call", begin_call}, {"end_call", end_call}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

void mwb_open_touch(lua_State *L) {
  static const luaL_Reg functions[] = {{"touch", touch},
                                       {"sync", sync},
                                       {"setmetatable", set_metatable},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
