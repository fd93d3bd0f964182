/*
** trace.h - the engine's private view of trace.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_TRACE_H
#define MW_TRACE_H

#include "moonwatch.h"

enum mwT_kind {
  MWT_BEGIN,
  MWT_END,
  MWT_INSTANT,
  MWT_COUNTER,
  MWT_BREAK /* the trace was stopped then, and started again later */
};

/* Event number i has the identity base + i + 1. */
typedef struct mwT_event {
  int64_t time;
  union {
    uint64_t id;   /* of MWT_END: which begin it ends */
    double number; /* of MWT_COUNTER */
  } u;
  char *args; /* owned; NULL when there are none */
  uint32_t len;
  mw_thread thread;
  mw_name name;
  uint32_t kind;
} mwT_event;

typedef struct mwT_name {
  char *text;
  size_t len;
  mw_name category;
  uint32_t hash;
} mwT_name;

struct mw_trace {
  mw_trace *next; /* of all that are open */
  mwT_event *events;
  uint64_t n; /* how many there were, and how many there is room for */
  uint64_t capacity, at;
  uint64_t base;    /* so that no other trace has the same identities */
  uint64_t dropped; /* those for which there was no memory */
  mwT_name *names;  /* by number; 0 is no name */
  uint32_t n_names, size_names;
  uint32_t *table; /* where to find a name: its number, or 0 */
  uint32_t size_table;
  mw_now now;
  void *ud;
  int64_t started, stopped; /* when it first was, when it last was */
  int used;                 /* was it ever started? */
};

typedef struct mwT_part {
  mw_trace *running; /* NULL: none */
  mw_trace *first;
  uint64_t opened; /* how many there have been */
} mwT_part;

MW_PRIVATE void mwT_close(mw_engine *e);

/* The number of the first event that is still there. */
static inline uint64_t mwT_first(const mw_trace *t) {
  return (t->n > t->capacity) ? t->n - t->capacity : 0;
}

static inline const mwT_event *mwT_event_at(const mw_trace *t, uint64_t i) {
  return &t->events[i % t->capacity];
}

#endif
