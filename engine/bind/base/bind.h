/*
** bind.h - what all files of the binding share.
** SPDX-License-Identifier: MIT
**
** Each Lua state has one `mwb_state`, a userdata in the registry, with one
** engine.  Every function of the library has two upvalues: that userdata, and
** the array of objects (slot -> object, weak values).  The array tells the
** living from the dead: Lua clears a slot when Lua finds the object dead,
** before Lua runs finalisers and gives the address away again.  The first slot
** holds a probe, a value that nothing else refers to: the probe is gone after
** each collection.
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

/* The table that holds the values to which the entries of a journal or of
** effects refer: see entry.c. */
typedef struct mwb_coroutine mwb_coroutine; /* see coroutine.h */

typedef struct mwb_held {
  mwb_coroutine *of; /* NULL: the values are of effects, */
  int few;           /* and the effects have them without a table? */
  uint32_t n;        /* numbers in use: 1 to n */
  uint32_t kept;     /* of a coroutine: the first numbers, which are those of
                     ** short strings, stay when all transactions have ended */
  uint32_t id; /* not 0, and different for each table and after each release */
} mwb_held;

/* A string that such a table already holds. */
typedef struct mwb_known {
  const void *string;
  uint32_t id, number;
} mwb_known;

typedef struct mwb_batch mwb_batch;     /* see batch.c */
typedef struct mwb_origin mwb_origin;   /* see origin.c */
typedef struct mwb_writers mwb_writers; /* see writers.c */
typedef struct mwb_feed mwb_feed;       /* see feed.c */

/* The context of the coroutine `of` in an epoch, which is MWB_CONTEXT, and its
** number in held values: see delivery.c. */
typedef struct mwb_context {
  lua_State *of; /* NULL: the context may have changed */
  int64_t epoch;
  uint64_t entered, frames; /* of hierarchies */
  uint32_t id, number;
} mwb_context;

/* A place in the program, and its number in the held values with that id.  What
** writes is known by file and line: a program may make a function for each
** write, and a function that was kept would keep its upvalues. */
typedef struct mwb_call_site {
  const char *text; /* "file:line", which MWB_SITES holds */
  size_t file;      /* length of the file's name */
  int line;         /* 0: there is no place yet */
  uint32_t id, number;
} mwb_call_site;

#define MWB_SITES_KNOWN 256

/* The number, in a page, of a context of a transaction: see delivery.c. */
typedef struct mwb_taken {
  uint64_t order;         /* of the transaction */
  uint32_t from, context; /* in the held values of its coroutine */
  uint32_t to, number;    /* in those of the page */
} mwb_taken;

/* An allocator that subtracts from the budget in force: see budget.c. */
typedef struct mwb_meter {
  lua_Alloc alloc; /* the allocator without a budget */
  void *ud;
  struct mwb_budget *budget; /* or NULL */
} mwb_meter;

