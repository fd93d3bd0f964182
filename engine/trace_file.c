/*
** trace_file.c - a trace as text, balanced whatever was lost.
** SPDX-License-Identifier: MIT
**
**     threads  | 1 | 7 |      thread 1, then in the order of first events
**               |   +--> 2 -> 5
**               +--> 0 -> 1 -> 3 -> 4        next[]: events of one thread
**
** The writer reads the events of one thread after the other, in order, with a
** stack of the begins that have no end yet.  An end finds its begin on the
** stack by the id, and first ends the begins above; an end whose begin is not
** on the stack is left out, for its begin was lost.
*/
#include <string.h>

#include "engine.h"
#include "json.h"

#define BUFFER 65536
#define NOBODY UINT32_MAX

/* A begin that has no end yet. */
typedef struct open_event {
  uint64_t id;
  uint32_t name;
} open_event;

typedef struct lane {
  mw_thread number;
  uint32_t first, last; /* of its events, counted from the oldest */
} lane;

typedef struct writer writer;

/* How a format writes. */
typedef struct format {
  void (*begin_file)(writer *w);
  void (*begin_thread)(writer *w, uint32_t i);
  void (*event)(writer *w, const mwi_trace_event *event, uint32_t name,
                int64_t time);
  void (*end_thread)(writer *w);
  void (*end_file)(writer *w);
} format;

struct writer {
  mw_engine *e;
  const mw_trace *t;
  const format *how;
  const char *word; /* a thread's name is this word and its number */
  mwi_json out;
  char *buffer;
  uint32_t *next; /* by event */
  uint32_t n;     /* of events */
  lane *threads;
  uint32_t n_threads, size_threads;
  mwi_table table; /* thread number -> place in `threads` + 1 */
  open_event *stack;
  uint32_t depth, size_stack;
  uint32_t *frames; /* by name: the number of its frame + 1, or 0 */
  const lane *current;
  int64_t time; /* of the last event of the current thread */
  int64_t end;  /* of the trace; of a running one, the time of the file */
  int follows;  /* is there an element before in the list? */
};

static const mwi_trace_event *event_at(const writer *w, uint32_t i) {
  return mwi_trace_event_at(w->t, mwi_trace_first(w->t) + i);
}

/* {======================================================
** Which events belong to which thread
** ======================================================= */

static uint32_t hash_lane(mw_thread number) { return number * 2654435769u; }

static lane *add_thread(writer *w, mw_thread number) {
  lane *th;
  if (!mwi_table_reserve(w->e, &w->table, 1) ||
      !mwi_grow(w->e, &w->threads, w->n_threads, &w->size_threads))
    return NULL;
  th = &w->threads[w->n_threads++];
  th->number = number;
  th->first = th->last = NOBODY;
  mwi_table_put(w->e, &w->table, hash_lane(number), w->n_threads);
  return th;
}

static lane *thread_of(writer *w, mw_thread number) {
  mwi_search at;
  uint32_t i = mwi_table_first(&w->table, hash_lane(number), &at);
  while (i != 0 && w->threads[i - 1].number != number)
    i = mwi_table_next(&w->table, &at);
  return (i != 0) ? &w->threads[i - 1] : add_thread(w, number);
}

static void append_event(writer *w, lane *th, uint32_t i) {
  w->next[i] = NOBODY;
  if (th->last == NOBODY) /* the thread's first? */
    th->first = i;
  else
    w->next[th->last] = i;
  th->last = i;
}

/* Is there an event of thread 1? */
static int has_main(const writer *w) {
  uint32_t i;
  for (i = 0; i < w->n; i++)
    if (event_at(w, i)->thread == 1) return 1;
  return w->n == 0; /* some reader wants one thread at least */
}

