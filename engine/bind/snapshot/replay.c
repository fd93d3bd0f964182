/*
** replay.c - what mw.check_replay records and compares.
** SPDX-License-Identifier: MIT
**
** Most entries of two passes are plainly the same: of one object, with a key
** and a new value that are no objects.  These are compared here.  Lua's part
** compares the others, and knows which object stands for which.
*/
#include "../journal/journal.h"

#include "../base/base.h"

/* moment() -> a number that is greater after each entry */
static int moment(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mwi_journal_latest(
                         &mwb_enter_to_read(L)->engine->journal));
  return 1;
}

/* owner() -> the number of the transaction that owns a write now */
static int owner(lua_State *L) {
  const mwb_transaction *tx = mwb_transaction_now(L, mwb_enter_to_read(L));
  lua_pushinteger(L, (tx == NULL) ? 0 : (lua_Integer)tx->its->number);
  return 1;
}

/* copy(number of an open transaction) -> effects with its entries so far */
static int copy(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_owner of = (mw_owner)lua_tointeger(L, 1);
  lua_settop(L, 0);
  mwb_push_effects(L, mwb_transaction_of(s, of), 1);
  return 1;
}

/* count(effects, moments) -> the array, with the number of entries up to each
** moment in the moment's place */
static int count(lua_State *L) {
  size_t at = 0, n = ((const mwb_effects *)lua_touserdata(L, 1))->n;
  lua_Integer i, moments = (lua_Integer)lua_rawlen(L, 2);
  mwb_place p;
  lua_settop(L, 2);
  p = mwb_find_entries(L, 1);
  for (i = 1; i <= moments; i++) {
    lua_rawgeti(L, 2, i);
    while (at < n && p.entries[at].seq <= (uint64_t)lua_tointeger(L, -1)) at++;
    lua_pop(L, 1);
    lua_pushinteger(L, (lua_Integer)at);
    lua_rawseti(L, 2, i);
  }
  lua_settop(L, 2);
  return 1;
}

/* cause(effects, i) -> the number of the entry that caused entry number `i`, or
** nil */
static int cause(lua_State *L) {
  size_t n = ((const mwb_effects *)lua_touserdata(L, 1))->n, i;
  lua_Integer of = lua_tointeger(L, 2);
  mwb_place p = mwb_find_entries(L, 1);
  uint32_t number = p.entries[of - 1].cause;
  for (i = 0; i < n && number != 0; i++) {
    if (mw_entry_number(&p.entries[i]) != number) continue;
    lua_pushinteger(L, (lua_Integer)i + 1);
    return 1;
  }
  return 0; /* none, or not one of these */
}

/* Are the values of a part of two entries the same, and no objects? */
static int is_same_part(lua_State *L, const mwb_place *p, const mwb_place *q,
                        size_t i, int part) {
  int same;
  mwb_unpack(L, p->values, &p->entries[i], part);
  mwb_unpack(L, q->values, &q->entries[i], part);
  same = mwb_address(L, -1) == NULL && mwb_is_same(L, -2, -1);
  lua_pop(L, 2);
  return same;
}

/* differs(effects, effects, i, n) -> the number, from `i` to `n`, of the first
** entries that are not plainly the same, or nil; both have so many */
static int differs(lua_State *L) {
  size_t i = (size_t)lua_tointeger(L, 3) - 1, n = (size_t)lua_tointeger(L, 4);
  mwb_place p, q;
  lua_settop(L, 2);
  p = mwb_find_entries(L, 1);
  q = mwb_find_entries(L, 2);
  for (; i < n; i++) {
    const mw_entry *a = &p.entries[i], *b = &q.entries[i];
    if (a->obj != b->obj || a->kind != b->kind ||
        !is_same_part(L, &p, &q, i, MW_KEY) ||
        !is_same_part(L, &p, &q, i, MW_NOW)) {
      lua_pushinteger(L, (lua_Integer)i + 1); /* Lua's part compares these */
      return 1;
    }
  }
  return 0;
}

/* same_code(function, function) -> are both the same function of C, which may
** have other upvalues? */
static int same_code(lua_State *L) {
  lua_CFunction f = lua_tocfunction(L, 1);
  lua_pushboolean(L, f != NULL && f == lua_tocfunction(L, 2));
  return 1;
}

const luaL_Reg mwb_replay_functions[] = {
    {"owner", owner},         {"moment", moment},   {"copy", copy},
    {"count", count},         {"differs", differs}, {"cause", cause},
    {"same_code", same_code}, {NULL, NULL}};
