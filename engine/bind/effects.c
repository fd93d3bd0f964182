/*
** effects.c - effects: the entries of a journal as a value.
** SPDX-License-Identifier: MIT
**
**     effects --> n | entry | entry | entry ...
**        | user value
**        +------> [1] = "x", [2] = { ... }, ...
**
** Effects refer to the written objects by handle and do not keep the objects
** alive.  Effects never change once they are made.
*/
#include <string.h>

#include "cell.h"
#include "class.h"
#include "entry.h"
#include "guard.h"
#include "identity.h"
#include "shadow.h"

/* Pushes new effects with room for `n` entries and, as user value, the table on
** the top. */
static mwb_effects *new_effects(lua_State *L, mwb_state *s, size_t n) {
  size_t size = offsetof(mwb_effects, entries) + n * sizeof(mw_entry);
  mwb_effects *fx;
  if (n > (SIZE_MAX - sizeof(mwb_effects)) / sizeof(mw_entry))
    mwb_check(L, MW_FULL);
  fx = (mwb_effects *)lua_newuserdatauv(L, size, 1);
  fx->n = 0;
  fx->held.n = 0;
  fx->held.id = ++s->held_ids;
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  mwb_push(L, mwb_state_of(L), MWB_EFFECTS);
  lua_setmetatable(L, -2);
  return fx;
}

static mwb_effects *to_effects(lua_State *L, int index) {
  int ok;
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
    return NULL;
  mwb_push(L, mwb_state_of(L), MWB_EFFECTS);
  ok = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return ok ? (mwb_effects *)lua_touserdata(L, index) : NULL;
}

mwb_effects *mwb_check_effects(lua_State *L, const char *name) {
  mwb_effects *fx = to_effects(L, 1);
  if (fx == NULL)
    luaL_error(L, "calling '%s' on bad self (effects expected, got %s)", name,
               mwb_type_name(L, 1));
  return fx;
}

/* Copies an entry of the journal, and the values of the entry, to the effects
** at the top. */
static void copy_entry(lua_State *L, mwb_state *s, mwb_effects *fx, size_t i) {
  mw_entry entry, *copy = &fx->entries[fx->n];
  int part, top = lua_gettop(L);
  size_t n;
  entry = *mw_journal_entries(s->engine, i, &n);
  *copy = entry;
  for (part = 0; part < MW_PARTS; part++) {
    if (entry.type[part] != MW_TOTHER) continue;
    mwb_unpack(L, s, 0, &entry, part);
    mwb_pack(L, s, &fx->held, top, top + 1, copy, part);
    lua_pop(L, 1);
  }
  if (mwb_alive(L, s, entry.obj) && mwb_is_cell(L, s, top + 1))
    mwb_hold_value(L, s, &fx->held, top, top + 1); /* keeps the cell alive */
  lua_settop(L, top);
  if (entry.where != 0) {
    mwb_push_held(L, s, 0);
    lua_rawgeti(L, -1, (lua_Integer)entry.where);
    copy->where = mwb_hold_string(L, s, &fx->held, top, top + 2,
                                  lua_tostring(L, top + 2));
    lua_pop(L, 2);
  }
  fx->n++;
}

/* cut(mark) -> effects of the entries after the mark.  The last open journal
** gives its table of values to the effects; else the values are copied. */
static int cut(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  size_t mark = (size_t)lua_tointeger(L, 1), n, now, i;
  const mw_entry *entries;
  int last = s->engine->journal.readers == 1;
  mwb_effects *fx;
  mwb_absorb_metas(L, s);
  mw_journal_entries(s->engine, mark, &n);
  if (last)
    mwb_push_held(L, s, 0);
  else
    lua_newtable(L);
  fx = new_effects(L, s, n);
  for (i = 0; i < n; i++) { /* n: finalisers may append more entries */
    entries = mw_journal_entries(s->engine, mark, &now);
    if (entries[i].obj == MW_NONE) continue;
    if (last)
      fx->entries[fx->n++] = entries[i];
    else
      copy_entry(L, s, fx, mark + i);
  }
  return 1;
}

static const char *const fields[] = {"key", "old", "new"};

