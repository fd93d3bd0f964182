/*
** transaction.c - mw.begin, mw.transaction.
** SPDX-License-Identifier: MIT
**
**     program --> handle ------> transaction --> mwb_coroutine
**                                     ^               |
**     coroutine --> its newest owner -+---------------+
**
** A transaction is an owner of the journal and a `mwb_transaction`, found by
** the owner's number, which does not move.  A handle has the order of the begin
** as well, so that one which begins later with the same number is not taken for
** the same transaction.
** mw.transaction needs no handle where nothing can yield; elsewhere Lua closes
** its handle if the coroutine is closed.  A handle that is collected marks the
** transaction as lost, and the next call takes it back: see later.c.
**
** What else belongs to a transaction is in its extras: a table, which the
** coroutine's held values have below the owner's number, with the options of
** mw.begin and what transaction.lua makes of them.  Its array has what is
** called if the transaction is taken back: functions, and the extras of
** transactions inside.
**
** A transaction ends in one step, which raises nothing: what may raise comes
** before, and what the program hears comes after.
*/
#include "../base/base.h"

#include <string.h>

#include "../readers/readers.h"
#include "../trace/trace.h"
#include "../traps/traps.h"
#include "../watch/watch.h"
#include "journal.h"

typedef struct handle {
  mwb_transaction *tx; /* NULL: not yet begun */
  uint64_t order;
  int ended; /* by the program */
} handle;

/* Is the transaction that began with this order open still? */
static int is_open(const mwb_state *s, const mwb_transaction *tx,
                   uint64_t order) {
  return s->engine != NULL && tx != NULL && tx->begun.order == order;
}

/* {======================================================
** Extras
** ======================================================= */

/* The Lua functions that MWB_PREPARE has: see transaction.lua. */
enum { PREPARE = 1, BEGIN, FINISH };

static void push_lua(lua_State *L, const mwb_state *s, int which) {
  mwb_push(L, s, MWB_PREPARE);
  lua_rawgeti(L, -1, which);
  lua_replace(L, -2);
}

/* Pops the extras of an open transaction, a table or nil for none. */
static void set_extras(lua_State *L, mwb_transaction *tx) {
  int has = lua_istable(L, -1);
  mwb_push_values(L, tx->of);
  lua_insert(L, -2);
  lua_rawseti(L, -2, -(lua_Integer)tx->its->number);
  lua_pop(L, 1);
  tx->extras = (uint8_t)has;
}

/* Pushes the extras of an open transaction, or nil.  Returns the type. */
static int push_extras(lua_State *L, const mwb_transaction *tx) {
  if (!tx->extras) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  mwb_push_values(L, tx->of);
  lua_rawgeti(L, -1, -(lua_Integer)tx->its->number);
  lua_replace(L, -2);
  return LUA_TTABLE;
}

