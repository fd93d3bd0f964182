/*
** writers.c - who wrote a field last, when the entry is forgotten.
** SPDX-License-Identifier: MIT
**
**     MWB_WRITERS: slot --> { HANDLE = handle, KEYS = { key = n }, DATA = data,
**                             FREE = the first n that is free }
**
** While there are recorders, each page that goes leaves the last writer of each
** field that is there: in `data`, PARTS places for each n.  What is kept refers
** to no object, so that nothing stays alive: an old value that is an object is
** a handle, and fields under objects have no writers.  A slot that another
** object has got is found by its handle, and used again.
*/
#include "delivery.h"
#include "guard.h"
#include "identity.h"
#include "writers.h"

enum { HANDLE = 1, KEYS, DATA, FREE };

/* The parts of a writer.  NUMBERS has the cause, what the old value is, and the
** kind. */
enum { SEQ, NUMBERS, WHERE, CONTEXT, OLD_VALUE, PARTS };

/* What the old value is. */
enum { PLAIN, AN_OBJECT };

static lua_Integer place_of(lua_Integer n, int part) {
  return (n - 1) * PARTS + part + 1;
}

/* {======================================================
** Keeping
** ======================================================= */

/* Pushes the table of an object, a new one for `make`; or nil. */
static void push_object(lua_State *L, int writers, mw_handle h, int make) {
  int top = lua_gettop(L);
  if (lua_rawgeti(L, writers, (lua_Integer)mw_slot(h)) == LUA_TTABLE) {
    lua_rawgeti(L, -1, HANDLE);
    if ((mw_handle)lua_tointeger(L, -1) == h) {
      lua_settop(L, top + 1);
      return;
    }
  }
  lua_settop(L, top);
  if (!make) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, FREE, 0);
  lua_pushinteger(L, (lua_Integer)h);
  lua_rawseti(L, -2, HANDLE);
  lua_newtable(L);
  lua_rawseti(L, -2, KEYS);
  lua_newtable(L);
  lua_rawseti(L, -2, DATA);
  lua_pushvalue(L, -1);
  lua_rawseti(L, writers, (lua_Integer)mw_slot(h));
}

/* Forgets the writer of the field with the key at `key`; the object's table is
** on the top. */
static void drop_writer(lua_State *L, int key) {
  int object = lua_gettop(L);
  lua_Integer n;
  lua_rawgeti(L, object, KEYS);
  lua_pushvalue(L, key);
  if (lua_rawget(L, -2) == LUA_TNUMBER) {
    n = lua_tointeger(L, -1);
    lua_pushvalue(L, key);
    lua_pushnil(L);
    lua_rawset(L, object + 1);
    lua_rawgeti(L, object, DATA);
    lua_rawgeti(L, object, FREE);
    lua_rawseti(L, -2, place_of(n, SEQ));
    lua_pushnil(L);
    lua_rawseti(L, -2, place_of(n, OLD_VALUE));
    lua_pushinteger(L, n);
    lua_rawseti(L, object, FREE);
  }
  lua_settop(L, object);
}

/* Returns the number of the field with the key at `key`, a new one if it has
** none. */
static lua_Integer need_number(lua_State *L, int object, int key) {
  lua_Integer n;
  lua_rawgeti(L, object, KEYS);
  lua_pushvalue(L, key);
  if (lua_rawget(L, -2) == LUA_TNUMBER) {
    n = lua_tointeger(L, -1);
    lua_settop(L, object);
    return n;
  }
  lua_rawgeti(L, object, DATA);
  if (lua_rawgeti(L, object, FREE) == LUA_TNUMBER) {
    n = lua_tointeger(L, -1);
    lua_rawgeti(L, -2, place_of(n, SEQ));
    lua_rawseti(L, object, FREE);
  } else {
    n = ((lua_Integer)lua_rawlen(L, object + 3) + PARTS - 1) / PARTS + 1;
  }
  lua_pushvalue(L, key);
  lua_pushinteger(L, n);
  lua_rawset(L, object + 1);
  lua_settop(L, object);
  return n;
}

/* Pushes a part of an entry, whose page is at `page`. */
static void push_part(lua_State *L, int page, const mw_entry *entry, int part) {
  if (entry->type[part] == MW_TOTHER)
    lua_rawgeti(L, page, (lua_Integer)(uint32_t)entry->value[part].i);
  else
    mwb_unpack(L, NULL, 0, entry, part);
}

/* Sets a part of a writer to the value on the top, false for nil, and pops the
** value. */
static void set_part(lua_State *L, int data, lua_Integer n, int part) {
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  lua_rawseti(L, data, place_of(n, part));
}

