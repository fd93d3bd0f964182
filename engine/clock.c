/*
** clock.c - generations, and who was tagged in which.
** SPDX-License-Identifier: MIT
**
** A clock is a column of tags:
**
**     page --> newest: greatest tag there was in the page
**              tag[slot % 256]: generation + 1, or 0
**
** Invariant: a tag other than 0 belongs to the object now in that slot (a slot
** loses its tags when its object is forgotten); `newest` is at least as great
** as each tag of its page.  So "tagged since n" passes over pages of old
** objects in one step, and nothing has to be kept in the order of tagging.
*/
#include "engine.h"

#include <string.h>

/* Test builds have fewer. */
#ifndef MWC_MAXCLOCK
#define MWC_MAXCLOCK UINT32_MAX
#endif

/* {======================================================
** Opening and closing
** ======================================================= */

static mwC_clock *clock_of(const mw_engine *e, mw_clock c) {
  return &e->clock.clocks[c];
}

static int has_name(const mwC_clock *clock, const char *name, size_t len) {
  return clock->name != NULL && clock->len == len &&
         memcmp(clock->name, name, len) == 0;
}

/* NULL only when `name` is not and memory ran out. */
static char *copy_name(mw_engine *e, const char *name, size_t len) {
  char *copy = (name == NULL) ? NULL : (char *)mwE_new(e, len + 1);
  if (copy != NULL) memcpy(copy, name, len);
  return copy;
}

static int add_clock(mw_engine *e, const char *name, size_t len) {
  mwC_part *part = &e->clock;
  mwC_clock fresh = {NULL, 0, 0, {NULL, 0}};
  mwC_clock *clocks;
  if (part->n == MWC_MAXCLOCK) return MW_FULL;
  clocks = (mwC_clock *)mwE_grow(e, part->clocks, part->n, &part->size,
                                 sizeof(mwC_clock));
  if (clocks == NULL) return MW_NOMEM;
  part->clocks = clocks;
  fresh.name = copy_name(e, name, len);
  fresh.len = len;
  if (name != NULL && fresh.name == NULL) return MW_NOMEM;
  clocks[part->n++] = fresh;
  return MW_OK;
}

int mw_clock_open(mw_engine *e, const char *name, size_t len, mw_clock *c) {
  mwC_part *part = &e->clock;
  uint32_t i = 0;
  while (i < part->n && !(name != NULL && has_name(clock_of(e, i), name, len)))
    i++;
  if (i == part->n) {
    int code = add_clock(e, name, len);
    if (code != MW_OK) return code;
  }
  *c = i;
  return MW_OK;
}

int mwC_open(mw_engine *e) {
  mw_clock first; /* MW_CLOCK */
  return mw_clock_open(e, NULL, 0, &first);
}

void mwC_close(mw_engine *e) {
  mwC_part *part = &e->clock;
  uint32_t i;
  for (i = 0; i < part->n; i++) {
    mwC_clock *clock = clock_of(e, i);
    mwL_drop(e, &clock->tags, sizeof(mwC_page));
    mwE_free(e, clock->name, clock->len + 1);
  }
  mwE_free(e, part->clocks, part->size * sizeof(mwC_clock));
}

/* }====================================================== */

/* {======================================================
** Generations
** ======================================================= */

int64_t mw_clock_now(const mw_engine *e, mw_clock c) {
  return (int64_t)clock_of(e, c)->now;
}

int64_t mw_clock_advance(mw_engine *e, mw_clock c) {
  return (int64_t)++clock_of(e, c)->now;
}

void mw_clock_reset(mw_engine *e, mw_clock c) {
  mwL_drop(e, &clock_of(e, c)->tags, sizeof(mwC_page));
  clock_of(e, c)->now = 0;
}

/* }====================================================== */

/* {======================================================
** Tags
** ======================================================= */

int mw_clock_tag(mw_engine *e, mw_clock c, mw_handle h) {
  mwC_clock *clock = clock_of(e, c);
  if (!mwI_valid(&e->identity, h)) return MW_STALE;
  if (mwC_stamp(clock, mw_slot(h))) return MW_OK;
  if (mwL_need(e, &clock->tags, mw_slot(h), sizeof(mwC_page)) == NULL)
    return MW_NOMEM;
  mwC_stamp(clock, mw_slot(h));
  return MW_OK;
}

static void untag(mwC_clock *clock, uint32_t slot) {
  uint64_t *tag = mwC_tag(clock, slot);
  if (tag != NULL) *tag = 0;
}

void mw_clock_untag(mw_engine *e, mw_clock c, mw_handle h) {
  if (mwI_valid(&e->identity, h)) untag(clock_of(e, c), mw_slot(h));
}

void mwC_forget(mw_engine *e, uint32_t slot) {
  uint32_t i;
  for (i = 0; i < e->clock.n; i++) untag(clock_of(e, i), slot);
}

int64_t mw_clock_generation(const mw_engine *e, mw_clock c, mw_handle h) {
  if (!mwI_valid(&e->identity, h)) return -1;
  return mwC_generation(clock_of(e, c), mw_slot(h));
}

void mw_clock_since(const mw_engine *e, mw_clock c, int64_t since, mw_walk *w) {
  w->since = since;
  w->clock = c;
  w->slot = 0;
  w->end = e->identity.top;
}

mw_handle mw_clock_next(const mw_engine *e, mw_walk *w) {
  const mwC_clock *clock = clock_of(e, w->clock);
  uint64_t oldest = (w->since < 0) ? 1 : (uint64_t)w->since + 1;
  uint32_t slot = w->slot + 1;
  while (slot < w->end) {
    const mwC_page *page = mwC_pageof(clock, slot);
    w->slot = slot;
    if (page == NULL || page->newest < oldest)
      slot = (slot / MWL_PAGE + 1) * MWL_PAGE; /* the next page */
    else if (page->tag[slot % MWL_PAGE] < oldest)
      slot++;
    else
      return mwI_handle(&e->identity, slot);
  }
  return MW_NONE;
}

/* }====================================================== */
