/*
** watch_test.c - the guards of a write: which, in which order, how often.
** SPDX-License-Identifier: MIT
*/
#include <stdlib.h>
#include <string.h>

#include "../../engine/engine.h"
#include "check.h"

static char places[4];

/* The host: a guard is a small number, and its deeds are looked up here. */
static struct {
  mw_engine *e;
  mw_handle obj;
  char log[200];
  void (*act[128])(void);
  mw_handle dead;
  mw_watch_id ids[8];
  char refuses;     /* the guard that refuses writes */
  int answers[128]; /* whether a guard is to be called */
  int is_over;      /* have all watches with MW_ASK lived long enough? */
} host;

static int alive(void *ud, mw_handle h) {
  (void)ud;
  return h != host.dead;
}

/* A weak guard has its handle as `ref`, and `a` as name.  A question stands
** before the guard's name in the log. */
static int called(void *ud, mw_handle obj, uint64_t ref, int flags,
                  const mw_change *change) {
  size_t len;
  (void)obj;
  if (change == NULL) return (flags & MW_ASK) ? !host.is_over : alive(ud, ref);
  if (flags & MW_WEAK) {
    if (!alive(ud, ref)) return 0;
    ref = 'a';
  }
  if (flags & MW_ASK) {
    strcat(host.log, "?");
    if (host.act['?'] != NULL) host.act['?']();
    if (host.answers[ref] <= 0) return (host.answers[ref] < 0) ? 0 : MW_SPARES;
  }
  len = strlen(host.log);
  if (len + 1 < sizeof(host.log)) host.log[len] = (char)ref;
  if (host.act[ref] != NULL) host.act[ref]();
  return ((char)ref == host.refuses) ? MW_REFUSES : 1;
}

static mw_handle begin(mw_engine *e) {
  const mw_host its = {NULL, called, NULL, NULL, NULL, NULL,
                       NULL, NULL,   NULL, 0,    NULL};
  memset(&host, 0, sizeof(host));
  host.e = e;
  mw_host_set(e, &its);
  mw_object_identify(e, &places[0], &host.obj);
  return host.obj;
}

static mw_watch_id watch_as(char ref, int flags, int64_t key, mw_handle guard) {
  mw_watch_options options;
  mw_watch_id id = 0;
  mw_value keys[2];
  memset(&options, 0, sizeof(options));
  options.flags = flags;
  options.ref = (uint64_t)ref;
  keys[0].type = keys[1].type = MW_TINTEGER;
  keys[0].u.i = key;
  keys[1].u.i = key + 100;
  options.keys = keys;
  options.n_keys = (key == 0) ? 0 : 2;
  options.guard = guard;
  mw_watch_begin(host.e, host.obj, &options, &id);
  return id;
}

static mw_watch_id watch(char ref, int flags) {
  return watch_as(ref, flags, 0, MW_NONE);
}

/* Reports a write as hosts do; `=` in the log is the moment of storing. */
static void write_key(mw_handle obj, int64_t key, int same) {
  mw_change change;
  uint64_t moment;
  memset(&change, 0, sizeof(change));
  change.key.type = MW_TINTEGER;
  change.key.u.i = key;
  change.kind = MW_UPDATE;
  change.same = same;
  moment = mw_write_begin(host.e, obj, &change);
  strcat(host.log, "=");
  mw_write_end(host.e, obj, &change, moment);
}

static void write(void) { write_key(host.obj, 1, 0); }

/* A batch of writes to the first keys. */
typedef struct batch_rows {
  mwi_batch_row rows[4];
  uint32_t n;
  uint64_t writes;
} batch_rows;

/* Reports a write in a batch. */
static void note_key(batch_rows *b, mw_handle obj, int64_t key) {
  mw_change change;
  uint32_t i = 0;
  memset(&change, 0, sizeof(change));
  change.key.type = MW_TINTEGER;
  change.key.u.i = key;
  change.kind = MW_UPDATE;
  while (i < b->n && !mw_value_equal(&b->rows[i].key, &change.key)) i++;
  if (i == b->n) memset(&b->rows[b->n++], 0, sizeof(b->rows[0]));
  b->rows[i].obj = obj;
  b->rows[i].key = change.key;
  b->rows[i].order = ++b->writes;
  b->rows[i].seq = note_write(host.e, obj, &change);
  strcat(host.log, "=");
}

