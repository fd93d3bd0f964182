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
** a graph of its own, where each node has one member.  A reach of a path has a
** *layer*, a graph, for each key of the path: the first layer has the root, and
** the edges from the nodes of a layer count the fields under the layer's key
** and lead to the next layer.  The layers of a reach have successive orders.
** The nodes of an object are in a list: the common one, then the others in the
** order of their reaches.
**
** Invariants of members: what an edge leads to from a member of a reach is a
** member of the reach (of its next layer).  Following `via` from a member leads
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

/* The common graph; a filtered reach is one itself. */
#define COMMON MWI_COMMON

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

/* Returns the reach of a member. */
static inline const mwi_reach *reach_of(const mw_engine *e, uint32_t m) {
  return reach_at(e, member_at(e, m)->reach);
}

static int is_root(const mw_engine *e, uint32_t m) {
  return reach_of(e, m)->root == m;
}

/* Has the member lost its path, and found none yet? */
static int is_lost(const mw_engine *e, uint32_t m) {
  return member_at(e, m)->via == 0 && !is_root(e, m);
}

/* Return the first member of an object, and the next one after `m`, in any
** graph; 0 for none. */
static uint32_t first_member(const mw_engine *e, const mwi_object *r) {
  return (r == NULL || r->nodes == 0) ? 0 : node_at(e, r->nodes)->members;
}

static uint32_t next_member(const mw_engine *e, uint32_t m) {
  uint32_t n = member_at(e, m)->next;
  if (n != 0) return n;
  n = node_at(e, member_at(e, m)->node)->next;
  return (n == 0) ? 0 : node_at(e, n)->members;
}

static uint32_t first_of(const mw_engine *e, mw_handle obj) {
  return first_member(e, mwi_object_find(&e->watch, obj));
}

/* Returns the last member of a node whose order is not greater than `order`; 0
** for none.  The search begins at the end (the first member's `prev` is the
** last), for a scan of a new root asks for the greatest order. */
static uint32_t last_member(const mw_engine *e, uint32_t n, uint64_t order) {
  uint32_t first = node_at(e, n)->members;
  uint32_t m = (first == 0) ? 0 : member_at(e, first)->prev;
  while (m != 0 && reach_of(e, m)->order > order)
    m = (m == first) ? 0 : member_at(e, m)->prev;
  return m;
}

/* Returns the member of a node in a reach of the node's graph, 0 for none.  The
** search begins with the member that the last search found, for at the end of a
** batch each root above an object looks for its member, in order. */
static uint32_t member_in(mw_engine *e, uint32_t n, uint32_t reach) {
  const mwi_node *its = node_at(e, n);
  uint32_t m = its->members, last;
  uint64_t order;
  if (m == 0 || its->graph != COMMON || member_at(e, m)->reach == reach)
    return m;
  last = member_at(e, m)->prev;
  if (member_at(e, last)->reach == reach) return last;
  order = reach_at(e, reach)->order;
  if (reach_of(e, last)->order < order) return 0;
  if (e->tree.found != 0 && member_at(e, e->tree.found)->node == n &&
      reach_of(e, e->tree.found)->order <= order)
    m = e->tree.found;
  while (reach_of(e, m)->order < order) m = member_at(e, m)->next;
  if (member_at(e, m)->reach != reach) return 0;
  return e->tree.found = m;
}

/* Returns the number of an object's node in a graph, 0 for none. */
static uint32_t find_node(const mw_engine *e, const mwi_object *r,
                          uint32_t graph) {
  uint32_t n = (r == NULL) ? 0 : r->nodes;
  while (n != 0 && node_at(e, n)->graph != graph) n = node_at(e, n)->next;
  return n;
}

static uint32_t graph_of(const mw_engine *e, uint32_t reach) {
  return reach_at(e, reach)->filtered ? reach : COMMON;
}

/* Returns the member of an object in a reach, 0 for none. */
static uint32_t find_member(mw_engine *e, mw_handle obj, uint32_t reach) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = find_node(e, r, graph_of(e, reach));
  return (n == 0) ? 0 : member_in(e, n, reach);
}

/* Returns the member from which, or to which, an edge leads in the reach of
** member `m`, which is at the other end; 0 for none. */
static uint32_t above(mw_engine *e, uint32_t i, uint32_t m) {
  return member_in(e, edge_at(e, i)->parent, member_at(e, m)->reach);
}

static uint32_t below(mw_engine *e, uint32_t i, uint32_t m) {
  return member_in(e, edge_at(e, i)->child, reach_of(e, m)->below);
}

/* Makes the node of an object in a graph, with NULL the ground's. */
static uint32_t new_node(mw_engine *e, mwi_object *r, uint32_t graph) {
  uint32_t n = mwi_pool_take(e, &e->tree.nodes, sizeof(mwi_node)), *at;
  mwi_node *its;
  if (n == 0) return 0;
  its = node_at(e, n);
  memset(its, 0, sizeof(*its));
  its->graph = graph;
  its->left = age_now(e);
  if (r == NULL) return n;
  its->obj = r->obj;
  r->needs |= MWI_TREE;
  at = &r->nodes;
  if (graph != COMMON)
    while (*at != 0 && (node_at(e, *at)->graph == COMMON ||
                        reach_at(e, node_at(e, *at)->graph)->order <
                            reach_at(e, graph)->order))
      at = &node_at(e, *at)->next;
  its->next = *at;
  *at = n;
  return n;
}

/* Returns the layer below a layer, 0 at the end. */
static uint32_t next_layer(const mw_engine *e, uint32_t layer) {
  uint32_t below = reach_at(e, layer)->below;
  return (below == layer) ? 0 : below;
}

/* Frees a reach with all its layers. */
static void give_reach(mw_engine *e, uint32_t top) {
  uint32_t i, next;
  for (i = top; i != 0; i = next) {
    mwi_reach *reach = reach_at(e, i);
    next = next_layer(e, i);
    if (reach->key.type != MW_TNIL) mwi_host_release(e, &reach->key);
    mwi_free(e, reach->news, reach->size_news * sizeof(*reach->news));
    reach->root = reach->top = 0;
    reach->logs = 0;
    reach->news = NULL;
    reach->size_news = 0;
    mwi_pool_give(&e->tree.reaches, i, sizeof(mwi_reach));
  }
}

/* The object has become a member of the reach, or is none any more.  As many as
** there are members a reader can as well look at. */
static void log_member(mw_engine *e, mwi_reach *its, mw_handle obj) {
  if (!its->logs || its->missed) return;
  its->missed = !mwi_grow(e, &its->news, its->n_news, &its->size_news);
  if (!its->missed) its->news[its->n_news++] = obj;
  if (its->n_news > its->n + FEW) its->missed = 1;
  if (its->missed) its->n_news = 0;
}

