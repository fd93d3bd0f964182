/*
** heap.c - an allocator that looks on, for tests.
** SPDX-License-Identifier: MIT
*/
#include "heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef union header {
  struct {
    size_t size;
  } of;
  max_align_t align;
} header;

#define FRESH 0xA5
#define FREED 0x5A

void heap_set(heap *h, heap_mode mode, size_t n) {
  h->mode = mode;
  h->n = n;
  h->requests = h->refusals = h->n_refused = 0;
}

/* Has this very request failed before?  Then forgets it. */
static int was_refused(heap *h, const void *ptr, size_t size) {
  size_t i;
  for (i = 0; i < h->n_refused; i++) {
    if (h->refused[i].ptr != ptr || h->refused[i].size != size) continue;
    h->refused[i] = h->refused[--h->n_refused];
    return 1;
  }
  h->n_refused %= HEAP_REFUSED;
  h->refused[h->n_refused].ptr = ptr;
  h->refused[h->n_refused++].size = size;
  return 0;
}

static int refuses(heap *h, const void *ptr, size_t size) {
  h->requests++;
  if (h->mode == HEAP_FAIL_ONCE) return h->requests == h->n;
  if (h->mode == HEAP_FAIL_TWICE)
    return h->requests == h->n || h->requests == h->n + 1;
  if (h->mode == HEAP_FAIL_EVER) return h->requests >= h->n;
  if (h->mode == HEAP_FAIL_FIRST) return !was_refused(h, ptr, size);
  return 0;
}

static void *new_block(heap *h, size_t size) {
  header *block = (header *)malloc(sizeof(header) + size);
  if (block == NULL) abort();
  block->of.size = size;
  memset(block + 1, FRESH, size);
  h->blocks++;
  h->bytes += size;
  return block + 1;
}

static void free_block(heap *h, void *ptr) {
  header *block = (header *)ptr - 1;
  h->blocks--;
  h->bytes -= block->of.size;
  memset(block, FREED, sizeof(header) + block->of.size);
  free(block);
}

void *heap_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  heap *h = (heap *)ud;
  void *fresh;
  int is_object = ptr == NULL && osize != 0; /* then that is its type */
  if (ptr != NULL && ((header *)ptr - 1)->of.size != osize) h->errors++;
  if (ptr != NULL) osize = ((header *)ptr - 1)->of.size;
  if (nsize == 0) {
    if (ptr != NULL) free_block(h, ptr);
    return NULL;
  }
  /* A block that shrinks is never refused: real allocators do not either. */
  if ((ptr == NULL || nsize > osize) &&
      (is_object || h->mode != HEAP_FAIL_FIRST) && refuses(h, ptr, nsize)) {
    h->refusals++;
    return NULL;
  }
  fresh = new_block(h, nsize);
  if (ptr == NULL) return fresh;
  memcpy(fresh, ptr, (osize < nsize) ? osize : nsize);
  free_block(h, ptr);
  return fresh;
}
