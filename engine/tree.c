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
** are of one graph: an object has one node there and a member for each reach,
** and a further root adds members only.  Silent roots share one reach: they are
** below the *ground*, a root without an object.  The members of an object are
** in a list that ascends by the reach's `order`, so in the order in which the
** roots began.
**
** A *filtered* reach has only what its rule allows or its path names, so it is
** a graph of its own, where each node has one member.  A reach of a path has a
** *layer* for each key of the path: the first layer has the root, and the edges
** from the nodes of a layer count the fields under the layer's key and lead to
** the next layer.  An object may have a node in each layer.  The layers of a
** reach have successive orders.
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
** as `via`, if it comes from a member with a path; otherwise the orphan has no
** path, and each member whose `via` comes from the orphan becomes an orphan
** too.  The orphans left at the end go; a node without members is released.
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

/* Returns the reach of a member. */
static const mwi_reach *reach_of(const mw_engine *e, uint32_t m) {
  return reach_at(e, member_at(e, m)->reach);
}

/* Returns the node of a member that has one. */
static mwi_node *node_of(const mw_engine *e, uint32_t m) {
  return node_at(e, member_at(e, m)->node);
}

static int is_root(const mw_engine *e, uint32_t m) {
  return reach_of(e, m)->root == m;
}

/* Returns the first member of an object, 0 when the object has none. */
static uint32_t first_member(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return (r == NULL) ? 0 : r->nodes;
}

/* Returns the last member of an object whose order is not greater than `order`;
** 0 for none.  The search begins at the end (the first member's `prev` is the
** last), for a scan of a new root asks for the greatest order. */
static uint32_t last_member(const mw_engine *e, const mwi_object *r,
                            uint64_t order) {
  uint32_t m = (r->nodes == 0) ? 0 : member_at(e, r->nodes)->prev;
  while (m != 0 && reach_of(e, m)->order > order)
    m = (m == r->nodes) ? 0 : member_at(e, m)->prev;
  return m;
}

/* Returns the member of an object in a reach, or 0.  The search begins with the
** member that the last search found, for at the end of a batch each root above
** an object looks for its member, in order. */
static uint32_t find_member(mw_engine *e, mw_handle obj, uint32_t reach) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint64_t order;
  uint32_t m, last;
  if (r == NULL || r->nodes == 0) return 0;
  if (member_at(e, r->nodes)->reach == reach) return r->nodes;
  last = member_at(e, r->nodes)->prev;
  if (member_at(e, last)->reach == reach) return last;
  order = reach_at(e, reach)->order;
  if (reach_of(e, last)->order < order) return 0;
  m = e->tree.found;
  if (m == 0 || member_at(e, m)->node == 0 || node_of(e, m)->obj != obj ||
      reach_of(e, m)->order > order)
    m = r->nodes;
  while (reach_of(e, m)->order < order) m = member_at(e, m)->next;
  if (member_at(e, m)->reach != reach) return 0;
  return e->tree.found = m;
}

/* Returns the number of an object's node in the graph of a reach, 0 for none.
*/
static uint32_t find_node(const mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = first_member(e, obj);
  int filtered = reach_at(e, reach)->filtered;
  while (m != 0 && (filtered ? member_at(e, m)->reach != reach
                             : reach_of(e, m)->filtered))
    m = member_at(e, m)->next;
  return (m == 0) ? 0 : member_at(e, m)->node;
}

/* Returns the first member of the object's next node after that of `m`: all
** members in the common graph count once. */
static uint32_t next_node(const mw_engine *e, uint32_t m, int *common) {
  *common |= !reach_of(e, m)->filtered;
  do m = member_at(e, m)->next;
  while (m != 0 && *common && !reach_of(e, m)->filtered);
  return m;
}

/* Returns the member from which, or to which, an edge leads in the reach of
** member `m`, which is at the other end; 0 for none. */
static uint32_t above(mw_engine *e, uint32_t i, uint32_t m) {
  const mwi_node *parent = node_at(e, edge_at(e, i)->parent);
  uint32_t reach = member_at(e, m)->reach;
  if (parent->only == 0) return find_member(e, parent->obj, reach);
  return (reach_of(e, parent->only)->below == reach) ? parent->only : 0;
}

static uint32_t below(mw_engine *e, uint32_t i, uint32_t m) {
  const mwi_node *child = node_at(e, edge_at(e, i)->child);
  return (child->only != 0) ? child->only
                            : find_member(e, child->obj, reach_of(e, m)->below);
}

/* The object has become a member of the reach, or is none any more.  As many as
** there are members a reader can as well look at. */
static void log_member(mw_engine *e, uint32_t reach, mw_handle obj, int n) {
  mwi_reach *its = reach_at(e, reach);
  mw_handle *news = its->news;
  if (!its->logs) return;
  its->n += (uint32_t)n;
  if (its->missed) return;
  news = (mw_handle *)mwi_grow(e, its->news, its->n_news, &its->size_news,
                               sizeof(*news));
  if (news != NULL) {
    its->news = news;
    its->news[its->n_news++] = obj;
  }
  its->missed = news == NULL || its->n_news > its->n + FEW;
  if (its->missed) its->n_news = 0;
}

static void begin_member(mw_engine *e, uint32_t m, uint32_t n, uint32_t reach) {
  mwi_node *node = node_at(e, n);
  mwi_object *r = mwi_object_find(&e->watch, node->obj);
  mwi_member *its = member_at(e, m);
  uint32_t before;
  memset(its, 0, sizeof(*its));
  its->node = n;
  its->reach = reach;
  its->came = mwi_stamp_age(e->stamp);
  node->n++;
  log_member(e, reach, node->obj, 1);
  if (r == NULL || reach_at(e, reach)->filtered) node->only = m;
  if (r == NULL) return; /* the ground */
  r->needs |= MWI_TREE;
  before = last_member(e, r, reach_at(e, reach)->order);
  mwi_assert(before == 0 || member_at(e, before)->reach != reach);
  its->next = (before != 0) ? member_at(e, before)->next : r->nodes;
  if (r->nodes == 0)
    its->prev = m;
  else if (before == 0 || its->next == 0)
    its->prev = member_at(e, r->nodes)->prev; /* the first, or the last */
  else
    its->prev = before;
  if (its->next != 0)
    member_at(e, its->next)->prev = m;
  else if (before != 0)
    member_at(e, r->nodes)->prev = m;
  *(before != 0 ? &member_at(e, before)->next : &r->nodes) = m;
}

