/*
** coroutine.c - the coroutines that have begun transactions and batches.
** SPDX-License-Identifier: MIT
**
**     MWB_RECORDS: coroutine --> record (userdata) --> mwb_coroutine
**                     ^             |         |
**                     +-- COROUTINE +         + VALUES --> table of held values
**
** The keys of MWB_RECORDS are weak.  When a coroutine is lost, so is its
** record.  The transactions of a coroutine that is lost, or has ended, stay
** open as long as the program has their handles.
**
** A write belongs to the last open transaction, and to the last open batch, of
** the running coroutine; without one, to the one that began last of those of
** the coroutines that wait for the running one.  These are found from the main
** coroutine on: each waits in a call of a function of Lua's that has the next
** one as argument or upvalue.  Where a coroutine waits otherwise, or if there
** are few, all are asked whether they wait.
**
** The held values may refer to the coroutine.  So only the record has their
** table, until the finaliser puts it in the registry, where the record has a
** place.  The main coroutine's table is there from the begin.
*/
#include "journal.h"

#include <string.h>

#include "../base/base.h"

/* User values of a record. */
enum { COROUTINE = 1, VALUES, N_USER = VALUES };

/* Pushes the record of a coroutine that is there, or is being lost. */
static void push_record(lua_State *L, const mwb_state *s, lua_State *of) {
  mwb_push(L, s, MWB_RECORDS);
  lua_checkstack(of, 1);
  lua_pushthread(of);
  lua_xmove(of, L, 1);
  lua_rawget(L, -2);
  lua_replace(L, -2);
}

/* Returns the record of a coroutine, or NULL. */
static mwb_coroutine *record_of(lua_State *L, const mwb_state *s,
                                lua_State *of) {
  mwb_coroutine *const *record;
  push_record(L, s, of);
  record = (mwb_coroutine *const *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return (record == NULL) ? NULL : *record;
}

void mwb_push_values(lua_State *L, const mwb_coroutine *t) {
  if (t->kept) { /* is the table in the registry? */
    lua_rawgeti(L, LUA_REGISTRYINDEX, t->place);
    return;
  }
  push_record(L, t->s, t->L);
  lua_getiuservalue(L, -1, VALUES);
  lua_replace(L, -2);
}

void mwb_set_values(lua_State *L, mwb_coroutine *t) {
  t->has_values = lua_istable(L, -1);
  if (t->kept) {
    lua_rawseti(L, LUA_REGISTRYINDEX, t->place);
  } else {
    push_record(L, t->s, t->L);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, VALUES);
    lua_pop(L, 1);
  }
  t->held.n = t->held.kept = 0;
  t->held.id = ++t->s->journal->held_ids;
  t->shared = 0;
}

mwb_coroutine *mwb_find_coroutine(lua_State *L, mwb_state *s) {
  s->journal->running = L;
  s->journal->coroutine = record_of(L, s, L);
  return s->journal->coroutine;
}

mwb_coroutine *mwb_need_coroutine(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = mwb_own_coroutine(L, s), **record;
  int top = lua_gettop(L);
  if (t != NULL) return t;
  record = (mwb_coroutine **)lua_newuserdatauv(L, sizeof(*record), N_USER);
  *record = NULL;
  mwb_push(L, s, MWB_RECORD);
  lua_setmetatable(L, -2);
  lua_pushthread(L);
  lua_setiuservalue(L, -2, COROUTINE);
  t = (mwb_coroutine *)mwi_new(s->engine, sizeof(*t));
  if (t == NULL) {
    mwb_check(L, MW_NOMEM);
    return NULL;
  }
  *record = t;
  t->s = s;
  t->L = L;
  t->held.of = t;
  t->kept = L == s->main;
  t->place = LUA_NOREF;
  lua_pushboolean(L, 0); /* the finaliser has no memory for a place */
  t->place = luaL_ref(L, LUA_REGISTRYINDEX);
  mwb_push(L, s, MWB_RECORDS);
  lua_pushthread(L);
  lua_pushvalue(L, top + 1);
  lua_rawset(L, -3);
  lua_settop(L, top);
  s->journal->running = L;
  s->journal->coroutine = t;
  return t;
}

static void free_record(lua_State *L, mwb_state *s, mwb_coroutine *t) {
  if (s->journal->coroutine == t) s->journal->running = NULL; /* cached? */
  luaL_unref(L, LUA_REGISTRYINDEX, t->place);
  mwi_free(s->engine, t, sizeof(*t));
}

void mwb_begin(mwb_state *s, mwb_coroutine *t, int by, mwb_begun *its) {
  mwb_journal_state *all = s->journal;
  its->order = ++all->orders;
  its->outer = t->open[by];
  t->open[by] = its;
  if (t->n_open++ > 0) return; /* in the list already? */
  t->prev = NULL;
  t->next = all->coroutines;
  if (t->next != NULL) t->next->prev = t;
  all->coroutines = t;
  all->n_coroutines++;
}

