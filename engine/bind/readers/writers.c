/*
** writers.c - who wrote a field last, when the entry is forgotten.
** SPDX-License-Identifier: MIT
**
**     table: hash of (object, key) --> number of the writer
**     pool: | writer 1 | writer 2 | ...
**     MWB_WRITERS: TABLES, with context, old value, new value and place, each
**     by the number of its writer
**
** There are so many tables because the collector goes through a table in one
** step.
**
** While there are recorders, each page that goes leaves the last writer of each
** field that is there.  A writer keeps no object alive: in the place of one it
** has a handle, and an object without a handle is no key of a writer.  Writers
** of dead objects and keys go before the pool grows.
*/
#include "readers.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../watch/watch.h"

#define TABLES 256

/* What a writer has in a table. */
enum { ITS_CONTEXT, ITS_OLD, ITS_NEW, ITS_WHERE, VALUES };

typedef struct writer {
  uint32_t next;     /* of a free one: the next free one */
  uint32_t cause;    /* of the entry */
  mw_handle obj;     /* MW_NONE: free */
  mw_value key;      /* as key.c knows it: a string is kept */
  mw_handle held[2]; /* the old and the new value, if they are objects */
  uint64_t seq;
  uint8_t kind;
} writer;

struct mwb_writers {
  mwi_pool pool;
  uint32_t most;     /* when the pool has so many, it may have dead ones */
  uint32_t changing; /* the writer whose values are being set, or 0 */
  mwi_table table;
};

static writer *writer_at(const mwb_writers *w, uint32_t n) {
  return (writer *)mwi_pool_at(&w->pool, n, sizeof(writer));
}

/* Keys that are equal have the same bits. */
static uint32_t find(const mwb_writers *w, mw_handle obj, const mw_value *key) {
  mwi_search at;
  uint32_t hash = mwi_key_hash(mw_slot(obj), key), n;
  for (n = mwi_table_first(&w->table, hash, &at); n != 0;
       n = mwi_table_next(&w->table, &at)) {
    const writer *its = writer_at(w, n);
    if (its->obj == obj && its->key.type == key->type &&
        its->key.u.i == key->u.i)
      break;
  }
  return n;
}

/* {======================================================
** Keeping
** ======================================================= */

/* Pushes the table of a writer, and returns where in it the writer's values
** begin.  `tables` is the index of MWB_WRITERS. */
static lua_Integer push_table(lua_State *L, int tables, uint32_t n) {
  lua_rawgeti(L, tables, (lua_Integer)(n % TABLES) + 1);
  return VALUES * (lua_Integer)(n / TABLES) + 1;
}

/* Sets the values of a writer to those of an entry, whose page is at `page`;
** without an entry, to nil, which needs no memory. */
static void set_values(lua_State *L, mwb_state *s, int tables, uint32_t n,
                       int page, const mw_entry *entry) {
  static const int parts[] = {0, MW_OLD, MW_NOW};
  mw_handle *held = writer_at(s->readers->writers, n)->held;
  int i, top = lua_gettop(L);
  lua_Integer at = push_table(L, tables, n);
  for (i = 0; i < VALUES; i++) {
    if (entry == NULL) /* is the writer dropped? */
      lua_pushnil(L);
    else if (i == ITS_CONTEXT || i == ITS_WHERE)
      mwb_push_value(L, page, (i == ITS_WHERE) ? entry->where : entry->context);
    else
      mwb_unpack(L, page, entry, parts[i]);
    if (i == ITS_OLD || i == ITS_NEW) { /* may it be an object? */
      int is_object = mwb_address(L, top + 2) != NULL;
      held[i - ITS_OLD] = is_object ? mwb_handle_of(L, s, top + 2) : MW_NONE;
      if (is_object) lua_pushnil(L); /* a writer keeps none alive */
      if (is_object) lua_replace(L, top + 2);
    }
    lua_rawseti(L, top + 1, at + i);
  }
  lua_settop(L, top);
}

static void drop(lua_State *L, mwb_state *s, uint32_t n, int tables) {
  mwb_writers *w = s->readers->writers;
  writer *its = writer_at(w, n);
  mwi_table_take(&w->table, mwi_key_hash(mw_slot(its->obj), &its->key), n);
  mwb_release(s, &its->key);
  its->obj = MW_NONE;
  set_values(L, s, tables, n, 0, NULL);
  mwi_pool_give(&w->pool, n, sizeof(writer));
}

