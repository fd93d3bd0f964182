/*
** watch.c - mw.watch and mw.track: objects whose writes are intercepted.
** SPDX-License-Identifier: MIT
**
** A watched object holds its function guards, each at a place in the object's
** table of guards; the engine has this place in the watch's `ref`.  So a guard
** that refers to its object is part of a cycle that can be collected.  The
** engine knows any other guard by its handle; only the program keeps such a
** guard alive.
*/
#include "watch.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../readers/readers.h"
#include "../traps/trap.h"
#include "../traps/traps.h"

/* {======================================================
** Handles
** ======================================================= */

static mw_watch_id handle_self(lua_State *L, const mwb_state *s,
                               const char *name) {
  return *(mw_watch_id *)mwb_check_self(L, s, name, MWB_HANDLE, "watch");
}

static int cancel(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_watch_id id = handle_self(L, s, "cancel");
  mw_watch_options its;
  mw_handle obj;
  if (mwb_put_off(L, s)) return 0; /* does a finaliser interrupt? */
  mwb_enter(L);
  if (mw_watch_info(s->engine, id, &its, &obj) != MW_OK) return 0; /* ended? */
  mw_watch_cancel(s->engine, id);
  if ((its.flags & MW_WEAK) || !mwb_alive(L, s, obj)) return 0; /* no place */
  mwb_end_guard(L, s, -1, mwb_object_of(s, obj), (lua_Integer)its.ref);
  return 0;
}

