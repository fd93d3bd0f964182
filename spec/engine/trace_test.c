/*
** trace_test.c - traces: events, names, and balanced files.
** SPDX-License-Identifier: MIT
*/
#include <stdlib.h>
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

static void count(mw_engine *e, mw_name of, double x) {
  mw_value value = {MW_TFLOAT, {0}};
  value.u.f = x;
  mw_trace_counter(e, 1, of, &value);
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
  mw_name first, in_category, numbers[999];
  char s[8] = "name000";
  int i;
  (void)h;
  begin(e, 1000);
  first = name(e, "a");
  in_category = mw_trace_name(e, "a", 1, name(e, "c"));
  check(first != 0 && first == name(e, "a") && in_category != first);
  check(name(e, "") == name(e, "") && name(e, "") != 0);
  for (i = 0; i < 999; i++) {
    s[4] = (char)('0' + i / 100);
    s[5] = (char)('0' + i / 10 % 10);
    s[6] = (char)('0' + i % 10);
    numbers[i] = name(e, s);
    check(numbers[i] != 0 && numbers[i] == name(e, s));
    check(i == 0 || numbers[i] != numbers[i - 1]);
  }
  check(name(e, "name000") == numbers[0] && name(e, "a") == first);
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
  const mw_value most = {MW_TINTEGER, {INT64_MAX}};
  mw_trace *t = begin(e, 100);
  (void)h;
  mw_trace_instant(e, 1, name(e, "i"), "{\"k\":1}", 7);
  count(e, name(e, "n"), 12);
  count(e, name(e, "n"), -0.1);
  count(e, name(e, "n"), 1e300 * 1e300);
  count(e, name(e, "n"), -1e300 * 1e300);
  mw_trace_counter(e, 1, name(e, "n"), &most);
  check(mw_trace_lost(t) == 0 && written(e, t, "ii Cn Cn Cn Cn Cn "));
  check(strstr(text, "{\"value\":\"inf\"}"));
  check(strstr(text, "{\"value\":\"-inf\"}"));
  check(strstr(text, "{\"value\":9223372036854775807}"));
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
  d.guards++; /* as many as can be said */
  d.context = "[\"here\"]";
  d.context_len = 8;
  d.where = "a.lua:5";
  d.where_len = 7;
  check(changes(e, t, &d,
                "{\"object\":1,\"key\":\"a\",\"guards\":4294967295,"
                "\"context\":[\"here\"],\"where\":\"a.lua:5\"}"));
  d.context = d.where = NULL;
  d.key.type = MW_TABSENT;
  d.guards = 3;
  check(changes(e, t, &d, "{\"guards\":3}"));
  mw_object_forget(e, d.obj);
  d.key.type = MW_TNIL;
  d.guards = 0;
  check(changes(e, t, &d, "{\"object\":1,\"key\":null}"));
  d.obj = MW_NONE;
  check(changes(e, t, &d, "{\"object\":0,\"key\":null}"));
}

static mw_trace_value string_value(const char *s, size_t len) {
  mw_trace_value v;
  memset(&v, 0, sizeof(v));
  v.value.type = MW_TSTRING;
  v.string = s;
  v.len = len;
  return v;
}

static void changes_have_values(mw_engine *e, heap *h) {
  static char x, y, longer[1000];
  mw_trace *t = begin(e, 100);
  mw_trace_details d;
  mw_handle other;
  uint64_t id;
  (void)h;
  memset(&d, 0, sizeof(d));
  mw_object_identify(e, &x, &d.obj);
  mw_object_identify(e, &y, &other);
  d.label = "Hero";
  d.label_len = 4;
  d.key.type = MW_TINTEGER;
  d.key.u.i = 1;
  d.old.value.type = MW_TBOOLEAN;
  d.now.value.type = MW_TFLOAT;
  d.now.value.u.f = 0.1;
  check(!mw_trace_has_object(e, d.obj));
  check(changes(e, t, &d,
                "{\"object\":1,\"name\":\"Hero\",\"key\":1,\"old\":false,"
                "\"new\":0.1}"));
  check(mw_trace_has_object(e, d.obj) && !mw_trace_has_object(e, other));
  d.label = "not read again";
  d.old.value.type = MW_TOBJECT;
  d.old.value.u.i = (int64_t)other;
  d.old.string = "Sword";
  d.old.len = 5;
  d.now = string_value("function", 8);
  d.now.value.type = MW_TOTHER;
  check(changes(e, t, &d,
                "{\"object\":1,\"name\":\"Hero\",\"key\":1,\"old\":"
                "{\"object\":2,\"name\":\"Sword\"},\"new\":"
                "{\"type\":\"function\"}}"));
  memset(longer, 'x', sizeof(longer));
  memcpy(longer + 255, "\xC3\xA9", 2); /* a character is not cut */
  d.old.value.type = MW_TABSENT;
  d.now = string_value(longer, sizeof(longer));
  check(strstr(change(e, t, &d), "xx\xE2\x80\xA6 (1000 bytes)\"}"));
  d.now = string_value(longer, 255);
  id = mw_trace_change(e, 1, name(e, "c"), &d);
  mw_trace_heard(e, id, 2, "[1]", 3);
  mw_trace_heard(e, id, 1, "[2]", 3);
  mw_trace_heard(e, id + 1, 1, NULL, 0);
  mw_trace_heard(e, 0, 1, NULL, 0);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "xxx\",\"guards\":3,\"context\":[1]}"));
  check(mw_verify(e) == MW_OK);
}

