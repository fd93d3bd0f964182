/*
** writers.c - who wrote a field last, when the entry is forgotten.
** SPDX-License-Identifier: MIT
**
**     table: hash of (object, key) --> number of the writer
**     list: | writer 1 | writer 2 | ...
**     MWB_WRITERS: TABLES of contexts, each by the number of its writer
**
** There are so many tables because the collector goes through a table in one
** step.
**
** While there are recorders, each page that goes leaves the last writer of each
** field that is there.  A writer refers to no object, so that nothing stays
** alive: what it has are values as key.c knows them, where a string is kept and
** an object is a handle; an object without a handle is no key of a writer.
** Writers of dead objects and keys go before the array grows.
*/
#include "readers.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../watch/watch.h"

#define TABLES 256

/* What a writer has of the entry. */
enum { ITS_KEY, ITS_OLD, ITS_NEW, ITS_WHERE, VALUES };

typedef struct writer {
  mw_handle obj; /* MW_NONE: free */
  mw_content value[VALUES];
  uint64_t seq;
  uint32_t cause;
  uint32_t next; /* of a free one: the next free one */
  uint8_t type[VALUES], kind;
} writer;

/* Numbers of writers begin with 1. */
struct mwb_writers {
  writer *list;
  uint32_t n, size, free;
  mwi_table table;
};

static writer *writer_at(const mwb_writers *w, uint32_t n) {
  return &w->list[n - 1];
}

static mw_value value_at(const writer *its, int which) {
  mw_value v;
  v.type = its->type[which];
  v.u = its->value[which];
  return v;
}

static uint32_t hash_of(mw_handle obj, const mw_value *key) {
  return mwi_key_hash(mw_slot(obj), key);
}

/* Keys and strings that are equal have the same bits. */
static int is_same(const writer *its, int which, const mw_value *v) {
  return its->type[which] == v->type && its->value[which].i == v->u.i;
}

static uint32_t find(const mwb_writers *w, mw_handle obj, const mw_value *key) {
  mwi_search at;
  uint32_t n = mwi_table_first(&w->table, hash_of(obj, key), &at);
  while (n != 0 && (writer_at(w, n)->obj != obj ||
                    !is_same(writer_at(w, n), ITS_KEY, key)))
    n = mwi_table_next(&w->table, &at);
  return n;
}

/* {======================================================
** Keeping
** ======================================================= */

/* Sets the values of a writer.  Needs no memory.  A string that moves from one
** place to another is kept all the time. */
static void set_values(mwb_state *s, writer *its, const mw_value *v) {
  int i;
  for (i = 0; i < VALUES; i++)
    if (!is_same(its, i, &v[i])) mwb_retain(s, &v[i]);
  for (i = 0; i < VALUES; i++) {
    mw_value had = value_at(its, i);
    if (is_same(its, i, &v[i])) continue;
    mwb_release(s, &had);
    its->type[i] = (uint8_t)v[i].type;
    its->value[i] = v[i].u;
  }
}

static const mw_value nothing[VALUES] = {{MW_TNIL, {0}}};

/* Sets the context of a writer to a value that the page at `page` holds;
** `tables` is the index of MWB_WRITERS. */
static void set_context(lua_State *L, int tables, uint32_t n, int page,
                        uint32_t context) {
  lua_rawgeti(L, tables, (lua_Integer)(n % TABLES) + 1);
  mwb_push_value(L, page, context);
  lua_rawseti(L, -2, (lua_Integer)(n / TABLES) + 1);
  lua_pop(L, 1);
}

static void drop(lua_State *L, mwb_state *s, uint32_t n, int tables) {
  mwb_writers *w = s->readers->writers;
  writer *its = writer_at(w, n);
  mw_value key = value_at(its, ITS_KEY);
  mwi_table_take(&w->table, hash_of(its->obj, &key), n);
  set_values(s, its, nothing);
  its->obj = MW_NONE;
  its->next = w->free;
  w->free = n;
  set_context(L, tables, n, 0, 0);
}

static void drop_dead(lua_State *L, mwb_state *s, int tables) {
  const mwi_identity *all = &s->engine->identity;
  uint32_t n;
  for (n = 1; n <= s->readers->writers->n; n++) {
    const writer *its = writer_at(s->readers->writers, n);
    mw_value key = value_at(its, ITS_KEY);
    if (its->obj == MW_NONE) continue;
    if (!mwi_identity_is_valid(all, its->obj) ||
        (key.type == MW_TOBJECT &&
         !mwi_identity_is_valid(all, (mw_handle)key.u.i)))
      drop(L, s, n, tables);
  }
}

