/*
** tree.c - deep watches: objects below a deeply watched one get shadows, too.
** SPDX-License-Identifier: MIT
**
** The engine counts, for each parent and child, the fields that hold the child;
** this file finds the fields.  When an object enters the tree of a root, the
** object is scanned: every table in a field is linked, and scanned too if its
** fields are not linked yet.  After the scan, each write to the object links
** the table that the write stores and unlinks the one that it replaces.
**
** A scan and a write ask the policy, and the rules of roots, which tables are
** below.  These functions may do anything, so a scan asks first, about all
** fields, and then links them with nobody in between.  If somebody moves tables
** while a write asks, or if a table of the parent was ever left out, then the
** write does not add, but counts the fields that hold what it has stored.
**
** Classes are no contents: see state.c.  A table that turns out to be a class
** after it was linked is unlinked.
**
** A table to be stored is linked first, then all tables below are included, and
** only then the table is stored, and what was in the field unlinked.  So a
** failure leaves the object unchanged, and to take back the link needs no
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
#include "../readers/readers.h"
#include "../traps/trap.h"
#include "../traps/traps.h"

/* {======================================================
** Questions
** ======================================================= */

void mwb_begin_scan(mwb_state *s) {
  if (!mwb_in_policy(s)) s->watch->scans++; /* or does a scan ask already? */
}

/* Does a reach, or with 0 those without a rule, include the value on the top,
** which the object at `parent` has under the key below the top?  The rule says
** it, for which MWB_RULES has the functions of each root, or the policy. */
static int allows(lua_State *L, mwb_state *s, mw_reach reach, int parent) {
  int top = lua_gettop(L), yes = 0;
  mw_handle root = MW_NONE;
  uint32_t rule = (reach == 0) ? 0 : mw_reach_rule(s->engine, reach, &root);
  if (rule == 0 && !mwb_push_question(L, s, MWB_DESCEND)) return 1; /* all */
  if (rule != 0) mwb_push(L, s, MWB_RULES);
  if (rule == 0 || /* else: is the root alive? */
      (mwb_alive(L, s, root) && lua_rawget(L, -2) == LUA_TTABLE &&
       lua_rawgeti(L, -1, (lua_Integer)rule) == LUA_TFUNCTION)) {
    lua_pushvalue(L, parent);
    lua_pushvalue(L, top - 1);
    lua_pushvalue(L, top);
    if (rule == 0) lua_pushinteger(L, s->watch->scans); /* for its budget */
    lua_call(L, (rule == 0) ? 4 : 3, 1);
    yes = lua_toboolean(L, -1);
  }
  lua_settop(L, top);
  return yes;
}

uint32_t mwb_add_rule(lua_State *L, mwb_state *s, int object, int function) {
  int top = lua_gettop(L), functions = top + 2;
  mw_handle h = mwb_handle_of(L, s, object);
  uint32_t rule = 0, i;
  mwb_push(L, s, MWB_RULES);
  lua_pushvalue(L, object);
  if (lua_rawget(L, -2) == LUA_TNIL) { /* the root's first rule? */
    lua_newtable(L);
    lua_replace(L, functions);
    lua_pushvalue(L, object);
    lua_pushvalue(L, functions);
    lua_rawset(L, top + 1);
  }
  for (i = 1; lua_rawgeti(L, functions, i) != LUA_TNIL; i++, lua_pop(L, 1)) {
    if (lua_rawequal(L, -1, function)) break; /* it has this one */
    if (rule == 0 && !mw_root_has_rule(s->engine, h, i)) rule = i; /* unused? */
  }
  if (rule == 0 || !lua_isnil(L, -1)) rule = i; /* none free, or found? */
  lua_pushvalue(L, function);
  lua_rawseti(L, functions, rule);
  lua_settop(L, top);
  return rule;
}

int mwb_enters(lua_State *L, mwb_state *s, mw_reach reach, int parent) {
  return mwb_may_enter(L, s, parent, NULL) && allows(L, s, reach, parent);
}

int mwb_has_rules(const mwb_state *s, mw_reach reach) {
  mw_handle root;
  return s->base->descends || /* by the policy, or by a rule? */
         (reach != 0 && mw_reach_rule(s->engine, reach, &root) != 0);
}

/* }====================================================== */

/* {======================================================
** Scanning
** ======================================================= */

typedef int (*linker)(mw_engine *e, mw_reach reach, mw_handle parent,
                      const mw_value *key, mw_handle child);

