/*
** userdata.c - userdata whose class, the metatable, intercepts writes.
** SPDX-License-Identifier: MIT
**
**     class (metatable) --> __newindex = trap --> upvalues: state, objects, the
**                                                 class's own `__newindex`, the
**                                                 number of watched objects
**
** Userdata share their metatable, and libraries recognise their userdata by the
** metatable.  So the class gets the trap, and the trap passes writes to objects
** that are not watched on to the class's own `__newindex`.  The last
** `mw.unwatch` gives the class its `__newindex` back.
**
** MWB_TRAPS maps a class to its trap.  After the class has got another
** `__newindex`, `mw.refresh` gives it a new trap, for the `__newindex` that it
** has by now.  The program may still call the former trap, which is RETIRED: it
** passes all writes on.
*/
#include "../journal/journal.h"

#include "../base/base.h"
#include "trap.h"
#include "traps.h"

enum { ORIGINAL = 3, COUNT }; /* upvalues */
#define UP_ORIGINAL lua_upvalueindex(ORIGINAL)
#define UP_COUNT lua_upvalueindex(COUNT)

#define RETIRED (-1) /* instead of the number of watched objects */

/* {======================================================
** Writes
** ======================================================= */

int mwb_find_newindex(lua_State *L) {
  int newindex = lua_gettop(L), object = newindex + 1, loop;
  if (lua_isfunction(L, newindex)) {
    lua_pushvalue(L, OBJECT);
    return 1;
  }
  lua_pushvalue(L, newindex);
  for (loop = 0; loop < MWB_MAXCHAIN; loop++) {
    lua_settop(L, object);
    if (lua_istable(L, object)) {
      lua_pushvalue(L, KEY);
      if (lua_rawget(L, object) != LUA_TNIL) break;
    }
    if (luaL_getmetafield(L, object, "__newindex") == LUA_TNIL) break;
    if (lua_isfunction(L, -1)) {
      lua_replace(L, newindex);
      lua_settop(L, object);
      return 1;
    }
    lua_replace(L, object);
  }
  lua_settop(L, newindex);
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

/* prepare_kept(object, key, value, entry, old): prepares the entry anew */
static int prepare_kept(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_entry *entry = (mwb_entry *)lua_touserdata(L, 4);
  mwb_prepare(L, s, mwb_handle_of(L, s, OBJECT), KEY, VALUE, OLD, entry);
  return 0;
}

/* Prepares the entry for the value on the top.  Without memory, the entry is as
** before, and the error is on the top.  Returns a status. */
static int prepare_again(lua_State *L, mwb_state *s, mwb_entry *entry) {
  mwb_entry former = *entry;
  int value = lua_gettop(L), status;
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, value);
  lua_pushlightuserdata(L, entry);
  lua_pushvalue(L, OLD);
  status = mwb_pcall(L, s, prepare_kept, 5, 0);
  if (status != LUA_OK) *entry = former;
  return status;
}

/* Without memory for another value, the entry has the value that was written,
** so that the write can be taken back. */
void mwb_append_kept(lua_State *L, mwb_state *s, mwb_entry *entry, int failed) {
  int top = lua_gettop(L), kept = top + 1;
  int status = mwb_read_shown(L); /* the read may do anything */
  int shown = status == LUA_OK, as_written = 1;
  if (shown) {
    as_written = mwb_is_same(L, kept, VALUE);
    if (mwb_is_same(L, kept, OLD) && (failed || !as_written)) { /* kept none? */
      lua_settop(L, top);
      return;
    }
  } else if (status != LUA_ERRMEM) {
    if (failed) return;
    status = LUA_OK;
  }
  if (!shown || as_written) lua_pushvalue(L, VALUE);
  if (!as_written || !mwb_is_prepared(s, entry))
    status = prepare_again(L, s, entry);
  if (mwb_is_prepared(s, entry)) mwb_append_entry(L, s, entry);
  if (status != LUA_OK) mwb_check(L, MW_NOMEM);
  lua_settop(L, top);
}

