/*
** delivered.c - objects as they were before the transactions that are open.
** SPDX-License-Identifier: MIT
**
** The journal has what a rollback of all open transactions would store.  Here
** the values are stored in copies, so that the program's objects stay as they
** are; an object that nobody has written has no copy, nor has one that nobody
** asks for, which may be much longer than what was written.
*/
#include "journal.h"

#include <string.h>

#include "../base/base.h"
#include "../traps/traps.h"

/* Pushes a copy of what the table at `object` holds now. */
static void push_copy(lua_State *L, int object) {
  int copy;
  lua_newtable(L);
  copy = lua_gettop(L);
  mwb_push_contents(L, object);
  for (lua_pushnil(L); lua_next(L, copy + 1) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, copy);
  }
  lua_settop(L, copy);
}

/* Pushes the parts that the object on the top had before; they may be none. */
static void push_parts(lua_State *L, int all) {
  int object = lua_gettop(L);
  lua_pushvalue(L, object);
  if (lua_rawget(L, all) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, object);
  lua_pushvalue(L, -2);
  lua_rawset(L, all);
}

/* Notes what a field of an object held; a field that was absent has the table
** of fields as its value. */
static void put_field(lua_State *L, const mwi_undone *walk, int parts) {
  int values = parts + 1;
  if (lua_rawgeti(L, parts, MWB_FIELDS) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, parts, MWB_FIELDS);
  }
  mwb_unpack(L, values, &walk->entry, MW_KEY);
  mwb_unpack(L, values, &walk->entry, MW_OLD);
  if (lua_isnil(L, -2)) return; /* a key that has died */
  if (lua_isnil(L, -1)) lua_copy(L, -3, -1);
  lua_rawset(L, -3);
}

static void take_back(lua_State *L, mwb_state *s, const mwi_undone *walk,
                      int all) {
  int kind = walk->entry.kind, object = all + 1, parts = all + 2;
  if (!mwb_alive(L, s, walk->entry.obj)) return;
  push_parts(L, all);
  mwb_push_values(L, mwb_coroutine_of(s, walk->owner));
  if (kind == MW_METATABLE || kind == MW_CALL) {
    mwb_unpack(L, parts + 1, &walk->entry, MW_OLD);
    if (kind == MW_METATABLE && lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, parts, (kind == MW_METATABLE) ? MWB_CLASSBEFORE : MWB_STATE);
    lua_pushboolean(L, 1);
    if (kind == MW_CALL) lua_rawseti(L, parts, MWB_HASSTATE);
  } else if (lua_istable(L, object)) {
    put_field(L, walk, parts);
  }
}

void mwb_push_delivered(lua_State *L, mwb_state *s) {
  mwi_undone walk;
  int top = lua_gettop(L);
  memset(&walk, 0, sizeof(walk));
  if (s->engine->journal.entries == 0) {
    lua_pushnil(L);
    return;
  }
  lua_newtable(L);
  while (mwi_journal_undone(s->engine, &walk)) {
    take_back(L, s, &walk, top + 1);
    lua_settop(L, top + 1);
  }
}

int mwb_push_part_before(lua_State *L, int all, int object, int part) {
  if (all == 0 || !lua_istable(L, all)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  lua_pushvalue(L, object);
  if (lua_rawget(L, all) == LUA_TTABLE) {
    lua_rawgeti(L, -1, part);
    lua_replace(L, -2);
  }
  return lua_type(L, -1);
}

int mwb_push_before(lua_State *L, int all, int object) {
  int parts = lua_gettop(L) + 1, fields = parts + 1, copy = parts + 2;
  if (all == 0 || !lua_istable(L, all)) return 0;
  lua_pushvalue(L, object);
  if (lua_rawget(L, all) != LUA_TTABLE ||
      lua_rawgeti(L, parts, MWB_FIELDS) != LUA_TTABLE) {
    lua_settop(L, parts - 1);
    return 0;
  }
  if (lua_rawgeti(L, parts, MWB_CONTENTS) == LUA_TNIL) {
    luaL_checkstack(L, LUA_MINSTACK, "deliver");
    lua_settop(L, fields);
    push_copy(L, object);
    for (lua_pushnil(L); lua_next(L, fields) != 0;) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      if (lua_rawequal(L, -1, fields)) {
        lua_pop(L, 1);
        lua_pushnil(L);
      }
      lua_rawset(L, copy);
    }
    lua_pushvalue(L, copy);
    lua_rawseti(L, parts, MWB_CONTENTS);
  }
  lua_replace(L, parts);
  lua_settop(L, parts);
  return 1;
}
