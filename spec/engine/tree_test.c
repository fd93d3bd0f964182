/*
** tree_test.c - the objects below a root, and the paths to them.
** SPDX-License-Identifier: MIT
*/
#include <stdio.h>
#include <string.h>

#include "../../engine/engine.h"
#include "check.h"

/* The host: objects with numbered fields that hold objects. */
enum { OBJECTS = 14, FIELDS = 3, NONE = -1 };

static struct {
  mw_engine *e;
  char places[OBJECTS];
  mw_handle h[OBJECTS];
  int field[OBJECTS][FIELDS];
  char log[40];
  int kept; /* keys that the engine keeps */
  int anew; /* is the next guard to begin the roots anew? */
} world;

static void begin_anew(void);

/* Which field of the parent holds the child? */
static int find_key(void *ud, mw_handle parent, mw_handle child,
                    mw_value *key) {
  int i = 0, k = 0;
  (void)ud;
  while (i < OBJECTS && world.h[i] != parent) i++;
  for (; i < OBJECTS && k < FIELDS; k++)
    if (world.field[i][k] != NONE && world.h[world.field[i][k]] == child) break;
  if (i == OBJECTS || k == FIELDS) return 0;
  key->type = MW_TINTEGER;
  key->u.i = k;
  return 1;
}

static int called(void *ud, mw_handle obj, uint64_t ref, int flags,
                  const mw_change *change) {
  size_t len = strlen(world.log);
  (void)ud;
  (void)obj;
  (void)flags;
  (void)change;
  if (len + 1 >= sizeof(world.log)) return 1;
  world.log[len] = (char)ref;
  world.log[len + 1] = '\0';
  if (world.anew) begin_anew();
  return 1;
}

static void retain(void *ud, const mw_value *key) {
  (void)ud;
  if (key->type == MW_TINTEGER) world.kept++;
}

static void release(void *ud, const mw_value *key) {
  (void)ud;
  if (key->type == MW_TINTEGER) world.kept--;
}

static void begin(mw_engine *e) {
  const mw_host host = {NULL, called, retain, release,      NULL,    NULL,
                        NULL, NULL,   NULL,   sizeof(host), find_key};
  int i, k;
  memset(&world, 0, sizeof(world));
  world.e = e;
  mw_host_set(e, &host);
  for (i = 0; i < OBJECTS; i++) {
    mw_object_identify(e, &world.places[i], &world.h[i]);
    for (k = 0; k < FIELDS; k++) world.field[i][k] = NONE;
  }
}

static mw_value key_of(int k) {
  mw_value key;
  key.type = MW_TINTEGER;
  key.u.i = k;
  return key;
}

static int scan(int i);

/* Links the child of a field: `link` is mw_tree_link or mw_tree_scan_link. */
static int link_field(int i, int k,
                      int (*link)(mw_engine *, mw_reach, mw_handle,
                                  const mw_value *, mw_handle)) {
  int child = world.field[i][k];
  mw_value key = key_of(k);
  int code = link(world.e, 0, world.h[i], &key, world.h[child]);
  return code == MW_NEW ? scan(child) : code;
}

/* Links all objects in the fields of an object. */
static int scan(int i) {
  mw_value key;
  int k, code = MW_OK;
  if (mw_tree_scan(world.e, world.h[i], &key) == 0) return MW_OK;
  for (k = 0; k < FIELDS && code >= 0; k++)
    if (world.field[i][k] != NONE) code = link_field(i, k, mw_tree_scan_link);
  if (code >= 0) mw_tree_scanned(world.e, world.h[i]);
  return code;
}

static int include(int i) {
  mw_reach reach;
  int code = mw_root_begin(world.e, world.h[i], &reach);
  return code == MW_NEW ? scan(i) : code;
}

