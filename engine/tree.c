/*
** tree.c - the objects below a root, and the links that lead there.
** SPDX-License-Identifier: MIT
**
**        root                 node:  an object below a root
**       / x  \ y              link:  a field of a node that holds a node
**      a      b               via:   the link to a node that is on the
**       \ p  / q                     node's path from the root
**         c
**
** A *reach* is a root with the objects below.  An object that is in several
** reaches has a node for each reach, in a list that ascends by the reach's
** `order`, so in the order in which the roots began.  Silent roots share one
** reach: they are below the *ground*, a root without an object.  Each link is
** in two lists, the links to its child and the links from its parent, and in a
** hash table by parent and key.
**
** A *filtered* reach has only what its rule allows or its path names.  A reach
** of a path has a *layer* for each key of the path: the first layer has the
** root, and the links from the nodes of a layer have the layer's key and lead
** to the next layer.  An object may have a node in each layer.  The layers of a
** reach have successive orders.
**
** A write passes over the roots that nobody hears: the nodes of an object that
** are of heard reaches form a second list, by `heard`.  The list is right from
** the object's first look after the tree's last `woken` on; a reach that
** becomes silent leaves the list when the next write meets its node.
**
** Invariant: following `via` from a node leads to the node's root, or to an
** *orphan*: a node that has lost its `via`, and is in the list of orphans.
** There is no cycle.  A write changes one link, so a write makes at most one
** node an orphan, at once and however large the tree below is; a move links the
** orphan again before the next look at a path, and costs no more.
**
** The next look at a path resolves the orphans: each orphan takes another of
** its links as `via`, if the link comes from a node with a path; otherwise the
** orphan has no path, and each node whose `via` comes from the orphan becomes
** an orphan too.  The orphans left at the end are released.
*/
#include "engine.h"

#include <string.h>

/* {======================================================
** Nodes and links
** ======================================================= */

#define node_at(e, i) \
  ((mwi_node *)mwi_pool_at(&(e)->tree.nodes, i, sizeof(mwi_node)))
#define link_at(e, i) \
  ((mwi_link *)mwi_pool_at(&(e)->tree.links, i, sizeof(mwi_link)))

#define reach_at(e, i) \
  ((mwi_reach *)mwi_pool_at(&(e)->tree.reaches, i, sizeof(mwi_reach)))

/* Returns the reach of a node. */
static const mwi_reach *reach_of(const mw_engine *e, uint32_t m) {
  return reach_at(e, node_at(e, m)->reach);
}

static int is_root(const mw_engine *e, uint32_t m) {
  return reach_of(e, m)->root == m;
}

/* Returns the first node of an object, 0 when the object has none. */
static uint32_t first_node(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return (r == NULL) ? 0 : r->nodes;
}

/* Returns the last node of an object whose order is not greater than `order`; 0
** for none.  The search begins at the end (the first node's `prev` is the
** last), for a scan of a new root asks for the greatest order. */
static uint32_t last_node(const mw_engine *e, const mwi_object *r,
                          uint64_t order) {
  uint32_t m = (r->nodes == 0) ? 0 : node_at(e, r->nodes)->prev;
  while (m != 0 && reach_of(e, m)->order > order)
    m = (m == r->nodes) ? 0 : node_at(e, m)->prev;
  return m;
}

/* Returns the node of an object in a reach, or 0.  The search begins with the
** node that the last search found, for at the end of a batch each root above an
** object looks for its node, in order. */
static uint32_t find_node(mw_engine *e, mw_handle obj, uint32_t reach) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  uint64_t order = reach_at(e, reach)->order;
  uint32_t m = e->tree.found;
  if (r == NULL || r->nodes == 0) return 0;
  if (m == 0 || node_at(e, m)->obj != obj || node_at(e, m)->reach == 0 ||
      reach_of(e, m)->order > order)
    m = r->nodes;
  if (reach_of(e, node_at(e, r->nodes)->prev)->order <= order)
    m = node_at(e, r->nodes)->prev;
  while (m != 0 && reach_of(e, m)->order < order) m = node_at(e, m)->next;
  if (m == 0 || node_at(e, m)->reach != reach) return 0;
  return e->tree.found = m;
}

/* Makes `m`, just taken, the node of an object that has a record; or the
** ground. */
static void init_node(mw_engine *e, uint32_t m, mw_handle obj, uint32_t reach) {
  mwi_object *r = mwi_object_find(&e->watch, obj);
  mwi_node *node = node_at(e, m);
  uint32_t before;
  memset(node, 0, sizeof(*node));
  node->obj = obj;
  node->reach = reach;
  node->left = mwi_stamp_age(e->stamp);
  if (r == NULL) return;
  r->needs |= MWI_TREE;
  before = last_node(e, r, reach_at(e, reach)->order);
  mwi_assert(before == 0 || node_at(e, before)->reach != reach);
  node->next = (before != 0) ? node_at(e, before)->next : r->nodes;
  if (r->nodes == 0)
    node->prev = m;
  else if (before == 0 || node->next == 0)
    node->prev = node_at(e, r->nodes)->prev; /* the first, or the last */
  else
    node->prev = before;
  if (node->next != 0)
    node_at(e, node->next)->prev = m;
  else if (before != 0)
    node_at(e, r->nodes)->prev = m;
  *(before != 0 ? &node_at(e, before)->next : &r->nodes) = m;
  node_at(e, r->nodes)->looked = 0;
}

/* Takes a node from its object. */
static void unlist_node(mw_engine *e, uint32_t m) {
  mwi_node *node = node_at(e, m);
  mwi_object *r = mwi_object_find(&e->watch, node->obj);
  e->tree.version++;
  if (r == NULL) return;
  if (!e->tree.forgets) r->gone = mwi_stamp_age(e->stamp);
  if (node->next != 0)
    node_at(e, node->next)->prev = node->prev;
  else if (r->nodes != m)
    node_at(e, r->nodes)->prev = node->prev;
  *(r->nodes != m ? &node_at(e, node->prev)->next : &r->nodes) = node->next;
  if (r->nodes == 0)
    r->needs &= (uint16_t) ~(MWI_TREE);
  else
    node_at(e, r->nodes)->looked = 0;
}

/* Does a watch of the root hear writes to the object of this node? */
static int is_heard(const mw_engine *e, uint32_t m) {
  const mwi_reach *reach = reach_of(e, m);
  const mwi_object *r;
  if (reach->root == m) return 0;
  if (reach->filtered) return reach_at(e, reach->top)->heard > 0;
  r = mwi_object_find(&e->watch, node_at(e, reach->root)->obj);
  return r != NULL && r->deep > 0;
}

/* Returns the next heard node, 0 for none.  The nodes of reaches that have
** become silent leave the list. */
static uint32_t next_heard(mw_engine *e, uint32_t m) {
  uint32_t next = node_at(e, m)->heard;
  while (next != 0 && !is_heard(e, next)) next = node_at(e, next)->heard;
  node_at(e, m)->heard = next;
  return next;
}

