/*
** tree.c - deep watches: objects below a deeply watched one get shadows, too.
** SPDX-License-Identifier: MIT
**
** The engine stores the links; this file finds the links.  When an object
** enters the tree of a root, the object is scanned: every table in a field is
** linked, and scanned too if the table is new in the tree.  After the scan,
** each write to the object links the value that the write stores and unlinks
** the value that the write replaces.
**
** A table to be stored is first held by an extra link (under no key), then all
** tables below are included, and only then the table is stored.  While the
** table is stored, the extra link holds the table that was in the field.  So a
** failure leaves the object unchanged, and can put the links back without
** memory.
**
** An object that a write takes out of the tree may be about to move: a program
** takes out and then puts in, in a swap and a sort as well.  So the objects are
** given back later, if they have not come back: when the library is called,
** when one of them is written and the engine finds that it has left, or after
** so many writes that may have taken objects out.
*/
#include "tree.h"

#include "class.h"
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

/* Does a deep watch include the value on the top, which the object at `parent`
** has under the key below the top? */
static int descends(lua_State *L, mwb_state *s, int parent) {
  int top = lua_gettop(L), yes;
  if (!lua_istable(L, top) || mwb_is_ours(L, s, top)) return 0;
  if (!mwb_push_question(L, s, MWB_DESCEND)) return 1;
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

/* Links the child on the top, and appends a child that is new to the list of
** objects to scan. */
static void link_child(lua_State *L, mwb_state *s, mw_reach reach,
                       mw_handle parent, int key, int list) {
  int child = lua_gettop(L);
  if (link_to(L, s, reach, parent, key, child) != MW_NEW) return;
  lua_pushvalue(L, child);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Gives the object on the top a shadow, and links the tables in its fields. */
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

/* Scans all objects in the list on the top.  A scan may append to the list. */
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

/* An object keeps its shadow if there is no memory for giving the object back;
** the shadow does no harm.  While the journal is open, all objects keep their
** shadows, because a later write to the object may have to be rolled back. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n) {
  int top = lua_gettop(L);
  mw_handle h;
  if (mw_journal_is_open(s->engine)) return;
  s->taking = 0;
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

/* The number of writes for which orphans may wait. */
#define WAITING 32

/* Gives back the orphans of earlier writes if it is time.  The written object
** may be such an orphan. */
static void let_go_others(mwb_write *w) {
  if (!mw_tree_has_orphans(w->s->engine)) w->s->taking = 0;
  if (++w->s->taking <= WAITING) return;
  mwb_let_go(w->L, w->s, SIZE_MAX);
  if (w->r->obj != w->obj) w->r = NULL;
  if (w->r == NULL || w->r->layout != w->layout) mwb_find_shadow(w);
}

/* store_table(object, key, value, shadow, write), called by lua_pcall */
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
  mwb_keep_walks(L, s);
  let_go_others(&w);
  mw_tree_exchange(s->engine, w.obj, &w.change.key, &HOLD,
                   mwb_handle_of(L, s, VALUE));
  link_to(L, s, 0, w.obj, KEY, VALUE);
  mwb_store_field(&w);
  mw_tree_unlink(s->engine, w.obj, &HOLD);
  return 0;
}

/* After a failed store the links lead to what the field holds.  The value may
** be scanned in part, so the value is to be new when it is stored again. */
static void undo_store(mwb_write *w) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  mw_handle held;
  mwb_find_shadow(w);
  lua_pushvalue(L, KEY);
  lua_rawget(L, w->shadow);
  held = mwb_handle_of(L, w->s, -1);
  lua_pop(L, 1);
  mw_tree_exchange(e, w->obj, &w->change.key, &HOLD, held);
  mw_tree_unlink(e, w->obj, &HOLD);
  mw_tree_unlink_others(e, w->obj, &w->change.key, held);
  mw_tree_resolve(e);
  mwb_let_go(L, w->s, SIZE_MAX);
}

static void put_table(mwb_write *w) {
  lua_State *L = w->L;
  int i;
  lua_pushcfunction(L, store_table);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, w->shadow);
  lua_pushlightuserdata(L, w);
  if (lua_pcall(L, SHADOW + 1, 0, 0) != LUA_OK) {
    undo_store(w);
    lua_error(L);
  }
}

static void put_other(mwb_write *w) {
  mwb_state *s = w->s;
  let_go_others(w);
  mwb_store_field(w);
  mw_tree_unlink(s->engine, w->obj, &w->change.key);
}

void mwb_store_linked(mwb_write *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), goes_down;
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  goes_down = !lua_isnil(L, KEY) && lua_rawequal(L, KEY, KEY) &&
              descends(L, w->s, OBJECT);
  lua_settop(L, top);
  if (mwb_has_orphans(w->s) && mwi_tree_is_lost(w->s->engine, w->r))
    mwb_store_field(w);
  else if (goes_down)
    put_table(w);
  else
    put_other(w);
  if (mwb_has_orphans(w->s)) w->s->pending = 1;
}

/* }====================================================== */
