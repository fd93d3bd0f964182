/*
** delivery.c - what the entries hold that readers have not read yet.
** SPDX-License-Identifier: MIT
**
**     MWB_PAGES: number of the page --> table of held values
**                                           ^
**     s->readers (a mwb_coroutine) ---------+   of the last page
**
** The engine keeps delivered entries in pages.  All entries of a page share a
** table of held values, which goes with the page.  So what a reader has missed
** or read is let go without a walk.  A page holds the objects of its entries,
** too, and contexts: see `push_context`.
**
** No finaliser runs while an entry is delivered, for the engine is in the
** middle of a call then.  So tables that may be needed are made before: they
** are in stock.
*/
#include "delivery.h"

#include <string.h>

#include "identity.h"
#include "lane.h"
#include "origin.h"
#include "rollback.h"
#include "timed.h"
#include "writers.h"

/* Calls the function below `args` arguments, and returns a status; an error is
** on the top.  The collector begins a step when it runs again, so what is
** called often has a stock of tables instead. */
static int call_quickly(lua_State *L, int args) {
  int runs = lua_gc(L, LUA_GCISRUNNING, 0), status;
  lua_gc(L, LUA_GCSTOP, 0);
  status = lua_pcall(L, args, 0, 0);
  if (runs) lua_gc(L, LUA_GCRESTART, 0);
  return status;
}

void mwb_without_finalisers(lua_State *L, mwb_state *s, lua_CFunction f,
                            void *data) {
  luaL_checkstack(L, LUA_MINSTACK, "deliver");
  lua_pushcfunction(L, f);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, s);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, data);
  lua_insert(L, -2);
  if (call_quickly(L, 3) != LUA_OK) lua_error(L);
}

/* {======================================================
** The stock
** ======================================================= */

/* An entry that is delivered needs a table for its page, and one for its
** context, at most. */
#define LEAST 2

void mwb_fill_stock(lua_State *L, mwb_state *s, size_t pages) {
  while (s->stock < (lua_Integer)pages + LEAST) {
    lua_createtable(L, 0, 4); /* finalisers may run, and use the stock */
    mwb_push(L, s, MWB_STOCK);
    lua_insert(L, -2);
    lua_rawseti(L, -2, s->stock + 1);
    lua_pop(L, 1);
    s->stock++;
  }
}

static void push_table(lua_State *L, mwb_state *s) {
  if (s->stock == 0) {
    lua_createtable(L, 0, 4);
    return;
  }
  mwb_push(L, s, MWB_STOCK);
  lua_rawgeti(L, -1, s->stock);
  lua_pushnil(L);
  lua_rawseti(L, -3, s->stock--);
  lua_replace(L, -2);
}

/* Calls f(state, data), which needs no more than the stock, and returns a
** status; an error is on the top. */
static int call_with_stock(lua_State *L, mwb_state *s, lua_CFunction f,
                           void *data) {
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, s);
  lua_pushlightuserdata(L, data);
  return (s->stock >= LEAST) ? lua_pcall(L, 2, 0, 0) : call_quickly(L, 2);
}

/* }====================================================== */

/* {======================================================
** Pages
** ======================================================= */

void mwb_open_delivery(lua_State *L, mwb_state *s) {
  mwb_coroutine *t;
  if (s->readers != NULL) return;
  lua_pushboolean(L, 0);
  s->readers_place = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_newtable(L);
  mwb_keep(L, s, MWB_PAGES);
  lua_newtable(L);
  mwb_keep(L, s, MWB_STOCK);
  t = (mwb_coroutine *)mwi_new(s->engine, sizeof(*t));
  if (t == NULL) {
    mwb_check(L, MW_NOMEM);
    return;
  }
  t->s = s;
  t->kept = 1;
  t->place = s->readers_place;
  t->held.of = t;
  s->readers = t;
}

/* new_page(state) */
static int new_page(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  mwb_coroutine *t = s->readers;
  uint64_t page = (s->engine->reader.last + 1) / MWI_READER_PAGE;
  mwb_push(L, s, MWB_PAGES);
  push_table(L, s);
  lua_pushnumber(L, (lua_Number)mwb_now(NULL) / 1e9);
  lua_rawseti(L, -2, MWB_PAGETIME);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, (lua_Integer)page);
  lua_rawseti(L, LUA_REGISTRYINDEX, t->place);
  if (s->first_page == 0) s->first_page = page + 1;
  s->page = page + 1;
  t->held.n = 0;
  t->held.id = ++s->held_ids;
  return 0;
}

