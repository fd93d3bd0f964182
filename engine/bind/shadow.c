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
#include "journal.h"

/* {======================================================
** The trap
** ======================================================= */

/* Upvalues: shadow, handle, state. */
#define TRAP_SHADOW lua_upvalueindex(1)
#define TRAP_HANDLE lua_upvalueindex(2)
#define TRAP_STATE lua_upvalueindex(3)

static const char WRITE = 0;

/* Is it a string that Lua looks up raw in metatables? */
static int is_metaname(const char *s) { return s[0] == '_' && s[1] == '_'; }

static int is_meta(lua_State *L, int index) {
  return is_metaname(lua_tostring(L, index));
}

/* Raises Lua's own error for a key that no table takes, at the line that wrote:
** the nearest one in Lua. */
static void bad_index(lua_State *L, const char *what) {
  lua_Debug caller;
  int level;
  luaL_where(L, 1);
  for (level = 2; lua_rawlen(L, -1) == 0; level++) {
    if (!lua_getstack(L, level, &caller)) break;
    luaL_where(L, level);
  }
  lua_pushfstring(L, "table index is %s", what);
  lua_concat(L, 2);
  lua_error(L);
}

/* Stores key and value, at 2 and 3 and on the top, in the shadow at `shadow`;
** a field that Lua looks up raw goes into the object too.  Raises Lua's own
** errors for keys that no table takes. */
static void store(lua_State *L, int shadow, mwW_record *r) {
  switch (lua_type(L, 2)) {
    case LUA_TSTRING:
      if (!is_meta(L, 2)) break;
      lua_pushvalue(L, 2);
      lua_pushvalue(L, 3);
      lua_rawset(L, 1);
      break;
    case LUA_TNUMBER:
      if (!lua_rawequal(L, 2, 2)) bad_index(L, "NaN");
      if (r != NULL && !r->lengthy) mwB_needlen(L, 1, r);
      break;
    case LUA_TNIL:
      bad_index(L, "nil");
      break;
    default:
      break;
  }
  lua_rawset(L, shadow);
}

/* Somebody is to hear of it, or the class has a say. */
static int trap_slowly(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &WRITE);
  lua_insert(L, 1);
  lua_pushvalue(L, TRAP_SHADOW);
  lua_pushvalue(L, TRAP_HANDLE);
  lua_call(L, 5, 0);
  return 0;
}

/* Stores key and value, at 2 and 3, and notes it. */
static void store_noted(lua_State *L, int shadow, mwW_record *r, mwB_state *s,
                        mw_handle h) {
  int old = lua_gettop(L) + 1;
  mw_entry entry;
  if (r != NULL && !r->lengthy && lua_type(L, 2) == LUA_TNUMBER)
    mwB_needlen(L, 1, r); /* finalisers may run in it, and write */
  lua_pushvalue(L, 2);
  lua_rawget(L, shadow);
  mwB_prepare(L, s, h, 2, 3, old, &entry);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  store(L, shadow, r);
  mwB_note(s, &entry);
  lua_settop(L, old - 1);
}

/* Is there nothing to the key but that it is stored?  The entry's key is set
** then. */
static int is_simple(lua_State *L, mwB_state *s, const mwW_record *r,
                     mw_entry *entry) {
  int type = lua_type(L, 2), ok;
  if (type == LUA_TSTRING) {
    const char *key = lua_tostring(L, 2);
    if (is_metaname(key)) return 0;
    entry->type[MW_KEY] = MW_TOTHER;
    entry->value[MW_KEY].i = mwB_stringref(L, s, &s->journal, 0, 2, key);
    return 1;
  }
  if (type != LUA_TNUMBER || !r->lengthy) return 0;
  entry->type[MW_KEY] = MW_TINTEGER;
  entry->value[MW_KEY].i = lua_tointegerx(L, 2, &ok);
  return ok;
}

/* The same with fewer steps, for the trap: its arguments are used up. */
static void trap_noted(lua_State *L, mwW_record *r, mwB_state *s, mw_handle h) {
  mw_entry entry;
  int old;
  if (!is_simple(L, s, r, &entry)) {
    store_noted(L, TRAP_SHADOW, r, s, h);
    return;
  }
  lua_pushvalue(L, 2);
  old = lua_rawget(L, TRAP_SHADOW);
  mwB_packas(L, s, &s->journal, 0, 4, old, &entry, MW_OLD);
  mwB_packas(L, s, &s->journal, 0, 3, lua_type(L, 3), &entry, MW_NOW);
  mwB_complete(L, s, h, &entry);
  lua_settop(L, 3);
  lua_rawset(L, TRAP_SHADOW);
  mwB_note(s, &entry);
}

/* Does a write below something change what is below it, or may somebody hear
** of it? */
static int concerns_others(lua_State *L, const mwB_state *s) {
  int type;
  if (s->engine->watch.deep > 0 || lua_type(L, 3) == LUA_TTABLE) return 1;
  lua_pushvalue(L, 2);
  type = lua_rawget(L, TRAP_SHADOW);
  lua_settop(L, 3);
  return type == LUA_TTABLE;
}

