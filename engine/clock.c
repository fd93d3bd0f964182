/*
** clock.c - generations, and the objects tagged in each.
** SPDX-License-Identifier: MIT
**
** A clock is a column of tags:
**
**     page --> newest: greatest tag there was in the page
**              tag[slot % 256]: generation + 1, or 0
**
** Invariant: a tag other than 0 belongs to the object now in the slot (a slot
** loses its tags when its object is forgotten); `newest` is at least as great
** as each tag of its page.  So "tagged since n" passes over pages of old
** objects in one step, and no list in the order of tagging is needed.
*/
#include "engine.h"

#include <string.h>

/* Test builds have fewer. */
#ifndef MWI_MAXCLOCK
#define MWI_MAXCLOCK UINT32_MAX
#endif

static mwi_clock *clock_of(const mw_engine *e, mw_clock c) {
  mwi_check_call(c < e->clock.n);
  return &e->clock.clocks[c];
}

int mw_clock_open(mw_engine *e, const char *name, size_t len, mw_clock *c) {
  mwi_clocks *part = &e->clock;
  mwi_clock *its;
  char *copy = NULL;
  uint32_t i;
  mwi_check_enter(e);
  for (i = 0; i < part->n && name != NULL; i++) { /* shared by its name? */
    its = &part->clocks[i];
    if (its->name == NULL || its->len != len) continue; /* surely another? */
    if (memcmp(its->name, name, len) != 0) continue;
    *c = i;
    return MW_OK;
  }
  if (part->n == MWI_MAXCLOCK) return MW_FULL;
  if (!mwi_grow(e, &part->clocks, part->n, &part->size)) return MW_NOMEM;
  if (name != NULL && (copy = (char *)mwi_new(e, len + 1)) == NULL)
    return MW_NOMEM;
  if (name != NULL) memcpy(copy, name, len);
  *c = part->n++;
  its = &part->clocks[*c];
  memset(its, 0, sizeof(*its));
  its->name = copy;
  its->len = len;
  return MW_OK;
}

int mwi_clock_open(mw_engine *e) {
  mw_clock first; /* MW_CLOCK */
  return mw_clock_open(e, NULL, 0, &first);
}

void mwi_clock_blocks(mw_engine *e, mwi_visit f) {
  mwi_clocks *part = &e->clock;
  uint32_t i;
  for (i = 0; i < part->n; i++) {
    const mwi_clock *clock = clock_of(e, i);
    mwi_column_blocks(e, &clock->tags, sizeof(mwi_clock_page), f);
    f(e, clock->name, clock->len + 1);
  }
  f(e, part->clocks, part->size * sizeof(mwi_clock));
}

int64_t mw_clock_now(const mw_engine *e, mw_clock c) {
  return (int64_t)clock_of(e, c)->now;
}

/* Sets the generation.  The stamp of writes has that of the default clock. */
static void set_now(mw_engine *e, mw_clock c, uint64_t now) {
  clock_of(e, c)->now = now;
  if (c != MW_CLOCK) return;
  e->stamp = e->stamp >> 32 << 32 | (uint32_t)((uint32_t)now + 1);
}

int64_t mw_clock_advance(mw_engine *e, mw_clock c) {
  set_now(e, c, clock_of(e, c)->now + 1);
  return mw_clock_now(e, c);
}

void mw_clock_reset(mw_engine *e, mw_clock c) {
  mwi_column_drop(e, &clock_of(e, c)->tags, sizeof(mwi_clock_page));
  set_now(e, c, 0);
}

int mw_clock_tag(mw_engine *e, mw_clock c, mw_handle h) {
  mwi_clock *clock = clock_of(e, c);
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, h)) return MW_STALE;
  if (mwi_clock_stamp(clock, mw_slot(h))) return MW_OK; /* is there a page? */
  if (mwi_column_need(e, &clock->tags, mw_slot(h), sizeof(mwi_clock_page)) ==
      NULL)
    return MW_NOMEM;
  mwi_clock_stamp(clock, mw_slot(h));
  return MW_OK;
}

static void untag(mwi_clock *clock, uint32_t slot) {
  uint64_t *tag = mwi_clock_tag(clock, slot);
  if (tag != NULL) *tag = 0; /* was the page ever needed? */
}

void mw_clock_untag(mw_engine *e, mw_clock c, mw_handle h) {
  if (mwi_identity_is_valid(&e->identity, h)) untag(clock_of(e, c), mw_slot(h));
}

void mwi_clock_forget(mw_engine *e, uint32_t slot) {
  uint32_t i;
  for (i = 0; i < e->clock.n; i++) untag(clock_of(e, i), slot);
}

int64_t mw_clock_generation(const mw_engine *e, mw_clock c, mw_handle h) {
  if (!mwi_identity_is_valid(&e->identity, h)) return -1;
  return mwi_clock_generation(clock_of(e, c), mw_slot(h));
}

void mw_clock_since(const mw_engine *e, mw_clock c, int64_t since, mw_walk *w) {
  w->since = since;
  w->clock = c;
  w->slot = 0;
  w->end = e->identity.top;
}

mw_handle mw_clock_next(const mw_engine *e, mw_walk *w) {
  const mwi_clock *clock = clock_of(e, w->clock);
  uint64_t oldest = (w->since < 0) ? 1 : (uint64_t)w->since + 1; /* all? */
  uint32_t slot = w->slot + 1;
  while (slot < w->end) {
    const mwi_clock_page *page = mwi_clock_page_of(clock, slot);
    w->slot = slot;
    if (page == NULL || page->newest < oldest) /* nothing since in the page? */
      slot = (slot / MWI_PAGE + 1) * MWI_PAGE; /* the next page */
    else if (page->tag[slot % MWI_PAGE] < oldest)
      slot++;
    else
      return mwi_identity_handle(&e->identity, slot);
  }
  return MW_NONE;
}
