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
** Classes are no contents: see state.c.  A table that turns out to be a class
** after it was linked is unlinked.
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
** when one of them is written and the engine finds that it has left, or when
** many are out.
*/
#include "watch.h"

#include "../base/base.h"
#include "../box/box.h"
#include "../journal/journal.h"
#include "../traps/trap.h"
#include "../traps/traps.h"

static const mw_value HOLD = {MW_TNIL, {0}};

/* {======================================================
** Scanning
** ======================================================= */

/* Calls the function on the top for the parent, and the key and value below the
** function.  Pops the function. */
static int allows(lua_State *L, int parent) {
  int top = lua_gettop(L), yes;
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 2);
  lua_pushvalue(L, top - 1);
  lua_call(L, 3, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top - 1);
  return yes;
}

void mwb_begin_scan(mwb_state *s) {
  if (!mwb_in_policy(s)) s->watch->scans++;
}

/* Does the policy include the value on the top? */
static int policy_allows(lua_State *L, mwb_state *s, int parent) {
  int top = lua_gettop(L), yes;
  if (!mwb_push_question(L, s, MWB_DESCEND)) return 1;
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_pushinteger(L, s->watch->scans);
  lua_call(L, 4, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* Does the rule of a root include the value on the top?  MWB_RULES has the
** functions of each root. */
static int rule_allows(lua_State *L, mwb_state *s, mw_handle root,
                       uint32_t rule, int parent) {
  int top = lua_gettop(L);
  mwb_push(L, s, MWB_RULES);
  if (mwb_alive(L, s, root) && lua_rawget(L, -2) == LUA_TTABLE &&
      lua_rawgeti(L, -1, (lua_Integer)rule) == LUA_TFUNCTION) {
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return allows(L, parent);
  }
  lua_settop(L, top);
  return 0; /* the root is dead */
}

uint32_t mwb_add_rule(lua_State *L, mwb_state *s, int object, int function) {
  int top = lua_gettop(L);
  mw_handle h = mwb_handle_of(L, s, object);
  lua_Integer i, free = 0;
  mwb_push(L, s, MWB_RULES);
  lua_pushvalue(L, object);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_newtable(L);
    lua_replace(L, top + 2);
    lua_pushvalue(L, object);
    lua_pushvalue(L, top + 2);
    lua_rawset(L, top + 1);
  }
  for (i = 1; lua_rawgeti(L, top + 2, i) != LUA_TNIL; i++) {
    if (lua_rawequal(L, -1, function)) break;
    if (free == 0 && !mw_root_has_rule(s->engine, h, (uint32_t)i)) free = i;
    lua_pop(L, 1);
  }
  if (lua_isnil(L, -1)) {
    if (free != 0) i = free;
    lua_pushvalue(L, function);
    lua_rawseti(L, top + 2, i);
  }
  lua_settop(L, top);
  return (uint32_t)i;
}

static void scan_all(lua_State *L, mwb_state *s, mw_reach reach);

/* Links, or with `hold` only holds, the child on the top in a reach, or in all
** reaches without a rule, under the key below the top. */
static int link_in(lua_State *L, mwb_state *s, mw_reach reach, mw_handle parent,
                   int hold) {
  int top = lua_gettop(L), code;
  mw_handle h = mwb_identify(L, s, "watch", top, 1);
  mw_value key = mwb_key_to_keep(L, s, top - 1);
  code =
      (hold ? mw_tree_hold : mw_tree_link)(s->engine, reach, parent, &key, h);
  mwb_check(L, code);
  lua_settop(L, top);
  return code == MW_NEW;
}

/* Does the policy decide about the child under the key below the top in a
** reach, or with 0 in any? */
static int policy_decides(lua_State *L, mwb_state *s, mw_reach reach,
                          mw_handle parent) {
  mw_value key;
  if (reach != 0) return 1;
  key = mwb_key(L, s, lua_gettop(L) - 1);
  return mwi_tree_leads_on(s->engine, parent, &key);
}

/* Links the value on the top, which the object at `parent` with handle `h` has
** under the key below the top, wherever a reach includes the value.  Appends a
** child that is new to the list of objects to scan.  What is below the parent
** already stays so, and nobody is asked.  Returns whether the policy
** includes the value. */
static int link_child(lua_State *L, mwb_state *s, mw_reach reach, int parent,
                      mw_handle h, int hold, int list) {
  mw_handle root;
  mw_handle child;
  uint32_t rule = (reach == 0) ? 0 : mw_reach_rule(s->engine, reach, &root);
  int is_new = 0, includes = 0;
  if (!mwb_may_enter(L, s, parent, NULL)) return 0;
  child = mwb_handle_of(L, s, -1);
  if (rule != 0) {
    is_new = (mwi_tree_holds(s->engine, reach, h, child) ||
              rule_allows(L, s, root, rule, parent)) &&
             link_in(L, s, reach, h, hold);
  } else if (policy_decides(L, s, reach, h) &&
             (mwi_tree_holds(s->engine, reach, h, child) ||
              policy_allows(L, s, parent))) {
    includes = 1;
    is_new = link_in(L, s, reach, h, hold);
  }
  if (reach == 0) {
    mw_reach ruled = 0;
    while ((ruled = mw_tree_ruled(s->engine, h, ruled, &root, &rule)) != 0)
      if (mwi_tree_holds(s->engine, ruled, h, child) ||
          rule_allows(L, s, root, rule, parent))
        is_new |= link_in(L, s, ruled, h, hold);
  }
  if (is_new) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
  }
  return includes;
}

