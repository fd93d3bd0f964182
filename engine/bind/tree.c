/*
** tree.c - deep watches: what is below an object has a shadow as well.
** SPDX-License-Identifier: MIT
**
** The engine knows the links; here they are found.  An object is scanned when
** it comes to be below a root: what its fields hold is linked, and scanned in
** its turn if it is new there.  After that each write to it links what it
** stores and unlinks what was there before.
**
** A table that is to be stored is held by a link of its own (under no key)
** until all below it are included, and stored then, so a failure leaves the
** object as it was.
**
** What a write takes out is let go at once, unless the write put in something
** that was there before: then it is perhaps a move (a swap, a sort), and let go
** when the next write has not put it back, or when the library is called.
*/
#include "bind.h"
#include "policy.h"

static const mw_value HOLD = {MW_TNIL, {0}};

/* {======================================================
** Scanning
** ======================================================= */

/* May a deep watch go from the object at `parent` down to the value on the top,
** which is under the key before it? */
static int descends(lua_State *L, int parent) {
  int top = lua_gettop(L), yes;
  if (!lua_istable(L, top) || mwb_is_ours(L, top)) return 0;
  if (!mwb_push_hook(L, mwb_state_of(L), MWB_DESCEND)) return 1;
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_call(L, 3, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* Links the object at `child` to `parent`, under the key at `key` (0: under no
** key).  The number of a string is good until the next key is forgotten, so it
** is asked for last. */
static int link_to(lua_State *L, mwb_state *s, mw_handle parent, int key,
                   int child) {
  int top = lua_gettop(L), code;
  mw_handle h = mwb_identify(L, s, "watch", child, 1);
  mw_value value = (key == 0) ? HOLD : mwb_key(L, s, key, 1);
  s->L = L;
  code = mw_tree_link(s->engine, parent, &value, h);
  mwb_check(L, code);
  lua_settop(L, top);
  return code;
}

/* Links the child on the top, and appends it to the list if it is to be
** scanned. */
static void link_child(lua_State *L, mwb_state *s, mw_handle parent, int key,
                       int list) {
  int child = lua_gettop(L);
  int code = link_to(L, s, parent, key, child);
  if (code != MW_NEW) return;
  lua_pushvalue(L, child);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

static void need_shadow(lua_State *L, int object) {
  int top = lua_gettop(L);
  if (!mwb_push_shadow(L, object)) {
    mwb_push_class(L, object);
    mwb_enshadow(L, object, -1);
  }
  mwb_wake(L, object);
  lua_settop(L, top);
}

/* Links what the object on the top holds. */
static void scan(lua_State *L, mwb_state *s, int list) {
  int object = lua_gettop(L);
  mw_handle h = mwb_handle_of(L, s, object);
  need_shadow(L, object);
  if (!mwb_push_shadow(L, object)) return;
  for (lua_pushnil(L); lua_next(L, object + 1) != 0; lua_pop(L, 1)) {
    if (descends(L, object)) link_child(L, s, h, lua_gettop(L) - 1, list);
  }
}

/* Scans all in the list on the top, to which more is added meanwhile. */
static void scan_all(lua_State *L, mwb_state *s) {
  int list = lua_gettop(L);
  lua_Integer i;
  luaL_checkstack(L, LUA_MINSTACK, "cannot scan");
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    scan(L, s, list);
    lua_settop(L, list);
  }
  lua_settop(L, list - 1);
}

void mwb_include(lua_State *L, mwb_state *s, int index) {
  index = lua_absindex(L, index);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, 1);
  scan_all(L, s);
}

/* }====================================================== */

/* {======================================================
** Letting go
** ======================================================= */

static int give_back(lua_State *L) {
  mwb_undo_shadow(L, 1);
  return 0;
}

/* If there is no memory for giving it back, it keeps its shadow, which does no
** harm.  While somebody records, nothing is let go: what is written to it then
** may have to be taken back. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n) {
  int top = lua_gettop(L);
  mw_handle h;
  if (mw_journal_is_open(s->engine)) return;
  while (n-- > 0 && (s->L = L, h = mw_tree_released(s->engine)) != MW_NONE) {
    lua_pushcfunction(L, give_back);
    if (!mwb_alive(L, s, h))
      lua_pop(L, 1);
    else if (mwb_intercepts(s, h))
      mwb_rest(L, mwb_object_of(s, h), -1);
    else
      lua_pcall(L, 1, 0, 0);
    lua_settop(L, top);
  }
}

/* }====================================================== */

/* {======================================================
** Storing
** ======================================================= */

enum { OBJECT = 1, KEY, VALUE, SHADOW };

/* Lets go what earlier writes took out and this one does not put back.  The
** object may be among it. */
static void letgo_others(lua_State *L, mwb_state *s) {
  mwb_let_go(L, s, SIZE_MAX);
  if (!mwb_push_shadow(L, OBJECT)) lua_pushvalue(L, OBJECT);
  lua_replace(L, SHADOW);
}

/* store_table(object, key, value, shadow); runs protected. */
static int store_table(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  lua_newtable(L);
  lua_pushvalue(L, VALUE);
  link_child(L, s, h, 0, SHADOW + 1);
  lua_settop(L, SHADOW + 1);
  scan_all(L, s);
  letgo_others(L, s);
  link_to(L, s, h, KEY, VALUE);
  mw_tree_unlink(s->engine, h, &HOLD);
  mwb_put_shallow(L, SHADOW, mwb_object_at(L, s, OBJECT));
  return 0;
}

/* If storing itself failed, there was nothing under the key before. */
static void undo_store(lua_State *L, mwb_state *s, mw_handle h) {
  int top = lua_gettop(L);
  mw_value key = mwb_key(L, s, KEY, 0);
  s->L = L;
  mw_tree_unlink(s->engine, h, &HOLD);
  lua_pushvalue(L, KEY);
  if (lua_rawget(L, SHADOW) == LUA_TNIL) mw_tree_unlink(s->engine, h, &key);
  lua_settop(L, top);
  mwb_let_go(L, s, SIZE_MAX);
}

static void put_table(lua_State *L, mwb_state *s, mw_handle h) {
  int moves = mw_tree_has(s->engine, mwb_handle_of(L, s, VALUE)), i;
  mwb_push_function(L, store_table);
  for (i = OBJECT; i <= SHADOW; i++) lua_pushvalue(L, i);
  if (lua_pcall(L, SHADOW, 0, 0) != LUA_OK) {
    undo_store(L, s, h);
    lua_error(L);
  }
  if (!moves) mwb_let_go(L, s, SIZE_MAX);
}

static void put_other(lua_State *L, mwb_state *s, mw_handle h) {
  mw_value key;
  letgo_others(L, s);
  mwb_put_shallow(L, SHADOW, mwb_object_at(L, s, OBJECT));
  key = mwb_key(L, s, KEY, 0);
  s->L = L;
  mw_tree_unlink(s->engine, h, &key);
  mwb_let_go(L, s, SIZE_MAX);
}

/* put_deep(object, key, value, shadow) */
static int put_deep(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  int is_key = !lua_isnil(L, KEY) && lua_rawequal(L, KEY, KEY);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  if (is_key && descends(L, OBJECT))
    put_table(L, s, h);
  else
    put_other(L, s, h);
  if (mwb_unsettled(s)) s->pending = 1;
  return 0;
}

void mwb_put_deep(lua_State *L, int shadow) {
  mwb_push_function(L, put_deep);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  lua_pushvalue(L, shadow);
  lua_call(L, SHADOW, 0);
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* The stack of `tell`. */
enum { GUARD = 1, ROOT, WRITTEN, FIELD, OLD, NEW, KIND };

/* The step up from `h`. */
static int step(mwb_state *s, mw_handle root, mw_handle *h, mw_value *key) {
  return mw_tree_above(s->engine, root, *h, h, key) == MW_OK;
}

/* Pushes the keys that lead from the root to the field that was written; the
** field alone when there is no way any more. */
static void push_path(lua_State *L, mwb_state *s) {
  mw_handle root = mwb_handle_of(L, s, ROOT), h = mwb_handle_of(L, s, WRITTEN);
  mw_handle at = h;
  mw_value key;
  int n = 0;
  s->L = L;
  while (step(s, root, &at, &key)) n++;
  lua_createtable(L, n + 1, 0);
  lua_pushvalue(L, FIELD);
  lua_rawseti(L, -2, n + 1);
  for (at = h; step(s, root, &at, &key); n--) {
    mwb_push_key(L, s, &key);
    lua_rawseti(L, -2, n);
  }
}

/* tell(guard, root, written object, field, old, new, kind) */
static int tell(lua_State *L) {
  push_path(L, mwb_state_of(L));
  lua_replace(L, FIELD);
  lua_remove(L, WRITTEN);
  if (!lua_isfunction(L, GUARD)) {
    lua_getfield(L, GUARD, "invalidate");
    lua_insert(L, GUARD);
  }
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

/* }====================================================== */

void mwb_open_tree(lua_State *L) {
  mwb_push_function(L, tell);
  mwb_keep(L, mwb_state_of(L), MWB_TELL);
}
