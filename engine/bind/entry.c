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
** keeps the value alive.  The journal's table is in the registry from the first
** reader's begin to the last reader's end; the table of effects is their user
** value, so that a cycle of effects and objects can be collected.
*/
#include "entry.h"

#include <string.h>

#include "identity.h"
#include "shadow.h"
#include "trap.h"
#include "tree.h"

/* {======================================================
** Held values
** ======================================================= */

void mwb_push_held(lua_State *L, const mwb_state *s, int index) {
  if (index == 0)
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->held_at);
  else
    lua_getiuservalue(L, index, 1);
}

uint32_t mwb_hold_value(lua_State *L, const mwb_state *s, mwb_held *held,
                        int table, int index) {
  mwb_push_held(L, s, table);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)held->n + 1);
  lua_pop(L, 1);
  return ++held->n;
}

void mwb_pack(lua_State *L, mwb_state *s, mwb_held *held, int table, int index,
              mw_entry *entry, int part) {
  mwb_pack_as(L, s, held, table, index, lua_type(L, index), entry, part);
}

void mwb_unpack(lua_State *L, const mwb_state *s, int table,
                const mw_entry *entry, int part) {
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
      mwb_push_held(L, s, table);
      lua_rawgeti(L, -1, (lua_Integer)value->i);
      lua_replace(L, -2);
      break;
    default:
      lua_pushnil(L);
  }
}

void mwb_new_held(lua_State *L, mwb_state *s) {
  if (s->held_at == 0) {
    s->held_at = luaL_ref(L, LUA_REGISTRYINDEX);
  } else {
    lua_rawseti(L, LUA_REGISTRYINDEX, s->held_at);
  }
  s->held.n = 0;
  s->held.id = ++s->held_ids;
}

void mwb_release_held(lua_State *L, mwb_state *s, uint32_t n) {
  uint32_t i;
  if (s->held.n <= n) return;
  mwb_push_held(L, s, 0);
  for (i = s->held.n; i > n; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  lua_pop(L, 1);
  s->held.n = n;
  s->held.id = ++s->held_ids;
}

/* }====================================================== */

/* {======================================================
** Entries
** ======================================================= */

static const char PLACE = 0;

/* Is the function part of the library, in the directory that `find_place` has
** found? */
static int is_ours(lua_State *L, const lua_Debug *ar) {
  size_t len;
  const char *place;
  int ours;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &PLACE);
  place = lua_tolstring(L, -1, &len);
  ours = place != NULL && strncmp(ar->source, place, len) == 0;
  lua_pop(L, 1);
  return ours;
}

/* Remembers the directory of the library's Lua files: the directory of the
** caller's file. */
static void find_place(lua_State *L) {
  lua_Debug ar;
  const char *end;
  if (!lua_getstack(L, 1, &ar)) return;
  lua_getinfo(L, "S", &ar);
  end = strrchr(ar.source, '/');
  if (end == NULL) return;
  lua_pushlstring(L, ar.source, (size_t)(end + 1 - ar.source));
  lua_rawsetp(L, LUA_REGISTRYINDEX, &PLACE);
}

/* Returns the number of the text "file:line" of the nearest function of the
** program.  To make the text may run finalisers, and a finaliser may close the
** journal, so this comes before the values of an entry are held. */
static uint32_t where(lua_State *L, mwb_state *s) {
  lua_Debug ar;
  int level;
  uint32_t number = 0;
  luaL_checkstack(L, LUA_MINSTACK, "cannot note");
  for (level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || is_ours(L, &ar)) continue;
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
    if (mwb_appends(s))
      number = mwb_hold_string(L, s, &s->held, 0, lua_gettop(L),
                               lua_tostring(L, -1));
    lua_pop(L, 1);
    break;
  }
  return number;
}

void mwb_begin_entry(lua_State *L, mwb_state *s, mw_entry *entry) {
  memset(entry, 0, sizeof(*entry));
  if (s->wheres > 0) entry->where = where(L, s);
}