/* A watch is not alive and deaf. */
static int is_watch_alive(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_watch_id id = handle_self(L, s, "alive");
  mw_watch_options its;
  mw_handle obj;
  int alive = mw_watch_info(s->engine, id, &its, &obj) == MW_OK;
  if (alive && (its.flags & MW_ASK)) { /* may its guard be dead? */
    alive = mwb_call_guard(s, obj, its.ref, its.flags, NULL);
    if (!alive) mw_watch_cancel(s->engine, id);
  }
  lua_pushboolean(L, alive);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Arguments
** ======================================================= */

/* Raises if the value at 1 is one of the library's own objects. */
static void check_not_ours(lua_State *L, const mwb_state *s, const char *name) {
  const char *meant = "";
  if (!mwb_is_ours(L, 1)) return;
  if (mwb_is_of(L, s, 1, MWB_HANDLE))
    meant = "; handle:cancel() ends its watch";
  luaL_error(L, "bad argument #1 to '%s' (%s cannot be watched%s)", name,
             mwb_type_name(L, 1), meant);
}

/* Raises unless the value at 1 is a table or a userdata that can be
** intercepted. */
static void check_watchable(lua_State *L, const mwb_state *s,
                            const char *name) {
  mwb_check_dot(L, name, 2);
  check_not_ours(L, s, name);
  if (lua_istable(L, 1)) {
    if (mwb_is_weak(L, 1))
      luaL_error(L,
                 "bad argument #1 to '%s' (a weak table loses entries without "
                 "a write)",
                 name);
    return;
  }
  if (lua_type(L, 1) != LUA_TUSERDATA)
    mwb_bad_argument(L, name, 1, 1, "table or userdata");
  if (!lua_getmetatable(L, 1))
    mwb_bad_argument(L, name, 1, 1, "userdata with a metatable");
  lua_pop(L, 1);
}

/* Where the stack of `watch` has the options, in the order of their rows, and
** more. */
enum {
  ONCE = 4,
  DEEP,
  PHASE,
  EQUAL,
  SINGLE,
  SEVERAL,
  WHEN,
  EXISTING,
  DESCEND,
  PATH,
  OWNER,
  KEYS,
  WATCH
};

/* Flags that the engine does not know: the options are for a table; and one
** that is never set. */
#define OF_TABLE 0x10000
#define GONE 0x20000

static const mwb_option watch_options[] = {
    {"once", LUA_TBOOLEAN, NULL, {0, MW_ONCE}, 0, NULL},
    {"deep", LUA_TBOOLEAN, NULL, {0, MW_DEEP}, OF_TABLE, "for tables"},
    {"phase",
     LUA_TSTRING,
     "before\0after\0check\0",
     {0, MW_AFTER, MW_CHECK},
     0,
     NULL},
    {"equal", LUA_TSTRING, "fire\0skip\0", {0, MW_SKIP}, 0, NULL},
    MWB_OPTION("key", LUA_TNONE),
    MWB_OPTION("keys", LUA_TNONE),
    {"when", LUA_TFUNCTION, NULL, {MW_ASK}, 0, NULL},
    MWB_OPTION("existing", LUA_TBOOLEAN),
    {"descend", LUA_TFUNCTION, NULL, {0}, MW_DEEP, "for deep watches"},
    {"path", LUA_TNONE, NULL, {MW_DEEP}, OF_TABLE, "for tables"},
    {"owner", LUA_TNONE, NULL, {0}, GONE, "gone: the owner holds the guard"},
    MWB_OPTION(NULL, 0)};

static void bad_watch_option(lua_State *L, const char *what) {
  luaL_error(L, "bad argument #3 to 'watch' (%s)", what);
}

/* Pushes room for the keys of the option at `option`, which it checks. */
static mw_value *begin_keys(lua_State *L, int option, uint32_t *count) {
  int is_path = option == PATH;
  lua_Unsigned most = is_path ? 200 : 10000, i;
  lua_Unsigned n = lua_istable(L, option) ? lua_rawlen(L, option) : 0;
  const char *wrong = is_path ? "option 'path' is not an array of keys"
                              : "option 'keys' is not an array of keys";
  mw_value *keys;
  if (is_path && n > most) wrong = "option 'path' has more than 200 keys";
  if (n == 0 || n > most) bad_watch_option(L, wrong);
  keys = (mw_value *)lua_newuserdatauv(L, (size_t)n * sizeof(mw_value), 0);
  memset(keys, 0, (size_t)n * sizeof(mw_value));
  for (i = 0; i < n; i++) {
    lua_rawgeti(L, option, (lua_Integer)i + 1);
    if (lua_isnil(L, -1) || !lua_rawequal(L, -1, -1)) /* nil, or NaN? */
      bad_watch_option(L, is_path ? wrong : "nil and NaN are no keys");
    lua_pop(L, 1);
  }
  *count = (uint32_t)n;
  return keys;
}

/* Reads the options at 3; puts room for the keys at KEYS. */
static void read_watch_options(lua_State *L, mw_watch_options *its,
                               mw_filter *filter) {
  int has_path;
  memset(its, 0, sizeof(*its));
  memset(filter, 0, sizeof(*filter));
  lua_settop(L, 3);
  its->flags = mwb_read_options(L, "watch", 3, watch_options,
                                lua_istable(L, 1) ? OF_TABLE : 0) &
               ~OF_TABLE;
  has_path = !lua_isnil(L, PATH);
  if (!lua_isnil(L, SINGLE)) { /* makes `key` a list of one, as `keys` */
    if (!lua_isnil(L, SEVERAL))
      bad_watch_option(L, "options 'key' and 'keys' exclude each other");
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, SINGLE);
    lua_rawseti(L, -2, 1);
    lua_replace(L, SEVERAL);
  }
  if (has_path && !lua_isnil(L, SEVERAL))
    bad_watch_option(L, "option 'path' excludes 'key' and 'keys'");
  if (has_path) {
    filter->keys = its->keys = begin_keys(L, PATH, &filter->n_keys);
    if (its->flags & MW_SKIP) its->flags |= MW_ASK; /* do ends differ? */
  } else if (!lua_isnil(L, SEVERAL)) {
    its->keys = begin_keys(L, SEVERAL, &its->n_keys);
  }
  lua_settop(L, KEYS);
}

