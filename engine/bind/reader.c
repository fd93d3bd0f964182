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
** them; what the entries hold it shares with other looks.  An entry is a table
** that gets its fields when the first one is read.  So whoever looks at a few of
** many entries pays for these.
*/
#include <string.h>

#include "class.h"
#include "delivery.h"
#include "guard.h"
#include "identity.h"
#include "key.h"
#include "trace.h"

/* {======================================================
** Readers
** ======================================================= */

typedef struct reader {
  mwb_state *s;
  mw_reader id; /* 0: closed */
  int where;    /* does it want places? */
} reader;

/* open_reader(capacity, whole, where) -> reader */
static int open_reader(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer capacity = luaL_checkinteger(L, 1);
  int whole = lua_toboolean(L, 2), where = lua_toboolean(L, 3);
  reader *r = (reader *)lua_newuserdatauv(L, sizeof(*r), 0);
  r->s = s;
  r->id = 0;
  r->where = where;
  mwb_push(L, s, MWB_READER);
  lua_setmetatable(L, -2);
  if (capacity > UINT32_MAX / 2) capacity = UINT32_MAX / 2;
  r->id = mw_reader_open(s->engine, (uint32_t)capacity, whole ? MW_WHOLE : 0);
  if (r->id == 0) mwb_check(L, MW_NOMEM);
  if (where) s->wheres++;
  mwb_need(s, MWB_APPENDS, 1);
  return 1;
}

static reader *reader_at(lua_State *L) { return (reader *)lua_touserdata(L, 1); }

/* close_reader(reader) */
static int close_reader(lua_State *L) {
  reader *r = reader_at(L);
  mwb_state *s = r->s;
  if (r->id == 0 || s->engine == NULL) return 0;
  mw_reader_close(s->engine, r->id);
  r->id = 0;
  if (r->where) s->wheres--;
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  return 0;
}

/* reader_state(reader) -> number of the next entry, how many were lost, number
** of the last entry */
static int reader_state(lua_State *L) {
  mwb_state *s = mwb_enter(L);
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

/* delivered() -> numbers of the first entry that is kept, and of the last */
static int delivered(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_pushinteger(L, (lua_Integer)mw_delivery_first(s->engine));
  lua_pushinteger(L, (lua_Integer)mw_delivery_last(s->engine));
  return 2;
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

typedef struct look {
  uint32_t n;
  uint64_t first_page;
  mw_entry entries[1];
} look;

/* Pushes a look at the entries from `first` to `end`, without the last. */
static look *push_look(lua_State *L, mwb_state *s, uint64_t first,
                       uint64_t end) {
  mw_engine *e = s->engine;
  size_t n = (size_t)(end - first);
  uint64_t page;
  look *its;
  lua_newtable(L);
  its = (look *)lua_newuserdatauv(L, offsetof(look, entries) +
                                         n * sizeof(mw_entry), 1);
  its->n = 0;
  mwb_push(L, s, MWB_LOOK);
  lua_setmetatable(L, -2);
  lua_insert(L, -2);
  its->first_page = first / MWI_READER_PAGE;
  for (page = its->first_page; n > 0 && page <= (end - 1) / MWI_READER_PAGE;
       page++) {
    mwb_push_page(L, s, page * MWI_READER_PAGE);
    lua_rawseti(L, -2, (lua_Integer)(page - its->first_page + 1));
  }
  lua_setiuservalue(L, -2, 1);
  for (; first < end; first++)
    if (mw_delivery_entry(e, first, &its->entries[its->n]) == MW_OK) its->n++;
  return its;
}

/* look(first, last) -> look, how many entries */
static int make_look(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  uint64_t first = (uint64_t)luaL_checkinteger(L, 1);
  uint64_t end = (uint64_t)luaL_checkinteger(L, 2) + 1;
  uint64_t oldest = mw_delivery_first(s->engine);
  if (first < oldest) first = oldest;
  if (end > mw_delivery_last(s->engine) + 1)
    end = mw_delivery_last(s->engine) + 1;
  if (end < first) end = first;
  lua_pushinteger(L, (lua_Integer)push_look(L, s, first, end)->n);
  return 2;
}

/* Pushes the page of an entry of the look at `index`. */
static void push_page_of(lua_State *L, int index, const look *its,
                         const mw_entry *entry) {
  lua_getiuservalue(L, index, 1);
  lua_rawgeti(L, -1,
              (lua_Integer)(entry->seq / MWI_READER_PAGE - its->first_page + 1));
  lua_replace(L, -2);
}

/* Pushes a part of an entry, whose page is at `page`. */
static void push_part(lua_State *L, int page, const mw_entry *entry, int part) {
  if (entry->type[part] == MW_TOTHER)
    lua_rawgeti(L, page, (lua_Integer)(uint32_t)entry->value[part].i);
  else
    mwb_unpack(L, NULL, 0, entry, part);
}

/* Pushes an entry, still without fields. */
static void push_entry(lua_State *L, const mwb_state *s, int look_at,
                       uint32_t i) {
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, look_at);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, (lua_Integer)i + 1);
  lua_rawseti(L, -2, 2);
  mwb_push(L, s, MWB_ENTRY);
  lua_setmetatable(L, -2);
}

