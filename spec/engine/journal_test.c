/*
** journal_test.c - owners of writes, which take back what they wrote.
** SPDX-License-Identifier: MIT
**
** The model of the random programs has a list of all writes, each with its
** owner.  An owner that takes its writes back takes them from the list, and a
** field holds what the last write to the field in the list stored.  A reader
** who stores what is delivered has what the writes of no open owner stored.
**
** SEED=n begins with this seed, PROGRAMS=n runs n programs.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../engine/engine.h"
#include "check.h"

enum { OBJECTS = 3, FIELDS = 3, THREADS = 4, OWNERS = 12, WRITES = 200 };

/* The host: objects with fields.  Each thread numbers the old values of its
** owners anew: a number is the value and BASE times the thread. */
enum { BASE = 100000 };

typedef struct owner {
  mw_owner id; /* 0: not open */
  int thread;
  int parent; /* or -1 */
  int order;  /* of its begin */
} owner;

static struct {
  mw_engine *e;
  int64_t field[OBJECTS][FIELDS];
  mw_handle handles[OBJECTS];
  owner owners[OWNERS];
  int orders;
  int kept[8];   /* how often each string is retained */
  int restored;  /* number of calls of `restore` */
  int mistakes;  /* values that another thread has numbered */
  int rewinding; /* the thread of the owner that is rewound */
  mw_reader reader;
  int64_t copy[OBJECTS][FIELDS]; /* of what the reader has read */
} host;

static int object_of(mw_handle h) {
  int i = 0;
  while (i < OBJECTS && host.handles[i] != h) i++;
  return i;
}

static void restore(void *ud, const mw_entry *entry, void *its) {
  int64_t key = entry->value[MW_KEY].i, old = entry->value[MW_OLD].i;
  (void)ud;
  (void)its;
  host.mistakes += key / BASE != host.rewinding || old / BASE != host.rewinding;
  host.field[object_of(entry->obj)][key % BASE] = old % BASE;
  host.restored++;
}

static int field(void *ud, mw_owner id, const mw_entry *entry, mw_value *key,
                 void *its) {
  (void)ud;
  (void)id;
  (void)its;
  key->type = MW_TINTEGER;
  key->u.i = entry->value[MW_KEY].i % BASE;
  return MW_OK;
}

/* An owner without a thread numbers its values as the first thread does. */
static int thread_of(mw_owner id) {
  int i;
  for (i = 0; i < OWNERS; i++)
    if (host.owners[i].id == id && id != 0) return host.owners[i].thread;
  return 0;
}

static int hand(void *ud, mw_owner from, mw_owner to, mw_entry *entry,
                void *its) {
  int part;
  (void)ud;
  (void)from;
  (void)its;
  for (part = 0; part < MW_PARTS; part++)
    entry->value[part].i =
        entry->value[part].i % BASE + (int64_t)BASE * thread_of(to);
  return MW_OK;
}

static int deliver(void *ud, mw_entry *entry, const mw_values *values,
                   void *its) {
  int thread = thread_of(values->owner), part;
  int old = thread_of(values->old_owner);
  (void)ud;
  (void)its;
  host.mistakes += entry->value[MW_KEY].i / BASE != thread ||
                   entry->value[MW_NOW].i / BASE != thread ||
                   entry->value[MW_OLD].i / BASE != old;
  for (part = 0; part < MW_PARTS; part++) entry->value[part].i %= BASE;
  return MW_OK;
}

static void retain(void *ud, const mw_value *value) {
  (void)ud;
  host.kept[value->u.i]++;
}

static void release(void *ud, const mw_value *value) {
  (void)ud;
  host.kept[value->u.i]--;
}

static void begin(mw_engine *e) {
  mw_host its;
  int i;
  memset(&host, 0, sizeof(host));
  memset(&its, 0, sizeof(its));
  its.retain = retain;
  its.release = release;
  its.restore = restore;
  its.field = field;
  its.hand = hand;
  its.deliver = deliver;
  host.e = e;
  mw_host_set(e, &its);
  for (i = 0; i < OBJECTS; i++)
    mw_object_identify(e, host.field[i], &host.handles[i]);
}

