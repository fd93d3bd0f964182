/*
** shadow.c - intercepted tables: emptied, with an own metatable.
** SPDX-License-Identifier: MIT
**
**     object (empty) --> own metatable --> __index    = shadow
**                                          __newindex = trap (state, handle,
**                                                       shadow, class)
**                                          __metatable, __pairs, __len, and
**                                          the class's other metamethods
**                                          [1], [2] ... = function guards
**     shadow (the contents) --> heritage --> __index = the class's
**
** Invariant: the contents are in the shadow, so every write of theirs calls the
** trap, and reads of fields do not leave the VM.  The object itself has only
** metamethods, for it may be a metatable: these are no contents, and nobody is
** told of them.  What else is in the object was put there by `rawset`, by C or
** by the object's class: reads show it, and mw.sync makes it contents.
**
** What an object inherits is what its class had as `__index` when the object
** got its shadow; mw.refresh gives it another shadow.  Objects with the same
** table as `__index` share a heritage, objects without an `__index` have none.
** An `__index` function gets the object and no inner table, so an object of
** such a class has a heritage of its own, with a function that knows the
** object.
**
** A metatable is an object's own if its `__newindex` is the trap.
**
** `getmetatable` shows the class, by the `__metatable` of own metatables.
** Objects without a class show one empty table that all of them share, so that
** a function which copies objects can give this table to `setmetatable`.  An
** object with this metatable has no class.
*/
#include "traps.h"

#include <string.h>

#include "../base/base.h"
#include "../readers/readers.h"
#include "../watch/watch.h"

/* {======================================================
** The own metatable
** ======================================================= */

int mwb_raw_field(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  lua_pushstring(L, name);
  return lua_rawget(L, index);
}

/* Pushes the own metatable and the trap, or returns 0. */
static int push_trap(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return 0;
  mwb_raw_field(L, -1, "__newindex");
  if (lua_tocfunction(L, -1) == mwb_trap) return 1; /* is it an own one? */
  lua_pop(L, 2);
  return 0;
}

static const char NO_CLASS = 0;

/* Pushes the metatable that objects without a class show. */
static void push_no_class(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &NO_CLASS);
}

int mwb_is_no_class(lua_State *L, int index) {
  int is;
  index = lua_absindex(L, index);
  push_no_class(L);
  is = lua_rawequal(L, index, -1);
  lua_pop(L, 1);
  return is;
}

/* The `__newindex` of the metatable that objects without a class show. */
static int refuse_no_class(lua_State *L) {
  return luaL_error(L,
                    "all watched objects without a metatable show this "
                    "table: use mw.setmetatable");
}

static void open_no_class(lua_State *L, mwb_state *s) {
  static const luaL_Reg meta[] = {{"__newindex", refuse_no_class},
                                  {NULL, NULL}};
  mwb_new_meta(L, MWB_NOCLASS, "metatable of no class", meta, NULL);
  lua_newtable(L);
  mwb_push(L, s, MWB_NOCLASS);
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &NO_CLASS);
}

int mwb_push_own(lua_State *L, int index) {
  if (!push_trap(L, index)) return 0;
  lua_pop(L, 1);
  return 1;
}

int mwb_push_next(lua_State *L, const mwb_state *s, uint32_t *slot) {
  int top = lua_gettop(L);
  mwb_push(L, s, MWB_OBJECTS);
  while (++*slot < s->engine->identity.top) {
    lua_settop(L, top + 1);
    lua_rawgeti(L, top + 1, (lua_Integer)*slot);
    if (!mwb_push_own(L, -1)) continue; /* dead, or not intercepted */
    lua_remove(L, top + 1);
    return 1;
  }
  lua_settop(L, top);
  return 0;
}

int mwb_push_shadow(lua_State *L, int index) {
  if (!push_trap(L, index)) return 0;
  lua_getupvalue(L, -1, MWB_TRAP_SHADOW);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return 1;
}

void mwb_push_contents(lua_State *L, int index) {
  if (!mwb_push_shadow(L, index)) lua_pushvalue(L, index);
}

