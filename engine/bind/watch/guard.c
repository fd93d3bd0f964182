/*
** guard.c - calling guards; mw.guard, a guard that is a bit in the engine.
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

const char *mwb_kind_name(int kind) { return mwi_kinds[kind].name; }

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

static const char heading[] = "\nstack traceback:\n";

static int has_traceback(const char *text, size_t len) {
  const char *end = text + len;
  const size_t n = sizeof(heading) - 1;
  while ((text = (const char *)memchr(text, '\n', (size_t)(end - text)))) {
    if ((size_t)(end - text) < n) return 0;
    if (memcmp(text, heading, n) == 0) return 1;
    text++;
  }
  return 0;
}

/* Adds a traceback to a text, but only one.  An error of a guard's own write
** has a traceback already, and code in between may have added to the text. */
static int add_traceback(lua_State *L) {
  size_t len;
  const char *text;
  lua_settop(L, 1);
  if (lua_type(L, 1) != LUA_TSTRING) return 1;
  text = lua_tolstring(L, 1, &len);
  if (has_traceback(text, len)) return 1;
  lua_pushliteral(L, "\n");
  luaL_traceback(L, L, NULL, 1);
  lua_concat(L, 3);
  return 1;
}

/* Gives the error on the top to `mw.on_error`.  If there is no such function,
** or the function raises, the error becomes the write's, unless the write has
** one. */
static void report_error(mwb_write *w) {
  lua_State *L = w->L;
  mwb_push(L, w->s, MWB_ONERROR);
  if (!lua_isnil(L, -1)) {
    lua_insert(L, -2);
    lua_pushliteral(L, "guard");
    if (mwb_pcall_outside(L, w->s, 2, 0, 0) == LUA_OK) return;
  } else {
    lua_pop(L, 1);
  }
  if (w->failed)
    lua_pop(L, 1);
  else
    lua_replace(L, FAILURE);
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
** more. A guard may catch Lua's error; so at this depth guards are counted,
** too. */
#define ENDLESS 50
#define MOST_CALLS 10000

/* An overflow below so many guards is theirs, and no other function's. */
#define NESTED 10

static int is_overflow(lua_State *L, int status) {
  return status == LUA_ERRERR ||
         (lua_type(L, -1) == LUA_TSTRING &&
          strstr(lua_tostring(L, -1), "stack overflow") != NULL);
}

/* Pushes the error of guards that write without end; it names what was
** written. */
static void push_endless(lua_State *L) {
  luaL_where(L, 1);
  lua_pushliteral(L, "guards write to what they watch without end: ");
  if (lua_isnil(L, KEY)) {
    lua_pushliteral(L, "the metatable");
  } else if (lua_type(L, KEY) == LUA_TSTRING ||
             lua_type(L, KEY) == LUA_TNUMBER) {
    lua_pushliteral(L, "field '");
    luaL_tolstring(L, KEY, NULL);
    lua_pushliteral(L, "'");
    lua_concat(L, 3);
  } else {
    lua_pushfstring(L, "a field under a %s", luaL_typename(L, KEY));
  }
  lua_concat(L, 3);
}

/* Calls a guard, with its `n` arguments on the top.  Returns a status. */
static int call_counted(mwb_write *w, int n, int results, int flags) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  mwb_traps_state *traps = s->traps;
  int status, handler = ((flags & MW_CHECK) || s->watch->handled) ? 0 : HANDLER;
  if (++traps->depth == 1) s->watch->deep_calls = 0;
  if (traps->depth >= ENDLESS && ++s->watch->deep_calls > MOST_CALLS) {
    lua_settop(L, lua_gettop(L) - n - 1);
    push_endless(L);
    status = LUA_ERRRUN;
    traps->endless = 1;
  } else {
    status = mwb_pcall_outside(L, s, n, results, handler);
    if (status != LUA_OK && traps->depth > 1 &&
        is_overflow(L, status)) { /* ours? */
      if (traps->depth > NESTED) {
        lua_pop(L, 1);
        push_endless(L);
      }
      traps->endless = 1;
    }
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
    if (keys[i].type == MW_TSTRING)
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
  if (!lua_isfunction(L, GUARD)) {
    lua_getfield(L, GUARD, "invalidate");
    lua_insert(L, GUARD);
  }
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Fills the stack for calls of guards: OWN, HANDLER, FAILURE. */
static void fill_stack(mwb_write *w) {
  lua_State *L = w->L;
  mwb_read_old(w);
  if (w->shadow == TRAP_SHADOW) { /* the object has its own metatable */
    lua_getmetatable(L, OBJECT);
    w->owner = w->obj;
    w->owner_layout = w->layout;
  } else {
    lua_pushnil(L); /* OWN */
  }
  lua_pushcfunction(L, add_traceback);
  lua_pushnil(L);
  w->called = 1;
}

/* Replaces the term on the top by the guard.  Returns 0 if the guard is dead.
*/
static int push_of_term(lua_State *L, const mwb_state *s) {
  int term = lua_gettop(L);
  if (lua_rawgeti(L, term, MWB_TERM_GUARD) == LUA_TNUMBER)
    mwb_alive(L, s, (mw_handle)lua_tointeger(L, -1));
  lua_replace(L, term);
  lua_settop(L, term);
  return !lua_isnil(L, term);
}

void mwb_end_guard(lua_State *L, mwb_state *s, int object, mwi_object *r,
                   lua_Integer place) {
  int top = lua_gettop(L);
  object = lua_absindex(L, object);
  mwb_push_guards(L, s, object, 0);
  if (lua_istable(L, -1)) mwb_drop_guard(L, top + 1, r, place);
  lua_settop(L, top);
}

/* Pushes the guard of an object; before a deep guard, pushes the object.  Drops
** a guard that is called for the last time.  Returns 0 if one of them is dead:
** objects below a dead root may live. */
static int push_guard(mwb_write *w, mw_handle obj, uint64_t ref, int flags) {
  lua_State *L = w->L;
  int object = OBJECT, alive = 1;
  lua_Integer place = (lua_Integer)ref;
  mwi_object *r = w->r;
  if (flags & MW_DEEP) {
    if (obj == w->obj)
      lua_pushvalue(L, OBJECT);
    else if (!mwb_alive(L, w->s, obj))
      return 0;
    object = lua_gettop(L);
  }
  if (flags & MW_WEAK) return mwb_alive(L, w->s, ref);
  if (r == NULL || r->obj != obj)
    r = mwi_object_find(&w->s->engine->watch, obj);
  if (w->owner != obj || w->owner_layout != r->layout) {
    mwb_push_guards(L, w->s, object, 0);
    lua_replace(L, OWN);
    w->owner = obj;
    w->owner_layout = r->layout;
  }
  lua_rawgeti(L, OWN, place);
  if (flags & MW_ASK) alive = push_of_term(L, w->s);
  if (flags & MW_ONCE) mwb_drop_guard(L, OWN, r, place);
  return alive;
}

/* Pushes the last arguments of guards and of `when`. */
static inline void push_arguments(const mwb_write *w, int kind) {
  lua_pushvalue(w->L, KEY);
  lua_pushvalue(w->L, OLD);
  lua_pushvalue(w->L, VALUE);
  mwb_push_kind(w->L, w->s, kind);
}

/* Calls the deep guard on the top, whose root is below it.  Returns a
** status. */
static int call_deep(mwb_write *w, mw_handle root, int results, int flags,
                     const mw_change *change) {
  lua_State *L = w->L;
  written at = {w->s, change, root, w->obj};
  lua_pushcfunction(L, tell_guard);
  lua_insert(L, -3);
  lua_insert(L, -2);
  push_arguments(w, change->kind);
  lua_pushvalue(L, OBJECT);
  lua_pushlightuserdata(L, &at);
  return call_counted(w, BELOW, results, flags);
}

/* Calls a guard.  Returns a status, or -1 if the guard is dead. */
static int call_guard(mwb_write *w, mw_handle obj, uint64_t ref, int flags,
                      const mw_change *change) {
  lua_State *L = w->L;
  int results = (flags & MW_CHECK) ? LUA_MULTRET : 0, n = 5;
  if (!push_guard(w, obj, ref, flags)) return -1;
  if (flags & MW_DEEP) return call_deep(w, obj, results, flags, change);
  if ((flags & (MW_WEAK | MW_ASK)) && !lua_isfunction(L, -1)) { /* a method? */
    lua_pushcfunction(L, tell_guard);
    lua_insert(L, -2);
    n++;
  }
  lua_pushvalue(L, OBJECT);
  push_arguments(w, change->kind);
  return call_counted(w, n, results, flags);
}

/* (check): raises the error of a check that has returned false.  The message
** names the line of the write, and that of the check unless the check is gone.
*/
static int returned_false(lua_State *L) {
  lua_Debug ar;
  int has_place = mwb_find_caller(L, &ar);
  if (has_place) lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  lua_pushliteral(L, "a check");
  if (lua_isfunction(L, 1)) {
    lua_pushvalue(L, 1);
    lua_getinfo(L, ">S", &ar);
    lua_pushfstring(L, " (%s:%d)", ar.short_src, ar.linedefined);
  }
  lua_pushliteral(L, " returned false: refuse with error");
  lua_concat(L, lua_gettop(L) - 1);
  return lua_error(L);
}

/* Calls `returned_false` for a guard of phase "check". */
static int refuse_false(mwb_write *w, mw_handle obj, uint64_t ref, int flags) {
  lua_State *L = w->L;
  if ((flags & MW_ONCE) || !push_guard(w, obj, ref, flags)) lua_pushnil(L);
  lua_pushcfunction(L, returned_false);
  lua_insert(L, -2);
  return lua_pcall(L, 1, 0, 0);
}

/* Calls a guard of phase "check" and looks at the guard's results, above
** FAILURE: true and a value store that value instead. */
static int call_check(mwb_write *w, mw_handle obj, uint64_t ref, int flags,
                      const mw_change *change) {
  lua_State *L = w->L;
  int status, n;
  if (w->failed) return MW_REFUSES;
  status = call_guard(w, obj, ref, flags, change);
  n = lua_gettop(L) - FAILURE;
  if (status == LUA_OK && n > 0 && lua_isboolean(L, FAILURE + 1)) { /* says? */
    if (!lua_toboolean(L, FAILURE + 1)) {
      status = refuse_false(w, obj, ref, flags);
    } else if (n > 1) {
      lua_copy(L, FAILURE + 2, VALUE);
      mwb_set_kind_of(w);
    }
  }
  if (status > LUA_OK) {
    lua_replace(L, FAILURE);
    w->failed = 1;
    return MW_REFUSES;
  }
  lua_settop(L, FAILURE);
  return status == LUA_OK;
}

/* The guard of a term may be an `mw.guard`. */
static int is_flag(mwb_write *w, uint64_t ref, mw_handle obj, int flags) {
  lua_State *L = w->L;
  int is = 0;
  if (push_guard(w, obj, ref, flags & ~MW_ONCE) &&
      mwb_is_guard(L, w->s, lua_gettop(L))) {
    is = 1;
    mw_guard_set_valid(w->s->engine, mwb_handle_of(L, w->s, lua_gettop(L)), 0);
  }
  lua_settop(L, FAILURE);
  return is;
}

int mwb_call_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                   const mw_change *change) {
  mwb_write *w = (mwb_write *)change->host;
  int status;
  if (((mwb_state *)ud)->traps->endless) return 1;
  if (!w->called) fill_stack(w);
  if (flags & MW_CHECK) return call_check(w, obj, ref, flags, change);
  if ((flags & MW_ASK) && is_flag(w, ref, obj, flags)) return 1;
  status = call_guard(w, obj, ref, flags, change);
  if (status > LUA_OK) report_error(w);
  if (status != LUA_OK || (flags & MW_DEEP)) lua_settop(w->L, FAILURE);
  return status >= 0;
}

/* Pushes the term at a place of the table at `holder`, and the guard.  Returns
** 0 if the guard is dead. */
static int push_term_at(lua_State *L, const mwb_state *s, int holder,
                        lua_Integer place) {
  lua_rawgeti(L, holder, place);
  lua_pushvalue(L, -1);
  return push_of_term(L, s);
}

int mwb_is_term_alive(lua_State *L, mwb_state *s, int object,
                      lua_Integer place) {
  int top = lua_gettop(L), alive;
  object = lua_absindex(L, object);
  mwb_push_guards(L, s, object, 0);
  alive = push_term_at(L, s, top + 1, place);
  lua_settop(L, top);
  return alive;
}

static int ends_differ(lua_State *L, int path, lua_Integer i);

/* Pushes what the contents at `index`, or no contents, have under the key at
** `key`. */
static void push_step(lua_State *L, int index, int key) {
  lua_pushnil(L);
  if (!lua_istable(L, index)) return;
  lua_pushvalue(L, key);
  lua_rawget(L, index);
  lua_replace(L, -2);
}

/* Do the contents at `a` and `b` lead to different values, under a key of
** `a`? */
static int any_differs(lua_State *L, int path, lua_Integer i, int a, int b) {
  int top = lua_gettop(L), differ = 0;
  if (!lua_istable(L, a)) return 0;
  for (lua_pushnil(L); !differ && lua_next(L, a) != 0;) {
    push_step(L, b, top + 1);
    differ = ends_differ(L, path, i);
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
  return differ;
}

/* Does the path, from its key number `i` on, lead from the two values on the
** top to different values? */
static int ends_differ(lua_State *L, int path, lua_Integer i) {
  int top = lua_gettop(L), key = top + 1, a = top + 2, b = top + 3, n, differ;
  luaL_checkstack(L, LUA_MINSTACK, "path");
  if (lua_rawgeti(L, path, i) == LUA_TNIL) { /* are these the ends? */
    lua_pop(L, 1);
    return !mwb_is_same(L, -1, -2);
  }
  for (n = 1; n >= 0; n--)
    if (!lua_istable(L, top - n))
      lua_pushnil(L);
    else if (!mwb_push_shadow(L, top - n))
      lua_pushvalue(L, top - n);
  if (lua_rawequal(L, a, b)) { /* one table, or none? */
    differ = 0;
  } else if (lua_islightuserdata(L, key)) { /* any key? */
    differ =
        any_differs(L, path, i + 1, a, b) || any_differs(L, path, i + 1, b, a);
  } else {
    push_step(L, a, key);
    push_step(L, b, key);
    differ = ends_differ(L, path, i + 1);
  }
  lua_settop(L, top);
  return differ;
}

/* Has the term at `term` a path from the root at whose end the values are as
** before? */
static int ends_as_before(mwb_write *w, mw_handle root, const mw_change *change,
                          int term) {
  lua_State *L = w->L;
  lua_Integer depth = 0;
  if (lua_rawgeti(L, term, MWB_TERM_PATH) != LUA_TTABLE) return 0;
  if (root != w->obj)
    depth = mw_change_path(w->s->engine, change, root, w->obj, NULL, 0);
  lua_pushvalue(L, OLD);
  lua_pushvalue(L, VALUE);
  return !ends_differ(L, lua_gettop(L) - 2, depth + 2);
}

/* What does the function `when` of the term at `term` say, if there is one?  An
** error is one of the guard. */
static int ask_when(mwb_write *w, int flags, const mw_change *change,
                    int term) {
  lua_State *L = w->L;
  if (lua_rawgeti(L, term, MWB_TERM_WHEN) != LUA_TFUNCTION) return 1;
  lua_pushvalue(L, OBJECT);
  push_arguments(w, change->kind);
  if (call_counted(w, 5, 1, flags) == LUA_OK) return lua_toboolean(L, -1);
  if ((flags & MW_CHECK) == 0) {
    report_error(w);
    return 0;
  }
  lua_replace(L, FAILURE);
  w->failed = 1;
  return 1; /* the write is refused: see `call_check` */
}

int mwb_ask_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                  const mw_change *change) {
  mwb_state *s = (mwb_state *)ud;
  mwb_write *w = (change == NULL) ? NULL : (mwb_write *)change->host;
  lua_State *L = (w == NULL) ? s->service : w->L;
  lua_Integer place = (lua_Integer)ref;
  int top, result = 1;
  if (s->traps->endless) return 0;
  if (w != NULL && !w->called) fill_stack(w);
  top = lua_gettop(L);
  if (!mwb_alive(L, s, obj)) {
    lua_settop(L, top);
    return 0;
  }
  mwb_push_guards(L, s, top + 1, 0);
  if (!push_term_at(L, s, top + 2, place)) { /* is the guard dead? */
    result = -1;
    mwb_drop_guard(L, top + 2, mwb_object_of(s, obj), place);
  } else if (w != NULL) {
    result = !ends_as_before(w, obj, change, top + 3) &&
             ask_when(w, flags, change, top + 3);
  }
  lua_settop(L, top);
  return result;
}

int mwb_guard_alive(void *ud, mw_handle guard) {
  const mwb_state *s = (const mwb_state *)ud;
  int alive = mwb_alive(s->service, s, guard);
  lua_pop(s->service, 1);
  return alive;
}

/* }====================================================== */

/* {======================================================
** mw.guard
** ======================================================= */

int mwb_is_guard(lua_State *L, const mwb_state *s, int index) {
  return mwb_is_of(L, s, index, MWB_GUARD);
}

/* Returns the handle of the guard at 1, or raises. */
static mw_handle guard_self(lua_State *L, mwb_state *s, const char *name) {
  mwb_check_self(L, s, name, MWB_GUARD, "guard");
  return mwb_identify(L, s, name, 1, 1);
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
  lua_settop(L, 0);
  lua_newuserdatauv(L, 0, 0);
  mwb_push(L, mwb_state_of(L), MWB_GUARD);
  lua_setmetatable(L, 1);
  mwb_identify(L, s, "guard", 1, 1);
  lua_settop(L, 1);
  return 1;
}

/* }====================================================== */

void mwb_open_guard(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"guard", guard}, {"on_error", on_error}, {NULL, NULL}};
  int i;
  for (i = 0; i < MW_KINDS; i++) {
    lua_pushstring(L, mwi_kinds[i].name);
    s->watch->kinds[i] = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  mwb_new_meta(L, MWB_GUARD, "guard", none, none);
  mwb_push(L, mwb_state_of(L), MWB_GUARD);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  mwb_push_function(L, s, revalidate);
  lua_pushcclosure(L, guard_field, 3);
  lua_setfield(L, -2, "__index");
  mwb_seal(L, s, -1, "guard:revalidate");
  lua_pop(L, 1);
  mwb_set_funcs(L, functions);
}
