/*
** write.c - a write to a watched object, and who is told of it.
** SPDX-License-Identifier: MIT
**
** The engine gets the key as a value of its own; the guards get what is on the
** stack of the report: object, key, value, shadow, old value.  All guards are
** called before the first error of theirs is raised.
*/
#include "write.h"

#include "cell.h"
#include "journal.h"
#include "policy.h"
#include "trace.h"

#include <string.h>

/* {======================================================
** Calling guards
** ======================================================= */

static const char *const kinds[MW_KINDS] = {"insert",   "update", "delete",
                                            "call",     "raw",    "metatable",
                                            "rollback", "apply",  "touch"};

static int add_traceback(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (message != NULL) luaL_traceback(L, L, message, 1);
  return 1;
}

/* The error on the top is `mw.on_error`'s, or that of the write. */
static void fail(write_frame *f) {
  lua_State *L = f->L;
  mwb_push(L, mwb_state_of(L), MWB_ONERROR);
  if (!lua_isnil(L, -1)) {
    lua_insert(L, -2);
    lua_pushliteral(L, "guard");
    if (lua_pcall(L, 2, 0, 0) == LUA_OK) return;
  } else {
    lua_pop(L, 1);
  }
  if (f->failed)
    lua_pop(L, 1);
  else
    lua_replace(L, FAILURE);
  f->failed = 1;
}

void mwb_push_guards(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (mwb_push_own(L, index)) {
    lua_rawgeti(L, -1, MWB_OWNGUARDS);
  } else {
    mwb_push(L, mwb_state_of(L), MWB_HELD);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
  }
  lua_replace(L, -2);
}

/* Pushes a function guard of the object at `index`; it is let go if that is for
** its last call. */
static void push_function(lua_State *L, int index, uint64_t ref) {
  lua_Integer n = (lua_Integer)(ref & ~MWB_REFBITS);
  int guards = lua_gettop(L) + 1;
  mwb_push_guards(L, index);
  lua_rawgeti(L, guards, n);
  if (ref & MWB_REFONCE) {
    lua_pushnil(L);
    lua_rawseti(L, guards, n);
  }
  lua_replace(L, guards);
}

/* Calls the method of a guard that is no function; with its arguments on the
** top.  Runs protected. */
static int call_invalidate(lua_State *L) {
  lua_getfield(L, 1, "invalidate");
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

/* The strings are made when the library is opened: here nothing may fail. */
static void push_kind(lua_State *L, int kind) {
  mwb_push(L, mwb_state_of(L), MWB_KINDS);
  lua_rawgeti(L, -1, kind + 1);
  lua_replace(L, -2);
}

static void push_write(lua_State *L, const mw_change *change) {
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, OLD);
  lua_pushvalue(L, VALUE);
  push_kind(L, change->kind);
}

/* Calls a guard that hears of what is below `root`. */
static int tell_guard(lua_State *L, mwb_state *s, mw_handle root, uint64_t ref,
                      const mw_change *change) {
  int top = lua_gettop(L);
  if (!mwb_alive(L, s, root)) { /* dead, while what was below it is not */
    lua_settop(L, top);
    return LUA_OK;
  }
  mwb_push(L, mwb_state_of(L), MWB_TELL);
  if (ref & MWB_REFWEAK)
    mwb_alive(L, s, ref & ~MWB_REFBITS);
  else
    push_function(L, top + 1, ref);
  lua_rotate(L, top + 1, -1); /* the root, behind them */
  push_write(L, change);
  return lua_pcall(L, 7, 0, HANDLER);
}

static int tell_of_write(lua_State *L, mwb_state *s, uint64_t ref,
                         const mw_change *change) {
  int n = 5;
  if (ref & MWB_REFWEAK) {
    lua_pushcfunction(L, call_invalidate);
    mwb_alive(L, s, ref & ~MWB_REFBITS);
    n++;
  } else {
    push_function(L, OBJECT, ref);
  }
  push_write(L, change);
  return lua_pcall(L, n, 0, HANDLER);
}

