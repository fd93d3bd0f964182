/*
** tree.h - the engine's private view of tree.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_TREE_H
#define MWI_TREE_H

#include "watch.h"

/* The stamp of a write: its age in the high half, the default clock's
** generation + 1 in the low half.  So one comparison says whether an object is
** as it was at the end of an age. */
#define mwi_stamp_age(stamp) ((uint32_t)((stamp) >> 32))
#define mwi_stamp_changed(stamp) ((uint32_t)(stamp))

typedef struct mwi_node mwi_node;
typedef struct mwi_member mwi_member;
typedef struct mwi_reach mwi_reach;
typedef struct mwi_edge mwi_edge;

/* An object in a graph, with the edges to and from it. */
struct mwi_node {
  uint32_t number;
  uint32_t members;     /* the first one; there is one in each reach of the
                        ** graph that has the object, in their order */
  uint32_t toward;      /* in a search: the edge of the path from this node */
  uint32_t left;        /* the age in which a field last stopped holding the
                        ** object, or the node was made, or released */
  uint32_t linked;      /* the number of the scan that has linked its fields; 0:
                        ** they are not linked yet, */
  uint32_t scans : 1;   /* or are being linked */
  uint32_t refuses : 1; /* may a field hold what was left out there? */
  uint32_t waits : 1;   /* is the node in the queue? */
  uint32_t depth : 29;  /* in a reach of a path, else 0 */
  mwi_node *next;       /* of the object; or the next released node */
  mwi_node *queue;      /* in a search or spread: the next node */
  mwi_edge *ins, *outs; /* to this node, the newest first, and from it */
  mwi_reach *graph;
  mw_handle obj; /* MW_NONE: the ground */
};

/* An object below a root, or the root itself; 40 bytes, for there is one for
** each root above. */
struct mwi_member {
  uint32_t number;
  uint32_t next, prev; /* members of the node; the first one's `prev` is the
                       ** last */
  uint32_t chain;      /* the next orphan */
  uint32_t came;       /* the age in which the member was made */
  uint32_t reach : 31;
  uint32_t queued : 1; /* is the member in the list of orphans? */
  mwi_node *node;      /* NULL: gone, but still in the list of orphans */
  mwi_edge *via;       /* on the path from the root; NULL for none */
};

/* The objects below a root, with the root; or the objects below all silent
** roots.  A filtered reach has only some of these. */
struct mwi_reach {
  uint32_t number;  /* 0: it is the common graph */
  uint32_t rule;    /* the host's, 0 for none */
  mwi_reach *graph; /* itself if it is filtered, else the common one; NULL:
                       ** the reach is free */
  mwi_member *root; /* NULL: ended */
  mw_handle obj;    /* the root's, MW_NONE: the ground, or ended */
  uint64_t order;   /* ascends with each begin of a reach */
  mw_value *keys;   /* of a path, MW_TNIL: any; NULL: it has none */
  uint32_t n_keys;
  uint32_t n;          /* its members */
  uint32_t heard;      /* if filtered: the watches, of which a claimed one may
                       ** wait again */
  uint32_t kept : 2;   /* does the reach stay when nobody hears?  See mw_filter.
                       ** With MWI_LOGGED a reader wants `news`, nobody hears */
  uint32_t missed : 1; /* were some news forgotten? */
  uint32_t held : 29;  /* watches that are about to begin: the reach stays */
  uint32_t n_news, size_news;
  mw_handle *news; /* objects that became members, or ceased to be */
};

/* What fields of an object hold another object. */
struct mwi_edge {
  uint32_t number;
  uint32_t count : 31; /* of the fields */
  uint32_t sure : 1;   /* is the hint surely the key of such a field? */
  mwi_node *parent;    /* NULL: the edge is free */
  mwi_node *child;
  mwi_edge *next_in, *next_out; /* edges to the child, and from the parent; */
  uint32_t prev_in, prev_out;   /* 0 for none */
  uint32_t age;    /* in which the field of the hint came to hold the child */
  uint32_t others; /* the last one in which another of the fields did, or 0 */
  mw_value hint;   /* a key */
};

typedef struct mwi_tree {
  mwi_pool nodes, members, edges, reaches;
  mwi_table table;    /* (parent, child) -> edge */
  mwi_reach common;   /* the common graph */
  uint64_t order;     /* of the newest reach */
  uint64_t changes;   /* increases when a member or an edge comes or goes */
  uint64_t shortened; /* `changes` when `shortest` got the shortest path */
  mwi_member *shortest;
  mwi_member *found;   /* that was found lately, perhaps gone since */
  mwi_edge *recent;    /* that counted lately, perhaps gone since */
  mwi_reach *ground;   /* of all silent roots, or NULL */
  mwi_member *orphans; /* members that lost their path, not yet resolved: the */
  mwi_member *last;    /* first and the last one */
  mwi_node *released;  /* nodes below no root */
  uint32_t scans;      /* the number of the last scan that has ended */
  uint32_t moves;      /* increases with each link and unlink by a write */
  uint32_t steps;      /* of climbs since orphans were resolved */
  uint32_t lost;       /* orphans since then that have not come back; or more */
  uint32_t left; /* the age in which a field last stopped holding a node */
  int forgets;   /* is an object being forgotten that has died? */
} mwi_tree;

/* The hash of the edge between two nodes. */
static inline uint32_t mwi_pair_hash(uint32_t parent, uint32_t child) {
  uint64_t n = ((uint64_t)parent << 32 | child) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(n >> 32) ^ (uint32_t)n;
}

MWI_API void mwi_tree_blocks(mw_engine *e, mwi_visit f);

