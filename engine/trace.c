/*
** trace.c - a trace: a ring of events, and names.
** SPDX-License-Identifier: MIT
**
**     events   | 8 9 10 3 4 5 6 7 |   of 11 events the 8 newest
**                       ^
**                       at: the place of the next event
**
** Invariant: event number i is in events[i % capacity] while the event is among
** the newest `capacity`; each of these owns its text.  Begins and ends are
** matched only when the trace is written: an end has the id of its begin, so an
** end whose begin was overwritten is known.
**
** A change is kept as numbers, and becomes JSON when the trace is written.  A
** string key has a number in `texts`, unless the string is long or there are as
** many texts as events; then the event owns the JSON instead, so that the texts
** take no more memory than the ring.
**
** Names are numbered from 1; a number is the place in `list`, and `table` is a
** hash table of numbers, never more than half full.
*/
#include <string.h>

#include "engine.h"
#include "json.h"

#define MIN_TABLE 64u

/* Events of a trace before its ids meet the ids of another trace. */
#define BASE_SHIFT 40

/* The longest key that gets a number. */
#define MAX_TEXT 64

/* {======================================================
** Opening and closing
** ======================================================= */

static void free_text(mw_engine *e, mwi_trace_event *event) {
  if (event->has == MWI_ARGS_TEXT) mwi_free(e, event->args.text, event->n);
  event->has = MWI_ARGS_NONE;
}

static void free_events(mw_engine *e, mw_trace *t) {
  uint64_t i, n = (t->n < t->capacity) ? t->n : t->capacity;
  for (i = 0; i < n; i++) free_text(e, &t->events[i]);
  mwi_free(e, t->events, (size_t)t->capacity * sizeof(mwi_trace_event));
}

static void free_names(mw_engine *e, mwi_trace_names *names) {
  uint32_t i;
  for (i = 1; i < names->n; i++)
    mwi_free(e, names->list[i].text, names->list[i].len);
  mwi_free(e, names->list, names->size * sizeof(mwi_trace_name));
  mwi_free(e, names->table, names->size_table * sizeof(uint32_t));
}

static int has_ring(mw_engine *e, mw_trace *t, size_t capacity) {
  if (capacity > SIZE_MAX / sizeof(mwi_trace_event)) return 0;
  t->events = (mwi_trace_event *)mwi_resize(e, NULL, 0,
                                            capacity * sizeof(mwi_trace_event));
  t->capacity = (t->events == NULL) ? 0 : capacity;
  return t->events != NULL;
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
  mwi_check_enter(e);
  if (e->trace.running == t) e->trace.running = NULL;
  while (*link != t) {
    mwi_check_call(*link !=
                   NULL); /* else the trace is another engine's, or closed */
    link = &(*link)->next;
  }
  *link = t->next;
  free_events(e, t);
  free_names(e, &t->names);
  free_names(e, &t->texts);
  mwi_free(e, t, sizeof(mw_trace));
}