/* Lua values of the state, in the registry under the numbers in `at`; `false`
** stands for nil there. */
enum {
  MWB_OBJECTS,   /* slot -> object, weakly held */
  MWB_LIBRARY,   /* the table of functions, */
  MWB_WHOLE,     /* and that of programs, with those in Lua */
  MWB_CLOCKS,    /* name -> clock */
  MWB_CLOCK,     /* metatables: of a clock, */
  MWB_MAP,       /* a weak map, */
  MWB_EPHEMERON, /* its table of entries, */
  MWB_BOX,       /* and an entry that signals its key's death */
  MWB_HANDLE,    /* a watch, */
  MWB_GUARD,     /* and a guard */
  MWB_RULES,     /* root -> the functions of its filtered reaches */
  MWB_ANY,       /* mw.any */
  MWB_CLASSY,    /* classes that the library knows: see state.c */
  MWB_NOCLASS,   /* and of the table that objects without a class show */
  MWB_OURS,      /* the metatables of the library's own objects */
  MWB_REFUSE,    /* their `__newindex` */
  MWB_HERITAGES, /* `__index` of classes -> the heritage with it */
  MWB_STRINGS,   /* strings that the engine refers to: see key.c */
  MWB_USES,      /* string -> how often the engine refers to it */
  MWB_CLASSES,   /* classes that the policy knows, weakly held */
  MWB_ONERROR,   /* mw.on_error's function */
  MWB_FUNCTIONS, /* userdata -> its function guards, */
  MWB_TRAPS,     /* class of userdata -> its trap, */
  MWB_WRAPPED,   /* userdata -> the trap that it calls: see userdata.c */
  MWB_BATCH,     /* the metatable of a batch */
  MWB_SPARES,    /* the first batch that may be used again */
  MWB_OPENED,    /* number -> batch, weakly held */
  MWB_QUESTIONS, /* the policy's functions: see policy.h */
  MWB_EFFECTS,   /* the metatable of effects */
  MWB_CELL,      /* the metatable of cells */
  MWB_CELLS,     /* an upvalue's identity -> its cell, weakly held */
  MWB_RESTORE,   /* functions that must exist before memory runs out */
  MWB_REWIND,
  MWB_TELLUNDONE,
  MWB_FIELD,
  MWB_HAND,
  MWB_PREPAREKEPT,
  MWB_UNDO,
  MWB_WRITEONE,
  MWB_LISTHEARD,
  MWB_TOUCHMADE,
  MWB_RECORD,  /* the metatable of a coroutine's record */
  MWB_RECORDS, /* coroutine -> its record, weakly held: see coroutine.c */
  MWB_HELDS,   /* number of a coroutine -> its held values, weakly held */
  MWB_BEGUN,   /* the metatable of a transaction */
  MWB_COMMIT,
  MWB_TAKEBACK,
  MWB_LATER,       /* calls and writes that wait: see later.c, */
  MWB_LOSTBATCHES, /* the first of the batches that are lost, */
  MWB_LATE,        /* and an error that the library's next call raises */
  MWB_PREPARE,     /* the Lua functions that read a transaction's options, */
  MWB_SCOPES,      /* and that trace it */
  MWB_TRACE,       /* metatables: of a trace, */
  MWB_SCOPE,       /* a timed scope, */
  MWB_SET,         /* and a set of data of a scope */
  MWB_THREADS,     /* coroutine -> its lane, weakly held: see lane.c */
  MWB_LANE,        /* the lane of the main program */
  MWB_YIELD,       /* what was coroutine.yield before ours */
  MWB_WEAK,        /* the metatable of tables of scopes: see timed.c */
  MWB_TIMER,       /* the function that is told how long scopes took */
  MWB_SOURCES,     /* name of a source -> whether the source is traced */
  MWB_CONTEXTS,    /* the function that calls mw.context's hooks, */
  MWB_LABEL,       /* the one that knows what people call an object, */
  MWB_EXISTING,    /* and the one that tells a new watch what is there */
  MWB_QUEUE,       /* the first death that is not delivered yet */
  MWB_NOTE,        /* the function that notes reads */
  MWB_RESTING,     /* tables whose reads are not noted, weakly held */
  MWB_SANDBOX,     /* metatables: of a box for untrusted code, */
  MWB_VIEW,        /* and of a read-only view */
  MWB_VIEWS,       /* table -> its view, weakly held, */
  MWB_TARGETS,     /* and view -> what it shows, weakly held */
  MWB_PAGES,       /* number of a page -> values of delivered entries, */
  MWB_CONTEXT,     /* the context of a write now, */
  MWB_SCOPED,      /* contexts with scopes, of lately: see delivery.c, */
  MWB_PATHS,       /* the function that returns the paths of hierarchies, */
  MWB_WRITERS,     /* what last writers hold: see writers.c */
  MWB_SITES,       /* the texts of the places in `sites`, */
  MWB_TAKEN,       /* the function that keeps what is taken back, */
  MWB_ORIGIN,      /* metatables: of an origin, */
  MWB_READER,      /* a reader, */
  MWB_LOOK,        /* what a reader has looked at, */
  MWB_ENTRY,       /* and an entry of that */
  MWB_FEED,        /* the metatable of a feed */
  MWB_VALUES       /* number of values */
};

