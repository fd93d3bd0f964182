/*
** plain.c - mw.plain: deep copies that nothing tracks.
** SPDX-License-Identifier: MIT
**
** A list holds the tables to copy, in the order of their discovery, and a table
** maps each of them to its copy, which is empty at first.  To scan a table is
** to fill its copy; a table that is found there for the first time gets a copy
** and goes to the end of the list.  So nothing recurs.
**
** Classes and the library's own objects are mapped to themselves.  A table can
** be found in a field before an object shows that the table is a class.  Then
** the copies are made anew, with all classes known from the start.  The value
** itself is copied though it may be a class.
*/
#include "class.h"
#include "library.h"
#include "shadow.h"

/* The stack of `plain`.  CLASSES maps a table to the last metatable for which
** the table was looked at, or to `true` if the table is a class. */
enum { VALUE = 1, CLASSES, COPIES, LIST, OBJECT, CONTENTS, CLASS, COPY };

/* Is the table at `index` an object of the library?  An entry of a reader is
** none here, and gets its fields, as whenever one of them is read. */
static int is_ours(lua_State *L, const mwb_state *s, int index) {
  int is_entry;
  if (!mwb_is_ours(L, s, index)) return 0;
  lua_getmetatable(L, index);
  mwb_push(L, s, MWB_ENTRY);
  is_entry = lua_rawequal(L, -1, -2);
  if (is_entry) lua_getfield(L, index, "kind");
  lua_pop(L, 2 + is_entry);
  return !is_entry;
}

/* Gives the table on the top, which is new, an empty copy, and replaces the
** table by the copy. */
static void new_copy(lua_State *L, const mwb_state *s) {
  int top = lua_gettop(L);
  if (is_ours(L, s, top)) return;
  if (!mwb_push_shadow(L, top)) lua_pushvalue(L, top);
  lua_createtable(L, (int)lua_rawlen(L, top + 1), 0);
  lua_replace(L, top + 1);
  lua_pushvalue(L, top);
  lua_pushvalue(L, top + 1);
  lua_rawset(L, COPIES);
  lua_insert(L, top);
  lua_rawseti(L, LIST, (lua_Integer)lua_rawlen(L, LIST) + 1);
}

/* Replaces the value on the top by what stands for the value in the copy. */
static void translate(lua_State *L, const mwb_state *s) {
  if (lua_type(L, -1) != LUA_TTABLE) return;
  lua_pushvalue(L, -1);
  if (lua_rawget(L, COPIES) != LUA_TNIL) {
    lua_replace(L, -2);
    return;
  }
  lua_pop(L, 1);
  new_copy(L, s);
}

/* Pops a table that is a class.  Returns whether the table has a copy
** already. */
static int add_class(lua_State *L) {
  int late = 0;
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, CLASSES);
  if (lua_rawequal(L, -1, VALUE)) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushvalue(L, -1);
  if (lua_rawget(L, COPIES) != LUA_TNIL) late = !lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_rawset(L, COPIES);
  return late;
}

/* Is the table on the top a class, or was it found to be none for CLASS? */
static int is_looked_at(lua_State *L) {
  int yes;
  lua_pushvalue(L, -1);
  yes = lua_rawget(L, CLASSES) == LUA_TBOOLEAN || lua_rawequal(L, -1, CLASS);
  lua_pop(L, 1);
  return yes;
}

