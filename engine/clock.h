/*
** clock.h - the engine's private view of clock.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_CLOCK_H
#define MW_CLOCK_H

#include "moonwatch.h"

typedef struct mwC_page {
  uint64_t newest;        /* no tag here is greater */
  uint64_t tag[MWL_PAGE]; /* generation + 1; 0 for untagged */
} mwC_page;

typedef struct mwC_clock {
  char *name; /* NULL when it has none */
  size_t len;
  uint64_t now;
  mwL_column tags;
} mwC_clock;

typedef struct mwC_part {
  mwC_clock *clocks;
  uint32_t n, size;
} mwC_part;

MW_PRIVATE int mwC_open(mw_engine *e);
MW_PRIVATE void mwC_close(mw_engine *e);

static inline mwC_page *mwC_pageof(const mwC_clock *clock, uint32_t slot) {
  return (mwC_page *)mwL_page(&clock->tags, slot);
}

static inline uint64_t *mwC_tag(const mwC_clock *clock, uint32_t slot) {
  mwC_page *page = mwC_pageof(clock, slot);
  return (page != NULL) ? &page->tag[slot % MWL_PAGE] : NULL;
}

static inline int64_t mwC_generation(const mwC_clock *clock, uint32_t slot) {
  const uint64_t *tag = mwC_tag(clock, slot);
  return (tag != NULL) ? (int64_t)*tag - 1 : -1;
}

/* Tags a slot; 0 when its page is yet to be made. */
static inline int mwC_stamp(const mwC_clock *clock, uint32_t slot) {
  mwC_page *page = mwC_pageof(clock, slot);
  if (page == NULL) return 0;
  page->newest = page->tag[slot % MWL_PAGE] = clock->now + 1;
  return 1;
}

/* Takes all clocks' tags from a slot. */
MW_PRIVATE void mwC_forget(mw_engine *e, uint32_t slot);

#endif
