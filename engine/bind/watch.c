/*
** watch.c - mw.watch: options, guards, handles.
** SPDX-License-Identifier: MIT
**
** The engine knows a guard by a number, its ref.  A function is held by the
** object that it watches, in a table under that number, so that a guard that
** refers to its object is a cycle that can be collected.  Of any other guard
** the ref is the handle.  Either may have a bit more: the watch ends with the
** first call, or the guard is no function.
*/
#include <string.h>

#include "bind.h"
#include "policy.h"

/* {======================================================
** Handles
** ======================================================= */

typedef struct handle {
  mw_watch_id id;
  mw_handle obj;
  uint64_t ref;
} handle;

static handle *handle_self(lua_State *L, const char *name) {
  const mwb_state *s = mwb_enter(L);
  if (lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1)) {
    const void *meta = lua_topointer(L, -1);
    lua_pop(L, 1);
    if (meta == s->handle_meta) return (handle *)lua_touserdata(L, 1);
  }
  luaL_error(L, "calling '%s' on bad self (watch expected, got %s)", name,
             mwb_type_name(L, 1));
  return NULL;
}

/* Lets a function guard go, of the object on the top. */
static void release_function(lua_State *L, uint64_t ref) {
  int object = lua_gettop(L);
  if (ref & MWB_REFWEAK) return;
  mwb_push_guards(L, object);
  if (lua_istable(L, -1)) {
    lua_pushnil(L);
    lua_rawseti(L, -2, (lua_Integer)(ref & ~MWB_REFBITS));
  }
  lua_settop(L, object);
}

static int cancel(lua_State *L) {
  handle *h = handle_self(L, "cancel");
  mwb_state *s = mwb_state_of(L);
  s->L = L;
  if (mw_watch_cancel(s->engine, h->id) != MW_OK) return 0;
  if (mwb_alive(L, s, h->obj)) {
    release_function(L, h->ref);
    mwb_rest(L, mwb_object_of(s, h->obj), lua_gettop(L));
  }
  return 0;
}

static int is_watch_alive(lua_State *L) {
  handle *h = handle_self(L, "alive");
  mwb_state *s = mwb_state_of(L);
  lua_pushboolean(L, mw_watch_is_alive(s->engine, h->id));
  return 1;
}

/* }====================================================== */

/* {======================================================
** mw.watch
** ======================================================= */

static int bad_option(lua_State *L, const char *what) {
  return luaL_error(L, "bad argument #3 to 'watch' (%s)", what);
}

/* Is the string at -1 `yes`?  Raises if it is neither that nor `no`. */
static int is_word(lua_State *L, const char *option, const char *yes,
                   const char *no) {
  const char *word =
      (lua_type(L, -1) == LUA_TSTRING) ? lua_tostring(L, -1) : "";
  if (strcmp(word, yes) == 0) return 1;
  if (strcmp(word, no) == 0) return 0;
  return bad_option(
      L, lua_pushfstring(L, "option '%s' is neither '%s' nor '%s'", option, no,
                         yes));
}

static int is_true(lua_State *L, const char *option) {
  if (!lua_isboolean(L, -1))
    bad_option(L, lua_pushfstring(L, "option '%s' is not a boolean", option));
  return lua_toboolean(L, -1);
}

typedef struct wish {
  mw_watch_options options;
  int uncounted;
} wish;

/* Checks the keys in the array on the top; they are read later. */
static void check_keys(lua_State *L, mwb_state *s, wish *w) {
  int array = lua_gettop(L);
  lua_Unsigned i, n;
  if (!lua_istable(L, array) || (n = lua_rawlen(L, array)) == 0 || n > 10000) {
    bad_option(L, "option 'keys' is not an array of keys");
    return;
  }
  if (w->options.n_keys > 0)
    bad_option(L, "options 'key' and 'keys' exclude each other");
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, array, (lua_Integer)i);
    if (lua_isnil(L, -1) || !lua_rawequal(L, -1, -1))
      bad_option(L, "nil and NaN are no keys");
    mwb_key(L, s, -1, 1); /* all have numbers then */
    lua_settop(L, array);
  }
  w->options.n_keys = (uint32_t)n;
}

