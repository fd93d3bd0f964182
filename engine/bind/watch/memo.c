/*
** memo.c - the guards of memos; see lua/moonwatch/memo.lua.
** SPDX-License-Identifier: MIT
**
** A memo has a guard of its own, which the program never sees: a userdata with
** the guard's handle.  So the functions here find a guard without a search.
*/
#include "../base/base.h"

#include "../journal/journal.h"
#include "watch.h"

static mw_handle guard_at(lua_State *L, int index) {
  return *(const mw_handle *)lua_touserdata(L, index);
}

/* open() -> guard of a result, invalid */
static int open_guard(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle *h;
  lua_settop(L, 0);
  h = (mw_handle *)lua_newuserdatauv(L, sizeof(*h), 0);
  mwb_push(L, s, MWB_GUARD);
  lua_setmetatable(L, 1);
  *h = mwb_identify(L, s, "memo", 1, 1);
  mwb_check(L, mw_guard_open(s->engine, *h));
  lua_settop(L, 1);
  return 1;
}

/* is_valid(guard) */
static int is_valid(lua_State *L) {
  const mwb_state *s = mwb_enter_to_read(L);
  lua_pushboolean(L, mw_guard_is_valid(s->engine, guard_at(L, 1)));
  return 1;
}

/* set_valid(guard, valid) */
static int set_valid(lua_State *L) {
  const mwb_state *s = mwb_enter(L);
  int valid = lua_toboolean(L, 2);
  mwb_check(L, mw_guard_set_valid(s->engine, guard_at(L, 1), valid));
  return 0;
}

/* news(guard) -> has an object that the guard watched been unwatched?, the
** number, as a cause, of the write that made the guard invalid, or nil */
static int guard_news(lua_State *L) {
  const mwb_state *s = mwb_enter_to_read(L);
  mw_handle h = guard_at(L, 1);
  uint32_t number = mw_guard_cause(s->engine, h);
  lua_pushboolean(L, mw_guard_has_lost(s->engine, h));
  if (number == 0) return 1;
  lua_pushinteger(L, (lua_Integer)number);
  return 2;
}

/* follow(guard, other) */
static int follow_guard(lua_State *L) {
  const mwb_state *s = mwb_enter(L);
  mwb_check(L, mw_guard_follow(s->engine, guard_at(L, 1), guard_at(L, 2)));
  return 0;
}

void mwb_open_memo(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open", open_guard}, {"is_valid", is_valid},   {"set_valid", set_valid},
      {"news", guard_news}, {"follow", follow_guard}, {"because", mwb_because},
      {NULL, NULL}};
  lua_newtable(L);
  mwb_set_funcs(L, functions);
  lua_setfield(L, -2, "memo");
}
