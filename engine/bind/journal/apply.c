/*
** apply.c - writes that the library makes for the program.
** SPDX-License-Identifier: MIT
**
** The writes are the entries of effects, which are stored in either direction,
** by these steps:
**
**     look     do the fields hold what they held before the effects (or, to
**              undo them, after them)?  See fold.c
**     ask      what do guards of phase "check" say to all writes?
**     store    forwards, write by write, as if the program wrote: the watches
**              are told of each.  Backwards, all old values first, the last
**              write first, and no code of the program runs; then the watches
**              are told of the fields that have another value: see rollback.c
**
** A transaction that is taken back stores its entries backwards, too; the
** journal does not append these.  The caller of the functions here opens the
** transaction that takes half of the writes back, and has entries of them.
** What effects store is what was stored, so no `__newindex` of a class runs
** again.
**
** `instead` is nil or a table: number of an entry -> false, if the entry is
** left out, or a table with the value that is stored instead.
*/
#include "../watch/watch.h"

#include <string.h>

#include "../base/base.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "journal.h"

/* {======================================================
** One write
** ======================================================= */

/* A field that was absent is not written back if the object shows nothing by
** now: the class may not take nil.  Where the field cannot be read, nobody
** knows whether the field was absent. */
static int is_absent(lua_State *L) {
  int status = mwb_read_shown(L), is;
  if (status == LUA_ERRMEM) lua_error(L);
  if (status != LUA_OK)
    luaL_error(L, "the former value of field '%s' is not known",
               luaL_tolstring(L, KEY, NULL));
  is = lua_isnil(L, -1);
  lua_settop(L, SHADOW);
  return is;
}

/* Prepares the entry of an assignment to a cell or to a table that is not
** intercepted; OLD is above SHADOW. */
static void prepare_plain(lua_State *L, mwb_state *s, mw_handle h,
                          mwb_entry *entry) {
  int cell = mwb_is_cell(L, s, OBJECT);
  mwb_begin_entry(L, s, entry);
  if (cell) {
    mwb_push_cell(L, OBJECT);
  } else {
    lua_pushvalue(L, KEY);
    lua_rawget(L, OBJECT);
  }
  mwb_prepare(L, s, h, KEY, VALUE, OLD, entry);
  if (cell && entry->wanted && entry->owner != 0) /* keeps the cell alive */
    mwb_hold_value(L, &mwb_coroutine_of(s, entry->owner)->held, 0, OBJECT);
}

/* Assigns to a cell or to a table that is not intercepted. */
static void assign_plain(lua_State *L, mwb_state *s, int way) {
  mwb_entry entry;
  int appends = mwb_appends(s);
  mw_handle h = appends ? mwb_identify(L, s, "apply", OBJECT, 1) : MW_NONE;
  lua_settop(L, SHADOW);
  if (appends) prepare_plain(L, s, h, &entry);
  if (mwb_is_cell(L, s, OBJECT)) {
    lua_pushvalue(L, VALUE);
    mwb_set_cell(L, OBJECT);
  } else {
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    if (way != 0)
      lua_rawset(L, OBJECT);
    else
      lua_settable(L, OBJECT);
  }
  if (!appends) return;
  if (!mwb_is_prepared(s, &entry))
    mwb_prepare(L, s, h, KEY, VALUE, OLD, &entry);
  mwb_append_entry(L, s, &entry);
}

/* Assigns to a userdata; back, by its class. */
static void assign_userdata(lua_State *L, mwb_state *s, int way) {
  int appends = mwb_appends(s);
  if ((way & MWB_BACK) && lua_isnil(L, VALUE) && is_absent(L)) return;
  if (appends) {
    mwb_identify(L, s, "apply", OBJECT, 1);
    lua_settop(L, SHADOW);
    mwb_push_current(L, s); /* OLD */
  }
  if (way & MWB_BACK) {
    mwb_push_newindex(L, OBJECT);
    mwb_call_newindex(L, lua_gettop(L));
  } else {
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    lua_settable(L, OBJECT);
  }
  if (appends) mwb_append_kept(L, s, 0, 0);
}

