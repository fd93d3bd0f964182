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

/* How the writes are made: the old values, the last write first, and the
** watches are told at the end; or the new ones, told one by one, and so that a
** table gets the value as it is, whatever its class would store. */
enum { BACK = 1, STORED = 2 };

/* A write that is made: to which object, which kind of entry, how; and whether
** the contents of the object are at SHADOW from the write before. */
typedef struct made {
  mw_handle obj;
  int kind, way, has_contents;
} made;

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
  lua_settop(L, VALUE);
  return is;
}

/* Assigns to a cell.  Its entry keeps the cell alive. */
static void write_cell(lua_State *L, mwb_state *s, mw_handle h) {
  mwb_entry entry;
  lua_settop(L, SHADOW);
  mwb_push_cell(L, OBJECT);
  mwb_prepare(L, s, h, MW_UPDATE, OLD, 0, &entry);
  if (entry.wanted && entry.tx != NULL) /* does a transaction get it? */
    mwb_hold_value(L, &entry.tx->of->held, 0, OBJECT);
  lua_pushvalue(L, VALUE);
  mwb_set_cell(L, OBJECT);
  mwb_append_entry(L, s, &entry);
}

/* Opens the write of an object, key and value, which are at OBJECT, KEY and
** VALUE.  The old value of a state and of a class is read here, if somebody
** asks for it. */
static void open_write(lua_State *L, mwb_state *s, mwb_write *w,
                       const made *its) {
  int given = its->has_contents ? MWB_FOUND : 0;
  int kind = (its->way & BACK) != 0      ? MW_ROLLBACK
             : its->kind == MW_METATABLE ? its->kind
                                         : MW_APPLY;
  lua_settop(L, SHADOW);
  if (!mwi_is_of_field(its->kind)) {           /* a class or a state? */
    if (kind != MW_ROLLBACK || mwb_appends(s)) /* does anybody ask for it? */
      mwb_push_aspect(L, s, its->kind);
    else
      lua_pushnil(L);
    given = MWB_GIVEN;
  }
  mwb_write_open(L, s, w, its->obj, kind, given);
}

static void store(mwb_write *w, int kind, int way) {
  if (kind == MW_METATABLE)
    mwb_change_class(w->L, w->s, w->obj, mwb_write_number(w));
  else if (kind == MW_CALL) /* a whole state? */
    mwb_store_state(w);
  else if (lua_isuserdata(w->L, OBJECT))
    mwb_store_userdata(w);
  else if (way != 0) /* whatever the class would store? */
    mwb_store_contents(w);
  else
    mwb_store_value(w);
}

/* Makes a write.  Returns whether a guard has failed, whose error is the top
** then.  An object that is not intercepted has no record with watches, so
** nobody is told. */
static int make_write(lua_State *L, mwb_state *s, made *its) {
  int kind = its->kind, back = its->way & BACK;
  int is_field = mwi_is_of_field(kind), failed;
  mwb_write w;
  if (is_field && lua_isuserdata(L, OBJECT)) { /* of a cell, perhaps? */
    int is_cell = mwb_is_cell(L, s, OBJECT);
    if (is_cell) write_cell(L, s, its->obj);
    if (is_cell || (back && lua_isnil(L, VALUE) && is_absent(L))) return 0;
  }
  open_write(L, s, &w, its);
  if (is_field && mwb_is_meta(L, KEY)) { /* no contents: nobody is told */
    w.r = NULL;
    w.shadow = OBJECT;
  }
  if (!back) { /* else the watches are told at the end */
    mwb_write_count(&w);
    mwb_write_before(&w);
  }
  store(&w, kind, its->way);
  failed = !back && mwb_write_after(&w);
  its->has_contents = its->way != 0 && !w.called && is_field &&
                      w.shadow == SHADOW && w.r != NULL && /* in place still? */
                      mwi_object_intercepts(w.r) && w.r->layout == w.layout;
  return failed;
}

int mwb_write_back(lua_State *L) {
  made its = {MW_NONE, 0, BACK, 0};
  const mw_entry *entry = (const mw_entry *)lua_touserdata(L, 4);
  its.obj = entry->obj;
  its.kind = entry->kind;
  make_write(L, mwb_state_of(L), &its);
  return 0;
}

/* }====================================================== */

/* {======================================================
** All writes
** ======================================================= */