/* The owners do not number their values: entries have the keys. */
static void begin_unnumbered(mw_engine *e) {
  mw_host its;
  begin(e);
  its = e->watch.host;
  its.field = NULL;
  its.hand = NULL;
  mw_host_set(e, &its);
}

/* {======================================================
** Single owners
** ======================================================= */

static int write_as(mw_owner id, int thread, int i, int key, int64_t value) {
  mw_entry entry;
  int code;
  memset(&entry, 0, sizeof(entry));
  entry.obj = host.handles[i];
  entry.type[MW_KEY] = entry.type[MW_OLD] = entry.type[MW_NOW] = MW_TINTEGER;
  entry.value[MW_KEY].i = key + (int64_t)BASE * thread;
  entry.value[MW_OLD].i = host.field[i][key] + (int64_t)BASE * thread;
  entry.value[MW_NOW].i = value + (int64_t)BASE * thread;
  entry.kind = MW_UPDATE;
  code = mw_journal_append(host.e, id, &entry, NULL, NULL);
  if (code == MW_OK) host.field[i][key] = value;
  return code;
}

static int write(mw_owner id, int i, int key, int64_t value) {
  return write_as(id, 0, i, key, value);
}

static size_t count(mw_owner id) {
  size_t n;
  mw_owner_entries(host.e, id, &n);
  return n;
}

static void has_entries(mw_engine *e, heap *h) {
  mw_owner one, two;
  size_t n;
  (void)h;
  begin(e);
  one = mw_owner_begin(e, 0, 0);
  check(one != 0 && mw_owner_entries(e, one, &n) == NULL && n == 0);
  check(write(one, 0, 1, 5) == MW_OK && write(one, 1, 2, 7) == MW_OK);
  check(mw_owner_entries(e, one, &n)[1].value[MW_NOW].i == 7 && n == 2);
  two = mw_owner_begin(e, one, one);
  check(mw_owner_parent(e, two) == one && write(two, 0, 1, 6) == MW_OK);
  check(count(one) == 2 && count(two) == 1);
  check(mw_owner_commit(e, two, NULL) == MW_OK && count(one) == 3);
  check(mw_owner_rewind(e, one, NULL) == MW_OK && host.restored == 3);
  mw_owner_forget(e, one);
  check(host.field[0][1] == 0 && host.field[1][2] == 0);
  check(e->journal.open == 0 && e->journal.entries == 0);
}

static void leaves_the_dead_alone(mw_engine *e, heap *h) {
  mw_owner one;
  (void)h;
  begin(e);
  one = mw_owner_begin(e, 0, 0);
  write(one, 0, 0, 1);
  write(one, 1, 0, 1);
  mw_object_forget(e, host.handles[1]);
  check(mw_owner_rewind(e, one, NULL) == MW_OK && host.restored == 1);
  mw_owner_forget(e, one);
  check(host.field[0][0] == 0 && host.field[1][0] == 1);
}

static mw_entry texts(int64_t key, int64_t old, int64_t now) {
  mw_entry entry;
  memset(&entry, 0, sizeof(entry));
  entry.obj = host.handles[0];
  memset(entry.type, MW_TSTRING, sizeof(entry.type));
  entry.value[MW_KEY].i = key;
  entry.value[MW_OLD].i = old;
  entry.value[MW_NOW].i = now;
  return entry;
}

static void keeps_strings(mw_engine *e, heap *h) {
  mw_owner one, two;
  mw_entry entry;
  int i, mixed;
  (void)h;
  for (mixed = 0; mixed < 2; mixed++) {
    begin_unnumbered(e);
    one = mw_owner_begin(e, 0, 0);
    entry = texts(1, 2, 3);
    mw_journal_append(e, one, &entry, NULL, NULL);
    check(host.kept[1] == 1 && host.kept[2] == 1 && host.kept[3] == 1);
    two = mw_owner_begin(e, mixed ? 0 : one, mixed ? 0 : one);
    entry = texts(1, 3, 4);
    mw_journal_append(e, two, &entry, NULL, NULL);
    if (mixed) {
      entry = texts(5, 3, 4);
      mw_journal_append(e, one, &entry, NULL, NULL);
      check(mw_journal_is_mixed(e));
    }
    check(mw_owner_rewind(e, two, NULL) == MW_OK);
    mw_owner_forget(e, two);
    check(host.kept[1] == 1 + mixed && host.kept[4] == mixed);
    check(mw_owner_commit(e, one, NULL) == MW_OK);
    for (i = 0; i < 8; i++) check(host.kept[i] == 0);
  }
}