/* Ends a batch: the log gets the key before each call. */
static void end_rows(batch_rows *b) {
  mwi_batch its = {b->rows, NULL, b->n, 0, 0, 0};
  uint32_t i;
  check(mwi_batch_search(host.e, &its) == MW_OK);
  for (i = 0; i < its.n_calls; i++) {
    const mwi_batch_row *row = &b->rows[its.calls[i].row];
    mw_change change;
    memset(&change, 0, sizeof(change));
    change.kind = MW_UPDATE;
    change.same = row->same;
    if (!is_alive(host.e, its.calls[i].watch)) continue;
    host.log[strlen(host.log)] = (char)('0' + row->key.u.i);
    mwi_batch_tell(host.e, its.calls[i].watch, &change);
  }
  mwi_free(host.e, its.calls, its.size_calls * sizeof(*its.calls));
  check(mw_verify(host.e) == MW_OK);
}

/* The same, unless a check refuses: `!` in the log. */
static void try_write(mw_handle obj, int64_t key, int same) {
  mw_change change;
  memset(&change, 0, sizeof(change));
  change.key.type = MW_TINTEGER;
  change.key.u.i = key;
  change.kind = MW_UPDATE;
  change.same = same;
  if (mw_write_check(host.e, obj, &change))
    write_key(obj, key, same);
  else
    strcat(host.log, "!");
}

static int logged(const char *expected) {
  int same = strcmp(host.log, expected) == 0;
  host.log[0] = '\0';
  memset(host.log, 0, sizeof(host.log));
  return same;
}

static void in_order(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  check(mw_object_mutations(e, obj) == 0);
  watch('a', MW_ONCE);
  watch('b', MW_ONCE);
  watch('a', MW_ONCE);
  check(n_waiting(e, obj) == 3);
  write();
  check(logged("aba="));
  check(n_waiting(e, obj) == 0);
  write();
  check(logged("="));
  check(mw_object_mutations(e, obj) == 2);
}

static void stays(mw_engine *e, heap *h) {
  begin(e);
  (void)h;
  watch('a', 0);
  watch('b', MW_ONCE);
  watch('c', MW_AFTER);
  watch('d', MW_AFTER | MW_ONCE);
  write();
  write();
  check(logged("ab=cda=c"));
}

static void keys(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  watch_as('a', 0, 1, MW_NONE);
  watch_as('b', MW_ONCE, 2, MW_NONE);
  write_key(obj, 1, 0);
  write_key(obj, 3, 0);
  write_key(obj, 2, 0);
  write_key(obj, 102, 0);
  write_key(obj, 101, 0);
  check(logged("a==b==a="));
  check(mw_object_mutations(e, obj) == 5);
}

static void skip(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  watch('a', MW_SKIP);
  watch('b', 0);
  write_key(obj, 1, 1);
  write_key(obj, 1, 0);
  check(logged("b=ab="));
  check(mw_object_mutations(e, obj) == 2);
}

static void watch_again(void) { watch('a', MW_ONCE); }

static void again(mw_engine *e, heap *h) {
  begin(e);
  (void)h;
  host.act['a'] = watch_again;
  watch('a', MW_ONCE);
  watch('b', MW_ONCE);
  write();
  write();
  check(logged("ab=a="));
}

static void write_once(void) {
  host.act['a'] = NULL;
  write();
}

static void nested(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  host.act['a'] = write_once;
  watch('a', MW_ONCE);
  watch('b', MW_ONCE);
  watch('c', 0);
  write();
  /* the inner write calls c and stores; then the outer write goes on */
  check(logged("ac=bc="));
  check(mw_object_mutations(e, obj) == 2);
}

static void cancel_b(void) { mw_watch_cancel(host.e, host.ids[1]); }

static void cancelled(mw_engine *e, heap *h) {
  begin(e);
  (void)h;
  host.act['a'] = cancel_b;
  host.ids[0] = watch('a', 0);
  host.ids[1] = watch('b', MW_ONCE);
  host.ids[2] = watch('c', 0);
  check(is_alive(e, host.ids[1]));
  write();
  check(logged("ac="));
  check(!is_alive(e, host.ids[1]));
  check(mw_watch_cancel(e, host.ids[1]) == MW_STALE);
  check(mw_watch_cancel(e, host.ids[0]) == MW_OK);
  host.ids[3] = watch('d', 0);
  check(mw_watch_cancel(e, host.ids[0]) ==
        MW_STALE); /* d may have the place of the watch */
  write();
  check(logged("cd="));
}

static void cancel_all(void) {
  int i;
  for (i = 0; i < 3; i++) mw_watch_cancel(host.e, host.ids[i]);
}

static void cancel_self(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  host.act['b'] = cancel_all;
  host.ids[0] = watch('a', 0);
  host.ids[1] = watch('b', 0);
  host.ids[2] = watch('c', 0);
  write();
  write();
  check(logged("ab=="));
  check(n_waiting(e, obj) == 0);
}

static void forget_object(void) { mw_object_forget(host.e, host.obj); }

