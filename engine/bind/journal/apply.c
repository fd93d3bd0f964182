/*
** apply.c - writes that the library makes for the program.
** SPDX-License-Identifier: MIT
**
** The writes are the entries of effects, or of an array of Lua tables with the
** fields of entries.  They go by three steps, each one call:
**
**     look     do the fields hold what they held before the effects (or, to
**              undo them, after them)?  See fold.c
**     ask      what do guards of phase "check" say to all writes?
**     apply    store and tell, write by write, in the order of the program
**
** To undo effects is the same with the old values, the last write first: see
** `undo` in rollback.c.  The caller opens the transaction that takes half of
** the writes back.  A table gets the values of the entries: they are what was
** stored, so no `__newindex` of a class runs again.
**
** `instead` is nil or a table: number of an entry -> false, if the entry is
** left out, or a table with the value that is stored instead.
*/
#include "../watch/watch.h"

#include "../base/base.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "journal.h"

/* {======================================================
** One write
** ======================================================= */

/* Pushes the field of a table, raw, or the present value of a userdata's
** key. */
static void push_plain(lua_State *L, mwb_state *s) {
  if (lua_istable(L, OBJECT)) {
    lua_pushvalue(L, KEY);
    lua_rawget(L, OBJECT);
  } else {
    mwb_push_current(L, s);
  }
}

void mwb_prepare_plain(lua_State *L, mwb_state *s, mwb_entry *entry) {
  mw_handle h = mwb_identify(L, s, "apply", OBJECT, 1);
  int cell = mwb_is_cell(L, s, OBJECT);
  mwb_begin_entry(L, s, entry);
  lua_settop(L, SHADOW);
  if (cell)
    mwb_push_cell(L, OBJECT); /* OLD */
  else
    push_plain(L, s);
  mwb_prepare(L, s, h, KEY, VALUE, OLD, entry);
  if (cell) mwb_hold_object(L, s, OBJECT, entry); /* keeps the cell alive */
}

static void assign_plain(lua_State *L, mwb_state *s, int stored) {
  mwb_entry entry;
  mwb_prepare_plain(L, s, &entry);
  lua_pushvalue(L, VALUE);
  if (mwb_is_cell(L, s, OBJECT)) {
    mwb_set_cell(L, OBJECT);
  } else {
    lua_pushvalue(L, KEY);
    lua_insert(L, -2);
    if (stored && lua_istable(L, OBJECT))
      lua_rawset(L, OBJECT);
    else
      lua_settable(L, OBJECT);
  }
  if (lua_isuserdata(L, OBJECT) && !mwb_is_cell(L, s, OBJECT)) {
    mwb_append_kept(L, s, &entry, 0);
    return;
  }
  if (!mwb_is_prepared(s, &entry))
    mwb_prepare(L, s, entry.its.obj, KEY, VALUE, OLD, &entry);
  mwb_append_entry(L, s, &entry);
}

