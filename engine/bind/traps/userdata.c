/*
** userdata.c - userdata whose class, the metatable, intercepts writes.
** SPDX-License-Identifier: MIT
**
**     class (metatable) --> __newindex = trap --> upvalues: state, objects, the
**                                                 class's own `__newindex`
**     MWB_TRAPS: class --> the number of its watched objects
**
** Userdata share their metatable, and libraries recognise their userdata by the
** metatable.  So the class gets the trap, and the trap passes writes to objects
** that are not watched on to the class's own `__newindex`.  The last
** `mw.unwatch` gives the class its `__newindex` back.
**
** After the class has got another `__newindex`, `mw.refresh` gives it a new
** trap, for the `__newindex` that it has by now.  The program may still call
** the former trap, which passes all writes on: its `__newindex` is not the
** class's own any more.
*/
#include "../journal/journal.h"

#include "../base/base.h"
#include "trap.h"
#include "traps.h"

enum { ORIGINAL = 3 }; /* upvalue */
#define UP_ORIGINAL lua_upvalueindex(ORIGINAL)

/* Pushes the `__newindex` that the class of the userdata at OBJECT had. */
static void push_newindex(lua_State *L);

/* {======================================================
** Writes
** ======================================================= */

/* call_newindex(object, key, value, newindex) */
static int call_newindex(lua_State *L) {
  mwb_call_newindex(L, VALUE + 1);
  return 0;
}

void mwb_call_newindex(lua_State *L, int newindex) {
  lua_pushvalue(L, lua_isnil(L, newindex) ? OBJECT : newindex);
  if (lua_isfunction(L, -1)) lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  if (lua_isfunction(L, -4))
    lua_call(L, 3, 0);
  else
    lua_settable(L, -3); /* raises Lua's own error for an object without one */
}

int mwb_pcall_newindex(lua_State *L, int newindex) {
  newindex = lua_absindex(L, newindex);
  lua_pushcfunction(L, call_newindex);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  lua_pushvalue(L, newindex);
  return lua_pcall(L, 4, 0, 0);
}

/* Appends the entry of the field at KEY, with the values at VALUE and OLD. */
static void append_field(lua_State *L, mwb_state *s, mw_handle h,
                         uint64_t number) {
  mwb_entry entry;
  mwb_prepare(L, s, h, MW_UPDATE, OLD, number, &entry);
  mwb_append_entry(L, s, &entry);
}

void mwb_append_stored(mwb_write *w) {
  if (mwb_appends(w->s)) append_field(w->L, w->s, w->obj, mwb_write_number(w));
}

/* append_kept(object, key, value, _, old, number, has the class raised?):
** appends the entry of what the object shows, if its class has kept anything */
static int append_kept(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int raised = lua_toboolean(L, OLD + 2), status, shown = OLD + 1;
  uint64_t number = (uint64_t)lua_tointeger(L, OLD + 1);
  lua_settop(L, OLD);
  status = mwb_read_shown(L);                    /* the read may do anything */
  if (status == LUA_ERRMEM) return lua_error(L); /* then OLD is stored again */
  if (status != LUA_OK) { /* then it is the value that was written */
    if (raised) return 0; /* nothing was kept, as it seems */
  } else {
    if (mwb_is_same(L, shown, OLD) && (raised || !mwb_is_same(L, shown, VALUE)))
      return 0; /* the class has kept nothing */
    lua_copy(L, shown, VALUE);
  }
  append_field(L, s, mwb_handle_of(L, s, OBJECT), number);
  return 0;
}

/* The class of the userdata at OBJECT has stored, or has raised.  Appends the
** entry with what the object shows, if the class has kept anything.  Without
** memory for the entry, the old value is stored again. */
static void append_or_restore(lua_State *L, mwb_state *s, uint64_t number,
                              int raised) {
  int i;
  for (i = OBJECT; i <= OLD; i++) lua_pushvalue(L, i);
  lua_pushinteger(L, (lua_Integer)number);
  lua_pushboolean(L, raised);
  if (mwb_pcall(L, s, append_kept, OLD + 2, 0) == LUA_OK) return;
  lua_copy(L, OLD, VALUE);
  push_newindex(L);
  if (mwb_pcall_newindex(L, -1) != LUA_OK) lua_pop(L, 1);
  lua_pop(L, 1);
  lua_error(L);
}

