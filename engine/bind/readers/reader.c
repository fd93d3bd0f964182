/*
** reader.c - readers of what was delivered, for recorders and feeds.
** SPDX-License-Identifier: MIT
**
**     look (userdata): n | entry | entry ...
**        | user value
**        +--> { page, page, ... }, the held values of the entries
**
**     entry (table): { look, number in the look }, until a field is read
**
** A look has copies of entries, which it keeps although the engine forgets
** them; the `cause` of a copy is how far its cause is from the entry, or 0.
** What the entries hold the look shares with other looks.  An entry is a table
** that gets its fields when the first one is read.  So whoever looks at a few
** of many entries pays for these.
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
  if (writers) mwb_add_keeper(L, s); /* the last that raises */
  r->writers = writers;
  r->where = lua_toboolean(L, 2);
  r->scopes = lua_toboolean(L, 3);
  if (r->where) s->journal->wheres++;
  if (r->scopes && s->journal->scoped++ == 0) mwb_turn_context(s);
  mwb_need(s, MWB_APPENDS, 1);
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
  if (r->where) s->journal->wheres--;
  if (r->scopes && --s->journal->scoped == 0) mwb_turn_context(s);
  if (r->writers) mwb_remove_keeper(L, s);
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
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

/* seek_reader(reader, seq) -> whether the entries from `seq` on are kept */
static int seek_reader(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer seq = lua_tointeger(L, 2);
  int code = mw_reader_seek(s->engine, reader_at(L)->id, (uint64_t)seq);
  lua_pushboolean(L, code == MW_OK);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

typedef mwb_look look;

mwb_look *mwb_push_look(lua_State *L, const mwb_state *s, uint64_t first,
                        uint64_t end) {
  size_t n = (size_t)(end - first);
  uint64_t page = first / MWI_READER_PAGE, pages;
  look *its = (look *)lua_newuserdatauv(
      L, offsetof(look, entries) + n * sizeof(mw_entry), 1);
  its->n = 0;
  its->first_page = page;
  mwb_push(L, s, MWB_LOOK);
  lua_setmetatable(L, -2);
  pages = (n == 0) ? page : (end - 1) / MWI_READER_PAGE + 1;
  lua_createtable(L, (int)(pages - page), 0);
  for (; page < pages; page++) {
    mwb_push_page(L, s, page * MWI_READER_PAGE);
    lua_rawseti(L, -2, (lua_Integer)(page - its->first_page + 1));
  }
  lua_setiuservalue(L, -2, 1);
  for (; first < end; first++) {
    mw_entry *entry = &its->entries[its->n++];
    uint64_t cause;
    mwi_reader_read(s->engine, first, entry);
    if (entry->cause == 0) continue;
    cause = mw_delivery_of(s->engine, entry->cause, first);
    entry->cause = (cause == 0) ? 0 : (uint32_t)(cause - first);
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
    return first;
  if (low < s->readers->kept_from) low = s->readers->kept_from;
  return (low < first) ? low : first;
}

/* look(first, last) -> look, how many entries */
static int make_look(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  uint64_t first = (uint64_t)luaL_checkinteger(L, 1);
  uint64_t end = (uint64_t)luaL_checkinteger(L, 2) + 1;
  uint64_t oldest = first_in_page(s);
  if (first < oldest) first = oldest;
  if (end > mw_delivery_last(s->engine) + 1)
    end = mw_delivery_last(s->engine) + 1;
  if (end < first) end = first;
  lua_pushinteger(L, (lua_Integer)mwb_push_look(L, s, first, end)->n);
  return 2;
}

/* Pushes the page of an entry of the look at `index`. */
static void push_page_of(lua_State *L, int index, const look *its,
                         const mw_entry *entry) {
  lua_getiuservalue(L, index, 1);
  lua_rawgeti(L, -1, mwb_page_in(its, entry));
  lua_replace(L, -2);
}

/* Upvalues of `next_entry`, after state and objects; AT: how many it has
** returned. */
enum { LOOK = 3, META, AT };

/* Pushes an entry, still without fields. */
static int next_entry(lua_State *L) {
  const look *its = (const look *)lua_touserdata(L, lua_upvalueindex(LOOK));
  lua_Integer at = lua_tointeger(L, lua_upvalueindex(AT));
  if (at >= (lua_Integer)its->n) return 0;
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, lua_upvalueindex(LOOK));
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, at + 1);
  lua_copy(L, -1, lua_upvalueindex(AT));
  lua_rawseti(L, -2, 2);
  lua_pushvalue(L, lua_upvalueindex(META));
  lua_setmetatable(L, -2);
  return 1;
}