static void object_ends(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  host.act['a'] = forget_object;
  host.ids[0] = watch('a', 0);
  host.ids[1] = watch('b', 0);
  write();
  check(logged("a="));
  check(!is_alive(e, host.ids[1]));
  check(mw_object_mutations(e, obj) == 0);
  check(mw_object_identify(e, &places[0], &host.obj) == MW_OK);
  check(mw_object_mutations(e, host.obj) == 0 && n_waiting(e, host.obj) == 0);
}

static void weak_guards(mw_engine *e, heap *h) {
  mw_handle obj = begin(e), guard;
  uint32_t i;
  (void)h;
  mw_object_identify(e, &places[1], &guard);
  watch_as('a', MW_WEAK, 0, guard);
  watch_as('b', 0, 0, MW_NONE);
  write();
  check(logged("ab="));
  host.dead = guard;
  write();
  check(logged("b="));
  check(n_waiting(e, obj) == 1);
  for (i = 0; i < 10000; i++) watch_as('a', MW_WEAK, 0, guard);
  check(n_waiting(e, obj) < 40);
}

static void *forgotten;

static void forget_guard(void) {
  mw_handle guard = mw_object_find(host.e, forgotten);
  mw_object_forget(host.e, guard);
}

/* Forgetting a guard ends all watches of the guard, also while a write calls
** guards. */
static void forgotten_guards(mw_engine *e, heap *h) {
  static char other;
  mw_value keys[2] = {{MW_TINTEGER, {1}}, {MW_TINTEGER, {2}}};
  mw_watch_options options;
  mw_handle obj = begin(e), guard, more;
  mw_watch_id id, kept;
  int i;
  (void)h;
  mw_object_identify(e, &other, &more);
  for (i = 0; i < 2; i++) {
    mw_object_identify(e, &places[1], &guard);
    if (i == 1) watch('f', 0);
    kept = watch('b', 0);
    host.ids[0] = watch_as('a', MW_WEAK, 0, guard);
    host.ids[1] = watch_as('a', MW_FLAG | MW_WEAK, 0, guard);
    memset(&options, 0, sizeof(options));
    options.flags = MW_WEAK;
    options.guard = options.ref = guard;
    options.keys = keys;
    options.n_keys = 2;
    check(mw_watch_begin(e, obj, &options, &host.ids[2]) == MW_OK);
    check(mw_watch_begin(e, more, &options, &host.ids[3]) == MW_OK);
    check(mw_watch_begin(e, more, &options, &id) == MW_OK);
    check(mw_watch_cancel(e, id) == MW_OK);
    forgotten = &places[1];
    host.act['f'] = forget_guard;
    if (i == 0) forget_guard();
    write();
    check(logged((i == 0) ? "b=" : "bfb="));
    for (id = 0; id < 4; id++) check(!is_alive(e, host.ids[id]));
    check(is_alive(e, kept) && n_waiting(e, more) == 0);
    check(mw_verify(e) == MW_OK);
  }
}

/* The guard's slot is in another page than the object's. */
static void flags(mw_engine *e, heap *h) {
  static char others[300];
  mw_handle guard;
  size_t i;
  begin(e);
  (void)h;
  for (i = 0; i < 300; i++) mw_object_identify(e, &others[i], &guard);
  mw_object_identify(e, &places[1], &guard);
  check(mw_guard_is_valid(e, guard));
  watch_as('a', MW_FLAG | MW_ONCE | MW_WEAK, 0, guard);
  check(mw_guard_is_valid(e, guard));
  write();
  check(!mw_guard_is_valid(e, guard));
  check(logged("="));
  check(mw_guard_set_valid(e, guard, 1) == MW_OK &&
        mw_guard_is_valid(e, guard));
  write();
  check(mw_guard_is_valid(e, guard));
  check(mw_guard_set_valid(e, guard, 0) == MW_OK &&
        !mw_guard_is_valid(e, guard));
  mw_object_forget(e, guard);
  check(mw_guard_set_valid(e, guard, 0) == MW_STALE);
  mw_object_identify(e, &places[1], &guard);
  check(mw_guard_is_valid(e, guard));
}

/* Only flags hear the change, in a batch too; others keep their turn. */
static void flags_only(mw_engine *e, heap *h) {
  mw_handle guard;
  mw_change change;
  begin(e);
  (void)h;
  mw_object_identify(e, &places[1], &guard);
  memset(&change, 0, sizeof(change));
  change.kind = MW_RAW;
  change.flags_only = 1;
  watch('a', MW_ONCE);
  watch_as('b', MW_FLAG | MW_WEAK | MW_AFTER, 0, guard);
  mw_write_begin(e, host.obj, &change);
  check(mw_guard_is_valid(e, guard));
  mw_write_end(e, host.obj, &change, 2);
  check(!mw_guard_is_valid(e, guard));
  mw_guard_set_valid(e, guard, 1);
  note_write(e, host.obj, &change);
  check(!mw_guard_is_valid(e, guard));
  check(logged(""));
  check(mw_object_mutations(e, host.obj) == 2);
  write();
  check(logged("a="));
}

