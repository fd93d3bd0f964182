/*
** tally.h - counts of the values that were seen in each place.
** SPDX-License-Identifier: MIT
**
**     one block:  head | entries 0 .. size-1 | index 0 .. 2*size-1
**
** An entry is a value under a key of a place.  The owner adds an entry once the
** owner has decided about the value; from then on the tally only counts the
** value. Entries stay where they are, and are found by open addressing in the
** index, which has their numbers + 1 and is never more than half full.  But
** values come in one order again and again: each entry knows the entry that
** came next, and the search looks at the next entry first.
**
** Two entries stand for more than one value:  MWI_TALLY_INTEGERS and
** MWI_TALLY_FLOATS for all numbers from `low` on, of which they keep the
** greatest in `high`; their `value` is 0.  The `value` of MWI_TALLY_TABLE is 0
** as well: such an entry stands for all tables whose lengths are from `low` to
** `high`.
**
** A set of addresses holds the tables that were met already: an open hash
** table, not more than half full, whose elements are valid for one walk.
**
** The owner allocates the blocks and frees them; a tally holds nothing else.
*/
#ifndef MWI_TALLY_H
#define MWI_TALLY_H

#include "engine.h"

typedef enum mwi_tally_kind {
  MWI_TALLY_NONE, /* a value that a tally cannot count */
  MWI_TALLY_BOOLEAN,
  MWI_TALLY_INTEGER,
  MWI_TALLY_FLOAT,
  MWI_TALLY_STRING, /* by an address that only this string has */
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
  uint64_t n; /* since the owner last took the count */
  mwi_tally_number low, high;
  uint32_t below; /* the place of a table */
  uint32_t next;  /* number + 1 of the entry found next */
} mwi_tally_entry;

typedef struct mwi_tally {
  uint32_t n, size; /* the size is a power of 2 */
  uint32_t last;    /* number + 1 of the entry found last */
  uint32_t unused;  /* aligns the entries */
} mwi_tally;

typedef struct mwi_tally_address {
  const void *ptr;
  uint64_t walk;
} mwi_tally_address;

typedef struct mwi_tally_met {
  uint64_t walk;
  uint32_t n, size; /* the size is a power of 2 */
} mwi_tally_met;

/* Returns the bytes of a tally for `size` entries. */
MWI_API size_t mwi_tally_bytes(uint32_t size);

/* Makes a block an empty tally; or a tally with all entries of a smaller
** one. */
MWI_API void mwi_tally_init(mwi_tally *t, uint32_t size);
MWI_API void mwi_tally_move(mwi_tally *t, uint32_t size, const mwi_tally *from);

/* Returns entry number `i`, which is less than `n`. */
MWI_API mwi_tally_entry *mwi_tally_at(mwi_tally *t, uint32_t i);

/* Finds the entry of a key, or NULL; adds an entry, for which there must be
** room. */
MWI_API mwi_tally_entry *mwi_tally_find(mwi_tally *t, const mwi_tally_key *key);
MWI_API mwi_tally_entry *mwi_tally_add(mwi_tally *t, const mwi_tally_key *key);

/* Counts a scalar, or a table of a length; returns 0 when there is no entry for
** the value.  For a table the result is the place of the table. */
MWI_API int mwi_tally_count(mwi_tally *t, const mwi_tally_key *key);
MWI_API uint32_t mwi_tally_count_table(mwi_tally *t, const mwi_tally_key *key,
                                       int64_t length);

/* The bytes, the making and the growing of a set.  `mwi_tally_meet` adds an
** address, for which there must be room, and returns whether the address was in
** the set already. */
MWI_API size_t mwi_tally_met_bytes(uint32_t size);
MWI_API void mwi_tally_met_init(mwi_tally_met *met, uint32_t size);
MWI_API void mwi_tally_met_move(mwi_tally_met *met, uint32_t size,
                                const mwi_tally_met *from);
MWI_API int mwi_tally_meet(mwi_tally_met *met, const void *ptr);
MWI_API int mwi_tally_is_met(mwi_tally_met *met, const void *ptr);

/* Begins a walk: empties the set. */
MWI_API void mwi_tally_met_none(mwi_tally_met *met);

static inline int mwi_tally_met_full(const mwi_tally_met *met) {
  return 2 * met->n >= met->size;
}

#endif
