/*
** tree.c - the objects below a root, and what leads there.
** SPDX-License-Identifier: MIT
**
**        root                 node:   an object, with its edges
**       / x  \ y              edge:   how many fields of a node hold a node
**      a      b               member: an object below a root
**       \ p  / q              via:    the edge to a member that is on the
**         c                           member's path from the root
**
** Invariant of edges: once the fields of a node are *linked*, by a scan, each
** edge from the node counts the fields that hold the child; what is held and
** has no edge has been left out.  Keys are no part of the graph, so a list that
** shifts or sorts changes counts only.  The key of a step is found when a path
** is asked for: it is the edge's *hint*, the key of the first link, or of the
** last one in a list, which is *sure* until the field of that key stops holding
** the child; then the host looks at the parent.
**
** A *reach* is a root with the members below.  All reaches that have no filter
** are of one graph, the *common* one: an object has one node there, and in the
** node's list a member for each reach, in the order in which the roots began,
** so a further root adds members only.  Silent roots share one reach: they are
** below the *ground*, a root without an object.
**
** A *filtered* reach has only what its rule allows or its path names, so it is
** a graph of its own, where each node has one member.  In a reach of a path a
** node has a *depth*, that of the root is 0: the edges from the node count the
** fields under the path's key of this depth, and lead to nodes that are one
** deeper, so an object has a node for each depth at which it is.  The nodes of
** an object are in a list: the common one, then the others in the order of
** their reaches, those of a reach in the order of their depths.
**
** Nodes, edges and members stay where they are, and know each other by
** pointers; members know the members of their node by numbers, which keeps the
** memory of a further root small.
**
** Invariants of members: what an edge leads to from a member of a reach is a
** member of the reach.  Following `via` from a member leads
** to the root's member, or to an *orphan*: a member that has lost its `via`,
** and is in the list of orphans.  There is no cycle.  A write changes two
** counts, so it makes orphans of one object only, at once and however large the
** tree below is; a move counts the object again before the next look at a path,
** and costs no more.
**
** The next look at a path resolves the orphans: each orphan takes another edge
** as `via`, if it comes from a member with a path; otherwise the orphan is
** *lost*, and each member whose `via` comes from the orphan becomes an orphan
** too.  Then the lost members take a path from those that have found one; the
** others go.  A node without members is released, and a reach without members,
** whose root has ended, goes.
*/
#include "engine.h"

#include <string.h>

/* So many more news than members a reach keeps. */
#define FEW 1024

/* {======================================================
** Nodes, members, edges
** ======================================================= */

#define node_at(e, i) \
  ((mwi_node *)mwi_pool_at(&(e)->tree.nodes, i, sizeof(mwi_node)))
#define member_at(e, i) \
  ((mwi_member *)mwi_pool_at(&(e)->tree.members, i, sizeof(mwi_member)))
#define edge_at(e, i) \
  ((mwi_edge *)mwi_pool_at(&(e)->tree.edges, i, sizeof(mwi_edge)))
#define reach_at(e, i) \
  ((mwi_reach *)mwi_pool_at(&(e)->tree.reaches, i, sizeof(mwi_reach)))

static uint32_t age_now(const mw_engine *e) { return mwi_stamp_age(e->stamp); }

static inline mwi_reach *reach_of(const mw_engine *e, const mwi_member *m) {
  return reach_at(e, m->reach);
}

static inline int is_root(const mw_engine *e, const mwi_member *m) {
  return reach_of(e, m)->root == m;
}

/* Has the member not lost its path, or found one again? */
static int is_led(mw_engine *e, mwi_member *m) {
  return m->via != NULL || is_root(e, m);
}

/* Returns the member with a number, NULL for 0. */
static inline mwi_member *get_member(const mw_engine *e, uint32_t i) {
  return (i == 0) ? NULL : member_at(e, i);
}

/* Returns the first node of an object, whose record may be NULL; or NULL. */
static inline mwi_node *first_node(const mw_engine *e, const mwi_object *r) {
  return (r == NULL || r->nodes == 0) ? NULL : node_at(e, r->nodes);
}

static inline mwi_node *nodes_of(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return (r == NULL || r->nodes == 0) ? NULL : node_at(e, r->nodes);
}

/* Returns the first member of node `n` and the next ones of its object, NULL
** for none. */
static mwi_member *first_member(const mw_engine *e, const mwi_node *n) {
  return (n == NULL) ? NULL : get_member(e, n->members);
}

/* Returns the next member of the object, in any graph. */
static mwi_member *next_member(const mw_engine *e, const mwi_member *m) {
  return (m->next != 0) ? member_at(e, m->next)
                        : first_member(e, m->node->next); /* the next node's */
}

/* Returns the last member of a node whose order is not greater than `order`,
** NULL for none.  The search begins at the end (the first member's `prev` is
** the last), for a scan of a new root asks for the greatest order; or with the
** member that the last search found, for who goes through the roots above an
** object looks for its members in order. */
static mwi_member *last_member(mw_engine *e, const mwi_node *n,
                               uint64_t order) {
  mwi_member *m = get_member(e, n->members), *last;
  if (m == NULL) return NULL; /* a new node? */
  last = member_at(e, m->prev);
  if (reach_of(e, last)->order <= order) return last; /* for a new root? */
  last = e->tree.found;
  if (last != NULL && last->node == n && reach_of(e, last)->order <= order)
    m = last; /* still a member there, and not too far on? */
  if (reach_of(e, m)->order > order) return NULL; /* all are of younger roots */
  while (reach_of(e, member_at(e, m->next))->order <= order)
    m = member_at(e, m->next); /* the last one is of a younger root */
  return e->tree.found = m;
}

/* Returns the member of a node in a reach of the node's graph, NULL for none.
*/
static mwi_member *member_in(mw_engine *e, const mwi_node *n,
                             const mwi_reach *reach) {
  mwi_member *m = get_member(e, n->members);
  if (m == NULL || m->reach == reach->number || n->graph == reach) return m;
  m = last_member(e, n, reach->order); /* or an older reach's */
  return (m != NULL && m->reach == reach->number) ? m : NULL;
}

/* Returns the first of node `n` and the next ones of its object that is in a
** graph, at a depth; NULL for none. */
static mwi_node *find_node(mwi_node *n, const mwi_reach *graph,
                           uint32_t depth) {
  while (n != NULL && (n->graph != graph || n->depth != depth)) n = n->next;
  return n;
}

/* Returns the depth of what is below a node. */
static uint32_t depth_below(const mwi_node *n) {
  return (n->graph->n_keys == 0) ? 0 : n->depth + 1; /* not of a path? */
}

/* Does nothing lead on from a node? */
static int is_end(const mwi_node *n) {
  return n->graph->n_keys != 0 && n->depth + 1u == n->graph->n_keys;
}

/* Returns the only key that leads on from a node, NULL if any does. */
static const mw_value *key_in(const mwi_node *n) {
  const mw_value *keys = n->graph->keys;
  return (keys == NULL || keys[n->depth].type == MW_TNIL) ? NULL
                                                          : &keys[n->depth];
}

/* Is a field with the key one that the reach is about? */
static int has_field(const mwi_node *n, const mw_value *key) {
  const mw_value *its = key_in(n);
  return its == NULL || mw_value_equal(its, key);
}

/* Does a field with the key lead on from the node? */
static int leads_on(const mwi_node *n, const mw_value *key) {
  return n->graph->keys == NULL || (!is_end(n) && has_field(n, key));
}

