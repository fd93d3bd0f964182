/*
** watch.h - the engine's private view of watch.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_WATCH_H
#define MWI_WATCH_H

#include "moonwatch.h"

/* What a write to an object has to do besides counting and storing; bits of
** `needs`.  The record has a bit only while there is a cause for the bit, so
** what is not there costs nothing. */
enum mwi_need {
  MWI_HEARD = 1,   /* watches of all fields wait */
  MWI_KEYED = 2,   /* watches of single fields wait */
  MWI_SKIPS = 4,   /* some of them compare the new value with the old one */
  MWI_TREE = 8,    /* the object is below a root, or a root, */
  MWI_LINKS = 128, /* and fields of it are linked */
  MWI_CALLS = 64,  /* some of them are no plain flags */
  MWI_CLASS = 16,  /* for the host: the object's class has a say */
  MWI_SHORT = 32   /* for the host: nothing is prepared for integer keys */
};

/* The record of an object, beside its slot; 64 bytes, for half of what a write
** costs in a large world is fetching them.  A count of 16 bits that has reached
** its end stays there, and then its bit in `needs` stays as well. */
typedef struct mwi_object {
  mw_handle obj;    /* whose record it is; MW_NONE: nobody's */
  uint64_t count;   /* writes */
  uint32_t changed; /* the default clock's generation + 1 of the last */
  uint8_t needs;
  uint8_t watched : 1;   /* is it watched itself? */
  uint8_t known : 1;     /* was it ever watched? */
  uint8_t tracked : 2;   /* are writes to be noted? 2: below it, too */
  uint8_t invalid : 1;   /* as a guard: was it made invalid? */
  uint8_t prune_at;      /* look for dead guards when 2^prune_at are linked */
  uint32_t first;        /* its watches of all fields, in watch order */
  uint32_t fields;       /* the first field that has watches */
  uint32_t filter;       /* a bit for each field that was ever watched */
  uint32_t nodes;        /* its first node of tree.c, by reach */
  uint32_t keys;         /* the first link of tree.c whose key it is */
  uint32_t linked;       /* how many watches are in its lists */
  uint32_t guards;       /* for the host: the first free place of a guard */
  uint16_t layout;       /* for the host: moves when the host's view moves */
  uint16_t walks;        /* over its lists: nothing may leave them meanwhile */
  uint16_t heard, keyed; /* how many watches of either kind wait, */
  uint16_t calls;        /* how many of them are no plain flags, */
  uint16_t deep;         /* and how many have MW_DEEP */
} mwi_object;

/* Must the host tell of its writes? */
static inline int mwi_object_intercepts(const mwi_object *r) {
  return r->watched || r->nodes != 0 || r->tracked;
}

/* A field of an object that somebody watches. */
typedef struct mwi_field {
  uint32_t next; /* among the object's; in a free one, the next free one */
  uint32_t prev;
  uint32_t slot;  /* the object's */
  uint32_t first; /* its watches, in watch order */
  mw_value key;
} mwi_field;

/* Further flags of a watch. */
enum {
  MWI_ENDED = 0x100,   /* no longer called */
  MWI_CLAIMED = 0x200, /* waits for its call, not for a write */
  MWI_QUEUED = 0x400   /* waits for the end of the batch */
};

/* The guard of such a watch is an object. */
#define MWI_OBJECT (MW_FLAG | MW_WEAK)

typedef struct mwi_watch {
  uint32_t next;  /* in its list; in a free one, the next free one */
  uint32_t prev;  /* the first one's: the last */
  uint32_t slot;  /* of the object that is watched */
  uint32_t field; /* 0: all fields */
  uint32_t twin;  /* the next one of the same `keys`, in a ring */
  uint32_t queue; /* the next that hears at the end of the batch */
  uint32_t note;  /* the host's, of the batch's last write that concerned it; */
                  /* when it has ended, the next that has */
  uint16_t flags;
  uint16_t claim; /* the walk that has claimed it */
  uint64_t seq;   /* when it began: only twins share the number; 0: free */
  uint64_t ref;   /* the host's; with MWI_OBJECT the guard's handle */
} mwi_watch;

typedef struct mwi_watches {
  mw_host host;
  mwi_column records;
  mwi_pool watches, fields;
  struct mwi_field_table *table; /* (object, key) -> field; NULL at first */
  uint64_t seq;                  /* of the newest watch */
  uint64_t calls;                /* how often a guard has heard of a write */
  uint32_t deep, deep_skips;     /* watches with MW_DEEP, with MW_SKIP too */
  uint32_t after;                /* watches with MW_AFTER */
  uint32_t walks;                /* one in the other */
  uint32_t ended; /* the first that has ended and is still in a list */
  uint32_t batches;
  uint32_t first_queued, last_queued;
} mwi_watches;

MWI_API void mwi_watch_close(mw_engine *e);

/* Ends all that is known of a slot. */
MWI_API void mwi_watch_forget(mw_engine *e, uint32_t slot);

/* The record of an object, made if need be; NULL when there is no memory. */
MWI_API mwi_object *mwi_object_need(mw_engine *e, mw_handle h);

/* The record of a slot, NULL when its page was never needed. */
static inline mwi_object *mwi_object_of(const mwi_watches *part,
                                        uint32_t slot) {
  mwi_object *page = (mwi_object *)mwi_column_page(&part->records, slot);
  return (page == NULL) ? NULL : &page[slot % MWI_PAGE];
}

/* The record of a live object, NULL when it has none. */
static inline mwi_object *mwi_object_find(const mwi_watches *part,
                                          mw_handle h) {
  uint32_t slot = mw_slot(h), page = slot / MWI_PAGE;
  mwi_object *r;
  if (page >= part->records.n || part->records.pages[page] == NULL) return NULL;
  r = (mwi_object *)part->records.pages[page] + slot % MWI_PAGE;
  return (r->obj == h && h != MW_NONE) ? r : NULL;
}

/* Tells the host that a key is kept, or no longer. */
MWI_API void mwi_host_retain(const mw_engine *e, const mw_value *key);
MWI_API void mwi_host_release(const mw_engine *e, const mw_value *key);

/* Calls those who hear of a write to the object of `r` before the value is
** stored; and after, if they began to watch not later than `seq`. */
MWI_API void mwi_write_begin(mw_engine *e, mwi_object *r,
                             const mw_change *change);
MWI_API void mwi_write_end(mw_engine *e, mwi_object *r, const mw_change *change,
                           uint64_t seq);

/* The same, for an object whose watches that wait are all plain flags: needs
** nobody's help. */
MWI_API void mwi_write_flags(mw_engine *e, mwi_object *r, const mw_value *key);

/* A number for the field of an object. */
static inline uint32_t mwi_key_hash(uint32_t owner, const mw_value *key) {
  uint64_t n = ((uint64_t)owner << 3 | (uint64_t)key->type) *
               UINT64_C(0x9E3779B97F4A7C15);
  if (key->type != MW_TNIL) n ^= (uint64_t)key->u.i;
  return (uint32_t)((n * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Does somebody watch that field?  `r` has MWI_KEYED. */
MWI_API int mwi_field_exists(const mw_engine *e, const mwi_object *r,
                             const mw_value *key);
static inline int mwi_field_is_heard(const mw_engine *e, const mwi_object *r,
                                     const mw_value *key) {
  uint32_t hash = mwi_key_hash(mw_slot(r->obj), key);
  return (r->filter >> (hash >> 27) & 1) != 0 && mwi_field_exists(e, r, key);
}

#endif