static int trap(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, TRAP_STATE);
  mw_handle h = (mw_handle)lua_tointeger(L, TRAP_HANDLE);
  mwW_record *r = (s->engine == NULL) ? NULL : mwB_recordof(s, h);
  if (r != NULL) { /* else it was found dead */
    int noting = mwB_noting(s);
    if (r->armed > 0 || r->slow || (noting && s->ignores) ||
        (r->member != 0 && concerns_others(L, s)) || mwB_tracing(s))
      return trap_slowly(L);
    r->count += r->watched || r->member != 0;
    if (noting) {
      trap_noted(L, r, s, h);
      return 0;
    }
  }
  store(L, TRAP_SHADOW, r);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The own metatable
** ======================================================= */

int mwB_rawfield(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  lua_pushstring(L, name);
  return lua_rawget(L, index);
}

int mwB_pushown(lua_State *L, int index) {
  int own;
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return 0;
  mwB_rawfield(L, -1, "__newindex");
  lua_rawgeti(L, -2, MWB_OWNTRAP); /* where it is while it rests */
  own = lua_tocfunction(L, -1) == trap || lua_tocfunction(L, -2) == trap;
  lua_pop(L, own ? 2 : 3);
  return own;
}

int mwB_pushshadow(lua_State *L, int index) {
  if (!mwB_pushown(L, index)) return 0;
  if (mwB_rawfield(L, -1, "__index") != LUA_TTABLE) { /* somebody spies */
    mwB_rawfield(L, -2, "__newindex");
    lua_getupvalue(L, -1, 1);
    lua_replace(L, -3);
    lua_pop(L, 1);
  }
  lua_replace(L, -2);
  return 1;
}

static int next_pair(lua_State *L) {
  lua_settop(L, 2);
  if (mwB_pushshadow(L, 1)) lua_replace(L, 1);
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
  if (mwB_pushshadow(L, 1)) lua_replace(L, 1);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  return 1;
}

int mwB_ismeta(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TSTRING && is_meta(L, index);
}