/* Guard 0 is the lowest; each guard follows the two before it.  A change costs
** no stack, however many guards hear. */
static void guards_that_follow(mw_engine *e, heap *h) {
  enum { N = 3000 };
  static char many[N];
  mw_handle guard[N];
  int i;
  begin(e);
  (void)h;
  for (i = 0; i < N; i++) {
    mw_object_identify(e, &many[i], &guard[i]);
    check(mwi_guard_open(e, guard[i]) != NULL);
    check(!mw_guard_is_valid(e, guard[i]));
    if (i > 0) check(mwi_guard_follow(e, guard[i], guard[i - 1]) == MW_OK);
    if (i > 1) check(mwi_guard_follow(e, guard[i], guard[i - 2]) == MW_OK);
  }
  watch_as('a', MW_FLAG | MW_WEAK, 0, guard[0]);
  for (i = 0; i < N; i++) mw_guard_set_valid(e, guard[i], 1);
  write();
  for (i = 0; i < N; i++) check(!mw_guard_is_valid(e, guard[i]));
  for (i = 0; i < N; i++) mw_guard_set_valid(e, guard[i], 1);
  mw_guard_set_valid(e, guard[N / 2], 0);
  for (i = 0; i < N; i++) check(mw_guard_is_valid(e, guard[i]) == (i < N / 2));
  check(!mw_object_is_watched(e, guard[0]));
  mw_guard_set_valid(e, guard[N - 1], 1);
  mw_object_forget(e, guard[N - 2]);
  mw_guard_set_valid(e, guard[N - 3], 1);
  mw_guard_set_valid(e, guard[N - 3], 0);
  check(!mw_guard_is_valid(e, guard[N - 1]));
  check(mwi_guard_follow(e, guard[0], guard[N - 2]) == MW_STALE);
  check(mwi_guard_follow(e, guard[N - 2], guard[0]) == MW_STALE);
  mw_guard_set_valid(e, guard[0], 1);
  check(mwi_guard_follow(e, guard[0], guard[N - 3]) == MW_OK);
  check(!mw_guard_is_valid(e, guard[0])); /* as the other one is */
  check(mw_verify(e) == MW_OK);
}

static mw_handle result;

static int has_lost(const mw_engine *e, mw_handle guard) {
  return mwi_object_find(&e->watch, guard)->lost;
}

static void compute(void) { mw_guard_set_valid(host.e, result, 1); }

/* A guard that computes a result before the store does not make the result
** valid; a guard after the store does. */
static void guards_of_results(mw_engine *e, heap *h) {
  batch_rows rows = {{{0, {MW_TNIL, {0}}, 0, 0, 0, 0, 0}}, 0, 0};
  mw_handle obj = begin(e);
  mw_watch_id id;
  (void)h;
  mw_object_identify(e, &places[1], &result);
  check(mwi_guard_open(e, result) != NULL);
  host.act['c'] = compute;
  id = watch('c', 0);
  watch_as('r', MW_FLAG | MW_WEAK | MW_SKIP, 0, result);
  compute();
  write();
  check(logged("c=") && !mw_guard_is_valid(e, result));
  compute();
  write_key(obj, 1, 1);
  check(logged("c=") && mw_guard_is_valid(e, result));
  mw_watch_cancel(e, id);
  watch('c', MW_AFTER);
  write();
  check(logged("=c") && mw_guard_is_valid(e, result));
  note_key(&rows, obj, 1);
  check(!mw_guard_is_valid(e, result));
  compute();
  end_rows(&rows);
  check(mw_guard_is_valid(e, result) && !has_lost(e, result));
  host.log[0] = '\0';
  mw_object_unwatch(e, obj);
  check(!mw_guard_is_valid(e, result) && has_lost(e, result));
  compute();
  check(!has_lost(e, result));
  watch_as('r', MW_FLAG | MW_WEAK, 0, result);
  mw_object_forget(e, obj);
  check(mw_guard_is_valid(e, result) && !has_lost(e, result));
}

static void flags_that_are_not_weak(mw_engine *e, heap *h) {
  mw_watch_options options;
  mw_handle guard, obj;
  mw_watch_id id;
  begin(e);
  (void)h;
  mw_object_identify(e, &places[1], &guard);
  id = watch_as('a', MW_FLAG, 0, guard);
  check(mw_watch_info(e, id, &options, &obj) == MW_OK);
  check(options.guard == guard && obj == host.obj);
  write();
  check(!mw_guard_is_valid(e, guard) && is_alive(e, id));
  mw_object_forget(e, guard);
  write();
  check(!is_alive(e, id) && logged("=="));
}

