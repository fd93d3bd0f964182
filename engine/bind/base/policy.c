/*
** policy.c - what the binding asks the policy, and what the policy asks of it.
** SPDX-License-Identifier: MIT
*/
#include "base.h"

#include "../traps/traps.h"
#include "os.h"

/* hooks{descend, ignored, watched, unwatched, deserted, snapshot, restore};
** `false` for a question that the policy does not answer */
static int set_questions(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  s->base->descends = lua_rawgeti(L, 1, MWB_DESCEND) == LUA_TFUNCTION;
  mwb_need(s, MWB_IGNORES, lua_rawgeti(L, 1, MWB_IGNORED) == LUA_TFUNCTION);
  lua_settop(L, 1);
  mwb_keep(L, s, MWB_QUESTIONS);
  return 0;
}

int mwb_push_question(lua_State *L, const mwb_state *s, int question) {
  mwb_push(L, s, MWB_QUESTIONS);
  if (lua_rawgeti(L, -1, question) == LUA_TFUNCTION) { /* does it answer? */
    lua_replace(L, -2);
    return 1;
  }
  lua_pop(L, 2);
  return 0;
}

/* stat(path) -> time of the last change of a policy's file (in nanoseconds),
** size; nil if there is no such file */
static int file_stat(lua_State *L) {
  int64_t changed, size;
  if (!mwb_os_look(luaL_checkstring(L, 1), &changed, &size)) return 0;
  lua_pushinteger(L, (lua_Integer)changed);
  lua_pushinteger(L, (lua_Integer)size);
  return 2;
}

/* metatable(value) -> the metatable that the program has set */
static int metatable(lua_State *L) {
  lua_settop(L, 1);
  mwb_push_class(L, 1);
  return 1;
}

/* handler() -> mw.on_error's function */
static int handler(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_ONERROR);
  return 1;
}

/* late_error(error, where): an error that no statement of the program made */
static int late_error(lua_State *L) {
  const char *where = luaL_checkstring(L, 2);
  lua_pushvalue(L, 1);
  mwb_late_error(L, mwb_state_of(L), where);
  return 0;
}

void mwb_open_policy(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {
      {"stat", file_stat},        {"metatable", metatable},
      {"hooks", set_questions},   {"handler", handler},
      {"late_error", late_error}, {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, s, MWB_QUESTIONS);
  mwb_set_funcs(L, functions);
}
