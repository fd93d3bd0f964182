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

void mwb_push_refs(lua_State *L, const mwb_state *s, int index) {
  if (index == 0)
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->refs_at);
  else
    lua_getiuservalue(L, index, 1);
}

uint32_t mwb_new_ref(lua_State *L, const mwb_state *s, mwb_refs *refs,
                     int table, int index) {
  mwb_push_refs(L, s, table);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)refs->n + 1);
  lua_pop(L, 1);
  return ++refs->n;
}

void mwb_pack(lua_State *L, mwb_state *s, mwb_refs *refs, int table, int index,
              mw_entry *entry, int part) {
  mwb_pack_as(L, s, refs, table, index, lua_type(L, index), entry, part);
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
      mwb_push_refs(L, s, table);
      lua_rawgeti(L, -1, (lua_Integer)value->i);
      lua_replace(L, -2);
      break;
    default:
      lua_pushnil(L);
  }
}

void mwb_new_refs(lua_State *L, mwb_state *s) {
  if (s->refs_at == 0) {
    s->refs_at = luaL_ref(L, LUA_REGISTRYINDEX);
  } else {
    lua_rawseti(L, LUA_REGISTRYINDEX, s->refs_at);
  }
  s->journal.n = 0;
  s->journal.id = ++s->refs_ids;
}

void mwb_forget_refs(lua_State *L, mwb_state *s, uint32_t n) {
  uint32_t i;
  if (s->journal.n <= n) return;
  mwb_push_refs(L, s, 0);
  for (i = s->journal.n; i > n; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  lua_pop(L, 1);
  s->journal.n = n;
  s->journal.id = ++s->refs_ids;
}
