/*
** batch.c - writes whose guards are called later, once each.
** SPDX-License-Identifier: MIT
**
**     mwb_coroutine --> batch --> the coroutine's batch that began before
**                         |
**                         +--> values: object, key, old value of each row;
**                              under 0 the memory of the rows
**
** A batch is a userdata, and belongs to the coroutine that began the batch.  A
** write belongs to a batch as it does to a transaction: see coroutine.c.  The
** batch that would own a write when another begins is the outer batch of the
** other.  Only outermost batches have rows.
**
** A field that is written has a row, whether a watch waits or not: a watch that
** begins within the batch is told the value from before the batch.  Rows, which
** count from 1, are found by a table.  The registry has the values, so they are
** there also when the collector has found the batch lost.
*/
#include "../base/base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "watch.h"

/* The memory of a batch with more rows is not used again. */
#define LARGE 256u

/* The only user value of a batch that is lost: the next lost one. */
#define NEXT 1

typedef struct mwb_batch {
  mwb_begun begun;
  mwb_state *state;
  mwb_coroutine *of;       /* NULL: the batch is not open */
  struct mwb_batch *outer; /* open; NULL: this batch is the outermost */
  mwi_batch_row *rows;
  mwi_table table; /* of the rows, in memory behind them */
  uint32_t n, size;
  uint64_t writes; /* that were noted */
  int values;      /* in the registry; 0: there are none */
  int lost;        /* has the collector found the batch? */
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
    return key;
  key.type = MW_TOTHER;
  key.u.i = mwb_hash_key(w->L, w->s, KEY);
  return key;
}

static void enter_row(const mwb_state *s, mwb_batch *b, uint32_t n) {
  const mwi_batch_row *row = &b->rows[n - 1];
  mwi_table_put(s->engine, &b->table,
                mwi_key_hash(mw_slot(row->obj), &row->key), n);
}

/* Makes room for one more row. */
static void need_row(lua_State *L, const mwb_state *s, mwb_batch *b) {
  uint32_t size = (b->size == 0) ? 4 : (b->size < LARGE ? 4 : 2) * b->size, i;
  mwi_batch_row *rows;
  if (b->n < b->size) return;
  rows = (mwi_batch_row *)lua_newuserdatauv(
      L, size * sizeof(*rows) + mwi_table_room(size), 0);
  if (b->values == 0) {
    lua_newtable(L);
    b->values = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  push_values(L, b);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 0);
  lua_pop(L, 1);
  if (b->n > 0) memcpy(rows, b->rows, b->n * sizeof(*rows));
  b->rows = rows;
  b->size = size;
  mwi_table_lend(&b->table, rows + size, size);
  for (i = 1; i <= b->n; i++) enter_row(s, b, i);
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
    const mwi_batch_row *row = &b->rows[n - 1];
    if (row->obj != w->obj || !mw_value_equal(&row->key, key)) continue;
    if (key->type != MW_TOTHER) break;
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
  mwi_batch_row *row;
  int i;
  need_row(L, w->s, b);
  push_values(L, b);
  for (i = 0; i < PARTS; i++) {
    lua_pushvalue(L, parts[i]);
    lua_rawseti(L, -2, place_of(b->n + 1) + i);
  }
  lua_pop(L, 1);
  row = &b->rows[b->n];
  memset(row, 0, sizeof(*row));
  row->obj = w->obj;
  row->key = *key;
  enter_row(w->s, b, ++b->n);
  return b->n;
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
  if (n == 0 && !w->has_old) {
    mwb_read_old(w);
    mwb_write_compare(w);
    return w->r != NULL && mwb_note_write(w);
  }
  if (n == 0) n = add_row(w, b, &key);
  row = &b->rows[n - 1];
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
  const mwi_batch_row *row = &b->rows[n];
  int i;
  w->obj = row->obj;
  w->change.kind = row->kind;
  w->change.number = row->number;
  w->change.node = 0;
  push_values(L, b);
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
  w->plain = row->kind <= MW_DELETE;
  mwb_set_kind_of(w);
}