/* Pushes a userdata with the keys in the array at 4.  The number of a string is
** good until a key is forgotten, so this comes last. */
static void read_keys(lua_State *L, mwb_state *s, wish *w) {
  uint32_t i, n = w->options.n_keys;
  mw_value *keys = (mw_value *)lua_newuserdatauv(L, n * sizeof(mw_value), 0);
  for (i = 0; i < n; i++) {
    lua_rawgeti(L, 4, (lua_Integer)i + 1);
    keys[i] = mwb_key(L, s, -1, 1);
    lua_pop(L, 1);
  }
  w->options.keys = keys;
}

static void set_flag(wish *w, int flag, int on) {
  w->options.flags = on ? w->options.flags | flag : w->options.flags & ~flag;
}

/* Reads the option whose name is at -2 and whose value is at -1. */
static void read_option(lua_State *L, mwb_state *s, wish *w) {
  const char *name =
      (lua_type(L, -2) == LUA_TSTRING) ? lua_tostring(L, -2) : "?";
  if (strcmp(name, "once") == 0) {
    set_flag(w, MW_ONCE, is_true(L, name));
  } else if (strcmp(name, "phase") == 0) {
    set_flag(w, MW_AFTER, is_word(L, name, "after", "before"));
  } else if (strcmp(name, "equal") == 0) {
    set_flag(w, MW_SKIP, is_word(L, name, "skip", "fire"));
  } else if (strcmp(name, "deep") == 0) {
    set_flag(w, MW_DEEP, is_true(L, name));
  } else if (strcmp(name, "count") == 0) {
    w->uncounted = !is_true(L, name);
  } else if (strcmp(name, "keys") == 0) {
    check_keys(L, s, w);
    lua_pushvalue(L, -1);
    lua_replace(L, 4);
  } else if (strcmp(name, "key") == 0) {
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, 1);
    check_keys(L, s, w);
    lua_replace(L, 4);
  } else {
    bad_option(L, lua_pushfstring(L, "unknown option '%s'", name));
  }
}

static void read_options(lua_State *L, mwb_state *s, wish *w) {
  memset(w, 0, sizeof(*w));
  w->options.flags = MW_ONCE;
  if (lua_isnil(L, 3)) return;
  if (!lua_istable(L, 3)) mwb_bad_argument(L, "watch", 3, 3, "table");
  for (lua_pushnil(L); lua_next(L, 3) != 0; lua_pop(L, 1)) read_option(L, s, w);
  if ((w->options.flags & MW_DEEP) && !lua_istable(L, 1))
    bad_option(L, "option 'deep' is for tables");
}

/* What the guard at index 2 is. */
static void read_guard(lua_State *L, mwb_state *s, wish *w) {
  mw_watch_options *options = &w->options;
  int type = lua_type(L, 2), ok = 0;
  if (type == LUA_TFUNCTION) {
    options->ref = ++s->refs;
  } else if (type == LUA_TTABLE || type == LUA_TUSERDATA) {
    if (mwb_is_guard(L, s, 2)) {
      options->flags |= MW_FLAG;
    } else {
      ok = type == LUA_TTABLE || luaL_getmetafield(L, 2, "__index") != LUA_TNIL;
      ok = ok && lua_getfield(L, 2, "invalidate") != LUA_TNIL;
      if (!ok)
        mwb_bad_argument(L, "watch", 2, 2, "guard with method 'invalidate'");
    }
    options->guard = mwb_identify(L, s, "watch", 2, 2);
    options->flags |= MW_WEAK;
    options->ref = options->guard | MWB_REFWEAK;
  } else {
    mwb_bad_argument(L, "watch", 2, 2, "function, table or guard");
  }
  if (options->flags & MW_ONCE) options->ref |= MWB_REFONCE;
  if (options->flags & MW_DEEP) options->ref |= MWB_REFDEEP;
}