/* What the first entry of the owner has as old value. */
static int64_t old_of(mw_owner id) {
  size_t n;
  return mw_owner_entries(host.e, id, &n)[0].value[MW_OLD].i;
}

static void gives_old_values_on(mw_engine *e, heap *h) {
  mw_owner owners[3];
  int i;
  (void)h;
  begin(e);
  for (i = 0; i < 3; i++) {
    host.owners[i].id = owners[i] = mw_owner_begin(e, 0, 0);
    host.owners[i].thread = i;
    write_as(owners[i], i, 0, 0, i + 1);
    write_as(owners[i], i, 1, i, i + 1);
  }
  check(old_of(owners[2]) == 2 + 2 * BASE);
  host.rewinding = 1;
  mw_owner_rewind(e, owners[1], NULL);
  mw_owner_forget(e, owners[1]);
  check(old_of(owners[2]) == 1 + 2 * BASE && host.field[0][0] == 3);
  check(old_of(owners[0]) == 0 && host.field[1][1] == 0);
  host.rewinding = 0;
  mw_owner_rewind(e, owners[0], NULL);
  mw_owner_forget(e, owners[0]);
  check(old_of(owners[2]) == 2 * BASE && mw_verify(e) == MW_OK);
  host.rewinding = 2;
  mw_owner_rewind(e, owners[2], NULL);
  mw_owner_forget(e, owners[2]);
  check(host.field[0][0] == 0 && host.field[1][2] == 0);
  check(host.mistakes == 0);
}

static void gives_old_values_on_below_a_final_write(mw_engine *e, heap *h) {
  mw_owner owners[3];
  int i;
  (void)h;
  begin(e);
  for (i = 0; i < 3; i++) {
    host.owners[i].id = owners[i] = mw_owner_begin(e, 0, 0);
    host.owners[i].thread = i;
    write_as(owners[i], i, 0, 0, i + 1);
  }
  check(write(0, 0, 0, 9) == MW_OK && mw_verify(e) == MW_OK);
  write_as(owners[1], 1, 0, 0, 10);
  host.rewinding = 0;
  mw_owner_rewind(e, owners[0], NULL);
  mw_owner_forget(e, owners[0]);
  check(host.field[0][0] == 10 && old_of(owners[1]) == BASE);
  check(mw_verify(e) == MW_OK);
  host.rewinding = 1;
  mw_owner_rewind(e, owners[1], NULL);
  mw_owner_forget(e, owners[1]);
  check(host.field[0][0] == 9 && old_of(owners[2]) == 2 * BASE);
  check(mw_verify(e) == MW_OK && e->journal.fields.size == 0);
  host.rewinding = 2;
  mw_owner_rewind(e, owners[2], NULL);
  mw_owner_forget(e, owners[2]);
  check(host.field[0][0] == 9 && host.mistakes == 0);
}

static void gives_old_strings_on(mw_engine *e, heap *h) {
  mw_owner one, two;
  mw_entry entry;
  int i;
  (void)h;
  begin_unnumbered(e);
  one = mw_owner_begin(e, 0, 0);
  two = mw_owner_begin(e, 0, 0);
  entry = texts(1, 2, 3);
  mw_journal_append(e, one, &entry, NULL, NULL);
  entry = texts(1, 3, 4);
  mw_journal_append(e, two, &entry, NULL, NULL);
  mw_owner_rewind(e, one, NULL);
  mw_owner_forget(e, one);
  check(old_of(two) == 2 && host.kept[3] == 0 && host.kept[2] == 1);
  check(mw_owner_commit(e, two, NULL) == MW_OK);
  for (i = 0; i < 8; i++) check(host.kept[i] == 0);
}

