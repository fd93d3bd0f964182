/*
** watch.h - the engine's private view of watch.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_WATCH_H
#define MW_WATCH_H

#include "moonwatch.h"

/* What is known of a watched object, beside its slot. */
typedef struct mwW_record {
  uint64_t count;       /* writes */
  uint32_t first, last; /* its watches, in the order of watching; 0 for none */
  uint32_t armed;       /* how many of them wait */
  uint32_t linked;      /* how many are in the list, the ended among them */
  uint32_t sweep_at;    /* look for dead guards when there are so many */
  uint32_t firing;      /* calls under way: nothing may leave the list */
  uint8_t watched;      /* is it watched? */
  uint8_t slow;         /* for the host: must each write go the long way? */
  uint8_t counted;      /* for the host: must writes be counted for ever? */
  uint8_t lengthy;      /* for the host: may it have a length? */
  uint8_t invalid;      /* as a guard: was it made invalid? */
} mwW_record;

typedef struct mwW_watch {
  mw_value *keys; /* NULL when there are none */
  uint32_t n_keys;
  mw_handle guard;
  uint64_t ref;
  uint64_t note;    /* of the last write of the batch that concerned it */
  uint64_t moment;  /* when it began */
  uint64_t due;     /* the write whose call it waits for, once taken */
  uint32_t next;    /* in its list, or in the list of the free */
  mw_handle obj;    /* whom it watches */
  uint32_t pending; /* the next that is to hear at the end of the batch */
  uint32_t age;     /* even while free */
  int flags;
} mwW_watch;

typedef struct mwW_part {
  mw_host host;
  mwL_column records;
  mwW_watch *watches; /* from 1 on */
  uint32_t n, size;
  uint32_t free;
  uint64_t moment; /* counts writes and watches */
  uint32_t batches;
  uint32_t first_pending, last_pending;
} mwW_part;

MW_PRIVATE void mwW_close(mw_engine *e);

/* Ends all that is known of a slot. */
MW_PRIVATE void mwW_forget(mw_engine *e, uint32_t slot);

/* The record of a slot, NULL when its page was never needed. */
static inline mwW_record *mwW_recordof(const mwW_part *part, uint32_t slot) {
  mwW_record *page = (mwW_record *)mwL_page(&part->records, slot);
  return (page == NULL) ? NULL : &page[slot % MWL_PAGE];
}

#endif