/* Pushes the object's table of function guards, made if need be. */
static void need_guards(lua_State *L) {
  mwb_push_guards(L, 1);
  if (lua_istable(L, -1)) return;
  lua_newtable(L);
  if (mwb_push_own(L, 1)) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, MWB_OWNGUARDS);
  } else {
    mwb_push(L, mwb_state_of(L), MWB_HELD);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

/* Calls a hook of the policy with the value on the top. */
static void tell_policy(lua_State *L, int hook) {
  if (!mwb_push_hook(L, mwb_state_of(L), hook)) return;
  lua_insert(L, -2);
  lua_call(L, 1, 0);
}

void mwb_join(lua_State *L, mwb_state *s, int index) {
  int code, top = lua_gettop(L);
  mw_handle h = mwb_handle_of(L, s, index);
  mwb_push_class(L, index);
  if (!lua_isnil(L, -1) && mwb_push_hook(L, s, MWB_CLASS)) {
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    code =
        mwi_class_join(s->engine, h, mwb_identify(L, s, "watch", top + 2, 1));
    mwb_check(L, code);
    lua_settop(L, top + 2);
    if (code == MW_NEW) tell_policy(L, MWB_WATCHED);
  }
  lua_settop(L, top);
}

void mwb_left(lua_State *L, mwb_state *s, mw_handle class_) {
  int top = lua_gettop(L);
  if (mwb_alive(L, s, class_) && mwb_object_of(s, class_)->instances == 0)
    tell_policy(L, MWB_UNWATCHED);
  lua_settop(L, top);
}

/* What an object was before it was watched. */
enum { PLAIN = 0, TRACKED, WATCHED };

static int former(mwb_state *s, mw_handle h) {
  if (mw_object_is_watched(s->engine, h)) return WATCHED;
  return mwb_intercepts(s, h) ? TRACKED : PLAIN;
}

/* attach(object, guard, ref, former, scan): the object gets its trap, and
** holds the guard if that is a function.  The class of a userdata comes last: a
** patch is not undone when something fails. */
static int attach(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer was = lua_tointeger(L, 4);
  int prepared = was == WATCHED;
  if (was == PLAIN && lua_istable(L, 1)) {
    mwb_push_class(L, 1);
    mwb_enshadow(L, 1, -1);
  }
  if (!prepared) mwb_join(L, s, 1);
  if (lua_type(L, 2) == LUA_TFUNCTION) {
    need_guards(L);
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, lua_tointeger(L, 3));
  }
  if (lua_toboolean(L, 5)) mwb_include(L, s, 1);
  if (was == PLAIN && lua_isuserdata(L, 1)) mwb_patch(L, 1);
  return 0;
}

static void undo_watch(lua_State *L, mwb_state *s, handle *h, int was,
                       int included) {
  s->L = L;
  mw_watch_cancel(s->engine, h->id);
  if (included) mw_root_end(s->engine, h->obj);
  if (was == PLAIN) mwb_undo_shadow(L, 1);
  if (was != WATCHED) mw_object_unwatch(s->engine, h->obj);
  mwb_let_go(L, s, SIZE_MAX);
}

/* Calls `attach`, which is on the top; undoes the watch when it fails. */
static void attach_or_undo(lua_State *L, mwb_state *s, handle *h, int was) {
  int code = MW_OK;
  if (h->ref & MWB_REFDEEP) code = mw_root_begin(s->engine, h->obj);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushinteger(L, (lua_Integer)(h->ref & ~MWB_REFBITS));
  lua_pushinteger(L, was);
  lua_pushboolean(L, code == MW_NEW);
  if (code >= 0 && lua_pcall(L, 5, 0, 0) == LUA_OK) return;
  undo_watch(L, s, h, was, code == MW_NEW);
  mwb_check(L, code);
  lua_error(L);
}

static handle *new_handle(lua_State *L) {
  handle *h = (handle *)lua_newuserdatauv(L, sizeof(handle), 0);
  memset(h, 0, sizeof(*h));
  mwb_push(L, mwb_state_of(L), MWB_HANDLE);
  lua_setmetatable(L, -2);
  return h;
}

int mwb_is_ours(lua_State *L, int index) {
  int ours;
  if (!lua_getmetatable(L, index)) return 0;
  mwb_push(L, mwb_state_of(L), MWB_CLOCK);
  mwb_push(L, mwb_state_of(L), MWB_MAP);
  ours = lua_rawequal(L, -1, -3) || lua_rawequal(L, -2, -3);
  lua_pop(L, 3);
  return ours;
}

