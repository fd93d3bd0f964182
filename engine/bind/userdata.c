/*
** userdata.c - userdata whose class, the metatable, intercepts writes.
** SPDX-License-Identifier: MIT
**
**     class (metatable) --> __newindex = trap --> upvalues: state, objects, the
**                                                 class's own `__newindex`, the
**                                                 number of watched objects
**
** Userdata share their metatable, and libraries recognise their userdata by the
** metatable.  So the class gets the trap, and the trap passes writes to objects
** that are not watched on to the class's own `__newindex`.  The last
** `mw.unwatch` gives the class its `__newindex` back.
*/
#include "entry.h"
#include "identity.h"
#include "shadow.h"
#include "trap.h"

#define UP_ORIGINAL lua_upvalueindex(3)

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

static void prepare_entry(mwb_write *w, mw_entry *entry) {
  mwb_begin_entry(w->L, w->s, entry);
  mwb_prepare(w->L, w->s, w->obj, KEY, VALUE, OLD, entry);
}

/* The class may store another value than VALUE; the entry has VALUE. */
void mwb_store_userdata(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  mw_entry entry;
  uint32_t id;
  int appends = mwb_appends(s) && !w->ignored;
  if (appends) {
    mwb_read_old(w);
    prepare_entry(w, &entry);
  }
  id = s->held.id;
  mwb_push_newindex(L, OBJECT);
  mwb_call_newindex(L, -1);
  lua_pop(L, 1);
  if (!appends) return;
  if (s->held.id != id) prepare_entry(w, &entry);
  mwb_check(L, mw_journal_append(s->engine, &entry));
}

static int trap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h =
      (s->engine == NULL) ? MW_NONE : mwb_intercepting_at(L, s, OBJECT);
  mwi_object *r = (h == MW_NONE) ? NULL : mwb_object_of(s, h);
  mwb_write w;
  lua_settop(L, VALUE);
  if (r == NULL || !mwi_object_intercepts(r)) {
    mwb_call_newindex(L, UP_ORIGINAL);
    return 0;
  }
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  w.ignored = mwb_is_ignored(L, s);
  if (w.ignored) {
    mwb_store_userdata(&w);
    return 0;
  }
  if (!mwb_write_check(&w)) return lua_error(L);
  mwb_write_count(&w);
  return mwb_write_run(&w, mwb_store_userdata);
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

/* Adds `n` to the trap on the top's number of watched objects.  Returns the
** sum. */
static lua_Integer add_watched(lua_State *L, lua_Integer n) {
  lua_getupvalue(L, -1, 4);
  n += lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_pushinteger(L, n);
  lua_setupvalue(L, -2, 4);
  return n;
}

void mwb_wrap_class(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L);
  push_class(L, index);
  if (!lua_isnil(L, -1) && lua_tocfunction(L, -1) != trap) {
    lua_pushlightuserdata(L, s);
    mwb_push(L, s, MWB_OBJECTS);
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

void mwb_unwrap_class(lua_State *L, int index) {
  int top = lua_gettop(L);
  push_class(L, index);
  if (lua_tocfunction(L, -1) == trap && add_watched(L, -1) == 0) {
    lua_getupvalue(L, -1, 3);
    lua_replace(L, -2);
    set_newindex(L);
  }
  lua_settop(L, top);
}
