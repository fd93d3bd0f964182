/*
** table.c - the hash table of the project: from a hash to numbers of records.
** SPDX-License-Identifier: MIT
**
** klib's functions search, put and take out; it resizes nothing, for it frees
** without a size.  A table that is full, or full of buckets that were taken
** out, is made anew in another block.
**
**     block: | keys[n_buckets] | flags, two bits a bucket |
*/
#include "engine.h"

#include <string.h>

#define kcalloc(N, Z) NULL
#define kmalloc(Z) NULL
#define krealloc(P, Z) NULL
#define kfree(P) ((void)(P))

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

static uint32_t upper_bound(uint32_t n_buckets) {
  return (uint32_t)(n_buckets * __ac_HASH_UPPER + 0.5);
}

static uint32_t buckets_for(uint32_t n) {
  uint32_t size = 16; /* a word of flags */
  while (upper_bound(size) < n) size *= 2;
  return size;
}

static size_t block_size(size_t n_buckets) {
  return n_buckets * sizeof(uint64_t) + (n_buckets / 4 + 7) / 8 * 8;
}

size_t mwi_table_room(uint32_t n) { return block_size(buckets_for(n)); }

void mwi_table_lend(mwi_table *t, void *room, uint32_t n) {
  memset(t, 0, sizeof(*t));
  t->n_buckets = buckets_for(n);
  t->upper_bound = upper_bound(t->n_buckets);
  t->keys = (uint64_t *)room;
  t->flags = (uint32_t *)(void *)(t->keys + t->n_buckets);
  kh_clear_numbers(t);
}

int mwi_table_reserve(mw_engine *e, mwi_table *t, uint32_t n) {
  int is_full = t->n_buckets <= 2 * (t->size + n), is_new; /* else swept */
  uint32_t most = t->upper_bound + (uint32_t)is_full, i;
  mwi_table fresh;
  void *room;
  if (t->n_occupied + n <= t->upper_bound) return 1; /* is there room? */
  if (most < t->size + n) most = t->size + n;        /* so many at once? */
  room = mwi_resize(e, NULL, 0, mwi_table_room(most));
  if (room == NULL) return 0;
  mwi_table_lend(&fresh, room, most);
  for (i = 0; i < t->n_buckets; i++)
    if (mwi_table_at(t, i) != 0) kh_put_numbers(&fresh, t->keys[i], &is_new);
  mwi_free(e, t->keys, block_size(t->n_buckets));
  *t = fresh;
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
  f(e, t->keys, block_size(t->n_buckets));
}

void mwi_table_drop(mw_engine *e, mwi_table *t) {
  mwi_table_blocks(e, t, mwi_free);
  memset(t, 0, sizeof(*t));
}
