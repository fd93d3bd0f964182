/*
** replay.c - what mw.check_replay records and compares.
** SPDX-License-Identifier: MIT
**
** Most entries of two passes are plainly the same: of one object, with a key
** and a new value that are no objects.  These are compared here.  Lua's part
** compares the others, and knows which object stands for which.
*/
#include "class.h"
#include "coroutine.h"
#include "effects.h"
#include "library.h"

/* is_ours(value) -> the name of its class, if it is an object of the library */
static int is_ours(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  if (!mwb_is_ours(L, s, 1)) return 0;
  lua_pushstring(L, mwb_type_name(L, 1));
  return 1;
}

/* moment() -> a number that is greater after each entry */
static int moment(lua_State *L) {
  lua_pushinteger(
      L, (lua_Integer)mwi_journal_latest(&mwb_enter(L)->engine->journal));
  return 1;
}

/* owner() -> the number of the transaction that owns a write now */
static int owner(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mwb_owner_of(L, mwb_enter(L)));
  return 1;
}

/* copy_pass(number of an open transaction, moments) -> effects with its entries
** so far; replaces each moment in the array by the number of entries up to
** then */
static int copy_pass(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mwb_effects *fx;
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, 2);
  size_t at = 0;
  lua_settop(L, 2);
  mwb_push_copy(L, s, (mw_owner)lua_tointeger(L, 1));
  lua_settop(L, 3);
  fx = (const mwb_effects *)lua_touserdata(L, 3);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    while (at < fx->n && fx->entries[at].seq <= (uint64_t)lua_tointeger(L, -1))
      at++;
    lua_pop(L, 1);
    lua_pushinteger(L, (lua_Integer)at);
    lua_rawseti(L, 2, i);
  }
  return 1;
}

/* cause(pass, i) -> the number of the entry that caused entry number `i`, or
** nil */
static int cause(lua_State *L) {
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, 1);
  uint32_t number = fx->entries[lua_tointeger(L, 2) - 1].cause;
  size_t i;
  for (i = 0; i < fx->n && number != 0; i++) {
    if (mw_entry_number(&fx->entries[i]) != number) continue;
    lua_pushinteger(L, (lua_Integer)i + 1);
    return 1;
  }
  return 0;
}

/* The stack of `differs`: two passes, and the tables of what they hold. */
enum { ONE = 1, OTHER, VALUES, OTHER_VALUES };

/* Are the values of a part of two entries the same, and no objects?  In one
** table, only a string is held at one place for two entries. */
static int is_same_part(lua_State *L, const mw_entry *a, const mw_entry *b,
                        int part, int shared) {
  const mw_content *x = &a->value[part], *y = &b->value[part];
  int type = a->type[part], same;
  if (type != b->type[part]) return 0;
  if (type == MW_TNIL || type == MW_TABSENT) return 1;
  if (type != MW_TOTHER || (shared && x->i == y->i)) return x->i == y->i;
  lua_rawgeti(L, VALUES, (lua_Integer)x->i);
  type = lua_rawgeti(L, OTHER_VALUES, (lua_Integer)y->i);
  same = (type == LUA_TSTRING || type == LUA_TLIGHTUSERDATA) &&
         lua_rawequal(L, -1, -2);
  lua_settop(L, OTHER_VALUES);
  return same;
}

/* differs(pass, pass, i, n) -> the number, from `i` to `n`, of the first
** entries that are not plainly the same, or nil; both have so many */
static int differs(lua_State *L) {
  size_t i = (size_t)lua_tointeger(L, 3) - 1, n = (size_t)lua_tointeger(L, 4);
  const mwb_effects *one = (const mwb_effects *)lua_touserdata(L, ONE);
  const mwb_effects *other = (const mwb_effects *)lua_touserdata(L, OTHER);
  int shared;
  lua_settop(L, OTHER);
  lua_getiuservalue(L, ONE, 1);
  lua_getiuservalue(L, OTHER, 1);
  shared = lua_rawequal(L, VALUES, OTHER_VALUES);
  for (; i < n; i++) {
    const mw_entry *a = &one->entries[i], *b = &other->entries[i];
    if (a->obj != b->obj || a->kind != b->kind ||
        !is_same_part(L, a, b, MW_KEY, shared) ||
        !is_same_part(L, a, b, MW_NOW, shared)) {
      lua_pushinteger(L, (lua_Integer)i + 1);
      return 1;
    }
  }
  return 0;
}

void mwb_open_replay(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"is_ours", is_ours}, {"owner", owner},
      {"moment", moment},   {"copy_pass", copy_pass},
      {"differs", differs}, {"cause", cause},
      {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
