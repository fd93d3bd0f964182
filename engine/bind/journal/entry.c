/*
** entry.c - the entries of writes, and the values that entries hold.
** SPDX-License-Identifier: MIT
**
** An entry is made where the contents of an object change: in the shadow, in a
** userdata, in a class.  So when a class's `__newindex` stores under another
** key, the entry has the key of the store, not the key of the assignment.
**
** An entry contains numbers and booleans themselves.  For any other value the
** entry contains a number, and a table maps the number to the value, which
** keeps the value alive.  All open transactions of a coroutine share a table;
** the table of effects is their user value, so that a cycle of effects and
** objects can be collected.
*/
#include "journal.h"

#include <stdlib.h>
#include <string.h>

#include "../base/base.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

/* {======================================================
** Held values
** ======================================================= */

void mwb_push_value(lua_State *L, int values, uint32_t number) {
  if (number == 0)
    lua_pushnil(L);
  else if (lua_istable(L, values)) /* else effects have a few */
    lua_rawgeti(L, values, (lua_Integer)number);
  else
    lua_getiuservalue(L, values, (int)number);
}

uint32_t mwb_hold_value(lua_State *L, mwb_held *held, int table, int index) {
  if (held->few) {
    lua_pushvalue(L, index);
    lua_setiuservalue(L, table, (int)held->n + 1);
    return ++held->n;
  }
  if (held->of != NULL) /* not of effects? */
    mwb_push_values(L, held->of);
  else
    lua_getiuservalue(L, table, 1);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)held->n + 1);
  lua_pop(L, 1);
  return ++held->n;
}

void mwb_pack(lua_State *L, mwb_state *s, mwb_held *held, int table, int index,
              mw_entry *entry, int part) {
  mwb_pack_as(L, s, held, table, index, lua_type(L, index), entry, part);
}

void mwb_unpack(lua_State *L, int values, const mw_entry *entry, int part) {
  const mw_content *value = &entry->value[part];
  switch (entry->type[part]) {
    case MW_TBOOLEAN:
      lua_pushboolean(L, (int)value->i);
      break;
    case MW_TINTEGER:
      lua_pushinteger(L, (lua_Integer)value->i);
      break;
    case MW_TFLOAT:
      lua_pushnumber(L, (lua_Number)value->f);
      break;
    case MW_TOTHER:
      mwb_push_value(L, values, (uint32_t)value->i);
      break;
    default:
      lua_pushnil(L);
  }
}

void mwb_release_values(lua_State *L, mwb_coroutine *t, uint32_t n) {
  uint32_t i;
  if (n < t->held.kept) n = t->held.kept;   /* short strings stay */
  if (n + 1 < t->shared) n = t->shared - 1; /* others need these */
  if (t->held.n <= n) return;
  mwb_push_values(L, t);
  for (i = t->held.n; i > n; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  lua_pop(L, 1);
  t->held.n = n;
  t->held.id = ++t->s->journal->held_ids;
}

/* }====================================================== */

/* {======================================================
** Entries
** ======================================================= */

static const char PLACE = 0;

/* On Windows, the path of one module may have both. */
static int is_separator(char c) { return c == '/' || c == '\\'; }

/* Is the function part of the library, in the directory that `find_place` has
** found? */
static int is_ours(lua_State *L, const lua_Debug *ar) {
  size_t len;
  const char *place;
  int ours;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &PLACE);
  place = lua_tolstring(L, -1, &len);
  ours = place != NULL && strncmp(ar->source, place, len) == 0 &&
         is_separator(ar->source[len]);
  lua_pop(L, 1);
  return ours;
}

/* Remembers the directory of the library's Lua files: the directory of the
** caller's file. */
static int find_place(lua_State *L) {
  lua_Debug ar;
  const char *end;
  if (!lua_getstack(L, 1, &ar)) return 0;
  lua_getinfo(L, "S", &ar);
  end = ar.source + strlen(ar.source);
  while (end > ar.source && !is_separator(*end)) end--;
  if (end == ar.source) return 0; /* from no file? */
  lua_pushlstring(L, ar.source, (size_t)(end - ar.source));
  lua_rawsetp(L, LUA_REGISTRYINDEX, &PLACE);
  return 0;
}

