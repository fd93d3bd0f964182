/*
** view.c - read-only views of tables, for code in boxes.
** SPDX-License-Identifier: MIT
**
**     MWB_VIEWS:   table --> view (an empty table)
**     MWB_TARGETS: view --> table;  stand-in --> the object that it stands for
**
** Code in a box sees what the library has, and the metatables of the program's
** objects, by views.  A table has one view, so views can be compared.  A field
** that is a table is shown as a view; functions are shown as they are.  The
** keys of both tables are weak, and a view's table lives as long as the view.
**
** The functions of a box that stand for Lua's raw ones know views.
*/
#include "box.h"

#include "../base/base.h"
#include "../traps/traps.h"

/* Pushes what the view at `index` shows, or returns 0. */
static int push_target(lua_State *L, const mwb_state *s, int index) {
  int top = lua_gettop(L);
  index = lua_absindex(L, index);
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return 0;
  mwb_push(L, s, MWB_VIEW);
  if (!lua_rawequal(L, -1, -2)) { /* is it no view? */
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

/* Replaces a table on the top by its view. */
static void show(lua_State *L, const mwb_state *s) {
  int target = lua_gettop(L);
  if (lua_type(L, target) != LUA_TTABLE) return; /* shown as it is */
  if (push_target(L, s, target)) {               /* a view is its own view */
    lua_settop(L, target);
    return;
  }
  mwb_push(L, s, MWB_VIEWS);
  lua_pushvalue(L, target);
  if (lua_rawget(L, -2) == LUA_TNIL) { /* has it no view yet? */
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

static void push_self(lua_State *L, const mwb_state *s) {
  if (!push_target(L, s, 1)) luaL_error(L, "a view expected");
}

static int view_index(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  push_self(L, s);
  lua_insert(L, 2);
  lua_gettable(L, 2);
  show(L, s);
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

/* Replaces a view at `index` by what it shows.  Returns whether it was one. */
static int unveil(lua_State *L, int index) {
  if (!push_target(L, mwb_state_of(L), index)) return 0;
  lua_replace(L, index);
  return 1;
}

/* Puts the contents of a table in its place at 1: of a watched one, or of what
** a view shows.  Returns whether it was a view. */
static int see_through(lua_State *L) {
  int is_view = unveil(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  mwb_push_all(L, 1);
  lua_replace(L, 1);
  return is_view;
}

static int see_next(lua_State *L) {
  int is_view = see_through(L);
  lua_settop(L, 2);
  if (!lua_next(L, 1)) {
    lua_pushnil(L);
    return 1;
  }
  if (is_view) show(L, mwb_state_of(L)); /* its fields, too */
  return 2;
}

static int see_rawget(lua_State *L) {
  int is_view = see_through(L);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  lua_rawget(L, 1);
  if (is_view) show(L, mwb_state_of(L));
  return 1;
}

static int see_rawlen(lua_State *L) {
  int type = lua_type(L, 1);
  luaL_argexpected(L, type == LUA_TTABLE || type == LUA_TSTRING, 1,
                   "table or string");
  if (type == LUA_TTABLE) see_through(L);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  return 1;
}

/* The third upvalue of `see_pairs` is the `next` that goes with it; of the
** functions below, the metatables that code in boxes has set: its own, which it
** may write to. */
#define UP_THIRD lua_upvalueindex(3)

static int see_pairs(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  mwb_push_class(L, 1); /* the program's, of a watched object */
  if (lua_istable(L, 2) && mwb_raw_field(L, 2, "__pairs") != LUA_TNIL) {
    lua_pushvalue(L, 1); /* the class has its own */
    lua_call(L, 1, 3);
    return 3;
  }
  lua_pushvalue(L, UP_THIRD);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int view_pairs(lua_State *L) {
  lua_settop(L, 1);
  mwb_push_function(L, mwb_state_of(L), see_next);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* raw_functions() -> new `next`, `pairs`, `rawget` and `rawlen` that know
** watched objects, and call none of the globals, which may be the program's */
static int raw_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"next", see_next},
                                       {"rawget", see_rawget},
                                       {"rawlen", see_rawlen},
                                       {NULL, NULL}};
  lua_newtable(L);
  mwb_set_funcs(L, functions);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_getfield(L, -3, "next");
  lua_pushcclosure(L, see_pairs, 3);
  lua_setfield(L, -2, "pairs");
  return 1;
}

static int box_rawset(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  if (push_target(L, mwb_state_of(L), 1)) return view_newindex(L);
  lua_rawset(L, 1);
  return 1;
}

/* The metatable of strings belongs to the whole program, and is not shown. */
static int box_getmetatable(lua_State *L) {
  int own;
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushboolean(L, 0);
    return 1;
  }
  mwb_push_class(L, 1);
  if (!lua_istable(L, 2)) return 1; /* it has none */
  if (mwb_raw_field(L, 2, "__metatable") == LUA_TNIL) lua_pop(L, 1);
  lua_pushvalue(L, -1);
  own = lua_istable(L, -1) && lua_rawget(L, UP_THIRD) != LUA_TNIL;
  lua_pop(L, 1);
  if (!own) show(L, mwb_state_of(L)); /* the program's? */
  return 1;
}

/* No budget counts in finalisers, and closers may run when it is spent. */
static int box_setmetatable(lua_State *L) {
  static const char *const names[] = {"__gc", "__close"};
  int type = lua_type(L, 2), i;
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2,
                   "nil or table");
  lua_settop(L, 2);
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
    return luaL_error(L, "cannot change a protected metatable");
  if (type == LUA_TTABLE && !unveil(L, 2)) { /* the code's own? */
    lua_pushvalue(L, 2);
    lua_pushboolean(L, 1);
    lua_rawset(L, UP_THIRD);
  }
  for (i = 0; i < 2 && type == LUA_TTABLE; i++) {
    if (mwb_raw_field(L, 2, names[i]) != LUA_TNIL)
      return luaL_error(L, "a %s may not set '%s'", mwb_kind_of_box(L),
                        names[i]);
    lua_pop(L, 1);
  }
  lua_setmetatable(L, 1);
  return 1;
}

/* view(table[, object]) -> view; the table stands for the object */
static int view(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) { /* a stand-in? */
    lua_pushvalue(L, 1);
    set_field(L, s, MWB_TARGETS);
  }
  lua_settop(L, 1);
  show(L, s);
  return 1;
}

/* meant(value) -> what the value shows or stands for, or the value */
static int meant(lua_State *L) {
  lua_settop(L, 1);
  mwb_push(L, mwb_state_of(L), MWB_TARGETS);
  for (;;) {
    lua_pushvalue(L, 1);
    if (lua_isnil(L, 1) || lua_rawget(L, 2) == LUA_TNIL) break; /* no view? */
    lua_replace(L, 1);
  }
  lua_settop(L, 1);
  return 1;
}

void mwb_open_views(lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", view_index},
                                  {"__newindex", view_newindex},
                                  {"__len", view_len},
                                  {"__pairs", view_pairs},
                                  {NULL, NULL}};
  static const luaL_Reg functions[] = {{"view", view},
                                       {"meant", meant},
                                       {"raw_functions", raw_functions},
                                       {NULL, NULL}};
  mwb_new_meta(L, MWB_VIEW, "view", meta, NULL);
  mwb_new_ephemeron(L, MWB_VIEWS);
  mwb_new_ephemeron(L, MWB_TARGETS);
  static const luaL_Reg given[] = {{"getmetatable", box_getmetatable},
                                   {"setmetatable", box_setmetatable},
                                   {"rawset", box_rawset},
                                   {NULL, NULL}};
  mwb_set_funcs(L, functions);
  lua_getfield(L, -1, "for_boxes");
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  mwb_push_weak(L, "k");
  luaL_setfuncs(L, given, 3);
  lua_pop(L, 1);
}