/* Makes a member of a node behind the member `before`, 0 for the first one;
** returns 0 without memory. */
static uint32_t add_member(mw_engine *e, uint32_t n, uint32_t before,
                           uint32_t reach, uint32_t via) {
  uint32_t m = mwi_pool_take(e, &e->tree.members, sizeof(mwi_member));
  mwi_node *node = node_at(e, n);
  mwi_reach *top = reach_at(e, reach_at(e, reach)->top);
  mwi_member *its;
  if (m == 0) return 0;
  its = member_at(e, m);
  memset(its, 0, sizeof(*its));
  its->node = n;
  its->reach = reach;
  its->via = via;
  its->came = age_now(e);
  its->next = (before != 0) ? member_at(e, before)->next : node->members;
  if (node->members == 0)
    its->prev = m;
  else if (before == 0 || its->next == 0)
    its->prev = member_at(e, node->members)->prev; /* the first, or the last */
  else
    its->prev = before;
  if (its->next != 0)
    member_at(e, its->next)->prev = m;
  else if (before != 0)
    member_at(e, node->members)->prev = m;
  *(before != 0 ? &member_at(e, before)->next : &node->members) = m;
  e->tree.version++;
  top->n++;
  log_member(e, top, node->obj);
  return m;
}

/* Takes a member from its node.  The orphans keep it until they are resolved.
*/
static void remove_member(mw_engine *e, uint32_t m) {
  mwi_member *its = member_at(e, m);
  mwi_node *node = node_at(e, its->node);
  mwi_object *r = mwi_object_find(&e->watch, node->obj);
  uint32_t number = reach_of(e, m)->top;
  mwi_reach *top = reach_at(e, number);
  e->tree.version++;
  if (r != NULL && !e->tree.forgets) r->gone = age_now(e);
  member_at(e, its->next != 0 ? its->next : node->members)->prev = its->prev;
  *(node->members != m ? &member_at(e, its->prev)->next : &node->members) =
      its->next;
  its->node = its->via = 0;
  if (!its->queued) mwi_pool_give(&e->tree.members, m, sizeof(mwi_member));
  top->n--;
  log_member(e, top, node->obj);
  if (top->n == 0 && top->root == 0) give_reach(e, number);
}

