/*
** check_test.c - misuse and damage are found, and an engine can be shown.
** SPDX-License-Identifier: MIT
*/
#include <stdio.h>
#include <string.h>

#include "../../engine/engine.h"
#include "../support/checks.h"
#include "check.h"

static char places[4];
static mw_handle objects[4];

/* {======================================================
** Misuse
** ======================================================= */

static void unknown_clock(mw_engine *e) { mw_clock_now(e, 17); }
static void unknown_hierarchy(mw_engine *e) { mw_hierarchy_frames(e, 0); }

static void closed_hierarchy(mw_engine *e) {
  mw_hierarchy scopes;
  mw_hierarchy_open(e, &scopes);
  mw_hierarchy_close(e, scopes);
  mw_hierarchy_reset(e, scopes);
}

static void no_name(mw_engine *e) {
  mw_hierarchy scopes;
  mw_hierarchy_open(e, &scopes);
  mw_hierarchy_enter(e, scopes, MW_NONE, objects[0], 0);
}

static void owner_that_has_ended(mw_engine *e) {
  mw_owner one = mw_owner_begin(e, 0, 0);
  mw_owner_forget(e, one);
  mw_owner_parent(e, one);
}

static void rewinding_without_a_host(mw_engine *e) {
  mw_owner_rewind(e, mw_owner_begin(e, 0, 0), NULL);
}

static void owner_below_that_is_not_newest(mw_engine *e) {
  mw_owner one = mw_owner_begin(e, 0, 0);
  mw_owner_begin(e, one, one);
  mw_owner_begin(e, one, one);
}

static void unknown_flag(mw_engine *e) {
  mw_watch_options options;
  mw_watch_id id;
  memset(&options, 0, sizeof(options));
  options.flags = 256;
  mw_watch_begin(e, objects[0], &options, &id);
}

static void write_from_the_future(mw_engine *e) {
  mw_change change;
  memset(&change, 0, sizeof(change));
  mw_write_end(e, objects[0], &change, 12345);
}

static int64_t now(void *ud) { return --*(int64_t *)ud; }

static void time_that_goes_back(mw_engine *e) {
  static int64_t time;
  mw_trace *t;
  mw_trace_open(e, 10, now, &time, &t);
  mw_trace_start(e, t);
  mw_trace_begin(e, 1, mw_trace_name(e, "a", 1, 0), NULL, 0);
}

static void trace_closed_twice(mw_engine *e) {
  static mw_trace none;
  mw_trace_close(e, &none);
}

static void objects_of(mw_engine *e) {
  int i;
  for (i = 0; i < 4; i++) mw_object_identify(e, &places[i], &objects[i]);
}

static void misuse(mw_engine *e, heap *h) {
  void (*const all[])(mw_engine *) = {unknown_clock,
                                      unknown_hierarchy,
                                      closed_hierarchy,
                                      no_name,
                                      owner_that_has_ended,
                                      rewinding_without_a_host,
                                      owner_below_that_is_not_newest,
                                      unknown_flag,
                                      write_from_the_future,
                                      time_that_goes_back,
                                      trace_closed_twice};
  size_t i;
  (void)h;
  for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    objects_of(e);
    check(is_misuse(all[i], e));
  }
}

/* }====================================================== */

/* {======================================================
** Callbacks that call forbidden functions
** ======================================================= */

static mw_engine *called; /* for the callback named `in` */
static const char *in;

static int is_in(const char *callback) {
  return in != NULL && strcmp(in, callback) == 0;
}

static int alive(void *ud, mw_handle obj) {
  (void)ud;
  (void)obj;
  if (is_in("alive")) mw_clock_tag(called, MW_CLOCK, objects[0]);
  return 1;
}

static int guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                 const mw_change *change) {
  mw_owner one;
  (void)ud;
  (void)obj;
  (void)ref;
  (void)flags;
  (void)change;
  if (!is_in("guard")) return 1;
  one = mw_owner_begin(called, 0, 0);
  mw_owner_forget(called, one);
  mw_owner_parent(called, one); /* the owner has ended */
  return 1;
}

