/*
** rollback.c - gives objects the values from before a transaction.
** SPDX-License-Identifier: MIT
**
** First all objects get their old values, and no code of the program runs.
** Then the transaction ends, and the watches are told, the last write first.
** So no guard sees or disturbs a rollback that is half done.
**
** Where somebody else has written a field later, the heir's entry gets the old
** value: the value moves to the heir's held values before anything is restored,
** and the heir's entry changes when the transaction ends.
*/
#include "../watch/watch.h"

#include <string.h>

#include "../base/base.h"
#include "../trace/trace.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "journal.h"

/* {======================================================
** Restoring
** ======================================================= */

static void restore_class(lua_State *L, mwb_state *s) {
  lua_settop(L, SHADOW);
  mwb_push_class(L, OBJECT); /* OLD */
  mwb_change_class(L, s, mwb_handle_of(L, s, OBJECT), 0);
}

/* Restores a field of a cell, or of an object that is not intercepted, and
** appends the entry of the restoring write. */
static void restore_plain(lua_State *L, mwb_state *s) {
  mwb_entry entry;
  int appends = mwb_appends(s);
  if (appends) mwb_prepare_plain(L, s, &entry);
  lua_settop(L, 3);
  if (lua_istable(L, 1))
    lua_rawset(L, 1);
  else
    mwb_set_cell(L, 1);
  if (appends) mwb_append_entry(L, s, &entry);
}

/* A field that was absent is not written if the object shows nothing by now:
** the class may not take nil.  Where the field cannot be read, nobody knows
** whether the field was absent. */
static void restore_userdata(lua_State *L, mwb_state *s) {
  mwb_entry entry;
  int appends = mwb_appends(s);
  if (lua_isnil(L, VALUE)) {
    int status = mwb_read_shown(L);
    if (status == LUA_ERRMEM) lua_error(L);
    if (status != LUA_OK)
      luaL_error(L, "the former value of field '%s' is not known",
                 luaL_tolstring(L, KEY, NULL));
    if (lua_isnil(L, -1)) return;
    lua_settop(L, 3);
  }
  if (appends) mwb_prepare_plain(L, s, &entry);
  mwb_push_newindex(L, 1);
  mwb_call_newindex(L, lua_gettop(L));
  if (appends) mwb_append_kept(L, s, &entry, 0);
}

static void restore_state(lua_State *L, mwb_state *s) {
  lua_settop(L, SHADOW);
  if (mwb_appends(s)) mwb_push_state_of(L, s); /* OLD */
  mwb_change_state(L, s, mwb_handle_of(L, s, OBJECT));
}

/* restore(object, key, value, kind, handle): stores an old value without asking
** the object's class */
static int restore(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer kind = lua_tointeger(L, 4);
  mw_handle h = (mw_handle)lua_tointeger(L, 5);
  lua_settop(L, 3);
  if (kind == MW_METATABLE) {
    restore_class(L, s);
  } else if (kind == MW_CALL) {
    restore_state(L, s);
  } else if (lua_istable(L, 1) &&
             (mwb_intercepts(s, h) || mwb_push_own(L, 1))) {
    mwb_write w;
    mwb_write_open(L, s, &w, h, MW_ROLLBACK, 0);
    mwb_store_contents(&w);
  } else if (lua_istable(L, 1) || mwb_is_cell(L, s, 1)) {
    restore_plain(L, s);
  } else {
    restore_userdata(L, s);
  }
  return 0;
}

/* The stack of a restoring function: two values of the caller, the first error,
** and the shadow of `last`. */
enum { KEPT = 1, ALSO_KEPT, FIRST_ERROR, LAST_SHADOW, INSTEAD };

typedef struct undo {
  lua_State *L;   /* first: the callbacks below find only this */
  int values;     /* the index of the entries' values */
  mw_handle last; /* owner of LAST_SHADOW, or MW_NONE */
} undo;

static void push_part(const undo *u, const mw_entry *entry, int part) {
  mwb_unpack(u->L, u->values, entry, part);
}

