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
#include "tree.h"

#include "identity.h"
#include "key.h"
#include "policy.h"
#include "shadow.h"
#include "trap.h"
#include "watch.h"

static const mw_value HOLD = {MW_TNIL, {0}};

/* {======================================================
** Scanning
** ======================================================= */

/* May a deep watch go from the object at `parent` down to the value on the top,
** which is under the key before it? */
static int descends(lua_State *L, mwb_state *s, int parent) {
  int top = lua_gettop(L), yes;
  if (!lua_istable(L, top) || mwb_is_ours(L, s, top)) return 0;
  if (!mwb_push_hook(L, s, MWB_DESCEND)) return 1;
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_call(L, 3, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* Links the object at `child` to `parent`, under the key at `key` (0: under no
** key). */
static int link_to(lua_State *L, mwb_state *s, mw_reach reach, mw_handle parent,
                   int key, int child) {
  int top = lua_gettop(L), code;
  mw_handle h = mwb_identify(L, s, "watch", child, 1);
  mw_value value = (key == 0) ? HOLD : mwb_key_to_keep(L, s, key);
  code = mw_tree_link(s->engine, reach, parent, &value, h);
  mwb_check(L, code);
  lua_settop(L, top);
  return code;
}

/* Links the child on the top, and appends it to the list if it is to be
** scanned. */
static void link_child(lua_State *L, mwb_state *s, mw_reach reach,
                       mw_handle parent, int key, int list) {
  int child = lua_gettop(L);
  if (link_to(L, s, reach, parent, key, child) != MW_NEW) return;
  lua_pushvalue(L, child);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Links what the object on the top holds, which gets a shadow. */
static void scan(lua_State *L, mwb_state *s, mw_reach reach, int list) {
  int object = lua_gettop(L);
  mw_handle h = mwb_handle_of(L, s, object);
  if (!mwb_push_shadow(L, object)) {
    mwb_push_class(L, object);
    mwb_enshadow(L, s, h, object, -1);
    lua_settop(L, object);
    if (!mwb_push_shadow(L, object)) return;
  }
  for (lua_pushnil(L); lua_next(L, object + 1) != 0; lua_pop(L, 1)) {
    if (descends(L, s, object))
      link_child(L, s, reach, h, lua_gettop(L) - 1, list);
  }
}

/* Scans all in the list on the top, to which more is added meanwhile. */
static void scan_all(lua_State *L, mwb_state *s, mw_reach reach) {
  int list = lua_gettop(L);
  lua_Integer i;
  luaL_checkstack(L, LUA_MINSTACK, "cannot scan");
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    scan(L, s, reach, list);
    lua_settop(L, list);
  }
  lua_settop(L, list - 1);
}

void mwb_include(lua_State *L, mwb_state *s, mw_reach reach, int index) {
  index = lua_absindex(L, index);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, 1);
  scan_all(L, s, reach);
}

/* }====================================================== */

/* {======================================================
** Letting go
** ======================================================= */

/* give_back(object, state) */
static int give_back(lua_State *L) {
  mwb_unshadow(L, (mwb_state *)lua_touserdata(L, 2), 1);
  return 0;
}

/* If there is no memory for giving an object back, it keeps its shadow, which
** does no harm.  While somebody records, nothing is let go: what is written to
** the object then may have to be taken back. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n) {
  int top = lua_gettop(L);
  mw_handle h;
  if (mw_journal_is_open(s->engine)) return;
  while (n-- > 0 && mw_tree_has_orphans(s->engine) &&
         (h = mw_tree_released(s->engine)) != MW_NONE) {
    lua_pushcfunction(L, give_back);
    if (mwb_alive(L, s, h) && !mwb_intercepts(s, h)) {
      lua_pushlightuserdata(L, s);
      lua_pcall(L, 2, 0, 0);
    }
    lua_settop(L, top);
  }
}

/* }====================================================== */

/* {======================================================
** Storing
** ======================================================= */

/* Lets go what earlier writes took out and this one does not put back.  The
** object may be among it. */
static void let_go_others(mwb_write *w) {
  mwb_let_go(w->L, w->s, SIZE_MAX);
  if (w->r->obj != w->obj) w->r = NULL;
  if (w->r == NULL || w->r->layout != w->layout) mwb_find_shadow(w);
}

/* store_table(object, key, value, shadow, write); runs protected. */
static int store_table(lua_State *L) {
  mwb_write w = *(const mwb_write *)lua_touserdata(L, SHADOW + 1);
  mwb_state *s = w.s;
  lua_settop(L, SHADOW);
  w.shadow = SHADOW;
  lua_newtable(L);
  lua_pushvalue(L, VALUE);
  link_child(L, s, 0, w.obj, 0, SHADOW + 1);
  lua_settop(L, SHADOW + 1);
  scan_all(L, s, 0);
  let_go_others(&w);
  link_to(L, s, 0, w.obj, KEY, VALUE);
  mw_tree_unlink(s->engine, w.obj, &HOLD);
  mwb_store_noted(&w);
  return 0;
}

/* What is below the value may not have been scanned to the end, so the value is
** to be new when it is stored again.  If storing itself failed, there was
** nothing under the key before. */
static void undo_store(mwb_write *w) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  int type;
  mw_tree_unlink(e, w->obj, &HOLD);
  mw_tree_resolve(e);
  lua_pushvalue(L, KEY);
  type = lua_rawget(L, w->shadow);
  lua_pop(L, 1);
  if (type == LUA_TNIL) mw_tree_unlink(e, w->obj, &w->change.key);
  mwb_let_go(L, w->s, SIZE_MAX);
}

static void put_table(mwb_write *w) {
  lua_State *L = w->L;
  mw_handle child = mwb_handle_of(L, w->s, VALUE);
  int moves = mw_tree_has(w->s->engine, child), i;
  lua_pushcfunction(L, store_table);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, w->shadow);
  lua_pushlightuserdata(L, w);
  if (lua_pcall(L, SHADOW + 1, 0, 0) != LUA_OK) {
    undo_store(w);
    lua_error(L);
  }
  if (!moves) mwb_let_go(L, w->s, SIZE_MAX);
}

static void put_other(mwb_write *w) {
  mwb_state *s = w->s;
  let_go_others(w);
  mwb_store_noted(w);
  mw_tree_unlink(s->engine, w->obj, &w->change.key);
  mwb_let_go(w->L, s, SIZE_MAX);
}

void mwb_store_linked(mwb_write *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), goes_down;
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  goes_down = !lua_isnil(L, KEY) && lua_rawequal(L, KEY, KEY) &&
              descends(L, w->s, OBJECT);
  lua_settop(L, top);
  if (goes_down)
    put_table(w);
  else
    put_other(w);
  if (mwb_has_orphans(w->s)) w->s->pending = 1;
}

/* }====================================================== */
