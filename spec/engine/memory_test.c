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

static void closes_null(mw_engine *e, heap *h) {
  (void)e;
  (void)h;
  mw_engine_close(NULL);
}

const test memory_tests[] = {
    {"any allocation may fail, and the engine goes on afterwards", once},
    {"memory may run out for good at any allocation", ever},
    {"closing nothing is fine", closes_null},
    {NULL, NULL}};