void mwi_tree_blocks(mw_engine *e, mwi_visit f) {
  const mwi_tree *part = &e->tree;
  uint32_t i;
  for (i = 1; i <= part->reaches.n; i++)
    f(e, reach_at(e, i)->news, reach_at(e, i)->size_news * sizeof(mw_handle));
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

/* Returns the edge between two nodes, 0 for none. */
static uint32_t find_edge(const mw_engine *e, uint32_t parent, uint32_t child) {
  const mwi_table *table = &e->tree.table;
  mwi_search at;
  uint32_t i = 0;
  if (child != 0) i = mwi_table_first(table, mwi_pair_hash(parent, child), &at);
  for (; i != 0; i = mwi_table_next(table, &at)) {
    const mwi_edge *its = edge_at(e, i);
    if (its->parent == parent && its->child == child) break;
  }
  return i;
}

static void queue_orphan(mw_engine *e, uint32_t m) {
  mwi_tree *part = &e->tree;
  mwi_member *its = member_at(e, m);
  its->via = 0;
  part->lost++;
  if (its->queued) return;
  its->queued = 1;
  its->chain = 0;
  if (part->orphans == 0) part->steps = 0;
  *(part->orphans != 0 ? &member_at(e, part->last)->chain : &part->orphans) = m;
  part->last = m;
}

/* The members to which an edge is on the path become orphans. */
static void lose_path(mw_engine *e, uint32_t i) {
  uint32_t m = node_at(e, edge_at(e, i)->child)->members;
  for (; m != 0; m = member_at(e, m)->next)
    if (member_at(e, m)->via == i) queue_orphan(e, m);
}

/* The members that come next on the paths through `m` become orphans. */
static void orphan_children(mw_engine *e, uint32_t m) {
  uint32_t i = node_at(e, member_at(e, m)->node)->outs;
  for (; i != 0; i = edge_at(e, i)->next_out) {
    uint32_t child = below(e, i, m);
    if (child != 0 && member_at(e, child)->via == i) queue_orphan(e, child);
  }
}

/* A node of the object has lost its last edge. */
static void clear_links(mw_engine *e, mw_handle obj) {
  mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = (r == NULL) ? 0 : r->nodes;
  while (n != 0 && node_at(e, n)->outs == 0) n = node_at(e, n)->next;
  if (r != NULL && n == 0) r->needs &= (uint16_t)~MWI_LINKS;
}

static void end_edge(mw_engine *e, uint32_t i) {
  mwi_edge *its = edge_at(e, i);
  mwi_node *parent = node_at(e, its->parent), *child = node_at(e, its->child);
  lose_path(e, i);
  mwi_table_take(&e->tree.table, mwi_pair_hash(its->parent, its->child), i);
  if (its->next_in != 0) edge_at(e, its->next_in)->prev_in = its->prev_in;
  *(its->prev_in != 0 ? &edge_at(e, its->prev_in)->next_in : &child->ins) =
      its->next_in;
  if (its->next_out != 0) edge_at(e, its->next_out)->prev_out = its->prev_out;
  *(its->prev_out != 0 ? &edge_at(e, its->prev_out)->next_out : &parent->outs) =
      its->next_out;
  if (parent->outs == 0) clear_links(e, parent->obj);
  if (its->hint.type != MW_TNIL) mwi_host_release(e, &its->hint);
  e->tree.changes++;
  mwi_pool_give(&e->tree.edges, i, sizeof(mwi_edge));
}

/* Makes an edge that counts nothing yet; returns 0 without memory. */
static uint32_t new_edge(mw_engine *e, uint32_t parent, uint32_t child) {
  mwi_node *p = node_at(e, parent), *c = node_at(e, child);
  mwi_edge *its;
  uint32_t i;
  if (!mwi_table_reserve(e, &e->tree.table, 1)) return 0;
  i = mwi_pool_take(e, &e->tree.edges, sizeof(mwi_edge));
  if (i == 0) return 0;
  its = edge_at(e, i);
  memset(its, 0, sizeof(*its));
  its->parent = parent;
  its->child = child;
  if ((its->next_in = c->ins) != 0) edge_at(e, its->next_in)->prev_in = i;
  c->ins = i;
  if ((its->next_out = p->outs) != 0) edge_at(e, its->next_out)->prev_out = i;
  p->outs = i;
  if (p->obj != MW_NONE) mwi_object_find(&e->watch, p->obj)->needs |= MWI_LINKS;
  mwi_table_put(e, &e->tree.table, mwi_pair_hash(parent, child), i);
  e->tree.changes++;
  return i;
}

static void set_hint(mw_engine *e, uint32_t i, const mw_value *key) {
  mwi_edge *its = edge_at(e, i);
  mw_value old = its->hint;
  mwi_host_retain(e, key);
  its->hint = *key;
  its->sure = 1;
  if (old.type != MW_TNIL) mwi_host_release(e, &old);
}

/* A field that held the child of the edge does so no longer. */
static void uncount(mw_engine *e, uint32_t i, const mw_value *key) {
  mwi_edge *its = edge_at(e, i);
  e->tree.left = node_at(e, its->child)->left = age_now(e);
  if (--its->count == 0) {
    end_edge(e, i);
  } else if (its->sure && mw_value_equal(&its->hint, key)) {
    its->sure = 0;
    its->age = its->others;
  }
}

/* Returns the key of a field that holds the child of the edge. */
static const mw_value *key_of(mw_engine *e, uint32_t i) {
  mwi_edge *its = edge_at(e, i);
  const mw_host *host = &e->watch.host;
  mw_value key = its->hint;
  if (!its->sure && host->key != NULL &&
      host->key(host->ud, node_at(e, its->parent)->obj,
                node_at(e, its->child)->obj, &key))
    set_hint(e, i, &key);
  return &its->hint;
}

/* A node without members goes, with its edges; perhaps it is released.  What
** the object holds may be below a root still, and has left the object.  What a
** dead one held has left before, in this age only if orphans wait. */
static void leave_node(mw_engine *e, uint32_t n, int is_released) {
  mwi_node *its = node_at(e, n);
  mwi_object *r = mwi_object_find(&e->watch, its->obj);
  uint32_t *at = (r == NULL) ? NULL : &r->nodes;
  if (its->members != 0) return;
  while (its->ins != 0) end_edge(e, its->ins);
  while (its->outs != 0) {
    mwi_node *child = node_at(e, edge_at(e, its->outs)->child);
    if (!e->tree.forgets || e->tree.orphans != 0) child->left = age_now(e);
    end_edge(e, its->outs);
  }
  if (r != NULL) {
    while (*at != n) at = &node_at(e, *at)->next;
    *at = its->next;
    if (r->nodes == 0) r->needs &= (uint16_t)~MWI_TREE;
  }
  if (is_released) {
    its->left = age_now(e);
    its->next = e->tree.released;
    e->tree.released = n;
  } else {
    mwi_pool_give(&e->tree.nodes, n, sizeof(mwi_node));
  }
}

/* }====================================================== */

/* {======================================================
** Orphans
** ======================================================= */

/* Begins a search for paths, in which no member is marked yet. */
static void begin_search(mw_engine *e) {
  mwi_tree *part = &e->tree;
  uint32_t m;
  if (++part->search < UINT32_MAX >> 1) return;
  for (m = 1; m <= part->members.n; m++) member_at(e, m)->seen = 0;
  part->search = 1;
}

/* Returns whether the member has a path.  A climb that finds no root marks its
** members, so that all climbs of a search together visit each member once. */
static int is_reached(mw_engine *e, uint32_t m) {
  uint32_t search = e->tree.search, at = m;
  while (member_at(e, at)->seen != search && member_at(e, at)->via != 0)
    at = above(e, member_at(e, at)->via, at);
  if (member_at(e, at)->seen != search && is_root(e, at)) return 1;
  while (member_at(e, m)->seen != search) {
    member_at(e, m)->seen = search & UINT32_MAX >> 1;
    if (member_at(e, m)->via != 0) m = above(e, member_at(e, m)->via, m);
  }
  return 0;
}

/* Gives an orphan another `via`, if an edge comes from a member with a path:
** then others that have been marked have one, too. */
static int find_path(mw_engine *e, uint32_t m) {
  uint32_t i = node_at(e, member_at(e, m)->node)->ins;
  for (; i != 0; i = edge_at(e, i)->next_in) {
    uint32_t parent = above(e, i, m);
    if (parent != 0 && is_reached(e, parent)) break;
  }
  member_at(e, m)->via = i;
  if (i != 0) begin_search(e);
  return i != 0;
}

/* Gives the lost members below `m`, which has a path again, a path from `m`.
** Walks down over lost members, and back by `via`. */
static void lead_on(mw_engine *e, uint32_t m) {
  uint32_t at = m, i = node_at(e, member_at(e, m)->node)->outs;
  while (i != 0 || at != m) {
    uint32_t child = (i == 0) ? 0 : below(e, i, at);
    if (i == 0) {
      i = member_at(e, at)->via;
      at = above(e, i, at);
      i = edge_at(e, i)->next_out;
    } else if (child != 0 && is_lost(e, child)) {
      at = child;
      member_at(e, at)->via = i;
      i = node_at(e, member_at(e, at)->node)->outs;
    } else {
      i = edge_at(e, i)->next_out;
    }
  }
}

/* Empties the list of orphans: each has a path now, or goes.  Goes outwards
** from them, so that a path close by is found before all members below are
** lost.  When a member looks for a path, others may not have looked yet, so in
** the end those that are lost look again; what has a path keeps it. */
static void resolve(mw_engine *e) {
  mwi_tree *part = &e->tree;
  uint32_t m, n, lost = 0;
  begin_search(e);
  for (; (m = part->orphans) != 0;) {
    mwi_member *its = member_at(e, m);
    part->orphans = its->chain;
    its->queued = 0;
    if (its->node == 0) mwi_pool_give(&part->members, m, sizeof(mwi_member));
    if (its->node == 0 || its->via != 0 || find_path(e, m)) continue;
    orphan_children(e, m);
    its->chain = lost;
    lost = m;
  }
  part->steps = part->lost = 0;
  begin_search(e);
  for (m = lost; m != 0; m = member_at(e, m)->chain)
    if (is_lost(e, m) && find_path(e, m)) lead_on(e, m);
  for (; (m = lost) != 0;) {
    lost = member_at(e, m)->chain;
    if (!is_lost(e, m)) continue;
    n = member_at(e, m)->node;
    remove_member(e, m);
    leave_node(e, n, 1);
  }
}

/* Ends a member that is a root no longer, or whose object is dead: what it has
** led to are orphans. */
static void drop_member(mw_engine *e, uint32_t m) {
  uint32_t n = member_at(e, m)->node;
  uint32_t i = is_root(e, m) ? member_at(e, m)->reach : 0;
  orphan_children(e, m);
  for (; i != 0; i = next_layer(e, i)) {
    reach_at(e, i)->root = 0;
    reach_at(e, i)->obj = MW_NONE;
  }
  remove_member(e, m);
  leave_node(e, n, 0);
}

static void end_root(mw_engine *e, uint32_t m) {
  drop_member(e, m);
  resolve(e);
}

void mwi_tree_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  if (r == NULL || r->obj == MW_NONE) return;
  e->tree.forgets = 1; /* what only the dead held has left before */
  while (r->nodes != 0) drop_member(e, first_member(e, r));
  e->tree.forgets = 0;
}

void mw_tree_resolve(mw_engine *e) {
  mwi_check_enter(e);
  if (e->tree.orphans != 0) resolve(e);
}

void mwi_tree_release(mw_engine *e, mw_handle obj) {
  uint32_t n = new_node(e, NULL, COMMON);
  if (n == 0) return;
  node_at(e, n)->obj = obj;
  node_at(e, n)->next = e->tree.released;
  e->tree.released = n;
}

mw_handle mwi_tree_released_since(mw_engine *e, uint32_t age) {
  uint32_t n;
  mw_tree_resolve(e);
  while ((n = e->tree.released) != 0 && node_at(e, n)->left > age) {
    mw_handle obj = node_at(e, n)->obj;
    e->tree.released = node_at(e, n)->next;
    mwi_pool_give(&e->tree.nodes, n, sizeof(mwi_node));
    if (mwi_identity_is_valid(&e->identity, obj) && !mw_tree_has(e, obj))
      return obj;
  }
  return MW_NONE;
}