/* Have the nodes of the object, which has some, the right `heard`? */
static int are_looked_at(const mw_engine *e, const mwi_object *r) {
  return node_at(e, r->nodes)->looked == e->tree.woken;
}

/* Returns the first heard node of an object that has nodes. */
static uint32_t first_heard(mw_engine *e, const mwi_object *r) {
  uint32_t first = r->nodes, m = first, heard = 0;
  if (!are_looked_at(e, r)) {
    do {
      m = node_at(e, m)->prev;
      node_at(e, m)->heard = heard;
      if (is_heard(e, m)) heard = m;
    } while (m != first);
    node_at(e, first)->looked = e->tree.woken;
  }
  return is_heard(e, first) ? first : next_heard(e, first);
}

void mwi_tree_wake(mw_engine *e) {
  uint32_t m;
  if (++e->tree.woken != 0) return;
  for (m = 1; m <= e->tree.nodes.n; m++) node_at(e, m)->looked = 0;
  e->tree.woken = 1;
}

/* }====================================================== */

/* {======================================================
** From a field to its link
** ======================================================= */

static uint32_t link_hash(const mwi_link *l) {
  return mwi_key_hash(l->parent, &l->key);
}

/* Returns the link of a field, 0 when the field has none. */
static uint32_t find_link(const mw_engine *e, uint32_t parent,
                          const mw_value *key) {
  const mwi_table *table = &e->tree.table;
  mwi_search at;
  uint32_t i = mwi_table_first(table, mwi_key_hash(parent, key), &at);
  for (; i != 0; i = mwi_table_next(table, &at)) {
    const mwi_link *l = link_at(e, i);
    if (l->parent == parent && mw_value_equal(&l->key, key)) break;
  }
  return i;
}

void mwi_tree_close(mw_engine *e) {
  mwi_tree *part = &e->tree;
  mwi_table_drop(e, &part->table);
  mwi_column_drop(e, &part->nodes.items, MWI_PAGE * sizeof(mwi_node));
  mwi_column_drop(e, &part->links.items, MWI_PAGE * sizeof(mwi_link));
  mwi_column_drop(e, &part->reaches.items, MWI_PAGE * sizeof(mwi_reach));
}

size_t mwi_tree_bytes(const mw_engine *e) {
  const mwi_tree *part = &e->tree;
  return mwi_column_bytes(&part->nodes.items, MWI_PAGE * sizeof(mwi_node)) +
         mwi_column_bytes(&part->links.items, MWI_PAGE * sizeof(mwi_link)) +
         mwi_column_bytes(&part->reaches.items, MWI_PAGE * sizeof(mwi_reach)) +
         mwi_table_bytes(&part->table);
}

/* }====================================================== */

/* {======================================================
** Paths
** ======================================================= */

/* Follows `via` from node `m` to the end, but not beyond `stop`. */
static uint32_t end_of_path(const mw_engine *e, uint32_t m, uint32_t stop) {
  while (m != stop && node_at(e, m)->via != 0)
    m = link_at(e, node_at(e, m)->via)->parent;
  return m;
}

static void queue_orphan(mw_engine *e, uint32_t m) {
  mwi_node *node = node_at(e, m);
  node->queued = 1;
  if (e->tree.orphans == 0) e->tree.steps = 0;
  node->chain = e->tree.orphans;
  e->tree.orphans = m;
}

static void make_orphan(mw_engine *e, uint32_t m) {
  mwi_assert(!is_root(e, m));
  node_at(e, m)->via = 0;
  e->tree.lost++;
  if (!node_at(e, m)->queued) queue_orphan(e, m);
}

/* A node of the object has lost its last link. */
static void clear_links(mw_engine *e, mw_handle obj) {
  mwi_object *r = mwi_object_find(&e->watch, obj);
  uint32_t m = (r == NULL) ? 0 : r->nodes;
  while (m != 0 && node_at(e, m)->outs == 0) m = node_at(e, m)->next;
  if (r != NULL && m == 0) r->needs &= (uint16_t)~MWI_LINKS;
}

/* A field, unless it has no key, no longer holds the child of the link. */
static void leave(mw_engine *e, const mwi_link *l) {
  if (l->key.type == MW_TNIL || e->tree.forgets) return;
  e->tree.left = mwi_stamp_age(e->stamp);
  node_at(e, l->child)->left = e->tree.left;
}

static void list_in(mw_engine *e, uint32_t i) {
  mwi_link *l = link_at(e, i);
  mwi_node *child = node_at(e, l->child);
  l->prev_in = 0;
  if ((l->next_in = child->ins) != 0) link_at(e, l->next_in)->prev_in = i;
  child->ins = i;
}

static void unlist_in(mw_engine *e, uint32_t i) {
  const mwi_link *l = link_at(e, i);
  if (l->next_in != 0) link_at(e, l->next_in)->prev_in = l->prev_in;
  *(l->prev_in != 0 ? &link_at(e, l->prev_in)->next_in
                    : &node_at(e, l->child)->ins) = l->next_in;
}

/*
** Takes a link out of all lists and frees the link.  The child may become an
** orphan; but if the parent holds the child in another field as well, and the
** link of the other field is the newest, the child's path stays as long as
** before.
*/
static void end_link(mw_engine *e, uint32_t i) {
  mwi_link *l = link_at(e, i);
  mwi_node *parent = node_at(e, l->parent), *child = node_at(e, l->child);
  leave(e, l);
  unlist_in(e, i);
  *(l->prev_out != 0 ? &link_at(e, l->prev_out)->next_out : &parent->outs) =
      l->next_out;
  if (l->next_out != 0) link_at(e, l->next_out)->prev_out = l->prev_out;
  if (parent->outs == 0) clear_links(e, parent->obj);
  if (child->via == i) {
    uint32_t newest = child->ins;
    if (newest != 0 && link_at(e, newest)->parent == l->parent)
      child->via = newest;
    else
      make_orphan(e, l->child);
  }
  mwi_host_release(e, &l->key);
  e->tree.changes++;
  l->parent = 0;
  mwi_pool_give(&e->tree.links, i, sizeof(mwi_link));
}

static void remove_link(mw_engine *e, uint32_t i) {
  mwi_assert(find_link(e, link_at(e, i)->parent, &link_at(e, i)->key) == i);
  mwi_table_take(&e->tree.table, link_hash(link_at(e, i)), i);
  end_link(e, i);
}

/* Two links from one parent exchange their children, which keep their paths. */
static void exchange_children(mw_engine *e, uint32_t i, uint32_t j) {
  mwi_link *a = link_at(e, i), *b = link_at(e, j);
  uint32_t child = a->child;
  mwi_assert(a->parent == b->parent);
  if (a->child == b->child) return;
  leave(e, a);
  leave(e, b);
  unlist_in(e, i);
  unlist_in(e, j);
  a->age = b->age = mwi_stamp_age(e->stamp);
  a->child = b->child;
  b->child = child;
  list_in(e, i);
  list_in(e, j);
  if (node_at(e, a->child)->via == j) node_at(e, a->child)->via = i;
  if (node_at(e, b->child)->via == i) node_at(e, b->child)->via = j;
  e->tree.changes++;
}

