/*
** trace_test.c - traces: events, names, and balanced files.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "check.h"

static int64_t the_time;
static char text[1 << 16];
static size_t length;

static int64_t now(void *ud) {
  (void)ud;
  return the_time += 1500;
}

static int sink(void *ud, const char *bytes, size_t n) {
  (void)ud;
  if (length + n >= sizeof(text)) return 0;
  memcpy(text + length, bytes, n);
  length += n;
  text[length] = '\0';
  return 1;
}

static int refuse(void *ud, const char *bytes, size_t n) {
  (void)ud;
  (void)bytes;
  (void)n;
  return 0;
}

static int write_as(mw_engine *e, const mw_trace *t, enum mw_format format) {
  length = 0;
  text[0] = '\0';
  return mw_trace_write(e, t, format, "thread", sink, NULL);
}

static mw_trace *begin(mw_engine *e, size_t capacity) {
  mw_trace *t = NULL;
  the_time = 0;
  if (mw_trace_open(e, capacity, now, NULL, &t) == MW_OK) mw_trace_start(e, t);
  return t;
}

static mw_name name(mw_engine *e, const char *s) {
  return mw_trace_name(e, s, strlen(s), 0);
}

static uint64_t enter(mw_engine *e, mw_thread thread, const char *s) {
  return mw_trace_begin(e, thread, name(e, s), NULL, 0);
}

static void leave(mw_engine *e, uint64_t id) { mw_trace_end(e, id, NULL, 0); }

/* Returns the phases and names of the written events, as "Ba Eb Ea". */
static const char *events(void) {
  static char list[4096];
  const char *at = text;
  size_t n = 0;
  while ((at = strstr(at, "{\"ph\":\"")) != NULL && n < sizeof(list) - 20) {
    const char *its = strstr(at, "\"name\":\"") + 8;
    char phase = at[7];
    at = its;
    if (phase == 'M') continue;
    list[n++] = phase;
    while (*its != '"' && n < sizeof(list) - 20) list[n++] = *its++;
    list[n++] = ' ';
  }
  list[n] = '\0';
  return list;
}

static int written(mw_engine *e, const mw_trace *t, const char *expected) {
  return write_as(e, t, MW_CHROME) == MW_OK && strcmp(events(), expected) == 0;
}

static void notes_only_while_running(mw_engine *e, heap *h) {
  mw_trace *t, *other;
  (void)h;
  check(mw_trace_running(e) == NULL && name(e, "a") == 0);
  check(mw_trace_begin(e, 1, 1, NULL, 0) == 0);
  mw_trace_instant(e, 1, 1, NULL, 0);
  t = begin(e, 10);
  check(mw_trace_running(e) == t && mw_trace_start(e, t) == MW_OK);
  check(mw_trace_open(e, 10, now, NULL, &other) == MW_OK);
  check(mw_trace_start(e, other) == MW_FULL);
  leave(e, enter(e, 1, "a"));
  mw_trace_stop(e, other);
  check(mw_trace_running(e) == t && mw_trace_len(t) == 2);
  mw_trace_stop(e, t);
  leave(e, enter(e, 1, "a"));
  check(mw_trace_running(e) == NULL && mw_trace_len(t) == 2);
  check(mw_trace_lost(t) == 0 && written(e, t, "Ba Ea "));
  check(mw_trace_start(e, other) == MW_OK);
  mw_trace_close(e, t); /* the other trace closes with the engine */
  mw_trace_close(e, NULL);
}

static void names_are_numbered_once(mw_engine *e, heap *h) {
  mw_name first, in_category;
  char s[8] = "name000";
  int i;
  (void)h;
  begin(e, 10);
  first = name(e, "a");
  in_category = mw_trace_name(e, "a", 1, name(e, "c"));
  check(first != 0 && first == name(e, "a") && in_category != first);
  check(name(e, "") == name(e, "") && name(e, "") != 0);
  for (i = 0; i < 999; i++) {
    s[4] = (char)('0' + i / 100);
    s[5] = (char)('0' + i / 10 % 10);
    s[6] = (char)('0' + i % 10);
    check(name(e, s) == (mw_name)(i + 5));
  }
  check(name(e, "name000") == 5 && name(e, "a") == first);
  check(in_category == mw_trace_name(e, "a", 1, name(e, "c")));
}

static void keeps_the_newest(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 4);
  uint64_t a, b;
  (void)h;
  a = enter(e, 1, "a");
  b = enter(e, 1, "b");
  mw_trace_instant(e, 1, name(e, "i"), "{}", 2);
  leave(e, b);
  leave(e, enter(e, 1, "c")); /* the first event written */
  leave(e, a);
  enter(e, 1, "d");
  check(mw_trace_len(t) == 4 && mw_trace_lost(t) == 3);
  check(written(e, t, "Bc Ec Bd Ed "));
  check(strstr(text, "\"lost\":3") != NULL);
}

