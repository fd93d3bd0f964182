/*
** bind.h - what the binding's files share.
** SPDX-License-Identifier: MIT
**
** Each Lua state has one `mwb_state`, a userdata in the registry, with one
** engine.  Every function of the library has two upvalues: that userdata, and
** the array of objects (slot -> object, weak values).  The array is what tells
** the living from the dead: Lua clears an entry when it finds the object dead,
** before it runs finalisers and gives the address away again.  One of its
** entries is a probe that nothing else holds: the probe is gone after each
** collection. */
#ifndef MWB_BIND_H
#define MWB_BIND_H

#include "../engine.h"

#include <lauxlib.h>
#include <lua.h>

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A table that holds what the entries of a journal refer to: see journal.c. */
typedef struct mwb_refs {
  uint32_t n;  /* it has 1 to n */
  uint32_t id; /* never 0, and no other's */
} mwb_refs;

/* A string that such a table has already. */
typedef struct mwb_known {
  const void *string;
  uint32_t id, ref;
} mwb_known;

/* A field that is written in a batch: see batch.c. */
typedef struct mwb_row {
  mw_handle obj;
  mw_value key;
  uint32_t head; /* the first row whose hash leads to this place */
  uint32_t next; /* the next of those */
  int kind;      /* of the last write */
} mwb_row;

/* Lua values of the state, in the registry under the numbers in `at`; `false`
** stands for nil there. */
enum {
  MWB_OBJECTS,   /* slot -> object, weakly held */
  MWB_LIBRARY,   /* the table of functions */
  MWB_CLOCKS,    /* name -> clock */
  MWB_CLOCK,     /* metatables: of a clock, */
  MWB_MAP,       /* a weak map, */
  MWB_LIVING,    /* its table of living keys, */
  MWB_EPHEMERON, /* that of its entries, */
  MWB_BOX,       /* and an entry that tells of its key's death */
  MWB_HANDLE,    /* a watch, */
  MWB_GUARD,     /* and a guard */
  MWB_ANCHORS,   /* weak object -> its own metatable */
  MWB_STRINGS,   /* strings that the engine keeps: see key.c */
  MWB_USES,      /* and how often */
  MWB_SERVICE,   /* the thread `service` */
  MWB_TRACED,    /* the last error that got a traceback */
  MWB_CLASSES,   /* classes of which the policy has heard, weakly held */
  MWB_ONERROR,   /* mw.on_error's function */
  MWB_HELD,      /* userdata -> its function guards */
  MWB_BATCH,     /* what is written during a batch */
  MWB_HOOKS,     /* what the policy is asked */
  MWB_EFFECTS,   /* the metatable of effects */
  MWB_CELL,      /* of cells */
  MWB_CELLS,     /* an upvalue's identity -> its cell, weakly held */
  MWB_RESTORE,   /* functions that must be there when memory is not */
  MWB_REWIND,
  MWB_TELLUNDONE,
  MWB_TRACE,    /* metatables: of a trace, */
  MWB_SCOPE,    /* of a timed scope, */
  MWB_SET,      /* and of a set among its data */
  MWB_THREADS,  /* coroutine -> its number in traces, weakly held */
  MWB_TIMERS,   /* what is called when a scope is measured */
  MWB_SOURCES,  /* name of a source -> is it traced? */
  MWB_CONTEXTS, /* the function that asks mw.context's hooks */
  MWB_QUEUE,    /* the first of the dead to be told of */
  MWB_VALUES    /* how many there are */
};

#define MWB_NAMES 4

