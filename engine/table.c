/*
** table.c - the hash table of the project: from a hash to numbers of records.
** SPDX-License-Identifier: MIT
**
** klib allocates through four macros, which have no argument for the owner of
** the memory; but all klib functions call their table `h`, and ours knows its
** engine.  kh_init and kh_destroy are not used: tables are parts of other
** structs.
*/
#include "engine.h"

#include <string.h>

/* Stands before each block, for klib does not tell the sizes when it frees.
** Asks for no more alignment than any allocator gives. */
typedef struct header {
  uint64_t size;
} header;

static void *resize(mw_engine *e, void *p, size_t nsize) {
  header *old = (p == NULL) ? NULL : (header *)p - 1;
  size_t osize = (p == NULL) ? 0 : (size_t)old->size;
  mwi_assert(p == NULL || osize > sizeof(header));
  header *fresh = (header *)mwi_resize(e, old, osize, nsize + sizeof(header));
  if (fresh == NULL) return NULL;
  fresh->size = nsize + sizeof(header);
  return fresh + 1;
}

static void visit(mw_engine *e, void *p, mwi_visit f) {
  header *block;
  if (p == NULL) return;
  block = (header *)p - 1;
  f(e, block, (size_t)block->size);
}

#define kcalloc(N, Z) NULL
#define kmalloc(Z) resize(h->e, NULL, Z)
#define krealloc(P, Z) resize(h->e, P, Z)
#define kfree(P) visit(h->e, P, mwi_free)

#if !defined(__has_include)
#include <khash.h>
#elif __has_include(<khash.h>)
#include <khash.h>
#elif __has_include(<htslib/khash.h>)
#include <htslib/khash.h>
#else
#error "klib's khash.h is needed: from libhts-dev, or a klib checkout (KLIB)"
#endif

/* klib's names for what stands here under others. */
#define kh_numbers_t mwi_table
#define entry_hash(entry) ((khint_t)((entry) >> 32))
#define entry_equal(a, b) ((a) == (b))
#define bucket(hash, number) ((uint64_t)(hash) << 32 | (number))

/* klib converts freely. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
__KHASH_IMPL(numbers, static inline klib_unused, uint64_t, char, 0, entry_hash,
             entry_equal)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

int mwi_table_reserve(mw_engine *e, mwi_table *t, uint32_t n) {
  t->e = e;
  while (t->n_occupied + n > t->upper_bound) {
    int is_full = t->n_buckets <= 2 * (t->size + n); /* or else swept */
    if (kh_resize_numbers(t, t->n_buckets + (khint_t)is_full) < 0) return 0;
  }
  return 1;
}

int mwi_table_put(mw_engine *e, mwi_table *t, uint32_t hash, uint32_t number) {
  int fresh;
  if (!mwi_table_reserve(e, t, 1)) return 0;
  kh_put_numbers(t, bucket(hash, number), &fresh);
  mwi_assert(number != 0 && fresh > 0);
  return 1;
}

static khint_t bucket_of(const mwi_table *t, uint32_t hash, uint32_t number) {
  khint_t i = kh_get_numbers(t, bucket(hash, number));
  mwi_assert(number != 0 && i < t->n_buckets);
  return i;
}

void mwi_table_take(mwi_table *t, uint32_t hash, uint32_t number) {
  khint_t i = bucket_of(t, hash, number);
  t->keys[i] = 0;
  kh_del_numbers(t, i);
}

void mwi_table_replace(mwi_table *t, uint32_t hash, uint32_t number,
                       uint32_t other) {
  t->keys[bucket_of(t, hash, number)] = bucket(hash, other);
}

void mwi_table_empty(mwi_table *t) { kh_clear_numbers(t); }

void mwi_table_blocks(mw_engine *e, const mwi_table *t, mwi_visit f) {
  visit(e, t->flags, f);
  visit(e, t->keys, f);
}

void mwi_table_drop(mw_engine *e, mwi_table *t) {
  mwi_table_blocks(e, t, mwi_free);
  memset(t, 0, sizeof(*t));
}

/* Returns how many buckets keep a third of themselves empty. */
static uint32_t buckets_for(uint32_t n) {
  uint32_t size = 16; /* a word of flags */
  while (size / 3 * 2 < n) size *= 2;
  return size;
}

size_t mwi_table_room(uint32_t n) {
  size_t size = buckets_for(n);
  return size * sizeof(uint64_t) + (size / 4 + 7) / 8 * 8;
}

void mwi_table_lend(mwi_table *t, void *room, uint32_t n) {
  memset(t, 0, sizeof(*t));
  t->n_buckets = buckets_for(n);
  t->upper_bound = t->n_buckets / 3 * 2;
  t->keys = (uint64_t *)room;
  t->flags = (uint32_t *)(void *)(t->keys + t->n_buckets);
  kh_clear_numbers(t);
}