/* Replaces the object on the top by `restore` and its arguments, with the key
** and the old value of an entry. */
static void push_restore(const undo *u, mwb_state *s, const mw_entry *entry) {
  lua_State *L = u->L;
  mwb_push(L, s, MWB_RESTORE);
  lua_insert(L, -2);
  push_part(u, entry, MW_KEY);
  push_part(u, entry, MW_OLD);
}

/* Calls `restore` for the object on the top, and pops the object.  Returns a
** status; unless LUA_OK, the error is on the top. */
static int restore_entry(const undo *u, mwb_state *s, const mw_entry *entry) {
  push_restore(u, s, entry);
  lua_pushinteger(u->L, entry->kind);
  lua_pushinteger(u->L, (lua_Integer)entry->obj);
  return lua_pcall(u->L, 5, 0, 0);
}

/* Pops the error on the top; keeps the first error at FIRST_ERROR. */
static void keep_error(lua_State *L) {
  if (lua_isnil(L, FIRST_ERROR))
    lua_replace(L, FIRST_ERROR);
  else
    lua_pop(L, 1);
}

/* Puts the shadow of the entry's object at LAST_SHADOW.  Returns 0 if the
** object is dead or no table. */
static int find_shadow(undo *u, mwb_state *s, const mw_entry *entry) {
  lua_State *L = u->L;
  int top = lua_gettop(L);
  if (u->last == entry->obj) return 1;
  u->last = MW_NONE;
  if (mwb_alive(L, s, entry->obj) && lua_istable(L, top + 1)) {
    mwb_push_shadow(L, top + 1);
    lua_replace(L, LAST_SHADOW);
    u->last = entry->obj;
  }
  lua_settop(L, top);
  return u->last != MW_NONE;
}

/* Key and old value are on the top.  Is one of the old and the present value a
** table, which a tree has links to? */
static int is_linked(lua_State *L) {
  int is = lua_istable(L, -1);
  if (is) return 1;
  lua_pushvalue(L, -2);
  is = lua_rawget(L, LAST_SHADOW) == LUA_TTABLE;
  lua_pop(L, 1);
  return is;
}

/* Restores a field of a table by one `rawset`; returns 0 if the field needs
** more; so it does if writes of finalisers wait, which may be overtaken. */
static int restore_quickly(undo *u, mwb_state *s, const mw_entry *entry) {
  lua_State *L = u->L;
  const mwi_object *r = mwb_object_of(s, entry->obj);
  if (s->needs & MWB_WAITS) return 0;
  if (entry->kind == MW_METATABLE) {
    u->last = MW_NONE; /* the object gets another shadow */
    return 0;
  }
  if (!find_shadow(u, s, entry)) return 0;
  push_part(u, entry, MW_KEY);
  if (mwb_is_meta(L, -1) ||
      (lua_type(L, -1) == LUA_TNUMBER && r != NULL && (r->needs & MWI_SHORT))) {
    lua_pop(L, 1);
    return 0;
  }
  push_part(u, entry, MW_OLD);
  if (r != NULL && r->nodes != 0 && is_linked(L)) {
    lua_pop(L, 2);
    return 0;
  }
  lua_rawset(L, LAST_SHADOW);
  return 1;
}

/* An error of a class is kept, and the others are restored; if there is no
** memory, that is raised out of the engine, where restoring may start again. */
void mwb_restore(void *ud, const mw_entry *entry, void *host) {
  mwb_state *s = (mwb_state *)ud;
  undo *u = (undo *)host;
  lua_State *L = u->L;
  int status;
  if (restore_quickly(u, s, entry)) return;
  if (!mwb_alive(L, s, entry->obj)) {
    lua_pop(L, 1);
    return;
  }
  status = restore_entry(u, s, entry);
  if (status == LUA_ERRMEM) lua_error(L);
  if (status != LUA_OK) keep_error(L);
}

/* rewind(owner) -> the first error */
static int rewind_writes(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_owner owner = (mw_owner)lua_tointeger(L, 1);
  undo u = {L, LAST_SHADOW + 1, MW_NONE};
  lua_settop(L, ALSO_KEPT);
  lua_settop(L, LAST_SHADOW);
  mwb_push_values(L, mwb_coroutine_of(s, owner));
  mwb_check(L, mw_owner_rewind(s->engine, owner, &u));
  lua_settop(L, FIRST_ERROR);
  return 1;
}

