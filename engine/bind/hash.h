/*
** hash.h - hashes of what is below tracked roots hear of writes.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_HASH_H
#define MWB_HASH_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A write to a field, as digests see it. */
typedef struct mwb_hashed {
  mwi_term key, old, now;
  int key_said, old_said, now_said; /* of hash.c */
  int is_table;                     /* is the new value one? */
  mw_value field;                   /* the key as the engine keeps it */
  uint64_t hashed;                  /* s->hashed before the write */
} mwb_hashed;

/* Before and after a write stores in an object that is part of a digest, which
** has MWI_DIGEST.  Key and value are on the stack only before. */
struct mwb_write;
void mwb_hash_before(const struct mwb_write *w, mwb_hashed *change);
void mwb_hash_after(const struct mwb_write *w, const mwb_hashed *change);

/* Digests read the object again. */
void mwb_hash_spoil(mwb_state *s, mw_handle obj);

/* The object gets another class: likewise.  A rule may now decide otherwise of
** the fields that hold the object. */
void mwb_hash_class(mwb_state *s, mw_handle obj);

/* The object is a class, whose writes are not heard from now on. */
void mwb_hash_spoil_class(mwb_state *s, mw_handle obj);

/* The object is not tracked any more, so it may have no digest. */
void mwb_hash_forget(mwb_state *s, mw_handle root);

/* Closes all digests. */
void mwb_close_hashes(mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
