/*
** check.c - do all invariants hold?
** SPDX-License-Identifier: MIT
**
** A check walks each part of an engine as the head of the part's file describes
** the part.  An element in use must be reached once, from its place; an element
** not in use must be free.  So the checks look at each element and at the sums.
** The first condition that does not hold ends them all.
*/
#include "engine.h"

#include <setjmp.h>
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
** How a check ends, sums, pools
** ======================================================= */

/* The engine, and how many elements the walks have reached. */
typedef struct checker {
  mw_engine *e;
  jmp_buf end;
  uint32_t watches, fields;
  uint32_t twins;             /* sum of the numbers of twins, less the own */
  uint32_t ended;             /* of the watches in lists */
  uint32_t guarded, guarding; /* those of objects; in objects' chains */
  uint32_t after, checks, deep, deep_skips, results; /* of those that wait */
  uint32_t nodes, members, orphans, reaches;
  uint32_t ins, outs; /* edges, from both ends */
} checker;

static void end_check(checker *c, const char *condition, int line) {
  c->e->check.broken = condition;
  c->e->check.line = line;
  longjmp(c->end, 1);
}

/* In a function with a checker `c`: ends the check unless the condition
** holds. */
#define holds(condition) \
  ((condition) ? (void)0 : end_check(c, #condition, __LINE__))

static const void *taken(checker *c, const mwi_pool *pool, uint32_t i,
                         size_t width) {
  holds(i > 0 && i <= pool->n);
  return mwi_pool_at(pool, i, width);
}

/* The element with a number that must be one. */
#define element(type, pool, i) \
  ((const type *)taken(c, &c->e->pool, i, sizeof(type)))
#define watch_number(i) element(mwi_watch, watch.watches, i)
#define node_number(i) element(mwi_node, tree.nodes, i)
#define member_number(i) element(mwi_member, tree.members, i)
#define reach_number(i) element(mwi_reach, tree.reaches, i)
#define stake_number(i) element(mwi_stake, journal.stakes, i)

/* Of the elements of a pool, `used` are taken, and all others free. */
static void verify_pool(checker *c, const mwi_pool *pool, size_t width,
                        uint32_t used) {
  uint32_t i, n = used;
  for (i = pool->free; i != 0; i = *(const uint32_t *)taken(c, pool, i, width))
    holds(++n <= pool->n);
  holds(n == pool->n);
}

static int stands_in(const mwi_table *table, uint32_t hash, uint32_t number) {
  mwi_search at;
  uint32_t i = mwi_table_first(table, hash, &at);
  while (i != 0 && i != number) i = mwi_table_next(table, &at);
  return i != 0;
}

static int is_object(const checker *c, uint32_t slot) {
  return slot < c->e->identity.top &&
         mwi_identity_handle(&c->e->identity, slot) != MW_NONE;
}

/* }====================================================== */

/* {======================================================
** Identity, clocks
** ======================================================= */

static void verify_identity(checker *c) {
  mwi_identity *part = &c->e->identity;
  uint32_t slot, i, n_free = 0, serials = 0;
  size_t entries = 0;
  holds(part->top > 0 && mwi_column_page(&part->pages, part->top - 1) != NULL);
  holds(!is_object(c, 0));
  for (slot = 1; slot < part->top; slot++) {
    const mwi_identity_page *page = mwi_identity_page_of(part, slot);
    mw_handle h = mwi_identity_handle(part, slot);
    int64_t serial = mw_clock_generation(c->e, part->given, h);
    if (h == MW_NONE) {
      n_free += page->age[slot % MWI_PAGE] != MWI_MAXAGE; /* else used up */
      continue;
    }
    entries++;
    part->found = UINT32_MAX; /* so the search uses the table */
    holds(mwi_identity_find(c->e, page->ptr[slot % MWI_PAGE]) == slot);
    if (serial < 0) continue;
    serials++;
    holds(serial > 0 && mw_serial_object(c->e, (uint64_t)serial) == h);
  }
  holds(part->count == entries);
  holds(part->look > 0 && (part->look < part->top || part->left == 0));
  for (i = 0; i < MWI_SHARDS; i++) {
    entries -= part->shards[i].size;
    serials -= part->serials[i].size;
  }
  holds(entries == 0 && serials == 0);
  for (slot = part->free; slot != 0; n_free--) {
    holds(slot < part->top && !is_object(c, slot) && n_free > 0);
    slot = (uint32_t)(uintptr_t)mwi_identity_page_of(part, slot)
               ->ptr[slot % MWI_PAGE];
  }
  holds(n_free == 0);
}

static void verify_clocks(checker *c) {
  const mwi_clocks *part = &c->e->clock;
  uint32_t i, slot;
  holds(part->n > 0 && part->n <= part->size);
  holds(c->e->identity.given < part->n);
  for (i = 0; i < part->n; i++) {
    const mwi_clock *clock = &part->clocks[i];
    for (slot = 0; slot < clock->tags.n * MWI_PAGE; slot++) {
      const mwi_clock_page *page = mwi_clock_page_of(clock, slot);
      uint64_t tag = (page == NULL) ? 0 : page->tag[slot % MWI_PAGE];
      holds(tag == 0 || (tag <= page->newest && is_object(c, slot)));
      holds(page == NULL || page->newest <= clock->now + 1);
    }
  }
}

/* }====================================================== */

/* {======================================================
** Watches
** ======================================================= */

/* Returns the object that is the root of a reach, MW_NONE for none. */
static mw_handle root_object(checker *c, uint32_t reach) {
  const mwi_member *m = reach_number(reach)->root;
  return (m == NULL) ? MW_NONE : m->node->obj;
}

static int waits(const mwi_watch *w) {
  return (w->flags & (MWI_ENDED | MWI_CLAIMED)) == 0;
}

/* The watches in the lists of one object. */
typedef struct lists {
  uint32_t linked, follows;
  uint32_t waiting, deep; /* those that wait; of these, deep ones of all */
  unsigned needs;
} lists;

/* The twins of a watch are a ring: each has one twin, and is the twin of one.
** A watch of a filtered reach keeps the reach, until the watch ends. */
static void verify_watch(checker *c, const mwi_object *r, uint32_t i,
                         lists *has) {
  const mwi_watch *w = watch_number(i);
  int flags = w->flags, has_ended = flags & MWI_ENDED;
  holds(w->slot == mw_slot(r->obj));
  holds(w->seq > 0 && w->seq <= c->e->watch.seq);
  holds(!(flags & MWI_CLAIMED) || ((flags & MW_ONCE) && r->walks > 0));
  has->linked++;
  has->follows += (flags & MWI_FOLLOWS) != 0;
  c->ended += has_ended != 0;
  c->guarded += (flags & MWI_OBJECT) && !has_ended;
  if (!has_ended) {
    const mwi_watch *twin = watch_number(w->twin);
    c->twins += w->twin - i;
    holds(twin->seq == w->seq && twin->slot == w->slot);
    holds(waits(twin) == waits(w));
    holds(w->twin == i || (twin->field != 0 && twin->field != w->field));
  }
  if (w->reach != 0 && !has_ended) {
    const mwi_reach *reach = reach_number(w->reach);
    holds(reach->graph == reach && reach->heard > 0);
    holds(root_object(c, w->reach) == r->obj);
  }
  if (!waits(w)) return;
  has->waiting++;
  if (flags & MW_SKIP) has->needs |= MWI_SKIPS;
  if (flags & MW_CHECK) has->needs |= MWI_CHECKS;
  if ((flags & (MWI_ENDED - 1) & ~(MW_DEEP | MW_WEAK)) != MW_FLAG)
    has->needs |= MWI_CALLS;
  has->deep += (flags & MW_DEEP) && w->reach == 0;
  c->after += (flags & MW_AFTER) != 0;
  c->checks += (flags & MW_CHECK) != 0;
  c->results += (flags & MWI_RESULT) != 0;
  c->deep += (flags & MW_DEEP) != 0;
  c->deep_skips += (flags & MW_DEEP) && (flags & MW_SKIP);
}

/* A list, of all fields or of one field, ascends by `seq`; `prev` of the first
** watch is the last. */
static void verify_list(checker *c, const mwi_object *r, uint32_t field,
                        uint32_t first, lists *has) {
  uint32_t i, prev = 0;
  for (i = first; i != 0; prev = i, i = watch_number(i)->next) {
    holds(watch_number(i)->field == field);
    holds(prev == 0 || watch_number(i)->prev == prev);
    holds(prev == 0 || watch_number(prev)->seq < watch_number(i)->seq);
    verify_watch(c, r, i, has);
  }
  holds(first == 0 || watch_number(first)->prev == prev);
}

static void verify_fields(checker *c, const mwi_object *r, lists *has) {
  uint32_t i, prev = 0;
  for (i = r->fields; i != 0; c->fields++) {
    const mwi_field *f = element(mwi_field, watch.fields, i);
    holds(f->first != 0 && f->prev == prev && f->slot == mw_slot(r->obj));
    holds(stands_in(&c->e->watch.table, mwi_key_hash(f->slot, &f->key), i));
    verify_list(c, r, i, f->first, has);
    prev = i;
    i = f->next;
  }
}

/* The chain of the watches of a guard that is an object. */
static void verify_guarding(checker *c, const mwi_object *guard) {
  uint32_t i, newer = 0;
  for (i = guard->guarding; i != 0; newer = i, i = watch_number(i)->older) {
    const mwi_watch *w = watch_number(i);
    holds((w->flags & MWI_OBJECT) && !(w->flags & MWI_ENDED));
    holds(w->ref == guard->obj && w->newer == newer);
    c->guarding++;
  }
}

static int has_bit(const mwi_object *r, unsigned bit) {
  return (r->needs & bit) != 0;
}

static void verify_watches_of(checker *c, const mwi_object *r) {
  lists has;
  memset(&has, 0, sizeof(has));
  verify_list(c, r, 0, r->first, &has);
  verify_fields(c, r, &has);
  verify_guarding(c, r);
  c->watches += has.linked;
  holds(r->waiting == has.waiting && r->deep == has.deep);
  holds(has_bit(r, MWI_UNKEYED) == (r->first != 0));
  holds(has_bit(r, MWI_KEYED) == (r->fields != 0));
  holds((has.needs & ~r->needs) == 0);
  holds(r->waiting > 0 || !has_bit(r, MWI_OF_WATCHES));
  holds(has.linked == has.follows || r->walks > 0 || r->watched);
  holds(r->was_watched || !r->watched);
  holds(r->walks == 0 || c->e->check.guards > 0);
  holds(r->fields != 0 || r->filter == 0);
}

/* Watches that have ended are chained for as long as a walk needs them. */
static void verify_watches(checker *c) {
  const mwi_watches *part = &c->e->watch;
  uint32_t i;
  for (i = part->ended; i != 0; i = watch_number(i)->note) {
    holds(watch_number(i)->flags & MWI_ENDED);
    holds(mwi_object_of(part, watch_number(i)->slot)->walks > 0);
    holds(c->ended-- > 0);
  }
  holds(c->ended == 0);
  holds(part->after == c->after && part->checks == c->checks);
  holds(part->deep == c->deep && part->deep_skips == c->deep_skips);
  holds(part->results == c->results && c->guarded == c->guarding);
  holds(part->walks == 0 || c->e->check.guards > 0);
  holds(part->table.size == c->fields && c->twins == 0);
  verify_pool(c, &part->fields, sizeof(mwi_field), c->fields);
  verify_pool(c, &part->watches, sizeof(mwi_watch), c->watches);
}

/* }====================================================== */

/* {======================================================
** The tree
** ======================================================= */

static uint64_t order_of(checker *c, const mwi_member *m) {
  return reach_number(m->reach)->order;
}

/* Returns the member with a number, NULL for 0. */
static const mwi_member *numbered(checker *c, uint32_t i) {
  return (i == 0) ? NULL : member_number(i);
}

/* Returns the member of a node in a reach, NULL for none. */
static const mwi_member *member_of(checker *c, const mwi_node *n,
                                   const mwi_reach *reach) {
  const mwi_member *m = numbered(c, n->members);
  while (m != NULL && m->reach != reach->number) m = numbered(c, m->next);
  return m;
}

/* Returns the member from which `via` leads to member `m`, NULL for none. */
static const mwi_member *member_above(checker *c, const mwi_member *m) {
  const mwi_node *parent = m->via->parent;
  const mwi_reach *reach = reach_number(m->reach);
  if (m->via->child != m->node) return NULL;
  return member_of(c, parent, reach);
}

/* From a member, `via` leads to the root or to an orphan.  What the edges lead
** to is in the reach, too. */
static void verify_member(checker *c, const mwi_member *m) {
  const mwi_reach *reach = reach_number(m->reach);
  const mwi_member *above = m;
  const mwi_edge *i;
  uint32_t steps = 0;
  c->members++;
  c->orphans += m->queued;
  holds(reach->root != m || (m->via == NULL && !m->queued));
  while (above->via != NULL) {
    above = member_above(c, above);
    holds(above != NULL && steps++ < c->e->tree.members.n);
  }
  holds(above == reach->root || above->queued);
  for (i = m->node->outs; i != NULL; i = i->next_out)
    holds(member_of(c, i->child, reach) != NULL);
}

/* The members are in the order of their reaches. */
static void verify_node(checker *c, const mwi_node *n) {
  const mwi_edge *i;
  const mwi_member *m = numbered(c, n->members), *prev = NULL;
  uint32_t before = 0;
  c->nodes++;
  holds(node_number(n->number) == n && m != NULL && !n->waits);
  for (; m != NULL; prev = m, m = numbered(c, m->next)) {
    holds(n->graph == reach_number(m->reach)->graph && m->node == n);
    holds(prev == NULL || (m->prev == prev->number && prev->next == m->number &&
                           order_of(c, prev) < order_of(c, m)));
    verify_member(c, m);
  }
  holds(member_number(n->members)->prev == prev->number);
  for (i = n->ins; i != NULL; before = i->number, i = i->next_in) {
    holds(i->child == n && i->prev_in == before);
    holds(i->count > 0 || i->parent->scans);
    c->ins++;
  }
  for (before = 0, i = n->outs; i != NULL;
       before = i->number, i = i->next_out) {
    uint32_t hash = mwi_pair_hash(n->number, i->child->number);
    holds(i->parent == n && i->prev_out == before);
    holds(stands_in(&c->e->tree.table, hash, i->number));
    c->outs++;
  }
}

/* The common node is the first one. */
static void verify_nodes_of(checker *c, const mwi_object *r) {
  const mwi_node *n = (r->nodes == 0) ? NULL : node_number(r->nodes);
  uint64_t order = 0;
  uint32_t depth = 0;
  int links = 0;
  holds(has_bit(r, MWI_TREE) == (n != NULL));
  for (; n != NULL; order = n->graph->order, n = n->next) {
    holds(n->obj == r->obj);
    holds(n->graph->order > order || n->number == r->nodes ||
          (n->graph->order == order && n->depth > depth));
    holds(n->depth == 0 || n->depth < n->graph->n_keys);
    depth = n->depth;
    links |= n->outs != NULL;
    verify_node(c, n);
  }
  holds(has_bit(r, MWI_LINKS) == links);
}

/* Below the ground are the silent roots. */
static void verify_ground(checker *c) {
  const mwi_reach *ground = c->e->tree.ground;
  const mwi_edge *i;
  if (ground == NULL) return;
  verify_node(c, ground->root->node);
  holds(reach_number(ground->root->reach) == ground);
  holds(ground->root->node->ins == NULL);
  for (i = ground->root->node->outs; i != NULL; i = i->next_out)
    holds(i->hint.type == MW_TNIL && i->count == 1);
}

/* A reach counts its members. */
static void verify_reaches(checker *c) {
  uint32_t i, n = 0;
  for (i = 1; i <= c->e->tree.reaches.n; i++) {
    const mwi_reach *its = reach_number(i);
    c->reaches += its->graph != NULL;
    n += its->n;
  }
  holds(n == c->members);
}

/* An orphan that has gone is in no other list. */
static void verify_orphans(checker *c) {
  const mwi_member *m = c->e->tree.orphans;
  const mwi_node *n = c->e->tree.released;
  uint32_t all = 0;
  for (; m != NULL; m = numbered(c, m->chain)) {
    holds(m->queued && ++all <= c->e->tree.members.n);
    if (m->node != NULL) continue;
    c->members++;
    c->orphans++;
  }
  holds(all == c->orphans);
  for (; n != NULL; n = n->next) {
    holds(n->members == 0 && n->outs == NULL);
    holds(++c->nodes <= c->e->tree.nodes.n);
  }
}

static void verify_tree(checker *c) {
  const mwi_tree *part = &c->e->tree;
  verify_ground(c);
  verify_reaches(c);
  verify_orphans(c);
  holds(c->ins == c->outs && c->outs == part->table.size);
  verify_pool(c, &part->nodes, sizeof(mwi_node), c->nodes);
  verify_pool(c, &part->members, sizeof(mwi_member), c->members);
  verify_pool(c, &part->edges, sizeof(mwi_edge), c->outs);
  verify_pool(c, &part->reaches, sizeof(mwi_reach), c->reaches);
}

/* }====================================================== */

/* A record without an owner has nothing but what outlives owners. */
static void verify_records(checker *c) {
  uint32_t slot;
  for (slot = 0; slot < c->e->watch.records.n * MWI_PAGE; slot++) {
    const mwi_object *r = mwi_object_of(&c->e->watch, slot);
    if (r == NULL) {
      slot |= MWI_PAGE - 1; /* there is no such page */
    } else if (r->obj == MW_NONE) {
      holds(r->first == 0 && r->fields == 0 && r->filter == 0);
      holds(r->waiting == 0 && r->deep == 0);
      holds(r->nodes == 0 && r->walks == 0 && r->guarding == 0);
      holds(r->needs == 0 && !r->watched && !r->tracked && !r->invalid);
    } else {
      holds(mw_slot(r->obj) == slot);
      holds(mwi_identity_is_valid(&c->e->identity, r->obj));
      verify_watches_of(c, r);
      verify_nodes_of(c, r);
    }
  }
}

/* {======================================================
** Journal, readers, hierarchies, traces
** ======================================================= */

/* The ranges of the owners fill the log, and each range is in order. */
static void verify_log(checker *c, const mwi_owner *o) {
  const mwi_log *log = o->log;
  const mwi_owner *below = NULL;
  uint32_t i = 0, k;
  holds(log->n <= log->size);
  for (; o != NULL; below = o, o = o->above) {
    uint32_t end = mwi_range_end(o);
    holds(o->log == log && o->mark == i && mwi_owner_below(o) == below);
    holds(o->above != NULL || log->newest == o);
    for (; i < end; i++) {
      const mw_entry *entry = &log->entries[i];
      holds(i == o->mark || log->entries[i - 1].seq < entry->seq);
      holds(entry->kind < MW_KINDS);
      for (k = 0; k < MW_PARTS; k++) holds(entry->type[k] <= MW_TABSENT);
    }
  }
}

/* Neighbours in a field have different owners, and both are settled or none;
** each owner's list has the owner's stakes; a stake has its first entry, and
** the newest in a field stands in the table. */
static void verify_stakes(checker *c) {
  const mwi_journal *part = &c->e->journal;
  uint32_t i, n = 0, newest = 0;
  for (i = 1; i <= part->owners.n; i++) {
    const mwi_owner *o = mwi_owner_at(part, i);
    const mwi_stake *s = (o->log == NULL) ? NULL : o->first;
    for (; s != NULL; s = s->after, n++) {
      holds(s->owner == o && s->obj != MW_NONE && n < part->stakes.n);
      holds(s->older == NULL || s->older->newer == s);
      holds(!s->settled || s->newer != NULL || s->older != NULL);
      holds(mwi_stake_entry(s)->obj == s->obj);
      if (s->newer != NULL) {
        holds(s->newer->owner != s->owner && s->newer->obj == s->obj);
        holds(s->newer->settled == s->settled);
      } else if (!s->settled) {
        uint32_t hash = mwi_key_hash(mw_slot(s->obj), &s->key);
        holds(stands_in(&part->fields, hash, s->number));
        newest++;
      }
    }
  }
  holds(newest == part->fields.size && (part->mixed || n == 0));
  verify_pool(c, &part->stakes, sizeof(mwi_stake), n);
}

static void verify_journal(checker *c) {
  const mwi_journal *part = &c->e->journal;
  const mwi_log *log;
  uint32_t i, open = 0, children = 0, entries = 0, in_order = 0;
  for (i = 1; i <= part->owners.n; i++) {
    const mwi_owner *o = mwi_owner_at(part, i);
    if (o->log == NULL) continue;
    open++;
    children += o->children - (o->parent != NULL);
    if (mwi_owner_below(o) != NULL) continue;
    verify_log(c, o);
    entries += o->log->n;
  }
  for (log = part->top; log != NULL; log = log->below) {
    holds(log->n > 0);
    in_order += log->n;
  }
  holds(open == part->open && entries == part->entries && children == 0);
  holds(part->mixed ? in_order == 0 && entries > 0 : in_order == entries);
  verify_pool(c, &part->owners, sizeof(mwi_owner), open);
  verify_stakes(c);
}

/* All entries that somebody is going to read are there, and no others. */
static void verify_readers(checker *c) {
  const mwi_readers *part = &c->e->reader;
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
}

/* The elements have counted as many frames as there are in the stacks. */
static void verify_hierarchy(checker *c, const mwi_hierarchy *h) {
  const mwi_stack *stack;
  const mwi_named *page;
  size_t frames = 0, counted = 0;
  uint32_t slot, i;
  for (slot = 0; (stack = mwi_hierarchy_next(h, &slot)) != NULL;) {
    frames += stack->n;
    holds(stack->n <= stack->size);
    for (i = 0; i < stack->n; i++)
      counted -= mwi_hierarchy_element(h, stack->frames[i].obj) != NULL;
    if (stack->thread == MW_NONE) continue;
    holds(mw_slot(stack->thread) == slot - 1);
    holds(mwi_identity_is_valid(&c->e->identity, stack->thread));
  }
  for (slot = 0; slot < h->names.n * MWI_PAGE; slot++)
    if ((page = (const mwi_named *)mwi_column_page(&h->names, slot)) != NULL)
      counted += page[slot % MWI_PAGE].frames;
  holds(frames == h->frames && counted == 0);
}

static int is_named(const mw_trace *t, int64_t i) {
  return i > 0 && i < (int64_t)t->names.n && t->names.list[i].stamp != 0;
}

/* Each name stands in the table, with names for category and label. */
static void verify_names(checker *c, const mw_trace *t) {
  const mwi_trace_names *names = &t->names;
  uint32_t i, n = 0;
  size_t bytes = 0;
  for (i = 1; i < names->n; i++) {
    const mwi_trace_name *name = &names->list[i];
    if (name->stamp == 0) continue;
    holds(stands_in(&names->table, name->hash, i) && name->last <= t->n);
    holds(name->category == 0 || name->category == MWI_OBJECTS ||
          is_named(t, name->category));
    holds(name->label == 0 || is_named(t, name->label));
    bytes += name->len;
    n++;
  }
  holds(n == names->table.size);
  for (i = names->free; i != 0; i = names->list[i].category)
    holds(names->list[i].stamp == 0 && ++n < names->n);
  holds(names->n == 0 || n == names->n - 1);
  holds(bytes == names->bytes && names->n <= names->size);
}

/* The events that have not been lost are in order, and have names. */
static void verify_events(checker *c, const mw_trace *t) {
  uint64_t i;
  int64_t time = INT64_MIN;
  holds(t->capacity > 0 && t->at == t->n % t->capacity);
  for (i = mwi_trace_first(t); i < t->n; i++) {
    const mwi_trace_event *event = mwi_trace_event_at(t, i);
    holds(event->name == 0 || is_named(t, event->name));
    holds((event->text == NULL) == (event->n == 0) && event->time >= time);
    time = event->time;
    if (event->has != MWI_ARGS_CHANGE) continue;
    holds(event->object == 0 || is_named(t, event->object));
    holds(event->where == 0 || is_named(t, event->where));
  }
}

static void verify_traces(checker *c) {
  const mw_trace *t;
  int is_open = (c->e->trace.running == NULL);
  for (t = c->e->trace.first; t != NULL; t = t->next) {
    is_open |= (t == c->e->trace.running);
    verify_events(c, t);
    verify_names(c, t);
  }
  holds(is_open);
}

/* }====================================================== */

/* After a jump, nothing is asked of the checker. */
int mw_verify(mw_engine *e) {
  checker c;
  uint32_t i;
  mwi_check_enter(e);
  memset(&c, 0, sizeof(c));
  c.e = e;
  e->check.broken = NULL;
  if (setjmp(c.end) != 0) return MW_BROKEN;
  verify_identity(&c);
  verify_clocks(&c);
  verify_records(&c);
  verify_watches(&c);
  verify_tree(&c);
  verify_journal(&c);
  verify_readers(&c);
  for (i = 0; i < e->scope.n; i++)
    if (e->scope.all[i] != NULL) verify_hierarchy(&c, e->scope.all[i]);
  verify_traces(&c);
  return MW_OK;
}

#endif