/* Upvalues of `next_entry`, after state and objects. */
enum { LOOK = 3, NUMBER };

static int next_entry(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  const look *its =
      (const look *)lua_touserdata(L, lua_upvalueindex(LOOK));
  lua_Integer i = lua_tointeger(L, lua_upvalueindex(NUMBER));
  if ((uint64_t)i >= its->n) return 0;
  push_entry(L, s, lua_upvalueindex(LOOK), (uint32_t)i);
  lua_pushinteger(L, i + 1);
  lua_replace(L, lua_upvalueindex(NUMBER));
  return 1;
}

/* look_entries(look) -> iterator of entries */
static int look_entries(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, next_entry, NUMBER);
  return 1;
}

/* look_entry(look, i) -> object, key, old, new, kind, seq */
static int look_entry(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const look *its = (const look *)lua_touserdata(L, 1);
  lua_Integer i = lua_tointeger(L, 2);
  const mw_entry *entry = &its->entries[i - 1];
  int part;
  lua_settop(L, 1);
  push_page_of(L, 1, its, entry);
  mwb_alive(L, s, entry->obj);
  for (part = 0; part < MW_PARTS; part++) push_part(L, 2, entry, part);
  mwb_push_kind(L, s, entry->kind);
  lua_pushinteger(L, (lua_Integer)entry->seq);
  return 6;
}

/* }====================================================== */

/* {======================================================
** Entries
** ======================================================= */

/* Sets a field of the entry at 1 to the value on the top, and pops that. */
static void set_field(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_insert(L, -2);
  lua_rawset(L, 1);
}

/* Sets the fields of the context on the top, and pops that.  Whoever changes
** the array of scopes changes only his own. */
static void set_context(lua_State *L) {
  static const char *const names[] = {"epoch", "transaction", "origin", NULL};
  int i, context = lua_gettop(L);
  lua_Integer n;
  for (i = 0; lua_istable(L, context) && names[i] != NULL; i++) {
    lua_getfield(L, context, names[i]);
    set_field(L, names[i]);
  }
  if (lua_istable(L, context) &&
      lua_getfield(L, context, "scope") == LUA_TTABLE) {
    lua_newtable(L);
    for (n = (lua_Integer)lua_rawlen(L, -2); n > 0; n--) {
      lua_rawgeti(L, -2, n);
      lua_rawseti(L, -2, n);
    }
    set_field(L, "scope");
  }
  lua_settop(L, context - 1);
}

