/*
** batch.c - writes whose guards are called later, once each.
** SPDX-License-Identifier: MIT
**
** A field that is written in a batch has a row, whether a watch waits or not: a
** watch that begins within the batch is told the value from before the batch.
** The array MWB_BATCH has the object, the key and the value from before the
** batch for each row.  Rows are found by a hash, whose heads stand in the rows.
** A batch that begins while another one ends has rows of its own, behind those
** of the other.  Rows and array stay for the next batch, unless they are large.
*/
#include "identity.h"
#include "shadow.h"
#include "trace.h"
#include "trap.h"

#define LARGE 256u
#define PARTS 3

/* What the array has for a row. */
static const int parts[PARTS] = {OBJECT, KEY, OLD};

/* Where the array has the first part of a row; rows are counted from 1. */
static lua_Integer place_of(uint64_t n) {
  return (lua_Integer)n * PARTS - PARTS + 1;
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

static uint32_t *head_of(const mwb_state *s, mw_handle obj,
                         const mw_value *key) {
  uint32_t hash = mwi_key_hash(mw_slot(obj), key);
  return &s->rows[hash & (s->size_rows - 1)].head;
}

static void link_row(mwb_state *s, uint32_t n) {
  mwb_row *row = &s->rows[n - 1];
  uint32_t *head = head_of(s, row->obj, &row->key);
  row->next = *head;
  *head = n;
}

/* Makes room for one more row, or raises. */
static void need_row(lua_State *L, mwb_state *s) {
  uint32_t size = s->size_rows, i;
  mwb_row *rows = (mwb_row *)mwi_grow(s->engine, s->rows, s->n_rows,
                                      &s->size_rows, sizeof(mwb_row));
  if (rows == NULL) mwb_check(L, MW_NOMEM);
  s->rows = rows;
  if (s->size_rows == size) return;
  for (i = 0; i < s->size_rows; i++) rows[i].head = 0;
  for (i = s->first_row + 1; i <= s->n_rows; i++) link_row(s, i);
}

/* The row of the field, or 0. */
static uint32_t find_row(const mwb_write *w, const mw_value *key) {
  const mwb_state *s = w->s;
  uint32_t n = *head_of(s, w->obj, key);
  int found = 0;
  for (; n != 0; n = s->rows[n - 1].next) {
    const mwb_row *row = &s->rows[n - 1];
    if (row->obj != w->obj || !mw_value_equal(&row->key, key)) continue;
    if (key->type != MW_TOTHER) break;
    mwb_push(w->L, s, MWB_BATCH);
    lua_rawgeti(w->L, -1, place_of(n) + 1);
    found = lua_rawequal(w->L, -1, KEY);
    lua_pop(w->L, 2);
    if (found) break;
  }
  return n;
}

/* Adds a row, which is not found before it is complete. */
static uint32_t add_row(mwb_write *w, const mw_value *key) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  uint32_t n;
  int i;
  mwb_read_old(w);
  need_row(L, s);
  n = ++s->n_rows;
  s->rows[n - 1].obj = MW_NONE;
  s->rows[n - 1].key = *key;
  mwb_push(L, s, MWB_BATCH);
  for (i = 0; i < PARTS; i++) {
    lua_pushvalue(L, parts[i]);
    lua_rawseti(L, -2, place_of(n) + i);
  }
  lua_pop(L, 1);
  s->rows[n - 1].obj = w->obj;
  link_row(s, n);
  return n;
}

/* The old value is that of the first write to the field. */
uint64_t mwb_note_write(mwb_write *w) {
  mw_value key = key_of(w);
  uint32_t n = find_row(w, &key);
  if (n == 0) n = add_row(w, &key);
  w->s->rows[n - 1].kind = w->change.kind;
  return n;
}