void mwb_push_entry_iterator(lua_State *L, lua_Integer first) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_rotate(L, -3, -1);
  mwb_push(L, mwb_state_of(L), MWB_ENTRY);
  lua_pushinteger(L, first);
  lua_pushcclosure(L, next_entry, AT);
}

/* look_entries(look[, seq]) -> iterator of entries, from the number `seq` on */
static int look_entries(lua_State *L) {
  const look *its = (const look *)lua_touserdata(L, 1);
  lua_Integer seq = lua_tointeger(L, 2), first = 0;
  if (its->n > 0 && seq > (lua_Integer)its->entries[0].seq)
    first = seq - (lua_Integer)its->entries[0].seq;
  lua_settop(L, 1);
  mwb_push_entry_iterator(L, first);
  return 1;
}

/* look_entry(look, i) -> object, key, old, new, kind, seq */
static int look_entry(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const look *its = (const look *)lua_touserdata(L, 1);
  lua_Integer i = lua_tointeger(L, 2);
  const mw_entry *entry = &its->entries[i - 1];
  int part;
  lua_settop(L, 1);
  push_page_of(L, 1, its, entry);
  mwb_alive(L, s, entry->obj);
  for (part = 0; part < MW_PARTS; part++) mwb_unpack(L, 2, entry, part);
  mwb_push_kind(L, s, entry->kind);
  lua_pushinteger(L, (lua_Integer)entry->seq);
  return 6;
}

/* }====================================================== */

/* {======================================================
** Entries
** ======================================================= */

/* Sets a field of the entry at `at` to the value on the top, and pops that. */
static void set_field(lua_State *L, int at, const char *name) {
  lua_pushstring(L, name);
  lua_insert(L, -2);
  lua_rawset(L, at);
}

/* Sets the fields of the entry at `at` that the context on the top has.  The
** array of scopes is a copy, which the program may change. */
static void set_context(lua_State *L, int at) {
  static const char *const names[] = {"epoch", "transaction", "origin"};
  int i, context = lua_gettop(L);
  lua_Integer n;
  if (!lua_istable(L, context)) return;
  for (i = 0; i < 3; i++) {
    lua_getfield(L, context, names[i]);
    set_field(L, at, names[i]);
  }
  if (lua_getfield(L, context, "scope") != LUA_TTABLE) return;
  lua_newtable(L);
  for (n = (lua_Integer)lua_rawlen(L, -2); n > 0; n--) {
    lua_rawgeti(L, -2, n);
    lua_rawseti(L, -2, n);
  }
  set_field(L, at, "scope");
}

void mwb_fill_entry(lua_State *L, mwb_state *s, int at, int values,
                    const mw_entry *entry, uint64_t because, uint64_t seq) {
  static const char *const names[] = {"key", "old", "new"};
  int part, top = lua_gettop(L);
  mwb_alive(L, s, entry->obj);
  set_field(L, at, "object");
  for (part = 0; part < MW_PARTS; part++) {
    mwb_unpack(L, values, entry, part);
    set_field(L, at, names[part]);
  }
  mwb_push_kind(L, s, entry->kind);
  set_field(L, at, "kind");
  mwb_push_value(L, values, entry->where);
  set_field(L, at, "where");
  mwb_push_value(L, values, entry->context);
  set_context(L, at);
  if (because != 0) lua_pushinteger(L, (lua_Integer)because);
  if (because != 0) set_field(L, at, "because");
  if (seq != 0) lua_pushinteger(L, (lua_Integer)seq);
  if (seq != 0) set_field(L, at, "seq");
  lua_settop(L, top);
}

/* Gives the entry at 1 its fields, if it is still a look and a number; the
** program may set fields, 1 and 2 as well. */
static void fill_entry(lua_State *L, mwb_state *s) {
  int i, top = lua_gettop(L);
  const look *its;
  lua_rawgeti(L, 1, 1);
  lua_rawgeti(L, 1, 2);
  if (mwb_is_of(L, s, top + 1, MWB_LOOK)) {
    lua_Integer n = lua_tointeger(L, top + 2);
    its = (const look *)lua_touserdata(L, top + 1);
    if (n > 0 && n <= (lua_Integer)its->n) {
      const mw_entry *entry = &its->entries[n - 1];
      uint64_t cause = (entry->cause == 0)
                           ? 0
                           : entry->seq + (uint64_t)(int32_t)entry->cause;
      push_page_of(L, top + 1, its, entry);
      mwb_fill_entry(L, s, 1, top + 3, entry, cause, entry->seq);
      for (i = 1; i <= 2; i++) {
        lua_pushnil(L);
        lua_rawseti(L, 1, i);
      }
    }
  }
  lua_settop(L, top);
}