/* Takes a member from its object and its node. */
static void unlist_member(mw_engine *e, uint32_t m) {
  mwi_member *its = member_at(e, m);
  mwi_node *node = node_at(e, its->node);
  mwi_object *r = mwi_object_find(&e->watch, node->obj);
  e->tree.version++;
  log_member(e, its->reach, node->obj, -1);
  node->n--;
  its->node = 0;
  if (r == NULL) return;
  if (!e->tree.forgets) r->gone = mwi_stamp_age(e->stamp);
  if (its->next != 0)
    member_at(e, its->next)->prev = its->prev;
  else if (r->nodes != m)
    member_at(e, r->nodes)->prev = its->prev;
  *(r->nodes != m ? &member_at(e, its->prev)->next : &r->nodes) = its->next;
  if (r->nodes == 0) r->needs &= (uint16_t) ~(MWI_TREE);
}

static void give_member(mw_engine *e, uint32_t m) {
  mwi_pool_give(&e->tree.members, m, sizeof(mwi_member));
}

static void give_node(mw_engine *e, uint32_t n) {
  mwi_pool_give(&e->tree.nodes, n, sizeof(mwi_node));
}

/* Does a watch of the root hear writes to the object of this member? */
static int is_heard(const mw_engine *e, uint32_t m) {
  const mwi_reach *reach = reach_of(e, m);
  const mwi_object *r;
  if (reach->root == m || reach->logs) return 0;
  if (reach->filtered) return reach_at(e, reach->top)->heard > 0;
  r = mwi_object_find(&e->watch, reach->obj);
  return r != NULL && r->deep > 0;
}

/* Returns the first of `m` and the later members of its object that is heard, 0
** for none. */
static uint32_t first_heard(const mw_engine *e, uint32_t m) {
  while (m != 0 && !is_heard(e, m)) m = member_at(e, m)->next;
  return m;
}

/* }====================================================== */

/* {======================================================
** From two nodes to their edge
** ======================================================= */

