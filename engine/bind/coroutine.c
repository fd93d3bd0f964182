/*
** coroutine.c - the coroutines that have begun transactions and batches.
** SPDX-License-Identifier: MIT
**
**     MWB_RECORDS: coroutine --> record (userdata) --> mwb_coroutine
**                     ^             |         |
**                     +-- COROUTINE +         + VALUES --> table of held values
**
** The keys of MWB_RECORDS are weak.  When a coroutine is lost, so is its
** record, whose finaliser still finds the coroutine: a suspended coroutine can
** never end its transactions, so these are taken back; the transactions of a
** coroutine that has ended stay open as long as the program has their handles.
**
** A write belongs to the last open transaction, and to the last open batch, of
** the running coroutine; without one, to the one that began last of those of
** the coroutines that wait for the running one.
**
** The held values may refer to the coroutine.  So MWB_HELDS, which finds a
** coroutine's table by number, is weak, until the finaliser puts the table in
** MWB_KEPT.  The main coroutine's table is there from the begin.
*/
#include "coroutine.h"

#include "class.h"

#include <string.h>

/* User values of a record. */
enum { COROUTINE = 1, VALUES, N_USER = VALUES };

/* Pushes the record of a coroutine that is on the top, and pops that. */
static void push_record(lua_State *L, const mwb_state *s) {
  mwb_push(L, s, MWB_RECORDS);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_replace(L, -2);
}

/* Pushes the record of a coroutine that is there, or is being lost. */
static void push_its_record(lua_State *L, const mwb_coroutine *t) {
  lua_checkstack(t->L, 1);
  lua_pushthread(t->L);
  lua_xmove(t->L, L, 1);
  push_record(L, t->s);
}

/* Between the collection of a coroutine and the finaliser of its record, only
** the record finds the values. */
void mwb_push_values(lua_State *L, const mwb_coroutine *t) {
  mwb_push(L, t->s, t->kept ? MWB_KEPT : MWB_HELDS);
  lua_rawgeti(L, -1, t->number);
  lua_replace(L, -2);
  if (!lua_isnil(L, -1) || t->kept || !t->has_values) return;
  lua_pop(L, 1);
  push_its_record(L, t);
  lua_getiuservalue(L, -1, VALUES);
  lua_replace(L, -2);
}

/* Pops a table or nil, and sets the coroutine's table. */
static void set_values(lua_State *L, mwb_coroutine *t, int exists) {
  mwb_push(L, t->s, t->kept ? MWB_KEPT : MWB_HELDS);
  lua_pushvalue(L, -2);
  if (!exists && t->kept) { /* the place stays */
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  lua_rawseti(L, -2, t->number);
  lua_pop(L, 1);
  if (!t->kept && t->L != NULL) {
    push_its_record(L, t);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, VALUES);
  }
  lua_pop(L, 1);
  t->held.n = 0;
  t->held.id = ++t->s->held_ids;
  t->has_values = exists;
  t->shared = 0;
  t->viewed = 0;
}

void mwb_set_values(lua_State *L, mwb_coroutine *t) { set_values(L, t, 1); }

void mwb_drop_values(lua_State *L, mwb_coroutine *t) {
  lua_pushnil(L);
  set_values(L, t, 0);
}

mwb_coroutine *mwb_find_coroutine(lua_State *L, mwb_state *s) {
  mwb_coroutine *const *record;
  lua_pushthread(L);
  push_record(L, s);
  record = (mwb_coroutine *const *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  s->running = L;
  s->coroutine = (record == NULL) ? NULL : *record;
  return s->coroutine;
}

mwb_coroutine *mwb_need_coroutine(lua_State *L, mwb_state *s) {
  mwb_coroutine *t = mwb_find_coroutine(L, s), **record;
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
  t->number = ++s->numbers;
  t->kept = L == s->main;
  mwb_push(L, s, MWB_KEPT); /* the finaliser has no memory for a place */
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, t->number);
  mwb_push(L, s, MWB_RECORDS);
  lua_pushthread(L);
  lua_pushvalue(L, top + 1);
  lua_rawset(L, -3);
  lua_settop(L, top);
  s->running = L;
  s->coroutine = t;
  return t;
}

static int is_linked(const mwb_coroutine *t) {
  return t->newest != 0 || t->batch != NULL;
}

void mwb_link_coroutine(mwb_state *s, mwb_coroutine *t) {
  if (is_linked(t)) return;
  t->prev = NULL;
  t->next = s->coroutines;
  if (t->next != NULL) t->next->prev = t;
  s->coroutines = t;
}

static void free_record(lua_State *L, mwb_state *s, mwb_coroutine *t) {
  if (s->coroutine == t) s->running = NULL;
  mwb_push(L, s, MWB_KEPT);
  lua_pushnil(L);
  lua_rawseti(L, -2, t->number);
  lua_pop(L, 1);
  mwi_free(s->engine, t, sizeof(*t));
}

void mwb_unlink_coroutine(lua_State *L, mwb_state *s, mwb_coroutine *t) {
  if (is_linked(t)) return;
  if (t->next != NULL) t->next->prev = t->prev;
  if (t->prev != NULL)
    t->prev->next = t->next;
  else
    s->coroutines = t->next;
  t->next = t->prev = NULL;
  if (t->L == NULL) free_record(L, s, t);
}

