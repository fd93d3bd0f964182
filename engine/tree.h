/*
** tree.h - the engine's private view of tree.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TREE_H
#define MWI_TREE_H

#include "watch.h"

/* An object below a root, or the root itself. */
typedef struct mwi_node {
  uint32_t next, prev; /* nodes of this object, in other reaches; in the first
                       ** node, `prev` is the last */
  uint32_t reach;      /* the number of the reach */
  uint32_t via;        /* the link on the path from the root; 0 for none */
  uint32_t ins;        /* the links to this node, the newest first, */
  uint32_t outs;       /* and from this node */
  uint32_t chain;      /* the next orphan, or the next released node */
  uint32_t queued : 1; /* is the node in the chain of orphans? */
  uint32_t fresh : 1;  /* is the node made by the link under way? */
  uint32_t seen : 30;  /* the last search that found no path to this node */
  uint32_t heard;      /* a later node of this object; the nodes between are of
                       ** silent reaches */
  uint32_t looked;     /* in the first node: the tree's `woken` when the
                       ** object's nodes got their `heard` */
  uint32_t queue;      /* in a search for the shortest path: the next node, */
  uint32_t toward;     /* and the link that the path takes from this node */
  uint32_t left;       /* the age in which a field last stopped holding the
                       ** object, or the node was made */
  mw_handle obj;
} mwi_node;

/* The objects below a root, with the root; or the objects below all silent
** roots.  A filtered reach has only some of these.  A reach of a path has
** layers, one for each key: see tree.c. */
typedef struct mwi_reach {
  uint32_t root;         /* the root's node, in the first layer */
  uint32_t top;          /* the first layer */
  uint32_t below;        /* the children's layer, 0 for none */
  uint32_t rule;         /* the host's, 0 for none */
  uint32_t heard;        /* if filtered, in `top`: the watches, of which a
                         ** claimed one may wait again */
  uint32_t age;          /* in which the reach began */
  uint32_t filtered : 1; /* is there a path or a rule? */
  uint32_t kept : 2;     /* does the reach stay when nobody hears?  See
                         ** mw_filter */
  uint64_t order;        /* ascends with each begin of a reach or layer */
  mw_value key;          /* of the field that leads on; MW_TNIL: any field */
} mwi_reach;

/* A field that holds an object. */
typedef struct mwi_link {
  uint32_t next_in, prev_in;   /* links to the child */
  uint32_t next_out, prev_out; /* links from the parent */
  uint32_t parent, child;
  uint32_t age; /* in which the field came to hold the child */
  mw_value key;
} mwi_link;

typedef struct mwi_tree {
  mwi_pool nodes, links, reaches;
  mwi_table table;    /* (parent, key) -> link */
  uint64_t order;     /* of the newest reach */
  uint32_t woken;     /* increases when a silent reach is heard; never 0 */
  uint32_t ground;    /* the reach of all silent roots, or 0 */
  uint32_t orphans;   /* nodes that lost their path, not yet resolved */
  uint32_t released;  /* nodes below no root */
  uint32_t steps;     /* of climbs since orphans were resolved */
  uint32_t lost;      /* orphans since then that have not come back; or more */
  uint64_t changes;   /* increases when a link comes or goes */
  uint64_t shortened; /* `changes` when node `shortest` got the shortest path */
  uint32_t shortest;
  uint32_t search;  /* the number of the search for paths */
  uint32_t left;    /* the age in which a field last stopped holding a node */
  int forgets;      /* is an object being forgotten that has died? */
  uint32_t version; /* increases when a node goes */
  uint32_t found;   /* a node that was found lately, perhaps gone since */
} mwi_tree;

MWI_API void mwi_tree_close(mw_engine *e);

/* Ends the nodes and links of the dead object of a slot. */
MWI_API void mwi_tree_forget(mw_engine *e, uint32_t slot);

/* A climb to the roots above an object that are heard, one by one in the order
** of their reaches.  The caller may do anything with the engine between two
** steps; a reach that begins then is not part of the climb. */
typedef struct mwi_climb {
  uint32_t node;    /* the object's, below the returned root */
  uint32_t version; /* of the tree when the root was returned */
  uint64_t order;   /* of the node's layer */
  uint64_t newest;  /* the order of the newest layer at the first step */
  uint32_t top;     /* the reach */
  uint32_t filter;  /* the reach, if it is filtered, else 0 */
} mwi_climb;

/* Returns the record of the first root above an object which hears of a write
** to the object's field, and of the next root; NULL at the end.  A root with
** several reaches is returned for each. */
MWI_API mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r,
                                   const mw_value *key, mwi_climb *climb);
MWI_API mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r,
                                  const mw_value *key, mwi_climb *climb);

/* Counts a watch of a filtered reach, or with -1 one that has ended.  Returns
** the reach of a deep watch if filtered, else 0. */
MWI_API void mwi_reach_hear(mw_engine *e, uint32_t reach, int n);
MWI_API uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach);

/* Holds the object as a silent root, and drops it again.  Holder 0 is who
** tracks the root; holder 1, the feeds, need not know of that. */
#define MWI_HELD (UINT64_C(1) << 63) /* a bit that no handle has */
MWI_API int mwi_ground_hold(mw_engine *e, mw_handle obj, int holder,
                            mw_reach *reach);
MWI_API int mwi_ground_drop(mw_engine *e, mw_handle obj, int holder);

/* Ends all reaches of a root that are `kept` so. */
MWI_API void mwi_tree_end_roots(mw_engine *e, mw_handle obj, int kept);

/* Returns the rule of a reach of a root that is `kept` so, 0 for none. */
MWI_API uint32_t mwi_root_rule(const mw_engine *e, mw_handle obj, int kept);

/* Returns whether the object is below a root that is watched. */
MWI_API int mwi_tree_is_watched(mw_engine *e, mwi_object *r);

/* Returns whether no root above the object hears of writes to the field.  The
** object of `r` is in the tree. */
MWI_API int mwi_tree_is_quiet(mw_engine *e, const mwi_object *r,
                              const mw_value *key);

/* Returns whether there is no path to the object any more; then the object has
** left the tree. */
MWI_API int mwi_tree_is_lost(mw_engine *e, const mwi_object *r);

/* Is what the parent holds under the key below the parent, in a reach without a
** rule? */
MWI_API int mwi_tree_leads_on(const mw_engine *e, mw_handle parent,
                              const mw_value *key);

/* Is the child below the parent in the reach already, or with 0 in one without
** a rule? */
MWI_API int mwi_tree_holds(const mw_engine *e, mw_reach reach, mw_handle parent,
                           mw_handle child);

/* Finds the root's own field on the shortest path from the root to the
** object. */
MWI_API void mwi_tree_top(mw_engine *e, const mwi_climb *climb, mw_value *key);

/* A silent root is heard from now on. */
MWI_API void mwi_tree_wake(mw_engine *e);

/* What is released from now on is released since the mark. */
MWI_API uint32_t mwi_tree_release_mark(mw_engine *e);

/* As `mw_tree_released`, of objects released since the mark. */
MWI_API mw_handle mwi_tree_released_since(mw_engine *e, uint32_t mark);

/* Gives the objects released since the mark the value `to` of `tracked` for the
** value `from`. */
MWI_API void mwi_tree_mark_released(mw_engine *e, uint32_t mark, int from,
                                    int to);

/* Returns the bytes that the part has allocated. */
MWI_API size_t mwi_tree_bytes(const mw_engine *e);

#endif
