/*
** digest_test.c - a hash of all that can be reached, kept up to date.
** SPDX-License-Identifier: MIT
**
** The model of the random programs is a table of fields; a digest that is kept
** up to date must equal one that is made anew from the model.
**
** SEED=n begins with this seed.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../engine/engine.h"
#include "check.h"

#define OBJECTS 9
#define KEYS 5 /* plain keys; then each object is a key */
#define PLAIN 3

/* What each field holds: 0, a plain value, or from PLAIN + 1 on an object. */
static int model[OBJECTS + 1][KEYS + OBJECTS + 1];
static int with_objects; /* as keys */

static mwi_term object(int i) {
  mwi_term term;
  term.id = (uint64_t)i;
  term.hash = mwi_mix(99, (uint64_t)i);
  return term;
}

static mwi_term plain(int i) {
  mwi_term term;
  term.id = 0;
  term.hash = mwi_mix(1, (uint64_t)i);
  return term;
}

static mwi_term key_of(int key) {
  return (key > KEYS) ? object(key - KEYS) : plain(key);
}

static mwi_term value_of(int value) {
  return (value > PLAIN) ? object(value - PLAIN) : plain(value);
}

static void read_all(mw_engine *e, mwi_digest *d) {
  uint32_t v;
  while ((v = mwi_digest_next(e, d)) != 0) {
    int i = (int)mwi_digest_id(d, v), key;
    mwi_digest_begin(d);
    for (key = 1; key <= KEYS + OBJECTS; key++) {
      mwi_term k = key_of(key), value = value_of(model[i][key]);
      if (model[i][key] != 0) mwi_digest_add(e, d, v, &k, &value);
    }
  }
}

/* Sets a field in the model and in the digest. */
static void set(mw_engine *e, mwi_digest *d, int i, int key, int value) {
  uint32_t v = mwi_digest_find(d, (uint64_t)i);
  mwi_term k = key_of(key), old = value_of(model[i][key]),
           now = value_of(value);
  if (v != 0 && mwi_digest_is_read(d, v)) {
    if (model[i][key] != 0) mwi_digest_take(d, v, &k, &old);
    if (value != 0) mwi_digest_add(e, d, v, &k, &now);
  }
  model[i][key] = value;
}

static uint64_t anew(mw_engine *e, uint64_t *lost) {
  mwi_digest *d = mwi_digest_open(e, 1);
  uint64_t result = 0;
  if (d == NULL) abort();
  read_all(e, d);
  result = mwi_digest_finish(e, d);
  *lost = d->lost;
  mwi_digest_close(e, d);
  return result;
}

static void has_fixed_results(mw_engine *e, heap *h) {
  static const char text[] = "moonwatch";
  uint64_t lost;
  (void)h;
  check(mwi_mix(1, 2) == UINT64_C(4037203199525165047));
  check(mwi_hash_bytes(text, 9) == UINT64_C(1589763765849216366));
  check(mwi_hash_bytes(text, 8) == UINT64_C(13784511161468776666));
  memset(model, 0, sizeof(model));
  check(anew(e, &lost) == UINT64_C(15267084667355401273));
  model[1][1] = PLAIN + 2;
  model[1][KEYS + 2] = PLAIN + 3;
  model[2][2] = model[3][2] = 1;
  model[3][1] = PLAIN + 1;
  check(anew(e, &lost) == UINT64_C(11923205119365910665) && lost == 0);
}

/* A step of a random program. */
static void step(mw_engine *e, mwi_digest *d) {
  int i = 1 + rand() % OBJECTS, what = rand() % 8;
  int key = 1 + rand() % (KEYS + (with_objects ? OBJECTS : 0));
  if (what <= 1)
    set(e, d, i, key, 0);
  else if (what == 2)
    set(e, d, i, key, 1 + rand() % PLAIN);
  else
    set(e, d, i, key, PLAIN + 1 + rand() % OBJECTS);
}

static int run(mw_engine *e, unsigned seed) {
  mwi_digest *d = mwi_digest_open(e, 1);
  int i, same = 1;
  if (d == NULL) return 0;
  srand(seed);
  with_objects = rand() % 2;
  memset(model, 0, sizeof(model));
  for (i = rand() % 30; i > 0; i--) step(e, d);
  for (i = 0; i < 40 && same; i++) {
    int n = rand() % 5;
    uint64_t lost, wanted, result;
    while (n-- > 0) step(e, d);
    if (rand() % 4 == 0) mwi_digest_next(e, d);
    while (n++ < rand() % 3) step(e, d);
    read_all(e, d);
    result = mwi_digest_finish(e, d);
    wanted = anew(e, &lost);
    same = (lost > 0) == (d->lost > 0) && (lost > 0 || result == wanted);
    if (lost == 0) continue;
    mwi_digest_close(e, d);
    d = mwi_digest_open(e, 1);
  }
  mwi_digest_close(e, d);
  return same;
}

static void is_as_one_made_anew(mw_engine *e, heap *h) {
  const char *chosen = getenv("SEED"), *soak = getenv("SOAK");
  unsigned seed = (chosen == NULL) ? (unsigned)time(NULL)
                                   : (unsigned)strtoul(chosen, NULL, 10);
  int n = 3000 * ((soak == NULL) ? 1 : atoi(soak));
  (void)h;
  for (; n > 0; n--, seed++) {
    int same = run(e, seed);
    if (!same) fprintf(stderr, "SEED=%u\n", seed);
    check(same);
  }
}

/* Where an allocation fails, the digest says so, and can be closed. */
static void survives_without_memory(mw_engine *e, heap *h) {
  size_t n, refusals = 1;
  int i;
  memset(model, 0, sizeof(model));
  for (i = 1; i < OBJECTS; i++) {
    model[i][1] = PLAIN + i + 1;
    model[i][KEYS + i + 1] = PLAIN + 1;
  }
  for (n = 1; refusals > 0; n++) {
    mwi_digest *d;
    heap_set(h, HEAP_FAIL_ONCE, n);
    d = mwi_digest_open(e, 1);
    if (d != NULL) {
      read_all(e, d);
      mwi_digest_finish(e, d);
    }
    refusals = h->refusals;
    heap_set(h, HEAP_GIVE, 0);
    check((refusals == 0) == (d != NULL && !d->failed));
    mwi_digest_close(e, d);
  }
  check(n > 10);
}

const test digest_tests[] = {
    {"a digest has fixed results", has_fixed_results},
    {"a digest is as one made anew", is_as_one_made_anew},
    {"a digest survives without memory", survives_without_memory},
    {NULL, NULL}};
