/*
** batch.c - writes whose guards are called later, once each.
** SPDX-License-Identifier: MIT
**
**     handle (userdata) --> batch --> rows, which a table finds
**                           ^   |
**     mwb_coroutine --------+   +--> values: object, key, old value of each row
**
** A batch belongs to the coroutine that began the batch, which has a list of
** its batches.  A write belongs to a batch as it does to a transaction: see
** coroutine.c.  The batch that would own a write when another begins is the
** outer batch of the other.  Only outermost batches have rows.
**
** A handle that is collected leaves its batch lost.  A batch has no handle if
** the call that began it always ends it: if that cannot yield.
**
** A field that is written has a row, whether a watch waits or not: a watch that
** begins within the batch is told the value from before the batch.  Rows count
** from 1.  The registry has the values.
*/
#include "../base/base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "watch.h"

/* The memory of a batch with more rows, or calls, is not used again. */
#define LARGE 256u

typedef struct mwb_batch {
  mwb_begun begun;
  mwb_state *s;
  mwb_coroutine *of;
  struct mwb_batch *outer; /* NULL: this batch is the outermost */
  mwi_batch its;           /* rows, and the calls at the end */
  mwi_table table;         /* of the rows */
  uint64_t writes;         /* that were noted */
  int values;              /* in the registry; 0: there are none */
  int lost;
} mwb_batch;

/* {======================================================
** Who owns a write
** ======================================================= */

static mwb_batch *owner_of(lua_State *L, mwb_state *s) {
  if (s->watch->batches == 0) return NULL;
  return (mwb_batch *)mwb_owning(L, s, MWB_BY_BATCH);
}

int mwb_in_batch(lua_State *L, mwb_state *s) { return owner_of(L, s) != NULL; }

/* }====================================================== */

/* {======================================================
** Rows
** ======================================================= */

#define PARTS 3

/* What the values have for a row. */
static const int parts[PARTS] = {OBJECT, KEY, OLD};

/* Where the values have the first part of a row. */
static lua_Integer place_of(uint32_t n) {
  return (lua_Integer)n * PARTS - PARTS + 1;
}

static void push_values(lua_State *L, const mwb_batch *b) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, b->values);
}

/* The key as rows have it until the end of the batch.  It does not change when
** the engine comes to know the key; several may have the same if it is
** MW_TOTHER. */
static mw_value key_of(const mwb_write *w) {
  mw_value key = w->change.key;
  size_t len = 0;
  if (key.type == MW_TSTRING) lua_tolstring(w->L, KEY, &len);
  if (key.type < MW_TSTRING || (len > 0 && len <= w->s->short_string))
    return key; /* it is the same at the end */
  key.type = MW_TOTHER;
  key.u.i = mwb_hash_key(w->L, w->s, KEY);
  return key;
}

/* The row of the written field, or 0. */
static uint32_t find_row(const mwb_write *w, const mwb_batch *b,
                         const mw_value *key) {
  lua_State *L = w->L;
  mwi_search at;
  uint32_t n =
      mwi_table_first(&b->table, mwi_key_hash(mw_slot(w->obj), key), &at);
  int found = 0;
  for (; n != 0; n = mwi_table_next(&b->table, &at)) {
    const mwi_batch_row *row = &b->its.rows[n - 1];
    if (row->obj != w->obj || !mw_value_equal(&row->key, key)) continue;
    if (key->type != MW_TOTHER) break; /* no other key has the same */
    push_values(L, b);
    lua_rawgeti(L, -1, place_of(n) + 1);
    found = lua_rawequal(L, -1, KEY);
    lua_pop(L, 2);
    if (found) break;
  }
  return n;
}