/* Returns a value of an entry, as key.c knows it; `page` is the index of what
** the entry holds.  A string can be kept, or is what the writer `had`; NULL: no
** string is kept. */
static mw_value value_of(lua_State *L, mwb_state *s, int page, int type,
                         mw_content content, const mw_value *had) {
  mw_value v;
  v.type = type;
  v.u = content;
  if (type != MW_TOTHER) return v;
  mwb_push_value(L, page, (uint32_t)content.i);
  v = mwb_key(L, s, lua_gettop(L));
  if (had != NULL && v.type == MW_TSTRING &&
      (had->type != MW_TSTRING || v.u.i != had->u.i))
    v = mwb_key_to_keep(L, s, -1);
  lua_pop(L, 1);
  return v;
}

/* Returns the number of a new writer, 0 without memory, and makes room for it
** in the table. */
static uint32_t new_writer(lua_State *L, mwb_state *s, int tables) {
  mwb_writers *w = s->readers->writers;
  writer *list;
  if (w->free == 0 && w->n == w->size) drop_dead(L, s, tables);
  if (!mwi_table_reserve(s->engine, &w->table, 1)) return 0;
  if (w->free != 0) return w->free;
  list = (writer *)mwi_grow(s->engine, w->list, w->n, &w->size, sizeof(*list));
  if (list == NULL) return 0;
  w->list = list;
  return w->n + 1;
}

/* The new writer gets its field. */
static void enter(mwb_state *s, uint32_t n, mw_handle obj,
                  const mw_value *key) {
  mwb_writers *w = s->readers->writers;
  writer *its = writer_at(w, n);
  if (n == w->free)
    w->free = its->next;
  else
    w->n++;
  memset(its, 0, sizeof(*its));
  its->obj = obj;
  mwi_table_put(s->engine, &w->table, hash_of(obj, key), n);
}

static void keep_writer(lua_State *L, mwb_state *s, const mw_entry *entry,
                        int page, int tables) {
  static const uint8_t parts[] = {MW_KEY, MW_OLD, MW_NOW};
  const mwb_writers *all = s->readers->writers;
  mw_content where;
  mw_value v[VALUES], key;
  uint32_t n;
  int i, is_new;
  writer *its;
  key = value_of(L, s, page, entry->type[MW_KEY], entry->value[MW_KEY], NULL);
  n = find(all, entry->obj, &key);
  is_new = n == 0;
  if (entry->type[MW_NOW] == MW_TABSENT) {
    if (!is_new) drop(L, s, n, tables);
    return;
  }
  if (key.type == MW_TNIL || (key.type == MW_TOBJECT && key.u.i == 0)) return;
  if (is_new) n = new_writer(L, s, tables);
  if (n == 0) return; /* no memory? */
  for (i = 0; i < VALUES; i++)
    v[i] = is_new ? nothing[i] : value_at(writer_at(all, n), i);
  for (i = is_new ? ITS_KEY : ITS_OLD; i < ITS_WHERE; i++)
    v[i] = value_of(L, s, page, entry->type[parts[i]], entry->value[parts[i]],
                    &v[i]);
  where.i = entry->where;
  v[ITS_WHERE] = value_of(L, s, page, (where.i == 0) ? MW_TNIL : MW_TOTHER,
                          where, &v[ITS_WHERE]);
  set_context(L, tables, n, page, entry->context); /* the last that raises */
  if (is_new) enter(s, n, entry->obj, &v[ITS_KEY]);
  its = writer_at(all, n);
  set_values(s, its, v);
  its->seq = entry->seq;
  its->cause = entry->cause;
  its->kind = entry->kind;
}

static int is_same_field(const mw_entry *a, const mw_entry *b) {
  return a->obj == b->obj && a->type[MW_KEY] == b->type[MW_KEY] &&
         a->value[MW_KEY].i == b->value[MW_KEY].i;
}