void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int key, int value,
                 int old, mw_entry *entry) {
  if (!mwb_appends(s)) return; /* a finaliser has closed the journal */
  mwb_pack(L, s, &s->held, 0, key, entry, MW_KEY);
  mwb_pack(L, s, &s->held, 0, old, entry, MW_OLD);
  mwb_pack(L, s, &s->held, 0, value, entry, MW_NOW);
  mwb_complete(L, s, h, entry);
}

void mwb_hold_object(lua_State *L, mwb_state *s, int index,
                     const mw_entry *entry) {
  if (entry->obj != MW_NONE) mwb_hold_value(L, s, &s->held, 0, index);
}

static void prepare_class(lua_State *L, mwb_state *s, mw_handle h,
                          mw_entry *entry) {
  mwb_begin_entry(L, s, entry);
  if (!mwb_appends(s)) return; /* a finaliser has closed the journal */
  mwb_pack(L, s, &s->held, 0, OLD, entry, MW_OLD);
  mwb_pack(L, s, &s->held, 0, VALUE, entry, MW_NOW);
  entry->kind = MW_METATABLE;
  mwb_check(L, mw_journal_reserve(s->engine));
  entry->obj = h;
}

void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h) {
  mw_entry entry;
  uint32_t id;
  int appends = mwb_appends(s);
  if (appends) prepare_class(L, s, h, &entry);
  id = s->held.id;
  mwb_set_class(L, s, OBJECT, VALUE);
  if (mw_tree_has(s->engine, h)) mwb_note_classes(L, s, OBJECT);
  if (!appends) return;
  if (s->held.id != id) prepare_class(L, s, h, &entry);
  mwb_check(L, mw_journal_append(s->engine, &entry));
}

/* }====================================================== */

/* {======================================================
** For the library's Lua files
** ======================================================= */

/* note(object, key, old, new): appends the entry of a write to an object that
** is not intercepted; without a key, of a change of class */
static int append_write(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_entry entry;
  mw_handle h;
  lua_settop(L, 4);
  h = mwb_identify(L, s, "note", 1, 1);
  mwb_begin_entry(L, s, &entry);
  mwb_prepare(L, s, h, 2, 4, 3, &entry);
  mwb_hold_object(L, s, 1, &entry);
  if (lua_isnil(L, 2)) entry.kind = MW_METATABLE;
  mwb_check(L, mw_journal_append(s->engine, &entry));
  return 0;
}

/* position() -> mark, number of held values; later entries and values come
** after both */
static int position(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  lua_pushinteger(L, (lua_Integer)s->engine->journal.n);
  lua_pushinteger(L, (lua_Integer)s->held.n);
  return 2;
}

/* record([where]) -> mark, number of held values */
static int open_journal(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int wheres = lua_toboolean(L, 1);
  mwb_absorb_metas(L, s);
  if (wheres) find_place(L);
  if (!mw_journal_is_open(s->engine)) lua_newtable(L); /* runs finalisers */
  if (!mw_journal_is_open(s->engine)) {
    mwb_let_go(L, s, SIZE_MAX); /* writes to what has left are not recorded */
    mwb_new_held(L, s);
  }
  s->wheres += wheres;
  mw_journal_open(s->engine);
  mwb_need(s, MWB_APPENDS, 1);
  return position(L);
}

/* unrecord([where]) */
static int close_journal(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (s->engine == NULL) return 0;
  s->wheres -= lua_toboolean(L, 1);
  mw_journal_close(s->engine);
  mwb_need(s, MWB_APPENDS, mw_journal_is_open(s->engine));
  if (mw_journal_is_open(s->engine)) return 0;
  if (mwb_has_orphans(s)) s->pending = 1;
  lua_pushboolean(L, 0);
  lua_rawseti(L, LUA_REGISTRYINDEX, s->held_at);
  return 0;
}

/* }====================================================== */

void mwb_open_entries(lua_State *L) {
  static const luaL_Reg functions[] = {{"record", open_journal},
                                       {"unrecord", close_journal},
                                       {"position", position},
                                       {"note", append_write},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