/* Sets the guard, and the flags for its type, from the guard at index 2.  A
** guard with a method stands for what it makes invalid, which is not made
** invalid again, so it fires once if the options do not say otherwise. */
static void read_guard(lua_State *L, mwb_state *s, mw_watch_options *its) {
  int top = lua_gettop(L), type = lua_type(L, 2), ok = 0;
  if (type == LUA_TFUNCTION) return; /* the watched object will hold it */
  if (its->flags & MW_CHECK)
    luaL_error(
        L,
        "bad argument #2 to 'watch' (phase 'check' needs a function, got %s)",
        mwb_type_name(L, 2));
  if (type != LUA_TTABLE && type != LUA_TUSERDATA)
    mwb_bad_argument(L, "watch", 2, 2, "function, table or guard");
  if (mwb_is_guard(L, s, 2)) { /* a bit in the engine? */
    its->flags |= MW_FLAG;
  } else {
    ok = type == LUA_TTABLE || luaL_getmetafield(L, 2, "__index") != LUA_TNIL;
    ok = ok && lua_getfield(L, 2, "invalidate") != LUA_TNIL;
    if (!ok)
      mwb_bad_argument(L, "watch", 2, 2, "guard with method 'invalidate'");
    if (lua_isnil(L, ONCE)) its->flags |= MW_ONCE;
  }
  its->guard = mwb_identify(L, s, "watch", 2, 2);
  if (its->flags & MW_ASK) /* the table of guards has the handle */
    its->flags &= ~MW_FLAG;
  else
    its->flags |= MW_WEAK;
  lua_settop(L, top);
}

/* Pushes what the table of guards has for the guard: a function; of a watch
** with MW_ASK a table with the guard, which is a function or the handle of any
** other guard, and with what is asked; else nil. */
static void push_guard(lua_State *L, const mwb_state *s,
                       const mw_watch_options *its) {
  int asks = its->flags & MW_ASK;
  if (asks) lua_createtable(L, 2, 0);
  if (lua_isfunction(L, 2))
    lua_pushvalue(L, 2);
  else if (asks)
    lua_pushinteger(L, (lua_Integer)its->guard);
  else
    lua_pushnil(L);
  if (!asks) return;
  lua_rawseti(L, -2, 1);
  if (lua_isnil(L, PATH) || !(its->flags & MW_SKIP)) { /* only `when`? */
    lua_pushvalue(L, WHEN);
  } else { /* are the ends of the path compared? */
    mwb_push(L, s, MWB_ENDS);
    lua_pushvalue(L, PATH);
    lua_pushvalue(L, WHEN);
    lua_call(L, 2, 1);
  }
  lua_rawseti(L, -2, 2);
}

/* }====================================================== */

/* {======================================================
** Intercepted objects
** ======================================================= */

void mwb_tell_class(lua_State *L, mwb_state *s, int index, int question) {
  index = lua_absindex(L, index);
  if (!mwb_push_question(L, s, question)) return;
  lua_pushvalue(L, index);
  lua_call(L, 1, 0);
}

/* An object that gets a watch or a track, or that becomes a feed's root. */
typedef struct attachment {
  mwb_state *s;
  mw_handle h;
  int is_new;                /* is the object not intercepted yet? */
  int is_reported;           /* is the policy told of the object's class? */
  int is_done;               /* has `attach` returned? */
  const mw_filter *filter;   /* of the reach that begins, or NULL; */
  mw_reach begins;           /* this reach, */
  int holds;                 /* which is held until the watch has begun */
  mw_reach reach;            /* whose objects are to be included, or 0 */
  mw_watch_options *options; /* of the watch that begins, or NULL */
  mw_value *keys;            /* of the options; NULL: there are none */
  mw_watch_id watch;         /* 0: it has not begun */
  unsigned tracked; /* how the object was tracked, as its record says */
} attachment;

