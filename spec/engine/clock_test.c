/*
** clock_test.c - generations and tags.
** SPDX-License-Identifier: MIT
*/
#include "check.h"

#define N 2000

static char places[N];

static mw_handle nth(mw_engine *e, size_t i) {
  mw_handle h = MW_NONE;
  mw_object_identify(e, &places[i], &h);
  return h;
}

static void starts_at_zero(mw_engine *e, heap *h) {
  mw_handle a = nth(e, 0);
  (void)h;
  check(mw_clock_now(e, MW_CLOCK) == 0);
  check(mw_clock_generation(e, MW_CLOCK, a) == -1);
  check(mw_clock_tag(e, MW_CLOCK, a) == MW_OK);
  check(mw_clock_generation(e, MW_CLOCK, a) == 0);
}

static void tagging(mw_engine *e, heap *h) {
  mw_handle a = nth(e, 0);
  (void)h;
  mw_clock_tag(e, MW_CLOCK, a);
  check(mw_clock_advance(e, MW_CLOCK) == 1);
  check(mw_clock_generation(e, MW_CLOCK, a) == 0);
  mw_clock_tag(e, MW_CLOCK, a);
  check(mw_clock_generation(e, MW_CLOCK, a) == 1);
  mw_clock_untag(e, MW_CLOCK, a);
  check(mw_clock_generation(e, MW_CLOCK, a) == -1);
}

static void names(mw_engine *e, heap *h) {
  mw_clock a, b, c, d;
  (void)h;
  check(mw_clock_open(e, "draw", 4, &a) == MW_OK);
  check(mw_clock_open(e, "draw\0x", 6, &b) == MW_OK && b != a);
  check(mw_clock_open(e, "draw", 4, &c) == MW_OK && c == a);
  check(mw_clock_open(e, "", 0, &d) == MW_OK && d != MW_CLOCK && d != a);
  check(mw_clock_open(e, NULL, 0, &c) == MW_OK && c > d);
}

static void full(mw_engine *e, heap *h) {
  mw_clock c = 99;
  (void)h;
  while (mw_clock_open(e, NULL, 0, &c) == MW_OK) check(c < 20);
  check(c == 19); /* MWI_MAXCLOCK of the test build */
  check(mw_clock_open(e, "x", 1, &c) == MW_FULL);
}

static void independent(mw_engine *e, heap *h) {
  mw_handle a = nth(e, 0);
  mw_clock c;
  (void)h;
  mw_clock_open(e, NULL, 0, &c);
  mw_clock_advance(e, c);
  mw_clock_tag(e, c, a);
  check(mw_clock_generation(e, MW_CLOCK, a) == -1);
  check(mw_clock_generation(e, c, a) == 1);
  check(mw_clock_now(e, MW_CLOCK) == 0);
}

static size_t count_since(mw_engine *e, int64_t since) {
  mw_walk walk;
  size_t n = 0;
  mw_clock_since(e, MW_CLOCK, since, &walk);
  while (mw_clock_next(e, &walk) != MW_NONE) n++;
  return n;
}

static void the_dead(mw_engine *e, heap *h) {
  mw_handle a = nth(e, 0);
  (void)h;
  mw_clock_tag(e, MW_CLOCK, a);
  mw_object_forget(e, a);
  check(mw_clock_generation(e, MW_CLOCK, a) == -1);
  check(mw_clock_tag(e, MW_CLOCK, a) == MW_STALE);
  mw_clock_untag(e, MW_CLOCK, a);
  check(mw_clock_generation(e, MW_CLOCK, nth(e, 0)) == -1);
  check(count_since(e, 0) == 0);
}

static void since(mw_engine *e, heap *h) {
  size_t i;
  (void)h;
  for (i = 0; i < N; i++) nth(e, i);
  for (i = 0; i < N; i++) {
    if (i % 500 == 0) mw_clock_advance(e, MW_CLOCK);
    if (i % 2 == 0) mw_clock_tag(e, MW_CLOCK, nth(e, i));
  }
  check(count_since(e, -5) == N / 2);
  check(count_since(e, 0) == N / 2);
  check(count_since(e, 1) == N / 2);
  check(count_since(e, 3) == N / 4);
  check(count_since(e, 4) == N / 8);
  check(count_since(e, 5) == 0);
}

static void dying_walk(mw_engine *e, heap *h) {
  mw_walk walk;
  mw_handle at;
  size_t seen = 0, i;
  (void)h;
  for (i = 0; i < 1000; i++) mw_clock_tag(e, MW_CLOCK, nth(e, i));
  mw_clock_since(e, MW_CLOCK, 0, &walk);
  while ((at = mw_clock_next(e, &walk)) != MW_NONE) {
    seen++;
    mw_object_forget(
        e, mw_object_find(e, &places[mw_slot(at)])); /* the object after `at` */
  }
  check(seen == 500);
}

static void growing_walk(mw_engine *e, heap *h) {
  mw_walk walk;
  size_t seen = 0, i;
  (void)h;
  for (i = 0; i < 300; i++) mw_clock_tag(e, MW_CLOCK, nth(e, i));
  mw_clock_since(e, MW_CLOCK, 0, &walk);
  while (mw_clock_next(e, &walk) != MW_NONE)
    mw_clock_tag(e, MW_CLOCK, nth(e, 300 + seen++));
  check(seen == 300);
  check(mw_clock_next(e, &walk) == MW_NONE);
  mw_clock_reset(e, MW_CLOCK);
  check(mw_clock_next(e, &walk) == MW_NONE);
}

static void reset(mw_engine *e, heap *h) {
  mw_handle a = nth(e, 0);
  size_t bytes = h->bytes;
  mw_clock_advance(e, MW_CLOCK);
  mw_clock_tag(e, MW_CLOCK, a);
  mw_clock_reset(e, MW_CLOCK);
  check(mw_clock_now(e, MW_CLOCK) == 0);
  check(mw_clock_generation(e, MW_CLOCK, a) == -1);
  check(h->bytes == bytes);
  mw_clock_tag(e, MW_CLOCK, a);
  check(mw_clock_generation(e, MW_CLOCK, a) == 0);
}

const test clock_tests[] = {
    {"a clock starts at 0, and the untagged are at -1", starts_at_zero},
    {"tagging again overwrites", tagging},
    {"the same name is the same clock, bytes and all", names},
    {"too many clocks are refused", full},
    {"clocks know nothing of each other", independent},
    {"the dead lose their tags", the_dead},
    {"since finds the objects of a generation or later", since},
    {"a walk goes on while objects are forgotten", dying_walk},
    {"a walk ends though each visit tags another object", growing_walk},
    {"reset takes tags and generation back", reset},
    {NULL, NULL}};
