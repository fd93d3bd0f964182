/*
** watch.h - the engine's private view of watch.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_WATCH_H
#define MWI_WATCH_H

#include "moonwatch.h"

/* What is known of a watched object, beside its slot. */
typedef struct mwi_object {
  uint64_t count;       /* writes */
  mw_handle class_;     /* while it is watched itself: see mwi_class_join */
  uint32_t instances;   /* as a class: how many have joined it */
  uint32_t first, last; /* its watches, in the order of watching; 0 for none */
  uint32_t armed;       /* how many of them wait */
  uint32_t linked;      /* how many are in the list, the ended among them */
  uint32_t member;      /* the first of deep.c's; 0: it is not included */
  uint32_t firing;      /* calls under way: nothing may leave the list */
  uint32_t changed;  /* the default clock's generation + 1 of the last write */
  uint16_t keyed;    /* how many links of deep.c's have it as their key; */
                     /* UINT16_MAX: perhaps more */
  uint8_t watched;   /* is it watched itself? */
  uint8_t slow;      /* for the host: must each write go the long way? */
  uint8_t sweep_at;  /* look for dead guards when 2^sweep_at are linked */
  uint8_t known : 1; /* was it ever watched? */
  uint8_t tracked : 2; /* are writes to be noted? 2: below it, too */
  uint8_t invalid : 1; /* as a guard: was it made invalid? */
  uint8_t counted : 1; /* for the host: must writes be counted for ever? */
  uint8_t lengthy : 1; /* for the host: may it have a length? */
  uint8_t resting : 1; /* for the host: is it in the list of the resting? */
} mwi_object;

/* Must the host report its writes? */
static inline int mwi_object_intercepts(const mwi_object *r) {
  return r->watched || r->member != 0 || r->tracked;
}

/* The keys of a watch. */
typedef struct mwi_watch_keys {
  size_t n;
  mw_value key[1]; /* n of them */
} mwi_watch_keys;

typedef struct mwi_watch {
  uint32_t next;   /* in its list, or in the list of the free */
  uint32_t age;    /* even while free */
  mw_handle obj;   /* whom it watches */
  mw_handle guard; /* with MW_FLAG or MW_WEAK */
  uint64_t ref;    /* for the host */
  uint64_t moment; /* when it began */
  uint64_t due;    /* once taken, the write whose call it waits for; else the */
                   /* note of the batch's last write that concerned it */
  mwi_watch_keys *keys; /* NULL when there are none */
  uint32_t pending;     /* the next that is to hear at the end of the batch */
  int flags;
} mwi_watch;

typedef struct mwi_watches {
  mw_host host;
  mwi_column records;
  mwi_pool watches;
  uint64_t moment; /* counts writes and watches */
  uint64_t calls;  /* how often a guard has heard of a write */
  int deserted;    /* for the host: has a class lost its last instance? */
  uint32_t deep;   /* watches with MW_DEEP, some that have ended among them */
  uint32_t batches;
  uint32_t first_pending, last_pending;
} mwi_watches;

MWI_API void mwi_watch_close(mw_engine *e);

/* Ends all that is known of a slot. */
MWI_API void mwi_watch_forget(mw_engine *e, uint32_t slot);

/* The record of an object, made if need be; NULL when there is no memory. */
MWI_API mwi_object *mwi_object_need(mw_engine *e, mw_handle h);

/* Counts `obj`, if it is watched itself, among the instances of a class, until
** it is unwatched or forgotten.  MW_NEW: it is the first; MW_OK; MW_NOMEM. */
MWI_API int mwi_class_join(mw_engine *e, mw_handle obj, mw_handle class_);

/* Ends that.  Returns the class, MW_NONE when there was none. */
MWI_API mw_handle mwi_class_leave(mw_engine *e, mw_handle obj);

/* Tells the host that a key is kept, or no longer. */
MWI_API void mwi_watch_retain(const mw_engine *e, const mw_value *key);
MWI_API void mwi_watch_release(const mw_engine *e, const mw_value *key);

/* The record of a slot, NULL when its page was never needed. */
static inline mwi_object *mwi_object_of(const mwi_watches *part,
                                        uint32_t slot) {
  mwi_object *page = (mwi_object *)mwi_column_page(&part->records, slot);
  return (page == NULL) ? NULL : &page[slot % MWI_PAGE];
}

#endif
