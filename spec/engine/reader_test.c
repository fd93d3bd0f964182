/*
** reader_test.c - who reads what was written.
** SPDX-License-Identifier: MIT
**
** The model of the random programs keeps for each reader a list of what the
** reader has to read: the value that was stored, and the delivery.
**
** SEED=n begins with this seed.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

static int field; /* the host's object */

static struct {
  mw_handle obj;
  int64_t value;   /* stored last */
  int kept;        /* strings retained */
  int refuses;     /* is what is delivered refused? */
  uint64_t forgot; /* nobody reads numbers below */
} host;

static void retain(void *ud, const mw_value *value) {
  (void)ud;
  host.kept += value->type == MW_TSTRING;
}

static void release(void *ud, const mw_value *value) {
  (void)ud;
  host.kept -= value->type == MW_TSTRING;
}

static int deliver(void *ud, mw_entry *entry, const mw_values *values,
                   void *its) {
  (void)ud;
  (void)entry;
  (void)values;
  (void)its;
  return host.refuses ? MW_NOMEM : MW_OK;
}

static void forget(void *ud, uint64_t seq) {
  (void)ud;
  host.forgot = seq;
}

static void begin(mw_engine *e) {
  mw_host its;
  memset(&host, 0, sizeof(host));
  memset(&its, 0, sizeof(its));
  its.retain = retain;
  its.release = release;
  its.deliver = deliver;
  its.forget = forget;
  mw_host_set(e, &its);
  mw_object_identify(e, &field, &host.obj);
}

/* Stores the next value, as a write of `owner`. */
static void write(mw_engine *e, mw_owner owner) {
  mw_entry entry;
  memset(&entry, 0, sizeof(entry));
  entry.obj = host.obj;
  entry.kind = MW_UPDATE;
  entry.type[MW_KEY] = MW_TSTRING;
  entry.type[MW_OLD] = entry.type[MW_NOW] = MW_TINTEGER;
  entry.value[MW_OLD].i = host.value;
  entry.value[MW_NOW].i = ++host.value;
  mw_journal_append(e, owner, &entry, NULL, NULL);
}

/* Delivers `n` writes at once. */
static void deliver_writes(mw_engine *e, int n) {
  mw_owner owner = mw_owner_begin(e, 0, 0);
  while (n-- > 0) write(e, owner);
  mw_owner_commit(e, owner, NULL);
}

/* Returns the value that the reader reads next, or 0. */
static int64_t read_next(mw_engine *e, mw_reader reader) {
  uint64_t seq = mw_reader_next(e, reader);
  mw_entry entry;
  if (mw_delivery_entry(e, seq, &entry) != MW_OK) return 0;
  mw_reader_seek(e, reader, seq + 1);
  return entry.value[MW_NOW].i;
}

static void reads_what_is_final(mw_engine *e, heap *h) {
  mw_reader one, two;
  mw_owner owner;
  uint64_t last;
  (void)h;
  begin(e);
  write(e, 0);
  one = mw_reader_open(e, 10, 0);
  last = mw_delivery_last(e);
  write(e, 0);
  check(mw_delivery_last(e) == last + 1 && read_next(e, one) == 2);
  owner = mw_owner_begin(e, 0, 0);
  write(e, owner);
  check(read_next(e, one) == 0 && mw_verify(e) == MW_OK);
  two = mw_reader_open(e, 10, 0);
  mw_owner_commit(e, owner, NULL);
  check(read_next(e, one) == 3 && read_next(e, two) == 3);
  check(read_next(e, one) == 0 && mw_reader_lost(e, one) == 0);
  owner = mw_owner_begin(e, 0, 0);
  write(e, owner);
  mw_owner_forget(e, owner);
  check(read_next(e, one) == 0);
  mw_reader_close(e, one);
  mw_reader_close(e, two);
  last = mw_delivery_last(e);
  write(e, 0);
  one = mw_reader_open(e, 10, 0); /* what nobody has read has a number, too */
  check(mw_delivery_last(e) > last && host.kept == 0);
  mw_reader_close(e, one);
}

static void reads_again(mw_engine *e, heap *h) {
  mw_reader one, two;
  uint64_t first;
  (void)h;
  begin(e);
  one = mw_reader_open(e, 10, 0);
  two = mw_reader_open(e, 4, 0);
  first = mw_reader_next(e, one);
  deliver_writes(e, 6);
  check(mw_reader_lost(e, two) == 2 && mw_reader_next(e, two) == first + 2);
  check(mw_reader_seek(e, two, first + 6) == MW_OK);
  check(mw_reader_seek(e, two, first + 7) == MW_STALE);
  check(mw_reader_seek(e, two, first + 1) == MW_STALE); /* too many for it */
  check(mw_reader_seek(e, two, first + 2) == MW_OK);
  check(mw_reader_seek(e, one, first + 6) == MW_OK && read_next(e, two) == 3);
  check(mw_reader_seek(e, one, first + 2) == MW_STALE); /* forgotten by all */
  check(mw_reader_seek(e, one, first + 3) == MW_OK && read_next(e, one) == 4);
  mw_reader_close(e, two);
  mw_reader_close(e, one);
}

