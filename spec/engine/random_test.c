/*
** random_test.c - random programs that watch and write, beside a plain model.
** SPDX-License-Identifier: MIT
**
** The model has one array of watches, in the order in which they began, and
** objects with fields.  For a write under way the model finds the next watch to
** be called by looking at all watches.  The programs act on the engine and on
** the model alike, in guards too.  So whenever the engine calls a guard, the
** model must have found this guard, and at the end of a write or a batch the
** model must find no more.
**
** SEED=n begins with this seed, ROUNDS=n runs n rounds.
*/
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../engine/engine.h"
#include "check.h"

enum {
  OBJECTS = 7,
  KEYS = 3, /* the last is an object */
  GUARDS = 3,
  WATCHES = 120,
  DEPTH = 5,  /* of writes in guards */
  DEEDS = 12, /* in the guards of one step */
  STEPS = 60,
  ROUNDS = 400,
  ROWS = 12, /* of a batch */
  NONE = -1
};

typedef struct object {
  mw_handle h;
  int field[KEYS]; /* an object or NONE */
  int watched, known, silent;
  int root; /* ascends with each begin of a root; 0: no root */
  uint64_t count;
} object;

typedef struct watch {
  mw_watch_id id;
  int obj, flags, guard; /* numbers; a guard that is a function is NONE */
  mw_handle guard_h;
  mw_value keys[KEYS];
  uint32_t n_keys;
  int ended;
  int claim; /* the walk that has claimed the watch, or 0 */
} watch;

/* The rows of a batch under way: with the number of the object, and the number
** of watches at the last write. */
typedef struct batch_rows {
  mwi_batch_row rows[ROWS];
  int obj[ROWS], limit[ROWS];
  uint32_t n;
  uint64_t writes;
} batch_rows;

/* A write whose watches are called, or the end of a batch. */
typedef struct telling {
  struct telling *outer;
  int refused;  /* has a check refused the write? */
  int is_end;   /* of a batch: */
  int expected; /* the watch to be called next */
  int obj;      /* the written object; NONE when the object has died */
  mw_value key;
  int same, phase;
  int limit;      /* watches from this number on do not hear */
  int target;     /* the object whose watches are called now, or NONE */
  int below;      /* MW_DEEP: the target is a root above `obj` */
  mw_value field; /* of the target */
  int walk, next;
  int root;   /* of the last root; 0: the object itself is yet to come */
  int newest; /* roots that began after this one do not hear */
  int own;    /* have the object's own watches been looked at? */
} telling;

static struct {
  mw_engine *e;
  heap *memory;
  char places[OBJECTS + GUARDS + 1];
  object objects[OBJECTS];
  mw_handle guards[GUARDS], key;
  int invalid[GUARDS];
  watch watches[WATCHES];
  int n;             /* watches */
  batch_rows *batch; /* NULL: no batch is under way */
  int walks, deeds, depth, roots;
  telling *now;
  int kept; /* keys that the engine keeps */
  const char *wrong;
} world;

static unsigned seed;

static int any(int n) {
  seed = seed * 1103515245u + 12345u;
  return (int)((seed >> 16) % (unsigned)n);
}

/* Keeps the first condition that does not hold. */
#define expect(c) ((c) ? (void)0 : complain(#c))

static void complain(const char *condition) {
  if (world.wrong == NULL) world.wrong = condition;
}

static mw_value key_of(int k) {
  mw_value key;
  key.type = (k == KEYS - 1) ? MW_TOBJECT : MW_TINTEGER;
  key.u.i = (k == KEYS - 1) ? (int64_t)world.key : k;
  return key;
}

/* {======================================================
** The model
** ======================================================= */

static int has_key(const watch *w, const mw_value *key) {
  uint32_t i = 0;
  while (i < w->n_keys && !mw_value_equal(&w->keys[i], key)) i++;
  return w->n_keys == 0 || i < w->n_keys;
}