static mw_name numbered(mw_engine *e, int i) {
  char s[16] = "name 00000000";
  int at;
  for (at = 12; i > 0; i /= 10) s[at--] = (char)('0' + i % 10);
  return name(e, s);
}

static void names_are_forgotten(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 10);
  mw_name first = name(e, "first"), in, kept = name(e, "kept");
  uint64_t open;
  size_t had = 0;
  int i;
  in = mw_trace_name(e, "in", 2, mw_trace_name(e, "c", 1, kept));
  open = mw_trace_begin(e, 1, in, NULL, 0);
  for (i = 1; i <= 5000; i++) {
    if (i == 1000) had = h->bytes;
    if (i % 3 == 0) leave(e, open); /* the newest begin stays in the ring */
    if (i % 3 == 0) open = mw_trace_begin(e, 1, in, NULL, 0);
    check(mw_trace_has_name(e, in) && mw_trace_has_name(e, kept));
    leave(e, mw_trace_begin(e, 1, numbered(e, i), NULL, 0));
    if (i % 50 == 0) check(mw_verify(e) == MW_OK);
  }
  check(h->bytes < had + 4000);
  check(!mw_trace_has_name(e, first) && name(e, "first") != first);
  check(mw_trace_lost(t) + mw_trace_len(t) == 1 + 5000 * 2 + 2 * 1666);
  check(mw_trace_begin(e, 1, first, NULL, 0) == 0);
  check(mw_trace_name(e, "x", 1, first) == 0);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "\"name\":\"in\",\"cat\":\"c\"}"));
}

static void objects_and_values_are_forgotten(mw_engine *e, heap *h) {
  static char x[3000];
  mw_trace *t = begin(e, 10);
  mw_trace_details d;
  size_t had = 0;
  int i, round;
  memset(&d, 0, sizeof(d));
  d.label = "a label that is longer than a number";
  d.label_len = strlen(d.label);
  for (i = 0; i < 3000; i++) {
    mw_handle obj;
    uint64_t serial;
    mw_object_identify(e, &x[i], &obj);
    mw_object_serial(e, obj, &serial);
  }
  for (round = 0; round < 2; round++) {
    for (i = 0; i < 3000; i++) {
      char s[4] = {(char)(i & 127), (char)(i >> 7), (char)round, 'x'};
      mw_object_identify(e, &x[i], &d.obj);
      d.now = string_value(s, 4);
      d.where = s;
      d.where_len = 3;
      check(mw_trace_change(e, 1, name(e, "c"), &d) != 0);
      if (i % 100 == 0) check(mw_verify(e) == MW_OK);
    }
    if (round == 0) had = h->bytes;
  }
  check(h->bytes < had + 1000);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "\"object\":3000,\"name\":\"a label that"));
}

/* A number is good in its trace only. */
static void other_numbers_are_refused(mw_engine *e, heap *h) {
  mw_trace *first = begin(e, 10), *t;
  mw_name old = 0, category;
  int i;
  (void)h;
  for (i = 0; i < 500; i++) old = numbered(e, i);
  check(mw_trace_begin(e, 1, old, NULL, 0) != 0);
  mw_trace_close(e, first);
  check(mw_trace_name(e, "x", 1, old) == 0);
  t = begin(e, 10);
  check(mw_trace_name(e, "x", 1, old) == 0); /* there is no name at all */
  category = name(e, "a");
  check(mw_trace_name(e, "x", 1, old) == 0 && !mw_trace_has_name(e, old));
  check(mw_trace_name(e, "x", 1, category ^ (mw_name)1 << 40) == 0);
  check(mw_trace_name(e, "x", 1, UINT64_MAX) == 0);
  check(mw_trace_begin(e, 1, old, NULL, 0) == 0);
  check(mw_trace_begin(e, 1, (mw_name)1, NULL, 0) == 0);
  mw_trace_instant(e, 1, old, NULL, 0);
  count(e, old, 1);
  count(e, UINT64_MAX, 1);
  check(mw_trace_lost(t) == 5 && mw_trace_len(t) == 0);
  check(mw_verify(e) == MW_OK);
}

