/*
** state.c - what a class is, which is no part of any object's state.
** SPDX-License-Identifier: MIT
**
** Whatever walks from object to object (deep watches and tracks, feeds,
** snapshots and hashes, mw.plain, bytes and patches) asks here, and enters no
** class.  A class is
**
** - the metatable of an object, the table in the metatable's `__index`, and
**   what these inherit from in the same way,
** - the table in an object's field `class` or `_class` that holds the object's
**   metatable in one of its fields,
** - a table that has a name (mw.name_class),
** - the table of globals, `package`, and the tables of Lua's own libraries.
**
** MWB_CLASSY has the classes that the library knows, weakly held: those of
** objects that are watched deeply, those with a name, and Lua's own tables.  A
** walk over other objects keeps what it finds to itself, so that a call that
** only reads changes nothing.
*/
#include "base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

/* Has the table at `set` the value at `index`? */
static int has(lua_State *L, int set, int index) {
  int yes;
  lua_pushvalue(L, index);
  yes = lua_rawget(L, set) != LUA_TNIL;
  lua_pop(L, 1);
  return yes;
}

int mwb_is_class(lua_State *L, const mwb_state *s, int index,
                 const mwb_classes *walk) {
  int yes;
  index = lua_absindex(L, index);
  mwb_push(L, s, MWB_CLASSY);
  yes = has(L, lua_gettop(L), index);
  lua_pop(L, 1);
  return yes || (walk != NULL && walk->any && has(L, walk->found, index));
}

/* The table on the top is a class: for the walk, or for all (NULL). */
static void add_class(lua_State *L, mwb_state *s, mwb_classes *walk) {
  int top = lua_gettop(L);
  if (walk != NULL)
    lua_pushvalue(L, walk->found);
  else
    mwb_push(L, s, MWB_CLASSY);
  lua_pushvalue(L, top);
  lua_pushboolean(L, 1);
  lua_rawset(L, top + 1);
  lua_settop(L, top);
  if (walk != NULL) {
    walk->any = 1;
    walk->late |= has(L, walk->entered, top);
  } else {
    mw_tree_expel(s->engine, mwb_handle_of(L, s, top));
    if (mwb_has_orphans(s)) s->pending = 1; /* what was below the class? */
  }
}

/* Longer chains of classes are loops. */
#define MAXCHAIN 200

/* Adds the metatable on the top, which may be nil, and what it inherits from:
** its `__index`, the metatable of that, and so on.  Pops it.  A metatable that
** is known was added with all above it. */
static void add_chain(lua_State *L, mwb_state *s, mwb_classes *walk) {
  int top = lua_gettop(L), n, is_index;
  for (n = 0; n < MAXCHAIN && lua_istable(L, top); n++) {
    is_index = n % 2;
    if (!mwb_is_class(L, s, top, walk))
      add_class(L, s, walk);
    else if (!is_index) /* known, with all that it inherits from? */
      break;
    if (is_index) /* the `__index` of a metatable: has it one, too? */
      mwb_push_class(L, top);
    else
      mwb_raw_field(L, top, "__index");
    lua_replace(L, top);
  }
  lua_settop(L, top - 1);
}

int mwb_note_classes(lua_State *L, mwb_state *s, int object,
                     mwb_classes *walk) {
  int is;
  mwb_push_class(L, object);
  is = lua_istable(L, -1);
  add_chain(L, s, walk);
  return is;
}

/* Does a field of the table on the top hold the table at `class_`? */
static int holds(lua_State *L, int class_) {
  int top = lua_gettop(L), found = 0;
  mwb_push_contents(L, top);
  for (lua_pushnil(L); !found && lua_next(L, top + 1) != 0; lua_pop(L, 1))
    found = lua_rawequal(L, -1, class_);
  lua_settop(L, top);
  return found;
}

/* Does the table on the top, which the object at `parent` has under the key
** below the top, stand for the object's class? */
static int stands_for_class(lua_State *L, int parent) {
  int top = lua_gettop(L), yes;
  const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
  if (strcmp(key, "class") != 0 && strcmp(key, "_class") != 0) return 0;
  mwb_push_class(L, parent);
  lua_insert(L, top);
  yes = lua_istable(L, top) && holds(L, top); /* in one of its fields? */
  lua_remove(L, top);
  return yes;
}

int mwb_is_contents(lua_State *L, mwb_state *s, int parent, mwb_classes *walk) {
  if (!lua_istable(L, -1) || mwb_is_class(L, s, -1, walk)) return 0;
  if (!stands_for_class(L, parent)) return 1; /* so it is contents */
  add_class(L, s, walk);
  return 0;
}