/* Keeps the writer of an entry; the object's table is on the top. */
static void keep_writer(lua_State *L, mwb_state *s, const mw_entry *entry,
                        int page, int key) {
  int object = lua_gettop(L), what = PLAIN, data;
  lua_Integer n = need_number(L, object, key);
  lua_rawgeti(L, object, DATA);
  data = object + 1;
  lua_pushinteger(L, (lua_Integer)entry->seq);
  set_part(L, data, n, SEQ);
  push_part(L, page, entry, MW_OLD);
  if (lua_type(L, -1) >= LUA_TTABLE || lua_isuserdata(L, -1)) {
    mw_handle h = mwb_handle_of(L, s, lua_gettop(L));
    lua_pop(L, 1);
    lua_pushinteger(L, (lua_Integer)h);
    what = AN_OBJECT;
  }
  lua_rawseti(L, data, place_of(n, OLD_VALUE));
  lua_pushinteger(L, (lua_Integer)((uint64_t)entry->cause << 8 |
                                   (unsigned)what << 4 | entry->kind));
  set_part(L, data, n, NUMBERS);
  lua_rawgeti(L, page, (lua_Integer)entry->where);
  set_part(L, data, n, WHERE);
  lua_rawgeti(L, page, (lua_Integer)entry->context);
  set_part(L, data, n, CONTEXT);
  lua_settop(L, object);
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
  enum { PAGE = 3, WRITERS, KEY };
  lua_settop(L, 2);
  mwb_push_page(L, s, end - 1);
  mwb_push(L, s, MWB_WRITERS);
  if (!lua_istable(L, PAGE)) return 0;
  if (at < s->kept_from) at = s->kept_from;
  for (; at < end; at++) {
    mwi_reader_read(s->engine, at, &entry);
    if (at + 1 < end) {
      mwi_reader_read(s->engine, at + 1, &next);
      if (is_same_field(&entry, &next)) continue;
    }
    if (entry.obj == MW_NONE || entry.kind == MW_METATABLE ||
        entry.kind == MW_CALL)
      continue;
    push_part(L, PAGE, &entry, MW_KEY);
    if (lua_type(L, KEY) == LUA_TNUMBER || lua_type(L, KEY) == LUA_TSTRING ||
        lua_type(L, KEY) == LUA_TBOOLEAN) {
      int there = entry.type[MW_NOW] != MW_TABSENT;
      push_object(L, WRITERS, entry.obj, there);
      if (there)
        keep_writer(L, s, &entry, PAGE, KEY);
      else if (lua_istable(L, -1))
        drop_writer(L, KEY);
    }
    lua_settop(L, WRITERS);
  }
  return 0;
}

/* Without memory, the fields of the page have no writers. */
void mwb_keep_page(lua_State *L, mwb_state *s, uint64_t seq) {
  int runs = lua_gc(L, LUA_GCISRUNNING, 0);
  if (s->keepers == 0 || seq <= s->kept_from) return;
  lua_gc(L, LUA_GCSTOP, 0);
  lua_pushcfunction(L, keep_page);
  lua_pushlightuserdata(L, s);
  lua_pushinteger(L, (lua_Integer)seq);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
  if (runs) lua_gc(L, LUA_GCRESTART, 0);
}

void mwb_add_keeper(lua_State *L, mwb_state *s) {
  if (s->keepers == 0) {
    lua_newtable(L);
    mwb_keep(L, s, MWB_WRITERS);
    s->kept_from = s->engine->reader.last + 1;
  }
  s->keepers++;
}

void mwb_remove_keeper(lua_State *L, mwb_state *s) {
  if (--s->keepers > 0) return;
  lua_pushnil(L);
  mwb_keep(L, s, MWB_WRITERS);
}

/* }====================================================== */

/* {======================================================
** Finding
** ======================================================= */

/* Gives the entry on the top the fields of the writer with the number `n` of
** the table at `data`. */
static void fill_entry(lua_State *L, mwb_state *s, int data, lua_Integer n) {
  uint64_t numbers, cause;
  int entry = lua_gettop(L);
  lua_rawgeti(L, data, place_of(n, NUMBERS));
  numbers = (uint64_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  mwb_push_kind(L, s, (int)(numbers & 15));
  lua_setfield(L, entry, "kind");
  lua_rawgeti(L, data, place_of(n, OLD_VALUE));
  if ((numbers >> 4 & 15) == AN_OBJECT) {
    mw_handle h = (mw_handle)lua_tointeger(L, -1);
    lua_pop(L, 1);
    mwb_alive(L, s, h);
  }
  lua_setfield(L, entry, "old");
  lua_rawgeti(L, data, place_of(n, SEQ));
  cause = mw_delivery_of(s->engine, (uint32_t)(numbers >> 8),
                         (uint64_t)lua_tointeger(L, -1));
  lua_setfield(L, entry, "seq");
  if (cause != 0) {
    lua_pushinteger(L, (lua_Integer)cause);
    lua_setfield(L, entry, "because");
  }
  if (lua_rawgeti(L, data, place_of(n, WHERE)) == LUA_TSTRING)
    lua_setfield(L, entry, "where");
  lua_settop(L, entry);
  lua_rawgeti(L, data, place_of(n, CONTEXT));
  mwb_set_context(L, entry);
}

/* kept_writer(object, key, value now) -> the entry of the last writer whose
** entry is forgotten, or nil */
static int kept_writer(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  lua_settop(L, 3);
  mwb_push(L, s, MWB_WRITERS);
  if (h == MW_NONE || !lua_istable(L, 4) || lua_isnil(L, 2)) return 0;
  push_object(L, 4, h, 0);
  if (!lua_istable(L, 5)) return 0;
  lua_rawgeti(L, 5, KEYS);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 6) != LUA_TNUMBER) return 0;
  lua_rawgeti(L, 5, DATA);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_setfield(L, 9, "object");
  lua_pushvalue(L, 2);
  lua_setfield(L, 9, "key");
  lua_pushvalue(L, 3);
  lua_setfield(L, 9, "new");
  fill_entry(L, s, 8, lua_tointeger(L, 7));
  mwb_push(L, s, MWB_ENTRY);
  lua_setmetatable(L, 9);
  return 1;
}

/* }====================================================== */

void mwb_open_writers(lua_State *L) {
  static const luaL_Reg functions[] = {{"kept_writer", kept_writer},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