static int reaches(int from, int to, char *seen) {
  int k;
  if (from == to) return 1;
  if (seen[from]) return 0;
  seen[from] = 1;
  for (k = 0; k < KEYS; k++) {
    int child = world.objects[from].field[k];
    if (child != NONE && reaches(child, to, seen)) return 1;
  }
  return 0;
}

static int is_below(int i, int root) {
  char seen[OBJECTS] = {0};
  return i != root && reaches(root, i, seen);
}

/* The engine has chosen one of several paths from a root: the path must lead
** from the root to the object.  Returns the first key of the path, which the
** root's watches hear. */
static mw_value first_step(int root, int i) {
  mw_value path[OBJECTS + 1], nothing = {MW_TABSENT, {0}};
  uint32_t n = mw_tree_path(world.e, world.objects[root].h, world.objects[i].h,
                            path, OBJECTS + 1);
  uint32_t left = n;
  int at = root, k;
  expect(n > 0 && n <= OBJECTS);
  if (n == 0 || n > OBJECTS) return nothing;
  for (; left > 0 && at != NONE; left--) {
    for (k = 0; k < KEYS; k++) {
      mw_value key = key_of(k);
      if (mw_value_equal(&key, &path[left - 1])) break;
    }
    at = (k < KEYS) ? world.objects[at].field[k] : NONE;
  }
  expect(at == i);
  return path[n - 1];
}

/* Goes to the next object whose watches hear; 0 when there is none.  Roots hear
** in the order in which they began; a root that begins when others have been
** called does not hear. */
static int next_target(telling *t) {
  int i, next = NONE, root = INT_MAX;
  if (t->obj == NONE) return 0;
  if (!t->own) {
    t->own = 1;
    t->target = t->obj;
    t->below = 0;
    t->field = t->key;
    return 1;
  }
  if (t->root == 0) t->newest = world.roots;
  for (i = 0; i < OBJECTS; i++) {
    int its = world.objects[i].root;
    if (its <= t->root || its > t->newest || its >= root) continue;
    if (!is_below(t->obj, i)) continue;
    root = its;
    next = i;
  }
  if (next == NONE) return 0;
  t->root = root;
  t->target = next;
  t->below = MW_DEEP;
  t->field = first_step(next, t->obj);
  return 1;
}

/* Is the watch one of the target's, for the key, and not ended? */
static int concerns(const telling *t, const watch *w) {
  return w->obj == t->target && !w->ended && has_key(w, &t->field) &&
         (t->below & ~w->flags) == 0 && !((w->flags & MW_SKIP) && t->same);
}

static int wants(const telling *t, const watch *w) {
  return concerns(t, w) && (w->flags & (MW_AFTER | MW_CHECK)) == t->phase;
}

static void raise_flag(watch *w) {
  world.invalid[w->guard] = 1;
  if (w->flags & MW_ONCE) w->ended = 1;
}

/* Goes to the next target, and claims the one-shot watches, but no checks. */
static int next_walk(telling *t) {
  int i;
  if (!next_target(t)) return 0;
  t->walk = ++world.walks;
  t->next = 0;
  for (i = 0; i < t->limit && t->phase != MW_CHECK; i++) {
    watch *w = &world.watches[i];
    if ((w->flags & (MW_ONCE | MW_ASK)) == MW_ONCE && w->claim == 0 &&
        wants(t, w))
      w->claim = t->walk;
  }
  return 1;
}

/* The next watch to be called, or NONE. */
static int next_call(telling *t) {
  if (t->is_end) {
    int i = t->expected;
    t->expected = NONE;
    return i;
  }
  while (t->target != NONE || next_walk(t)) {
    while (t->target != NONE && t->next < t->limit) {
      watch *w = &world.watches[t->next++];
      if (w->obj != t->target || w->ended) continue;
      if (w->claim != 0 ? w->claim != t->walk : !wants(t, w)) continue;
      if ((w->flags & MW_FLAG) == 0) return t->next - 1;
      raise_flag(w);
    }
    t->target = NONE;
  }
  return NONE;
}

