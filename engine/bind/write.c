/*
** write.c - a write to a watched object, and who is told of it.
** SPDX-License-Identifier: MIT
**
** The engine gets the key as a value of its own; the guards get what is on the
** stack of the report: object, key, value, shadow, old value.  All guards are
** called before the first error of theirs is raised.
*/
#include "write.h"

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
  mwB_push(L, MWB_ONERROR);
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

void mwB_pushguards(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (mwB_pushown(L, index)) {
    lua_rawgeti(L, -1, MWB_OWNGUARDS);
  } else {
    mwB_push(L, MWB_HELD);
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
  mwB_pushguards(L, index);
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
  mwB_push(L, MWB_KINDS);
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
static int tell_guard(lua_State *L, mwB_state *s, mw_handle root, uint64_t ref,
                      const mw_change *change) {
  int top = lua_gettop(L);
  if (!mwB_alive(L, s, root)) { /* dead, while what was below it is not */
    lua_settop(L, top);
    return LUA_OK;
  }
  mwB_push(L, MWB_TELL);
  if (ref & MWB_REFWEAK)
    mwB_alive(L, s, ref & ~MWB_REFBITS);
  else
    push_function(L, top + 1, ref);
  lua_rotate(L, top + 1, -1); /* the root, behind them */
  push_write(L, change);
  return lua_pcall(L, 7, 0, HANDLER);
}

static int tell_of_write(lua_State *L, mwB_state *s, uint64_t ref,
                         const mw_change *change) {
  int n = 5;
  if (ref & MWB_REFWEAK) {
    lua_pushcfunction(L, call_invalidate);
    mwB_alive(L, s, ref & ~MWB_REFBITS);
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
  mwB_state *s = (mwB_state *)ud;
  int status = (ref & MWB_REFDEEP) ? tell_guard(f->L, s, obj, ref, change)
                                   : tell_of_write(f->L, s, ref, change);
  if (status != LUA_OK) fail(f);
  s->L = f->L;
}

static int guard_alive(void *ud, mw_handle guard) {
  mwB_state *s = (mwB_state *)ud;
  int alive = mwB_alive(s->L, s, guard);
  lua_pop(s->L, 1);
  return alive;
}

/* Makes the stack what the guards' calls expect. */
static mwB_state *begin_report(lua_State *L, write_frame *f) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
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

/* Does the change leave things as they were? */
static int is_same(lua_State *L, int kind) {
  return lua_rawequal(L, OLD, VALUE) && kind != MW_TOUCH && kind != MW_CALL;
}

static int kind_of(lua_State *L) {
  if (lua_isnil(L, VALUE)) return MW_DELETE;
  return lua_isnil(L, OLD) ? MW_INSERT : MW_UPDATE;
}

/* {======================================================
** Batches
**
** The table of a batch: [object] = { [key] = note }, and for each note, from 1
** on, the object, the key, the value from before the batch, and the kind of the
** last write.  A batch that begins while another one ends has notes
** of its own, with numbers that go on.
** ======================================================= */

enum { BATCH_NOTES = 1, BATCH_OBJECTS, BATCH_KEYS, BATCH_OLDS, BATCH_KINDS };

static void new_batch(lua_State *L, mwB_state *s) {
  int i;
  lua_createtable(L, BATCH_KINDS, 0);
  for (i = BATCH_NOTES; i <= BATCH_KINDS; i++) {
    lua_newtable(L);
    lua_rawseti(L, -2, i);
  }
  lua_setiuservalue(L, MWB_UPSTATE, MWB_BATCH);
  s->notes = 0;
}

/* A batch begins while another one's guards are called. */
static void renew_notes(lua_State *L) {
  mwB_push(L, MWB_BATCH);
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

/* Pushes the key, or `false`'s place for no key at all. */
static void push_key(lua_State *L) {
  if (lua_isnil(L, KEY))
    lua_pushlightuserdata(L, L);
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

/* The note of the key of a write; the old value is that of its first. */
static uint64_t note_write(lua_State *L, int kind) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  int top = lua_gettop(L);
  lua_Integer note;
  if (!lua_rawequal(L, KEY, KEY)) return 0; /* NaN is no key */
  mwB_push(L, MWB_BATCH);
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
  lua_pushinteger(L, kind);
  lua_rawseti(L, -2, note);
  lua_settop(L, top);
  return (uint64_t)note;
}

/* Puts what is noted in one of the batch's tables at `to`. */
static void fetch(lua_State *L, int table, uint64_t note, int to) {
  mwB_push(L, MWB_BATCH);
  lua_rawgeti(L, -1, table);
  lua_rawgeti(L, -1, (lua_Integer)note);
  lua_replace(L, to);
  lua_pop(L, 2);
}

static int get_field(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

void mwB_pushcurrent(lua_State *L) {
  int top = lua_gettop(L);
  if (mwB_pushshadow(L, OBJECT)) {
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

static int settle(void *ud, mw_handle obj, mw_change *change) {
  write_frame *f = (write_frame *)change->host;
  lua_State *L = f->L;
  int alive = mwB_alive(L, (mwB_state *)ud, obj);
  lua_pop(L, 1);
  if (!alive) return 0;
  fetch(L, BATCH_OBJECTS, change->note, OBJECT);
  fetch(L, BATCH_KEYS, change->note, KEY);
  fetch(L, BATCH_OLDS, change->note, OLD);
  fetch(L, BATCH_KINDS, change->note, VALUE);
  change->kind = (int)lua_tointeger(L, VALUE);
  if (change->kind == MW_METATABLE)
    mwB_pushclass(L, OBJECT);
  else if (change->kind == MW_CALL)
    lua_pushnil(L);
  else
    mwB_pushcurrent(L);
  lua_replace(L, VALUE);
  change->same = is_same(L, change->kind);
  if (change->kind <= MW_DELETE) change->kind = kind_of(L);
  f->state->L = L; /* anything may have run */
  return 1;
}

/* deliver(): the outermost batch ends. */
static int deliver(lua_State *L) {
  write_frame f;
  mwB_state *s = begin_report(L, &f);
  s->delivering++;
  mw_batch_end(s->engine, &f);
  lua_settop(L, FAILURE);
  return f.failed ? lua_error(L) : 0;
}

/* Ends the innermost batch by calling `deliver`, which is on the top.  Answers
** a status; with an error, that is on the top. */
static int end_batch(lua_State *L, mwB_state *s) {
  uint32_t batches = mw_batches(s->engine);
  int delivering = s->delivering;
  int status = LUA_OK;
  if (batches > 1)
    lua_pop(L, 1);
  else
    status = lua_pcall(L, 0, 0, 0);
  s->L = L;
  if (mw_batches(s->engine) == batches) mw_batch_drop(s->engine);
  s->delivering = delivering;
  if (delivering == 0 && batches == 1) {
    lua_pushnil(L);
    lua_setiuservalue(L, MWB_UPSTATE, MWB_BATCH);
  }
  return status;
}

/* The function's error goes on, not that of a guard at the end. */
static int batch(lua_State *L) {
  mwB_state *s = mwB_enter(L);
  int status;
  if (!lua_isfunction(L, 1)) return mwB_badarg(L, "batch", 1, 1, "function");
  mwB_pushfunction(L, deliver);
  lua_insert(L, 1);
  if (mw_batches(s->engine) == 0) {
    if (s->delivering == 0)
      new_batch(L, s);
    else
      renew_notes(L);
  }
  mw_batch_begin(s->engine);
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

/* }====================================================== */

void mwB_setchange(lua_State *L, write_frame *f, mw_handle h, int kind) {
  mwB_state *s = begin_report(L, f);
  f->obj = h;
  f->change.key = mwB_key(L, s, KEY, 0);
  f->change.kind = kind;
  f->change.same = is_same(L, kind);
  f->change.host = f;
  f->change.note = 0;
}

uint64_t mwB_beginwrite(lua_State *L, write_frame *f, mw_handle h, int kind) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  mwB_setchange(L, f, h, kind);
  if (mw_batches(s->engine) > 0) f->change.note = note_write(L, kind);
  s->L = L;
  return mw_mutated(s->engine, f->obj, &f->change);
}

void mwB_endwrite(write_frame *f, uint64_t moment) {
  f->state->L = f->L;
  mw_stored(f->state->engine, f->obj, &f->change, moment);
  mwB_rest(f->L, mwB_recordof(f->state, f->obj), OBJECT);
  if (!f->failed) return;
  lua_settop(f->L, FAILURE);
  lua_error(f->L);
}

/* A float that is an integer becomes one, as in a table. */
static void normalize_key(lua_State *L) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, KEY) == LUA_TNUMBER) n = lua_tointegerx(L, KEY, &ok);
  if (!ok) return;
  lua_pushinteger(L, n);
  lua_replace(L, KEY);
}

/* Does the policy say that nobody is to hear of this key? */
static int is_ignored(lua_State *L) {
  int top = lua_gettop(L), ignored = 0;
  if (!mwB_pushhook(L, MWB_IGNORED)) return 0;
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

static mwB_state *state(lua_State *L) {
  return (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
}

/* Counts a write that nobody hears of. */
static void count(lua_State *L, mw_handle h) {
  mwW_record *r = mwB_recordof(state(L), h);
  if (r != NULL) r->count++;
}

/* write_userdata(object, key, value, newindex, handle), called by the other
** trap. */
static int write_userdata(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mw_handle h = pop_handle(L);
  if (is_ignored(L)) {
    count(L, h);
    mwB_callnewindex(L, SHADOW);
    return 0;
  }
  mwB_pushcurrent(L);
  moment = mwB_beginwrite(L, &f, h, kind_of(L));
  mwB_callnewindex(L, SHADOW);
  mwB_endwrite(&f, moment);
  return 0;
}

/* A guard may have unwatched the object, or changed its class. */
static void store_value(lua_State *L, mw_handle h) {
  if (mwB_pushshadow(L, OBJECT)) {
    lua_replace(L, SHADOW);
    mwB_store(L, SHADOW, mwB_recordof(state(L), h));
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
  if (is_ignored(L)) {
    count(L, h);
    store_value(L, h);
    return 0;
  }
  lua_pushvalue(L, KEY);
  lua_rawget(L, SHADOW); /* the old value */
  moment = mwB_beginwrite(L, &f, h, kind_of(L));
  store_value(L, h);
  mwB_endwrite(&f, moment);
  return 0;
}

/* }====================================================== */

static int on_error(lua_State *L) {
  mwB_enter(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && !lua_isfunction(L, 1))
    return mwB_badarg(L, "on_error", 1, 1, "function");
  mwB_push(L, MWB_ONERROR);
  lua_insert(L, 1);
  lua_setiuservalue(L, MWB_UPSTATE, MWB_ONERROR);
  return 1;
}

static void make_kinds(lua_State *L) {
  int i;
  lua_createtable(L, MW_KINDS, 0);
  for (i = 0; i < MW_KINDS; i++) {
    lua_pushstring(L, kinds[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setiuservalue(L, MWB_UPSTATE, MWB_KINDS);
}

void mwB_openwrite(lua_State *L, mwB_state *s) {
  static const luaL_Reg functions[] = {
      {"on_error", on_error}, {"batch", batch}, {NULL, NULL}};
  const mw_host host = {s,      call_guard, guard_alive,
                        settle, mwB_retain, mwB_release};
  mw_set_host(s->engine, &host);
  make_kinds(L);
  lua_newtable(L);
  lua_setiuservalue(L, MWB_UPSTATE, MWB_STRINGS);
  mwB_openshadow(L, write);
  mwB_openuserdata(L, write_userdata);
  mwB_opendeep(L);
  mwB_setfuncs(L, functions);
}
