/*
** apply.c - writes that the library makes for the program, to apply effects.
** SPDX-License-Identifier: MIT
**
** A write to an intercepted object takes the path of all writes.  A write to a
** cell, or to any other object, is made and appended to the journal here.
*/
#include "cell.h"
#include "entry.h"
#include "guard.h"
#include "identity.h"
#include "trap.h"

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

/* Opens a write that the library makes; with `call`, to the state of a
** userdata, whose present state is the old value. */
static void open_write(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                       int kind, int call) {
  lua_settop(L, VALUE);
  if (call) {
    lua_settop(L, SHADOW);
    mwb_push_state_of(L, s); /* OLD */
  }
  if (h != MW_NONE) mwb_write_open(L, s, w, h, kind, call ? MWB_GIVEN : 0);
}

/* assign(object, key, value, stored, call) -> whether a guard failed, its
** error.  Guards get the kind "apply".  With `stored`, the value goes into a
** table without asking the table's class.  With `call`, the value is a state,
** and the key the name of a mutator. */
static int assign(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int stored = lua_toboolean(L, 4), call = lua_toboolean(L, 5);
  mw_handle h;
  mwb_write w;
  lua_settop(L, SHADOW);
  mwb_normalize_key(L);
  h = mwb_intercepting_at(L, s, OBJECT);
  if (h == MW_NONE && !call) {
    assign_plain(L, s, stored);
    return 0;
  }
  open_write(L, s, &w, h, MW_APPLY, call);
  if (h == MW_NONE) {
    mwb_change_state(L, s, mwb_identify(L, s, "apply", OBJECT, 1));
    return 0;
  }
  mwb_write_count(&w);
  mwb_write_before(&w);
  if (call)
    mwb_store_state(&w);
  else if (lua_isuserdata(L, OBJECT))
    mwb_store_userdata(&w);
  else if (stored)
    mwb_store_contents(&w);
  else
    mwb_store_value(&w);
  lua_pushboolean(L, mwb_write_after(&w));
  if (!w.failed) lua_pushnil(L);
  if (w.failed) lua_insert(L, FAILURE);
  return 2;
}

/* ask(object, key, value, kind, call) -> the value to store: asks the guards of
** phase "check"; raises the error of a guard that refuses the write.  `call` is
** as above. */
static int ask(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_intercepting_at(L, s, OBJECT);
  int kind = mwb_kind(L, 4), call = lua_toboolean(L, 5);
  mwb_write w;
  lua_settop(L, VALUE);
  if (h == MW_NONE) return 1;
  open_write(L, s, &w, h, kind, call);
  if (!mwb_write_check(&w)) return lua_error(L);
  lua_settop(L, VALUE);
  return 1;
}

void mwb_open_assign(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"assign", assign}, {"ask", ask}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