/* Reads the first keys of the list at 3.  In a path, MWB_ANY stands for any
** key.  The engine retains them before anything that has the same can end. */
static void read_keys(lua_State *L, const attachment *its, uint32_t n) {
  int is_path = its->filter != NULL && its->filter->n_keys > 0;
  uint32_t i;
  for (i = 0; i < n; i++, lua_pop(L, 2)) {
    lua_rawgeti(L, 3, (lua_Integer)i + 1);
    mwb_push(L, its->s, MWB_ANY);
    if (!is_path || !lua_rawequal(L, -1, -2)) /* else: mw.any, for any key */
      its->keys[i] = mwb_key_to_keep(L, its->s, -2);
  }
}

/* attach(object, guard or nil, keys or nil, attachment): gives the object its
** shadow, and includes the objects below.  The program's functions that are
** asked may end all watches of the object.  The last step wraps the class of a
** userdata, so that no failure can follow. */
static int attach(lua_State *L) {
  attachment *its = (attachment *)lua_touserdata(L, 4);
  mwb_state *s = its->s;
  int is_table = lua_istable(L, 1), is_new = its->is_new;
  int has_class = 1;         /* perhaps */
  if (its->filter != NULL) { /* does a reach begin? */
    int code;
    read_keys(L, its, its->filter->n_keys);
    code = mw_root_begin_filtered(s->engine, its->h, its->filter, &its->begins);
    mwb_check(L, code);
    its->holds = its->options != NULL;
    if (its->holds) mwi_reach_hold(s->engine, its->begins, 1);
    if (code == MW_NEW) its->reach = its->begins; /* is it to be scanned? */
    if (its->filter->n_keys > 0) /* the root's own field, unless it is any */
      its->options->n_keys = its->keys[0].type != MW_TNIL;
  }
  if (is_new && is_table) {
    mwb_push_class(L, 1);
    has_class = !lua_isnil(L, -1);
    mwb_enshadow(L, s, its->h, 1, -1);
  }
  if (its->reach != 0) mwb_include(L, s, its->h);
  if (its->options != NULL)
    its->is_reported = !mwb_object_of(s, its->h)->watched;
  if (its->is_reported && has_class) mwb_tell_class(L, s, 1, MWB_WATCHED);
  if (!lua_isnil(L, 2)) { /* must the object hold a guard? */
    mwb_push_guards(L, s, 1, 1);
    lua_pushvalue(L, 2);
    its->options->ref =
        (uint64_t)mwb_add_guard(L, lua_gettop(L) - 1, mwb_object_of(s, its->h));
  }
  if (its->options != NULL) { /* neither a track nor a feed? */
    its->options->reach = its->begins;
    read_keys(L, its, its->options->n_keys);
    mwb_check(L, mw_watch_begin(s->engine, its->h, its->options, &its->watch));
    if (its->holds) mwi_reach_hold(s->engine, its->begins, -1);
    its->holds = 0;
  }
  if (is_new && !is_table) mwb_wrap_class(L, s, 1);
  its->is_done = 1;
  return 0;
}

/* Calls `attach` for the object at 1, with guard and keys, which are popped.
** Returns a status; an error is on the top. */
static int call_attach(lua_State *L, attachment *its) {
  lua_pushcfunction(L, attach);
  lua_pushvalue(L, 1);
  lua_rotate(L, -4, 2);
  lua_pushlightuserdata(L, its);
  return lua_pcall(L, 4, 0, 0);
}

/* Likewise, without a guard. */
static int attach_bare(lua_State *L, attachment *its) {
  lua_pushnil(L);
  lua_pushnil(L);
  return call_attach(L, its);
}

void mwb_give_back(lua_State *L, mwb_state *s, mw_handle h) {
  int top = lua_gettop(L);
  if (!mwb_intercepts(s, h) && !mwb_is_known(s, h) && mwb_alive(L, s, h) &&
      lua_checkstack(L, LUA_MINSTACK))
    mwb_unshadow(L, s, top + 1); /* nobody wants it any more */
  lua_settop(L, top);
}

