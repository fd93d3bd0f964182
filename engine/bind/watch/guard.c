/*
** guard.c - calling guards; mw.guard, a guard that is a bit in the engine, and
** those of memos: see lua/moonwatch/memo.lua.
** SPDX-License-Identifier: MIT
**
** The engine knows a function guard by the guard's place in the watched
** object's table of guards, and any other guard by its handle.  A write calls
** all guards before the write raises the first guard's error.
**
** While `mwb_call_guard` runs, the engine walks its lists, so code that may
** raise runs in a protected call.
*/
#include "watch.h"

#include <string.h>

#include "../base/base.h"
#include "../box/box.h"
#include "../journal/journal.h"
#include "../traps/trap.h"
#include "../traps/traps.h"

/* {======================================================
** Kinds
** ======================================================= */

void mwb_push_kind(lua_State *L, const mwb_state *s, int kind) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->watch->kinds[kind]);
}

int mwb_kind(lua_State *L, int index) {
  const char *name = lua_tostring(L, index);
  int kind = MW_KINDS;
  while (name != NULL && --kind >= 0)
    if (strcmp(mwi_kinds[kind].name, name) == 0) return kind;
  return luaL_error(L, "unknown kind");
}

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

/* Adds a traceback to a text, but only one: an error of a guard's own write has
** a traceback already. */
static int add_traceback(lua_State *L) {
  size_t len;
  const char *text, *end;
  lua_settop(L, 1);
  if (lua_type(L, 1) != LUA_TSTRING) return 1; /* no text to add it to */
  text = lua_tolstring(L, 1, &len);
  for (end = text + len; text < end; text += strlen(text) + 1)  /* has zeros? */
    if (strstr(text, "\nstack traceback:\n") != NULL) return 1; /* it has one */
  lua_pushliteral(L, "\n");
  luaL_traceback(L, L, NULL, 1);
  lua_concat(L, 3);
  return 1;
}

/* Gives the error on the top to `mw.on_error`, else it becomes the write's,
** unless the write has one. */
static void report_error(mwb_write *w) {
  if (mwb_hand_error(w->L, w->s, "guard")) return;
  if (w->failed) /* only the first one is raised */
    lua_pop(w->L, 1);
  else
    lua_replace(w->L, FAILURE);
  w->failed = 1;
}

static int on_error(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && !lua_isfunction(L, 1))
    return mwb_bad_argument(L, "on_error", 1, 1, "function");
  s->watch->handled = !lua_isnil(L, 1);
  mwb_push(L, s, MWB_ONERROR);
  lua_insert(L, 1);
  mwb_keep(L, s, MWB_ONERROR);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Guards that call each other without end
** ======================================================= */

/* Guards in guards are stopped by Lua, which has no more than some 200 C calls
** in each other.  At that point all guards of all these writes would still be
** called, twice as many a level if two guards write; so none is called any
** more.  A guard may catch Lua's error; so at this depth guards are counted,
** too. */
#define ENDLESS 50
#define MOST_CALLS 10000

/* An overflow below so many guards is theirs, and no other function's. */
#define NESTED 10

static int is_overflow(lua_State *L, int status) {
  return status == LUA_ERRERR || /* or in the handler? */
         (lua_type(L, -1) == LUA_TSTRING &&
          strstr(lua_tostring(L, -1), "stack overflow") != NULL);
}

/* say_endless(key) -> the error of guards that write without end; it names what
** was written */
static int say_endless(lua_State *L) {
  int type = lua_type(L, 1);
  luaL_where(L, 2); /* of the write: its trap has called this */
  lua_pushliteral(L, "guards write to what they watch without end: field '");
  if (type == LUA_TSTRING || type == LUA_TNUMBER) /* has the key a text? */
    lua_pushvalue(L, 1);
  else
    lua_pushstring(L, lua_typename(L, type));
  lua_pushliteral(L, "'");
  lua_concat(L, 4);
  return 1;
}

/* Calls a guard, with its `n` arguments on the top.  Returns a status. */
static int call_nested(mwb_write *w, int n, int results, int flags) {
  lua_State *L = w->L;
  mwb_traps_state *traps = w->s->traps;
  int status = LUA_ERRRUN, is_endless;
  if (++traps->depth == 1) w->s->watch->deep_calls = 0; /* no guard around? */
  is_endless =
      traps->depth >= ENDLESS && ++w->s->watch->deep_calls > MOST_CALLS;
  if (is_endless) { /* not even this one is called? */
    lua_settop(L, lua_gettop(L) - n - 1);
    lua_pushnil(L);
  } else {
    int handled = (flags & MW_CHECK) || w->s->watch->handled;
    status = mwb_pcall_outside(L, w->s, n, results, handled ? 0 : HANDLER);
    is_endless = status != LUA_OK && traps->depth > 1 && is_overflow(L, status);
  }
  if (is_endless) {              /* then none is called any more */
    if (traps->depth > NESTED) { /* or a function that calls itself? */
      lua_pop(L, 1);
      lua_pushcfunction(L, say_endless);
      lua_pushvalue(L, KEY);
      lua_pcall(L, 1, 1, 0);
    }
    traps->endless = 1;
  }
  traps->depth--;
  return status;
}