/* Links the child on the top under the key below the top in a reach, or with 0
** in all without a rule.  Appends its handle to the list of what is to be
** scanned if need be. */
static void link_in(lua_State *L, mwb_state *s, linker link, mw_reach reach,
                    mw_handle parent, int list) {
  mw_handle h = mwb_identify(L, s, "watch", -1, 1);
  mw_value key = mwb_key_to_keep(L, s, -2);
  int code = link(s->engine, reach, parent, &key, h);
  mwb_check(L, code);
  if (code != MW_NEW) return; /* its fields are linked */
  lua_pushinteger(L, (lua_Integer)h);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Links the child on the top under the key below the top wherever the parent
** may hold it, by the questions: with `again`, where it has been left out until
** now.  Returns how often. */
static uint32_t link_asked(lua_State *L, mwb_state *s, linker link, int parent,
                           mw_handle h, int again, int list) {
  mw_engine *e = s->engine;
  mw_handle root, child = mwb_handle_of(L, s, -1);
  uint32_t rule, links = 0;
  mw_reach reach = 0;
  mw_value key = mwb_key(L, s, lua_gettop(L) - 1);
  do {
    int state = mwi_tree_look(e, reach, h, &key, child);
    int holds = state & MWI_HOLDS;
    if ((state & MWI_LEADS) == 0 || (again && holds)) continue;    /* not new */
    if (link != mw_tree_link && (state & MWI_OPEN) == 0) continue; /* scanned */
    if (holds || allows(L, s, reach, parent)) { /* let in before, or now? */
      link_in(L, s, link, reach, h, list);
      links++;
    } else {
      mwi_tree_refuse(e, reach, h);
    }
  } while ((reach = mw_tree_ruled(e, h, reach, &root, &rule)) != 0);
  return links;
}

/* The stack of a scan, from the object on. */
enum { CLASS = 1, CONTENTS, ASKED, FRESH };

/* Pushes a table with the fields that are to be linked, and others perhaps. */
static void push_wanted(lua_State *L, mwb_state *s, int object, mw_handle h) {
  int top = lua_gettop(L);
  mw_value key;
  int wanted = mw_tree_scan(s->engine, h, &key);
  lua_pushvalue(L, object + CONTENTS);
  if (wanted == 2) return; /* any field */
  lua_newtable(L);
  lua_replace(L, top + 1);
  if (wanted == 0) return; /* none: a path ends here */
  mwb_push_key(L, s, &key);
  lua_pushvalue(L, -1);
  if (!lua_isnil(L, -1) && lua_rawget(L, object + CONTENTS) != LUA_TNIL)
    lua_rawset(L, top + 1); /* a path's only field */
  lua_settop(L, top + 1);
}

/* Sets a field of a table: the value on the top under the key below. */
static void copy_field(lua_State *L, int table) {
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  lua_rawset(L, table);
}

/* Asks about the tables in the fields that are to be linked, and in those that
** come meanwhile.  Edges lead to those that are included, and count nothing. */
static void ask_all(lua_State *L, mwb_state *s, int object, mw_handle h) {
  int any = 1;
  lua_newtable(L); /* ASKED */
  for (; any; lua_settop(L, object + ASKED)) {
    any = 0;
    lua_newtable(L); /* FRESH */
    push_wanted(L, s, object, h);
    for (lua_pushnil(L); lua_next(L, object + FRESH + 1) != 0; lua_pop(L, 1)) {
      int is_asked;
      lua_pushvalue(L, -2);
      lua_rawget(L, object + ASKED);
      is_asked = lua_rawequal(L, -1, -2);
      lua_pop(L, 1);
      if (is_asked || !lua_istable(L, -1)) continue; /* nothing to ask */
      copy_field(L, object + ASKED);
      copy_field(L, object + FRESH);
      any = 1;
    }
    lua_settop(L, object + FRESH);
    for (lua_pushnil(L); lua_next(L, object + FRESH) != 0; lua_pop(L, 1))
      if (mwb_may_enter(L, s, object, NULL))
        link_asked(L, s, mwi_tree_admit, object, h, 1, 0);
  }
}

/* Gives the object on the top a shadow, and links the tables in its fields if
** they are not linked yet. */
static void scan(lua_State *L, mwb_state *s, mw_handle h, int list) {
  int object = lua_gettop(L), found, asks;
  mwb_push_class(L, object);
  if (!mwb_push_shadow(L, object)) /* not intercepted yet? */
    mwb_enshadow(L, s, h, object, object + CLASS);
  if (!lua_isnil(L, object + CLASS)) mwb_note_classes(L, s, object, NULL);
  found = mwi_tree_look(s->engine, MWI_ANY_REACH, h, NULL, 0);
  if ((found & MWI_OPEN) == 0) return; /* all its fields are linked */
  asks = s->base->descends || (found & MWI_RULED);
  if (asks) { /* may the policy or a rule leave out any? */
    ask_all(L, s, object, h);
    lua_settop(L, object + CLASS);
    if (!mwb_push_shadow(L, object)) return; /* a function has ended all */
  }
  push_wanted(L, s, object, h);
  for (lua_pushnil(L); lua_next(L, object + CONTENTS + 1) != 0; lua_pop(L, 1))
    if (lua_istable(L, -1) && mwb_may_enter(L, s, object, NULL))
      link_in(L, s, mw_tree_scan_link, asks ? MWI_ANY_REACH : 0, h, list);
  mw_tree_scanned(s->engine, h);
}

/* Scans all objects whose handles are in the list on the top.  A scan may
** append to the list. */
static void scan_all(lua_State *L, mwb_state *s) {
  int list = lua_gettop(L);
  lua_Integer i;
  luaL_checkstack(L, LUA_MINSTACK, "cannot scan");
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    mw_handle h = (mw_handle)lua_tointeger(L, -1);
    lua_settop(L, list);
    if (mwb_alive(L, s, h)) scan(L, s, h, list); /* or dropped meanwhile? */
    lua_settop(L, list);
  }
  lua_settop(L, list - 1);
}