/* Returns the edge between two nodes, 0 for none. */
static uint32_t find_edge(const mw_engine *e, uint32_t parent, uint32_t child) {
  const mwi_table *table = &e->tree.table;
  mwi_search at;
  uint32_t i = 0;
  if (parent != 0 && child != 0)
    i = mwi_table_first(table, mwi_pair_hash(parent, child), &at);
  for (; i != 0; i = mwi_table_next(table, &at)) {
    const mwi_edge *its = edge_at(e, i);
    if (its->parent == parent && its->child == child) break;
  }
  return i;
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

/* Follows `via` from member `m` to the end, but not beyond `stop`. */
static uint32_t end_of_path(mw_engine *e, uint32_t m, uint32_t stop) {
  while (m != stop && member_at(e, m)->via != 0)
    m = above(e, member_at(e, m)->via, m);
  return m;
}

static void queue_orphan(mw_engine *e, uint32_t m) {
  mwi_member *its = member_at(e, m);
  its->queued = 1;
  if (e->tree.orphans == 0) e->tree.steps = 0;
  its->chain = e->tree.orphans;
  e->tree.orphans = m;
}

static void make_orphan(mw_engine *e, uint32_t m) {
  mwi_assert(!is_root(e, m));
  member_at(e, m)->via = 0;
  e->tree.lost++;
  if (!member_at(e, m)->queued) queue_orphan(e, m);
}

/* The members to which an edge is on the path become orphans. */
static void lose_path(mw_engine *e, uint32_t i) {
  const mwi_node *child = node_at(e, edge_at(e, i)->child);
  uint32_t m = (child->only != 0) ? child->only : first_member(e, child->obj);
  for (; m != 0; m = member_at(e, m)->next)
    if (member_at(e, m)->via == i) make_orphan(e, m);
}

/* A node of the object has lost its last edge. */
static void clear_links(mw_engine *e, mw_handle obj) {
  mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t m = (r == NULL) ? 0 : r->nodes;
  while (m != 0 && node_of(e, m)->outs == 0) m = member_at(e, m)->next;
  if (r != NULL && m == 0) r->needs &= (uint16_t)~MWI_LINKS;
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
  its->parent = 0;
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
  e->tree.left = node_at(e, its->child)->left = mwi_stamp_age(e->stamp);
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

/* Ends a node with its edges; the caller frees the node.  What the object holds
** may be below a root still, and has left the object.  What a dead one held has
** left before, in this age only if orphans wait. */
static void end_node(mw_engine *e, uint32_t n) {
  uint32_t i, now = mwi_stamp_age(e->stamp);
  int leaves = !e->tree.forgets || e->tree.orphans != 0;
  while (node_at(e, n)->ins != 0) end_edge(e, node_at(e, n)->ins);
  while ((i = node_at(e, n)->outs) != 0) {
    if (leaves) node_at(e, edge_at(e, i)->child)->left = now;
    end_edge(e, i);
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

/* Gives an orphan another `via`, if an edge comes from a member with a path. */
static int find_path(mw_engine *e, uint32_t m) {
  uint32_t i;
  for (i = node_of(e, m)->ins; i != 0; i = edge_at(e, i)->next_in) {
    uint32_t parent = above(e, i, m);
    if (parent != 0 && is_reached(e, parent)) break;
  }
  member_at(e, m)->via = i;
  return i != 0;
}

static int is_lost(const mw_engine *e, uint32_t m) {
  const mwi_member *its = member_at(e, m);
  return its->via == 0 && its->node != 0 && !is_root(e, m);
}

/* Makes orphans of the members whose path led through `m`, a member without a
** path: they join the end of the list.  Returns whether one is in the list
** already. */
static int orphan_children(mw_engine *e, uint32_t m, uint32_t *last) {
  uint32_t i;
  int any = 0;
  for (i = node_of(e, m)->outs; i != 0; i = edge_at(e, i)->next_out) {
    uint32_t child = below(e, i, m);
    mwi_member *its = (child == 0) ? NULL : member_at(e, child);
    if (its == NULL || its->via != i) continue;
    its->via = 0;
    any |= its->queued;
    if (its->queued) continue;
    its->queued = 1;
    its->chain = 0;
    member_at(e, *last)->chain = child;
    *last = child;
  }
  return any;
}

/* Gives the lost members below `m`, which has a path again, a path from `m`.
** Walks down over lost members, and back by `via`. */
static void lead_on(mw_engine *e, uint32_t m) {
  uint32_t at = m, i = node_of(e, m)->outs;
  while (i != 0 || at != m) {
    uint32_t child = (i == 0) ? 0 : below(e, i, at);
    if (i == 0) {
      i = member_at(e, at)->via;
      at = above(e, i, at);
      i = edge_at(e, i)->next_out;
    } else if (child != 0 && is_lost(e, child)) {
      at = child;
      member_at(e, at)->via = i;
      i = node_of(e, at)->outs;
    } else {
      i = edge_at(e, i)->next_out;
    }
  }
}

/* Gives a path to all orphans that can have one.  Goes outwards from the
** orphans, so that a path close by is found before all members below are lost.
** A path may serve an orphan that has looked already, so that orphan looks
** again.  A path once found stays: no lost member is above.  Below an orphan
** that looks for the first time nothing is lost yet, however much is there. */
static void look_for_paths(mw_engine *e) {
  uint32_t m, last = e->tree.orphans, looked = 0;
  int again = last != 0;
  begin_search(e);
  while (again) {
    int is_first = looked == 0;
    again = 0;
    while (member_at(e, last)->chain != 0) last = member_at(e, last)->chain;
    for (m = e->tree.orphans; m != 0; m = member_at(e, m)->chain) {
      if (is_lost(e, m) && find_path(e, m)) {
        if (!is_first) lead_on(e, m);
        begin_search(e);
        again = 1;
      } else if (is_lost(e, m)) {
        again |= orphan_children(e, m, &last);
      }
      if (m == looked) is_first = 1;
    }
    looked = last;
  }
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
    reach->root = 0;
    reach->logs = 0;
    reach->news = NULL;
    reach->size_news = 0;
    mwi_pool_give(&e->tree.reaches, i, sizeof(mwi_reach));
  }
}

static uint32_t new_node(mw_engine *e, mw_handle obj) {
  uint32_t n = mwi_pool_take(e, &e->tree.nodes, sizeof(mwi_node));
  if (n == 0) return 0;
  memset(node_at(e, n), 0, sizeof(mwi_node));
  node_at(e, n)->obj = obj;
  node_at(e, n)->left = mwi_stamp_age(e->stamp);
  return n;
}

/* Releases a node that has lost its last member. */
static void release_node(mw_engine *e, uint32_t n) {
  if (node_at(e, n)->n > 0) return;
  end_node(e, n);
  node_at(e, n)->chain = e->tree.released;
  e->tree.released = n;
}

/* Empties the list of orphans: each has a path now, or goes.  Then the reaches
** of roots that have ended go. */
static void resolve(mw_engine *e) {
  mwi_tree *part = &e->tree;
  uint32_t m, roots = 0;
  part->steps = part->lost = 0;
  look_for_paths(e);
  while ((m = part->orphans) != 0) {
    mwi_member *its = member_at(e, m);
    part->orphans = its->chain;
    its->queued = 0;
    if (its->node == 0 && its->reach != 0) {
      its->chain = roots;
      roots = m;
    } else if (its->node == 0) {
      give_member(e, m);
    } else if (is_lost(e, m)) {
      uint32_t n = its->node;
      unlist_member(e, m);
      its->reach = 0;
      give_member(e, m);
      release_node(e, n);
    }
  }
  while ((m = roots) != 0) {
    roots = member_at(e, m)->chain;
    give_reach(e, member_at(e, m)->reach);
    member_at(e, m)->reach = 0;
    give_member(e, m);
  }
}

/* Ends a member that is a root no longer, or whose object is dead.  A root's
** member and reach stay, among the orphans, until these are resolved: a death
** may be found in the middle of a move, and no member is to have the reach when
** it goes. */
static void drop_member(mw_engine *e, uint32_t m) {
  mwi_member *its = member_at(e, m);
  uint32_t n = its->node, i, reach = is_root(e, m) ? its->reach : 0;
  for (i = node_at(e, n)->outs; i != 0; i = edge_at(e, i)->next_out) {
    uint32_t child = below(e, i, m);
    if (child != 0 && member_at(e, child)->via == i) make_orphan(e, child);
  }
  unlist_member(e, m);
  its->via = 0;
  its->reach = reach;
  for (i = reach; i != 0; i = next_layer(e, i)) {
    reach_at(e, i)->root = 0;
    reach_at(e, i)->obj = MW_NONE;
  }
  if (reach != 0)
    queue_orphan(e, m);
  else if (!its->queued)
    give_member(e, m);
  if (node_at(e, n)->n > 0) return;
  end_node(e, n);
  give_node(e, n);
}

void mwi_tree_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  if (r == NULL || r->obj == MW_NONE) return;
  e->tree.forgets = 1; /* what only the dead held has left before */
  while (r->nodes != 0) drop_member(e, r->nodes);
  e->tree.forgets = 0;
}

void mw_tree_resolve(mw_engine *e) {
  mwi_check_enter(e);
  if (e->tree.orphans != 0) resolve(e);
}

void mwi_tree_release(mw_engine *e, mw_handle obj) {
  uint32_t n = new_node(e, obj);
  if (n != 0) release_node(e, n);
}

uint32_t mwi_tree_release_mark(mw_engine *e) {
  mw_tree_resolve(e);
  return e->tree.released;
}

mw_handle mwi_tree_released_since(mw_engine *e, uint32_t mark) {
  uint32_t n;
  mw_tree_resolve(e);
  while ((n = e->tree.released) != mark && n != 0) {
    mw_handle obj = node_at(e, n)->obj;
    e->tree.released = node_at(e, n)->chain;
    give_node(e, n);
    if (mwi_identity_is_valid(&e->identity, obj) && !mw_tree_has(e, obj))
      return obj;
  }
  return MW_NONE;
}

mw_handle mw_tree_released(mw_engine *e) {
  return mwi_tree_released_since(e, 0);
}

/* Changes the state of a released object, unless the object is tracked or
** watched, or in a tree again. */
void mwi_tree_mark_released(mw_engine *e, uint32_t mark, int from, int to) {
  uint32_t n;
  for (n = e->tree.released; n != mark && n != 0; n = node_at(e, n)->chain) {
    mw_handle obj = node_at(e, n)->obj;
    mwi_object *r = mwi_object_of(&e->watch, mw_slot(obj));
    if (r != NULL && r->obj == obj && !r->watched && r->nodes == 0 &&
        r->tracked == from)
      r->tracked = (uint8_t)(to & 3);
  }
}

int mw_tree_has_orphans(const mw_engine *e) {
  return e->tree.orphans != 0 || e->tree.released != 0;
}

/* }====================================================== */

/* {======================================================
** Members below a new edge
** ======================================================= */

/* A change that may run out of memory: what is made until then goes again. */
typedef struct making {
  uint32_t made;        /* the new members, a list by `chain` */
  uint32_t first, last; /* the queue of nodes with new members */
} making;

static uint32_t add_member(mw_engine *e, making *w, uint32_t n,
                           uint32_t reach) {
  uint32_t m = mwi_pool_take(e, &e->tree.members, sizeof(mwi_member));
  if (m == 0) return 0;
  begin_member(e, m, n, reach);
  member_at(e, m)->chain = w->made;
  w->made = m;
  return m;
}

static void enqueue(mw_engine *e, making *w, uint32_t n) {
  if (node_at(e, n)->waits || node_at(e, n)->outs == 0) return;
  node_at(e, n)->waits = 1;
  node_at(e, n)->queue = 0;
  *(w->last != 0 ? &node_at(e, w->last)->queue : &w->first) = n;
  w->last = n;
}

/* The child of an edge becomes a member wherever its parent is one; with
** `reach`, only there.  Returns 0 without memory. */
static int join(mw_engine *e, making *w, uint32_t i, uint32_t reach) {
  uint32_t parent = edge_at(e, i)->parent, child = edge_at(e, i)->child;
  mw_handle obj = node_at(e, child)->obj;
  uint32_t m = node_at(e, parent)->only, at = 0;
  if (m == 0 && reach != 0)
    m = find_member(e, node_at(e, parent)->obj, reach);
  else if (m == 0)
    m = first_member(e, node_at(e, parent)->obj);
  for (; m != 0; m = member_at(e, m)->next) {
    uint32_t goal = reach_of(e, m)->below;
    uint64_t order;
    if (member_at(e, m)->node != parent) continue;
    order = reach_at(e, goal)->order;
    if (at == 0) at = last_member(e, mwi_object_find(&e->watch, obj), order);
    while (at != 0 && member_at(e, at)->next != 0 &&
           reach_of(e, member_at(e, at)->next)->order <= order)
      at = member_at(e, at)->next;
    if (at == 0 || member_at(e, at)->reach != goal) {
      at = add_member(e, w, child, goal);
      if (at == 0) return 0;
      member_at(e, at)->via = i;
      enqueue(e, w, child);
    }
    if (reach != 0 || node_at(e, parent)->only != 0) break;
  }
  return 1;
}

/* What is below the nodes in the queue becomes members with them. */
static int spread(mw_engine *e, making *w, uint32_t reach) {
  uint32_t n, i;
  int ok = 1;
  while ((n = w->first) != 0) {
    w->first = node_at(e, n)->queue;
    if (w->first == 0) w->last = 0;
    node_at(e, n)->waits = 0;
    for (i = node_at(e, n)->outs; ok && i != 0; i = edge_at(e, i)->next_out)
      ok = join(e, w, i, reach);
  }
  return ok;
}

/* Takes back what was made; nodes without members go with their edges. */
static void unmake(mw_engine *e, making *w) {
  uint32_t m, n;
  while ((m = w->made) != 0) {
    w->made = member_at(e, m)->chain;
    n = member_at(e, m)->node;
    unlist_member(e, m);
    member_at(e, m)->reach = 0;
    give_member(e, m);
    if (node_at(e, n)->n > 0) continue;
    end_node(e, n);
    give_node(e, n);
  }
}

/* }====================================================== */

/* {======================================================
** Links
** ======================================================= */

/* Which nodes of a parent a link is about: those of a layer with a rule, of all
** without one, or of all. */
#define UNRULED 0
#define ALL MWI_ANY_REACH

typedef struct linking {
  uint32_t layer;
  int scans; /* those whose fields are being linked; else those with linked */
  const mw_value *key; /* fields */
} linking;

/* Returns the layer, for which a reach stands. */
static uint32_t layer_of(const mw_engine *e, mw_reach reach) {
  if (reach == 0 || reach == MWI_ANY_REACH) return reach;
  return (reach_at(e, reach)->rule != 0) ? reach : UNRULED;
}

static int is_in(const mw_engine *e, uint32_t m, uint32_t layer) {
  return layer == ALL || (layer == UNRULED ? reach_of(e, m)->rule == 0
                                           : member_at(e, m)->reach == layer);
}

/* Returns the layer of a child that member `m` of the parent has under a key, 0
** for none. */
static uint32_t layer_below(const mw_engine *e, uint32_t m,
                            const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m);
  if (reach->key.type != MW_TNIL && !mw_value_equal(&reach->key, key)) return 0;
  return reach->below;
}

static int is_meant(const mw_engine *e, const linking *l, uint32_t m) {
  const mwi_node *node = node_of(e, m);
  if (!is_in(e, m, l->layer)) return 0;
  if (l->scans ? !node->scans : node->linked == 0) return 0;
  return layer_below(e, m, l->key) != 0;
}

/* Returns the edge from a member of the parent to the child, 0 for none. */
static uint32_t edge_from(const mw_engine *e, uint32_t m, const mw_value *key,
                          mw_handle child) {
  return find_edge(e, member_at(e, m)->node,
                   find_node(e, child, layer_below(e, m, key)));
}

/* Makes the edge from member `m` to the child, if there is none; returns 0
** without memory.  In a graph that others share the members below come with
** it. */
static uint32_t need_edge(mw_engine *e, making *w, uint32_t m,
                          const mw_value *key, mw_handle child) {
  uint32_t layer = layer_below(e, m, key), n = find_node(e, child, layer), i;
  int is_new = n == 0;
  if (is_new) n = new_node(e, child);
  if (n == 0) return 0;
  i = find_edge(e, member_at(e, m)->node, n);
  if (i != 0) return i;
  i = new_edge(e, member_at(e, m)->node, n);
  if (i != 0 && join(e, w, i, 0) && spread(e, w, 0)) return i;
  spread(e, w, 0); /* empties the queue */
  if (node_at(e, n)->n > 0) return 0;
  end_node(e, n);
  give_node(e, n);
  return 0;
}

/* The orphans of the child take an edge that has begun to count. */
static void lead_orphans(mw_engine *e, uint32_t i) {
  const mwi_node *child = node_at(e, edge_at(e, i)->child);
  uint32_t m = (child->only != 0) ? child->only : first_member(e, child->obj);
  if (e->tree.orphans == 0) return;
  for (; m != 0; m = member_at(e, m)->next) {
    mwi_member *its = member_at(e, m);
    uint32_t parent;
    if (its->via != 0 || is_root(e, m) || node_of(e, m) != child) continue;
    parent = above(e, i, m);
    if (parent == 0 || end_of_path(e, parent, m) == m) continue;
    its->via = i;
    if (its->queued && e->tree.lost > 0) e->tree.lost--; /* it comes back */
  }
}

/* The field of the key holds the child; is it one more?  A name stays the hint,
** a place in a list does not. */
static void count(mw_engine *e, uint32_t i, const mw_value *key, int more) {
  mwi_edge *its = edge_at(e, i);
  uint32_t now = mwi_stamp_age(e->stamp);
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

/* Takes back what was made by a link without memory for all. */
static void unlink_all(mw_engine *e, making *w, mw_handle parent,
                       const linking *l, mw_handle child) {
  uint32_t m, i;
  int common = 0;
  unmake(e, w);
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common)) {
    i = is_meant(e, l, m) ? edge_from(e, m, l->key, child) : 0;
    if (i != 0 && edge_at(e, i)->count == 0) end_edge(e, i);
  }
}