/* An object gets another state, class or value, and nobody is told. */
static void write_unheard(lua_State *L, mwb_state *s, int kind, int way) {
  lua_settop(L, SHADOW);
  if (mwi_is_of_field(kind)) {
    if (lua_isuserdata(L, OBJECT) && !mwb_is_cell(L, s, OBJECT))
      assign_userdata(L, s, way);
    else
      assign_plain(L, s, way);
    return;
  }
  if (mwb_appends(s)) mwb_push_aspect(L, s, kind);
  lua_settop(L, OLD);
  if (mwi_kinds[kind].aspect == MWI_OF_STATE)
    mwb_change_state(L, s, mwb_identify(L, s, "apply", OBJECT, 1));
  else
    mwb_change_class(L, s, mwb_identify(L, s, "apply", OBJECT, 1), 0);
}

/* Opens a write to the object at OBJECT.  The old value of a state and of a
** class is read here; the key of a class is nil. */
static void open_write(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                       int kind, int guards_kind) {
  int given;
  lua_settop(L, SHADOW);
  given = mwb_push_aspect(L, s, kind) ? MWB_GIVEN : 0;
  mwb_write_open(L, s, w, h, guards_kind, given);
}

static void store(mwb_write *w, int kind, int way) {
  if (kind == MW_METATABLE)
    mwb_change_class(w->L, w->s, w->obj, mwb_write_number(w));
  else if (kind == MW_CALL)
    mwb_store_state(w);
  else if (lua_isuserdata(w->L, OBJECT))
    mwb_store_userdata(w);
  else if (way != 0)
    mwb_store_contents(w);
  else
    mwb_store_value(w);
}

int mwb_write_one(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mwb_made *its = (const mwb_made *)lua_touserdata(L, 4);
  int kind = its->kind, way = its->way, back = way & MWB_BACK;
  mw_handle h = its->obj;
  mwb_write w;
  if (!mwb_intercepts(s, h)) h = mwb_intercepting_at(L, s, OBJECT);
  if (h == MW_NONE || mwb_is_meta(L, KEY) ||
      (back && (!mwi_is_of_field(kind) || !lua_istable(L, OBJECT)))) {
    mwb_normalize_key(L);
    write_unheard(L, s, kind, way);
    return 0;
  }
  if (back) {
    mwb_write_open(L, s, &w, h, MW_ROLLBACK, 0);
    mwb_store_contents(&w);
    return 0;
  }
  open_write(L, s, &w, h, kind, (kind == MW_METATABLE) ? kind : MW_APPLY);
  mwb_write_count(&w);
  mwb_write_before(&w);
  store(&w, kind, way);
  if (!mwb_write_after(&w)) return 0;
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  return 1;
}

/* }====================================================== */

/* {======================================================
** All writes
** ======================================================= */

/* The stack of `ask_all` and `store_all`.  FUNCTION is what they call for each
** write; what is above is only used back: the numbers of the restoring writes,
** and the value of a fold. */
enum { FROM = 1, BY, INSTEAD, PROBLEM, FUNCTION, NUMBERS, HEARD, ERROR };

/* A run through all writes, which an error ends at the write `at`. */
typedef struct progress {
  lua_Integer n, done, at;
  mwb_made write;    /* the write `at` */
  uint32_t cause;    /* number of the write that is the cause, or 0: to undo a
                     write, that one; else the one that has undone it */
  mwb_fold heard;    /* back: what to tell */
  uint32_t *numbers; /* of the restoring writes, or NULL: nobody reads causes */
  int intact;        /* has nobody written the objects since the effects? */
} progress;