typedef struct mwb_state {
  mw_engine *engine;  /* NULL once the Lua state is being closed */
  lua_State *service; /* a thread for the engine's callbacks */
  lua_State *main;    /* the main thread */
  lua_Alloc alloc;    /* the Lua state's own */
  void *ud;
  int at[MWB_VALUES];        /* where the registry has the state's values */
  int pending;               /* is there anything to do before the next call? */
  int deserted;              /* may classes have lost their watched objects? */
  int queued;                /* is anybody in the queue of the dead? */
  int notifying;             /* is an on_death running? */
  mw_clock marks;            /* a clock whose tags are the dynamic classes */
  uint64_t collections;      /* how many have ended */
  unsigned needs;            /* what every write has to do: MWB_NOTES... */
  size_t short_string;       /* up to this length, equal strings are one */
  int names[MWB_NAMES];      /* and those of metamethods; see shadow.c */
  int kinds[MW_KINDS];       /* where the registry has their names */
  mwb_row *rows;             /* of the fields written in a batch: */
  uint32_t n_rows;           /* so many, */
  uint32_t size_rows;        /* in so many places; */
  uint32_t first_row;        /* the first of them are of one that is ending */
  struct mwb_budget *budget; /* of the policy's call under way */
  mwb_refs journal;          /* what it refers to */
  int refs_at;               /* where the registry has what they stand for */
  uint32_t refs_ids;         /* tables of references there have been */
  mwb_known known[64];       /* strings that have a reference */
  int wheres;                /* how many want to know where writes are made */
  int restoring;             /* writes are not noted */
  int sources;               /* MWB_WATCHES...: what else is traced */
  int timing;                /* are all scopes measured? */
  lua_Integer threads;       /* coroutines that have a number */
  int contexts;              /* does mw.context have hooks? */
  char *scratch;             /* the text of args under way */
  size_t n_scratch, size_scratch;
  const void *guard_meta; /* metatables, to compare with */
  const void *handle_meta;
  const void *scope_meta, *idle; /* idle: the scope that is none */

  mw_name write_names[MW_KINDS + 1]; /* of traced writes, by kind; in the trace
                                     ** with this base */
  uint64_t write_names_base;
} mwb_state;

/* Upvalues of every function. */
#define MWB_UPSTATE lua_upvalueindex(1)
#define MWB_UPOBJECTS lua_upvalueindex(2)

/* The probe's slot, the first that the engine gives: its address is that of the
** state, which is no object's. */
#define MWB_PROBE 1

/* {======================================================
** engine.c: the state, errors, memory
** ======================================================= */

/* A collection has ended: the probe is gone.  Sets a new one. */
void mwb_collected(lua_State *L, mwb_state *s);

/* Does a bounded slice of what is due; raises when the state is closed. */
void mwb_slice(lua_State *L, mwb_state *s);

/* Pushes one of the state's values. */
static inline void mwb_push(lua_State *L, const mwb_state *s, int value) {
  if (lua_rawgeti(L, LUA_REGISTRYINDEX, s->at[value]) != LUA_TBOOLEAN) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Sets one of them to the value on the top, which is removed.  Needs no
** memory. */
static inline void mwb_keep(lua_State *L, const mwb_state *s, int value) {
  if (lua_isnil(L, -1)) { /* luaL_ref would give the place to others */
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  lua_rawseti(L, LUA_REGISTRYINDEX, s->at[value]);
}

/* The state, for the functions that Lua calls.  All others get the state as a
** parameter. */
static inline mwb_state *mwb_state_of(lua_State *L) {
  return (mwb_state *)lua_touserdata(L, MWB_UPSTATE);
}

/* Has a collection ended since the last time?  Then anything may run. */
static inline int mwb_probe(lua_State *L, mwb_state *s) {
  int ended;
  mwb_push(L, s, MWB_OBJECTS);
  ended = lua_rawgeti(L, -1, MWB_PROBE) == LUA_TNIL;
  lua_pop(L, 2);
  if (ended) mwb_collected(L, s);
  return ended;
}

/* Each function begins with this or with a `self`. */
static inline mwb_state *mwb_enter(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int ended = lua_rawgeti(L, MWB_UPOBJECTS, MWB_PROBE) == LUA_TNIL;
  lua_pop(L, 1);
  if (ended) mwb_collected(L, s);
  if (s->pending) mwb_slice(L, s);
  return s;
}

/* Pushes the state, when there are no upvalues. */
void mwb_push_state(lua_State *L);

/* Makes one of the state's values a table with weak keys. */
void mwb_new_ephemeron(lua_State *L, int value);

/* Sets functions in the table on the top, with the upvalues of every function
** (taken from the running one). */
void mwb_set_funcs(lua_State *L, const luaL_Reg *list);

/* Pushes such a function, from anywhere. */
void mwb_push_function(lua_State *L, const mwb_state *s, lua_CFunction f);

/* What the value at `index` is, for a message.  May push. */
const char *mwb_type_name(lua_State *L, int index);

/* Raises "bad argument": `index` on the stack, `arg` in the message. */
int mwb_bad_argument(lua_State *L, const char *name, int index, int arg,
                     const char *expected);

/* The integer at `index`, or raises. */
lua_Integer mwb_integer(lua_State *L, const char *name, int index, int arg);

/* Raises what a code says, unless it is MW_OK. */
void mwb_check(lua_State *L, int code);

/* }====================================================== */

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