static void set_field(int i, int k, int child) {
  mw_value key = key_of(k);
  int old = world.field[i][k];
  if (old == child) return;
  world.field[i][k] = child;
  if (!mw_tree_has(world.e, world.h[i])) return;
  if (child != NONE) link_field(i, k, mw_tree_link);
  if (old != NONE) mw_tree_unlink(world.e, world.h[i], &key, world.h[old]);
}

static void let_go(void) {
  while (mw_tree_released(world.e) != MW_NONE)
    ;
}

/* Marks the objects that can be reached from object `i`. */
static void reach(int i, char *seen) {
  int k;
  if (seen[i]) return;
  seen[i] = 1;
  for (k = 0; k < FIELDS; k++)
    if (world.field[i][k] != NONE) reach(world.field[i][k], seen);
}

/* The length of the shortest path from the root to the object. */
static uint32_t distance(int root, int i) {
  int far[OBJECTS], step, at, k;
  for (at = 0; at < OBJECTS; at++) far[at] = (at == root) ? 0 : OBJECTS;
  for (step = 0; step < OBJECTS; step++)
    for (at = 0; at < OBJECTS; at++)
      for (k = 0; k < FIELDS; k++) {
        int child = world.field[at][k];
        if (child != NONE && far[child] > far[at] + 1) far[child] = far[at] + 1;
      }
  return (uint32_t)far[i];
}

/* Is there a path of true steps from the root to the object, and the shortest
** one? */
static int has_path(int root, int i) {
  mw_value keys[OBJECTS];
  uint32_t n = mw_tree_path(world.e, world.h[root], world.h[i], keys, OBJECTS);
  int at = root;
  if (n > OBJECTS || (n > 0 && n != distance(root, i))) return 0;
  while (n > 0 && at != NONE) at = world.field[at][keys[--n].u.i];
  return at == i;
}

static unsigned seed;

static int any(int n) {
  seed = seed * 1103515245u + 12345u;
  return (int)((seed >> 16) % (unsigned)n);
}

static int agrees(int root) {
  char seen[OBJECTS] = {0};
  int i;
  reach(root, seen);
  for (i = 0; i < OBJECTS; i++)
    if (has_path(root, i) != seen[i]) return 0;
  return 1;
}

/* Kills an object that no field holds, and puts a new object in its place. */
static void replace_one(void) {
  char seen[OBJECTS] = {0};
  int i = any(OBJECTS), k;
  reach(0, seen);
  reach(1, seen);
  if (seen[i]) return;
  for (k = 0; k < FIELDS; k++) world.field[i][k] = NONE;
  for (k = 0; k < OBJECTS * FIELDS; k++)
    if (world.field[k / FIELDS][k % FIELDS] == i)
      set_field(k / FIELDS, k % FIELDS, NONE);
  mw_object_forget(world.e, world.h[i]);
  mw_object_identify(world.e, &world.places[i], &world.h[i]);
}

static void random_graphs(mw_engine *e, heap *h) {
  int round, step;
  (void)h;
  for (round = 0; round < 300; round++) {
    seed = (unsigned)round;
    begin(e);
    for (step = 0; step < 40; step++)
      set_field(any(OBJECTS), any(FIELDS), any(OBJECTS));
    include(0);
    include(1);
    for (step = 0; step < 120; step++) {
      int child = any(3) == 0 ? NONE : any(OBJECTS);
      set_field(any(OBJECTS), any(FIELDS), child);
      if (any(4) == 0) check(agrees(any(2)));
      if (any(4) == 0) let_go();
      if (any(4) == 0) replace_one();
    }
    if (!agrees(0) || !agrees(1)) printf("round %d\n", round);
    check(agrees(0) && agrees(1));
    mw_root_end(e, world.h[0]);
    mw_root_end(e, world.h[1]);
    let_go();
    for (step = 0; step < OBJECTS; step++) {
      check(!mw_tree_has(e, world.h[step]));
      mw_object_forget(e, world.h[step]);
    }
    check(world.kept == 0);
  }
}