void mwb_push_class(lua_State *L, int index) {
  if (push_trap(L, index)) {
    if (lua_getupvalue(L, -1, MWB_TRAP_CLASS) == NULL) lua_pushnil(L);
    lua_replace(L, -3);
    lua_pop(L, 1);
  } else if (!lua_getmetatable(L, index)) {
    lua_pushnil(L);
  } else if (mwb_is_no_class(L, -1)) { /* set by a function that copies? */
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

/* Which fields are copied: also, only, or not those that are metamethods? */
enum { ALL, META, NO_META };

/* Copies fields of the table at `from` to the table at `to`. */
static void copy_into(lua_State *L, int from, int to, int which) {
  for (lua_pushnil(L); lua_next(L, from) != 0;) {
    if (which == ALL || mwb_is_meta(L, -2) == (which == META)) { /* its sort? */
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, to);
    } else {
      lua_pop(L, 1);
    }
  }
}

/* Goes on with a walk after the contents have moved: the keys are those of the
** former contents, which stay as they were, the values are the present ones. */
static int next_moved(lua_State *L) {
  lua_settop(L, 2);
  mwb_push_contents(L, 1);
  lua_pushvalue(L, 2);
  while (lua_next(L, lua_upvalueindex(1))) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 3) != LUA_TNIL) return 2; /* or is it gone? */
    lua_pop(L, 1);
  }
  lua_pushnil(L);
  return 1;
}

/* The iterator of `pairs`; upvalues: the contents at the begin of the walk, the
** address of the own metatable of that time. */
static int next_content(lua_State *L) {
  lua_settop(L, 2);
  if (lua_getmetatable(L, 1) == 0 ||
      lua_topointer(L, 3) != lua_touserdata(L, lua_upvalueindex(2)))
    return next_moved(L); /* it has another shadow, or none */
  lua_pushvalue(L, 2);
  if (lua_next(L, lua_upvalueindex(1))) return 2;
  lua_pushnil(L);
  return 1;
}

/* Pushes what `pairs` gives for the table at `index`. */
static int push_walk(lua_State *L, int index) {
  int top = lua_gettop(L);
  if (mwb_push_shadow(L, index)) {
    lua_getmetatable(L, index);
    lua_pushlightuserdata(L, (void *)(uintptr_t)lua_topointer(L, -1));
    lua_replace(L, -2);
  } else {
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, NULL);
  }
  lua_pushcclosure(L, next_content, 2);
  lua_pushvalue(L, index);
  lua_pushnil(L);
  return lua_gettop(L) - top;
}

/* Is there anything in the intercepted table at `index` itself? */
static int has_raw(lua_State *L, int index) {
  lua_pushnil(L);
  if (!lua_next(L, index)) return 0;
  lua_pop(L, 2);
  return 1;
}

/* If there is anything raw in the table at `index`, makes the walk on the top
** one through a copy of both. */
static void add_raw(lua_State *L, int index) {
  int walk = lua_gettop(L) - 2;
  if (!has_raw(L, index)) return;
  lua_getupvalue(L, walk, 1);
  mwb_add_raw(L, index);
  lua_setupvalue(L, walk, 1);
}

/* Ends `own_pairs`: a class's `__pairs` has returned three values.  Lua's
** `next` finds an intercepted table empty. */
static int end_pairs(lua_State *L, int status, lua_KContext context) {
  const mwb_state *s = (const mwb_state *)context;
  (void)status;
  if (s->next == NULL || lua_tocfunction(L, -3) != s->next || /* not Lua's? */
      !mwb_push_shadow(L, -2)) /* or does it walk a plain table? */
    return 3;
  lua_pop(L, 1);
  push_walk(L, lua_absindex(L, -2));
  add_raw(L, lua_absindex(L, -2));
  lua_pushvalue(L, -4); /* the class's first key */
  lua_replace(L, -2);
  return 3;
}

void mwb_add_raw(lua_State *L, int index) {
  int contents = lua_gettop(L);
  if (!has_raw(L, index)) return;
  lua_newtable(L);
  copy_into(L, contents, contents + 1, ALL);
  copy_into(L, index, contents + 1, ALL);
  lua_replace(L, contents);
}

void mwb_push_all(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (mwb_push_shadow(L, index))
    mwb_add_raw(L, index);
  else
    lua_pushvalue(L, index);
}

static int own_pairs(lua_State *L) {
  mwb_state *s;
  lua_settop(L, 1);
  if (!push_trap(L, 1)) return push_walk(L, 1);
  lua_getupvalue(L, 3, MWB_TRAP_STATE);
  s = (mwb_state *)lua_touserdata(L, -1);
  if (s->traps->reading) mwb_note_read(L, s, 1);
  lua_settop(L, 1);
  mwb_push_class(L, 1);
  if (lua_isnil(L, 2) || mwb_raw_field(L, 2, "__pairs") == LUA_TNIL) {
    push_walk(L, 1); /* the class has no `__pairs` */
    add_raw(L, 1);
    return 3;
  }
  lua_pushvalue(L, 1);
  lua_callk(L, 1, 3, (lua_KContext)s, end_pairs);
  return end_pairs(L, LUA_OK, (lua_KContext)s);
}