#define MWB_NAMES 4

typedef struct mwb_state {
  mw_engine *engine;  /* NULL once the Lua state is being closed */
  mw_host host;       /* of the program, for its MW_PINNED objects */
  mw_host lua;        /* the binding's own, if the program has a host */
  int is_attached;    /* does the program own the engine? */
  lua_State *service; /* a thread for the engine's callbacks, without hooks */
  lua_State *main;    /* the main thread */
  lua_Alloc alloc;    /* of the Lua state */
  void *ud;
  int at[MWB_VALUES];   /* number in the registry of each value */
  int pending;          /* does the next call have a slice of work? */
  int deserted;         /* may a class have lost its last watched object? */
  size_t made;          /* objects that became known, and no slice has paid */
  int queued;           /* is the queue of deaths filled? */
  int notifying;        /* is an on_death running? */
  mw_clock marks;       /* a clock whose tags are the dynamic classes */
  uint64_t collections; /* number of collections that have ended */
  unsigned needs;       /* MWB_APPENDS...: work of every write */
  size_t short_string;  /* up to this length, Lua interns strings */
  lua_CFunction next;   /* Lua's own */
  const void *library;  /* the table of all functions: see `mwb_check_dot` */
  int names[MWB_NAMES]; /* metamethods' names, in the registry; see shadow.c */
  int kinds[MW_KINDS];  /* kinds' names, in the registry */
  uint32_t batches;     /* the number of open batches */
  uint64_t batch_turns; /* moves when a batch begins, ends or notes a write */
  struct mwb_budget *budget; /* of the running call in a box */
  mwb_meter *meter;
  lua_Integer scans;         /* the number of scans that may ask the policy */
  uint32_t held_ids;         /* the last `id` given to held values */
  lua_State *running;        /* cache: the coroutine that wrote last, */
  mwb_coroutine *coroutine;  /* and its record, or NULL */
  mwb_coroutine *coroutines; /* with open transactions or batches */
  uint32_t n_coroutines;     /* how many these are */
  uint32_t n_records;        /* and how many coroutines have a record */
  lua_CFunction resume;      /* Lua's own functions: coroutine.resume, */
  lua_CFunction close;       /* coroutine.close, */
  lua_CFunction wrapped;     /* and what coroutine.wrap returns */
  lua_Integer numbers;       /* the last number given to a coroutine */
  struct mwb_transaction *transactions; /* by owner: see coroutine.h */
  uint32_t size_transactions;
  uint64_t orders; /* the number of transactions and batches that have begun */
  int late;        /* does an error wait for the next call? */
  int ending;      /* is what waits being ended? */
  mwb_known known[64];                  /* cache: strings that a table holds */
  mwb_call_site sites[MWB_SITES_KNOWN]; /* cache: places of writes */
  mwb_known known_objects[64]; /* cache: slots of objects that a page holds */
  mwb_coroutine *readers;      /* has the held values of the last page, */
  int readers_place;           /* in the registry */
  uint64_t page, first_page;   /* numbers and 1 of the pages; 0: none */
  mwb_context context;
  uint32_t n_scoped; /* how many contexts MWB_SCOPED has */
  uint64_t renames;  /* moves when a name that was given may be another */
  mwb_taken taken;
  uint32_t origins;   /* the number of open origins */
  mwb_feed *feeds;    /* the open feeds with a root */
  mwi_column heard;   /* by slot: since which entry a table is intercepted; */
  uint64_t unheard;   /* since which any may be: see feed.c */
  uint32_t wheres;    /* the number of readers that want places, */
  uint32_t scoped;    /* and of those that want scopes */
  uint32_t keepers;   /* and of those that ask for last writers, */
  uint64_t kept_from; /* from this entry on */
  mwb_writers *writers;
  int making;     /* is a context being made? */
  uint32_t given; /* the cause of the write that is being restored, or 0 */
  int takes;      /* is there a function in MWB_TAKEN? */
  struct mwb_running *running_class; /* the innermost: see trap.c */
  int handled;                       /* does mw.on_error have a function? */
  int depth;                         /* guards under way, one in another */
  int endless;         /* have the writes under way been stopped? */
  int deep_calls;      /* guards called at ENDLESS levels and more */
  int storing;         /* tables being stored: orphans may come back */
  uint64_t shadows;    /* moves when an object gets or loses its shadow */
  int heeds;           /* do tables have functions for reads? see reads.c */
  int reading;         /* are reads noted now? */
  lua_Integer resting; /* the number of tables in MWB_RESTING */
  int restoring;       /* > 0: writes are not appended to the journal */
  mw_handle quiet;     /* whose state the policy reads or sets, or MW_NONE */
  int sources;         /* MWB_WATCHES...: other events that are traced */
  int timing;          /* are all scopes measured? */
  int yields;          /* is the library's yield in coroutine? */
  lua_Integer threads; /* number of coroutines that have got a lane */
  uint32_t scopes;     /* the number of open scopes in these */
  int contexts;        /* does mw.context have hooks? */
  char *scratch;       /* the text of the arguments of a traced call */
  size_t n_scratch, size_scratch;
  const void *guard_meta; /* metatables, for comparisons by address */
  const void *handle_meta;
  const void *begun_meta;
  const void *map_meta;
  const void *scope_meta, *idle; /* idle: the scope that stands for none */

  mw_name write_names[MW_KINDS + 1]; /* of traced writes, by kind */

  struct mwb_lane *lane; /* the main program's */
  uint32_t columns;      /* the number of open scopes with a column, */
  int64_t wall_since;    /* since when there are such, */
  int64_t wall;          /* and for how long there were before */
} mwb_state;