/* }====================================================== */

/* {======================================================
** Calling guards
** ======================================================= */

/* The stack of `tell_guard`: first what the guard is called with, without its
** method. */
enum { GUARD = 1, ROOT, PATH, FROM, TO, KIND, WRITTEN, BELOW };

/* What `tell_guard` needs for the path of a deep guard. */
typedef struct written {
  mwb_state *s;
  const mw_change *change;
  mw_handle root, obj;
} written;

/* Pushes the keys from the root to the field at PATH, then the field; only the
** field if the path is gone. */
static void push_path(lua_State *L, const written *at) {
  mwb_state *s = at->s;
  mw_value few[16], *keys = few;
  uint32_t n, i;
  int strings = lua_gettop(L) + 1;
  mwb_push(L, s, MWB_STRINGS);
  n = mw_change_path(s->engine, at->change, at->root, at->obj, few, 16);
  if (n > 16) {
    keys = (mw_value *)lua_newuserdatauv(L, n * sizeof(mw_value), 0);
    mw_change_path(s->engine, at->change, at->root, at->obj, keys, n);
  }
  lua_createtable(L, (int)n + 1, 0);
  for (i = 0; i < n; i++) {
    if (keys[i].type == MW_TSTRING) /* `strings` is at hand */
      lua_rawgetp(L, strings, (void *)(uintptr_t)keys[i].u.i);
    else
      mwb_push_key(L, s, &keys[i]);
    lua_rawseti(L, -2, (lua_Integer)(n - i));
  }
  lua_pushvalue(L, PATH);
  lua_rawseti(L, -2, (lua_Integer)n + 1);
}

