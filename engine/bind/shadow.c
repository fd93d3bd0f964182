/*
** shadow.c - tables that tell of writes: emptied, with their own metatable.
** SPDX-License-Identifier: MIT
**
**     object (empty) --> own metatable --> __index    = shadow
**                                          __newindex = trap
**                                          __metatable, __pairs, __len, and
**                                          what else the class has
**                                          [1] = the class, [2] = guards
**     shadow (the contents) --> metatable: what the class inherits
**
** Invariant: the contents are in the shadow and the object itself holds
** nothing, so that every write comes to the trap and reads do not leave the VM.
** Only fields whose names begin with "__" are in both places: the object may be
** a metatable, and there Lua looks for them raw.
**
** A metatable is an object's own when its __newindex is the trap.  A trap may
** rest: then it is in [3], and __newindex is the shadow.
*/
#include "bind.h"

/* {======================================================
** The own metatable
** ======================================================= */

int mwb_raw_field(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  lua_pushstring(L, name);
  return lua_rawget(L, index);
}

int mwb_push_own(lua_State *L, int index) {
  int own;
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return 0;
  mwb_raw_field(L, -1, "__newindex");
  lua_rawgeti(L, -2, MWB_OWNTRAP); /* where it is while it rests */
  own =
      lua_tocfunction(L, -1) == mwb_trap || lua_tocfunction(L, -2) == mwb_trap;
  lua_pop(L, own ? 2 : 3);
  return own;
}

int mwb_push_shadow(lua_State *L, int index) {
  if (!mwb_push_own(L, index)) return 0;
  if (mwb_raw_field(L, -1, "__index") != LUA_TTABLE) { /* somebody spies */
    mwb_raw_field(L, -2, "__newindex");
    lua_getupvalue(L, -1, 1);
    lua_replace(L, -3);
    lua_pop(L, 1);
  }
  lua_replace(L, -2);
  return 1;
}

static int next_pair(lua_State *L) {
  lua_settop(L, 2);
  if (mwb_push_shadow(L, 1)) lua_replace(L, 1);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}

static int own_pairs(lua_State *L) {
  lua_pushcfunction(L, next_pair);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int own_len(lua_State *L) {
  lua_settop(L, 1);
  if (mwb_push_shadow(L, 1)) lua_replace(L, 1);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  return 1;
}

/* Most objects are no arrays, and do without a `__len`: a metatable of four
** fields is half as large as one of five. */
void mwb_need_len(lua_State *L, int index, mwi_object *r) {
  int top = lua_gettop(L);
  if (r->lengthy || !mwb_push_own(L, index)) return;
  if (mwb_raw_field(L, top + 1, "__len") == LUA_TNIL) {
    lua_pushliteral(L, "__len");
    lua_pushcfunction(L, own_len);
    lua_rawset(L, top + 1);
  }
  r->lengthy = 1;
  lua_settop(L, top);
}

/* Copies what is in the table at `from` into that at `to`; with `meta`, only
** the fields whose names begin with "__". */
static void copy(lua_State *L, int from, int to, int meta) {
  for (lua_pushnil(L); lua_next(L, from) != 0;) {
    if (!meta || mwb_is_meta(L, -2)) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, to);
    } else {
      lua_pop(L, 1);
    }
  }
}

/* }====================================================== */

/* {======================================================
** In: the stack of `enshadow`
** ======================================================= */

enum { OBJECT = 1, CLASS, SOURCE, SHADOW, OWN };

/* Sets a field of the own metatable to the value on the top. */
static void set_own(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_insert(L, -2);
  lua_rawset(L, OWN);
}

static void set_default(lua_State *L, const char *name, lua_CFunction f) {
  int type = mwb_raw_field(L, OWN, name);
  lua_pop(L, 1);
  if (type != LUA_TNIL) return;
  lua_pushcfunction(L, f);
  set_own(L, name);
}

/* Calls a class's `__index` function with the object instead of the shadow.
** Upvalues: that function, the object. */
static int index_object(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

/* Can the class serve as the shadow's metatable as it is? */
static int serves(lua_State *L) {
  static const char *const unwanted[] = {"__gc", "__newindex", NULL};
  int i, type = mwb_raw_field(L, CLASS, "__index");
  int ok = (type == LUA_TTABLE || type == LUA_TNIL) &&
           !lua_rawequal(L, OBJECT, CLASS);
  lua_pop(L, 1);
  for (i = 0; ok && unwanted[i] != NULL; i++) {
    ok = mwb_raw_field(L, CLASS, unwanted[i]) == LUA_TNIL;
    lua_pop(L, 1);
  }
  return ok;
}

/* Pushes a metatable with what the shadow needs of a class that cannot serve.
 */
static void push_heritage(lua_State *L) {
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "__index");
  if (mwb_raw_field(L, CLASS, "__index") == LUA_TFUNCTION) {
    lua_pushvalue(L, OBJECT);
    lua_pushcclosure(L, index_object, 2);
  }
  lua_rawset(L, -3);
  lua_pushliteral(L, "__mode");
  mwb_raw_field(L, CLASS, "__mode");
  lua_rawset(L, -3);
}