static void retain(void *ud, const mw_value *key) {
  (void)ud;
  (void)key;
  if (is_in("retain")) mw_clock_tag(called, MW_CLOCK, objects[0]);
}

static void restore(void *ud, const mw_entry *entry, void *host) {
  (void)ud;
  (void)host;
  if (is_in("restore")) mw_journal_append(called, 0, entry, NULL, NULL);
}

static void everything(mw_engine *e) {
  mw_host host;
  mw_owner owner;
  mw_value key = {MW_TINTEGER, {1}};
  mw_watch_options options;
  mw_change change;
  mw_watch_id id;
  mw_entry entry;
  memset(&host, 0, sizeof(host));
  host.call = guard;
  host.retain = retain;
  host.restore = restore;
  mw_host_set(e, &host);
  objects_of(e);
  memset(&options, 0, sizeof(options));
  memset(&change, 0, sizeof(change));
  memset(&entry, 0, sizeof(entry));
  options.keys = &key;
  options.n_keys = 1;
  change.key = key;
  mw_watch_begin(e, objects[1], &options, &id);
  mw_write_begin(e, objects[1], &change);
  owner = mw_owner_begin(e, 0, 0);
  entry.obj = objects[1];
  mw_journal_append(e, owner, &entry, NULL, NULL);
  mw_owner_rewind(e, owner, NULL);
  mw_owner_forget(e, owner);
  mw_reap_begin(e);
  mw_reap_step(e, 100, 100, alive, NULL);
}

static void callbacks(mw_engine *e, heap *h) {
  const char *const all[] = {"alive", "guard", "retain", "restore"};
  size_t i;
  (void)h;
  in = NULL;
  check(!has_misuse(everything, e));
  for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    heap mine;
    memset(&mine, 0, sizeof(mine));
    called = mw_engine_open(heap_alloc, &mine);
    in = all[i];
    check(has_misuse(everything, called));
    mw_engine_close(called);
  }
}

/* }====================================================== */

/* {======================================================
** Damage
** ======================================================= */

static void build(mw_engine *e) {
  mw_reach reach;
  mw_value key = {MW_TINTEGER, {7}}, field;
  const mw_host host = {NULL, guard, NULL, NULL, restore, NULL,
                        NULL, NULL,  NULL, 0,    NULL};
  mw_watch_options options;
  mw_watch_id id;
  mw_hierarchy scopes;
  uint64_t serial;
  in = NULL;
  mw_host_set(e, &host);
  objects_of(e);
  memset(&options, 0, sizeof(options));
  options.flags = MW_ONCE | MW_DEEP;
  options.ref = 41;
  mw_watch_begin(e, objects[0], &options, &id);
  options.flags = MW_AFTER;
  options.keys = &key;
  options.n_keys = 1;
  options.ref = 42;
  mw_watch_begin(e, objects[0], &options, &id);
  mw_watch_begin(e, objects[0], &options, &id);
  mw_root_begin(e, objects[0], &reach);
  mw_tree_scan(e, objects[0], &field);
  mw_tree_scan_link(e, 0, objects[0], &key, objects[1]);
  mw_tree_scanned(e, objects[0]);
  key.u.i = 8;
  mw_tree_scan(e, objects[1], &field);
  mw_tree_scan_link(e, 0, objects[1], &key, objects[2]);
  mw_tree_scanned(e, objects[1]);
  mw_root_begin_silent(e, objects[3], &reach);
  mw_object_serial(e, objects[2], &serial);
  mw_clock_advance(e, MW_CLOCK);
  mw_clock_tag(e, MW_CLOCK, objects[1]);
  mw_hierarchy_open(e, &scopes);
  mw_hierarchy_enter(e, scopes, MW_NONE, objects[1], 5);
  mw_owner_begin(e, 0, 0);
}

