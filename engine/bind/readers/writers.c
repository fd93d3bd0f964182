/*
** writers.c - who wrote a field last, when the entry is forgotten.
** SPDX-License-Identifier: MIT
**
**     heads: hash of (object, key) --> writer --> writer ...
**                                         |
**     MWB_WRITERS: TABLES of { key, where, context, old and new value, ... }
**
** A writer has PLACES in one of the tables.  There are so many tables because
** the collector goes through a table in one step.
**
** While there are recorders, each page that goes leaves the last writer of each
** field that is there.  A writer refers to no object, so that nothing stays
** alive: a value or key that is an object is a handle, and an object without a
** handle is no key of a writer.  The table holds a key's string, so no other
** string has its address; a long one is known by a hash.  Writers of dead
** objects and keys go before the array grows.
*/
#include "readers.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../watch/watch.h"

/* Where the table has what belongs to a writer. */
enum { OF_KEY, OF_WHERE, OF_CONTEXT, OF_OLD, OF_NEW, PLACES };

#define TABLES 256

/* The values of a writer: the old and the new one. */
enum { OLD_ONE, NEW_ONE, VALUES };

typedef struct writer {
  mw_handle obj; /* MW_NONE: free */
  int64_t key;
  uint64_t seq;
  mw_content value[VALUES];
  uint32_t cause;
  uint32_t next;        /* with the same hash; or the next free writer */
  uint8_t key_type;     /* MW_TOTHER: a short string, by its address;
                           MW_TSTRING: a long one; MW_TOBJECT: a handle */
  uint8_t type[VALUES]; /* MW_TOTHER: in the table; MW_TOBJECT: a handle */
  uint8_t kind;
} writer;

/* Numbers of writers begin with 1. */
struct mwb_writers {
  writer *list;
  uint32_t n, size, free;
  uint32_t *heads;
};

static writer *writer_at(const mwb_writers *w, uint32_t n) {
  return &w->list[n - 1];
}

/* Pushes the table with what belongs to a writer; `tables` is the index of
** MWB_WRITERS. */
static void push_table(lua_State *L, int tables, uint32_t n) {
  lua_rawgeti(L, tables, (lua_Integer)(n % TABLES) + 1);
}

static lua_Integer place_of(uint32_t n, int of) {
  return (lua_Integer)(n / TABLES) * PLACES + of + 1;
}

static uint32_t *head_of(const mwb_writers *w, mw_handle obj, int64_t key) {
  uint64_t bits = ((uint64_t)key ^ ((uint64_t)mw_slot(obj) << 32)) *
                  UINT64_C(0x9e3779b97f4a7c15);
  return &w->heads[(bits >> 32) & (w->size - 1)];
}

static uint32_t find(const mwb_writers *w, const writer *its) {
  uint32_t n = (w->size == 0) ? 0 : *head_of(w, its->obj, its->key);
  while (n != 0 && (writer_at(w, n)->obj != its->obj ||
                    writer_at(w, n)->key != its->key ||
                    writer_at(w, n)->key_type != its->key_type))
    n = writer_at(w, n)->next;
  return n;
}

/* {======================================================
** Keeping
** ======================================================= */

static void drop(lua_State *L, mwb_writers *w, uint32_t n, int tables) {
  writer *its = writer_at(w, n);
  uint32_t *at = head_of(w, its->obj, its->key);
  int i;
  while (*at != n) at = &writer_at(w, *at)->next;
  *at = its->next;
  its->obj = MW_NONE;
  its->next = w->free;
  w->free = n;
  push_table(L, tables, n);
  for (i = 0; i < PLACES; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, place_of(n, i));
  }
  lua_pop(L, 1);
}

static void drop_dead(lua_State *L, const mwb_state *s, int tables) {
  mwb_writers *w = s->readers->writers;
  uint32_t n;
  for (n = 1; n <= w->n; n++) {
    const writer *its = writer_at(w, n);
    const mwi_identity *all = &s->engine->identity;
    if (its->obj == MW_NONE) continue;
    if (!mwi_identity_is_valid(all, its->obj) ||
        (its->key_type == MW_TOBJECT &&
         !mwi_identity_is_valid(all, (mw_handle)its->key)))
      drop(L, w, n, tables);
  }
}

static int grow(mwb_state *s) {
  mwb_writers *w = s->readers->writers;
  uint32_t size = (w->size == 0) ? 64 : 2 * w->size, n;
  writer *list = (writer *)mwi_new(s->engine, size * sizeof(*list));
  uint32_t *heads = (uint32_t *)mwi_new(s->engine, size * sizeof(*heads));
  if (list == NULL || heads == NULL) {
    mwi_free(s->engine, list, (list == NULL) ? 0 : size * sizeof(*list));
    mwi_free(s->engine, heads, (heads == NULL) ? 0 : size * sizeof(*heads));
    return 0;
  }
  memset(heads, 0, size * sizeof(*heads));
  if (w->n > 0) memcpy(list, w->list, w->n * sizeof(*list));
  mwi_free(s->engine, w->list, w->size * sizeof(*list));
  mwi_free(s->engine, w->heads, w->size * sizeof(*heads));
  w->list = list;
  w->heads = heads;
  w->size = size;
  for (n = 1; n <= w->n; n++) {
    writer *its = writer_at(w, n);
    uint32_t *head;
    if (its->obj == MW_NONE) continue;
    head = head_of(w, its->obj, its->key);
    its->next = *head;
    *head = n;
  }
  return 1;
}

