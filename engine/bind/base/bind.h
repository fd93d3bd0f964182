/*
** bind.h - what all files of the binding share.
** SPDX-License-Identifier: MIT
**
** Each Lua state has one `mwb_state`, a userdata in the registry, with one
** engine.  Every function of the library has two upvalues: that userdata, and
** the array of objects (slot -> object, weak values).  The array tells the
** living from the dead: Lua clears a slot when Lua finds the object dead,
** before Lua runs finalisers and gives the address away again.  At place 0 is a
** probe, a value that nothing else refers to: the probe is gone after each
** collection.
*/
#ifndef MWB_BIND_H
#define MWB_BIND_H

#include "../../engine.h"

#if defined(__cplusplus) && !defined(MW_LUA_CPP)
extern "C" { /* Lua is C, unless MW_LUA_CPP is defined */
#endif
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#if defined(__cplusplus) && !defined(MW_LUA_CPP)
}
#endif

/* Before 5.4.4, Lua does not say whether a finaliser runs. */
#if defined(LUA_VERSION_NUM) && LUA_VERSION_RELEASE_NUM < 50404
#error "moonwatch needs Lua 5.4.4 or later"
#endif

/* The `luaL_error` of Lua 5.5.0 raises a wrong message if there is no memory
** for the right one. */
#if LUA_VERSION_NUM >= 505
#define luaL_error mwb_error
int mwb_error(lua_State *L, const char *format, ...);
#endif

/* Lua values of the state, in the registry under the numbers in `at`; `false`
** stands for nil there.  Each room has its own, from here on: */
enum {
  MWB_BASE_VALUES,
  MWB_TRAPS_VALUES = 32,
  MWB_WATCH_VALUES = 48,
  MWB_JOURNAL_VALUES = 64,
  MWB_READERS_VALUES = 96,
  MWB_TRACE_VALUES = 104,
  MWB_BOX_VALUES = 120,
  MWB_VALUES = 128
};

/* The values that all rooms share. */
enum {
  MWB_OBJECTS = MWB_BASE_VALUES, /* slot -> object, weakly held */
  MWB_STRINGS, /* strings that the engine refers to: see key.c */
  MWB_ONERROR, /* mw.on_error's function */
  MWB_CALLED,  /* the function that calls another one in C: `mwb_call` */
  MWB_SHARED
};

/* Each room has a part of the state, which its header declares. */
typedef struct mwb_base_state mwb_base_state;
typedef struct mwb_traps_state mwb_traps_state;
typedef struct mwb_watch_state mwb_watch_state;
typedef struct mwb_journal_state mwb_journal_state;
typedef struct mwb_readers_state mwb_readers_state;
typedef struct mwb_trace_state mwb_trace_state;
typedef struct mwb_box_state mwb_box_state;

typedef struct mwb_state {
  mw_engine *engine;  /* NULL once the Lua state is being closed */
  lua_State *service; /* a thread for the engine's callbacks, without hooks */
  lua_State *main;    /* the main thread */
  int at[MWB_VALUES]; /* number in the registry of each value */
  const void *metas[MWB_VALUES]; /* the addresses of those that are classes of
                                 ** the library: see class.c */
  int pending;                   /* does the next call have a slice of work? */
  unsigned needs;                /* MWB_APPENDS...: work of every write */
  uint64_t collections;          /* number of collections that have ended */
  size_t short_string;           /* up to this length, Lua interns strings */
  lua_CFunction next;            /* Lua's own */
  mwb_base_state *base;
  mwb_traps_state *traps;
  mwb_watch_state *watch;
  mwb_journal_state *journal;
  mwb_readers_state *readers;
  mwb_trace_state *trace;
  mwb_box_state *box;
} mwb_state;

/* Upvalues of every function. */
#define MWB_UPSTATE lua_upvalueindex(1)
#define MWB_UPOBJECTS lua_upvalueindex(2)

/* The probe's place: no object has slot 0. */
#define MWB_PROBE 0

/* {======================================================
** library.c: the state, errors, memory
** ======================================================= */

/* A collection has ended: the probe is gone.  Sets a new one. */
void mwb_collected(lua_State *L, mwb_state *s);

/* later.c: has the finaliser that runs interrupted a function of the
** library? */
int mwb_is_at_work(lua_State *L, mwb_state *s);

/* later.c: raises what a function says in such a finaliser. */
void mwb_refuse(lua_State *L);

/* Does a bounded slice of the work that is due; raises if the state is
** closed. */
void mwb_slice(lua_State *L, mwb_state *s);

