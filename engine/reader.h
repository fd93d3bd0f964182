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

/* A delivered entry; its number is its place. */
typedef struct mwi_delivered {
  mw_handle obj;
  mw_content value[MW_PARTS];
  uint8_t type[MW_PARTS];
  uint8_t kind; /* with MWI_BEGINS for the first entry of a delivery */
  uint32_t where;
} mwi_delivered;

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
  uint32_t open;         /* number of open readers */
  mwi_delivered **pages; /* by number / MWI_READER_PAGE, modulo `n_pages` */
  uint32_t n_pages;
  mwi_delivered *spare; /* a page, or NULL */
  uint64_t first, last; /* the numbers of the entries that are kept */
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

/* An entry that should be delivered is lost. */
MWI_API void mwi_reader_lose(mw_engine *e);

MWI_API void mwi_reader_close(mw_engine *e);

/* Returns the bytes that the part has allocated. */
MWI_API size_t mwi_reader_bytes(const mw_engine *e);

#endif
