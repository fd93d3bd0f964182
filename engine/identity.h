/*
** identity.h - the engine's private view of identity.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_IDENTITY_H
#define MWI_IDENTITY_H

#include "moonwatch.h"

typedef struct mwi_identity_page {
  const void *ptr[MWI_PAGE]; /* address; in a free slot, the next free slot */
  uint32_t age[MWI_PAGE];    /* earlier uses; with MWI_TAKEN while in use */
  uint8_t flags[MWI_PAGE];   /* MW_PINNED, or 0 */
} mwi_identity_page;

#define MWI_SHARDS 64u /* of each of the two tables */

#define MWI_TAKEN 0x80000000u

/* Test builds have fewer. */
#ifndef MWI_MAXSLOT
#define MWI_MAXSLOT (UINT32_MAX - 1)
#endif
#ifndef MWI_MAXAGE
#define MWI_MAXAGE (MWI_TAKEN - 1)
#endif

typedef struct mwi_identity {
  mwi_column pages;
  uint32_t top;        /* slots from 1 to top - 1 have been used */
  uint32_t free;       /* the first free slot below top, 0 for none */
  uint32_t found;      /* the slot found last */
  int is_near;         /* was `found` near the slot found before? */
  uint32_t look, left; /* reaping: the next slot, and how many to go */
  size_t count;
  mwi_table *shards; /* from addresses to slots */
  mw_clock given;    /* the clock whose generations are the serials */
  mwi_table *serials;
} mwi_identity;

/* Opens the part; the clocks must be open. */
MWI_API int mwi_identity_open(mw_engine *e);
MWI_API void mwi_identity_blocks(mw_engine *e, mwi_visit f);

/* The page of a slot below `top`. */
static inline mwi_identity_page *mwi_identity_page_of(const mwi_identity *part,
                                                      uint32_t slot) {
  return (mwi_identity_page *)part->pages.pages[slot / MWI_PAGE];
}

/* Returns the slot that the next new object gets. */
static inline uint32_t mwi_identity_next(const mwi_identity *part) {
  return (part->free != 0) ? part->free : part->top;
}

/* Returns the slot of the object at `ptr`, 0 when the object has none. */
MWI_API uint32_t mwi_identity_find(mw_engine *e, const void *ptr);

/* Is `h` the handle of an object that has not been forgotten? */
static inline int mwi_identity_is_valid(const mwi_identity *part, mw_handle h) {
  uint32_t slot = mw_slot(h);
  uint32_t age = (uint32_t)(h >> 32) | MWI_TAKEN;
  return slot < part->top &&
         mwi_identity_page_of(part, slot)->age[slot % MWI_PAGE] == age;
}

/* Returns the handle of the object in `slot`, MW_NONE when the slot is free. */
static inline mw_handle mwi_identity_handle(const mwi_identity *part,
                                            uint32_t slot) {
  uint32_t age = mwi_identity_page_of(part, slot)->age[slot % MWI_PAGE];
  if ((age & MWI_TAKEN) == 0) return MW_NONE;
  return (mw_handle)(age ^ MWI_TAKEN) << 32 | slot;
}

#endif