/* Gives the object at 1 a handle and a record. */
static attachment begin_object(lua_State *L, mwb_state *s, const char *name) {
  attachment its;
  int top = lua_gettop(L);
  memset(&its, 0, sizeof(its));
  its.s = s;
  its.h = mwb_identify(L, s, name, 1, 1);
  if (mwi_object_need(s->engine, its.h) == NULL) mwb_check(L, MW_NOMEM);
  its.tracked = mwb_object_of(s, its.h)->tracked;
  its.is_new = !mwb_intercepts(s, its.h) && !mwb_push_own(L, 1); /* orphan? */
  lua_settop(L, top);
  return its;
}

/* Ends what has begun of a watch or a track, and raises the error on the top.
** The object is as before, but for what rules and guards have begun. */
static int undo(lua_State *L, const attachment *its) {
  mwb_state *s = its->s;
  mw_engine *e = s->engine;
  mwi_object *r = mwb_object_of(s, its->h);
  int ends = its->watch == 0 || mw_watch_cancel(e, its->watch) == MW_OK;
  int is_last = its->watch != 0 && its->is_reported && r->waiting == 0;
  if (its->options == NULL && its->tracked == 0) { /* the first track? */
    mw_object_untrack(e, its->h);
  } else if (its->options == NULL) {
    r->tracked = its->tracked & 3;
    if (its->reach != 0 && its->filter != NULL)
      mw_reach_end(e, its->reach);
    else if (its->reach != 0)
      mw_root_end_silent(e, its->h);
  } else {
    if (ends && its->options->ref != 0) /* is its guard held? */
      mwb_end_guard(L, s, 1, r, (lua_Integer)its->options->ref);
    if (its->holds) mwi_reach_hold(e, its->begins, -1);
    if (its->reach != 0 && its->watch == 0) { /* which nobody hears yet? */
      if (mwi_reach_is_idle(e, its->reach)) mw_reach_end(e, its->reach);
    } else if (its->reach != 0 && r->deep == 0) { /* nobody any more? */
      mw_root_end(e, its->h);
    }
  }
  if (is_last) r->watched = 0;
  if (its->is_done && its->is_new && lua_isuserdata(L, 1) && /* wrapped, */
      !mwb_intercepts(s, its->h)) /* and for nobody now? */
    mwb_unwrap_class(L, s, 1);
  mwb_give_back(L, s, its->h);
  mwb_let_go(L, s, SIZE_MAX);
  if (is_last) mwb_tell_class(L, s, 1, MWB_UNWATCHED);
  return lua_error(L);
}

/* {======================================================
** What exists when a watch begins
** ======================================================= */

/* is_below(root, table, reach) -> whether a deep watch with the reach hears
** writes to the table, which is not the root */
static int is_reached(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle root = mwb_handle_of(L, s, 1), child = mwb_handle_of(L, s, 2);
  mw_change change;
  memset(&change, 0, sizeof(change));
  change.reach = (uint32_t)lua_tointeger(L, 3);
  lua_pushboolean(
      L, child != MW_NONE &&
             mw_change_path(s->engine, &change, root, child, NULL, 0) != 0);
  return 1;
}

/* Tells the guard of the watch whose options are on the stack.  Returns a
** status; an error is on the top. */
static int call_existing(lua_State *L, mwb_state *s,
                         const mw_watch_options *its) {
  mwb_push(L, s, MWB_EXISTING);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, WHEN);
  lua_pushvalue(L, SEVERAL);
  lua_pushvalue(L, PATH);
  if (its->flags & MW_DEEP)
    lua_pushinteger(L, mwi_reach_filter(s->engine, its->reach));
  else
    lua_pushnil(L);
  return lua_pcall(L, 6, 0, 0);
}

/* }====================================================== */