mwb_held *mwb_need_page(lua_State *L, mwb_state *s) {
  luaL_checkstack(L, LUA_MINSTACK, "deliver");
  if (!mwb_page_is_ready(s) && call_with_stock(L, s, new_page, NULL) != LUA_OK)
    lua_error(L);
  return &s->readers->held;
}

void mwb_push_page(lua_State *L, const mwb_state *s, uint64_t seq) {
  mwb_push(L, s, MWB_PAGES);
  if (lua_isnil(L, -1)) return;
  lua_rawgeti(L, -1, (lua_Integer)(seq / MWI_READER_PAGE));
  lua_replace(L, -2);
}

void mwb_forget(void *ud, uint64_t seq) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = s->service;
  int all = seq > s->engine->reader.last;
  uint64_t end = all ? s->page + 1 : seq / MWI_READER_PAGE + 1;
  if (s->first_page == 0) return;
  mwb_keep_page(L, s, seq);
  mwb_push(L, s, MWB_PAGES);
  for (; s->first_page < end; s->first_page++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)s->first_page - 1);
  }
  lua_settop(L, 0);
  if (!all) return;
  lua_pushboolean(L, 0);
  lua_rawseti(L, LUA_REGISTRYINDEX, s->readers_place);
  s->first_page = s->page = 0;
  s->held_ids++; /* what was prepared with the page is not */
}

/* }====================================================== */

/* {======================================================
** Contexts
** ======================================================= */

/* The context of an entry is a table with `epoch`, `origin`, `scope` and, in
** delivered entries, `transaction`.  Entries that have the same share one. */

uint64_t mwb_entered(const mwb_state *s) {
  const mwi_hierarchies *all = &s->engine->scope;
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < all->n; i++)
    if (all->all[i] != NULL) n += all->all[i]->orders;
  return n;
}

/* Returns the number of objects that are entered now. */
static uint64_t count_frames(const mwb_state *s) {
  const mwi_hierarchies *all = &s->engine->scope;
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < all->n; i++)
    if (all->all[i] != NULL) n += all->all[i]->frames;
  return n;
}

/* Returns the frames of a coroutine, if one hierarchy has any, and how many
** objects the others have entered. */
static const mw_frame *find_frames(lua_State *L, mwb_state *s, uint32_t *n,
                                   uint64_t *others) {
  const mwi_hierarchies *all = &s->engine->scope;
  const mw_frame *frames = NULL;
  mw_handle thread;
  uint32_t i, its;
  *n = 0;
  lua_pushthread(L);
  thread = mwb_handle_of(L, s, lua_gettop(L));
  lua_pop(L, 1);
  for (i = 0; i < all->n; i++) {
    const mw_frame *found;
    if (all->all[i] == NULL || all->all[i]->frames == 0) continue;
    found = mw_hierarchy_stack(s->engine, i, thread, &its);
    if (its == 0) continue;
    *n = (frames == NULL) ? its : 0;
    if (frames != NULL) return NULL;
    frames = found;
    *others = mwb_entered(s) - all->all[i]->orders;
  }
  return frames;
}

/* Has the coroutine scopes of its own? */
static int has_scopes(lua_State *of, mwb_state *s) {
  const mwi_hierarchies *all = &s->engine->scope;
  mw_handle thread;
  uint32_t i, n = 0;
  if (!lua_checkstack(of, LUA_MINSTACK)) return 0;
  if (mwb_outermost_scope(of, s) != NULL) return 1;
  if (count_frames(s) == 0) return 0;
  lua_pushthread(of);
  thread = mwb_handle_of(of, s, lua_gettop(of));
  lua_pop(of, 1);
  for (i = 0; n == 0 && i < all->n; i++)
    if (all->all[i] != NULL) mw_hierarchy_stack(s->engine, i, thread, &n);
  return n > 0;
}

