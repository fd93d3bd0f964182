/*
** tally.c - examples are walked through here as long as nothing is new in them.
** SPDX-License-Identifier: MIT
**
** A tally is a userdata, whose first user value is the block that the engine's
** tally is in, and whose second holds the strings that it knows by address.
** Only short strings have an address of their own.
*/
#include "../tally.h"

#include <string.h>

#include "bind.h"

#define SHORT 40 /* longest string of which Lua has one only */

static mwT_tally *tally_at(lua_State *L, int index) {
  mwT_tally *t;
  lua_getiuservalue(L, index, 1);
  t = (mwT_tally *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return t;
}

/* tally() */
static int new_tally(lua_State *L) {
  mwB_enter(L);
  lua_newuserdatauv(L, 0, 2);
  mwT_init((mwT_tally *)lua_newuserdatauv(L, mwT_bytes(16), 0), 16);
  lua_setiuservalue(L, -2, 1);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 2);
  return 1;
}

/* lists(n) -> places, contents, met: with room for so many tables. */
static int lists(lua_State *L) {
  int n = (int)lua_tointeger(L, 1);
  lua_createtable(L, n, 0);
  lua_createtable(L, n, 0);
  lua_createtable(L, 0, n);
  return 3;
}

/* The kind and the bits of a key or a scalar. */
static uint16_t bits_of(lua_State *L, int index, uint64_t *bits) {
  size_t length;
  lua_Number number;
  lua_Integer integer;
  *bits = 0;
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
      *bits = (uint64_t)lua_toboolean(L, index);
      return MWT_BOOLEAN;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        integer = lua_tointeger(L, index);
        memcpy(bits, &integer, sizeof(*bits));
        return MWT_INTEGER;
      }
      number = lua_tonumber(L, index) + 0.0; /* -0.0 is 0.0 */
      memcpy(bits, &number, sizeof(*bits));
      return MWT_FLOAT;
    case LUA_TSTRING:
      *bits = (uint64_t)(uintptr_t)lua_tolstring(L, index, &length);
      return (length <= SHORT) ? MWT_STRING : MWT_NONE;
    default:
      return MWT_NONE;
  }
}

/* Of `walk`, the arguments. */
enum {
  TALLY = 1,
  FIRST, /* the number of the table to begin with */
  LAST,  /* and how many there are */
  PLACES,
  CONTENTS,
  MET,    /* table -> true */
  MISSES, /* keys */
  PLAIN   /* may tables be entered without asking anybody? */
};

/* Counts the table on the top and puts it on the list, if it is as others
** were, and was not met yet. */
static int enter(lua_State *L, mwT_tally *t, mwT_key *key, lua_Integer n) {
  uint32_t place;
  int known;
  if (lua_getmetatable(L, -1)) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushvalue(L, -1);
  known = lua_rawget(L, MET) != LUA_TNIL;
  known = mwB_rawfield(L, lua_gettop(L) - 1, "shape") != LUA_TNIL || known;
  lua_pop(L, 2);
  if (known) return 0;
  key->kind = MWT_TABLE;
  place = mwT_counttable(t, key, (int64_t)lua_rawlen(L, -1));
  if (place == 0) return 0;
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, MET);
  lua_pushvalue(L, -1);
  lua_rawseti(L, CONTENTS, n);
  lua_pushinteger(L, place);
  lua_rawseti(L, PLACES, n);
  return 1;
}

/* walk(tally, first, last, places, contents, met, misses, plain) -> number
** of the table at which it stopped, how many there are now, how many misses.
** Walks through tables of the list until one has something new, whose keys are
** then in `misses`, or until all are done. */
static int walk(lua_State *L) {
  lua_Integer i = lua_tointeger(L, FIRST), n = lua_tointeger(L, LAST);
  lua_Integer misses = 0;
  int plain = lua_toboolean(L, PLAIN);
  mwT_tally *t = tally_at(L, TALLY);
  mwT_key key;
  for (; i <= n && misses == 0; i++) {
    lua_rawgeti(L, PLACES, i);
    key.place = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_rawgeti(L, CONTENTS, i);
    lua_pushnil(L);
    while (lua_next(L, PLAIN + 1)) {
      int known = 0;
      key.key_kind = bits_of(L, PLAIN + 2, &key.key);
      key.kind = bits_of(L, PLAIN + 3, &key.value);
      if (key.key_kind != MWT_NONE) {
        if (key.kind != MWT_NONE)
          known = mwT_count(t, &key);
        else if (plain && lua_istable(L, -1))
          known = enter(L, t, &key, n + 1) && ++n;
      }
      lua_pop(L, 1);
      if (!known) {
        lua_pushvalue(L, -1);
        lua_rawseti(L, MISSES, ++misses);
      }
    }
    lua_pop(L, 1);
  }
  lua_pushinteger(L, i - 1);
  lua_pushinteger(L, n);
  lua_pushinteger(L, misses);
  return 3;
}

