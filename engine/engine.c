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

static void object_blocks(mw_engine *e, mwi_visit f) {
  mwi_record_blocks(e, f);
  mwi_identity_blocks(e, f);
  mwi_clock_blocks(e, f);
}

/* Calls no callback of the host, which may be gone: strings are not
** released. */
void mw_engine_close(mw_engine *e) {
  if (e == NULL) return;
  mwi_check_enter(e);
  mwi_check_call(e->check.guards == 0);
  mwi_trace_blocks(e, mwi_free);
  mwi_hierarchy_blocks(e, mwi_free);
  mwi_journal_blocks(e, mwi_free);
  mwi_reader_blocks(e, mwi_free);
  mwi_tree_blocks(e, mwi_free);
  mwi_watch_blocks(e, mwi_free);
  object_blocks(e, mwi_free);
  e->alloc(e->ud, e, sizeof(mw_engine), 0);
}

void *mwi_resize(mw_engine *e, void *p, size_t osize, size_t nsize) {
  mwi_assert((p == NULL) == (osize == 0));
  mwi_quiet_begin(e);
  p = e->alloc(e->ud, p, osize, nsize);
  mwi_quiet_end(e);
  if (p != NULL || nsize == 0) e->bytes += nsize - osize; /* not refused? */
  return p;
}

void *mwi_new(mw_engine *e, size_t size) {
  void *p = mwi_resize(e, NULL, 0, size);
  return (p == NULL) ? NULL : memset(p, 0, size);
}

void mwi_free(mw_engine *e, void *p, size_t size) {
  if (p != NULL) mwi_resize(e, p, size, 0);
}

int mwi_grow_array(mw_engine *e, void *array, uint32_t used, uint32_t *size,
                   size_t width) {
  void *p;
  uint32_t bigger = (*size == 0) ? MIN_ARRAY : *size * 2;
  mwi_assert(used <= *size);
  if (used < *size) return 1;   /* is there room? */
  memcpy(&p, array, sizeof(p)); /* a pointer of any type */
  p = mwi_resize(e, p, *size * width, bigger * width);
  if (p == NULL) return 0;
  memcpy(array, &p, sizeof(p));
  *size = bigger;
  return 1;
}

static void count_block(mw_engine *e, void *p, size_t size) {
  if (p != NULL) e->counted += size; /* was it ever needed? */
}

static size_t bytes_of(mw_engine *e, void (*blocks)(mw_engine *, mwi_visit)) {
  e->counted = 0;
  blocks(e, count_block);
  return e->counted;
}

void mw_memory_info(mw_engine *e, mw_memory *memory) {
  memory->objects = sizeof(mw_engine) + bytes_of(e, object_blocks);
  memory->watches =
      bytes_of(e, mwi_watch_blocks) + bytes_of(e, mwi_tree_blocks);
  memory->journal =
      bytes_of(e, mwi_journal_blocks) + bytes_of(e, mwi_reader_blocks);
  memory->names = bytes_of(e, mwi_hierarchy_blocks);
  memory->traces = bytes_of(e, mwi_trace_blocks);
  memory->total = e->bytes;
}