/* Puts the value that the store replaces at OLD: a guard may have written. */
static void read_replaced(mwb_write *w) {
  if (w->has_old && !w->called) return;
  lua_settop(w->L, w->called ? FAILURE : OLD);
  mwb_push_current(w->L, w->s);
  lua_replace(w->L, OLD);
  w->has_old = 1;
  mwb_set_kind_of(w);
}

/* Fills the stack for the call of the class, up to RESULT, which is free; the
** entry is at RUNNING while the class stores. */
static void begin_class(mwb_write *w) {
  lua_State *L = w->L;
  mwb_entry *entry;
  int appends = mwb_appends(w->s) && !w->ignored;
  if (appends) read_replaced(w);
  lua_settop(L, FAILURE);
  if (appends) {
    entry = (mwb_entry *)lua_newuserdatauv(L, sizeof(*entry), 0);
    mwb_begin_entry(L, w->s, entry);
    entry->number = mwb_write_number(w);
    mwb_prepare(L, w->s, w->obj, KEY, VALUE, OLD, entry);
  }
  lua_settop(L, RUNNING);
}

static void end_storing(mwb_write *w, int status) {
  mwb_entry *entry = (mwb_entry *)lua_touserdata(w->L, RUNNING);
  if (entry != NULL) mwb_append_kept(w->L, w->s, entry, status != LUA_OK);
  mwb_end_class(w, status);
}

void mwb_store_userdata(mwb_write *w) {
  begin_class(w);
  mwb_push_newindex(w->L, OBJECT);
  end_storing(w, mwb_call_class(w));
}

static int after_other(lua_State *L, int status, lua_KContext context) {
  (void)L, (void)status, (void)context;
  return 0;
}

/* The write is none of the library's: the class's own `__newindex` stores. */
static int pass_on(lua_State *L) {
  lua_pushvalue(L, UP_ORIGINAL);
  if (!mwb_find_newindex(L)) {
    mwb_call_newindex(L, UP_ORIGINAL);
    return 0;
  }
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  lua_callk(L, 3, 0, 0, after_other);
  return 0;
}

static int trap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int is_ours = s->engine != NULL && lua_isuserdata(L, OBJECT); /* no table */
  mw_handle h = is_ours ? mwb_intercepting_at(L, s, OBJECT) : MW_NONE;
  mwb_write w;
  lua_settop(L, VALUE);
  if (h == MW_NONE || h == s->traps->quiet ||
      lua_tointeger(L, UP_COUNT) == RETIRED)
    return pass_on(L); /* not watched, or by the library's own will */
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  if (mwb_is_ignored(L, s)) {
    lua_settop(L, VALUE);
    return pass_on(L);
  }
  if (!mwb_write_check(&w)) return lua_error(L);
  mwb_write_count(&w);
  mwb_write_before(&w);
  begin_class(&w);
  lua_pushvalue(L, UP_ORIGINAL);
  end_storing(&w, mwb_call_class(&w));
  if (mwb_write_after(&w)) return lua_error(L);
  return 0;
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

/* A failed `restore` may have changed the state, so there is an entry, too. */
void mwb_change_state(lua_State *L, mwb_state *s, mw_handle h) {
  mwb_entry entry;
  int appends = mwb_appends(s), status;
  if (appends) {
    mwb_begin_entry(L, s, &entry);
    mwb_prepare_kind(L, s, h, MW_CALL, KEY, VALUE, OLD, &entry);
  }
  status = call_restore(L, s);
  if (appends) {
    if (!mwb_is_prepared(s, &entry))
      mwb_prepare_kind(L, s, h, MW_CALL, KEY, VALUE, OLD, &entry);
    mwb_append_entry(L, s, &entry);
  }
  if (status != LUA_OK) lua_error(L);
}

void mwb_store_state(mwb_write *w) { mwb_change_state(w->L, w->s, w->obj); }

/* }====================================================== */

/* {======================================================
** Classes and their traps
** ======================================================= */