/* Does the guard become invalid with a write in a batch? */
static int is_told_at_once(const watch *w) {
  return (w->flags & (MW_FLAG | MW_SKIP)) == MW_FLAG;
}

/* A write in a batch. */
static void raise_at_once(telling *t) {
  int i;
  while (next_target(t)) {
    for (i = 0; i < world.n; i++) {
      watch *w = &world.watches[i];
      if (w->claim == 0 && is_told_at_once(w) && concerns(t, w)) raise_flag(w);
    }
  }
}

/* Finds the watch's call; adds a call if there is none. */
static mwi_batch_call *call_of(mwi_batch_call *calls, uint32_t *n, int number) {
  uint32_t i = 0;
  while (i < *n && calls[i].watch != (mw_watch_id)number) i++;
  if (i == *n) {
    calls[i].watch = (mw_watch_id)number;
    calls[(*n)++].row = UINT32_MAX;
  }
  return &calls[i];
}

/* Finds the watches that hear of a batch: their numbers stand for their ids. */
static uint32_t find_calls(const batch_rows *b, mwi_batch_call *calls) {
  uint32_t n = 0, row;
  int i;
  for (row = 0; row < b->n; row++) {
    telling t;
    memset(&t, 0, sizeof(t));
    t.obj = b->obj[row];
    t.key = b->rows[row].key;
    t.same = b->rows[row].same;
    t.target = NONE;
    if (world.objects[t.obj].h != b->rows[row].obj) continue;
    while (next_target(&t)) {
      for (i = 0; i < b->limit[row]; i++) {
        const watch *w = &world.watches[i];
        mwi_batch_call *call;
        if (w->claim != 0 || is_told_at_once(w) || !concerns(&t, w)) continue;
        if (w->flags & MW_CHECK) continue;
        call = call_of(calls, &n, i);
        if (call->row == UINT32_MAX ||
            b->rows[call->row].order < b->rows[row].order)
          call->row = row;
      }
    }
  }
  return n;
}

/* }====================================================== */

/* {======================================================
** Deeds
** ======================================================= */

/* Now and then the next few requests for memory meet a refusal. */
static void begin_risk(void) {
  if (any(4) == 0) heap_set(world.memory, HEAP_FAIL_ONCE, (size_t)any(4) + 1);
}

/* Returns whether a request was refused. */
static int end_risk(void) {
  int refused = world.memory->refusals > 0;
  heap_set(world.memory, HEAP_GIVE, 0);
  return refused;
}

static void let_go(void) {
  while (mw_tree_released(world.e) != MW_NONE)
    ;
}

static int scan(int i);

static int link_field(int i, int k,
                      int (*link)(mw_engine *, mw_reach, mw_handle,
                                  const mw_value *, mw_handle)) {
  int child = world.objects[i].field[k], code;
  mw_value key = key_of(k);
  code = link(world.e, 0, world.objects[i].h, &key, world.objects[child].h);
  return code == MW_NEW ? scan(child) : code;
}

/* Links all objects in the fields of an object. */
static int scan(int i) {
  mw_value key;
  int k, code = MW_OK;
  if (mw_tree_scan(world.e, world.objects[i].h, &key) == 0) return MW_OK;
  for (k = 0; k < KEYS && code >= 0; k++)
    if (world.objects[i].field[k] != NONE)
      code = link_field(i, k, mw_tree_scan_link);
  if (code >= 0) mw_tree_scanned(world.e, world.objects[i].h);
  return code;
}