/* The object that is stored to may have come on a path once more, below the
** value at VALUE, and then leads to the value there as well. */
static void link_again(lua_State *L, mwb_state *s, mw_handle h) {
  int top = lua_gettop(L);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  while (link_in(L, s, 0, h, 0)) {
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, VALUE);
    lua_rawseti(L, -2, 1);
    scan_all(L, s, 0);
  }
  lua_settop(L, top);
}

/* Gives the object on the top a shadow, and links the tables in its fields. */
static void scan(lua_State *L, mwb_state *s, mw_reach reach, int list) {
  int object = lua_gettop(L), wanted;
  mw_handle h = mwb_handle_of(L, s, object);
  mw_value key;
  if (!mwb_push_shadow(L, object)) {
    mwb_push_class(L, object);
    mwb_enshadow(L, s, h, object, -1);
    lua_settop(L, object);
    mwb_push_shadow(L, object);
  }
  mwb_note_classes(L, s, object, NULL);
  wanted = mw_tree_wanted(s->engine, reach, h, &key);
  if (wanted == 1) {
    mwb_push_key(L, s, &key);
    lua_pushvalue(L, -1);
    if (!lua_isnil(L, -1) && lua_rawget(L, object + 1) != LUA_TNIL)
      link_child(L, s, reach, object, h, 0, list);
  } else if (wanted == 2) {
    for (lua_pushnil(L); lua_next(L, object + 1) != 0; lua_pop(L, 1))
      if (lua_istable(L, -1)) link_child(L, s, reach, object, h, 0, list);
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
  mwb_begin_scan(s);
  scan_all(L, s, reach);
  if (mwb_has_orphans(s)) s->pending = 1; /* a class that was found late */
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
** the shadow does no harm. */
static void let_go(lua_State *L, mwb_state *s, size_t n, uint32_t mark) {
  int top = lua_gettop(L);
  mw_handle h;
  while (n-- > 0 && mw_tree_has_orphans(s->engine) &&
         (h = mwi_tree_released_since(s->engine, mark)) != MW_NONE) {
    lua_pushcfunction(L, give_back);
    if (mwb_alive(L, s, h) && !mwb_intercepts(s, h)) {
      lua_pushlightuserdata(L, s);
      lua_pcall(L, 2, 0, 0);
    }
    lua_settop(L, top);
  }
}

/* While the journal has entries, all objects keep their shadows: a rollback may
** put the objects back, and then takes back what was written to them, too. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n) {
  if (s->engine->journal.entries > 0) return;
  let_go(L, s, n, 0);
}

void mwb_let_go_since(lua_State *L, mwb_state *s, uint32_t mark) {
  let_go(L, s, SIZE_MAX, mark);
}

/* }====================================================== */

/* {======================================================
** Storing
** ======================================================= */

/* So many objects may be out of the tree before a write gives them back: a
** program that only writes never calls the library. */
#define WAITING 32

/* Gives back the orphans of earlier writes if these are many.  The written
** object may be such an orphan. */
static void let_go_others(mwb_write *w) {
  if (w->s->engine->tree.lost <= WAITING) return;
  mwb_let_go(w->L, w->s, SIZE_MAX);
  if (w->r->obj != w->obj) w->r = NULL;
  if (w->r == NULL || w->r->layout != w->layout) mwb_find_shadow(w);
}

/* store_table(object, key, value, shadow, write), called by lua_pcall */
static int store_table(lua_State *L) {
  mwb_write w = *(const mwb_write *)lua_touserdata(L, SHADOW + 1);
  mw_handle child = MW_NONE;
  mwb_state *s = w.s;
  int includes;
  lua_settop(L, SHADOW);
  w.shadow = SHADOW;
  mwb_begin_scan(s);
  lua_newtable(L);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  includes = link_child(L, s, 0, OBJECT, w.obj, 1, SHADOW + 1);
  lua_settop(L, SHADOW + 1);
  scan_all(L, s, 0);
  let_go_others(&w);
  if (!mwb_is_class(L, s, VALUE, NULL)) { /* the scan may have found that out */
    mw_value key = mwb_key_to_keep(L, s, KEY);
    child = mwb_handle_of(L, s, VALUE);
    mw_tree_exchange(s->engine, w.obj, &key, &HOLD, child);
    if (child != MW_NONE)
      mwb_check(L, mw_tree_link_held(s->engine, w.obj, &key, child));
    lua_settop(L, SHADOW);
    if (includes) link_again(L, s, w.obj);
  }
  mwb_store_field(&w);
  mw_tree_drop_hold(s->engine, w.obj);
  mw_tree_unlink_others(s->engine, w.obj, &w.change.key, child);
  return 0;
}

/* After a failed store the links lead to what the field holds.  The value may
** be scanned in part, so the value is to be new when it is stored again. */
static void undo_store(mwb_write *w) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  mw_handle held;
  mwb_push_contents(L, OBJECT); /* the error stays on the stack, below */
  lua_pushvalue(L, KEY);
  lua_rawget(L, -2);
  held = mwb_handle_of(L, w->s, -1);
  lua_pop(L, 2);
  mw_tree_exchange(e, w->obj, &w->change.key, &HOLD, held);
  mw_tree_unlink(e, w->obj, &HOLD);
  mw_tree_unlink_others(e, w->obj, &w->change.key, held);
  mw_tree_resolve(e);
  mwb_let_go(L, w->s, SIZE_MAX);
}

static void put_table(mwb_write *w) {
  lua_State *L = w->L;
  int i, status;
  mwb_write_number(w); /* before `store_table` makes a copy of `w` */
  lua_pushcfunction(L, store_table);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, w->shadow);
  lua_pushlightuserdata(L, w);
  w->s->watch->storing++;
  status = lua_pcall(L, SHADOW + 1, 0, 0);
  w->s->watch->storing--;
  if (status != LUA_OK) {
    undo_store(w);
    lua_error(L);
  }
  if (w->s->base->made > 0 && w->s->watch->storing == 0) mwb_reap_made(w->s);
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
              mwb_may_enter(L, w->s, OBJECT, NULL);
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

/* {======================================================
** Upwards
** ======================================================= */

/* parents(root, object, effects or nil) -> array of the parents of the object
** below the root, each with the key under which it holds the object; only those
** that the effects know */
static int parents(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle root = (lua_settop(L, 3), mwb_handle_of(L, s, 1));
  mw_handle obj = mwb_handle_of(L, s, 2);
  const mwb_effects *fx = mwb_to_effects(L, 3);
  uint32_t n = mw_tree_parents(s->engine, root, obj, NULL, 0), i;
  lua_Integer places = 0;
  mw_holder *its =
      (mw_holder *)lua_newuserdatauv(L, (n + 1) * sizeof(mw_holder), 0);
  lua_createtable(L, 2 * (int)n, 0);
  mw_tree_parents(s->engine, root, obj, its, n);
  for (i = 0; i < n; i++) {
    if (its[i].key.type == MW_TNIL) continue; /* HOLD */
    if (fx != NULL && !mwb_knows_age(fx, its[i].age)) continue;
    mwb_alive(L, s, its[i].parent);
    lua_rawseti(L, 5, ++places);
    mwb_push_key(L, s, &its[i].key);
    lua_rawseti(L, 5, ++places);
  }
  return 1;
}

/* let_go(): gives back all that has left the trees */
static int let_go_all(lua_State *L) {
  mwb_let_go(L, mwb_enter(L), SIZE_MAX);
  return 0;
}

/* has_left(root, object, effects) -> whether a field may have stopped holding
** the object since the effects */
static int has_left(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const mwb_effects *fx = (lua_settop(L, 3), mwb_to_effects(L, 3));
  uint32_t age =
      mw_tree_left(s->engine, mwb_handle_of(L, s, 1), mwb_handle_of(L, s, 2));
  lua_pushboolean(L, age > fx->last && !mwb_knows_age(fx, age));
  return 1;
}

/* way(object) -> root above the object, or nil, and the keys of the way down */
static int push_way(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle obj = mwb_handle_of(L, s, 1), root;
  mw_value *keys;
  uint32_t n = mw_tree_way(s->engine, obj, &root, NULL, 0), i;
  lua_settop(L, 1);
  keys = (mw_value *)lua_newuserdatauv(L, (n + 1) * sizeof(mw_value), 0);
  mw_tree_way(s->engine, obj, &root, keys, n);
  lua_createtable(L, (int)n, 0);
  for (i = 0; i < n; i++) {
    mwb_push_key(L, s, &keys[i]);
    lua_rawseti(L, -2, (lua_Integer)(n - i));
  }
  mwb_alive(L, s, root);
  lua_insert(L, -2);
  return 2;
}

/* has_below(root) -> whether the links know all ways from the object to what is
** below */
static int has_below(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mw_tree_reach(s->engine, mwb_handle_of(L, s, 1)) != 0);
  return 1;
}