/* Links the child from all members of the parent that are meant.  First all
** edges are made, then they count: so nothing has changed without memory. */
static int link_all(mw_engine *e, mw_handle parent, const linking *l,
                    mw_handle child) {
  making w = {0, 0, 0};
  uint32_t m;
  int code = MW_OK, common = 0;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, child)) return MW_STALE;
  if (first_member(e, parent) == 0) return MW_STALE;
  if (mwi_object_need(e, child) == NULL) return MW_NOMEM;
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common))
    if (is_meant(e, l, m) && need_edge(e, &w, m, l->key, child) == 0) {
      unlink_all(e, &w, parent, l, child);
      return MW_NOMEM;
    }
  common = 0;
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common)) {
    uint32_t i = is_meant(e, l, m) ? edge_from(e, m, l->key, child) : 0;
    const mwi_node *node;
    int is_new;
    if (i == 0) continue;
    node = node_at(e, edge_at(e, i)->child);
    is_new = edge_at(e, i)->count == 0;
    if (node->linked == 0 && (!l->scans || (is_new && !node->scans)))
      code = MW_NEW;
    count(e, i, l->key, is_new || reach_of(e, m)->key.type == MW_TNIL);
  }
  return code;
}

int mw_tree_link(mw_engine *e, mw_reach reach, mw_handle parent,
                 const mw_value *key, mw_handle child) {
  linking l = {layer_of(e, reach), 0, key};
  e->tree.moves++;
  return link_all(e, parent, &l, child);
}