static void drop_dead(lua_State *L, mwb_state *s, int tables) {
  const mwb_writers *w = s->readers->writers;
  const mwi_identity *all = &s->engine->identity;
  uint32_t n;
  for (n = 1; n <= w->pool.n; n++) {
    const writer *its = writer_at(w, n);
    if (its->obj != MW_NONE &&
        (!mwi_identity_is_valid(all, its->obj) ||
         (its->key.type == MW_TOBJECT &&
          !mwi_identity_is_valid(all, (mw_handle)its->key.u.i))))
      drop(L, s, n, tables); /* its object or its key has died */
  }
}

/* Returns the number of a new writer of a field, whose key is at `key`; or 0
** without memory. */
static uint32_t new_writer(lua_State *L, mwb_state *s, mw_handle obj, int key,
                           int tables) {
  mwb_writers *w = s->readers->writers;
  mw_value its_key;
  uint32_t n;
  writer *its;
  if (w->pool.free == 0 && w->pool.n >= w->most) { /* may some be dead? */
    drop_dead(L, s, tables);
    w->most = 2 * w->pool.n + MWI_PAGE;
  }
  its_key = mwb_key_to_keep(L, s, key); /* the last that raises */
  if (!mwi_table_reserve(s->engine, &w->table, 1)) return 0; /* no memory? */
  n = mwi_pool_take(s->engine, &w->pool, sizeof(writer));
  if (n == 0) return 0;
  its = writer_at(w, n);
  its->obj = obj;
  its->key = its_key;
  mwb_retain(s, &its_key);
  mwi_table_put(s->engine, &w->table, mwi_key_hash(mw_slot(obj), &its_key), n);
  return n;
}

static void keep_writer(lua_State *L, mwb_state *s, const mw_entry *entry,
                        int page, int tables) {
  mwb_writers *w = s->readers->writers;
  int top = lua_gettop(L);
  writer *its;
  mw_value key;
  uint32_t n;
  mwb_unpack(L, page, entry, MW_KEY);
  key = mwb_key(L, s, top + 1);
  n = find(w, entry->obj, &key);
  if (entry->type[MW_NOW] == MW_TABSENT) { /* is the field gone? */
    if (n != 0) drop(L, s, n, tables);
    return;
  }
  if (key.type == MW_TNIL || (key.type == MW_TOBJECT && key.u.i == 0)) return;
  if (n == 0) n = new_writer(L, s, entry->obj, top + 1, tables); /* first? */
  if (n == 0) return; /* no memory? */
  its = writer_at(w, n);
  its->seq = entry->seq;
  its->cause = entry->cause;
  its->kind = entry->kind;
  w->changing = n;
  set_values(L, s, tables, n, page, entry);
  w->changing = 0;
}

static int is_same_field(const mw_entry *a, const mw_entry *b) {
  return a->obj == b->obj && mwi_is_of_field(b->kind) &&
         a->type[MW_KEY] == b->type[MW_KEY] &&
         a->value[MW_KEY].i == b->value[MW_KEY].i;
}

/* keep_page(state, seq, MWB_WRITERS): the page with the entry before `seq`
** goes */
static int keep_page(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  uint64_t end = (uint64_t)lua_tointeger(L, 2);
  uint64_t at = (end - 1) / MWI_READER_PAGE * MWI_READER_PAGE;
  mw_entry entry, next;
  mwb_push_page(L, s, end - 1);
  if (at < s->readers->kept_from) at = s->readers->kept_from; /* too early? */
  for (; at < end; at++) {
    mwi_reader_read(s->engine, at, &entry);
    if (at + 1 < end) mwi_reader_read(s->engine, at + 1, &next);
    if (at + 1 < end && is_same_field(&entry, &next)) continue; /* replaced? */
    if (entry.obj == MW_NONE || !mwi_is_of_field(entry.kind)) continue;
    keep_writer(L, s, &entry, 4, 3);
    lua_settop(L, 4);
  }
  return 0;
}