int mwb_enters(lua_State *L, mwb_state *s, mw_reach reach, int parent) {
  mw_handle root = MW_NONE;
  uint32_t rule = 0;
  if (!mwb_may_enter(L, s, parent, NULL)) return 0;
  if (reach != 0) rule = mw_reach_rule(s->engine, reach, &root);
  return (rule != 0) ? rule_allows(L, s, root, rule, parent)
                     : policy_allows(L, s, parent);
}

int mwb_has_rules(lua_State *L, mwb_state *s, mw_reach reach) {
  int top = lua_gettop(L), yes = mwb_push_question(L, s, MWB_DESCEND);
  mw_handle root;
  lua_settop(L, top);
  return yes || (reach != 0 && mw_reach_rule(s->engine, reach, &root) != 0);
}

/* enters(root, parent, key, child) -> whether the child, which the parent holds
** under the key, belongs to what is below the root; nil for a class, and for
** what is no table */
static int enters(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 4);
  if (!mwb_may_enter(L, s, 2, NULL)) return 0;
  mwb_begin_scan(s);
  lua_pushboolean(
      L, mwb_enters(L, s, mw_tree_reach(s->engine, mwb_handle_of(L, s, 1)), 2));
  return 1;
}

void mwb_open_tree(lua_State *L) {
  static const luaL_Reg functions[] = {{"parents", parents},
                                       {"has_left", has_left},
                                       {"let_go", let_go_all},
                                       {"has_below", has_below},
                                       {"enters", enters},
                                       {"way", push_way},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