/* Gives the written field a row.  A row that is half filled is not found. */
static uint32_t add_row(const mwb_write *w, mwb_batch *b, const mw_value *key) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  mwi_batch_row *row;
  int i;
  if (!mwi_grow(e, &b->its.rows, b->its.n, &b->its.size) ||
      !mwi_table_reserve(e, &b->table, 1))
    mwb_check(L, MW_NOMEM);
  if (b->values == 0) { /* has the batch never had a row? */
    lua_newtable(L);
    b->values = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  push_values(L, b);
  for (i = 0; i < PARTS; i++) {
    lua_pushvalue(L, parts[i]);
    lua_rawseti(L, -2, place_of(b->its.n + 1) + i);
  }
  lua_pop(L, 1);
  row = &b->its.rows[b->its.n++];
  memset(row, 0, sizeof(*row));
  row->obj = w->obj;
  row->key = *key;
  mwi_table_put(e, &b->table, mwi_key_hash(mw_slot(w->obj), key), b->its.n);
  return b->its.n;
}

/* Reading the old value may run code of the program, which may begin and end
** batches, and write.  Then all is looked up again. */
int mwb_note_write(mwb_write *w) {
  mwb_state *s = w->s;
  mwb_batch *b = owner_of(w->L, s);
  uint32_t n;
  mw_value key;
  mwi_batch_row *row;
  if (b == NULL) return 0;
  while (b->outer != NULL) b = b->outer;
  key = key_of(w);
  n = find_row(w, b, &key);
  if (n == 0 && !w->has_old) { /* the field's first write in the batch? */
    mwb_read_old(w);
    mwb_write_compare(w);
    return w->r != NULL && mwb_note_write(w); /* if it lives, once more */
  }
  if (n == 0) n = add_row(w, b, &key);
  row = &b->its.rows[n - 1];
  row->kind = w->change.kind;
  row->seq = w->seq;
  row->number = mwb_is_read(s) ? mw_change_number(s->engine, &w->change) : 0;
  row->order = ++b->writes;
  return 1;
}

/* }====================================================== */

/* {======================================================
** The end of a batch
** ======================================================= */

/* Puts the parts of a row and the present value on the stack of the write. */
static void load_row(mwb_write *w, const mwb_batch *b, uint32_t n) {
  lua_State *L = w->L;
  const mwi_batch_row *row = &b->its.rows[n];
  int i;
  w->obj = row->obj;
  w->change.kind = row->kind;
  w->change.number = row->number;
  w->change.reach = 0;
  push_values(L, b);
  for (i = 0; i < PARTS; i++) {
    lua_rawgeti(L, -1, place_of(n + 1) + i);
    lua_replace(L, parts[i]);
  }
  lua_pop(L, 1);
  if (row->kind == MW_METATABLE) /* which has the class as value? */
    mwb_push_class(L, OBJECT);
  else if (row->kind == MW_CALL) /* which has none? */
    lua_pushnil(L);
  else
    mwb_push_current(L, w->s);
  lua_replace(L, VALUE);
  w->plain = row->kind <= MW_DELETE; /* insert, update or delete? */
  mwb_set_kind_of(w);
}

/* Sets what the search for watches reads: whether values are the same, and the
** keys as the engine knows them now. */
static void prepare_rows(mwb_write *w, const mwb_batch *b) {
  uint32_t n;
  for (n = 0; n < b->its.n; n++) {
    mwi_batch_row *row = &b->its.rows[n];
    const mwi_object *r = mwb_object_of(w->s, row->obj);
    if (row->key.type == MW_TOTHER) { /* is it a hash of the key? */
      push_values(w->L, b);
      lua_rawgeti(w->L, -1, place_of(n + 1) + 1);
      row->key = mwb_key(w->L, w->s, lua_gettop(w->L));
      lua_pop(w->L, 2);
    }
    if (r != NULL && ((r->needs & MWI_SKIPS) || /* are values compared? */
                      (w->s->engine->watch.deep_skips > 0 && r->nodes != 0))) {
      load_row(w, b, n);
      row->same = w->change.same;
    }
  }
}