/* Stores as a host does: not without memory.  Returns whether the value was
** stored. */
static int store(int i, int k, int child) {
  object *o = &world.objects[i];
  int old = o->field[k], code, refused;
  mw_value key = key_of(k);
  if (old == child) return 1;
  o->field[k] = child;
  if (!mw_tree_has(world.e, o->h)) return 1;
  if (child != NONE) {
    begin_risk();
    code = link_field(i, k, mw_tree_link);
    refused = end_risk();
    expect((code == MW_NOMEM) == refused && (refused || code >= 0));
    if (refused) {
      o->field[k] = old;
      mw_tree_unlink(world.e, o->h, &key, world.objects[child].h);
      mw_tree_resolve(world.e);
      return 0;
    }
  }
  if (old != NONE) mw_tree_unlink(world.e, o->h, &key, world.objects[old].h);
  return 1;
}

/* Gives the written field a row. */
static void note(batch_rows *b, int i, const mw_change *change, uint64_t seq,
                 int limit) {
  mw_handle h = world.objects[i].h;
  uint32_t n = 0;
  while (n < b->n && !(b->rows[n].obj == h &&
                       mw_value_equal(&b->rows[n].key, &change->key)))
    n++;
  if (n == b->n) b->n++;
  b->rows[n].obj = h;
  b->rows[n].key = change->key;
  b->rows[n].seq = seq;
  b->rows[n].order = ++b->writes;
  b->obj[n] = i;
  b->limit[n] = limit;
}

/* Begins a phase of a write, for the watches that are there now. */
static void begin_phase(telling *t, int phase, int limit) {
  t->phase = phase;
  t->limit = limit;
  t->own = t->root = 0;
  t->target = NONE;
}

/* Asks the checks, as hosts do.  Returns whether the write may be. */
static int ask_checks(telling *t, mw_handle h, mw_change *change) {
  int may;
  begin_phase(t, MW_CHECK, world.n);
  may = mw_write_check(world.e, h, change);
  expect(may != t->refused);
  if (may) expect(next_call(t) == NONE);
  return may && t->obj != NONE;
}

/* A write that the checks allow. */
static void make_write(telling *t, mw_change *change, int k, int child) {
  int i = t->obj, told;
  object *o = &world.objects[i];
  mw_handle h = o->h;
  uint64_t seq;
  told = o->watched || mw_tree_has(world.e, h);
  begin_phase(t, 0, told ? world.n : 0);
  if (told) o->count++;
  if (world.batch != NULL && world.batch->n < ROWS) {
    seq = note_write(world.e, h, change);
    raise_at_once(t);
    note(world.batch, i, change, seq, t->limit);
    store(i, k, child);
    return;
  }
  seq = mw_write_begin(world.e, h, change);
  expect(next_call(t) == NONE);
  if (t->obj == NONE || !store(i, k, child)) return;
  begin_phase(t, MW_AFTER, t->limit);
  mw_write_end(world.e, h, change, seq);
  expect(next_call(t) == NONE);
}

static void write_to(int i, int k, int child) {
  telling t;
  mw_change change;
  memset(&t, 0, sizeof(t));
  memset(&change, 0, sizeof(change));
  t.outer = world.now;
  t.obj = i;
  t.key = change.key = key_of(k);
  t.same = change.same = any(3) == 0;
  change.kind = MW_UPDATE;
  world.now = &t;
  world.depth++;
  if (ask_checks(&t, world.objects[i].h, &change))
    make_write(&t, &change, k, child);
  world.depth--;
  world.now = t.outer;
}

static void write_anything(void) {
  write_to(any(OBJECTS), any(KEYS), any(3) == 0 ? NONE : any(OBJECTS));
}

static int begin_root(int i) {
  object *o = &world.objects[i];
  mw_reach reach;
  int code, refused;
  begin_risk();
  code = mw_root_begin(world.e, o->h, &reach);
  expect(code == MW_NOMEM || code == (o->root ? MW_OK : MW_NEW));
  if (code == MW_NEW) {
    code = scan(i);
    if (code < 0) mw_root_end(world.e, o->h);
  }
  refused = end_risk();
  expect((code == MW_NOMEM) == refused);
  if (!refused && !o->root) o->root = ++world.roots;
  return !refused;
}