int mwb_find_caller(lua_State *L, lua_Debug *ar) {
  int level;
  for (level = 0; lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "Sl", ar);
    if (ar->currentline > 0 && !is_ours(L, ar)) return 1; /* the program's? */
  }
  return 0;
}

/* place() -> "file:line" of the statement of the program that runs, or nil */
static int place(lua_State *L) {
  lua_Debug ar;
  if (!mwb_find_caller(L, &ar)) return 0;
  lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  return 1;
}

/* Is the text at the top the place of the function? */
static int is_place(lua_State *L, const lua_Debug *ar) {
  size_t file = strlen(ar->short_src);
  const char *text = lua_tostring(L, -1);
  return text != NULL && strncmp(text, ar->short_src, file) == 0 &&
         text[file] == ':' && atoi(text + file + 1) == ar->currentline;
}

uint32_t mwb_hold_where(lua_State *L, mwb_state *s, mwb_held *held) {
  lua_Debug ar;
  int level, top = lua_gettop(L);
  uint32_t number = 0;
  luaL_checkstack(L, LUA_MINSTACK, "cannot note");
  mwb_push(L, s, MWB_SITES);
  for (level = 0; number == 0 && lua_getstack(L, level, &ar); level++) {
    uintptr_t at;
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue; /* a function of C? */
    at = ((uintptr_t)ar.source >> 4) + (uintptr_t)ar.currentline;
    at = at % MWB_SITES_KNOWN + 1;
    lua_rawgeti(L, top + 1, (lua_Integer)at);
    if (!is_place(L, &ar)) { /* not this place's text? */
      lua_settop(L, top + 1);
      if (is_ours(L, &ar)) continue;
      lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
      lua_pushvalue(L, -1);
      lua_rawseti(L, top + 1, (lua_Integer)at);
    }
    number = mwb_hold_string(L, s, held, 0, top + 2);
  }
  lua_settop(L, top);
  return number;
}

static mw_owner owner_of(const mwb_entry *entry) {
  return (entry->tx == NULL) ? 0 : entry->tx->its->number;
}

/* Moves when an entry is appended or delivered, and when a page goes. */
static uint64_t stamp_of(const mwb_state *s) {
  return s->engine->journal.seq + s->engine->reader.last + s->journal->held_ids;
}

static int is_prepared(const mwb_state *s, const mwb_entry *entry) {
  if (entry->tx == NULL) return entry->stamp == stamp_of(s); /* a final one? */
  return entry->tx->begun.order == entry->order &&
         (entry->has_field || !s->engine->journal.mixed);
}

/* Sets the field, and reserves memory.  A field of the owner's is kept. */
static void reserve(lua_State *L, mwb_state *s, mwb_entry *entry) {
  mw_engine *e = s->engine;
  mwb_check(L, mw_journal_reserve(e, owner_of(entry), &L));
  if (!mw_journal_is_mixed(e)) return; /* does nobody ask for fields? */
  if (!mwi_no_field(entry->its.kind, &entry->field)) /* has it a key? */
    entry->field =
        (entry->tx != NULL) ? mwb_key_to_keep(L, s, KEY) : mwb_key(L, s, KEY);
  entry->has_field = 1;
}

/* Fills in what the entry holds.  The page of an entry that is delivered at
** once holds the object, too. */
static void hold_parts(lua_State *L, mwb_state *s, mwb_entry *entry,
                       mwb_held *held) {
  mw_entry *its = &entry->its;
  int has_key = mwi_kinds[its->kind].aspect != MWI_OF_CLASS;
  if (has_key) mwb_pack(L, s, held, 0, KEY, its, MW_KEY);
  mwb_pack(L, s, held, 0, entry->old, its, MW_OLD);
  mwb_pack(L, s, held, 0, VALUE, its, MW_NOW);
  its->where = mwb_wants_where(s, entry->tx) ? mwb_hold_where(L, s, held) : 0;
  its->context = mwb_is_read(s) ? mwb_hold_context(L, s, held) : 0;
  its->cause = mwb_cause(L, s);
  if (entry->tx != NULL) return; /* is it a transaction's? */
  if (has_key) mwb_mark_key(L, s, KEY, its);
  if (mwb_alive(L, s, its->obj))
    mwb_hold_in_page(L, s, held, its->obj, lua_gettop(L));
  lua_pop(L, 1);
}

