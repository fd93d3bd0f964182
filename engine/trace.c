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
** A change is kept as numbers, and becomes JSON when the trace is written.
**
** Names, texts of changes and objects are numbered from 1; a number is the
** place in `list`, and `table` finds it.  The number that the host gets has a
** stamp, too, so that the number of a forgotten name, or of another trace, is
** known to be wrong.
**
** Invariant: `last` of a name is no less than the number of an event that has
** the name, or a name in its category, or the object that it labels.  When more
** names have come than the ring has places, those are forgotten whose `last` is
** below the ring.  So all names together take as much memory as some rings.
*/
#include <string.h>

#include "engine.h"
#include "json.h"

/* Events of a trace before its ids meet the ids of another trace. */
#define BASE_SHIFT 40

/* Longer keys and values are cut. */
#define MAX_KEY 1024
#define MAX_VALUE 256

/* So many names come at least before names are forgotten. */
#define MIN_FRESH 64u

/* {======================================================
** Opening and closing
** ======================================================= */

static void free_text(mw_engine *e, mwi_trace_event *event) {
  mwi_free(e, event->text, event->n);
  event->text = NULL;
  event->n = 0;
  event->has = MWI_ARGS_NONE;
}

static void blocks_of_names(mw_engine *e, const mwi_trace_names *names,
                            mwi_visit f) {
  uint32_t i;
  for (i = 1; i < names->n; i++) f(e, names->list[i].text, names->list[i].len);
  f(e, names->list, names->size * sizeof(mwi_trace_name));
  mwi_table_blocks(e, &names->table, f);
}

static void blocks_of_trace(mw_engine *e, mw_trace *t, mwi_visit f) {
  uint64_t i, n = (t->n < t->capacity) ? t->n : t->capacity;
  for (i = 0; i < n; i++) f(e, t->events[i].text, t->events[i].n);
  f(e, t->events, (size_t)t->capacity * sizeof(mwi_trace_event));
  blocks_of_names(e, &t->names, f);
  f(e, t, sizeof(mw_trace));
}

