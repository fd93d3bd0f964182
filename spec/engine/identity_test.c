/*
** identity_test.c - handles, serials, reaping.
** SPDX-License-Identifier: MIT
**
** Built with a few slots and uses only, see the Makefile.
*/
#include <string.h>

#include "check.h"

#define N 3000

static char places[N];

static mw_handle identify(mw_engine *e, const void *ptr) {
  mw_handle h = MW_NONE;
  return (mw_object_identify(e, ptr, &h) == MW_OK) ? h : MW_NONE;
}

static void same_handle(mw_engine *e, heap *h) {
  mw_handle a = identify(e, &places[1]);
  (void)h;
  check(a != MW_NONE);
  check(identify(e, &places[1]) == a);
  check(mw_object_find(e, &places[1]) == a);
  check(mw_object_pointer(e, a) == &places[1]);
  check(mw_object_count(e) == 1);
}

static void unknown(mw_engine *e, heap *h) {
  (void)h;
  check(mw_object_find(e, &places[1]) == MW_NONE);
  check(mw_object_find(e, NULL) == MW_NONE);
  check(mw_object_pointer(e, MW_NONE) == NULL);
  check(mw_object_pointer(e, 77) == NULL);
  check(mw_object_forget(e, MW_NONE) == MW_STALE);
  check(mw_object_forget(e, ~MW_NONE) == MW_STALE);
}

static void null_is_an_address(mw_engine *e, heap *h) {
  mw_handle a = identify(e, NULL);
  (void)h;
  check(a != MW_NONE && mw_object_find(e, NULL) == a);
}

static void stale(mw_engine *e, heap *h) {
  mw_handle a = identify(e, &places[1]), b;
  (void)h;
  check(mw_object_forget(e, a) == MW_OK);
  check(mw_object_find(e, &places[1]) == MW_NONE);
  b = identify(e, &places[1]);
  check(mw_slot(a) == mw_slot(b) && a != b);
  check(mw_object_pointer(e, a) == NULL);
  check(mw_object_forget(e, a) == MW_STALE);
  check(mw_object_pointer(e, b) == &places[1]);
}

static void positive(mw_engine *e, heap *h) {
  mw_handle a = identify(e, &places[1]);
  (void)h;
  for (; a != MW_NONE && mw_slot(a) == 1; a = identify(e, &places[1])) {
    check((int64_t)a > 0);
    check(mw_object_forget(e, a) == MW_OK);
  }
  check(mw_slot(a) == 2); /* the first slot was used up */
}

static void many(mw_engine *e, heap *h) {
  size_t i;
  (void)h;
  for (i = 0; i < N; i++) check(identify(e, &places[i]) == i + 1);
  for (i = 0; i < N; i += 3) check(mw_object_forget(e, i + 1) == MW_OK);
  for (i = 0; i < N; i++)
    check(mw_object_find(e, &places[i]) == ((i % 3 == 0) ? MW_NONE : i + 1));
  check(mw_object_count(e) == N - N / 3);
  for (i = 0; i < N; i += 3) check(identify(e, &places[i]) != MW_NONE);
  for (i = 0; i < N; i++)
    check(mw_object_pointer(e, mw_object_find(e, &places[i])) == &places[i]);
}

/* Free slots hold small numbers where taken slots hold addresses; an object may
** have such an address. */
static void small_addresses(mw_engine *e, heap *h) {
  mw_handle a[8];
  uintptr_t i;
  (void)h;
  for (i = 1; i < 8; i++) a[i] = identify(e, (const void *)i);
  for (i = 1; i < 8; i++) check(mw_object_forget(e, a[i]) == MW_OK);
  for (i = 0; i < 8; i++) check(mw_object_find(e, (const void *)i) == MW_NONE);
}

/* The search guesses that the next object is asked for. */
static void orders(mw_engine *e, heap *h) {
  size_t i, step;
  (void)h;
  for (i = 0; i < N; i++) identify(e, &places[i]);
  for (step = 1; step < 8; step++) {
    for (i = 0; i < N; i += step) check(mw_object_find(e, &places[i]) == i + 1);
    for (i = N; i >= step; i -= step)
      check(mw_object_find(e, &places[i - 1]) == i);
  }
  for (i = 0; i < N; i += 2) check(mw_object_forget(e, i + 1) == MW_OK);
  for (i = 0; i < N; i++)
    check(mw_object_find(e, &places[i]) == ((i % 2 == 0) ? MW_NONE : i + 1));
  check(mw_object_find(e, e) == MW_NONE);
}

static void churn(mw_engine *e, heap *h) {
  size_t i, bytes = 0;
  for (i = 0; i < 50 * N; i++) {
    mw_handle a = identify(e, &places[i % N]);
    check(a != MW_NONE);
    check(mw_object_forget(e, a) == MW_OK);
    if (i == N) bytes = h->bytes;
  }
  check(h->bytes < 2 * bytes);
}

static void full(mw_engine *e, heap *h) {
  mw_handle a = 99;
  size_t i;
  (void)h;
  for (i = 0; i < 5000; i++) {
    int code = mw_object_identify(e, &places[0] + 2 * i, &a);
    if (code == MW_FULL) break;
    check(code == MW_OK);
  }
  check(i == 4000); /* MWI_MAXSLOT of the test build */
  check(a == i);
  check(mw_object_find(e, &places[2]) == 2);
}

static int odd_live(void *ud, mw_handle h) {
  ++*(int *)ud;
  return mw_slot(h) % 2 == 1;
}