static void new_shadow(lua_State *L) {
  lua_Unsigned array = lua_rawlen(L, SOURCE), all = 0;
  for (lua_pushnil(L); lua_next(L, SOURCE) != 0; lua_pop(L, 1)) all++;
  if (array > all) array = all;
  lua_createtable(L, (int)array, (int)(all - array));
  if (lua_isnil(L, CLASS)) return;
  if (serves(L))
    lua_pushvalue(L, CLASS);
  else
    push_heritage(L);
  lua_setmetatable(L, SHADOW);
}

/* What `getmetatable` is to show. */
static void set_shown(lua_State *L) {
  int type = mwb_raw_field(L, OWN, "__metatable");
  lua_pop(L, 1);
  if (type != LUA_TNIL) return;
  if (lua_isnil(L, CLASS))
    lua_pushboolean(L, 0);
  else
    lua_pushvalue(L, CLASS);
  set_own(L, "__metatable");
}

static void set_trap(lua_State *L, mwb_state *s, mw_handle h) {
  lua_pushvalue(L, SHADOW);
  lua_pushinteger(L, (lua_Integer)h);
  lua_pushlightuserdata(L, s);
  lua_pushcclosure(L, mwb_trap, 3);
  set_own(L, "__newindex");
}

static void new_own(lua_State *L, mwb_state *s, mw_handle h) {
  lua_createtable(L, lua_isnil(L, CLASS) ? 0 : 1, 4);
  if (!lua_isnil(L, CLASS)) {
    copy(L, CLASS, OWN, 1);
    lua_pushvalue(L, CLASS);
    lua_rawseti(L, OWN, MWB_OWNCLASS);
  }
  set_shown(L);
  set_trap(L, s, h);
  lua_pushvalue(L, SHADOW);
  set_own(L, "__index");
  set_default(L, "__pairs", own_pairs);
}

/* Guards stay when the own metatable is a new one. */
static void keep_guards(lua_State *L) {
  if (!mwb_push_own(L, OBJECT)) return;
  lua_rawgeti(L, -1, MWB_OWNGUARDS);
  lua_rawseti(L, OWN, MWB_OWNGUARDS);
  lua_pop(L, 1);
}

/* A weak table whose metatable is changed may go unmarked for the rest of the
** cycle, so the new metatable is held by something else. */
static void anchor(lua_State *L) {
  int type = mwb_raw_field(L, OWN, "__mode");
  lua_pop(L, 1);
  if (type == LUA_TNIL) return;
  mwb_push(L, mwb_state_of(L), MWB_ANCHORS);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, OWN);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Takes all out of the table but what Lua looks up raw. */
