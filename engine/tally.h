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

typedef enum mwT_kind {
  MWT_NONE, /* no value of which it could be told */
  MWT_BOOLEAN,
  MWT_INTEGER,
  MWT_FLOAT,
  MWT_STRING, /* by an address that is no other string's */
  MWT_TABLE,
  MWT_INTEGERS,
  MWT_FLOATS
} mwT_kind;

typedef union mwT_number {
  int64_t i;
  double d;
} mwT_number;

typedef struct mwT_key {
  uint64_t key, value; /* as bits */
  uint32_t place;
  uint16_t key_kind, kind;
} mwT_key;

typedef struct mwT_entry {
  mwT_key key;
  uint64_t n; /* since the owner took it last */
  mwT_number low, high;
  uint32_t below; /* the place of a table */
  uint32_t next;  /* number + 1 of the entry that was found after it */
} mwT_entry;

typedef struct mwT_tally {
  uint32_t n, size; /* the size is a power of 2 */
  uint32_t last;    /* number + 1 of the entry that was found last */
  uint32_t unused;  /* entries are aligned */
} mwT_tally;

typedef struct mwT_address {
  const void *ptr;
  uint64_t walk;
} mwT_address;

typedef struct mwT_met {
  uint64_t walk;
  uint32_t n, size; /* the size is a power of 2 */
} mwT_met;

/* The bytes of a tally for so many entries. */
MW_PRIVATE size_t mwT_bytes(uint32_t size);

/* Makes a block an empty tally; or one with all that is in a smaller one. */
MW_PRIVATE void mwT_init(mwT_tally *t, uint32_t size);
MW_PRIVATE void mwT_move(mwT_tally *t, uint32_t size, const mwT_tally *from);

/* The entry of that number, which is less than `n`. */
MW_PRIVATE mwT_entry *mwT_at(mwT_tally *t, uint32_t i);

/* The entry of a key, or NULL; and a new one, for which there must be room. */
MW_PRIVATE mwT_entry *mwT_find(mwT_tally *t, const mwT_key *key);
MW_PRIVATE mwT_entry *mwT_add(mwT_tally *t, const mwT_key *key);

/* Counts a scalar, and a table of that length; false when there is no entry for
** it.  The second answers the place that it has. */
MW_PRIVATE int mwT_count(mwT_tally *t, const mwT_key *key);
MW_PRIVATE uint32_t mwT_counttable(mwT_tally *t, const mwT_key *key,
                                   int64_t length);

/* The same of a set; `mwT_meet` adds an address, for which there must be room,
** and answers whether it was there. */
MW_PRIVATE size_t mwT_metbytes(uint32_t size);
MW_PRIVATE void mwT_metinit(mwT_met *met, uint32_t size);
MW_PRIVATE void mwT_metmove(mwT_met *met, uint32_t size, const mwT_met *from);
MW_PRIVATE int mwT_meet(mwT_met *met, const void *ptr);
MW_PRIVATE int mwT_ismet(mwT_met *met, const void *ptr);

/* Begins a walk: nothing is in it any more. */
MW_PRIVATE void mwT_metnone(mwT_met *met);

static inline int mwT_metfull(const mwT_met *met) {
  return 2 * met->n >= met->size;
}

#endif