/* tell_guard(guard, object, field, old, new, kind[, written, struct]): calls a
** guard that is no function, or a deep one, with the path instead of the
** field */
static int tell_guard(lua_State *L) {
  if (lua_gettop(L) == BELOW) { /* deep? */
    push_path(L, (const written *)lua_touserdata(L, BELOW));
    lua_replace(L, PATH);
    lua_settop(L, WRITTEN);
  }
  if (!lua_isfunction(L, GUARD)) { /* has it a method? */
    lua_getfield(L, GUARD, "invalidate");
    lua_insert(L, GUARD);
  }
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

void mwb_end_guard(lua_State *L, mwb_state *s, int object, mwi_object *r,
                   lua_Integer place) {
  int top = lua_gettop(L);
  object = lua_absindex(L, object);
  mwb_push_guards(L, s, object, 0);
  if (lua_istable(L, -1)) mwb_drop_guard(L, top + 1, r, place);
  lua_settop(L, top);
}

/* Pushes the guard at a place of the table at `guards`, which has the guard
** there, or, with what its watch asks, in a table.  Returns 0 if the guard is
** dead. */
static inline int push_guard(lua_State *L, const mwb_state *s, int guards,
                             lua_Integer place) {
  int at = lua_gettop(L) + 1, alive = 1;
  if (lua_rawgeti(L, guards, place) != LUA_TTABLE) return 1; /* asks nothing */
  if (lua_rawgeti(L, at, 1) == LUA_TNUMBER) /* a handle, no function? */
    alive = mwb_alive(L, s, (mw_handle)lua_tointeger(L, -1));
  lua_replace(L, at);
  lua_settop(L, at);
  return alive;
}

/* Puts the guards of the object at `object` at OWN. */
static inline mwi_object *find_guards(mwb_write *w, mw_handle obj, int object) {
  mwi_object *r = w->r;
  if (r == NULL || r->obj != obj) /* a root above? */
    r = mwi_object_find(&w->s->engine->watch, obj);
  if (w->owner != obj || w->owner_layout != r->layout) { /* not at OWN? */
    mwb_push_guards(w->L, w->s, object, 0);
    lua_replace(w->L, OWN);
    w->owner = obj;
    w->owner_layout = r->layout;
  }
  return r;
}

/* Pushes the last arguments of guards and of `when`. */
static inline void push_arguments(const mwb_write *w, int kind) {
  lua_pushvalue(w->L, KEY);
  lua_pushvalue(w->L, OLD);
  lua_pushvalue(w->L, VALUE);
  mwb_push_kind(w->L, w->s, kind);
}

/* What comes of a call of a guard, beside a status. */
enum { DEAD = -1, UNWANTED = -2 };

/* Pushes the depths at which the written object is on the path of a watch of
** object `obj`.  Returns how many. */
static int push_depths(const mwb_write *w, mw_handle obj,
                       const mw_change *change) {
  mw_engine *e = w->s->engine;
  uint32_t depth = MWI_NO_DEPTH;
  int n = 0;
  if (obj != w->obj) depth = mwi_change_depth(e, change, w->obj, 0);
  for (; depth != MWI_NO_DEPTH && lua_checkstack(w->L, LUA_MINSTACK); n++) {
    lua_pushinteger(w->L, (lua_Integer)depth);
    depth = mwi_change_depth(e, change, w->obj, depth + 1);
  }
  if (n > 0) return n;
  depth = 0; /* the root, or is there another way now? */
  if (obj != w->obj) depth = mw_change_path(e, change, obj, w->obj, NULL, 0);
  lua_pushinteger(w->L, (lua_Integer)depth);
  return 1;
}

/* Calls the function `when` of the guard on the top.  Where the ends of a path
** are compared, that is a function in a table, which also gets the depths of
** the written object.  Returns a status, or UNWANTED.  An error is one of the
** guard. */
static int ask(mwb_write *w, mw_handle obj, int object, lua_Integer place,
               int flags, const mw_change *change) {
  lua_State *L = w->L;
  int entry = lua_gettop(L) + 1, compares, n = 5, status, wanted = 0;
  lua_rawgeti(L, OWN, place);
  compares = lua_rawgeti(L, entry, 2) == LUA_TTABLE;
  if (compares) lua_rawgeti(L, -1, 1);
  lua_pushvalue(L, OBJECT);
  push_arguments(w, change->kind);
  if (compares) n += push_depths(w, obj, change);
  status = call_nested(w, n, 1, flags);
  if (status != LUA_OK) {
    if (flags & MW_CHECK) return status; /* then it refuses the write */
    report_error(w);
    return UNWANTED;
  }
  if (lua_toboolean(L, -1)) { /* and has it not ended the watch? */
    find_guards(w, obj, object);
    if (lua_istable(L, OWN)) lua_rawgeti(L, OWN, place); /* or all are gone? */
    wanted = lua_rawequal(L, -1, entry);
  }
  lua_settop(L, entry - 1);
  return wanted ? LUA_OK : UNWANTED;
}

/* Calls a guard.  Drops a guard that is called for the last time, or is dead.
** Returns a status, DEAD or UNWANTED.  The object may be dead, too: objects
** below a dead root may live. */
static int call_guard(mwb_write *w, mw_handle obj, uint64_t ref, int flags,
                      const mw_change *change) {
  lua_State *L = w->L;
  int object = OBJECT, results = (flags & MW_CHECK) ? LUA_MULTRET : 0, n = 5;
  written at;
  if (flags & MW_DEEP) {
    if (obj == w->obj) /* is the root itself written? */
      lua_pushvalue(L, OBJECT);
    else if (!mwb_alive(L, w->s, obj))
      return DEAD;
    object = lua_gettop(L);
  }
  if (flags & MW_WEAK) {
    if (!mwb_alive(L, w->s, ref)) return DEAD;
  } else {
    lua_Integer place = (lua_Integer)ref;
    mwi_object *r = find_guards(w, obj, object);
    int status = push_guard(L, w->s, OWN, place) ? LUA_OK : DEAD;
    if (status == LUA_OK && (flags & MW_ASK)) /* does it want this write? */
      status = ask(w, obj, object, place, flags, change);
    if (status == DEAD || (status == LUA_OK && (flags & MW_ONCE))) { /* last? */
      if (flags & MW_ASK) mw_watch_cancel(w->s->engine, change->watch);
      mwb_drop_guard(L, OWN, r, place);
    }
    if (status != LUA_OK) return status;
  }
  if ((flags & MW_ASK) && mwb_is_guard(L, w->s, lua_gettop(L))) {
    mw_guard_set_valid(w->s->engine, mwb_handle_of(L, w->s, lua_gettop(L)), 0);
    return LUA_OK;
  }
  if ((flags & MW_DEEP) || /* a path, or a method? */
      ((flags & (MW_WEAK | MW_ASK)) && !lua_isfunction(L, -1))) {
    lua_pushcfunction(L, tell_guard);
    lua_insert(L, -2);
    n++;
  }
  lua_pushvalue(L, object);
  push_arguments(w, change->kind);
  if (flags & MW_DEEP) {
    at.s = w->s;
    at.change = change;
    at.root = obj;
    at.obj = w->obj;
    lua_remove(L, object);
    lua_pushvalue(L, OBJECT);
    lua_pushlightuserdata(L, &at);
    n = BELOW;
  }
  return call_nested(w, n, results, flags);
}

/* Raises the error of a check that has returned false, at the line of the
** write. */
static int returned_false(lua_State *L) {
  lua_Debug ar;
  int has_place = mwb_find_caller(L, &ar);
  if (has_place) lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  lua_pushliteral(L, "a check returned false: refuse with error");
  if (has_place) lua_concat(L, 2);
  return lua_error(L);
}

/* Calls a guard of phase "check" and looks at the guard's results, above
** FAILURE: true and a value store that value instead.  Returns as call_guard,
** with an error at FAILURE. */
static int call_check(mwb_write *w, mw_handle obj, uint64_t ref, int flags,
                      const mw_change *change) {
  lua_State *L = w->L;
  int status = call_guard(w, obj, ref, flags, change);
  if (status == LUA_OK && lua_isboolean(L, FAILURE + 1)) { /* says anything? */
    if (!lua_toboolean(L, FAILURE + 1)) { /* false: it refuses? */
      lua_pushcfunction(L, returned_false);
      status = lua_pcall(L, 0, 0, 0);
    } else if (lua_gettop(L) > FAILURE + 1) { /* true, and another value? */
      lua_copy(L, FAILURE + 2, VALUE);
      mwb_set_kind_of(w);
    }
  }
  if (status > LUA_OK) { /* an error, neither DEAD nor UNWANTED? */
    lua_replace(L, FAILURE);
    w->failed = 1;
  }
  return status;
}

/* Does the guard of a watch of an object still live? */
static int is_guard_alive(mwb_state *s, mw_handle obj, uint64_t ref,
                          int flags) {
  lua_State *L = s->service;
  int top = lua_gettop(L), alive = 1;
  if (flags & MW_WEAK) {
    alive = mwb_alive(L, s, ref);
  } else if (mwb_alive(L, s, obj)) { /* else they die together */
    mwb_push_guards(L, s, top + 1, 0);
    alive = push_guard(L, s, top + 2, (lua_Integer)ref);
    if (!alive)
      mwb_drop_guard(L, top + 2, mwb_object_of(s, obj), (lua_Integer)ref);
  }
  lua_settop(L, top);
  return alive;
}

int mwb_call_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                   const mw_change *change) {
  mwb_state *s = (mwb_state *)ud;
  const mw_host *program = &s->base->host;
  mwb_write *w;
  lua_State *L;
  int status;
  if (s->base->has_host && mwb_is_pinned(s, obj)) /* the program's object? */
    return program->call ? program->call(program->ud, obj, ref, flags, change)
                         : 0;
  if (change == NULL) return is_guard_alive(s, obj, ref, flags);
  w = (mwb_write *)change->host;
  if (s->traps->endless) return MW_SPARES; /* none is called any more */
  L = w->L;
  if (!w->called) { /* the first guard of the write? */
    mwb_read_old(w);
    if (w->shadow == TRAP_SHADOW) { /* the object has its own metatable */
      lua_getmetatable(L, OBJECT);
      w->owner = w->obj;
      w->owner_layout = w->layout;
    } else {
      lua_pushnil(L); /* OWN */
    }
    lua_pushcfunction(L, add_traceback); /* HANDLER */
    lua_pushnil(L);                      /* FAILURE */
    w->called = 1;
  }
  if (flags & MW_CHECK) {
    status = call_check(w, obj, ref, flags, change);
    lua_settop(L, FAILURE);
    if (status > LUA_OK) return MW_REFUSES;
  } else {
    status = call_guard(w, obj, ref, flags, change);
    if (status > LUA_OK) report_error(w);
    if (status != LUA_OK || (flags & (MW_DEEP | MW_ASK))) /* leftovers? */
      lua_settop(L, FAILURE);
  }
  return (status == DEAD) ? 0 : (status == UNWANTED) ? MW_SPARES : 1;
}