void mwb_trackable(lua_State *L, const char *name) {
  if (lua_istable(L, 1)) {
    if (mwb_is_ours(L, 1))
      luaL_error(L, "bad argument #1 to '%s' (%s cannot be watched)", name,
                 mwb_type_name(L, 1));
    return;
  }
  if (lua_type(L, 1) != LUA_TUSERDATA)
    mwb_bad_argument(L, name, 1, 1, "table or userdata");
  if (!lua_getmetatable(L, 1))
    mwb_bad_argument(L, name, 1, 1, "userdata with a metatable");
  lua_pop(L, 1);
}

static int watch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  wish w;
  handle *h;
  int was;
  lua_settop(L, 4); /* the last for keys */
  mwb_trackable(L, "watch");
  read_options(L, s, &w);
  read_guard(L, s, &w);
  lua_settop(L, 4);
  h = new_handle(L); /* 5 */
  h->obj = mwb_identify(L, s, "watch", 1, 1);
  h->ref = w.options.ref;
  was = former(s, h->obj);
  read_keys(L, s, &w);
  mwb_push_function(L, attach);
  s->L = L;
  mwb_check(L, mw_watch_begin(s->engine, h->obj, &w.options, &h->id));
  attach_or_undo(L, s, h, was);
  if (!w.uncounted) mwb_object_of(s, h->obj)->counted = 1;
  mwb_wake(L, 1);
  lua_settop(L, 5);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Other functions
** ======================================================= */

/* What is below something that is watched deeply keeps its trap, and so does
** what is tracked. */
static void release_guards(lua_State *L) {
  if (mwb_push_own(L, 1)) {
    lua_pushnil(L);
    lua_rawseti(L, -2, MWB_OWNGUARDS);
  }
}

static int unwatch(lua_State *L) {
  mwb_state *s = mwb_enter_object(L, "unwatch", 1);
  mw_handle h = mwb_intercepting_at(L, s, 1);
  const mwi_object *r = mwb_object_of(s, h);
  mw_handle class_ = (r == NULL) ? MW_NONE : r->class_;
  if (lua_istable(L, 1)) {
    if (mw_tree_is_below(s->engine, h) || mw_object_is_tracked(s->engine, h))
      release_guards(L);
    else
      mwb_unshadow(L, 1); /* also of one that a finaliser brought back */
  } else if (mw_object_is_watched(s->engine, h)) {
    if (!mw_object_is_tracked(s->engine, h)) mwb_unpatch(L, 1);
    mwb_push(L, mwb_state_of(L), MWB_HELD);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    lua_rawset(L, -3);
  }
  s->L = L;
  if (mw_object_unwatch(s->engine, h) == MW_OK) mwb_left(L, s, class_);
  mwb_let_go(L, s, SIZE_MAX);
  return 0;
}

static int is_watched(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mw_object_is_watched(s->engine, mwb_handle_of(L, s, 1)));
  return 1;
}

static int mutations(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushinteger(
      L, (lua_Integer)mw_object_mutations(s->engine, mwb_handle_of(L, s, 1)));
  return 1;
}

static int last_change(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushinteger(
      L, (lua_Integer)mw_object_last_change(s->engine, mwb_handle_of(L, s, 1)));
  return 1;
}

static int changed_since(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer n = mwb_integer(L, "changed_since", 2, 2);
  int64_t last = mw_object_last_change(s->engine, mwb_handle_of(L, s, 1));
  lua_pushboolean(L, last >= 0 && last >= n);
  return 1;
}

/* What is put into the table under integers will not be noticed. */
static int raw(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwi_object *r;
  lua_settop(L, 1);
  r = mwb_object_at(L, s, 1);
  if (r != NULL) mwb_need_len(L, 1, r);
  mwb_push_shadow(L, 1);
  return 1;
}

/* }====================================================== */

void mwb_open_watch(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"watch", watch},
                                       {"unwatch", unwatch},
                                       {"is_watched", is_watched},
                                       {"mutations", mutations},
                                       {"last_change", last_change},
                                       {"changed_since", changed_since},
                                       {"raw", raw},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"cancel", cancel}, {"alive", is_watch_alive}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__close", cancel}, {NULL, NULL}};
  s->handle_meta = mwb_new_meta(L, MWB_HANDLE, "watch", meta, methods);
  mwb_set_funcs(L, functions);
}