/* Another object with a record has the guard's place. */
static void stale_guards(mw_engine *e, heap *h) {
  mw_handle guard, other;
  begin(e);
  (void)h;
  mw_object_identify(e, &places[1], &guard);
  mw_object_forget(e, guard);
  mw_object_identify(e, &places[2], &other);
  mw_guard_set_valid(e, other, 0);
  check(watch_as('a', MW_FLAG, 0, guard) == 0);
  check(watch_as('a', MW_FLAG | MW_WEAK, 0, guard) == 0);
  check(watch_as('a', MW_WEAK, 0, MW_NONE) == 0);
  check(n_waiting(e, host.obj) == 0);
  check(!mw_guard_is_valid(e, other));
}

static void batch(mw_engine *e, heap *h) {
  batch_rows rows;
  mw_handle obj = begin(e);
  (void)h;
  memset(&rows, 0, sizeof(rows));
  watch('a', 0);
  watch_as('b', MW_ONCE, 2, MW_NONE);
  watch('c', MW_ONCE);
  note_key(&rows, obj, 1);
  note_key(&rows, obj, 2);
  note_key(&rows, obj, 1);
  check(logged("==="));
  end_rows(&rows);
  check(logged("1a1c2b"));
  check(mw_object_mutations(e, obj) == 3);
  write();
  check(logged("a="));
}

/* A row whose value is the same does not concern c. */
static void batch_and_skip(mw_engine *e, heap *h) {
  batch_rows rows;
  mw_handle obj = begin(e);
  (void)h;
  memset(&rows, 0, sizeof(rows));
  watch('c', MW_SKIP);
  watch('d', 0);
  note_key(&rows, obj, 1);
  note_key(&rows, obj, 2);
  note_key(&rows, obj, 3);
  rows.rows[1].same = rows.rows[2].same = 1;
  end_rows(&rows);
  check(logged("===1c3d"));
  rows.rows[0].same = 1;
  end_rows(&rows);
  check(logged("3d"));
}

static void batch_and_cancel(mw_engine *e, heap *h) {
  batch_rows rows;
  begin(e);
  (void)h;
  memset(&rows, 0, sizeof(rows));
  host.ids[0] = watch('a', 0);
  host.ids[1] = watch('b', 0);
  note_key(&rows, host.obj, 1);
  mw_watch_cancel(e, host.ids[0]);
  host.ids[3] = watch('d', 0);
  end_rows(&rows);
  check(logged("=1b"));
  note_key(&rows, host.obj, 1);
  mw_object_forget(e, host.obj);
  mw_object_identify(e, &places[0], &host.obj);
  watch('e', 0);
  end_rows(&rows);
  check(logged("=")); /* b and d have gone with the object */
  write();
  check(logged("e="));
}

static void write_again(void) {
  batch_rows rows;
  memset(&rows, 0, sizeof(rows));
  host.act['a'] = NULL;
  note_key(&rows, host.obj, 2);
  end_rows(&rows);
}

static void batch_in_batch(mw_engine *e, heap *h) {
  batch_rows rows;
  begin(e);
  (void)h;
  memset(&rows, 0, sizeof(rows));
  host.act['a'] = write_again;
  watch('a', 0);
  watch('b', 0);
  note_key(&rows, host.obj, 1);
  end_rows(&rows);
  check(logged("=1a=2a2b1b"));
}

static void unwatching(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  check(!mw_object_is_watched(e, obj) && mw_object_unwatch(e, obj) == MW_STALE);
  host.ids[0] = watch_as('a', 0, 1, MW_NONE);
  write();
  check(mw_object_is_watched(e, obj) && mw_object_unwatch(e, obj) == MW_OK);
  check(!is_alive(e, host.ids[0]));
  write();
  check(logged("a==") && mw_object_mutations(e, obj) == 1);
  check(!mw_object_is_watched(e, obj));
}

static void unwatch_object(void) { mw_object_unwatch(host.e, host.obj); }

static void unwatching_inside(mw_engine *e, heap *h) {
  begin(e);
  (void)h;
  host.act['a'] = unwatch_object;
  watch('a', 0);
  watch('b', MW_ONCE);
  write();
  write();
  check(logged("a=="));
}

static void stale(mw_engine *e, heap *h) {
  mw_watch_options options;
  mw_watch_id id = 7;
  mw_handle obj = begin(e);
  (void)h;
  memset(&options, 0, sizeof(options));
  check(mw_watch_info(e, id, &options, &obj) == MW_STALE);
  check(obj == host.obj);
  check(mw_watch_begin(e, MW_NONE, &options, &id) == MW_STALE && id == 7);
  check(mw_write_begin(e, MW_NONE, NULL) == 0);
  check(mw_watch_cancel(e, 0) == MW_STALE &&
        mw_watch_cancel(e, 99) == MW_STALE);
}