int mw_tree_scan_link(mw_engine *e, mw_reach reach, mw_handle parent,
                      const mw_value *key, mw_handle child) {
  linking l = {layer_of(e, reach), 1, key};
  return link_all(e, parent, &l, child);
}

void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key,
                    mw_handle child) {
  linking l = {ALL, 0, key};
  uint32_t m, i;
  int common = 0;
  mwi_check_enter(e);
  e->tree.moves++;
  if (first_member(e, child) == 0) return;
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common)) {
    i = is_meant(e, &l, m) ? edge_from(e, m, key, child) : 0;
    if (i != 0) uncount(e, i, key);
  }
}

void mwi_tree_count(mw_engine *e, mw_handle parent, const mw_value *key,
                    mw_handle child, uint32_t n, int here) {
  linking l = {ALL, 0, key};
  uint32_t m, i, now;
  int common = 0;
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common)) {
    i = is_meant(e, &l, m) ? edge_from(e, m, key, child) : 0;
    if (i == 0) continue;
    now = (reach_of(e, m)->key.type == MW_TNIL) ? n : here != 0;
    if (edge_at(e, i)->count == now) continue;
    edge_at(e, i)->count = now & UINT32_MAX >> 1;
    edge_at(e, i)->sure = 0;
    edge_at(e, i)->age = edge_at(e, i)->others = mwi_stamp_age(e->stamp);
    if (now == 0) end_edge(e, i);
  }
}

int mw_tree_scan(mw_engine *e, mw_handle obj, mw_value *key) {
  uint32_t m;
  int wanted = 0, common = 0;
  for (m = first_member(e, obj); m != 0; m = next_node(e, m, &common)) {
    const mwi_reach *reach = reach_of(e, m);
    mwi_node *node = node_of(e, m);
    if (node->linked != 0) continue;
    while (node->outs != 0) end_edge(e, node->outs); /* of a scan that failed */
    node->scans = 1;
    if (reach->below == 0) continue;
    if (reach->key.type == MW_TNIL ||
        (wanted && !mw_value_equal(key, &reach->key)))
      wanted = 2;
    if (wanted == 2) continue;
    *key = reach->key;
    wanted = 1;
  }
  return wanted;
}

void mw_tree_scanned(mw_engine *e, mw_handle obj) {
  uint32_t m, number = ++e->tree.scans;
  int common = 0;
  for (m = first_member(e, obj); m != 0; m = next_node(e, m, &common)) {
    mwi_node *node = node_of(e, m);
    if (!node->scans) continue;
    node->scans = 0;
    node->linked = number;
  }
}

int mwi_tree_is_open(const mw_engine *e, mw_reach reach, mw_handle obj) {
  uint32_t m;
  for (m = first_member(e, obj); m != 0; m = member_at(e, m)->next)
    if (is_in(e, m, layer_of(e, reach)) && node_of(e, m)->linked == 0) return 1;
  return 0;
}