/* Without memory, the fields of the rest of the page have no new writers. */
void mwb_keep_page(lua_State *L, mwb_state *s, uint64_t seq) {
  mwb_writers *w = s->readers->writers;
  int tables = lua_gettop(L) + 1;
  if (s->readers->keepers == 0 || seq <= s->readers->kept_from) return;
  mwb_push(L, s, MWB_WRITERS);
  lua_pushcfunction(L, keep_page);
  lua_pushlightuserdata(L, s);
  lua_pushinteger(L, (lua_Integer)seq);
  lua_pushvalue(L, tables);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK && w->changing != 0) /* half set? */
    drop(L, s, w->changing, tables);
  w->changing = 0;
  lua_settop(L, tables - 1);
}

void mwb_add_keeper(lua_State *L, mwb_state *s) {
  int i;
  if (s->readers->keepers == 0) { /* the first one? */
    lua_createtable(L, TABLES, 0);
    for (i = 1; i <= TABLES; i++) {
      lua_newtable(L);
      lua_rawseti(L, -2, i);
    }
    s->readers->writers =
        (mwb_writers *)mwi_new(s->engine, sizeof(*s->readers->writers));
    if (s->readers->writers == NULL) mwb_check(L, MW_NOMEM);
    mwb_keep(L, s, MWB_WRITERS);
    s->readers->kept_from = s->engine->reader.last + 1;
  }
  s->readers->keepers++;
}

void mwb_free_writers(mwb_state *s) {
  mwb_writers *w = s->readers->writers;
  if (w == NULL) return; /* does nobody ask? */
  mwi_column_drop(s->engine, &w->pool.items, MWI_PAGE * sizeof(writer));
  mwi_table_drop(s->engine, &w->table);
  mwi_free(s->engine, w, sizeof(*w));
  s->readers->writers = NULL;
}

void mwb_remove_keeper(lua_State *L, mwb_state *s) {
  const mwb_writers *w = s->readers->writers;
  uint32_t n;
  if (--s->readers->keepers > 0) return; /* do others still ask? */
  for (n = 1; n <= w->pool.n; n++)
    if (writer_at(w, n)->obj != MW_NONE) mwb_release(s, &writer_at(w, n)->key);
  mwb_free_writers(s);
  lua_pushnil(L);
  mwb_keep(L, s, MWB_WRITERS);
}

/* }====================================================== */

/* The stack of `kept_writer`: its arguments, and where the values are. */
enum { OBJECT = 1, KEY, VALUE, WRITERS, TABLE };

/* Pushes the value at `at` of a writer; `h` is the object that it was, if any.
*/
static void push_held(lua_State *L, const mwb_state *s, mw_handle h,
                      lua_Integer at) {
  if (h != MW_NONE) /* an object, perhaps dead? */
    mwb_alive(L, s, h);
  else
    lua_rawgeti(L, TABLE, at);
}

/* kept_writer(object, key, value now or nil) -> what `look_entry` returns, of
** the last writer whose entry is forgotten, or nothing.  The library may not
** know the object that was written: it is the one that is there. */
static int kept_writer(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle obj = mwb_handle_of(L, s, OBJECT);
  mw_value key;
  uint32_t n;
  writer its;
  lua_Integer at;
  lua_settop(L, VALUE);
  if (s->readers->writers == NULL || obj == MW_NONE) return 0; /* none kept? */
  key = mwb_key(L, s, KEY);
  n = find(s->readers->writers, obj, &key);
  if (n == 0) return 0; /* is no writer kept? */
  its = *writer_at(s->readers->writers, n);
  mwb_push(L, s, MWB_WRITERS);
  at = push_table(L, WRITERS, n);
  lua_pushvalue(L, OBJECT);
  mwb_push_key(L, s, &its.key);
  push_held(L, s, its.held[0], at + ITS_OLD);
  push_held(L, s, its.held[1], at + ITS_NEW);
  if (lua_isnil(L, -1) && mwb_address(L, VALUE) != NULL) lua_copy(L, VALUE, -1);
  mwb_push_kind(L, s, its.kind);
  lua_pushinteger(L, (lua_Integer)its.seq);
  lua_rawgeti(L, TABLE, at + ITS_WHERE);
  lua_rawgeti(L, TABLE, at + ITS_CONTEXT);
  mwb_push_number(L, mw_delivery_of(s->engine, its.cause, its.seq));
  return 9;
}

const luaL_Reg mwb_writers_functions[] = {{"kept_writer", kept_writer},
                                          {NULL, NULL}};
