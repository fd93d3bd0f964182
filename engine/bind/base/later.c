/*
** later.c - what waits until the library is not at work.
** SPDX-License-Identifier: MIT
**
** Lua runs finalisers wherever something is allocated, so also in the middle of
** a function of the library; and nothing may change there.  Whether it is so,
** the stack says: a finaliser runs, and the function below it, which has
** allocated, is one of the library.  (Guards, rules and classes are functions
** of the program, above ours: what they interrupt is between two steps.)
**
** What a finaliser then asks for waits:
**
**     lost handles    --> marks in transactions and batches
**     cancel, close   --> MWB_LATER: { function, n, arguments... }
**     writes          --> MWB_LATER: { false, n, arguments of `make_up`... }
**     errors          --> MWB_LATE
**
** and the next call, or the next write that is watched, begins with it:
** MWB_WAITS is set in the state's `needs`, and `pending`.  A write has been
** stored already, and is told of then.  If the work that it has interrupted
** stores in the same field, the write is overtaken: nobody is told of it, and
** the store replaces what the field held before it.
*/
#include "base.h"

#include <string.h>

#include "../box/box.h"
#include "../journal/journal.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

/* {======================================================
** Is the library at work?
** ======================================================= */

/* Whose is the function of the frame?  OTHERS: a function in C that is not one
** of the library, and may have been called by one. */
enum { PROGRAMS, OURS, OTHERS };