void mwb_store_userdata(mwb_write *w) {
  int appends = mwb_appends(w->s) && !w->ignored, status;
  if (appends && (!w->has_old || w->called)) { /* a guard may have written */
    lua_settop(w->L, w->called ? FAILURE : OLD);
    mwb_push_current(w->L, w->s);
    lua_replace(w->L, OLD);
    w->has_old = 1;
    mwb_set_kind_of(w);
  }
  lua_settop(w->L, RUNNING);
  push_newindex(w->L);
  status = mwb_call_class(w);
  if (appends)
    append_or_restore(w->L, w->s, mwb_write_number(w), status != LUA_OK);
  mwb_end_class(w, status);
}

/* The write is none of the library's: the class's own `__newindex` stores. */
static int pass_on(lua_State *L) {
  lua_settop(L, VALUE);
  if (!lua_isfunction(L, UP_ORIGINAL)) { /* a table, or none? */
    mwb_call_newindex(L, UP_ORIGINAL);
    return 0;
  }
  lua_pushvalue(L, UP_ORIGINAL);
  lua_insert(L, OBJECT);
  lua_callk(L, VALUE, 0, 0, mwb_return);
  return 0;
}

static int trap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = MW_NONE;
  mwb_write w;
  lua_settop(L, VALUE);
  if (s->engine == NULL || !lua_isuserdata(L, OBJECT)) return pass_on(L);
  push_newindex(L);
  if (lua_rawequal(L, -1, UP_ORIGINAL)) h = mwb_intercepting_at(L, s, OBJECT);
  lua_settop(L, VALUE);
  if (h == MW_NONE || h == s->traps->quiet || mwb_is_ignored(L, s))
    return pass_on(L); /* nobody is to hear */
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  if (!mwb_write_check(&w)) return lua_error(L); /* refused */
  return mwb_write_run(&w, mwb_store_userdata);
}

/* }====================================================== */

/* {======================================================
** States
** ======================================================= */

/* Calls a policy's function with the object and `args` values more, which are
** on the top.  The function may write to the object and call its mutators,
** which is not told.  Returns a status; a result or the error is on the top. */
static int ask_policy(lua_State *L, mwb_state *s, int question, int args) {
  mw_handle former = s->traps->quiet;
  int status;
  if (!mwb_push_question(L, s, question))
    return luaL_error(L, "the policy has no rule for the state of the class");
  lua_insert(L, -1 - args);
  lua_pushvalue(L, OBJECT);
  lua_insert(L, -1 - args);
  s->traps->quiet = mwb_handle_of(L, s, OBJECT);
  status = lua_pcall(L, 1 + args, 1, 0);
  s->traps->quiet = former;
  return status;
}

void mwb_push_state_of(lua_State *L, mwb_state *s) {
  if (ask_policy(L, s, MWB_SNAPSHOT, 0) != LUA_OK) lua_error(L);
}

/* Returns a status; pushes an error. */
static int call_restore(lua_State *L, mwb_state *s) {
  int status;
  lua_pushvalue(L, VALUE);
  status = ask_policy(L, s, MWB_RESTORED, 1);
  if (status == LUA_OK) lua_pop(L, 1);
  return status;
}

void mwb_store_state(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  mwb_entry entry;
  int appends = mwb_appends(s), status;
  if (appends) mwb_prepare(L, s, w->obj, MW_CALL, OLD, 0, &entry);
  status = call_restore(L, s);
  if (appends) mwb_append_entry(L, s, &entry);
  if (status != LUA_OK) lua_error(L);
}

/* }====================================================== */

/* {======================================================
** Classes and their traps
** ======================================================= */

/* Pushes the `__newindex` of the class at `class_`.  Returns whether it is a
** trap. */
static int push_trap(lua_State *L, int class_) {
  mwb_raw_field(L, class_, "__newindex");
  return lua_tocfunction(L, -1) == trap;
}

