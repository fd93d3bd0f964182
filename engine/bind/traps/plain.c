/*
** plain.c - mw.plain: deep copies that nothing tracks.
** SPDX-License-Identifier: MIT
**
** A list holds the tables to copy, in the order of their discovery, and a table
** maps each of them to its copy, which is empty at first.  To scan a table is
** to fill its copy; a table that is found there for the first time gets a copy
** and goes to the end of the list.  So nothing recurs.
**
** Classes (state.c), weak tables and the library's own objects are not copied.
** A table can be found in a field before an object shows that the table is a
** class.  Then the copies are made anew, with all classes known from the start.
** The value itself is copied though it may be a class.
*/
#include "../readers/readers.h"

#include "traps.h"

/* The stack of `plain`. */
enum { VALUE = 1, CLASSES, COPIES, LIST, OBJECT, CONTENTS, CLASS, COPY };

/* Is the table at `index` an object of the library?  An entry of a reader is
** none here, and gets its fields, as whenever one of them is read. */
static int is_library_object(lua_State *L, int index) {
  if (!mwb_is_ours(L, index)) return 0;
  if (luaL_getmetafield(L, index, "is_entry") == LUA_TNIL) return 1;
  lua_getfield(L, index, "kind");
  lua_pop(L, 2);
  return 0;
}

/* Gives the table on the top an empty copy, and replaces the table by the
** copy. */
static void new_copy(lua_State *L) {
  int top = lua_gettop(L);
  mwb_push_contents(L, top);
  lua_createtable(L, (int)lua_rawlen(L, top + 1), 0);
  lua_replace(L, top + 1);
  lua_pushvalue(L, top);
  lua_pushvalue(L, top + 1);
  lua_rawset(L, COPIES);
  lua_insert(L, top);
  lua_rawseti(L, LIST, (lua_Integer)lua_rawlen(L, LIST) + 1);
}

/* Replaces the value on the top by what stands for the value in the copy.  The
** key is below. */
static void stand_in(lua_State *L, mwb_state *s, mwb_classes *walk) {
  int top = lua_gettop(L);
  if (!lua_istable(L, top)) return;   /* it stands for itself */
  if (!lua_rawequal(L, top, VALUE) && /* which is copied anyhow */
      (!mwb_is_contents(L, s, OBJECT, walk) || is_library_object(L, top) ||
       mwb_is_weak(L, top)))
    return;
  lua_pushvalue(L, top);
  if (lua_rawget(L, COPIES) != LUA_TNIL) { /* found before? */
    lua_replace(L, top);
    return;
  }
  lua_settop(L, top);
  new_copy(L);
}

/* May the copy have the class?  Finalisers are for the object alone, and a
** class that keeps the fields elsewhere does not know the copy. */
static int can_have_class(lua_State *L) {
  int finalised = mwb_raw_field(L, CLASS, "__gc") != LUA_TNIL ||
                  mwb_raw_field(L, CLASS, "__close") != LUA_TNIL;
  int elsewhere = mwb_raw_field(L, CLASS, "__index") == LUA_TFUNCTION &&
                  mwb_raw_field(L, CLASS, "__newindex") == LUA_TFUNCTION;
  int empty;
  lua_settop(L, COPY);
  if (finalised || !elsewhere) return !finalised;
  lua_pushnil(L);
  empty = lua_next(L, CONTENTS) == 0;
  lua_settop(L, COPY);
  return !empty; /* do its fields lie here, for all that? */
}

static void copy_fields(lua_State *L, mwb_state *s, mwb_classes *walk) {
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_settop(L, COPY + 1)) {
    stand_in(L, s, walk);
    lua_pushnil(L); /* an object as a key has no key */
    lua_pushvalue(L, COPY + 1);
    stand_in(L, s, walk);
    lua_replace(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, COPY);
  }
}

/* Fills the copy of the object on the top. */
static void fill_copy(lua_State *L, mwb_state *s, mwb_classes *walk) {
  mwb_note_classes(L, s, OBJECT, walk);
  mwb_push_all(L, OBJECT);
  mwb_push_class(L, OBJECT);
  lua_pushvalue(L, OBJECT);
  lua_rawget(L, COPIES);
  if (!lua_isnil(L, CLASS) && can_have_class(L)) {
    lua_pushvalue(L, CLASS);
    lua_setmetatable(L, COPY);
  }
  copy_fields(L, s, walk);
}

static int plain(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mwb_classes walk = {CLASSES, COPIES, 0, 0};
  lua_Integer i;
  if (lua_isnone(L, 1))
    return luaL_error(L, "bad argument #1 to 'plain' (value expected)");
  mwb_check_dot(L, "plain", lua_gettop(L));
  lua_settop(L, 1);
  if (!lua_istable(L, 1) || is_library_object(L, 1) || mwb_is_weak(L, 1))
    return 1; /* itself */
  lua_newtable(L);
  do {
    walk.late = 0;
    lua_settop(L, CLASSES);
    lua_newtable(L); /* COPIES */
    lua_newtable(L); /* LIST */
    lua_pushvalue(L, VALUE);
    new_copy(L);
    lua_settop(L, LIST);
    for (i = 1; lua_rawgeti(L, LIST, i) != LUA_TNIL; i++) {
      fill_copy(L, s, &walk);
      lua_settop(L, LIST);
    }
  } while (walk.late); /* has a table turned out a class after it was copied? */
  lua_pushvalue(L, VALUE);
  lua_rawget(L, COPIES);
  return 1;
}

const luaL_Reg mwb_plain_functions[] = {{"plain", plain}, {NULL, NULL}};
