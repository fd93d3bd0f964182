/*
** hierarchy_test.c - stacks of executing objects.
** SPDX-License-Identifier: MIT
*/
#include "check.h"

enum { GAME = 1, PLAYER, SWORD };

static char memory[1000];

static mw_handle new_object(mw_engine *e, int i) {
  mw_handle h = MW_NONE;
  mw_object_identify(e, &memory[i], &h);
  return h;
}

static uint32_t depth(mw_engine *e, mw_hierarchy s, mw_handle thread) {
  uint32_t n;
  mw_hierarchy_stack(e, s, thread, &n);
  return n;
}

static void enters_and_leaves(mw_engine *e, heap *h) {
  mw_hierarchy s;
  uint32_t n;
  const mw_frame *frames;
  mw_handle game = new_object(e, 0), player = new_object(e, 1);
  (void)h;
  check(mw_hierarchy_open(e, &s) == MW_OK && depth(e, s, MW_NONE) == 0);
  check(mw_hierarchy_enter(e, s, MW_NONE, game, GAME) == MW_OK);
  check(mw_hierarchy_enter(e, s, MW_NONE, player, PLAYER) == MW_OK);
  frames = mw_hierarchy_stack(e, s, MW_NONE, &n);
  check(n == 2 && frames[0].obj == game && frames[1].obj == player);
  check(frames[0].name == GAME && frames[1].name == PLAYER);
  check(mw_hierarchy_frames(e, s) == 2);
  check(mw_hierarchy_leave(e, s, MW_NONE, player) == MW_OK);
  check(mw_hierarchy_leave(e, s, MW_NONE, game) == MW_OK);
  check(depth(e, s, MW_NONE) == 0 && mw_hierarchy_frames(e, s) == 0);
  mw_hierarchy_close(e, s);
}

static void unwinds_what_was_skipped(mw_engine *e, heap *h) {
  mw_hierarchy s;
  mw_handle game = new_object(e, 0), player = new_object(e, 1);
  int i;
  (void)h;
  mw_hierarchy_open(e, &s);
  mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  for (i = 0; i < 100; i++)
    check(mw_hierarchy_enter(e, s, MW_NONE, player, PLAYER) == MW_OK);
  check(mw_hierarchy_leave(e, s, MW_NONE, new_object(e, 2)) == MW_STALE);
  check(depth(e, s, MW_NONE) == 101);
  check(mw_hierarchy_frames(e, s) == 101);
  check(mw_hierarchy_leave(e, s, MW_NONE, game) == MW_OK);
  check(depth(e, s, MW_NONE) == 0);
}

static void has_a_stack_a_thread(mw_engine *e, heap *h) {
  mw_hierarchy s;
  mw_handle game = new_object(e, 0), a = new_object(e, 1);
  mw_handle b = new_object(e, 2);
  (void)h;
  mw_hierarchy_open(e, &s);
  check(mw_hierarchy_enter(e, s, a, game, GAME) == MW_OK);
  check(mw_hierarchy_leave(e, s, b, game) == MW_STALE);
  check(mw_hierarchy_enter(e, s, b, game, GAME) == MW_OK);
  check(depth(e, s, a) == 1 && depth(e, s, b) == 1);
  mw_object_forget(e, a);
  check(depth(e, s, a) == 0 && mw_hierarchy_frames(e, s) == 1);
  check(mw_hierarchy_enter(e, s, a, game, GAME) == MW_STALE);
  a = new_object(e, 3); /* in the same slot */
  check(depth(e, s, a) == 0 && depth(e, s, b) == 1);
  mw_hierarchy_reset(e, s);
  check(depth(e, s, b) == 0 && mw_hierarchy_frames(e, s) == 0);
}

static void refuses_what_is_gone(mw_engine *e, heap *h) {
  mw_hierarchy s;
  mw_handle game = new_object(e, 0);
  (void)h;
  mw_hierarchy_open(e, &s);
  mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  mw_object_forget(e, game);
  check(mw_hierarchy_enter(e, s, MW_NONE, game, GAME) == MW_STALE);
  check(mw_hierarchy_enter(e, s, MW_NONE, MW_NONE, GAME) == MW_STALE);
  check(mw_hierarchy_leave(e, s, MW_NONE, game) == MW_OK);
}