/* Gives all objects their old values and leaves the first error at
** FIRST_ERROR. */
static void restore_writes(lua_State *L, mwb_state *s, mw_owner owner) {
  int status;
  lua_settop(L, ALSO_KEPT);
  mwb_push(L, s, MWB_REWIND);
  lua_pushinteger(L, (lua_Integer)owner);
  s->journal->restoring++;
  status = lua_pcall(L, 1, 1, 0);
  s->journal->restoring--;
  if (status != LUA_OK) lua_error(L);
}

/* }====================================================== */

/* {======================================================
** Fields and values, for the journal
** ======================================================= */

/* field(owner, entry) -> the key, kept */
static int push_field(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mw_entry *entry = (const mw_entry *)lua_touserdata(L, 2);
  mw_value *key = (mw_value *)lua_touserdata(L, 3);
  mwb_push_values(L, mwb_coroutine_of(s, (mw_owner)lua_tointeger(L, 1)));
  mwb_unpack(L, 4, entry, MW_KEY);
  *key = mwb_key_to_keep(L, s, -1);
  return 0;
}

int mwb_field(void *ud, mw_owner owner, const mw_entry *entry, mw_value *key,
              void *host) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = *(lua_State **)host;
  int status;
  memset(key, 0, sizeof(*key));
  if (mwi_no_field(entry->kind, key)) return MW_OK;
  if (entry->type[MW_KEY] != MW_TOTHER) {
    key->type = entry->type[MW_KEY];
    key->u = entry->value[MW_KEY];
    return MW_OK;
  }
  mwb_push(L, s, MWB_FIELD);
  lua_pushinteger(L, (lua_Integer)owner);
  lua_pushlightuserdata(L, (void *)(uintptr_t)entry);
  lua_pushlightuserdata(L, key);
  status = lua_pcall(L, 3, 0, 0);
  if (status != LUA_OK) lua_pop(L, 1);
  return (status == LUA_OK) ? MW_OK : MW_NOMEM;
}

/* hand(entry, coroutine, another coroutine): the values of the entry move to
** the other's held values, behind those of the other's open transactions. */
static int move_values(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_entry *entry = (mw_entry *)lua_touserdata(L, 1);
  const mwb_coroutine *t = (const mwb_coroutine *)lua_touserdata(L, 2);
  mwb_coroutine *to = (mwb_coroutine *)lua_touserdata(L, 3);
  mw_entry copy = *entry;
  int part;
  mwb_push_values(L, t); /* at 4 */
  for (part = 0; part < MW_PARTS; part++) {
    if (entry->type[part] != MW_TOTHER) continue;
    mwb_unpack(L, 4, entry, part);
    mwb_pack(L, s, &to->held, 0, lua_gettop(L), &copy, part);
  }
  if (entry->where != 0) {
    mwb_push_value(L, 4, entry->where);
    copy.where = mwb_hold_value(L, &to->held, 0, lua_gettop(L));
  }
  if (entry->context != 0) {
    mwb_push_value(L, 4, entry->context);
    copy.context = mwb_hold_value(L, &to->held, 0, lua_gettop(L));
  }
  if (mwb_alive(L, s, entry->obj) && mwb_is_cell(L, s, -1))
    mwb_hold_value(L, &to->held, 0, lua_gettop(L));
  *entry = copy;
  if (mwb_is_hidden(entry)) to->hides = 1;
  to->shared = 1;
  return 0;
}

int mwb_hand(void *ud, mw_owner owner, mw_owner parent, mw_entry *entry,
             void *host) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = *(lua_State **)host;
  int status;
  mwb_push(L, s, MWB_HAND);
  lua_pushlightuserdata(L, entry);
  lua_pushlightuserdata(L, mwb_coroutine_of(s, owner));
  lua_pushlightuserdata(L, mwb_coroutine_of(s, parent));
  status = lua_pcall(L, 3, 0, 0);
  if (status != LUA_OK) lua_pop(L, 1);
  return (status == LUA_OK) ? MW_OK : MW_NOMEM;
}

