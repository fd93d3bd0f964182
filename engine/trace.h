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
  MWI_ARGS_TEXT,    /* the text of a JSON object */
  MWI_ARGS_LOST,    /* there was no memory for the text */
  MWI_ARGS_CHANGE,  /* an object, a key, the values before and after */
  MWI_ARGS_ADVANCE, /* a clock and its generation */
  MWI_ARGS_VALUE    /* of a counter */
};

/* The type of a value of a change for which there was no memory. */
#define MWI_TLOST 255

/* Event number i has the id base + i + 1. */
typedef struct mwi_trace_event {
  int64_t time;
  union {
    uint64_t id;        /* MWI_TRACE_END: the id of its begin */
    int64_t generation; /* MWI_ARGS_ADVANCE */
    mw_content key;     /* MWI_ARGS_CHANGE, MWI_ARGS_VALUE */
  } u;
  mw_content old, now; /* MWI_ARGS_CHANGE.  A string and an object have numbers
                       ** as names; any other value that of its type's */
  char *text;          /* owned: the args; of a change, its context */
  uint32_t n;          /* the bytes of `text` */
  uint32_t guards;     /* MWI_ARGS_CHANGE; MWI_ARGS_ADVANCE: the clock */
  mw_thread thread;
  uint32_t name;
  uint32_t object; /* MWI_ARGS_CHANGE: its name */
  uint32_t where;  /* MWI_ARGS_CHANGE: a name, or 0 */
  uint8_t kind;
  uint8_t has; /* of enum mwi_trace_args */
  uint8_t key_type, old_type, now_type;
} mwi_trace_event;

/* Whatever has a number: what the host calls a name, a text of a change, an
** object. */
typedef struct mwi_trace_name {
  char *text; /* of an object: its handle */
  size_t len;
  uint64_t serial;   /* of an object */
  uint64_t last;     /* the number of events when it was asked for last */
  uint32_t label;    /* of an object: a name, or 0 */
  uint32_t category; /* a name, 0 or MWI_OBJECTS; of a free place: the next */
  uint32_t hash;
  uint32_t stamp; /* no two names of an engine have one stamp; 0: free */
} mwi_trace_name;

/* The category of objects. */
#define MWI_OBJECTS UINT32_MAX

typedef struct mwi_trace_names {
  mwi_trace_name *list; /* by number; 0 is none */
  uint32_t n, size;
  size_t bytes;         /* of text, of the names in `table`; */
  uint32_t used_before; /* how many were left, */
  size_t bytes_before;  /* and how many bytes, when names were last forgotten */
  uint32_t free;        /* the first free place, or 0 */
  uint32_t latest;      /* the number found last, or 0 */
  mwi_table table;      /* from texts to numbers */
} mwi_trace_names;

struct mw_trace {
  mw_trace *next; /* of all open traces */
  mwi_trace_event *events;
  uint64_t n; /* events added so far */
  uint64_t capacity, at;
  uint64_t base;    /* keeps the ids of all traces apart */
  uint64_t dropped; /* events for which there was no memory */
  mwi_trace_names names;
  mw_handle object; /* the object found last, with its number; */
  uint32_t place;   /* 0: none */
  mw_now now;
  void *ud;
  int64_t started, stopped; /* the first start, the last stop */
  int64_t latest;           /* time of the latest event, or of the start */
  int used;                 /* was the trace ever started? */
};

typedef struct mwi_traces {
  mw_trace *running; /* NULL: none */
  mw_trace *first;
  uint64_t opened; /* rings begun so far */
  uint32_t stamp;  /* of the name that was numbered last */
} mwi_traces;

MWI_API void mwi_trace_blocks(mw_engine *e, mwi_visit f);

/* Returns the number of the oldest event in the ring. */
static inline uint64_t mwi_trace_first(const mw_trace *t) {
  return (t->n > t->capacity) ? t->n - t->capacity : 0;
}

static inline const mwi_trace_event *mwi_trace_event_at(const mw_trace *t,
                                                        uint64_t i) {
  return &t->events[i % t->capacity];
}

#endif