/* Pushes one of the state's values. */
static inline void mwb_push(lua_State *L, const mwb_state *s, int value) {
  if (lua_rawgeti(L, LUA_REGISTRYINDEX, s->at[value]) != LUA_TBOOLEAN) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Sets one of the state's values to the value on the top, and pops the top.
** Needs no memory. */
static inline void mwb_keep(lua_State *L, const mwb_state *s, int value) {
  if (lua_isnil(L, -1)) { /* luaL_ref gives a nil's place away */
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  lua_rawseti(L, LUA_REGISTRYINDEX, s->at[value]);
}

/* The state, for functions that Lua calls.  All other functions get the state
** as a parameter. */
static inline mwb_state *mwb_state_of(lua_State *L) {
  return (mwb_state *)lua_touserdata(L, MWB_UPSTATE);
}

/* Is the probe gone?  Pushes a nil over the probe: at a call of a metamethod,
** Lua marks what earlier calls have left behind the top of the stack, too, and
** a probe that is marked outlives the collection. */
static inline int mwb_look_for_probe(lua_State *L, int objects) {
  int gone = lua_rawgeti(L, objects, MWB_PROBE) == LUA_TNIL;
  lua_pop(L, 1);
  lua_pushnil(L);
  return gone;
}

/* Has a collection ended since the last call?  If so, finalisers may have
** run. */
static inline int mwb_probe(lua_State *L, mwb_state *s) {
  int ended;
  mwb_push(L, s, MWB_OBJECTS);
  ended = mwb_look_for_probe(L, -1);
  lua_pop(L, 2);
  if (ended) mwb_collected(L, s);
  return ended;
}

/* Does a finaliser run, anywhere in the Lua state?  Lua answers nothing about
** its collector then. */
static inline int mwb_in_finaliser(lua_State *L) {
  return lua_gc(L, LUA_GCCOUNT, 0) < 0;
}

/* Does what is due before a function of the library begins. */
static inline mwb_state *mwb_begin_call(lua_State *L, mwb_state *s) {
  int ended = mwb_look_for_probe(L, MWB_UPOBJECTS);
  lua_pop(L, 1);
  if (ended) mwb_collected(L, s);
  if (s->pending) mwb_slice(L, s);
  return s;
}

/* Every function of the library begins with one of these, or with a `self`.
** The second is for functions that only read: in the middle of another one,
** they answer. */
static inline mwb_state *mwb_enter(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) mwb_refuse(L);
  return mwb_begin_call(L, s);
}

static inline mwb_state *mwb_enter_to_read(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) return s;
  return mwb_begin_call(L, s);
}

/* Pushes the state; for code without the upvalues. */
void mwb_push_state(lua_State *L);

/* Pushes a new table with weak keys, "k", or values, "v". */
void mwb_push_weak(lua_State *L, const char *mode);

/* Makes one of the state's values a table with weak keys. */
void mwb_new_ephemeron(lua_State *L, int value);

/* Sets functions in the table on the top, with the two upvalues (taken from the
** running function). */
void mwb_set_funcs(lua_State *L, const luaL_Reg *list);

/* Pushes a function with the two upvalues; the running code needs none. */
void mwb_push_function(lua_State *L, const mwb_state *s, lua_CFunction f);

/* Like lua_call and lua_pcall, of a function that gets the two upvalues: calls
** it without memory for the function itself. */
void mwb_call(lua_State *L, const mwb_state *s, lua_CFunction f, int n,
              int results);
int mwb_pcall(lua_State *L, const mwb_state *s, lua_CFunction f, int n,
              int results);

/* Goes on after a call that may yield: returns all but so many values. */
int mwb_return(lua_State *L, int status, lua_KContext below);

/* The type's name of the value at `index`, for a message.  May push. */
const char *mwb_type_name(lua_State *L, int index);

/* Raises if the argument at 1 of the function `name` is the library and not the
** only one: a function that takes one object may be asked about the library. */
void mwb_check_dot(lua_State *L, const char *name, int args);

/* Raises "bad argument": `index` is the place on the stack, `arg` the number in
** the message. */
int mwb_bad_argument(lua_State *L, const char *name, int index, int arg,
                     const char *expected);

/* Raises if the function `name`, which takes no argument, has got one, at
** `index`. */
void mwb_check_nothing(lua_State *L, const char *name, int index);

/* Returns the integer at `index`, or raises. */
lua_Integer mwb_integer(lua_State *L, const char *name, int index, int arg);

/* Are the values at two indices the same, so that no program can tell them
** apart?  That is: of one number type, with zeros of one sign; NaN is the same
** as itself. */
int mwb_is_same(lua_State *L, int a, int b);

/* Is the value at `index` the message of a memory error? */
int mwb_is_memory_error(lua_State *L, int index);

/* Raises the message of an engine's code, unless the code is MW_OK. */
void mwb_check(lua_State *L, int code);

/* }====================================================== */

#endif