static mw_watch_id watch(int i, char ref, int flags, const mw_value *keys) {
  mw_watch_options options;
  mw_watch_id id = 0;
  memset(&options, 0, sizeof(options));
  options.flags = flags;
  options.ref = (uint64_t)ref;
  options.keys = keys;
  options.n_keys = (keys != NULL);
  mw_watch_begin(world.e, world.h[i], &options, &id);
  return id;
}

static void write_to(int i, int k) {
  mw_change change;
  uint64_t moment;
  memset(&change, 0, sizeof(change));
  change.key = key_of(k);
  change.kind = MW_UPDATE;
  moment = mw_write_begin(world.e, world.h[i], &change);
  strcat(world.log, "=");
  mw_write_end(world.e, world.h[i], &change, moment);
}

static int logged(const char *expected) {
  int same = strcmp(world.log, expected) == 0;
  world.log[0] = '\0';
  return same;
}

static void who_hears(mw_engine *e, heap *h) {
  mw_value first = key_of(0);
  (void)h;
  begin(e);
  set_field(0, 0, 2);
  set_field(0, 1, 3);
  set_field(1, 0, 2);
  set_field(2, 0, 4);
  include(0);
  include(1);
  watch(0, 'a', MW_DEEP, NULL);
  watch(0, 'b', MW_DEEP | MW_AFTER | MW_ONCE, NULL);
  watch(0, 'c', 0, NULL);
  watch(0, 'd', MW_DEEP, &first);
  watch(1, 'e', MW_DEEP, NULL);
  watch(4, 'f', 0, NULL);
  write_to(4, 2);
  check(logged("fade=b"));
  write_to(4, 2);
  check(logged("fade="));
  write_to(3, 0);
  check(logged("a="));
  write_to(0, 0);
  check(logged("acd="));
  check(mw_object_mutations(e, world.h[4]) == 2 &&
        mw_object_mutations(e, world.h[0]) == 1);
  set_field(0, 0, NONE);
  write_to(4, 2);
  check(logged("fe="));
  mw_object_unwatch(e, world.h[1]);
  write_to(4, 2);
  check(logged("f="));
  let_go();
  write_to(2, 2);
  check(logged("=") && mw_object_mutations(e, world.h[2]) == 0);
}

/* Each of the two roots takes the number that the other had. */
static void begin_anew(void) {
  world.anew = 0;
  mw_root_end(world.e, world.h[0]);
  mw_root_end(world.e, world.h[1]);
  include(0);
  include(1);
}

/* Roots begin anew in a guard: of a root, then of the written object. */
static void new_roots(mw_engine *e, heap *h) {
  (void)h;
  begin(e);
  set_field(0, 0, 2);
  set_field(1, 0, 2);
  include(0);
  include(1);
  watch(0, 'a', MW_DEEP, NULL);
  watch(1, 'b', MW_DEEP, NULL);
  watch(0, 'c', MW_DEEP | MW_AFTER, NULL);
  world.anew = 1;
  write_to(2, 0);
  check(logged("a=c"));
  write_to(2, 0);
  check(logged("ab=c"));
  watch(2, 'd', 0, NULL);
  world.anew = 1;
  write_to(2, 0);
  check(logged("dab=c"));
}

static void moves(mw_engine *e, heap *h) {
  (void)h;
  begin(e);
  set_field(0, 0, 2);
  set_field(2, 0, 3);
  include(0);
  set_field(0, 0, NONE);
  check(mw_tree_has_orphans(e));
  set_field(0, 1, 2); /* no object below 2 is linked again */
  check(has_path(0, 3));
  check(mw_tree_released(e) == MW_NONE);
  set_field(0, 1, NONE);
  check(mw_tree_released(e) != MW_NONE && mw_tree_released(e) != MW_NONE);
  check(mw_tree_released(e) == MW_NONE && !mw_tree_has_orphans(e));
}

