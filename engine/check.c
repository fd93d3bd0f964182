/*
** check.c - do all invariants hold?
** SPDX-License-Identifier: MIT
**
** A check walks each part of an engine as the head of the part's file describes
** the part.  An element in use must be reached once, from its place; an element
** not in use must be free.  So the checks look at each element and at the sums.
*/
#include "engine.h"

#include <string.h>

#ifndef MW_CHECKS

int mw_verify(mw_engine *e) {
  (void)e;
  return MW_OK;
}

#else

int *mwi_quiet(const mw_engine *e) {
  return &((mw_engine *)(uintptr_t)e)->check.quiet;
}

/* {======================================================
** How a check breaks off, sums, pools
** ======================================================= */

static int break_off(mw_engine *e, const char *condition, int line) {
  e->check.broken = condition;
  e->check.line = line;
  return MW_BROKEN;
}

/* In a function with an engine `e`: returns unless the condition holds. */
#define holds(c) \
  do { \
    if (!(c)) return break_off(e, #c, __LINE__); \
  } while (0)

/* In a function with an engine `e`: returns unless `call` returns MW_OK. */
#define passes(call) \
  do { \
    if ((call) != MW_OK) return MW_BROKEN; \
  } while (0)

/* The numbers of the elements that the walks have reached. */
typedef struct sums {
  uint32_t watches, fields;
  uint32_t ended;             /* of the watches in lists */
  uint32_t guarded, guarding; /* those of objects; in objects' chains */
  uint32_t after, checks, deep, deep_skips; /* of the watches that wait */
  uint32_t results;
  uint32_t nodes, members, orphans, reaches;
  uint32_t ins, outs; /* links, from both ends */
} sums;

static int verify_pool(mw_engine *e, const mwi_pool *pool, size_t width,
                       uint32_t used) {
  uint32_t i, n = 0;
  for (i = pool->free; i != 0; i = *(uint32_t *)mwi_pool_at(pool, i, width)) {
    holds(i <= pool->n);
    holds(++n <= pool->n);
  }
  holds(used + n == pool->n);
  return MW_OK;
}

static int stands_in(const mwi_table *table, uint32_t hash, uint32_t number) {
  mwi_search at;
  uint32_t i = mwi_table_first(table, hash, &at);
  while (i != 0 && i != number) i = mwi_table_next(table, &at);
  return i != 0;
}

static int is_taken(const mwi_pool *pool, uint32_t i) {
  return i > 0 && i <= pool->n;
}

/* }====================================================== */

/* {======================================================
** Identity, serials, clocks
** ======================================================= */

/* A slot that is free, as reached through the list. */
static int verify_free_slots(mw_engine *e, uint32_t n_free) {
  const mwi_identity *part = &e->identity;
  uint32_t slot = part->free, n = 0;
  while (slot != 0) {
    holds(slot < part->top && mwi_identity_handle(part, slot) == MW_NONE);
    holds(++n <= n_free);
    slot = (uint32_t)(uintptr_t)mwi_identity_page_of(part, slot)
               ->ptr[slot % MWI_PAGE];
  }
  holds(n == n_free);
  return MW_OK;
}

static int verify_identity(mw_engine *e) {
  mwi_identity *part = &e->identity;
  uint32_t slot, found = part->found, taken = 0, used_up = 0, entries = 0, i;
  holds(part->top > 0 && (part->top - 1) / MWI_PAGE < part->n_pages);
  holds(mwi_identity_handle(part, 0) == MW_NONE);
  for (slot = 1; slot < part->top; slot++) {
    const mwi_identity_page *page = mwi_identity_page_of(part, slot);
    if (mwi_identity_handle(part, slot) == MW_NONE) {
      used_up += page->age[slot % MWI_PAGE] == MWI_MAXAGE;
      continue;
    }
    taken++;
    part->found = UINT32_MAX; /* so the search uses the table */
    holds(mwi_identity_find(e, page->ptr[slot % MWI_PAGE]) == slot);
  }
  part->found = found;
  for (i = 0; i < MWI_SHARDS; i++) entries += part->shards[i].size;
  holds(part->count == taken && entries == taken);
  holds(part->look > 0 && (part->look < part->top || part->left == 0));
  return verify_free_slots(e, part->top - 1 - taken - used_up);
}

static int verify_clock(mw_engine *e, const mwi_clock *clock) {
  uint32_t i, slot;
  for (i = 0; i < clock->tags.n; i++) {
    const mwi_clock_page *page = (const mwi_clock_page *)clock->tags.pages[i];
    if (page == NULL) continue;
    holds(page->newest <= clock->now + 1);
    for (slot = i * MWI_PAGE; slot < (i + 1) * MWI_PAGE; slot++) {
      if (page->tag[slot % MWI_PAGE] == 0) continue;
      holds(page->tag[slot % MWI_PAGE] <= page->newest);
      holds(slot < e->identity.top &&
            mwi_identity_handle(&e->identity, slot) != MW_NONE);
    }
  }
  return MW_OK;
}

static int verify_clocks(mw_engine *e) {
  const mwi_clocks *part = &e->clock;
  uint32_t i;
  holds(part->n > 0 && part->n <= part->size && e->identity.given < part->n);
  for (i = 0; i < part->n; i++) {
    mw_clock same = i;
    const mwi_clock *clock = &part->clocks[i];
    if (clock->name != NULL) /* the name finds the clock */
      holds(mw_clock_open(e, clock->name, clock->len, &same) == MW_OK);
    holds(same == i);
    passes(verify_clock(e, clock));
  }
  return MW_OK;
}

static int verify_serials(mw_engine *e) {
  uint32_t slot, i, n = 0, entries = 0;
  for (slot = 1; slot < e->identity.top; slot++) {
    mw_handle h = mwi_identity_handle(&e->identity, slot);
    int64_t serial = mw_clock_generation(e, e->identity.given, h);
    if (serial < 0) continue;
    n++;
    holds(serial > 0 && mw_serial_object(e, (uint64_t)serial) == h);
  }
  for (i = 0; i < MWI_SHARDS; i++) entries += e->identity.serials[i].size;
  holds(entries == n);
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Watches
** ======================================================= */

static const mwi_watch *watch_number(const mw_engine *e, uint32_t i) {
  return (const mwi_watch *)mwi_pool_at(&e->watch.watches, i,
                                        sizeof(mwi_watch));
}

static const mwi_node *node_number(const mw_engine *e, uint32_t n) {
  return (const mwi_node *)mwi_pool_at(&e->tree.nodes, n, sizeof(mwi_node));
}

static const mwi_member *member_number(const mw_engine *e, uint32_t m) {
  return (const mwi_member *)mwi_pool_at(&e->tree.members, m,
                                         sizeof(mwi_member));
}

static const mwi_reach *reach_number(const mw_engine *e, uint32_t i) {
  return (const mwi_reach *)mwi_pool_at(&e->tree.reaches, i, sizeof(mwi_reach));
}

/* Returns the object that is the root of a reach, MW_NONE for none. */
static mw_handle root_object(const mw_engine *e, uint32_t reach) {
  uint32_t m = reach_number(e, reach)->root;
  uint32_t n = is_taken(&e->tree.members, m) ? member_number(e, m)->node : 0;
  return is_taken(&e->tree.nodes, n) ? node_number(e, n)->obj : MW_NONE;
}

static int waits(const mwi_watch *w) {
  return (w->flags & (MWI_ENDED | MWI_CLAIMED)) == 0;
}

/* The twins of a watch lead back to the watch.  At least one watch of a ring
** has a smaller number than its twin: the check goes round from there only. */
static int verify_twins(mw_engine *e, uint32_t first) {
  const mwi_watch *w = watch_number(e, first);
  uint32_t i = w->twin, n = 0;
  holds(is_taken(&e->watch.watches, i));
  holds(watch_number(e, i)->seq == w->seq);
  if (i < first) return MW_OK;
  for (; i != first; i = watch_number(e, i)->twin) {
    const mwi_watch *twin = watch_number(e, i);
    holds(twin->seq == w->seq && twin->slot == w->slot);
    holds(twin->field != 0 && twin->field != w->field);
    holds(waits(twin) == waits(w));
    holds(++n <= e->watch.watches.n && is_taken(&e->watch.watches, twin->twin));
  }
  return MW_OK;
}

/* A watch of a filtered reach keeps the reach, until the watch ends. */
static int verify_reach(mw_engine *e, const mwi_object *r, uint32_t reach) {
  holds(is_taken(&e->tree.reaches, reach));
  holds(reach_number(e, reach)->top == reach);
  holds(reach_number(e, reach)->heard > 0);
  holds(root_object(e, reach) == r->obj);
  return MW_OK;
}

/* The numbers of watches in the lists of one object. */
typedef struct lists {
  uint32_t linked, ended, follows;
  uint32_t waiting, deep; /* that wait; of these, deep ones of all below */
  uint32_t calls;         /* that wait and are no plain flags */
  int skips;
} lists;

static int verify_watch(mw_engine *e, const mwi_object *r, uint32_t i,
                        lists *has, sums *sum) {
  const mwi_watch *w = watch_number(e, i);
  holds(w->slot == mw_slot(r->obj));
  holds(w->seq > 0 && w->seq <= e->watch.seq);
  has->linked++;
  if (w->flags & MWI_ENDED)
    has->ended++;
  else
    passes(verify_twins(e, i));
  if (w->reach != 0 && !(w->flags & MWI_ENDED))
    passes(verify_reach(e, r, w->reach));
  if ((w->flags & MWI_OBJECT) && !(w->flags & MWI_ENDED)) sum->guarded++;
  if (w->flags & MWI_FOLLOWS) has->follows++;
  holds(!(w->flags & MWI_CLAIMED) || (w->flags & MW_ONCE));
  holds(!(w->flags & MWI_CLAIMED) || r->walks > 0);
  if (!waits(w)) return MW_OK;
  has->waiting++;
  has->skips |= w->flags & MW_SKIP;
  if ((w->flags & (MWI_ENDED - 1) & ~(MW_DEEP | MW_WEAK)) != MW_FLAG)
    has->calls++;
  if (w->flags & MW_AFTER) sum->after++;
  if (w->flags & MW_CHECK) sum->checks++;
  if (w->flags & MWI_RESULT) sum->results++;
  if ((w->flags & MW_DEEP) == 0) return MW_OK;
  if (w->reach == 0) has->deep++;
  sum->deep++;
  if (w->flags & MW_SKIP) sum->deep_skips++;
  return MW_OK;
}

/* A list, of all fields or of one field, ascends by `seq`; `prev` of the first
** watch is the last. */
static int verify_list(mw_engine *e, const mwi_object *r, uint32_t field,
                       uint32_t first, lists *has, sums *sum) {
  uint32_t i, prev = 0;
  for (i = first; i != 0; prev = i, i = watch_number(e, i)->next) {
    const mwi_watch *w;
    holds(is_taken(&e->watch.watches, i));
    w = watch_number(e, i);
    holds(w->field == field && (prev == 0 || w->prev == prev));
    holds(prev == 0 || watch_number(e, prev)->seq < w->seq);
    passes(verify_watch(e, r, i, has, sum));
  }
  holds(first == 0 || watch_number(e, first)->prev == prev);
  return MW_OK;
}

static int verify_fields(mw_engine *e, const mwi_object *r, lists *has,
                         sums *sum) {
  uint32_t i, prev = 0;
  for (i = r->fields; i != 0;) {
    const mwi_field *f;
    holds(is_taken(&e->watch.fields, i) && sum->fields < e->watch.fields.n);
    f = (const mwi_field *)mwi_pool_at(&e->watch.fields, i, sizeof(mwi_field));
    sum->fields++;
    holds(f->first != 0 && f->prev == prev && f->slot == mw_slot(r->obj));
    holds(stands_in(&e->watch.table, mwi_key_hash(f->slot, &f->key), i));
    passes(verify_list(e, r, i, f->first, has, sum));
    prev = i;
    i = f->next;
  }
  return MW_OK;
}

/* Watches that have ended are chained for as long as a walk needs them. */
static int verify_ended(mw_engine *e, const sums *sum) {
  uint32_t i, n = 0;
  for (i = e->watch.ended; i != 0; i = watch_number(e, i)->note) {
    holds(is_taken(&e->watch.watches, i));
    holds(watch_number(e, i)->flags & MWI_ENDED);
    holds(mwi_object_of(&e->watch, watch_number(e, i)->slot)->walks > 0);
    holds(++n <= sum->ended);
  }
  holds(n == sum->ended);
  return MW_OK;
}

/* A count of 16 bits stays at its greatest value. */
static int is_count(uint16_t count, uint32_t n) {
  return count == n || count == UINT16_MAX;
}

static int has_bit(const mwi_object *r, unsigned bit) {
  return (r->needs & bit) != 0;
}

/* The chain of the watches of a guard that is an object. */
static int verify_guarding(mw_engine *e, const mwi_object *guard, sums *sum) {
  uint32_t i, newer = 0;
  for (i = guard->guarding; i != 0; i = watch_number(e, i)->older) {
    const mwi_watch *w;
    holds(is_taken(&e->watch.watches, i));
    w = watch_number(e, i);
    holds((w->flags & MWI_OBJECT) && !(w->flags & MWI_ENDED));
    holds(w->ref == guard->obj && w->newer == newer);
    holds(++sum->guarding <= e->watch.watches.n);
    newer = i;
  }
  return MW_OK;
}

static int verify_watches_of(mw_engine *e, const mwi_object *r, sums *sum) {
  lists all = {0, 0, 0, 0, 0, 0, 0}, keyed = {0, 0, 0, 0, 0, 0, 0};
  passes(verify_list(e, r, 0, r->first, &all, sum));
  passes(verify_fields(e, r, &keyed, sum));
  holds(is_count(r->unkeyed, all.waiting) && is_count(r->keyed, keyed.waiting));
  holds(is_count(r->deep, all.deep + keyed.deep));
  holds(is_count(r->calls, all.calls + keyed.calls));
  holds(has_bit(r, MWI_UNKEYED) == (r->unkeyed > 0));
  holds(has_bit(r, MWI_KEYED) == (r->keyed > 0));
  holds(has_bit(r, MWI_CALLS) == (r->calls > 0));
  holds(has_bit(r, MWI_SKIPS) || !(all.skips || keyed.skips));
  holds(!has_bit(r, MWI_SKIPS) || r->unkeyed + r->keyed > 0);
  holds(all.linked + keyed.linked == all.follows || r->walks > 0 || r->watched);
  holds(r->was_watched || !r->watched);
  holds(r->walks == 0 || e->check.guards > 0);
  holds(r->fields != 0 || r->filter == 0);
  passes(verify_guarding(e, r, sum));
  sum->watches += all.linked + keyed.linked;
  sum->ended += all.ended + keyed.ended;
  return MW_OK;
}

static int verify_watches(mw_engine *e, const sums *sum) {
  const mwi_watches *part = &e->watch;
  holds(part->after == sum->after && part->deep == sum->deep);
  holds(part->checks == sum->checks);
  holds(part->deep_skips == sum->deep_skips);
  holds(sum->guarded == sum->guarding && part->results == sum->results);
  holds(part->walks == 0 || e->check.guards > 0);
  holds(part->table.size == sum->fields);
  passes(verify_ended(e, sum));
  passes(verify_pool(e, &part->fields, sizeof(mwi_field), sum->fields));
  return verify_pool(e, &part->watches, sizeof(mwi_watch), sum->watches);
}

/* }====================================================== */

/* {======================================================
** The tree
** ======================================================= */

static const mwi_edge *edge_number(const mw_engine *e, uint32_t i) {
  return (const mwi_edge *)mwi_pool_at(&e->tree.edges, i, sizeof(mwi_edge));
}

static uint64_t order_of(const mw_engine *e, uint32_t m) {
  return reach_number(e, member_number(e, m)->reach)->order;
}

/* Is a later member of the object, `m` too, of a reach that is heard? */
static int is_heard_from(const mw_engine *e, uint32_t m, uint32_t end) {
  for (; m != end; m = member_number(e, m)->next) {
    const mwi_reach *reach = reach_number(e, member_number(e, m)->reach);
    const mwi_object *r =
        mwi_object_find(&e->watch, root_object(e, member_number(e, m)->reach));
    if (reach->root == m) continue;
    if (reach->filtered ? reach_number(e, reach->top)->heard > 0
                        : r != NULL && r->deep > 0)
      return 1;
  }
  return 0;
}

/* Between a member and its `heard` are members of silent reaches only. */
static int verify_heard(mw_engine *e, const mwi_object *r) {
  uint32_t m;
  if (r->nodes == 0 || member_number(e, r->nodes)->looked != e->tree.woken)
    return MW_OK;
  for (m = r->nodes; m != 0; m = member_number(e, m)->next) {
    uint32_t heard = member_number(e, m)->heard;
    holds(heard == 0 || is_taken(&e->tree.members, heard));
    holds(heard == 0 || order_of(e, heard) > order_of(e, m));
    holds(!is_heard_from(e, member_number(e, m)->next, heard));
  }
  return MW_OK;
}

static int verify_ins(mw_engine *e, uint32_t n, sums *sum) {
  uint32_t i, prev = 0;
  for (i = node_number(e, n)->ins; i != 0;
       prev = i, i = edge_number(e, i)->next_in) {
    const mwi_edge *its;
    holds(is_taken(&e->tree.edges, i) && sum->ins < e->tree.edges.n);
    its = edge_number(e, i);
    sum->ins++;
    holds(its->child == n && its->prev_in == prev && its->count > 0);
    holds(is_taken(&e->tree.nodes, its->parent));
  }
  return MW_OK;
}

static int verify_outs(mw_engine *e, uint32_t n, sums *sum) {
  uint32_t i, prev = 0;
  for (i = node_number(e, n)->outs; i != 0;
       prev = i, i = edge_number(e, i)->next_out) {
    const mwi_edge *its;
    holds(is_taken(&e->tree.edges, i) && sum->outs < e->tree.edges.n);
    its = edge_number(e, i);
    sum->outs++;
    holds(its->parent == n && its->prev_out == prev);
    holds(is_taken(&e->tree.nodes, its->child));
    holds(stands_in(&e->tree.table, mwi_pair_hash(n, its->child), i));
  }
  return MW_OK;
}

/* The number of layers of a reach. */
static uint32_t layers_of(const mw_engine *e, uint32_t layer) {
  uint32_t n = 1, below;
  while ((below = reach_number(e, layer)->below) != 0 && below != layer) {
    layer = below;
    n++;
  }
  return n;
}

/* Returns the member of a node in a reach, 0 for none. */
static uint32_t member_in(const mw_engine *e, uint32_t n, uint32_t reach) {
  const mwi_object *r = mwi_object_find(&e->watch, node_number(e, n)->obj);
  uint32_t m = node_number(e, n)->only;
  if (m != 0) return (member_number(e, m)->reach == reach) ? m : 0;
  for (m = (r == NULL) ? 0 : r->nodes; m != 0; m = member_number(e, m)->next)
    if (member_number(e, m)->reach == reach) break;
  return m;
}

/* What the edges lead to from a member is in the reach, too. */
static int verify_below(mw_engine *e, uint32_t m) {
  const mwi_member *its = member_number(e, m);
  uint32_t i, goal = reach_number(e, its->reach)->below;
  for (i = node_number(e, its->node)->outs; i != 0;
       i = edge_number(e, i)->next_out)
    holds(member_in(e, edge_number(e, i)->child, goal) != 0);
  return MW_OK;
}

/* Returns the member from which `via` leads to member `m`, 0 for none. */
static uint32_t member_above(const mw_engine *e, uint32_t m) {
  const mwi_member *its = member_number(e, m);
  const mwi_edge *via;
  uint32_t parent;
  if (!is_taken(&e->tree.edges, its->via)) return 0;
  via = edge_number(e, its->via);
  if (via->child != its->node) return 0;
  parent = node_number(e, via->parent)->only;
  if (parent == 0) return member_in(e, via->parent, its->reach);
  return (reach_number(e, member_number(e, parent)->reach)->below == its->reach)
             ? parent
             : 0;
}

static int verify_member(mw_engine *e, uint32_t m, mw_handle obj, sums *sum) {
  const mwi_member *its = member_number(e, m);
  sum->members++;
  sum->orphans += its->queued;
  holds(is_taken(&e->tree.nodes, its->node) &&
        is_taken(&e->tree.reaches, its->reach));
  holds(node_number(e, its->node)->obj == obj);
  holds(reach_number(e, its->reach)->root == 0 || /* its object is dead */
        is_taken(&e->tree.members, reach_number(e, its->reach)->root));
  if (reach_number(e, its->reach)->root == m) {
    sum->reaches += layers_of(e, its->reach);
    holds(its->via == 0 && !its->queued);
  } else {
    holds(its->via != 0 ? member_above(e, m) != 0 : its->queued);
  }
  return verify_below(e, m);
}

/* The members of a node are `n`. */
static int verify_node(mw_engine *e, uint32_t n, uint32_t members, sums *sum) {
  sum->nodes++;
  holds(node_number(e, n)->n == members && !node_number(e, n)->waits);
  passes(verify_ins(e, n, sum));
  return verify_outs(e, n, sum);
}

static int verify_members_of(mw_engine *e, const mwi_object *r, sums *sum) {
  uint32_t m, prev = 0, common = 0, n = 0;
  int links = 0;
  holds(has_bit(r, MWI_TREE) == (r->nodes != 0));
  for (m = r->nodes; m != 0; prev = m, m = member_number(e, m)->next) {
    const mwi_member *its;
    holds(is_taken(&e->tree.members, m));
    its = member_number(e, m);
    holds(prev == 0 || its->prev == prev);
    passes(verify_member(e, m, r->obj, sum));
    holds(prev == 0 || order_of(e, prev) < order_of(e, m));
    links |= node_number(e, its->node)->outs != 0;
    if (reach_number(e, its->reach)->filtered) {
      holds(node_number(e, its->node)->only == m);
      passes(verify_node(e, its->node, 1, sum));
    } else {
      holds(common == 0 || common == its->node);
      common = its->node;
      n++;
    }
  }
  if (common != 0) passes(verify_node(e, common, n, sum));
  holds(has_bit(r, MWI_LINKS) == links);
  holds(r->nodes == 0 || member_number(e, r->nodes)->prev == prev);
  return verify_heard(e, r);
}

/* Below the ground are the silent roots, each with one holder or two. */
static int verify_ground(mw_engine *e, sums *sum) {
  uint32_t m, n, i;
  if (e->tree.ground == 0) return MW_OK;
  holds(is_taken(&e->tree.reaches, e->tree.ground));
  m = reach_number(e, e->tree.ground)->root;
  holds(is_taken(&e->tree.members, m));
  holds(member_number(e, m)->reach == e->tree.ground);
  passes(verify_member(e, m, MW_NONE, sum));
  n = member_number(e, m)->node;
  passes(verify_node(e, n, 1, sum));
  holds(node_number(e, n)->only == m && node_number(e, n)->ins == 0);
  for (i = node_number(e, n)->outs; i != 0; i = edge_number(e, i)->next_out) {
    const mwi_edge *its = edge_number(e, i);
    holds(its->hint.type == MW_TNIL &&
          its->count == (its->age & 1) + (its->age >> 1));
  }
  return MW_OK;
}

/* An orphan whose object is dead is in no other list. */
static int verify_orphans(mw_engine *e, sums *sum) {
  uint32_t m, n = 0;
  for (m = e->tree.orphans; m != 0; m = member_number(e, m)->chain) {
    holds(is_taken(&e->tree.members, m) && ++n <= e->tree.members.n);
    holds(member_number(e, m)->queued);
    if (member_number(e, m)->node != 0) continue;
    if (member_number(e, m)->reach != 0) /* a root has ended */
      sum->reaches += layers_of(e, member_number(e, m)->reach);
    sum->members++;
    sum->orphans++;
  }
  holds(n == sum->orphans);
  n = 0;
  for (m = e->tree.released; m != 0; m = node_number(e, m)->chain) {
    holds(is_taken(&e->tree.nodes, m) && ++n <= e->tree.nodes.n);
    holds(node_number(e, m)->n == 0 && node_number(e, m)->outs == 0);
    sum->nodes++;
  }
  return MW_OK;
}

/* From a member, `via` leads to its root or to an orphan.  `seen` holds 2 for
** those already known to be right, 1 for those on this path. */
static int verify_path(mw_engine *e, uint32_t from, unsigned char *seen) {
  uint32_t root = reach_number(e, member_number(e, from)->reach)->root, m;
  for (m = from; seen[m] == 0 && member_number(e, m)->via != 0;) {
    seen[m] = 1;
    m = member_above(e, m);
    holds(seen[m] != 1); /* no cycle */
  }
  holds(seen[m] == 2 || m == root || member_number(e, m)->queued);
  for (seen[m] = 2, m = from; seen[m] != 2;) {
    seen[m] = 2;
    m = member_above(e, m);
  }
  return MW_OK;
}

static int verify_paths(mw_engine *e) {
  uint32_t n = e->tree.members.n, slot, m;
  unsigned char *seen = (unsigned char *)mwi_new(e, (size_t)n + 1);
  int code = MW_OK;
  if (seen == NULL) return MW_OK; /* not checked without memory */
  for (slot = 1; slot < e->identity.top && code == MW_OK; slot++) {
    const mwi_object *r = mwi_object_of(&e->watch, slot);
    for (m = (r == NULL) ? 0 : r->nodes; m != 0 && code == MW_OK;
         m = member_number(e, m)->next)
      code = verify_path(e, m, seen);
  }
  mwi_free(e, seen, (size_t)n + 1);
  return code;
}

static int verify_tree(mw_engine *e, sums *sum) {
  const mwi_tree *part = &e->tree;
  passes(verify_ground(e, sum));
  passes(verify_orphans(e, sum));
  holds(sum->ins == sum->outs && sum->outs == part->table.size);
  passes(verify_pool(e, &part->nodes, sizeof(mwi_node), sum->nodes));
  passes(verify_pool(e, &part->members, sizeof(mwi_member), sum->members));
  passes(verify_pool(e, &part->edges, sizeof(mwi_edge), sum->outs));
  passes(verify_pool(e, &part->reaches, sizeof(mwi_reach), sum->reaches));
  return verify_paths(e);
}

/* }====================================================== */

/* {======================================================
** Records
** ======================================================= */

/* A record without an owner is empty. */
static int verify_empty(mw_engine *e, const mwi_object *r) {
  holds(r->first == 0 && r->fields == 0 && r->filter == 0 && r->calls == 0);
  holds(r->unkeyed == 0 && r->keyed == 0 && r->deep == 0 && r->guarding == 0);
  holds(r->nodes == 0 && r->walks == 0);
  holds(r->needs == 0 && !r->watched && !r->tracked && !r->invalid);
  return MW_OK;
}

static int verify_records(mw_engine *e, sums *sum) {
  const mwi_column *records = &e->watch.records;
  uint32_t slot;
  for (slot = 0; slot < records->n * MWI_PAGE; slot++) {
    const mwi_object *r = mwi_object_of(&e->watch, slot);
    if (r == NULL) {
      slot |= MWI_PAGE - 1; /* there is no such page */
    } else if (r->obj == MW_NONE) {
      passes(verify_empty(e, r));
    } else {
      holds(mw_slot(r->obj) == slot);
      holds(mwi_identity_is_valid(&e->identity, r->obj));
      passes(verify_watches_of(e, r, sum));
      passes(verify_members_of(e, r, sum));
    }
  }
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Journal, readers, hierarchies, traces
** ======================================================= */

/* The ranges of the owners fill the log, and each range is in order. */
static int verify_log(mw_engine *e, mw_owner owner) {
  const mwi_journal *part = &e->journal;
  const mwi_log *log = &part->logs[part->owners[owner].log];
  uint32_t i = 0, k, number = part->owners[owner].log, below = 0;
  holds(log->n <= log->size);
  for (; owner != 0; below = owner, owner = part->owners[owner].above) {
    const mwi_owner *o = &part->owners[owner];
    uint32_t end = (o->above != 0) ? part->owners[o->above].mark : log->n;
    holds(o->log == number && o->below == below && o->mark == i);
    holds(below == 0 || o->parent == below);
    holds(o->above != 0 || log->newest == owner);
    for (; i < end; i++) {
      const mw_entry *entry = &log->entries[i];
      holds(i == o->mark || log->entries[i - 1].seq < entry->seq);
      holds(entry->kind < MW_KINDS);
      for (k = 0; k < MW_PARTS; k++) holds(entry->type[k] <= MW_TABSENT);
    }
  }
  return MW_OK;
}

static const mwi_stake *stake_number(const mw_engine *e, uint32_t i) {
  return mwi_stake_at(&e->journal, i);
}

/* Neighbours in a field have different owners, and both are settled or none;
** each owner's list has the owner's stakes; a stake has its first entry, and
** the newest in a field stands in the table. */
static int verify_stakes(mw_engine *e) {
  const mwi_journal *part = &e->journal;
  uint32_t i, n = 0, listed = 0, newest = 0;
  for (i = 1; i <= part->stakes.n; i++) {
    const mwi_stake *s = stake_number(e, i);
    if (s->obj == MW_NONE) continue;
    n++;
    holds(s->older == 0 || stake_number(e, s->older)->newer == i);
    holds(s->newer == 0 || stake_number(e, s->newer)->owner != s->owner);
    holds(s->newer == 0 || stake_number(e, s->newer)->obj == s->obj);
    holds(s->newer == 0 || stake_number(e, s->newer)->settled == s->settled);
    holds(!s->settled || s->newer != 0 || s->older != 0);
    holds(mwi_stake_entry(e, s)->obj == s->obj);
    if (s->newer != 0 || s->settled) continue;
    newest++;
    holds(stands_in(&part->fields, mwi_key_hash(mw_slot(s->obj), &s->key), i));
  }
  for (i = 1; i <= part->n_owners; i++) {
    uint32_t at = (part->owners[i].log == 0) ? 0 : part->owners[i].first;
    for (; at != 0; at = stake_number(e, at)->after) {
      holds(stake_number(e, at)->owner == i);
      listed++;
    }
  }
  holds(newest == part->fields.size);
  holds(n == listed && (part->mixed || n == 0));
  return verify_pool(e, &part->stakes, sizeof(mwi_stake), n);
}

static int verify_journal(mw_engine *e) {
  const mwi_journal *part = &e->journal;
  uint32_t i, log, open = 0, entries = 0, in_order = 0;
  for (i = 1; i <= part->n_owners; i++) {
    const mwi_owner *o = &part->owners[i];
    if (o->log == 0) continue;
    open++;
    if (o->below != 0) continue;
    passes(verify_log(e, i));
    entries += part->logs[o->log].n;
  }
  for (log = part->top; log != 0; log = part->logs[log].below) {
    holds(part->logs[log].n > 0);
    in_order += part->logs[log].n;
  }
  holds(open == part->open && entries == part->entries);
  holds(part->mixed ? in_order == 0 && entries > 0 : in_order == entries);
  return verify_stakes(e);
}

/* All entries that somebody is going to read are there, and no others. */
static int verify_readers(mw_engine *e) {
  const mwi_readers *part = &e->reader;
  uint64_t first = part->last + 1, seq;
  uint32_t i, open = 0;
  for (i = 0; i < part->n; i++) {
    const mwi_reader *r = &part->list[i];
    if (r->capacity == 0) continue;
    open++;
    holds(r->next <= part->last + 1);
    holds(part->last + 1 - r->next <= r->capacity);
    holds(r->capacity / MWI_READER_PAGE + 2 <= part->n_pages);
    if (r->next < first) first = r->next;
  }
  holds(open == part->open && first == part->first);
  for (seq = first; seq <= part->last; seq++) {
    const mwi_reader_page *page =
        part->pages[seq / MWI_READER_PAGE % part->n_pages];
    holds(page != NULL);
    holds((page->entries[seq % MWI_READER_PAGE].kind & ~MWI_BEGINS) < MW_KINDS);
  }
  return MW_OK;
}

/* Returns the number of frames that the elements have counted and that are not
** in the stack. */
static size_t count_elsewhere(const mwi_hierarchy *h) {
  const mwi_stack *stack;
  size_t frames = 0;
  uint32_t slot, i;
  for (slot = 0; slot < h->names.n * MWI_PAGE; slot++) {
    const mwi_named *element =
        (const mwi_named *)mwi_column_page(&h->names, slot);
    if (element != NULL) frames += element[slot % MWI_PAGE].frames;
  }
  for (slot = 0; (stack = mwi_hierarchy_next(h, &slot)) != NULL;)
    for (i = 0; i < stack->n; i++)
      if (mwi_hierarchy_element(h, stack->frames[i].obj)) frames--;
  return frames;
}

static int verify_hierarchy(mw_engine *e, const mwi_hierarchy *h) {
  const mwi_stack *stack;
  size_t frames = 0;
  uint32_t slot = 0;
  while ((stack = mwi_hierarchy_next(h, &slot)) != NULL) {
    frames += stack->n;
    holds(stack->n <= stack->size);
    if (stack->thread == MW_NONE) continue;
    holds(mw_slot(stack->thread) == slot - 1);
    holds(mwi_identity_is_valid(&e->identity, stack->thread));
  }
  holds(frames == h->frames);
  holds(count_elsewhere(h) == 0);
  return MW_OK;
}

static int verify_hierarchies(mw_engine *e) {
  uint32_t i;
  holds(e->scope.n <= e->scope.size);
  for (i = 0; i < e->scope.n; i++)
    if (e->scope.all[i] != NULL) passes(verify_hierarchy(e, e->scope.all[i]));
  return MW_OK;
}

/* Each name stands in the table. */
static int verify_names(mw_engine *e, const mwi_trace_names *names) {
  uint32_t i, gaps = 0;
  size_t bytes = 0;
  holds(names->n <= names->size);
  for (i = names->free; i != 0; i = names->list[i].category, gaps++) {
    holds(i < names->n && gaps < names->n);
    holds(names->list[i].stamp == 0 && names->list[i].text == NULL);
  }
  holds(names->table.size + gaps == ((names->n > 0) ? names->n - 1 : 0));
  for (i = 1; i < names->n; i++) {
    if (names->list[i].stamp == 0) continue;
    holds(stands_in(&names->table, names->list[i].hash, i));
    holds(names->list[i].category < names->n);
    holds((names->list[i].text == NULL) == (names->list[i].len == 0));
    bytes += names->list[i].len;
  }
  holds(bytes == names->bytes);
  holds(names->latest == 0 || names->latest < names->n);
  return MW_OK;
}

/* The number is 0, or that of a name. */
static int verify_name(mw_engine *e, const mwi_trace_names *names, int64_t i) {
  holds(i == 0 ||
        (i > 0 && i < (int64_t)names->n && names->list[i].stamp != 0));
  return MW_OK;
}

static int verify_content(mw_engine *e, const mw_trace *t, int type,
                          mw_content value) {
  if (type == MW_TSTRING || type == MW_TOTHER)
    passes(verify_name(e, &t->texts, value.i));
  if (type == MW_TOBJECT) passes(verify_name(e, &t->objects, value.i));
  return MW_OK;
}

static int verify_events(mw_engine *e, const mw_trace *t) {
  uint64_t i;
  int64_t time = INT64_MIN;
  holds(t->capacity > 0 && t->at == t->n % t->capacity);
  for (i = mwi_trace_first(t); i < t->n; i++) {
    const mwi_trace_event *event = mwi_trace_event_at(t, i);
    holds(event->kind <= MWI_TRACE_BREAK && event->has <= MWI_ARGS_FLOAT);
    passes(verify_name(e, &t->names, event->name));
    holds(event->has != MWI_ARGS_TEXT || event->text != NULL);
    holds((event->text == NULL) == (event->n == 0));
    holds(event->time >= time);
    time = event->time;
    if (event->has != MWI_ARGS_CHANGE) continue;
    passes(verify_name(e, &t->objects, event->object));
    passes(verify_name(e, &t->texts, event->where));
    passes(verify_content(e, t, event->key_type, event->u.key));
    passes(verify_content(e, t, event->old_type, event->old));
    passes(verify_content(e, t, event->now_type, event->now));
  }
  return MW_OK;
}

/* The labels of objects are texts, and the categories of names are names. */
static int verify_labels(mw_engine *e, const mw_trace *t) {
  uint32_t i;
  for (i = 1; i < t->objects.n; i++)
    passes(verify_name(e, &t->texts, t->objects.list[i].label));
  for (i = 1; i < t->names.n; i++)
    if (t->names.list[i].stamp != 0)
      passes(verify_name(e, &t->names, t->names.list[i].category));
  return MW_OK;
}

static int verify_traces(mw_engine *e) {
  const mw_trace *t;
  int is_open = (e->trace.running == NULL);
  for (t = e->trace.first; t != NULL; t = t->next) {
    is_open |= (t == e->trace.running);
    passes(verify_events(e, t));
    passes(verify_names(e, &t->names));
    passes(verify_names(e, &t->texts));
    passes(verify_names(e, &t->objects));
    passes(verify_labels(e, t));
  }
  holds(is_open);
  return MW_OK;
}

/* }====================================================== */

int mw_verify(mw_engine *e) {
  sums sum;
  mwi_check_enter(e);
  memset(&sum, 0, sizeof(sum));
  e->check.broken = NULL;
  passes(verify_identity(e));
  passes(verify_clocks(e));
  passes(verify_serials(e));
  passes(verify_records(e, &sum));
  passes(verify_watches(e, &sum));
  passes(verify_tree(e, &sum));
  passes(verify_journal(e));
  passes(verify_readers(e));
  passes(verify_hierarchies(e));
  return verify_traces(e);
}

#endif
