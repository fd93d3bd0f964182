/*
** batch.c - writes whose guards are called later, once each.
** SPDX-License-Identifier: MIT
**
**     mwb_coroutine --> batch --> the coroutine's batch that began before
**                         |
**                         +--> rows, and VALUES: object, key, old value of each
**
** A batch is a userdata, and belongs to the coroutine that began the batch.  A
** write belongs to a batch as it does to a transaction: see coroutine.c.  The
** batch that would own a write when another begins is the outer batch of the
** other.  Only outermost batches have rows.
**
** A field that is written has a row, whether a watch waits or not: a watch that
** begins within the batch is told the value from before the batch.  Rows, which
** count from 1, are found by a table.  The array MWB_OPENED finds the userdata
** of a batch by the batch's number, and keeps no batch alive: the collector
** ends a batch that is lost.
*/
#include "../base/base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "watch.h"

/* A batch with more rows is not used again. */
#define LARGE 256u

/* User values of a batch; OWNER is the coroutine. */
enum { VALUES = 1, ROWS, OWNER, CALLS, N_USER = CALLS };

struct mwb_batch {
  mwb_state *state;
  mwb_coroutine *of; /* while the batch is open */
  lua_Integer number;
  uint64_t order;    /* of the begin */
  mwb_batch *before; /* open, of the same coroutine */
  mwb_batch *outer;  /* open; NULL: this batch is the outermost */
  uint32_t inner;    /* how many open ones have this one as outer batch */
  mw_batch_row *rows;
  mwi_table table; /* of the rows, in memory behind them */
  uint32_t n, size;
  int open;
};

/* {======================================================
** Who owns a write
** ======================================================= */

static mwb_batch *owner_of(lua_State *L, mwb_state *s) {
  return (s->watch->batches == 0) ? NULL : mwb_batch_of(L, s);
}

static mwb_batch *outermost(mwb_batch *b) {
  while (b != NULL && b->outer != NULL) b = b->outer;
  return b;
}

int mwb_in_batch(lua_State *L, mwb_state *s) { return owner_of(L, s) != NULL; }

/* }====================================================== */

/* {======================================================
** Rows
** ======================================================= */

#define PARTS 3

/* What VALUES has for a row. */
static const int parts[PARTS] = {OBJECT, KEY, OLD};

/* Where VALUES has the first part of a row. */
static lua_Integer place_of(uint32_t n) {
  return (lua_Integer)n * PARTS - PARTS + 1;
}

/* Pushes the userdata of a batch.  Returns 0 if the collector has found the
** batch dead, and is about to end the batch. */
static int push_batch(lua_State *L, const mwb_state *s, const mwb_batch *b) {
  mwb_push(L, s, MWB_OPENED);
  lua_rawgeti(L, -1, b->number);
  lua_replace(L, -2);
  return lua_touserdata(L, -1) == b;
}

/* Gives the batch on the top a number. */
static void give_number(lua_State *L, const mwb_state *s, mwb_batch *b) {
  mwb_push(L, s, MWB_OPENED);
  b->number = (lua_Integer)lua_rawlen(L, -1) + 1;
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, b->number);
  lua_pop(L, 1);
}

/* Pushes a user value of a batch; returns 0 as above. */
static int push_user(lua_State *L, const mwb_state *s, const mwb_batch *b,
                     int n) {
  int found = push_batch(L, s, b);
  if (found) {
    lua_getiuservalue(L, -1, n);
    lua_replace(L, -2);
  }
  return found;
}

/* Sets a user value of a batch to the value on the top, and pops that. */
static void set_user(lua_State *L, const mwb_state *s, const mwb_batch *b,
                     int n) {
  mwb_push(L, s, MWB_OPENED);
  lua_rawgeti(L, -1, b->number);
  lua_pushvalue(L, -3);
  lua_setiuservalue(L, -2, n);
  lua_pop(L, 3);
}

