/*
** past_test.c - ages of writes, and moves; ways upwards.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "check.h"

static int kept; /* keys retained */

static void retain(void *ud, const mw_value *key) {
  (void)ud;
  kept += key->type == MW_TSTRING;
}

static void release(void *ud, const mw_value *key) {
  (void)ud;
  kept -= key->type == MW_TSTRING;
}

/* The host's objects. */
static int object[4];

static void begin(mw_engine *e, mw_handle *h, int n) {
  mw_host its;
  memset(&its, 0, sizeof(its));
  its.retain = retain;
  its.release = release;
  kept = 0;
  mw_host_set(e, &its);
  while (n-- > 0) mw_object_identify(e, &object[n], &h[n]);
}

static mw_value key_of(int64_t n) {
  mw_value key;
  key.type = MW_TSTRING;
  key.u.i = n;
  return key;
}

static void write(mw_engine *e, mw_handle obj) {
  mw_change change;
  memset(&change, 0, sizeof(change));
  change.key = key_of(1);
  change.kind = MW_UPDATE;
  mw_write_begin(e, obj, &change);
}

static void knows_ages(mw_engine *e, heap *h) {
  mw_handle obj[2];
  mw_reach reach;
  uint32_t first, second;
  (void)h;
  begin(e, obj, 2);
  mw_object_track(e, obj[0], 1, &reach);
  first = mw_age_end(e);
  check(mw_object_is_older(e, obj[0], first));
  write(e, obj[0]);
  check(!mw_object_is_older(e, obj[0], first));
  second = mw_age_end(e);
  check(second == first + 1);
  check(!mw_object_is_older(e, obj[0], first) &&
        mw_object_is_older(e, obj[0], second));
  mw_clock_advance(e, MW_CLOCK);
  check(mw_object_is_older(e, obj[0], second));
  write(e, obj[0]);
  check(!mw_object_is_older(e, obj[0], second));
  check(mw_object_is_older(e, obj[1], first)); /* never written */
}

static void notes_moves(mw_engine *e, heap *h) {
  mw_handle obj[2];
  const mw_move *moves;
  mw_value key = key_of(5);
  uint64_t number;
  size_t n;
  int i;
  (void)h;
  begin(e, obj, 2);
  mw_move_note(e, obj[0], &key, obj[1]);
  check(!mw_move_is_noted(e) && kept == 0);
  number = mw_move_now(e);
  check(mw_move_since(e, number, &moves, &n) == MW_OK && n == 0);
  mw_move_note(e, obj[0], &key, obj[1]);
  mw_move_note(e, obj[1], &key, MW_NONE);
  check(kept == 2 && mw_move_now(e) == number + 2);
  check(mw_move_since(e, number, &moves, &n) == MW_OK && n == 2);
  check(moves[0].parent == obj[0] && moves[0].former == obj[1] &&
        moves[0].key.u.i == 5 && moves[1].former == MW_NONE);
  check(mw_move_since(e, number + 1, &moves, &n) == MW_OK && n == 1);
  check(mw_move_since(e, number + 3, &moves, &n) == MW_STALE);
  for (i = 0; i < 100; i++) {
    int k;
    number = mw_move_now(e);
    for (k = 0; k < 4096; k++) mw_move_note(e, obj[0], &key, obj[1]);
    check(mw_move_since(e, number, &moves, &n) == MW_OK && n == 4096);
    check(kept <= 2 * 4096);
  }
  mw_move_note(e, obj[0], &key, obj[1]);
  check(kept == 0 && !mw_move_is_noted(e));
  check(mw_move_since(e, number, &moves, &n) == MW_STALE);
  check(mw_move_since(e, number + 4096, &moves, &n) == MW_STALE);
  number = mw_move_now(e);
  check(mw_move_since(e, number, &moves, &n) == MW_OK && n == 0);
}

static void loses_moves_without_memory(mw_engine *e, heap *h) {
  mw_handle obj[2];
  const mw_move *moves;
  mw_value key = key_of(5);
  uint64_t number;
  size_t n;
  int i;
  begin(e, obj, 2);
  number = mw_move_now(e);
  heap_set(h, HEAP_FAIL_EVER, 1);
  mw_move_note(e, obj[0], &key, obj[1]);
  check(mw_move_since(e, number, &moves, &n) == MW_STALE && kept == 0);
  heap_set(h, HEAP_GIVE, 0);
  number = mw_move_now(e);
  mw_move_note(e, obj[0], &key, obj[1]);
  check(mw_move_since(e, number, &moves, &n) == MW_OK && n == 1);
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 0; i < 100; i++) mw_move_note(e, obj[0], &key, obj[1]);
  check(mw_move_since(e, number, &moves, &n) == MW_STALE && kept <= 8);
  heap_set(h, HEAP_GIVE, 0);
}

static void climbs(mw_engine *e, heap *h) {
  mw_handle obj[4], parents[4];
  mw_value keys[4], key;
  mw_reach reach;
  int i;
  (void)h;
  begin(e, obj, 4);
  check(mw_tree_reach(e, obj[0]) == 0);
  mw_root_begin(e, obj[0], &reach);
  check(mw_tree_reach(e, obj[0]) == reach);
  for (i = 0; i < 3; i++) {
    key = key_of(i);
    mw_tree_link(e, reach, obj[i], &key, obj[i + 1]);
  }
  check(mw_tree_stem(e, obj[0], obj[0], parents, keys, 4) == 0);
  check(mw_tree_stem(e, obj[0], obj[3], parents, keys, 4) == 3);
  check(parents[0] == obj[2] && keys[0].u.i == 2 && parents[2] == obj[0] &&
        keys[2].u.i == 0);
  check(mw_tree_stem(e, obj[0], obj[3], parents, keys, 1) == 3);
  check(mw_tree_stem(e, obj[1], obj[3], parents, keys, 4) == 2);
  key = key_of(9);
  mw_tree_link(e, reach, obj[0], &key, obj[2]); /* in two places */
  check(mw_tree_stem(e, obj[0], obj[3], parents, keys, 4) == 1);
  check(mw_tree_parents(e, obj[0], obj[2], parents, keys, 4) == 2);
}

const test past_tests[] = {
    {"a write has an age", knows_ages},
    {"the last moves are known", notes_moves},
    {"without memory moves are lost", loses_moves_without_memory},
    {"a single way is climbed", climbs},
    {NULL, NULL}};
