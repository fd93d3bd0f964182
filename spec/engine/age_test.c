/*
** age_test.c - ages of writes, and of the fields that hold an object.
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

static void link(mw_engine *e, mw_reach reach, mw_handle parent, int64_t n,
                 mw_handle child) {
  mw_value key = key_of(n);
  check(mw_tree_link(e, reach, parent, &key, child) >= 0);
}

static void unlink_field(mw_engine *e, mw_handle parent, int64_t n,
                         mw_handle child) {
  mw_value key = key_of(n);
  mw_tree_unlink(e, parent, &key, child);
}

/* How many fields of the root hold an object, under field `n` since that age,
** others since `others` at the latest? */
static int is_held(mw_engine *e, mw_handle root, mw_handle obj, uint32_t count,
                   int64_t n, uint32_t age, uint32_t others) {
  mw_holder its;
  return mw_tree_parents(e, root, obj, &its, 1) == 1 && its.parent == root &&
         its.count == count && its.key.u.i == n && its.age == age &&
         (count == 1 || its.others == others);
}

static void begin_root(mw_engine *e, mw_handle root) {
  mw_value key;
  mw_tree_scan(e, root, &key);
  mw_tree_scanned(e, root);
}

static void knows_holders(mw_engine *e, heap *h) {
  mw_handle obj[4];
  mw_reach reach;
  uint32_t first;
  (void)h;
  begin(e, obj, 4);
  check(mw_tree_reach(e, obj[0]) == 0);
  mw_root_begin(e, obj[0], &reach);
  begin_root(e, obj[0]);
  check(mw_tree_reach(e, obj[0]) == reach);
  link(e, reach, obj[0], 1, obj[1]);
  first = mw_age_end(e);
  check(is_held(e, obj[0], obj[1], 1, 1, first, 0));
  link(e, reach, obj[0], 2, obj[1]);
  check(is_held(e, obj[0], obj[1], 2, 1, first, first + 1));
  check(mw_tree_left(e, obj[0], obj[1]) == first);
  mw_age_end(e);
  unlink_field(e, obj[0], 1, obj[1]);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 2);
  check(is_held(e, obj[0], obj[1], 1, 1, first + 1, 0));
  mw_age_end(e);
  check(mw_tree_left(e, obj[0], obj[2]) == 0); /* was never there */
  unlink_field(e, obj[0], 2, obj[1]);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 3); /* gone */
  mw_age_end(e);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 3);
  link(e, reach, obj[0], 1, obj[1]);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 4); /* again */
}

/* A silent root that is heard later is known by its older fields. */
static void keeps_ages_of_silent_roots(mw_engine *e, heap *h) {
  mw_handle obj[2];
  mw_reach reach, own;
  uint32_t first;
  (void)h;
  begin(e, obj, 2);
  mw_root_begin_silent(e, obj[0], &reach);
  begin_root(e, obj[0]);
  link(e, reach, obj[0], 1, obj[1]);
  first = mw_age_end(e);
  mw_root_begin(e, obj[0], &own);
  check(is_held(e, obj[0], obj[1], 1, 1, first, 0));
}

const test age_tests[] = {
    {"a write has an age", knows_ages},
    {"an edge has the ages of its fields", knows_holders},
    {"a root that is heard later keeps its ages", keeps_ages_of_silent_roots},
    {NULL, NULL}};
