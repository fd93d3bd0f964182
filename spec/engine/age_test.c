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

static void unlink_field(mw_engine *e, mw_handle parent, int64_t n) {
  mw_value key = key_of(n);
  mw_tree_unlink(e, parent, &key);
}

/* Returns the age of a field that holds an object, 0 if it does not. */
static uint32_t age_of(mw_engine *e, mw_handle root, mw_handle obj, int64_t n) {
  mw_holder its[4];
  uint32_t i, count = mw_tree_parents(e, root, obj, its, 4);
  for (i = 0; i < count; i++)
    if (its[i].parent == root && its[i].key.u.i == n) return its[i].age;
  return 0;
}

static void knows_holders(mw_engine *e, heap *h) {
  mw_handle obj[4];
  mw_holder its[4];
  mw_reach reach;
  uint32_t first;
  (void)h;
  begin(e, obj, 4);
  check(mw_tree_reach(e, obj[0]) == 0);
  mw_root_begin(e, obj[0], &reach);
  check(mw_tree_reach(e, obj[0]) == reach);
  link(e, reach, obj[0], 1, obj[1]);
  first = mw_age_end(e);
  link(e, reach, obj[0], 2, obj[1]);
  check(mw_tree_parents(e, obj[0], obj[1], its, 1) == 2);
  check(mw_tree_parents(e, obj[0], obj[1], its, 4) == 2);
  check(age_of(e, obj[0], obj[1], 1) == first);
  check(age_of(e, obj[0], obj[1], 2) == first + 1);
  link(e, reach, obj[0], 1, obj[1]); /* the same: nothing has moved */
  check(mw_tree_left(e, obj[0], obj[1]) == first);
  check(age_of(e, obj[0], obj[1], 1) == first);
  mw_age_end(e);
  unlink_field(e, obj[0], 1);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 2);
  check(mw_tree_parents(e, obj[0], obj[1], its, 4) == 1);
  mw_age_end(e);
  check(mw_tree_left(e, obj[0], obj[2]) == 0); /* was never there */
  unlink_field(e, obj[0], 2);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 3); /* gone */
  mw_age_end(e);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 3);
  link(e, reach, obj[0], 1, obj[1]);
  check(mw_tree_left(e, obj[0], obj[1]) == first + 4); /* again */
}

/* What is held while it is stored has not left for that. */
static void exchanges_holders(mw_engine *e, heap *h) {
  mw_handle obj[4];
  mw_value hold = {MW_TNIL, {0}}, key = key_of(1);
  mw_reach reach;
  uint32_t first;
  (void)h;
  begin(e, obj, 4);
  mw_root_begin(e, obj[0], &reach);
  link(e, reach, obj[0], 1, obj[1]);
  link(e, reach, obj[0], 2, obj[1]);
  link(e, reach, obj[0], 2, obj[2]);
  first = mw_age_end(e);
  mw_tree_hold(e, 0, obj[0], &key, obj[2]);
  mw_tree_exchange(e, obj[0], &key, &hold, obj[2]);
  mw_tree_drop_hold(e, obj[0]);
  check(age_of(e, obj[0], obj[2], 2) == first);
  check(age_of(e, obj[0], obj[2], 1) == first + 1);
  check(mw_tree_left(e, obj[0], obj[2]) == first);
  check(age_of(e, obj[0], obj[1], 1) == 0);
}

/* A silent root that is heard later is known by its older fields. */
static void keeps_ages_of_silent_roots(mw_engine *e, heap *h) {
  mw_handle obj[2];
  mw_holder its[2];
  mw_reach reach, own;
  uint32_t first;
  (void)h;
  begin(e, obj, 2);
  mw_root_begin_silent(e, obj[0], &reach);
  link(e, reach, obj[0], 1, obj[1]);
  first = mw_age_end(e);
  mw_root_begin(e, obj[0], &own);
  link(e, own, obj[0], 1, obj[1]);
  check(mw_tree_parents(e, obj[0], obj[1], its, 2) == 1);
  check(its[0].age == first);
}

const test age_tests[] = {
    {"a write has an age", knows_ages},
    {"a field has the age in which it came to hold an object", knows_holders},
    {"what is held while it is stored has not left", exchanges_holders},
    {"a root that is heard later keeps its ages", keeps_ages_of_silent_roots},
    {NULL, NULL}};