int mwi_tree_scanned_since(const mw_engine *e, mw_handle obj, uint32_t number) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && node_of(e, m)->linked <= number) m = member_at(e, m)->next;
  return m != 0;
}

void mwi_tree_refuse(const mw_engine *e, mw_reach reach, mw_handle parent) {
  uint32_t m;
  for (m = first_member(e, parent); m != 0; m = member_at(e, m)->next)
    if (is_in(e, m, layer_of(e, reach))) node_of(e, m)->refuses = 1;
}

int mwi_tree_refuses(const mw_engine *e, mw_handle parent) {
  uint32_t m = first_member(e, parent);
  while (m != 0 && !node_of(e, m)->refuses) m = member_at(e, m)->next;
  return m != 0;
}

int mwi_tree_holds(const mw_engine *e, mw_reach reach, mw_handle parent,
                   mw_handle child) {
  uint32_t m, layer = layer_of(e, reach);
  int common = 0;
  for (m = first_member(e, parent); m != 0; m = next_node(e, m, &common)) {
    const mwi_reach *its = reach_of(e, m);
    if (its->key.type == MW_TNIL && its->below != 0 && is_in(e, m, layer) &&
        edge_from(e, m, &its->key, child) != 0)
      return 1;
  }
  return 0;
}

uint32_t mwi_tree_edge(const mw_engine *e, mw_handle parent, mw_handle child) {
  uint32_t m = first_member(e, parent), c = first_member(e, child), i, p;
  if (m == 0 || c == 0 || reach_of(e, c)->filtered) return 0;
  for (p = m; p != 0; p = member_at(e, p)->next)
    if (reach_of(e, p)->filtered) return 0;
  i = find_edge(e, member_at(e, m)->node, member_at(e, c)->node);
  return (i != 0 && node_of(e, c)->linked != 0) ? i : 0;
}

void mwi_tree_add(mw_engine *e, uint32_t edge, const mw_value *key) {
  e->tree.moves++;
  count(e, edge, key, 1);
}

int mwi_tree_leads_on(const mw_engine *e, mw_handle parent,
                      const mw_value *key) {
  uint32_t m = first_member(e, parent);
  while (m != 0 && (reach_of(e, m)->rule != 0 || layer_below(e, m, key) == 0))
    m = member_at(e, m)->next;
  return m != 0;
}

void mw_tree_expel(mw_engine *e, mw_handle obj) {
  uint32_t m, i, next;
  mwi_check_enter(e);
  for (m = first_member(e, obj); m != 0; m = member_at(e, m)->next)
    for (i = node_of(e, m)->ins; i != 0; i = next) {
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
  uint32_t m = first_member(e, obj);
  uint64_t order = (after == 0) ? 0 : reach_at(e, after)->order;
  for (; m != 0; m = member_at(e, m)->next) {
    const mwi_reach *reach = reach_of(e, m);
    if (reach->rule == 0 || reach->order <= order) continue;
    *root = reach->obj;
    *rule = reach->rule;
    return member_at(e, m)->reach;
  }
  return 0;
}

uint32_t mw_reach_rule(const mw_engine *e, mw_reach reach, mw_handle *root) {
  const mwi_reach *its = reach_at(e, reach);
  *root = its->obj;
  return its->rule;
}

int mw_root_has_rule(const mw_engine *e, mw_handle obj, uint32_t rule) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && !(is_root(e, m) && reach_of(e, m)->rule == rule))
    m = member_at(e, m)->next;
  return m != 0;
}

/* Does the reach of member `m` hear of a write to the field of the object? */
static int hears_of(const mw_engine *e, uint32_t m, const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m), *top;
  if (!reach->filtered) return 1;
  if (reach->key.type != MW_TNIL && !mw_value_equal(&reach->key, key)) return 0;
  top = reach_at(e, reach->top);
  if (node_of(e, m)->obj != top->obj) return 1;
  /* the root is below itself: the root's own lists hear its first key */
  return top->key.type != MW_TNIL && !mw_value_equal(&top->key, key);
}

int mwi_tree_is_quiet(mw_engine *e, const mwi_object *r, const mw_value *key) {
  uint32_t m = first_heard(e, r->nodes);
  while (m != 0 && !hears_of(e, m, key))
    m = first_heard(e, member_at(e, m)->next);
  return m == 0;
}

static const mw_filter no_filter = {0, NULL, 0, 0, 0};

/* Has the reach this filter? */
static int has_filter(const mw_engine *e, uint32_t layer,
                      const mw_filter *filter) {
  uint32_t n;
  const mwi_reach *reach = reach_at(e, layer);
  if (reach->rule != filter->rule || (int)reach->kept != filter->kept) return 0;
  if (filter->n_keys == 0) return reach->below == layer;
  for (n = 0; layer != 0; layer = reach->below, n++) {
    reach = reach_at(e, layer);
    if (n == filter->n_keys || reach->below == layer ||
        reach->key.type != filter->keys[n].type ||
        !mw_value_equal(&reach->key, &filter->keys[n]))
      return 0;
  }
  return n == filter->n_keys;
}

/* Returns the member with which an object is the root of a reach with the
** filter, or 0. */
static uint32_t find_root(const mw_engine *e, mw_handle obj,
                          const mw_filter *filter) {
  uint32_t m = first_member(e, obj);
  while (m != 0 &&
         !(is_root(e, m) && has_filter(e, member_at(e, m)->reach, filter)))
    m = member_at(e, m)->next;
  return m;
}

static uint32_t own_root(const mw_engine *e, mw_handle obj) {
  return find_root(e, obj, &no_filter);
}

/* Makes the layers of a reach, the last layer first.  Returns the first layer,
** 0 when there is no memory. */
static uint32_t new_layers(mw_engine *e, const mw_filter *filter) {
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
    if (filter->n_keys != 0) reach->key = filter->keys[n - 1 - i];
    if (reach->key.type != MW_TNIL) mwi_host_retain(e, &reach->key);
    top = layer;
  }
  return top;
}