/* deliver(batch): calls the guards.  A guard may do anything but end the batch,
** which has ended. */
static int deliver(lua_State *L) {
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  mwb_state *s = b->s;
  uint64_t told = s->engine->watch.calls;
  uint32_t i;
  mwb_write w;
  lua_settop(L, 0);
  lua_settop(L, OLD);
  mwb_write_open(L, s, &w, MW_NONE, MW_TOUCH, MWB_GIVEN);
  prepare_rows(&w, b);
  mwb_check(L, mwi_batch_search(s->engine, &b->its));
  for (i = 0; i < b->its.n_calls; i++) {
    load_row(&w, b, b->its.calls[i].row);
    mwi_batch_tell(s->engine, b->its.calls[i].watch, &w.change);
  }
  if (mwb_tracing(s)) mwb_trace_batch(L, s, s->engine->watch.calls - told);
  if (!w.failed) return 0;
  lua_settop(L, FAILURE);
  return lua_error(L);
}

/* Takes a batch from its coroutine, and from between its outer batch and its
** inner ones. */
static void close_batch(lua_State *L, mwb_state *s, mwb_batch *b) {
  mwb_coroutine *t = b->of, *other = s->journal->coroutines;
  mwb_begun *at;
  b->of = NULL;
  if (--s->watch->batches > 0) /* may there be inner ones? */
    for (; other != NULL; other = other->next)
      for (at = other->open[MWB_BY_BATCH]; at != NULL; at = at->outer)
        if (((mwb_batch *)at)->outer == b) ((mwb_batch *)at)->outer = b->outer;
  mwb_end(L, s, t, MWB_BY_BATCH, &b->begun);
  mwb_need(s, MWB_BATCHES, s->watch->batches > 0);
}

static void free_batch(lua_State *L, mw_engine *e, mwb_batch *b) {
  if (b->values != 0) luaL_unref(L, LUA_REGISTRYINDEX, b->values);
  mwi_table_drop(e, &b->table);
  mwi_free(e, b->its.rows, b->its.size * sizeof(*b->its.rows));
  mwi_free(e, b->its.calls, b->its.size_calls * sizeof(*b->its.calls));
  mwi_free(e, b, sizeof(*b));
}