/* Pushes what MWB_TRAPS has for the class at `class_`; returns the type. */
static int push_trap_of(lua_State *L, const mwb_state *s, int class_) {
  mwb_push(L, s, MWB_TRAPS);
  lua_pushvalue(L, class_);
  lua_rawget(L, -2);
  lua_replace(L, -2);
  return lua_type(L, -1);
}

/* Sets the trap of the class at `class_` to the value on the top. */
static void set_trap_of(lua_State *L, const mwb_state *s, int class_) {
  mwb_push(L, s, MWB_TRAPS);
  lua_pushvalue(L, class_);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Pops a value and makes it the `__newindex` of the class at `class_`, which
** has one. */
static void set_newindex(lua_State *L, int class_) {
  lua_pushliteral(L, "__newindex");
  lua_insert(L, -2);
  lua_rawset(L, class_);
}

void mwb_push_newindex(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) {
    lua_pushnil(L);
    return;
  }
  mwb_raw_field(L, -1, "__newindex");
  lua_replace(L, -2);
  if (lua_tocfunction(L, -1) != trap) return;
  lua_getupvalue(L, -1, ORIGINAL);
  lua_replace(L, -2);
}

/* The number of watched objects of the trap at `trap_`. */
static lua_Integer count_of(lua_State *L, int trap_) {
  lua_Integer n;
  lua_getupvalue(L, trap_, COUNT);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void set_count(lua_State *L, int trap_, lua_Integer n) {
  trap_ = lua_absindex(L, trap_);
  lua_pushinteger(L, n);
  lua_setupvalue(L, trap_, COUNT);
}

/* Has the class at `class_` the trap on the top, or no `__newindex`, which
** needs none? */
static int has_trap(lua_State *L, int class_) {
  int has = mwb_raw_field(L, class_, "__newindex") == LUA_TNIL ||
            lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  return has;
}

/* Gives the class at `class_` a trap for the `__newindex` that it has now, and
** pushes the trap. */
static void push_installed(lua_State *L, mwb_state *s, int class_) {
  int former = lua_gettop(L) + 1;
  int has_former = push_trap_of(L, s, class_) != LUA_TNIL;
  if (has_former && has_trap(L, class_)) return;
  lua_pushlightuserdata(L, s);
  mwb_push(L, s, MWB_OBJECTS);
  mwb_raw_field(L, class_, "__newindex");
  lua_pushinteger(L, has_former ? count_of(L, former) : 0);
  lua_pushcclosure(L, trap, COUNT);
  set_trap_of(L, s, class_);
  if (has_former) set_count(L, former, RETIRED);
  if (mwb_raw_field(L, class_, "__newindex") != LUA_TNIL) {
    lua_pushvalue(L, former + 1);
    set_newindex(L, class_);
  }
  lua_settop(L, former + 1);
  lua_replace(L, former);
}

void mwb_wrap_class(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L);
  if (!lua_getmetatable(L, index)) return;
  push_installed(L, s, top + 1);
  set_count(L, -1, count_of(L, -1) + 1);
  lua_settop(L, top);
}

void mwb_unwrap_class(lua_State *L, mwb_state *s, int index) {
  int top = lua_gettop(L), class_ = top + 1;
  if (lua_getmetatable(L, index) && push_trap_of(L, s, class_) != LUA_TNIL) {
    lua_Integer n = count_of(L, -1) - 1;
    set_count(L, -1, n);
    if (n == 0) { /* was this the last one? */
      mwb_raw_field(L, class_, "__newindex");
      if (lua_rawequal(L, -1, -2)) {
        lua_getupvalue(L, -2, ORIGINAL);
        set_newindex(L, class_);
      }
      lua_pushnil(L);
      set_trap_of(L, s, class_);
    }
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
    int is_class = lua_rawequal(L, 1, 3);
    mwb_raw_field(L, 3, "__index");
    if (!is_class && !lua_rawequal(L, 1, -1)) continue;
    push_installed(L, s, 3);
    n += count_of(L, -1);
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