/* Makes `i`, just taken, a link. */
static void init_link(mw_engine *e, uint32_t i, uint32_t parent, uint32_t child,
                      const mw_value *key) {
  mwi_link *l = link_at(e, i);
  mwi_node *p = node_at(e, parent), *c = node_at(e, child);
  mwi_assert(reach_of(e, parent)->below == c->reach);
  memset(l, 0, sizeof(*l));
  l->parent = parent;
  l->child = child;
  l->age = mwi_stamp_age(e->stamp);
  l->key = *key;
  mwi_host_retain(e, key);
  list_in(e, i);
  e->tree.changes++;
  if ((l->next_out = p->outs) != 0) link_at(e, l->next_out)->prev_out = i;
  p->outs = i;
  if (p->obj != MW_NONE) mwi_object_find(&e->watch, p->obj)->needs |= MWI_LINKS;
  if (c->via != 0 || is_root(e, child)) return;
  if (c->outs != 0 && end_of_path(e, parent, child) == child) return;
  c->via = i;
  if (c->queued && e->tree.lost > 0) e->tree.lost--; /* it comes back */
}

/* Takes a node from its object, with all its links. */
static void end_node(mw_engine *e, uint32_t m) {
  mwi_node *node = node_at(e, m);
  unlist_node(e, m);
  while (node->ins != 0) remove_link(e, node->ins);
  while (node->outs != 0) remove_link(e, node->outs);
  node->reach = 0;
}

/* }====================================================== */

/* {======================================================
** Orphans
** ======================================================= */

/* Begins a search for paths, in which no node is marked yet. */
static void begin_search(mw_engine *e) {
  mwi_tree *part = &e->tree;
  uint32_t m;
  if (++part->search < UINT32_MAX >> 2) return;
  for (m = 1; m <= part->nodes.n; m++) node_at(e, m)->seen = 0;
  part->search = 1;
}

/* Returns whether the node has a path.  A climb that finds no root marks its
** nodes, so that all climbs of a search together visit each node once. */
static int is_reached(mw_engine *e, uint32_t m) {
  uint32_t search = e->tree.search, at = m;
  while (node_at(e, at)->seen != search && node_at(e, at)->via != 0)
    at = link_at(e, node_at(e, at)->via)->parent;
  if (node_at(e, at)->seen != search && is_root(e, at)) return 1;
  while (node_at(e, m)->seen != search) {
    node_at(e, m)->seen = search & UINT32_MAX >> 2;
    if (node_at(e, m)->via != 0) m = link_at(e, node_at(e, m)->via)->parent;
  }
  return 0;
}

/* Gives an orphan another `via`, if a link comes from a node with a path. */
static int find_path(mw_engine *e, uint32_t m) {
  uint32_t i = node_at(e, m)->ins;
  while (i != 0 && !is_reached(e, link_at(e, i)->parent))
    i = link_at(e, i)->next_in;
  node_at(e, m)->via = i;
  return i != 0;
}

static int is_lost(const mw_engine *e, uint32_t m) {
  const mwi_node *node = node_at(e, m);
  return node->via == 0 && node->obj != MW_NONE && !is_root(e, m);
}

/* Makes orphans of the nodes whose path led through `m`, a node without a path:
** they join the end of the list.  Returns whether one is in the list
** already. */
static int orphan_children(mw_engine *e, uint32_t m, uint32_t *last) {
  uint32_t i;
  int any = 0;
  for (i = node_at(e, m)->outs; i != 0; i = link_at(e, i)->next_out) {
    uint32_t child = link_at(e, i)->child;
    mwi_node *node = node_at(e, child);
    if (node->via != i) continue;
    node->via = 0;
    any |= node->queued;
    if (node->queued) continue;
    node->queued = 1;
    node->chain = 0;
    node_at(e, *last)->chain = child;
    *last = child;
  }
  return any;
}

/* Gives the lost nodes below `m`, which has a path again, a path from `m`.
** Walks down over lost nodes, and back by `via`. */
static void lead_on(mw_engine *e, uint32_t m) {
  uint32_t at = m, i = node_at(e, m)->outs;
  while (i != 0 || at != m) {
    if (i == 0) {
      i = node_at(e, at)->via;
      at = link_at(e, i)->parent;
      i = link_at(e, i)->next_out;
    } else if (is_lost(e, link_at(e, i)->child)) {
      at = link_at(e, i)->child;
      node_at(e, at)->via = i;
      i = node_at(e, at)->outs;
    } else {
      i = link_at(e, i)->next_out;
    }
  }
}