static void changes_nothing_without_memory(mw_engine *e, heap *h) {
  mw_owner one, two;
  int i, code = MW_OK;
  begin(e);
  one = mw_owner_begin(e, 0, 0);
  two = mw_owner_begin(e, 0, 0);
  check(write(one, 2, 1, 1) == MW_OK && write(two, 2, 0, 1) == MW_OK);
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 0; i < 1000 && code == MW_OK; i++) code = write(two, 0, 0, i + 1);
  check(code == MW_NOMEM && count(two) == (size_t)i);
  check(write(one, 0, 0, 9) == MW_NOMEM && count(one) == 1); /* must mix */
  check(!mw_journal_is_mixed(e) && mw_verify(e) == MW_OK);
  heap_set(h, HEAP_GIVE, 0);
  check(write(one, 0, 0, 9) == MW_OK && mw_journal_is_mixed(e));
  mw_owner_rewind(e, two, NULL);
  mw_owner_forget(e, two);
  check(host.field[0][0] == 9 && host.field[2][0] == 0);
  mw_owner_rewind(e, one, NULL);
  mw_owner_forget(e, one);
  check(host.field[0][0] == 0 && mw_verify(e) == MW_OK);
}

static int refuse(void *ud, mw_owner from, mw_owner to, mw_entry *entry,
                  void *its) {
  (void)ud;
  (void)from;
  (void)to;
  (void)entry;
  return *(const int *)its;
}

static void returns_what_the_host_does(mw_engine *e, heap *h) {
  mw_owner one, two;
  mw_host its;
  int code = -77;
  (void)h;
  begin(e);
  its = e->watch.host;
  its.hand = refuse;
  mw_host_set(e, &its);
  one = mw_owner_begin(e, 0, 0);
  two = mw_owner_begin(e, one, 0);
  check(write(one, 0, 0, 1) == MW_OK && write(two, 0, 0, 2) == MW_OK);
  check(mw_owner_commit(e, two, &code) == -77);
  check(count(two) == 1 && count(one) == 1 && mw_verify(e) == MW_OK);
  check(write(one, 0, 0, 3) == MW_OK); /* mixes */
  check(mw_owner_rewind(e, two, &code) == -77 && host.field[0][0] == 3);
  code = MW_OK;
  check(mw_owner_commit(e, two, &code) == MW_OK && count(one) == 3);
  check(mw_owner_commit(e, one, &code) == MW_OK);
}

static int is_first(void *ud, mw_handle obj) {
  (void)ud;
  return obj == host.handles[0];
}

static void drops_entries(mw_engine *e, heap *h) {
  mw_owner one, two;
  int mixed;
  (void)h;
  for (mixed = 0; mixed < 2; mixed++) {
    begin(e);
    one = mw_owner_begin(e, 0, 0);
    write(one, 0, 0, 1);
    write(one, 1, 0, 1);
    two = mw_owner_begin(e, one, one);
    write(two, 0, 0, 2);
    write(two, 0, 1, 2);
    if (mixed) write(0, 2, 0, 3);
    mw_journal_drop(e, is_first, NULL);
    check(mw_verify(e) == MW_OK && count(one) == 1 && count(two) == 0);
    write(two, 0, 1, 4);
    mw_owner_commit(e, two, NULL);
    mw_owner_rewind(e, one, NULL);
    mw_owner_forget(e, one);
    check(host.field[0][0] == 2 && host.field[0][1] == 2);
    check(host.field[1][0] == 0 && mw_verify(e) == MW_OK);
  }
}

/* }====================================================== */

/* {======================================================
** Random programs
** ======================================================= */

typedef struct row {
  int obj, key, owner; /* -1: nobody's, or final */
  int64_t value;
} row;

static struct {
  row rows[WRITES];
  int n;
  row due[WRITES]; /* what the reader has to read now */
  int n_due;
} model;

static uint64_t state;

static int draw(int n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)n);
}

/* Returns the newest open owner of a thread, or -1. */
static int newest_of(int thread) {
  int i, newest = -1;
  for (i = 0; i < OWNERS; i++) {
    const owner *o = &host.owners[i];
    if (o->id == 0 || o->thread != thread) continue;
    if (newest < 0 || o->order > host.owners[newest].order) newest = i;
  }
  return newest;
}