/* Pushes the names of the scopes, the outermost first: those of mw.timed stand
** among those of the hierarchy by the time of their begin.  A coroutine without
** scopes has those of the nearest one that waits for it. */
static void push_scopes(lua_State *L, mwb_state *s) {
  const mwb_scope *timed;
  const mw_frame *frames;
  lua_State *of = L;
  lua_Integer i, n, to = 0;
  uint32_t n_frames = 0, at = 0;
  uint64_t others = 0;
  mwb_push(L, s, MWB_PATHS);
  lua_pushnil(L);
  if (L != s->main && !has_scopes(L, s)) {
    of = mwb_push_nearest(L, s, has_scopes);
    if (of != NULL) lua_replace(L, -2);
  }
  if (of == NULL || lua_isnil(L, -2) || count_frames(s) == 0) {
    lua_pop(L, 2);
    lua_newtable(L);
  } else {
    lua_call(L, 1, 1);
  }
  timed = (of == NULL) ? NULL : mwb_outermost_scope(of, s);
  if (timed == NULL) return;
  n = (lua_Integer)lua_rawlen(L, -1);
  frames = find_frames(of, s, &n_frames, &others);
  lua_newtable(L);
  for (i = 1; i <= n || timed != NULL;) {
    size_t len;
    const char *name;
    while (at < n_frames && timed != NULL &&
           frames[at].order + others <= mwb_scope_entered(timed))
      at++; /* the frames outside of the scope */
    if (i <= n && (timed == NULL || n_frames != n || i <= at)) {
      lua_rawgeti(L, -2, i++);
    } else {
      name = mwb_scope_name(timed, &len);
      lua_pushlstring(L, name, len);
      timed = mwb_inner_scope(timed);
    }
    lua_rawseti(L, -2, ++to);
  }
  lua_replace(L, -2);
}

/* make_context(state, coroutine) */
static int make_context(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  lua_State *of = (lua_State *)lua_touserdata(L, 2);
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, (lua_Integer)mw_clock_now(s->engine, MW_CLOCK));
  lua_setfield(L, -2, "epoch");
  mwb_push_origin(L, s, of);
  lua_setfield(L, -2, "origin");
  if (s->scoped > 0) {
    push_scopes(L, s);
    if (lua_rawlen(L, -1) > 0)
      lua_setfield(L, -2, "scope");
    else
      lua_pop(L, 1);
  }
  mwb_keep(L, s, MWB_CONTEXT);
  return 0;
}

/* Is any scope open anywhere? */
static int is_scoped(const mwb_state *s) {
  return s->scopes > 0 || count_frames(s) > 0 ||
         (s->lane != NULL && s->lane->open > 0);
}

/* Is the context that of a write which the coroutine makes now? */
static int is_present(lua_State *L, mwb_state *s) {
  const mwb_context *its = &s->context;
  return its->of == L && its->epoch == mw_clock_now(s->engine, MW_CLOCK) &&
         (s->scoped == 0 ||
          (its->entered == mwb_entered(s) && its->frames == count_frames(s) &&
           (L == s->main || !is_scoped(s) || has_scopes(L, s)))) &&
         (s->origins == 0 || L == s->main || mwb_has_origin(L, s));
}

/* A name may be made by a function of the program, which may write: the writes
** have no context.  Finalisers run unless `quickly`. */
static void renew_context(lua_State *L, mwb_state *s, int quickly) {
  mwb_context *its = &s->context;
  int status;
  s->making = 1;
  its->of = L;
  its->id = 0;
  its->epoch = mw_clock_now(s->engine, MW_CLOCK);
  its->entered = mwb_entered(s);
  its->frames = count_frames(s);
  lua_pushcfunction(L, make_context);
  lua_pushlightuserdata(L, s);
  lua_pushlightuserdata(L, L);
  status = quickly ? call_quickly(L, 2) : lua_pcall(L, 2, 0, 0);
  s->making = 0;
  if (status == LUA_OK) return;
  its->of = NULL;
  lua_error(L);
}

int mwb_make_ready(lua_State *L, mwb_state *s) {
  int made = 0;
  if (s->making) return 0;
  luaL_checkstack(L, LUA_MINSTACK, "deliver");
  if (!mwb_page_is_ready(s)) {
    mwb_fill_stock(L, s, 0);
    mwb_need_page(L, s);
    made = 1;
  }
  if (!is_present(L, s)) {
    renew_context(L, s, 0);
    made = 1;
  }
  return made;
}

uint32_t mwb_hold_context(lua_State *L, mwb_state *s, mwb_held *held) {
  mwb_context *its = &s->context;
  if (s->making) return 0;
  if (!is_present(L, s)) renew_context(L, s, 1);
  if (its->id != held->id) {
    mwb_push(L, s, MWB_CONTEXT);
    its->number = mwb_hold_value(L, held, 0, lua_gettop(L));
    its->id = held->id;
    lua_pop(L, 1);
  }
  return its->number;
}

/* Pushes the context on the top with a transaction; pops the former. */
static void add_transaction(lua_State *L, mwb_state *s, mw_owner owner) {
  static const char *const names[] = {"epoch", "origin", "scope", NULL};
  int i, from = lua_gettop(L);
  push_table(L, s);
  for (i = 0; names[i] != NULL && lua_istable(L, from); i++) {
    lua_getfield(L, from, names[i]);
    lua_setfield(L, -2, names[i]);
  }
  mwb_push_label(L, s, owner);
  lua_setfield(L, -2, "transaction");
  lua_replace(L, from);
}

