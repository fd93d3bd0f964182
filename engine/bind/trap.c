/*
** trap.c - the path of a write.
** SPDX-License-Identifier: MIT
**
**     look -> count -> tell before -> store and append -> tell after
**
** Every change takes this path: an assignment, mw.touch, a method that mutates,
** mw.sync, mw.setmetatable, apply, rollback; of tables and of userdata.
** Changes differ in how they store.  Each step stands once in this file and
** gets the same `mwb_write`, which has the results of all lookups.  Only a
** guard can make these results wrong: then `told` is set, and the step looks up
** what the step needs again.
**
** The trap is the `__newindex` of an intercepted table.  The `needs` of the
** object and of the state name all work of a write, in one word.  So a write
** without work, or which only sets flags, is counted and stored at once.
*/
#include "trap.h"

#include "entry.h"
#include "identity.h"
#include "key.h"
#include "policy.h"
#include "shadow.h"
#include "trace.h"

/* {======================================================
** Looking
** ======================================================= */

static void init_write(lua_State *L, mwb_state *s, mwb_write *w, mwi_object *r,
                       int kind) {
  w->L = L;
  w->s = s;
  w->r = r;
  w->seq = s->engine->watch.seq;
  w->change.kind = kind;
  w->change.same = 0;
  w->change.host = w;
  w->change.note = 0;
  w->owner = MW_NONE;
  w->plain = kind == MWB_PLAIN;
  w->has_old = w->ignored = w->told = w->failed = 0;
}

void mwb_write_open(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                    int kind, int has_old) {
  init_write(L, s, w, mwi_object_find(&s->engine->watch, h), kind);
  w->obj = h;
  w->has_old = has_old;
  mwb_normalize_key(L);
  w->change.key = mwb_key(L, s, KEY);
  lua_settop(L, has_old ? OLD : SHADOW);
  mwb_find_shadow(w);
}

void mwb_find_shadow(mwb_write *w) {
  lua_State *L = w->L;
  if (lua_gettop(L) < SHADOW) lua_settop(L, SHADOW);
  if (!mwb_push_shadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  lua_replace(L, SHADOW);
  w->shadow = SHADOW;
  if (w->r != NULL) w->layout = w->r->layout;
}

void mwb_normalize_key(lua_State *L) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, KEY) != LUA_TNUMBER || lua_isinteger(L, KEY)) return;
  n = lua_tointegerx(L, KEY, &ok);
  if (!ok) return;
  lua_pushinteger(L, n);
  lua_replace(L, KEY);
}

static int get_field(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

void mwb_push_current(lua_State *L) {
  int top = lua_gettop(L);
  if (mwb_push_shadow(L, OBJECT)) {
    lua_pushvalue(L, KEY);
    lua_rawget(L, top + 1);
    lua_replace(L, top + 1);
  } else {
    lua_pushcfunction(L, get_field);
    lua_pushvalue(L, OBJECT);
    lua_pushvalue(L, KEY);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) return;
    lua_settop(L, top);
    lua_pushnil(L);
  }
}

/* No write happens between this read and the first guard, so OLD is the value
** from before all guards. */
void mwb_read_old(mwb_write *w) {
  lua_State *L = w->L;
  int type;
  if (w->has_old) return;
  if (w->change.key.type == MW_TINTEGER) mwb_normalize_key(L);
  if (w->shadow == TRAP_SHADOW)
    lua_pushnil(L); /* SHADOW */
  else
    lua_settop(L, SHADOW);
  if (w->shadow == TRAP_SHADOW || lua_istable(L, OBJECT)) {
    lua_pushvalue(L, KEY);
    type = lua_rawget(L, w->shadow);
  } else {
    mwb_push_current(L);
    type = lua_type(L, OLD);
  }
  w->has_old = 1;
  if (!w->plain) return;
  w->change.kind = lua_isnil(L, VALUE)  ? MW_DELETE
                   : (type == LUA_TNIL) ? MW_INSERT
                                        : MW_UPDATE;
}

void mwb_write_compare(mwb_write *w) {
  int kind = w->change.kind;
  w->change.same =
      lua_rawequal(w->L, OLD, VALUE) && kind != MW_TOUCH && kind != MW_CALL;
}

int mwb_is_ignored(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L), ignored = 0;
  if ((s->needs & MWB_IGNORES) == 0 || !mwb_push_question(L, s, MWB_IGNORED))
    return 0;
  lua_pushvalue(L, OBJECT);
  lua_call(L, 1, 1);
  if (lua_istable(L, -1) && !lua_isnil(L, KEY)) {
    lua_pushvalue(L, KEY);
    ignored = lua_rawget(L, -2) != LUA_TNIL;
  }
  lua_settop(L, top);
  return ignored;
}