/* The length with what is raw in the object.  Upvalue: the shadow. */
static int own_len(lua_State *L) {
  int shadow = lua_upvalueindex(1);
  lua_Integer n = (lua_Integer)lua_rawlen(L, shadow);
  lua_settop(L, 1);
  while (lua_istable(L, 1) && (lua_rawgeti(L, 1, n + 1) != LUA_TNIL ||
                               lua_rawgeti(L, shadow, n + 1) != LUA_TNIL)) {
    lua_settop(L, 1);
    n++;
  }
  lua_pushinteger(L, n);
  return 1;
}

/* Most objects are no arrays and get none: a metatable of four fields takes
** half the memory of one of five. */
void mwb_set_len(lua_State *L, int own, int shadow) {
  if (mwb_raw_field(L, own, "__len") == LUA_TNIL) { /* nor has the class one? */
    lua_pushvalue(L, shadow);
    lua_pushcclosure(L, own_len, 1);
    lua_setfield(L, own, "__len");
  }
  lua_pop(L, 1);
}

void mwb_need_len(lua_State *L, int index, mwi_object *r) {
  int top = lua_gettop(L);
  if ((r->needs & MWI_SHORT) == 0 || !push_trap(L, index)) return; /* done? */
  lua_getupvalue(L, -1, MWB_TRAP_STATE);
  mwb_push_shadow(L, index);
  mwb_set_len(L, top + 1, top + 4);
  mwb_heed_reads(L, (mwb_state *)lua_touserdata(L, top + 3), top + 1, top + 4);
  r->needs &= (uint16_t)~MWI_SHORT;
  lua_settop(L, top);
}

/* }====================================================== */

/* {======================================================
** Function guards
** ======================================================= */

lua_Integer mwb_add_guard(lua_State *L, int holder, mwi_object *r) {
  lua_Integer place = r->guards;
  if (place == 0) { /* is no place free? */
    place = (lua_Integer)lua_rawlen(L, holder) + 1;
    lua_rawseti(L, holder, place);
    return place;
  }
  lua_rawgeti(L, holder, place);
  r->guards = (uint32_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_rawseti(L, holder, place);
  return place;
}

void mwb_drop_guard(lua_State *L, int holder, mwi_object *r,
                    lua_Integer place) {
  lua_pushinteger(L, r->guards);
  lua_rawseti(L, holder, place);
  r->guards = (uint32_t)place;
}

void mwb_push_guards(lua_State *L, mwb_state *s, int index, int make) {
  index = lua_absindex(L, index);
  if (mwb_push_own(L, index)) return; /* a table's are in it */
  mwb_push(L, s, MWB_FUNCTIONS);
  lua_pushvalue(L, index);
  if (lua_rawget(L, -2) == LUA_TNIL && make) { /* the first guard? */
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, index);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, -2);
}

/* }====================================================== */

/* {======================================================
** In
** ======================================================= */

/* call_index(shadow, key): the `__index` of a heritage of one object; upvalues:
** the class's function, the object */
static int call_index(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

/* Pops a value and pushes a heritage with it as `__index`. */
static void new_heritage(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_insert(L, -2);
  lua_setfield(L, -2, "__index");
}

/* Pops a table and pushes the heritage with that `__index`. */
static void push_shared(lua_State *L, const mwb_state *s) {
  int index = lua_gettop(L);
  mwb_push(L, s, MWB_HERITAGES);
  lua_pushvalue(L, index);
  if (lua_rawget(L, index + 1) == LUA_TNIL) { /* the first object with it? */
    lua_settop(L, index + 1);
    lua_pushvalue(L, index);
    new_heritage(L);
    lua_pushvalue(L, index);
    lua_pushvalue(L, index + 2);
    lua_rawset(L, index + 1);
  }
  lua_replace(L, index);
  lua_settop(L, index);
}

/* Gives the new shadow at `contents` what the class hands down to objects. */
static void set_heritage(lua_State *L, const mwb_state *s, int object,
                         int class_, int contents) {
  int type = mwb_raw_field(L, class_, "__index");
  if (type == LUA_TNIL) { /* does it hand nothing down? */
    lua_pop(L, 1);
    return;
  }
  if (type == LUA_TTABLE) { /* the same for all objects? */
    push_shared(L, s);
  } else {
    if (type == LUA_TFUNCTION) { /* does it want the object? */
      lua_pushvalue(L, object);
      lua_pushcclosure(L, call_index, 2);
    }
    new_heritage(L);
  }
  lua_setmetatable(L, contents);
}

/* Pushes a new own metatable for the trap on the top, with which `getmetatable`
** returns the class, and with the guards of the former own metatable, if there
** is one at `former`, or 0. */
static void push_new_own(lua_State *L, int former, int class_, int contents) {
  int trap = lua_gettop(L), own = trap + 1, has_class = !lua_isnil(L, class_);
  lua_Integer i, n = (former == 0) ? 0 : (lua_Integer)lua_rawlen(L, former);
  lua_createtable(L, 1, 4);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, former, i);
    lua_rawseti(L, own, i);
  }
  if (has_class) copy_into(L, class_, own, META);
  lua_pushvalue(L, contents);
  lua_setfield(L, own, "__index");
  lua_pushvalue(L, trap);
  lua_setfield(L, own, "__newindex");
  lua_pushcfunction(L, own_pairs);
  lua_setfield(L, own, "__pairs");
  if (!has_class)
    push_no_class(L);
  else if (mwb_raw_field(L, own, "__metatable") == LUA_TNIL) /* not hidden? */
    lua_copy(L, class_, -1);
  lua_setfield(L, own, "__metatable");
}