/* Gives a path to all orphans that can have one.  Goes outwards from the
** orphans, so that a path close by is found before all nodes below are lost.  A
** path may serve an orphan that has looked already, so that orphan looks again.
** A path once found stays: no lost node is above.  Below an orphan that looks
** for the first time nothing is lost yet, however much is there. */
static void look_for_paths(mw_engine *e) {
  uint32_t m, last = e->tree.orphans, looked = 0;
  int again = last != 0;
  begin_search(e);
  while (again) {
    int is_first = looked == 0;
    again = 0;
    while (node_at(e, last)->chain != 0) last = node_at(e, last)->chain;
    for (m = e->tree.orphans; m != 0; m = node_at(e, m)->chain) {
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

/* Frees a reach with all its layers. */
static void give_reach(mw_engine *e, uint32_t top) {
  uint32_t i, next;
  for (i = top; i != 0; i = next) {
    mwi_reach *reach = reach_at(e, i);
    next = (reach->below == i) ? 0 : reach->below;
    if (reach->key.type != MW_TNIL) mwi_host_release(e, &reach->key);
    reach->root = 0;
    mwi_pool_give(&e->tree.reaches, i, sizeof(mwi_reach));
  }
}

static void give_node(mw_engine *e, uint32_t m) {
  mwi_pool_give(&e->tree.nodes, m, sizeof(mwi_node));
}

/* Empties the list of orphans: each has a path now, or is released.  Then the
** reaches of roots that have ended go. */
static void resolve(mw_engine *e) {
  mwi_tree *part = &e->tree;
  uint32_t m, roots = 0;
  part->steps = part->lost = 0;
  look_for_paths(e);
  while ((m = part->orphans) != 0) {
    mwi_node *node = node_at(e, m);
    part->orphans = node->chain;
    node->queued = 0;
    if (node->obj == MW_NONE && node->reach != 0) {
      node->chain = roots;
      roots = m;
    } else if (node->obj == MW_NONE) {
      give_node(e, m);
    } else if (is_lost(e, m)) {
      end_node(e, m);
      node->chain = part->released;
      part->released = m;
    }
  }
  while ((m = roots) != 0) {
    roots = node_at(e, m)->chain;
    give_reach(e, node_at(e, m)->reach);
    node_at(e, m)->reach = 0;
    give_node(e, m);
  }
}

/* Ends a node whose object is dead, or is no longer a root.  A root's node and
** reach stay, among the orphans, until these are resolved: a death may be found
** in the middle of a move, and no node is to have the reach when it goes. */
static void drop_node(mw_engine *e, uint32_t m) {
  mwi_node *node = node_at(e, m);
  uint32_t reach = is_root(e, m) ? node->reach : 0;
  end_node(e, m);
  node->obj = MW_NONE;
  if (reach != 0) {
    node->reach = reach;
    queue_orphan(e, m);
  } else if (!node->queued) {
    give_node(e, m);
  }
}

void mwi_tree_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  if (r == NULL || r->obj == MW_NONE) return;
  e->tree.forgets = 1; /* what only the dead held has left before */
  while (r->nodes != 0) drop_node(e, r->nodes);
  e->tree.forgets = 0;
}

void mw_tree_resolve(mw_engine *e) {
  mwi_check_enter(e);
  if (e->tree.orphans != 0) resolve(e);
}

uint32_t mwi_tree_release_mark(mw_engine *e) {
  mw_tree_resolve(e);
  return e->tree.released;
}

mw_handle mwi_tree_released_since(mw_engine *e, uint32_t mark) {
  uint32_t m;
  mw_tree_resolve(e);
  while ((m = e->tree.released) != mark && m != 0) {
    mw_handle obj = node_at(e, m)->obj;
    e->tree.released = node_at(e, m)->chain;
    give_node(e, m);
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
  uint32_t m;
  for (m = e->tree.released; m != mark && m != 0; m = node_at(e, m)->chain) {
    mw_handle obj = node_at(e, m)->obj;
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
** Roots and links
** ======================================================= */

/* The links and nodes taken beforehand for a link: one link and perhaps one
** node for each root. */
typedef struct link_needs {
  uint32_t links, nodes; /* lists */
} link_needs;

static int take_into(mw_engine *e, mwi_pool *pool, uint32_t *list,
                     size_t width) {
  uint32_t i = mwi_pool_take(e, pool, width);
  if (i == 0) return 0;
  *(uint32_t *)mwi_pool_at(pool, i, width) = *list;
  *list = i;
  return 1;
}

static uint32_t take_from(const mwi_pool *pool, uint32_t *list, size_t width) {
  uint32_t i = *list;
  mwi_assert(i != 0); /* take_needs has taken enough */
  *list = *(uint32_t *)mwi_pool_at(pool, i, width);
  return i;
}

static void give_needs(mw_engine *e, link_needs *n) {
  mwi_tree *part = &e->tree;
  while (n->links != 0)
    mwi_pool_give(&part->links,
                  take_from(&part->links, &n->links, sizeof(mwi_link)),
                  sizeof(mwi_link));
  while (n->nodes != 0)
    give_node(e, take_from(&part->nodes, &n->nodes, sizeof(mwi_node)));
}

/* A position in the node lists of a parent and of its child, which are walked
** together: the parent's nodes that lead on to a child under `key`.  With
** `top`, only those of one reach; else those of all reaches without a rule, or
** with `held`, those that hold the child under no key. */
typedef struct pair {
  uint32_t parent, child; /* child: the first whose order is not less */
  uint32_t top, held;
  const mw_value *key;
} pair;

/* Returns the layer of a child that node `m` of the parent has under a key, 0
** for none. */
static uint32_t layer_below(const mw_engine *e, uint32_t m,
                            const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m);
  if (reach->key.type != MW_TNIL && !mw_value_equal(&reach->key, key)) return 0;
  return reach->below;
}

static const mw_value no_key = {MW_TNIL, {0}};

static int leads_on(const mw_engine *e, const pair *p) {
  const mwi_reach *reach = reach_of(e, p->parent);
  if (node_at(e, p->parent)->fresh) return 0;
  if (layer_below(e, p->parent, p->key) == 0) return 0;
  if (p->held) return find_link(e, p->parent, &no_key) != 0;
  return p->top != 0 || reach->rule == 0;
}

static void meet(const mw_engine *e, pair *p) {
  uint64_t order;
  while (p->parent != 0 && !leads_on(e, p)) {
    p->parent = node_at(e, p->parent)->next;
    if (p->top != 0 && p->parent != 0 && reach_of(e, p->parent)->top != p->top)
      p->parent = 0;
  }
  if (p->parent == 0) return;
  order = reach_at(e, layer_below(e, p->parent, p->key))->order;
  while (p->child != 0 && reach_of(e, p->child)->order < order)
    p->child = node_at(e, p->child)->next;
}

/* Returns the first node of an object in a reach; the search begins at the
** end. */
static uint32_t first_in(const mw_engine *e, mw_handle obj, uint32_t top) {
  uint32_t first = first_node(e, obj), m, found = 0;
  if (first == 0) return 0;
  for (m = node_at(e, first)->prev;; m = node_at(e, m)->prev) {
    if (reach_of(e, m)->top == top)
      found = m;
    else if (found != 0)
      return found;
    if (m == first) return found;
  }
}

/* Returns the first position. */
static pair pair_from(const mw_engine *e, mw_handle parent, uint32_t top,
                      const mw_value *key, mw_handle child) {
  const mwi_object *r = mwi_object_find(&e->watch, child);
  pair p = {0, 0, 0, 0, NULL};
  p.parent = (top != 0) ? first_in(e, parent, top) : first_node(e, parent);
  p.top = top;
  p.key = key;
  if (p.parent == 0) return p;
  if (r != NULL)
    p.child =
        (top != 0) ? last_node(e, r, reach_of(e, p.parent)->order) : r->nodes;
  if (r != NULL && p.child == 0) p.child = r->nodes;
  meet(e, &p);
  return p;
}

/* Returns the only position of node `m`, the ground. */
static pair pair_from_node(const mw_engine *e, uint32_t m, const mw_value *key,
                           mw_handle child) {
  const mwi_object *r = mwi_object_find(&e->watch, child);
  pair p = {0, 0, 0, 0, NULL};
  p.parent = m;
  p.child = (r == NULL) ? 0 : r->nodes;
  p.key = key;
  meet(e, &p);
  return p;
}

int mwi_tree_leads_on(const mw_engine *e, mw_handle parent,
                      const mw_value *key) {
  return pair_from(e, parent, 0, key, MW_NONE).parent != 0;
}

static void next_pair(const mw_engine *e, pair *p) {
  p->parent = node_at(e, p->parent)->next;
  if (p->top != 0 && p->parent != 0 && reach_of(e, p->parent)->top != p->top)
    p->parent = 0;
  meet(e, p);
}

/* Returns the child's node in the layer, 0 for none. */
static uint32_t child_in(const mw_engine *e, const pair *p) {
  uint32_t m = p->child;
  return (m != 0 && node_at(e, m)->reach == layer_below(e, p->parent, p->key))
             ? m
             : 0;
}

/* Takes the memory for the links between these nodes; takes nothing if there is
** not enough. */
static int take_needs(mw_engine *e, pair p, mw_handle child, link_needs *n) {
  mwi_tree *part = &e->tree;
  uint32_t count = 0;
  int ok = mwi_object_need(e, child) != NULL;
  for (; ok && p.parent != 0; next_pair(e, &p)) {
    count++;
    ok = take_into(e, &part->links, &n->links, sizeof(mwi_link));
    if (ok && child_in(e, &p) == 0)
      ok = take_into(e, &part->nodes, &n->nodes, sizeof(mwi_node));
  }
  if (ok && mwi_table_reserve(e, &part->table, count)) return 1;
  give_needs(e, n);
  return 0;
}

/* Links the parent's node to the child's node in this reach.  Returns MW_NEW if
** the child's node is new. */
static int link_nodes(mw_engine *e, pair *p, const mw_value *key,
                      mw_handle child, link_needs *n) {
  mwi_tree *part = &e->tree;
  uint32_t old = find_link(e, p->parent, key), i;
  uint32_t m = child_in(e, p);
  int code = (m == 0) ? MW_NEW : MW_OK;
  if (m != 0 && old != 0 && link_at(e, old)->child == m) return code;
  if (m == 0) {
    m = take_from(&part->nodes, &n->nodes, sizeof(mwi_node));
    init_node(e, m, child, layer_below(e, p->parent, p->key));
    p->child = m;
    if (node_at(e, p->parent)->obj == child) node_at(e, m)->fresh = 1;
  }
  i = take_from(&part->links, &n->links, sizeof(mwi_link));
  if (old != 0)
    mwi_table_replace(&part->table, link_hash(link_at(e, old)), old, i);
  init_link(e, i, p->parent, m, key);
  if (old == 0) mwi_table_put(e, &part->table, link_hash(link_at(e, i)), i);
  if (old != 0) end_link(e, old);
  return code;
}

static int link_all(mw_engine *e, pair p, const mw_value *key,
                    mw_handle child) {
  link_needs n = {0, 0};
  int code = MW_OK;
  mw_handle parent = (p.parent == 0) ? MW_NONE : node_at(e, p.parent)->obj;
  uint32_t m;
  if (!take_needs(e, p, child, &n)) return MW_NOMEM;
  for (; p.parent != 0; next_pair(e, &p))
    if (link_nodes(e, &p, key, child, &n) == MW_NEW) code = MW_NEW;
  give_needs(e, &n);
  if (parent != child) return code;
  for (m = first_node(e, child); m != 0; m = node_at(e, m)->next)
    node_at(e, m)->fresh = 0;
  return code;
}

static int link_child(mw_engine *e, mw_reach reach, mw_handle parent,
                      const mw_value *key, const mw_value *under,
                      mw_handle child) {
  pair p;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, child)) return MW_STALE;
  if (first_node(e, parent) == 0) return MW_STALE;
  if (reach != 0) reach = reach_at(e, reach)->top;
  p = pair_from(e, parent, reach, key, child);
  return link_all(e, p, under, child);
}

int mw_tree_link(mw_engine *e, mw_reach reach, mw_handle parent,
                 const mw_value *key, mw_handle child) {
  return link_child(e, reach, parent, key, key, child);
}

int mw_tree_hold(mw_engine *e, mw_reach reach, mw_handle parent,
                 const mw_value *key, mw_handle child) {
  return link_child(e, reach, parent, key, &no_key, child);
}

int mw_tree_link_held(mw_engine *e, mw_handle parent, const mw_value *key,
                      mw_handle child) {
  pair p = {0, 0, 0, 1, NULL};
  const mwi_object *r = mwi_object_find(&e->watch, child);
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, child)) return MW_STALE;
  p.parent = first_node(e, parent);
  p.child = (r == NULL) ? 0 : r->nodes;
  p.key = key;
  meet(e, &p);
  return link_all(e, p, key, child);
}

