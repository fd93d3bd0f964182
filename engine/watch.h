/*
** watch.h - the engine's private view of watch.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_WATCH_H
#define MWI_WATCH_H

#include "moonwatch.h"

/* The steps of a write besides counting and storing; bits of `needs`.  The
** record has a bit only while there is a cause for the bit, so an absent
** feature costs nothing. */
enum mwi_need {
  MWI_UNKEYED = 1, /* there are watches of all fields, */
  MWI_KEYED = 2,   /* and of single fields; some may have ended */
  MWI_SKIPS = 4,   /* some watches compare the new value with the old */
  MWI_TREE = 8,    /* the object is below a root, or a root */
  MWI_LINKS = 128, /* fields of the object are linked */
  MWI_CALLS = 64,  /* some watches are no plain flags */
  MWI_CLASS = 16,  /* for the host: its class has a `__newindex` */
  MWI_SHORT = 32,  /* for the host: nothing is prepared for integer keys */
  MWI_CHECKS = 512 /* some watches are asked whether the write may be */
};

/* Of the watches that wait, or did since none was there that did. */
#define MWI_OF_WATCHES (MWI_SKIPS | MWI_CALLS | MWI_CHECKS)

/* The record of an object, beside its slot; 64 bytes, for half the cost of a
** write in a large world is fetching the record. */
typedef struct mwi_object {
  mw_handle obj;  /* the owner of the record; MW_NONE: no owner */
  uint64_t stamp; /* of the last write */
  uint32_t count; /* writes, up to the greatest number */
  uint16_t needs;
  uint8_t watched : 1;     /* is the object itself watched? */
  uint8_t was_watched : 1; /* ever? */
  uint8_t tracked : 2;     /* are writes journaled? 2: writes below too */
  uint8_t invalid : 1;     /* as a guard: is the guard invalid? */
  uint8_t result : 1;      /* as a guard: does the guard stand for a result? */
  uint8_t lost : 1;        /* as such a guard: has unwatching ended a watch? */
  uint8_t elsewhere : 1;   /* for the host: does the class keep fields away? */
  uint8_t prune_at;        /* look for dead guards when 2^prune_at wait */
  uint32_t first;          /* its watches of all fields, in watch order */
  uint32_t fields;         /* the first field that has watches */
  uint32_t filter;         /* a bit for each field that was ever watched */
  uint32_t nodes;          /* its first node of tree.c */
  uint32_t guarding;       /* as a guard: the newest of the guard's watches */
  uint32_t guards;         /* for the host: the first free place of a guard */
  uint16_t layout;         /* for the host: moves when the host's view moves */
  uint16_t walks;          /* under way over its lists: no watch may leave */
  uint32_t waiting;        /* the watches that wait; */
  uint32_t deep;           /* of these, those with MW_DEEP and no filter */
  uint32_t gone; /* the age in which it last left a reach; 0 for none */
} mwi_object;

/* Must the host report writes to the object? */
static inline int mwi_object_intercepts(const mwi_object *r) {
  return r->watched || r->nodes != 0 || r->tracked;
}

/* A field of an object, with at least one watch. */
typedef struct mwi_field {
  uint32_t next; /* of the object's; in a free field, the next free one */
  uint32_t prev;
  uint32_t slot;  /* the object's */
  uint32_t first; /* its watches, in watch order */
  mw_value key;
} mwi_field;

/* Further flags of a watch. */
enum {
  MWI_ENDED = 0x100,   /* not called any more */
  MWI_CLAIMED = 0x200, /* a write has claimed the watch for its call */
  MWI_RESULT = 0x800,  /* the guard, a flag, stands for a result */
  MWI_FOLLOWS = 0x1000 /* the object is a guard, which the guard follows */
};

/* With one of these flags the guard is an object. */
#define MWI_OBJECT (MW_FLAG | MW_WEAK)

