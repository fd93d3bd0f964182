/*
** reader.c - readers of what was delivered, for recorders and feeds.
** SPDX-License-Identifier: MIT
**
**     look (userdata): n | entry | entry ...
**        | user value
**        +--> { page, page, ... }, the held values of the entries
**
** A look has copies of entries, which it keeps although the engine forgets
** them; the `cause` of a copy is how far its cause is from the entry, or 0.
** What the entries hold the look shares with other looks.  What programs get of
** an entry is made of its values by recorder/entry.lua.
*/
#include "../base/base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../watch/watch.h"
#include "readers.h"

/* {======================================================
** Readers
** ======================================================= */

typedef struct reader {
  mwb_state *s;
  mw_reader id;      /* 0: closed */
  int where, scopes; /* does it want places, and scopes, */
  int writers;       /* and last writers? */
} reader;

/* open_reader(capacity, where, scopes, writers) -> reader; whoever asks for no
** last writers misses whole deliveries, or nothing of them */
static int open_reader(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer capacity = luaL_checkinteger(L, 1);
  int writers = lua_toboolean(L, 4);
  reader *r;
  mwb_open_delivery(L, s);
  r = (reader *)lua_newuserdatauv(L, sizeof(*r), 0);
  memset(r, 0, sizeof(*r));
  r->s = s;
  mwb_push(L, s, MWB_READER);
  lua_setmetatable(L, -2);
  if (capacity > UINT32_MAX / 2) capacity = UINT32_MAX / 2;
  r->id = mw_reader_open(s->engine, (uint32_t)capacity, writers ? 0 : MW_WHOLE);
  if (r->id == 0) mwb_check(L, MW_NOMEM);
  mwb_need(s, MWB_APPENDS, 1);
  if (writers) mwb_add_keeper(L, s); /* the last that raises */
  r->writers = writers;
  r->where = lua_toboolean(L, 2);
  r->scopes = lua_toboolean(L, 3);
  if (r->where) s->journal->wheres++;
  if (r->scopes && s->journal->scoped++ == 0) mwb_turn_context(s); /* first? */
  return 1;
}

static reader *reader_at(lua_State *L) {
  return (reader *)lua_touserdata(L, 1);
}

/* close_reader(reader) */
static int close_reader(lua_State *L) {
  reader *r = reader_at(L);
  mwb_state *s = r->s;
  if (r->id == 0 || s->engine == NULL || mwb_put_off(L, s)) return 0;
  mw_reader_close(s->engine, r->id);
  r->id = 0;
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (r->where) s->journal->wheres--;
  if (r->scopes && --s->journal->scoped == 0) mwb_turn_context(s); /* last? */
  if (r->writers) mwb_remove_keeper(L, s);
  return 0;
}

/* reader_state(reader) -> number of the next entry, how many were lost, number
** of the last entry */
static int reader_state(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const reader *r = reader_at(L);
  lua_pushinteger(L, (lua_Integer)mw_reader_next(s->engine, r->id));
  lua_pushinteger(L, (lua_Integer)mw_reader_lost(s->engine, r->id));
  lua_pushinteger(L, (lua_Integer)mw_delivery_last(s->engine));
  return 3;
}

