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

typedef struct mwi_log mwi_log;
typedef struct mwi_owner mwi_owner;
typedef struct mwi_stake mwi_stake;

/* The entries of the owners of one thread of the host.  Logs, owners and stakes
** do not move; owners and stakes are in pools, with numbers from 1 on. */
struct mwi_log {
  mw_entry *entries;
  uint32_t n, size;
  mwi_owner *newest;
  mwi_log *below, *above; /* logs with earlier and with later entries */
};

struct mwi_owner {
  uint32_t free;
  mw_owner number;
  mwi_log *log;      /* NULL: the owner is free */
  mwi_owner *parent; /* the owner below, if that is of the same log, */
  mwi_owner *above;  /* the owner of the same log that has this one below */
  uint32_t mark;     /* number of the first entry in the log */
  uint32_t children; /* how many owners have this one as their parent */
  mwi_stake *first, *last;
};

/* What an owner has in a field that the owner has written. */
struct mwi_stake {
  uint32_t free, number;
  mwi_owner *owner;
  mw_handle obj; /* MW_NONE: the stake is free */
  mw_value key;
  uint64_t seq;              /* of the first entry */
  mw_content left;           /* the old value, for the owner of `newer` */
  mwi_stake *older, *newer;  /* stakes in the same field */
  mwi_stake *before, *after; /* stakes of the same owner */
  uint8_t settled;           /* is a later write to the field final? */
};

typedef struct mwi_journal {
  mwi_log *spare; /* the log that became free last, or NULL */
  mwi_pool owners, stakes;
  mwi_table fields; /* (object, key) -> the newest stake */
  uint32_t open;    /* number of open owners */
  uint32_t entries; /* number of entries in all logs */
  mwi_log *top;     /* the log with the latest entries; NULL if mixed */
  int mixed;
  uint64_t seq; /* the last number given to an entry or a change */
} mwi_journal;

static inline mwi_owner *mwi_owner_at(const mwi_journal *part, mw_owner i) {
  return (mwi_owner *)mwi_pool_at(&part->owners, i, sizeof(mwi_owner));
}

/* Returns the owner below in the same log, or NULL. */
static inline mwi_owner *mwi_owner_below(const mwi_owner *o) {
  return (o->parent != NULL && o->parent->log == o->log) ? o->parent : NULL;
}

/* Returns the number after the owner's last entry. */
static inline uint32_t mwi_range_end(const mwi_owner *o) {
  return (o->above != NULL) ? o->above->mark : o->log->n;
}

/* Is there room for an entry of the owner, and does the entry need nothing
** else than room?  The log is the top, or there are no entries at all. */
static inline int mwi_journal_is_ready(const mwi_journal *part,
                                       const mwi_owner *o) {
  return (part->top == o->log || part->entries == 0) &&
         o->log->n < o->log->size && o->above == NULL;
}

/* Have others than the owner entries? */
static inline int mwi_journal_has_others(const mwi_journal *part,
                                         const mwi_owner *o) {
  return part->entries > mwi_range_end(o) - o->mark;
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
static inline void mwi_journal_append(mwi_journal *part, const mwi_owner *o,
                                      const mw_entry *entry) {
  mwi_log *log = o->log;
  mwi_assert(mwi_journal_is_ready(part, o));
  part->top = log;
  part->entries++;
  log->entries[log->n] = *entry;
  log->entries[log->n++].seq = mwi_journal_stamp(part, entry->seq);
}

/* Calls `mwi_host_retain` or `mwi_host_release` for the strings of an entry. */
typedef void mwi_keeping(const mw_engine *e, const mw_value *value);
MWI_API void mwi_entry_keep(const mw_engine *e, const mw_entry *entry,
                            mwi_keeping *how);

/* As `mw_owner_begin` and `mw_owner_commit`; NULL stands for no owner. */
MWI_API mwi_owner *mwi_owner_begin(mw_engine *e, mwi_owner *parent,
                                   mwi_owner *below);
MWI_API int mwi_owner_commit(mw_engine *e, mwi_owner *o, void *host);

/* Returns the first entry of a stake. */
MWI_API mw_entry *mwi_stake_entry(const mwi_stake *s);

/* May the owner's entry still be taken back?  Not if a later write to the field
** is final. */
MWI_API int mwi_entry_counts(mw_engine *e, mw_owner owner,
                             const mw_entry *entry, void *host);

/* A walk over the writes of all open owners, the last one first; in a mixed
** journal only over the first write of the oldest stake of each field.  To give
** each field the old value, in this order, is to take all these writes back. */
typedef struct mwi_undone {
  const mwi_log *log; /* where the walk is; NULL, NULL, 0 at first */
  const mwi_owner *its;
  uint32_t at;
  mw_owner owner; /* whose write it is */
  mw_entry entry;
} mwi_undone;

/* Goes on to the next write; returns 0 at the end.  Nobody writes meanwhile. */
MWI_API int mwi_journal_undone(const mw_engine *e, mwi_undone *walk);

MWI_API void mwi_journal_blocks(mw_engine *e, mwi_visit f);

#endif
