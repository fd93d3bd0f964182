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

/* Pushes the table that the one at `in` has under the key on the top; a new one
** if there is none. */
static void need_table(lua_State *L, int in) {
  int key = lua_gettop(L);
  lua_pushvalue(L, key);
  if (lua_rawget(L, in) != LUA_TNIL) return;
  lua_newtable(L);
  lua_replace(L, key + 1);
  lua_pushvalue(L, key);
  lua_pushvalue(L, key + 1);
  lua_rawset(L, in);
}

/* Notes what a field of an object held; a field that was absent has the table
** of fields as its value. */
static void put_field(lua_State *L, const mwi_undone *walk, int parts) {
  lua_pushinteger(L, MWB_FIELDS);
  need_table(L, parts);
  mwb_unpack(L, parts + 1, &walk->entry, MW_KEY);
  mwb_unpack(L, parts + 1, &walk->entry, MW_OLD);
  if (lua_isnil(L, -2)) return;              /* a key that has died */
  if (lua_isnil(L, -1)) lua_copy(L, -3, -1); /* was it absent? */
  lua_rawset(L, -3);
}

static void take_back(lua_State *L, mwb_state *s, const mwi_undone *walk,
                      int all) {
  int kind = walk->entry.kind, object = all + 1, parts = all + 2;
  if (!mwb_alive(L, s, walk->entry.obj)) return;
  need_table(L, all); /* of parts */
  mwb_push_values(L, mwb_coroutine_of(s, walk->owner));
  if (kind == MW_METATABLE) {
    mwb_unpack(L, parts + 1, &walk->entry, MW_OLD);
    if (lua_isnil(L, -1)) lua_pushboolean(L, 0); /* had it no class? */
    lua_rawseti(L, parts, MWB_CLASSBEFORE);
  } else if (kind == MW_CALL) { /* the state of a userdata? */
    lua_createtable(L, 1, 0);
    mwb_unpack(L, parts + 1, &walk->entry, MW_OLD);
    lua_rawseti(L, -2, 1);
    lua_rawseti(L, parts, MWB_STATE);
  } else if (lua_istable(L, object)) { /* and no field of a userdata? */
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
  if (all == 0 || !lua_istable(L, all)) { /* is everything as it is now? */
    lua_pushnil(L);
    return LUA_TNIL;
  }
  lua_pushvalue(L, object);
  if (lua_rawget(L, all) == LUA_TTABLE) { /* was it written? */
    lua_rawgeti(L, -1, part);
    lua_replace(L, -2);
  }
  return lua_type(L, -1);
}

/* Copies the fields of the table at `from` to that on the top; a value that is
** `absent` stands for an absent field. */
static void copy_fields(lua_State *L, int from, const void *absent) {
  int to = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, from) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    if (lua_topointer(L, -1) == absent && absent != NULL) { /* was it absent? */
      lua_pop(L, 1);
      lua_pushnil(L);
    }
    lua_rawset(L, to);
  }
}

int mwb_push_before(lua_State *L, int all, int object) {
  int top = lua_gettop(L), parts = top + 1, fields = top + 2;
  if (mwb_push_part_before(L, all, object, MWB_FIELDS) != LUA_TTABLE) {
    lua_settop(L, top);
    return 0;
  }
  lua_pushvalue(L, object);
  lua_rawget(L, all);
  lua_insert(L, parts);
  if (lua_rawgeti(L, parts, MWB_CONTENTS) == LUA_TNIL) { /* first asked? */
    luaL_checkstack(L, LUA_MINSTACK, "deliver");
    mwb_push_contents(L, object);
    lua_newtable(L);
    copy_fields(L, fields + 2, NULL);
    copy_fields(L, fields, lua_topointer(L, fields));
    lua_pushvalue(L, -1);
    lua_rawseti(L, parts, MWB_CONTENTS);
  }
  lua_replace(L, parts);
  lua_settop(L, parts);
  return 1;
}