static int owner_of(lua_State *L, const mwb_state *s, lua_Debug *frame) {
  int owner = PROGRAMS;
  lua_getinfo(L, "f", frame);
  if (lua_iscfunction(L, -1)) {
    owner = OTHERS;
    if (lua_getupvalue(L, -1, 1) != NULL) {
      if (lua_touserdata(L, -1) == s) owner = OURS; /* all of ours have it */
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return owner;
}

/* Returns the level of the coroutine's innermost finaliser, or -1. */
static int finaliser_level(lua_State *of) {
  lua_Debug frame;
  int level = 0;
  for (; lua_getstack(of, level, &frame); level++) {
    lua_getinfo(of, "n", &frame);
    if (frame.name != NULL && strcmp(frame.name, "__gc") == 0 &&
        strcmp(frame.namewhat, "metamethod") == 0) /* no field of that name? */
      return level;
  }
  return -1;
}

static int has_finaliser(lua_State *of, mwb_state *s) {
  (void)s;
  return finaliser_level(of) >= 0;
}

int mwb_is_at_work(lua_State *L, mwb_state *s) {
  lua_Debug frame;
  lua_State *of = L;
  int owner = OTHERS, top = lua_gettop(L), level;
  if (s->engine == NULL) return 0; /* closed: nothing to disturb */
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  level = finaliser_level(L);
  if (level < 0) { /* has a finaliser resumed this coroutine? */
    of = mwb_nearest_coroutine(L, s, has_finaliser);
    if (of == NULL || !lua_checkstack(of, LUA_MINSTACK)) return 1; /* perhaps */
    level = finaliser_level(of);
  }
  while (owner == OTHERS && lua_getstack(of, ++level, &frame)) /* C's caller? */
    owner = owner_of(of, s, &frame);
  lua_settop(L, top);
  /* the engine's callbacks run in a thread of their own, with no function */
  return owner == OURS || (owner == OTHERS && of == s->service);
}

void mwb_refuse(lua_State *L) {
  luaL_error(L,
             "the library is at work: a finaliser can write, cancel, "
             "close and read now, and nothing else");
}

static int refuse(lua_State *L) {
  mwb_refuse(L);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Waiting
** ======================================================= */

void mwb_wait(mwb_state *s) {
  s->pending = 1;
  mwb_need(s, MWB_WAITS, 1);
}

/* The tables in MWB_LATER: a function and so many arguments. */
enum { CALL = 1, COUNT, FIRST };

/* Of a write, for which `false` is the function, the arguments of `make_up`. */
enum {
  AT_OBJECT = FIRST,
  AT_KEY,
  IS_OVERTAKEN = FIRST + 3,
  AT_BEFORE,
  AT_NUMBER, /* when it is recorded, */
  IS_RECORDED
};

/* Puts off a call: the function is on the top, and popped; its `n` arguments
** are the values of the stack from `first` on. */
static void put_off(lua_State *L, mwb_state *s, int first, int n) {
  int i, f = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  mwb_push(L, s, MWB_LATER);
  lua_createtable(L, n + 2, 0);
  lua_pushvalue(L, f);
  lua_rawseti(L, -2, CALL);
  lua_pushinteger(L, n);
  lua_rawseti(L, -2, COUNT);
  for (i = 0; i < n; i++) {
    lua_pushvalue(L, first + i);
    lua_rawseti(L, -2, FIRST + i);
  }
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_settop(L, f - 1);
  mwb_wait(s);
}

int mwb_put_off(lua_State *L, mwb_state *s) {
  lua_Debug frame;
  int n = lua_gettop(L);
  if (!mwb_in_finaliser(L) || !mwb_is_at_work(L, s)) return 0; /* no need */
  lua_getstack(L, 0, &frame);
  lua_getinfo(L, "f", &frame);
  put_off(L, s, 1, n);
  return 1;
}

/* put_off(f, ...) -> whether the library is at work; if so, the next call calls
** f(...) */
static int put_off_function(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int n = lua_gettop(L) - 1, off;
  off = mwb_in_finaliser(L) && mwb_is_at_work(L, s);
  if (off) {
    lua_pushvalue(L, 1);
    put_off(L, s, 2, n);
  }
  lua_pushboolean(L, off);
  return 1;
}

void mwb_put_off_write(lua_State *L, mwb_state *s) {
  int i, old = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  for (i = OBJECT; i <= VALUE; i++) lua_pushvalue(L, i);
  for (i = 0; i < 4; i++) lua_pushboolean(L, 0);
  lua_copy(L, old, old + 1 + AT_BEFORE - FIRST);
  lua_pushboolean(L, 0);
  put_off(L, s, old + 1, 1 + IS_RECORDED - FIRST);
  lua_settop(L, old - 1);
}

/* }====================================================== */

/* {======================================================
** Writes to fields with writes that wait
** ======================================================= */

/* Pushes the first write that waits, from number `i` on, of the field at OBJECT
** and KEY, unless it is overtaken.  Returns its number, or 0 and pushes
** nothing. */
static lua_Integer push_waiting(lua_State *L, const mwb_state *s,
                                lua_Integer i) {
  int list = lua_gettop(L) + 1, one = list + 1, found = 0;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  mwb_push(L, s, MWB_LATER);
  for (; lua_rawgeti(L, list, i) == LUA_TTABLE; i++) {
    lua_rawgeti(L, one, AT_OBJECT);
    lua_rawgeti(L, one, AT_KEY);
    found = lua_rawequal(L, -2, OBJECT) && lua_rawequal(L, -1, KEY) &&
            lua_rawgeti(L, one, CALL) == LUA_TBOOLEAN && /* a write? */
            lua_rawgeti(L, one, IS_OVERTAKEN) && !lua_toboolean(L, -1);
    if (found) break;
    lua_settop(L, list);
  }
  if (found) lua_copy(L, one, list);
  lua_settop(L, found ? list : list - 1);
  return found ? i : 0;
}

int mwb_go_before(lua_State *L, const mwb_state *s) {
  int top = lua_gettop(L);
  if (push_waiting(L, s, 1) != 0) { /* has a finaliser written the field? */
    lua_rawgeti(L, -1, AT_BEFORE);
    lua_replace(L, top);
    lua_settop(L, top);
  }
  return lua_type(L, top);
}

void mwb_overtake(lua_State *L, const mwb_state *s) {
  lua_Integer i = 0;
  while ((i = push_waiting(L, s, i + 1)) != 0) {
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, IS_OVERTAKEN); /* which has a place */
    lua_pop(L, 1);
  }
}

/* }====================================================== */

/* {======================================================
** The end of waiting
** ======================================================= */

/* make_up(object, key, value, is it overtaken?, old, number, is it recorded?)
** -> the number of the write, which is recorded, or if it is, told of, unless
** nobody watches or tracks the object any more */
static int make_up(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int is_overtaken = lua_toboolean(L, SHADOW),
      tells = lua_toboolean(L, OLD + 2);
  uint64_t number = (uint64_t)lua_tointeger(L, OLD + 1);
  int ignored = mwb_is_ignored(L, s);
  mwb_write w;
  mwb_write_open(L, s, &w, mwb_handle_of(L, s, OBJECT), MWB_PLAIN, MWB_GIVEN);
  if (w.r == NULL) return 0; /* its object is forgotten */
  mwb_set_kind_of(&w);
  w.ignored = ignored;
  w.change.number = number;
  if (tells) { /* the second time, when all are recorded? */
    if (is_overtaken || ignored) return 0; /* nobody is told */
    mwb_write_before(&w);
    return mwb_write_after(&w) ? lua_error(L) : 0; /* a guard's error */
  }
  if (!ignored) mwb_write_count(&w); /* also if it is overtaken */
  if (!is_overtaken && (w.r->needs & MWI_TREE) &&
      (lua_istable(L, OLD) || lua_istable(L, VALUE))) { /* do links change? */
    w.is_stored = 1; /* a later write may have stored another value */
    mwb_store_linked(&w);
  }
  if (!is_overtaken && !ignored) mwb_append_stored(&w);
  lua_pushinteger(L, (lua_Integer)w.change.number);
  return 1;
}

/* Pushes what is to be called for the table at `one`, and its arguments;
** returns their number. */
static int push_call(lua_State *L, const mwb_state *s, int one) {
  int i, n;
  lua_rawgeti(L, one, COUNT);
  n = (int)lua_tointeger(L, -1);
  luaL_checkstack(L, n + LUA_MINSTACK, NULL);
  if (lua_rawgeti(L, one, CALL) == LUA_TBOOLEAN) /* a write? */
    mwb_push_function(L, s, make_up);
  for (i = 0; i < n; i++) lua_rawgeti(L, one, FIRST + i);
  return n;
}

/* record_all(list, n): records the writes in the list */
static int record_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer i, n = lua_tointeger(L, 2);
  for (i = 1; i <= n; i++) {
    lua_settop(L, 2);
    lua_rawgeti(L, 1, i);
    if (lua_rawgeti(L, 3, CALL) != LUA_TBOOLEAN) continue; /* no write? */
    lua_call(L, push_call(L, s, 3), 1);
    lua_rawseti(L, 3, AT_NUMBER);
  }
  return 0;
}

/* Makes the call, or tells of the write, on the top, and pops it. */
static void do_one(lua_State *L, mwb_state *s) {
  int one = lua_gettop(L);
  if (lua_rawgeti(L, one, CALL) == LUA_TBOOLEAN) { /* a write, to be told of? */
    lua_pushboolean(L, 1);
    lua_rawseti(L, one, IS_RECORDED);
  }
  if (mwb_pcall_outside(L, s, push_call(L, s, one), 0, 0) != LUA_OK)
    mwb_late_error(L, s, "finaliser");
  lua_settop(L, one - 1);
}

/* Pops the list on the top and does what is in it.  First all writes are
** recorded, in their order, before any guard or rollback may write.  Where that
** has no memory, entries are lost, and all else is done. */
static void end_list(lua_State *L, mwb_state *s) {
  int list = lua_gettop(L);
  lua_Integer i, n;
  lua_newtable(L);
  mwb_keep(L, s, MWB_LATER); /* what comes from now on is in another list */
  n = (lua_Integer)lua_rawlen(L, list);
  mwb_push_function(L, s, record_all);
  lua_pushvalue(L, list);
  lua_pushinteger(L, n);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) mwb_late_error(L, s, "finaliser");
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, list, i);
    do_one(L, s);
  }
  lua_settop(L, list - 1);
}