static void an_end_ends_what_began_later(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 100);
  uint64_t a, b, other;
  (void)h;
  a = enter(e, 1, "a");
  other = enter(e, 7, "x");
  b = enter(e, 1, "b");
  enter(e, 1, "c");
  leave(e, a);
  leave(e, b);
  leave(e, a);
  leave(e, other);
  check(written(e, t, "Ba Bb Bc Ec Eb Ea Bx Ex "));
  check(strstr(text, "\"name\":\"main\"") && strstr(text, "\"thread 7\""));
  check(write_as(e, t, MW_SPEEDSCOPE) == MW_OK);
  check(strstr(text, "{\"type\":\"C\",\"at\":7.500,\"frame\":2}") != NULL);
}

static void what_is_open_ends_when_it_stops(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 100);
  uint64_t a;
  (void)h;
  a = enter(e, 1, "a");
  check(written(e, t, "Ba Ea "));
  mw_trace_stop(e, t);
  check(mw_trace_start(e, t) == MW_OK);
  enter(e, 1, "b");
  leave(e, a);
  enter(e, 2, "c");
  mw_trace_stop(e, t);
  check(mw_trace_start(e, t) == MW_OK);
  check(written(e, t, "Ba Ea Bb Eb Bc Ec "));
}

static void times_are_microseconds(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 100);
  (void)h;
  mw_trace_instant(e, 1, name(e, "i"), "{\"k\":1}", 7);
  mw_trace_counter(e, 1, name(e, "n"), 12);
  mw_trace_counter(e, 1, name(e, "n"), -0.1);
  mw_trace_counter(e, 1, name(e, "n"), 1e300 * 1e300);
  check(mw_trace_lost(t) == 1 && written(e, t, "ii Cn Cn "));
  check(strstr(text, "\"ts\":1.500,") && strstr(text, "\"args\":{\"k\":1}"));
  check(strstr(text, "{\"value\":12}") && strstr(text, "{\"value\":-0.1}"));
}

/* Returns the JSON that is written for a change of `obj`. */
static const char *change(mw_engine *e, mw_trace *t,
                          const mw_trace_details *details) {
  static char args[8192];
  const char *from, *end;
  mw_trace_change(e, 1, name(e, "c"), details);
  if (write_as(e, t, MW_CHROME) != MW_OK) return "";
  for (from = text; strstr(from + 1, "\"args\":") != NULL;)
    from = strstr(from + 1, "\"args\":");
  from += 7;
  end = strstr(from, "}\n");
  if (end == NULL || (size_t)(end - from) >= sizeof(args)) return "";
  memcpy(args, from, (size_t)(end - from));
  args[end - from] = '\0';
  return args;
}

static int changes(mw_engine *e, mw_trace *t, const mw_trace_details *details,
                   const char *expected) {
  return strcmp(change(e, t, details), expected) == 0;
}

static void changes_have_details(mw_engine *e, heap *h) {
  static char x;
  mw_trace *t = begin(e, 100);
  mw_trace_details d;
  (void)h;
  memset(&d, 0, sizeof(d));
  mw_object_identify(e, &x, &d.obj);
  check(changes(e, t, &d, "{\"object\":1,\"key\":null}"));
  d.key.type = MW_TBOOLEAN;
  check(changes(e, t, &d, "{\"object\":1,\"key\":false}"));
  d.key.type = MW_TINTEGER;
  d.key.u.i = INT64_MIN;
  check(changes(e, t, &d, "{\"object\":1,\"key\":-9223372036854775808}"));
  d.key.type = MW_TFLOAT;
  d.key.u.f = -0.5;
  check(changes(e, t, &d, "{\"object\":1,\"key\":-0.5}"));
  d.key.u.f = 1e300 * 1e300;
  check(changes(e, t, &d, "{\"object\":1,\"key\":\"inf\"}"));
  d.key.type = MW_TSTRING;
  d.string = "a\"b";
  d.len = 3;
  check(changes(e, t, &d, "{\"object\":1,\"key\":\"a\\\"b\"}"));
  d.len = 0;
  check(changes(e, t, &d, "{\"object\":1,\"key\":\"\"}"));
  d.len = 1;
  d.guards = UINT32_MAX;
  check(
      changes(e, t, &d, "{\"object\":1,\"key\":\"a\",\"guards\":4294967295}"));
  d.guards++;
  d.context = "[\"here\"]";
  d.context_len = 8;
  check(changes(e, t, &d,
                "{\"object\":1,\"key\":\"a\",\"guards\":4294967296,"
                "\"context\":[\"here\"]}"));
  d.context = NULL;
  check(
      changes(e, t, &d, "{\"object\":1,\"key\":\"a\",\"guards\":4294967296}"));
  d.key.type = MW_TABSENT;
  d.guards = 3;
  check(changes(e, t, &d, "{\"guards\":3}"));
  mw_object_forget(e, d.obj);
  d.key.type = MW_TNIL;
  d.guards = 0;
  check(changes(e, t, &d, "{\"object\":0,\"key\":null}"));
}