/* Returns the number of the field's writer, a new one if it has none; 0 if
** there is no memory. */
static uint32_t need(lua_State *L, mwb_state *s, const writer *its,
                     int tables) {
  mwb_writers *w = s->readers->writers;
  uint32_t n = find(w, its), *head;
  if (n != 0) return n;
  if (w->free == 0 && w->n == w->size) drop_dead(L, s, tables);
  if (w->free == 0 && w->n == w->size && !grow(s)) return 0;
  n = w->free;
  if (n != 0)
    w->free = writer_at(w, n)->next;
  else
    n = ++w->n;
  *writer_at(w, n) = *its;
  head = head_of(w, its->obj, its->key);
  writer_at(w, n)->next = *head;
  *head = n;
  return n;
}

/* Returns a hash of all bytes of a string. */
static int64_t hash_of(const char *text, size_t len) {
  uint64_t hash = len;
  while (len > 0)
    hash = (hash ^ (unsigned char)text[--len]) * UINT64_C(0x100000001b3);
  return (int64_t)hash;
}

/* Sets the key by the value at `index`.  Returns 0 for a key without a
** writer. */
static int set_key(lua_State *L, mwb_state *s, int index, writer *its) {
  mw_entry packed;
  const char *text;
  size_t len;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      return 0;
    case LUA_TSTRING:
      text = lua_tolstring(L, index, &len);
      its->key_type = (len <= s->short_string) ? MW_TOTHER : MW_TSTRING;
      its->key = (its->key_type == MW_TOTHER) ? (int64_t)(uintptr_t)text
                                              : hash_of(text, len);
      return 1;
    case LUA_TBOOLEAN:
      its->key_type = MW_TBOOLEAN;
      its->key = lua_toboolean(L, index);
      return 1;
    case LUA_TNUMBER:
      mwb_pack_number(L, index, &packed, MW_KEY);
      its->key_type = packed.type[MW_KEY];
      its->key = packed.value[MW_KEY].i;
      return 1;
    default:
      its->key_type = MW_TOBJECT;
      its->key = (int64_t)mwb_handle_of(L, s, index);
      return its->key != (int64_t)MW_NONE;
  }
}

/* Pushes a held value of the page, `false` for none. */
static void push_held(lua_State *L, int page, uint32_t number) {
  if (number != 0)
    lua_rawgeti(L, page, (lua_Integer)number);
  else
    lua_pushboolean(L, 0);
}

/* Pushes what the table is to hold of a value of the entry, and sets the value:
** a string is held, an object is not. */
static void set_value(lua_State *L, mwb_state *s, const mw_entry *entry,
                      int page, int which, writer *its) {
  int part = (which == OLD_ONE) ? MW_OLD : MW_NOW;
  its->type[which] = entry->type[part];
  its->value[which] = entry->value[part];
  push_held(
      L, page,
      (entry->type[part] == MW_TOTHER) ? (uint32_t)entry->value[part].i : 0);
  if (entry->type[part] != MW_TOTHER || lua_type(L, -1) == LUA_TSTRING) return;
  its->type[which] = MW_TOBJECT;
  its->value[which].i = (int64_t)mwb_handle_of(L, s, lua_gettop(L));
  lua_pop(L, 1);
  lua_pushboolean(L, 0);
}