/* Does the coroutine run, or wait for one that it has resumed? */
static int is_active(const mwb_state *s, lua_State *of) {
  lua_Debug frame;
  if (of == NULL || of == s->main) return of != NULL;
  return lua_status(of) == LUA_OK && lua_getstack(of, 0, &frame);
}

/* When did the coroutine's open transaction, or batch, begin?  0: none. */
static uint64_t order_of(const mwb_state *s, const mwb_coroutine *t,
                         int batching) {
  if (batching) return t->batched;
  return (t->newest == 0) ? 0 : s->transactions[t->newest].order;
}

/* More coroutines with transactions than these are not looked at one by one. */
#define FEW 4

/* Lua lets no more coroutines wait for each other. */
#define MAX_WAITING 250

/* Returns the coroutine that `of`, which waits, has resumed; NULL if that
** cannot be seen.  `of` executes a C function: coroutine.resume or
** coroutine.close, with the coroutine as its argument, or a function of
** coroutine.wrap, with the coroutine as its upvalue. */
static lua_State *resumed_by(lua_State *of) {
  lua_Debug ar;
  lua_State *co = NULL;
  int top = lua_gettop(of);
  if (!lua_checkstack(of, 4) || !lua_getstack(of, 0, &ar)) return NULL;
  lua_getinfo(of, "f", &ar);
  if (lua_iscfunction(of, -1)) {
    if (lua_getlocal(of, &ar, 1) != NULL) co = lua_tothread(of, -1);
    if (co == NULL || co == of || lua_status(co) != LUA_OK) {
      lua_settop(of, top + 1);
      co = (lua_getupvalue(of, -1, 1) != NULL) ? lua_tothread(of, -1) : NULL;
    }
  }
  lua_settop(of, top);
  return (co == NULL || co == of || lua_status(co) != LUA_OK) ? NULL : co;
}

static const mwb_coroutine *record_of(lua_State *L, const mwb_state *s,
                                      lua_State *of) {
  mwb_coroutine *const *record;
  lua_pushthread(of);
  if (of != L) lua_xmove(of, L, 1);
  push_record(L, s);
  record = (mwb_coroutine *const *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return (record == NULL) ? NULL : *record;
}

/* Follows the coroutines that wait, from the main one to the running one.
** Returns 0 if the way cannot be seen. */
static int follow(lua_State *L, const mwb_state *s, int batching,
                  const mwb_coroutine **last) {
  lua_State *of = s->main;
  uint64_t latest = 0;
  int steps;
  *last = NULL;
  for (steps = 0; of != NULL && steps < MAX_WAITING; steps++) {
    const mwb_coroutine *t;
    if (of == L) return 1;
    t = record_of(L, s, of);
    if (t != NULL && order_of(s, t, batching) > latest) {
      latest = order_of(s, t, batching);
      *last = t;
    }
    of = resumed_by(of);
  }
  return 0;
}

/* Looks at all coroutines with transactions or batches. */
static const mwb_coroutine *search(lua_State *L, const mwb_state *s,
                                   int batching) {
  const mwb_coroutine *t, *last = NULL;
  uint64_t latest = 0;
  for (t = s->coroutines; t != NULL; t = t->next) {
    uint64_t order = order_of(s, t, batching);
    if (order <= latest || t->L == L || !is_active(s, t->L)) continue;
    latest = order;
    last = t;
  }
  return last;
}

const mwb_coroutine *mwb_waiting_coroutine(lua_State *L, const mwb_state *s,
                                           int batching) {
  const mwb_coroutine *t = s->coroutines;
  int n;
  for (n = 0; t != NULL && n < FEW; n++) t = t->next;
  if (t != NULL && follow(L, s, batching, &t)) return t;
  return search(L, s, batching);
}

/* The finaliser of a record.  The coroutine is dead or cannot be resumed. */
static int lose(lua_State *L) {
  mwb_coroutine **record = (mwb_coroutine **)lua_touserdata(L, 1), *t = *record;
  mwb_state *s = mwb_state_of(L);
  if (t == NULL || s->engine == NULL) return 0;
  *record = NULL;
  if (s->coroutine == t) s->running = NULL;
  if (t->newest == 0) {
    t->L = NULL;
    if (!is_linked(t)) free_record(L, s, t);
    return 0; /* the collector ends the batches */
  }
  if (!t->kept) {
    mwb_push(L, s, MWB_KEPT);
    lua_getiuservalue(L, 1, VALUES);
    lua_rawseti(L, -2, t->number);
    t->kept = 1;
  }
  mwb_end_lost(L, s, t);
  return 0;
}

void mwb_open_coroutines(lua_State *L, mwb_state *s) {
  static const luaL_Reg meta[] = {{"__gc", lose}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{NULL, NULL}};
  mwb_new_meta(L, MWB_RECORD, "coroutine", meta, methods);
  mwb_new_ephemeron(L, MWB_RECORDS);
  lua_newtable(L);
  mwb_keep(L, s, MWB_KEPT);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  mwb_keep(L, s, MWB_HELDS);
}