/* Breaks belong to all threads: see `next_break`. */
static int sort_events(writer *w) {
  lane *th = NULL;
  uint32_t i;
  if (has_main(w) && thread_of(w, 1) == NULL) return 0; /* main comes first */
  for (i = 0; i < w->n; i++) {
    const mwi_trace_event *event = event_at(w, i);
    if (event->kind == MWI_TRACE_BREAK) continue;
    if (th == NULL || th->number != event->thread) /* not as the one before? */
      th = thread_of(w, event->thread);
    if (th == NULL) return 0;
    append_event(w, th, i);
  }
  return 1;
}

/* }====================================================== */

/* {======================================================
** The events of a thread, balanced
** ======================================================= */

static void emit(writer *w, const mwi_trace_event *event, uint32_t name,
                 int64_t time) {
  if (time > w->time) w->time = time; /* else the clock went back */
  w->how->event(w, event, name, w->time);
}

/* Ends the begins above a depth. */
static void end_above(writer *w, uint32_t depth, int64_t time) {
  mwi_trace_event end;
  memset(&end, 0, sizeof(end));
  end.kind = MWI_TRACE_END;
  while (w->depth > depth) emit(w, &end, w->stack[--w->depth].name, time);
}

static int push(writer *w, const mwi_trace_event *event, uint64_t id) {
  if (!mwi_grow(w->e, &w->stack, w->depth, &w->size_stack)) return 0;
  w->stack[w->depth].id = id;
  w->stack[w->depth++].name = event->name;
  emit(w, event, event->name, event->time);
  return 1;
}

/* Ends the begin of an end event.  The ids on the stack ascend. */
static void pop(writer *w, const mwi_trace_event *event) {
  uint32_t i = w->depth;
  while (i > 0 && w->stack[i - 1].id > event->u.id) i--;
  if (i == 0 || w->stack[i - 1].id != event->u.id) return; /* begin lost? */
  end_above(w, i, event->time);
  w->depth--;
  emit(w, event, w->stack[w->depth].name, event->time);
}

static int take_event(writer *w, uint32_t i) {
  const mwi_trace_event *event = event_at(w, i);
  if (event->kind == MWI_TRACE_BEGIN)
    return push(w, event, w->t->base + mwi_trace_first(w->t) + i + 1);
  if (event->kind == MWI_TRACE_END)
    pop(w, event);
  else
    emit(w, event, event->name, event->time);
  return 1;
}

/* Returns the number of the first break from event `i` on; or the number of all
** events. */
static uint32_t next_break(const writer *w, uint32_t i) {
  while (i < w->n && event_at(w, i)->kind != MWI_TRACE_BREAK) i++;
  return i;
}

static int64_t end_of(const writer *w, uint32_t at) {
  return (at < w->n) ? event_at(w, at)->time : w->end;
}

static int write_thread(writer *w, uint32_t number, uint32_t first_break) {
  uint32_t i, at = first_break;
  w->current = &w->threads[number];
  w->time = w->t->started;
  for (i = w->current->first; i != NOBODY; i = w->next[i]) {
    if (i > at) { /* was the trace stopped before it? */
      end_above(w, 0, end_of(w, at));
      at = next_break(w, i);
    }
    if (!take_event(w, i)) return 0;
  }
  end_above(w, 0, end_of(w, at));
  return 1;
}

static int write_threads(writer *w) {
  uint32_t i, first_break = next_break(w, 0);
  for (i = 0; i < w->n_threads; i++) {
    w->how->begin_thread(w, i);
    if (!write_thread(w, i, first_break)) return 0;
    w->how->end_thread(w);
  }
  return 1;
}

/* }====================================================== */

/* {======================================================
** Common to both formats
** ======================================================= */

static const mwi_trace_name *name_at(const writer *w, uint32_t name) {
  return &w->t->names.list[name];
}

/* Puts a comma before each element but the first. */
static void separate(writer *w) {
  if (w->follows) mwi_json_literal(&w->out, ",\n");
  w->follows = 1;
}

static void put_name(writer *w, uint32_t name) {
  const mwi_trace_name *its = name_at(w, name);
  mwi_json_string(&w->out, its->text, its->len);
}