void mw_tree_drop_hold(mw_engine *e, mw_handle parent) {
  mw_tree_unlink(e, parent, &no_key);
}

mw_reach mw_tree_ruled(const mw_engine *e, mw_handle obj, mw_reach after,
                       mw_handle *root, uint32_t *rule) {
  uint32_t m = first_node(e, obj);
  uint64_t order = (after == 0) ? 0 : reach_at(e, after)->order;
  for (; m != 0; m = node_at(e, m)->next) {
    const mwi_reach *reach = reach_of(e, m);
    if (reach->rule == 0 || reach->order <= order) continue;
    *root = node_at(e, reach->root)->obj;
    *rule = reach->rule;
    return node_at(e, m)->reach;
  }
  return 0;
}

uint32_t mw_reach_rule(const mw_engine *e, mw_reach reach, mw_handle *root) {
  const mwi_reach *its = reach_at(e, reach);
  *root = node_at(e, its->root)->obj;
  return its->rule;
}

int mw_root_has_rule(const mw_engine *e, mw_handle obj, uint32_t rule) {
  uint32_t m = first_node(e, obj);
  while (m != 0 && !(is_root(e, m) && reach_of(e, m)->rule == rule))
    m = node_at(e, m)->next;
  return m != 0;
}

int mw_tree_wanted(const mw_engine *e, mw_reach reach, mw_handle obj,
                   mw_value *key) {
  uint32_t m = (reach != 0) ? first_in(e, obj, reach) : first_node(e, obj);
  int wanted = 0;
  for (; m != 0; m = node_at(e, m)->next) {
    const mwi_reach *its = reach_of(e, m);
    if (reach != 0 && its->top != reach) break;
    if (its->below == 0) continue;
    if (its->key.type == MW_TNIL || (wanted && !mw_value_equal(key, &its->key)))
      return 2;
    *key = its->key;
    wanted = 1;
  }
  return wanted;
}

/* Returns the object to which a link leads. */
static mw_handle child_of(const mw_engine *e, uint32_t i) {
  return node_at(e, link_at(e, i)->child)->obj;
}

/* Returns whether a link leads from node `m` to node `c`: walks the shorter of
** the two lists. */
static int leads_to(const mw_engine *e, uint32_t m, uint32_t c) {
  uint32_t i = node_at(e, m)->outs, j = node_at(e, c)->ins;
  while (i != 0 && j != 0) {
    if (link_at(e, i)->child == c || link_at(e, j)->parent == m) return 1;
    i = link_at(e, i)->next_out;
    j = link_at(e, j)->next_in;
  }
  return 0;
}

int mwi_tree_holds(const mw_engine *e, mw_reach reach, mw_handle parent,
                   mw_handle child) {
  uint32_t m, c;
  for (m = first_node(e, parent); m != 0; m = node_at(e, m)->next) {
    const mwi_reach *its = reach_of(e, m);
    if (its->key.type != MW_TNIL) continue; /* of a path */
    if (reach != 0 ? node_at(e, m)->reach != reach : its->rule != 0) continue;
    c = first_node(e, child);
    while (c != 0 && node_at(e, c)->reach != its->below)
      c = node_at(e, c)->next;
    if (c != 0 && leads_to(e, m, c)) return 1;
  }
  return 0;
}

void mw_tree_unlink_others(mw_engine *e, mw_handle parent, const mw_value *key,
                           mw_handle child) {
  uint32_t p, i;
  mwi_check_enter(e);
  for (p = first_node(e, parent); p != 0; p = node_at(e, p)->next) {
    i = find_link(e, p, key);
    if (i != 0 && (child == MW_NONE || child_of(e, i) != child))
      remove_link(e, i);
  }
}

