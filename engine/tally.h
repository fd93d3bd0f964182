/*
** tally.h - how often which value was seen in which place.
** SPDX-License-Identifier: MIT
**
**     one block:  head | entries 0 .. size-1 | index 0 .. 2*size-1
**
** An entry is a value under a key of a place, and is added once its owner has
** made up its mind about it; from then on it is only counted.  Entries stay
** where they are, and are found by open addressing in the index, which has
** their numbers + 1 and is never more than half full.  But what is counted
** comes in the same order again and again: each entry knows which one came
** after it, and that is looked at first.
**
** Two entries stand for more than one value: MWT_INTEGERS and MWT_FLOATS for
** all numbers from `low` on, of which they note the greatest; their `value` is
** 0.  So is that of MWT_TABLE, which stands for all tables whose lengths are
** from `low` to `high`.
**
** A set of addresses says which tables were met already: it is an open hash
** table, not more than half full, whose elements hold for one walk.
**
** Blocks are the owner's, to be given back without a word.
*/
#ifndef MW_TALLY_H
#define MW_TALLY_H

#include "engine.h"

typedef enum mwY_kind {
  MWT_NONE, /* no value of which it could be told */
  MWT_BOOLEAN,
  MWT_INTEGER,
  MWT_FLOAT,
  MWT_STRING, /* by an address that is no other string's */
  MWT_TABLE,
  MWT_INTEGERS,
  MWT_FLOATS
} mwY_kind;

typedef union mwY_number {
  int64_t i;
  double d;
} mwY_number;

typedef struct mwY_key {
  uint64_t key, value; /* as bits */
  uint32_t place;
  uint16_t key_kind, kind;
} mwY_key;

typedef struct mwY_entry {
  mwY_key key;
  uint64_t n; /* since the owner took it last */
  mwY_number low, high;
  uint32_t below; /* the place of a table */
  uint32_t next;  /* number + 1 of the entry that was found after it */
} mwY_entry;

typedef struct mwY_tally {
  uint32_t n, size; /* the size is a power of 2 */
  uint32_t last;    /* number + 1 of the entry that was found last */
  uint32_t unused;  /* entries are aligned */
} mwY_tally;

typedef struct mwY_address {
  const void *ptr;
  uint64_t walk;
} mwY_address;

typedef struct mwY_met {
  uint64_t walk;
  uint32_t n, size; /* the size is a power of 2 */
} mwY_met;

/* The bytes of a tally for so many entries. */
MW_PRIVATE size_t mwY_bytes(uint32_t size);

/* Makes a block an empty tally; or one with all that is in a smaller one. */
MW_PRIVATE void mwY_init(mwY_tally *t, uint32_t size);
MW_PRIVATE void mwY_move(mwY_tally *t, uint32_t size, const mwY_tally *from);

/* The entry of that number, which is less than `n`. */
MW_PRIVATE mwY_entry *mwY_at(mwY_tally *t, uint32_t i);

/* The entry of a key, or NULL; and a new one, for which there must be room. */
MW_PRIVATE mwY_entry *mwY_find(mwY_tally *t, const mwY_key *key);
MW_PRIVATE mwY_entry *mwY_add(mwY_tally *t, const mwY_key *key);

/* Counts a scalar, and a table of that length; false when there is no entry for
** it.  The second answers the place that it has. */
MW_PRIVATE int mwY_count(mwY_tally *t, const mwY_key *key);
MW_PRIVATE uint32_t mwY_counttable(mwY_tally *t, const mwY_key *key,
                                   int64_t length);

/* The same of a set; `mwY_meet` adds an address, for which there must be room,
** and answers whether it was there. */
MW_PRIVATE size_t mwY_metbytes(uint32_t size);
MW_PRIVATE void mwY_metinit(mwY_met *met, uint32_t size);
MW_PRIVATE void mwY_metmove(mwY_met *met, uint32_t size, const mwY_met *from);
MW_PRIVATE int mwY_meet(mwY_met *met, const void *ptr);
MW_PRIVATE int mwY_ismet(mwY_met *met, const void *ptr);

/* Begins a walk: nothing is in it any more. */
MW_PRIVATE void mwY_metnone(mwY_met *met);

static inline int mwY_metfull(const mwY_met *met) {
  return 2 * met->n >= met->size;
}

#endif