static void begin_watch(void) {
  static const int flags[] = {MW_ONCE, MW_AFTER, MW_SKIP, MW_FLAG, MW_WEAK};
  int i = any(OBJECTS), k, code, refused;
  object *o = &world.objects[i];
  watch *w = &world.watches[world.n];
  mw_watch_options options;
  if (world.n == WATCHES) return;
  memset(w, 0, sizeof(*w));
  w->obj = i;
  w->guard = NONE;
  for (k = 0; k < 5; k++)
    if (any(3) == 0) w->flags |= flags[k];
  if (any(2) == 0 && (o->root || begin_root(i))) w->flags |= MW_DEEP;
  if (any(6) == 0) w->flags = (w->flags & ~(MW_AFTER | MW_FLAG)) | MW_CHECK;
  if (any(4) == 0) w->flags = (w->flags & ~(MW_FLAG | MW_WEAK)) | MW_ASK;
  if (w->flags & (MW_FLAG | MW_WEAK)) {
    w->guard = any(GUARDS);
    w->guard_h = world.guards[w->guard];
  }
  if (any(2) == 0) w->n_keys = (uint32_t)any(KEYS) + 1;
  for (k = 0; k < (int)w->n_keys; k++) w->keys[k] = key_of(any(KEYS));
  memset(&options, 0, sizeof(options));
  options.flags = w->flags;
  options.keys = w->keys;
  options.n_keys = w->n_keys;
  options.guard = w->guard_h;
  options.ref = (uint64_t)world.n;
  begin_risk();
  code = mw_watch_begin(world.e, o->h, &options, &w->id);
  refused = end_risk();
  expect(code == (refused ? MW_NOMEM : MW_OK));
  if (refused) return;
  world.n++;
  if (!o->known) o->count = 0;
  o->watched = o->known = 1;
}

static void cancel(void) {
  watch *w = (world.n == 0) ? NULL : &world.watches[any(world.n)];
  if (w == NULL) return;
  expect(mw_watch_cancel(world.e, w->id) == (w->ended ? MW_STALE : MW_OK));
  w->ended = 1;
}

static void end_watches(int i) {
  int n;
  for (n = 0; n < world.n; n++)
    if (world.watches[n].obj == i) world.watches[n].ended = 1;
}

static void unwatch(void) {
  int i = any(OBJECTS);
  object *o = &world.objects[i];
  int known = o->watched || mw_tree_has(world.e, o->h);
  expect(mw_object_unwatch(world.e, o->h) == (known ? MW_OK : MW_STALE));
  end_watches(i);
  o->watched = o->root = 0;
}

static void end_root(void) {
  object *o = &world.objects[any(OBJECTS)];
  expect(mw_root_end(world.e, o->h) == (o->root ? MW_OK : MW_STALE));
  o->root = 0;
}

static void begin_track(void) {
  int i = any(OBJECTS), code, refused;
  object *o = &world.objects[i];
  mw_reach reach;
  begin_risk();
  code = mw_object_track(world.e, o->h, 1, &reach);
  if (code == MW_NEW) {
    code = scan(i);
    if (code < 0) mw_object_untrack(world.e, o->h);
  }
  refused = end_risk();
  expect((code == MW_NOMEM) == refused);
  if (!refused) o->silent = 1;
}

static void end_track(void) {
  object *o = &world.objects[any(OBJECTS)];
  expect(mw_object_untrack(world.e, o->h) == (o->silent ? MW_OK : MW_STALE));
  o->silent = 0;
}