/* Upvalues of every function. */
#define MWB_UPSTATE lua_upvalueindex(1)
#define MWB_UPOBJECTS lua_upvalueindex(2)

/* The probe's place: the first slot, which no object of Lua gets. */
#define MWB_PROBE 1

/* {======================================================
** library.c: the state, errors, memory
** ======================================================= */

/* A collection has ended: the probe is gone.  Sets a new one. */
void mwb_collected(lua_State *L, mwb_state *s);

/* transaction.c: frees what the state has. */
void mwb_close_transactions(mwb_state *s);

/* transaction.c: takes back the transactions that are lost.  Raises only if
** there is no memory. */
void mwb_end_lost_transactions(lua_State *L, mwb_state *s);

/* batch.c: ends the batches that are lost. */
void mwb_end_lost_batches(lua_State *L, mwb_state *s);

/* later.c: has the finaliser that runs interrupted a function of the
** library? */
int mwb_is_at_work(lua_State *L, mwb_state *s);

/* later.c: raises what a function says in such a finaliser. */
int mwb_refuse(lua_State *L);

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

/* Pushes a new table with weak keys. */
void mwb_push_ephemeron(lua_State *L, const mwb_state *s);

/* Pushes a new table with weak values. */
void mwb_push_weak(lua_State *L);

/* Makes one of the state's values a table with weak keys. */
void mwb_new_ephemeron(lua_State *L, int value);

/* Sets functions in the table on the top, with the two upvalues (taken from the
** running function). */
void mwb_set_funcs(lua_State *L, const luaL_Reg *list);

/* Pushes a function with the two upvalues; the running code needs none. */
void mwb_push_function(lua_State *L, const mwb_state *s, lua_CFunction f);

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