/* The key as rows have it.  A key that the engine may not keep is MW_TOTHER,
** with a number that other keys may have, too. */
static mw_value key_of(const mwb_write *w) {
  mw_value key = w->change.key;
  size_t len = 0;
  if (key.type == MW_TOBJECT) {
    key.type = MW_TOTHER;
    key.u.i = (int64_t)(uintptr_t)lua_topointer(w->L, KEY);
  } else if (key.type == MW_TSTRING) {
    const char *text = lua_tolstring(w->L, KEY, &len);
    uint64_t hash = len;
    if (len <= w->s->short_string) return key;
    while (len > 0) hash = hash * 31 + (unsigned char)text[--len];
    key.type = MW_TOTHER;
    key.u.i = (int64_t)hash;
  }
  return key;
}

static void enter_row(const mwb_state *s, mwb_batch *b, uint32_t n) {
  const mw_batch_row *row = &b->rows[n - 1];
  mwi_table_put(s->engine, &b->table,
                mwi_key_hash(mw_slot(row->obj), &row->key), n);
}

/* Makes room for one more row. */
static void need_row(lua_State *L, const mwb_state *s, mwb_batch *b) {
  uint32_t size = (b->size == 0) ? 4 : (b->size < LARGE ? 4 : 2) * b->size, i;
  mw_batch_row *rows;
  if (b->n < b->size) return;
  if (b->size == 0) {
    lua_newtable(L);
    set_user(L, s, b, VALUES);
  }
  rows = (mw_batch_row *)lua_newuserdatauv(
      L, size * sizeof(*rows) + mwi_table_room(size), 0);
  if (b->n > 0) memcpy(rows, b->rows, b->n * sizeof(*rows));
  set_user(L, s, b, ROWS);
  b->rows = rows;
  b->size = size;
  mwi_table_lend(&b->table, rows + size, size);
  for (i = 1; i <= b->n; i++) enter_row(s, b, i);
}

