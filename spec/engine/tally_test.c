/*
** tally_test.c - what was seen where, counted.
** SPDX-License-Identifier: MIT
*/
#include <stdlib.h>
#include <string.h>

#include "../../engine/tally.h"
#include "check.h"

static mwY_key key_of(uint32_t place, uint64_t key, mwY_kind kind,
                      uint64_t value) {
  mwY_key result;
  memset(&result, 0, sizeof(result));
  result.place = place;
  result.key = key;
  result.key_kind = MWT_INTEGER;
  result.kind = (uint16_t)kind;
  result.value = value;
  return result;
}

static mwY_key number_of(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof(bits));
  return key_of(1, 1, MWT_FLOAT, bits);
}

/* A block of the test's own, large enough for all tests. */
static mwY_tally *new_tally(uint32_t size) {
  static uint64_t blocks[2][4096];
  static int last;
  last = !last;
  if (mwY_bytes(size) > sizeof(blocks[0])) abort();
  return (mwY_tally *)(void *)blocks[last];
}

static void counts(mw_engine *e, heap *h) {
  mwY_tally *t = new_tally(16);
  mwY_key one = key_of(1, 1, MWT_INTEGER, 1), real = number_of(1.0);
  mwY_entry *entry;
  (void)e;
  (void)h;
  mwY_init(t, 16);
  check(!mwY_count(t, &one));
  entry = mwY_add(t, &one);
  check(mwY_count(t, &one) && mwY_count(t, &one) && entry->n == 2);
  check(!mwY_count(t, &real));
  one.place = 2;
  check(!mwY_count(t, &one));
  one.place = 1;
  one.key = 2;
  check(!mwY_count(t, &one));
}

static void moves(mw_engine *e, heap *h) {
  mwY_tally *t = new_tally(16), *larger;
  uint64_t i;
  (void)e;
  (void)h;
  mwY_init(t, 16);
  for (i = 0; i < 16; i++) {
    mwY_key key = key_of((uint32_t)i % 3, i, MWT_INTEGER, i * i);
    mwY_add(t, &key);
    check(mwY_count(t, &key));
  }
  larger = new_tally(64);
  mwY_move(larger, 64, t);
  for (i = 0; i < 16; i++) {
    mwY_key key = key_of((uint32_t)i % 3, i, MWT_INTEGER, i * i);
    mwY_entry *entry = mwY_find(larger, &key);
    check(entry == mwY_at(larger, (uint32_t)i) && entry->n == 1);
    check(mwY_count(larger, &key) && entry->n == 2);
  }
}

static void takes_ranges(mw_engine *e, heap *h) {
  static const double counted[] = {5.0, 7.5, 6.0, 1e300};
  mwY_tally *t = new_tally(16);
  mwY_key low = key_of(1, 1, MWT_FLOATS, 0), four = number_of(4.0);
  mwY_key none = number_of(strtod("nan", NULL)), key;
  mwY_entry *entry;
  size_t i;
  (void)e;
  (void)h;
  mwY_init(t, 16);
  entry = mwY_add(t, &low);
  entry->low.d = entry->high.d = 5.0;
  mwY_add(t, &four)->n = 0;
  for (i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
    key = number_of(counted[i]);
    check(mwY_count(t, &key) && entry->n == i + 1);
    check(mwY_count(t, &four));
  }
  check(entry->high.d == 1e300);
  key = number_of(4.5);
  check(!mwY_count(t, &key) && !mwY_count(t, &none));
  key = key_of(1, 1, MWT_INTEGER, 6);
  check(!mwY_count(t, &key));
}

static void takes_tables(mw_engine *e, heap *h) {
  mwY_tally *t = new_tally(16);
  mwY_key key = key_of(1, 1, MWT_TABLE, 0);
  mwY_entry *entry;
  (void)e;
  (void)h;
  mwY_init(t, 16);
  check(mwY_counttable(t, &key, 0) == 0);
  entry = mwY_add(t, &key);
  entry->below = 7;
  entry->low.i = 1;
  entry->high.i = 3;
  check(mwY_counttable(t, &key, 1) == 7 && mwY_counttable(t, &key, 3) == 7);
  check(mwY_counttable(t, &key, 0) == 0 && mwY_counttable(t, &key, 4) == 0);
  check(entry->n == 2);
}

static void meets(mw_engine *e, heap *h) {
  static uint64_t blocks[2][1024];
  static char places[100];
  mwY_met *met = (mwY_met *)(void *)blocks[0];
  size_t i;
  (void)e;
  (void)h;
  mwY_metinit(met, 4);
  for (i = 0; i < sizeof(places); i++) {
    if (mwY_metfull(met)) {
      mwY_met *larger =
          (mwY_met *)(void *)blocks[met == (mwY_met *)(void *)blocks[0]];
      check(mwY_metbytes(2 * met->size) <= sizeof(blocks[0]));
      mwY_metmove(larger, 2 * met->size, met);
      met = larger;
    }
    check(!mwY_ismet(met, &places[i]) && !mwY_meet(met, &places[i]));
    check(mwY_ismet(met, &places[i / 2]) && mwY_meet(met, &places[i / 2]));
  }
  mwY_metnone(met);
  for (i = 0; i < sizeof(places); i++) check(!mwY_ismet(met, &places[i]));
}

const test tally_tests[] = {
    {"a tally counts what it was told of, and nothing else", counts},
    {"a tally can be moved", moves},
    {"a range takes all numbers from one on", takes_ranges},
    {"tables are taken by their lengths", takes_tables},
    {"tables are met once a walk", meets},
    {NULL, NULL},
};