static void values(mw_engine *e, heap *h) {
  mw_value a = {MW_TINTEGER, {1}}, b = {MW_TFLOAT, {0}};
  (void)e;
  (void)h;
  b.u.f = 1.0;
  check(mw_value_equal(&a, &a) && !mw_value_equal(&a, &b));
  a = b;
  check(mw_value_equal(&a, &b));
  a.u.f = b.u.f = strtod("nan", NULL);
  check(mw_value_equal(&a, &b));
}

static void no_memory(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  size_t n, refusals = 1;
  for (n = 1; refusals > 0; n++) {
    heap_set(h, HEAP_FAIL_ONCE, n);
    host.ids[0] = watch_as('a', MW_ONCE, 1, MW_NONE);
    refusals = h->refusals;
    check((host.ids[0] == 0) == (refusals > 0));
    check((n_waiting(e, obj) > 0) == (refusals == 0));
  }
  heap_set(h, HEAP_FAIL_EVER, 1);
  write();
  check(logged("a=")); /* the call needs no memory */
}

static heap *short_heap;

/* The second of two keys finds no memory, sooner or later. */
static void watch_without_memory(void) {
  int64_t key;
  for (key = 1; key < 50; key++) {
    heap_set(short_heap, HEAP_FAIL_ONCE, 1);
    watch_as('b', 0, key, MW_NONE);
    heap_set(short_heap, HEAP_GIVE, 0);
    if (mw_verify(host.e) != MW_OK) host.log[0] = '!';
  }
}

static void no_memory_inside(mw_engine *e, heap *h) {
  begin(e);
  short_heap = h;
  host.act['a'] = watch_without_memory;
  watch('a', MW_ONCE);
  watch_as('c', 0, 1000, MW_NONE); /* so that there is room to begin with */
  write();
  check(logged("a="));
}

static void knows_when_an_object_was_last_written(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  check(mw_object_last_change(e, obj) == -1);
  watch('a', 0);
  check(mw_object_last_change(e, obj) == -1 &&
        mw_object_last_change(e, MW_NONE) == -1);
  write_key(obj, 1, 0);
  check(mw_object_last_change(e, obj) == 0);
  mw_clock_advance(e, MW_CLOCK);
  check(mw_object_last_change(e, obj) == 0);
  write_key(obj, 1, 0);
  check(mw_object_last_change(e, obj) == 1);
  mw_clock_reset(e, MW_CLOCK);
  check(mw_object_last_change(e, obj) == -1);
}

static void checks_first(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  try_write(MW_NONE, 1, 0);
  try_write(obj, 1, 0);
  check(logged("=="));
  watch('a', MW_AFTER);
  watch('b', 0);
  watch('c', MW_CHECK);
  watch('d', MW_CHECK | MW_ONCE);
  try_write(obj, 1, 0);
  check(logged("cdb=a"));
  try_write(obj, 1, 0);
  check(logged("cb=a"));
  check(mw_object_mutations(e, obj) == 2 && n_waiting(e, obj) == 3);
}

static void refusals(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  host.ids[0] = watch('a', MW_ONCE);
  host.ids[1] = watch('b', MW_CHECK);
  host.ids[2] = watch('c', MW_CHECK | MW_ONCE);
  host.ids[3] = watch('d', MW_CHECK);
  host.refuses = 'c';
  try_write(obj, 1, 0);
  check(logged("bc!"));
  check(mw_object_mutations(e, obj) == 0 &&
        mw_object_last_change(e, obj) == -1);
  check(is_alive(e, host.ids[0]) && !is_alive(e, host.ids[2]));
  try_write(obj, 1, 0);
  check(logged("bda="));
  check(mw_object_mutations(e, obj) == 1);
}

static void refusals_use_up_one(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  watch('a', MW_CHECK | MW_ONCE);
  watch('b', MW_CHECK | MW_ONCE);
  watch('c', MW_CHECK | MW_ONCE);
  watch_as('d', MW_CHECK | MW_ONCE, 1, MW_NONE);
  host.refuses = 'b';
  try_write(obj, 1, 0);
  check(logged("ab!") && n_waiting(e, obj) == 3);
  try_write(obj, 1, 0);
  check(logged("cd=") && n_waiting(e, obj) == 0);
}

static void checks_of_keys(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  watch_as('a', MW_CHECK, 7, MW_NONE);
  watch('b', MW_CHECK | MW_SKIP);
  try_write(obj, 7, 0);
  try_write(obj, 107, 1);
  try_write(obj, 1, 0);
  check(logged("ab=a=b="));
  host.refuses = 'a';
  try_write(obj, 7, 0);
  check(logged("a!"));
}