/* Gives the entry at 1 its fields.  Returns 0 if it has them. */
static int fill_entry(lua_State *L, mwb_state *s) {
  static const char *const names[] = {"key", "old", "new"};
  const mw_entry *entry;
  uint64_t cause;
  int part, at = lua_gettop(L) + 1;
  const look *its;
  if (lua_rawgeti(L, 1, 1) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    return 0;
  }
  its = (const look *)lua_touserdata(L, at);
  lua_rawgeti(L, 1, 2);
  entry = &its->entries[lua_tointeger(L, -1) - 1];
  push_page_of(L, at, its, entry);
  lua_replace(L, at + 1);
  if (mwb_alive(L, s, entry->obj))
    set_field(L, "object");
  else
    lua_pop(L, 1);
  for (part = 0; part < MW_PARTS; part++) {
    push_part(L, at + 1, entry, part);
    set_field(L, names[part]);
  }
  mwb_push_kind(L, s, entry->kind);
  set_field(L, "kind");
  if (entry->where != 0) {
    lua_rawgeti(L, at + 1, (lua_Integer)entry->where);
    set_field(L, "where");
  }
  if (entry->context != 0) {
    lua_rawgeti(L, at + 1, (lua_Integer)entry->context);
    set_context(L);
  }
  cause = (s->engine == NULL)
              ? 0
              : mw_delivery_of(s->engine, entry->cause, entry->seq);
  if (cause != 0) {
    lua_pushinteger(L, (lua_Integer)cause);
    set_field(L, "because");
  }
  lua_pushinteger(L, (lua_Integer)entry->seq);
  set_field(L, "seq");
  lua_settop(L, at - 1);
  lua_pushnil(L);
  lua_rawseti(L, 1, 1);
  lua_pushnil(L);
  lua_rawseti(L, 1, 2);
  return 1;
}

static int index_entry(lua_State *L) {
  lua_settop(L, 2);
  if (!fill_entry(L, mwb_state_of(L))) return 0;
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

/* is_entry(value) */
static int is_entry(lua_State *L) {
  lua_settop(L, 1);
  mwb_push(L, mwb_state_of(L), MWB_ENTRY);
  lua_pushboolean(L, lua_getmetatable(L, 1) && lua_rawequal(L, -1, 2));
  return 1;
}

/* }====================================================== */

/* {======================================================
** The last entry of a field
** ======================================================= */

/* Is the entry one of the key at 2? */
static int has_key(void *ud, const mw_entry *entry) {
  lua_State *L = (lua_State *)ud;
  int same;
  if (entry->kind == MW_METATABLE || entry->kind == MW_CALL) return 0;
  if (entry->type[MW_KEY] != MW_TOTHER) return 1;
  mwb_push_page(L, mwb_state_of(L), entry->seq);
  lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[MW_KEY].i);
  same = lua_rawequal(L, -1, 2);
  lua_pop(L, 2);
  return same;
}

/* find_entry(object, key, before) -> number of the last entry of the field below
** `before`, or nil */
static int find_entry(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  uint64_t before = (uint64_t)lua_tointeger(L, 3), seq;
  mw_entry packed;
  mw_value key;
  lua_settop(L, 2);
  if (h == MW_NONE || lua_isnil(L, 2)) return 0;
  packed.type[MW_KEY] = MW_TOTHER;
  packed.value[MW_KEY].i = 0;
  if (lua_type(L, 2) == LUA_TNUMBER)
    mwb_pack_number(L, 2, &packed, MW_KEY);
  else if (lua_type(L, 2) == LUA_TBOOLEAN) {
    packed.type[MW_KEY] = MW_TBOOLEAN;
    packed.value[MW_KEY].i = lua_toboolean(L, 2);
  }
  mwb_mark_key(L, s, 2, &packed);
  key.type = packed.type[MW_KEY];
  key.u = packed.value[MW_KEY];
  luaL_checkstack(L, LUA_MINSTACK, "why");
  seq = mw_delivery_find(s->engine, before, h, &key, has_key, L);
  if (seq == 0) return 0;
  lua_pushinteger(L, (lua_Integer)seq);
  return 1;
}

/* }====================================================== */

void mwb_open_readers(lua_State *L) {
  static const luaL_Reg functions[] = {{"open_reader", open_reader},
                                       {"close_reader", close_reader},
                                       {"reader_state", reader_state},
                                       {"seek_reader", seek_reader},
                                       {"delivered", delivered},
                                       {"look", make_look},
                                       {"look_entries", look_entries},
                                       {"look_entry", look_entry},
                                       {"entry_text", entry_text},
                                       {"is_entry", is_entry},
                                       {"find_entry", find_entry},
                                       {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__gc", close_reader}, {"__close", close_reader}, {NULL, NULL}};
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
