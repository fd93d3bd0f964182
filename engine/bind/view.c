/*
** view.c - read-only views of the library's tables, for code in boxes.
** SPDX-License-Identifier: MIT
**
**     MWB_VIEWS:   table --> view (an empty table)
**     MWB_TARGETS: view --> table;  stand-in --> the object that it stands for
**
** A table has one view, so views can be compared.  A field that is a table is
** shown as a view; functions are shown as they are.  The keys of both tables
** are weak, and a view's table lives as long as the view.
*/
#include "view.h"

#include "class.h"
#include "library.h"
#include "shadow.h"

int mwb_push_target(lua_State *L, const mwb_state *s, int index) {
  int top = lua_gettop(L);
  index = lua_absindex(L, index);
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return 0;
  mwb_push(L, s, MWB_VIEW);
  if (!lua_rawequal(L, -1, -2)) {
    lua_settop(L, top);
    return 0;
  }
  mwb_push(L, s, MWB_TARGETS);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return 1;
}

/* Pops the key on the top and the value below it, and sets a field of one of
** the state's tables. */
static void set_field(lua_State *L, const mwb_state *s, int value) {
  mwb_push(L, s, value);
  lua_insert(L, -3);
  lua_insert(L, -2);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

void mwb_show(lua_State *L, const mwb_state *s) {
  int target = lua_gettop(L);
  if (lua_type(L, target) != LUA_TTABLE) return;
  if (mwb_push_target(L, s, target)) { /* a view is its own view */
    lua_settop(L, target);
    return;
  }
  mwb_push(L, s, MWB_VIEWS);
  lua_pushvalue(L, target);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_newtable(L);
    mwb_push(L, s, MWB_VIEW);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, target);
    lua_pushvalue(L, -2);
    set_field(L, s, MWB_TARGETS);
    lua_pushvalue(L, -1);
    lua_pushvalue(L, target);
    set_field(L, s, MWB_VIEWS);
  }
  lua_replace(L, target);
  lua_settop(L, target);
}

/* {======================================================
** Metamethods of views
** ======================================================= */

static void push_self(lua_State *L, const mwb_state *s) {
  if (!mwb_push_target(L, s, 1)) luaL_error(L, "a view expected");
}

static int view_index(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  push_self(L, s);
  lua_insert(L, 2);
  lua_gettable(L, 2);
  mwb_show(L, s);
  return 1;
}

static int view_newindex(lua_State *L) {
  return luaL_error(L, "this is read-only here");
}

static int view_len(lua_State *L) {
  lua_settop(L, 1);
  push_self(L, mwb_state_of(L));
  lua_len(L, 2);
  return 1;
}

static int view_tostring(lua_State *L) {
  lua_settop(L, 1);
  push_self(L, mwb_state_of(L));
  luaL_tolstring(L, 2, NULL);
  return 1;
}

/* next, in the contents of what is shown */
static int view_next(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  push_self(L, s);
  if (mwb_push_shadow(L, 3)) lua_replace(L, 3);
  lua_insert(L, 2);
  if (!lua_next(L, 2)) {
    lua_pushnil(L);
    return 1;
  }
  mwb_show(L, s);
  return 2;
}

static int view_pairs(lua_State *L) {
  lua_settop(L, 1);
  push_self(L, mwb_state_of(L));
  lua_settop(L, 1);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushcclosure(L, view_next, 2);
  lua_insert(L, 1);
  lua_pushnil(L);
  return 3;
}

/* }====================================================== */

/* {======================================================
** For the library's Lua files
** ======================================================= */

/* view(table[, object]) -> view; the table stands for the object */
static int view(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) {
    lua_pushvalue(L, 1);
    set_field(L, s, MWB_TARGETS);
  }
  lua_settop(L, 1);
  mwb_show(L, s);
  return 1;
}

/* Replaces the value on the top by what it shows or stands for. */
static void mean(lua_State *L, const mwb_state *s) {
  int top = lua_gettop(L);
  mwb_push(L, s, MWB_TARGETS);
  for (;;) {
    lua_pushvalue(L, top);
    if (lua_isnil(L, top) || lua_rawget(L, top + 1) == LUA_TNIL) break;
    lua_replace(L, top);
  }
  lua_settop(L, top);
}

/* meant(value) -> what the value shows or stands for, or the value */
static int meant(lua_State *L) {
  lua_settop(L, 1);
  mean(L, mwb_state_of(L));
  return 1;
}

/* is(a, b): do both mean the same object? */
static int is(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  mean(L, s);
  lua_insert(L, 1);
  mean(L, s);
  lua_pushboolean(L, lua_rawequal(L, 1, 2));
  return 1;
}

/* shown(value, of): the value, a field of `of`, as a view if `of` is the
** library's own */
static int shown(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  int ours;
  lua_settop(L, 2);
  ours = mwb_is_ours(L, s, 2);
  lua_settop(L, 1);
  if (ours) mwb_show(L, s);
  return 1;
}

void mwb_open_views(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__index", view_index}, {"__newindex", view_newindex},
      {"__len", view_len},     {"__tostring", view_tostring},
      {"__pairs", view_pairs}, {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {{"view", view},
                                       {"meant", meant},
                                       {"is", is},
                                       {"shown", shown},
                                       {NULL, NULL}};
  mwb_new_meta(L, MWB_VIEW, "view", meta, none);
  mwb_new_ephemeron(L, MWB_VIEWS);
  mwb_new_ephemeron(L, MWB_TARGETS);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
