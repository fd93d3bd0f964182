/*
** effects.c - effects: the entries of a transaction as a value.
** SPDX-License-Identifier: MIT
**
**     effects --> n | entry | entry | entry ...
**        | user values
**        +------> "x", { ... }, ...
**
** The user values are what the entries hold, or, if there are many entries, one
** table with what they hold.  Effects refer to the written objects by handle,
** and hold the objects as well, for the objects are values of the program.
** Effects never change once they are made, but for `seen`.
**
** To make effects ends an age of the engine: see tree.h.  So a write after the
** effects is known by its age.  `seen` is the same for the objects that the
** effects wrote, but moves on when the effects are undone while these objects
** are as the effects left them; `began` is the age that ended before that.
*/
#include "journal.h"

#include <string.h>

#include "../base/base.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

/* So many entries hold their values as user values. */
#define FEW 16u

/* Pushes new effects with room for `n` entries and `values` user values. */
static mwb_effects *new_effects(lua_State *L, mwb_state *s, size_t n,
                                uint32_t values) {
  size_t size = offsetof(mwb_effects, entries) + n * sizeof(mw_entry);
  mwb_effects *fx;
  if (n > (SIZE_MAX - sizeof(mwb_effects)) / sizeof(mw_entry))
    mwb_check(L, MW_FULL);
  fx = (mwb_effects *)lua_newuserdatauv(L, size, (int)values);
  memset(fx, 0, offsetof(mwb_effects, entries));
  fx->held.id = ++s->journal->held_ids;
  fx->made = fx->last = fx->began = fx->seen = mw_age_end(s->engine);
  mwb_push(L, s, MWB_EFFECTS);
  lua_setmetatable(L, -2);
  return fx;
}

mwb_effects *mwb_to_effects(lua_State *L, int index) {
  int is = mwb_is_of(L, mwb_state_of(L), index, MWB_EFFECTS);
  return is ? (mwb_effects *)lua_touserdata(L, index) : NULL;
}

mwb_place mwb_find_entries(lua_State *L, int index) {
  mwb_effects *fx = (mwb_effects *)lua_touserdata(L, index);
  mwb_place p = {fx->entries, lua_gettop(L) + 1, 0};
  if (fx->held.few) /* are the values user values? */
    lua_pushvalue(L, index);
  else
    lua_getiuservalue(L, index, 1);
  return p;
}

/* Has the entry before the same object, so that the effects hold the object? */
static int is_of_last(const mwb_effects *fx, size_t i) {
  return i > 0 && fx->entries[i - 1].obj == fx->entries[i].obj;
}

/* The effects at `index` hold their objects. */
static void hold_objects(lua_State *L, const mwb_state *s, mwb_effects *fx,
                         int index) {
  size_t i;
  for (i = 0; i < fx->n; i++) {
    if (is_of_last(fx, i)) continue;
    if (mwb_alive(L, s, fx->entries[i].obj))
      mwb_hold_value(L, &fx->held, index, index + 1);
    lua_settop(L, index);
  }
}

/* Do effects leave the entry out?  They have nothing of a C program's own
** objects, see host.c. */
static int is_left_out(const mwb_state *s, const mw_entry *entry) {
  return mwb_is_hidden(entry) ||
         (mw_object_flags(s->engine, entry->obj) & MW_PINNED) != 0;
}

/* Returns how many user values a few entries need. */
static uint32_t count_values(const mw_entry *entries, size_t n) {
  uint32_t values = 0;
  size_t i;
  int part;
  for (i = 0; i < n; i++) {
    if (i == 0 || entries[i - 1].obj != entries[i].obj) values++; /* object */
    if (entries[i].where != 0) values++;                          /* place */
    for (part = 0; part < MW_PARTS; part++)
      if (entries[i].type[part] == MW_TOTHER) values++;
  }
  return values;
}

/* The effects at `index` hold a value of the coroutine, whose values are above.
** Returns the number that it has for them. */
static uint32_t take_value(lua_State *L, mwb_effects *fx, int index,
                           uint32_t number) {
  lua_rawgeti(L, index + 1, (lua_Integer)number);
  number = mwb_hold_value(L, &fx->held, index, index + 2);
  lua_pop(L, 1);
  return number;
}

/* The effects at `index` hold the values of their entry. */
static void take_values(lua_State *L, mwb_effects *fx, int index,
                        mw_entry *entry) {
  int part;
  for (part = 0; part < MW_PARTS; part++)
    if (entry->type[part] == MW_TOTHER)
      entry->value[part].i =
          take_value(L, fx, index, (uint32_t)entry->value[part].i);
  if (entry->where != 0) entry->where = take_value(L, fx, index, entry->where);
}

/* Are all values of the coroutine the transaction's? */
static int has_all(const mwb_transaction *tx) {
  return tx->its->above == NULL && mwi_owner_below(tx->its) == NULL &&
         tx->held <= tx->of->held.kept;
}