/* Pushes an entry of an open transaction, with all its fields but `seq`, and
** with the field `state` set. */
static void push_owned(lua_State *L, mwb_state *s, mw_owner owner,
                       const mw_entry *its, const char *state) {
  mw_entry entry = *its; /* the names of the library's fields need memory */
  int at = lua_gettop(L) + 1;
  uint64_t last = mw_delivery_last(s->engine);
  lua_newtable(L);
  mwb_push_values(L, mwb_coroutine_of(s, owner));
  mwb_fill_entry(L, s, at, at + 1, &entry,
                 mw_delivery_of(s->engine, entry.cause, last), 0);
  while (mw_owner_parent(s->engine, owner) != 0)
    owner = mw_owner_parent(s->engine, owner);
  mwb_push_label(L, s, owner);
  set_field(L, at, "transaction");
  lua_pushboolean(L, 1);
  set_field(L, at, state);
  mwb_push(L, s, MWB_ENTRY);
  lua_setmetatable(L, at);
  lua_settop(L, at);
}

/* Pushes an integer of two numbers: as a cause, and of the entry's cause. */
static void push_numbers(lua_State *L, const mw_entry *entry) {
  uint64_t numbers = (uint64_t)mwi_number_of(entry->seq) << 32 | entry->cause;
  lua_pushinteger(L, (lua_Integer)numbers);
}

static int index_entry(lua_State *L) {
  lua_settop(L, 2);
  fill_entry(L, mwb_state_of(L));
  lua_rawget(L, 1);
  return 1;
}

static int set_entry(lua_State *L) {
  lua_settop(L, 3);
  fill_entry(L, mwb_state_of(L));
  lua_rawset(L, 1);
  return 0;
}

static int pairs_entry(lua_State *L) {
  lua_settop(L, 1);
  fill_entry(L, mwb_state_of(L));
  lua_pushcfunction(L, mwb_state_of(L)->next);
  lua_insert(L, 1);
  return 2;
}

/* entry_text(function): `tostring` of an entry */
static int entry_text(lua_State *L) {
  lua_settop(L, 1);
  mwb_push(L, mwb_state_of(L), MWB_ENTRY);
  lua_insert(L, 1);
  lua_setfield(L, 1, "__tostring");
  return 0;
}

/* }====================================================== */

/* {======================================================
** The last entry of a field
** ======================================================= */

/* Is the entry one of the key at 2? */
static int has_key(void *ud, const mw_entry *entry) {
  lua_State *L = (lua_State *)ud;
  int same;
  if (!mwi_is_of_field(entry->kind)) return 0;
  if (entry->type[MW_KEY] != MW_TOTHER) return 1;
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
  if (h == MW_NONE || lua_isnil(L, 2)) return 0;
  key = mwb_key(L, s, 2);
  if (key.type != MW_TBOOLEAN && key.type != MW_TINTEGER &&
      key.type != MW_TFLOAT) { /* does the page hold such keys? */
    key.type = MW_TOTHER;
    key.u.i = (int64_t)((uint64_t)mwb_hash_key(L, s, 2) << 32);
  }
  luaL_checkstack(L, LUA_MINSTACK, "why");
  seq = mwi_reader_find(s->engine, first_in_page(s),
                        mw_delivery_last(s->engine) + 1, h, &key, has_key, L);
  if (seq == 0) return 0;
  lua_pushinteger(L, (lua_Integer)seq);
  return 1;
}

/* Is this an entry of the field of the object `h` and the key at 2, which no
** final write has followed?  The owner's values are at 3. */
static int is_of_field(lua_State *L, const mwb_state *s, mw_owner owner,
                       const mw_entry *entry, mw_handle h) {
  int same;
  if (entry->obj != h || !mwi_is_of_field(entry->kind) || mwb_is_hidden(entry))
    return 0;
  mwb_unpack(L, 3, entry, MW_KEY);
  same = lua_rawequal(L, -1, 2);
  lua_pop(L, 1);
  return same && mwi_entry_counts(s->engine, owner, entry, &L);
}

