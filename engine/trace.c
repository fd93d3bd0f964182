/*
** trace.c - what happened when: a ring of events, and names.
** SPDX-License-Identifier: MIT
**
**     events   | 8 9 10 3 4 5 6 7 |   of 11 events the 8 newest
**                       ^
**                       at: where the next one goes
**
** Invariant: event number i is in events[i % capacity] as long as it is among
** the newest `capacity`; each of those owns its args.  That begins and ends
** belong together is not looked at here, but when the trace is written: an end
** says which begin it ends, so one that was overwritten is known to be.
**
** Names are numbered from 1; a number is the place in `names`, and `table` is a
** hash table of numbers, never more than half full.
*/
#include <string.h>

#include "engine.h"

#define MIN_TABLE 64u

/* Events a trace may have before its identities meet another's. */
#define BASE_SHIFT 40

/* {======================================================
** Opening and closing
** ======================================================= */

static void free_args(mw_engine *e, mwi_trace_event *event) {
  mwi_free(e, event->args, event->len);
  event->args = NULL;
}

static void free_events(mw_engine *e, mw_trace *t) {
  uint64_t i, n = (t->n < t->capacity) ? t->n : t->capacity;
  for (i = 0; i < n; i++) free_args(e, &t->events[i]);
  mwi_free(e, t->events, (size_t)t->capacity * sizeof(mwi_trace_event));
}

static void free_names(mw_engine *e, mw_trace *t) {
  uint32_t i;
  for (i = 0; i < t->n_names; i++)
    mwi_free(e, t->names[i].text, t->names[i].len);
  mwi_free(e, t->names, t->size_names * sizeof(mwi_trace_name));
  mwi_free(e, t->table, t->size_table * sizeof(uint32_t));
}

/* Number 0, which is no name. */
static int begin_names(mw_engine *e, mw_trace *t) {
  t->names = (mwi_trace_name *)mwi_grow(e, NULL, 0, &t->size_names,
                                        sizeof(mwi_trace_name));
  if (t->names == NULL) return 0;
  memset(&t->names[0], 0, sizeof(mwi_trace_name));
  t->n_names = 1;
  return 1;
}

static int has_ring(mw_engine *e, mw_trace *t, size_t capacity) {
  if (capacity > SIZE_MAX / sizeof(mwi_trace_event)) return 0;
  t->events = (mwi_trace_event *)mwi_resize(e, NULL, 0,
                                            capacity * sizeof(mwi_trace_event));
  t->capacity = (t->events == NULL) ? 0 : capacity;
  return t->events != NULL && begin_names(e, t);
}

int mw_trace_open(mw_engine *e, size_t capacity, mw_now now, void *ud,
                  mw_trace **trace) {
  mw_trace *t = (mw_trace *)mwi_new(e, sizeof(mw_trace));
  if (t == NULL) return MW_NOMEM;
  t->next = e->trace.first;
  e->trace.first = t;
  t->base = ++e->trace.opened << BASE_SHIFT;
  t->now = now;
  t->ud = ud;
  if (!has_ring(e, t, (capacity == 0) ? 1 : capacity)) {
    mw_trace_close(e, t);
    return MW_NOMEM;
  }
  *trace = t;
  return MW_OK;
}

void mw_trace_close(mw_engine *e, mw_trace *t) {
  mw_trace **link = &e->trace.first;
  if (t == NULL) return;
  if (e->trace.running == t) e->trace.running = NULL;
  while (*link != t) link = &(*link)->next;
  *link = t->next;
  free_events(e, t);
  free_names(e, t);
  mwi_free(e, t, sizeof(mw_trace));
}

