/*
** clock.h - the engine's private view of clock.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_CLOCK_H
#define MWI_CLOCK_H

#include "moonwatch.h"

typedef struct mwi_clock_page {
  uint64_t newest;        /* no tag here is greater */
  uint64_t tag[MWI_PAGE]; /* generation + 1; 0 for untagged */
} mwi_clock_page;

typedef struct mwi_clock {
  char *name; /* NULL for a clock without a name */
  size_t len;
  uint64_t now;
  mwi_column tags;
} mwi_clock;

typedef struct mwi_clocks {
  mwi_clock *clocks;
  uint32_t n, size;
} mwi_clocks;

MWI_API int mwi_clock_open(mw_engine *e);
MWI_API void mwi_clock_blocks(mw_engine *e, mwi_visit f);

static inline mwi_clock_page *mwi_clock_page_of(const mwi_clock *clock,
                                                uint32_t slot) {
  return (mwi_clock_page *)mwi_column_page(&clock->tags, slot);
}

static inline uint64_t *mwi_clock_tag(const mwi_clock *clock, uint32_t slot) {
  mwi_clock_page *page = mwi_clock_page_of(clock, slot);
  return (page != NULL) ? &page->tag[slot % MWI_PAGE] : NULL;
}

static inline int64_t mwi_clock_generation(const mwi_clock *clock,
                                           uint32_t slot) {
  const uint64_t *tag = mwi_clock_tag(clock, slot);
  return (tag != NULL) ? (int64_t)*tag - 1 : -1;
}

/* Tags a slot; 0 when its page is yet to be made. */
static inline int mwi_clock_stamp(const mwi_clock *clock, uint32_t slot) {
  mwi_clock_page *page = mwi_clock_page_of(clock, slot);
  if (page == NULL) return 0;
  mwi_assert(page->newest <= clock->now + 1);
  page->newest = page->tag[slot % MWI_PAGE] = clock->now + 1;
  return 1;
}

/* Removes the tags of all clocks from a slot. */
MWI_API void mwi_clock_forget(mw_engine *e, uint32_t slot);

#endif