/* seek_reader(reader, seq): it forgets the entries before, if `seq` is kept */
static int seek_reader(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  uint64_t seq = (uint64_t)lua_tointeger(L, 2);
  mw_reader_seek(s->engine, reader_at(L)->id, seq);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

typedef mwb_look look;

mwb_look *mwb_push_look(lua_State *L, const mwb_state *s, uint64_t first,
                        uint64_t end) {
  uint64_t page = first / MWI_READER_PAGE;
  lua_Integer n = 0;
  look *its = (look *)lua_newuserdatauv(
      L, offsetof(look, entries) + (size_t)(end - first) * sizeof(mw_entry), 1);
  its->n = 0;
  its->first_page = page;
  mwb_push(L, s, MWB_LOOK);
  lua_setmetatable(L, -2);
  lua_createtable(L, 1, 0);
  for (; first < end && page * MWI_READER_PAGE < end; page++) {
    mwb_push_page(L, s, page * MWI_READER_PAGE);
    lua_rawseti(L, -2, ++n);
  }
  lua_setiuservalue(L, -2, 1);
  for (; first < end; first++) {
    mw_entry *entry = &its->entries[its->n++];
    uint64_t cause;
    mwi_reader_read(s->engine, first, entry);
    if (entry->cause == 0) continue; /* because of no write? */
    cause = mw_delivery_of(s->engine, entry->cause, first);
    entry->cause = (cause == 0) ? 0 : (uint32_t)(cause - first); /* gone? */
  }
  return its;
}

/* Returns the number of the first entry that can be read: the entries before it
** were forgotten, but those in its page are there still, if somebody asks for
** last writers. */
static uint64_t first_in_page(const mwb_state *s) {
  uint64_t first = mw_delivery_first(s->engine);
  uint64_t low = first - first % MWI_READER_PAGE;
  if (s->readers->keepers == 0 || first > mw_delivery_last(s->engine))
    return first; /* nobody asks, or all are gone? */
  if (low < s->readers->kept_from) low = s->readers->kept_from; /* too early? */
  return (low < first) ? low : first;
}

/* look(first, last) -> look, how many entries */
static int make_look(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  uint64_t first = (uint64_t)luaL_checkinteger(L, 1);
  uint64_t end = (uint64_t)luaL_checkinteger(L, 2) + 1;
  uint64_t oldest = first_in_page(s);
  if (first < oldest) first = oldest;        /* forgotten meanwhile? */
  if (end > mw_delivery_last(s->engine) + 1) /* not written yet? */
    end = mw_delivery_last(s->engine) + 1;
  if (end < first) end = first; /* is none of them there? */
  lua_pushinteger(L, (lua_Integer)mwb_push_look(L, s, first, end)->n);
  return 2;
}

void mwb_push_entry_iterator(lua_State *L, lua_Integer skip) {
  const look *its = (const look *)lua_touserdata(L, -1);
  mwb_push(L, mwb_state_of(L), MWB_EACH);
  lua_insert(L, -2);
  lua_pushinteger(L, its->n);
  lua_pushinteger(L, skip);
  lua_call(L, 3, 1);
}

/* }====================================================== */

/* {======================================================
** Entries
** ======================================================= */

void mwb_push_number(lua_State *L, uint64_t n) {
  if (n != 0)
    lua_pushinteger(L, (lua_Integer)n);
  else
    lua_pushnil(L);
}

/* Pushes what an entry has, as `look_entry`; `because` is the number of its
** cause, or 0, and `seq` its own.  Returns how many values these are. */
static int push_entry(lua_State *L, mwb_state *s, int values,
                      const mw_entry *entry, uint64_t because, uint64_t seq) {
  int part;
  mwb_alive(L, s, entry->obj);
  for (part = 0; part < MW_PARTS; part++) mwb_unpack(L, values, entry, part);
  mwb_push_kind(L, s, entry->kind);
  mwb_push_number(L, seq);
  mwb_push_value(L, values, entry->where);
  mwb_push_value(L, values, entry->context);
  mwb_push_number(L, because);
  return 9;
}

/* look_entry(look, i[, table, metatable]) -> object, key, old, new, kind,
** number, place, context, number of the cause, and the table gets the
** metatable; nothing if there is no such entry, or it is no look */
static int look_entry(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const look *its = (const look *)lua_touserdata(L, 1);
  lua_Integer i = lua_tointeger(L, 2);
  const mw_entry *entry;
  uint64_t cause;
  if (!mwb_is_of(L, s, 1, MWB_LOOK) || i < 1 || i > (lua_Integer)its->n)
    return 0; /* no look, or none of its entries? */
  entry = &its->entries[i - 1];
  cause = entry->seq + (uint64_t)(int32_t)entry->cause;
  if (lua_gettop(L) == 4) lua_setmetatable(L, 3);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  lua_rawgeti(L, 2, mwb_page_in(its, entry));
  return push_entry(L, s, 3, entry, (entry->cause == 0) ? 0 : cause,
                    entry->seq);
}

/* Pushes an integer of two numbers of an entry of an open transaction, as a
** cause, and of its cause; its place in the order of the program, as given; the
** transaction; and the entry.  Returns how many values these are. */
#define OWNED 12
static int push_owned(lua_State *L, mwb_state *s, mw_owner owner,
                      const mw_entry *its, uint64_t order) {
  mw_entry entry = *its; /* labels need memory */
  int at = lua_gettop(L) + 1;
  uint64_t last = mw_delivery_last(s->engine);
  mwb_push_values(L, mwb_coroutine_of(s, owner));
  lua_pushinteger(
      L, (lua_Integer)((uint64_t)mwi_number_of(entry.seq) << 32 | entry.cause));
  lua_pushinteger(L, (lua_Integer)order);
  while (mw_owner_parent(s->engine, owner) != 0) /* is it a nested one? */
    owner = mw_owner_parent(s->engine, owner);
  mwb_push_label(L, mwb_transaction_of(s, owner));
  push_entry(L, s, at, &entry, mw_delivery_of(s->engine, entry.cause, last), 0);
  lua_remove(L, at);
  return OWNED;
}

/* }====================================================== */

/* {======================================================
** The last entry of a field
** ======================================================= */

/* Is the entry one of the key at 2? */
static int has_key(void *ud, const mw_entry *entry) {
  lua_State *L = (lua_State *)ud;
  int same;
  if (!mwi_is_of_field(entry->kind)) return 0;    /* of class or state? */
  if (entry->type[MW_KEY] != MW_TOTHER) return 1; /* has the engine compared? */
  mwb_push_page(L, mwb_state_of(L), entry->seq);
  lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[MW_KEY].i);
  same = lua_rawequal(L, -1, 2);
  lua_pop(L, 2);
  return same;
}