static void need_extras(lua_State *L, mwb_transaction *tx) {
  if (push_extras(L, tx) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  set_extras(L, tx);
}

/* Pushes a field of the extras.  Returns the type. */
static int push_extra(lua_State *L, const mwb_transaction *tx,
                      const char *name) {
  if (push_extras(L, tx) == LUA_TNIL) return LUA_TNIL;
  mwb_raw_field(L, lua_gettop(L), name);
  lua_replace(L, -2);
  return lua_type(L, -1);
}

/* The parent gets what is called if the child is taken back.  If the child does
** not end now after all, nothing is called twice: what was called is taken out
** of its extras. */
static void hand_calls(lua_State *L, const mwb_transaction *tx,
                       mwb_transaction *parent) {
  if (push_extras(L, tx) != LUA_TNIL && lua_rawlen(L, -1) > 0) { /* calls? */
    need_extras(L, parent);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Ends what belongs to the transaction that has had the extras at `extras`.
** Keeps the first error of what is called at `error`. */
static void end_extras(lua_State *L, const mwb_state *s, int extras,
                       int committed, int error) {
  push_lua(L, s, FINISH);
  lua_pushvalue(L, extras);
  lua_pushboolean(L, committed);
  if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_isnil(L, error))
    lua_replace(L, error);
  else
    lua_pop(L, 1);
}

/* }====================================================== */

/* {======================================================
** Ending
** ======================================================= */

/* The owner has ended.  Takes the transaction from its coroutine, and pushes
** its extras, or nil. */
static void close_transaction(lua_State *L, mwb_transaction *tx,
                              int committed) {
  mwb_coroutine *t = tx->of;
  mwb_state *s = t->s;
  int newest = t->open[MWB_BY_TRANSACTION] == &tx->begun;
  push_extras(L, tx);
  if (tx->extras) { /* another one may get the number */
    lua_pushnil(L);
    set_extras(L, tx);
  }
  if (newest && tx->begun.outer == NULL) { /* the last one? */
    t->hides = 0;
    if (t->shared) { /* may others need the values? */
      lua_pushboolean(L, 0);
      mwb_set_values(L, t);
    } else {
      mwb_release_values(L, t, 0); /* transactions end in any order */
    }
  } else if (newest && !committed) { /* does no parent need its values? */
    mwb_release_values(L, t, tx->held);
  }
  tx->begun.order = 0;
  mwb_end(L, s, t, MWB_BY_TRANSACTION, &tx->begun);
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (mwb_has_orphans(s)) s->pending = 1;
}

/* Returns the parent, or NULL. */
static mwb_transaction *parent_of(const mwb_transaction *tx) {
  const mwi_owner *parent = tx->its->parent;
  return (parent == NULL) ? NULL
                          : mwb_transaction_of(tx->of->s, parent->number);
}

/* take_back(transaction) -> the first error of a guard, or nil: takes its
** writes back and ends it.  Raises only if there is no memory, and then the
** transaction is open. */
static int take_back(lua_State *L) {
  enum { TX = 1, TAKEN, ITS_ENTRIES, ERROR, HEARD, EFFECTS, EXTRAS };
  mwb_state *s = mwb_state_of(L);
  mwb_transaction *tx = (mwb_transaction *)lua_touserdata(L, TX);
  uint64_t at = mw_delivery_last(s->engine);
  mwb_fold heard;
  luaL_checkstack(L, 2 * LUA_MINSTACK, NULL);
  mwb_push(L, s, MWB_TAKEN);
  if (!lua_isnil(L, TAKEN)) mwb_push_entries(L, s, tx->its->number);
  lua_settop(L, ITS_ENTRIES);
  mwb_undo(L, tx, &heard);
  mw_owner_forget(s->engine, tx->its->number);
  close_transaction(L, tx, 0);
  if (!lua_isnil(L, TAKEN)) { /* without memory recorders lose the entries */
    lua_pushvalue(L, TAKEN);
    lua_pushvalue(L, ITS_ENTRIES);
    lua_pushinteger(L, (lua_Integer)at);
    lua_pcall(L, 2, 0, 0);
    lua_settop(L, EXTRAS);
  }
  mwb_tell_undone(L, s, &heard, EFFECTS, ERROR, NULL);
  if (lua_istable(L, EXTRAS)) end_extras(L, s, EXTRAS, 0, ERROR);
  lua_settop(L, ERROR);
  return 1;
}

/* Pushes the effects of a transaction, and gives them to who asked for them
** before anybody has them. */
static void push_kept_effects(lua_State *L, const mwb_transaction *tx) {
  mwb_push_effects(L, tx, 1);
  if (!tx->extras) return; /* has nobody asked? */
  if (push_extra(L, tx, "keep") == LUA_TFUNCTION) {
    lua_pushvalue(L, -2);
    lua_call(L, 1, 0);
  } else {
    lua_pop(L, 1);
  }
}

/* commit(transaction, does nobody want the effects?) -> effects or true.
** Raises that there is no memory; then the transaction is open. */
static int commit(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_transaction *tx = (mwb_transaction *)lua_touserdata(L, 1);
  mwb_transaction *parent = parent_of(tx);
  if (!lua_toboolean(L, 2)) { /* does somebody want the effects? */
    push_kept_effects(L, tx);
    lua_replace(L, 2);
  }
  if (parent != NULL) hand_calls(L, tx, parent);
  mwb_check(L, mwi_owner_commit(s->engine, tx->its, &L));
  close_transaction(L, tx, 1); /* at 3 */
  if (lua_istable(L, 3)) end_extras(L, s, 3, 1, 3);
  lua_settop(L, 2);
  return 1;
}

/* Nobody can end the transaction any more: the next call does. */
static void lose(mwb_transaction *tx) {
  tx->lost = 1;
  mwb_wait(tx->of->s);
}

/* Takes a transaction back, and pushes the first error of a guard, or nil.
** Raises if there is no memory; then the transaction is lost. */
static void end_by_rollback(lua_State *L, mwb_transaction *tx) {
  lua_pushlightuserdata(L, tx);
  tx->ending = 1;
  if (mwb_pcall(L, tx->of->s, take_back, 1, 1) == LUA_OK) return;
  tx->ending = 0;
  lose(tx);
  lua_error(L);
}

/* Likewise; an error of a guard waits, since another goes on, or none can. */
static void end_without_error(lua_State *L, mwb_state *s, mwb_transaction *tx) {
  end_by_rollback(L, tx);
  if (lua_isnil(L, -1))
    lua_pop(L, 1);
  else
    mwb_late_error(L, s, "guard");
}

void mwb_end_lost_transactions(lua_State *L, mwb_state *s) {
  mw_owner owner;
  for (owner = 1; owner <= s->engine->journal.owners.n; owner++) {
    mwb_transaction *tx;
    if (mwi_column_page(&s->journal->transactions, owner) == NULL) continue;
    tx = mwb_transaction_of(s, owner);
    if (tx->begun.order != 0 && tx->lost && !tx->ending) /* left to us? */
      end_without_error(L, s, tx);
  }
}

/* }====================================================== */

/* {======================================================
** Beginning
** ======================================================= */

/* Begins a transaction of the running coroutine.  All memory is taken before
** the transaction is open. */
static mwb_transaction *open_owner(lua_State *L, mwb_state *s) {
  mwb_coroutine *t;
  mwb_transaction *tx;
  const mwb_transaction *parent;
  mwi_owner *its;
  if (mwb_has_orphans(s)) mwb_let_go(L, s, SIZE_MAX); /* before any entry */
  t = mwb_need_coroutine(L, s);
  if (!t->has_values) {
    lua_createtable(L, 2, 0);
    mwb_set_values(L, t);
  }
  parent = mwb_transaction_now(L, s);
  its = (parent == NULL) ? NULL : parent->its;
  its = mwi_owner_begin(s->engine, its,
                        (its != NULL && parent->of == t) ? its : NULL);
  if (its == NULL) {
    mwb_check(L, MW_NOMEM);
    return NULL;
  }
  tx = (mwb_transaction *)mwi_column_need(s->engine, &s->journal->transactions,
                                          its->number, MWI_PAGE * sizeof(*tx));
  if (tx == NULL) {
    mw_owner_forget(s->engine, its->number);
    mwb_check(L, MW_NOMEM);
  }
  tx += its->number % MWI_PAGE;
  memset(tx, 0, sizeof(*tx));
  tx->of = t;
  tx->its = its;
  tx->held = t->held.n;
  if (parent != NULL) tx->where = parent->where;
  mwb_begin(s, t, MWB_BY_TRANSACTION, &tx->begun);
  mwb_need(s, MWB_APPENDS, 1);
  return tx;
}

/* begin_extras(transaction, extras or nil, is it traced?) */
static int begin_extras(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_transaction *tx = (mwb_transaction *)lua_touserdata(L, 1);
  if (lua_istable(L, 2)) {
    lua_pushvalue(L, 2);
    set_extras(L, tx);
    if (mwb_raw_field(L, 2, "where") != LUA_TNIL && lua_toboolean(L, -1))
      tx->where = 1;
  }
  push_lua(L, s, BEGIN);
  need_extras(L, tx);
  lua_pushvalue(L, 3);
  lua_call(L, 2, 0);
  return 0;
}

/* Begins a transaction with the extras at `extras`, if that is a table.  What
** raises comes before the transaction is open, or ends it. */
static mwb_transaction *open_transaction(lua_State *L, mwb_state *s,
                                         int extras) {
  int traced = (s->trace->sources & MWB_TRANSACTIONS) != 0;
  mwb_transaction *tx = open_owner(L, s);
  if (!lua_istable(L, extras) && !traced) return tx; /* no work for Lua? */
  lua_pushlightuserdata(L, tx);
  lua_pushvalue(L, extras);
  lua_pushboolean(L, traced);
  if (mwb_pcall(L, s, begin_extras, 3, 0) == LUA_OK) return tx;
  end_without_error(L, s, tx);
  lua_error(L);
  return NULL;
}

/* }====================================================== */

/* {======================================================
** mw.begin
** ======================================================= */

static handle *new_handle(lua_State *L, const mwb_state *s) {
  handle *h = (handle *)lua_newuserdatauv(L, sizeof(*h), 0);
  memset(h, 0, sizeof(*h));
  mwb_push(L, s, MWB_BEGUN);
  lua_setmetatable(L, -2);
  return h;
}

/* Puts the extras in the place of the options or label at 1 that ask for
** them. */
static void read_options(lua_State *L, const mwb_state *s, const char *name) {
  push_lua(L, s, PREPARE);
  lua_pushvalue(L, 1);
  lua_pushstring(L, name);
  lua_call(L, 2, 1);
  lua_replace(L, 1);
}

/* begin([label or options]) */
static int begin(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  handle *h;
  lua_settop(L, 1);
  if (!lua_isnil(L, 1)) read_options(L, s, "begin");
  h = new_handle(L, s);
  h->tx = open_transaction(L, s, 1);
  h->order = h->tx->begun.order;
  return 1;
}

static handle *check_handle(lua_State *L, const mwb_state *s,
                            const char *name) {
  return (handle *)mwb_check_self(L, s, name, MWB_BEGUN, "transaction");
}

/* Likewise, for a method that ends the transaction.  Returns NULL, and pushes
** nil and a message, if the engine has ended it. */
static handle *self(lua_State *L, const mwb_state *s, const char *name) {
  handle *h = check_handle(L, s, name);
  if (h->ended)
    luaL_error(L, "calling '%s' on a transaction that has ended", name);
  if (!is_open(s, h->tx, h->order)) { /* has the engine ended it? */
    h->ended = 1;
    lua_pushnil(L);
    lua_pushliteral(L, "the transaction was lost and is taken back");
    return NULL;
  }
  if (h->tx->ending) /* by what runs in its own end? */
    luaL_error(L, "calling '%s' while the transaction ends", name);
  return h;
}

/* Calls `commit`.  Returns a status; pushes the effects or the error. */
static int call_commit(lua_State *L, mwb_state *s, mwb_transaction *tx,
                       int bare) {
  uint64_t order = tx->begun.order;
  int status;
  lua_pushlightuserdata(L, tx);
  lua_pushboolean(L, bare);
  tx->ending = 1;
  status = mwb_pcall(L, s, commit, 2, 1);
  if (tx->begun.order == order) tx->ending = 0; /* was it refused? */
  return status;
}

/* commit(transaction) -> effects */
static int commit_method(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  handle *h = self(L, s, "commit");
  if (h == NULL) return 2;
  if (call_commit(L, s, h->tx, 0) != LUA_OK) return lua_error(L);
  h->ended = 1;
  return 1;
}

/* rollback(transaction) -> effects */
static int rollback_method(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  handle *h = self(L, s, "rollback");
  if (h == NULL) return 2;
  lua_settop(L, 1);
  push_kept_effects(L, h->tx);
  h->ended = 1; /* for the guards that are told */
  end_by_rollback(L, h->tx);
  ((mwb_effects *)lua_touserdata(L, 2))->seen = mw_age_end(s->engine);
  if (!lua_isnil(L, 3)) return lua_error(L); /* has a guard failed? */
  lua_settop(L, 2);
  return 1;
}

static int is_open_method(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const handle *h = check_handle(L, s, "is_open");
  lua_pushboolean(L, is_open(s, h->tx, h->order));
  return 1;
}

/* __gc */
static int collected(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const handle *h = (const handle *)lua_touserdata(L, 1);
  if (is_open(s, h->tx, h->order)) lose(h->tx); /* has nobody ended it? */
  return 0;
}

/* __close(transaction, error): that error goes on, not the error of a guard. */
static int close_meta(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int failed = !lua_isnoneornil(L, 2);
  handle *h = check_handle(L, s, "close");
  if (!is_open(s, h->tx, h->order)) return 0;        /* ended already? */
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) { /* in its own middle? */
    lose(h->tx);
    return 0;
  }
  h->ended = 1;
  if (failed) { /* does another error go on? */
    end_without_error(L, s, h->tx);
    return 0;
  }
  end_by_rollback(L, h->tx);
  return lua_isnil(L, -1) ? 0 : lua_error(L);
}

/* }====================================================== */

/* {======================================================
** mw.transaction
** ======================================================= */

/* The stack of a call: a handle or nil, the transaction, the order of its
** begin, an object that marks it or nil, extras, a label or nil, does nobody
** want the effects?, and the function with its arguments, or its results. */
enum { CLOSER = 1, TX, ORDER, MARK, ITS_EXTRAS, BARE, FUNCTION };

/* Pushes false and the error on the top; the writes are taken back. */
static int fail(lua_State *L, mwb_state *s, mwb_transaction *tx) {
  int err = lua_gettop(L);
  if (is_open(s, tx, (uint64_t)lua_tointeger(L, ORDER))) /* not ended yet? */
    end_without_error(L, s, tx);
  lua_pushboolean(L, 0);
  lua_pushvalue(L, err);
  return 2;
}

/* The function has returned or raised. */
static int end_run(lua_State *L, int status, lua_KContext context) {
  mwb_state *s = mwb_state_of(L);
  mwb_transaction *tx = (mwb_transaction *)lua_touserdata(L, TX);
  (void)context;
  if (s->engine == NULL) return luaL_error(L, "moonwatch is closed");
  if (status != LUA_OK && status != LUA_YIELD) return fail(L, s, tx);
  if (!lua_checkstack(L, LUA_MINSTACK)) {
    lose(tx);
    return luaL_error(L, "stack overflow (too many results)");
  }
  if (call_commit(L, s, tx, lua_toboolean(L, BARE)) != LUA_OK)
    return fail(L, s, tx);
  lua_insert(L, FUNCTION);
  lua_pushboolean(L, 1);
  lua_replace(L, BARE);
  return lua_gettop(L) - BARE + 1;
}

/* Runs the function at FUNCTION in a transaction; a label is for readers.  In
** a coroutine that can yield, Lua closes the handle if that is closed. */
static int run(lua_State *L, mwb_state *s) {
  handle *h = NULL;
  mwb_transaction *tx;
  luaL_checkstack(L, LUA_MINSTACK, "too many arguments");
  if (lua_isyieldable(L)) { /* may the coroutine be closed meanwhile? */
    h = new_handle(L, s);
    lua_replace(L, CLOSER);
  }
  if (mwb_is_read(s) && lua_isstring(L, ITS_EXTRAS)) { /* is it a label? */
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, ITS_EXTRAS);
    lua_setfield(L, -2, "label");
    lua_replace(L, ITS_EXTRAS);
  }
  tx = open_transaction(L, s, ITS_EXTRAS);
  lua_pushlightuserdata(L, tx);
  lua_replace(L, TX);
  lua_pushinteger(L, (lua_Integer)tx->begun.order);
  lua_replace(L, ORDER);
  tx->run_of = lua_topointer(L, MARK);
  if (h != NULL) {
    h->tx = tx;
    h->order = tx->begun.order;
    lua_toclose(L, CLOSER);
  }
  return end_run(
      L, lua_pcallk(L, lua_gettop(L) - FUNCTION, LUA_MULTRET, 0, 0, end_run),
      0);
}