static void a_trace_is_cleared(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 4);
  mw_name a = name(e, "a");
  uint64_t open = mw_trace_begin(e, 1, a, "{\"k\":1}", 7);
  int i;
  (void)h;
  for (i = 0; i < 10; i++) mw_trace_instant(e, 1, a, "{}", 2);
  mw_trace_clear(e, t);
  check(mw_trace_len(t) == 0 && mw_trace_lost(t) == 0);
  check(!mw_trace_has_name(e, a) && mw_verify(e) == MW_OK);
  check(enter(e, 1, "b") != open);
  leave(e, open); /* began before */
  check(written(e, t, "Bb Eb ") && strstr(text, "\"ts\":1.500,"));
  mw_trace_stop(e, t);
  mw_trace_clear(e, t);
  check(written(e, t, ""));
  check(mw_trace_start(e, t) == MW_OK);
  enter(e, 1, "c");
  check(written(e, t, "Bc Ec ") && strstr(text, "\"ts\":1.500,"));
  mw_trace_clear(e, t);
  mw_trace_close(e, t);
}

static const char *number(mw_engine *e, mw_trace *t, double x) {
  static char value[64];
  const char *from;
  mw_trace_clear(e, t);
  count(e, name(e, "n"), x);
  if (write_as(e, t, MW_CHROME) != MW_OK) return "";
  from = strstr(text, "{\"value\":") + 9;
  memcpy(value, from, strcspn(from, "}"));
  value[strcspn(from, "}")] = '\0';
  return value;
}

static int is_exact(mw_engine *e, mw_trace *t, double x) {
  return strtod(number(e, t, x), NULL) == x;
}

static void floats_are_exact(mw_engine *e, heap *h) {
  static const double some[] = {0.1,
                                0.3,
                                1e300,
                                1e-300,
                                5e-324,
                                1.7976931348623157e308,
                                1e15,
                                1e16,
                                1e17,
                                1e22,
                                1e23,
                                9007199254740993.0,
                                2.5e-8,
                                1 / 3.0,
                                123.25,
                                1e-5,
                                2.2250738585072014e-308,
                                4.35,
                                9.5e-7,
                                99999999999999999.0};
  mw_trace *t = begin(e, 10);
  uint64_t bits = 88172645463325252u;
  size_t i;
  double x;
  (void)h;
  for (i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
    check(is_exact(e, t, some[i]) && is_exact(e, t, -some[i]));
    check(is_exact(e, t, some[i] * 0.3));
  }
  for (i = 0; i < 3000; i++) { /* the same in each run */
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    memcpy(&x, &bits, sizeof(x));
    if (x - x == 0) check(is_exact(e, t, x));
    x = (double)bits / 1e12;
    check(is_exact(e, t, x));
  }
  check(strcmp(number(e, t, 0.1), "0.1") == 0);
  check(strcmp(number(e, t, 0.30000000000000004), "0.30000000000000004") == 0);
  check(strcmp(number(e, t, 1e300), "1e300") == 0);
  check(strcmp(number(e, t, -2.5), "-2.5") == 0);
  check(strcmp(number(e, t, 1234567890123456.0), "1234567890123456") == 0);
  check(strcmp(number(e, t, 1.5e-7), "0.00000015") == 0);
  check(strcmp(number(e, t, -0.0), "-0.0") == 0);
}

static void changes_have_any_keys(mw_engine *e, heap *h) {
  mw_trace *t = begin(e, 8);
  mw_trace_details d;
  char key[1025];
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
  d.len = 1024;
  check(strlen(change(e, t, &d)) ==
        strlen("{\"object\":0,\"key\":\"\"}") + 1024);
  d.len = 1025;
  check(strstr(change(e, t, &d), "xx\xE2\x80\xA6 (1025 bytes)\"}"));
  d.string = "another key";
  d.len = 11;
  heap_set(h, HEAP_FAIL_EVER, 1); /* the event says so */
  mw_trace_change(e, 1, name(e, "c"), &d);
  heap_set(h, HEAP_GIVE, 0);
  check(write_as(e, t, MW_CHROME) == MW_OK);
  check(strstr(text, "\"key\":{\"lost\":\"no memory\"}}"));
  check(mw_trace_len(t) == 8 && mw_trace_lost(t) == 1995);
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
  check(mw_trace_begin(e, 1, name(e, "a"), "{}", 2) != 0); /* with a note */
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
    {"changes have the values before and after", changes_have_values},
    {"a trace forgets the names of events it has lost", names_are_forgotten},
    {"a trace forgets objects and values", objects_and_values_are_forgotten},
    {"numbers of other traces are no names", other_numbers_are_refused},
    {"a trace is cleared", a_trace_is_cleared},
    {"floats are written with the digits they need", floats_are_exact},
    {"changes have any keys, in bounded memory", changes_have_any_keys},
    {"clocks have their names", clocks_have_their_names},
    {"any bytes are names, and come out as JSON", any_name_is_a_string},
    {"a trace without memory or a sink says so", says_what_did_not_work},
    {NULL, NULL}};
