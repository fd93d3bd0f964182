/*
** outline.h - what a reader knows of the objects below a root.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_OUTLINE_H
#define MWI_OUTLINE_H

#include "moonwatch.h"

/* An object below the root, or the root itself. */
typedef struct mwi_known {
  uint32_t free;        /* the pool's */
  uint32_t known : 1;   /* has the reader been told, in an earlier look? */
  uint32_t stale : 1;   /* may the member have been written unseen? */
  uint32_t lost : 1;    /* is there no way? */
  uint32_t unseen : 1;  /* are the fields still to be linked? */
  uint32_t refuses : 1; /* does a field hold what was left out under its key? */
  uint32_t doubted : 1, scans : 1, comes : 1; /* is it in the lists? */
  mw_handle obj;
  uint32_t told;      /* the look in which the reader was told of it all */
  uint32_t own;       /* the look in which the reader itself put it in, */
  uint32_t put;       /* and the number of the write in the look */
  uint32_t via;       /* the tie by which there is a way from the root */
  uint32_t ins, outs; /* ties to this member, and from this member */
  uint32_t doubt;     /* lists: members without `via`, at some time, */
  uint32_t scan;      /* whose fields are still to be linked, */
  uint32_t came;      /* and that the reader is to be told of */
  uint32_t work;      /* of a walk: the next one */
  uint32_t seen;      /* the search that has found no way */
} mwi_known;

/* A field of a member that holds a member. */
typedef struct mwi_tie {
  uint32_t free; /* the pool's */
  uint32_t parent, child;
  uint32_t look; /* in which the field was written, */
  uint32_t at;   /* the number of the last write in the look, */
  uint32_t own;  /* and the look in which the reader itself wrote it last */
  uint32_t next_in, prev_in, next_out, prev_out;
  mw_value key;
} mwi_tie;

typedef struct mwi_outline {
  mwi_pool members, ties;
  mwi_table objects; /* object -> member */
  mwi_table fields;  /* (parent, key) -> tie */
  uint32_t root;
  uint32_t looks;                         /* how many have begun */
  uint32_t doubt, last_doubt, scan, came; /* the lists */
  uint32_t later;  /* members of `scan` that have no way yet */
  uint32_t unsure; /* may members in doubt still find a way? */
  uint32_t search; /* the search for ways that is under way */
} mwi_outline;

static inline mwi_known *mwi_known_at(const mwi_outline *o, uint32_t i) {
  return (mwi_known *)mwi_pool_at(&o->members, i, sizeof(mwi_known));
}

static inline mwi_tie *mwi_tie_at(const mwi_outline *o, uint32_t i) {
  return (mwi_tie *)mwi_pool_at(&o->ties, i, sizeof(mwi_tie));
}

/* Makes the root the only member, whose fields are to be linked. */
MWI_API int mwi_outline_begin(mw_engine *e, mwi_outline *o, mw_handle root);

/* Forgets all, and frees the memory. */
MWI_API void mwi_outline_end(mw_engine *e, mwi_outline *o);

/* Returns how many bytes are allocated. */
MWI_API size_t mwi_outline_bytes(const mwi_outline *o);

/* Returns the member of an object, or 0. */
MWI_API uint32_t mwi_outline_find(const mwi_outline *o, mw_handle obj);

/* A look begins: what a look that failed has left open is open again. */
MWI_API void mwi_outline_look(mw_engine *e, mwi_outline *o);

/* The parent's field holds the child, which becomes a member, or (below) none.
** A tie that is there already stays.  Returns the tie, 0 without memory. */
MWI_API uint32_t mwi_outline_tie(mw_engine *e, mwi_outline *o, uint32_t parent,
                                 const mw_value *key, mw_handle child,
                                 int is_leaf);
MWI_API void mwi_outline_untie(mw_engine *e, mwi_outline *o, uint32_t parent,
                               const mw_value *key);

/* Returns the child that the parent's field holds, or MW_NONE. */
MWI_API mw_handle mwi_outline_child(const mwi_outline *o, uint32_t parent,
                                    const mw_value *key);

/* Does a field of the parent hold the child? */
MWI_API int mwi_outline_holds(const mwi_outline *o, uint32_t parent,
                              mw_handle child);

/* Returns the tie of the parent's field if the field holds the child; or 0. */
MWI_API uint32_t mwi_outline_tie_of(const mwi_outline *o, uint32_t parent,
                                    const mw_value *key, mw_handle child);

/* Members in doubt take the ways that there are.  Then those members that
** surely have a way are the next ones, and what these hold takes a way; so what
** is moved into a table that comes is not lost first, and found again. */
MWI_API void mwi_outline_ways(mwi_outline *o);

/* Finds out which members have lost all ways from the root. */
MWI_API void mwi_outline_resolve(mwi_outline *o);

/* Returns the next member that has a way and whose fields are to be linked; 0
** at the end.  The second function says that they are linked. */
MWI_API uint32_t mwi_outline_next(mwi_outline *o);
MWI_API void mwi_outline_seen(mwi_outline *o, uint32_t m);

/* The object was perhaps written unseen: what was known of it is not. */
MWI_API void mwi_outline_doubt(mw_engine *e, mwi_outline *o, mw_handle obj);

/* The look has ended: removes what is lost, and knows what came. */
MWI_API void mwi_outline_settle(mw_engine *e, mwi_outline *o);

#endif
