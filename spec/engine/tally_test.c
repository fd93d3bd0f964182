/*
** tally_test.c - counts of the values seen in each place.
** SPDX-License-Identifier: MIT
*/
#include <stdlib.h>
#include <string.h>

#include "../../engine/tally.h"
#include "check.h"

static mwi_tally_key key_of(uint32_t place, uint64_t key, mwi_tally_kind kind,
                            uint64_t value) {
  mwi_tally_key result;
  memset(&result, 0, sizeof(result));
  result.place = place;
  result.key = key;
  result.key_kind = MWI_TALLY_INTEGER;
  result.kind = (uint16_t)kind;
  result.value = value;
  return result;
}

static mwi_tally_key number_of(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof(bits));
  return key_of(1, 1, MWI_TALLY_FLOAT, bits);
}

/* A block of the test's own, large enough for all tests. */
static mwi_tally *new_tally(uint32_t size) {
  static uint64_t blocks[2][4096];
  static int last;
  last = !last;
  if (mwi_tally_bytes(size) > sizeof(blocks[0])) abort();
  return (mwi_tally *)(void *)blocks[last];
}

static void counts(mw_engine *e, heap *h) {
  mwi_tally *t = new_tally(16);
  mwi_tally_key one = key_of(1, 1, MWI_TALLY_INTEGER, 1), real = number_of(1.0);
  mwi_tally_entry *entry;
  (void)e;
  (void)h;
  mwi_tally_init(t, 16);
  check(!mwi_tally_count(t, &one));
  entry = mwi_tally_add(t, &one);
  check(mwi_tally_count(t, &one) && mwi_tally_count(t, &one) && entry->n == 2);
  check(!mwi_tally_count(t, &real));
  one.place = 2;
  check(!mwi_tally_count(t, &one));
  one.place = 1;
  one.key = 2;
  check(!mwi_tally_count(t, &one));
}

static void moves(mw_engine *e, heap *h) {
  mwi_tally *t = new_tally(16), *larger;
  uint64_t i;
  (void)e;
  (void)h;
  mwi_tally_init(t, 16);
  for (i = 0; i < 16; i++) {
    mwi_tally_key key = key_of((uint32_t)i % 3, i, MWI_TALLY_INTEGER, i * i);
    mwi_tally_add(t, &key);
    check(mwi_tally_count(t, &key));
  }
  larger = new_tally(64);
  mwi_tally_move(larger, 64, t);
  for (i = 0; i < 16; i++) {
    mwi_tally_key key = key_of((uint32_t)i % 3, i, MWI_TALLY_INTEGER, i * i);
    mwi_tally_entry *entry = mwi_tally_find(larger, &key);
    check(entry == mwi_tally_at(larger, (uint32_t)i) && entry->n == 1);
    check(mwi_tally_count(larger, &key) && entry->n == 2);
  }
}

static void takes_ranges(mw_engine *e, heap *h) {
  static const double big = 1e300, counted[] = {5.0, 7.5, 6.0, 1e300};
  mwi_tally *t = new_tally(16);
  mwi_tally_key low = key_of(1, 1, MWI_TALLY_FLOATS, 0), four = number_of(4.0);
  mwi_tally_key none = number_of(strtod("nan", NULL)), key;
  mwi_tally_entry *entry;
  size_t i;
  (void)e;
  (void)h;
  mwi_tally_init(t, 16);
  entry = mwi_tally_add(t, &low);
  entry->low.d = entry->high.d = 5.0;
  mwi_tally_add(t, &four)->n = 0;
  for (i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
    key = number_of(counted[i]);
    check(mwi_tally_count(t, &key) && entry->n == i + 1);
    check(mwi_tally_count(t, &four));
  }
  check(entry->high.d == big);
  key = number_of(4.5);
  check(!mwi_tally_count(t, &key) && !mwi_tally_count(t, &none));
  key = key_of(1, 1, MWI_TALLY_INTEGER, 6);
  check(!mwi_tally_count(t, &key));
}

static void takes_tables(mw_engine *e, heap *h) {
  mwi_tally *t = new_tally(16);
  mwi_tally_key key = key_of(1, 1, MWI_TALLY_TABLE, 0);
  mwi_tally_entry *entry;
  (void)e;
  (void)h;
  mwi_tally_init(t, 16);
  check(mwi_tally_count_table(t, &key, 0) == 0);
  entry = mwi_tally_add(t, &key);
  entry->below = 7;
  entry->low.i = 1;
  entry->high.i = 3;
  check(mwi_tally_count_table(t, &key, 1) == 7 &&
        mwi_tally_count_table(t, &key, 3) == 7);
  check(mwi_tally_count_table(t, &key, 0) == 0 &&
        mwi_tally_count_table(t, &key, 4) == 0);
  check(entry->n == 2);
}

static void meets(mw_engine *e, heap *h) {
  static uint64_t blocks[2][1024];
  static char places[100];
  mwi_tally_met *met = (mwi_tally_met *)(void *)blocks[0];
  size_t i;
  (void)e;
  (void)h;
  mwi_tally_met_init(met, 4);
  for (i = 0; i < sizeof(places); i++) {
    if (mwi_tally_met_full(met)) {
      mwi_tally_met *larger = (mwi_tally_met *)(void *)
          blocks[met == (mwi_tally_met *)(void *)blocks[0]];
      check(mwi_tally_met_bytes(2 * met->size) <= sizeof(blocks[0]));
      mwi_tally_met_move(larger, 2 * met->size, met);
      met = larger;
    }
    check(!mwi_tally_is_met(met, &places[i]) &&
          !mwi_tally_meet(met, &places[i]));
    check(mwi_tally_is_met(met, &places[i / 2]) &&
          mwi_tally_meet(met, &places[i / 2]));
  }
  mwi_tally_met_none(met);
  for (i = 0; i < sizeof(places); i++)
    check(!mwi_tally_is_met(met, &places[i]));
}

const test tally_tests[] = {
    {"a tally counts what it was told of, and nothing else", counts},
    {"a tally can be moved", moves},
    {"a range takes all numbers from one on", takes_ranges},
    {"tables are taken by their lengths", takes_tables},
    {"tables are met once a walk", meets},
    {NULL, NULL},
};
