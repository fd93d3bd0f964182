/*
** journal_test.c - entries are appended, and old values restored.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "check.h"

/* The host: objects with ten fields each. */
static struct {
  mw_engine *e;
  int64_t objects[4][10];
  mw_handle handles[4];
  int kept[8]; /* how often each string is retained */
} host;

static void restore(void *ud, const mw_entry *entry, void *its) {
  int i;
  (void)ud;
  for (i = 0; i < 4; i++)
    if (host.handles[i] == entry->obj)
      host.objects[i][entry->value[MW_KEY].i] = entry->value[MW_OLD].i;
  ++*(int *)its;
}

static void retain(void *ud, const mw_value *value) {
  (void)ud;
  host.kept[value->u.i]++;
}

static void release(void *ud, const mw_value *value) {
  (void)ud;
  host.kept[value->u.i]--;
}

static void begin(mw_engine *e) {
  mw_host its;
  int i;
  memset(&host, 0, sizeof(host));
  memset(&its, 0, sizeof(its));
  its.retain = retain;
  its.release = release;
  its.restore = restore;
  host.e = e;
  mw_host_set(e, &its);
  for (i = 0; i < 4; i++)
    mw_object_identify(e, host.objects[i], &host.handles[i]);
}

static int write_as(int i, int key, int64_t value, int type) {
  mw_entry entry;
  int code;
  memset(&entry, 0, sizeof(entry));
  entry.obj = host.handles[i];
  entry.type[MW_KEY] = MW_TINTEGER;
  entry.type[MW_OLD] = entry.type[MW_NOW] = (uint8_t)type;
  entry.value[MW_KEY].i = key;
  entry.value[MW_OLD].i = host.objects[i][key];
  entry.value[MW_NOW].i = value;
  entry.kind = MW_UPDATE;
  code = mw_journal_append(host.e, &entry);
  if (code == MW_OK) host.objects[i][key] = value;
  return code;
}

static int write(int i, int key, int64_t value) {
  return write_as(i, key, value, MW_TINTEGER);
}

static void notes_only_while_recorded(mw_engine *e, heap *h) {
  size_t n, mark;
  (void)h;
  begin(e);
  check(!mw_journal_is_open(e) && write(0, 1, 5) == MW_OK);
  check(mw_journal_entries(e, 0, &n) == NULL && n == 0);
  mark = mw_journal_open(e);
  check(mw_journal_is_open(e) && mark == 0);
  check(write(0, 1, 6) == MW_OK && write(1, 2, 7) == MW_OK);
  check(mw_journal_entries(e, mark, &n)[1].value[MW_NOW].i == 7 && n == 2);
  check(mw_journal_entries(e, 1, &n)[0].obj == host.handles[1] && n == 1);
  mw_journal_close(e);
  check(!mw_journal_is_open(e) && mw_journal_entries(e, 0, &n) == NULL &&
        n == 0);
}

static void rewinds_the_last_first(mw_engine *e, heap *h) {
  size_t mark, n;
  int restored = 0, i;
  (void)h;
  begin(e);
  mark = mw_journal_open(e);
  for (i = 1; i <= 20; i++) check(write(i % 4, i % 3, i) == MW_OK);
  mw_journal_rewind(e, mark, &restored);
  check(restored == 20);
  for (i = 0; i < 40; i++) check(host.objects[i / 10][i % 10] == 0);
  mw_journal_entries(e, mark, &n);
  check(n == 20);
  mw_journal_retract(e, mark, n);
  mw_journal_entries(e, mark, &n);
  check(n == 0);
  mw_journal_close(e);
}