/* transaction([label or options,] function, ...) -> true, effects, results of
** the function; or false, error */
static int transaction(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int n = lua_gettop(L), arg = 1;
  if (n > 0 && (lua_istable(L, 1) || lua_type(L, 1) == LUA_TSTRING)) arg = 2;
  if (!lua_isfunction(L, arg)) {
    lua_settop(L, 2);
    return mwb_bad_argument(L, "transaction", arg, arg, "function");
  }
  luaL_checkstack(L, FUNCTION, "too many arguments");
  if (arg == 2) read_options(L, s, "transaction");
  lua_settop(L, lua_gettop(L) + BARE);
  lua_rotate(L, 1, BARE);
  if (arg == 2) { /* are there extras? */
    lua_copy(L, FUNCTION, ITS_EXTRAS);
    lua_remove(L, FUNCTION);
  }
  return run(L, s);
}

/* run(mark, label, bare, function, ...): like `transaction`; until the end the
** object `mark` is that of the transaction; `bare`: with true for the effects.
** Mark and label may be nil. */
static int run_marked(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  luaL_checkstack(L, FUNCTION, "too many arguments");
  lua_settop(L, lua_gettop(L) + ORDER);
  lua_rotate(L, 1, ORDER);
  return run(L, s);
}

/* is_in_run(object): is a transaction of `run` that the object marks open, of
** which the running code is a part? */
static int is_in_run(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const void *object = lua_topointer(L, 1);
  const mwb_transaction *tx = mwb_transaction_now(L, s);
  while (tx != NULL && tx->run_of != object) tx = parent_of(tx);
  lua_pushboolean(L, tx != NULL);
  return 1;
}