/* Returns the first member of an object in a reach that is about fields with
** the key (NULL: any), NULL for none. */
static mwi_member *find_member(mw_engine *e, mw_handle obj,
                               const mwi_reach *reach, const mw_value *key) {
  mwi_node *n = nodes_of(e, obj);
  while (n != NULL &&
         (n->graph != reach->graph || (key != NULL && !has_field(n, key))))
    n = n->next; /* another graph's, or about other fields */
  return (n == NULL) ? NULL : member_in(e, n, reach);
}

/* Returns the member of a node, which an edge joins to that of `m`, in the
** reach of `m`; NULL for none. */
static mwi_member *beside(mw_engine *e, const mwi_node *n,
                          const mwi_member *m) {
  return member_in(e, n, reach_of(e, m));
}

/* Puts a node into the list of its object, behind the node `prev`, or first. */
static void set_next(mwi_object *r, mwi_node *prev, mwi_node *n) {
  if (prev != NULL)
    prev->next = n;
  else
    r->nodes = (n == NULL) ? 0 : n->number; /* 0: it was the only node */
}

/* Makes the node of an object in a graph, with NULL the ground's. */
static mwi_node *new_node(mw_engine *e, mwi_object *r, mwi_reach *graph,
                          uint32_t depth) {
  uint32_t i = mwi_pool_take(e, &e->tree.nodes, sizeof(mwi_node));
  mwi_node *n, *prev = NULL;
  if (i == 0) return NULL;
  n = node_at(e, i);
  memset(n, 0, sizeof(*n));
  n->number = i;
  n->graph = graph;
  n->depth = depth & UINT32_MAX >> 3;
  n->left = age_now(e);
  if (r == NULL) return n; /* the ground's, or to be released */
  n->obj = r->obj;
  n->next = first_node(e, r);
  for (;
       n->next != NULL && (n->next->graph->order < graph->order ||
                           (n->next->graph == graph && n->next->depth < depth));
       n->next = prev->next)
    prev = n->next; /* an older graph's comes before */
  set_next(r, prev, n);
  r->needs |= MWI_TREE;
  return n;
}

static void give_reach(mw_engine *e, mwi_reach *its) {
  uint32_t i;
  for (i = 0; i < its->n_keys; i++) mwi_host_release(e, &its->keys[i]);
  mwi_free(e, its->keys, its->n_keys * sizeof(*its->keys));
  mwi_free(e, its->news, its->size_news * sizeof(*its->news));
  its->graph = NULL;
  its->keys = NULL;
  its->news = NULL;
  mwi_pool_give(&e->tree.reaches, its->number, sizeof(mwi_reach));
}

/* The object has become a member of the reach, or is none any more.  As many as
** there are members a reader can as well look at. */
static void log_member(mw_engine *e, mwi_reach *its, mw_handle obj) {
  if (its->kept != MWI_LOGGED || its->missed) return; /* is no news wanted? */
  its->missed = !mwi_grow(e, &its->news, its->n_news, &its->size_news);
  if (!its->missed) its->news[its->n_news++] = obj;
  if (its->n_news > its->n + FEW) its->missed = 1; /* cheaper to compare all? */
  if (its->missed) its->n_news = 0;
}

/* Makes a member of a node behind the member `before`, NULL for the first one;
** returns NULL without memory. */
static mwi_member *add_member(mw_engine *e, mwi_node *n, mwi_member *before,
                              mwi_reach *reach, mwi_edge *via) {
  uint32_t i = mwi_pool_take(e, &e->tree.members, sizeof(mwi_member));
  mwi_member *m, *first = get_member(e, n->members);
  if (i == 0) return NULL;
  m = member_at(e, i);
  memset(m, 0, sizeof(*m));
  m->number = i;
  m->node = n;
  m->reach = reach->number & UINT32_MAX >> 1;
  m->via = via;
  m->came = age_now(e);
  m->next = (before != NULL) ? before->next : n->members;
  if (before != NULL)
    m->prev = before->number;
  else
    m->prev = (first != NULL) ? first->prev : i; /* the last one, or itself */
  if (m->next != 0)
    member_at(e, m->next)->prev = i;
  else if (first != NULL) /* the last one now? */
    first->prev = i;
  *(before != NULL ? &before->next : &n->members) = i;
  e->tree.changes++;
  reach->n++;
  log_member(e, reach, n->obj);
  return m;
}

/* Takes a member from its node.  The orphans keep it until they are resolved.
*/
static void remove_member(mw_engine *e, mwi_member *m) {
  mwi_node *n = m->node;
  mwi_object *r = mwi_object_find(&e->watch, n->obj);
  mwi_reach *reach = reach_of(e, m);
  e->tree.changes++;
  if (r != NULL && !e->tree.forgets) r->gone = age_now(e); /* does it live? */
  member_at(e, m->next != 0 ? m->next : n->members)->prev = m->prev;
  *(n->members != m->number ? &member_at(e, m->prev)->next : &n->members) =
      m->next;
  m->node = NULL;
  m->via = NULL;
  if (!m->queued) /* else `resolve` gives it back */
    mwi_pool_give(&e->tree.members, m->number, sizeof(mwi_member));
  reach->n--;
  log_member(e, reach, n->obj);
  if (reach->n == 0 && reach->root == NULL) give_reach(e, reach); /* ended? */
}

void mwi_tree_blocks(mw_engine *e, mwi_visit f) {
  const mwi_tree *part = &e->tree;
  uint32_t i;
  for (i = 1; i <= part->reaches.n; i++) {
    const mwi_reach *its = reach_at(e, i);
    f(e, its->keys, its->n_keys * sizeof(*its->keys));
    f(e, its->news, its->size_news * sizeof(*its->news));
  }
  mwi_table_blocks(e, &part->table, f);
  mwi_pool_blocks(e, &part->nodes, sizeof(mwi_node), f);
  mwi_pool_blocks(e, &part->members, sizeof(mwi_member), f);
  mwi_pool_blocks(e, &part->edges, sizeof(mwi_edge), f);
  mwi_pool_blocks(e, &part->reaches, sizeof(mwi_reach), f);
}

/* }====================================================== */

/* {======================================================
** Edges
** ======================================================= */

/* Returns the edge from a node to a node of the object with the first node `c`,
** which may be NULL; NULL for none.  In a list that shifts, what a field holds
** was stored last elsewhere. */
static mwi_edge *find_edge(const mw_engine *e, const mwi_node *parent,
                           mwi_node *c) {
  const mwi_table *table = &e->tree.table;
  const mwi_node *child = find_node(c, parent->graph, depth_below(parent));
  mwi_edge *its = e->tree.recent;
  mwi_search at;
  uint32_t i;
  if (child == NULL) return NULL; /* not in the parent's graph? */
  if (its != NULL && its->parent == parent && its->child == child) return its;
  i = mwi_table_first(table, mwi_pair_hash(parent->number, child->number), &at);
  for (; i != 0; i = mwi_table_next(table, &at)) {
    its = edge_at(e, i);
    if (its->parent == parent && its->child == child) return its;
  }
  return NULL;
}

static void queue_orphan(mw_engine *e, mwi_member *m) {
  mwi_tree *part = &e->tree;
  m->via = NULL;
  part->lost++;
  if (m->queued) return; /* lost again, and in the list still? */
  m->queued = 1;
  m->chain = 0;
  if (part->orphans != NULL)
    part->last->chain = m->number;
  else
    part->orphans = m;
  part->last = m;
}

/* The members that come next on the paths through `m` become orphans. */
static void orphan_children(mw_engine *e, const mwi_member *m) {
  mwi_edge *i = m->node->outs;
  for (; i != NULL; i = i->next_out) {
    mwi_member *child = beside(e, i->child, m);
    if (child != NULL && child->via == i) queue_orphan(e, child);
  }
}