static int watch(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_watch_options its;
  mw_filter filter;
  attachment at;
  mw_watch_id *id;
  check_watchable(L, s, "watch");
  read_watch_options(L, &its, &filter);
  read_guard(L, s, &its);
  id = (mw_watch_id *)lua_newuserdatauv(L, sizeof(*id), 0); /* WATCH */
  *id = 0;
  mwb_push(L, s, MWB_HANDLE);
  lua_setmetatable(L, -2);
  at = begin_object(L, s, "watch");
  at.options = &its;
  if (lua_isfunction(L, DESCEND)) filter.rule = mwb_add_rule(L, s, 1, DESCEND);
  if (its.flags & MW_DEEP) at.filter = &filter;
  at.keys = (mw_value *)lua_touserdata(L, KEYS);
  push_guard(L, s, &its);
  lua_pushvalue(L, lua_isnil(L, PATH) ? SEVERAL : PATH);
  if (call_attach(L, &at) != LUA_OK) return undo(L, &at);
  *id = at.watch;
  if (lua_toboolean(L, EXISTING) && call_existing(L, s, &its) != LUA_OK)
    return undo(L, &at);
  lua_settop(L, WATCH);
  return 1;
}

static int track(lua_State *L) {
  static const mwb_option options[] = {
      {"deep", LUA_TBOOLEAN, NULL, {0, MW_DEEP}, OF_TABLE, "for tables"},
      {"descend", LUA_TFUNCTION, NULL, {0}, MW_DEEP, "for deep tracks"},
      MWB_OPTION(NULL, 0)};
  mwb_state *s = mwb_enter(L);
  mw_filter filter = {0, NULL, 0, 1, 0};
  attachment its;
  int flags, code;
  mw_reach reach = 0;
  lua_settop(L, 2);
  check_watchable(L, s, "track");
  flags = mwb_read_options(L, "track", 2, options,
                           lua_istable(L, 1) ? OF_TABLE : 0); /* at 3 and 4 */
  its = begin_object(L, s, "track");
  its.is_reported = its.is_new && lua_isuserdata(L, 1);
  if (lua_isfunction(L, 4)) filter.rule = mwb_add_rule(L, s, 1, 4);
  if (filter.rule != 0) its.filter = &filter;
  code = mw_object_track(s->engine, its.h,
                         (flags & MW_DEEP) && filter.rule == 0, &reach);
  mwb_check(L, code);
  if (code == MW_NEW) its.reach = reach; /* is it to be scanned? */
  lua_settop(L, 1);
  if (attach_bare(L, &its) != LUA_OK) return undo(L, &its);
  return 1;
}

void mwb_begin_reach(lua_State *L, mwb_state *s, int descend, mw_reach *reach) {
  attachment its = begin_object(L, s, "feed");
  mw_filter filter = {0, NULL, 0, MWI_LOGGED, 0};
  int status;
  filter.rule = lua_isnil(L, descend) ? mwi_root_rule(s->engine, its.h, 1)
                                      : mwb_add_rule(L, s, 1, descend);
  its.filter = &filter;
  status = attach_bare(L, &its);
  *reach = its.begins;
  if (status != LUA_OK) lua_error(L);
}

void mwb_end_reach(lua_State *L, mwb_state *s, mw_handle root, mw_reach reach) {
  uint32_t age = mw_age_end(s->engine);
  mw_reach_end(s->engine, reach);
  mwb_let_go_since(L, s, age);
  mwb_give_back(L, s, root);
}

/* Drops all guards of the object at 1, which are in the table at 2. */
static void release_guards(lua_State *L) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  for (; n > 0; n--) {
    lua_pushnil(L);
    lua_rawseti(L, 2, n);
  }
}

