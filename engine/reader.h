/*
** reader.h - the engine's private view of reader.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_READER_H
#define MWI_READER_H

#include "moonwatch.h"

#ifndef MWI_READER_PAGE
#define MWI_READER_PAGE 256u
#endif

/* The number of a delivered entry is its place: `seq` of those in a page is the
** number as a cause, and `kind` of the first one of a delivery has MWI_BEGINS,
** too. */
typedef struct mwi_reader_page {
  mw_entry entries[MWI_READER_PAGE];
  uint8_t marks[MWI_READER_PAGE]; /* equal for entries of one field */
  uint64_t least, most;           /* of the numbers as causes */
} mwi_reader_page;

#define MWI_BEGINS 0x80

typedef struct mwi_reader {
  uint64_t next;     /* the number that is read next */
  uint64_t lost;     /* numbers that the reader has missed */
  uint32_t capacity; /* 0: the reader is closed */
  int flags;         /* of enum mw_reader_flag */
} mwi_reader;

/* Numbers of readers begin with 1. */
typedef struct mwi_readers {
  mwi_reader *list;
  uint32_t n, size;
  uint32_t open;           /* number of open readers */
  mwi_reader_page **pages; /* by number / MWI_READER_PAGE, modulo `n_pages` */
  uint32_t n_pages;        /* a power of 2 */
  mwi_reader_page *spare;  /* a page without entries, or NULL */
  uint64_t first, last;    /* the numbers of the entries that are kept */
} mwi_readers;

/* Does anybody read what is delivered? */
static inline int mwi_is_read(const mwi_readers *part) {
  return part->open > 0;
}

/* Delivers an entry, whose values are as `values` says; `begins` is whether the
** entry is the first of its delivery.  Without memory the entry is lost. */
MWI_API void mwi_reader_deliver(mw_engine *e, const mw_entry *entry,
                                const mw_values *values, int begins,
                                void *host);

/* The same, of an entry whose values the host has changed already. */
MWI_API void mwi_reader_put(mw_engine *e, const mw_entry *entry, int begins);

/* Copies an entry that is in a page: one that is kept, or that was forgotten
** while its page stays. */
MWI_API void mwi_reader_read(const mw_engine *e, uint64_t seq, mw_entry *entry);

/* The same as `mw_delivery_find`, from the number `first` on; all entries are
** in pages. */
MWI_API uint64_t mwi_reader_find(const mw_engine *e, uint64_t first,
                                 uint64_t before, mw_handle obj,
                                 const mw_value *key, mw_match match, void *ud);

/* An entry that should be delivered is lost. */
MWI_API void mwi_reader_lose(mw_engine *e);

MWI_API void mwi_reader_blocks(mw_engine *e, mwi_visit f);

#endif