/* Ends an edge.  The members to which it is on the path become orphans. */
static void end_edge(mw_engine *e, mwi_edge *i) {
  mwi_node *parent = i->parent, *n;
  mwi_object *r = mwi_object_find(&e->watch, parent->obj);
  mwi_member *m = get_member(e, i->child->members);
  for (; m != NULL; m = get_member(e, m->next))
    if (m->via == i) queue_orphan(e, m); /* on its path? */
  mwi_table_take(&e->tree.table,
                 mwi_pair_hash(parent->number, i->child->number), i->number);
  if (i->next_in != NULL) i->next_in->prev_in = i->prev_in;
  *(i->prev_in != 0 ? &edge_at(e, i->prev_in)->next_in : &i->child->ins) =
      i->next_in;
  if (i->next_out != NULL) i->next_out->prev_out = i->prev_out;
  *(i->prev_out != 0 ? &edge_at(e, i->prev_out)->next_out : &parent->outs) =
      i->next_out;
  n = (parent->outs == NULL) ? first_node(e, r) : parent;
  while (n != NULL && n->outs == NULL) n = n->next; /* has one a link? */
  if (n == NULL && r != NULL) r->needs &= (uint16_t)~MWI_LINKS;
  if (i->hint.type != MW_TNIL) mwi_host_release(e, &i->hint);
  i->parent = NULL;
  e->tree.changes++;
  mwi_pool_give(&e->tree.edges, i->number, sizeof(mwi_edge));
}

/* Makes an edge that counts nothing yet; returns NULL without memory. */
static mwi_edge *new_edge(mw_engine *e, mwi_node *parent, mwi_node *child) {
  mwi_edge *its;
  uint32_t i;
  if (!mwi_table_reserve(e, &e->tree.table, 1)) return NULL;
  i = mwi_pool_take(e, &e->tree.edges, sizeof(mwi_edge));
  if (i == 0) return NULL;
  its = edge_at(e, i);
  memset(its, 0, sizeof(*its));
  if (parent->outs == NULL && parent->obj != MW_NONE) /* an object's first? */
    mwi_object_find(&e->watch, parent->obj)->needs |= MWI_LINKS;
  its->number = i;
  its->parent = parent;
  its->child = child;
  if ((its->next_in = child->ins) != NULL) its->next_in->prev_in = i;
  child->ins = its;
  if ((its->next_out = parent->outs) != NULL) its->next_out->prev_out = i;
  parent->outs = its;
  mwi_table_put(e, &e->tree.table, mwi_pair_hash(parent->number, child->number),
                i);
  e->tree.changes++;
  return its;
}

static void set_hint(mw_engine *e, mwi_edge *i, const mw_value *key) {
  mw_value old = i->hint;
  mwi_host_retain(e, key);
  i->hint = *key;
  i->sure = 1;
  if (old.type != MW_TNIL) mwi_host_release(e, &old); /* not the first? */
}

/* A field that held the child of the edge does so no longer. */
static void uncount(mw_engine *e, mwi_edge *i, const mw_value *key) {
  e->tree.left = i->child->left = age_now(e);
  if (--i->count == 0) { /* does no field hold it now? */
    end_edge(e, i);
  } else if (i->sure && mw_value_equal(&i->hint, key)) {
    i->sure = 0; /* the hint's field has left */
    i->age = i->others;
  }
}

/* Returns the key of a field that holds the child of the edge. */
static const mw_value *key_of(mw_engine *e, mwi_edge *i) {
  const mw_host *host = &e->watch.host;
  mw_value key = i->hint;
  if (!i->sure && host->key != NULL &&
      host->key(host->ud, i->parent->obj, i->child->obj, &key))
    set_hint(e, i, &key); /* the host has found another field */
  return &i->hint;
}

/* Puts a node in the list of those that are released. */
static void release_node(mw_engine *e, mwi_node *n) {
  n->left = age_now(e);
  n->next = e->tree.released;
  e->tree.released = n;
}

static void give_node(mw_engine *e, mwi_node *n) {
  mwi_pool_give(&e->tree.nodes, n->number, sizeof(mwi_node));
}

/* A node without members goes, with its edges, or is released.  What the object
** holds may be below a root still, and has left the object.  What a dead one
** held has left before, in this age only if orphans wait. */
static void leave_node(mw_engine *e, mwi_node *n,
                       void (*end)(mw_engine *e, mwi_node *n)) {
  mwi_object *r = mwi_object_find(&e->watch, n->obj);
  mwi_node *prev = NULL, *at = first_node(e, r);
  if (n->members != 0) return; /* below a root still? */
  while (n->ins != NULL) end_edge(e, n->ins);
  while (n->outs != NULL) {
    if (!e->tree.forgets || e->tree.orphans != NULL) /* does it leave now? */
      n->outs->child->left = age_now(e);
    end_edge(e, n->outs);
  }
  for (; at != NULL && at != n; at = at->next) prev = at;
  if (r != NULL) set_next(r, prev, n->next); /* not the ground? */
  if (r != NULL && r->nodes == 0) r->needs &= (uint16_t)~MWI_TREE;
  end(e, n);
}

/* }====================================================== */

/* {======================================================
** Members below members
** ======================================================= */

/* Has new members below: the node is put before the queue. */
static void enqueue(mwi_node **queue, mwi_node *n) {
  if (n->waits || n->outs == NULL) return; /* queued, or a leaf? */
  n->waits = 1;
  n->queue = *queue;
  *queue = n;
}

/* The child of an edge becomes a member wherever its parent is one, or `only`
** in one reach; or, while orphans are resolved, is one that has a path again.
** Returns 0 without memory. */
static int join(mw_engine *e, mwi_edge *i, const mwi_reach *only,
                mwi_node **queue) {
  mwi_member *m = (only != NULL) ? member_in(e, i->parent, only)
                                 : get_member(e, i->parent->members);
  for (; m != NULL; m = (only != NULL) ? NULL : get_member(e, m->next)) {
    mwi_reach *reach = reach_of(e, m);
    mwi_member *at = last_member(e, i->child, reach->order);
    if (at == NULL || at->reach != m->reach) { /* no member there yet? */
      if (add_member(e, i->child, at, reach, i) == NULL) return 0;
    } else if (e->tree.orphans == NULL && !is_led(e, at)) { /* lost till now? */
      at->via = i;
    } else {
      continue; /* it has a path, or looks for one later */
    }
    enqueue(queue, i->child);
  }
  return 1;
}

/* What edge `i` leads to becomes a member, with all that is below; or, with
** NULL, what is below a node. */
static int spread(mw_engine *e, mwi_edge *i, mwi_node *n,
                  const mwi_reach *only) {
  mwi_node *queue = NULL;
  int ok = i == NULL || join(e, i, only, &queue);
  if (n != NULL) enqueue(&queue, n);
  while ((n = queue) != NULL) { /* without memory it only empties */
    queue = n->queue;
    n->waits = 0;
    for (i = n->outs; ok && i != NULL; i = i->next_out)
      ok = join(e, i, only, &queue);
  }
  return ok;
}

/* }====================================================== */

/* {======================================================
** Orphans
** ======================================================= */

/* While there are orphans, each look at a path is a climb: so many steps are
** made before the orphans are resolved in any case, and then by a walk over all
** that is below them. */
#define STEPS 20000

