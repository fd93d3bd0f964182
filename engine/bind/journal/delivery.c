/*
** delivery.c - what the entries hold that readers have not read yet.
** SPDX-License-Identifier: MIT
**
**     MWB_PAGES: number of the page --> table of held values
**                                           ^
**     page_holder (a mwb_coroutine) --------+   of the last page
**
** The engine keeps delivered entries in pages.  All entries of a page share a
** table of held values, which goes with the page.  So what a reader has missed
** or read is let go without a walk.  A page holds the objects of its entries,
** too, and contexts: see `mwb_hold_context`.
*/
#include "journal.h"

#include <string.h>

#include "../base/base.h"
#include "../readers/readers.h"
#include "../trace/trace.h"

/* {======================================================
** Pages
** ======================================================= */

void mwb_open_delivery(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = &s->journal->page_holder;
  if (t->s != NULL) return; /* has somebody read before? */
  lua_newtable(L);
  mwb_keep(L, s, MWB_PAGES);
  lua_pushboolean(L, 0);
  t->place = luaL_ref(L, LUA_REGISTRYINDEX);
  t->kept = 1;
  t->held.of = t;
  t->s = s;
}

mwb_held *mwb_need_page(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = &s->journal->page_holder;
  uint64_t page = (s->engine->reader.last + 1) / MWI_READER_PAGE;
  luaL_checkstack(L, LUA_MINSTACK, "deliver");
  if (mwb_page_is_ready(s)) return &t->held;
  lua_createtable(L, 0, 4);
  lua_pushnumber(L, (lua_Number)mwb_now(NULL) / 1e9);
  lua_rawseti(L, -2, MWB_PAGETIME);
  mwb_push(L, s, MWB_PAGES);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, (lua_Integer)page);
  lua_pop(L, 1); /* nothing raises from here on */
  lua_rawseti(L, LUA_REGISTRYINDEX, t->place);
  if (s->journal->first_page == 0) s->journal->first_page = page + 1;
  s->journal->page = page + 1;
  t->held.n = 0;
  t->held.id = ++s->journal->held_ids;
  return &t->held;
}

void mwb_push_page(lua_State *L, const mwb_state *s, uint64_t seq) {
  mwb_push(L, s, MWB_PAGES);
  if (lua_isnil(L, -1)) return; /* has nobody ever read? */
  lua_rawgeti(L, -1, (lua_Integer)(seq / MWI_READER_PAGE));
  lua_replace(L, -2);
}

void mwb_forget(void *ud, uint64_t seq) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = s->service;
  int all = seq > s->engine->reader.last;
  uint64_t end = all ? s->journal->page + 1 : seq / MWI_READER_PAGE + 1;
  if (s->journal->first_page == 0) return;
  mwb_keep_page(L, s, seq);
  mwb_push(L, s, MWB_PAGES);
  for (; s->journal->first_page < end; s->journal->first_page++) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)s->journal->first_page - 1);
  }
  lua_settop(L, 0);
  if (!all) return; /* are entries left? */
  lua_pushboolean(L, 0);
  lua_rawseti(L, LUA_REGISTRYINDEX, s->journal->page_holder.place);
  s->journal->first_page = s->journal->page = 0;
  s->journal->held_ids++; /* what was prepared with the page is not */
}

/* }====================================================== */

/* {======================================================
** Contexts
** ======================================================= */

/* The context of an entry is a table with `epoch`, `origin`, `scope` and, in
** delivered entries, `transaction`.  Entries that have the same share one. */

/* Returns the number of objects that are entered now. */
static uint64_t count_frames(const mwb_state *s) {
  const mwi_hierarchies *all = &s->engine->scope;
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < all->n; i++)
    if (all->all[i] != NULL) n += all->all[i]->frames;
  return n;
}

/* Has the coroutine scopes of its own? */
static int has_scopes(lua_State *of, mwb_state *s) {
  const mwi_hierarchies *all = &s->engine->scope;
  mw_handle thread;
  uint32_t i, n = 0;
  if (!lua_checkstack(of, LUA_MINSTACK)) return 0;
  if (mwb_outermost_scope(of, s) != NULL) return 1; /* one of mw.timed? */
  if (count_frames(s) == 0) return 0;               /* does nothing execute? */
  lua_pushthread(of);
  thread = mwb_handle_of(of, s, lua_gettop(of));
  lua_pop(of, 1);
  for (i = 0; n == 0 && i < all->n; i++)
    if (all->all[i] != NULL) mw_hierarchy_stack(s->engine, i, thread, &n);
  return n > 0;
}

