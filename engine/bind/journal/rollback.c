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

/* The stack of `rewind_writes`: the transaction, the first error, the object of
** the last entry, the table that has its contents, and what the entries hold;
** and above, of an entry. */
enum { TX = 1, FIRST_ERROR, LAST, CONTENTS, HELD, ITS_KEY, ITS_VALUE };

typedef struct undo {
  lua_State *L;   /* first: the callbacks below find only this */
  mw_handle last; /* the object at LAST, or MW_NONE */
} undo;

/* Puts an object at LAST, and at CONTENTS nil if it is no table.  Returns 0 if
** the object is dead. */
static int find_object(undo *u, const mwb_state *s, mw_handle obj) {
  lua_State *L = u->L;
  u->last = MW_NONE;
  if (mwb_alive(L, s, obj)) {
    if (lua_istable(L, -1))
      mwb_push_contents(L, lua_gettop(L));
    else
      lua_pushnil(L);
    lua_replace(L, CONTENTS);
    lua_replace(L, LAST);
    u->last = obj;
  }
  lua_settop(L, HELD);
  return u->last != MW_NONE;
}

/* Does one `rawset` restore the field?  Not if a link of a tree comes or goes,
** if a list may get longer, or if writes wait, which may be overtaken. */
static int is_simple(lua_State *L, const mwb_state *s, const mw_entry *entry) {
  const mwi_object *r = mwb_object_of(s, entry->obj);
  int links;
  if (entry->kind == MW_METATABLE || !lua_istable(L, CONTENTS) ||
      mwb_is_meta(L, ITS_KEY) || (s->needs & MWB_WAITS) != 0)
    return 0;
  if (r == NULL) return 1; /* neither watched nor tracked? */
  if ((r->needs & MWI_SHORT) && lua_type(L, ITS_KEY) == LUA_TNUMBER) return 0;
  if (r->nodes == 0) return 1; /* in no tree? */
  lua_pushvalue(L, ITS_KEY);
  links = lua_rawget(L, CONTENTS) == LUA_TTABLE || lua_istable(L, ITS_VALUE);
  lua_pop(L, 1);
  return !links;
}

/* An error of a class is kept, and the others are restored; if there is no
** memory, that is raised out of the engine, where restoring may start again. */
void mwb_restore(void *ud, const mw_entry *entry, void *host) {
  mwb_state *s = (mwb_state *)ud;
  const mw_host *program = &s->base->host;
  undo *u = (undo *)host;
  lua_State *L;
  int status;
  if (s->base->has_host && mwb_is_pinned(s, entry->obj)) { /* a C program's? */
    if (program->restore) program->restore(program->ud, entry, NULL);
    return;
  }
  L = u->L;
  if (u->last != entry->obj && !find_object(u, s, entry->obj)) return;
  mwb_unpack(L, HELD, entry, MW_KEY);
  mwb_unpack(L, HELD, entry, MW_OLD);
  if (is_simple(L, s, entry)) {
    lua_rawset(L, CONTENTS);
    return;
  }
  lua_pushvalue(L, LAST);
  lua_insert(L, ITS_KEY);
  lua_pushlightuserdata(L, (void *)(uintptr_t)entry);
  if (entry->kind == MW_METATABLE) u->last = MW_NONE; /* its contents move */
  status = mwb_pcall(L, s, mwb_write_back, 4, 0);
  if (status == LUA_ERRMEM) lua_error(L);
  if (status != LUA_OK && lua_isnil(L, FIRST_ERROR)) /* the first one? */
    lua_replace(L, FIRST_ERROR);
  lua_settop(L, HELD);
}