/* An object that is tracked, or below a deeply watched object, keeps its
** shadow. */
static int unwatch(lua_State *L) {
  mwb_state *s = mwb_enter_object(L, "unwatch", 1);
  mw_handle h;
  mwi_object *r;
  int stays;
  check_not_ours(L, s, "unwatch");
  h = mwb_intercepting_at(L, s, 1);
  stays = mw_tree_is_below(s->engine, h) ||
          mw_object_is_tracked(s->engine, h) || mwb_is_known(s, h);
  r = mwb_object_of(s, h);
  lua_settop(L, 1);
  mwb_push_guards(L, s, 1, 0);
  if (lua_istable(L, 1) && !stays && /* also if a finaliser revived it */
      mwb_unshadow(L, s, 1) != LUA_OK)
    return lua_error(L);
  if (lua_istable(L, 2) && (stays || lua_isuserdata(L, 1))) /* still there? */
    release_guards(L);
  if (r != NULL) r->guards = 0;
  if (lua_isuserdata(L, 1) && !stays && mw_object_is_watched(s->engine, h))
    mwb_unwrap_class(L, s, 1);
  if (r != NULL && r->watched && !(stays && lua_isuserdata(L, 1)))
    mwb_tell_class(L, s, 1, MWB_UNWATCHED); /* tracked userdata stay told */
  mw_object_unwatch(s->engine, h);
  mwb_let_go(L, s, SIZE_MAX);
  lua_settop(L, 1);
  lua_pushboolean(L, !mwb_intercepts(s, h) && !mwb_push_own(L, 1));
  return 1;
}

/* An object that is tracked no longer, since the end of an age. */
typedef struct untracked {
  mwb_state *s;
  mw_handle h;
  uint32_t age;
} untracked;

/* Is there no reason left to record the object, or what was below it? */
static int is_dropped(void *ud, mw_handle obj) {
  const untracked *its = (const untracked *)ud;
  const mwi_object *r = mwb_object_of(its->s, obj);
  return r != NULL && !mwi_object_intercepts(r) &&
         (obj == its->h || r->gone > its->age); /* it, or one that left then? */
}

/* Ends that the object at 1 is tracked; its entries in open transactions are
** dropped, or stay. */
static int end_tracking(lua_State *L, int drops) {
  mwb_state *s = mwb_enter_object(L, "untrack", 1);
  untracked its = {s, mwb_handle_of(L, s, 1), 0};
  const mwi_object *r = mwb_object_of(s, its.h);
  if (!mw_object_is_tracked(s->engine, its.h)) return 0;
  if (!r->watched && lua_isuserdata(L, 1)) /* told for the track alone? */
    mwb_tell_class(L, s, 1, MWB_UNWATCHED);
  its.age = mw_age_end(s->engine);
  if (mw_object_untrack(s->engine, its.h) != MW_OK) return 0;
  if (drops && s->engine->journal.entries > 0 && s->journal->restoring == 0)
    mw_journal_drop(s->engine, is_dropped, &its);
  if (lua_isuserdata(L, 1) && !mwb_intercepts(s, its.h)) /* the last reason? */
    mwb_unwrap_class(L, s, 1);
  mwb_let_go_since(L, s, its.age);
  mwb_give_back(L, s, its.h);
  return 0;
}

static int untrack(lua_State *L) { return end_tracking(L, 1); }

/* end_track(object): its entries in open transactions stay */
static int end_track(lua_State *L) { return end_tracking(L, 0); }

/* }====================================================== */

/* {======================================================
** The state of an object
** ======================================================= */

/* Begins the function `name`, whose only argument, at 1, may be any value.
** Returns the handle of the object, or MW_NONE. */
static mw_handle enter_asking(lua_State *L, mwb_state **s, const char *name) {
  int args = lua_gettop(L);
  mw_handle h;
  *s = mwb_enter_to_read(L);
  h = mwb_handle_of(L, *s, 1);
  if (h == MW_NONE) mwb_check_dot(L, name, args); /* mw:name(x)? */
  lua_settop(L, 1);
  return h;
}