mw_handle mw_tree_released(mw_engine *e) {
  return mwi_tree_released_since(e, 0);
}

int mw_tree_has_orphans(const mw_engine *e) {
  return e->tree.orphans != 0 || e->tree.released != 0;
}

/* }====================================================== */

/* {======================================================
** Links
** ======================================================= */

/* Has new members below: the node is put before the queue. */
static void enqueue(mw_engine *e, uint32_t *queue, uint32_t n) {
  mwi_node *its = node_at(e, n);
  if (its->waits || its->outs == 0) return;
  its->waits = 1;
  its->queue = *queue;
  *queue = n;
}

/* The child of an edge becomes a member wherever its parent is one: of the
** reaches with an order greater than `after`.  Returns 0 without memory. */
static int join(mw_engine *e, uint32_t i, uint64_t after, uint32_t *queue) {
  uint32_t parent = edge_at(e, i)->parent, child = edge_at(e, i)->child;
  uint32_t at = 0, next, m = last_member(e, parent, after);
  m = (m != 0) ? member_at(e, m)->next : node_at(e, parent)->members;
  for (; m != 0; m = member_at(e, m)->next) {
    uint32_t goal = reach_of(e, m)->below;
    uint64_t order = reach_at(e, goal)->order;
    if (at == 0) at = last_member(e, child, order);
    while (at != 0 && (next = member_at(e, at)->next) != 0 &&
           reach_of(e, next)->order <= order)
      at = next;
    if (at != 0 && member_at(e, at)->reach == goal) continue;
    at = add_member(e, child, at, goal, i);
    if (at == 0) return 0;
    enqueue(e, queue, child);
  }
  return 1;
}

/* What edge `i` (0: none) leads to, and what is below the nodes in the queue,
** become members with their parents. */
static int spread(mw_engine *e, uint32_t i, uint64_t after, uint32_t queue) {
  int ok = i == 0 || join(e, i, after, &queue);
  uint32_t n;
  while ((n = queue) != 0) {
    queue = node_at(e, n)->queue;
    node_at(e, n)->waits = 0;
    for (i = node_at(e, n)->outs; ok && i != 0; i = edge_at(e, i)->next_out)
      ok = join(e, i, after, &queue);
  }
  return ok;
}

/* Makes the edge from a node to the child's node in a graph, if there is none;
** the members below come with it.  Without memory returns 0: then the members
** that have come are orphans. */
static uint32_t need_edge(mw_engine *e, uint32_t parent, uint32_t graph,
                          mwi_object *child) {
  uint32_t n = find_node(e, child, graph), i = find_edge(e, parent, n);
  const mwi_reach *first = reach_of(e, node_at(e, parent)->members);
  if (i != 0) return i;
  if (n == 0) n = new_node(e, child, graph);
  if (n == 0) return 0;
  i = new_edge(e, parent, n);
  if (i != 0 && spread(e, i, first->order - 1, 0)) return i;
  if (i != 0) end_edge(e, i);
  leave_node(e, n, 0);
  return 0;
}

/* The orphans of the child take an edge that has begun to count. */
static void lead_orphans(mw_engine *e, uint32_t i) {
  uint32_t m = node_at(e, edge_at(e, i)->child)->members;
  if (e->tree.orphans == 0) return;
  for (; m != 0; m = member_at(e, m)->next) {
    mwi_member *its = member_at(e, m);
    uint32_t at = is_lost(e, m) ? above(e, i, m) : 0;
    if (at == 0) continue;
    while (at != m && member_at(e, at)->via != 0)
      at = above(e, member_at(e, at)->via, at);
    if (at == m) continue; /* it would be a cycle */
    its->via = i;
    if (its->queued && e->tree.lost > 0) e->tree.lost--; /* it comes back */
  }
}