/* Returns whether member `m` has a path, or is not to be looked at again before
** the orphans are resolved. */
static int climbs(mw_engine *e, mwi_member *m) {
  for (; m->via != NULL; m = beside(e, m->via->parent, m))
    if (++e->tree.steps > STEPS) return 0; /* too many by now? */
  return is_root(e, m);
}

/* Gives an orphan another `via`, if an edge comes from a member that has a path
** by what `has` says. */
static int find_path(mw_engine *e, mwi_member *m,
                     int (*has)(mw_engine *e, mwi_member *m)) {
  mwi_edge *i = m->node->ins;
  for (; i != NULL; i = i->next_in) {
    mwi_member *parent = beside(e, i->parent, m);
    if (parent != NULL && has(e, parent)) break; /* in the reach? */
  }
  m->via = i;
  return i != NULL;
}

/* Empties the list of orphans: each has a path now, or goes.  Goes outwards
** from them, so that a path close by is found before all members below are
** lost.  Then no member that has a `via` is below a lost one, so those that are
** lost look again. */
static void resolve(mw_engine *e) {
  mwi_tree *part = &e->tree;
  mwi_member *m;
  uint32_t first = 0;
  part->steps = 0;
  while ((m = part->orphans) != NULL) { /* more come meanwhile */
    part->orphans = get_member(e, m->chain);
    m->queued = 0;
    if (m->node == NULL) { /* gone meanwhile? */
      mwi_pool_give(&part->members, m->number, sizeof(mwi_member));
    } else if (m->via == NULL && !find_path(e, m, climbs)) { /* lost? */
      orphan_children(e, m);
      m->chain = first;
      first = m->number;
    }
  }
  part->steps = part->lost = 0;
  for (m = get_member(e, first); m != NULL; m = get_member(e, m->chain))
    if (!is_led(e, m) && find_path(e, m, is_led)) /* is there a path now? */
      spread(e, NULL, m->node, reach_of(e, m));
  while ((m = get_member(e, first)) != NULL) {
    mwi_node *n = m->node;
    first = m->chain;
    if (is_led(e, m)) continue; /* has it come back? */
    remove_member(e, m);
    leave_node(e, n, release_node);
  }
}

/* Ends a member that is a root no longer, or whose object is dead: what it has
** led to are orphans. */
static void drop_member(mw_engine *e, mwi_member *m) {
  mwi_node *n = m->node;
  mwi_reach *reach = reach_of(e, m);
  orphan_children(e, m);
  if (reach->root == m) { /* does the reach end with it? */
    reach->root = NULL;
    reach->obj = MW_NONE;
  }
  remove_member(e, m);
  leave_node(e, n, give_node);
}

static void end_root(mw_engine *e, mwi_member *m) {
  drop_member(e, m);
  resolve(e);
}

void mwi_tree_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  if (r == NULL || r->obj == MW_NONE) return; /* has it no record? */
  e->tree.forgets = 1; /* what only the dead held has left before */
  while (r->nodes != 0) drop_member(e, first_member(e, first_node(e, r)));
  e->tree.forgets = 0;
}

void mw_tree_resolve(mw_engine *e) {
  mwi_check_enter(e);
  if (e->tree.orphans != NULL) resolve(e);
}

void mwi_tree_release(mw_engine *e, mw_handle obj) {
  mwi_node *n = new_node(e, NULL, NULL, 0);
  if (n == NULL) return; /* no memory: it is not returned again */
  n->obj = obj;
  release_node(e, n);
}

mw_handle mwi_tree_released_since(mw_engine *e, uint32_t age) {
  mwi_node *n;
  mw_tree_resolve(e);
  while ((n = e->tree.released) != NULL && n->left > age) { /* newest first */
    mw_handle obj = n->obj;
    e->tree.released = n->next;
    give_node(e, n);
    if (mwi_identity_is_valid(&e->identity, obj) && !mw_tree_has(e, obj))
      return obj; /* it lives, and has not come back */
  }
  return MW_NONE;
}

mw_handle mw_tree_released(mw_engine *e) {
  return mwi_tree_released_since(e, 0);
}

int mw_tree_has_orphans(const mw_engine *e) {
  return e->tree.orphans != NULL || e->tree.released != NULL;
}

/* }====================================================== */

/* {======================================================
** Links
** ======================================================= */

/* Makes the edge from a node to a node of the child, if there is none; the
** members below come with it.  Without memory returns NULL: then the members
** that have come are orphans. */
static mwi_edge *need_edge(mw_engine *e, mwi_node *parent, mwi_object *child) {
  uint32_t depth = depth_below(parent);
  mwi_node *n = find_node(first_node(e, child), parent->graph, depth);
  mwi_edge *i = find_edge(e, parent, n);
  if (i != NULL) return i;
  if (n == NULL) n = new_node(e, child, parent->graph, depth); /* new there? */
  if (n == NULL) return NULL;
  i = new_edge(e, parent, n);
  if (i != NULL && spread(e, i, NULL, NULL)) return i; /* with all below? */
  if (i != NULL) end_edge(e, i); /* what has come is orphaned */
  leave_node(e, n, give_node);
  return NULL;
}

/* The orphans of the child take an edge that has begun to count. */
static void lead_orphans(mw_engine *e, mwi_edge *i) {
  mwi_member *m = get_member(e, i->child->members), *at;
  if (e->tree.orphans == NULL) return; /* do all have a path? */
  for (; m != NULL; m = get_member(e, m->next)) {
    at = is_led(e, m) ? NULL : beside(e, i->parent, m);
    if (at == NULL) continue; /* has it a path, or is no parent there? */
    while (at != m && at->via != NULL) at = beside(e, at->via->parent, at);
    if (at == m) continue; /* it would be a cycle */
    m->via = i;
    if (m->queued && e->tree.lost > 0) e->tree.lost--; /* it comes back */
  }
}

/* The field of the key holds the child; is it one more?  A name stays the hint,
** a place in a list does not. */
static void count(mw_engine *e, mwi_edge *i, const mw_value *key, int more) {
  uint32_t now = age_now(e);
  if (i->sure && (key->type != MW_TINTEGER || i->hint.type != MW_TINTEGER)) {
    i->others = now; /* not two places: the hint stays */
  } else {           /* the hint's field is one of the others now */
    if (i->count > 0 && i->age > i->others) i->others = i->age;
    i->age = now;
    set_hint(e, i, key);
  }
  e->tree.recent = i;
  if (more && i->count++ == 0) lead_orphans(e, i); /* the first field? */
}

enum {
  STORE, /* in nodes with linked fields one more holds the child */
  SCAN,  /* likewise in nodes whose fields are being linked */
  ADMIT, /* in those the child is let in, */
  COUNT  /* or, if it has been, one more holds it */
};

/* What a link is about. */
typedef struct linking {
  mw_reach reach; /* 0: the parent's nodes in graphs without a rule;
                  ** MWI_ANY_REACH: all of them */
  int how;
  const mw_value *key;
} linking;

/* Is the node in the graph for which a reach stands? */
static int is_in(const mw_engine *e, const mwi_node *n, mw_reach reach) {
  if (reach == MWI_ANY_REACH) return 1;
  if (reach != 0 && reach_at(e, reach)->rule != 0)
    return n->graph->number == reach;
  return n->graph->rule == 0; /* all without a rule are linked at once */
}

/* Does a link lead on from the node? */
static int is_meant(const mw_engine *e, const mwi_node *n, const linking *l) {
  return (l->how == STORE ? n->linked != 0 : n->scans) &&
         is_in(e, n, l->reach) && leads_on(n, l->key);
}