static void keep_writer(lua_State *L, mwb_state *s, const mw_entry *entry,
                        int page, int tables) {
  writer its;
  uint32_t n;
  int i, key = lua_gettop(L) + 1;
  memset(&its, 0, sizeof(its));
  its.obj = entry->obj;
  if (entry->type[MW_KEY] == MW_TOTHER)
    push_held(L, page, (uint32_t)entry->value[MW_KEY].i);
  else
    mwb_unpack(L, NULL, 0, entry, MW_KEY);
  if (!set_key(L, s, key, &its)) return;
  if (entry->type[MW_NOW] == MW_TABSENT) {
    n = find(s->readers->writers, &its);
    if (n != 0) drop(L, s->readers->writers, n, tables);
    return;
  }
  n = need(L, s, &its, tables);
  if (n == 0) return;
  if (its.key_type == MW_TOBJECT) {
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  push_table(L, tables, n);
  lua_insert(L, key);
  its.next = writer_at(s->readers->writers, n)->next;
  its.seq = entry->seq;
  its.cause = entry->cause;
  its.kind = entry->kind;
  push_held(L, page, entry->where);
  push_held(L, page, entry->context);
  set_value(L, s, entry, page, OLD_ONE, &its);
  set_value(L, s, entry, page, NEW_ONE, &its);
  *writer_at(s->readers->writers, n) = its;
  for (i = PLACES - 1; i >= 0; i--) lua_rawseti(L, key, place_of(n, i));
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
  return sizeof(*w) + w->size * (sizeof(writer) + sizeof(uint32_t));
}

void mwb_free_writers(mwb_state *s) {
  mwb_writers *w = s->readers->writers;
  if (w == NULL) return;
  mwi_free(s->engine, w->list, w->size * sizeof(writer));
  mwi_free(s->engine, w->heads, w->size * sizeof(uint32_t));
  mwi_free(s->engine, w, sizeof(*w));
  s->readers->writers = NULL;
}

void mwb_remove_keeper(lua_State *L, mwb_state *s) {
  if (--s->readers->keepers > 0) return;
  mwb_free_writers(s);
  lua_pushnil(L);
  mwb_keep(L, s, MWB_WRITERS);
}

/* }====================================================== */

/* {======================================================
** Finding
** ======================================================= */

/* Pushes what belongs to the writer with the number `n`, nil for nothing. */
static void push_place(lua_State *L, const mwb_state *s, uint32_t n, int of) {
  int top = lua_gettop(L);
  mwb_push(L, s, MWB_WRITERS);
  push_table(L, top + 1, n);
  lua_rawgeti(L, top + 2, place_of(n, of));
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  if (!lua_isboolean(L, -1)) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Pushes a value of the writer, nil for an object that is not known. */
static void push_written(lua_State *L, mwb_state *s, uint32_t n,
                         const writer *its, int which) {
  mw_entry entry;
  if (its->type[which] == MW_TOTHER) {
    push_place(L, s, n, (which == OLD_ONE) ? OF_OLD : OF_NEW);
  } else if (its->type[which] == MW_TOBJECT) {
    if (mwb_alive(L, s, (mw_handle)its->value[which].i)) return;
    lua_pop(L, 1);
    lua_pushnil(L);
  } else {
    entry.type[MW_KEY] = its->type[which];
    entry.value[MW_KEY] = its->value[which];
    mwb_unpack(L, NULL, 0, &entry, MW_KEY);
  }
}

/* Is the value at `index` one that entries hold as an object? */
static int is_object(lua_State *L, int index) {
  int type = lua_type(L, index);
  return type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA ||
         type == LUA_TTHREAD;
}

/* Is the writer that of another long string with the same hash? */
static int is_other_key(lua_State *L, const mwb_state *s, uint32_t n,
                        const writer *its) {
  int other;
  if (its->key_type != MW_TSTRING) return 0;
  push_place(L, s, n, OF_KEY);
  other = !lua_rawequal(L, 2, -1);
  lua_pop(L, 1);
  return other;
}

/* kept_writer(object, key, value now or nil) -> the entry of the last writer
** whose entry is forgotten, or nil.  The library may not know the object that
** was written: it is the one that is there. */
static int kept_writer(lua_State *L) {
  static const char *const names[] = {"object", "key"};
  mwb_state *s = mwb_enter_to_read(L);
  writer its;
  uint64_t cause;
  uint32_t n;
  int i;
  lua_settop(L, 3);
  memset(&its, 0, sizeof(its));
  its.obj = mwb_handle_of(L, s, 1);
  if (s->readers->writers == NULL || its.obj == MW_NONE ||
      !set_key(L, s, 2, &its))
    return 0;
  n = find(s->readers->writers, &its);
  if (n == 0) return 0;
  its = *writer_at(s->readers->writers, n);
  if (is_other_key(L, s, n, &its)) return 0;
  lua_newtable(L);
  for (i = 0; i < 2; i++) {
    lua_pushvalue(L, i + 1);
    lua_setfield(L, 4, names[i]);
  }
  if (its.type[NEW_ONE] == MW_TOBJECT && is_object(L, 3))
    lua_pushvalue(L, 3);
  else
    push_written(L, s, n, &its, NEW_ONE);
  lua_setfield(L, 4, "new");
  mwb_push_kind(L, s, its.kind);
  lua_setfield(L, 4, "kind");
  push_written(L, s, n, &its, OLD_ONE);
  lua_setfield(L, 4, "old");
  push_place(L, s, n, OF_WHERE);
  lua_setfield(L, 4, "where");
  lua_pushinteger(L, (lua_Integer)its.seq);
  lua_setfield(L, 4, "seq");
  cause = mw_delivery_of(s->engine, its.cause, its.seq);
  if (cause != 0) {
    lua_pushinteger(L, (lua_Integer)cause);
    lua_setfield(L, 4, "because");
  }
  push_place(L, s, n, OF_CONTEXT);
  mwb_set_context(L, 4);
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