void mwb_push_effects(lua_State *L, const mwb_transaction *tx, int some) {
  int index = lua_gettop(L) + 1;
  mwb_coroutine *t = tx->of;
  const mw_entry *entries = tx->its->log->entries + tx->its->mark;
  size_t n = mwi_range_end(tx->its) - tx->its->mark, i;
  int few = n <= FEW;
  int shares = !few && has_all(tx);
  mwb_effects *fx;
  luaL_checkstack(L, LUA_MINSTACK, "too many values");
  fx = new_effects(L, t->s, n, few ? count_values(entries, n) : 1);
  fx->held.few = few;
  mwb_push_values(L, t);
  if (!few) {
    if (shares) /* do they get the coroutine's own table? */
      lua_pushvalue(L, -1);
    else
      lua_newtable(L);
    lua_setiuservalue(L, index, 1);
  }
  if (shares) fx->held.n = t->held.n;
  for (i = 0; i < n; i++) {
    mw_entry *entry = &fx->entries[fx->n];
    if (some && t->hides && is_left_out(t->s, &entries[i])) continue;
    *entry = entries[i];
    if (!shares) take_values(L, fx, index, entry);
    fx->n++;
  }
  lua_settop(L, index);
  hold_objects(L, t->s, fx, index);
  if (!shares) return;
  t->held.n = fx->held.n;
  t->shared = t->held.n + 1;
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
  entry->kind = MW_UPDATE;
  if (lua_getfield(L, list, "kind") != LUA_TNIL)
    entry->kind = (uint8_t)mwb_kind(L, top + 1);
  set_absent(entry, MW_OLD, MW_INSERT);
  set_absent(entry, MW_NOW, MW_DELETE);
  if (lua_getfield(L, list, "where") == LUA_TSTRING)
    entry->where = mwb_hold_string(L, s, &fx->held, table, top + 2);
  lua_getfield(L, list, "object");
  entry->obj = mwb_identify(L, s, "effects", top + 3, 1);
  if (!is_of_last(fx, fx->n)) mwb_hold_value(L, &fx->held, table, top + 3);
  lua_settop(L, top);
  fx->n++;
}

/* The effects on the top are made of those at `index`. */
static void derive(lua_State *L, mwb_effects *fx, int index) {
  const mwb_effects *other = mwb_to_effects(L, index);
  if (other == NULL) return; /* made of none? */
  if (index == 2) {          /* the last one */
    fx->began = other->began;
    fx->seen = other->seen;
    fx->inverted ^= other->inverted;
  }
  if (other->made < fx->made) fx->made = other->made;
  fx->last = fx->made;
  fx->turned |= other->turned;
}

/* The inverse of effects begins where these have ended. */
static void turn(lua_State *L, mwb_effects *fx) {
  const mwb_effects *other = mwb_to_effects(L, 2);
  if (other != NULL && !other->turned && other->began == other->seen)
    fx->last = other->seen; /* neither an inverse, nor undone */
  fx->inverted ^= 1;
  fx->turned = 1;
}

/* effects(array of entries, former, other former, inverted) -> effects, which
** keep written cells alive; they are made of the former ones, the last one
** first, or are the inverse of them */
static int make_effects(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  size_t n = (size_t)lua_rawlen(L, 1), i;
  mwb_effects *fx;
  lua_settop(L, 4);
  fx = new_effects(L, s, n, 1);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  derive(L, fx, 2);
  derive(L, fx, 3);
  if (lua_toboolean(L, 4)) turn(L, fx);
  lua_insert(L, 2);
  lua_settop(L, 2);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i);
    read_entry(L, s, fx, 2, 3);
    lua_settop(L, 2);
  }
  return 1;
}

static int effects_len(lua_State *L) {
  const mwb_effects *fx = (const mwb_effects *)mwb_check_self(
      L, mwb_state_of(L), "len", MWB_EFFECTS, "effects");
  lua_pushinteger(L, (lua_Integer)fx->n);
  return 1;
}

/* is_effects(value) */
static int is_effects(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, mwb_to_effects(L, 1) != NULL);
  return 1;
}

/* entry(effects, i) -> object, key, old, new, kind, where; a dead object is nil
*/
static int get_entry(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, 1);
  const mw_entry *entry;
  lua_Integer i = lua_tointeger(L, 2);
  mwb_place p;
  int part;
  lua_settop(L, 1);
  if (i < 1 || (size_t)i > fx->n) return 0;
  p = mwb_find_entries(L, 1);
  entry = &p.entries[i - 1];
  if (!mwb_alive(L, s, entry->obj)) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
  for (part = 0; part < MW_PARTS; part++) mwb_unpack(L, p.values, entry, part);
  mwb_push_kind(L, s, entry->kind);
  mwb_push_value(L, p.values, entry->where);
  return 6;
}

/* untouched(effects, object, written) -> whether the object has not been
** written since the effects; `written`: whether the effects wrote the object.
** Nobody sees writes to what has been taken out of a tree. */
static int untouched(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, 1);
  mw_handle h = mwb_handle_of(L, s, 2);
  uint32_t age = lua_toboolean(L, 3) ? fx->seen : fx->made;
  lua_pushboolean(L, mw_object_is_older(s->engine, h, age));
  return 1;
}

int mwb_is_intact(const mwb_state *s, const mwb_effects *fx) {
  size_t i = 0;
  while (i < fx->n &&
         (is_of_last(fx, i) ||
          mw_object_is_older(s->engine, fx->entries[i].obj, fx->seen)))
    i++;
  return i == fx->n;
}

/* is_undone(effects) -> whether things are as before the effects: these have
** been undone, none of the written objects has been written since, and nothing
** has left a tree since, so that what is in none has not changed unseen */
static int is_undone(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, 1);
  int undone = fx->seen > fx->began && mwb_is_intact(s, fx);
  lua_pushboolean(L,
                  undone != fx->inverted && s->engine->tree.left <= fx->seen);
  return 1;
}

void mwb_open_effects(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"effects", make_effects}, {"is_effects", is_effects},
      {"entry", get_entry},      {"untouched", untouched},
      {"is_undone", is_undone},  {NULL, NULL}};
  static const luaL_Reg methods[] = {{"len", effects_len}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__len", effects_len}, {NULL, NULL}};
  mwb_new_meta(L, MWB_EFFECTS, "effects", meta, methods);
  mwb_set_funcs(L, functions);
  mwb_push(L, mwb_state_of(L), MWB_EFFECTS);
  lua_getfield(L, -1, "__index");
  lua_setfield(L, -3, "effects_methods");
  lua_pop(L, 1);
}