/* Unlinks the child with the first node `c` from the nodes from `n` up to
** `end`. */
static void unlink_from(mw_engine *e, const mwi_node *n, const mwi_node *end,
                        const linking *l, mwi_node *c) {
  for (; n != end; n = n->next) {
    mwi_edge *i = is_meant(e, n, l) ? find_edge(e, n, c) : NULL;
    if (i != NULL) uncount(e, i, l->key); /* was it let in there? */
  }
}

/* Links the child from all nodes of the parent that are meant, or none. */
static int link_all(mw_engine *e, mw_handle parent, const linking *l,
                    mw_handle child) {
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  mwi_object *c;
  mwi_node *first = first_node(e, r), *n;
  int code = MW_OK;
  mwi_check_enter(e);
  if (first == NULL || !mwi_identity_is_valid(&e->identity, child))
    return MW_STALE; /* no parent in the tree, or a dead child */
  c = mwi_object_need(e, child);
  if (c == NULL) return MW_NOMEM;
  for (n = first; n != NULL; n = n->next) {
    mwi_edge *i;
    int is_new;
    if (!is_meant(e, n, l)) continue;
    i = (l->how == COUNT) ? find_edge(e, n, first_node(e, c))
                          : need_edge(e, n, c);
    if (i == NULL && l->how != COUNT) { /* no memory? */
      if (l->how == STORE) unlink_from(e, first, n, l, first_node(e, c));
      mw_tree_resolve(e); /* what has come in part is new again */
      return MW_NOMEM;
    }
    if (i == NULL || l->how == ADMIT) continue; /* left out, or let in only? */
    is_new = i->count == 0;
    if (i->child->linked == 0 &&
        (l->how == STORE || (is_new && !i->child->scans)))
      code = MW_NEW; /* the host has still to scan it */
    count(e, i, l->key, is_new || key_in(n) == NULL); /* one key, one field */
  }
  return code;
}

int mw_tree_link(mw_engine *e, mw_reach reach, mw_handle parent,
                 const mw_value *key, mw_handle child) {
  linking l = {reach, STORE, key};
  e->tree.moves++;
  return link_all(e, parent, &l, child);
}

int mw_tree_scan_link(mw_engine *e, mw_reach reach, mw_handle parent,
                      const mw_value *key, mw_handle child) {
  linking l = {reach, (reach == MWI_ANY_REACH) ? COUNT : SCAN, key};
  return link_all(e, parent, &l, child);
}

int mwi_tree_admit(mw_engine *e, mw_reach reach, mw_handle parent,
                   const mw_value *key, mw_handle child) {
  linking l = {reach, ADMIT, key};
  return link_all(e, parent, &l, child);
}

void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key,
                    mw_handle child) {
  linking l = {MWI_ANY_REACH, STORE, key};
  mwi_check_enter(e);
  e->tree.moves++;
  unlink_from(e, nodes_of(e, parent), NULL, &l, nodes_of(e, child));
}

void mwi_tree_count(mw_engine *e, mw_handle parent, const mw_value *key,
                    mw_handle child, uint32_t fields, int here) {
  linking l = {MWI_ANY_REACH, STORE, key};
  mwi_node *c = nodes_of(e, child), *n = nodes_of(e, parent);
  for (; n != NULL; n = n->next) {
    mwi_edge *i = is_meant(e, n, &l) ? find_edge(e, n, c) : NULL;
    uint32_t now = (key_in(n) != NULL) ? here != 0 : fields; /* by one key? */
    if (i == NULL || i->count == now) continue; /* left out, or so already? */
    i->count = now & UINT32_MAX >> 1;
    i->sure = 0;
    i->age = i->others = age_now(e);
    if (now == 0) end_edge(e, i); /* does no field hold it? */
  }
}

int mw_tree_scan(mw_engine *e, mw_handle obj, mw_value *key) {
  mwi_node *n = nodes_of(e, obj);
  mwi_edge *i;
  int wanted = 0;
  for (; n != NULL; n = n->next) {
    const mw_value *its = key_in(n);
    if (n->linked != 0) continue; /* scanned before? */
    for (i = n->outs; i != NULL; i = i->next_out)
      i->count = i->sure = 0; /* a scan has failed? */
    n->scans = 1;
    if (is_end(n)) continue;
    if (its == NULL || (wanted && !mw_value_equal(key, its))) wanted = 2;
    if (wanted == 2) continue; /* any field? */
    *key = *its;
    wanted = 1;
  }
  return wanted;
}

void mw_tree_scanned(mw_engine *e, mw_handle obj) {
  mwi_node *n = nodes_of(e, obj);
  mwi_edge *i, *next;
  e->tree.scans++;
  for (; n != NULL; n = n->next) {
    if (!n->scans) continue; /* not in this scan? */
    n->scans = 0;
    n->linked = e->tree.scans;
    for (i = n->outs; i != NULL; i = next) {
      next = i->next_out;
      if (i->count == 0) end_edge(e, i); /* let in, but held no longer? */
    }
  }
}

int mwi_tree_scanned_since(const mw_engine *e, const mwi_object *r,
                           uint32_t number) {
  const mwi_node *n = first_node(e, r);
  while (n != NULL && n->linked <= number) n = n->next;
  return n != NULL;
}

int mwi_tree_look(const mw_engine *e, mw_reach reach, mw_handle parent,
                  const mw_value *key, mw_handle child) {
  mwi_node *c = (child == MW_NONE) ? NULL : nodes_of(e, child);
  mwi_node *n = nodes_of(e, parent);
  int bits = 0;
  for (; n != NULL; n = n->next) {
    if (!is_in(e, n, reach)) continue;
    if (n->graph->rule != 0) bits |= MWI_RULED;
    if (n->linked == 0) bits |= MWI_OPEN;
    if (n->refuses) bits |= MWI_REFUSES;
    if (key != NULL && leads_on(n, key)) bits |= MWI_LEADS;
    if (c != NULL && key_in(n) == NULL && find_edge(e, n, c) != NULL)
      bits |= MWI_HOLDS; /* where every key leads on */
  }
  return bits;
}

void mwi_tree_refuse(const mw_engine *e, mw_reach reach, mw_handle parent) {
  mwi_node *n = nodes_of(e, parent);
  for (; n != NULL; n = n->next)
    if (is_in(e, n, reach)) n->refuses = 1;
}

uint32_t mwi_tree_edge(const mw_engine *e, const mwi_object *r,
                       mw_handle child) {
  const mwi_node *n = first_node(e, r);
  mwi_node *c = nodes_of(e, child);
  const mwi_edge *i;
  if (n == NULL || n->graph->number != 0 || n->next != NULL) return 0;
  if (c == NULL || c->graph->number != 0 || c->linked == 0) return 0;
  i = find_edge(e, n, c); /* nothing to make, to ask or to scan */
  return (i == NULL) ? 0 : i->number;
}

void mwi_tree_add(mw_engine *e, uint32_t edge, const mw_value *key) {
  e->tree.moves++;
  count(e, edge_at(e, edge), key, 1);
}

void mw_tree_expel(mw_engine *e, mw_handle obj) {
  const mwi_node *n = nodes_of(e, obj);
  mwi_edge *i, *next;
  mwi_check_enter(e);
  for (; n != NULL; n = n->next)
    for (i = n->ins; i != NULL; i = next) {
      next = i->next_in;
      if (i->parent->obj != MW_NONE) end_edge(e, i); /* a silent root stays */
    }
}

/* }====================================================== */

/* {======================================================
** Roots
** ======================================================= */