/* keep_page(state, seq): the page with the entry before `seq` goes */
static int keep_page(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, 1);
  uint64_t end = (uint64_t)lua_tointeger(L, 2);
  uint64_t at = (end - 1) / MWI_READER_PAGE * MWI_READER_PAGE;
  mw_entry entry, next;
  lua_settop(L, 2);
  mwb_push_page(L, s, end - 1);
  mwb_push(L, s, MWB_WRITERS);
  if (!lua_istable(L, 3)) return 0;
  if (at < s->readers->kept_from) at = s->readers->kept_from;
  for (; at < end; at++) {
    mwi_reader_read(s->engine, at, &entry);
    if (at + 1 < end) mwi_reader_read(s->engine, at + 1, &next);
    if (at + 1 < end && is_same_field(&entry, &next)) continue;
    if (entry.obj == MW_NONE || !mwi_is_of_field(entry.kind)) continue;
    keep_writer(L, s, &entry, 3, 4);
    lua_settop(L, 4);
  }
  return 0;
}

/* Without memory, the fields of the page have no writers. */
void mwb_keep_page(lua_State *L, mwb_state *s, uint64_t seq) {
  if (s->readers->keepers == 0 || seq <= s->readers->kept_from) return;
  lua_pushcfunction(L, keep_page);
  lua_pushlightuserdata(L, s);
  lua_pushinteger(L, (lua_Integer)seq);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

void mwb_add_keeper(lua_State *L, mwb_state *s) {
  int i;
  if (s->readers->keepers == 0) {
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

size_t mwb_writers_bytes(const mwb_state *s) {
  const mwb_writers *w = s->readers->writers;
  if (w == NULL) return 0;
  return sizeof(*w) + w->size * sizeof(writer) + mwi_table_bytes(&w->table);
}

void mwb_free_writers(mwb_state *s) {
  mwb_writers *w = s->readers->writers;
  if (w == NULL) return;
  mwi_free(s->engine, w->list, w->size * sizeof(writer));
  mwi_table_drop(s->engine, &w->table);
  mwi_free(s->engine, w, sizeof(*w));
  s->readers->writers = NULL;
}

void mwb_remove_keeper(lua_State *L, mwb_state *s) {
  uint32_t n;
  if (--s->readers->keepers > 0) return;
  for (n = 1; n <= s->readers->writers->n; n++)
    set_values(s, writer_at(s->readers->writers, n), nothing);
  mwb_free_writers(s);
  lua_pushnil(L);
  mwb_keep(L, s, MWB_WRITERS);
}

/* }====================================================== */

/* {======================================================
** Finding
** ======================================================= */

/* Pushes the context of the writer with the number `n`. */
static void push_context(lua_State *L, const mwb_state *s, uint32_t n) {
  mwb_push(L, s, MWB_WRITERS);
  lua_rawgeti(L, -1, (lua_Integer)(n % TABLES) + 1);
  lua_rawgeti(L, -1, (lua_Integer)(n / TABLES) + 1);
}

/* kept_writer(object, key, value now or nil) -> the entry of the last writer
** whose entry is forgotten, or nil.  The library may not know the object that
** was written: it is the one that is there. */
static int kept_writer(lua_State *L) {
  static const char *const names[] = {"key", "old", "new", "where"};
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle obj = mwb_handle_of(L, s, 1);
  mw_value key;
  uint32_t n;
  writer its;
  uint64_t cause;
  int i;
  lua_settop(L, 3);
  if (s->readers->writers == NULL || obj == MW_NONE) return 0;
  key = mwb_key(L, s, 2);
  n = find(s->readers->writers, obj, &key);
  if (n == 0) return 0;
  its = *writer_at(s->readers->writers, n);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_setfield(L, 4, "object");
  for (i = 0; i < VALUES; i++) {
    mw_value v = value_at(&its, i);
    if (i == ITS_NEW && v.type == MW_TOBJECT &&
        mwb_key(L, s, 3).type == MW_TOBJECT)
      lua_pushvalue(L, 3);
    else
      mwb_push_key(L, s, &v);
    lua_setfield(L, 4, names[i]);
  }
  mwb_push_kind(L, s, its.kind);
  lua_setfield(L, 4, "kind");
  lua_pushinteger(L, (lua_Integer)its.seq);
  lua_setfield(L, 4, "seq");
  cause = mw_delivery_of(s->engine, its.cause, its.seq);
  if (cause != 0) {
    lua_pushinteger(L, (lua_Integer)cause);
    lua_setfield(L, 4, "because");
  }
  push_context(L, s, n);
  mwb_set_context(L, 4);
  lua_settop(L, 4);
  mwb_push(L, s, MWB_ENTRY);
  lua_setmetatable(L, 4);
  return 1;
}

/* }====================================================== */

void mwb_open_writers(lua_State *L) {
  static const luaL_Reg functions[] = {{"kept_writer", kept_writer},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