/* Removes all fields of the table but metamethods. */
static void wipe(lua_State *L, int table) {
  for (lua_pushnil(L); lua_next(L, table) != 0;) {
    lua_pop(L, 1);
    if (mwb_is_meta(L, -1)) continue; /* it stays in the object */
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
}

static size_t bytes(lua_State *L) {
  return (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 +
         (size_t)lua_gc(L, LUA_GCCOUNTB);
}

/* Emptied tables of fewer fields keep their memory. */
#define ROOM 16

/* shrink(table, fields): makes Lua free the memory of an emptied table.  Lua
** resizes a table only when a new key finds no free place, and a place that had
** a key once counts as not free.  So this fills and clears all places but the
** last, to which no pointer leads, and then sets keys whose main place is the
** first: `false`, 0 and the null pointer.  Lua 5.5 resizes the array only for
** the sake of an integer that could be in it. */
static int shrink(lua_State *L) {
  lua_Integer places = 1, i;
  size_t before = bytes(L);
  while (places < lua_tointeger(L, 2)) places *= 2;
  for (i = 1; i <= places && bytes(L) >= before; i++) { /* not freed yet? */
    lua_pushboolean(L, 1);
    lua_rawsetp(L, 1, (void *)(uintptr_t)i);
    lua_pushnil(L);
    lua_rawsetp(L, 1, (void *)(uintptr_t)i);
  }
  lua_pushboolean(L, 0);
  lua_pushboolean(L, 1);
  lua_rawset(L, 1);
  lua_pushboolean(L, 1);
  lua_rawseti(L, 1, 0);
  lua_pushboolean(L, 1);
  if (bytes(L) >= before) lua_rawsetp(L, 1, NULL); /* still not? */
  for (i = 1; i <= 4 && bytes(L) >= before; i++) { /* is it Lua 5.5? */
    lua_pushboolean(L, 1);
    lua_rawseti(L, 1, 2 * places + i);
  }
  return 0;
}

/* The bits of `needs` that say how an object lies. */
#define PER_OBJECT (MWI_CLASS | MWI_SHORT)

/* All steps that can fail come before the first change of the object.  Shadow,
** trap and own metatable are made one after the other: the collector finds what
** it sweeps close together. */
void mwb_enshadow(lua_State *L, mwb_state *s, mw_handle h, int object,
                  int class_) {
  int former = lua_gettop(L) + 1, has_class, is_new, source, contents, own;
  lua_Unsigned length, fields = 0, array;
  mwi_object *r = mwb_object_of(s, h);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  has_class = !lua_isnil(L, class_);
  is_new = !push_trap(L, object);
  if (!is_new) lua_getupvalue(L, former + 1, MWB_TRAP_SHADOW);
  source = is_new ? object : former + 2; /* or do the contents move? */
  contents = lua_gettop(L) + 1;
  own = contents + 2;
  for (lua_pushnil(L); lua_next(L, source) != 0; lua_pop(L, 1)) fields++;
  length = lua_rawlen(L, source);
  array = (length < fields) ? length : fields; /* length counts holes */
  lua_createtable(L, (int)array, (int)(fields - array));
  if (has_class) set_heritage(L, s, object, class_, contents);
  lua_pushlightuserdata(L, s);
  lua_pushinteger(L, (lua_Integer)h);
  lua_pushvalue(L, contents);
  if (has_class) lua_pushvalue(L, class_);
  lua_pushcclosure(L, mwb_trap, has_class ? MWB_TRAP_CLASS : MWB_TRAP_SHADOW);
  push_new_own(L, is_new ? 0 : former, class_, contents);
  if (length > 0) mwb_set_len(L, own, contents); /* a list? */
  mwb_heed_reads(L, s, own, contents);
  copy_into(L, source, contents, NO_META);
  if (is_new) wipe(L, object);
  lua_setmetatable(L, object);
  if (r != NULL) {
    if (is_new) mwi_object_renew(s->engine, r);
    r->needs &= (uint16_t) ~(unsigned)PER_OBJECT;
    if (has_class && mwb_raw_field(L, class_, "__newindex") != LUA_TNIL)
      r->needs |= MWI_CLASS; /* which is asked about absent keys */
    if (length == 0) r->needs |= MWI_SHORT; /* until a first element comes */
    r->elsewhere = 0;
    r->layout++;
  }
  lua_copy(L, contents, former);
  lua_settop(L, former);
  if (!is_new) return;  /* it was empty before */
  if (fields >= ROOM) { /* is its memory worth it? */
    lua_pushcfunction(L, shrink);
    lua_pushvalue(L, object);
    lua_pushinteger(L, (lua_Integer)fields);
    lua_pcall(L, 2, 0, 0); /* without memory, the table keeps its room */
    lua_settop(L, former);
    wipe(L, object);
  }
  mwb_note_heard(s, h);
}

void mwb_set_class(lua_State *L, mwb_state *s, int object, int class_) {
  mw_handle h = mwb_handle_of(L, s, object);
  const mwi_object *r = mwb_object_of(s, h);
  object = lua_absindex(L, object);
  class_ = lua_absindex(L, class_);
  if (mwb_push_own(L, object)) {
    if (r != NULL && r->watched) mwb_tell_class(L, s, object, MWB_UNWATCHED);
    mwb_enshadow(L, s, h, object, class_);
    lua_pop(L, 2);
    if (r != NULL && r->watched) mwb_tell_class(L, s, object, MWB_WATCHED);
  } else {
    lua_pushvalue(L, class_);
    lua_setmetatable(L, object);
  }
}

lua_Integer mwb_refresh(lua_State *L, mwb_state *s, int class_) {
  int top = lua_gettop(L);
  lua_Integer n = 0;
  uint32_t slot = 0;
  class_ = lua_absindex(L, class_);
  for (; mwb_push_next(L, s, &slot); lua_settop(L, top)) {
    mwb_push_class(L, top + 1);
    if (!lua_rawequal(L, -1, class_)) continue;
    mwb_set_class(L, s, top + 1, class_);
    n++;
  }
  return n;
}

/* }====================================================== */

/* {======================================================
** Out
** ======================================================= */

/* unshadow(object, class, shadow): gives the contents back to the object */
static int unshadow(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, 3) != 0;) {
    lua_pushvalue(L, -2);
    if (lua_rawget(L, 1) != LUA_TNIL) {
      lua_settop(L, 4); /* the object has a value of its own */
    } else {
      lua_pop(L, 1);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 1);
    }
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 0;
}

