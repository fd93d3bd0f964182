/*
** table_test.c - the hash table, beside a plain array that says what is in it.
** SPDX-License-Identifier: MIT
*/
#include "../../engine/engine.h"
#include "check.h"

#define NUMBERS 200u

/* Few hashes, so that many numbers share one; some differ in high bits only. */
static uint32_t hash_of(uint32_t number) { return number % 7 << (number % 3); }

static int has(const mwi_table *t, uint32_t hash, uint32_t number) {
  mwi_search at;
  uint32_t i = mwi_table_first(t, hash, &at);
  while (i != 0 && i != number) i = mwi_table_next(t, &at);
  return i != 0;
}

static int agrees(const mwi_table *t, const char *is_in) {
  uint32_t i, n = 0, listed = 0;
  for (i = 1; i <= NUMBERS; i++) {
    n += is_in[i] != 0;
    if (has(t, hash_of(i), i) != is_in[i]) return 0;
  }
  for (i = 0; i < t->n_buckets; i++) {
    uint32_t number = mwi_table_at(t, i);
    if (number == 0) continue;
    if (!is_in[number]) return 0;
    listed++;
  }
  return n == listed && n == t->size;
}

static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static void holds_what_was_put(mw_engine *e, heap *h) {
  mwi_table t = {0, 0, 0, 0, NULL, NULL, NULL};
  char is_in[NUMBERS + 1] = {0};
  uint32_t seed = 42, i;
  (void)h;
  check(agrees(&t, is_in));
  for (i = 0; i < 5000; i++) {
    uint32_t number = next_random(&seed) % NUMBERS + 1;
    if (is_in[number])
      mwi_table_take(&t, hash_of(number), number);
    else
      check(mwi_table_put(e, &t, hash_of(number), number));
    is_in[number] = !is_in[number];
    if (i % 50 == 0) check(agrees(&t, is_in));
  }
  check(agrees(&t, is_in));
  mwi_table_empty(&t);
  check(t.size == 0 && !has(&t, hash_of(1), 1));
  mwi_table_drop(e, &t);
  check(t.keys == NULL && t.flags == NULL);
}

static void replaces_without_memory(mw_engine *e, heap *h) {
  mwi_table t = {0, 0, 0, 0, NULL, NULL, NULL};
  uint32_t i;
  check(mwi_table_put(e, &t, 5, 1) && mwi_table_put(e, &t, 5, 2));
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 3; i < 100; i++) mwi_table_replace(&t, 5, i - 1, i);
  heap_set(h, HEAP_GIVE, 0);
  check(t.size == 2 && has(&t, 5, 1) && has(&t, 5, 99) && !has(&t, 5, 98));
  mwi_table_drop(e, &t);
}

static void needs_no_memory_for_what_is_reserved(mw_engine *e, heap *h) {
  mwi_table t = {0, 0, 0, 0, NULL, NULL, NULL};
  uint32_t i, round;
  for (round = 0; round < 20; round++) { /* what was taken out is in the way */
    check(mwi_table_reserve(e, &t, 50));
    heap_set(h, HEAP_FAIL_EVER, 1);
    for (i = 1; i <= 50; i++) check(mwi_table_put(e, &t, i * round, i));
    for (i = 1; i <= 50; i++) mwi_table_take(&t, i * round, i);
    heap_set(h, HEAP_GIVE, 0);
  }
  check(t.n_buckets <= 128);
  heap_set(h, HEAP_FAIL_EVER, 1);
  check(!mwi_table_reserve(e, &t, 1000) && t.size == 0);
  heap_set(h, HEAP_GIVE, 0);
  mwi_table_drop(e, &t);
}

static void is_made_in_lent_memory(mw_engine *e, heap *h) {
  static uint64_t room[600];
  uint32_t n, i;
  check(mwi_table_room(MWI_FEW) == MWI_FEW_ROOM * sizeof(uint64_t));
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (n = 0; n <= 200; n++) {
    mwi_table t;
    check(mwi_table_room(n) <= sizeof(room));
    mwi_table_lend(&t, room, n);
    for (i = 1; i <= n; i++) check(mwi_table_put(e, &t, hash_of(i), i));
    for (i = 1; i <= n; i++) check(has(&t, hash_of(i), i));
    check(!has(&t, hash_of(n + 1), n + 1));
  }
  heap_set(h, HEAP_GIVE, 0);
}

const test table_tests[] = {
    {"holds what was put", holds_what_was_put},
    {"replaces without memory", replaces_without_memory},
    {"needs no memory for what is reserved",
     needs_no_memory_for_what_is_reserved},
    {"is made in lent memory", is_made_in_lent_memory},
    {NULL, NULL}};