/* Puts the name of a thread, as a string. */
static void put_thread(writer *w, mw_thread number) {
  char text[64];
  mwi_json name = {NULL, NULL, text, 0, sizeof(text), 0};
  size_t len = strlen(w->word);
  if (number == 1) { /* the main program? */
    mwi_json_literal(&w->out, "\"main\"");
    return;
  }
  mwi_json_put(&name, w->word, (len < 40) ? len : 40);
  mwi_json_form(&name, " %u", number);
  mwi_json_string(&w->out, text, name.n);
}

static void nothing(writer *w) { (void)w; }

/* }====================================================== */

/* {======================================================
** Chrome's trace events
** ======================================================= */

/* By enum mwi_trace_kind: the begin, and the category of names without one. */
static const char heads[][25] = {
    "{\"ph\":\"B\",\"pid\":1,\"tid\":", "{\"ph\":\"E\",\"pid\":1,\"tid\":",
    "{\"ph\":\"i\",\"pid\":1,\"tid\":", "{\"ph\":\"C\",\"pid\":1,\"tid\":"};
static const char *const categories[] = {"scope", "scope", "instant",
                                         "counter"};

static void chrome_begin_file(writer *w) {
  mwi_json_literal(
      &w->out,
      "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":"
      "\"process_name\",\"cat\":\"__metadata\",\"args\":{\"name\":"
      "\"moonwatch\"}}");
  w->follows = 1;
}

static void chrome_begin_thread(writer *w, uint32_t i) {
  w->current = &w->threads[i];
  separate(w);
  mwi_json_form(&w->out,
                "{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\","
                "\"cat\":\"__metadata\",\"args\":{\"name\":",
                w->current->number);
  put_thread(w, w->current->number);
  mwi_json_literal(&w->out, "}}");
}

/* Puts text number `i` behind another text. */
static void put_text(writer *w, const char *before, uint32_t i) {
  const mwi_trace_name *text = name_at(w, i);
  mwi_json_form(&w->out, "%s%q", before, text->text, text->len);
}

/* Puts the serial of an object, and the object's label. */
static void put_named(writer *w, uint32_t i) {
  const mwi_trace_name *object = name_at(w, i);
  int64_t serial = (i == 0) ? 0 : (int64_t)object->serial;
  mwi_json_form(&w->out, "\"object\":%d", serial);
  if (i != 0 && object->label != 0) put_text(w, ",\"name\":", object->label);
}

#define LOST "{\"lost\":\"no memory\"}"

static void put_content(writer *w, int type, mw_content value) {
  switch (type) {
    case MW_TNIL:
      mwi_json_literal(&w->out, "null");
      break;
    case MW_TBOOLEAN:
      mwi_json_form(&w->out, "%s", value.i ? "true" : "false");
      break;
    case MW_TINTEGER:
      mwi_json_integer(&w->out, value.i);
      break;
    case MW_TFLOAT:
      mwi_json_number(&w->out, value.f);
      break;
    case MW_TSTRING:
      put_text(w, "", (uint32_t)value.i);
      break;
    case MW_TOBJECT:
      mwi_json_literal(&w->out, "{");
      put_named(w, (uint32_t)value.i);
      mwi_json_literal(&w->out, "}");
      break;
    case MW_TOTHER:
      put_text(w, "{\"type\":", (uint32_t)value.i);
      mwi_json_literal(&w->out, "}");
      break;
    default:
      mwi_json_literal(&w->out, LOST);
  }
}

/* Puts a field of a change, unless the value is absent. */
static void put_present(writer *w, const char *field, int type,
                        mw_content value) {
  if (type == MW_TNIL || type == MW_TABSENT) return;
  mwi_json_form(&w->out, "%s", field);
  put_content(w, type, value);
}