typedef struct mwi_watch {
  uint32_t next;  /* in its list; in a free watch, the next free watch */
  uint32_t prev;  /* in the first watch: the last of the list */
  uint32_t slot;  /* of the watched object */
  uint32_t field; /* 0: all fields */
  uint32_t twin;  /* the next watch of the same `mw_watch_begin`, in a ring */
  uint32_t note;  /* with the number of a search, that of its call; */
                  /* in an ended watch, the next ended watch; with */
                  /* MWI_FOLLOWS, the next on the stack of `invalidate` */
  uint32_t older; /* with MWI_OBJECT: the next older watch of the guard, */
  uint32_t newer; /* and the next newer; not of a watch that has ended */
  uint16_t flags;
  uint16_t claim;  /* the number of the walk that claims the watch */
  uint32_t result; /* with MWI_RESULT, the slot of the guard */
  uint32_t reach;  /* with MW_DEEP: the reach, if filtered, else 0 */
  uint32_t search; /* the last search for the calls of a batch that found it */
  uint64_t seq;    /* ascends with each begin; twins share one; 0: free */
  uint64_t ref;    /* the host's; with MWI_OBJECT the guard's handle */
} mwi_watch;

typedef struct mwi_watches {
  mw_host host;
  mwi_column records;
  mwi_pool watches, fields;
  mwi_table table; /* (object, key) -> field */
  uint64_t seq;    /* of the newest watch, or of the last search for a batch */
  uint64_t calls;  /* guards called or made invalid */
  uint32_t deep, deep_skips; /* watches with MW_DEEP, with MW_SKIP too */
  uint32_t after;            /* watches that are called after the store */
  uint32_t checks;           /* watches with MW_CHECK */
  uint32_t results;          /* watches with MWI_RESULT */
  uint32_t walks;            /* walks under way, nested */
  uint32_t ended;            /* the first ended watch still in a list */
  mw_change *cause;          /* the write whose guard is being called */
} mwi_watches;

/* The blocks of records, and of watches. */
MWI_API void mwi_record_blocks(mw_engine *e, mwi_visit f);
MWI_API void mwi_watch_blocks(mw_engine *e, mwi_visit f);

/* Ends the watches, the tree nodes and the record of the object in a slot. */
MWI_API void mwi_watch_forget(mw_engine *e, uint32_t slot);

/* Returns the record of an object, made if need be; NULL when there is no
** memory. */
MWI_API mwi_object *mwi_object_need(mw_engine *e, mw_handle h);

/* Returns the record of a slot, NULL when the page of the slot does not
** exist. */
static inline mwi_object *mwi_object_of(const mwi_watches *part,
                                        uint32_t slot) {
  mwi_object *page = (mwi_object *)mwi_column_page(&part->records, slot);
  return (page == NULL) ? NULL : &page[slot % MWI_PAGE];
}

/* Returns the record of a live object, NULL when the object has none. */
static inline mwi_object *mwi_object_find(const mwi_watches *part,
                                          mw_handle h) {
  uint32_t slot = mw_slot(h), page = slot / MWI_PAGE;
  mwi_object *r;
  if (page >= part->records.n || part->records.pages[page] == NULL) return NULL;
  r = (mwi_object *)part->records.pages[page] + slot % MWI_PAGE;
  return (r->obj == h && h != MW_NONE) ? r : NULL;
}

/* Calls the host's `retain` or `release` for a key. */
MWI_API void mwi_host_retain(const mw_engine *e, const mw_value *key);
MWI_API void mwi_host_release(const mw_engine *e, const mw_value *key);

/* Phases of `mwi_write_call`, beside 0 and MW_AFTER: in a batch, only what
** becomes invalid at once; and when a value is stored, the guards of results,
** which are right until then. */
#define MWI_AT_ONCE MWI_ENDED
#define MWI_RESULTS MWI_CLAIMED

/* Calls the guards of a phase of a write to the object of `r`, for watches not
** newer than `seq`. */
MWI_API void mwi_write_call(mw_engine *e, mwi_object *r, mw_change *change,
                            int phase, uint64_t seq);

/* Does a guard have to be asked whether a write may be? */
static inline int mwi_write_is_checked(const mwi_watches *part,
                                       const mwi_object *r) {
  return part->checks > 0 && ((r->needs & MWI_CHECKS) || r->nodes != 0);
}