/* }====================================================== */

/* {======================================================
** Storing
** ======================================================= */

/* Does Lua look the name up raw in metatables? */
static int is_meta(const char *s) { return s[0] == '_' && s[1] == '_'; }

int mwb_is_meta(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TSTRING && is_meta(lua_tostring(L, index));
}

/* Raises Lua's own error for a key that a table cannot have.  The error's line
** is the nearest line in Lua, which contains the assignment. */
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

/* Is the string at KEY a metamethod's name?  For a short string `key` has the
** bytes. */
static int is_meta_key(lua_State *L, const mw_value *key) {
  if (key->u.i == 0) return mwb_is_meta(L, KEY);
  return is_meta((const char *)(uintptr_t)key->u.i);
}

/* Stores the pair on the top, which is a copy of KEY and VALUE, in the shadow
** at `shadow`, and a metamethod in the object too.  `r` may be NULL.  Raises
** Lua's own errors for keys that a table cannot have. */
static void store_in(lua_State *L, int shadow, mwi_object *r,
                     const mw_value *key) {
  switch (key->type) {
    case MW_TSTRING:
      if (!is_meta_key(L, key)) break;
      lua_pushvalue(L, KEY);
      lua_pushvalue(L, VALUE);
      lua_rawset(L, OBJECT);
      break;
    case MW_TFLOAT:
      if (key->u.f != key->u.f) bad_index(L, "NaN");
      break;
    case MW_TINTEGER:
      if (r != NULL && (r->needs & MWI_SHORT)) mwb_need_len(L, OBJECT, r);
      break;
    case MW_TNIL:
      bad_index(L, "nil");
      break;
    default:
      break;
  }
  lua_rawset(L, shadow);
}

/* Leaves KEY and VALUE on the top. */
static void push_pair(const mwb_write *w) {
  if (w->shadow == TRAP_SHADOW && !w->has_old)
    return; /* KEY and VALUE are the top */
  lua_pushvalue(w->L, KEY);
  lua_pushvalue(w->L, VALUE);
}

/* Can the key be stored by one `rawset`?  If so, sets the entry's key. */
static int is_simple(mwb_write *w, mw_entry *entry) {
  const mw_value *key = &w->change.key;
  if (key->type == MW_TSTRING) {
    const char *text = (const char *)(uintptr_t)key->u.i;
    if (text == NULL || is_meta(text)) return 0;
    entry->type[MW_KEY] = MW_TOTHER;
    entry->value[MW_KEY].i =
        mwb_hold_string(w->L, w->s, &w->s->held, 0, KEY, text);
    return 1;
  }
  if (key->type != MW_TINTEGER || w->r == NULL || (w->r->needs & MWI_SHORT))
    return 0;
  entry->type[MW_KEY] = MW_TINTEGER;
  entry->value[MW_KEY] = key->u;
  return 1;
}

/* Reads the old value anew, because a guard may have written. */
void mwb_store_field(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  mw_entry entry;
  int top, type;
  if (!mwb_appends(s) || w->ignored) {
    push_pair(w);
    store_in(L, w->shadow, w->r, &w->change.key);
    return;
  }
  top = lua_gettop(L);
  entry.where = 0;
  if (s->wheres == 0 && is_simple(w, &entry)) {
    lua_pushvalue(L, KEY);
    type = lua_rawget(L, w->shadow);
    mwb_pack_as(L, s, &s->held, 0, top + 1, type, &entry, MW_OLD);
    mwb_pack_as(L, s, &s->held, 0, VALUE, lua_type(L, VALUE), &entry, MW_NOW);
    mwb_complete(L, s, w->obj, &entry);
    lua_settop(L, top);
    push_pair(w);
    lua_rawset(L, w->shadow);
  } else {
    if (w->r != NULL && (w->r->needs & MWI_SHORT) &&
        lua_type(L, KEY) == LUA_TNUMBER)
      mwb_need_len(L, OBJECT, w->r); /* may run finalisers, which may write */
    mwb_begin_entry(L, s, &entry);
    lua_pushvalue(L, KEY);
    lua_rawget(L, w->shadow);
    mwb_prepare(L, s, w->obj, KEY, VALUE, top + 1, &entry);
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    store_in(L, w->shadow, w->r, &w->change.key);
    lua_settop(L, top);
  }
  mwb_append_entry(s, &entry);
}

/* Does the write replace, or put in, a table below the object? */
static int is_linked(const mwb_write *w) {
  lua_State *L = w->L;
  int type = lua_type(L, VALUE);
  if (type == LUA_TTABLE) return 1;
  if (!mw_tree_is_parent(w->s->engine, w->obj)) return 0;
  lua_pushvalue(L, KEY);
  type = lua_rawget(L, w->shadow);
  lua_pop(L, 1);
  return type == LUA_TTABLE;
}