static void loses_whole_deliveries(mw_engine *e, heap *h) {
  mw_reader one;
  (void)h;
  begin(e);
  one = mw_reader_open(e, 4, MW_WHOLE);
  deliver_writes(e, 2); /* 1, 2 */
  deliver_writes(e, 2); /* 3, 4 */
  deliver_writes(e, 1);
  check(mw_reader_lost(e, one) == 2 && read_next(e, one) == 3);
  deliver_writes(e, 5); /* too large: 6 to 10 */
  check(mw_reader_lost(e, one) == 9 && read_next(e, one) == 0);
  deliver_writes(e, 4);
  check(read_next(e, one) == 11 && mw_reader_lost(e, one) == 9);
  mw_reader_close(e, one);
}

static void loses_entries_without_memory(mw_engine *e, heap *h) {
  mw_reader one;
  int i;
  begin(e);
  one = mw_reader_open(e, 10000, 0);
  for (i = 0; i < 1000; i++) write(e, 0);
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 0; i < 1000; i++) write(e, 0);
  heap_set(h, HEAP_GIVE, 0);
  check(mw_reader_lost(e, one) >= 900 && mw_verify(e) == MW_OK);
  check(read_next(e, one) == 1 + (int64_t)mw_reader_lost(e, one));
  host.refuses = 1;
  write(e, 0);
  host.refuses = 0;
  check(mw_reader_lost(e, one) == 2000 && read_next(e, one) == 0);
  write(e, 0);
  check(read_next(e, one) == 2002 && mw_verify(e) == MW_OK);
  mw_reader_close(e, one);
  check(host.kept == 0);
}

/* {======================================================
** Causes
** ======================================================= */

static struct {
  mw_engine *e;
  int depth;
} guarded;

/* A write of a field with the number `key` that guards hear. */
static void write_heard(mw_engine *e, mw_owner owner, int key) {
  mw_change change;
  mw_entry entry;
  uint64_t seq;
  memset(&change, 0, sizeof(change));
  change.key.type = MW_TINTEGER;
  change.key.u.i = key;
  change.kind = MW_UPDATE;
  seq = mw_write_begin(e, host.obj, &change);
  memset(&entry, 0, sizeof(entry));
  entry.obj = host.obj;
  entry.kind = MW_UPDATE;
  entry.type[MW_KEY] = entry.type[MW_OLD] = entry.type[MW_NOW] = MW_TINTEGER;
  entry.value[MW_KEY].i = key;
  entry.seq = mw_change_number(e, &change);
  mw_journal_append(e, owner, &entry, NULL, NULL);
  mw_write_end(e, host.obj, &change, seq);
}

/* The guard of the number 1 writes the field 1 before, that of 2 the field 2
** after; each is called for a write to the field 0 only. */
static int call(void *ud, mw_handle obj, uint64_t ref, int flags,
                const mw_change *change) {
  (void)ud;
  (void)obj;
  (void)flags;
  if (change->key.u.i == 0) write_heard(guarded.e, 0, (int)ref);
  return 1;
}

static void begin_guarded(mw_engine *e) {
  mw_host its;
  mw_watch_options options;
  mw_watch_id id;
  memset(&its, 0, sizeof(its));
  begin(e);
  its.call = call;
  mw_host_set(e, &its);
  guarded.e = e;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.ref = 1;
  mw_watch_begin(e, host.obj, &options, &id);
  options.ref = 2;
  options.flags = MW_AFTER;
  mw_watch_begin(e, host.obj, &options, &id);
}

static uint64_t cause_of(const mw_engine *e, uint64_t seq) {
  mw_entry entry;
  entry.cause = 0;
  mw_delivery_entry(e, seq, &entry);
  return mw_delivery_of(e, entry.cause, seq);
}

static void knows_causes(mw_engine *e, heap *h) {
  mw_reader one;
  uint64_t first;
  mw_owner owner;
  (void)h;
  begin_guarded(e);
  one = mw_reader_open(e, 100, 0);
  first = mw_reader_next(e, one);
  write_heard(e, 0, 0);
  check(mw_delivery_last(e) == first + 2); /* field 1, field 0, field 2 */
  check(cause_of(e, first) == first + 1);
  check(cause_of(e, first + 1) == 0);
  check(cause_of(e, first + 2) == first + 1);
  owner = mw_owner_begin(e, 0, 0);
  write_heard(e, owner, 0); /* the guards' writes are delivered at once */
  check(mw_delivery_last(e) == first + 4);
  check(cause_of(e, first + 3) == 0);
  mw_owner_commit(e, owner, NULL);
  check(mw_delivery_last(e) == first + 5);
  check(cause_of(e, first + 3) == first + 5);
  check(cause_of(e, first + 4) == first + 5);
  mw_reader_close(e, one);
}