/* The field of the key holds the child; is it one more?  A name stays the hint,
** a place in a list does not. */
static void count(mw_engine *e, uint32_t i, const mw_value *key, int more) {
  mwi_edge *its = edge_at(e, i);
  uint32_t now = age_now(e);
  if (its->sure &&
      (key->type != MW_TINTEGER || its->hint.type != MW_TINTEGER)) {
    its->others = now;
  } else {
    if (its->count > 0 && its->age > its->others) its->others = its->age;
    its->age = now;
    set_hint(e, i, key);
  }
  if (more) its->count++;
  lead_orphans(e, i);
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
static int is_in(const mw_engine *e, const mwi_node *node, mw_reach reach) {
  if (reach == MWI_ANY_REACH) return 1;
  if (reach != 0 && reach_at(e, reach)->rule != 0) return node->graph == reach;
  return node->graph == COMMON || reach_at(e, node->graph)->rule == 0;
}

/* Returns the only key that leads on from a node, NULL if any does. */
static const mw_value *key_in(const mw_engine *e, const mwi_node *node) {
  const mwi_reach *reach;
  if (node->graph == COMMON) return NULL;
  reach = reach_at(e, node->graph);
  return (reach->key.type == MW_TNIL) ? NULL : &reach->key;
}

/* Returns the graph of what leads on from a node, 0 if nothing does. */
static uint32_t graph_below(const mw_engine *e, const mwi_node *node) {
  return (node->graph == COMMON) ? COMMON : reach_at(e, node->graph)->below;
}

static int leads_on(const mw_engine *e, const mwi_node *node,
                    const mw_value *key) {
  const mw_value *its = key_in(e, node);
  return graph_below(e, node) != 0 && (its == NULL || mw_value_equal(its, key));
}

/* Returns the graph in which a link leads from a node, 0 for none. */
static uint32_t goal_of(const mw_engine *e, uint32_t n, const linking *l) {
  const mwi_node *node = node_at(e, n);
  if (l->how == STORE ? node->linked == 0 : !node->scans) return 0;
  if (!is_in(e, node, l->reach) || !leads_on(e, node, l->key)) return 0;
  return graph_below(e, node);
}

/* Returns the edge of a link from a node, 0 for none. */
static uint32_t edge_of(const mw_engine *e, uint32_t n, const linking *l,
                        const mwi_object *child) {
  uint32_t goal = goal_of(e, n, l);
  return (goal == 0) ? 0 : find_edge(e, n, find_node(e, child, goal));
}

/* Unlinks the child from the nodes from `n` up to `end`. */
static void unlink_from(mw_engine *e, uint32_t n, uint32_t end,
                        const linking *l, const mwi_object *child) {
  for (; n != end; n = node_at(e, n)->next) {
    uint32_t i = edge_of(e, n, l, child);
    if (i != 0) uncount(e, i, l->key);
  }
}

/* Links the child from all nodes of the parent that are meant, or none. */
static int link_all(mw_engine *e, mw_handle parent, const linking *l,
                    mw_handle child) {
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  mwi_object *c;
  uint32_t n;
  int code = MW_OK;
  mwi_check_enter(e);
  if (r == NULL || r->nodes == 0) return MW_STALE;
  if (!mwi_identity_is_valid(&e->identity, child)) return MW_STALE;
  c = mwi_object_need(e, child);
  if (c == NULL) return MW_NOMEM;
  for (n = r->nodes; n != 0; n = node_at(e, n)->next) {
    uint32_t goal = goal_of(e, n, l), i = 0;
    const mwi_node *its;
    int is_new;
    if (goal != 0 && l->how == COUNT)
      i = find_edge(e, n, find_node(e, c, goal));
    else if (goal != 0)
      i = need_edge(e, n, goal, c);
    if (i == 0 && goal != 0 && l->how != COUNT) {
      if (l->how == STORE) unlink_from(e, r->nodes, n, l, c);
      mw_tree_resolve(e);
      return MW_NOMEM;
    }
    if (i == 0 || l->how == ADMIT) continue;
    its = node_at(e, edge_at(e, i)->child);
    is_new = edge_at(e, i)->count == 0;
    if (its->linked == 0 && (l->how == STORE || (is_new && !its->scans)))
      code = MW_NEW;
    count(e, i, l->key, is_new || key_in(e, node_at(e, n)) == NULL);
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
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  const mwi_object *c = mwi_object_find(&e->watch, child);
  mwi_check_enter(e);
  e->tree.moves++;
  if (r != NULL && c != NULL) unlink_from(e, r->nodes, 0, &l, c);
}

void mwi_tree_count(mw_engine *e, mw_handle parent, const mw_value *key,
                    mw_handle child, uint32_t n, int here) {
  linking l = {MWI_ANY_REACH, STORE, key};
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  const mwi_object *c = mwi_object_find(&e->watch, child);
  uint32_t p = (r == NULL) ? 0 : r->nodes;
  for (; p != 0; p = node_at(e, p)->next) {
    uint32_t i = edge_of(e, p, &l, c), now = n;
    mwi_edge *its = (i == 0) ? NULL : edge_at(e, i);
    if (key_in(e, node_at(e, p)) != NULL) now = here != 0;
    if (its == NULL || its->count == now) continue;
    its->count = now & UINT32_MAX >> 1;
    its->sure = 0;
    its->age = its->others = age_now(e);
    if (now == 0) end_edge(e, i);
  }
}

int mw_tree_scan(mw_engine *e, mw_handle obj, mw_value *key) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = (r == NULL) ? 0 : r->nodes, i;
  int wanted = 0;
  for (; n != 0; n = node_at(e, n)->next) {
    mwi_node *node = node_at(e, n);
    const mw_value *its = key_in(e, node);
    if (node->linked != 0) continue;
    for (i = node->outs; i != 0; i = edge_at(e, i)->next_out)
      edge_at(e, i)->count = edge_at(e, i)->sure = 0; /* a scan has failed? */
    node->scans = 1;
    if (graph_below(e, node) == 0) continue;
    if (its == NULL || (wanted && !mw_value_equal(key, its))) wanted = 2;
    if (wanted == 2) continue;
    *key = *its;
    wanted = 1;
  }
  return wanted;
}

void mw_tree_scanned(mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = (r == NULL) ? 0 : r->nodes, number = ++e->tree.scans, i, next;
  for (; n != 0; n = node_at(e, n)->next) {
    mwi_node *node = node_at(e, n);
    if (!node->scans) continue;
    node->scans = 0;
    node->linked = number;
    for (i = node->outs; i != 0; i = next) {
      next = edge_at(e, i)->next_out;
      if (edge_at(e, i)->count == 0) end_edge(e, i);
    }
  }
}

int mwi_tree_scanned_since(const mw_engine *e, const mwi_object *r,
                           uint32_t number) {
  uint32_t n = r->nodes;
  while (n != 0 && node_at(e, n)->linked <= number) n = node_at(e, n)->next;
  return n != 0;
}

int mwi_tree_look(const mw_engine *e, mw_reach reach, mw_handle parent,
                  const mw_value *key, mw_handle child) {
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  const mwi_object *c = mwi_object_find(&e->watch, child);
  uint32_t n = (r == NULL) ? 0 : r->nodes;
  int bits = 0;
  for (; n != 0; n = node_at(e, n)->next) {
    const mwi_node *node = node_at(e, n);
    if (!is_in(e, node, reach)) continue;
    if (node->graph != COMMON && reach_at(e, node->graph)->rule != 0)
      bits |= MWI_RULED;
    if (node->linked == 0) bits |= MWI_OPEN;
    if (node->refuses) bits |= MWI_REFUSES;
    if (key != NULL && leads_on(e, node, key)) bits |= MWI_LEADS;
    if (c != NULL && key_in(e, node) == NULL &&
        find_edge(e, n, find_node(e, c, graph_below(e, node))) != 0)
      bits |= MWI_HOLDS;
  }
  return bits;
}

void mwi_tree_refuse(const mw_engine *e, mw_reach reach, mw_handle parent) {
  const mwi_object *r = mwi_object_find(&e->watch, parent);
  uint32_t n = (r == NULL) ? 0 : r->nodes;
  for (; n != 0; n = node_at(e, n)->next)
    if (is_in(e, node_at(e, n), reach)) node_at(e, n)->refuses = 1;
}

uint32_t mwi_tree_edge(const mw_engine *e, const mwi_object *r,
                       mw_handle child) {
  const mwi_object *c = mwi_object_find(&e->watch, child);
  const mwi_node *p, *n;
  if (r->nodes == 0 || c == NULL || c->nodes == 0) return 0;
  p = node_at(e, r->nodes);
  n = node_at(e, c->nodes);
  if (p->graph != COMMON || p->next != 0 || n->graph != COMMON) return 0;
  return (n->linked != 0) ? find_edge(e, r->nodes, c->nodes) : 0;
}

void mwi_tree_add(mw_engine *e, uint32_t edge, const mw_value *key) {
  e->tree.moves++;
  count(e, edge, key, 1);
}

void mw_tree_expel(mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = (r == NULL) ? 0 : r->nodes, i, next;
  mwi_check_enter(e);
  for (; n != 0; n = node_at(e, n)->next)
    for (i = node_at(e, n)->ins; i != 0; i = next) {
      next = edge_at(e, i)->next_in;
      if (node_at(e, edge_at(e, i)->parent)->obj != MW_NONE) end_edge(e, i);
    }
}

/* }====================================================== */

/* {======================================================
** Roots
** ======================================================= */

mw_reach mw_tree_ruled(const mw_engine *e, mw_handle obj, mw_reach after,
                       mw_handle *root, uint32_t *rule) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t n = (r == NULL) ? 0 : r->nodes;
  uint64_t order = (after == 0) ? 0 : reach_at(e, after)->order;
  for (; n != 0; n = node_at(e, n)->next) {
    uint32_t graph = node_at(e, n)->graph;
    if (graph == COMMON || reach_at(e, graph)->order <= order) continue;
    *rule = mw_reach_rule(e, graph, root);
    if (*rule != 0) return graph;
  }
  return 0;
}

uint32_t mw_reach_rule(const mw_engine *e, mw_reach reach, mw_handle *root) {
  const mwi_reach *its = reach_at(e, reach);
  *root = its->obj;
  return its->rule;
}

int mw_root_has_rule(const mw_engine *e, mw_handle obj, uint32_t rule) {
  uint32_t m = first_of(e, obj);
  while (m != 0 && !(is_root(e, m) && reach_of(e, m)->rule == rule))
    m = next_member(e, m);
  return m != 0;
}