/* Pushes FUNCTION, and object, key and value of the next write for it; returns
** 0 at the end. */
static int next_write(lua_State *L, mwb_state *s, progress *p) {
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, FROM);
  int back = p->write.way & MWB_BACK, top = lua_gettop(L), instead;
  while (p->done++ < p->n) {
    mwb_place place;
    const mw_entry *entry;
    lua_settop(L, top);
    p->at = back ? p->n + 1 - p->done : p->done;
    instead = lua_istable(L, INSTEAD) ? lua_rawgeti(L, INSTEAD, p->at)
                                      : (lua_pushnil(L), LUA_TNIL);
    if (instead == LUA_TBOOLEAN) continue;
    place = mwb_find_entries(L, FROM);
    entry = &place.entries[p->at - 1];
    lua_pushvalue(L, FUNCTION);
    if (!mwb_alive(L, s, entry->obj)) continue;
    mwb_unpack(L, place.values, entry, MW_KEY);
    if (instead == LUA_TTABLE)
      lua_rawgeti(L, top + 1, 1);
    else
      mwb_unpack(L, place.values, entry, back ? MW_OLD : MW_NOW);
    p->write.obj = entry->obj;
    p->write.kind = entry->kind;
    p->cause = !mwb_is_read(s) ? 0
               : back          ? mw_entry_number(entry)
               : fx->undone    ? entry->context
                               : 0;
    return 1;
  }
  lua_settop(L, top);
  return 0;
}

/* ask_one(object, key, value, kind, kind for guards) -> the value to store */
static int ask_one(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_intercepting_at(L, s, OBJECT);
  int kind = (int)lua_tointeger(L, 4), guards_kind = (int)lua_tointeger(L, 5);
  mwb_write w;
  lua_settop(L, VALUE);
  if (h == MW_NONE) return 1;
  open_write(L, s, &w, h, kind, guards_kind);
  if (!mwb_write_check(&w)) return lua_error(L);
  lua_settop(L, VALUE);
  return 1;
}

/* ask_all(effects, _, instead, progress) -> instead, with other values */
static int ask_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  progress *p = (progress *)lua_touserdata(L, PROBLEM);
  for (mwb_push_function(L, s, ask_one); next_write(L, s, p);
       lua_settop(L, FUNCTION)) {
    int value = lua_gettop(L);
    lua_pushvalue(L, value);
    lua_insert(L, value - 3); /* for the comparison */
    lua_pushinteger(L, p->write.kind);
    lua_pushinteger(L, (p->write.kind == MW_METATABLE)  ? p->write.kind
                       : (p->write.way & MWB_BACK) != 0 ? MW_ROLLBACK
                                                        : MW_APPLY);
    lua_call(L, 5, 1);
    if (mwb_is_same(L, -1, -2)) continue;
    if (!lua_istable(L, INSTEAD)) {
      lua_newtable(L);
      lua_replace(L, INSTEAD);
    }
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    lua_rawseti(L, INSTEAD, p->at);
  }
  lua_settop(L, INSTEAD);
  return 1;
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

/* The effects at FROM are about to be undone.  Pushes NUMBERS and HEARD. */
static void begin_undo(lua_State *L, mwb_state *s, progress *p) {
  mwb_effects *fx = (mwb_effects *)lua_touserdata(L, FROM);
  mwb_place place;
  p->intact = lua_isnil(L, INSTEAD) && mwb_is_intact(L, s, FROM);
  if (p->intact) fx->began = mw_age_end(s->engine);
  fx->undone = 0;
  p->numbers = NULL;
  if (mwb_is_read(s)) {
    p->numbers =
        (uint32_t *)lua_newuserdatauv(L, (fx->n + 1) * sizeof(uint32_t), 0);
    memset(p->numbers, 0, fx->n * sizeof(uint32_t));
  } else {
    lua_pushnil(L);
  }
  place = mwb_find_entries(L, FROM);
  mwb_fold_heard(L, s, &p->heard, &place, fx->n, 0);
  lua_replace(L, HEARD);
}

