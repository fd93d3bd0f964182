/*
** journal.h - the engine's private view of journal.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_JOURNAL_H
#define MW_JOURNAL_H

#include "moonwatch.h"

typedef struct mwJ_part {
  mw_entry *entries;
  uint32_t n, size;
  uint32_t readers; /* how many record */
} mwJ_part;

/* Appends an entry without strings, for which there is room: see `mw_reserve`.
*/
static inline void mwJ_append(mwJ_part *part, const mw_entry *entry) {
  part->entries[part->n++] = *entry;
}

MW_PRIVATE void mwJ_close(mw_engine *e);

#endif