#define RECORD(i) mwi_object_of(&e->watch, mw_slot(objects[i]))
#define WATCH(i) \
  ((mwi_watch *)mwi_pool_at(&e->watch.watches, i, sizeof(mwi_watch)))
#define NODE(i) ((mwi_node *)mwi_pool_at(&e->tree.nodes, i, sizeof(mwi_node)))
#define REACH(i) \
  ((mwi_reach *)mwi_pool_at(&e->tree.reaches, i, sizeof(mwi_reach)))
#define MEMBER(i) \
  ((mwi_member *)mwi_pool_at(&e->tree.members, i, sizeof(mwi_member)))
#define EDGE(i) ((mwi_edge *)mwi_pool_at(&e->tree.edges, i, sizeof(mwi_edge)))

/* Damages one thing, expects the damage to be found, and repairs the thing. */
#define finds(what, wrong) \
  do { \
    unsigned char was[sizeof(what)]; \
    memcpy(was, &(what), sizeof(was)); \
    what = wrong; \
    check(mw_verify(e) == MW_BROKEN); \
    memcpy(&(what), was, sizeof(was)); \
    check(mw_verify(e) == MW_OK); \
  } while (0)

/* Watch 1 is of all fields, 2 and 3 are of one. */
static void damage(mw_engine *e, heap *h) {
  mwi_identity *identity = &e->identity;
  mwi_clock *clock = e->clock.clocks;
  (void)h;
  build(e);
  check(mw_verify(e) == MW_OK);
  finds(identity->count, 5);
  finds(identity->free, 1);
  finds(identity->top, 6);
  finds(identity->look, 0);
  finds(mwi_identity_page_of(identity, 1)->ptr[1], &places[1]);
  finds(mwi_identity_page_of(identity, 1)->age[2], 0);
  finds(clock->now, 0);
  finds(mwi_clock_page_of(clock, 1)->newest, 1);
  finds(mwi_clock_page_of(clock, 1)->tag[200], 1);
  finds(mwi_clock_page_of(&clock[e->identity.given], 1)->tag[3], 0);
  finds(RECORD(0)->obj, objects[1]);
  finds(RECORD(0)->first, 0);
  finds(RECORD(0)->fields, 0);
  finds(RECORD(0)->waiting, 2);
  finds(RECORD(0)->deep, 0);
  finds(RECORD(0)->guarding, 1);
  finds(e->watch.ended, 1);
  finds(RECORD(0)->walks, 1);
  finds(RECORD(0)->needs, MWI_UNKEYED | MWI_TREE | MWI_CALLS);
  finds(RECORD(1)->nodes, 0);
  finds(RECORD(1)->needs, 0);
  finds(RECORD(3)->first, 1);
  finds(WATCH(2)->next, 0);
  finds(WATCH(3)->prev, 0);
  finds(WATCH(2)->prev, 2);
  finds(WATCH(3)->seq, 0);
  finds(WATCH(3)->slot, 3);
  finds(WATCH(3)->field, 0);
  finds(WATCH(3)->twin, 2);
  finds(WATCH(3)->reach, 1);
  finds(WATCH(3)->reach, 9);
  finds(WATCH(3)->flags, MWI_ENDED);
  finds(WATCH(3)->seq, 2);
  finds(WATCH(3)->seq, 99);
  finds(e->watch.after, 1);
  finds(e->watch.deep, 0);
  finds(e->watch.walks, 1);
  finds(e->watch.watches.free, 2);
  finds(e->watch.fields.n, 2);
  finds(e->journal.open, 2);
  finds(e->journal.entries, 1);
  finds(e->scope.all[0]->frames, 0);
}