/* rewind(transaction) -> the first error */
static int rewind_writes(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mwb_transaction *tx = (const mwb_transaction *)lua_touserdata(L, TX);
  undo u = {L, MW_NONE};
  lua_settop(L, CONTENTS);
  mwb_push_values(L, tx->of);
  mwb_check(L, mw_owner_rewind(s->engine, tx->its->number, &u));
  lua_settop(L, FIRST_ERROR);
  return 1;
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
  lua_State *L = (host != NULL) ? *(lua_State **)host : s->service;
  int pinned = s->base->has_host && mwb_is_pinned(s, entry->obj);
  memset(key, 0, sizeof(*key));
  if (!pinned && mwi_no_field(entry->kind, key)) return MW_OK; /* no key? */
  if (pinned || entry->type[MW_KEY] != MW_TOTHER) { /* in the entry itself? */
    key->type = entry->type[MW_KEY];
    key->u = entry->value[MW_KEY];
    return MW_OK;
  }
  lua_pushinteger(L, (lua_Integer)owner);
  lua_pushlightuserdata(L, (void *)(uintptr_t)entry);
  lua_pushlightuserdata(L, key);
  return mwb_code_of(L, mwb_pcall(L, s, push_field, 3, 0));
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
  if (mwb_alive(L, s, entry->obj) && mwb_is_cell(L, s, -1)) /* held, too? */
    mwb_hold_value(L, &to->held, 0, lua_gettop(L));
  *entry = copy;
  if (mwb_is_hidden(entry)) to->hides = 1;
  to->shared = to->held.n + 1;
  return 0;
}

int mwb_hand(void *ud, mw_owner owner, mw_owner parent, mw_entry *entry,
             void *host) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = (host != NULL) ? *(lua_State **)host : s->service;
  if (s->base->has_host && mwb_is_pinned(s, entry->obj)) { /* a C program's? */
    mwb_coroutine_of(s, parent)->hides = 1;
    return MW_OK;
  }
  lua_pushlightuserdata(L, entry);
  lua_pushlightuserdata(L, mwb_coroutine_of(s, owner));
  lua_pushlightuserdata(L, mwb_coroutine_of(s, parent));
  return mwb_code_of(L, mwb_pcall(L, s, move_values, 3, 0));
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Returns the field of an entry, as the engine knows it. */
static mw_value field_of(lua_State *L, mwb_state *s, const mwb_place *p,
                         const mw_entry *entry) {
  mw_value field;
  mwb_unpack(L, p->values, entry, MW_KEY);
  field = mwb_key(L, s, lua_gettop(L));
  lua_pop(L, 1);
  return field;
}

/* Does nobody hear of the field of an entry, and has nobody ever asked how
** often the object was written? */
static int is_unheard(lua_State *L, mwb_state *s, const mwb_place *p,
                      const mw_entry *entry, const mwi_object *r) {
  mw_value key;
  if (r->was_watched || mwb_tracing(s)) return 0; /* may somebody ask? */
  if (s->engine->watch.deep == 0) return 1; /* does no root hear of any? */
  key = field_of(L, s, p, entry);
  return mwi_tree_is_quiet(s->engine, r, &key);
}

/* Has the entry's field got the value from before the transaction, so that
** nobody has written the field later? */
static int is_restored(lua_State *L, mwb_state *s, const mwb_place *p,
                       const mw_entry *entry, mw_owner owner) {
  mw_value field;
  if (owner == 0 || !mw_journal_is_mixed(s->engine)) return 1; /* no others? */
  if (!mwi_no_field(entry->kind, &field)) field = field_of(L, s, p, entry);
  return mw_owner_is_last(s->engine, owner, entry->obj, &field);
}

void mwb_fold_heard(lua_State *L, mwb_state *s, mwb_fold *heard,
                    const mwb_place *p, size_t n, mw_owner owner) {
  uint32_t i;
  mw_handle last = MW_NONE;
  mwi_object *r = NULL; /* of the object `last` */
  int memory = lua_gettop(L) + 1;
  lua_pushnil(L);
  heard->n = 0;
  heard->place = NULL;
  for (i = (uint32_t)n; i > 0; i--) {
    const mw_entry *entry = &p->entries[i - 1];
    mwb_folded *at;
    if (entry->obj != last) r = mwb_object_of(s, entry->obj);
    last = entry->obj;
    if (r == NULL || (!r->watched && r->nodes == 0)) continue; /* unwatched? */
    if (is_unheard(L, s, p, entry, r)) {
      mwi_object_count(s->engine, r);
      continue;
    }
    if (!is_restored(L, s, p, entry, owner)) continue;
    if (heard->place == NULL) { /* the first one that somebody hears? */
      mwb_fold_begin(L, heard, p, i);
      lua_replace(L, memory);
    }
    at = mwb_fold_find(L, s, heard, i);
    if (at->last == 0) at->last = i; /* the last one comes first */
    at->first = i;
  }
}