static int is_watched(lua_State *L) {
  mwb_state *s;
  mw_handle h = enter_asking(L, &s, "is_watched");
  lua_pushboolean(L, mw_object_is_watched(s->engine, h));
  return 1;
}

static int mutations(lua_State *L) {
  mwb_state *s;
  mw_handle h = enter_asking(L, &s, "mutations");
  lua_pushinteger(L, (lua_Integer)mw_object_mutations(s->engine, h));
  return 1;
}

static int last_change(lua_State *L) {
  mwb_state *s;
  mw_handle h = enter_asking(L, &s, "last_change");
  lua_pushinteger(L, (lua_Integer)mw_object_last_change(s->engine, h));
  return 1;
}

static int changed_since(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_Integer n = mwb_integer(L, "changed_since", 2, 2);
  int64_t last = mw_object_last_change(s->engine, mwb_handle_of(L, s, 1));
  lua_pushboolean(L, last >= 0 && last >= n); /* was it ever written? */
  return 1;
}

/* raw(value) -> the table with the contents of an intercepted object, as it is,
** else the value: nobody is told of what was put into the object itself */
static int raw(lua_State *L) {
  lua_settop(L, 1);
  mwb_push_shadow(L, 1);
  return 1;
}

/* is_tracked(object) */
static int is_tracked(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mw_object_is_tracked(s->engine, mwb_handle_of(L, s, 1)));
  return 1;
}

/* intercepts(object) -> whether the object's writes are intercepted */
static int intercepts(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 1);
  lua_pushboolean(L, mwb_intercepting_at(L, s, 1) != MW_NONE);
  return 1;
}

/* refresh(metatable) -> how many intercepted tables have got what their class
** has now */
static int refresh(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  lua_pushinteger(L, mwb_refresh(L, s, 1));
  return 1;
}

/* watched(all) -> array of all objects with watches of their own, and of
** tracked userdata: what mutators are wrapped for; or of all that are
** intercepted */
static int watched(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  int all = lua_toboolean(L, 1);
  uint32_t i;
  lua_Integer n = 0;
  lua_settop(L, 0);
  lua_newtable(L);
  for (i = 1; i < s->engine->identity.top; i++) {
    const mwi_object *r = mwi_object_of(&s->engine->watch, i);
    if (r == NULL || !mwi_object_intercepts(r)) continue;
    if (mwb_alive(L, s, r->obj) &&
        (all || r->watched || (r->tracked && lua_isuserdata(L, -1))))
      lua_rawseti(L, 1, ++n); /* mutators are wrapped for it, or all count */
    lua_settop(L, 1);
  }
  return 1;
}

/* }====================================================== */

const luaL_Reg mwb_interception_functions[] = {{"end_track", end_track},
                                               {"is_tracked", is_tracked},
                                               {"intercepts", intercepts},
                                               {"is_below", is_reached},
                                               {"watched", watched},
                                               {"refresh", refresh},
                                               {"raw", raw},
                                               {NULL, NULL}};

void mwb_open_watch(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {{"watch", watch},
                                       {"unwatch", unwatch},
                                       {"track", track},
                                       {"untrack", untrack},
                                       {"is_watched", is_watched},
                                       {"mutations", mutations},
                                       {"last_change", last_change},
                                       {"changed_since", changed_since},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"cancel", cancel}, {"alive", is_watch_alive}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__close", cancel}, {NULL, NULL}};
  const mw_host host = {s,           mwb_call_guard,  mwb_retain,  mwb_release,
                        mwb_restore, mwb_field,       mwb_hand,    mwb_deliver,
                        mwb_forget,  sizeof(mw_host), mwb_find_key};
  mw_host_set(s->engine, &host);
  mwb_new_meta(L, MWB_HANDLE, "watch", meta, methods);
  lua_newuserdatauv(L, 0, 0); /* mw.any */
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "any");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  mwb_keep(L, s, MWB_ANY);
  lua_setfield(L, -2, "any");
  mwb_set_funcs(L, functions);
}