/* Kills an object, and puts a new object in its place. */
static void replace(int i) {
  object *o = &world.objects[i];
  telling *t;
  int k, j;
  expect(mw_object_forget(world.e, o->h) == MW_OK);
  end_watches(i);
  for (t = world.now; t != NULL; t = t->outer) {
    if (t->obj == i) t->obj = NONE;
    if (t->target == i) t->target = NONE;
  }
  for (j = 0; j < OBJECTS; j++)
    for (k = 0; k < KEYS; k++)
      if (world.objects[j].field[k] == i) world.objects[j].field[k] = NONE;
  memset(o, 0, sizeof(*o));
  for (k = 0; k < KEYS; k++) o->field[k] = NONE;
  mw_object_identify(world.e, &world.places[i], &o->h);
}

static void replace_guard(void) {
  int i = any(GUARDS), j;
  mw_object_forget(world.e, world.guards[i]);
  for (j = 0; j < world.n; j++)
    if (world.watches[j].guard == i) world.watches[j].ended = 1;
  mw_object_identify(world.e, &world.places[OBJECTS + i], &world.guards[i]);
  world.invalid[i] = 0;
}

static void unlink_key(int i, const mw_value *key) {
  int child = world.objects[i].field[KEYS - 1];
  if (child != NONE)
    mw_tree_unlink(world.e, world.objects[i].h, key, world.objects[child].h);
}

/* Kills the object that is a key, with the fields under the key. */
static void replace_key(void) {
  mw_value key = key_of(KEYS - 1);
  int i;
  for (i = 0; i < OBJECTS; i++)
    if (mw_tree_has(world.e, world.objects[i].h)) unlink_key(i, &key);
  mw_object_forget(world.e, world.key);
  mw_object_identify(world.e, &world.places[OBJECTS + GUARDS], &world.key);
  for (i = 0; i < OBJECTS; i++) world.objects[i].field[KEYS - 1] = NONE;
}

static void revalidate(void) {
  int i = any(GUARDS), valid = any(2);
  begin_risk();
  if (mw_guard_set_valid(world.e, world.guards[i], valid) == MW_OK)
    world.invalid[i] = !valid;
  end_risk();
}

/* Calls the guards that hear of a batch. */
static void end_batch(batch_rows *b) {
  mwi_batch_call expected[WATCHES];
  mwi_batch its = {b->rows, NULL, b->n, 0, 0, 0};
  uint32_t n, i;
  telling t;
  for (i = 0; i < b->n; i++) b->rows[i].same = any(3) == 0;
  n = find_calls(b, expected);
  expect(mwi_batch_search(world.e, &its) == MW_OK);
  expect(its.n_calls == n);
  if (its.n_calls != n) return;
  memset(&t, 0, sizeof(t));
  t.outer = world.now;
  t.is_end = 1;
  t.obj = t.target = NONE;
  world.now = &t;
  world.depth++;
  for (i = 0; i < n; i++) {
    watch *w = &world.watches[expected[i].watch];
    mw_change change;
    expect(w->id >> 32 == its.calls[i].watch >> 32); /* twins differ below */
    expect(expected[i].row == its.calls[i].row);
    memset(&change, 0, sizeof(change));
    change.kind = MW_UPDATE;
    change.same = any(3) == 0;
    t.expected = NONE;
    if (!w->ended && !((w->flags & MW_SKIP) && change.same)) {
      if (w->flags & MW_FLAG)
        raise_flag(w);
      else
        t.expected = (int)expected[i].watch;
    }
    mwi_batch_tell(world.e, its.calls[i].watch, &change);
    expect(t.expected == NONE);
  }
  mwi_free(world.e, its.calls, its.size_calls * sizeof(*its.calls));
  world.depth--;
  world.now = t.outer;
}

/* A batch in a batch has rows of its own. */
static void batch(void) {
  int writes = any(4);
  batch_rows b, *outer = world.batch;
  memset(&b, 0, sizeof(b));
  world.batch = &b;
  while (writes-- > 0) {
    write_anything();
    if (any(3) == 0) cancel();
    if (any(8) == 0) begin_watch();
    if (any(20) == 0) replace(any(OBJECTS));
    if (any(8) == 0 && world.depth < DEPTH) batch();
  }
  world.batch = outer;
  if (any(8) > 0) end_batch(&b);
}