/* Replaces names, and the orders of their entering above, by the names with
** those of mw.timed in between. */
static void add_timed(lua_State *L, const mwb_scope *timed) {
  int orders = lua_gettop(L);
  lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, orders), to = 0;
  lua_createtable(L, (int)n + 2, 0);
  while (i <= n || timed != NULL) {
    if (i <= n) lua_rawgeti(L, orders, i);
    if (i <= n && /* entered before the next timed one? */
        (timed == NULL || (uint64_t)lua_tointeger(L, -1) <= timed->entered)) {
      lua_rawgeti(L, orders - 1, i++);
    } else {
      lua_pushlstring(L, timed->name.bytes, timed->name.len);
      timed = timed->inner[MWB_OPEN];
    }
    lua_rawseti(L, orders + 1, ++to);
    lua_settop(L, orders + 1);
  }
  lua_replace(L, orders - 1);
  lua_settop(L, orders - 1);
}

/* Pushes the names of the scopes that a write of the running coroutine has, the
** outermost first, as an array; nil for none.  A coroutine without scopes has
** those of the nearest one that waits for it. */
static void push_scopes(lua_State *L, mwb_state *s) {
  const mwb_scope *timed;
  lua_State *of = L;
  int top = lua_gettop(L);
  if (L != s->main && !has_scopes(L, s)) /* none of its own? */
    of = mwb_nearest_coroutine(L, s, has_scopes);
  if (of == NULL) { /* nor has one that waits? */
    lua_pushnil(L);
    return;
  }
  if (s->engine->scope.n > 0) { /* are there hierarchies? */
    mwb_push(L, s, MWB_PATHS);
    lua_pushthread(of);
    lua_xmove(of, L, 1);
    lua_call(L, 1, 2);
  } else {
    lua_settop(L, top + 2);
  }
  timed = mwb_outermost_scope(of, s);
  if (timed != NULL) /* else only the orders go */
    add_timed(L, timed);
  else
    lua_pop(L, 1);
  if (!lua_istable(L, -1) || lua_rawlen(L, -1) > 0) return; /* not empty? */
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* make_context() */
static int make_context(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_createtable(L, 0, 3); /* at 1 */
  lua_pushinteger(L, (lua_Integer)mw_clock_now(s->engine, MW_CLOCK));
  lua_setfield(L, 1, "epoch");
  mwb_push_origin(L, s, L);
  lua_setfield(L, 1, "origin");
  if (s->journal->scoped > 0) { /* does a reader want scopes? */
    push_scopes(L, s);
    lua_setfield(L, 1, "scope");
  }
  mwb_keep(L, s, MWB_CONTEXT);
  return 0;
}

/* Is any scope open anywhere? */
static int is_scoped(const mwb_state *s) {
  return s->trace->scopes > 0 || count_frames(s) > 0 || /* or in main's lane? */
         (s->trace->lane != NULL && s->trace->lane->open > 0);
}

/* Is the context that of a write which the coroutine makes now? */
static int is_present(lua_State *L, mwb_state *s) {
  const mwb_context *its = &s->journal->context;
  const mwb_coroutine *t;
  return its->of == L && /* of this coroutine, in this epoch? */
         its->epoch == (int64_t)s->engine->clock.clocks[MW_CLOCK].now &&
         (s->journal->scoped == 0 || /* with these scopes, if they matter? */
          (its->entered == s->engine->scope.orders &&
           its->frames == count_frames(s) &&
           (L == s->main || !is_scoped(s) || has_scopes(L, s)))) &&
         (s->journal->origins == 0 || L == s->main || /* its own origin? */
          ((t = mwb_own_coroutine(L, s)) != NULL &&
           t->open[MWB_BY_ORIGIN] != NULL));
}

/* A name may be made by a function of the program, which may write: the writes
** have no context. */
static void renew_context(lua_State *L, mwb_state *s) {
  mwb_context *its = &s->journal->context;
  int status;
  luaL_checkstack(L, LUA_MINSTACK, "deliver");
  its->of = L;
  its->id = 0;
  its->epoch = mw_clock_now(s->engine, MW_CLOCK);
  its->entered = s->engine->scope.orders;
  its->frames = count_frames(s);
  s->journal->making = 1;
  status = mwb_pcall(L, s, make_context, 0, 0);
  s->journal->making = 0;
  if (status == LUA_OK) return;
  its->of = NULL;
  lua_error(L);
}

int mwb_make_ready(lua_State *L, mwb_state *s) {
  if (s->journal->making || (mwb_page_is_ready(s) && is_present(L, s)))
    return 0; /* or the context is being made just now */
  mwb_need_page(L, s);
  if (!is_present(L, s)) renew_context(L, s);
  return 1;
}

uint32_t mwb_hold_context(lua_State *L, mwb_state *s, mwb_held *held) {
  mwb_context *its = &s->journal->context;
  if (s->journal->making) return 0;      /* a write while a name is made? */
  if (its->of != L) renew_context(L, s); /* see mwb_turn_context */
  if (its->id != held->id) {             /* not yet among these values? */
    mwb_push(L, s, MWB_CONTEXT);
    its->number = mwb_hold_value(L, held, 0, lua_gettop(L));
    its->id = held->id;
    lua_pop(L, 1);
  }
  return its->number;
}

/* Pushes the context on the top with a transaction; pops the former. */
static void add_transaction(lua_State *L, const mwb_transaction *tx) {
  static const char *const names[] = {"epoch", "origin", "scope", NULL};
  int i, from = lua_gettop(L);
  lua_createtable(L, 0, 4);
  for (i = 0; names[i] != NULL && lua_istable(L, from); i++) {
    lua_getfield(L, from, names[i]);
    lua_setfield(L, -2, names[i]);
  }
  mwb_push_label(L, tx);
  lua_setfield(L, -2, "transaction");
  lua_replace(L, from);
}

/* }====================================================== */

/* {======================================================
** Delivery
** ======================================================= */

uint32_t mwb_hash_key(lua_State *L, const mwb_state *s, int index) {
  uint64_t hash;
  size_t len;
  if (lua_type(L, index) == LUA_TSTRING) {
    const char *text = lua_tolstring(L, index, &len);
    hash = (uint64_t)(uintptr_t)text; /* a short string has one address */
    if (len > s->short_string)        /* may equal ones have other addresses? */
      for (hash = len; len > 0; len -= (len + 15) / 16)
        hash = hash * 31 + (unsigned char)text[len - 1];
  } else {
    hash = (uint64_t)(uintptr_t)lua_topointer(L, index);
  }
  return (uint32_t)((hash >> 4) ^ (hash << 16));
}

/* What `take_values` takes. */
typedef struct delivered {
  mw_entry *entry;
  const mw_values *values;
} delivered;

/* The stack of `take_values`: what is taken, the values of the entry, and those
** of the old value. */
enum { ITS = 1, NEWER, OLDER };

/* Moves the context, and `where`, of the entry of an owner.  Entries that share
** a context share it still. */
static void take_context(lua_State *L, mwb_state *s, mwb_held *held,
                         const delivered *its, mw_entry *copy) {
  const mwb_transaction *tx = mwb_transaction_of(s, its->values->owner);
  const mwb_held *from = &tx->of->held;
  mwb_taken *last = &s->journal->taken;
  if (copy->where != 0) { /* is its place known? */
    mwb_push_value(L, NEWER, copy->where);
    copy->where = mwb_hold_string(L, s, held, 0, OLDER + 1);
    lua_settop(L, OLDER);
  }
  if (last->from != from->id || last->context != copy->context ||
      last->to != held->id || last->order != tx->begun.order) { /* another? */
    mwb_push_value(L, NEWER, copy->context);
    add_transaction(L, tx);
    last->number = mwb_hold_value(L, held, 0, OLDER + 1);
    last->from = from->id;
    last->context = copy->context;
    last->to = held->id;
    last->order = tx->begun.order;
    lua_settop(L, OLDER);
  }
  copy->context = last->number;
}

/* Pushes the values of an owner, or, for 0, of the page. */
static void push_values_of(lua_State *L, const mwb_state *s, mw_owner owner) {
  mwb_push_values(
      L, (owner == 0) ? &s->journal->page_holder : mwb_coroutine_of(s, owner));
}

/* take_values(delivered): the values of the entry move to the page */
static int take_values(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const delivered *its = (const delivered *)lua_touserdata(L, ITS);
  mw_owner owner = its->values->owner;
  mw_entry copy = *its->entry;
  mwb_held *held = mwb_need_page(L, s);
  int part;
  push_values_of(L, s, owner);
  push_values_of(L, s, its->values->old_owner);
  for (part = 0; part < MW_PARTS; part++) {
    if (copy.type[part] != MW_TOTHER) continue;
    if (owner == 0 && part != MW_OLD) continue; /* in the page already? */
    mwb_unpack(L, (part == MW_OLD) ? OLDER : NEWER, its->entry, part);
    mwb_pack(L, s, held, 0, OLDER + 1, &copy, part);
    if (part == MW_KEY) mwb_mark_key(L, s, OLDER + 1, &copy);
    lua_settop(L, OLDER);
  }
  if (owner != 0) { /* else the page has those, too */
    take_context(L, s, held, its, &copy);
    if (mwb_alive(L, s, copy.obj))
      mwb_hold_in_page(L, s, held, copy.obj, OLDER + 1);
  }
  *its->entry = copy;
  return 0;
}

int mwb_deliver(void *ud, mw_entry *entry, const mw_values *values,
                void *host) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = (host == NULL) ? s->service : *(lua_State **)host;
  delivered its = {entry, values};
  if (values->owner == 0 && values->old_owner == 0) return MW_OK; /* moved? */
  if (!lua_checkstack(L, LUA_MINSTACK)) return MW_NOMEM;
  lua_pushlightuserdata(L, &its);
  return mwb_code_of(L, mwb_pcall(L, s, take_values, 1, 0));
}

/* }====================================================== */