static void call_guard(void *ud, mw_handle obj, uint64_t ref,
                       const mw_change *change) {
  write_frame *f = (write_frame *)change->host;
  mwb_state *s = (mwb_state *)ud;
  int status = (ref & MWB_REFDEEP) ? tell_guard(f->L, s, obj, ref, change)
                                   : tell_of_write(f->L, s, ref, change);
  if (status != LUA_OK) fail(f);
  s->L = f->L;
}

static int guard_alive(void *ud, mw_handle guard) {
  mwb_state *s = (mwb_state *)ud;
  int alive = mwb_alive(s->L, s, guard);
  lua_pop(s->L, 1);
  return alive;
}

mwb_state *mwb_begin_report(lua_State *L, write_frame *f) {
  mwb_state *s = mwb_state_of(L);
  luaL_checkstack(L, LUA_MINSTACK, "too many guards");
  lua_settop(L, OLD);
  lua_pushcfunction(L, add_traceback);
  lua_pushnil(L);
  f->L = s->L = L;
  f->state = s;
  f->obj = MW_NONE;
  f->failed = 0;
  return s;
}

int mwb_is_same(lua_State *L, int kind) {
  return lua_rawequal(L, OLD, VALUE) && kind != MW_TOUCH && kind != MW_CALL;
}

int mwb_write_kind(lua_State *L) {
  if (lua_isnil(L, VALUE)) return MW_DELETE;
  return lua_isnil(L, OLD) ? MW_INSERT : MW_UPDATE;
}

static int get_field(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

void mwb_push_current(lua_State *L) {
  int top = lua_gettop(L);
  if (mwb_push_shadow(L, OBJECT)) {
    lua_pushvalue(L, KEY);
    lua_rawget(L, top + 1);
    lua_replace(L, top + 1);
  } else {
    lua_pushcfunction(L, get_field);
    lua_pushvalue(L, OBJECT);
    lua_pushvalue(L, KEY);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) return;
    lua_settop(L, top);
    lua_pushnil(L);
  }
}

void mwb_set_change(lua_State *L, write_frame *f, mw_handle h, int kind) {
  mwb_state *s = mwb_begin_report(L, f);
  f->obj = h;
  f->change.key = mwb_key(L, s, KEY, 0);
  f->change.kind = kind;
  f->change.same = mwb_is_same(L, kind);
  f->change.host = f;
  f->change.note = 0;
}

uint64_t mwb_begin_write(lua_State *L, write_frame *f, mw_handle h, int kind) {
  mwb_state *s = mwb_state_of(L);
  uint64_t moment, calls = s->engine->watch.calls;
  mwb_set_change(L, f, h, kind);
  if (mw_batch_depth(s->engine) > 0) f->change.note = mwb_note_write(L, kind);
  if (mwb_tracing(s)) mwb_trace_write(L, s, h, KEY, kind);
  s->L = L;
  moment = mw_write_begin(s->engine, f->obj, &f->change);
  if (mwb_tracing(s))
    mwb_trace_heard(L, s, h, KEY, s->engine->watch.calls - calls);
  return moment;
}

/* Returns if there is an error at FAILURE. */
static int finish_write(write_frame *f, uint64_t moment) {
  mwb_state *s = f->state;
  uint64_t calls = s->engine->watch.calls;
  s->L = f->L;
  mw_write_end(s->engine, f->obj, &f->change, moment);
  if (mwb_tracing(s))
    mwb_trace_heard(f->L, s, f->obj, KEY, s->engine->watch.calls - calls);
  mwb_rest(f->L, mwb_object_of(f->state, f->obj), OBJECT);
  lua_settop(f->L, FAILURE);
  return f->failed;
}

void mwb_end_write(write_frame *f, uint64_t moment) {
  if (finish_write(f, moment)) lua_error(f->L);
}