int mwb_settle(void *ud, mw_handle obj, mw_change *change) {
  mwb_state *s = (mwb_state *)ud;
  mwb_write *w = (mwb_write *)change->host;
  lua_State *L = w->L;
  int alive = mwb_alive(L, s, obj), i;
  lua_pop(L, 1);
  if (!alive || change->note - 1 >= s->n_rows) return 0;
  w->obj = s->rows[change->note - 1].obj;
  w->change.kind = s->rows[change->note - 1].kind;
  mwb_push(L, s, MWB_BATCH);
  for (i = 0; i < PARTS; i++) {
    lua_rawgeti(L, -1, place_of(change->note) + i);
    lua_replace(L, parts[i]);
  }
  lua_pop(L, 1);
  if (w->change.kind == MW_METATABLE)
    mwb_push_class(L, OBJECT);
  else if (w->change.kind == MW_CALL)
    lua_pushnil(L);
  else
    mwb_push_current(L, s);
  lua_replace(L, VALUE);
  if (w->change.kind <= MW_DELETE)
    w->change.kind = lua_isnil(L, VALUE) ? MW_DELETE
                     : lua_isnil(L, OLD) ? MW_INSERT
                                         : MW_UPDATE;
  mwb_write_compare(w);
  change->kind = w->change.kind;
  change->same = w->change.same;
  return 1;
}

/* deliver(state): the outermost batch ends. */
static int deliver(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  uint64_t calls = s->engine->watch.calls;
  mwb_write w;
  lua_settop(L, OLD);
  mwb_write_open(L, s, &w, MW_NONE, MW_TOUCH, MWB_GIVEN);
  mwb_need(s, MWB_BATCHES, 0);
  mw_batch_end(s->engine, &w);
  if (mwb_tracing(s))
    mwb_trace_heard(L, s, MW_NONE, 0, s->engine->watch.calls - calls);
  if (!w.failed) return 0;
  lua_settop(L, FAILURE);
  return lua_error(L);
}

/* Lets go of all rows. */
static void drop_rows(lua_State *L, mwb_state *s) {
  lua_Integer i;
  if (s->size_rows > LARGE) {
    mwi_free(s->engine, s->rows, s->size_rows * sizeof(mwb_row));
    s->rows = NULL;
    s->size_rows = 0;
    lua_pushnil(L);
    mwb_keep(L, s, MWB_BATCH);
  } else if (s->n_rows > 0) {
    mwb_push(L, s, MWB_BATCH);
    for (i = (lua_Integer)s->n_rows * PARTS; i > 0; i--) {
      lua_pushnil(L);
      lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
  }
  s->n_rows = s->first_row = 0;
}

/* Ends the innermost batch, with `deliver` and its argument on the top.
** Returns a status; with an error, that is on the top. */
static int end_batch(lua_State *L, mwb_state *s) {
  uint32_t batches = mw_batch_depth(s->engine);
  int status = LUA_OK;
  for (; batches == 1 && s->first_row < s->n_rows; s->first_row++) {
    const mwb_row *row = &s->rows[s->first_row];
    *head_of(s, row->obj, &row->key) = 0; /* a later batch is not to find it */
  }
  if (batches > 1 || s->engine->watch.first_queued == 0)
    lua_pop(L, 2);
  else
    status = lua_pcall(L, 1, 0, 0);
  if (mw_batch_depth(s->engine) == batches) mw_batch_drop(s->engine);
  mwb_need(s, MWB_BATCHES, mw_batch_depth(s->engine) > 0);
  if (batches == 1) drop_rows(L, s);
  return status;
}

/* The function's error goes on, not that of a guard at the end. */
static int batch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int status;
  if (!lua_isfunction(L, 1))
    return mwb_bad_argument(L, "batch", 1, 1, "function");
  if (s->rows == NULL) {
    lua_newtable(L);
    mwb_keep(L, s, MWB_BATCH);
    need_row(L, s);
  }
  lua_pushcfunction(L, deliver);
  lua_pushlightuserdata(L, s);
  lua_rotate(L, 1, 2);
  mw_batch_begin(s->engine);
  mwb_need(s, MWB_BATCHES, 1);
  status = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0);
  lua_rotate(L, 1, -2);
  if (status == LUA_OK) {
    if (end_batch(L, s) != LUA_OK) return lua_error(L);
    return lua_gettop(L);
  }
  end_batch(L, s);
  lua_settop(L, 1);
  return lua_error(L);
}

void mwb_open_batch(lua_State *L) {
  static const luaL_Reg functions[] = {{"batch", batch}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