/* Makes a reach, whose root is an object with a record, or the ground.  What is
** below the root in the common graph is in the reach at once.  Returns 0 when
** there is no memory. */
static uint32_t new_reach(mw_engine *e, mw_handle obj,
                          const mw_filter *filter) {
  making w = {0, 0, 0};
  uint32_t top = new_layers(e, filter), n, m = 0, i;
  int is_new;
  if (top == 0) return 0;
  n = find_node(e, obj, top);
  is_new = n == 0;
  if (is_new) n = new_node(e, obj);
  if (n != 0) m = add_member(e, &w, n, top);
  if (m != 0) enqueue(e, &w, n);
  if (m == 0 || !spread(e, &w, top)) {
    if (m == 0 && n != 0 && is_new) give_node(e, n);
    unmake(e, &w);
    give_reach(e, top);
    return 0;
  }
  for (i = top; i != 0; i = next_layer(e, i)) {
    reach_at(e, i)->top = top;
    reach_at(e, i)->root = m;
    reach_at(e, i)->obj = obj;
  }
  return top;
}

int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach) {
  return mw_root_begin_filtered(e, obj, &no_filter, reach);
}

/* Ends a reach with its root, member `m`. */
static void end_root(mw_engine *e, uint32_t m) {
  drop_member(e, m);
  resolve(e);
}

/* Ends the reaches of a root that are `kept` so; with a reach `except`, only
** those with a filter that nobody hears, but that one. */
static void end_roots(mw_engine *e, mw_handle obj, int kept, uint32_t except) {
  uint32_t m = first_member(e, obj);
  while (m != 0) {
    const mwi_reach *reach = reach_of(e, m);
    int ends = is_root(e, m) && (int)reach->kept == kept;
    if (except != 0)
      ends =
          ends && reach->filtered && reach->heard == 0 && reach->top != except;
    if (ends) end_root(e, m);
    m = ends ? first_member(e, obj) : member_at(e, m)->next;
  }
}

/* Reaches that nobody hears end here, for a program may begin one after
** another. */
int mw_root_begin_filtered(mw_engine *e, mw_handle obj, const mw_filter *filter,
                           mw_reach *reach) {
  uint32_t m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  m = filter->kept == MWI_LOGGED ? 0 : find_root(e, obj, filter);
  if (m != 0) {
    *reach = member_at(e, m)->reach;
    return MW_OK;
  }
  if (mwi_object_need(e, obj) == NULL) return MW_NOMEM;
  *reach = new_reach(e, obj, filter); /* retains its keys first */
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
  uint32_t m = first_member(e, obj);
  while (m != 0 && !(is_root(e, m) && (int)reach_of(e, m)->kept == kept &&
                     reach_of(e, m)->rule != 0))
    m = member_at(e, m)->next;
  return (m == 0) ? 0 : reach_of(e, m)->rule;
}

void mwi_reach_hear(mw_engine *e, uint32_t reach, int n) {
  mwi_reach *its = reach_at(e, reach);
  its->heard += (uint32_t)n;
}

uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach) {
  return (reach != 0 && reach_at(e, reach)->filtered) ? reach : 0;
}

/* Returns the edge from the ground to a silent root, 0 for none. */
static uint32_t ground_edge(const mw_engine *e, mw_handle obj) {
  uint32_t ground = e->tree.ground;
  if (ground == 0) return 0;
  return find_edge(e, member_at(e, reach_at(e, ground)->root)->node,
                   find_node(e, obj, ground));
}

int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach) {
  static const mw_value no_key = {MW_TNIL, {0}};
  making w = {0, 0, 0};
  mwi_tree *part = &e->tree;
  uint32_t m, i;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (part->ground == 0) part->ground = new_reach(e, MW_NONE, &no_filter);
  if (part->ground == 0 || mwi_object_need(e, obj) == NULL) return MW_NOMEM;
  *reach = part->ground;
  m = reach_at(e, part->ground)->root;
  i = need_edge(e, &w, m, &no_key, obj);
  if (i == 0) {
    unmake(e, &w);
    i = ground_edge(e, obj);
    if (i != 0 && edge_at(e, i)->count == 0) end_edge(e, i);
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
  return first_member(e, obj) != 0;
}

int mw_tree_is_below(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && reach_of(e, m)->obj == obj && !reach_of(e, m)->kept)
    m = member_at(e, m)->next;
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
  uint32_t m = r->nodes;
  if (e->tree.orphans == 0 || m == 0) return 0;
  while (m != 0 && !climbs(e, m)) m = member_at(e, m)->next;
  if (m == 0) resolve(e);
  return r->nodes == 0;
}

/* Returns the member that `obj` is in a reach if there is a path to it, else
** 0. */
static uint32_t resolved_member(mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = find_member(e, obj, reach);
  return (m == 0 || resolve_member(e, m)) ? m : find_member(e, obj, reach);
}

/* Continues a climb with member `m` of the object, or a later one. */
static mwi_object *climb_from(mw_engine *e, mwi_object *r, uint32_t m,
                              const mw_value *key, mwi_climb *climb) {
  for (m = first_heard(e, m); m != 0;
       m = first_heard(e, member_at(e, m)->next)) {
    const mwi_reach *reach = reach_of(e, m);
    if (reach->order > climb->newest) break;
    if (reach->top == climb->top || !hears_of(e, m, key)) continue;
    climb->order = reach->order;
    climb->version = e->tree.version;
    climb->member = m;
    if (!resolve_member(e, m)) {
      climb->order--; /* it may have found a path while others went */
      return mwi_tree_next(e, r, key, climb);
    }
    climb->top = reach->top;
    climb->filter = reach->filtered ? reach->top : 0;
    return mwi_object_find(&e->watch, reach->obj);
  }
  return NULL;
}

mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r, const mw_value *key,
                           mwi_climb *climb) {
  climb->top = 0;
  climb->newest = e->tree.order;
  return climb_from(e, r, r->nodes, key, climb);
}

mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r, const mw_value *key,
                          mwi_climb *climb) {
  uint32_t m = r->nodes;
  if (climb->version == e->tree.version)
    return climb_from(e, r, member_at(e, climb->member)->next, key, climb);
  while (m != 0 && reach_of(e, m)->order <= climb->order)
    m = member_at(e, m)->next;
  return climb_from(e, r, m, key, climb);
}

