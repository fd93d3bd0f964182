/*
** journal.h - the engine's private view of journal.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_JOURNAL_H
#define MWI_JOURNAL_H

#include "moonwatch.h"

typedef struct mwi_journal {
  mw_entry *entries;
  uint32_t n, size;
  uint32_t readers; /* the number of readers */
} mwi_journal;

/*
** Appends an entry without strings, for which there is room: see
** `mw_journal_reserve`.
*/
static inline void mwi_journal_append(mwi_journal *part,
                                      const mw_entry *entry) {
  mwi_assert(part->readers > 0 && part->n < part->size);
  part->entries[part->n++] = *entry;
}

MWI_API void mwi_journal_close(mw_engine *e);

#endif