/* All old values are stored: the effects know the numbers of the writes that
** have restored them, the causes if they are done again.  Tells the watches,
** and puts the first error of a guard at PROBLEM, in a table. */
static void end_undo(lua_State *L, mwb_state *s, const progress *p) {
  mwb_effects *fx = (mwb_effects *)lua_touserdata(L, FROM);
  mwb_place place;
  size_t i;
  s->journal->given = 0;
  if (p->intact) mwb_see_effects(s, fx);
  lua_settop(L, ERROR);
  place = mwb_find_entries(L, FROM);
  fx->undone = !place.in_log;
  for (i = 0; i < fx->n && !place.in_log; i++)
    place.entries[i].context = (p->numbers != NULL) ? p->numbers[i] : 0;
  mwb_tell_undone(L, s, &p->heard, FROM, ERROR, p->numbers);
  if (lua_isnil(L, ERROR)) return;
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, ERROR);
  lua_rawseti(L, -2, 1);
  lua_replace(L, PROBLEM);
}

/* store_all(effects, _, instead, progress) -> nil, or a table with the first
** error of a guard */
static int store_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  progress *p = (progress *)lua_touserdata(L, PROBLEM);
  int back = p->write.way & MWB_BACK, top;
  lua_pushnil(L);
  lua_replace(L, PROBLEM);
  mwb_push_function(L, s, mwb_write_one);
  if (back) begin_undo(L, s, p);
  for (top = lua_gettop(L); next_write(L, s, p); lua_settop(L, top)) {
    uint64_t seq = s->engine->journal.seq;
    lua_pushlightuserdata(L, &p->write);
    s->journal->given = p->cause;
    lua_call(L, 4, 1);
    if (back && p->numbers != NULL && s->engine->journal.seq != seq)
      p->numbers[p->at - 1] = last_number(L, s);
    if (!lua_isnil(L, -1) && lua_isnil(L, PROBLEM)) lua_replace(L, PROBLEM);
  }
  if (back) end_undo(L, s, p);
  lua_settop(L, PROBLEM);
  return 1;
}

/* Calls one of the two, for one result.  The number of the write that an error
** concerns becomes `at` of the table at PROBLEM, if there is one. */
static void run(lua_State *L, mwb_state *s, lua_CFunction f, int way) {
  uint32_t given = s->journal->given;
  progress p;
  int status, i;
  memset(&p, 0, sizeof(p));
  lua_settop(L, PROBLEM);
  p.n = (lua_Integer)((const mwb_effects *)lua_touserdata(L, FROM))->n;
  p.write.way = way;
  for (i = FROM; i <= INSTEAD; i++) lua_pushvalue(L, i);
  lua_pushlightuserdata(L, &p);
  status = mwb_pcall(L, s, f, 4, 1);
  s->journal->given = given;
  if (status == LUA_OK) return;
  if (lua_istable(L, PROBLEM)) {
    lua_pushinteger(L, p.at);
    lua_setfield(L, PROBLEM, "at");
  }
  lua_error(L);
}

/* store(effects, by, instead, progress or nil) -> nil, or a table with the
** first error of a guard: asks the guards of phase "check" about all writes,
** and makes them; raises the error of one that refuses.  `by` is -1 to undo
** effects, 1 to store values as they were stored, or 0. */
static int store_writes(lua_State *L) {
  static const int ways[] = {MWB_BACK, 0, MWB_STORED};
  mwb_state *s = mwb_enter(L);
  int way = ways[lua_tointeger(L, BY) + 1];
  if (s->engine->watch.checks > 0) {
    run(L, s, ask_all, way);
    lua_replace(L, INSTEAD);
  }
  run(L, s, store_all, way);
  return 1;
}

/* take_back(effects) -> the same: undoes effects, and asks nobody */
static int take_back(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_check_effects(L, "rollback");
  lua_settop(L, FROM);
  run(L, s, store_all, MWB_BACK);
  return 1;
}

/* }====================================================== */

const luaL_Reg mwb_apply_functions[] = {
    {"store", store_writes}, {"take_back", take_back}, {NULL, NULL}};