/* A run through all writes, which an error ends at the write `at`. */
typedef struct progress {
  mwb_effects *fx;
  mwb_place place; /* of their entries */
  lua_Integer done, at;
  made write;        /* the write `at` */
  int reads;         /* does anybody read causes? */
  uint32_t cause;    /* number of the write that is the cause, or 0: to undo a
                     write, that one; else the one that has undone it */
  uint32_t *numbers; /* of the restoring writes, or NULL: nobody reads causes */
  void (*each)(lua_State *L, mwb_state *s, struct progress *p);
} progress;

/* The stack of what the program calls: the arguments; and the values of the
** effects, for `numbers` and of a fold. */
enum { FROM = 1, BY, INSTEAD, PROBLEM, VALUES, NUMBERS, HEARD, ERROR };

/* The upvalues of `run_all`, whose stack is that of a write.  ASIDE is the
** first error of a guard, in a table, or what a check may change. */
enum { PROGRESS = 3, ITS_VALUES, ITS_INSTEAD, ASIDE, N_RUN = ASIDE };
#define UP(i) lua_upvalueindex(i)

/* Puts the next write on the stack; returns 0 at the end.  The contents of the
** object stay there if the write before was to the same object. */
static int next_write(lua_State *L, mwb_state *s, progress *p) {
  int back = p->write.way & BACK;
  lua_Integer n = (lua_Integer)p->fx->n;
  while (p->done++ < n) {
    const mw_entry *entry;
    p->at = back ? n + 1 - p->done : p->done;
    entry = &p->place.entries[p->at - 1];
    if (p->write.obj != entry->obj) p->write.has_contents = 0;
    lua_settop(L, p->write.has_contents ? SHADOW : 0);
    if (!p->write.has_contents && !mwb_alive(L, s, entry->obj)) continue;
    lua_settop(L, SHADOW);
    mwb_unpack(L, UP(ITS_VALUES), entry, MW_KEY);
    mwb_unpack(L, UP(ITS_VALUES), entry, back ? MW_OLD : MW_NOW);
    if (lua_istable(L, UP(ITS_INSTEAD))) {
      int instead = lua_rawgeti(L, UP(ITS_INSTEAD), p->at);
      if (instead == LUA_TBOOLEAN) continue;            /* left out? */
      if (instead == LUA_TTABLE) lua_rawgeti(L, -1, 1); /* another value? */
      if (instead == LUA_TTABLE) lua_replace(L, OLD + 1);
      lua_settop(L, OLD + 1);
    }
    lua_replace(L, VALUE);
    lua_replace(L, KEY);
    p->write.obj = entry->obj;
    p->write.kind = entry->kind;
    p->cause = !p->reads       ? 0
               : back          ? mw_entry_number(entry)
               : p->fx->undone ? entry->context
                               : 0;
    return 1;
  }
  return 0;
}

/* Asks the guards of phase "check" about the write; the value that they give
** is stored instead. */
static void ask_one(lua_State *L, mwb_state *s, progress *p) {
  mwb_write w;
  if (mwb_intercepting_at(L, s, OBJECT) == MW_NONE) return; /* no guards? */
  lua_copy(L, VALUE, UP(ASIDE));
  open_write(L, s, &w, &p->write);
  if (!mwb_write_check(&w)) lua_error(L);
  if (mwb_is_same(L, VALUE, UP(ASIDE))) return; /* has no guard changed it? */
  if (!lua_istable(L, UP(ITS_INSTEAD))) {       /* the first changed one? */
    lua_newtable(L);
    lua_replace(L, UP(ITS_INSTEAD));
  }
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, VALUE);
  lua_rawseti(L, -2, 1);
  lua_rawseti(L, UP(ITS_INSTEAD), p->at);
}

static void store_one(lua_State *L, mwb_state *s, progress *p) {
  uint64_t seq = s->engine->journal.seq;
  const mwb_transaction *tx;
  s->journal->given = p->cause;
  if (make_write(L, s, &p->write) && lua_isnil(L, UP(ASIDE))) { /* first? */
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    lua_replace(L, UP(ASIDE));
  }
  if (p->numbers == NULL || s->engine->journal.seq == seq) return;
  /* an entry was appended: it has a number from before if somebody asked */
  tx = mwb_transaction_now(L, s);
  p->numbers[p->at - 1] =
      (tx != NULL && tx->its->log->n > tx->its->mark) /* a transaction's? */
          ? mw_entry_number(&tx->its->log->entries[tx->its->log->n - 1])
          : (uint32_t)s->engine->journal.seq;
}