static void push_newindex(lua_State *L) {
  if (!lua_getmetatable(L, OBJECT)) {
    lua_pushnil(L);
    return;
  }
  if (push_trap(L, -1)) { /* the trap has what the class had */
    lua_getupvalue(L, -1, ORIGINAL);
    lua_replace(L, -2);
  }
  lua_replace(L, -2);
}

/* Pops a value and makes it the `__newindex` of the class at `class_`, which
** has one. */
static void set_newindex(lua_State *L, int class_) {
  lua_pushliteral(L, "__newindex");
  lua_insert(L, -2);
  lua_rawset(L, class_);
}

/* Gives the class at `class_` a trap for the `__newindex` that it has now; one
** without a `__newindex` needs none. */
static void install(lua_State *L, const mwb_state *s, int class_) {
  int top = lua_gettop(L);
  if (!push_trap(L, class_) && !lua_isnil(L, -1)) { /* not wrapped yet? */
    lua_pushlightuserdata(L, (void *)(uintptr_t)s);
    mwb_push(L, s, MWB_OBJECTS);
    lua_pushvalue(L, top + 1);
    lua_pushcclosure(L, trap, ORIGINAL);
    set_newindex(L, class_);
  }
  lua_settop(L, top);
}

/* Adds `n` to the number of watched objects of the class at `class_`.  Returns
** the sum. */
static lua_Integer add_watched(lua_State *L, const mwb_state *s, int class_,
                               int n) {
  lua_Integer sum;
  mwb_push(L, s, MWB_TRAPS);
  lua_pushvalue(L, class_);
  lua_rawget(L, -2);
  sum = lua_tointeger(L, -1) + n;
  lua_pushvalue(L, class_);
  if (sum > 0) /* else it is counted no more */
    lua_pushinteger(L, sum);
  else
    lua_pushnil(L);
  lua_rawset(L, -4);
  lua_pop(L, 2);
  return sum;
}

void mwb_wrap_class(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L), class_ = top + 1;
  if (!lua_getmetatable(L, index)) return;
  install(L, s, class_);
  add_watched(L, s, class_, 1);
  lua_settop(L, top);
}

void mwb_unwrap_class(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L), class_ = top + 1;
  if (lua_getmetatable(L, index) && add_watched(L, s, class_, -1) == 0 &&
      push_trap(L, class_)) { /* was this the last one? */
    lua_getupvalue(L, -1, ORIGINAL);
    set_newindex(L, class_);
  }
  lua_settop(L, top);
}

/* }====================================================== */

/* {======================================================
** For Lua
** ======================================================= */

/* state(userdata) -> its present state */
static int state(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  mwb_push_state_of(L, s);
  return 1;
}

/* set_state(userdata, state): without an entry */
static int set_state(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, KEY);
  lua_pushvalue(L, KEY); /* VALUE */
  if (call_restore(L, s) != LUA_OK) return lua_error(L);
  return 0;
}

/* refresh_userdata(class) -> how many watched userdata have the class, whose
** `__newindex` is intercepted again; a class may be given by the table in its
** `__index` */
static int refresh_userdata(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer n = 0;
  lua_settop(L, 1);
  mwb_push(L, s, MWB_TRAPS);
  for (lua_pushnil(L); lua_next(L, 2) != 0; lua_settop(L, 3)) {
    mwb_raw_field(L, 3, "__index");
    if (!lua_rawequal(L, 1, 3) && !lua_rawequal(L, 1, -1)) continue;
    install(L, s, 3);
    n += lua_tointeger(L, 4);
  }
  lua_pushinteger(L, n);
  return 1;
}

/* }====================================================== */

void mwb_open_userdata(lua_State *L) {
  static const luaL_Reg functions[] = {{"refresh_userdata", refresh_userdata},
                                       {"state", state},
                                       {"set_state", set_state},
                                       {NULL, NULL}};
  mwb_new_ephemeron(L, MWB_TRAPS);
  mwb_set_funcs(L, functions);
}
