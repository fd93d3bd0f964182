/*
** memory_test.c - running out of memory, at each allocation in turn.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "check.h"

#define N 700

static char places[N];

/* Calls a function of each part; returns the first code that is not MW_OK. */
static int everything(mw_engine *e) {
  mw_clock c;
  size_t i;
  int code = mw_clock_open(e, "name", 4, &c);
  for (i = 0; i < N && code == MW_OK; i++) {
    mw_handle h;
    uint64_t serial;
    code = mw_object_identify(e, &places[i], &h);
    if (code == MW_OK) code = mw_clock_tag(e, c, h);
    if (code == MW_OK) code = mw_object_serial(e, h, &serial);
  }
  return code;
}

/* After `everything` has gone well. */
static int is_right(mw_engine *e) {
  mw_clock c;
  uint64_t serial;
  size_t i;
  if (mw_object_count(e) != N) return 0;
  mw_clock_open(e, "name", 4, &c);
  for (i = 0; i < N; i++) {
    mw_handle h = mw_object_find(e, &places[i]);
    if (mw_clock_generation(e, c, h) != 0) return 0;
    if (mw_object_serial(e, h, &serial) != MW_OK || serial != i + 1) return 0;
    if (mw_serial_object(e, serial) != h) return 0;
  }
  return 1;
}

static void each_once(mw_engine *e, heap *h, heap_mode mode) {
  size_t n, refusals = 1;
  for (n = 1; refusals > 0; n++) {
    heap mine;
    mw_engine *other;
    int code;
    memset(&mine, 0, sizeof(mine));
    heap_set(&mine, mode, n);
    other = mw_engine_open(heap_alloc, &mine);
    code = (other == NULL) ? MW_NOMEM : everything(other);
    refusals = mine.refusals;
    heap_set(&mine, HEAP_GIVE, 0);
    check(code == ((refusals > 0) ? MW_NOMEM : MW_OK));
    if (other != NULL) check(everything(other) == MW_OK && is_right(other));
    mw_engine_close(other);
    check(mine.blocks == 0 && mine.errors == 0);
  }
  check(n > 100);
  (void)e;
  (void)h;
}

static void once(mw_engine *e, heap *h) { each_once(e, h, HEAP_FAIL_ONCE); }

static void ever(mw_engine *e, heap *h) { each_once(e, h, HEAP_FAIL_EVER); }

static mw_memory memory_of(mw_engine *e) {
  mw_memory m;
  memset(&m, 0, sizeof(m));
  m.size = sizeof(m);
  mw_memory_info(e, &m);
  return m;
}

static int64_t now(void *ud) {
  (void)ud;
  return 1;
}

/* An owner with entries, and a reader who has not read others. */
static int write_journal(mw_engine *e, mw_handle h) {
  mw_owner owner = mw_owner_begin(e, 0, 0);
  mw_entry entry;
  int i;
  memset(&entry, 0, sizeof(entry));
  entry.obj = h;
  entry.kind = MW_UPDATE;
  if (mw_reader_open(e, 1000, 0) == 0) return 0;
  for (i = 0; i < 2000; i++) {
    entry.value[MW_KEY].i = i;
    entry.type[MW_KEY] = MW_TINTEGER;
    if (mw_journal_append(e, (i < 1000) ? 0 : owner, &entry, NULL, NULL) !=
        MW_OK)
      return 0;
  }
  return 1;
}

static int watch_fields(mw_engine *e, mw_handle h, mw_handle guard) {
  mw_watch_options its;
  mw_watch_id id;
  mw_reach reach;
  mw_value keys[100];
  int i;
  memset(&its, 0, sizeof(its));
  memset(keys, 0, sizeof(keys));
  for (i = 0; i < 100; i++) {
    keys[i].type = MW_TINTEGER;
    keys[i].u.i = i;
  }
  its.flags = MW_FLAG;
  its.guard = guard;
  its.keys = keys;
  its.n_keys = 100;
  return mw_watch_begin(e, h, &its, &id) == MW_OK &&
         mw_root_begin(e, h, &reach) == MW_NEW;
}

/* Each part has what it takes, and no more. */
static void by_part(mw_engine *e, heap *h) {
  mw_memory before = memory_of(e), after;
  mw_handle one = MW_NONE, other = MW_NONE;
  mw_hierarchy scopes = 0;
  mw_trace *t = NULL;
  check(before.objects > 0 && before.journal == 0 && before.traces == 0);
  check(everything(e) == MW_OK);
  after = memory_of(e);
  check(after.objects > before.objects + N * 16);
  check(after.total - before.total == after.objects - before.objects);
  one = mw_object_find(e, &places[0]);
  other = mw_object_find(e, &places[1]);
  before = after;
  check(watch_fields(e, one, other));
  after = memory_of(e);
  check(after.watches > before.watches && after.journal == before.journal);
  check(write_journal(e, one));
  check(memory_of(e).journal > 1500 * sizeof(mw_entry));
  check(mw_hierarchy_open(e, &scopes) == MW_OK);
  check(mw_hierarchy_enter(e, scopes, MW_NONE, one, 1) == MW_OK);
  check(memory_of(e).names > 0 && memory_of(e).traces == 0);
  check(mw_trace_open(e, 100, now, NULL, &t) == MW_OK);
  check(mw_trace_start(e, t) == MW_OK);
  before = memory_of(e);
  mw_trace_instant(e, 1, mw_trace_name(e, "name", 4, 0), "{\"x\":1}", 7);
  after = memory_of(e);
  check(after.traces - before.traces == after.total - before.total);
  check(after.traces >= before.traces + 11);
  check(is_accounted(e, h));
}

static void closes_null(mw_engine *e, heap *h) {
  (void)e;
  (void)h;
  mw_engine_close(NULL);
}

const test memory_tests[] = {
    {"any allocation may fail, and the engine goes on afterwards", once},
    {"memory may run out for good at any allocation", ever},
    {"each part says what it has allocated", by_part},
    {"closing nothing is fine", closes_null},
    {NULL, NULL}};
