/*
** digest.h - the engine's private view of digest.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_DIGEST_H
#define MWI_DIGEST_H

#include "moonwatch.h"

/* The parts of an object in a field. */
enum { MWI_PARENT, MWI_CHILD, MWI_UNDER, MWI_ROLES };

/* An object of a digest. */
typedef struct mwi_vertex {
  uint32_t chain;            /* the next in the table */
  uint32_t edges[MWI_ROLES]; /* lists: the object's part in them */
  uint32_t via;              /* the last edge of the way from the root */
  uint32_t before, after;    /* in the list of dirty vertices */
  uint32_t next;             /* in the queue of what is to be read, */
  uint32_t touch;            /* and in the list of touched vertices */
  uint32_t bad;              /* how much of the object cannot be said */
  uint32_t fresh : 1;        /* was the object never read? */
  uint32_t stale : 1;        /* is the object to be read, */
  uint32_t queued : 1;       /* and in the queue? */
  uint32_t dirty : 1;        /* may the distance be another, */
  uint32_t nearer : 1;       /* and perhaps smaller? */
  uint32_t touched : 1;      /* may the name be another? */
  uint32_t moved : 1;        /* with `touched`: is the distance another? */
  uint32_t waits : 1;        /* for its turn to get a name */
  uint32_t named : 1;        /* is there a name? */
  uint32_t fixed : 1;        /* does the name not depend on the way? */
  uint64_t id;               /* the host's */
  uint64_t own; /* the sum of the facts that have no other object */
  uint64_t name;
  uint64_t distance; /* MWI_FAR: no way leads here */
} mwi_vertex;

/* A field in which the value is an object, or the key.  The vertex of a role is
** 0 if that is no object. */
typedef struct mwi_edge {
  uint32_t chain;
  uint32_t of[MWI_ROLES];
  uint32_t next[MWI_ROLES], prev[MWI_ROLES];
  uint64_t key; /* the hash; of an object, the hash of its id */
  uint64_t value;
} mwi_edge;

/* A key or value: the hash, or if there is an object its number for the host,
** which is not 0. */
typedef struct mwi_term {
  uint64_t hash, id;
} mwi_term;

typedef struct mwi_wait {
  uint64_t distance;
  uint32_t vertex;
} mwi_wait;

/* A table of vertices or edges, whose first field is the next in the chain. */
typedef struct mwi_chains {
  uint32_t *heads;
  uint32_t size, n;
} mwi_chains;

typedef struct mwi_digest {
  mwi_pool vertices, edges;
  mwi_chains by_id, by_field;
  mwi_wait *heap;
  uint32_t n_heap, size_heap;
  uint64_t *restless; /* ids */
  uint32_t n_restless, size_restless;
  uint32_t first, last; /* the queue */
  uint32_t root, dirty, touched;
  uint64_t sum;    /* of all facts */
  uint64_t bad;    /* how much cannot be said, */
  uint64_t lost;   /* and how many objects are nothing but a key */
  uint64_t writes; /* since the last `mwi_digest_finish` */
  int failed;      /* has there been no memory? */
} mwi_digest;

#define MWI_FAR UINT64_MAX

/* Opens a digest of what is below an object; NULL if there is no memory. */
MWI_API mwi_digest *mwi_digest_open(mw_engine *e, uint64_t root);
MWI_API void mwi_digest_close(mw_engine *e, mwi_digest *d);

/* Returns the vertex of an object, 0 for none. */
MWI_API uint32_t mwi_digest_find(const mwi_digest *d, uint64_t id);

/* Returns the next object that is to be read; 0 when all have been read. */
MWI_API uint32_t mwi_digest_next(mw_engine *e, mwi_digest *d);
MWI_API uint64_t mwi_digest_id(const mwi_digest *d, uint32_t v);

/* The next object is being read from now on, and has nothing yet. */
MWI_API void mwi_digest_begin(mwi_digest *d);

/* The object is to be read again. */
MWI_API void mwi_digest_spoil(mwi_digest *d, uint32_t v);

/* The object changes without the host's knowledge; and all such objects are to
** be read again. */
MWI_API void mwi_digest_unrest(mw_engine *e, mwi_digest *d, uint32_t v);
MWI_API void mwi_digest_spoil_restless(mwi_digest *d);

/* Has the object been read, so that its fields come and go? */
MWI_API int mwi_digest_is_read(const mwi_digest *d, uint32_t v);

/* A field comes, or goes; or what the object is otherwise comes. */
MWI_API void mwi_digest_add(mw_engine *e, mwi_digest *d, uint32_t v,
                            const mwi_term *key, const mwi_term *value);
MWI_API void mwi_digest_take(mwi_digest *d, uint32_t v, const mwi_term *key,
                             const mwi_term *value);
MWI_API void mwi_digest_say(mwi_digest *d, uint32_t v, uint64_t fact);

/* The object has a part more, or with -1 less, that cannot be said. */
MWI_API void mwi_digest_refuse(mwi_digest *d, uint32_t v, int n);

/* The object has this name, wherever it is, and no fields. */
MWI_API void mwi_digest_fix(mwi_digest *d, uint32_t v, uint64_t name);

/* Returns the digest of what was read; `failed`, `bad` and `lost` say whether
** there is one. */
MWI_API uint64_t mwi_digest_finish(mw_engine *e, mwi_digest *d);

/* Hashes, the same on every machine. */
MWI_API uint64_t mwi_mix(uint64_t a, uint64_t b);
MWI_API uint64_t mwi_hash_bytes(const void *bytes, size_t len);

#endif