void mwb_freeze_heirs(lua_State *L, mwb_state *s, mw_owner owner) {
  const mwi_journal *journal = &s->engine->journal;
  const mwi_stake *its;
  uint32_t i;
  if (!mw_journal_is_mixed(s->engine)) return;
  for (i = journal->owners[owner].last; i != 0; i = its->before) {
    its = mwi_stake_at(journal, i);
    if (its->newer == 0) continue; /* nobody has written the field later? */
    mwb_freeze(
        L, s, mwb_coroutine_of(s, mwi_stake_at(journal, its->newer)->owner), 0);
  }
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Makes the memos of an entry's object out of date.  This comes before the
** first guard is called, for a guard may ask for the memo of another object. */
static void tell_memos(lua_State *L, mwb_state *s, const mwb_place *p,
                       const mw_entry *entry, uint32_t number) {
  mwi_object *r = mwb_object_of(s, entry->obj);
  mw_change change;
  if (s->engine->watch.results == 0 || r == NULL) return;
  memset(&change, 0, sizeof(change));
  mwb_unpack(L, p->values, entry, MW_KEY);
  change.key = mwb_key(L, s, -1);
  change.number = number;
  mwi_write_results(s->engine, r, &change);
  lua_pop(L, 1);
}

/* Finds the entries of effects at 1, or of the transaction with the number at
** 1, and how many there are.  Pushes a value, as `mwb_find_entries`. */
static mwb_place find_undone(lua_State *L, const mwb_state *s, size_t *n) {
  mwb_place p;
  mw_owner owner;
  if (lua_isuserdata(L, 1)) {
    *n = ((const mwb_effects *)lua_touserdata(L, 1))->n;
    return mwb_find_entries(L, 1);
  }
  owner = (mw_owner)lua_tointeger(L, 1);
  p.entries = mw_owner_entries(s->engine, owner, n);
  p.values = lua_gettop(L) + 1;
  mwb_push_values(L, mwb_coroutine_of(s, owner));
  return p;
}

/* Has the entry's field got the value from before the transaction at 1, so that
** nobody has written the field later?  The key is at 6. */
static int is_restored(lua_State *L, mwb_state *s, const mw_entry *entry) {
  mw_value field;
  if (lua_isuserdata(L, 1) || !mw_journal_is_mixed(s->engine)) return 1;
  if (!mwi_no_field(entry->kind, &field)) field = mwb_key(L, s, 6);
  return mw_owner_is_last(s->engine, (mw_owner)lua_tointeger(L, 1), entry->obj,
                          &field);
}

/* Does nobody hear of the field of the entry's object, whose key is on the top,
** and has nobody ever asked how often the object was written? */
static int is_unheard(lua_State *L, mwb_state *s, const mwi_object *r) {
  mw_value key;
  if (r->was_watched || mwb_tracing(s)) return 0;
  key = mwb_key(L, s, -1);
  return mwi_tree_is_quiet(s->engine, r, &key);
}

/* What `list_heard` has of a field: object, key, last value, whether the value
** is the state of a userdata, and which entry is the field's first, from 1
** on. */
enum { LAST_VALUE = 3, IS_STATE, FIRST_ENTRY, HEARD = FIRST_ENTRY };

/* The fields that `list_heard` has seen, by a hash: the numbers of the fields
** in the array, from 1 on; 0 for none. */
typedef struct seen {
  size_t mask;
  uint32_t fields[1];
} seen;

static size_t hash_heard(lua_State *L, const mwb_state *s,
                         const mw_entry *entry) {
  mw_entry marked = *entry;
  uint64_t hash = entry->obj, key = 0;
  if (entry->kind != MW_CALL && !lua_isnil(L, 6)) {
    mwb_mark_key(L, s, 6, &marked);
    key = (uint64_t)marked.value[MW_KEY].i;
    if (entry->type[MW_KEY] == MW_TOTHER) key >>= 32;
  }
  hash ^= (key + 1) * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)((hash * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Is the field that the array at 3 has from `its` on that of the object at 5
** with the key at 6?  A userdata's state is one field, whatever the key. */
static int is_heard_field(lua_State *L, int kind, lua_Integer its) {
  int is;
  lua_rawgeti(L, 3, its + OBJECT);
  lua_rawgeti(L, 3, its + KEY);
  lua_rawgeti(L, 3, its + IS_STATE);
  is = lua_rawequal(L, 5, -3) && lua_toboolean(L, -1) == (kind == MW_CALL) &&
       (kind == MW_CALL || lua_rawequal(L, 6, -2));
  lua_settop(L, 6);
  return is;
}

/* Returns where the array has the field of the object at 5 with the key at 6;
** `at`, and notes the field there, if this is the field's first entry. */
static lua_Integer find_heard(lua_State *L, const mwb_state *s, seen *all,
                              const mw_entry *entry, lua_Integer at) {
  size_t i = hash_heard(L, s, entry) & all->mask;
  for (; all->fields[i] != 0; i = (i + 1) & all->mask) {
    lua_Integer its = (lua_Integer)(all->fields[i] - 1) * HEARD;
    if (is_heard_field(L, entry->kind, its)) return its;
  }
  all->fields[i] = (uint32_t)(at / HEARD) + 1;
  return at;
}

/* Pushes what `list_heard` needs for the entries of the value at 1: the value
** of `find_undone`, the array, and the fields seen. */
static mwb_place prepare_heard(lua_State *L, const mwb_state *s, size_t *n) {
  size_t size, slots = 8;
  seen *all;
  mwb_place p;
  lua_settop(L, 1);
  p = find_undone(L, s, n);
  lua_newtable(L);
  while (slots < 2 * *n) slots *= 2;
  size = sizeof(*all) + slots * sizeof(all->fields[0]);
  all = (seen *)lua_newuserdatauv(L, size, 0);
  memset(all, 0, size);
  all->mask = slots - 1;
  return p;
}

/* list_heard(effects or number of a transaction) -> array with HEARD values for
** each field whose watches are to be told, the last write first; its length at
** 0. */
static int list_heard(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer at = 0;
  size_t n, i;
  mwb_place p = prepare_heard(L, s, &n);
  seen *all = (seen *)lua_touserdata(L, 4);
  for (i = n; i > 0; i--) {
    const mw_entry *entry = &p.entries[i - 1];
    mwi_object *r = mwb_object_of(s, entry->obj);
    if (r == NULL || (!r->watched && r->nodes == 0)) continue;
    if (mwb_alive(L, s, entry->obj)) {
      mwb_unpack(L, p.values, entry, MW_KEY);
      if (is_unheard(L, s, r))
        mwi_object_count(s->engine, r);
      else if (is_restored(L, s, entry)) {
        lua_Integer its = find_heard(L, s, all, entry, at);
        int part;
        if (its == at) {
          mwb_unpack(L, p.values, entry, MW_NOW);
          lua_pushboolean(L, entry->kind == MW_CALL);
          for (part = IS_STATE; part > 0; part--) lua_rawseti(L, 3, at + part);
          at += HEARD;
        }
        lua_pushinteger(L, (lua_Integer)i);
        lua_rawseti(L, 3, its + FIRST_ENTRY);
      }
    }
    lua_settop(L, 4);
  }
  lua_settop(L, 3);
  lua_pushinteger(L, at);
  lua_rawseti(L, 3, 0);
  return (at > 0) ? 1 : 0;
}

/* tell_undone(object, key, value from before the rollback, whether this is a
** state, number of the restoring write as a cause or 0): tells the watches if
** the field has another value now */
static int tell_undone(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int is_state = lua_toboolean(L, IS_STATE);
  uint64_t number = (uint64_t)lua_tointeger(L, IS_STATE + 1);
  mwb_write w;
  lua_settop(L, VALUE);
  if (is_state)
    mwb_push_state_of(L, s);
  else if (lua_isnil(L, KEY))
    mwb_push_class(L, OBJECT);
  else
    mwb_push_current(L, s);
  if (mwb_is_same(L, -1, VALUE)) return 0;
  lua_insert(L, VALUE);
  lua_pushnil(L);
  lua_insert(L, SHADOW); /* OLD is the value from before then */
  mwb_write_open(L, s, &w, mwb_handle_of(L, s, OBJECT), MW_ROLLBACK, MWB_GIVEN);
  w.change.number = number;
  mwb_write_count(&w);
  return mwb_write_run(&w, mwb_store_nothing);
}

/* Does nobody hear of any of the fields that the value at KEPT has written?
*/
static int is_quiet(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L), quiet = 1;
  size_t n, i;
  mwb_place p = find_undone(L, s, &n);
  for (i = 0; i < n && quiet; i++) {
    mwi_object *r = mwb_object_of(s, p.entries[i].obj);
    if (r == NULL || (!r->watched && r->nodes == 0)) continue;
    mwb_unpack(L, p.values, &p.entries[i], MW_KEY);
    quiet = is_unheard(L, s, r);
    if (quiet) mwi_object_count(s->engine, r);
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
  return quiet;
}

/* Pushes the array of `list_heard`, or nil, for the value at KEPT; keeps an
** error at FIRST_ERROR. */
static void push_heard(lua_State *L, mwb_state *s) {
  if (is_quiet(L, s)) {
    lua_pushnil(L);
    return;
  }
  mwb_push(L, s, MWB_LISTHEARD);
  lua_pushvalue(L, KEPT);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    keep_error(L);
    lua_pushnil(L);
  }
}

static void tell_all_memos(lua_State *L, mwb_state *s,
                           const uint32_t *numbers) {
  size_t n, i;
  mwb_place p;
  if (s->engine->watch.results == 0) return;
  p = find_undone(L, s, &n);
  for (i = 0; i < n; i++)
    tell_memos(L, s, &p, &p.entries[i], (numbers != NULL) ? numbers[i] : 0);
  lua_pop(L, 1);
}

void mwb_tell_undone(lua_State *L, mwb_state *s, int list, int error,
                     const uint32_t *numbers) {
  lua_Integer n, i, first;
  int part;
  if (!lua_istable(L, list)) return;
  lua_rawgeti(L, list, 0);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  for (i = 0; i < n; i += HEARD) {
    mwb_push(L, s, MWB_TELLUNDONE);
    for (part = 1; part <= IS_STATE; part++) lua_rawgeti(L, list, i + part);
    lua_rawgeti(L, list, i + FIRST_ENTRY);
    first = lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_pushinteger(L, (numbers != NULL) ? numbers[first - 1] : 0);
    if (lua_pcall(L, IS_STATE + 1, 0, 0) == LUA_OK) continue;
    if (lua_isnil(L, error))
      lua_replace(L, error);
    else
      lua_pop(L, 1);
  }
}

/* undo_writes(number of a transaction) -> the first error, and what
** `list_heard` returns.  Raises if there is no memory. */
static int undo_writes(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  restore_writes(L, s, (mw_owner)lua_tointeger(L, 1));
  lua_settop(L, FIRST_ERROR);
  tell_all_memos(L, s, NULL);
  push_heard(L, s);
  return 2;
}

/* Returns the number, as a cause, of the last entry that was appended: it was
** given before the entry if somebody asked for it then. */
static uint32_t last_number(lua_State *L, mwb_state *s) {
  mw_owner owner = mwb_owner_of(L, s);
  const mw_entry *entries = NULL;
  size_t n = 0;
  if (owner != 0) entries = mw_owner_entries(s->engine, owner, &n);
  return (n > 0) ? mw_entry_number(&entries[n - 1])
                 : (uint32_t)s->engine->journal.seq;
}

/* Restores what an entry of the effects at KEPT has changed.  With `numbers`,
** because of that entry: the effects know the number of the restoring write,
** which is the cause if they are done again, and so does `numbers`.  Returns a
** status; pushes an error. */
static int undo_entry(lua_State *L, mwb_state *s, size_t i, uint32_t *numbers) {
  mwb_effects *fx = (mwb_effects *)lua_touserdata(L, KEPT);
  mwb_place p = mwb_find_entries(L, KEPT);
  undo u = {L, p.values, MW_NONE};
  const mw_entry entry = p.entries[i];
  uint64_t seq = s->engine->journal.seq;
  int status;
  if (!mwb_alive(L, s, entry.obj)) return LUA_OK;
  push_restore(&u, s, &entry);
  if (!mwb_replace_value(L, INSTEAD, (lua_Integer)i + 1)) return LUA_OK;
  lua_pushinteger(L, entry.kind);
  lua_pushinteger(L, (lua_Integer)entry.obj);
  if (!fx->is_view) fx->entries[i].context = 0;
  if (numbers == NULL) {
    lua_call(L, 5, 0);
    return LUA_OK;
  }
  s->journal->given = mw_entry_number(&entry);
  status = lua_pcall(L, 5, 0, 0);
  s->journal->given = 0;
  if (status != LUA_OK) return status;
  if (s->engine->journal.seq != seq) numbers[i] = last_number(L, s);
  if (!fx->is_view) fx->entries[i].context = numbers[i];
  return LUA_OK;
}

/* Pushes room for the numbers of `n` restoring writes, if anybody reads causes;
** returns NULL if not. */
static uint32_t *push_numbers(lua_State *L, const mwb_state *s, size_t n) {
  uint32_t *numbers;
  if (n == 0 || !mwb_is_read(s)) {
    lua_pushnil(L);
    return NULL;
  }
  numbers = (uint32_t *)lua_newuserdatauv(L, n * sizeof(*numbers), 0);
  memset(numbers, 0, n * sizeof(*numbers));
  return numbers;
}

/* undo(effects, instead) -> the first error: gives all objects their old
** values, or those that `instead` says (see apply.c), and tells the watches.
** The restoring writes are appended to the journal, as all writes are. */
static int undo_effects(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_effects *fx = mwb_check_effects(L, "rollback");
  size_t i = fx->n;
  int heard = LAST_SHADOW, intact;
  uint32_t *numbers;
  lua_settop(L, 2);
  intact = lua_isnil(L, 2) && mwb_is_intact(L, s, KEPT);
  if (intact) fx->began = mw_age_end(s->engine);
  lua_settop(L, INSTEAD);
  lua_copy(L, 2, INSTEAD);
  numbers = push_numbers(L, s, i);
  lua_replace(L, ALSO_KEPT);
  push_heard(L, s);
  lua_replace(L, heard);
  if (!lua_isnil(L, FIRST_ERROR)) {
    lua_settop(L, FIRST_ERROR);
    return lua_error(L);
  }
  fx->undone = 0;
  for (; i > 0; i--) {
    if (undo_entry(L, s, i - 1, numbers) != LUA_OK) return lua_error(L);
    lua_settop(L, INSTEAD);
  }
  if (!fx->is_view) fx->undone = 1;
  if (intact) mwb_see_effects(s, fx);
  tell_all_memos(L, s, numbers);
  mwb_tell_undone(L, s, heard, FIRST_ERROR, numbers);
  lua_settop(L, FIRST_ERROR);
  return 1;
}

void mwb_open_rollback(lua_State *L) {
  static const luaL_Reg functions[] = {{"undo", undo_effects}, {NULL, NULL}};
  static const struct {
    int value;
    lua_CFunction f;
  } prepared[] = {{MWB_RESTORE, restore},        {MWB_REWIND, rewind_writes},
                  {MWB_UNDO, undo_writes},       {MWB_LISTHEARD, list_heard},
                  {MWB_TELLUNDONE, tell_undone}, {MWB_FIELD, push_field},
                  {MWB_HAND, move_values}};
  mwb_state *s = mwb_state_of(L);
  size_t i;
  for (i = 0; i < sizeof(prepared) / sizeof(prepared[0]); i++) {
    mwb_push_function(L, s, prepared[i].f);
    mwb_keep(L, s, prepared[i].value);
  }
  mwb_set_funcs(L, functions);
}
