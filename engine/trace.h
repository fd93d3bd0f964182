/*
** trace.h - the engine's private view of trace.c and trace_file.c.
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
  MWI_TRACE_BREAK /* the trace was stopped here, and started later */
};

/* The arguments of an event. */
enum mwi_trace_args {
  MWI_ARGS_NONE,
  MWI_ARGS_TEXT,   /* the text of a JSON object */
  MWI_ARGS_CHANGE, /* an object, a key, the number of guards called */
  MWI_ARGS_ADVANCE /* a clock and its generation */
};

/* Event number i has the id base + i + 1. */
typedef struct mwi_trace_event {
  int64_t time;
  union {
    uint64_t id;        /* MWI_TRACE_END: the id of its begin */
    double number;      /* MWI_TRACE_COUNTER */
    uint64_t serial;    /* MWI_ARGS_CHANGE: the object's */
    int64_t generation; /* MWI_ARGS_ADVANCE */
  } u;
  union {
    char *text;     /* MWI_ARGS_TEXT: owned, `n` bytes */
    mw_content key; /* MWI_ARGS_CHANGE: a string has a number in `texts` */
  } args;
  uint32_t n; /* MWI_ARGS_CHANGE: guards; MWI_ARGS_ADVANCE: the clock */
  mw_thread thread;
  mw_name name;
  uint8_t kind;
  uint8_t has;      /* of enum mwi_trace_args */
  uint8_t key_type; /* MWI_ARGS_CHANGE */
} mwi_trace_event;

typedef struct mwi_trace_name {
  char *text;
  size_t len;
  mw_name category;
  uint32_t hash;
} mwi_trace_name;

/* Strings by number, and their numbers. */
typedef struct mwi_trace_names {
  mwi_trace_name *list; /* by number; 0 is none */
  uint32_t n, size;
  uint32_t latest; /* the number found last, or 0 */
  uint32_t *table; /* by hash: the number of a name, or 0 */
  uint32_t size_table;
} mwi_trace_names;

struct mw_trace {
  mw_trace *next; /* of all open traces */
  mwi_trace_event *events;
  uint64_t n; /* events added so far */
  uint64_t capacity, at;
  uint64_t base;    /* keeps the ids of all traces apart */
  uint64_t dropped; /* events for which there was no memory */
  mwi_trace_names names;
  mwi_trace_names texts; /* keys that are strings */
  mw_now now;
  void *ud;
  int64_t started, stopped; /* the first start, the last stop */
  int64_t latest;           /* time of the latest event, or of the start */
  int used;                 /* was the trace ever started? */
};

typedef struct mwi_traces {
  mw_trace *running; /* NULL: none */
  mw_trace *first;
  uint64_t opened; /* traces opened so far */
} mwi_traces;

struct mwi_json;

MWI_API void mwi_trace_close(mw_engine *e);

/* Puts the JSON object of a change of the object with the serial. */
MWI_API void mwi_trace_put_change(struct mwi_json *out,
                                  const mw_trace_details *details,
                                  uint64_t serial);

/* Returns the number of the oldest event in the ring. */
static inline uint64_t mwi_trace_first(const mw_trace *t) {
  return (t->n > t->capacity) ? t->n - t->capacity : 0;
}

static inline const mwi_trace_event *mwi_trace_event_at(const mw_trace *t,
                                                        uint64_t i) {
  return &t->events[i % t->capacity];
}

#endif