/* Lets go of all rows; one batch stays, for the next begin. */
static void release(lua_State *L, mwb_state *s, mwb_batch *b) {
  lua_Integer i = (lua_Integer)b->its.n * PARTS;
  if (s->watch->spare != NULL || b->its.size > LARGE || /* is one kept? */
      b->its.size_calls > LARGE) { /* is it too large to keep? */
    free_batch(L, s->engine, b);
    return;
  }
  if (i > 0) push_values(L, b);
  for (; i > 0; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  if (b->its.n > 0) lua_pop(L, 1);
  b->its.n = 0;
  mwi_table_empty(&b->table);
  s->watch->spare = b;
}

void mwb_close_batches(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = s->journal->coroutines;
  if (s->watch->spare != NULL) free_batch(L, s->engine, s->watch->spare);
  for (; t != NULL; t = t->next)
    while (t->open[MWB_BY_BATCH] != NULL) {
      mwb_begun *its = t->open[MWB_BY_BATCH];
      t->open[MWB_BY_BATCH] = its->outer;
      free_batch(L, s->engine, (mwb_batch *)its);
    }
}

/* Ends the batch of a handle, if that has one.  Returns a status; with an
** error, that is on the top. */
static int end_batch(lua_State *L, mwb_state *s, mwb_batch **handle) {
  mwb_batch *b = *handle;
  int status = LUA_OK;
  if (b == NULL || s->engine == NULL) return status; /* has it ended? */
  *handle = NULL;
  close_batch(L, s, b);
  if (b->its.n > 0) { /* was anything written? */
    lua_pushcfunction(L, deliver);
    lua_pushlightuserdata(L, b);
    status = lua_pcall(L, 1, 0, 0);
  }
  release(L, s, b);
  return status;
}

/* }====================================================== */

/* {======================================================
** mw.batch
** ======================================================= */

/* Begins a batch that belongs to the running coroutine. */
static mwb_batch *begin_batch(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = mwb_need_coroutine(L, s);
  mwb_batch *b = s->watch->spare;
  if (b == NULL) b = (mwb_batch *)mwi_new(s->engine, sizeof(*b));
  if (b == NULL) {
    mwb_check(L, MW_NOMEM);
    return NULL;
  }
  s->watch->spare = NULL;
  b->s = s;
  b->outer = owner_of(L, s);
  b->of = t;
  b->lost = 0;
  mwb_begin(s, t, MWB_BY_BATCH, &b->begun);
  s->watch->batches++;
  mwb_need(s, MWB_BATCHES, 1);
  return b;
}

/* close(batch); __close(batch, error): that error goes on, not the error of a
** guard. */
static int close_method(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int failed = !lua_isnoneornil(L, 2);
  mwb_batch **handle =
      (mwb_batch **)mwb_check_self(L, s, "close", MWB_BATCH, "batch");
  lua_settop(L, 1);
  if (mwb_put_off(L, s)) return 0; /* does a finaliser interrupt? */
  return (end_batch(L, s, handle) == LUA_OK || failed) ? 0 : lua_error(L);
}

/* A batch that is lost is ended by the next call. */
static int collected(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_batch **handle = (mwb_batch **)lua_touserdata(L, 1);
  if (s->engine == NULL || *handle == NULL) return 0; /* it has ended */
  (*handle)->lost = 1;
  *handle = NULL;
  mwb_wait(s);
  return 0;
}

static mwb_batch *find_lost(const mwb_state *s) {
  const mwb_coroutine *t = s->journal->coroutines;
  mwb_begun *b;
  for (; t != NULL; t = t->next)
    for (b = t->open[MWB_BY_BATCH]; b != NULL; b = b->outer)
      if (((mwb_batch *)b)->lost) return (mwb_batch *)b;
  return NULL;
}

void mwb_end_lost_batches(lua_State *L, mwb_state *s) {
  mwb_batch *b;
  while (s->watch->batches > 0 && (b = find_lost(s)) != NULL)
    if (end_batch(L, s, &b) != LUA_OK) mwb_late_error(L, s, "guard");
}

/* Ends the call of `batch`: the function's error goes on, not the error of a
** guard.  The context is a handle, which nobody else knows. */
static int end_call(lua_State *L, int status, lua_KContext context) {
  int failed = status != LUA_OK && status != LUA_YIELD; /* the function? */
  int ended = end_batch(L, mwb_state_of(L), (mwb_batch **)context);
  if (failed) {
    lua_settop(L, 2);
    return lua_error(L);
  }
  if (ended != LUA_OK) return lua_error(L); /* a guard's */
  return lua_gettop(L) - 1;
}

/* A coroutine that can yield can be closed while the function waits; then Lua
** closes the batch. */
static int batch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int args = lua_gettop(L) - 1, closes = args >= 0 && lua_isyieldable(L);
  mwb_batch *b = NULL, **handle = &b;
  if (args >= 0 && !lua_isfunction(L, 1))
    return mwb_bad_argument(L, "batch", 1, 1, "function");
  if (args < 0 || closes) { /* may it be left open? */
    handle = (mwb_batch **)lua_newuserdatauv(L, sizeof(*handle), 0);
    *handle = NULL;
    mwb_push(L, s, MWB_BATCH);
    lua_setmetatable(L, -2);
  } else {
    lua_pushnil(L);
  }
  *handle = begin_batch(L, s);
  if (args < 0) return 1; /* the program ends it */
  lua_insert(L, 1);
  if (closes) lua_toclose(L, 1); /* if the function never returns */
  return end_call(
      L, lua_pcallk(L, args, LUA_MULTRET, 0, (lua_KContext)handle, end_call),
      (lua_KContext)handle);
}

void mwb_open_batch(lua_State *L) {
  static const luaL_Reg functions[] = {{"batch", batch}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_method}, {"__gc", collected}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", close_method}, {NULL, NULL}};
  mwb_new_meta(L, MWB_BATCH, "batch", meta, methods);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