mw_reach mw_tree_ruled(const mw_engine *e, mw_handle obj, mw_reach after,
                       mw_handle *root, uint32_t *rule) {
  const mwi_node *n = nodes_of(e, obj);
  uint64_t order = (after == 0) ? 0 : reach_at(e, after)->order;
  while (n != NULL && (n->graph->rule == 0 || n->graph->order <= order))
    n = n->next; /* without a rule, or found before? */
  if (n == NULL) return 0;
  *rule = n->graph->rule;
  *root = n->graph->obj;
  return n->graph->number;
}

uint32_t mw_reach_rule(const mw_engine *e, mw_reach reach, mw_handle *root) {
  const mwi_reach *its = reach_at(e, reach);
  *root = its->obj;
  return its->rule;
}

/* Returns the first of member `m` and the next ones of its object that is a
** root, NULL for none. */
static mwi_member *root_from(const mw_engine *e, mwi_member *m) {
  while (m != NULL && !is_root(e, m)) m = next_member(e, m);
  return m;
}

static mwi_member *next_root(const mw_engine *e, const mwi_member *m) {
  return root_from(e, next_member(e, m));
}

int mw_root_has_rule(const mw_engine *e, mw_handle obj, uint32_t rule) {
  mwi_member *m = root_from(e, first_member(e, nodes_of(e, obj)));
  while (m != NULL && reach_of(e, m)->rule != rule) m = next_root(e, m);
  return m != NULL;
}

/* Does a watch of the root, to whose reach member `m` belongs, hear of a write
** to the field of the object?  Of a write to the root its own lists hear. */
static int hears_of(const mw_engine *e, const mwi_member *m,
                    const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m);
  const mwi_object *r;
  if (reach->root == m || reach->kept == MWI_LOGGED) return 0;
  if (reach->graph != reach) { /* in the common graph? */
    r = mwi_object_find(&e->watch, reach->obj);
    return r != NULL && r->deep > 0; /* nobody hears the ground */
  }
  if (reach->heard == 0) return 0;          /* has it no watches? */
  if (!has_field(m->node, key)) return 0;   /* not the path's key here? */
  if (m->node->obj != reach->obj) return 1; /* not below itself? */
  /* the root is below itself: the root's own lists hear its first key */
  return !has_field(reach->root->node, key);
}

int mwi_tree_is_quiet(mw_engine *e, const mwi_object *r, const mw_value *key) {
  const mwi_member *m = first_member(e, first_node(e, r));
  while (m != NULL && !hears_of(e, m, key)) m = next_member(e, m);
  return m == NULL;
}

static const mw_filter no_filter = {0, NULL, 0, 0, 0};

/* Has the reach this filter? */
static int has_filter(const mwi_reach *its, const mw_filter *filter) {
  uint32_t i;
  if (its->rule != filter->rule || (int)its->kept != filter->kept ||
      its->n_keys != filter->n_keys)
    return 0;
  for (i = 0; i < its->n_keys; i++)
    if (its->keys[i].type != filter->keys[i].type ||
        !mw_value_equal(&its->keys[i], &filter->keys[i]))
      return 0;
  return 1;
}

/* Returns the member with which an object is the root of a reach with the
** filter, or NULL. */
static mwi_member *find_root(const mw_engine *e, mw_handle obj,
                             const mw_filter *filter) {
  mwi_member *m = root_from(e, first_member(e, nodes_of(e, obj)));
  while (m != NULL && !has_filter(reach_of(e, m), filter)) m = next_root(e, m);
  return m;
}

static mwi_member *own_root(const mw_engine *e, mw_handle obj) {
  return find_root(e, obj, &no_filter);
}

/* Makes a reach without members; returns NULL without memory. */
static mwi_reach *take_reach(mw_engine *e, mw_handle obj,
                             const mw_filter *filter) {
  mwi_tree *part = &e->tree;
  uint32_t number = mwi_pool_take(e, &part->reaches, sizeof(mwi_reach)), i;
  mwi_reach *its;
  if (number == 0) return NULL;
  its = reach_at(e, number);
  memset(its, 0, sizeof(*its));
  its->number = number;
  its->rule = filter->rule;
  its->graph = (filter->n_keys != 0 || filter->rule != 0) ? its : &part->common;
  its->obj = obj;
  its->order = ++part->order;
  its->kept = (uint32_t)filter->kept & 3;
  if (filter->n_keys == 0) return its; /* not of a path? */
  its->keys = (mw_value *)mwi_new(e, filter->n_keys * sizeof(*its->keys));
  if (its->keys == NULL) { /* no memory? */
    give_reach(e, its);
    return NULL;
  }
  for (i = its->n_keys = filter->n_keys; i-- > 0;) {
    its->keys[i] = filter->keys[i];
    mwi_host_retain(e, &its->keys[i]);
  }
  return its;
}

/* Makes a reach with a root, with NULL the ground.  What is below the root in
** the common graph is in the reach at once.  Returns NULL when there is no
** memory. */
static mwi_reach *new_reach(mw_engine *e, mwi_object *r,
                            const mw_filter *filter) {
  mwi_reach *its = take_reach(e, (r == NULL) ? MW_NONE : r->obj, filter);
  mwi_node *n;
  if (its == NULL) return NULL;
  n = find_node(first_node(e, r), its->graph, 0);
  if (n == NULL) n = new_node(e, r, its->graph, 0); /* not in the graph yet? */
  if (n != NULL)
    its->root = add_member(e, n, last_member(e, n, its->order), its, NULL);
  if (its->root == NULL) {
    if (n != NULL) leave_node(e, n, give_node); /* if it is new */
    give_reach(e, its);
    return NULL;
  }
  if (spread(e, NULL, n, its)) return its; /* with all below? */
  end_root(e, its->root);
  return NULL;
}

int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach) {
  return mw_root_begin_filtered(e, obj, &no_filter, reach);
}

void mwi_tree_end_roots(mw_engine *e, mw_handle obj, int kept,
                        const mwi_reach *except) {
  mwi_member *m = root_from(e, first_member(e, nodes_of(e, obj)));
  while (m != NULL) {
    const mwi_reach *its = reach_of(e, m);
    int ends = (int)its->kept == kept && !its->held &&
               (except == NULL ||
                (its->graph == its && its->heard == 0 && its != except));
    if (ends) end_root(e, m); /* its node may have gone, too */
    m = ends ? root_from(e, first_member(e, nodes_of(e, obj)))
             : next_root(e, m);
  }
}

/* Reaches that nobody hears end here, for a program may begin one after
** another. */
int mw_root_begin_filtered(mw_engine *e, mw_handle obj, const mw_filter *filter,
                           mw_reach *reach) {
  mwi_object *r;
  mwi_reach *its;
  mwi_member *m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  m = filter->kept == MWI_LOGGED ? NULL : find_root(e, obj, filter);
  if (m != NULL) { /* is there such a reach already? */
    *reach = m->reach;
    return MW_OK;
  }
  r = mwi_object_need(e, obj);
  its = (r == NULL) ? NULL : new_reach(e, r, filter); /* retains its keys */
  if (its == NULL) return MW_NOMEM;
  *reach = its->number;
  mwi_tree_end_roots(e, obj, 0, its);
  return MW_NEW;
}

int mw_reach_end(mw_engine *e, mw_reach reach) {
  mwi_check_enter(e);
  end_root(e, reach_at(e, reach)->root);
  return MW_OK;
}

int mw_root_end(mw_engine *e, mw_handle obj) {
  const mwi_member *m = own_root(e, obj);
  return (m == NULL) ? MW_STALE : mw_reach_end(e, m->reach);
}