static void any_deed(void) {
  switch (any(24)) {
    case 0:
      unwatch();
      break;
    case 1:
      end_root();
      break;
    case 2:
      begin_track();
      break;
    case 3:
      end_track();
      break;
    case 4:
      replace(any(OBJECTS));
      break;
    case 5:
      replace_guard();
      break;
    case 6:
      replace_key();
      break;
    case 7:
      revalidate();
      break;
    case 8:
      let_go();
      break;
    case 9:
    case 10:
      cancel();
      break;
    case 11:
    case 12:
      mw_clock_advance(world.e, MW_CLOCK);
      break;
    case 13:
    case 14:
      batch();
      break;
    case 15:
    case 16:
    case 17:
    case 18:
      begin_watch();
      break;
    default:
      write_anything();
  }
}

/* }====================================================== */

/* {======================================================
** Callbacks of the engine
** ======================================================= */

static void act(void) {
  while (world.deeds > 0 && world.depth < DEPTH && any(2) == 0) {
    world.deeds--;
    any_deed();
  }
}

/* Which field of the parent holds the child? */
static int find_key(void *ud, mw_handle parent, mw_handle child,
                    mw_value *key) {
  int i = 0, k = 0;
  (void)ud;
  while (i < OBJECTS && world.objects[i].h != parent) i++;
  for (; i < OBJECTS && k < KEYS; k++) {
    int held = world.objects[i].field[k];
    if (held != NONE && world.objects[held].h == child) break;
  }
  if (i == OBJECTS || k == KEYS) return 0;
  *key = key_of(k);
  return 1;
}

/* Is the guard of the watch alive? */
static int guard_lives(uint64_t ref, int flags) {
  int dies = (flags & MW_ASK) && any(3) == 0;
  if (dies) world.watches[ref].ended = 1;
  return !dies;
}

static int called(void *ud, mw_handle obj, uint64_t ref, int flags,
                  const mw_change *change) {
  telling *t = world.now;
  watch *w;
  int i;
  (void)ud;
  if (change == NULL) return guard_lives(ref, flags);
  i = (t == NULL) ? NONE : next_call(t);
  expect(i != NONE);
  if (i == NONE) return 1;
  w = &world.watches[i];
  expect(obj == world.objects[w->obj].h && flags == w->flags);
  expect(ref == ((flags & MW_WEAK) ? w->guard_h : (uint64_t)i));
  expect(t->is_end || change->same == t->same);
  if ((flags & MW_ONCE) && (flags & MW_ASK))
    w->claim = NONE;
  else if (flags & MW_ONCE)
    w->ended = 1;
  act();
  expect(mw_verify(world.e) == MW_OK);
  if ((flags & MW_ASK) && !guard_lives((uint64_t)i, flags)) return 0;
  if ((flags & MW_ASK) && any(2) == 0) {
    w->claim = 0;
    return MW_SPARES;
  }
  if (flags & MW_ONCE) w->ended = 1;
  if ((flags & MW_CHECK) == 0 || any(3) > 0) return 1;
  t->refused = 1;
  return MW_REFUSES;
}

static void retain(void *ud, const mw_value *key) {
  (void)ud;
  (void)key;
  world.kept++;
}

static void release(void *ud, const mw_value *key) {
  (void)ud;
  (void)key;
  world.kept--;
}

/* }====================================================== */

