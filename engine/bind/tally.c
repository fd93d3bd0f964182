/*
** tally.c - walks through examples until an example has something new.
** SPDX-License-Identifier: MIT
**
** A tally is a userdata.  Its user values are two blocks of memory, for the
** engine's tally and for the set of tables met, and a table that keeps alive
** the strings that the tally knows by address, except keys, which the program
** keeps.  Only short strings have one address each.
*/
#include <string.h>

#include "../tally.h"
#include "bind.h"

#define SHORT 40 /* Lua interns strings of at most so many bytes */

enum { BLOCK = 1, SET, STRINGS };

/* Returns a block of the tally at 1. */
static void *block(lua_State *L, int uservalue) {
  void *p;
  lua_getiuservalue(L, 1, uservalue);
  p = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return p;
}

/* tally() */
static int new_tally(lua_State *L) {
  mwb_enter(L);
  lua_newuserdatauv(L, 0, STRINGS);
  mwi_tally_init((mwi_tally *)lua_newuserdatauv(L, mwi_tally_bytes(16), 0), 16);
  lua_setiuservalue(L, -2, BLOCK);
  mwi_tally_met_init(
      (mwi_tally_met *)lua_newuserdatauv(L, mwi_tally_met_bytes(16), 0), 16);
  lua_setiuservalue(L, -2, SET);
  lua_newtable(L);
  lua_setiuservalue(L, -2, STRINGS);
  return 1;
}

/* Returns the set of the tally at 1, with room for one more table. */
static mwi_tally_met *set_with_room(lua_State *L) {
  mwi_tally_met *met = (mwi_tally_met *)block(L, SET), *larger;
  if (!mwi_tally_met_full(met)) return met;
  larger = (mwi_tally_met *)lua_newuserdatauv(
      L, mwi_tally_met_bytes(2 * met->size), 0);
  mwi_tally_met_move(larger, 2 * met->size, met);
  lua_setiuservalue(L, 1, SET);
  return larger;
}

/* begin(tally, n) -> places, contents: empty lists with room for `n` tables.
** Empties the set of tables met. */
static int begin(lua_State *L) {
  int n = (int)lua_tointeger(L, 2);
  mwi_tally_met_none((mwi_tally_met *)block(L, SET));
  lua_createtable(L, n, 0);
  lua_createtable(L, n, 0);
  return 2;
}

/* meet(tally, table) -> was the table met before? */
static int meet(lua_State *L) {
  lua_pushboolean(L, mwi_tally_meet(set_with_room(L), lua_topointer(L, 2)));
  return 1;
}

/* The kind and the bits of a key or a scalar.  No entry has the address of a
** long string, so a long string is found in no entry. */
static inline uint16_t bits_of(lua_State *L, int index, uint64_t *bits) {
  lua_Number number;
  lua_Integer integer;
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      *bits = (uint64_t)(uintptr_t)lua_topointer(L, index);
      return MWI_TALLY_STRING;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index)) {
        integer = lua_tointeger(L, index);
        memcpy(bits, &integer, sizeof(*bits));
        return MWI_TALLY_INTEGER;
      }
      number = lua_tonumber(L, index) + 0.0; /* -0.0 is 0.0 */
      memcpy(bits, &number, sizeof(*bits));
      return MWI_TALLY_FLOAT;
    case LUA_TBOOLEAN:
      *bits = (uint64_t)lua_toboolean(L, index);
      return MWI_TALLY_BOOLEAN;
    default:
      *bits = 0;
      return MWI_TALLY_NONE;
  }
}

/* Like `bits_of`, but MWI_TALLY_NONE for a long string. */
static uint16_t short_bits(lua_State *L, int index, uint64_t *bits) {
  if (lua_type(L, index) == LUA_TSTRING && lua_rawlen(L, index) > SHORT)
    return MWI_TALLY_NONE;
  return bits_of(L, index, bits);
}

/* The stack of `walk`. */
enum {
  TALLY = 1,
  FIRST, /* the number of the first table to walk through */
  LAST,  /* the number of tables */
  PLACES,
  CONTENTS,
  MISSES, /* keys */
  PLAIN,  /* may walks enter tables without asking the policy? */
  SHAPE,  /* "shape" */
  TABLE,  /* the present table, and its fields */
  KEY,
  VALUE
};

/* Counts the table at VALUE and appends the table to the list, if the tally has
** learnt such a table and has not met this one; else returns 0. */
static int enter(lua_State *L, mwi_tally *t, mwi_tally_key *key,
                 lua_Integer n) {
  const void *ptr = lua_topointer(L, VALUE);
  mwi_tally_met *met;
  uint32_t place;
  int has_shape;
  if (lua_getmetatable(L, VALUE)) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushvalue(L, SHAPE);
  has_shape = lua_rawget(L, VALUE) != LUA_TNIL;
  lua_pop(L, 1);
  met = set_with_room(L);
  if (has_shape || mwi_tally_is_met(met, ptr)) return 0;
  key->kind = MWI_TALLY_TABLE;
  place = mwi_tally_count_table(t, key, (int64_t)lua_rawlen(L, VALUE));
  if (place == 0) return 0;
  lua_pushvalue(L, VALUE);
  lua_rawseti(L, CONTENTS, n);
  lua_pushinteger(L, place);
  lua_rawseti(L, PLACES, n);
  mwi_tally_meet(met, ptr);
  return 1;
}

