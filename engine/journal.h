/*
** journal.h - the engine's private view of journal.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_JOURNAL_H
#define MWI_JOURNAL_H

#include "moonwatch.h"

/* What a write changes: a field, the class, or the state of a userdata. */
enum mwi_aspect { MWI_OF_FIELD, MWI_OF_CLASS, MWI_OF_STATE };

/* By enum mw_kind. */
typedef struct mwi_kind {
  const char *name;
  enum mwi_aspect aspect;
} mwi_kind;

MWI_API const mwi_kind mwi_kinds[MW_KINDS];

static inline int mwi_is_of_field(int kind) {
  return mwi_kinds[kind].aspect == MWI_OF_FIELD;
}

/* Sets what stands for the field of a write that is not of a field; returns 0
** if the write is of one. */
static inline int mwi_no_field(int kind, mw_value *field) {
  enum mwi_aspect aspect = mwi_kinds[kind].aspect;
  if (aspect == MWI_OF_FIELD) return 0;
  field->type = (aspect == MWI_OF_STATE) ? MW_TABSENT : MW_TNIL;
  field->u.i = 0;
  return 1;
}

/* The entries of the owners of one thread of the host. */
typedef struct mwi_log {
  mw_entry *entries;
  uint32_t n, size;
  uint32_t newest;       /* owner; of a free log, the next free log */
  uint32_t below, above; /* logs with earlier and with later entries */
} mwi_log;

typedef struct mwi_owner {
  uint32_t log;          /* 0: the owner is free, and `next` is the next */
  uint32_t mark;         /* number of the first entry in the log */
  uint32_t below, above; /* owners of the same log */
  uint32_t parent;
  uint32_t child, next, prev; /* owners with this parent, as a list */
  uint32_t first, last;       /* stakes */
} mwi_owner;

/* What an owner has in a field that the owner has written. */
typedef struct mwi_stake {
  uint32_t free; /* the pool's */
  uint32_t owner;
  mw_handle obj; /* MW_NONE: the stake is free */
  mw_value key;
  uint64_t seq;           /* of the first entry */
  mw_content left;        /* the old value, for the owner of the newer stake */
  uint32_t older, newer;  /* stakes in the same field */
  uint32_t before, after; /* stakes of the same owner */
  uint8_t settled;        /* is a later write to the field final? */
} mwi_stake;

/* Numbers of logs, owners and stakes begin with 1. */
typedef struct mwi_journal {
  mwi_log *logs;
  mwi_owner *owners;
  mwi_pool stakes;
  mwi_table fields; /* (object, key) -> the newest stake */
  uint32_t n_logs, size_logs, free_log;
  uint32_t n_owners, size_owners, free_owner;
  uint32_t open;    /* number of open owners */
  uint32_t entries; /* number of entries in all logs */
  uint32_t top;     /* the log with the latest entries; 0 if mixed */
  int mixed;
  uint64_t seq; /* the last number given to an entry or a change */
} mwi_journal;

static inline mwi_log *mwi_log_of(const mwi_journal *part, mw_owner owner) {
  return &part->logs[part->owners[owner].log];
}

static inline mwi_stake *mwi_stake_at(const mwi_journal *part, uint32_t i) {
  return (mwi_stake *)mwi_pool_at(&part->stakes, i, sizeof(mwi_stake));
}

/* Is there room for an entry of the owner, and does the entry need nothing
** else than room?  The log is the top, or there are no entries at all. */
static inline int mwi_journal_is_ready(const mwi_journal *part,
                                       mw_owner owner) {
  uint32_t number = part->owners[owner].log;
  const mwi_log *log = &part->logs[number];
  return (part->top == number || part->entries == 0) && log->n < log->size &&
         log->newest == owner;
}

/* Does a write that nobody owns need a call of `mw_journal_append`? */
static inline int mwi_journal_has_entries(const mwi_journal *part) {
  return part->entries > 0;
}

/* Have others than the owner entries? */
static inline int mwi_journal_has_others(const mwi_journal *part,
                                         mw_owner owner) {
  const mwi_owner *o = &part->owners[owner];
  uint32_t end =
      (o->above != 0) ? part->owners[o->above].mark : part->logs[o->log].n;
  return part->entries > end - o->mark;
}

/*
** The `seq` of an entry: its place in the order of the program, and in the low
** bits how much earlier the entry's number was given.  So `seq` ascends, and
** tells the number.  A number from too long ago is nobody's.
*/
#define MWI_EARLY_BITS 16
#define MWI_EARLY ((UINT64_C(1) << MWI_EARLY_BITS) - 1)

/* Returns the next `seq`; `number` is what the change has, or 0. */
static inline uint64_t mwi_journal_stamp(mwi_journal *part, uint64_t number) {
  uint64_t order = ++part->seq, early = (number == 0) ? 0 : order - number;
  return order << MWI_EARLY_BITS | (early <= MWI_EARLY ? early : 0);
}

/* The entries that exist have no greater `seq`. */
static inline uint64_t mwi_journal_latest(const mwi_journal *part) {
  return part->seq << MWI_EARLY_BITS | MWI_EARLY;
}

static inline uint32_t mwi_number_of(uint64_t seq) {
  return (uint32_t)((seq >> MWI_EARLY_BITS) - (seq & MWI_EARLY));
}

/* Appends an entry without strings for an owner that is ready. */
static inline void mwi_journal_append(mwi_journal *part, mw_owner owner,
                                      const mw_entry *entry) {
  uint32_t number = part->owners[owner].log;
  mwi_log *log = &part->logs[number];
  mwi_assert(mwi_journal_is_ready(part, owner));
  part->top = number;
  part->entries++;
  log->entries[log->n] = *entry;
  log->entries[log->n++].seq = mwi_journal_stamp(part, entry->seq);
}

/* Are entries of the owner earlier than entries of the owner below? */
MWI_API int mwi_owner_is_mingled(const mw_engine *e, mw_owner owner);

/* Returns the first entry of a stake. */
MWI_API mw_entry *mwi_stake_entry(const mw_engine *e, const mwi_stake *s);

/* May the owner's entry still be taken back?  Not if a later write to the field
** is final. */
MWI_API int mwi_entry_counts(mw_engine *e, mw_owner owner,
                             const mw_entry *entry, void *host);

/* A walk over the writes of all open owners, the last one first; in a mixed
** journal only over the first write of the oldest stake of each field.  To give
** each field the old value, in this order, is to take all these writes back. */
typedef struct mwi_undone {
  uint32_t log, at; /* where the walk is; 0, 0 at first */
  mw_owner owner;   /* whose write it is */
  mw_entry entry;
} mwi_undone;

/* Goes on to the next write; returns 0 at the end.  Nobody writes meanwhile. */
MWI_API int mwi_journal_undone(const mw_engine *e, mwi_undone *walk);

MWI_API void mwi_journal_blocks(mw_engine *e, mwi_visit f);

#endif