void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int kind, int old,
                 uint64_t number, mwb_entry *entry) {
  int changes = 1;
  memset(entry, 0, sizeof(*entry));
  entry->its.seq = number;
  entry->its.obj = h;
  entry->its.kind = (uint8_t)kind;
  entry->kind = kind;
  entry->old = old;
  if (!mwb_appends(s)) return;
  if (mwb_is_read(s)) mwb_make_ready(L, s);
  entry->tx = mwb_transaction_now(L, s);
  if (entry->tx != NULL) {
    entry->order = entry->tx->begun.order;
    hold_parts(L, s, entry, &entry->tx->of->held);
  } else if (mwb_is_read(s)) { /* is it delivered at once? */
    hold_parts(L, s, entry, mwb_need_page(L, s));
  }
  if (entry->tx == NULL && !mwb_is_read(s)) { /* does it only settle others? */
    if (s->engine->journal.entries == 0) return; /* are there none? */
  } else if (kind == MW_UPDATE) {                /* a plain write? */
    changes = mwb_set_kind(&entry->its);
  }
  if (!changes && (entry->tx == NULL ? s->engine->journal.entries == 0
                                     : !mwb_hides(s, entry->tx))) /* no need? */
    return;
  entry->wanted = 1;
  reserve(L, s, entry);
  entry->stamp = stamp_of(s);
}

void mwb_append_entry(lua_State *L, mwb_state *s, mwb_entry *entry) {
  mw_engine *e = s->engine;
  if (e == NULL || !mwb_appends(s)) return; /* closed, or not recorded now? */
  if (entry->kind != MW_UPDATE && !is_prepared(s, entry)) /* code ran since? */
    mwb_prepare(L, s, entry->its.obj, entry->kind, entry->old, entry->its.seq,
                entry);
  if (!entry->wanted) return;
  mwb_check(L, mw_journal_append(e, owner_of(entry), &entry->its,
                                 entry->has_field ? &entry->field : NULL, &L));
}

int mwb_push_aspect(lua_State *L, mwb_state *s, int kind) {
  enum mwi_aspect aspect = mwi_kinds[kind].aspect;
  if (aspect == MWI_OF_CLASS) mwb_push_class(L, OBJECT);
  if (aspect == MWI_OF_STATE) mwb_push_state_of(L, s);
  return aspect != MWI_OF_FIELD;
}

void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h,
                      uint64_t number) {
  mwb_entry entry;
  mwb_prepare(L, s, h, MW_METATABLE, OLD, number, &entry);
  mwb_set_class(L, s, OBJECT, VALUE);
  if (mw_tree_has(s->engine, h)) mwb_note_classes(L, s, OBJECT, NULL);
  mwb_append_entry(L, s, &entry);
}

/* note_call(userdata, name, old state, new state): appends the entry of a
** mutator's call */
static int append_call(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_entry entry;
  int old = 4;
  lua_settop(L, old);
  lua_insert(L, VALUE); /* the new state before the old one */
  mwb_prepare(L, s, mwb_identify(L, s, "note_call", OBJECT, 1), MW_CALL, old, 0,
              &entry);
  mwb_append_entry(L, s, &entry);
  return 0;
}

void mwb_open_entries(lua_State *L) {
  static const luaL_Reg functions[] = {{"find_place", find_place},
                                       {"place", place},
                                       {"note_call", append_call},
                                       {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, mwb_state_of(L), MWB_SITES);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