/* Compares all that the engine can be asked for with the model. */
static void compare(void) {
  uint32_t waiting[OBJECTS] = {0};
  int i, j;
  for (i = 0; i < world.n; i++) {
    const watch *w = &world.watches[i];
    uint32_t k, n = 0;
    expect(is_alive(world.e, w->id) == !w->ended);
    for (k = 0; k < w->n_keys; k++) { /* without repetitions */
      uint32_t before = 0;
      while (!mw_value_equal(&w->keys[before], &w->keys[k])) before++;
      n += before == k;
    }
    if (!w->ended) waiting[w->obj] += (n == 0) ? 1 : n;
  }
  let_go();
  for (i = 0; i < OBJECTS; i++) {
    const object *o = &world.objects[i];
    int has = o->root || o->silent;
    for (j = 0; j < OBJECTS; j++) {
      const object *other = &world.objects[j];
      has |= (other->root || other->silent) && is_below(i, j);
      if (!other->root) continue;
      if (is_below(i, j))
        first_step(j, i);
      else
        expect(mw_tree_path(world.e, other->h, o->h, NULL, 0) == 0);
    }
    expect(mw_tree_has(world.e, o->h) == has);
    expect(n_waiting(world.e, o->h) == waiting[i]);
    expect(!o->known || mw_object_mutations(world.e, o->h) == o->count);
  }
  for (i = 0; i < GUARDS; i++)
    expect(mw_guard_is_valid(world.e, world.guards[i]) == !world.invalid[i]);
}

static void begin(mw_engine *e, heap *h) {
  const mw_host host = {NULL, called, retain, release,      NULL,    NULL,
                        NULL, NULL,   NULL,   sizeof(host), find_key};
  int i, k;
  memset(&world, 0, sizeof(world));
  world.e = e;
  world.memory = h;
  mw_host_set(e, &host);
  for (i = 0; i < OBJECTS; i++) {
    mw_object_identify(e, &world.places[i], &world.objects[i].h);
    for (k = 0; k < KEYS; k++) world.objects[i].field[k] = NONE;
  }
  for (i = 0; i < GUARDS; i++)
    mw_object_identify(e, &world.places[OBJECTS + i], &world.guards[i]);
  mw_object_identify(e, &world.places[OBJECTS + GUARDS], &world.key);
}

static void end(mw_engine *e) {
  int i;
  for (i = 0; i < OBJECTS; i++) mw_object_forget(e, world.objects[i].h);
  for (i = 0; i < GUARDS; i++) mw_object_forget(e, world.guards[i]);
  mw_object_forget(e, world.key);
  let_go();
  expect(world.kept == 0);
  expect(mw_verify(e) == MW_OK);
}

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return (text == NULL) ? otherwise : atoi(text);
}

/* Plays one round with a new engine, so that its seed determines all. */
static void play(unsigned first) {
  heap mine;
  mw_engine *e;
  int step;
  seed = first;
  memset(&mine, 0, sizeof(mine));
  e = mw_engine_open(heap_alloc, &mine);
  begin(e, &mine);
  for (step = 0; step < STEPS && world.wrong == NULL; step++) {
    world.deeds = DEEDS;
    any_deed();
    expect(mw_verify(e) == MW_OK);
    expect(is_accounted(e, &mine));
    if (any(4) == 0) compare();
  }
  if (world.wrong == NULL) end(e);
  mw_engine_close(e);
  expect(mine.blocks == 0 && mine.errors == 0);
  if (world.wrong != NULL)
    printf("SEED=%u, step %d: %s\n", first, step, world.wrong);
}

static void random_programs(mw_engine *e, heap *h) {
  unsigned first = (unsigned)number("SEED", (int)(time(NULL) % 1000000));
  int rounds = number("ROUNDS", ROUNDS), round;
  (void)e;
  (void)h;
  printf("SEED=%u\n", first);
  fflush(stdout);
  for (round = 0; round < rounds; round++) {
    play(first + (unsigned)round);
    check(world.wrong == NULL);
  }
}

const test random_tests[] = {
    {"random programs call whom a plain model says", random_programs},
    {NULL, NULL}};