void mwb_store_contents(mwb_write *w) {
  if (w->r != NULL && (w->r->needs & MWI_TREE) && is_linked(w))
    mwb_store_linked(w);
  else
    mwb_store_field(w);
}

void mwb_store_nothing(mwb_write *w) { (void)w; }

/* put(object, key, value): stores a field that a class has put into the
** object */
static int put(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  mwb_write w;
  if (h == MW_NONE) { /* the class has ended the watch */
    lua_rawset(L, OBJECT);
    return 0;
  }
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  w.ignored = mwb_is_ignored(L, s);
  mwb_store_contents(&w);
  return 0;
}

/* Moves the fields that a class's `__newindex` has put into the object by
** `rawset` to the shadow.  A move may call code that gives the object back. */
static void absorb(lua_State *L, mwb_state *s, int object) {
  int top = lua_gettop(L);
  lua_pushnil(L);
  while (mwb_push_own(L, object)) {
    lua_pop(L, 1);
    if (lua_next(L, object) == 0) break;
    if (!mwb_is_meta(L, -2)) {
      lua_pushvalue(L, -2);
      lua_pushnil(L);
      lua_rawset(L, object);
      mwb_push_function(L, s, put);
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

/* Absorbs also if the class raises: the class may have stored before. */
static void store_by_class(lua_State *L, mwb_state *s, int newindex) {
  int i, status;
  lua_pushcfunction(L, call_newindex);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, newindex);
  status = lua_pcall(L, 4, 0, 0);
  absorb(L, s, OBJECT);
  if (status != LUA_OK) lua_error(L);
}

/* A class with a `__newindex` is asked about absent keys. */
void mwb_store_value(mwb_write *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  if (w->r == NULL || (w->r->needs & MWI_CLASS) == 0) {
    mwb_store_contents(w);
    return;
  }
  if (lua_type(L, KEY) == LUA_TNUMBER && (w->r->needs & MWI_SHORT))
    mwb_need_len(L, OBJECT, w->r);
  mwb_push_class(L, OBJECT);
  if (!lua_isnil(L, -1) && mwb_raw_field(L, -1, "__newindex") != LUA_TNIL) {
    lua_pushvalue(L, KEY);
    if (lua_rawget(L, w->shadow) == LUA_TNIL) {
      store_by_class(L, w->s, top + 2);
      lua_settop(L, top);
      return;
    }
  }
  lua_settop(L, top);
  mwb_store_contents(w);
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Does a watch, a batch or a trace read the old value, or is a guard called
** after the store? */
static int needs_old(const mwb_write *w, unsigned needs) {
  const mwi_watches *watch = &w->s->engine->watch;
  if (needs & (MWI_SKIPS | MWB_TRACES)) return 1;
  return watch->after > 0 || (watch->deep_skips > 0 && w->r->nodes != 0);
}

/* A guard may have written, ended the watch, or changed the class. */
static void look_again(mwb_write *w) {
  if (w->r->obj != w->obj) w->r = NULL;
  if (w->r == NULL || w->r->layout != w->layout) mwb_find_shadow(w);
  if (w->has_old == MWB_GIVEN || w->s->engine->watch.after == 0) return;
  if (lua_istable(w->L, OBJECT)) { /* the value that the store replaces */
    lua_pushvalue(w->L, KEY);
    lua_rawget(w->L, w->shadow);
  } else {
    mwb_push_current(w->L);
  }
  lua_replace(w->L, OLD);
}

void mwb_write_before(mwb_write *w) {
  mwb_state *s = w->s;
  mw_engine *e = s->engine;
  unsigned needs = s->needs | ((w->r != NULL) ? w->r->needs : 0u);
  uint64_t calls = e->watch.calls;
  if (w->r == NULL) return;
  if (w->has_old || needs_old(w, needs)) {
    mwb_read_old(w);
    mwb_write_compare(w);
  }
  if (needs & MWB_BATCHES) w->change.note = mwb_note_write(w);
  if (needs & MWB_TRACES) mwb_trace_write(w->L, s, w->obj, KEY, w->change.kind);
  mwi_write_begin(e, w->r, &w->change, w->seq);
  if (needs & MWB_TRACES)
    mwb_trace_heard(w->L, s, w->obj, KEY, e->watch.calls - calls);
  if (w->told) look_again(w);
}

int mwb_write_after(mwb_write *w) {
  mw_engine *e = w->s->engine;
  uint64_t calls = e->watch.calls;
  if (e->watch.after > 0 && w->r != NULL && w->r->obj == w->obj) {
    mwi_write_end(e, w->r, &w->change, w->seq);
    if (w->s->needs & MWB_TRACES)
      mwb_trace_heard(w->L, w->s, w->obj, KEY, e->watch.calls - calls);
  }
  if (w->failed) lua_settop(w->L, FAILURE);
  return w->failed;
}

int mwb_write_run(mwb_write *w, mwb_storer store) {
  mwb_write_before(w);
  store(w);
  if (mwb_write_after(w)) return lua_error(w->L);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The trap
** ======================================================= */

/* The path of a write with more work than flags. */
static int trap_write(lua_State *L, mwb_state *s, mwi_object *r,
                      const mw_value *key) {
  mwb_write w;
  init_write(L, s, &w, r, MWB_PLAIN);
  w.obj = r->obj;
  w.shadow = TRAP_SHADOW;
  w.layout = r->layout;
  w.change.key = *key;
  if (!(s->needs & MWB_IGNORES) || !mwb_is_ignored(L, s)) {
    mwi_object_count(s->engine, r);
    return mwb_write_run(&w, mwb_store_value);
  }
  w.ignored = 1;
  mwb_store_value(&w);
  return 0;
}

/* Clears the bits of `needs` without work for this write: KEYED if no watch has
** this key, and TREE if no watch above waits for writes and no table comes or
** goes. */
static unsigned look(lua_State *L, const mwb_state *s, const mwi_object *r,
                     const mw_value *key, unsigned needs) {
  if ((needs & (MWI_HEARD | MWI_KEYED)) == MWI_KEYED &&
      !mwi_field_is_heard(s->engine, r, key))
    needs &= ~(unsigned)(MWI_KEYED | MWI_CALLS);
  if ((needs & (MWI_TREE | MWI_LINKS)) == MWI_TREE &&
      lua_type(L, VALUE) != LUA_TTABLE &&
      (s->engine->watch.deep == 0 || mwi_tree_is_quiet(s->engine, r)))
    needs &= ~(unsigned)MWI_TREE;
  return needs;
}

/* Sets `key` to the key as the engine sees it.  Returns whether one `rawset`
** stores the field. */
static inline int read_key(lua_State *L, mwb_state *s, const mwi_object *r,
                           mw_value *key) {
  size_t len;
  int type = lua_type(L, KEY);
  if (type == LUA_TSTRING) {
    const char *text = lua_tolstring(L, KEY, &len);
    key->type = MW_TSTRING;
    key->u.i = (int64_t)(uintptr_t)text;
    if (len <= s->short_string) return !is_meta(text);
  }
  if (type == LUA_TNUMBER) {
    int ok;
    key->type = MW_TINTEGER;
    key->u.i = lua_tointegerx(L, KEY, &ok);
    if (ok) return (r->needs & MWI_SHORT) == 0;
  }
  *key = mwb_key(L, s, KEY);
  return 0;
}

/* Sets as much of `key` as `store_in` reads; the engine may be closed. */
static void read_dead_key(lua_State *L, mw_value *key) {
  int type = lua_type(L, KEY);
  key->u.i = 0;
  key->type = (type == LUA_TSTRING) ? MW_TSTRING
              : (type == LUA_TNIL)  ? MW_TNIL
                                    : MW_TOTHER;
  if (type != LUA_TNUMBER) return;
  key->type = MW_TFLOAT;
  key->u.f = lua_tonumber(L, KEY);
}

int mwb_trap(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, TRAP_STATE);
  mw_handle h = (mw_handle)lua_tointeger(L, TRAP_HANDLE);
  mwi_object *r =
      (s->engine == NULL) ? NULL : mwi_object_find(&s->engine->watch, h);
  unsigned needs;
  mw_value key;
  int simple;
  if (r == NULL) { /* the object is dead, or the engine closed */
    read_dead_key(L, &key);
    store_in(L, TRAP_SHADOW, NULL, &key);
    return 0;
  }
  simple = read_key(L, s, r, &key);
  needs = (r->needs | s->needs) & ~(unsigned)(MWI_SHORT | MWI_SKIPS);
  if (needs != 0) needs = look(L, s, r, &key, needs);
  if (needs & ~(unsigned)(MWI_HEARD | MWI_KEYED))
    return trap_write(L, s, r, &key);
  mwi_object_count(s->engine, r);
  if (needs != 0) mwi_write_flags(s->engine, r, &key);
  if (simple)
    lua_rawset(L, TRAP_SHADOW);
  else
    store_in(L, TRAP_SHADOW, r, &key);
  return 0;
}

/* }====================================================== */