/* An object that is not intercepted gets another state, class or value. */
static void write_unheard(lua_State *L, mwb_state *s, int kind, int stored) {
  lua_settop(L, SHADOW);
  if (!mwb_push_aspect(L, s, kind)) /* OLD */
    assign_plain(L, s, stored);
  else if (mwi_kinds[kind].aspect == MWI_OF_STATE)
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

static void store(mwb_write *w, int kind, int stored) {
  if (kind == MW_METATABLE)
    mwb_change_class(w->L, w->s, w->obj, mwb_write_number(w));
  else if (kind == MW_CALL)
    mwb_store_state(w);
  else if (lua_isuserdata(w->L, OBJECT))
    mwb_store_userdata(w);
  else if (stored)
    mwb_store_contents(w);
  else
    mwb_store_value(w);
}

/* write(object, key, value, kind of the entry, stored) -> nothing, or a table
** with the error of a guard.  Guards get the kind "apply", and "metatable" for
** a class.  Unless `stored`, the class of a table decides what it keeps. */
static int write_one(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int kind = (int)lua_tointeger(L, 4), stored = lua_toboolean(L, 5);
  mw_handle h;
  mwb_write w;
  lua_settop(L, SHADOW);
  mwb_normalize_key(L);
  h = mwb_intercepting_at(L, s, OBJECT);
  if (h == MW_NONE) {
    write_unheard(L, s, kind, stored);
    return 0;
  }
  open_write(L, s, &w, h, kind, (kind == MW_METATABLE) ? kind : MW_APPLY);
  mwb_write_count(&w);
  mwb_write_before(&w);
  store(&w, kind, stored);
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

/* A write of effects or of an array, whose object, key and value are the top
** three. */
typedef struct one {
  int kind;
  uint32_t cause; /* number of the write that has undone this one, or 0 */
} one;

static lua_Integer count_writes(lua_State *L, int from) {
  return lua_istable(L, from)
             ? (lua_Integer)lua_rawlen(L, from)
             : (lua_Integer)((mwb_effects *)lua_touserdata(L, from))->n;
}

static void push_listed(lua_State *L, int from, lua_Integer i, one *its) {
  int top = lua_gettop(L);
  lua_rawgeti(L, from, i);
  lua_getfield(L, top + 1, "object");
  lua_getfield(L, top + 1, "key");
  lua_getfield(L, top + 1, "new");
  its->kind = (lua_getfield(L, top + 1, "kind") == LUA_TNIL) ? MW_UPDATE
                                                             : mwb_kind(L, -1);
  its->cause = 0;
  lua_pop(L, 1);
  lua_remove(L, top + 1);
}

/* Pushes the write number `i` with the new value (MW_NOW) or the old one.
** Returns 0, and pushes nothing, if the object is dead. */
static int push_write(lua_State *L, mwb_state *s, int from, lua_Integer i,
                      int part, one *its) {
  const mwb_effects *fx;
  const mw_entry *entry;
  mwb_place p;
  int top = lua_gettop(L);
  if (lua_istable(L, from)) {
    push_listed(L, from, i, its);
    return 1;
  }
  fx = (const mwb_effects *)lua_touserdata(L, from);
  p = mwb_find_entries(L, from); /* at top + 1 */
  entry = &p.entries[i - 1];
  if (!mwb_alive(L, s, entry->obj)) {
    lua_settop(L, top);
    return 0;
  }
  mwb_unpack(L, p.values, entry, MW_KEY);
  mwb_unpack(L, p.values, entry, part);
  lua_remove(L, top + 1);
  its->kind = entry->kind;
  its->cause = (fx->undone && mwb_is_read(s)) ? entry->context : 0;
  return 1;
}

/* Puts what `instead` says of the write number `i` at the top, where the value
** is.  Returns 0 if the write is left out. */
int mwb_replace_value(lua_State *L, int instead, lua_Integer i) {
  int type;
  if (!lua_istable(L, instead)) return 1;
  type = lua_rawgeti(L, instead, i);
  if (type == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_replace(L, -3);
  }
  lua_pop(L, 1);
  return type != LUA_TBOOLEAN;
}

/* The stack of `ask_all` and `apply_all`. */
enum { FROM = 1, STORED, INSTEAD, PROBLEM };

/* A run through all writes, which an error ends at the write `at`. */
typedef struct progress {
  lua_Integer at;
  int back; /* are the old values written, the last one first? */
} progress;

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

/* Asks about the write whose object, key and value are the top three, and pops
** them.  Another value goes to INSTEAD. */
static void ask_about(lua_State *L, mwb_state *s, const progress *p, int kind) {
  int value = lua_gettop(L), guards_kind = p->back ? MW_ROLLBACK : MW_APPLY;
  mwb_push_function(L, s, ask_one);
  lua_insert(L, value - 2);
  lua_pushvalue(L, value + 1);
  lua_insert(L, value - 2); /* below the function, for the comparison */
  lua_pushinteger(L, kind);
  lua_pushinteger(L, (kind == MW_METATABLE) ? kind : guards_kind);
  lua_call(L, 5, 1);
  if (!mwb_is_same(L, -1, -2)) {
    if (!lua_istable(L, INSTEAD)) {
      lua_newtable(L);
      lua_replace(L, INSTEAD);
    }
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    lua_rawseti(L, INSTEAD, p->at);
  }
  lua_settop(L, value - 3);
}

/* ask_all(writes, _, instead, progress) -> instead */
static int ask_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  progress *p = (progress *)lua_touserdata(L, PROBLEM);
  lua_Integer i, n = count_writes(L, FROM);
  one its;
  for (i = 1; i <= n; i++) {
    lua_settop(L, PROBLEM);
    p->at = p->back ? n + 1 - i : i;
    if (!push_write(L, s, FROM, p->at, p->back ? MW_OLD : MW_NOW, &its))
      continue;
    if (mwb_replace_value(L, INSTEAD, p->at)) ask_about(L, s, p, its.kind);
  }
  lua_settop(L, INSTEAD);
  return 1;
}

/* apply_all(writes, stored, instead, progress) -> nil, or a table with the
** first error of a guard */
static int apply_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  progress *p = (progress *)lua_touserdata(L, PROBLEM);
  lua_Integer i, n = count_writes(L, FROM);
  one its;
  lua_pushnil(L);
  lua_replace(L, PROBLEM);
  for (i = 1; i <= n; i++) {
    lua_settop(L, PROBLEM);
    p->at = i;
    mwb_push(L, s, MWB_WRITEONE);
    if (!push_write(L, s, FROM, i, MW_NOW, &its)) continue;
    if (!mwb_replace_value(L, INSTEAD, i)) continue;
    lua_pushinteger(L, its.kind);
    lua_pushvalue(L, STORED);
    s->journal->given = its.cause;
    lua_call(L, 5, 1);
    if (!lua_isnil(L, -1) && lua_isnil(L, PROBLEM)) lua_replace(L, PROBLEM);
  }
  lua_settop(L, PROBLEM);
  return 1;
}