/* Does a watch of the root, to whose reach member `m` belongs, hear of a write
** to the field of the object? */
static int hears_of(const mw_engine *e, uint32_t m, const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m), *top;
  const mwi_object *r;
  if (reach->root == m || reach->logs) return 0;
  if (!reach->filtered) {
    r = mwi_object_find(&e->watch, reach->obj);
    return r != NULL && r->deep > 0;
  }
  top = reach_at(e, reach->top);
  if (top->heard == 0) return 0;
  if (reach->key.type != MW_TNIL && !mw_value_equal(&reach->key, key)) return 0;
  if (node_at(e, member_at(e, m)->node)->obj != top->obj) return 1;
  /* the root is below itself: the root's own lists hear its first key */
  return top->key.type != MW_TNIL && !mw_value_equal(&top->key, key);
}

int mwi_tree_is_quiet(mw_engine *e, const mwi_object *r, const mw_value *key) {
  uint32_t n, m;
  for (n = r->nodes; n != 0; n = node_at(e, n)->next)
    for (m = node_at(e, n)->members; m != 0; m = member_at(e, m)->next)
      if (hears_of(e, m, key)) return 0;
  return 1;
}

static const mw_filter no_filter = {0, NULL, 0, 0, 0};

/* Has the reach this filter? */
static int has_filter(const mw_engine *e, uint32_t layer,
                      const mw_filter *filter) {
  const mwi_reach *reach = reach_at(e, layer);
  uint32_t n = filter->n_keys, i;
  if (reach->rule != filter->rule || (int)reach->kept != filter->kept ||
      (reach->below == layer) != (n == 0))
    return 0;
  for (i = 0; i < n && layer != 0; i++, layer = next_layer(e, layer)) {
    const mw_value *key = &reach_at(e, layer)->key;
    if (key->type != filter->keys[i].type ||
        !mw_value_equal(key, &filter->keys[i]))
      return 0;
  }
  return n == 0 || (i == n && layer == 0);
}

/* Returns the member with which an object is the root of a reach with the
** filter, or 0. */
static uint32_t find_root(const mw_engine *e, mw_handle obj,
                          const mw_filter *filter) {
  uint32_t m = first_of(e, obj);
  while (m != 0 &&
         !(is_root(e, m) && has_filter(e, member_at(e, m)->reach, filter)))
    m = next_member(e, m);
  return m;
}

static uint32_t own_root(const mw_engine *e, mw_handle obj) {
  return find_root(e, obj, &no_filter);
}

/* Makes the layers of a reach, the last layer first.  Returns the first layer,
** 0 when there is no memory. */
static uint32_t new_layers(mw_engine *e, mw_handle obj,
                           const mw_filter *filter) {
  mwi_tree *part = &e->tree;
  uint32_t n = (filter->n_keys == 0) ? 1 : filter->n_keys, top = 0, i;
  part->order += n;
  for (i = 0; i < n; i++) {
    uint32_t layer = mwi_pool_take(e, &part->reaches, sizeof(mwi_reach));
    mwi_reach *reach;
    if (layer == 0) {
      if (top != 0) give_reach(e, top);
      return 0;
    }
    reach = reach_at(e, layer);
    memset(reach, 0, sizeof(*reach));
    reach->below = (filter->n_keys == 0) ? layer : top;
    reach->rule = filter->rule;
    reach->filtered = filter->n_keys != 0 || filter->rule != 0;
    reach->kept = (uint32_t)filter->kept & 3;
    reach->logs = filter->kept == MWI_LOGGED;
    reach->order = part->order - i;
    reach->obj = obj;
    if (filter->n_keys != 0) reach->key = filter->keys[n - 1 - i];
    if (reach->key.type != MW_TNIL) mwi_host_retain(e, &reach->key);
    top = layer;
  }
  for (i = top; i != 0; i = next_layer(e, i)) reach_at(e, i)->top = top;
  return top;
}

/* Makes a reach with a root, with NULL the ground.  What is below the root in
** the common graph is in the reach at once.  Returns 0 when there is no
** memory. */
static uint32_t new_reach(mw_engine *e, mwi_object *r,
                          const mw_filter *filter) {
  uint32_t top = new_layers(e, (r == NULL) ? MW_NONE : r->obj, filter);
  uint32_t n, m = 0, queue = 0;
  uint64_t order;
  if (top == 0) return 0;
  order = reach_at(e, top)->order;
  n = find_node(e, r, graph_of(e, top));
  if (n == 0) n = new_node(e, r, graph_of(e, top));
  if (n != 0) m = add_member(e, n, last_member(e, n, order), top, 0);
  if (m == 0) {
    if (n != 0) leave_node(e, n, 0);
    give_reach(e, top);
    return 0;
  }
  reach_at(e, top)->root = m;
  enqueue(e, &queue, n);
  if (spread(e, 0, order - 1, queue)) return top;
  end_root(e, m);
  return 0;
}

int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach) {
  return mw_root_begin_filtered(e, obj, &no_filter, reach);
}

/* Ends the reaches of a root that are `kept` so; with a reach `except`, only
** those with a filter that nobody hears, but that one. */
static void end_roots(mw_engine *e, mw_handle obj, int kept, uint32_t except) {
  uint32_t m = first_of(e, obj);
  while (m != 0) {
    const mwi_reach *reach = reach_of(e, m);
    int ends = is_root(e, m) && (int)reach->kept == kept;
    if (except != 0)
      ends =
          ends && reach->filtered && reach->heard == 0 && reach->top != except;
    if (ends) end_root(e, m);
    m = ends ? first_of(e, obj) : next_member(e, m);
  }
}

/* Reaches that nobody hears end here, for a program may begin one after
** another. */
int mw_root_begin_filtered(mw_engine *e, mw_handle obj, const mw_filter *filter,
                           mw_reach *reach) {
  mwi_object *r;
  uint32_t m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  m = filter->kept == MWI_LOGGED ? 0 : find_root(e, obj, filter);
  if (m != 0) {
    *reach = member_at(e, m)->reach;
    return MW_OK;
  }
  r = mwi_object_need(e, obj);
  *reach = (r == NULL) ? 0 : new_reach(e, r, filter); /* retains its keys */
  if (*reach == 0) return MW_NOMEM;
  end_roots(e, obj, 0, *reach);
  return MW_NEW;
}

int mw_reach_end(mw_engine *e, mw_reach reach) {
  mwi_check_enter(e);
  end_root(e, reach_at(e, reach)->root);
  return MW_OK;
}

int mw_root_end(mw_engine *e, mw_handle obj) {
  uint32_t m = own_root(e, obj);
  return (m == 0) ? MW_STALE : mw_reach_end(e, member_at(e, m)->reach);
}

void mwi_tree_end_roots(mw_engine *e, mw_handle obj, int kept) {
  end_roots(e, obj, kept, 0);
}