/* Pushes the entry of an open transaction that has a number as a cause, or, for
** 0, the last one that changes the field of the object `h` and the key at 2:
** entry, its numbers as causes, and its place in the order of the program.
** Returns how many these are: 0 if there is none. */
static int push_open(lua_State *L, mwb_state *s, uint32_t number, mw_handle h) {
  const mwi_journal *journal = &s->engine->journal;
  mw_owner owner, found = 0;
  mw_entry last;
  last.seq = 0;
  for (owner = 1; owner <= journal->n_owners; owner++) {
    const mw_entry *entries;
    size_t n;
    if (journal->owners[owner].log == 0) continue;
    entries = mw_owner_entries(s->engine, owner, &n);
    lua_settop(L, 2);
    mwb_push_values(L, mwb_coroutine_of(s, owner));
    while (n > 0 && entries[n - 1].seq > last.seq &&
           !(number != 0 ? mwi_number_of(entries[n - 1].seq) == number
                         : is_of_field(L, s, owner, &entries[n - 1], h)))
      n--;
    if (n == 0 || entries[n - 1].seq <= last.seq) continue;
    last = entries[n - 1];
    found = owner;
  }
  if (found == 0) return 0;
  push_owned(L, s, found, &last, "open");
  push_numbers(L, &last);
  lua_pushinteger(L, (lua_Integer)last.seq);
  return 3;
}

/* open_entry(object, key) -> the last entry of the field that an open
** transaction has, its numbers as causes, and its place in the order of the
** program; or nil: nobody has made a final write since. */
static int open_entry(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  lua_settop(L, 2);
  return (h == MW_NONE) ? 0 : push_open(L, s, 0, h);
}

/* caused_by(number) -> the number of the delivered entry with this number as a
** cause; or the entry of an open transaction, and its numbers */
static int caused_by(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  uint32_t number = (uint32_t)lua_tointeger(L, 1);
  uint64_t seq = mw_delivery_of(s->engine, number, mw_delivery_last(s->engine));
  if (seq == 0) return push_open(L, s, number, MW_NONE);
  lua_pushinteger(L, (lua_Integer)seq);
  return 1;
}

void mwb_push_entries(lua_State *L, mwb_state *s, mw_owner owner) {
  lua_Integer count = 0;
  size_t i, n;
  const mw_entry *entries = mw_owner_entries(s->engine, owner, &n);
  lua_createtable(L, (int)n, 2);
  lua_createtable(L, (int)n, 0);
  lua_createtable(L, (int)n, 0);
  for (i = 0; i < n; i++) {
    const mw_entry *entry = &entries[i];
    int counts;
    if (mwb_is_hidden(entry)) continue;
    counts = mwi_entry_counts(s->engine, owner, entry, &L);
    push_owned(L, s, owner, entry, "rolled_back");
    lua_rawseti(L, -4, ++count);
    push_numbers(L, entry);
    lua_rawseti(L, -3, count);
    lua_pushinteger(L, counts ? (lua_Integer)entry->seq : 0);
    lua_rawseti(L, -2, count);
  }
  lua_setfield(L, -3, "orders");
  lua_setfield(L, -2, "numbers");
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
    if (lua_isnumber(L, -1) && lua_tonumber(L, -1) <= time) {
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
  if (lua_isnil(L, 1)) return 1;
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_settop(L, 2))
    mwb_push_before(L, 1, 2);
  return 1;
}

/* paths(function): the function returns the names of what executes, as an
** array, the outermost first */
static int set_paths(lua_State *L) {
  lua_settop(L, 1);
  mwb_keep(L, mwb_state_of(L), MWB_PATHS);
  return 0;
}

/* keep_taken(function or nil): the function is called with the entries of each
** transaction that is taken back; `numbers` has their numbers as causes, and
** `orders` their places in the order of the program, 0 where a final write has
** followed */
static int keep_taken(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_settop(L, 1);
  s->journal->takes = !lua_isnil(L, 1);
  mwb_keep(L, s, MWB_TAKEN);
  return 0;
}

/* }====================================================== */

void mwb_open_readers(lua_State *L) {
  static const luaL_Reg functions[] = {{"open_reader", open_reader},
                                       {"close_reader", close_reader},
                                       {"reader_state", reader_state},
                                       {"seek_reader", seek_reader},
                                       {"look", make_look},
                                       {"look_entries", look_entries},
                                       {"look_entry", look_entry},
                                       {"entry_text", entry_text},
                                       {"find_entry", find_entry},
                                       {"open_entry", open_entry},
                                       {"caused_by", caused_by},
                                       {"entry_since", entry_since},
                                       {"keep_taken", keep_taken},
                                       {"paths", set_paths},
                                       {"delivered_now", delivered_now},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", close_reader}, {NULL, NULL}};
  static const luaL_Reg entry[] = {{"__index", index_entry},
                                   {"__newindex", set_entry},
                                   {"__pairs", pairs_entry},
                                   {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  mwb_new_meta(L, MWB_READER, "reader", meta, none);
  mwb_new_meta(L, MWB_LOOK, "look", none, none);
  mwb_new_meta(L, MWB_ENTRY, "entry", entry, none);
  mwb_set_funcs(L, functions);
}
