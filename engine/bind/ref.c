/*
** ref.c - the values that the entries of a journal hold.
** SPDX-License-Identifier: MIT
**
** An entry contains numbers and booleans themselves.  For any other value the
** entry contains a number, and a table maps the number to the value, which
** keeps the value alive.  The journal's table is in the registry from the first
** reader's begin to the last reader's end; the table of effects is their user
** value, so that a cycle of effects and objects can be collected.
*/
#include "bind.h"
#include "journal.h"

void mwb_push_held(lua_State *L, const mwb_state *s, int index) {
  if (index == 0)
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->held_at);
  else
    lua_getiuservalue(L, index, 1);
}

uint32_t mwb_hold_value(lua_State *L, const mwb_state *s, mwb_held *held,
                        int table, int index) {
  mwb_push_held(L, s, table);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)held->n + 1);
  lua_pop(L, 1);
  return ++held->n;
}

void mwb_pack(lua_State *L, mwb_state *s, mwb_held *held, int table, int index,
              mw_entry *entry, int part) {
  mwb_pack_as(L, s, held, table, index, lua_type(L, index), entry, part);
}

void mwb_unpack(lua_State *L, const mwb_state *s, int table,
                const mw_entry *entry, int part) {
  const mw_content *value = &entry->value[part];
  switch (entry->type[part]) {
    case MW_TBOOLEAN:
      lua_pushboolean(L, (int)value->i);
      break;
    case MW_TINTEGER:
      lua_pushinteger(L, (lua_Integer)value->i);
      break;
    case MW_TFLOAT:
      lua_pushnumber(L, (lua_Number)value->f);
      break;
    case MW_TOTHER:
      mwb_push_held(L, s, table);
      lua_rawgeti(L, -1, (lua_Integer)value->i);
      lua_replace(L, -2);
      break;
    default:
      lua_pushnil(L);
  }
}

void mwb_new_held(lua_State *L, mwb_state *s) {
  if (s->held_at == 0) {
    s->held_at = luaL_ref(L, LUA_REGISTRYINDEX);
  } else {
    lua_rawseti(L, LUA_REGISTRYINDEX, s->held_at);
  }
  s->held.n = 0;
  s->held.id = ++s->held_ids;
}

void mwb_release_held(lua_State *L, mwb_state *s, uint32_t n) {
  uint32_t i;
  if (s->held.n <= n) return;
  mwb_push_held(L, s, 0);
  for (i = s->held.n; i > n; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  lua_pop(L, 1);
  s->held.n = n;
  s->held.id = ++s->held_ids;
}