void mwb_include(lua_State *L, mwb_state *s, mw_handle root) {
  lua_createtable(L, 1, 0);
  lua_pushinteger(L, (lua_Integer)root);
  lua_rawseti(L, -2, 1);
  mwb_begin_scan(s);
  scan_all(L, s);
  if (mwb_has_orphans(s)) s->pending = 1; /* a class that was found late */
}

/* }====================================================== */

/* {======================================================
** Letting go
** ======================================================= */

static void let_go(lua_State *L, mwb_state *s, size_t n, uint32_t age) {
  mw_handle h;
  while (n-- > 0 && mw_tree_has_orphans(s->engine) &&
         (h = mwi_tree_released_since(s->engine, age)) != MW_NONE)
    mwb_give_back(L, s, h);
}

/* While the journal has entries, all objects keep their shadows: a rollback may
** put the objects back, and then takes back what was written to them, too. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n) {
  if (s->engine->journal.entries > 0) return;
  let_go(L, s, n, 0);
}

void mwb_let_go_since(lua_State *L, mwb_state *s, uint32_t age) {
  let_go(L, s, SIZE_MAX, age);
  mwb_let_go(L, s, SIZE_MAX);
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
  if (w->s->engine->tree.lost > WAITING) mwb_let_go(w->L, w->s, SIZE_MAX);
  mwb_look_again(w);
}

/* Returns the handle of the table in the field whose links are to be changed,
** MW_NONE for none; `same`: is it the value?  What finalisers have stored since
** is told of later.  From here to the store nobody does anything. */
static mw_handle former_child(mwb_write *w, int *same) {
  lua_State *L = w->L;
  mw_handle h = MW_NONE;
  if (w->is_stored) {
    lua_pushvalue(L, OLD);
  } else {
    if (mwb_appends(w->s) && mwb_is_read(w->s) && mwb_make_ready(L, w->s))
      mwb_find_shadow(w); /* on the stack from now on */
    lua_pushvalue(L, KEY);
    lua_rawget(L, w->shadow);
    if (w->s->needs & MWB_WAITS) mwb_go_before(L, w->s);
  }
  *same = lua_rawequal(L, -1, VALUE);
  if (lua_istable(L, -1)) h = mwb_handle_of(L, w->s, -1);
  lua_pop(L, 1);
  return h;
}

/* The edges from the object at OBJECT to the table at `index` count the fields
** that hold it now, perhaps that of KEY. */
static void count_fields(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L), here;
  uint32_t n = 0;
  mw_value key = mwb_key(L, s, KEY);
  mwb_push_contents(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_rawget(L, top + 1);
  here = lua_rawequal(L, -1, index);
  lua_settop(L, top + 1);
  for (lua_pushnil(L); lua_next(L, top + 1) != 0; lua_pop(L, 1))
    n += lua_rawequal(L, -1, index) != 0;
  mwi_tree_count(s->engine, mwb_handle_of(L, s, OBJECT), &key,
                 mwb_handle_of(L, s, index), n, here);
  lua_settop(L, top);
}

