/*
** tree.h - the engine's private view of tree.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TREE_H
#define MWI_TREE_H

#include "watch.h"

/* An object below a root, or the root itself. */
typedef struct mwi_node {
  uint32_t next, prev; /* the same object below other roots; the first's
                       ** `prev` is the last */
  uint32_t reach;      /* the root's node; a root's own number */
  uint32_t via;        /* the link on the path from the root; 0 for none */
  uint32_t ins;        /* the links to it, */
  uint32_t outs;       /* and from it */
  uint32_t chain;      /* the next orphan, or the next that was released */
  uint32_t queued : 1; /* is it in that chain? */
  uint32_t seen : 31;  /* the last search that found no path to it */
  mw_handle obj;
} mwi_node;

/* A field that holds an object. */
typedef struct mwi_link {
  uint32_t next_in, prev_in;   /* among those to the same child */
  uint32_t next_out, prev_out; /* among those from the same parent */
  uint32_t next_key, prev_key; /* among those whose key is the same object */
  uint32_t parent, child;
  mw_value key;
} mwi_link;

typedef struct mwi_tree {
  mwi_pool nodes, links;
  struct mwi_link_table *table; /* (parent, key) -> link; NULL at first */
  uint32_t ground;   /* the root of all that is below a silent root, or 0 */
  uint32_t orphans;  /* have lost their path, and are yet to be seen to */
  uint32_t released; /* are below no root */
  uint32_t search;   /* the number of the search for paths */
  uint32_t version;  /* moves when a node goes */
} mwi_tree;

MWI_API void mwi_tree_close(mw_engine *e);

/* The object of a slot is dead. */
MWI_API void mwi_tree_forget(mw_engine *e, uint32_t slot);

/* A climb to the roots above an object, one by one in the order of their nodes,
** which have the numbers of nodes that have gone.  Anything may happen between
** two steps. */
typedef struct mwi_climb {
  uint32_t node;    /* the object's, below the root that was returned */
  uint32_t reach;   /* that root's */
  uint32_t version; /* of the tree, at that time */
} mwi_climb;

/* The record of the first root, of the next one; NULL at the end.  Silent roots
** are not among them. */
MWI_API mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r,
                                   mwi_climb *climb);
MWI_API mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r,
                                  mwi_climb *climb);

/* Does nobody above the object wait for a write?  The object is in the tree. */
MWI_API int mwi_tree_is_quiet(const mw_engine *e, const mwi_object *r);

/* The root's own field on the path from there. */
MWI_API void mwi_tree_top(const mw_engine *e, const mwi_climb *climb,
                          mw_value *key);

#endif