/* Puts a change that was kept as numbers. */
static void put_change(writer *w, const mwi_trace_event *event) {
  int has_object = event->key_type != MW_TABSENT;
  mwi_json_literal(&w->out, "{");
  if (has_object) { /* not of a whole batch? */
    put_named(w, event->object);
    mwi_json_literal(&w->out, ",\"key\":");
    put_content(w, event->key_type, event->u.key);
    put_present(w, ",\"old\":", event->old_type, event->old);
    put_present(w, ",\"new\":", event->now_type, event->now);
  }
  if (event->guards > 0)
    mwi_json_form(&w->out, "%s\"guards\":%u", has_object ? "," : "",
                  event->guards);
  if (event->text != NULL) {
    mwi_json_literal(&w->out, ",\"context\":");
    mwi_json_put(&w->out, event->text, event->n);
  }
  if (event->where != 0) put_text(w, ",\"where\":", event->where);
  mwi_json_literal(&w->out, "}");
}

static void put_args(writer *w, const mwi_trace_event *event) {
  const mwi_clock *clock;
  if (event->has == MWI_ARGS_NONE) return;
  mwi_json_literal(&w->out, ",\"args\":");
  switch (event->has) {
    case MWI_ARGS_TEXT:
      mwi_json_put(&w->out, event->text, event->n);
      break;
    case MWI_ARGS_LOST:
      mwi_json_literal(&w->out, LOST);
      break;
    case MWI_ARGS_VALUE:
      mwi_json_literal(&w->out, "{\"value\":");
      put_content(w, event->key_type, event->u.key);
      mwi_json_literal(&w->out, "}");
      break;
    case MWI_ARGS_CHANGE:
      put_change(w, event);
      break;
    default: /* MWI_ARGS_ADVANCE */
      clock = &w->e->clock.clocks[event->guards];
      mwi_json_form(&w->out, "{\"clock\":%q,\"generation\":%d}", clock->name,
                    clock->len, event->u.generation);
  }
}

/* Puts parts that are short, for there are many events. */
static void chrome_event(writer *w, const mwi_trace_event *event, uint32_t name,
                         int64_t time) {
  uint32_t category = name_at(w, name)->category;
  separate(w);
  mwi_json_put(&w->out, heads[event->kind], sizeof(heads[0]) - 1);
  mwi_json_integer(&w->out, w->current->number);
  mwi_json_literal(&w->out, ",\"ts\":");
  mwi_json_thousandths(&w->out, time - w->t->started);
  mwi_json_literal(&w->out, ",\"name\":");
  put_name(w, name);
  mwi_json_literal(&w->out, ",\"cat\":");
  if (category != 0) /* has the host named one? */
    put_name(w, category);
  else
    mwi_json_form(&w->out, "\"%s\"", categories[event->kind]);
  if (event->kind == MWI_TRACE_INSTANT) /* it is of its thread */
    mwi_json_literal(&w->out, ",\"s\":\"t\"");
  put_args(w, event);
  mwi_json_literal(&w->out, "}");
}

static void chrome_end_file(writer *w) {
  mwi_json_form(&w->out,
                "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"lost\":%d}}\n",
                (int64_t)mw_trace_lost(w->t));
}

static const format chrome = {chrome_begin_file, chrome_begin_thread,
                              chrome_event, nothing, chrome_end_file};

/* }====================================================== */

/* {======================================================
** speedscope: the frames are the names, one profile a thread
** ======================================================= */

/* The frames are the names of the begins in the ring. */
static void speed_begin_file(writer *w) {
  uint32_t i, n = 0;
  mwi_json_literal(
      &w->out,
      "{\"$schema\":\"https://www.speedscope.app/file-format-schema."
      "json\",\"exporter\":\"moonwatch\",\"shared\":{\"frames\":[\n");
  for (i = 0; i < w->n; i++) {
    const mwi_trace_event *event = event_at(w, i);
    if (event->kind != MWI_TRACE_BEGIN || w->frames[event->name] != 0) continue;
    w->frames[event->name] = ++n;
    separate(w);
    mwi_json_literal(&w->out, "{\"name\":");
    put_name(w, event->name);
    mwi_json_literal(&w->out, "}");
  }
  mwi_json_literal(&w->out, "]},\"profiles\":[");
}