/* Calls one of the two for the values at FROM, STORED and INSTEAD.  The number
** of the write that an error concerns becomes `at` of the table at PROBLEM, if
** there is one.  Returns one result. */
static int run(lua_State *L, mwb_state *s, lua_CFunction f, int back) {
  uint32_t given = s->journal->given;
  progress p = {0, back};
  int status, i;
  lua_settop(L, PROBLEM);
  mwb_push_function(L, s, f);
  for (i = FROM; i <= INSTEAD; i++) lua_pushvalue(L, i);
  lua_pushlightuserdata(L, &p);
  status = lua_pcall(L, 4, 1, 0);
  s->journal->given = given;
  if (status == LUA_OK) return 1;
  if (lua_istable(L, PROBLEM)) {
    lua_pushinteger(L, p.at);
    lua_setfield(L, PROBLEM, "at");
  }
  return lua_error(L);
}

/* ask(writes, back, instead, progress or nil) -> instead: asks the guards of
** phase "check" about all writes; raises the error of one that refuses */
static int ask(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int back = lua_toboolean(L, STORED);
  if (s->engine->watch.checks == 0) {
    lua_settop(L, INSTEAD);
    return 1;
  }
  return run(L, s, ask_all, back);
}

/* apply(writes, stored, instead, progress or nil) -> nil, or a table with the
** first error of a guard */
static int apply(lua_State *L) { return run(L, mwb_enter(L), apply_all, 0); }

/* }====================================================== */

void mwb_open_apply(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"ask", ask}, {"apply", apply}, {NULL, NULL}};
  mwb_state *s = mwb_state_of(L);
  mwb_push_function(L, s, write_one);
  mwb_keep(L, s, MWB_WRITEONE);
  mwb_set_funcs(L, functions);
}