static mwb_state *state(lua_State *L) { return mwb_state_of(L); }

/* A float that is an integer becomes one, as in a table. */
static void normalize_key(lua_State *L) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, KEY) == LUA_TNUMBER) n = lua_tointegerx(L, KEY, &ok);
  if (!ok) return;
  lua_pushinteger(L, n);
  lua_replace(L, KEY);
}

int mwb_is_ignored(lua_State *L) {
  int top = lua_gettop(L), ignored = 0;
  if (!state(L)->ignores || !mwb_push_hook(L, state(L), MWB_IGNORED)) return 0;
  lua_pushvalue(L, OBJECT);
  lua_call(L, 1, 1);
  if (lua_istable(L, -1) && !lua_isnil(L, KEY)) {
    lua_pushvalue(L, KEY);
    ignored = lua_rawget(L, -2) != LUA_TNIL;
  }
  lua_settop(L, top);
  return ignored;
}

/* The handle at the top of the stack, which is removed. */
static mw_handle pop_handle(lua_State *L) {
  mw_handle h = (mw_handle)lua_tointeger(L, SHADOW + 1);
  lua_settop(L, SHADOW);
  return h;
}

/* Counts a write that nobody hears of. */
static void count(lua_State *L, mw_handle h) {
  mwi_object *r = mwb_object_of(state(L), h);
  if (r != NULL && (r->watched || r->member != 0))
    mwi_object_count(state(L)->engine, r);
}

static void prepare_write(lua_State *L, mw_handle h, mw_entry *entry) {
  mwb_begin_entry(L, state(L), entry);
  mwb_prepare(L, state(L), h, KEY, VALUE, OLD, entry);
}

/* The class may have put another value there than it was given. */
static void call_newindex(lua_State *L, mw_handle h) {
  mwb_state *s = state(L);
  mw_entry entry;
  uint32_t id;
  int noting = mwb_noting(s);
  if (noting) prepare_write(L, h, &entry);
  id = s->journal.id;
  mwb_call_newindex(L, SHADOW);
  if (!noting) return;
  if (s->journal.id != id) prepare_write(L, h, &entry);
  mwb_check(L, mw_journal_append(s->engine, &entry));
}

/* write_userdata(object, key, value, newindex, handle), called by the other
** trap. */
static int write_userdata(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mw_handle h = pop_handle(L);
  if (mwb_is_ignored(L)) {
    count(L, h);
    mwb_call_newindex(L, SHADOW);
    return 0;
  }
  mwb_push_current(L);
  moment = mwb_begin_write(L, &f, h, mwb_write_kind(L));
  call_newindex(L, h);
  mwb_end_write(&f, moment);
  return 0;
}

/* A guard may have unwatched the object, or changed its class. */
static void store_value(lua_State *L, mw_handle h) {
  if (mwb_push_shadow(L, OBJECT)) {
    lua_replace(L, SHADOW);
    mwb_store(L, SHADOW, mwb_object_of(state(L), h));
  } else {
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
    lua_settable(L, OBJECT);
  }
}

/* write(object, key, value, shadow, handle), called by the trap. */
static int write(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mw_handle h = pop_handle(L);
  normalize_key(L);
  if (mwb_is_ignored(L)) {
    count(L, h);
    store_value(L, h);
    return 0;
  }
  lua_pushvalue(L, KEY);
  lua_rawget(L, SHADOW); /* the old value */
  moment = mwb_begin_write(L, &f, h, mwb_write_kind(L));
  store_value(L, h);
  mwb_end_write(&f, moment);
  return 0;
}

/* Pushes what a table has itself, or what a userdata tells. */
static void push_plain(lua_State *L) {
  if (lua_istable(L, OBJECT)) {
    lua_pushvalue(L, KEY);
    lua_rawget(L, OBJECT);
  } else {
    mwb_push_current(L);
  }
}

