/*
** engine.h - shared by the engine's own files.
** SPDX-License-Identifier: MIT
**
** Prefixes: `mw_` public, `mwi_` the engine's own.  An engine is its allocator
** and one part for each concept; each part is private to the pair of files of
** its name and is opened and closed here.
*/
#ifndef MWI_ENGINE_H
#define MWI_ENGINE_H

#include "moonwatch.h"

/* How the parts declare functions for each other. */
#if defined(__GNUC__) && defined(__ELF__)
#define MWI_API __attribute__((visibility("hidden"))) extern
#else
#define MWI_API extern
#endif

/* What is done with each block of a part: each part has one walk over its
** memory, which frees the part, or counts what the part has. */
typedef void (*mwi_visit)(mw_engine *e, void *p, size_t size);

#include "check.h"
#include "pool.h"
#include "table.h"

#include "clock.h"
#include "hierarchy.h"
#include "identity.h"
#include "journal.h"
#include "reader.h"
#include "trace.h"
#include "tree.h"
#include "watch.h"

struct mw_engine {
  mw_alloc alloc;
  void *ud;
  size_t bytes;   /* allocated, with the engine itself */
  size_t counted; /* see mw_memory_info */
  mwi_identity identity;
  mwi_clocks clock;
  mwi_watches watch;
  mwi_tree tree;
  mwi_journal journal;
  mwi_readers reader;
  uint64_t stamp; /* of a write now */
  mwi_traces trace;
  mwi_hierarchies scope;
#ifdef MW_CHECKS
  mwi_checks check;
#endif
};

/* Counts a write. */
static inline void mwi_object_count(const mw_engine *e, mwi_object *r) {
  r->count += (r->count < UINT32_MAX);
  r->stamp = e->stamp;
}

/* The object may have been written unseen: its last write is of this age. */
static inline void mwi_object_renew(const mw_engine *e, mwi_object *r) {
  r->stamp = (e->stamp & ~(uint64_t)UINT32_MAX) | (uint32_t)r->stamp;
}

/* Resizes `p` from `osize` to `nsize` bytes; returns NULL when there is no
** memory (`p` stays valid) and when `nsize` is 0. */
MWI_API void *mwi_resize(mw_engine *e, void *p, size_t osize, size_t nsize);

/* A block of `size` zero bytes, or NULL. */
MWI_API void *mwi_new(mw_engine *e, size_t size);

/* Frees a block; NULL is fine. */
MWI_API void mwi_free(mw_engine *e, void *p, size_t size);

/*
** Makes room for one more element in the array `*array` of `*size` elements, of
** which `used` are in use: doubles a full array, which may move.  Returns 0
** without memory, with nothing changed.
*/
#define mwi_grow(e, array, used, size) \
  mwi_grow_array(e, array, used, size, sizeof(**(array)))
MWI_API int mwi_grow_array(mw_engine *e, void *array, uint32_t used,
                           uint32_t *size, size_t width);

#endif