/* Ends the nodes and edges of the dead object of a slot. */
MWI_API void mwi_tree_forget(mw_engine *e, uint32_t slot);

/* A climb to the roots above an object that are heard, one by one in the order
** of their reaches.  The caller may do anything with the engine between two
** steps; a reach that begins then is not part of the climb. */
typedef struct mwi_climb {
  mwi_member *member; /* the object's, below the returned root */
  mwi_member *common; /* the next member of the common node, and the next other
                      ** node, after so many changes of the tree */
  mwi_node *node;
  uint64_t changes;
  uint64_t order;  /* of the member's reach */
  uint64_t newest; /* the order of the newest reach at the first step */
} mwi_climb;

/* Returns the record of the next root above an object which hears of a write to
** the object's field, NULL at the end.  The climb begins as zeros.  A root with
** several reaches is returned for each. */
MWI_API mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r,
                                  const mw_value *key, mwi_climb *climb);

/* Counts a watch of a filtered reach, or with -1 one that has ended.  Returns
** the reach of a deep watch if filtered, else 0. */
MWI_API void mwi_reach_hear(mw_engine *e, uint32_t reach, int n);
MWI_API uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach);

/* Holds a reach for a watch that is about to begin: it does not end, whatever
** watches of its root end meanwhile.  With -1 it is held no longer.  Then: does
** no watch hear of it, and nobody hold it? */
MWI_API void mwi_reach_hold(mw_engine *e, uint32_t reach, int n);
MWI_API int mwi_reach_is_idle(const mw_engine *e, uint32_t reach);

/* The value of `kept` in the filter of a reach that logs its members for a
** reader: nobody else shares it, and it ends with `mw_reach_end`. */
#define MWI_LOGGED 2

/* Finds the objects that became or ceased to be members of such a reach, some
** more than once.  Returns their number; or MWI_MISSED when some were
** forgotten, because they are more than the members.  The second function
** forgets the first `n` of them, with MWI_MISSED all. */
#define MWI_MISSED UINT32_MAX
MWI_API uint32_t mwi_reach_news(const mw_engine *e, mw_reach reach,
                                const mw_handle **news);
MWI_API void mwi_reach_read(mw_engine *e, mw_reach reach, uint32_t n);

/* Is the object a member of the reach? */
MWI_API int mwi_reach_has(mw_engine *e, mw_reach reach, mw_handle obj);

/* `mw_tree_released` may return the object again, if there is memory. */
MWI_API void mwi_tree_release(mw_engine *e, mw_handle obj);

/* Ends the reaches of a root that are `kept` so and not held; with a reach
** `except`, only those with a filter that nobody hears, but that one. */
MWI_API void mwi_tree_end_roots(mw_engine *e, mw_handle obj, int kept,
                                const mwi_reach *except);

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

/* What an object's nodes in a reach are; bits.  With reach 0 the nodes are
** those in reaches without a rule. */
enum {
  MWI_OPEN = 1, /* the fields of one are still to be linked */
  MWI_REFUSES =
      2,         /* something was ever left out in one, by `mwi_tree_refuse` */
  MWI_LEADS = 4, /* what the object holds under the key is below one */
  MWI_HOLDS = 8, /* the child is below one, whatever the key */
  MWI_RULED = 16 /* one is in a reach with a rule */
};
#define MWI_ANY_REACH UINT32_MAX
MWI_API int mwi_tree_look(const mw_engine *e, mw_reach reach, mw_handle parent,
                          const mw_value *key, mw_handle child);

static inline int mwi_tree_holds(const mw_engine *e, mw_reach reach,
                                 mw_handle parent, mw_handle child) {
  return (mwi_tree_look(e, reach, parent, NULL, child) & MWI_HOLDS) != 0;
}

/* What a field of the parent holds has been left out in the reach, or with 0 in
** those without a rule: then a child that is let in may be in several fields.
*/
MWI_API void mwi_tree_refuse(const mw_engine *e, mw_reach reach,
                             mw_handle parent);

/* For a host that asks which children of an object are below before it links
** the fields: in a scan, lets the child in.  Then `mw_tree_scan_link` with
** MWI_ANY_REACH is for those reaches where the child has been let in. */
MWI_API int mwi_tree_admit(mw_engine *e, mw_reach reach, mw_handle parent,
                           const mw_value *key, mw_handle child);

/* Returns the edge if a link of the child needs no memory, no question and no
** scan, but only to count; else 0.  The second function counts the field. */
MWI_API uint32_t mwi_tree_edge(const mw_engine *e, const mwi_object *r,
                               mw_handle child);
MWI_API void mwi_tree_add(mw_engine *e, uint32_t edge, const mw_value *key);

/* Have fields of the object been linked since the scan with that number? */
MWI_API int mwi_tree_scanned_since(const mw_engine *e, const mwi_object *r,
                                   uint32_t number);

/* Where there is an edge, it counts `n` fields; under this key the parent holds
** the child, or (`here`) does not. */
MWI_API void mwi_tree_count(mw_engine *e, mw_handle parent, const mw_value *key,
                            mw_handle child, uint32_t n, int here);

/* Returns the least depth from `depth` on at which the written object is in the
** reach of the change, if that is one of a path which is about the field. */
#define MWI_NO_DEPTH UINT32_MAX
MWI_API uint32_t mwi_change_depth(mw_engine *e, const mw_change *change,
                                  mw_handle obj, uint32_t depth);

/* Finds the root's own field on the shortest path from the root to the
** object. */
MWI_API void mwi_tree_top(mw_engine *e, const mwi_climb *climb, mw_value *key);

/* As `mw_tree_released`, of objects released in a later age. */
MWI_API mw_handle mwi_tree_released_since(mw_engine *e, uint32_t age);

#endif