void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key) {
  mw_tree_unlink_others(e, parent, key, MW_NONE);
}

void mw_tree_expel(mw_engine *e, mw_handle obj) {
  uint32_t m, i, next;
  mwi_check_enter(e);
  for (m = first_node(e, obj); m != 0; m = node_at(e, m)->next)
    for (i = node_at(e, m)->ins; i != 0; i = next) {
      next = link_at(e, i)->next_in;
      if (node_at(e, link_at(e, i)->parent)->obj != MW_NONE) remove_link(e, i);
    }
}

void mw_tree_exchange(mw_engine *e, mw_handle parent, const mw_value *key,
                      const mw_value *other, mw_handle child) {
  uint32_t p, i, j;
  mwi_check_enter(e);
  for (p = first_node(e, parent); p != 0; p = node_at(e, p)->next) {
    j = find_link(e, p, other);
    if (j == 0 || child_of(e, j) != child) continue;
    i = find_link(e, p, key);
    if (i != 0) exchange_children(e, i, j);
  }
}

int mw_tree_is_parent(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return r != NULL && (r->needs & MWI_LINKS) != 0;
}

/* Does the reach of node `m` hear of a write to the field of the object? */
static int hears_of(const mw_engine *e, uint32_t m, const mw_value *key) {
  const mwi_reach *reach = reach_of(e, m), *top;
  if (!reach->filtered) return 1;
  if (reach->key.type != MW_TNIL && !mw_value_equal(&reach->key, key)) return 0;
  top = reach_at(e, reach->top);
  if (node_at(e, m)->obj != node_at(e, top->root)->obj) return 1;
  /* the root is below itself: the root's own lists hear its first key */
  return top->key.type != MW_TNIL && !mw_value_equal(&top->key, key);
}

int mwi_tree_is_quiet(mw_engine *e, const mwi_object *r, const mw_value *key) {
  uint32_t m = first_heard(e, r);
  while (m != 0 && !hears_of(e, m, key)) m = next_heard(e, m);
  return m == 0;
}

/* Returns the node with which an object is the root of a reach that is not
** filtered, or 0. */
static uint32_t own_root(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_node(e, obj);
  while (m != 0 && (!is_root(e, m) || reach_of(e, m)->filtered))
    m = node_at(e, m)->next;
  return m;
}

/* Makes the layers of a reach, whose root is an object with a record, or the
** ground.  Returns the first layer, 0 when there is no memory. */
static uint32_t new_reach(mw_engine *e, mw_handle obj,
                          const mw_filter *filter) {
  mwi_tree *part = &e->tree;
  uint32_t n = (filter->n_keys == 0) ? 1 : filter->n_keys, top = 0, i;
  uint32_t m = mwi_pool_take(e, &part->nodes, sizeof(mwi_node));
  if (m == 0) return 0;
  part->order += n;
  for (i = 0; i < n; i++) { /* the last layer first */
    uint32_t layer = mwi_pool_take(e, &part->reaches, sizeof(mwi_reach));
    mwi_reach *reach;
    if (layer == 0) break;
    reach = reach_at(e, layer);
    memset(reach, 0, sizeof(*reach));
    reach->root = m;
    reach->below = (filter->n_keys == 0) ? layer : top;
    reach->rule = filter->rule;
    reach->filtered = filter->n_keys != 0 || filter->rule != 0;
    reach->kept = (uint32_t)filter->kept & 3;
    reach->order = part->order - i;
    reach->age = mwi_stamp_age(e->stamp);
    if (filter->n_keys != 0) reach->key = filter->keys[n - 1 - i];
    if (reach->key.type != MW_TNIL) mwi_host_retain(e, &reach->key);
    top = layer;
  }
  if (i < n) {
    if (top != 0) give_reach(e, top);
    give_node(e, m);
    return 0;
  }
  for (i = top; i != 0;
       i = (reach_at(e, i)->below == i) ? 0 : reach_at(e, i)->below)
    reach_at(e, i)->top = top;
  init_node(e, m, obj, top);
  return top;
}

static const mw_filter no_filter = {0, NULL, 0, 0, 0};

int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach) {
  uint32_t m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  m = own_root(e, obj);
  if (m != 0) {
    *reach = node_at(e, m)->reach;
    return MW_OK;
  }
  if (mwi_object_need(e, obj) == NULL) return MW_NOMEM;
  *reach = new_reach(e, obj, &no_filter);
  return (*reach == 0) ? MW_NOMEM : MW_NEW;
}

/* Has the reach this filter? */
static int has_filter(const mw_engine *e, uint32_t layer,
                      const mw_filter *filter) {
  uint32_t n = 0;
  const mwi_reach *reach = reach_at(e, layer);
  if (reach->rule != filter->rule || (int)reach->kept != filter->kept) return 0;
  if (filter->n_keys == 0) return reach->below == layer;
  for (; layer != 0; layer = reach->below) {
    reach = reach_at(e, layer);
    if (n == filter->n_keys || reach->below == layer ||
        reach->key.type != filter->keys[n].type ||
        !mw_value_equal(&reach->key, &filter->keys[n]))
      return 0;
    n++;
  }
  return n == filter->n_keys;
}

/* Ends the filtered reaches of a root that nobody hears, but for one, for a
** program may begin one after another. */
static void end_silent(mw_engine *e, mw_handle obj, uint32_t except) {
  uint32_t m = first_node(e, obj);
  while (m != 0) {
    const mwi_reach *reach = reach_of(e, m);
    if (is_root(e, m) && reach->filtered && !reach->kept && reach->heard == 0 &&
        reach->top != except) {
      drop_node(e, m);
      resolve(e);
      m = first_node(e, obj);
    } else {
      m = node_at(e, m)->next;
    }
  }
}

int mw_root_begin_filtered(mw_engine *e, mw_handle obj, const mw_filter *filter,
                           mw_reach *reach) {
  uint32_t m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  for (m = first_node(e, obj); m != 0; m = node_at(e, m)->next) {
    *reach = node_at(e, m)->reach;
    if (is_root(e, m) && reach_of(e, m)->filtered &&
        has_filter(e, *reach, filter))
      return MW_OK;
  }
  if (mwi_object_need(e, obj) == NULL) return MW_NOMEM;
  *reach = new_reach(e, obj, filter); /* retains its keys first */
  if (*reach == 0) return MW_NOMEM;
  end_silent(e, obj, *reach);
  return MW_NEW;
}

int mw_reach_end(mw_engine *e, mw_reach reach) {
  mwi_check_enter(e);
  drop_node(e, reach_at(e, reach)->root);
  resolve(e);
  return MW_OK;
}

int mw_root_end(mw_engine *e, mw_handle obj) {
  uint32_t m = own_root(e, obj);
  mwi_check_enter(e);
  if (m == 0) return MW_STALE;
  drop_node(e, m);
  resolve(e);
  return MW_OK;
}

