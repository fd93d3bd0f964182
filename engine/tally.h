/*
** tally.h - how often which value was seen in which place.
** SPDX-License-Identifier:  MIT
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
** Two entries stand for more than one value:  MWI_TALLY_INTEGERS and
** MWI_TALLY_FLOATS for all numbers from `low` on, of which they note the
** greatest; their `value` is 0.  So is that of MWI_TALLY_TABLE, which stands
** for all tables whose lengths are from `low` to `high`.
**
** A set of addresses says which tables were met already: it is an open hash
** table, not more than half full, whose elements hold for one walk.
**
** Blocks are the owner's, to be given back without a word.
*/
#ifndef MWI_TALLY_H
#define MWI_TALLY_H

#include "engine.h"

typedef enum mwi_tally_kind {
  MWI_TALLY_NONE, /* no value of which it could be told */
  MWI_TALLY_BOOLEAN,
  MWI_TALLY_INTEGER,
  MWI_TALLY_FLOAT,
  MWI_TALLY_STRING, /* by an address that is no other string's */
  MWI_TALLY_TABLE,
  MWI_TALLY_INTEGERS,
  MWI_TALLY_FLOATS
} mwi_tally_kind;

typedef union mwi_tally_number {
  int64_t i;
  double d;
} mwi_tally_number;

typedef struct mwi_tally_key {
  uint64_t key, value; /* as bits */
  uint32_t place;
  uint16_t key_kind, kind;
} mwi_tally_key;

typedef struct mwi_tally_entry {
  mwi_tally_key key;
  uint64_t n; /* since the owner took it last */
  mwi_tally_number low, high;
  uint32_t below; /* the place of a table */
  uint32_t next;  /* number + 1 of the entry that was found after it */
} mwi_tally_entry;

typedef struct mwi_tally {
  uint32_t n, size; /* the size is a power of 2 */
  uint32_t last;    /* number + 1 of the entry that was found last */
  uint32_t unused;  /* entries are aligned */
} mwi_tally;

typedef struct mwi_tally_address {
  const void *ptr;
  uint64_t walk;
} mwi_tally_address;

typedef struct mwi_tally_met {
  uint64_t walk;
  uint32_t n, size; /* the size is a power of 2 */
} mwi_tally_met;

/* The bytes of a tally for so many entries. */
MWI_API size_t mwi_tally_bytes(uint32_t size);

/* Makes a block an empty tally; or one with all that is in a smaller one. */
MWI_API void mwi_tally_init(mwi_tally *t, uint32_t size);
MWI_API void mwi_tally_move(mwi_tally *t, uint32_t size, const mwi_tally *from);

/* The entry of that number, which is less than `n`. */
MWI_API mwi_tally_entry *mwi_tally_at(mwi_tally *t, uint32_t i);

/* The entry of a key, or NULL; and a new one, for which there must be room. */
MWI_API mwi_tally_entry *mwi_tally_find(mwi_tally *t, const mwi_tally_key *key);
MWI_API mwi_tally_entry *mwi_tally_add(mwi_tally *t, const mwi_tally_key *key);

/* Counts a scalar, and a table of that length; false when there is no entry for
** it.  The second returns the place that it has. */
MWI_API int mwi_tally_count(mwi_tally *t, const mwi_tally_key *key);
MWI_API uint32_t mwi_tally_count_table(mwi_tally *t, const mwi_tally_key *key,
                                       int64_t length);

/* The same of a set; `mwi_tally_meet` adds an address, for which there must be
** room, and returns whether it was there. */
MWI_API size_t mwi_tally_met_bytes(uint32_t size);
MWI_API void mwi_tally_met_init(mwi_tally_met *met, uint32_t size);
MWI_API void mwi_tally_met_move(mwi_tally_met *met, uint32_t size,
                                const mwi_tally_met *from);
MWI_API int mwi_tally_meet(mwi_tally_met *met, const void *ptr);
MWI_API int mwi_tally_is_met(mwi_tally_met *met, const void *ptr);

/* Begins a walk: nothing is in it any more. */
MWI_API void mwi_tally_met_none(mwi_tally_met *met);

static inline int mwi_tally_met_full(const mwi_tally_met *met) {
  return 2 * met->n >= met->size;
}

#endif