/* Returns the time of the last event of a thread, or of the last end. */
static int64_t end_of_thread(writer *w, const lane *th) {
  int64_t end = end_of(w, w->n);
  int64_t last = (th->last == NOBODY) ? end : event_at(w, th->last)->time;
  return (last > end) ? last : end;
}

static void speed_begin_thread(writer *w, uint32_t i) {
  const lane *th = &w->threads[i];
  mwi_json_form(&w->out,
                "%s\n{\"type\":\"evented\",\"name\":", (i > 0) ? "," : "");
  put_thread(w, th->number);
  mwi_json_form(&w->out,
                ",\"unit\":\"microseconds\",\"startValue\":0,"
                "\"endValue\":%t,\"events\":[\n",
                end_of_thread(w, th) - w->t->started);
  w->follows = 0;
}

static void speed_event(writer *w, const mwi_trace_event *event, uint32_t name,
                        int64_t time) {
  int begins = event->kind == MWI_TRACE_BEGIN;
  if (!begins && event->kind != MWI_TRACE_END) return; /* not of a span? */
  separate(w);
  mwi_json_form(&w->out, "{\"type\":\"%s\",\"at\":%t,\"frame\":%u}",
                begins ? "O" : "C", time - w->t->started, w->frames[name] - 1);
}

static void speed_end_thread(writer *w) { mwi_json_literal(&w->out, "]}"); }

static void speed_end_file(writer *w) { mwi_json_literal(&w->out, "]}\n"); }

static const format speedscope = {speed_begin_file, speed_begin_thread,
                                  speed_event, speed_end_thread,
                                  speed_end_file};

/* }====================================================== */

static int prepare(writer *w) {
  const mw_trace *t = w->t;
  if (mw_trace_len(t) >= NOBODY) return 0;
  w->n = (uint32_t)mw_trace_len(t);
  w->end = t->stopped;
  if (t == w->e->trace.running) {
    mwi_quiet_begin(w->e);
    w->end = t->now(t->ud);
    mwi_quiet_end(w->e);
  }
  w->buffer = (char *)mwi_resize(w->e, NULL, 0, BUFFER);
  w->out.buffer = w->buffer;
  w->out.size = BUFFER;
  if (w->buffer == NULL) return 0;
  w->frames = (uint32_t *)mwi_new(w->e, (t->names.n + 1) * sizeof(uint32_t));
  w->next = (uint32_t *)mwi_resize(w->e, NULL, 0, w->n * sizeof(uint32_t));
  if (w->frames == NULL || (w->next == NULL && w->n > 0)) return 0;
  return sort_events(w);
}

static void finish(writer *w) {
  mwi_free(w->e, w->buffer, BUFFER);
  mwi_free(w->e, w->next, w->n * sizeof(uint32_t));
  mwi_free(w->e, w->frames, (w->t->names.n + 1) * sizeof(uint32_t));
  mwi_free(w->e, w->threads, w->size_threads * sizeof(lane));
  mwi_table_drop(w->e, &w->table);
  mwi_free(w->e, w->stack, w->size_stack * sizeof(open_event));
}

static int write_all(writer *w) {
  if (!prepare(w)) return MW_NOMEM;
  w->how->begin_file(w);
  if (!write_threads(w)) return MW_NOMEM;
  w->how->end_file(w);
  mwi_json_flush(&w->out);
  return w->out.failed ? MW_REFUSED : MW_OK;
}

int mw_trace_write(mw_engine *e, const mw_trace *t, enum mw_format as,
                   const char *word, mw_sink sink, void *ud) {
  writer w;
  int code;
  memset(&w, 0, sizeof(w));
  w.e = e;
  w.t = t;
  w.how = (as == MW_CHROME) ? &chrome : &speedscope;
  w.word = word;
  w.out.sink = sink;
  w.out.ud = ud;
  code = write_all(&w);
  finish(&w);
  return code;
}