/* end_all(): what comes to wait meanwhile waits for the next call. */
static int end_all(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_need(s, MWB_WAITS, 0);
  mwb_push(L, s, MWB_LATER);
  if (lua_rawlen(L, -1) > 0) end_list(L, s);
  mwb_end_lost_transactions(L, s);
  mwb_end_lost_batches(L, s);
  return 0;
}

/* What guards call meanwhile does not begin with the rest of this. */
void mwb_end_waiting(lua_State *L, mwb_state *s) {
  int status;
  if (s->engine == NULL || s->base->ending || !(s->needs & MWB_WAITS)) return;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  mwb_push_function(L, s, end_all);
  s->base->ending = 1;
  status = lua_pcall(L, 0, 0, 0);
  s->base->ending = 0;
  if (status == LUA_OK) return;
  mwb_wait(s); /* for the rest */
  lua_error(L);
}

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

int mwb_hand_error(lua_State *L, mwb_state *s, const char *where) {
  mwb_push(L, s, MWB_ONERROR);
  if (lua_isnil(L, -1)) { /* does nobody handle errors? */
    lua_pop(L, 1);
    return 0;
  }
  lua_insert(L, -2);
  lua_pushstring(L, where);
  return mwb_pcall_outside(L, s, 2, 0, 0) == LUA_OK;
}

void mwb_late_error(lua_State *L, mwb_state *s, const char *where) {
  if (mwb_is_memory_error(L, -1)) { /* no error of the program's */
    lua_pop(L, 1);
    return;
  }
  if (mwb_hand_error(L, s, where)) return;
  if (!lua_toboolean(L, -1)) { /* a place of the state can't have nil */
    lua_pushfstring(L, "%s", luaL_typename(L, -1));
    lua_replace(L, -2);
  }
  mwb_push(L, s, MWB_LATE);
  if (lua_isnil(L, -1)) { /* the first one? */
    lua_pushvalue(L, -2);
    mwb_keep(L, s, MWB_LATE);
    s->pending = s->base->late = 1;
  }
  lua_pop(L, 2);
}

void mwb_raise_late(lua_State *L, mwb_state *s) {
  if (!s->base->late) return;
  mwb_push(L, s, MWB_LATE);
  lua_pushnil(L);
  mwb_keep(L, s, MWB_LATE);
  s->base->late = 0;
  lua_error(L);
}

/* }====================================================== */

void mwb_open_later(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"put_off", put_off_function}, {"refuse", refuse}, {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, mwb_state_of(L), MWB_LATER);
  mwb_set_funcs(L, functions);
}
