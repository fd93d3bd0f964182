/*
** trace.h - the engine's private view of trace.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TRACE_H
#define MWI_TRACE_H

#include "moonwatch.h"

enum mwi_trace_kind {
  MWI_TRACE_BEGIN,
  MWI_TRACE_END,
  MWI_TRACE_INSTANT,
  MWI_TRACE_COUNTER,
  MWI_TRACE_BREAK /* the trace was stopped then, and started again later */
};

/* Event number i has the identity base + i + 1. */
typedef struct mwi_trace_event {
  int64_t time;
  union {
    uint64_t id;   /* of MWI_TRACE_END: which begin it ends */
    double number; /* of MWI_TRACE_COUNTER */
  } u;
  char *args; /* owned; NULL when there are none */
  uint32_t len;
  mw_thread thread;
  mw_name name;
  uint32_t kind;
} mwi_trace_event;

typedef struct mwi_trace_name {
  char *text;
  size_t len;
  mw_name category;
  uint32_t hash;
} mwi_trace_name;

struct mw_trace {
  mw_trace *next; /* of all that are open */
  mwi_trace_event *events;
  uint64_t n; /* how many there were, and how many there is room for */
  uint64_t capacity, at;
  uint64_t base;         /* so that no other trace has the same identities */
  uint64_t dropped;      /* those for which there was no memory */
  mwi_trace_name *names; /* by number; 0 is no name */
  uint32_t n_names, size_names;
  uint32_t *table; /* where to find a name: its number, or 0 */
  uint32_t size_table;
  mw_now now;
  void *ud;
  int64_t started, stopped; /* when it first was, when it last was */
  int used;                 /* was it ever started? */
};

typedef struct mwi_traces {
  mw_trace *running; /* NULL: none */
  mw_trace *first;
  uint64_t opened; /* how many there have been */
} mwi_traces;

MWI_API void mwi_trace_close(mw_engine *e);

/* The number of the first event that is still there. */
static inline uint64_t mwi_trace_first(const mw_trace *t) {
  return (t->n > t->capacity) ? t->n - t->capacity : 0;
}

static inline const mwi_trace_event *mwi_trace_event_at(const mw_trace *t,
                                                        uint64_t i) {
  return &t->events[i % t->capacity];
}

#endif