/* Sets what the search for watches reads: whether values are the same, and the
** keys as the engine knows them now. */
static void prepare_rows(mwb_write *w, const mwb_batch *b) {
  uint32_t n;
  for (n = 0; n < b->n; n++) {
    mwi_batch_row *row = &b->rows[n];
    const mwi_object *r = mwb_object_of(w->s, row->obj);
    if (row->key.type == MW_TOTHER) {
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

/* Finds the calls, which are in `few` if there are no more than FEW. */
#define FEW 16

static const mwi_batch_call *find_calls(lua_State *L, const mwb_batch *b,
                                        mwi_batch_call *few, uint32_t *n) {
  mw_engine *e = b->state->engine;
  mwi_batch_call *calls = few;
  *n = mwi_batch_calls(e, b->rows, b->n, few, FEW);
  if (*n > FEW) {
    push_values(L, b);
    calls = (mwi_batch_call *)lua_newuserdatauv(L, *n * sizeof(*calls), 0);
    lua_rawseti(L, -2, -1);
    lua_pop(L, 1);
    *n = mwi_batch_calls(e, b->rows, b->n, calls, *n);
  }
  return calls;
}

/* deliver(batch): calls the guards.  A guard may do anything but end the batch,
** which has ended. */
static int deliver(lua_State *L) {
  const mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  mwb_state *s = b->state;
  uint64_t told = s->engine->watch.calls;
  mwi_batch_call few[FEW];
  const mwi_batch_call *calls;
  uint32_t n, i;
  mwb_write w;
  lua_settop(L, 0);
  lua_settop(L, OLD);
  mwb_write_open(L, s, &w, MW_NONE, MW_TOUCH, MWB_GIVEN);
  prepare_rows(&w, b);
  calls = find_calls(L, b, few, &n);
  for (i = 0; i < n; i++) {
    load_row(&w, b, calls[i].row);
    mwi_batch_tell(s->engine, calls[i].watch, &w.change);
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

/* Gives the memory of the rows back. */
static void free_rows(lua_State *L, mwb_batch *b) {
  if (b->values != 0) luaL_unref(L, LUA_REGISTRYINDEX, b->values);
  b->values = 0;
  b->size = 0;
  memset(&b->table, 0, sizeof(b->table));
}

/* Lets go of all rows. */
static void drop_rows(lua_State *L, mwb_batch *b) {
  lua_Integer i = (lua_Integer)b->n * PARTS;
  b->n = 0;
  if (b->size > LARGE) {
    free_rows(L, b);
  } else if (i > 0) {
    push_values(L, b);
    for (; i > 0; i--) {
      lua_pushnil(L);
      lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
    mwi_table_empty(&b->table);
  }
}

/* Ends a batch that is on the stack.  Returns a status; with an error, that is
** on the top. */
static int end_batch(lua_State *L, mwb_batch *b) {
  int status = LUA_OK;
  if (b->of == NULL || b->state->engine == NULL) return status;
  close_batch(L, b->state, b);
  if (b->n > 0) {
    lua_pushcfunction(L, deliver);
    lua_pushlightuserdata(L, b);
    status = lua_pcall(L, 1, 0, 0);
  }
  drop_rows(L, b);
  if (b->lost) free_rows(L, b);
  return status;
}

/* }====================================================== */

/* {======================================================
** mw.batch
** ======================================================= */

/* Pushes a batch that is not open: the spare one, or a new one. */
static mwb_batch *push_spare(lua_State *L, mwb_state *s) {
  mwb_batch *b;
  mwb_push(L, s, MWB_SPARE);
  if (lua_isuserdata(L, -1)) {
    lua_pushnil(L);
    mwb_keep(L, s, MWB_SPARE);
    return (mwb_batch *)lua_touserdata(L, -1);
  }
  lua_pop(L, 1);
  b = (mwb_batch *)lua_newuserdatauv(L, sizeof(*b), NEXT);
  memset(b, 0, sizeof(*b));
  b->state = s;
  mwb_push(L, s, MWB_BATCH);
  lua_setmetatable(L, -2);
  return b;
}

/* Pushes a batch that belongs to the running coroutine. */
static void begin_batch(lua_State *L, mwb_state *s) {
  mwb_batch *b = push_spare(L, s);
  mwb_coroutine *t = mwb_need_coroutine(L, s);
  b->outer = owner_of(L, s);
  b->of = t;
  mwb_begin(s, t, MWB_BY_BATCH, &b->begun);
  s->watch->batches++;
  mwb_need(s, MWB_BATCHES, 1);
}

/* close(batch); __close(batch, error): that error goes on, not the error of a
** guard. */
static int close_method(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int failed = !lua_isnoneornil(L, 2);
  mwb_batch *b = (mwb_batch *)mwb_check_self(L, s, "close", MWB_BATCH, "batch");
  lua_settop(L, 1);
  if (mwb_put_off(L, s)) return 0;
  return (end_batch(L, b) == LUA_OK || failed) ? 0 : lua_error(L);
}

/* A batch that is lost is ended by the next call, unless the program's own
** finaliser has kept the batch and ends it; one that has ended has its memory
** given back. */
static int collected(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  if (s->engine == NULL) return 0;
  b->lost = 1;
  if (b->of == NULL) {
    if (b->n == 0) free_rows(L, b); /* else its guards are being called */
    return 0;
  }
  mwb_push(L, s, MWB_LOSTBATCHES);
  lua_setiuservalue(L, 1, NEXT);
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
    lua_getiuservalue(L, batch, NEXT);
    mwb_keep(L, s, MWB_LOSTBATCHES);
    if (end_batch(L, (mwb_batch *)lua_touserdata(L, batch)) != LUA_OK)
      mwb_late_error(L, s, "guard");
    lua_settop(L, batch - 1);
  }
  lua_settop(L, batch - 1);
}

/* Ends the call of `batch`, with the batch, which nobody else knows, at 1: the
** function's error goes on, not the error of a guard. */
static int end_call(lua_State *L, int status, lua_KContext context) {
  int failed = status != LUA_OK && status != LUA_YIELD, ended;
  mwb_batch *b = (mwb_batch *)lua_touserdata(L, 1);
  (void)context;
  ended = end_batch(L, b);
  if (!b->lost) {
    lua_pushvalue(L, 1);
    mwb_keep(L, mwb_state_of(L), MWB_SPARE);
  }
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
  static const luaL_Reg functions[] = {{"batch", batch}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_method}, {"__gc", collected}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", close_method}, {NULL, NULL}};
  mwb_new_meta(L, MWB_BATCH, "batch", meta, methods);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