static void hierarchies_are_apart(mw_engine *e, heap *h) {
  mw_hierarchy s[6], i;
  mw_handle game = new_object(e, 0);
  (void)h;
  for (i = 0; i < 6; i++) check(mw_hierarchy_open(e, &s[i]) == MW_OK);
  for (i = 0; i < 6; i++) mw_hierarchy_enter(e, s[i], MW_NONE, game, GAME + i);
  mw_hierarchy_close(e, s[2]);
  check(mw_hierarchy_open(e, &i) == MW_OK && i == s[2]);
  check(depth(e, i, MW_NONE) == 0);
}

static void changes_nothing_without_memory(mw_engine *e, heap *h) {
  mw_hierarchy s, other;
  mw_handle game = new_object(e, 0);
  int i, code = MW_OK;
  mw_hierarchy_open(e, &s);
  heap_set(h, HEAP_FAIL_EVER, 1);
  check(mw_hierarchy_enter(e, s, MW_NONE, game, GAME) == MW_NOMEM);
  check(mw_hierarchy_open(e, &other) == MW_NOMEM);
  heap_set(h, HEAP_GIVE, 0);
  mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  heap_set(h, HEAP_FAIL_EVER, 1);
  for (i = 1; i < 1000 && code == MW_OK; i++)
    code = mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  check(code == MW_NOMEM && depth(e, s, MW_NONE) == (uint32_t)i - 1);
  check(mw_hierarchy_leave(e, s, MW_NONE, game) == MW_OK);
}

static void tells_the_same_stacks(mw_engine *e, heap *h) {
  mw_hierarchy s;
  uint32_t n;
  const mw_frame *frames;
  uint64_t way, order;
  mw_handle game = new_object(e, 0), player = new_object(e, 1);
  (void)h;
  mw_hierarchy_open(e, &s);
  mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  mw_hierarchy_enter(e, s, MW_NONE, player, PLAYER);
  frames = mw_hierarchy_stack(e, s, MW_NONE, &n);
  way = frames[1].way;
  order = frames[1].order;
  check(frames[0].way != way && frames[0].order < order);
  mw_hierarchy_leave(e, s, MW_NONE, game);
  mw_hierarchy_enter(e, s, MW_NONE, player, PLAYER);
  frames = mw_hierarchy_stack(e, s, MW_NONE, &n);
  check(n == 1 && frames[0].way != way && frames[0].order > order);
  mw_hierarchy_leave(e, s, MW_NONE, player);
  mw_hierarchy_enter(e, s, MW_NONE, game, GAME);
  mw_hierarchy_enter(e, s, MW_NONE, player, SWORD);
  frames = mw_hierarchy_stack(e, s, MW_NONE, &n);
  check(n == 2 && frames[1].way == way);
}

/* Threads that are in the same objects, one of which dies. */
static void counts_frames(mw_engine *e, heap *h) {
  mw_hierarchy s;
  mw_handle game = new_object(e, 0), player = new_object(e, 1);
  mw_handle a = new_object(e, 2), b = new_object(e, 3);
  int i;
  (void)h;
  mw_hierarchy_open(e, &s);
  for (i = 0; i < 3; i++) {
    mw_hierarchy_enter(e, s, a, game, GAME);
    mw_hierarchy_enter(e, s, b, game, GAME);
    mw_hierarchy_enter(e, s, a, player, PLAYER);
  }
  check(mw_verify(e) == MW_OK);
  check(mw_hierarchy_leave(e, s, b, player) == MW_STALE);
  check(mw_hierarchy_leave(e, s, b, game) == MW_OK);
  mw_object_forget(e, player);
  check(mw_verify(e) == MW_OK);
  mw_object_forget(e, a);
  check(mw_verify(e) == MW_OK && mw_hierarchy_frames(e, s) == 2);
  mw_hierarchy_reset(e, s);
  check(mw_verify(e) == MW_OK);
}

const test scope_tests[] = {
    {"stacks of the same objects are told", tells_the_same_stacks},
    {"frames are counted, whoever dies", counts_frames},
    {"what is entered is on the stack until it is left", enters_and_leaves},
    {"leaving unwinds what was skipped", unwinds_what_was_skipped},
    {"each thread has a stack, until it is forgotten", has_a_stack_a_thread},
    {"objects that are gone cannot be entered", refuses_what_is_gone},
    {"hierarchies have nothing in common", hierarchies_are_apart},
    {"without memory nothing is entered", changes_nothing_without_memory},
    {NULL, NULL}};