/* find_entry(object, key) -> number of the last entry of the field, or nil */
static int find_entry(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  uint64_t seq;
  mw_value key;
  lua_settop(L, 2);
  if (h == MW_NONE || lua_isnil(L, 2)) return 0; /* unknown, or no key? */
  key = mwb_key(L, s, 2);
  if (key.type > MW_TFLOAT) { /* does the page hold such keys? */
    key.type = MW_TOTHER;
    key.u.i = (int64_t)((uint64_t)mwb_hash_key(L, s, 2) << 32);
  }
  luaL_checkstack(L, LUA_MINSTACK, "why");
  seq = mwi_reader_find(s->engine, first_in_page(s),
                        mw_delivery_last(s->engine) + 1, h, &key, has_key, L);
  if (seq == 0) return 0; /* none that is kept? */
  lua_pushinteger(L, (lua_Integer)seq);
  return 1;
}

/* Is this an entry of the field of the object `h` and the key at 2, which no
** final write has followed?  The owner's values are at 3. */
static int is_of_field(lua_State *L, const mwb_state *s, mw_owner owner,
                       const mw_entry *entry, mw_handle h) {
  int same;
  if (entry->obj != h || !mwi_is_of_field(entry->kind) || mwb_is_hidden(entry))
    return 0; /* elsewhere, or without an effect? */
  mwb_unpack(L, 3, entry, MW_KEY);
  same = lua_rawequal(L, -1, 2);
  lua_pop(L, 1);
  return same && mwi_entry_counts(s->engine, owner, entry, &L);
}

/* Pushes the entry of an open transaction that has a number as a cause, or, for
** 0, the last one that changes the field of the object `h` and the key at 2.
** Returns how many values these are: 0 if there is none. */
static int push_open(lua_State *L, mwb_state *s, uint32_t number, mw_handle h) {
  const mwi_journal *journal = &s->engine->journal;
  mw_owner owner, found = 0;
  mw_entry last;
  last.seq = 0;
  for (owner = 1; owner <= journal->owners.n; owner++) {
    const mw_entry *entries;
    size_t n;
    if (mwi_owner_at(journal, owner)->log == NULL) continue; /* not open? */
    entries = mw_owner_entries(s->engine, owner, &n);
    lua_settop(L, 2);
    mwb_push_values(L, mwb_coroutine_of(s, owner));
    while (n > 0 && entries[n - 1].seq > last.seq &&
           !(number != 0 ? mwi_number_of(entries[n - 1].seq) == number
                         : is_of_field(L, s, owner, &entries[n - 1], h)))
      n--;
    if (n == 0 || entries[n - 1].seq <= last.seq) continue; /* none newer? */
    last = entries[n - 1];
    found = owner;
  }
  if (found == 0) return 0; /* in no open transaction? */
  return push_owned(L, s, found, &last, last.seq);
}

