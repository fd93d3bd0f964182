/*
** batch.c - writes whose guards are called later, once each.
** SPDX-License-Identifier: MIT
**
** The table of a batch: [object] = { [key] = note }, and for each note, from 1
** on, the object, the key, the value from before the batch, and the kind of the
** last write.  A batch that begins while another one ends has notes of its own,
** with numbers that go on.
*/
#include "identity.h"
#include "shadow.h"
#include "trace.h"
#include "trap.h"

enum { BATCH_NOTES = 1, BATCH_OBJECTS, BATCH_KEYS, BATCH_OLDS, BATCH_KINDS };

static void new_batch(lua_State *L, mwb_state *s) {
  int i;
  lua_createtable(L, BATCH_KINDS, 0);
  for (i = BATCH_NOTES; i <= BATCH_KINDS; i++) {
    lua_newtable(L);
    lua_rawseti(L, -2, i);
  }
  mwb_keep(L, mwb_state_of(L), MWB_BATCH);
  s->notes = 0;
}

/* A batch begins while another one's guards are called. */
static void renew_notes(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_BATCH);
  lua_newtable(L);
  lua_rawseti(L, -2, BATCH_NOTES);
  lua_pop(L, 1);
}

/* Pushes the table of notes of the object. */
static void push_notes(lua_State *L) {
  lua_pushvalue(L, OBJECT);
  if (lua_rawget(L, -2) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, -2);
  lua_rawset(L, -4);
}

/* Pushes the key; nil and NaN, which are no keys, have a place each. */
static void push_key(lua_State *L) {
  static const char places[2] = {0};
  if (lua_isnil(L, KEY))
    lua_pushlightuserdata(L, (void *)(uintptr_t)&places[0]);
  else if (!lua_rawequal(L, KEY, KEY))
    lua_pushlightuserdata(L, (void *)(uintptr_t)&places[1]);
  else
    lua_pushvalue(L, KEY);
}

/* Keeps the value at `index` in one of the tables of the batch. */
static void keep(lua_State *L, int batch, int table, lua_Integer note,
                 int index) {
  lua_rawgeti(L, batch, table);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, note);
  lua_pop(L, 1);
}

/* The old value is that of the first write to the key. */
uint64_t mwb_note_write(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  int top = lua_gettop(L);
  lua_Integer note;
  mwb_push(L, s, MWB_BATCH);
  lua_rawgeti(L, top + 1, BATCH_NOTES);
  push_notes(L); /* top + 3 */
  push_key(L);
  lua_rawget(L, top + 3);
  note = lua_tointeger(L, -1);
  if (note == 0) {
    note = s->notes + 1;
    keep(L, top + 1, BATCH_OBJECTS, note, OBJECT);
    keep(L, top + 1, BATCH_KEYS, note, KEY);
    keep(L, top + 1, BATCH_OLDS, note, OLD);
    push_key(L);
    lua_pushinteger(L, note);
    lua_rawset(L, top + 3);
    s->notes = note;
  }
  lua_rawgeti(L, top + 1, BATCH_KINDS);
  lua_pushinteger(L, w->change.kind);
  lua_rawseti(L, -2, note);
  lua_settop(L, top);
  return (uint64_t)note;
}

/* Puts what is noted in one of the batch's tables at `to`. */
static void fetch(lua_State *L, const mwb_state *s, int table, uint64_t note,
                  int to) {
  mwb_push(L, s, MWB_BATCH);
  lua_rawgeti(L, -1, table);
  lua_rawgeti(L, -1, (lua_Integer)note);
  lua_replace(L, to);
  lua_pop(L, 2);
}

int mwb_settle(void *ud, mw_handle obj, mw_change *change) {
  const mwb_state *s = (const mwb_state *)ud;
  mwb_write *w = (mwb_write *)change->host;
  lua_State *L = w->L;
  int alive = mwb_alive(L, s, obj);
  lua_pop(L, 1);
  if (!alive) return 0;
  fetch(L, s, BATCH_OBJECTS, change->note, OBJECT);
  fetch(L, s, BATCH_KEYS, change->note, KEY);
  fetch(L, s, BATCH_OLDS, change->note, OLD);
  fetch(L, s, BATCH_KINDS, change->note, VALUE);
  w->obj = mwb_handle_of(L, w->s, OBJECT);
  w->change.kind = (int)lua_tointeger(L, VALUE);
  if (w->change.kind == MW_METATABLE)
    mwb_push_class(L, OBJECT);
  else if (w->change.kind == MW_CALL)
    lua_pushnil(L);
  else
    mwb_push_current(L);
  lua_replace(L, VALUE);
  if (w->change.kind <= MW_DELETE)
    w->change.kind = lua_isnil(L, VALUE) ? MW_DELETE
                     : lua_isnil(L, OLD) ? MW_INSERT
                                         : MW_UPDATE;
  mwb_write_compare(w);
  change->kind = w->change.kind;
  change->same = w->change.same;
  return 1;
}

/* deliver(): the outermost batch ends. */
static int deliver(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  uint64_t calls = s->engine->watch.calls;
  mwb_write w;
  lua_settop(L, OLD);
  mwb_write_open(L, s, &w, MW_NONE, MW_TOUCH, MWB_GIVEN);
  s->delivering++;
  mwb_need(s, MWB_BATCHES, 0);
  mw_batch_end(s->engine, &w);
  if (mwb_tracing(s))
    mwb_trace_heard(L, s, MW_NONE, 0, s->engine->watch.calls - calls);
  if (!w.failed) return 0;
  lua_settop(L, FAILURE);
  return lua_error(L);
}

/* Ends the innermost batch by calling `deliver`, which is on the top.  Returns
** a status; with an error, that is on the top. */
static int end_batch(lua_State *L, mwb_state *s) {
  uint32_t batches = mw_batch_depth(s->engine);
  int delivering = s->delivering;
  int status = LUA_OK;
  if (batches > 1)
    lua_pop(L, 1);
  else
    status = lua_pcall(L, 0, 0, 0);
  if (mw_batch_depth(s->engine) == batches) mw_batch_drop(s->engine);
  mwb_need(s, MWB_BATCHES, mw_batch_depth(s->engine) > 0);
  s->delivering = delivering;
  if (delivering == 0 && batches == 1) {
    lua_pushnil(L);
    mwb_keep(L, mwb_state_of(L), MWB_BATCH);
  }
  return status;
}

/* The function's error goes on, not that of a guard at the end. */
static int batch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int status;
  if (!lua_isfunction(L, 1))
    return mwb_bad_argument(L, "batch", 1, 1, "function");
  mwb_push_function(L, s, deliver);
  lua_insert(L, 1);
  if (mw_batch_depth(s->engine) == 0) {
    if (s->delivering == 0)
      new_batch(L, s);
    else
      renew_notes(L);
  }
  mw_batch_begin(s->engine);
  mwb_need(s, MWB_BATCHES, 1);
  status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  lua_pushvalue(L, 1);
  if (status == LUA_OK) {
    if (end_batch(L, s) != LUA_OK) return lua_error(L);
    return lua_gettop(L) - 1;
  }
  end_batch(L, s);
  lua_settop(L, 2);
  return lua_error(L);
}

void mwb_open_batch(lua_State *L) {
  static const luaL_Reg functions[] = {{"batch", batch}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
