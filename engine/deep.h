/*
** deep.h - the engine's private view of deep.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_DEEP_H
#define MW_DEEP_H

#include "moonwatch.h"

/* An object below a root, or the root itself. */
typedef struct mwD_member {
  uint32_t next;  /* the same object below another root */
  uint32_t reach; /* the root's member; a root's own number */
  mw_handle obj;
  uint32_t via;   /* the link to it on its way from the root; 0 for none */
  uint32_t ins;   /* the links to it, */
  uint32_t outs;  /* and from it */
  uint32_t chain; /* the next of the loose, or of the released */
  int queued;     /* is it in that chain? */
} mwD_member;

/* A field that holds an object. */
typedef struct mwD_link {
  uint32_t next_in, prev_in;   /* among those to the same child */
  uint32_t next_out, prev_out; /* among those from the same parent */
  uint32_t parent, child;
  mw_value key;
} mwD_link;

typedef struct mwD_part {
  mwL_pool members, links;
  struct mwD_fields *fields; /* (parent, key) -> link; NULL at first */
  uint32_t loose;    /* have lost their way, and are yet to be seen to */
  uint32_t released; /* are below no root */
} mwD_part;

MW_PRIVATE void mwD_close(mw_engine *e);

/* The object of a slot is dead. */
MW_PRIVATE void mwD_forget(mw_engine *e, uint32_t slot);

/*
** The roots that an object is below, one by one: `*after` is 0 at first.
** Answers MW_NONE at the end; else `*key` is the root's own field on the way.
*/
MW_PRIVATE mw_handle mwD_root(mw_engine *e, mw_handle obj, uint32_t *after,
                              mw_value *key);

#endif