/* The row of the field, or 0. */
static uint32_t find_row(const mwb_write *w, const mwb_batch *b,
                         const mw_value *key) {
  lua_State *L = w->L;
  mwi_search at;
  uint32_t n =
      mwi_table_first(&b->table, mwi_key_hash(mw_slot(w->obj), key), &at);
  int found = 0;
  for (; n != 0; n = mwi_table_next(&b->table, &at)) {
    const mw_batch_row *row = &b->rows[n - 1];
    if (row->obj != w->obj || !mw_value_equal(&row->key, key)) continue;
    if (key->type != MW_TOTHER) break;
    if (push_user(L, w->s, b, VALUES)) {
      lua_rawgeti(L, -1, place_of(n) + 1);
      found = lua_rawequal(L, -1, KEY);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (found) break;
  }
  return n;
}

/* Gives the written field a row.  Returns 0 if the collector has found the
** batch dead.  A row that is half filled is not found. */
static uint32_t add_row(const mwb_write *w, mwb_batch *b, const mw_value *key) {
  lua_State *L = w->L;
  int top = lua_gettop(L), i;
  if (!push_batch(L, w->s, b)) {
    lua_settop(L, top);
    return 0;
  }
  need_row(L, w->s, b);
  lua_getiuservalue(L, top + 1, VALUES);
  for (i = 0; i < PARTS; i++) {
    lua_pushvalue(L, parts[i]);
    lua_rawseti(L, -2, place_of(b->n + 1) + i);
  }
  b->rows[b->n].obj = w->obj;
  b->rows[b->n].key = *key;
  b->rows[b->n].same = 0;
  enter_row(w->s, b, ++b->n);
  lua_settop(L, top);
  return b->n;
}

/* Reading the old value may run code of the program, which may begin and end
** batches, and write.  Then all is looked up again. */
int mwb_note_write(mwb_write *w) {
  mwb_state *s = w->s;
  mwb_batch *b = outermost(owner_of(w->L, s));
  uint64_t turn = s->watch->batch_turns;
  mw_value key;
  uint32_t n;
  if (b == NULL) return 0;
  key = key_of(w);
  n = find_row(w, b, &key);
  if (n == 0 && !w->has_old) {
    mwb_read_old(w);
    mwb_write_compare(w);
    if (w->r == NULL) return 0;
    if (turn != s->watch->batch_turns) return mwb_note_write(w);
  }
  if (n == 0) n = add_row(w, b, &key);
  if (n == 0) return 0;
  b->rows[n - 1].kind = w->change.kind;
  b->rows[n - 1].seq = w->seq;
  b->rows[n - 1].number =
      mwb_is_read(s) ? mw_change_number(s->engine, &w->change) : 0;
  b->rows[n - 1].order = ++s->watch->batch_turns;
  return 1;
}

/* }====================================================== */

/* {======================================================
** The end of a batch
** ======================================================= */

/* Puts the parts of a row and the present value on the stack of the write. */
static void load_row(mwb_write *w, const mwb_batch *b, uint32_t n) {
  lua_State *L = w->L;
  const mw_batch_row *row = &b->rows[n];
  int i;
  w->obj = row->obj;
  w->change.kind = row->kind;
  w->change.number = row->number;
  w->change.node = 0;
  push_user(L, w->s, b, VALUES);
  for (i = 0; i < PARTS; i++) {
    lua_rawgeti(L, -1, place_of(n + 1) + i);
    lua_replace(L, parts[i]);
  }
  lua_pop(L, 1);
  if (row->kind == MW_METATABLE)
    mwb_push_class(L, OBJECT);
  else if (row->kind == MW_CALL)
    lua_pushnil(L);
  else
    mwb_push_current(L, w->s);
  lua_replace(L, VALUE);
  if (row->kind <= MW_DELETE)
    w->change.kind = lua_isnil(L, VALUE) ? MW_DELETE
                     : lua_isnil(L, OLD) ? MW_INSERT
                                         : MW_UPDATE;
  mwb_write_compare(w);
}

/* Does a watch that may hear of the object compare values? */
static int is_compared(const mwb_state *s, const mwi_object *r) {
  if (r == NULL) return 0;
  return (r->needs & MWI_SKIPS) ||
         (s->engine->watch.deep_skips > 0 && r->nodes != 0);
}

/* Sets what the search for watches reads: whether values are the same, and the
** keys as the engine knows them now. */
static void prepare_rows(mwb_write *w, const mwb_batch *b) {
  uint32_t n;
  for (n = 0; n < b->n; n++) {
    mw_batch_row *row = &b->rows[n];
    int compared = is_compared(w->s, mwb_object_of(w->s, row->obj));
    if (row->key.type != MW_TOTHER && !compared) continue;
    load_row(w, b, n);
    row->key = mwb_key(w->L, w->s, KEY);
    row->same = w->change.same;
  }
}

/* Returns the calls, and their number in `*n`; `few` has room for FEW. */
#define FEW 16

static const mw_batch_call *find_calls(lua_State *L, mwb_state *s,
                                       const mwb_batch *b, mw_batch_call *few,
                                       uint32_t *n) {
  mw_batch_call *calls = few;
  uint32_t size = FEW;
  for (;;) {
    *n = mw_batch_calls(s->engine, b->rows, b->n, calls, size);
    if (*n <= size) return calls;
    size = *n;
    calls = (mw_batch_call *)lua_newuserdatauv(L, size * sizeof(*calls), 0);
    set_user(L, s, b, CALLS);
  }
}

static void tell(mwb_write *w, const mwb_batch *b, const mw_batch_call *call) {
  mw_engine *e = w->s->engine;
  mw_watch_options its;
  mw_handle obj;
  int alive;
  if (mw_watch_info(e, call->watch, &its, &obj) != MW_OK) return;
  alive = mwb_alive(w->L, w->s, obj);
  lua_pop(w->L, 1);
  if (!alive) return;
  load_row(w, b, call->row);
  mw_batch_tell(e, call->watch, &w->change);
}

/* deliver(batch): calls the guards.  A guard may do anything but end the batch,
** which has ended. */
static int deliver(lua_State *L) {
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  mwb_state *s = b->state;
  uint64_t told = s->engine->watch.calls;
  mw_batch_call few[FEW];
  const mw_batch_call *calls;
  uint32_t n, i;
  mwb_write w;
  if (!push_batch(L, s, b)) { /* has the collector found the batch dead? */
    lua_settop(L, 1);
    give_number(L, s, b);
  }
  lua_settop(L, 0);
  lua_settop(L, OLD);
  mwb_write_open(L, s, &w, MW_NONE, MW_TOUCH, MWB_GIVEN);
  prepare_rows(&w, b);
  calls = find_calls(L, s, b, few, &n);
  for (i = 0; i < n; i++) tell(&w, b, &calls[i]);
  if (mwb_tracing(s)) mwb_trace_batch(L, s, s->engine->watch.calls - told);
  if (!w.failed) return 0;
  lua_settop(L, FAILURE);
  return lua_error(L);
}

/* The batches inside a batch that ends before them get its outer batch. */
static void hand_inner(const mwb_state *s, mwb_batch *b) {
  const mwb_coroutine *t = s->journal->coroutines;
  mwb_batch *its;
  for (; t != NULL && b->inner > 0; t = t->next)
    for (its = t->batch; its != NULL; its = its->before) {
      if (its->outer != b) continue;
      its->outer = b->outer;
      b->inner--;
      if (b->outer != NULL) b->outer->inner++;
    }
}

/* Takes a batch from its coroutine, and from between its outer batch and its
** inner ones. */
static void close_batch(lua_State *L, mwb_state *s, mwb_batch *b) {
  mwb_coroutine *t = b->of;
  mwb_batch **at = &t->batch;
  while (*at != b) at = &(*at)->before;
  *at = b->before;
  t->batched = (t->batch == NULL) ? 0 : t->batch->order;
  if (b->outer != NULL) b->outer->inner--;
  hand_inner(s, b);
  b->open = 0;
  b->of = NULL;
  s->watch->batches--;
  s->watch->batch_turns++;
  mwb_unlink_coroutine(L, s, t);
  mwb_need(s, MWB_BATCHES, s->watch->batches > 0);
}

/* Lets go of all rows. */
static void drop_rows(lua_State *L, mwb_batch *b, int index) {
  lua_Integer i;
  if (b->size > LARGE) {
    for (i = VALUES; i <= N_USER; i++) {
      lua_pushnil(L);
      lua_setiuservalue(L, index, (int)i);
    }
    b->size = 0;
    memset(&b->table, 0, sizeof(b->table));
  } else if (b->n > 0) {
    lua_getiuservalue(L, index, VALUES);
    for (i = (lua_Integer)b->n * PARTS; i > 0; i--) {
      lua_pushnil(L);
      lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
    mwi_table_empty(&b->table);
  }
  b->n = 0;
}

/* Ends the batch at `index`.  Returns a status; with an error, that is on the
** top. */
static int end_batch(lua_State *L, int index) {
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, index);
  int status = LUA_OK;
  if (!b->open || b->state->engine == NULL) return status;
  index = lua_absindex(L, index);
  close_batch(L, b->state, b);
  if (b->n > 0) {
    lua_pushcfunction(L, deliver);
    lua_pushvalue(L, index);
    status = lua_pcall(L, 1, 0, 0);
  }
  drop_rows(L, b, index);
  return status;
}

/* }====================================================== */

/* {======================================================
** mw.batch
** ======================================================= */

/* Pushes a batch that is not open: a spare one, or a new one. */
static mwb_batch *push_spare(lua_State *L, mwb_state *s) {
  mwb_batch *b;
  mwb_push(L, s, MWB_SPARES);
  if (lua_isuserdata(L, -1)) {
    lua_getiuservalue(L, -1, OWNER);
    mwb_keep(L, s, MWB_SPARES);
    return (mwb_batch *)lua_touserdata(L, -1);
  }
  lua_pop(L, 1);
  b = (mwb_batch *)lua_newuserdatauv(L, sizeof(*b), N_USER);
  memset(b, 0, sizeof(*b));
  b->state = s;
  mwb_push(L, s, MWB_BATCH);
  lua_setmetatable(L, -2);
  give_number(L, s, b);
  return b;
}

/* Makes the batch at `index`, which nobody else knows, a spare one.  OWNER of a
** spare batch is the next spare batch. */
static void add_spare(lua_State *L, mwb_state *s, int index) {
  mwb_push(L, s, MWB_SPARES);
  lua_setiuservalue(L, index, OWNER);
  lua_pushvalue(L, index);
  mwb_keep(L, s, MWB_SPARES);
}

/* Pushes a batch that belongs to the running coroutine. */
static void begin_batch(lua_State *L, mwb_state *s) {
  mwb_batch *b = push_spare(L, s);
  mwb_coroutine *t = mwb_need_coroutine(L, s);
  lua_pushthread(L);
  lua_setiuservalue(L, -2, OWNER);
  b->outer = owner_of(L, s);
  if (b->outer != NULL) b->outer->inner++;
  mwb_link_coroutine(s, t);
  b->of = t;
  b->order = t->batched = ++s->journal->orders;
  b->before = t->batch;
  t->batch = b;
  s->watch->batches++;
  b->open = 1;
  s->watch->batch_turns++;
  mwb_need(s, MWB_BATCHES, 1);
}

static int close_method(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_check_self(L, s, "close", MWB_BATCH, "batch");
  lua_settop(L, 1);
  if (mwb_put_off(L, s)) return 0;
  mwb_enter(L);
  if (end_batch(L, 1) != LUA_OK) return lua_error(L);
  return 0;
}

/* The next call ends the batch; OWNER of a lost batch is the next lost one. */
static int collected(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  if (!b->open || s->engine == NULL) return 0;
  mwb_push(L, s, MWB_LOSTBATCHES);
  lua_setiuservalue(L, 1, OWNER);
  lua_settop(L, 1);
  mwb_keep(L, s, MWB_LOSTBATCHES);
  mwb_wait(s);
  return 0;
}

void mwb_end_lost_batches(lua_State *L, mwb_state *s) {
  int batch = lua_gettop(L) + 1;
  for (;;) {
    mwb_push(L, s, MWB_LOSTBATCHES);
    if (!lua_isuserdata(L, batch)) break;
    lua_getiuservalue(L, batch, OWNER);
    mwb_keep(L, s, MWB_LOSTBATCHES);
    if (end_batch(L, batch) != LUA_OK) mwb_late_error(L, s, "guard");
    lua_settop(L, batch - 1);
  }
  lua_settop(L, batch - 1);
}

/* __close(batch, error): that error goes on, not the error of a guard. */
static int close_meta(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int failed = !lua_isnoneornil(L, 2);
  lua_settop(L, 1);
  if (mwb_put_off(L, s)) return 0;
  return (end_batch(L, 1) == LUA_OK || failed) ? 0 : lua_error(L);
}

/* Ends the call of `batch`, with the batch at 1: the function's error goes on,
** not the error of a guard. */
static int end_call(lua_State *L, int status, lua_KContext context) {
  int failed = status != LUA_OK && status != LUA_YIELD, ended;
  (void)context;
  ended = end_batch(L, 1);
  add_spare(L, mwb_state_of(L), 1);
  if (failed) {
    lua_settop(L, 2);
    return lua_error(L);
  }
  if (ended != LUA_OK) return lua_error(L);
  return lua_gettop(L) - 1;
}

/* A coroutine that can yield can be closed while the function waits; then Lua
** closes the batch. */
static int batch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int args = lua_gettop(L) - 1;
  if (args < 0) {
    begin_batch(L, s);
    return 1;
  }
  if (!lua_isfunction(L, 1))
    return mwb_bad_argument(L, "batch", 1, 1, "function");
  begin_batch(L, s);
  lua_insert(L, 1);
  if (lua_isyieldable(L)) lua_toclose(L, 1);
  return end_call(L, lua_pcallk(L, args, LUA_MULTRET, 0, 0, end_call), 0);
}

void mwb_open_batch(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {{"batch", batch}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_meta}, {"__gc", collected}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", close_method}, {NULL, NULL}};
  lua_newtable(L);
  lua_newtable(L);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  mwb_keep(L, s, MWB_OPENED);
  mwb_new_meta(L, MWB_BATCH, "batch", meta, methods);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