/* Nodes, and members: 1 is the root, 2 and 3 are below it, in reach 1; 4 is the
** ground, 5 the silent root, in reach 2.  Edge 1 leads to 2, 2 to 3, 3 to 5. */
static void damage_tree(mw_engine *e, heap *h) {
  (void)h;
  build(e);
  MEMBER(2)->reach = 2;
  check(mw_verify(e) == MW_BROKEN);
  MEMBER(2)->reach = 3;
  check(mw_verify(e) == MW_BROKEN);
  MEMBER(2)->reach = 1;
  finds(MEMBER(2)->node, NODE(3));
  finds(MEMBER(2)->prev, 3);
  finds(REACH(1)->root, MEMBER(2));
  finds(MEMBER(2)->via, NULL);
  finds(MEMBER(2)->via, EDGE(2));
  finds(NODE(2)->ins, NULL);
  finds(NODE(2)->outs, NULL);
  finds(NODE(2)->members, 0);
  finds(REACH(1)->n, 2);
  finds(NODE(2)->graph, REACH(1));
  MEMBER(2)->queued = 1;
  check(mw_verify(e) == MW_BROKEN);
  MEMBER(2)->queued = 0;
  finds(NODE(2)->obj, objects[2]);
  finds(EDGE(1)->parent, NODE(2));
  finds(EDGE(1)->child, NODE(3));
  finds(EDGE(2)->next_in, EDGE(1));
  EDGE(1)->count = 0;
  check(mw_verify(e) == MW_BROKEN);
  EDGE(1)->count = 1;
  EDGE(3)->count = 2;
  check(mw_verify(e) == MW_BROKEN);
  EDGE(3)->count = 1;
  finds(e->tree.ground, NULL);
  finds(e->tree.orphans, MEMBER(2));
  finds(e->tree.released, NODE(2));
  finds(e->tree.edges.free, 1);
  check(mw_object_forget(e, objects[0]) == MW_OK);
  while (mw_tree_released(e) != MW_NONE)
    ;
  check(mw_verify(e) == MW_OK);
}

/* }====================================================== */

/* {======================================================
** Showing
** ======================================================= */

static char text[4000];

static int keep(void *ud, const char *bytes, size_t n) {
  (void)ud;
  if (strlen(text) + n >= sizeof(text)) return 0;
  strncat(text, bytes, n);
  return 1;
}

static int full(void *ud, const char *bytes, size_t n) {
  (void)bytes;
  *(size_t *)ud += n;
  return 0;
}

static int64_t seconds(void *ud) {
  (void)ud;
  return 0;
}

static void shows(mw_engine *e, heap *h) {
  mw_trace *t;
  size_t n = 0;
  build(e);
  mw_trace_open(e, 10, seconds, NULL, &t);
  mw_trace_start(e, t);
  mw_trace_begin(e, 1, mw_trace_name(e, "a", 1, 0), NULL, 0);
  heap_set(h, HEAP_FAIL_EVER, 1);
  text[0] = '\0';
  check(mw_dump(e, keep, NULL) == MW_OK);
  check(strcmp(text,
               "4 objects\n"
               "clock 0: generation 1\n"
               "clock 1 (serials): generation 1\n"
               "journal: 0 entries of 1 owners\n"
               "object 1: 0 writes, watched\n"
               "  all fields\n"
               "    watch 1: guard 41, once, deep\n"
               "  field 7\n"
               "    watch 2: guard 42, after\n"
               "    watch 3: guard 42, after\n"
               "  root\n"
               "  holds 2 under 7\n"
               "object 2: 0 writes\n"
               "  below 1: 7 of 1\n"
               "  holds 3 under 8\n"
               "object 3: 0 writes\n"
               "  below 1: 8 of 2\n"
               "object 4: 0 writes\n"
               "  below the ground\n"
               "hierarchy 0: 1 frames\n"
               "trace: 1 events, room for 10, 0 lost, runs\n") == 0);
  check(mw_dump(e, full, &n) == MW_REFUSED && n > 0);
}

/* }====================================================== */

const test check_tests[] = {{"misuse is found", misuse},
                            {"callbacks that call are found", callbacks},
                            {"damage is found", damage},
                            {"damage of trees is found", damage_tree},
                            {"an engine can be shown", shows},
                            {NULL, NULL}};
