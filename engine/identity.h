/*
** identity.h - the engine's private view of identity.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_IDENTITY_H
#define MW_IDENTITY_H

#include "moonwatch.h"

/* Slots a page, as in the columns. */
#define MWI_PAGE MWL_PAGE

typedef struct mwI_page {
  const void *ptr[MWI_PAGE]; /* address; in a free slot, the next free one */
  uint32_t age[MWI_PAGE];    /* uses before this one; MWI_TAKEN while in use */
} mwI_page;

#define MWI_TAKEN 0x80000000u

typedef struct mwI_part {
  mwI_page **pages;
  uint32_t n_pages, size_pages;
  uint32_t top;        /* slots from 1 to top - 1 have been used */
  uint32_t free;       /* the first free one below top, 0 for none */
  uint32_t found;      /* the last one that was asked for */
  uint32_t look, left; /* reaping: the next slot, and how many to go */
  size_t count;
  struct mwI_shard *shards;
} mwI_part;

MW_PRIVATE int mwI_open(mw_engine *e);
MW_PRIVATE void mwI_close(mw_engine *e);

/* The slot of the object at `ptr`, 0 when it has none. */
MW_PRIVATE uint32_t mwI_find(mw_engine *e, const void *ptr);

static inline mwI_page *mwI_pageof(const mwI_part *part, uint32_t slot) {
  return part->pages[slot / MWI_PAGE];
}

/* Is `h` the handle of an object that has not been forgotten? */
static inline int mwI_valid(const mwI_part *part, mw_handle h) {
  uint32_t slot = mw_slot(h);
  uint32_t age = (uint32_t)(h >> 32) | MWI_TAKEN;
  return slot < part->top &&
         mwI_pageof(part, slot)->age[slot % MWI_PAGE] == age;
}

/* The handle of the object in `slot`, MW_NONE when it is free. */
static inline mw_handle mwI_handle(const mwI_part *part, uint32_t slot) {
  uint32_t age = mwI_pageof(part, slot)->age[slot % MWI_PAGE];
  if ((age & MWI_TAKEN) == 0) return MW_NONE;
  return (mw_handle)(age ^ MWI_TAKEN) << 32 | slot;
}

#endif