/* Makes room for one more entry in the tally at 1. */
static mwT_tally *with_room(lua_State *L) {
  mwT_tally *t = tally_at(L, 1), *larger;
  if (t->n < t->size) return t;
  larger = (mwT_tally *)lua_newuserdatauv(L, mwT_bytes(2 * t->size), 0);
  mwT_move(larger, 2 * t->size, t);
  lua_setiuservalue(L, 1, 1);
  return larger;
}

/* Keeps the string at `index`, if it is one. */
static void anchor(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TSTRING) return;
  lua_getiuservalue(L, 1, 2);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* The entry of the key, found or made; pushes its number. */
static mwT_entry *entry_of(lua_State *L, const mwT_key *key) {
  mwT_tally *t = with_room(L);
  mwT_entry *entry = mwT_find(t, key);
  if (entry == NULL) entry = mwT_add(t, key);
  lua_pushinteger(L, entry - mwT_at(t, 0) + 1);
  return entry;
}

/* learn(tally, place, key, value) -> number of its entry, from now on counted
** by `walk`; nothing if that cannot be. */
static int learn(lua_State *L) {
  mwT_key key;
  lua_settop(L, 4);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = bits_of(L, 3, &key.key);
  key.kind = bits_of(L, 4, &key.value);
  if (key.key_kind == MWT_NONE || key.kind == MWT_NONE) return 0;
  anchor(L, 3);
  anchor(L, 4);
  entry_of(L, &key);
  return 1;
}

/* learn_from(tally, place, key, low): the same for all numbers from `low` on,
** integers or floats as it is one. */
static int learn_from(lua_State *L) {
  mwT_key key;
  mwT_entry *entry;
  mwT_number low;
  lua_settop(L, 4);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = bits_of(L, 3, &key.key);
  key.kind = (bits_of(L, 4, &key.value) == MWT_INTEGER) ? MWT_INTEGERS
                                                        : MWT_FLOATS;
  if (key.key_kind == MWT_NONE) return 0;
  memcpy(&low, &key.value, sizeof(low));
  key.value = 0;
  anchor(L, 3);
  entry = entry_of(L, &key);
  if (entry->n == 0) entry->high = low;
  entry->low = low;
  return 1;
}

/* learn_table(tally, place, key, below, shortest, longest): the same for tables
** with such lengths, which have the place `below`. */
static int learn_table(lua_State *L) {
  mwT_key key;
  mwT_entry *entry;
  lua_settop(L, 6);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = bits_of(L, 3, &key.key);
  key.kind = MWT_TABLE;
  key.value = 0;
  if (key.key_kind == MWT_NONE) return 0;
  anchor(L, 3);
  entry = entry_of(L, &key);
  entry->below = (uint32_t)lua_tointeger(L, 4);
  entry->low.i = lua_tointeger(L, 5);
  entry->high.i = lua_tointeger(L, 6);
  return 1;
}

/* take(tally, number) -> how often that was counted since the last time, and
** of several numbers the greatest. */
static int take(lua_State *L) {
  mwT_tally *t = tally_at(L, 1);
  mwT_entry *entry = mwT_at(t, (uint32_t)lua_tointeger(L, 2) - 1);
  lua_pushinteger(L, (lua_Integer)entry->n);
  entry->n = 0;
  if (entry->key.kind == MWT_INTEGERS) {
    lua_pushinteger(L, entry->high.i);
  } else if (entry->key.kind == MWT_FLOATS) {
    lua_pushnumber(L, entry->high.d);
  } else {
    lua_pushnil(L);
  }
  return 2;
}

void mwB_opentally(lua_State *L) {
  static const luaL_Reg functions[] = {{"tally", new_tally},
                                       {"tally_lists", lists},
                                       {"tally_walk", walk},
                                       {"tally_learn", learn},
                                       {"tally_learn_from", learn_from},
                                       {"tally_learn_table", learn_table},
                                       {"tally_take", take},
                                       {NULL, NULL}};
  mwB_setfuncs(L, functions);
}