uint32_t mwi_root_rule(const mw_engine *e, mw_handle obj, int kept) {
  mwi_member *m = root_from(e, first_member(e, nodes_of(e, obj)));
  while (m != NULL &&
         ((int)reach_of(e, m)->kept != kept || reach_of(e, m)->rule == 0))
    m = next_root(e, m); /* not kept so, or without a rule? */
  return (m == NULL) ? 0 : reach_of(e, m)->rule;
}

void mwi_reach_hear(mw_engine *e, uint32_t reach, int n) {
  reach_at(e, reach)->heard += (uint32_t)n;
}

void mwi_reach_hold(mw_engine *e, uint32_t reach, int n) {
  mwi_reach *its = reach_at(e, reach);
  its->held = (its->held + (uint32_t)n) & UINT32_MAX >> 3;
}

int mwi_reach_is_idle(const mw_engine *e, uint32_t reach) {
  const mwi_reach *its = reach_at(e, reach);
  const mwi_object *r = mwi_object_find(&e->watch, its->obj);
  return !its->held && (its->graph == its ? its->heard == 0 : r->deep == 0);
}

uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach) {
  return (reach != 0 && reach_at(e, reach)->graph->number != 0) ? reach : 0;
}

/* Returns the edge from the ground to a silent root, NULL for none. */
static mwi_edge *ground_edge(const mw_engine *e, mw_handle obj) {
  const mwi_reach *ground = e->tree.ground;
  if (ground == NULL) return NULL; /* was no root silent yet? */
  return find_edge(e, ground->root->node, nodes_of(e, obj));
}

int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach) {
  mwi_tree *part = &e->tree;
  mwi_object *r;
  mwi_edge *i;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (part->ground == NULL) part->ground = new_reach(e, NULL, &no_filter);
  r = mwi_object_need(e, obj);
  if (part->ground == NULL || r == NULL) return MW_NOMEM;
  *reach = part->ground->number;
  i = need_edge(e, part->ground->root->node, r);
  if (i == NULL) { /* no memory? */
    resolve(e);    /* what has come goes again */
    return MW_NOMEM;
  }
  i->count = 1;
  lead_orphans(e, i);
  return (i->child->linked == 0) ? MW_NEW : MW_OK; /* not scanned yet? */
}

int mw_root_end_silent(mw_engine *e, mw_handle obj) {
  mwi_edge *i = ground_edge(e, obj);
  mwi_check_enter(e);
  if (i == NULL) return MW_STALE; /* no silent root? */
  end_edge(e, i);
  resolve(e);
  return MW_OK;
}

uint32_t mwi_reach_news(const mw_engine *e, mw_reach reach,
                        const mw_handle **news) {
  const mwi_reach *its = reach_at(e, reach);
  *news = its->news;
  return its->missed ? MWI_MISSED : its->n_news;
}

void mwi_reach_read(mw_engine *e, mw_reach reach, uint32_t n) {
  mwi_reach *its = reach_at(e, reach);
  its->missed = its->missed && n != MWI_MISSED;
  if (n > its->n_news) n = its->n_news;
  its->n_news -= n;
  if (n > 0)
    memmove(its->news, its->news + n, its->n_news * sizeof(*its->news));
}

int mwi_reach_has(mw_engine *e, mw_reach reach, mw_handle obj) {
  return find_member(e, obj, reach_at(e, reach), NULL) != NULL;
}

int mw_tree_has(const mw_engine *e, mw_handle obj) {
  return nodes_of(e, obj) != NULL;
}

int mw_tree_is_below(const mw_engine *e, mw_handle obj) {
  const mwi_member *m = first_member(e, nodes_of(e, obj));
  while (m != NULL && reach_of(e, m)->obj == obj && !reach_of(e, m)->kept &&
         !reach_of(e, m)->held) /* its own root, for watches only? */
    m = next_member(e, m);
  return m != NULL;
}

/* }====================================================== */

/* {======================================================
** Upwards
** ======================================================= */

/* Returns whether there is a path to member `m`.  If the member has lost its
** path, looks for another one, and the member may go. */
static int resolve_member(mw_engine *e, mwi_member *m) {
  uint64_t changes = e->tree.changes;
  if (e->tree.orphans == NULL || climbs(e, m)) return 1; /* has it a path? */
  resolve(e);
  return e->tree.changes == changes; /* else it may have gone */
}

int mwi_tree_is_lost(mw_engine *e, const mwi_object *r) {
  mwi_member *m = first_member(e, first_node(e, r));
  if (e->tree.orphans == NULL || m == NULL) return 0; /* nothing lost? */
  while (m != NULL && !climbs(e, m)) m = next_member(e, m);
  if (m == NULL) resolve(e); /* no path in sight? */
  return r->nodes == 0;
}

/* As `find_member`, of a member to which there is a path. */
static mwi_member *resolved_member(mw_engine *e, mw_handle obj,
                                   const mwi_reach *reach,
                                   const mw_value *key) {
  mwi_member *m = find_member(e, obj, reach, key);
  if (m == NULL || resolve_member(e, m)) return m; /* none, or with a path? */
  return find_member(e, obj, reach, key);          /* is it there still? */
}

/* Returns the first of member `m` and the next ones of its node that hears of
** the write, and whose order is greater than that of the climb. */
static mwi_member *first_hearing(const mw_engine *e, mwi_member *m,
                                 const mw_value *key, const mwi_climb *climb) {
  while (m != NULL &&
         (reach_of(e, m)->order <= climb->order || !hears_of(e, m, key)))
    m = get_member(e, m->next); /* had its turn, or does not hear? */
  return m;
}

/* The members of the common node, and those of the other nodes, ascend: the
** next one is the less of two.  An object that is at several depths of a reach
** is heard of once. */
mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r, const mw_value *key,
                          mwi_climb *climb) {
  const mwi_reach *reach;
  mwi_member *m, *other;
  if (climb->newest == 0) climb->newest = e->tree.order; /* the first step? */
  do {
    if (climb->changes != e->tree.changes) { /* first, or changed since? */
      mwi_node *n = first_node(e, r);
      int is_common = n != NULL && n->graph->number == 0;
      climb->changes = e->tree.changes;
      climb->common = is_common ? get_member(e, n->members) : NULL;
      climb->node = is_common ? n->next : n;
    }
    m = climb->common = first_hearing(e, climb->common, key, climb);
    for (other = NULL; climb->node != NULL; climb->node = climb->node->next) {
      other = get_member(e, climb->node->members);
      if ((other = first_hearing(e, other, key, climb)) != NULL) break;
    }
    if (m == NULL ||
        (other != NULL && reach_of(e, other)->order < reach_of(e, m)->order))
      m = other; /* the older reach comes first */
    else
      climb->common = get_member(e, m->next);
    if (m == NULL) return NULL; /* have all heard? */
    reach = reach_of(e, m);
    if (reach->order > climb->newest) return NULL; /* began meanwhile? */
    climb->order = reach->order;
    if (!resolve_member(e, m)) {
      climb->order--; /* it may have found a path while others went */
      m = NULL;
    }
  } while (m == NULL);
  climb->member = m;
  return mwi_object_find(&e->watch, reach->obj);
}

int mwi_tree_is_watched(mw_engine *e, mwi_object *r) {
  mwi_member *m;
  mw_tree_resolve(e);
  for (m = first_member(e, first_node(e, r)); m != NULL;
       m = next_member(e, m)) {
    const mwi_reach *reach = reach_of(e, m);
    const mwi_object *root = mwi_object_find(&e->watch, reach->obj);
    if (root != NULL && root->watched && reach->kept != MWI_LOGGED) return 1;
  }
  return 0;
}