/* Has the table on the top CLASS in one of its fields? */
static int holds_class(lua_State *L) {
  int top = lua_gettop(L), found = 0;
  if (!mwb_push_shadow(L, top)) lua_pushvalue(L, top);
  lua_pushnil(L);
  while (!found && lua_next(L, top + 1) != 0) {
    found = lua_rawequal(L, -1, CLASS);
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  return found;
}

/* Adds the classes that the object at OBJECT shows: its metatable, the table in
** the metatable's `__index`, and the table in the object's field `class` if
** this table holds the metatable.  Returns whether one has a copy already. */
static int add_classes(lua_State *L) {
  int late = 0;
  lua_pushvalue(L, CLASS);
  if (!is_looked_at(L)) {
    late = add_class(L);
    if (mwb_raw_field(L, CLASS, "__index") == LUA_TTABLE) late |= add_class(L);
  }
  lua_settop(L, COPY);
  if (mwb_raw_field(L, CONTENTS, "class") == LUA_TTABLE && !is_looked_at(L)) {
    if (holds_class(L)) {
      late |= add_class(L);
    } else {
      lua_pushvalue(L, CLASS);
      lua_rawset(L, CLASSES);
    }
  }
  lua_settop(L, COPY);
  return late;
}

static int has_function(lua_State *L, const char *name) {
  int is = mwb_raw_field(L, CLASS, name) == LUA_TFUNCTION;
  lua_pop(L, 1);
  return is;
}

/* May the copy have the class?  Finalisers are for the object alone, and a
** class that keeps the fields elsewhere does not know the copy. */
static int can_have_class(lua_State *L) {
  int finalised, empty;
  finalised = mwb_raw_field(L, CLASS, "__gc") != LUA_TNIL ||
              mwb_raw_field(L, CLASS, "__close") != LUA_TNIL;
  lua_settop(L, COPY);
  if (finalised) return 0;
  if (!has_function(L, "__index") || !has_function(L, "__newindex")) return 1;
  lua_pushnil(L);
  empty = lua_next(L, CONTENTS) == 0;
  lua_settop(L, COPY);
  return !empty;
}

static void copy_fields(lua_State *L, const mwb_state *s) {
  lua_pushnil(L);
  while (lua_next(L, CONTENTS) != 0) {
    lua_pushvalue(L, -2);
    translate(L, s);
    lua_insert(L, -2);
    translate(L, s);
    lua_rawset(L, COPY);
  }
}

/* Fills the copy of the object on the top.  Returns whether a class has a copy
** already. */
static int scan(lua_State *L, mwb_state *s) {
  int late = 0;
  mwb_absorb(L, s, OBJECT);
  if (!mwb_push_shadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  mwb_push_class(L, OBJECT);
  lua_pushvalue(L, OBJECT);
  lua_rawget(L, COPIES);
  if (!lua_isnil(L, CLASS)) {
    late = add_classes(L);
    if (can_have_class(L)) {
      lua_pushvalue(L, CLASS);
      lua_setmetatable(L, COPY);
    }
  }
  copy_fields(L, s);
  return late;
}

/* Makes COPIES, with the classes that are known. */
static void begin_copies(lua_State *L) {
  lua_settop(L, CLASSES);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, CLASSES) != 0; lua_pop(L, 1)) {
    if (!lua_isboolean(L, -1) || lua_rawequal(L, -2, VALUE)) continue;
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -1);
    lua_rawset(L, COPIES);
  }
  lua_newtable(L);
}

static int plain(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer i;
  int late;
  if (lua_isnone(L, 1))
    return luaL_error(L, "bad argument #1 to 'plain' (value expected)");
  mwb_check_dot(L, "plain", lua_gettop(L));
  lua_settop(L, 1);
  if (!lua_istable(L, 1) || is_ours(L, s, 1)) return 1;
  lua_newtable(L);
  do {
    late = 0;
    begin_copies(L);
    lua_pushvalue(L, VALUE);
    translate(L, s);
    lua_pop(L, 1);
    for (i = 1; lua_rawgeti(L, LIST, i) != LUA_TNIL; i++) {
      late |= scan(L, s);
      lua_settop(L, LIST);
    }
  } while (late);
  lua_pushvalue(L, VALUE);
  lua_rawget(L, COPIES);
  return 1;
}

void mwb_open_plain(lua_State *L) {
  static const luaL_Reg functions[] = {{"plain", plain}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