/* open_entry(object, key) -> the last entry of the field that an open
** transaction has, as `push_owned` pushes it: nobody has made a final write
** since; or nothing */
static int open_entry(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  lua_settop(L, 2);
  return (h == MW_NONE) ? 0 : push_open(L, s, 0, h); /* an unknown object? */
}

/* caused_by(number) -> the number of the delivered entry with this number as a
** cause; or what `push_owned` pushes of that of an open transaction */
static int caused_by(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  uint32_t number = (uint32_t)lua_tointeger(L, 1);
  uint64_t seq = mw_delivery_of(s->engine, number, mw_delivery_last(s->engine));
  if (seq == 0) return push_open(L, s, number, MW_NONE); /* not delivered? */
  lua_pushinteger(L, (lua_Integer)seq);
  return 1;
}

void mwb_push_entries(lua_State *L, mwb_state *s, mw_owner owner) {
  lua_Integer count = 0;
  size_t i, n;
  const mw_entry *entries = mw_owner_entries(s->engine, owner, &n);
  int list = lua_gettop(L) + 1, value;
  lua_createtable(L, (int)n, 0);
  for (i = 0; i < n; i++) {
    const mw_entry *entry = &entries[i];
    int counts;
    if (mwb_is_hidden(entry)) continue; /* do effects leave it out? */
    counts = mwi_entry_counts(s->engine, owner, entry, &L);
    lua_createtable(L, OWNED, 0);
    push_owned(L, s, owner, entry, counts ? entry->seq : 0);
    for (value = OWNED; value > 0; value--) lua_rawseti(L, list + 1, value);
    lua_rawseti(L, list, ++count);
  }
}

/* entry_since(time) -> number of an entry, so that all entries before are older
** than the time; nil for no entry */
static int entry_since(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_Number time = luaL_checknumber(L, 1);
  uint64_t page;
  for (page = s->journal->page;
       page > s->journal->first_page && s->journal->first_page > 0; page--) {
    mwb_push_page(L, s, (page - 1) * MWI_READER_PAGE);
    lua_rawgeti(L, -1, MWB_PAGETIME);
    if (lua_isnumber(L, -1) && lua_tonumber(L, -1) <= time) { /* old enough? */
      lua_pushinteger(L, (lua_Integer)((page - 1) * MWI_READER_PAGE));
      return 1;
    }
    lua_settop(L, 1);
  }
  return 0;
}

/* delivered_now() -> object -> what it held before all open transactions, or
** nil: see mwb_push_delivered */
static int delivered_now(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 0);
  mwb_push_delivered(L, s);
  if (lua_isnil(L, 1)) return 1; /* is all delivered? */
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_settop(L, 2))
    mwb_push_before(L, 1, 2);
  return 1;
}

/* }====================================================== */

void mwb_open_readers(lua_State *L) {
  static const luaL_Reg functions[] = {{"open_reader", open_reader},
                                       {"close_reader", close_reader},
                                       {"reader_state", reader_state},
                                       {"seek_reader", seek_reader},
                                       {"look", make_look},
                                       {"look_entry", look_entry},
                                       {"find_entry", find_entry},
                                       {"open_entry", open_entry},
                                       {"caused_by", caused_by},
                                       {"entry_since", entry_since},
                                       {"delivered_now", delivered_now},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", close_reader}, {NULL, NULL}};
  mwb_new_meta(L, MWB_READER, "reader", meta, NULL);
  mwb_new_meta(L, MWB_LOOK, "look", NULL, NULL);
  mwb_set_funcs(L, functions);
}