static void checks_above(mw_engine *e, heap *h) {
  mw_handle obj = begin(e), root = MW_NONE;
  mw_reach reach;
  mw_value key = {MW_TINTEGER, {1}};
  (void)h;
  mw_object_identify(e, &places[1], &root);
  check(mw_root_begin(e, root, &reach) == MW_NEW);
  check(mw_tree_scan(e, root, &key) == 2);
  check(mw_tree_scan_link(e, 0, root, &key, obj) == MW_NEW);
  mw_tree_scanned(e, root);
  watch('a', MW_CHECK);
  host.obj = root;
  watch('b', MW_CHECK | MW_DEEP);
  watch('c', MW_CHECK);
  watch_as('d', MW_CHECK | MW_DEEP, 1, MW_NONE);
  watch_as('e', MW_CHECK | MW_DEEP, 2, MW_NONE);
  try_write(obj, 5, 0);
  check(logged("abd="));
  try_write(root, 2, 0);
  check(logged("bce="));
  host.refuses = 'a';
  try_write(obj, 5, 0);
  check(logged("a!"));
  host.refuses = 'b';
  try_write(obj, 5, 0);
  check(logged("ab!"));
  check(mw_object_mutations(e, root) == 1);
}

/* Begins a reach of the path `key` of `host.obj`. */
static mw_reach begin_path(int64_t key) {
  mw_filter filter;
  mw_value keys[2] = {{MW_TINTEGER, {0}}, {MW_TNIL, {0}}};
  mw_reach reach = 0;
  memset(&filter, 0, sizeof(filter));
  keys[0].u.i = key;
  filter.keys = keys;
  filter.n_keys = 2;
  mw_root_begin_filtered(host.e, host.obj, &filter, &reach);
  return reach;
}

static void begin_paths(void) {
  begin_path(8);
  begin_path(9);
}

/* A reach that nobody hears ends when another one begins. */
static void checks_of_paths(mw_engine *e, heap *h) {
  mw_handle obj = begin(e), below = MW_NONE;
  mw_value key = {MW_TINTEGER, {7}}, wanted;
  mw_watch_options options;
  mw_watch_id id;
  (void)h;
  memset(&options, 0, sizeof(options));
  options.flags = MW_CHECK | MW_ONCE | MW_DEEP;
  options.reach = begin_path(7);
  mw_object_identify(e, &places[1], &below);
  check(mw_tree_scan(e, obj, &wanted) == 1);
  check(mw_tree_scan_link(e, 0, obj, &key, below) == MW_NEW);
  mw_tree_scanned(e, obj);
  options.ref = 'a';
  check(mw_watch_begin(e, obj, &options, &id) == MW_OK);
  options.ref = 'b';
  check(mw_watch_begin(e, obj, &options, &id) == MW_OK);
  host.act['a'] = begin_paths;
  host.refuses = 'a';
  try_write(below, 1, 0);
  check(logged("a!") && mw_verify(e) == MW_OK);
  try_write(below, 1, 0);
  check(logged("b="));
  begin_path(8);
  check(!mw_tree_has(e, below));
}

static void checks_that_end(mw_engine *e, heap *h) {
  (void)h;
  begin(e);
  host.ids[0] = watch('a', MW_CHECK);
  host.ids[1] = watch('b', MW_CHECK);
  host.ids[2] = watch('c', MW_CHECK);
  host.act['a'] = cancel_b;
  try_write(host.obj, 1, 0);
  check(logged("ac="));
  host.act['a'] = cancel_all;
  host.refuses = 'a';
  try_write(host.obj, 1, 0);
  try_write(host.obj, 1, 0);
  check(logged("a!=") && n_waiting(e, host.obj) == 0);
  host.refuses = 0;
  watch('a', MW_CHECK);
  watch('b', MW_CHECK);
  host.act['a'] = forget_object;
  try_write(host.obj, 1, 0);
  check(logged("a="));
}

static void check_nested(void) {
  host.act['a'] = NULL;
  try_write(host.obj, 2, 0);
}

static void checks_that_write(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  watch('a', MW_CHECK);
  watch('b', 0);
  host.act['a'] = check_nested;
  try_write(obj, 1, 0);
  check(logged("aab=b=") && mw_object_mutations(e, obj) == 2);
}

static void questions(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  (void)h;
  host.ids[0] = watch('a', MW_ASK | MW_ONCE);
  watch('b', MW_ASK | MW_AFTER);
  watch('c', MW_ASK | MW_CHECK);
  watch('d', MW_ONCE);
  host.answers['b'] = 1;
  host.refuses = 'c';
  try_write(obj, 1, 0);
  check(logged("??d=?b") && is_alive(e, host.ids[0]));
  host.answers['a'] = host.answers['c'] = 1;
  try_write(obj, 1, 0);
  check(logged("?c!"));
  host.refuses = 0;
  try_write(obj, 1, 0);
  check(logged("?c?a=?b") && !is_alive(e, host.ids[0]));
  host.answers['b'] = -1;
  try_write(obj, 1, 0);
  try_write(obj, 1, 0);
  check(logged("?c=??c=") && n_waiting(e, obj) == 1);
}