void mwi_tree_end_roots(mw_engine *e, mw_handle obj, int kept) {
  uint32_t m = first_node(e, obj);
  while (m != 0) {
    if (is_root(e, m) && (int)reach_of(e, m)->kept == kept) {
      drop_node(e, m);
      resolve(e);
      m = first_node(e, obj);
    } else {
      m = node_at(e, m)->next;
    }
  }
}

uint32_t mwi_root_rule(const mw_engine *e, mw_handle obj, int kept) {
  uint32_t m = first_node(e, obj);
  while (m != 0 && !(is_root(e, m) && (int)reach_of(e, m)->kept == kept &&
                     reach_of(e, m)->rule != 0))
    m = node_at(e, m)->next;
  return (m == 0) ? 0 : reach_of(e, m)->rule;
}

void mwi_reach_hear(mw_engine *e, uint32_t reach, int n) {
  mwi_reach *its = reach_at(e, reach);
  its->heard += (uint32_t)n;
  if (n > 0 && its->heard == 1) mwi_tree_wake(e);
}

uint32_t mwi_reach_filter(const mw_engine *e, uint32_t reach) {
  return (reach != 0 && reach_at(e, reach)->filtered) ? reach : 0;
}

/* The key under which the ground holds a silent root, one for each of two
** holders.  The type is not MW_TOBJECT, so the key does not end with the death
** of the root. */
static mw_value ground_key(mw_handle obj, int holder) {
  mw_value key = {MW_TOTHER, {0}};
  key.u.i = (int64_t)(obj | (holder ? MWI_HELD : 0));
  return key;
}

/* Returns the link from the ground to a silent root, 0 for none. */
static uint32_t ground_link(const mw_engine *e, mw_handle obj, int holder) {
  mw_value key = ground_key(obj, holder);
  uint32_t ground = e->tree.ground;
  return (ground == 0) ? 0 : find_link(e, reach_at(e, ground)->root, &key);
}

int mwi_ground_hold(mw_engine *e, mw_handle obj, int holder, mw_reach *reach) {
  mw_value key = ground_key(obj, holder);
  mwi_tree *part = &e->tree;
  uint32_t m;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (part->ground == 0) part->ground = new_reach(e, MW_NONE, &no_filter);
  if (part->ground == 0) return MW_NOMEM;
  *reach = part->ground;
  m = reach_at(e, part->ground)->root;
  if (find_link(e, m, &key) != 0) return MW_OK;
  return link_all(e, pair_from_node(e, m, &key, obj), &key, obj);
}

int mwi_ground_drop(mw_engine *e, mw_handle obj, int holder) {
  uint32_t i = ground_link(e, obj, holder);
  if (i == 0) return MW_STALE;
  remove_link(e, i);
  resolve(e);
  return MW_OK;
}

int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach) {
  return mwi_ground_hold(e, obj, 0, reach);
}

int mw_root_end_silent(mw_engine *e, mw_handle obj) {
  return mwi_ground_drop(e, obj, 0);
}

int mw_tree_has(const mw_engine *e, mw_handle obj) {
  return first_node(e, obj) != 0;
}

int mw_tree_is_below(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_node(e, obj);
  while (m != 0 && node_at(e, reach_of(e, m)->root)->obj == obj &&
         !reach_of(e, m)->kept)
    m = node_at(e, m)->next;
  return m != 0;
}

/* }====================================================== */

/* {======================================================
** Upwards
** ======================================================= */

/* While there are orphans, each look at a path is a climb: so many steps are
** made before the orphans are resolved in any case. */
#define STEPS 20000

/* Returns whether node `m` has a path, or is not to be looked at again before
** the orphans are resolved. */
static int climbs(mw_engine *e, uint32_t m) {
  while (node_at(e, m)->via != 0) {
    m = link_at(e, node_at(e, m)->via)->parent;
    if (++e->tree.steps > STEPS) return 0;
  }
  return is_root(e, m);
}

/* Returns whether there is a path to node `m`.  If the node has lost its path,
** looks for another one, and the node may go. */
static int resolve_node(mw_engine *e, uint32_t m) {
  uint32_t version = e->tree.version;
  if (e->tree.orphans == 0 || climbs(e, m)) return 1;
  resolve(e);
  return e->tree.version == version;
}

int mwi_tree_is_lost(mw_engine *e, const mwi_object *r) {
  uint32_t m = r->nodes;
  if (e->tree.orphans == 0 || m == 0) return 0;
  while (m != 0 && !climbs(e, m)) m = node_at(e, m)->next;
  if (m == 0) resolve(e);
  return r->nodes == 0;
}

/* Returns the node of `obj` in a reach if there is a path to the node, else
** 0. */
static uint32_t resolved_node(mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = find_node(e, obj, reach);
  return (m == 0 || resolve_node(e, m)) ? m : find_node(e, obj, reach);
}

/* Continues a climb with node `m` of the object, or a later node. */
static mwi_object *climb_from(mw_engine *e, mwi_object *r, uint32_t m,
                              const mw_value *key, mwi_climb *climb) {
  for (; m != 0; m = next_heard(e, m)) {
    const mwi_reach *reach = reach_of(e, m);
    if (reach->order > climb->newest) break;
    if (reach->top == climb->top || !hears_of(e, m, key)) continue;
    climb->order = reach->order;
    climb->version = e->tree.version;
    climb->node = m;
    if (!resolve_node(e, m)) {
      climb->order--; /* the node may have found a path while others went */
      return mwi_tree_next(e, r, key, climb);
    }
    climb->top = reach->top;
    climb->filter = reach->filtered ? reach->top : 0;
    return mwi_object_find(&e->watch, node_at(e, reach->root)->obj);
  }
  return NULL;
}

mwi_object *mwi_tree_first(mw_engine *e, mwi_object *r, const mw_value *key,
                           mwi_climb *climb) {
  climb->top = 0;
  climb->newest = e->tree.order;
  if (r->nodes == 0) return NULL;
  return climb_from(e, r, first_heard(e, r), key, climb);
}

mwi_object *mwi_tree_next(mw_engine *e, mwi_object *r, const mw_value *key,
                          mwi_climb *climb) {
  uint32_t m;
  if (climb->version == e->tree.version && are_looked_at(e, r))
    return climb_from(e, r, next_heard(e, climb->node), key, climb);
  m = (r->nodes == 0) ? 0 : first_heard(e, r);
  while (m != 0 && reach_of(e, m)->order <= climb->order) m = next_heard(e, m);
  return climb_from(e, r, m, key, climb);
}

int mwi_tree_is_watched(mw_engine *e, mwi_object *r) {
  uint32_t m;
  if (e->tree.orphans != 0) resolve(e);
  for (m = r->nodes; m != 0; m = node_at(e, m)->next) {
    const mwi_object *root =
        mwi_object_find(&e->watch, node_at(e, reach_of(e, m)->root)->obj);
    if (root != NULL && root->watched) return 1;
  }
  return 0;
}