/* }====================================================== */

/* {======================================================
** mw.guard
** ======================================================= */

int mwb_is_guard(lua_State *L, const mwb_state *s, int index) {
  return mwb_is_of(L, s, index, MWB_GUARD);
}

/* Puts a new guard at 1, the top: a userdata with its handle, so that no
** function searches for it. */
static mw_handle push_new_guard(lua_State *L, mwb_state *s) {
  mw_handle *h;
  lua_settop(L, 0);
  h = (mw_handle *)lua_newuserdatauv(L, sizeof(*h), 0);
  mwb_push(L, s, MWB_GUARD);
  lua_setmetatable(L, 1);
  *h = mwb_identify(L, s, "guard", 1, 1);
  lua_settop(L, 1);
  return *h;
}

static mw_handle guard_at(lua_State *L, int index) {
  return *(const mw_handle *)lua_touserdata(L, index);
}

/* Returns the handle of the guard at 1, or raises. */
static mw_handle guard_self(lua_State *L, mwb_state *s, const char *name) {
  return *(const mw_handle *)mwb_check_self(L, s, name, MWB_GUARD, "guard");
}

static int revalidate(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = guard_self(L, s, "revalidate");
  mwb_check(L, mw_guard_set_valid(s->engine, h, 1));
  return 0;
}

