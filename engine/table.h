/*
** table.h - the hash table of the project: from a hash to numbers of records.
** SPDX-License-Identifier: MIT
**
**     bucket: | hash, 32 bits | number, 32 bits |
**
** A table has no keys of its own: the records have them, and whoever searches
** compares them.  So one table serves for records in a pool, in an array, or
** elsewhere, with keys of any kind; records may have the same hash.  Numbers
** begin with 1.
**
**     mwi_search at;
**     uint32_t i = mwi_table_first(t, hash, &at);
**     while (i != 0 && !is_it(i)) i = mwi_table_next(t, &at);
**
** It is klib's hash table with the memory of an engine, or with memory that is
** lent, as arrays of Lua's are, which the end of a call, or an error, frees.  A
** table that is all zeros is empty.
**
** Invariant: a bucket that was taken out has number 0 until another entry gets
** it; and there is always an empty bucket, so that a search ends.
*/
#ifndef MWI_TABLE_H
#define MWI_TABLE_H

#include "check.h"

/* The fields have klib's names. */
typedef struct mwi_table {
  uint32_t n_buckets;   /* 0, or a power of 2 */
  uint32_t size;        /* entries */
  uint32_t n_occupied;  /* buckets that are not empty; */
  uint32_t upper_bound; /* how many these may be */
  uint32_t *flags;      /* two bits a bucket: is it empty, was it taken out? */
  uint64_t *keys;
  char *vals; /* NULL */
} mwi_table;

/* Where a search is. */
typedef struct mwi_search {
  uint32_t hash, at, step;
} mwi_search;

/* Returns the number in a bucket, from 0 to `n_buckets` - 1; or 0. */
static inline uint32_t mwi_table_at(const mwi_table *t, uint32_t i) {
  int is_empty = t->flags[i >> 4] >> ((i & 15) << 1) & 2;
  return is_empty ? 0 : (uint32_t)t->keys[i];
}

/* Returns the next number with the hash, 0 at the end.  The table does not
** change during a search. */
static inline uint32_t mwi_table_next(const mwi_table *t, mwi_search *s) {
  uint32_t mask = t->n_buckets - 1, i = s->at;
  for (; (t->flags[i >> 4] >> ((i & 15) << 1) & 2) == 0; i = s->at) {
    s->at = (i + ++s->step) & mask; /* as klib goes on */
    if (t->keys[i] >> 32 == s->hash && (uint32_t)t->keys[i] != 0)
      return (uint32_t)t->keys[i];
  }
  return 0;
}

static inline uint32_t mwi_table_first(const mwi_table *t, uint32_t hash,
                                       mwi_search *s) {
  if (t->size == 0) return 0;
  s->hash = hash;
  s->at = hash & (t->n_buckets - 1);
  s->step = 0;
  return mwi_table_next(t, s);
}

/* Makes room, so that the next `n` entries need no memory; returns 0 when there
** is none. */
MWI_API int mwi_table_reserve(mw_engine *e, mwi_table *t, uint32_t n);

/* Enters a number that is not there; returns 0 without memory. */
MWI_API int mwi_table_put(mw_engine *e, mwi_table *t, uint32_t hash,
                          uint32_t number);

/* Takes out a number that is there. */
MWI_API void mwi_table_take(mwi_table *t, uint32_t hash, uint32_t number);

/* Puts a number in the place of another one with the same hash. */
MWI_API void mwi_table_replace(mwi_table *t, uint32_t hash, uint32_t number,
                               uint32_t other);

/* Takes out all numbers, and keeps the memory. */
MWI_API void mwi_table_empty(mwi_table *t);

/* Frees the memory; the table is as at first. */
MWI_API void mwi_table_drop(mw_engine *e, mwi_table *t);

/* Calls `f` with the blocks of the table. */
MWI_API void mwi_table_blocks(mw_engine *e, const mwi_table *t, mwi_visit f);

/* Returns the size of the memory that a table of at most `n` entries needs, a
** multiple of 8; and makes a table in memory that is aligned for a uint64_t.
** Such a table is not dropped. */
#define MWI_FEW 20      /* this many need */
#define MWI_FEW_ROOM 33 /* this many uint64_t */
MWI_API size_t mwi_table_room(uint32_t n);
MWI_API void mwi_table_lend(mwi_table *t, void *room, uint32_t n);

#endif