/* }====================================================== */

/* {======================================================
** Delivery
** ======================================================= */

void mwb_mark_key(lua_State *L, const mwb_state *s, int index,
                  mw_entry *entry) {
  mw_content *key = &entry->value[MW_KEY];
  uint64_t hash;
  size_t len;
  if (entry->type[MW_KEY] != MW_TOTHER) return;
  if (lua_type(L, index) == LUA_TSTRING) {
    const char *text = lua_tolstring(L, index, &len);
    hash = (uint64_t)(uintptr_t)text; /* a short string has one address */
    if (len > s->short_string)
      for (hash = len; len > 0; len -= (len + 15) / 16)
        hash = hash * 31 + (unsigned char)text[len - 1];
  } else {
    hash = (uint64_t)(uintptr_t)lua_topointer(L, index);
  }
  hash = (hash >> 4) ^ (hash << 16);
  key->i = (int64_t)((hash << 32) | (uint32_t)key->i);
}

/* What `take_values` takes. */
typedef struct delivered {
  mw_entry *entry;
  const mw_values *values;
} delivered;

/* Pushes a value of an entry of a coroutine. */
static void push_taken(lua_State *L, const mwb_state *s, const delivered *its,
                       int part) {
  mw_owner of = (part == MW_OLD) ? its->values->old_owner : its->values->owner;
  const mwb_held *held =
      (of == 0) ? &s->readers->held : &mwb_coroutine_of(s, of)->held;
  if (part == MW_OLD)
    mwb_push_old(L, held, 0, its->entry, its->values->old_source);
  else
    mwb_unpack(L, held, 0, its->entry, part);
}

/* Moves the context, and `where`, of the entry of an owner.  Entries that share
** a context share it still. */
static void take_context(lua_State *L, mwb_state *s, mwb_held *held,
                         const delivered *its, mw_entry *copy) {
  mw_owner owner = its->values->owner;
  const mwb_held *from = &mwb_coroutine_of(s, owner)->held;
  mwb_taken *last = &s->taken;
  int top = lua_gettop(L);
  if (its->entry->where != 0) {
    mwb_push_value(L, from, 0, its->entry->where);
    copy->where =
        mwb_hold_string(L, s, held, 0, top + 1, lua_tostring(L, top + 1));
    lua_pop(L, 1);
  }
  if (last->from != from->id || last->context != its->entry->context ||
      last->to != held->id || last->order != s->transactions[owner].order) {
    mwb_push_value(L, from, 0, its->entry->context);
    add_transaction(L, s, owner);
    last->number = mwb_hold_value(L, held, 0, top + 1);
    last->from = from->id;
    last->context = its->entry->context;
    last->to = held->id;
    last->order = s->transactions[owner].order;
    lua_pop(L, 1);
  }
  copy->context = last->number;
}

/* take_values(state, delivered): the values of the entry move to the page */
static int take_values(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  const delivered *its = (const delivered *)lua_touserdata(L, 2);
  mw_entry copy = *its->entry;
  mwb_held *held;
  int part;
  held = mwb_need_page(L, s);
  for (part = 0; part < MW_PARTS; part++) {
    if (copy.type[part] != MW_TOTHER) continue;
    if (its->values->owner == 0 && part != MW_OLD) continue;
    push_taken(L, s, its, part);
    mwb_pack(L, s, held, 0, 3, &copy, part);
    if (part == MW_KEY) mwb_mark_key(L, s, 3, &copy);
    lua_settop(L, 2);
  }
  if (its->values->owner != 0) {
    take_context(L, s, held, its, &copy);
    if (mwb_alive(L, s, copy.obj)) mwb_hold_in_page(L, s, held, copy.obj, 3);
  }
  *its->entry = copy;
  return 0;
}

int mwb_deliver(void *ud, mw_entry *entry, const mw_values *values,
                void *host) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = (host == NULL) ? s->service : *(lua_State **)host;
  delivered its = {entry, values};
  int status;
  if (values->owner == 0 && values->old_owner == 0) return MW_OK;
  if (!lua_checkstack(L, LUA_MINSTACK)) return MW_NOMEM;
  status = call_with_stock(L, s, take_values, &its);
  if (status != LUA_OK) lua_pop(L, 1);
  return (status == LUA_OK) ? MW_OK : MW_NOMEM;
}

/* }====================================================== */
