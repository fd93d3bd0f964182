/*
** engine.c - opening, closing, memory.
** SPDX-License-Identifier: MIT
*/
#include "engine.h"

#include <string.h>

#define MIN_ARRAY 4u

int mw_version(void) { return MW_VERSION_NUMBER; }

mw_engine *mw_engine_open(mw_alloc alloc, void *ud) {
  mw_engine *e = (mw_engine *)alloc(ud, NULL, 0, sizeof(mw_engine));
  if (e == NULL) return NULL;
  memset(e, 0, sizeof(mw_engine));
  e->alloc = alloc;
  e->ud = ud;
  e->bytes = sizeof(mw_engine);
  e->reader.first = 1;
  e->stamp = UINT64_C(1) << 32 | 1; /* age 1, generation 0 */
  if (mwi_clock_open(e) == MW_OK && mwi_identity_open(e) == MW_OK) return e;
  mw_engine_close(e);
  return NULL;
}

void mw_engine_close(mw_engine *e) {
  if (e == NULL) return;
  mwi_check_enter(e);
  mwi_check_call(e->check.guards == 0);
  mwi_trace_close(e);
  mwi_hierarchy_close(e);
  mwi_journal_close(e);
  mwi_reader_close(e);
  mwi_tree_close(e);
  mwi_watch_close(e);
  mwi_identity_close(e);
  mwi_clock_close(e);
  e->alloc(e->ud, e, sizeof(mw_engine), 0);
}

void *mwi_resize(mw_engine *e, void *p, size_t osize, size_t nsize) {
  mwi_assert((p == NULL) == (osize == 0));
  mwi_quiet_begin(e);
  p = e->alloc(e->ud, p, osize, nsize);
  mwi_quiet_end(e);
  if (p != NULL || nsize == 0) e->bytes += nsize - osize;
  return p;
}

void *mwi_new(mw_engine *e, size_t size) {
  void *p = mwi_resize(e, NULL, 0, size);
  return (p == NULL) ? NULL : memset(p, 0, size);
}

void mwi_free(mw_engine *e, void *p, size_t size) {
  if (p != NULL) mwi_resize(e, p, size, 0);
}

void *mwi_grow(mw_engine *e, void *p, uint32_t used, uint32_t *size,
               size_t width) {
  uint32_t bigger = (*size == 0) ? MIN_ARRAY : *size * 2;
  mwi_assert(used <= *size);
  if (used < *size) return p;
  p = mwi_resize(e, p, *size * width, bigger * width);
  if (p != NULL) *size = bigger;
  return p;
}

void mw_memory_info(const mw_engine *e, mw_memory *memory) {
  memory->objects = sizeof(mw_engine) + mwi_identity_bytes(e) +
                    mwi_clock_bytes(e) + mwi_object_bytes(e);
  memory->watches = mwi_watch_bytes(e) + mwi_tree_bytes(e);
  memory->journal = mwi_journal_bytes(e) + mwi_reader_bytes(e);
  memory->names = mwi_hierarchy_bytes(e);
  memory->traces = mwi_trace_bytes(e);
  memory->total = e->bytes;
}