/* Returns the field `valid`, or the method, which is upvalue 3. */
static int guard_field(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const char *name = (lua_type(L, 2) == LUA_TSTRING) ? lua_tostring(L, 2) : "";
  if (strcmp(name, "valid") == 0) {
    lua_pushboolean(L, mw_guard_is_valid(s->engine, guard_self(L, s, "valid")));
  } else if (strcmp(name, "revalidate") == 0) {
    lua_pushvalue(L, lua_upvalueindex(3));
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static int guard(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_check_nothing(L, "guard", 1);
  push_new_guard(L, s);
  return 1;
}

/* }====================================================== */

/* {======================================================
** The guards of memos, which the program never sees
** ======================================================= */

/* open() -> guard of a result, invalid */
static int open_guard(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  if (mwi_guard_open(s->engine, push_new_guard(L, s)) == NULL)
    mwb_check(L, MW_NOMEM);
  return 1;
}

/* is_valid(guard) */
static int is_valid(lua_State *L) {
  const mwb_state *s = mwb_enter_to_read(L);
  lua_pushboolean(L, mw_guard_is_valid(s->engine, guard_at(L, 1)));
  return 1;
}

/* set_valid(value, valid) -> whether the value is a guard, which is valid now,
** or not */
static int set_valid(lua_State *L) {
  const mwb_state *s = mwb_enter(L);
  int valid = lua_toboolean(L, 2), is = mwb_is_guard(L, s, 1);
  if (is) mwb_check(L, mw_guard_set_valid(s->engine, guard_at(L, 1), valid));
  lua_pushboolean(L, is);
  return 1;
}

/* news(guard) -> has an object that the guard watched been unwatched?, the
** number, as a cause, of the write that made the guard invalid, or nil */
static int guard_news(lua_State *L) {
  const mwb_state *s = mwb_enter_to_read(L);
  const mwi_object *r = mwb_object_of(s, guard_at(L, 1));
  lua_pushboolean(L, r->lost);
  if ((uint32_t)r->stamp == 0) return 1; /* by no write, or nobody reads */
  lua_pushinteger(L, (lua_Integer)(uint32_t)r->stamp);
  return 2;
}

/* follow(guard, other) */
static int follow_guard(lua_State *L) {
  const mwb_state *s = mwb_enter(L);
  mwb_check(L, mwi_guard_follow(s->engine, guard_at(L, 1), guard_at(L, 2)));
  return 0;
}

/* }====================================================== */

void mwb_open_guard(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {
      {"guard", guard}, {"on_error", on_error}, {NULL, NULL}};
  int i;
  for (i = 0; i < MW_KINDS; i++) {
    lua_pushstring(L, mwi_kinds[i].name);
    s->watch->kinds[i] = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  mwb_new_meta(L, MWB_GUARD, "guard", NULL, NULL);
  mwb_push(L, mwb_state_of(L), MWB_GUARD);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  mwb_push_function(L, s, revalidate);
  lua_pushcclosure(L, guard_field, 3);
  lua_setfield(L, -2, "__index");
  mwb_seal(L, -1, "guard:revalidate");
  lua_pop(L, 1);
  mwb_set_funcs(L, functions);
}

void mwb_open_memo(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open", open_guard}, {"is_valid", is_valid},   {"set_valid", set_valid},
      {"news", guard_news}, {"follow", follow_guard}, {"because", mwb_because},
      {NULL, NULL}};
  lua_newtable(L);
  mwb_set_funcs(L, functions);
  lua_setfield(L, -2, "memo");
}
