/*
** later.c - errors that wait for the library's next call.
** SPDX-License-Identifier: MIT
*/
#include "later.h"

#include "budget.h"

void mwb_late_error(lua_State *L, mwb_state *s, const char *where) {
  mwb_push(L, s, MWB_ONERROR);
  if (!lua_isnil(L, -1)) {
    lua_insert(L, -2);
    lua_pushstring(L, where);
    if (mwb_pcall_outside(L, s, 2, 0, 0) == LUA_OK) return;
  } else {
    lua_pop(L, 1);
  }
  if (!lua_toboolean(L, -1)) { /* a place of the state can't have nil */
    lua_pushfstring(L, "%s", luaL_typename(L, -1));
    lua_replace(L, -2);
  }
  mwb_push(L, s, MWB_LATE);
  if (lua_isnil(L, -1)) { /* the first one? */
    lua_pushvalue(L, -2);
    mwb_keep(L, s, MWB_LATE);
    s->pending = s->late = 1;
  }
  lua_pop(L, 2);
}