/* The same for the table with a handle. */
static void count_former(const mwb_write *w, mw_handle h) {
  lua_State *L = w->L;
  if (mwb_alive(L, w->s, h)) count_fields(L, w->s, lua_gettop(L));
  lua_pop(L, 1);
}

/* store_table(object, key, value, shadow, old, write), called by lua_pcall; the
** old value counts if the value is stored already */
static int store_table(lua_State *L) {
  mwb_write w = *(const mwb_write *)lua_touserdata(L, OLD + 1);
  mwb_state *s = w.s;
  mw_engine *e = s->engine;
  uint32_t moves = e->tree.moves, scans;
  mw_handle former;
  int again, same, asks, found, opened, sure = !w.is_stored;
  lua_settop(L, OLD);
  w.L = L;
  w.shadow = SHADOW;
  mwb_begin_scan(s);
  lua_pushvalue(L, w.is_stored ? OLD : KEY);
  if (!w.is_stored) lua_rawget(L, SHADOW);
  again = lua_rawequal(L, -1, VALUE);
  do {
    found = mwi_tree_look(e, MWI_ANY_REACH, w.obj, &w.change.key, 0);
    sure = sure && (found & MWI_REFUSES) == 0; /* was nothing ever left out? */
    scans = e->tree.scans;
    lua_settop(L, OLD);
    lua_newtable(L);
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    asks = again || s->base->descends || (found & MWI_RULED);
    if (asks && !(again && sure)) { /* or held, and nothing left out? */
      moves += link_asked(L, s, mw_tree_link, OBJECT, w.obj, again, OLD + 1);
    } else if (!asks && (found & MWI_LEADS)) { /* does the key lead on? */
      link_in(L, s, mw_tree_link, 0, w.obj, OLD + 1);
      moves++;
    }
    lua_settop(L, OLD + 1);
    scan_all(L, s);
    opened = mwi_tree_scanned_since(e, w.r, scans);
    sure = sure && !opened;
  } while (opened); /* the object has come once more, below the table */
  let_go_others(&w);
  former = former_child(&w, &same);
  sure = sure && same == again && e->tree.moves == moves && /* only ours? */
         !mwb_is_class(L, s, VALUE, NULL); /* and no class meanwhile? */
  mwb_store_field(&w);
  lua_settop(L, OLD);
  if (!sure) { /* may somebody have moved tables? */
    count_fields(L, s, VALUE);
    count_former(&w, former);
  } else if (!again) { /* did the field hold another value? */
    mw_tree_unlink(e, w.obj, &w.change.key, former);
  }
  return 0;
}

static void put_table(mwb_write *w) {
  lua_State *L = w->L;
  int i, status;
  mwb_write_number(w); /* before `store_table` makes a copy of `w` */
  lua_pushcfunction(L, store_table);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  lua_pushvalue(L, w->shadow);
  if (w->is_stored)
    lua_pushvalue(L, OLD);
  else
    lua_pushnil(L);
  lua_pushlightuserdata(L, w);
  w->s->watch->storing++;
  status = lua_pcall(L, OLD + 1, 0, 0);
  w->s->watch->storing--;
  if (status != LUA_OK) { /* then the edge counts what the fields hold, */
    count_fields(L, w->s, VALUE);
    mw_tree_resolve(
        w->s->engine); /* and what is scanned in part is new again */
    mwb_let_go(L, w->s, SIZE_MAX);
    lua_error(L);
  }
  if (w->s->base->made > 0 && w->s->watch->storing == 0) mwb_reap_made(w->s);
}

/* Stores what is no table below the object, or one to which there is an edge
** that has only to count. */
static void put_other(mwb_write *w, uint32_t edge) {
  mw_engine *e = w->s->engine;
  int same;
  mw_handle former = former_child(w, &same);
  mwb_store_field(w);
  if (same) return;        /* no link has changed */
  if (former != MW_NONE) { /* has a table left the field? */
    mw_tree_unlink(e, w->obj, &w->change.key, former);
    if (w->is_stored) count_former(w, former); /* may it be back since? */
  }
  if (edge != 0) mwi_tree_add(e, edge, &w->change.key);
}