uint32_t mwi_root_rule(const mw_engine *e, mw_handle obj, int kept) {
  uint32_t m = first_of(e, obj);
  while (m != 0 && !(is_root(e, m) && (int)reach_of(e, m)->kept == kept &&
                     reach_of(e, m)->rule != 0))
    m = next_member(e, m);
  return (m == 0) ? 0 : reach_of(e, m)->rule;
}

void mwi_reach_hear(mw_engine *e, uint32_t reach, int n) {
  mwi_reach *its = reach_at(e, reach);
  its->heard += (uint32_t)n;
}

uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach) {
  return (reach != 0 && reach_at(e, reach)->filtered) ? reach : 0;
}

/* Returns the ground's node; there must be a ground. */
static uint32_t ground_node(const mw_engine *e) {
  return member_at(e, reach_at(e, e->tree.ground)->root)->node;
}

/* Returns the edge from the ground to a silent root, 0 for none. */
static uint32_t ground_edge(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  if (e->tree.ground == 0) return 0;
  return find_edge(e, ground_node(e), find_node(e, r, COMMON));
}

int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach) {
  mwi_tree *part = &e->tree;
  mwi_object *r;
  uint32_t i;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (part->ground == 0) part->ground = new_reach(e, NULL, &no_filter);
  r = mwi_object_need(e, obj);
  if (part->ground == 0 || r == NULL) return MW_NOMEM;
  *reach = part->ground;
  i = need_edge(e, ground_node(e), COMMON, r);
  if (i == 0) {
    resolve(e);
    return MW_NOMEM;
  }
  edge_at(e, i)->count = 1;
  lead_orphans(e, i);
  return (node_at(e, edge_at(e, i)->child)->linked == 0) ? MW_NEW : MW_OK;
}

int mw_root_end_silent(mw_engine *e, mw_handle obj) {
  uint32_t i = ground_edge(e, obj);
  mwi_check_enter(e);
  if (i == 0) return MW_STALE;
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
  its->n_news = (n < its->n_news) ? its->n_news - n : 0;
  memmove(its->news, its->news + n, its->n_news * sizeof(*its->news));
}

int mwi_reach_has(mw_engine *e, mw_reach reach, mw_handle obj) {
  return find_member(e, obj, reach) != 0;
}

int mw_tree_has(const mw_engine *e, mw_handle obj) {
  return first_of(e, obj) != 0;
}

int mw_tree_is_below(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_of(e, obj);
  while (m != 0 && reach_of(e, m)->obj == obj && !reach_of(e, m)->kept)
    m = next_member(e, m);
  return m != 0;
}

/* }====================================================== */

/* {======================================================
** Upwards
** ======================================================= */

/* While there are orphans, each look at a path is a climb: so many steps are
** made before the orphans are resolved in any case. */
#define STEPS 20000

/* Returns whether member `m` has a path, or is not to be looked at again before
** the orphans are resolved. */
static int climbs(mw_engine *e, uint32_t m) {
  while (member_at(e, m)->via != 0) {
    m = above(e, member_at(e, m)->via, m);
    if (++e->tree.steps > STEPS) return 0;
  }
  return is_root(e, m);
}

/* Returns whether there is a path to member `m`.  If the member has lost its
** path, looks for another one, and the member may go. */
static int resolve_member(mw_engine *e, uint32_t m) {
  uint32_t version = e->tree.version;
  if (e->tree.orphans == 0 || climbs(e, m)) return 1;
  resolve(e);
  return e->tree.version == version;
}

int mwi_tree_is_lost(mw_engine *e, const mwi_object *r) {
  uint32_t m = first_member(e, r);
  if (e->tree.orphans == 0 || m == 0) return 0;
  while (m != 0 && !climbs(e, m)) m = next_member(e, m);
  if (m == 0) resolve(e);
  return r->nodes == 0;
}

/* Returns the member that `obj` is in a reach if there is a path to it, else
** 0. */
static uint32_t resolved_member(mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = find_member(e, obj, reach);
  return (m == 0 || resolve_member(e, m)) ? m : find_member(e, obj, reach);
}

/* Returns the first of member `m` and the next ones of its node that hears of
** the write, and whose order is greater than that of the climb. */
static uint32_t first_hearing(const mw_engine *e, uint32_t m,
                              const mw_value *key, const mwi_climb *climb) {
  while (m != 0 &&
         (reach_of(e, m)->order <= climb->order || !hears_of(e, m, key)))
    m = member_at(e, m)->next;
  return m;
}

mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r, const mw_value *key,
                           mwi_climb *climb) {
  climb->top = 0;
  climb->order = 0;
  climb->newest = e->tree.order;
  climb->version = e->tree.version + 1;
  return mwi_tree_next(e, r, key, climb);
}

/* The members of the common node, and those of the other nodes, ascend: the
** next one is the less of two.  An object that is in several layers of a reach
** is heard of once. */
mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r, const mw_value *key,
                          mwi_climb *climb) {
  const mwi_reach *reach;
  uint32_t m, n;
  do {
    if (climb->version != e->tree.version) {
      climb->version = e->tree.version;
      climb->common = 0;
      climb->node = n = r->nodes;
      if (n != 0 && node_at(e, n)->graph == COMMON) {
        climb->common = node_at(e, n)->members;
        climb->node = node_at(e, n)->next;
      }
    }
    m = climb->common = first_hearing(e, climb->common, key, climb);
    for (n = climb->node; n != 0; n = node_at(e, n)->next)
      if (first_hearing(e, node_at(e, n)->members, key, climb) != 0) break;
    climb->node = n;
    if (n != 0) n = node_at(e, n)->members;
    if (m == 0 || (n != 0 && reach_of(e, n)->order < reach_of(e, m)->order))
      m = n;
    else
      climb->common = member_at(e, m)->next;
    if (m == 0) return NULL;
    reach = reach_of(e, m);
    if (reach->order > climb->newest) return NULL;
    climb->order = reach->order;
    if (e->tree.orphans != 0 && reach->top != climb->top &&
        !resolve_member(e, m)) {
      climb->order--; /* it may have found a path while others went */
      m = 0;
    }
  } while (m == 0 || reach->top == climb->top);
  climb->member = m;
  climb->top = reach->top;
  climb->filter = reach->filtered ? reach->top : 0;
  return mwi_object_find(&e->watch, reach->obj);
}

int mwi_tree_is_watched(mw_engine *e, mwi_object *r) {
  uint32_t m;
  if (e->tree.orphans != 0) resolve(e);
  for (m = first_member(e, r); m != 0; m = next_member(e, m)) {
    const mwi_object *root = mwi_object_find(&e->watch, reach_of(e, m)->obj);
    if (root != NULL && root->watched && !reach_of(e, m)->logs) return 1;
  }
  return 0;
}

/* Searches upwards from node `n` for node `root`, all nodes at one distance
** before the nodes that are farther away; at most `far` steps.  Returns the
** distance, or `far`. */
static uint32_t search_root(mw_engine *e, uint32_t n, uint32_t root,
                            uint32_t far) {
  uint32_t at, last = n, end = n, depth = 1, found = far, i;
  node_at(e, n)->queue = 0;
  node_at(e, n)->waits = 1;
  for (at = n; at != 0 && depth < far && found == far;
       at = node_at(e, at)->queue) {
    for (i = node_at(e, at)->ins; i != 0; i = edge_at(e, i)->next_in) {
      uint32_t parent = edge_at(e, i)->parent;
      mwi_node *node = node_at(e, parent);
      if (node->waits) continue;
      node->waits = 1;
      node->toward = i;
      node->queue = 0;
      node_at(e, last)->queue = parent;
      last = parent;
      if (parent == root) found = depth;
    }
    if (at != end) continue;
    end = last;
    depth++;
  }
  for (at = n; at != 0; at = node_at(e, at)->queue) node_at(e, at)->waits = 0;
  return found;
}