static void finds_the_last_entry_of_a_field(mw_engine *e, heap *h) {
  mw_reader one;
  mw_value key;
  uint64_t first;
  int i;
  (void)h;
  begin(e);
  one = mw_reader_open(e, 1000, 0);
  first = mw_reader_next(e, one);
  for (i = 0; i < 900; i++) write_heard(e, 0, i % 100);
  memset(&key, 0, sizeof(key));
  key.type = MW_TINTEGER;
  key.u.i = 42;
  check(mw_delivery_find(e, UINT64_MAX, host.obj, &key, NULL, NULL) ==
        first + 842);
  check(mw_delivery_find(e, first + 842, host.obj, &key, NULL, NULL) ==
        first + 742);
  check(mw_delivery_find(e, first, host.obj, &key, NULL, NULL) == 0);
  key.u.i = 100;
  check(mw_delivery_find(e, UINT64_MAX, host.obj, &key, NULL, NULL) == 0);
  mw_reader_close(e, one);
}

/* }====================================================== */

/* {======================================================
** Random programs
** ======================================================= */

enum { READERS = 4, KEPT = 2000 };

typedef struct row {
  int64_t value;
  int delivery;
} row;

static struct {
  mw_reader id; /* 0: closed */
  int capacity, whole;
  row rows[KEPT];
  int n;
  int missed; /* the delivery of which entries were missed, or 0 */
  uint64_t lost;
} model[READERS];

static uint64_t state;

static int draw(int n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)n);
}

static void drop_rows(int i, int n) {
  memmove(model[i].rows, model[i].rows + n,
          (size_t)(model[i].n - n) * sizeof(row));
  model[i].n -= n;
  model[i].lost += (uint64_t)n;
}

static void add_row(int i, int64_t value, int delivery) {
  int n = 1;
  if (model[i].whole && model[i].missed == delivery) {
    model[i].lost++;
    return;
  }
  model[i].rows[model[i].n].value = value;
  model[i].rows[model[i].n++].delivery = delivery;
  if (model[i].n <= model[i].capacity) return;
  model[i].missed = model[i].rows[0].delivery;
  while (model[i].whole && n < model[i].n &&
         model[i].rows[n].delivery == model[i].missed)
    n++;
  drop_rows(i, n);
}

static void open_or_close(mw_engine *e, int i) {
  if (model[i].id != 0) {
    mw_reader_close(e, model[i].id);
    model[i].id = 0;
    return;
  }
  model[i].capacity = 1 + draw(draw(2) ? 20 : 1000);
  model[i].whole = draw(2);
  model[i].id = mw_reader_open(e, (uint32_t)model[i].capacity,
                               model[i].whole ? MW_WHOLE : 0);
  model[i].n = model[i].missed = 0;
  model[i].lost = 0;
}

static int reads_as_model(mw_engine *e, int i) {
  int n = draw(model[i].n + 2), k;
  for (k = 0; k < n; k++) {
    int64_t value = read_next(e, model[i].id);
    if (value != ((k < model[i].n) ? model[i].rows[k].value : 0)) return 0;
  }
  if (n > model[i].n) n = model[i].n;
  drop_rows(i, n);
  model[i].lost -= (uint64_t)n;
  return 1;
}

static void runs_random_programs(mw_engine *e, heap *h) {
  const char *seed = getenv("SEED");
  uint64_t first =
      (seed != NULL) ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
  int step, i, k, n, fine = 1;
  (void)h;
  begin(e);
  memset(model, 0, sizeof(model));
  state = first;
  for (step = 1; step < 3000 && fine; step++) {
    i = draw(READERS);
    if (draw(20) == 0) {
      open_or_close(e, i);
    } else if (draw(3) == 0 && model[i].id != 0) {
      fine = reads_as_model(e, i);
    } else {
      n = draw(draw(10) ? 8 : 300);
      for (k = 0; k < n; k++)
        for (i = 0; i < READERS; i++)
          if (model[i].id != 0) add_row(i, host.value + k + 1, step);
      deliver_writes(e, n);
    }
    for (i = 0; i < READERS; i++)
      if (model[i].id != 0)
        fine = fine && mw_reader_lost(e, model[i].id) == model[i].lost;
    fine = fine && mw_verify(e) == MW_OK;
  }
  for (i = 0; i < READERS; i++)
    if (model[i].id != 0) open_or_close(e, i);
  if (!fine) fprintf(stderr, "SEED=%llu\n", (unsigned long long)first);
  check(fine && host.kept == 0);
  check(host.forgot == 0 || host.forgot <= mw_delivery_last(e) + 1);
}

/* }====================================================== */

const test reader_tests[] = {
    {"a reader reads what is final", reads_what_is_final},
    {"a reader can read again what others keep", reads_again},
    {"a reader can miss whole deliveries only", loses_whole_deliveries},
    {"without memory entries are lost", loses_entries_without_memory},
    {"a write of a guard has the guard's write as its cause", knows_causes},
    {"the last entry of a field is found", finds_the_last_entry_of_a_field},
    {"readers are as a model says", runs_random_programs},
    {NULL, NULL}};