static int none_live(void *ud, mw_handle h) {
  (void)h;
  ++*(int *)ud;
  return 0;
}

static void reaping(mw_engine *e, heap *h) {
  int asked = 0;
  size_t i, n = 0;
  (void)h;
  for (i = 0; i < N; i++) identify(e, &places[i]);
  check(!mw_reap_due(e));
  check(mw_reap_step(e, N, N, odd_live, &asked) == 0 && asked == 0);
  mw_reap_begin(e);
  check(mw_reap_due(e));
  check(mw_reap_step(e, 10, N, odd_live, &asked) == 5 && asked == 10);
  check(mw_reap_step(e, N, 5, odd_live, &asked) == 5);
  while (mw_reap_due(e)) n += mw_reap_step(e, 7, N, odd_live, &asked);
  check(n == N / 2 - 10 && asked == N);
  check(mw_object_count(e) == N / 2);
}

static void reaping_again(mw_engine *e, heap *h) {
  int asked = 0;
  size_t i;
  (void)h;
  for (i = 0; i < 100; i++) identify(e, &places[i]);
  mw_reap_begin(e);
  mw_reap_step(e, 60, N, odd_live, &asked);
  mw_reap_begin(e);
  mw_reap_step(e, N, N, odd_live, &asked);
  check(asked == 60 + 70); /* 30 of the first 60 are free by now */
  check(!mw_reap_due(e));
}

static int all_live(void *ud, mw_handle h) {
  (void)ud;
  (void)h;
  return 1;
}

/* The look begins in the middle, and the array grows before the look ends. */
static void reaping_and_growing(mw_engine *e, heap *h) {
  int asked = 0;
  size_t i, n = 0;
  (void)h;
  for (i = 0; i < 100; i++) identify(e, &places[i]);
  mw_reap_begin(e);
  mw_reap_step(e, 60, N, all_live, &asked);
  mw_reap_begin(e);
  for (; i < 130; i++) identify(e, &places[i]);
  while (mw_reap_due(e)) n += mw_reap_step(e, 7, N, odd_live, &asked);
  check(n == 65);
}

static void serials(mw_engine *e, heap *h) {
  mw_handle a = identify(e, &places[1]), b = identify(e, &places[2]);
  uint64_t n = 0;
  (void)h;
  check(mw_object_serial(e, b, &n) == MW_OK && n == 1);
  check(mw_object_serial(e, a, &n) == MW_OK && n == 2);
  check(mw_object_serial(e, b, &n) == MW_OK && n == 1);
  check(mw_serial_object(e, 1) == b && mw_serial_object(e, 2) == a);
  check(mw_serial_object(e, 0) == MW_NONE && mw_serial_object(e, 3) == MW_NONE);
  check(mw_serial_object(e, ~(uint64_t)0) == MW_NONE);
}

static void serial_never_again(mw_engine *e, heap *h) {
  uint64_t n = 0;
  size_t i;
  (void)h;
  for (i = 1; i <= 1000; i++) {
    mw_handle a = identify(e, &places[1]);
    check(mw_object_serial(e, a, &n) == MW_OK && n == i);
    check(mw_object_forget(e, a) == MW_OK);
    check(mw_serial_object(e, n) == MW_NONE);
    check(mw_object_serial(e, a, &n) == MW_STALE && n == i);
  }
}

/* The host says when a pinned object is gone. */
static void pinned(mw_engine *e, heap *h) {
  mw_handle a = identify(e, &places[0]), b;
  int asked = 0;
  (void)h;
  identify(e, &places[1]);
  check(mw_object_flags(e, a) == 0);
  check(mw_object_pin(e, a) == MW_OK && mw_object_flags(e, a) == MW_PINNED);
  mw_reap_begin(e);
  while (mw_reap_due(e)) mw_reap_step(e, 1, 1, none_live, &asked);
  check(asked == 1 && mw_object_count(e) == 1);
  check(mw_object_find(e, &places[0]) == a);
  check(mw_object_forget(e, a) == MW_OK);
  check(mw_object_pin(e, a) == MW_STALE && mw_object_flags(e, a) == 0);
  b = identify(e, &places[0]);
  check(mw_slot(a) == mw_slot(b) && mw_object_flags(e, b) == 0);
}

static void versions(mw_engine *e, heap *h) {
  (void)e;
  (void)h;
  check(mw_version() == MW_VERSION_NUMBER);
  check(strcmp(MW_VERSION, "0.1.0") == 0 || mw_version() != 100);
}

const test identity_tests[] = {
    {"an address keeps its handle", same_handle},
    {"what is unknown is not found", unknown},
    {"NULL is an address like others", null_is_an_address},
    {"a stale handle never finds the next object", stale},
    {"a slot whose uses are used up is left alone", positive},
    {"thousands of objects are told apart", many},
    {"a free slot is not taken for an address", small_addresses},
    {"objects are found in any order", orders},
    {"coming and going needs no more and more memory", churn},
    {"too many objects are refused", full},
    {"reaping asks about a bounded number of slots", reaping},
    {"a collection during reaping starts it anew", reaping_again},
    {"what comes during reaping hides nobody", reaping_and_growing},
    {"serials count up in the order of asking", serials},
    {"a serial is never given twice", serial_never_again},
    {"a pinned object lives until it is forgotten", pinned},
    {"header and engine are of one version", versions},
    {NULL, NULL}};