/* walk(tally, first, last, places, contents, misses, plain, "shape") -> number
** of the last table, number of tables now, number of misses.  Walks through the
** tables of the list until a table has new fields, whose keys are in `misses`
** then, or until all tables are done. */
static int walk(lua_State *L) {
  lua_Integer i = lua_tointeger(L, FIRST), n = lua_tointeger(L, LAST);
  lua_Integer misses = 0;
  int plain = lua_toboolean(L, PLAIN);
  mwi_tally *t = (mwi_tally *)block(L, BLOCK);
  mwi_tally_key key;
  lua_settop(L, SHAPE);
  for (; i <= n && misses == 0; i++) {
    lua_rawgeti(L, PLACES, i);
    key.place = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_rawgeti(L, CONTENTS, i);
    lua_pushnil(L);
    while (lua_next(L, TABLE)) {
      int known = 0;
      key.key_kind = bits_of(L, KEY, &key.key);
      key.kind = bits_of(L, VALUE, &key.value);
      if (key.key_kind != MWI_TALLY_NONE) {
        if (key.kind != MWI_TALLY_NONE)
          known = mwi_tally_count(t, &key);
        else if (plain && lua_istable(L, VALUE))
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
static mwi_tally *with_room(lua_State *L) {
  mwi_tally *t = (mwi_tally *)block(L, BLOCK), *larger;
  if (t->n < t->size) return t;
  larger = (mwi_tally *)lua_newuserdatauv(L, mwi_tally_bytes(2 * t->size), 0);
  mwi_tally_move(larger, 2 * t->size, t);
  lua_setiuservalue(L, 1, BLOCK);
  return larger;
}

/* Keeps a string at `index` alive. */
static void anchor(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TSTRING) return;
  lua_getiuservalue(L, 1, STRINGS);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Finds or makes the entry of a key, and pushes its number. */
static mwi_tally_entry *entry_of(lua_State *L, const mwi_tally_key *key) {
  mwi_tally *t = with_room(L);
  mwi_tally_entry *entry = mwi_tally_find(t, key);
  if (entry == NULL) entry = mwi_tally_add(t, key);
  lua_pushinteger(L, entry - mwi_tally_at(t, 0) + 1);
  return entry;
}

/* learn(tally, place, key, value) -> number of an entry, which `walk` counts
** from now on; nothing if the value cannot be counted */
static int learn(lua_State *L) {
  mwi_tally_key key;
  lua_settop(L, 4);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = short_bits(L, 3, &key.key);
  key.kind = short_bits(L, 4, &key.value);
  if (key.key_kind == MWI_TALLY_NONE || key.kind == MWI_TALLY_NONE) return 0;
  anchor(L, 4);
  entry_of(L, &key);
  return 1;
}

/* learn_from(tally, place, key, low): like `learn`, for all integers from `low`
** on (or floats, if `low` is a float) */
static int learn_from(lua_State *L) {
  mwi_tally_key key;
  mwi_tally_entry *entry;
  mwi_tally_number low;
  lua_settop(L, 4);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = short_bits(L, 3, &key.key);
  key.kind = (short_bits(L, 4, &key.value) == MWI_TALLY_INTEGER)
                 ? MWI_TALLY_INTEGERS
                 : MWI_TALLY_FLOATS;
  if (key.key_kind == MWI_TALLY_NONE) return 0;
  memcpy(&low, &key.value, sizeof(low));
  key.value = 0;
  entry = entry_of(L, &key);
  if (entry->n == 0) entry->high = low;
  entry->low = low;
  return 1;
}

/* learn_table(tally, place, key, below, shortest, longest): like `learn`, for
** tables with lengths from `shortest` to `longest`, which have the place
** `below` */
static int learn_table(lua_State *L) {
  mwi_tally_key key;
  mwi_tally_entry *entry;
  lua_settop(L, 6);
  key.place = (uint32_t)lua_tointeger(L, 2);
  key.key_kind = short_bits(L, 3, &key.key);
  key.kind = MWI_TALLY_TABLE;
  key.value = 0;
  if (key.key_kind == MWI_TALLY_NONE) return 0;
  entry = entry_of(L, &key);
  entry->below = (uint32_t)lua_tointeger(L, 4);
  entry->low.i = lua_tointeger(L, 5);
  entry->high.i = lua_tointeger(L, 6);
  return 1;
}

/* take(tally, number) -> number of counts of an entry since the last take; for
** an entry of several numbers, also the greatest number */
static int take(lua_State *L) {
  mwi_tally *t = (mwi_tally *)block(L, BLOCK);
  mwi_tally_entry *entry = mwi_tally_at(t, (uint32_t)lua_tointeger(L, 2) - 1);
  lua_pushinteger(L, (lua_Integer)entry->n);
  entry->n = 0;
  if (entry->key.kind == MWI_TALLY_INTEGERS) {
    lua_pushinteger(L, entry->high.i);
  } else if (entry->key.kind == MWI_TALLY_FLOATS) {
    lua_pushnumber(L, entry->high.d);
  } else {
    lua_pushnil(L);
  }
  return 2;
}

/* empty_set(n) -> a table that gets n keys before Lua makes it anew */
static int empty_set(lua_State *L) {
  lua_createtable(L, 0, (int)lua_tointeger(L, 1));
  return 1;
}

void mwb_open_tally(lua_State *L) {
  static const luaL_Reg functions[] = {{"tally", new_tally},
                                       {"tally_begin", begin},
                                       {"tally_meet", meet},
                                       {"tally_walk", walk},
                                       {"tally_learn", learn},
                                       {"tally_learn_from", learn_from},
                                       {"tally_learn_table", learn_table},
                                       {"tally_take", take},
                                       {"empty_set", empty_set},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