void mwb_prepare_plain(lua_State *L, mwb_state *s, mw_entry *entry) {
  mw_handle h = mwb_identify(L, s, "apply", OBJECT, 1);
  mwb_begin_entry(L, s, entry);
  lua_settop(L, SHADOW);
  if (mwb_is_cell(L, s, OBJECT))
    mwb_push_cell(L, OBJECT); /* to OLD */
  else
    push_plain(L);
  mwb_prepare(L, s, h, KEY, VALUE, OLD, entry);
  if (mwb_is_cell(L, s, OBJECT))
    mwb_hold(L, s, OBJECT, entry); /* nobody else does */
}

/* Writes to an object that does not tell of it, or to a cell; and notes it. */
static void assign_plain(lua_State *L, mwb_state *s, int stored) {
  mw_entry entry;
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
  mwb_check(L, mw_journal_append(s->engine, &entry));
}

/* assign(object, key, value, stored) -> did a guard fail?, its error.  A write
** as any other, but those who watch hear that it is applied, and what is said
** to be `stored` goes to a table as it is, whatever its class would do. */
static int assign(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int stored = lua_toboolean(L, 4);
  write_frame f;
  uint64_t moment;
  mw_handle h;
  lua_settop(L, SHADOW);
  normalize_key(L);
  h = mwb_intercepting_at(L, s, OBJECT);
  if (h == MW_NONE) {
    assign_plain(L, s, stored);
    return 0;
  }
  mwb_push_current(L);
  moment = mwb_begin_write(L, &f, h, MW_APPLY);
  if (stored && mwb_push_shadow(L, OBJECT)) {
    lua_replace(L, SHADOW);
    mwb_put(L, SHADOW, mwb_object_of(s, h));
  } else if (lua_istable(L, OBJECT)) {
    store_value(L, h);
  } else {
    mwb_push_newindex(L, OBJECT);
    lua_replace(L, SHADOW);
    call_newindex(L, h);
  }
  lua_pushboolean(L, finish_write(&f, moment));
  lua_insert(L, FAILURE);
  return 2;
}

/* }====================================================== */

static int on_error(lua_State *L) {
  mwb_enter(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && !lua_isfunction(L, 1))
    return mwb_bad_argument(L, "on_error", 1, 1, "function");
  mwb_push(L, mwb_state_of(L), MWB_ONERROR);
  lua_insert(L, 1);
  mwb_keep(L, mwb_state_of(L), MWB_ONERROR);
  return 1;
}

const char *mwb_kind_name(int kind) { return kinds[kind]; }

void mwb_push_kind(lua_State *L, int kind) { lua_pushstring(L, kinds[kind]); }

int mwb_kind(lua_State *L, int index) {
  const char *name = lua_tostring(L, index);
  int kind = MW_KINDS;
  while (name != NULL && --kind >= 0)
    if (strcmp(kinds[kind], name) == 0) return kind;
  return luaL_error(L, "unknown kind");
}

static void make_kinds(lua_State *L) {
  int i;
  lua_createtable(L, MW_KINDS, 0);
  for (i = 0; i < MW_KINDS; i++) {
    lua_pushstring(L, kinds[i]);
    lua_rawseti(L, -2, i + 1);
  }
  mwb_keep(L, mwb_state_of(L), MWB_KINDS);
}

void mwb_open_assign(lua_State *L) {
  static const luaL_Reg functions[] = {{"assign", assign}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

void mwb_open_write(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"on_error", on_error}, {NULL, NULL}};
  const mw_host host = {s,          call_guard,  guard_alive, mwb_settle,
                        mwb_retain, mwb_release, mwb_restore};
  mw_host_set(s->engine, &host);
  make_kinds(L);
  lua_newtable(L);
  mwb_keep(L, mwb_state_of(L), MWB_STRINGS);
  mwb_open_shadow(L, write);
  mwb_open_userdata(L, write_userdata);
  mwb_open_tree(L);
  mwb_set_funcs(L, functions);
}