/* Asks these guards.  Returns whether none refuses; then sets whether a guard
** of another phase may have to be told of the write. */
MWI_API int mwi_write_check(mw_engine *e, mwi_object *r, mw_change *change,
                            int *others);

/* Does that before the store for an object whose waiting watches are all plain
** flags.  Calls no callback. */
MWI_API void mwi_write_flags(mw_engine *e, mwi_object *r, const mw_value *key);

/* Calls the phase MWI_RESULTS; with `flags_only` nothing is asked. */
MWI_API void mwi_write_results(mw_engine *e, mwi_object *r, mw_change *change);

/* The host has a row for each field that is written in a batch, in the order of
** the first writes. */
typedef struct mwi_batch_row {
  mw_handle obj;
  mw_value key;
  uint64_t seq;    /* of the newest watch at the begin of the last write */
  uint64_t order;  /* ascends with each write: of the last */
  int kind;        /* of the last write */
  int same;        /* at the end: does the value equal that from before? */
  uint64_t number; /* mw_change_number of the last write, or 0 */
} mwi_batch_row;

/* A watch that a batch concerns, and the last row that concerns the watch, from
** 0 on. */
typedef struct mwi_batch_call {
  mw_watch_id watch;
  uint32_t row;
} mwi_batch_call;

/* The host owns both arrays, which are the engine's memory. */
typedef struct mwi_batch {
  mwi_batch_row *rows;
  mwi_batch_call *calls; /* in the order of rows and watches */
  uint32_t n, size;      /* rows, and how many have room; */
  uint32_t n_calls, size_calls;
} mwi_batch;

/* At the end of a batch, finds the calls: watches that began before the last
** write of a row that concerns them; with MW_SKIP, not of rows that are the
** same.  MW_NOMEM.  Then `mwi_batch_tell` calls the guard of each watch, or
** makes it invalid, unless the watch has ended, or has MW_SKIP and `change` is
** the same. */
MWI_API int mwi_batch_search(mw_engine *e, mwi_batch *b);
MWI_API void mwi_batch_tell(mw_engine *e, mw_watch_id watch,
                            const mw_change *change);

/* Returns the record of the guard of a result, which is computed from the
** objects that the guard watches from now on, with MW_FLAG and without MW_ONCE;
** or NULL without memory.  The guard is invalid until the host has computed the
** result.  It is told of a write when the value is stored, for the result is
** right until then; within a batch at once, also with MW_SKIP; and when
** `mw_object_unwatch` ends a watch of the guard: then it has `lost` one, until
** it is made valid.  Its `stamp` is the number, as a cause, of the write that
** made the guard invalid; 0 if it was no write, or if nobody reads. */
static inline mwi_object *mwi_guard_open(mw_engine *e, mw_handle guard) {
  mwi_object *r = mwi_object_need(e, guard);
  if (r != NULL) r->result = r->invalid = 1;
  return r;
}

/* From now on, `guard` becomes invalid whenever `other` does, until one of the
** two is forgotten.  No guard may follow itself, not even through others.
** MW_NOMEM, MW_FULL, MW_STALE. */
MWI_API int mwi_guard_follow(mw_engine *e, mw_handle guard, mw_handle other);

/* The hash of a field of an object. */
static inline uint32_t mwi_key_hash(uint32_t owner, const mw_value *key) {
  uint64_t n = ((uint64_t)owner << 3 | (uint64_t)key->type) *
               UINT64_C(0x9E3779B97F4A7C15);
  if (key->type != MW_TNIL) n ^= (uint64_t)key->u.i;
  return (uint32_t)((n * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Returns the field of an object, 0 when no watch has the key. */
MWI_API uint32_t mwi_field_number(const mw_engine *e, uint32_t slot,
                                  const mw_value *key);

/* Does a watch have this key?  `r` has MWI_KEYED. */
static inline int mwi_field_is_watched(const mw_engine *e, const mwi_object *r,
                                       const mw_value *key) {
  uint32_t slot = mw_slot(r->obj), hash = mwi_key_hash(slot, key);
  return (r->filter >> (hash >> 27) & 1) != 0 &&
         mwi_field_number(e, slot, key) != 0;
}

#endif