/* A thread without an owner begins one below any owner. */
static void begin_owner(void) {
  int i = 0, thread = draw(THREADS), below = newest_of(thread), parent = below;
  while (i < OWNERS && host.owners[i].id != 0) i++;
  if (i == OWNERS) return;
  if (below < 0) {
    parent = draw(OWNERS);
    if (host.owners[parent].id == 0) parent = -1;
  }
  host.owners[i].id =
      mw_owner_begin(host.e, (parent < 0) ? 0 : host.owners[parent].id,
                     (below < 0) ? 0 : host.owners[below].id);
  host.owners[i].thread = thread;
  host.owners[i].parent = parent;
  host.owners[i].order = ++host.orders;
}

static void write_field(void) {
  int i = (draw(4) == 0) ? -1 : newest_of(draw(THREADS));
  row *r = &model.rows[model.n];
  if (model.n == WRITES) return;
  r->obj = draw(OBJECTS);
  r->key = draw(FIELDS);
  r->owner = i;
  r->value = 1 + draw(BASE - 1);
  model.n++;
  if (i < 0) model.due[model.n_due++] = *r;
  if (i < 0)
    write_as(0, 0, r->obj, r->key, r->value);
  else
    write_as(host.owners[i].id, host.owners[i].thread, r->obj, r->key,
             r->value);
}

/* Are the entries of owner `i` the writes that the model knows? */
static int agrees(int i) {
  size_t n, at = 0;
  const mw_entry *entries = mw_owner_entries(host.e, host.owners[i].id, &n);
  int k;
  for (k = 0; k < model.n; k++) {
    const row *r = &model.rows[k];
    if (r->owner != i) continue;
    if (at == n || object_of(entries[at].obj) != r->obj ||
        entries[at].value[MW_KEY].i !=
            r->key + (int64_t)BASE * host.owners[i].thread ||
        entries[at].value[MW_NOW].i % BASE != r->value)
      return 0;
    at++;
  }
  return at == n;
}

/* Is there a final write to the row's field after the row? */
static int is_passed(int k) {
  const row *r = &model.rows[k];
  for (k++; k < model.n; k++) {
    const row *later = &model.rows[k];
    if (later->owner < 0 && later->obj == r->obj && later->key == r->key)
      return 1;
  }
  return 0;
}

/* The reader has to read the writes of owner `i`. */
static void deliver_rows(int i) {
  int k;
  for (k = 0; k < model.n; k++)
    if (model.rows[k].owner == i && !is_passed(k))
      model.due[model.n_due++] = model.rows[k];
}

static int end_owner(int i, int commits) {
  owner *o = &host.owners[i];
  int parent = o->parent, k, n = 0;
  if (!agrees(i)) return 0;
  if (commits && parent < 0) deliver_rows(i);
  host.rewinding = o->thread;
  if (commits) {
    if (mw_owner_commit(host.e, o->id, NULL) != MW_OK) return 0;
  } else {
    if (mw_owner_rewind(host.e, o->id, NULL) != MW_OK) return 0;
    mw_owner_forget(host.e, o->id);
  }
  o->id = 0;
  for (k = 0; k < OWNERS; k++)
    if (host.owners[k].id != 0 && host.owners[k].parent == i)
      host.owners[k].parent = parent;
  for (k = 0; k < model.n; k++) {
    row r = model.rows[k];
    if (r.owner == i && !commits) continue;
    if (r.owner == i) r.owner = parent;
    model.rows[n++] = r;
  }
  model.n = n;
  return 1;
}

/* Reads and stores what is due. */
static void read_all(void) {
  uint64_t seq = mw_reader_next(host.e, host.reader);
  mw_entry entry;
  int i;
  for (i = 0; i < model.n_due; i++, seq++) {
    const row *r = &model.due[i];
    if (mw_delivery_entry(host.e, seq, &entry) != MW_OK) break;
    host.mistakes += entry.seq != seq || object_of(entry.obj) != r->obj ||
                     entry.value[MW_KEY].i != r->key ||
                     entry.value[MW_NOW].i != r->value ||
                     entry.value[MW_OLD].i != host.copy[r->obj][r->key];
    host.copy[r->obj][r->key] = r->value;
  }
  host.mistakes += i < model.n_due || seq != mw_delivery_last(host.e) + 1;
  mw_reader_seek(host.e, host.reader, seq);
}