void mwb_end(lua_State *L, mwb_state *s, mwb_coroutine *t, int by,
             const mwb_begun *its) {
  mwb_begun **at = &t->open[by];
  while (*at != its) at = &(*at)->outer;
  *at = its->outer;
  if (--t->n_open > 0) return; /* does it stay in the list? */
  if (t->next != NULL) t->next->prev = t->prev;
  if (t->prev != NULL)
    t->prev->next = t->next;
  else
    s->journal->coroutines = t->next;
  s->journal->n_coroutines--;
  if (t->L == NULL) free_record(L, s, t); /* is the coroutine gone? */
}

static int is_later(const mwb_begun *its, const mwb_begun *last) {
  return its != NULL && (last == NULL || its->order > last->order);
}

/* Returns the coroutine that `of`, which waits, has resumed, or NULL. */
static lua_State *resumed_by(const mwb_state *s, lua_State *of) {
  lua_Debug frame;
  lua_CFunction f;
  lua_State *next;
  int top = lua_gettop(of);
  if (!lua_checkstack(of, 4) || !lua_getstack(of, 0, &frame)) return NULL;
  lua_getinfo(of, "f", &frame);
  f = lua_tocfunction(of, -1);
  if (f == s->journal->wrapped) /* what coroutine.wrap gave? */
    lua_getupvalue(of, -1, 1);
  else if (f == s->journal->resume || f == s->journal->close) /* an argument? */
    lua_getlocal(of, &frame, 1);
  next = lua_tothread(of, -1);
  lua_settop(of, top);
  return next;
}

/* Finds what `mwb_waiting` returns by following who has resumed whom.  Returns
** 0 if that does not lead to the running coroutine. */
static int follow(lua_State *L, const mwb_state *s, int by, mwb_begun **last) {
  lua_State *of;
  *last = NULL;
  if (!lua_checkstack(L, 4)) return 0;
  for (of = s->main; of != L; of = resumed_by(s, of)) {
    const mwb_coroutine *t;
    if (of == NULL) return 0; /* does one wait otherwise? */
    t = record_of(L, s, of);
    if (t != NULL && is_later(t->open[by], *last)) *last = t->open[by];
  }
  return 1;
}

lua_State *mwb_nearest_coroutine(lua_State *L, mwb_state *s,
                                 int (*f)(lua_State *of, mwb_state *s)) {
  lua_State *of = s->main, *nearest = NULL;
  for (; of != NULL && of != L; of = resumed_by(s, of))
    if (f(of, s)) nearest = of;
  return nearest;
}

#define FEW 4

mwb_begun *mwb_waiting(lua_State *L, const mwb_state *s, int by) {
  const mwb_coroutine *t;
  mwb_begun *last;
  lua_Debug frame;
  if (s->journal->n_coroutines > FEW && follow(L, s, by, &last)) return last;
  last = NULL;
  for (t = s->journal->coroutines; t != NULL; t = t->next) {
    if (!is_later(t->open[by], last) || t->L == L || t->L == NULL) continue;
    if (t->L != s->main && /* or does it wait for one that it has resumed? */
        (lua_status(t->L) != LUA_OK || !lua_getstack(t->L, 0, &frame)))
      continue;
    last = t->open[by];
  }
  return last;
}

/* The finaliser of a record.  The coroutine is dead or cannot be resumed; what
** it has begun is ended by its handles. */
static int lose(lua_State *L) {
  mwb_coroutine **record = (mwb_coroutine **)lua_touserdata(L, 1), *t = *record;
  mwb_state *s = mwb_state_of(L);
  if (t == NULL || s->engine == NULL) return 0; /* not made, or all closed? */
  *record = NULL;
  if (s->journal->coroutine == t) s->journal->running = NULL;
  if (t->open[MWB_BY_TRANSACTION] != NULL && !t->kept) { /* values needed? */
    lua_getiuservalue(L, 1, VALUES);
    lua_rawseti(L, LUA_REGISTRYINDEX, t->place);
    t->kept = 1;
  }
  t->L = NULL;
  if (t->n_open == 0) free_record(L, s, t); /* else the last end does */
  return 0;
}

/* Learns the functions in which a coroutine waits.  The program may have
** others in the place of Lua's own. */
static void learn_functions(lua_State *L, mwb_state *s) {
  lua_pushcfunction(L, luaopen_coroutine);
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "resume");
  s->journal->resume = lua_tocfunction(L, -1);
  lua_getfield(L, -2, "close");
  s->journal->close = lua_tocfunction(L, -1);
  lua_getfield(L, -3, "wrap");
  lua_pushcfunction(L, lose);
  lua_call(L, 1, 1);
  s->journal->wrapped = lua_tocfunction(L, -1);
  lua_pop(L, 4);
}

void mwb_open_coroutines(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg meta[] = {{"__gc", lose}, {NULL, NULL}};
  learn_functions(L, s);
  mwb_new_meta(L, MWB_RECORD, "coroutine", meta, NULL);
  mwb_new_ephemeron(L, MWB_RECORDS);
}