/* Searches upwards from node `m` for the root, all nodes at one distance before
** the nodes that are farther away.  Returns the root's node, 0 if the search
** does not find the root. */
static uint32_t search_root(mw_engine *e, uint32_t m) {
  uint32_t at = m, last = m, i;
  begin_search(e);
  node_at(e, m)->seen = e->tree.search & UINT32_MAX >> 2;
  node_at(e, m)->queue = 0;
  for (; at != 0; at = node_at(e, at)->queue) {
    for (i = node_at(e, at)->ins; i != 0; i = link_at(e, i)->next_in) {
      uint32_t parent = link_at(e, i)->parent;
      mwi_node *node = node_at(e, parent);
      if (node->seen == e->tree.search) continue;
      node->seen = e->tree.search & UINT32_MAX >> 2;
      node->toward = i;
      node->queue = 0;
      if (is_root(e, parent)) return parent;
      node_at(e, last)->queue = parent;
      last = parent;
    }
  }
  return 0;
}

/* Returns the length of the path to node `m`. */
static uint32_t depth_of(const mw_engine *e, uint32_t m) {
  uint32_t depth = 0, i;
  for (i = node_at(e, m)->via; i != 0; depth++)
    i = node_at(e, link_at(e, i)->parent)->via;
  return depth;
}

/* Lets the path to node `m` be a shortest one; a path that is one stays. */
static void shorten(mw_engine *e, uint32_t m) {
  mwi_tree *part = &e->tree;
  uint32_t root, at, far = 0;
  if (part->shortest == m && part->shortened == part->changes) return;
  if (is_root(e, m)) return;
  root = search_root(e, m);
  for (at = root; at != 0 && at != m; far++)
    at = link_at(e, node_at(e, at)->toward)->child;
  if (far >= depth_of(e, m)) root = m;
  for (at = root; at != 0 && at != m;) {
    uint32_t i = node_at(e, at)->toward;
    at = link_at(e, i)->child;
    node_at(e, at)->via = i;
  }
  part->shortest = m;
  part->shortened = part->changes;
}

void mwi_tree_top(mw_engine *e, const mwi_climb *climb, mw_value *key) {
  uint32_t i;
  shorten(e, climb->node);
  for (i = node_at(e, climb->node)->via; i != 0;
       i = node_at(e, link_at(e, i)->parent)->via)
    *key = link_at(e, i)->key;
}

static uint32_t path_of(mw_engine *e, uint32_t m, mw_value *keys, uint32_t n) {
  uint32_t depth = 0, i;
  if (m == 0) return 0;
  shorten(e, m);
  for (i = node_at(e, m)->via; i != 0; depth++) {
    const mwi_link *l = link_at(e, i);
    if (depth < n) keys[depth] = l->key;
    i = node_at(e, l->parent)->via;
  }
  return depth;
}

uint32_t mw_change_path(mw_engine *e, const mw_change *change, mw_handle root,
                        mw_handle obj, mw_value *keys, uint32_t n) {
  uint32_t m = change->node;
  mwi_check_enter(e);
  if (m != 0 && m <= e->tree.nodes.n && node_at(e, m)->obj == obj &&
      node_at(e, m)->reach != 0 &&
      node_at(e, reach_of(e, m)->root)->obj == root && resolve_node(e, m))
    return path_of(e, m, keys, n);
  if (change->reach != 0 && reach_at(e, change->reach)->root != 0) {
    m = first_in(e, obj, change->reach);
    while (m != 0 && is_root(e, m)) m = node_at(e, m)->next;
    return (m != 0 && resolve_node(e, m)) ? path_of(e, m, keys, n) : 0;
  }
  return mw_tree_path(e, root, obj, keys, n); /* the tree has changed */
}

uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                      mw_value *keys, uint32_t n) {
  uint32_t m = own_root(e, root);
  if (m == 0 || obj == root) return 0;
  return path_of(e, resolved_node(e, obj, node_at(e, m)->reach), keys, n);
}

uint32_t mw_tree_way(mw_engine *e, mw_handle obj, mw_handle *root,
                     mw_value *keys, uint32_t n) {
  uint32_t m = first_node(e, obj), depth = 0, i;
  *root = MW_NONE;
  if (m != 0 && !resolve_node(e, m)) m = first_node(e, obj);
  if (m == 0) return 0;
  shorten(e, m);
  *root = obj;
  for (i = node_at(e, m)->via; i != 0; depth++) {
    const mwi_link *l = link_at(e, i);
    if (node_at(e, l->parent)->obj == MW_NONE) break; /* the ground */
    if (depth < n) keys[depth] = l->key;
    *root = node_at(e, l->parent)->obj;
    i = node_at(e, l->parent)->via;
  }
  return depth;
}

/* Returns the node of an object in a reach that is not one of a path, 0 for
** none; first the object's own reach, or the ground if it is a silent root for
** longer, then one of all that is there. */
static uint32_t whole_node(const mw_engine *e, mw_handle obj) {
  uint32_t m = own_root(e, obj), ruled = 0, age, i;
  int holder;
  age = (m == 0) ? UINT32_MAX : reach_of(e, m)->age;
  for (holder = 0; holder < 2; holder++) {
    i = ground_link(e, obj, holder);
    if (i == 0 || (m != 0 && link_at(e, i)->age >= age)) continue;
    m = link_at(e, i)->child;
    age = link_at(e, i)->age;
  }
  if (m != 0) return m;
  for (m = first_node(e, obj); m != 0; m = node_at(e, m)->next) {
    const mwi_reach *reach = reach_of(e, m);
    if (!reach->filtered) return m;
    if (ruled == 0 && reach->rule != 0 && reach->key.type == MW_TNIL &&
        reach->below == node_at(e, m)->reach)
      ruled = m;
  }
  return ruled;
}

mw_reach mw_tree_reach(const mw_engine *e, mw_handle root) {
  uint32_t m = whole_node(e, root);
  return (m == 0) ? 0 : node_at(e, m)->reach;
}

/* Returns the node of `obj` in the reach in which the search is for what is
** below `root`, 0 for none. */
static uint32_t node_below(mw_engine *e, mw_handle root, mw_handle obj) {
  uint32_t m = whole_node(e, root);
  mwi_check_enter(e);
  if (m == 0) m = first_node(e, root);
  return (m == 0) ? 0 : resolved_node(e, obj, node_at(e, m)->reach);
}

uint32_t mw_tree_parents(mw_engine *e, mw_handle root, mw_handle obj,
                         mw_holder *holders, uint32_t n) {
  uint32_t m = node_below(e, root, obj), count = 0, i;
  for (i = (m == 0) ? 0 : node_at(e, m)->ins; i != 0;
       i = link_at(e, i)->next_in) {
    const mwi_link *l = link_at(e, i);
    mw_handle parent = node_at(e, l->parent)->obj;
    if (parent == MW_NONE) continue; /* the ground */
    if (count < n) {
      holders[count].parent = parent;
      holders[count].key = l->key;
      holders[count].age = l->age;
    }
    count++;
  }
  return count;
}

uint32_t mw_tree_left(mw_engine *e, mw_handle root, mw_handle obj) {
  uint32_t m = node_below(e, root, obj);
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  if (m != 0) return node_at(e, m)->left;
  return (r == NULL) ? 0 : r->gone;
}

/* }====================================================== */