/* Searches upwards from node `n` for node `root`, all nodes at one distance
** before the nodes that are farther away; `toward` leads back. */
static void search_root(mwi_node *n, const mwi_node *root) {
  mwi_node *at, *last = n;
  mwi_edge *i;
  n->queue = NULL;
  n->waits = 1;
  for (at = n; !root->waits; at = at->queue)
    for (i = at->ins; i != NULL; i = i->next_in) {
      if (i->parent->waits) continue; /* reached before? */
      last = last->queue = i->parent;
      last->waits = 1;
      last->toward = i->number;
      last->queue = NULL;
    }
  for (at = n; at != NULL; at = at->queue) at->waits = 0;
}

/* Lets the path to member `m` be a shortest one; a path that is one stays. */
static void shorten(mw_engine *e, mwi_member *m) {
  mwi_tree *part = &e->tree;
  mwi_member *root = reach_of(e, m)->root, *at = m;
  const mwi_node *n;
  uint32_t far = 0, near = 0;
  mwi_edge *i;
  if (root == m) return;
  if (part->shortest == m && part->shortened == part->changes) return;
  for (; at->via != NULL; far++) at = beside(e, at->via->parent, at);
  if (far > 1) { /* else it is a shortest one */
    search_root(m->node, root->node);
    for (n = root->node; n != m->node; n = edge_at(e, n->toward)->child) near++;
    for (at = root; near < far && at != m; at->via = i) { /* is it longer? */
      i = edge_at(e, at->node->toward);
      at = beside(e, i->child, at);
    }
  }
  part->shortest = m;
  part->shortened = part->changes;
}

void mwi_tree_top(mw_engine *e, const mwi_climb *climb, mw_value *key) {
  mwi_member *m = climb->member;
  mwi_edge *i = NULL;
  for (shorten(e, m); m->via != NULL; m = beside(e, i->parent, m)) i = m->via;
  if (i != NULL) *key = *key_of(e, i); /* not the root itself? */
}

/* Finds the path to member `m`, and its first object below the ground. */
static uint32_t path_of(mw_engine *e, mwi_member *m, mw_handle *root,
                        mw_value *keys, uint32_t n) {
  uint32_t depth = 0;
  mwi_edge *i;
  *root = MW_NONE;
  if (m == NULL) return 0; /* not below the root? */
  shorten(e, m);
  for (; (i = m->via) != NULL && i->parent->obj != MW_NONE; depth++) {
    if (depth < n) keys[depth] = *key_of(e, i); /* is there room? */
    m = beside(e, i->parent, m);
  }
  *root = m->node->obj;
  return depth;
}

/* The reach of the change may have ended.  An object that is at several depths
** of a path was written where the key is the path's. */
uint32_t mw_change_path(mw_engine *e, const mw_change *change, mw_handle root,
                        mw_handle obj, mw_value *keys, uint32_t n) {
  const mw_value *key = (change->key.type == MW_TNIL) ? NULL : &change->key;
  const mwi_reach *its = NULL;
  mwi_check_enter(e);
  if (change->reach != 0) its = reach_at(e, change->reach); /* a deep call? */
  if (its == NULL || its->obj != root) /* no deep call, or ended since? */
    return mw_tree_path(e, root, obj, keys, n);
  return path_of(e, resolved_member(e, obj, its, key), &root, keys, n);
}

uint32_t mwi_change_depth(mw_engine *e, const mw_change *change, mw_handle obj,
                          uint32_t depth) {
  const mwi_reach *its = NULL;
  mwi_node *n = NULL;
  if (change->reach != 0) its = reach_at(e, change->reach);
  do {
    if (its != NULL) n = nodes_of(e, obj);
    while (n != NULL &&
           (n->graph != its || n->depth < depth || !has_field(n, &change->key)))
      n = n->next;
  } while (n != NULL && !resolve_member(e, member_at(e, n->members)));
  return (n == NULL) ? MWI_NO_DEPTH : n->depth;
}

uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                      mw_value *keys, uint32_t n) {
  mwi_member *m = own_root(e, root);
  if (m != NULL) m = resolved_member(e, obj, reach_of(e, m), NULL);
  return path_of(e, m, &root, keys, n);
}

uint32_t mw_tree_way(mw_engine *e, mw_handle obj, mw_handle *root,
                     mw_value *keys, uint32_t n) {
  mwi_member *m = first_member(e, nodes_of(e, obj));
  if (m != NULL && !resolve_member(e, m)) m = first_member(e, nodes_of(e, obj));
  return path_of(e, m, root, keys, n);
}

/* Returns the member that an object is in a reach that is not one of a path,
** NULL for none: in the object's own reach, or the ground's, or another one in
** the common graph, or one with a rule. */
static mwi_member *whole_member(const mw_engine *e, mw_handle obj) {
  mwi_member *m = own_root(e, obj);
  const mwi_node *n = nodes_of(e, obj);
  if (m != NULL) return m; /* a root of its own? */
  while (n != NULL && n->graph->n_keys != 0) n = n->next; /* of a path? */
  m = first_member(e, n);
  if (ground_edge(e, obj) != NULL) /* is it a silent root? */
    while (reach_of(e, m) != e->tree.ground) m = member_at(e, m->next);
  return m;
}

mw_reach mw_tree_reach(const mw_engine *e, mw_handle root) {
  const mwi_member *m = whole_member(e, root);
  return (m == NULL) ? 0 : m->reach;
}

/* Returns the member that `obj` is in the reach in which the search is for what
** is below `root`, NULL for none. */
static mwi_member *member_below(mw_engine *e, mw_handle root, mw_handle obj) {
  const mwi_member *m = whole_member(e, root);
  mwi_check_enter(e);
  if (m == NULL) m = first_member(e, nodes_of(e, root)); /* only in paths? */
  return (m == NULL) ? NULL : resolved_member(e, obj, reach_of(e, m), NULL);
}

uint32_t mw_tree_parents(mw_engine *e, mw_handle root, mw_handle obj,
                         mw_holder *holders, uint32_t n) {
  const mwi_member *m = member_below(e, root, obj);
  uint32_t known = 0;
  mwi_edge *i = (m == NULL) ? NULL : m->node->ins;
  for (; i != NULL; i = i->next_in) {
    if (i->parent->obj == MW_NONE) continue; /* the ground */
    if (known < n) {
      mw_holder *its = &holders[known];
      its->parent = i->parent->obj;
      its->key = *key_of(e, i);
      its->age = i->age;
      its->count = i->count;
      its->others = i->others;
    }
    known++;
  }
  return known;
}

uint32_t mw_tree_left(mw_engine *e, mw_handle root, mw_handle obj) {
  const mwi_member *m = member_below(e, root, obj);
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  if (m == NULL) return (r == NULL) ? 0 : r->gone; /* not below it? */
  return (m->came > m->node->left) ? m->came : m->node->left; /* the later */
}

/* }====================================================== */

/* {======================================================
** Ages
** ======================================================= */

uint32_t mw_age_end(mw_engine *e) {
  uint32_t age = age_now(e);
  mw_tree_resolve(e); /* what has gone went in this age */
  if (age < UINT32_MAX) e->stamp += UINT64_C(1) << 32; /* the last goes on */
  return age;
}

int mw_object_is_older(const mw_engine *e, mw_handle obj, uint32_t age) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return r == NULL || (mwi_stamp_age(r->stamp) <= age && age < UINT32_MAX);
}

/* }====================================================== */