/* run_all() -> instead, problem */
static int run_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  progress *p = (progress *)lua_touserdata(L, UP(PROGRESS));
  while (next_write(L, s, p)) p->each(L, s, p);
  lua_pushvalue(L, UP(ITS_INSTEAD));
  lua_pushvalue(L, UP(ASIDE));
  return 2;
}

/* Does `each` for all writes, and pushes what `run_all` returns.  The number of
** the write that an error concerns becomes `at` of the table at PROBLEM, if
** there is one. */
static void run(lua_State *L, mwb_state *s, progress *p,
                void (*each)(lua_State *L, mwb_state *s, progress *p)) {
  uint32_t given = s->journal->given;
  int status;
  p->each = each;
  p->done = 0;
  p->write.has_contents = 0;
  lua_pushlightuserdata(L, s);
  mwb_push(L, s, MWB_OBJECTS);
  lua_pushlightuserdata(L, p);
  lua_pushvalue(L, VALUES);
  lua_pushvalue(L, INSTEAD);
  lua_pushnil(L);
  lua_pushcclosure(L, run_all, N_RUN);
  status = lua_pcall(L, 0, 2, 0);
  s->journal->given = given;
  if (status == LUA_OK) return;
  if (lua_istable(L, PROBLEM)) { /* does the caller want to know where? */
    lua_pushinteger(L, p->at);
    lua_setfield(L, PROBLEM, "at");
  }
  lua_error(L);
}

/* Makes all writes backwards: all old values are stored before the watches are
** told, and the effects know the numbers of the writes that have restored them:
** the causes if they are done again.  Returns nil, or a table with the first
** error of a guard. */
static int store_back(lua_State *L, mwb_state *s, progress *p) {
  mwb_effects *fx = p->fx;
  mwb_fold heard;
  size_t i;
  int intact;
  intact = lua_isnil(L, INSTEAD) && mwb_is_intact(s, fx);
  if (intact) fx->began = mw_age_end(s->engine);
  fx->undone = 0;
  if (p->reads) { /* may a redo need the numbers as causes? */
    p->numbers =
        (uint32_t *)lua_newuserdatauv(L, (fx->n + 1) * sizeof(uint32_t), 0);
    memset(p->numbers, 0, fx->n * sizeof(uint32_t));
  } else {
    lua_pushnil(L);
  }
  mwb_fold_heard(L, s, &heard, &p->place, fx->n, 0);
  run(L, s, p, store_one);
  lua_settop(L, HEARD);
  lua_pushnil(L);
  if (intact) fx->seen = mw_age_end(s->engine);
  fx->undone = 1;
  for (i = 0; i < fx->n; i++)
    p->place.entries[i].context = (p->numbers != NULL) ? p->numbers[i] : 0;
  mwb_tell_undone(L, s, &heard, FROM, ERROR, p->numbers);
  if (lua_isnil(L, ERROR)) return 1; /* has no guard failed? */
  lua_createtable(L, 1, 0);
  lua_insert(L, ERROR);
  lua_rawseti(L, ERROR, 1);
  return 1;
}

/* store(effects, by, instead, progress or nil) -> nil, or a table with the
** first error of a guard: asks the guards of phase "check" about all writes,
** and makes them; raises the error of one that refuses.  `by` is -1 to undo
** effects, 1 to store values as they were stored, 0, or nil to undo effects and
** ask nobody. */
static int store_writes(lua_State *L) {
  static const int ways[] = {BACK, 0, STORED};
  mwb_state *s = mwb_enter(L);
  progress p;
  memset(&p, 0, sizeof(p));
  lua_settop(L, PROBLEM);
  p.fx = (mwb_effects *)lua_touserdata(L, FROM);
  p.reads = mwb_is_read(s);
  p.place = mwb_find_entries(L, FROM);
  p.write.way = lua_isnil(L, BY) ? BACK : ways[lua_tointeger(L, BY) + 1];
  if (s->engine->watch.checks > 0 && !lua_isnil(L, BY)) { /* are any asked? */
    run(L, s, &p, ask_one);
    lua_pop(L, 1);
    lua_replace(L, INSTEAD);
  }
  if (p.write.way == BACK) return store_back(L, s, &p);
  run(L, s, &p, store_one);
  return 1;
}

/* }====================================================== */

const luaL_Reg mwb_apply_functions[] = {{"store", store_writes}, {NULL, NULL}};