void mwb_undo(lua_State *L, mwb_transaction *tx, mwb_fold *heard) {
  mwb_state *s = tx->of->s;
  int held = lua_gettop(L) + 2, status;
  const mwi_owner *o = tx->its;
  mwb_place p = {NULL, held, 0};
  lua_pushlightuserdata(L, tx);
  s->journal->restoring++;
  status = mwb_pcall(L, s, rewind_writes, 1, 1);
  s->journal->restoring--;
  if (status != LUA_OK) lua_error(L);
  mwb_push_values(L, tx->of);
  p.entries = o->log->entries + o->mark;
  mwb_fold_heard(L, s, heard, &p, mwi_range_end(o) - o->mark, o->number);
  if (heard->n > 0) /* is there anything to tell of? */
    mwb_push_effects(L, tx, 0);
  else
    lua_pushnil(L);
  lua_remove(L, held);
}

/* tell_undone(object, key, value from before the rollback, kind of the entry,
** number of the restoring write as a cause or 0): tells the watches if the
** field has another value now */
static int tell_undone(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int kind = (int)lua_tointeger(L, 4);
  uint64_t number = (uint64_t)lua_tointeger(L, 5);
  mwb_write w;
  lua_settop(L, VALUE);
  if (!mwb_push_aspect(L, s, kind)) mwb_push_current(L, s);
  if (mwb_is_same(L, -1, VALUE)) return 0; /* the same after all? */
  lua_insert(L, VALUE);
  lua_pushnil(L);
  lua_insert(L, SHADOW); /* OLD is the value from before then */
  mwb_write_open(L, s, &w, mwb_handle_of(L, s, OBJECT), MW_ROLLBACK, MWB_GIVEN);
  w.change.number = number;
  return mwb_write_run(&w, mwb_store_nothing);
}

/* Makes the memos of fields in the fold out of date.  This comes before the
** first guard is called, for a guard may ask for the memo of another object. */
static void tell_memos(lua_State *L, mwb_state *s, const mwb_fold *heard,
                       const mwb_place *p, const uint32_t *numbers) {
  uint32_t i;
  for (i = 0; i < heard->n && s->engine->watch.results > 0; i++) {
    const mwb_folded *at = &heard->fields[i];
    const mw_entry *entry = &p->entries[at->last - 1];
    mwi_object *r = mwb_object_of(s, entry->obj);
    mw_change change;
    if (r == NULL) continue;
    memset(&change, 0, sizeof(change));
    change.key = field_of(L, s, p, entry);
    change.number = (numbers != NULL) ? numbers[at->first - 1] : 0;
    mwi_write_results(s->engine, r, &change);
  }
}

void mwb_tell_undone(lua_State *L, mwb_state *s, const mwb_fold *heard, int fx,
                     int error, const uint32_t *numbers) {
  mwb_place p;
  uint32_t i;
  if (heard->n == 0) return;
  p = mwb_find_entries(L, fx);
  tell_memos(L, s, heard, &p, numbers);
  for (i = 0; i < heard->n; i++, lua_settop(L, p.values)) {
    const mwb_folded *at = &heard->fields[i];
    const mw_entry *last = &p.entries[at->last - 1];
    if (!mwb_alive(L, s, last->obj)) continue; /* dead meanwhile? */
    mwb_unpack(L, p.values, last, MW_KEY);
    mwb_unpack(L, p.values, last, MW_NOW);
    lua_pushinteger(L, last->kind);
    lua_pushinteger(L, (numbers != NULL) ? numbers[at->first - 1] : 0);
    if (mwb_pcall(L, s, tell_undone, 5, 0) != LUA_OK && lua_isnil(L, error))
      lua_replace(L, error);
  }
  lua_pop(L, 1);
}

/* }====================================================== */