void mwi_trace_blocks(mw_engine *e, mwi_visit f) {
  mw_trace *t = e->trace.first, *next;
  for (; t != NULL; t = next) {
    next = t->next;
    blocks_of_trace(e, t, f);
  }
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
  if (capacity == 0) capacity = 1; /* a ring has a place at least */
  if (capacity <= SIZE_MAX / sizeof(mwi_trace_event)) /* no overflow? */
    t->events = (mwi_trace_event *)mwi_resize(
        e, NULL, 0, capacity * sizeof(mwi_trace_event));
  if (t->events == NULL) { /* too many, or no memory? */
    mw_trace_close(e, t);
    return MW_NOMEM;
  }
  t->capacity = capacity;
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
  blocks_of_trace(e, t, mwi_free);
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

static uint32_t hash_name(const char *s, size_t len, uint32_t category) {
  uint32_t h = 2166136261u ^ category;
  size_t i;
  for (i = 0; i < len; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  return h ^ h >> 15;
}

static int is_name(const mwi_trace_name *name, const char *s, size_t len,
                   uint32_t category) {
  return name->category == category && name->len == len &&
         (len == 0 || memcmp(name->text, s, len) == 0); /* 0: no text */
}

static char *copy(mw_engine *e, const char *s, size_t len) {
  char *text = (char *)mwi_resize(e, NULL, 0, len);
  if (text != NULL) memcpy(text, s, len);
  return text;
}

/* The next event has a name: that needs its category, and an object's label. */
static inline uint32_t touch(mw_trace *t, uint32_t i) {
  mwi_trace_name *list = t->names.list;
  uint32_t at;
  for (at = i; at != 0 && at != MWI_OBJECTS; at = list[at].category) {
    list[at].last = t->n;
    if (list[at].label != 0) list[list[at].label].last = t->n; /* an object? */
  }
  return i;
}

/* Before another name comes. */
static void forget_when_due(mw_engine *e, mw_trace *t) {
  mwi_trace_names *names = &t->names;
  uint32_t i, fresh = names->table.size - names->used_before;
  size_t bytes = names->bytes - names->bytes_before;
  if (fresh <= MIN_FRESH || /* or fewer than the ring has places? */
      (fresh - MIN_FRESH <= t->capacity && bytes / 64 <= t->capacity))
    return;
  for (i = 1; i < names->n; i++) {
    mwi_trace_name *name = &names->list[i];
    if (name->stamp == 0 || name->last >= mwi_trace_first(t)) continue;
    mwi_table_take(&names->table, name->hash, i);
    mwi_free(e, name->text, name->len);
    names->bytes -= name->len;
    memset(name, 0, sizeof(*name));
    name->category = names->free;
    names->free = i;
  }
  t->place = names->latest = 0;
  names->used_before = names->table.size;
  names->bytes_before = names->bytes;
}

/* Numbers a name that has no number; returns 0 if there is no memory. */
static uint32_t add_name(mw_engine *e, mw_trace *t, const char *s, size_t len,
                         uint32_t category) {
  mwi_trace_names *names = &t->names;
  mwi_trace_name fresh;
  uint32_t i;
  memset(&fresh, 0, sizeof(fresh));
  forget_when_due(e, t);
  if (names->n >= UINT32_MAX / 4) return 0;
  if (!mwi_table_reserve(e, &names->table, 1)) return 0;
  if (names->free == 0) {
    if (!mwi_grow(e, &names->list, names->n, &names->size)) return 0;
    if (names->n == 0) /* number 0 is none */
      memset(&names->list[names->n++], 0, sizeof(mwi_trace_name));
  }
  if (len > 0 && (fresh.text = copy(e, s, len)) == NULL) return 0;
  fresh.len = len;
  fresh.category = category;
  fresh.hash = hash_name(s, len, category);
  if (++e->trace.stamp == 0) e->trace.stamp = 1; /* 0 is of free places */
  fresh.stamp = e->trace.stamp;
  i = (names->free != 0) ? names->free : names->n++;
  names->free = (names->free != 0) ? names->list[i].category : 0;
  mwi_table_put(e, &names->table, fresh.hash, i);
  names->list[i] = fresh;
  names->bytes += len;
  return i;
}

/* Returns the number of a string, or 0 if the string has none. */
static uint32_t find_name(const mw_trace *t, const char *s, size_t len,
                          uint32_t category) {
  const mwi_trace_names *names = &t->names;
  mwi_search at;
  uint32_t i = names->latest;
  if (i != 0 && is_name(&names->list[i], s, len, category))
    return i; /* often the string is the latest again */
  i = mwi_table_first(&names->table, hash_name(s, len, category), &at);
  while (i != 0 && !is_name(&names->list[i], s, len, category))
    i = mwi_table_next(&names->table, &at);
  return i;
}

static uint32_t number_of(mw_engine *e, mw_trace *t, const char *s, size_t len,
                          uint32_t category) {
  uint32_t i = find_name(t, s, len, category);
  if (i == 0) i = add_name(e, t, s, len, category);
  return t->names.latest = touch(t, i);
}

/* Returns the place of a number that the host has, or 0 if the name is
** forgotten, or another trace's. */
static uint32_t place_of_name(mw_trace *t, mw_name name) {
  uint32_t i = (uint32_t)name;
  if (i == 0 || i >= t->names.n || t->names.list[i].stamp != name >> 32)
    return 0;
  return touch(t, i);
}

mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                      mw_name category) {
  mw_trace *t = e->trace.running;
  uint32_t i, above = 0;
  if (t == NULL) return 0;
  if (category != 0 && (above = place_of_name(t, category)) == 0) return 0;
  i = number_of(e, t, s, len, above);
  return (i == 0) ? 0 : (mw_name)t->names.list[i].stamp << 32 | i;
}

int mw_trace_has_name(const mw_engine *e, mw_name name) {
  return e->trace.running != NULL && place_of_name(e->trace.running, name) != 0;
}

/* }====================================================== */

/* {======================================================
** Events
** ======================================================= */

/* Returns the next place of the ring, emptied. */
static mwi_trace_event *next_place(mw_engine *e, mw_trace *t) {
  mwi_trace_event *event = &t->events[t->at];
  mwi_assert(t->at == t->n % t->capacity);
  if (t->n >= t->capacity) free_text(e, event); /* is one overwritten? */
  t->n++;
  if (++t->at == t->capacity) t->at = 0;
  event->has = MWI_ARGS_NONE;
  event->text = NULL;
  event->n = 0;
  return event;
}

/* Adds an event that happens at the time `t->latest`. */
static mwi_trace_event *add_at_once(mw_engine *e, mw_trace *t,
                                    enum mwi_trace_kind kind, mw_thread thread,
                                    uint32_t name) {
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
                            mw_thread thread, uint32_t name) {
  t->latest = time_of(e, t);
  return add_at_once(e, t, kind, thread, name);
}

/* Gives an event a copy of a text.  Returns 0 if there was no memory. */
static int own_text(mw_engine *e, mwi_trace_event *event, const char *s,
                    size_t len) {
  if (s == NULL || len == 0) return 1;
  if (len > UINT32_MAX || (event->text = copy(e, s, len)) == NULL) return 0;
  event->n = (uint32_t)len;
  return 1;
}

static void set_args(mw_engine *e, mwi_trace_event *event, const char *args,
                     size_t len) {
  if (args == NULL || len == 0) return;
  event->has = own_text(e, event, args, len) ? MWI_ARGS_TEXT : MWI_ARGS_LOST;
}

/* Returns the running trace, if the trace has the name; sets `place`. */
static mw_trace *trace_for(mw_engine *e, mw_name name, uint32_t *place) {
  mw_trace *t = e->trace.running;
  mwi_check_enter(e);
  if (t == NULL || (*place = place_of_name(t, name)) != 0) return t;
  t->dropped++;
  return NULL;
}

/* Adds an event to the running trace; returns NULL if the event is lost. */
static mwi_trace_event *add_named(mw_engine *e, enum mwi_trace_kind kind,
                                  mw_thread thread, mw_name name) {
  uint32_t place;
  mw_trace *t = trace_for(e, name, &place);
  return (t == NULL) ? NULL : add(e, t, kind, thread, place);
}

uint64_t mw_trace_begin(mw_engine *e, mw_thread thread, mw_name name,
                        const char *args, size_t len) {
  mwi_trace_event *event = add_named(e, MWI_TRACE_BEGIN, thread, name);
  if (event == NULL) return 0;
  set_args(e, event, args, len);
  return e->trace.running->base + e->trace.running->n;
}

/* Returns the event of an id, if the event is in the ring. */
static mwi_trace_event *find_event(const mw_trace *t, uint64_t id) {
  uint64_t i = id - t->base - 1;
  if (i >= t->n || i < mwi_trace_first(t)) return NULL; /* another's, lost? */
  return &t->events[i % t->capacity];
}

void mw_trace_end(mw_engine *e, uint64_t id, const char *args, size_t len) {
  mw_trace *t = e->trace.running;
  const mwi_trace_event *begin = (t == NULL) ? NULL : find_event(t, id);
  mwi_trace_event *event;
  if (begin == NULL || begin->kind != MWI_TRACE_BEGIN) return; /* lost? */
  event = add(e, t, MWI_TRACE_END, begin->thread, 0);
  event->u.id = id;
  set_args(e, event, args, len);
}

void mw_trace_instant(mw_engine *e, mw_thread thread, mw_name name,
                      const char *args, size_t len) {
  mwi_trace_event *event = add_named(e, MWI_TRACE_INSTANT, thread, name);
  if (event != NULL) set_args(e, event, args, len);
}

void mw_trace_counter(mw_engine *e, mw_thread thread, mw_name name,
                      const mw_value *value) {
  mwi_trace_event *event = add_named(e, MWI_TRACE_COUNTER, thread, name);
  if (event == NULL) return;
  event->has = MWI_ARGS_VALUE;
  event->key_type = (uint8_t)value->type;
  event->u.key = value->u;
}

/* }====================================================== */

/* {======================================================
** Changes
** ======================================================= */

/* Writes the beginning of a string and how long the string is to `text`, which
** has room for `most` bytes and 40 more.  Returns the number of bytes. */
static size_t cut(char *text, const char *s, size_t len, size_t most) {
  mwi_json out = {NULL, NULL, text, 0, most + 40, 0};
  while (most > 0 && ((unsigned char)s[most] & 0xC0) == 0x80) most--;
  mwi_json_put(&out, s, most);
  mwi_json_form(&out, "\xE2\x80\xA6 (%d bytes)", (int64_t)len);
  return out.n;
}

/* Returns the number of a string, which is cut if the string is too long. */
static uint32_t text_of(mw_engine *e, mw_trace *t, const char *s, size_t len,
                        size_t most) {
  char text[MAX_KEY + 40];
  if (len > most) {
    len = cut(text, s, len, most);
    s = text;
  }
  return number_of(e, t, s, len, 0);
}

int mw_trace_has_object(const mw_engine *e, mw_handle obj) {
  const mw_trace *t = e->trace.running;
  if (t == NULL) return 0;
  return (t->place != 0 && t->object == obj) || /* the same again? */
         find_name(t, (const char *)&obj, sizeof(obj), MWI_OBJECTS) != 0;
}

/* Returns the number of an object, whose label is read if the object has no
** number yet. */
static uint32_t object_of(mw_engine *e, mw_trace *t, mw_handle obj,
                          const char *label, size_t len) {
  uint32_t i, text = 0;
  if (obj == MW_NONE) return 0;
  if (t->place != 0 && t->object == obj) return touch(t, t->place);
  i = number_of(e, t, (const char *)&obj, sizeof(obj), MWI_OBJECTS);
  if (i != 0 && t->names.list[i].serial == 0) {         /* is it new? */
    mw_object_serial(e, obj, &t->names.list[i].serial); /* or 0 */
    if (label != NULL) text = text_of(e, t, label, len, MAX_VALUE);
    t->names.list[i].label = text;
  }
  t->object = obj;
  t->place = i;
  return i;
}

/* Sets a value of an event, and returns its type. */
static uint8_t set_value(mw_engine *e, mw_trace *t, const mw_trace_value *from,
                         size_t most, mw_content *to) {
  int type = from->value.type;
  *to = from->value.u;
  if (type == MW_TSTRING || type == MW_TOTHER) { /* has it a text? */
    to->i = text_of(e, t, from->string, from->len, most);
    if (to->i == 0) return MWI_TLOST; /* no memory? */
  } else if (type == MW_TOBJECT) {
    to->i =
        object_of(e, t, (mw_handle)from->value.u.i, from->string, from->len);
    if (to->i == 0) return MWI_TLOST;
  }
  return (uint8_t)type;
}

static uint32_t limited(uint64_t n) {
  return (n > UINT32_MAX) ? UINT32_MAX : (uint32_t)n;
}

/* To number a text may forget others, so the numbers come first.  None of them
** is forgotten meanwhile: it was asked for just now. */
uint64_t mw_trace_change(mw_engine *e, mw_thread thread, mw_name name,
                         const mw_trace_details *details) {
  uint32_t place;
  mw_trace *t = trace_for(e, name, &place);
  mwi_trace_event its;
  mw_trace_value key;
  if (t == NULL) return 0; /* none runs, or the name is lost? */
  memset(&its, 0, sizeof(its));
  key.value = details->key;
  key.string = details->string;
  key.len = details->len;
  its.object =
      object_of(e, t, details->obj, details->label, details->label_len);
  its.key_type = set_value(e, t, &key, MAX_KEY, &its.u.key);
  its.old_type = set_value(e, t, &details->old, MAX_VALUE, &its.old);
  its.now_type = set_value(e, t, &details->now, MAX_VALUE, &its.now);
  if (details->where != NULL)
    its.where = text_of(e, t, details->where, details->where_len, MAX_KEY);
  t->latest = time_of(e, t);
  its.kind = MWI_TRACE_INSTANT;
  its.has = MWI_ARGS_CHANGE;
  its.thread = thread;
  its.name = place;
  its.time = t->latest;
  its.guards = limited(details->guards);
  own_text(e, &its, details->context, details->context_len);
  *next_place(e, t) = its;
  return t->base + t->n;
}

void mw_trace_heard(mw_engine *e, uint64_t id, uint64_t guards,
                    const char *context, size_t len) {
  mw_trace *t = e->trace.running;
  mwi_trace_event *event = (t == NULL) ? NULL : find_event(t, id);
  if (event == NULL || event->has != MWI_ARGS_CHANGE) return; /* lost? */
  event->guards = limited(event->guards + guards);
  if (event->text == NULL) own_text(e, event, context, len); /* none yet? */
}

void mw_trace_advance(mw_engine *e, mw_thread thread, mw_name name,
                      mw_clock clock) {
  mwi_trace_event *event = add_named(e, MWI_TRACE_INSTANT, thread, name);
  if (event == NULL) return;
  event->has = MWI_ARGS_ADVANCE;
  event->u.generation = mw_clock_now(e, clock);
  event->guards = clock;
}

/* }====================================================== */

/* {======================================================
** Starting and stopping
** ======================================================= */

int mw_trace_start(mw_engine *e, mw_trace *t) {
  if (e->trace.running == t) return MW_OK;
  if (e->trace.running != NULL) return MW_FULL; /* another one? */
  if (t->used) { /* spans open at the stop ended there */
    t->latest = t->stopped;
    add_at_once(e, t, MWI_TRACE_BREAK, 0, 0);
  }
  t->latest = time_of(e, t);
  if (!t->used) t->started = t->latest; /* the first start? */
  t->used = 1;
  e->trace.running = t;
  return MW_OK;
}

void mw_trace_stop(mw_engine *e, mw_trace *t) {
  if (e->trace.running != t) return;
  e->trace.running = NULL;
  t->stopped = time_of(e, t);
}

void mw_trace_clear(mw_engine *e, mw_trace *t) {
  uint64_t i;
  mwi_check_enter(e);
  for (i = mwi_trace_first(t); i < t->n; i++)
    free_text(e, &t->events[i % t->capacity]);
  blocks_of_names(e, &t->names, mwi_free);
  memset(&t->names, 0, sizeof(t->names));
  t->place = 0;
  t->n = t->at = t->dropped = 0;
  t->base = ++e->trace.opened << BASE_SHIFT;
  t->used = (e->trace.running == t);
  if (t->used)
    t->started = t->latest = time_of(e, t);
  else
    t->started = t->stopped = t->latest = 0;
}

mw_trace *mw_trace_running(const mw_engine *e) { return e->trace.running; }

size_t mw_trace_len(const mw_trace *t) {
  return (size_t)(t->n - mwi_trace_first(t));
}

uint64_t mw_trace_lost(const mw_trace *t) {
  return mwi_trace_first(t) + t->dropped;
}

/* }====================================================== */