static int is_right(void) {
  int64_t field[OBJECTS][FIELDS], final[OBJECTS][FIELDS];
  int i;
  memset(field, 0, sizeof(field));
  memset(final, 0, sizeof(final));
  for (i = 0; i < model.n; i++) {
    const row *r = &model.rows[i];
    field[r->obj][r->key] = r->value;
    if (r->owner < 0) final[r->obj][r->key] = r->value;
  }
  if (host.reader != 0) read_all();
  model.n_due = 0;
  return memcmp(field, host.field, sizeof(field)) == 0 && host.mistakes == 0 &&
         (host.reader == 0 || memcmp(final, host.copy, sizeof(final)) == 0) &&
         mw_verify(host.e) == MW_OK;
}

static int run_program(mw_engine *e) {
  int step, i, fine = 1;
  begin(e);
  model.n = model.n_due = 0;
  host.reader = (draw(4) == 0) ? 0 : mw_reader_open(e, WRITES, 0);
  for (step = 0; step < 60 && fine; step++) {
    int what = draw(10);
    i = draw(OWNERS);
    if (what < 3)
      begin_owner();
    else if (what < 8)
      write_field();
    else if (host.owners[i].id != 0)
      fine = end_owner(i, draw(2));
    fine = fine && is_right();
  }
  for (i = 0; i < OWNERS && fine; i++)
    if (host.owners[i].id != 0) fine = end_owner(i, draw(2)) && is_right();
  for (i = 0; i < OBJECTS; i++) mw_object_forget(e, host.handles[i]);
  if (host.reader != 0) mw_reader_close(e, host.reader);
  return fine && e->journal.entries == 0 && !mw_journal_is_mixed(e);
}

static void runs_random_programs(mw_engine *e, heap *h) {
  const char *seed = getenv("SEED"), *rounds = getenv("PROGRAMS");
  uint64_t first =
      (seed != NULL) ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
  int n = (rounds != NULL) ? atoi(rounds) : 2000, i;
  (void)h;
  for (i = 0; i < n; i++) {
    int fine;
    state = first + (uint64_t)i;
    fine = run_program(e);
    if (!fine)
      fprintf(stderr, "SEED=%llu\n", (unsigned long long)first + (unsigned)i);
    check(fine);
  }
}

/* }====================================================== */

static void tracks(mw_engine *e, heap *h) {
  mw_handle obj;
  mw_reach reach;
  (void)h;
  begin(e);
  obj = host.handles[0];
  check(!mw_object_is_tracked(e, obj) && mw_object_untrack(e, obj) == MW_STALE);
  check(mw_object_track(e, obj, 0, &reach) == MW_OK &&
        mw_object_is_tracked(e, obj));
  check(!mw_object_is_watched(e, obj) && !mw_tree_has(e, obj));
  check(mw_object_track(e, obj, 1, &reach) == MW_NEW && mw_tree_has(e, obj));
  check(!mw_object_is_watched(e, obj) && mw_object_unwatch(e, obj) == MW_OK);
  check(mw_object_is_tracked(e, obj) && mw_tree_has(e, obj));
  check(mw_object_untrack(e, obj) == MW_OK && !mw_tree_has(e, obj));
  check(mw_object_track(e, MW_NONE, 0, &reach) == MW_STALE);
}

const test journal_tests[] = {
    {"an owner has its writes and those of its children", has_entries},
    {"objects that are gone are not restored", leaves_the_dead_alone},
    {"strings are kept as long as their entries", keeps_strings},
    {"who wrote later gets the old value", gives_old_values_on},
    {"who wrote later gets the old value, though another one wrote for good",
     gives_old_values_on_below_a_final_write},
    {"who wrote later gets the old string", gives_old_strings_on},
    {"without memory nothing changes", changes_nothing_without_memory},
    {"the host's code is returned, and nothing changes",
     returns_what_the_host_does},
    {"the entries of objects can be dropped", drops_entries},
    {"owners end in any order as a model says", runs_random_programs},
    {"an object can be tracked without being watched", tracks},
    {NULL, NULL}};