static void changes_have_any_keys(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 8);
  mw_trace_details d;
  char key[1000];
  int i, had;
  memset(&d, 0, sizeof(d));
  memset(key, 'x', sizeof(key));
  d.key.type = MW_TSTRING;
  d.string = key;
  for (i = 0; i < 1000;
       i++) { /* all lengths, and more events than the ring has */
    d.len = (size_t)i;
    mw_trace_change(e, 1, name(e, "c"), &d);
  }
  had = (int)h->bytes;
  for (i = 0; i < 1000; i++) {
    d.len = (size_t)(i % 10 + 990);
    mw_trace_change(e, 1, name(e, "c"), &d);
  }
  check((int)h->bytes < had + 100);
  d.len = 64;
  check(strlen(change(e, t, &d)) == strlen("{\"object\":0,\"key\":\"\"}") + 64);
  d.len = 65;
  check(strlen(change(e, t, &d)) == strlen("{\"object\":0,\"key\":\"\"}") + 65);
  heap_set(h, HEAP_FAIL_EVER, 1); /* the event goes without its details */
  mw_trace_change(e, 1, name(e, "c"), &d);
  heap_set(h, HEAP_GIVE, 0);
  d.len = 64;
  check(mw_trace_len(t) == 8 && mw_trace_lost(t) == 1995);
}

static void changes_have_the_time_of_the_event_before(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 8);
  mw_trace_details d;
  (void)h;
  memset(&d, 0, sizeof(d));
  d.same_time = 1;
  mw_trace_change(e, 1, name(e, "a"), &d); /* with the time of the start */
  check(write_as(e, t, MW_CHROME) == MW_OK && strstr(text, "\"ts\":0.000,"));
  mw_trace_instant(e, 1, name(e, "i"), NULL, 0);
  mw_trace_change(e, 1, name(e, "a"), &d);
  mw_trace_instant(e, 1, name(e, "i"), NULL, 0);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "\"ts\":3.000,\"name\":\"a\""));
  check(strstr(text, "\"ts\":4.500,\"name\":\"i\""));
}

static void clocks_have_their_names(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 8);
  mw_clock c = 0;
  (void)h;
  mw_clock_open(e, "ticks", 5, &c);
  mw_clock_advance(e, c);
  mw_trace_advance(e, 1, name(e, "a"), c);
  mw_clock_advance(e, c);
  mw_clock_open(e, NULL, 0, &c);
  mw_trace_advance(e, 1, name(e, "a"), c);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "{\"clock\":\"ticks\",\"generation\":1}"));
  check(strstr(text, "{\"clock\":\"\",\"generation\":0}"));
}

static void any_name_is_a_string(mw_engine *e, heap *h) {
  static const char bad[] = "</script>\"\\\n\x80\xC3\xA9\xED\xA0\x80";
  mw_trace *t = begin(e, 100);
  char longer[3000];
  (void)h;
  mw_trace_instant(e, 1, mw_trace_name(e, bad, sizeof(bad) - 1, 0), NULL, 0);
  memset(longer, 'x', sizeof(longer));
  mw_trace_instant(e, 1, mw_trace_name(e, longer, sizeof(longer), 0), NULL, 0);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text,
               "\"\\u003c/script>\\\"\\\\\\u000a\\ufffd\xC3\xA9"
               "\\ufffd\\ufffd\\ufffd\""));
  check(strchr(text, '<') == NULL && strstr(text, "xxxxxxxxxxxxxxxxxxxxxxxx"));
}

static void says_what_did_not_work(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 100), *none = NULL;
  int i;
  for (i = 0; i < 40; i++) enter(e, (mw_thread)i, "a");
  check(mw_trace_write(e, t, MW_CHROME, "thread", refuse, NULL) == MW_REFUSED);
  for (i = 1; i < 200; i++) {
    heap_set(h, HEAP_FAIL_ONCE, (size_t)i);
    if (write_as(e, t, MW_CHROME) == MW_OK) break;
  }
  check(i > 5 && i < 200 && h->refusals == 0);
  heap_set(h, HEAP_FAIL_EVER, 1);
  check(name(e, "new") == 0 && enter(e, 1, "new") == 0);
  check(mw_trace_begin(e, 1, name(e, "a"), "{}", 2) != 0); /* without args */
  check(mw_trace_open(e, 5, now, NULL, &none) == MW_NOMEM && none == NULL);
  heap_set(h, HEAP_GIVE, 0);
  check(mw_trace_lost(t) == 1 && enter(e, 1, "new") != 0);
  check(mw_trace_open(e, SIZE_MAX, now, NULL, &none) == MW_NOMEM);
}

const test trace_tests[] = {
    {"events are noted only while a trace runs", notes_only_while_running},
    {"a name has one number in a category", names_are_numbered_once},
    {"a full trace keeps the newest events, balanced", keeps_the_newest},
    {"an end ends what began later", an_end_ends_what_began_later},
    {"what is open ends when the trace stops", what_is_open_ends_when_it_stops},
    {"times are microseconds with fractions", times_are_microseconds},
    {"changes have an object, a key, guards and a context",
     changes_have_details},
    {"changes have any keys, in bounded memory", changes_have_any_keys},
    {"a change may have the time of the event before",
     changes_have_the_time_of_the_event_before},
    {"clocks have their names", clocks_have_their_names},
    {"any bytes are names, and come out as JSON", any_name_is_a_string},
    {"a trace without memory or a sink says so", says_what_did_not_work},
    {NULL, NULL}};