static void nests(mw_engine *e, heap *h) {
  size_t outer, inner, n;
  int restored = 0;
  (void)h;
  begin(e);
  outer = mw_journal_open(e);
  write(0, 0, 1);
  inner = mw_journal_open(e);
  write(0, 0, 2);
  write(0, 1, 3);
  mw_journal_rewind(e, inner, &restored);
  check(restored == 2 && host.objects[0][0] == 1 && host.objects[0][1] == 0);
  write(2, 2, 9); /* a guard of the restored write has written */
  mw_journal_retract(e, inner, 2);
  mw_journal_close(e);
  check(mw_journal_entries(e, outer, &n)[0].value[MW_NOW].i == 1 && n == 4);
  check(mw_journal_entries(e, outer, &n)[2].obj == MW_NONE);
  mw_journal_rewind(e, outer, &restored);
  check(restored == 4 && host.objects[0][0] == 0 && host.objects[2][2] == 0);
  mw_journal_close(e);
}

static void leaves_the_dead_alone(mw_engine *e, heap *h) {
  size_t mark;
  int restored = 0;
  (void)h;
  begin(e);
  mark = mw_journal_open(e);
  write(0, 0, 1);
  write(1, 0, 1);
  mw_object_forget(e, host.handles[0]);
  mw_journal_rewind(e, mark, &restored);
  check(restored == 1 && host.objects[0][0] == 1 && host.objects[1][0] == 0);
  mw_journal_close(e);
}

static void keeps_strings_as_long_as_their_entries(mw_engine *e, heap *h) {
  size_t mark;
  (void)h;
  begin(e);
  host.objects[0][0] = 1;
  mw_journal_open(e);
  write_as(0, 0, 2, MW_TSTRING);
  mark = mw_journal_open(e);
  write_as(0, 0, 3, MW_TSTRING);
  check(host.kept[1] == 1 && host.kept[2] == 2 && host.kept[3] == 1);
  mw_journal_retract(e, mark, 1);
  check(host.kept[2] == 1 && host.kept[3] == 0);
  mw_journal_close(e);
  mw_journal_close(e);
  check(host.kept[1] == 0 && host.kept[2] == 0);
}

static void notes_nothing_without_memory(mw_engine *e, heap *h) {
  size_t n;
  int i, code = MW_OK;
  begin(e);
  mw_journal_open(e);
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 0; i < 1000 && code == MW_OK; i++) code = write(0, 0, i + 1);
  check(code == MW_NOMEM && mw_journal_reserve(e) == MW_NOMEM);
  mw_journal_entries(e, 0, &n);
  check(n == (size_t)i - 1 && host.objects[0][0] == (int64_t)n);
  heap_set(h, HEAP_GIVE, 0);
  check(mw_journal_reserve(e) == MW_OK);
  mw_journal_close(e);
}

static void tracks(mw_engine *e, heap *h) {
  mw_handle obj;
  mw_reach reach;
  (void)h;
  begin(e);
  obj = host.handles[0];
  check(!mw_object_is_tracked(e, obj) && mw_object_untrack(e, obj) == MW_STALE);
  check(mw_object_track(e, obj, 0, &reach) == MW_OK &&
        mw_object_is_tracked(e, obj));
  check(!mw_object_is_watched(e, obj) && !mw_tree_has(e, obj));
  check(mw_object_track(e, obj, 1, &reach) == MW_NEW && mw_tree_has(e, obj));
  check(!mw_object_is_watched(e, obj) && mw_object_unwatch(e, obj) == MW_OK);
  check(mw_object_is_tracked(e, obj) && mw_tree_has(e, obj));
  check(mw_object_untrack(e, obj) == MW_OK && !mw_tree_has(e, obj));
  check(mw_object_track(e, MW_NONE, 0, &reach) == MW_STALE);
}

const test journal_tests[] = {
    {"the journal notes only while it is recorded", notes_only_while_recorded},
    {"the journal is rewound from its end", rewinds_the_last_first},
    {"those who record are nested", nests},
    {"objects that are gone are not restored", leaves_the_dead_alone},
    {"strings are kept as long as their entries",
     keeps_strings_as_long_as_their_entries},
    {"without memory nothing is noted", notes_nothing_without_memory},
    {"an object can be tracked without being watched", tracks},
    {NULL, NULL}};