/* Marks the old or new value as absent if the entry's kind says so.  Raw writes
** are to tables, where nil is absent. */
static void set_absent(mw_entry *entry, int part, int kind) {
  if (entry->kind == kind ||
      (entry->kind == MW_RAW && entry->type[part] == MW_TNIL))
    entry->type[part] = MW_TABSENT;
}

/* Fills in an entry from the fields of the table at `list`. */
static void read_entry(lua_State *L, mwb_state *s, mwb_effects *fx, int table,
                       int list) {
  mw_entry *entry = &fx->entries[fx->n];
  int top = lua_gettop(L), part;
  memset(entry, 0, sizeof(*entry));
  for (part = 0; part < MW_PARTS; part++) {
    lua_getfield(L, list, fields[part]);
    mwb_pack(L, s, &fx->held, table, top + 1, entry, part);
    lua_settop(L, top);
  }
  lua_getfield(L, list, "kind");
  entry->kind = (uint8_t)mwb_kind(L, top + 1);
  set_absent(entry, MW_OLD, MW_INSERT);
  set_absent(entry, MW_NOW, MW_DELETE);
  if (lua_getfield(L, list, "where") == LUA_TSTRING)
    entry->where = mwb_hold_string(L, s, &fx->held, table, top + 2,
                                   lua_tostring(L, top + 2));
  lua_getfield(L, list, "object");
  if (mwb_is_cell(L, s, top + 3))
    mwb_hold_value(L, s, &fx->held, table, top + 3);
  entry->obj = mwb_identify(L, s, "effects", top + 3, 1);
  lua_settop(L, top);
  fx->n++;
}

/* effects(array of entries) -> effects, which keep written cells alive */
static int make_effects(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  size_t n = lua_rawlen(L, 1), i;
  mwb_effects *fx;
  lua_settop(L, 1);
  lua_newtable(L);
  fx = new_effects(L, s, n);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i);
    read_entry(L, s, fx, 2, 3);
    lua_settop(L, 2);
  }
  return 1;
}

static int effects_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mwb_check_effects(L, "len")->n);
  return 1;
}

/* is_effects(value) */
static int is_effects(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, to_effects(L, 1) != NULL);
  return 1;
}

/* entry(effects, i) -> object, key, old, new, kind, where; a dead object is
** nil */
static int get_entry(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_effects *fx = mwb_check_effects(L, "entries");
  const mw_entry *entry;
  lua_Integer i = lua_tointeger(L, 2);
  int part;
  lua_settop(L, 1);
  if (i < 1 || (size_t)i > fx->n) return 0;
  entry = &fx->entries[i - 1];
  if (!mwb_alive(L, s, entry->obj)) {
    lua_settop(L, 1);
    lua_pushnil(L);
  }
  for (part = 0; part < MW_PARTS; part++) mwb_unpack(L, s, 1, entry, part);
  mwb_push_kind(L, s, entry->kind);
  lua_getiuservalue(L, 1, 1);
  lua_rawgeti(L, -1, (lua_Integer)entry->where);
  lua_replace(L, -2);
  return 6;
}

/* checksum(string) -> its CRC-32 */
static int checksum(lua_State *L) {
  size_t len, i;
  const char *bytes = luaL_checklstring(L, 1, &len);
  uint32_t sum = UINT32_MAX;
  int bit;
  for (i = 0; i < len; i++) {
    sum ^= (unsigned char)bytes[i];
    for (bit = 0; bit < 8; bit++)
      sum = (sum >> 1) ^ ((sum & 1) ? UINT32_C(0xEDB88320) : 0);
  }
  lua_pushinteger(L, (lua_Integer)~sum);
  return 1;
}

void mwb_open_effects(lua_State *L) {
  static const luaL_Reg functions[] = {{"cut", cut},
                                       {"effects", make_effects},
                                       {"is_effects", is_effects},
                                       {"entry", get_entry},
                                       {"checksum", checksum},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"len", effects_len}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__len", effects_len}, {NULL, NULL}};
  mwb_new_meta(L, MWB_EFFECTS, "effects", meta, methods);
  mwb_set_funcs(L, functions);
  mwb_push(L, mwb_state_of(L), MWB_EFFECTS);
  lua_getfield(L, -1, "__index");
  lua_setfield(L, -3, "effects_methods");
  lua_pop(L, 1);
}