void mwi_trace_close(mw_engine *e) {
  while (e->trace.first != NULL) mw_trace_close(e, e->trace.first);
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

static uint32_t hash_name(const char *s, size_t len, mw_name category) {
  uint32_t h = 2166136261u ^ category;
  size_t i;
  for (i = 0; i < len; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h ^ h >> 15;
}

static int is_name(const mwi_trace_name *name, const char *s, size_t len,
                   mw_name category) {
  return name->category == category && name->len == len &&
         (len == 0 || memcmp(name->text, s, len) == 0);
}

/* Returns the place of a name in the table, or the empty place for the name. */
static uint32_t place_of(const mwi_trace_names *names, const char *s,
                         size_t len, mw_name category, uint32_t hash) {
  uint32_t mask = names->size_table - 1, i = hash & mask;
  mwi_assert(names->n <= names->size_table / 2); /* so the search ends */
  for (; names->table[i] != 0; i = (i + 1) & mask) {
    const mwi_trace_name *name = &names->list[names->table[i]];
    if (name->hash == hash && is_name(name, s, len, category)) break;
  }
  return i;
}

static int widen_table(mw_engine *e, mwi_trace_names *names) {
  uint32_t size = (names->size_table == 0) ? MIN_TABLE : names->size_table * 2;
  uint32_t i, at, *table = (uint32_t *)mwi_new(e, size * sizeof(uint32_t));
  if (table == NULL) return 0;
  for (i = 1; i < names->n; i++) {
    for (at = names->list[i].hash & (size - 1); table[at] != 0;)
      at = (at + 1) & (size - 1);
    table[at] = i;
  }
  mwi_free(e, names->table, names->size_table * sizeof(uint32_t));
  names->table = table;
  names->size_table = size;
  return 1;
}

static int make_room(mw_engine *e, mwi_trace_names *names) {
  mwi_trace_name *list;
  if (names->n >= UINT32_MAX / 4) return 0;
  if (names->n >= names->size_table / 2 && !widen_table(e, names)) return 0;
  list = (mwi_trace_name *)mwi_grow(e, names->list, names->n, &names->size,
                                    sizeof(mwi_trace_name));
  if (list == NULL) return 0;
  names->list = list;
  if (names->n == 0) memset(&list[names->n++], 0, sizeof(mwi_trace_name));
  return 1;
}

static char *copy(mw_engine *e, const char *s, size_t len) {
  char *text = (char *)mwi_resize(e, NULL, 0, len);
  if (text != NULL) memcpy(text, s, len);
  return text;
}

/* Returns the number of a string, which gets a number if there are fewer than
** `most`; else 0. */
static mw_name number_of(mw_engine *e, mwi_trace_names *names, const char *s,
                         size_t len, mw_name category, uint64_t most) {
  mwi_trace_name fresh = {NULL, len, category, 0};
  mw_name name = 0;
  if (names->latest != 0 && /* often the string is the latest again */
      is_name(&names->list[names->latest], s, len, category))
    return names->latest;
  fresh.hash = hash_name(s, len, category);
  if (names->n > 0)
    name = names->table[place_of(names, s, len, category, fresh.hash)];
  if (name == 0) {
    if (names->n > most || !make_room(e, names)) return 0;
    if (len > 0 && (fresh.text = copy(e, s, len)) == NULL) return 0;
    name = names->n++;
    names->table[place_of(names, s, len, category, fresh.hash)] = name;
    names->list[name] = fresh;
  }
  return names->latest = name;
}

mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                      mw_name category) {
  mw_trace *t = e->trace.running;
  return (t == NULL) ? 0
                     : number_of(e, &t->names, s, len, category, UINT64_MAX);
}

/* }====================================================== */

/* {======================================================
** Events
** ======================================================= */

/* Returns the next place of the ring, emptied. */
static mwi_trace_event *next_place(mw_engine *e, mw_trace *t) {
  mwi_trace_event *event = &t->events[t->at];
  mwi_assert(t->at == t->n % t->capacity);
  if (t->n >= t->capacity) free_text(e, event);
  t->n++;
  if (++t->at == t->capacity) t->at = 0;
  event->has = MWI_ARGS_NONE;
  return event;
}

/* Adds an event that happens at the time `t->latest`. */
static mwi_trace_event *add_at_once(mw_engine *e, mw_trace *t,
                                    enum mwi_trace_kind kind, mw_thread thread,
                                    mw_name name) {
  mwi_trace_event *event = next_place(e, t);
  event->kind = (uint8_t)kind;
  event->thread = thread;
  event->name = name;
  event->u.id = 0;
  event->time = t->latest;
  return event;
}

/* Returns the time, which does not go back. */
static int64_t time_of(const mw_engine *e, const mw_trace *t) {
  int64_t now;
  mwi_quiet_begin(e);
  now = t->now(t->ud);
  mwi_quiet_end(e);
  mwi_check_call(!t->used || now >= t->latest);
  return now;
}

static mwi_trace_event *add(mw_engine *e, mw_trace *t, enum mwi_trace_kind kind,
                            mw_thread thread, mw_name name) {
  t->latest = time_of(e, t);
  return add_at_once(e, t, kind, thread, name);
}

/* Gives an event a text, which the event then owns; NULL if there was no
** memory. */
static void own_text(mwi_trace_event *event, char *text, size_t len) {
  if (text == NULL) return;
  event->has = MWI_ARGS_TEXT;
  event->args.text = text;
  event->n = (uint32_t)len;
}

static void set_args(mw_engine *e, mwi_trace_event *event, const char *args,
                     size_t len) {
  if (args == NULL || len == 0 || len > UINT32_MAX) return;
  own_text(event, copy(e, args, len), len);
}

/* Returns the running trace, if the trace has the name. */
static mw_trace *trace_for(mw_engine *e, mw_name name) {
  mw_trace *t = e->trace.running;
  mwi_check_enter(e);
  if (t == NULL || (name != 0 && name < t->names.n)) return t;
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

/* Returns the event of an id, if the event is in the ring and is a begin. */
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
  if (value - value == 0) /* `value` is finite */
    add(e, t, MWI_TRACE_COUNTER, thread, name)->u.number = value;
  else
    t->dropped++;
}

/* A sink that counts the bytes. */
static int count(void *ud, const char *bytes, size_t n) {
  (void)bytes;
  *(size_t *)ud += n;
  return 1;
}

/* Gives an event the JSON of a change that does not fit into the event. */
static void set_change_text(mw_engine *e, mwi_trace_event *event,
                            const mw_trace_details *details, uint64_t serial) {
  size_t len = 0;
  char buffer[256], *text;
  mwi_json counted = {count, &len, buffer, 0, sizeof(buffer), 0};
  mwi_json out = {NULL, NULL, NULL, 0, 0, 0};
  mwi_trace_put_change(&counted, details, serial);
  mwi_json_flush(&counted);
  if (len > UINT32_MAX) return;
  text = out.buffer = (char *)mwi_resize(e, NULL, 0, len);
  out.size = len; /* exactly enough, so the sink is not called */
  if (text != NULL) mwi_trace_put_change(&out, details, serial);
  own_text(event, text, len);
}

/* Makes the key a key that fits into an event; returns 0 if the key or the
** other details do not fit. */
static int fits(mw_engine *e, mw_trace *t, const mw_trace_details *details,
                mw_value *key) {
  if (details->context != NULL || details->guards > UINT32_MAX) return 0;
  if (key->type != MW_TSTRING) return 1;
  if (details->len > MAX_TEXT) return 0;
  key->u.i =
      number_of(e, &t->texts, details->string, details->len, 0, t->capacity);
  return key->u.i != 0;
}

void mw_trace_change(mw_engine *e, mw_thread thread, mw_name name,
                     const mw_trace_details *details) {
  mw_trace *t = trace_for(e, name);
  mwi_trace_event *event;
  mw_value key = details->key;
  uint64_t serial = 0;
  if (t == NULL) return;
  if (!details->same_time) t->latest = time_of(e, t);
  event = add_at_once(e, t, MWI_TRACE_INSTANT, thread, name);
  mw_object_serial(e, details->obj, &serial); /* or 0 */
  if (!fits(e, t, details, &key)) {
    set_change_text(e, event, details, serial);
    return;
  }
  event->has = MWI_ARGS_CHANGE;
  event->u.serial = serial;
  event->args.key = key.u;
  event->key_type = (uint8_t)key.type;
  event->n = (uint32_t)details->guards;
}

void mw_trace_advance(mw_engine *e, mw_thread thread, mw_name name,
                      mw_clock clock) {
  mw_trace *t = trace_for(e, name);
  mwi_trace_event *event;
  if (t == NULL) return;
  event = add(e, t, MWI_TRACE_INSTANT, thread, name);
  event->has = MWI_ARGS_ADVANCE;
  event->u.generation = mw_clock_now(e, clock);
  event->n = clock;
}

/* }====================================================== */

/* {======================================================
** Starting and stopping
** ======================================================= */

int mw_trace_start(mw_engine *e, mw_trace *t) {
  if (e->trace.running == t) return MW_OK;
  if (e->trace.running != NULL) return MW_FULL;
  if (t->used) { /* spans open at the stop ended there */
    t->latest = t->stopped;
    add_at_once(e, t, MWI_TRACE_BREAK, 0, 0);
  }
  t->latest = time_of(e, t);
  if (!t->used) t->started = t->latest;
  t->used = 1;
  e->trace.running = t;
  return MW_OK;
}

void mw_trace_stop(mw_engine *e, mw_trace *t) {
  if (e->trace.running != t) return;
  e->trace.running = NULL;
  t->stopped = time_of(e, t);
}

mw_trace *mw_trace_running(const mw_engine *e) { return e->trace.running; }

size_t mw_trace_len(const mw_trace *t) {
  return (size_t)(t->n - mwi_trace_first(t));
}

uint64_t mw_trace_lost(const mw_trace *t) {
  return mwi_trace_first(t) + t->dropped;
}

/* }====================================================== */
