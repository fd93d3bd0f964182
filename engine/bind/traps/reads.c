/*
** reads.c - reads of tables, noted while a transaction wants reads.
** SPDX-License-Identifier: MIT
**
** A read of an intercepted table does not leave the VM: the `__index` of the
** own metatable is the shadow.  When a transaction first wants reads, the
** `__index` of every intercepted table becomes the function `read_field`, and
** later tables get that function from the start.  The functions stay when the
** transaction ends, so the next transaction that wants reads has no more to do,
** however many tables there are.
**
** While nobody wants reads, a table that is read again and again gets its
** shadow back as `__index`, and rests until the next transaction that wants
** reads.  So for each table that such a transaction sees to, there were many
** reads before.
*/
#include "traps.h"

#include "../base/base.h"

/* The upvalues of `read_field` and of `read_length`. */
#define UP_STATE lua_upvalueindex(1)
#define UP_SHADOW lua_upvalueindex(2)
#define UP_LENGTH lua_upvalueindex(2)
#define UP_IDLE lua_upvalueindex(3) /* reads that nobody wanted */

/* So many unwanted reads cost as much as to rest and to be seen to again. */
#define IDLE 16

void mwb_note_read(lua_State *L, const mwb_state *s, int whole) {
  mwb_push(L, s, MWB_NOTE);
  lua_pushvalue(L, 1);
  if (!whole) lua_pushvalue(L, 2);
  lua_call(L, whole ? 1 : 2, 0);
}

/* rest(object, key, shadow, state): the shadow becomes the `__index`, once the
** object is in MWB_RESTING */
static int rest(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 4);
  if (!mwb_push_own(L, 1)) return 0;
  mwb_push(L, s, MWB_RESTING);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, s->traps->resting + 1);
  s->traps->resting++;
  lua_pushvalue(L, 3);
  lua_setfield(L, 5, "__index");
  return 0;
}

/* Counts a read that nobody wants.  If there is no memory to rest, goes on as
** before. */
static void read_idly(lua_State *L, mwb_state *s) {
  lua_Integer n = lua_tointeger(L, UP_IDLE) + 1;
  if (n == IDLE) { /* read often enough to rest? */
    lua_pushcfunction(L, rest);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, UP_SHADOW);
    lua_pushlightuserdata(L, s);
    lua_pcall(L, 4, 0, 0);
    lua_settop(L, 2);
    n = 0;
  }
  lua_pushinteger(L, n);
  lua_replace(L, UP_IDLE);
}

/* read_field(object, key): the `__index` of a table whose reads are noted */
static int read_field(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, UP_STATE);
  lua_settop(L, 2);
  if (s->traps->reading) /* does a transaction want reads? */
    mwb_note_read(L, s, 0);
  else if (s->engine != NULL) /* not closed: may it rest? */
    read_idly(L, s);
  lua_pushvalue(L, 2);
  lua_gettable(L, UP_SHADOW);
  return 1;
}

/* read_length(object): the `__len` of such a table */
static int read_length(lua_State *L) {
  const mwb_state *s = (const mwb_state *)lua_touserdata(L, UP_STATE);
  lua_settop(L, 1);
  if (s->traps->reading) mwb_note_read(L, s, 1);
  lua_pushvalue(L, UP_LENGTH);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 1);
  lua_callk(L, 2, 1, 1, mwb_return);
  return 1;
}

/* Lets reads go by functions.  Tables with metamethods have a function
** already. */
static void heed(lua_State *L, mwb_state *s, int own, int shadow) {
  int top = lua_gettop(L);
  if (mwb_raw_field(L, own, "__index") == LUA_TTABLE) { /* no function yet? */
    lua_pushlightuserdata(L, s);
    lua_pushvalue(L, shadow);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, read_field, 3);
    lua_setfield(L, own, "__index");
  }
  mwb_set_len(L, own, shadow);
  mwb_raw_field(L, own, "__len");
  if (lua_tocfunction(L, -1) != read_length) { /* not heeded yet? */
    lua_pushlightuserdata(L, s);
    lua_insert(L, -2);
    lua_pushcclosure(L, read_length, 2);
    lua_setfield(L, own, "__len");
  }
  lua_settop(L, top);
}

void mwb_heed_reads(lua_State *L, mwb_state *s, int own, int shadow) {
  if (s->traps->heeds) heed(L, s, own, shadow);
}

/* Sees to the tables that rest. */
static void heed_resting(lua_State *L, mwb_state *s) {
  int resting = lua_gettop(L) + 1;
  mwb_push(L, s, MWB_RESTING);
  for (; s->traps->resting > 0; s->traps->resting--) {
    lua_rawgeti(L, resting, s->traps->resting);
    if (mwb_push_own(L, resting + 1)) { /* neither dead nor given back? */
      mwb_push_shadow(L, resting + 1);
      heed(L, s, resting + 2, resting + 3);
    }
    lua_settop(L, resting);
    lua_pushnil(L);
    lua_rawseti(L, resting, s->traps->resting);
  }
  lua_pop(L, 1);
}

/* begin_reads(note): from now on note(object, key) is called for each read of
** an intercepted table, and note(object) for reads of all of a table */
static int begin_reads(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  uint32_t slot = 0;
  lua_settop(L, 1);
  for (; !s->traps->heeds && mwb_push_next(L, s, &slot); lua_settop(L, 1)) {
    mwb_push_shadow(L, 2);
    heed(L, s, 3, 4);
  }
  s->traps->heeds = 1;
  heed_resting(L, s);
  mwb_keep(L, s, MWB_NOTE);
  s->traps->reading = 1;
  return 0;
}

/* end_reads() */
static int end_reads(lua_State *L) {
  mwb_state_of(L)->traps->reading = 0;
  return 0;
}

void mwb_open_reads(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {
      {"begin_reads", begin_reads}, {"end_reads", end_reads}, {NULL, NULL}};
  mwb_push_weak(L, "v");
  mwb_keep(L, s, MWB_RESTING);
  mwb_set_funcs(L, functions);
}