/* Pops the shadow, and removes what the object at `object` has got of it. */
static void take_back(lua_State *L, int object) {
  int shadow = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, shadow) != 0; lua_settop(L, shadow + 1)) {
    lua_pushvalue(L, shadow + 1);
    lua_rawget(L, object);
    if (!lua_rawequal(L, -1, -2)) continue; /* not yet, or put in raw? */
    lua_pushvalue(L, shadow + 1);
    lua_pushnil(L);
    lua_rawset(L, object);
  }
  lua_pop(L, 1);
}

int mwb_unshadow(lua_State *L, mwb_state *s, int index) {
  int object = lua_absindex(L, index), status;
  mwi_object *r;
  if (!mwb_push_shadow(L, object)) return LUA_OK; /* given back before? */
  lua_pushcfunction(L, unshadow);
  lua_pushvalue(L, object);
  mwb_push_class(L, object);
  lua_rotate(L, -4, -1); /* object, class, shadow */
  status = lua_pcall(L, 3, 0, 0);
  if (status != LUA_OK) {
    if (mwb_push_shadow(L, object)) take_back(L, object); /* no new class? */
    return status;
  }
  r = mwb_object_at(L, s, object);
  if (r == NULL) return status;
  r->guards = 0;
  r->needs &= (uint16_t) ~(unsigned)PER_OBJECT;
  r->layout++;
  return status;
}

/* }====================================================== */

void mwb_open_shadow(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  open_no_class(L, s);
  mwb_new_ephemeron(L, MWB_RULES);
  mwb_new_ephemeron(L, MWB_HERITAGES);
  mwb_new_ephemeron(L, MWB_FUNCTIONS);
}