void mwi_trace_close(mw_engine *e) {
  while (e->trace.first != NULL) mw_trace_close(e, e->trace.first);
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

static uint32_t hash_of(const char *s, size_t len, mw_name category) {
  uint32_t h = 2166136261u ^ category;
  size_t i;
  for (i = 0; i < len; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h ^ h >> 15;
}

static int is_name(const mwi_trace_name *name, const char *s, size_t len,
                   mw_name category, uint32_t hash) {
  return name->hash == hash && name->category == category && name->len == len &&
         (len == 0 || memcmp(name->text, s, len) == 0);
}

/* Where in the table a name is, or where it would be. */
static uint32_t place_of(const mw_trace *t, const char *s, size_t len,
                         mw_name category, uint32_t hash) {
  uint32_t mask = t->size_table - 1, i = hash & mask;
  while (t->table[i] != 0 &&
         !is_name(&t->names[t->table[i]], s, len, category, hash))
    i = (i + 1) & mask;
  return i;
}

static int widen_table(mw_engine *e, mw_trace *t) {
  uint32_t size = (t->size_table == 0) ? MIN_TABLE : t->size_table * 2, i, at;
  uint32_t *table = (uint32_t *)mwi_new(e, size * sizeof(uint32_t));
  if (table == NULL) return 0;
  for (i = 1; i < t->n_names; i++) {
    for (at = t->names[i].hash & (size - 1); table[at] != 0;)
      at = (at + 1) & (size - 1);
    table[at] = i;
  }
  mwi_free(e, t->table, t->size_table * sizeof(uint32_t));
  t->table = table;
  t->size_table = size;
  return 1;
}

static int make_room(mw_engine *e, mw_trace *t) {
  mwi_trace_name *names;
  if (t->n_names >= UINT32_MAX / 4) return 0;
  if (t->n_names >= t->size_table / 2 && !widen_table(e, t)) return 0;
  names = (mwi_trace_name *)mwi_grow(e, t->names, t->n_names, &t->size_names,
                                     sizeof(mwi_trace_name));
  if (names != NULL) t->names = names;
  return names != NULL;
}

static char *copy(mw_engine *e, const char *s, size_t len) {
  char *text = (char *)mwi_resize(e, NULL, 0, len);
  if (text != NULL) memcpy(text, s, len);
  return text;
}

static mw_name add_name(mw_engine *e, mw_trace *t,
                        const mwi_trace_name *fresh) {
  mwi_trace_name name = *fresh;
  if (!make_room(e, t)) return 0;
  name.text = (name.len == 0) ? NULL : copy(e, fresh->text, name.len);
  if (name.text == NULL && name.len > 0) return 0;
  t->table[place_of(t, fresh->text, name.len, name.category, name.hash)] =
      t->n_names;
  t->names[t->n_names] = name;
  return t->n_names++;
}

mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                      mw_name category) {
  mw_trace *t = e->trace.running;
  mwi_trace_name fresh;
  mw_name name = 0;
  if (t == NULL) return 0;
  memset(&fresh, 0, sizeof(fresh));
  fresh.text = (char *)(uintptr_t)s; /* only to be copied */
  fresh.len = len;
  fresh.category = category;
  fresh.hash = hash_of(s, len, category);
  if (t->size_table > 0)
    name = t->table[place_of(t, s, len, category, fresh.hash)];
  return (name != 0) ? name : add_name(e, t, &fresh);
}

/* }====================================================== */

/* {======================================================
** Events
** ======================================================= */

/* The next place of the ring, with nothing in it. */
static mwi_trace_event *next_place(mw_engine *e, mw_trace *t) {
  mwi_trace_event *event = &t->events[t->at];
  if (t->n >= t->capacity) free_args(e, event);
  t->n++;
  if (++t->at == t->capacity) t->at = 0;
  event->args = NULL;
  event->len = 0;
  return event;
}

static mwi_trace_event *add(mw_engine *e, mw_trace *t, enum mwi_trace_kind kind,
                            mw_thread thread, mw_name name) {
  mwi_trace_event *event = next_place(e, t);
  event->kind = kind;
  event->thread = thread;
  event->name = name;
  event->u.id = 0;
  event->time = t->now(t->ud);
  return event;
}

/* Without memory, the event goes without them. */
static void set_args(mw_engine *e, mwi_trace_event *event, const char *args,
                     size_t len) {
  if (args == NULL || len == 0 || len > UINT32_MAX) return;
  event->args = copy(e, args, len);
  if (event->args != NULL) event->len = (uint32_t)len;
}

/* The running trace, if it has that name. */
static mw_trace *trace_for(mw_engine *e, mw_name name) {
  mw_trace *t = e->trace.running;
  if (t == NULL || (name != 0 && name < t->n_names)) return t;
  t->dropped++;
  return NULL;
}

uint64_t mw_trace_begin(mw_engine *e, mw_thread thread, mw_name name,
                        const char *args, size_t len) {
  mw_trace *t = trace_for(e, name);
  if (t == NULL) return 0;
  set_args(e, add(e, t, MWI_TRACE_BEGIN, thread, name), args, len);
  return t->base + t->n;
}

/* The event of that identity, if it is still there and begins something. */
static const mwi_trace_event *find_begin(const mw_trace *t, uint64_t id) {
  uint64_t i = id - t->base - 1;
  const mwi_trace_event *event;
  if (i >= t->n || i < mwi_trace_first(t)) return NULL;
  event = mwi_trace_event_at(t, i);
  return (event->kind == MWI_TRACE_BEGIN) ? event : NULL;
}

void mw_trace_end(mw_engine *e, uint64_t id, const char *args, size_t len) {
  mw_trace *t = e->trace.running;
  const mwi_trace_event *begin = (t == NULL) ? NULL : find_begin(t, id);
  mwi_trace_event *event;
  if (begin == NULL) return;
  event = add(e, t, MWI_TRACE_END, begin->thread, 0);
  event->u.id = id;
  set_args(e, event, args, len);
}

void mw_trace_instant(mw_engine *e, mw_thread thread, mw_name name,
                      const char *args, size_t len) {
  mw_trace *t = trace_for(e, name);
  if (t != NULL)
    set_args(e, add(e, t, MWI_TRACE_INSTANT, thread, name), args, len);
}

void mw_trace_counter(mw_engine *e, mw_thread thread, mw_name name,
                      double value) {
  mw_trace *t = trace_for(e, name);
  if (t == NULL) return;
  if (value - value == 0) /* it is finite */
    add(e, t, MWI_TRACE_COUNTER, thread, name)->u.number = value;
  else
    t->dropped++;
}

/* }====================================================== */

/* {======================================================
** Starting and stopping
** ======================================================= */

/* What was open when the trace was stopped ended there. */
static void note_break(mw_engine *e, mw_trace *t) {
  mwi_trace_event *event = next_place(e, t);
  event->kind = MWI_TRACE_BREAK;
  event->thread = 0;
  event->name = 0;
  event->u.id = 0;
  event->time = t->stopped;
}

int mw_trace_start(mw_engine *e, mw_trace *t) {
  if (e->trace.running == t) return MW_OK;
  if (e->trace.running != NULL) return MW_FULL;
  if (t->used)
    note_break(e, t);
  else
    t->started = t->now(t->ud);
  t->used = 1;
  e->trace.running = t;
  return MW_OK;
}

void mw_trace_stop(mw_engine *e, mw_trace *t) {
  if (e->trace.running != t) return;
  e->trace.running = NULL;
  t->stopped = t->now(t->ud);
}

mw_trace *mw_trace_running(const mw_engine *e) { return e->trace.running; }

size_t mw_trace_len(const mw_trace *t) {
  return (size_t)(t->n - mwi_trace_first(t));
}

uint64_t mw_trace_lost(const mw_trace *t) {
  return mwi_trace_first(t) + t->dropped;
}

/* }====================================================== */