int mwb_is_weak_class(lua_State *L, int index) {
  int top = lua_gettop(L), weak;
  weak = lua_istable(L, index) && /* is there a class? */
         mwb_raw_field(L, index, "__mode") == LUA_TSTRING &&
         strpbrk(lua_tostring(L, -1), "kv") != NULL; /* keys or values? */
  lua_settop(L, top);
  return weak;
}

int mwb_is_weak(lua_State *L, int index) {
  int weak;
  mwb_push_class(L, index);
  weak = mwb_is_weak_class(L, -1);
  lua_pop(L, 1);
  return weak;
}

int mwb_may_enter(lua_State *L, mwb_state *s, int parent, mwb_classes *walk) {
  if (!mwb_is_contents(L, s, parent, walk)) return 0;
  if (!lua_getmetatable(L, -1)) return 1; /* neither weak nor ours */
  lua_pop(L, 1);
  return !mwb_is_ours(L, -1) && !mwb_is_weak(L, -1);
}

/* Adds the table on the top to the array at `list` and to the set behind that
** if it is new there and may be entered.  Pops the value.  The key is below. */
static void add_next(lua_State *L, mwb_state *s, int object, int list,
                     mwb_classes *walk) {
  if (mwb_may_enter(L, s, object, walk) && !has(L, list + 1, -1)) { /* new? */
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, list + 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
  }
  lua_pop(L, 1);
}

void mwb_find_classes(lua_State *L, mwb_state *s, int root, int found) {
  int top = lua_gettop(L), list = top + 1, object = top + 3;
  mwb_classes walk = {0, 0, 0, 0};
  lua_Integer i;
  walk.found = found;
  walk.entered = top + 2;
  lua_newtable(L);
  lua_newtable(L);
  lua_pushvalue(L, root);
  lua_rawseti(L, list, 1);
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL;
       lua_settop(L, top + 2), i++) {
    mwb_note_classes(L, s, object, &walk);
    mwb_push_contents(L, object);
    for (lua_pushnil(L); lua_next(L, object + 1) != 0;) {
      add_next(L, s, object, list, &walk);
      lua_pushnil(L); /* an object as a key has no key */
      lua_pushvalue(L, -2);
      add_next(L, s, object, list, &walk);
      lua_pop(L, 1);
    }
  }
  lua_settop(L, top);
}

void mwb_push_fields(lua_State *L, mwb_state *s, int object, int before,
                     int all) {
  int former = mwb_push_before(L, before, object);
  if (!former) mwb_push_contents(L, object); /* as it is now? */
  if (all && mwb_push_shadow(L, object)) {   /* may it have raw fields? */
    lua_pop(L, 1);
    mwb_add_raw(L, object);
  }
  if ((s->needs & MWB_IGNORES) == 0 || !mwb_push_question(L, s, MWB_IGNORED)) {
    lua_pushnil(L); /* the policy ignores none */
    return;
  }
  lua_pushvalue(L, object);
  mwb_push_part_before(L, before, object, MWB_CLASSBEFORE);
  lua_call(L, 2, 1);
}

int mwb_next_field(lua_State *L, int fields) {
  while (lua_next(L, fields) != 0) {
    if (!lua_istable(L, fields + 1) || !has(L, fields + 1, -2)) return 1;
    lua_pop(L, 1); /* an ignored field */
  }
  return 0;
}

/* is_class(table) -> whether the table is a class that the library knows */
static int is_class(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mwb_is_class(L, s, 1, NULL));
  return 1;
}

/* find_classes(root, set): adds the classes of all that is below */
static int find_classes(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 2);
  mwb_find_classes(L, s, 1, 2);
  return 0;
}

/* add_classes(object, set): adds the classes of the object */
static int add_classes(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_classes walk = {2, 2, 1, 0};
  lua_settop(L, 2);
  mwb_note_classes(L, s, 1, &walk);
  return 0;
}

/* note_class(value): if it is a table, it is a class */
static int note_class(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  if (!lua_istable(L, 1)) return 0;
  mwb_note_classes(L, s, 1, NULL);
  add_chain(L, s, NULL);
  return 0;
}

void mwb_open_state(lua_State *L) {
  static const luaL_Reg functions[] = {{"is_class", is_class},
                                       {"note_class", note_class},
                                       {"find_classes", find_classes},
                                       {"add_classes", add_classes},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
  mwb_new_ephemeron(L, MWB_CLASSY);
}
