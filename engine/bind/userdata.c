/*
** userdata.c - userdata that tell of writes, through their metatable.
** SPDX-License-Identifier: MIT
**
**     class (metatable) --> __newindex = trap --> upvalues: state, objects, the
**                                                 class's own, watched objects
**
** A userdata shares its metatable with others, and libraries know their own by
** it, so it is the class that gets a trap: it passes on what is not watched.
** The class gets its own `__newindex` back with the last `mw.unwatch`.
*/
#include "bind.h"
#include "trace.h"

#define UP_ORIGINAL lua_upvalueindex(3)

/* write(userdata, key, value, original, handle) */
static const char WRITE = 0;

void mwb_call_newindex(lua_State *L, int newindex) {
  newindex = lua_absindex(L, newindex);
  if (lua_type(L, newindex) == LUA_TFUNCTION) {
    lua_pushvalue(L, newindex);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_call(L, 3, 0);
  } else {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_settable(L, newindex);
  }
}

static int trap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = (s->engine == NULL) ? MW_NONE : mwb_intercepting_at(L, s, 1);
  mwi_object *r = (h == MW_NONE) ? NULL : mwb_object_of(s, h);
  lua_settop(L, 3);
  if (r != NULL && (r->armed > 0 || mwb_noting(s) || mwb_tracing(s))) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &WRITE);
    lua_insert(L, 1);
    lua_pushvalue(L, UP_ORIGINAL);
    lua_pushinteger(L, (lua_Integer)h);
    lua_call(L, 5, 0);
    return 0;
  }
  if (r != NULL && r->watched) mwi_object_count(s->engine, r);
  mwb_call_newindex(L, UP_ORIGINAL);
  return 0;
}

/* Pushes the class of the userdata at `index` and its `__newindex`. */
static void push_class(lua_State *L, int index) {
  lua_getmetatable(L, index);
  lua_pushliteral(L, "__newindex");
  lua_rawget(L, -2);
}

/* Sets the `__newindex` of the class at -2 to the value on the top. */
static void set_newindex(lua_State *L) {
  lua_pushliteral(L, "__newindex");
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

void mwb_push_newindex(lua_State *L, int index) {
  push_class(L, index);
  lua_replace(L, -2);
  if (lua_tocfunction(L, -1) != trap) return;
  lua_getupvalue(L, -1, 3);
  lua_replace(L, -2);
}

/* Adds `n` to the number of watched objects of the trap on the top. */
static lua_Integer add_watched(lua_State *L, lua_Integer n) {
  lua_getupvalue(L, -1, 4);
  n += lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_pushinteger(L, n);
  lua_setupvalue(L, -2, 4);
  return n;
}

void mwb_patch(lua_State *L, int index) {
  int top = lua_gettop(L);
  push_class(L, index);
  if (!lua_isnil(L, -1) && lua_tocfunction(L, -1) != trap) {
    lua_pushvalue(L, MWB_UPSTATE);
    lua_pushvalue(L, MWB_UPOBJECTS);
    lua_rotate(L, -3, -1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, trap, 4);
    lua_pushvalue(L, -1);
    lua_insert(L, top + 1);
    set_newindex(L);
    lua_settop(L, top + 1);
  }
  if (!lua_isnil(L, -1)) add_watched(L, 1);
  lua_settop(L, top);
}

void mwb_unpatch(lua_State *L, int index) {
  int top = lua_gettop(L);
  push_class(L, index);
  if (lua_tocfunction(L, -1) == trap && add_watched(L, -1) == 0) {
    lua_getupvalue(L, -1, 3);
    lua_replace(L, -2);
    set_newindex(L);
  }
  lua_settop(L, top);
}

void mwb_open_userdata(lua_State *L, lua_CFunction write) {
  mwb_push_function(L, write);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &WRITE);
  mwb_new_ephemeron(L, MWB_HELD);
}