static void questions_in_batches(mw_engine *e, heap *h) {
  batch_rows rows;
  mw_handle obj = begin(e);
  (void)h;
  memset(&rows, 0, sizeof(rows));
  host.ids[0] = watch('a', MW_ASK | MW_ONCE);
  note_key(&rows, obj, 1);
  note_key(&rows, obj, 2);
  end_rows(&rows);
  check(logged("==2?") && is_alive(e, host.ids[0]));
  host.answers['a'] = 1;
  memset(&rows, 0, sizeof(rows));
  note_key(&rows, obj, 1);
  end_rows(&rows);
  check(logged("=1?a") && !is_alive(e, host.ids[0]));
}

static void forget_in_question(void) {
  host.act['?'] = NULL;
  forget_object();
}

static void questions_that_end(mw_engine *e, heap *h) {
  (void)h;
  begin(e);
  host.ids[0] = watch('a', MW_ASK);
  host.ids[1] = watch('b', MW_ASK);
  host.ids[2] = watch('c', MW_ASK);
  host.answers['a'] = host.answers['b'] = host.answers['c'] = 1;
  host.act['?'] = cancel_b;
  write();
  check(logged("?a?c="));
  host.act['?'] = cancel_all;
  host.answers['a'] = 0;
  write();
  check(logged("?=") && n_waiting(e, host.obj) == 0);
  watch('a', MW_ASK);
  watch('b', MW_ASK);
  host.act['?'] = forget_in_question;
  write();
  check(logged("?="));
}

static void watches_live_on_if_asked(mw_engine *e, heap *h) {
  mw_handle obj = begin(e);
  int i;
  (void)h;
  for (i = 0; i < 1000; i++) {
    watch_as('a', MW_ASK, i % 7 + 1, MW_NONE);
    watch('b', MW_ASK);
    if (i == 500) check(n_waiting(e, obj) == 3 * 501);
    host.is_over = i > 500;
  }
  check(n_waiting(e, obj) < 1500);
  host.is_over = 0;
  check(logged(""));
}

const test watch_tests[] = {
    {"checks are asked first, in order", checks_first},
    {"a refusal ends the asking, and the write does not count", refusals},
    {"a refusal uses up one one-shot watch, and no other", refusals_use_up_one},
    {"checks may be of keys, and are asked in batches", checks_of_keys},
    {"checks above are asked after the object's", checks_above},
    {"a check that refuses ends no path of the checks that were to follow",
     checks_of_paths},
    {"a check may end watches and the object", checks_that_end},
    {"a check may write, which lands first", checks_that_write},
    {"a host is asked before a watch is used up", questions},
    {"a host is asked at the end of a batch", questions_in_batches},
    {"a question may end watches and the object", questions_that_end},
    {"a host is asked whether watches live on", watches_live_on_if_asked},
    {"the last write of an object has a generation",
     knows_when_an_object_was_last_written},
    {"guards are called in the order of watching, once", in_order},
    {"some stay, some are called after the value is stored", stays},
    {"a watch of a key hears of that key only", keys},
    {"a write of the same value can be passed over", skip},
    {"who watches again in its call is called at the next write", again},
    {"a write within a call is counted and lands first", nested},
    {"who is cancelled before its call is not called", cancelled},
    {"a guard may cancel itself and all others", cancel_self},
    {"a guard may end the object", object_ends},
    {"dead guards are skipped, and their watches do not pile up", weak_guards},
    {"the watches of a guard end with the guard", forgotten_guards},
    {"guards follow others, any number of them", guards_that_follow},
    {"guards of results are told of the store, and of unwatching",
     guards_of_results},
    {"a flag becomes invalid without a call", flags},
    {"a change can be for flags alone", flags_only},
    {"a flag need not be weak", flags_that_are_not_weak},
    {"a guard that is gone cannot watch", stale_guards},
    {"a batch calls once, at the end", batch},
    {"a batch passes over what ends as it began", batch_and_skip},
    {"a batch bears cancelling and the end of objects", batch_and_cancel},
    {"a guard may batch", batch_in_batch},
    {"unwatching ends all watches", unwatching},
    {"a guard may unwatch the object", unwatching_inside},
    {"nothing happens to the stale", stale},
    {"values are equal when they are the same", values},
    {"watching may run out of memory, writing may not", no_memory},
    {"a guard may run out of memory for watching", no_memory_inside},
    {NULL, NULL}};