static void wipe(lua_State *L, int table) {
  for (lua_pushnil(L); lua_next(L, table) != 0;) {
    lua_pop(L, 1);
    if (mwb_is_meta(L, -1)) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
}

/* enshadow(object, class): all that may fail comes first. */
static int enshadow(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_identify(L, s, "watch", OBJECT, 1);
  mwi_object *r = mwi_object_of(&s->engine->watch, mw_slot(h));
  int slow, lengthy;
  lua_settop(L, CLASS);
  if (!mwb_push_shadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  lengthy = lua_rawlen(L, SOURCE) > 0;
  new_shadow(L);
  new_own(L, s, h);
  if (lengthy) set_default(L, "__len", own_len);
  keep_guards(L);
  anchor(L);
  copy(L, SOURCE, SHADOW, 0);
  wipe(L, OBJECT);
  slow =
      !lua_isnil(L, CLASS) && mwb_raw_field(L, CLASS, "__newindex") != LUA_TNIL;
  if (r != NULL) {
    r->slow = (uint8_t)slow;
    r->lengthy = lengthy != 0;
  }
  lua_pushvalue(L, OWN);
  lua_setmetatable(L, OBJECT);
  return 0;
}

void mwb_enshadow(lua_State *L, int object, int class_) {
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  mwb_push_function(L, enshadow);
  lua_pushvalue(L, object);
  lua_pushvalue(L, class_);
  lua_call(L, 2, 0);
}

void mwb_set_class(lua_State *L, int object, int class_) {
  mwb_state *s = mwb_state_of(L);
  mw_handle former;
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  if (mwb_push_own(L, object)) {
    lua_pop(L, 1);
    mwb_enshadow(L, object, class_);
  } else {
    lua_pushvalue(L, class_);
    lua_setmetatable(L, object);
  }
  former = mwi_class_leave(s->engine, mwb_handle_of(L, s, object));
  mwb_join(L, s, object);
  mwb_left(L, s, former);
}

/* }====================================================== */

/* {======================================================
** Out
** ======================================================= */

void mwb_push_class(lua_State *L, int index) {
  if (mwb_push_own(L, index)) {
    lua_rawgeti(L, -1, MWB_OWNCLASS);
    lua_replace(L, -2);
  } else if (!lua_getmetatable(L, index)) {
    lua_pushnil(L);
  }
}

void mwb_undo_shadow(lua_State *L, int index) {
  int object = lua_absindex(L, index), top = lua_gettop(L);
  mwb_push_class(L, object); /* may run other code, so it comes first */
  if (!mwb_push_shadow(L, object)) {
    lua_settop(L, top);
    return;
  }
  for (lua_pushnil(L); lua_next(L, top + 2) != 0;) {
    if (mwb_is_meta(L, -2)) { /* is there */
      lua_pop(L, 1);
    } else {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, object);
    }
  }
  lua_pushvalue(L, top + 1);
  lua_setmetatable(L, object);
  lua_settop(L, top);
}

static int undo(lua_State *L) {
  mwb_undo_shadow(L, 1);
  return 0;
}

void mwb_unshadow(lua_State *L, int index) {
  int object = lua_absindex(L, index);
  lua_pushcfunction(L, undo);
  lua_pushvalue(L, object);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  if (mwb_push_own(L, object)) {
    lua_pop(L, 1);
    wipe(L, object);
  }
  lua_error(L);
}

void mwb_put_shallow(lua_State *L, int shadow, mwi_object *r) {
  mwb_state *s = mwb_state_of(L);
  if (mwb_noting(s) && !mwb_is_ignored(L)) {
    mwb_store_noted(L, shadow, r, s, mwb_handle_of(L, s, 1));
  } else {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    mwb_store_in(L, shadow, r);
  }
}

void mwb_put(lua_State *L, int shadow, mwi_object *r) {
  if (r != NULL && r->member != 0)
    mwb_put_deep(L, shadow);
  else
    mwb_put_shallow(L, shadow, r);
}

/* put(object, key, value): in the shadow, if there is one. */
static int put(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (mwb_push_shadow(L, 1))
    mwb_put(L, 4, mwb_object_at(L, s, 1));
  else
    lua_rawset(L, 1);
  return 0;
}

/* Moves what a class's `__newindex` has put into the object with `rawset` to
** the shadow.  With that, the object may be let go. */
static void absorb(lua_State *L, int object) {
  int top = lua_gettop(L);
  lua_pushnil(L);
  while (mwb_push_own(L, object)) {
    lua_pop(L, 1);
    if (lua_next(L, object) == 0) break;
    if (!mwb_is_meta(L, -2)) {
      lua_pushvalue(L, -2);
      lua_pushnil(L);
      lua_rawset(L, object);
      mwb_push_function(L, put);
      lua_pushvalue(L, object);
      lua_pushvalue(L, -4);
      lua_pushvalue(L, -4);
      lua_call(L, 3, 0);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, top);
}

/* call_newindex(object, key, value, newindex) */
static int call_newindex(lua_State *L) {
  mwb_call_newindex(L, 4);
  return 0;
}

/* It may raise after it has put something into the object. */
static void store_by_class(lua_State *L, int newindex) {
  int i, status;
  lua_pushcfunction(L, call_newindex);
  for (i = 1; i <= 3; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, newindex);
  status = lua_pcall(L, 4, 0, 0);
  absorb(L, 1);
  if (status != LUA_OK) lua_error(L);
}

void mwb_store(lua_State *L, int shadow, mwi_object *r) {
  int top = lua_gettop(L);
  if (r != NULL && lua_type(L, 2) == LUA_TNUMBER) mwb_need_len(L, 1, r);
  mwb_push_class(L, 1);
  if (!lua_isnil(L, -1) && mwb_raw_field(L, -1, "__newindex") != LUA_TNIL) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, shadow) == LUA_TNIL) {
      store_by_class(L, top + 2);
      lua_settop(L, top);
      return;
    }
  }
  lua_settop(L, top);
  mwb_put(L, shadow, r);
}

/* }====================================================== */

mwi_object *mwb_object_at(lua_State *L, mwb_state *s, int index) {
  return mwb_object_of(s, mwb_handle_of(L, s, index));
}

void mwb_open_shadow(lua_State *L, lua_CFunction write) {
  mwb_push_function(L, write);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &mwb_write_key);
  mwb_new_ephemeron(L, MWB_ANCHORS);
}