/* If a link has only to count there is an `edge`.  Under some names a table may
** be a class, and names are to be kept. */
void mwb_store_linked(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  int top = lua_gettop(L), goes_down = 0;
  uint32_t edge = 0;
  if (mwb_has_orphans(s) && mwi_tree_is_lost(s->engine, w->r)) {
    mwb_store_field(w); /* without links: the object has left the tree */
    s->pending = 1;
    return;
  }
  let_go_others(w);
  if (w->change.key.type == MW_TINTEGER) /* no name, which may be a class's */
    edge = mwi_tree_edge(s->engine, w->r, mwb_handle_of(L, s, VALUE));
  if (edge == 0 && lua_istable(L, VALUE)) { /* has a link to be made? */
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    goes_down = !lua_isnil(L, KEY) && lua_rawequal(L, KEY, KEY) && /* no NaN? */
                mwb_may_enter(L, s, OBJECT, NULL);
    lua_settop(L, top);
  }
  if (goes_down)
    put_table(w);
  else
    put_other(w, edge);
  if (mwb_has_orphans(s)) s->pending = 1;
}

/* }====================================================== */

/* {======================================================
** Upwards
** ======================================================= */

/* find_key(contents, child, state, key) -> whether a field holds the child, at
** the end or elsewhere */
static int find_key(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  lua_rawgeti(L, 1, lua_tointeger(L, 5));
  if (!lua_rawequal(L, -1, 2)) /* not at the end of a list? */
    for (lua_settop(L, 4), lua_pushnil(L);
         lua_next(L, 1) != 0 && !lua_rawequal(L, -1, 2);)
      lua_pop(L, 1);
  if (lua_gettop(L) == 4) return 0; /* no field holds it any more */
  *(mw_value *)lua_touserdata(L, 4) =
      mwb_key_to_keep(L, (mwb_state *)lua_touserdata(L, 3), 5);
  lua_pushboolean(L, 1);
  return 1;
}

int mwb_find_key(void *ud, mw_handle parent, mw_handle child, mw_value *key) {
  mwb_state *s = (mwb_state *)ud;
  const mw_host *program = &s->base->host;
  lua_State *L = s->service;
  int top = lua_gettop(L), found = 0;
  if (s->base->has_host && mwb_is_pinned(s, parent)) /* the program's object? */
    return program->key && program->key(program->ud, parent, child, key);
  lua_pushcfunction(L, find_key);
  if (mwb_alive(L, s, parent)) {
    mwb_push_contents(L, -1);
    lua_replace(L, top + 2);
    if (mwb_alive(L, s, child)) {
      lua_pushlightuserdata(L, s);
      lua_pushlightuserdata(L, key);
      found = lua_pcall(L, 4, 1, 0) == LUA_OK && lua_toboolean(L, -1);
    }
  }
  lua_settop(L, top);
  return found;
}

/* Appends the parent below the top, and the key on the top, to the array at 5.
 */
static void add_place(lua_State *L, lua_Integer *places) {
  lua_pushvalue(L, -2);
  lua_rawseti(L, 5, ++*places);
  lua_pushvalue(L, -1);
  lua_rawseti(L, 5, ++*places);
}

/* parents(root, object, effects or nil) -> array of the parents of the object,
** each with the key under which it holds the object; only those that the
** effects know */
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
  for (i = 0; i < n; i++, lua_settop(L, 5)) {
    int known = fx == NULL || mwb_knows_age(fx, its[i].age);  /* this field? */
    int all = fx == NULL || mwb_knows_age(fx, its[i].others); /* the others? */
    if (!mwb_alive(L, s, its[i].parent)) continue; /* dead, not yet forgotten */
    mwb_push_key(L, s, &its[i].key);
    if (known) add_place(L, &places);
    if (its[i].count == 1 || !all) continue; /* no other field? */
    mwb_push_contents(L, 6);
    for (lua_pushnil(L); lua_next(L, 8) != 0; lua_pop(L, 1)) {
      if (!lua_rawequal(L, -1, 2) || lua_rawequal(L, -2, 7)) continue;
      lua_pushvalue(L, 6);
      lua_pushvalue(L, -3);
      add_place(L, &places);
      lua_pop(L, 2);
    }
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

const luaL_Reg mwb_tree_functions[] = {{"parents", parents},
                                       {"has_left", has_left},
                                       {"let_go", let_go_all},
                                       {"has_below", has_below},
                                       {"enters", enters},
                                       {"way", push_way},
                                       {NULL, NULL}};

/* }====================================================== */