int mwi_tree_is_watched(mw_engine *e, mwi_object *r) {
  uint32_t m;
  if (e->tree.orphans != 0) resolve(e);
  for (m = r->nodes; m != 0; m = member_at(e, m)->next) {
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
  mwi_tree *part = &e->tree;
  uint32_t at, last = n, end = n, depth = 1, i;
  if (++part->upward >= UINT32_MAX >> 3) {
    for (i = 1; i <= part->nodes.n; i++) node_at(e, i)->seen = 0;
    part->upward = 1;
  }
  node_at(e, n)->seen = part->upward & UINT32_MAX >> 3;
  node_at(e, n)->queue = 0;
  for (at = n; at != 0 && depth < far; at = node_at(e, at)->queue) {
    for (i = node_at(e, at)->ins; i != 0; i = edge_at(e, i)->next_in) {
      uint32_t parent = edge_at(e, i)->parent;
      mwi_node *node = node_at(e, parent);
      if (node->seen == part->upward) continue;
      node->seen = part->upward & UINT32_MAX >> 3;
      node->toward = i;
      node->queue = 0;
      if (parent == root) return depth;
      node_at(e, last)->queue = parent;
      last = parent;
    }
    if (at != end) continue;
    end = last;
    depth++;
  }
  return far;
}

/* Returns the length of the path to member `m`. */
static uint32_t depth_of(mw_engine *e, uint32_t m) {
  uint32_t depth = 0;
  for (; member_at(e, m)->via != 0; depth++)
    m = above(e, member_at(e, m)->via, m);
  return depth;
}

/* Lets the path to member `m` be a shortest one; a path that is one stays. */
static void shorten(mw_engine *e, uint32_t m) {
  mwi_tree *part = &e->tree;
  uint32_t at = reach_of(e, m)->root, far;
  if (part->shortest == m && part->shortened == part->changes) return;
  if (at == m) return;
  far = depth_of(e, m);
  if (far > 1 &&
      search_root(e, member_at(e, m)->node, member_at(e, at)->node, far) < far)
    while (at != m) {
      uint32_t i = node_of(e, at)->toward;
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

static uint32_t path_of(mw_engine *e, uint32_t m, mw_value *keys, uint32_t n) {
  uint32_t depth = 0, i;
  if (m == 0) return 0;
  shorten(e, m);
  for (; (i = member_at(e, m)->via) != 0; depth++) {
    if (node_at(e, edge_at(e, i)->parent)->obj == MW_NONE) break;
    if (depth < n) keys[depth] = *key_of(e, i);
    m = above(e, i, m);
  }
  return depth;
}

/* Returns the first member of an object in the layers of a reach that is not
** the root's; the search begins at the end. */
static uint32_t first_in(const mw_engine *e, mw_handle obj, uint32_t top) {
  uint32_t first = first_member(e, obj), m, found = 0;
  if (first == 0) return 0;
  for (m = member_at(e, first)->prev;; m = member_at(e, m)->prev) {
    if (reach_of(e, m)->top != top && found != 0) return found;
    if (reach_of(e, m)->top == top && !is_root(e, m)) found = m;
    if (m == first) return found;
  }
}

uint32_t mw_change_path(mw_engine *e, const mw_change *change, mw_handle root,
                        mw_handle obj, mw_value *keys, uint32_t n) {
  uint32_t m = change->node;
  mwi_check_enter(e);
  if (m != 0 && m <= e->tree.members.n && member_at(e, m)->node != 0 &&
      member_at(e, m)->reach != 0 && node_of(e, m)->obj == obj &&
      reach_of(e, m)->obj == root && resolve_member(e, m))
    return path_of(e, m, keys, n);
  if (change->reach != 0 && reach_at(e, change->reach)->root != 0) {
    m = first_in(e, obj, change->reach);
    return (m != 0 && resolve_member(e, m)) ? path_of(e, m, keys, n) : 0;
  }
  return mw_tree_path(e, root, obj, keys, n); /* the tree has changed */
}

uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                      mw_value *keys, uint32_t n) {
  uint32_t m = own_root(e, root);
  if (m == 0 || obj == root) return 0;
  return path_of(e, resolved_member(e, obj, member_at(e, m)->reach), keys, n);
}

uint32_t mw_tree_way(mw_engine *e, mw_handle obj, mw_handle *root,
                     mw_value *keys, uint32_t n) {
  uint32_t m = first_member(e, obj), depth, i;
  *root = MW_NONE;
  if (m != 0 && !resolve_member(e, m)) m = first_member(e, obj);
  if (m == 0) return 0;
  depth = path_of(e, m, keys, n);
  *root = obj;
  for (i = 0; i < depth; i++) {
    m = above(e, member_at(e, m)->via, m);
    *root = node_of(e, m)->obj;
  }
  return depth;
}

/* Returns the member that an object is in a reach that is not one of a path, 0
** for none; first in the common graph, there in the object's own reach. */
static uint32_t whole_member(const mw_engine *e, mw_handle obj) {
  uint32_t m = own_root(e, obj), ruled = 0;
  if (m == 0 && ground_edge(e, obj) != 0) /* the ground is older than others */
    for (m = first_member(e, obj); member_at(e, m)->reach != e->tree.ground;)
      m = member_at(e, m)->next;
  if (m != 0) return m;
  for (m = first_member(e, obj); m != 0; m = member_at(e, m)->next) {
    const mwi_reach *reach = reach_of(e, m);
    if (!reach->filtered) return m;
    if (ruled == 0 && reach->rule != 0 && reach->key.type == MW_TNIL &&
        reach->below == member_at(e, m)->reach)
      ruled = m;
  }
  return ruled;
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
  if (m == 0) m = first_member(e, root);
  return (m == 0) ? 0 : resolved_member(e, obj, member_at(e, m)->reach);
}

uint32_t mw_tree_parents(mw_engine *e, mw_handle root, mw_handle obj,
                         mw_holder *holders, uint32_t n) {
  uint32_t m = member_below(e, root, obj), known = 0, i;
  for (i = (m == 0) ? 0 : node_of(e, m)->ins; i != 0;
       i = edge_at(e, i)->next_in) {
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
  left = node_of(e, m)->left;
  came = member_at(e, m)->came;
  return (came > left) ? came : left;
}

/* }====================================================== */