/* Lets the path to member `m` be a shortest one; a path that is one stays. */
static void shorten(mw_engine *e, uint32_t m) {
  mwi_tree *part = &e->tree;
  uint32_t root = reach_at(e, reach_of(e, m)->top)->root, at, far = 0;
  if (root == m) return;
  if (part->shortest == m && part->shortened == part->changes) return;
  for (at = m; member_at(e, at)->via != 0; far++)
    at = above(e, member_at(e, at)->via, at);
  if (far > 1 && search_root(e, member_at(e, m)->node, member_at(e, root)->node,
                             far) < far)
    for (at = root; at != m;) {
      uint32_t i = node_at(e, member_at(e, at)->node)->toward;
      at = below(e, i, at);
      member_at(e, at)->via = i;
    }
  part->shortest = m;
  part->shortened = part->changes;
}

void mwi_tree_top(mw_engine *e, const mwi_climb *climb, mw_value *key) {
  uint32_t m = climb->member, i = 0;
  shorten(e, m);
  while (member_at(e, m)->via != 0) {
    i = member_at(e, m)->via;
    m = above(e, i, m);
  }
  if (i != 0) *key = *key_of(e, i);
}

/* Finds the path to member `m`, and its first object below the ground. */
static uint32_t path_of(mw_engine *e, uint32_t m, mw_handle *root,
                        mw_value *keys, uint32_t n) {
  uint32_t depth = 0, i;
  *root = MW_NONE;
  if (m == 0) return 0;
  shorten(e, m);
  for (; (i = member_at(e, m)->via) != 0; depth++) {
    if (node_at(e, edge_at(e, i)->parent)->obj == MW_NONE) break;
    if (depth < n) keys[depth] = *key_of(e, i);
    m = above(e, i, m);
  }
  *root = node_at(e, member_at(e, m)->node)->obj;
  return depth;
}

/* Returns the first member of an object in the layers of a reach that is not
** the root's, 0 for none. */
static uint32_t first_in(const mw_engine *e, mw_handle obj, uint32_t top) {
  uint32_t m = first_of(e, obj);
  while (m != 0 && (reach_of(e, m)->top != top || is_root(e, m)))
    m = next_member(e, m);
  return m;
}

uint32_t mw_change_path(mw_engine *e, const mw_change *change, mw_handle root,
                        mw_handle obj, mw_value *keys, uint32_t n) {
  uint32_t m = change->node;
  mwi_check_enter(e);
  if (m == 0 || m > e->tree.members.n || member_at(e, m)->node == 0 ||
      node_at(e, member_at(e, m)->node)->obj != obj ||
      reach_of(e, m)->obj != root || !resolve_member(e, m)) {
    /* the tree has changed */
    if (change->reach == 0 || reach_at(e, change->reach)->root == 0)
      return mw_tree_path(e, root, obj, keys, n);
    m = first_in(e, obj, change->reach);
    if (m != 0 && !resolve_member(e, m)) m = 0;
  }
  return path_of(e, m, &root, keys, n);
}

uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                      mw_value *keys, uint32_t n) {
  uint32_t m = own_root(e, root);
  if (m == 0 || obj == root) return 0;
  m = resolved_member(e, obj, member_at(e, m)->reach);
  return path_of(e, m, &root, keys, n);
}

uint32_t mw_tree_way(mw_engine *e, mw_handle obj, mw_handle *root,
                     mw_value *keys, uint32_t n) {
  uint32_t m = first_of(e, obj);
  if (m != 0 && !resolve_member(e, m)) m = first_of(e, obj);
  return path_of(e, m, root, keys, n);
}

/* Returns the member that an object is in a reach that is not one of a path, 0
** for none: in the object's own reach, or the ground's, or another one in the
** common graph, or one with a rule. */
static uint32_t whole_member(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t m = own_root(e, obj), n = (r == NULL) ? 0 : r->nodes;
  while (n != 0 && node_at(e, n)->graph != COMMON &&
         reach_at(e, node_at(e, n)->graph)->below != node_at(e, n)->graph)
    n = node_at(e, n)->next;
  if (m != 0 || n == 0) return m;
  m = node_at(e, n)->members;
  if (ground_edge(e, obj) != 0)
    while (member_at(e, m)->reach != e->tree.ground) m = member_at(e, m)->next;
  return m;
}

mw_reach mw_tree_reach(const mw_engine *e, mw_handle root) {
  uint32_t m = whole_member(e, root);
  return (m == 0) ? 0 : member_at(e, m)->reach;
}

/* Returns the member that `obj` is in the reach in which the search is for what
** is below `root`, 0 for none. */
static uint32_t member_below(mw_engine *e, mw_handle root, mw_handle obj) {
  uint32_t m = whole_member(e, root);
  mwi_check_enter(e);
  if (m == 0) m = first_of(e, root);
  return (m == 0) ? 0 : resolved_member(e, obj, member_at(e, m)->reach);
}

uint32_t mw_tree_parents(mw_engine *e, mw_handle root, mw_handle obj,
                         mw_holder *holders, uint32_t n) {
  uint32_t m = member_below(e, root, obj), known = 0, i;
  i = (m == 0) ? 0 : node_at(e, member_at(e, m)->node)->ins;
  for (; i != 0; i = edge_at(e, i)->next_in) {
    const mwi_edge *its = edge_at(e, i);
    mw_handle parent = node_at(e, its->parent)->obj;
    if (parent == MW_NONE) continue; /* the ground */
    if (known < n) {
      holders[known].parent = parent;
      holders[known].key = *key_of(e, i);
      holders[known].age = its->age;
      holders[known].count = its->count;
      holders[known].others = its->others;
    }
    known++;
  }
  return known;
}

uint32_t mw_tree_left(mw_engine *e, mw_handle root, mw_handle obj) {
  uint32_t m = member_below(e, root, obj), left, came;
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  if (m == 0) return (r == NULL) ? 0 : r->gone;
  left = node_at(e, member_at(e, m)->node)->left;
  came = member_at(e, m)->came;
  return (came > left) ? came : left;
}

/* }====================================================== */

/* {======================================================
** Ages
** ======================================================= */

uint32_t mw_age_end(mw_engine *e) {
  uint32_t age = age_now(e);
  mw_tree_resolve(e); /* what has gone went in this age */
  if (age < UINT32_MAX) e->stamp += UINT64_C(1) << 32;
  return age;
}

int mw_object_is_older(const mw_engine *e, mw_handle obj, uint32_t age) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return r == NULL || (mwi_stamp_age(r->stamp) <= age && age < UINT32_MAX);
}

/* }====================================================== */