/* }====================================================== */

/* {======================================================
** For the library's Lua files
** ======================================================= */

void mwb_push_label(lua_State *L, const mwb_transaction *tx) {
  if (push_extra(L, tx, "label") != LUA_TNIL) return; /* has it one? */
  lua_pop(L, 1);
  lua_pushinteger(L, (lua_Integer)tx->begun.order);
}

/* extras() -> those of the transaction that owns a write now; nil if none
** does */
static int extras_of_caller(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_transaction *tx = mwb_transaction_now(L, s);
  if (tx == NULL) return 0;
  need_extras(L, tx);
  return 1;
}

/* catch_up(): does what waits for the next call of the library, for a method
** that only reads and whose state is Lua's */
static int catch_up(lua_State *L) {
  mwb_enter_to_read(L);
  return 0;
}

void mwb_close_transactions(mwb_state *s) {
  mwb_free_writers(s);
  while (s->journal->coroutines != NULL) {
    mwb_coroutine *t = s->journal->coroutines;
    s->journal->coroutines = t->next;
    mwi_free(s->engine, t, sizeof(*t));
  }
  mwi_column_drop(s->engine, &s->journal->transactions,
                  MWI_PAGE * sizeof(mwb_transaction));
}

void mwb_open_transaction(lua_State *L) {
  static const luaL_Reg functions[] = {{"begin", begin},
                                       {"transaction", transaction},
                                       {"run", run_marked},
                                       {"is_in_run", is_in_run},
                                       {"extras", extras_of_caller},
                                       {"catch_up", catch_up},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"commit", commit_method},
                                     {"rollback", rollback_method},
                                     {"is_open", is_open_method},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_meta}, {"__gc", collected}, {NULL, NULL}};
  mwb_new_meta(L, MWB_BEGUN, "transaction", meta, methods);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
