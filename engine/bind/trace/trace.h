/*
** trace.h - events, scopes and coroutines in traces.
** SPDX-License-Identifier: MIT
**
** Events are traced while they happen, perhaps in the middle of a write, so no
** function of trace.c raises unless its description says so.
*/
#ifndef MWB_TRACE_H
#define MWB_TRACE_H

#include "../base/base.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_TRACE = MWB_TRACE_VALUES, /* metatables: of a trace, */
  MWB_SCOPE,                    /* a timed scope, */
  MWB_SET,                      /* and a set of data of a scope */
  MWB_THREADS,  /* coroutine -> its lane, weakly held: see lane.c */
  MWB_LANE,     /* the lane of the main program */
  MWB_YIELD,    /* what was coroutine.yield before ours */
  MWB_TIMER,    /* f(name, nanoseconds, column, ...): see `tell_time` */
  MWB_SOURCES,  /* name of a source -> whether the source is traced */
  MWB_CONTEXTS, /* the function that calls mw.context's hooks, */
  MWB_LABEL,    /* and f(object) -> what people call the object, or nil */
  MWB_TRACE_END
};

struct mwb_trace_state {
  int sources;           /* MWB_WATCHES...: other events that are traced */
  int timing;            /* are all scopes measured? */
  int yields;            /* is the library's yield in coroutine? */
  int contexts;          /* does mw.context have hooks? */
  lua_Integer threads;   /* number of coroutines that have got a lane */
  struct mwb_lane *lane; /* the main program's */
  uint32_t scopes;       /* the number of open scopes, */
  uint32_t columns;      /* and of those with a column */
  char *scratch;         /* the text of the arguments of a traced call */
  size_t n_scratch, size_scratch;
  const void *idle;                  /* the scope that stands for none */
  mw_name write_names[MW_KINDS + 1]; /* of traced writes, by kind */
};

/* }====================================================== */

/* {======================================================
** trace.c: traces, and the events of a trace besides scopes.
** ======================================================= */

/* Bits of `sources`, in the order of their names. */
enum {
  MWB_WATCHES = 1,
  MWB_EPOCHS = 2,
  MWB_TRANSACTIONS = 4,
  MWB_HIERARCHIES = 8,
  MWB_WHERE = 16 /* and the option `where` */
};

/* Is each write traced? */
static inline int mwb_tracing(const mwb_state *s) {
  return (s->trace->sources & MWB_WATCHES) != 0;
}

/* Does a trace run? */
static inline int mwb_is_running(const mwb_state *s) {
  return s->engine->trace.running != NULL;
}

/* Traces the begin of a scope in the running coroutine.  Returns the identity
** of the event, 0 if the event was lost. */
uint64_t mwb_trace_begin(lua_State *L, mwb_state *s, const char *category,
                         const char *name, size_t len);

/* Traces the advance of a clock. */
void mwb_trace_advance(lua_State *L, mwb_state *s, mw_clock clock);

/* Traces a write to the object `h`, before the write, which is on the stack as
** in trap.h, with the old value.  Returns the identity of the event, 0 if the
** event was lost.  May run finalisers. */
uint64_t mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int kind);

/* Traces that the write of an event has called `guards` guards, or that a batch
** has.  May call the hooks of mw.context. */
void mwb_trace_heard(lua_State *L, mwb_state *s, uint64_t id, uint64_t guards);
void mwb_trace_batch(lua_State *L, mwb_state *s, uint64_t guards);

/* Returns the text of a JSON object for the table at `index`, valid until the
** next text is made; NULL if there is no memory. */
const char *mwb_json(lua_State *L, mwb_state *s, int index, size_t *len);

/* The same for a trace: keys that are no strings are in brackets, and a long
** text is cut; if there is no memory, the object says so. */
const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Like `mwb_args`, for a JSON array of the table's values at 1, 2, ... */
const char *mwb_array_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Returns the trace at index 1, or raises. */
mw_trace *mwb_check_trace(lua_State *L, const mwb_state *s, const char *name);

/* }====================================================== */

/* {======================================================
** timed.c: timed scopes, and the time.
** ======================================================= */

/* Nanoseconds since a fixed moment; never goes back.  An `mw_now`. */
int64_t mwb_now(void *ud);

typedef struct mwb_text {
  const char *bytes; /* NULL: none */
  size_t len;
} mwb_text;

/* The lists of a coroutine's scopes: those that are open, and those of them
** whose time is added to what is spent.  See timed.c. */
enum { MWB_OPEN, MWB_COUNTING, MWB_LISTS };

/* What stands for a scope of mw.timed while it is open, and is traced or
** measured.  Lasts until code in Lua or a finaliser may run. */
typedef struct mwb_scope {
  struct mwb_scope *outer[MWB_LISTS], *inner[MWB_LISTS];
  lua_Integer place;
  uint64_t entered; /* objects that hierarchies had entered at its begin */
  mwb_text name, column;
  unsigned counts; /* in the second list: to what its time is added, or 0 */
} mwb_scope;

/* Returns the outermost one of the running coroutine, or NULL.  Needs no
** memory. */
const mwb_scope *mwb_outermost_scope(lua_State *L, const mwb_state *s);

/* }====================================================== */

/* {======================================================
** lane.c: a coroutine in traces and measured times.
** ======================================================= */

#define MWB_MAIN 1 /* the number of the main program's lane */

enum { MWB_ELEMENTS = 1, MWB_HANDLES }; /* user values of a lane: see timed.c */

typedef struct mwb_lane {
  mw_thread number; /* in traces */
  uint32_t open;    /* scopes that are open in the coroutine */
  int64_t since;    /* when the coroutine was suspended; 0: it is not */
  int64_t waited;   /* how long it was suspended while scopes were open */
  mwb_scope *innermost[MWB_LISTS], *outermost[MWB_LISTS];
} mwb_lane;

/* Returns the lane of the running coroutine, or NULL.  Needs no memory. */
mwb_lane *mwb_known_lane(lua_State *L, const mwb_state *s);

/* Pushes the lane of the running coroutine, a new lane if it has none.  Returns
** NULL and pushes nothing if there is no memory. */
mwb_lane *mwb_push_lane(lua_State *L, mwb_state *s);

/* Returns the number of the running coroutine, 1 for the main program.  Returns
** 0 if there is no memory. */
mw_thread mwb_thread(lua_State *L, mwb_state *s);

/* Somebody begins to measure or trace, or will soon, or ends. */
void mwb_note_measuring(lua_State *L, mwb_state *s, int soon);

/* Returns for how long the coroutine has been suspended, with scopes open. */
int64_t mwb_waited(const mwb_lane *lane);

/* }====================================================== */

#endif
