/*
** tree.h - the engine's private view of tree.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TREE_H
#define MWI_TREE_H

#include "watch.h"

/* An object below a root, or the root itself. */
typedef struct mwi_node {
  uint32_t next, prev; /* nodes of this object, below other roots; in the first
                       ** node, `prev` is the last */
  uint32_t reach;      /* the root's node; in a root, its own number */
  uint32_t via;        /* the link on the path from the root; 0 for none */
  uint32_t ins;        /* the links to this node, */
  uint32_t outs;       /* and from this node */
  uint32_t chain;      /* the next orphan, or the next released node */
  uint32_t queued : 1; /* is the node in the chain of orphans? */
  uint32_t seen : 31;  /* the last search that found no path to this node */
  mw_handle obj;
} mwi_node;

/* A field that holds an object. */
typedef struct mwi_link {
  uint32_t next_in, prev_in;   /* links to the child */
  uint32_t next_out, prev_out; /* links from the parent */
  uint32_t next_key, prev_key; /* links whose key is this object */
  uint32_t parent, child;
  mw_value key;
} mwi_link;

typedef struct mwi_tree {
  mwi_pool nodes, links;
  struct mwi_link_table *table; /* (parent, key) -> link; NULL at first */
  uint32_t ground;              /* the root above all silent roots, or 0 */
  uint32_t orphans;  /* nodes that lost their path, not yet resolved */
  uint32_t released; /* nodes below no root */
  uint32_t search;   /* the number of the search for paths */
  uint32_t version;  /* increases when a node goes */
} mwi_tree;

MWI_API void mwi_tree_close(mw_engine *e);

/* Ends the nodes and links of the dead object of a slot. */
MWI_API void mwi_tree_forget(mw_engine *e, uint32_t slot);

/* A climb to the roots above an object, one by one in the order of the roots'
** node numbers, which are used again.  The caller may do anything with the
** engine between two steps. */
typedef struct mwi_climb {
  uint32_t node;    /* the object's, below the returned root */
  uint32_t reach;   /* of the returned root */
  uint32_t version; /* of the tree when the root was returned */
} mwi_climb;

/* Returns the record of the first root above an object, and of the next root;
** NULL at the end.  A climb passes over silent roots. */
MWI_API mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r,
                                   mwi_climb *climb);
MWI_API mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r,
                                  mwi_climb *climb);

/* Returns whether no root above the object has a deep watch that waits, and no
** field of the object is linked.  The object of `r` is in the tree. */
MWI_API int mwi_tree_is_quiet(const mw_engine *e, const mwi_object *r);

/* Finds the root's own field on the path from the root to the object. */
MWI_API void mwi_tree_top(const mw_engine *e, const mwi_climb *climb,
                          mw_value *key);

#endif
