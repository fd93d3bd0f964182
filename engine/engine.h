/*
** engine.h - what the engine's own files share.
** SPDX-License-Identifier: MIT
**
** An engine is its allocator and one part a concept; each part is private to
** the pair of files of its name and is opened and closed here.
*/
#ifndef MW_ENGINE_H
#define MW_ENGINE_H

#include "moonwatch.h"

/* How the parts declare what they tell each other. */
#if defined(__GNUC__) && defined(__ELF__)
#define MW_PRIVATE __attribute__((visibility("hidden"))) extern
#else
#define MW_PRIVATE extern
#endif

#include "column.h"

#include "clock.h"
#include "deep.h"
#include "identity.h"
#include "journal.h"
#include "scope.h"
#include "serial.h"
#include "trace.h"
#include "watch.h"

struct mw_engine {
  mw_alloc alloc;
  void *ud;
  mwI_part identity;
  mwC_part clock;
  mwS_part serial;
  mwW_part watch;
  mwD_part deep;
  mwJ_part journal;
  mwT_part trace;
  mwP_part scope;
};

/* Counts a write. */
static inline void mwW_count(const mw_engine *e, mwW_record *r) {
  r->count++;
  r->changed = (uint32_t)e->clock.clocks[MW_CLOCK].now + 1;
}

/* Resizes `p` from `osize` to `nsize` bytes; NULL when there is not enough
** (`p` is left as it was) and when `nsize` is 0. */
MW_PRIVATE void *mwE_resize(mw_engine *e, void *p, size_t osize, size_t nsize);

/* A block of `size` zero bytes, or NULL. */
MW_PRIVATE void *mwE_new(mw_engine *e, size_t size);

/* Frees a block; NULL is fine. */
MW_PRIVATE void mwE_free(mw_engine *e, void *p, size_t size);

/* The same two for klib, which does not know the sizes: blocks that know their
** own. */
MW_PRIVATE void *mwE_resized(mw_engine *e, void *p, size_t nsize);
MW_PRIVATE void mwE_freed(mw_engine *e, void *p);

/*
** Makes room for one more in an array of `*size` elements of `width` bytes, of
** which `used` are in use: doubles it when it is full.  Answers the array, at
** a new place perhaps, or NULL with nothing changed.
*/
MW_PRIVATE void *mwE_grow(mw_engine *e, void *p, uint32_t used, uint32_t *size,
                          size_t width);

#endif