/* Most objects are no arrays, and do without a `__len`: a metatable of four
** fields is half as large as one of five. */
void mwB_needlen(lua_State *L, int index, mwW_record *r) {
  int top = lua_gettop(L);
  if (r->lengthy || !mwB_pushown(L, index)) return;
  if (mwB_rawfield(L, top + 1, "__len") == LUA_TNIL) {
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
    if (!meta || mwB_ismeta(L, -2)) {
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
  int type = mwB_rawfield(L, OWN, name);
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
  int i, type = mwB_rawfield(L, CLASS, "__index");
  int ok = (type == LUA_TTABLE || type == LUA_TNIL) &&
           !lua_rawequal(L, OBJECT, CLASS);
  lua_pop(L, 1);
  for (i = 0; ok && unwanted[i] != NULL; i++) {
    ok = mwB_rawfield(L, CLASS, unwanted[i]) == LUA_TNIL;
    lua_pop(L, 1);
  }
  return ok;
}

/* Pushes a metatable with what the shadow needs of a class that cannot serve.
 */
static void push_heritage(lua_State *L) {
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "__index");
  if (mwB_rawfield(L, CLASS, "__index") == LUA_TFUNCTION) {
    lua_pushvalue(L, OBJECT);
    lua_pushcclosure(L, index_object, 2);
  }
  lua_rawset(L, -3);
  lua_pushliteral(L, "__mode");
  mwB_rawfield(L, CLASS, "__mode");
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
  int type = mwB_rawfield(L, OWN, "__metatable");
  lua_pop(L, 1);
  if (type != LUA_TNIL) return;
  if (lua_isnil(L, CLASS))
    lua_pushboolean(L, 0);
  else
    lua_pushvalue(L, CLASS);
  set_own(L, "__metatable");
}

static void set_trap(lua_State *L, mwB_state *s, mw_handle h) {
  lua_pushvalue(L, SHADOW);
  lua_pushinteger(L, (lua_Integer)h);
  lua_pushlightuserdata(L, s);
  lua_pushcclosure(L, trap, 3);
  set_own(L, "__newindex");
}

static void new_own(lua_State *L, mwB_state *s, mw_handle h) {
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
  if (!mwB_pushown(L, OBJECT)) return;
  lua_rawgeti(L, -1, MWB_OWNGUARDS);
  lua_rawseti(L, OWN, MWB_OWNGUARDS);
  lua_pop(L, 1);
}

/* A weak table whose metatable is changed may go unmarked for the rest of the
** cycle, so the new metatable is held by something else. */
static void anchor(lua_State *L) {
  int type = mwB_rawfield(L, OWN, "__mode");
  lua_pop(L, 1);
  if (type == LUA_TNIL) return;
  mwB_push(L, MWB_ANCHORS);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, OWN);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Takes all out of the table but what Lua looks up raw. */
static void wipe(lua_State *L, int table) {
  for (lua_pushnil(L); lua_next(L, table) != 0;) {
    lua_pop(L, 1);
    if (mwB_ismeta(L, -1)) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
}

/* enshadow(object, class): all that may fail comes first. */
static int enshadow(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  mw_handle h = mwB_identify(L, s, "watch", OBJECT, 1);
  mwW_record *r = mwW_recordof(&s->engine->watch, mw_slot(h));
  int slow, lengthy;
  lua_settop(L, CLASS);
  if (!mwB_pushshadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  lengthy = lua_rawlen(L, SOURCE) > 0;
  new_shadow(L);
  new_own(L, s, h);
  if (lengthy) set_default(L, "__len", own_len);
  keep_guards(L);
  anchor(L);
  copy(L, SOURCE, SHADOW, 0);
  wipe(L, OBJECT);
  slow =
      !lua_isnil(L, CLASS) && mwB_rawfield(L, CLASS, "__newindex") != LUA_TNIL;
  if (r != NULL) {
    r->slow = (uint8_t)slow;
    r->lengthy = lengthy != 0;
  }
  lua_pushvalue(L, OWN);
  lua_setmetatable(L, OBJECT);
  return 0;
}

void mwB_enshadow(lua_State *L, int object, int class_) {
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  mwB_pushfunction(L, enshadow);
  lua_pushvalue(L, object);
  lua_pushvalue(L, class_);
  lua_call(L, 2, 0);
}

void mwB_setclass(lua_State *L, int object, int class_) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  mw_handle former;
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  if (mwB_pushown(L, object)) {
    lua_pop(L, 1);
    mwB_enshadow(L, object, class_);
  } else {
    lua_pushvalue(L, class_);
    lua_setmetatable(L, object);
  }
  former = mwW_leave(s->engine, mwB_handleof(L, s, object));
  mwB_join(L, s, object);
  mwB_left(L, s, former);
}

/* }====================================================== */

/* {======================================================
** Out
** ======================================================= */

void mwB_pushclass(lua_State *L, int index) {
  if (mwB_pushown(L, index)) {
    lua_rawgeti(L, -1, MWB_OWNCLASS);
    lua_replace(L, -2);
  } else if (!lua_getmetatable(L, index)) {
    lua_pushnil(L);
  }
}

void mwB_undoshadow(lua_State *L, int index) {
  int object = lua_absindex(L, index), top = lua_gettop(L);
  mwB_pushclass(L, object); /* may run other code, so it comes first */
  if (!mwB_pushshadow(L, object)) {
    lua_settop(L, top);
    return;
  }
  for (lua_pushnil(L); lua_next(L, top + 2) != 0;) {
    if (mwB_ismeta(L, -2)) { /* is there */
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
  mwB_undoshadow(L, 1);
  return 0;
}

void mwB_unshadow(lua_State *L, int index) {
  int object = lua_absindex(L, index);
  lua_pushcfunction(L, undo);
  lua_pushvalue(L, object);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  if (mwB_pushown(L, object)) {
    lua_pop(L, 1);
    wipe(L, object);
  }
  lua_error(L);
}

void mwB_putshallow(lua_State *L, int shadow, mwW_record *r) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  if (mwB_noting(s) && !mwB_isignored(L)) {
    store_noted(L, shadow, r, s, mwB_handleof(L, s, 1));
  } else {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    store(L, shadow, r);
  }
}

void mwB_put(lua_State *L, int shadow, mwW_record *r) {
  if (r != NULL && r->member != 0)
    mwB_putdeep(L, shadow);
  else
    mwB_putshallow(L, shadow, r);
}

/* put(object, key, value): in the shadow, if there is one. */
static int put(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  if (mwB_pushshadow(L, 1))
    mwB_put(L, 4, mwB_recordat(L, s, 1));
  else
    lua_rawset(L, 1);
  return 0;
}

/* Moves what a class's `__newindex` has put into the object with `rawset` to
** the shadow.  With that, the object may be let go. */
static void absorb(lua_State *L, int object) {
  int top = lua_gettop(L);
  lua_pushnil(L);
  while (mwB_pushown(L, object)) {
    lua_pop(L, 1);
    if (lua_next(L, object) == 0) break;
    if (!mwB_ismeta(L, -2)) {
      lua_pushvalue(L, -2);
      lua_pushnil(L);
      lua_rawset(L, object);
      mwB_pushfunction(L, put);
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
  mwB_callnewindex(L, 4);
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

void mwB_store(lua_State *L, int shadow, mwW_record *r) {
  int top = lua_gettop(L);
  if (r != NULL && lua_type(L, 2) == LUA_TNUMBER) mwB_needlen(L, 1, r);
  mwB_pushclass(L, 1);
  if (!lua_isnil(L, -1) && mwB_rawfield(L, -1, "__newindex") != LUA_TNIL) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, shadow) == LUA_TNIL) {
      store_by_class(L, top + 2);
      lua_settop(L, top);
      return;
    }
  }
  lua_settop(L, top);
  mwB_put(L, shadow, r);
}

/* }====================================================== */

mwW_record *mwB_recordat(lua_State *L, mwB_state *s, int index) {
  return mwB_recordof(s, mwB_handleof(L, s, index));
}

void mwB_openshadow(lua_State *L, lua_CFunction write) {
  mwB_pushfunction(L, write);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &WRITE);
  mwB_newephemeron(L, MWB_ANCHORS);
}
