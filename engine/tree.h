/*
** tree.h - the engine's private view of deep.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TREE_H
#define MWI_TREE_H

#include "moonwatch.h"

/* An object below a root, or the root itself. */
typedef struct mwi_node {
  uint32_t next;  /* the same object below another root */
  uint32_t reach; /* the root's member; a root's own number */
  mw_handle obj;
  uint32_t via;   /* the link to it on its way from the root; 0 for none */
  uint32_t ins;   /* the links to it, */
  uint32_t outs;  /* and from it */
  uint32_t chain; /* the next of the loose, or of the released */
  int queued;     /* is it in that chain? */
} mwi_node;

/* A field that holds an object. */
typedef struct mwi_link {
  uint32_t next_in, prev_in;   /* among those to the same child */
  uint32_t next_out, prev_out; /* among those from the same parent */
  uint32_t parent, child;
  mw_value key;
} mwi_link;

typedef struct mwi_tree {
  mwi_pool members, links;
  struct mwi_tree_fields *fields; /* (parent, key) -> link; NULL at first */
  uint32_t loose;    /* have lost their way, and are yet to be seen to */
  uint32_t released; /* are below no root */
} mwi_tree;

MWI_API void mwi_tree_close(mw_engine *e);

/* The object of a slot is dead. */
MWI_API void mwi_tree_forget(mw_engine *e, uint32_t slot);

/*
** The roots that an object is below, one by one: `*after` is 0 at first.
** Returns MW_NONE at the end; else `*key` is the root's own field on the way.
*/
MWI_API mw_handle mwi_tree_root(mw_engine *e, mw_handle obj, uint32_t *after,
                                mw_value *key);

#endif