static int path_is(int root, int i, int k) {
  mw_value key;
  return mw_tree_path(world.e, world.h[root], world.h[i], &key, 1) == 1 &&
         key.u.i == k;
}

/* Roots and objects that nobody knows. */
static void stale(mw_engine *e, heap *h) {
  mw_reach reach;
  mw_value key = key_of(0);
  (void)h;
  begin(e);
  include(0);
  check(mw_tree_link(e, 0, world.h[0], &key, world.h[2]) == MW_NEW);
  check(mw_tree_link(e, 0, world.h[5], &key, world.h[2]) == MW_STALE);
  mw_tree_unlink(e, world.h[0], &key, world.h[2]);
  check(mw_tree_released(e) == world.h[2] && !mw_tree_is_below(e, world.h[0]));
  check(mw_root_begin_silent(e, world.h[3], &reach) == MW_NEW);
  check(mw_root_end_silent(e, world.h[4]) == MW_STALE);
}

/* An object is in several fields of one parent. */
static void counts(mw_engine *e, heap *h) {
  int i;
  begin(e);
  set_field(0, 0, 2);
  set_field(0, 1, 3);
  set_field(0, 2, 3);
  set_field(3, 0, 4);
  include(0);
  include(1);
  heap_set(h, HEAP_FAIL_EVER, 1); /* counting needs no memory */
  set_field(0, 0, 3);
  check(path_is(0, 3, 0));
  set_field(0, 0, NONE); /* which other key is there? */
  set_field(0, 2, NONE);
  check(path_is(0, 3, 1) && mw_tree_has_orphans(e));
  let_go();
  check(!mw_tree_has(e, world.h[2]) && mw_tree_has(e, world.h[4]));
  set_field(0, 1, NONE);
  let_go();
  check(!mw_tree_has(e, world.h[3]) && !mw_tree_has(e, world.h[4]));
  heap_set(h, HEAP_GIVE, 0);
  for (i = 0; i < OBJECTS; i++) mw_object_forget(e, world.h[i]);
  check(world.kept == 0);
}

/* A further root adds members, and no edges. */
static void shares(mw_engine *e, heap *h) {
  uint32_t edges;
  (void)h;
  begin(e);
  set_field(0, 0, 2);
  set_field(2, 0, 3);
  set_field(1, 0, 0);
  include(0);
  edges = e->tree.edges.n;
  include(2);
  check(e->tree.edges.n == edges && has_path(2, 3));
  include(1);
  check(e->tree.edges.n == edges + 1 && has_path(1, 3));
  mw_root_end(e, world.h[0]);
  check(agrees(1) && agrees(2) && mw_verify(e) == MW_OK);
}

static void no_memory(mw_engine *e, heap *h) {
  size_t n, refusals = 1;
  for (n = 1; refusals > 0; n++) {
    int i, ok;
    begin(e);
    for (i = 0; i + 1 < OBJECTS; i++) set_field(i, 0, i + 1);
    heap_set(h, HEAP_FAIL_ONCE, n);
    ok = include(0) >= 0 && include(1) >= 0;
    refusals = h->refusals;
    check(ok == (refusals == 0));
    if (ok) check(agrees(0) && agrees(1));
    mw_root_end(e, world.h[0]);
    mw_root_end(e, world.h[1]);
    let_go();
    check(world.kept == 0);
    for (i = 0; i < OBJECTS; i++) mw_object_forget(e, world.h[i]);
  }
}

const test deep_tests[] = {
    {"whatever is linked and unlinked, there is a way to what is below",
     random_graphs},
    {"its object, then its roots hear of a write", who_hears},
    {"a root that begins while roots are called hears of the next write",
     new_roots},
    {"a move is two links", moves},
    {"objects that nobody knows are not linked", stale},
    {"several fields hold an object", counts},
    {"a further root adds no edges", shares},
    {"linking may run out of memory", no_memory},
    {NULL, NULL}};
