/*
** digest.c - a hash of all that can be reached from an object, kept up to date.
** SPDX-License-Identifier: MIT
**
** An object is a *vertex*.  A field whose key or value is an object is an
** *edge*; the other fields of a vertex are only in its sum `own`.  The digest
** is the sum of all *facts*:
**
**     of a vertex   mix(name, own)                where own is the sum of
**                                                 mix(key, value) of fields
**     of an edge    mix(mix(name of the parent, key), value)
**                                                 an object stands for its name
**
** A sum does not depend on the order, and a change costs what has changed.  The
** *name* of a vertex is the hash of its way from the root: the shortest, and of
** these the one with the smallest hash, which is as canonical as the smallest
** keys and needs no keys.  So the digest is of content, and two digests are
** equal exactly when the contents are (but for a chance of one in 2^64 or so).
**
** The length of a way is its `distance`.  A step by a key that is an object
** leads to a new *layer*: the key's own way must be known first.
**
**     distance = layer << 32 | steps
**     by a plain key:  distance(parent) + 1
**     by an object:    max(layer(parent), layer(key)) + 1 << 32
**
** Each step makes the distance greater, so Dijkstra's algorithm finds the
** distances, and Ramalingam's and Reps's algorithm finds those that a change of
** edges concerns: what may have another distance is *dirty*, and waits in a
** heap for its turn, by the smaller of the old and the new distance.  What has
** got another distance, or has lost its `via`, is *touched*; at the end the
** touched ones get their names, nearest first, and pass a new name on.
**
** Invariant: `sum` is the sum of the facts of the present edges, names and
** sums; a fact counts only while all its objects have names.  Without dirty,
** touched and stale vertices, distances and names are those of the graph.
*/
#include <string.h>

#include "engine.h"

/* {======================================================
** Hashes
** ======================================================= */

uint64_t mwi_mix(uint64_t a, uint64_t b) {
  uint64_t h = a * UINT64_C(0x9E3779B97F4A7C15);
  b = (b ^ b >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  h ^= (b << 31 | b >> 33) + UINT64_C(0x632BE59BD9B4E019);
  h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  h = (h ^ h >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
  return h ^ h >> 32;
}

/* Eight bytes, the lowest first: one instruction on most machines. */
static uint64_t word_at(const unsigned char *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
         (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 |
         (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

uint64_t mwi_hash_bytes(const void *bytes, size_t len) {
  const unsigned char *p = (const unsigned char *)bytes;
  uint64_t h = len, last = 0;
  for (; len >= 8; len -= 8, p += 8) h = mwi_mix(h, word_at(p));
  while (len > 0) last = last << 8 | p[--len];
  return mwi_mix(h, last);
}

/* }====================================================== */

/* {======================================================
** Vertices and edges
** ======================================================= */

#define vertex_at(d, i) \
  ((mwi_vertex *)mwi_pool_at(&(d)->vertices, i, sizeof(mwi_vertex)))
#define edge_at(d, i) \
  ((mwi_edge *)mwi_pool_at(&(d)->edges, i, sizeof(mwi_edge)))

/* Where an object stands for its name, so that no name is a plain value's. */
static uint64_t object_hash(uint64_t name) {
  return mwi_mix(UINT64_C(0x4F424A), name);
}

static uint64_t vertex_hash(const mwi_digest *d, uint32_t i) {
  return mwi_mix(vertex_at(d, i)->id, 0);
}

static uint64_t edge_hash(const mwi_digest *d, uint32_t i) {
  return mwi_mix(edge_at(d, i)->key, edge_at(d, i)->of[MWI_PARENT]);
}

static uint32_t *chain_of(const mwi_chains *c, uint64_t hash) {
  return &c->heads[hash & (c->size - 1)];
}

uint32_t mwi_digest_find(const mwi_digest *d, uint64_t id) {
  uint32_t i = (d->by_id.size == 0) ? 0 : *chain_of(&d->by_id, mwi_mix(id, 0));
  while (i != 0 && vertex_at(d, i)->id != id) i = vertex_at(d, i)->chain;
  return i;
}

static uint32_t find_edge(const mwi_digest *d, uint32_t parent, uint64_t key) {
  uint32_t i = (d->by_field.size == 0)
                   ? 0
                   : *chain_of(&d->by_field, mwi_mix(key, parent));
  while (i != 0 &&
         (edge_at(d, i)->of[MWI_PARENT] != parent || edge_at(d, i)->key != key))
    i = edge_at(d, i)->chain;
  return i;
}

typedef uint64_t (*hasher)(const mwi_digest *d, uint32_t i);

/* Makes room for one more element of a pool in a table. */
static int widen_chains(mw_engine *e, mwi_digest *d, mwi_chains *c,
                        const mwi_pool *pool, size_t width, hasher hash) {
  mwi_chains bigger;
  uint32_t i, at, next;
  if (c->n < c->size) return 1;
  bigger.n = c->n;
  bigger.size = (c->size == 0) ? 16 : 2 * c->size;
  bigger.heads = (uint32_t *)mwi_new(e, bigger.size * sizeof(uint32_t));
  if (bigger.heads == NULL) return 0;
  for (i = 0; i < c->size; i++) {
    for (at = c->heads[i]; at != 0; at = next) {
      uint32_t *chain = (uint32_t *)mwi_pool_at(pool, at, width);
      uint32_t *head = chain_of(&bigger, hash(d, at));
      next = *chain;
      *chain = *head;
      *head = at;
    }
  }
  mwi_free(e, c->heads, c->size * sizeof(uint32_t));
  *c = bigger;
  return 1;
}

/* Takes an element of a pool; 0 if there is no memory. */
static uint32_t take_item(mw_engine *e, mwi_digest *d, mwi_chains *c,
                          mwi_pool *pool, size_t width, hasher hash) {
  uint32_t i = widen_chains(e, d, c, pool, width, hash)
                   ? mwi_pool_take(e, pool, width)
                   : 0;
  if (i == 0)
    d->failed = 1;
  else
    memset(mwi_pool_at(pool, i, width), 0, width);
  return i;
}

static void enter_item(const mwi_digest *d, mwi_chains *c, const mwi_pool *pool,
                       size_t width, hasher hash, uint32_t i) {
  uint32_t *head = chain_of(c, hash(d, i));
  *(uint32_t *)mwi_pool_at(pool, i, width) = *head;
  *head = i;
  c->n++;
}

/* Takes an element out of its table, and gives the element back. */
static void give_item(const mwi_digest *d, mwi_chains *c, mwi_pool *pool,
                      size_t width, hasher hash, uint32_t i) {
  uint32_t *at = chain_of(c, hash(d, i));
  while (*at != i) at = (uint32_t *)mwi_pool_at(pool, *at, width);
  *at = *(uint32_t *)mwi_pool_at(pool, i, width);
  c->n--;
  mwi_pool_give(pool, i, width);
}

#define VERTICES &d->by_id, &d->vertices, sizeof(mwi_vertex), vertex_hash
#define EDGES &d->by_field, &d->edges, sizeof(mwi_edge), edge_hash

/* }====================================================== */

/* {======================================================
** Facts
** ======================================================= */

static uint64_t vertex_fact(const mwi_vertex *v) {
  return v->named ? mwi_mix(v->name, v->own) : 0;
}

static uint64_t key_hash(const mwi_digest *d, const mwi_edge *a) {
  uint32_t under = a->of[MWI_UNDER];
  return (under == 0) ? a->key : object_hash(vertex_at(d, under)->name);
}

static uint64_t value_hash(const mwi_digest *d, const mwi_edge *a) {
  uint32_t child = a->of[MWI_CHILD];
  return (child == 0) ? a->value : object_hash(vertex_at(d, child)->name);
}

/* The name to which an edge leads. */
static uint64_t name_by(const mwi_digest *d, const mwi_edge *a) {
  return mwi_mix(vertex_at(d, a->of[MWI_PARENT])->name, key_hash(d, a));
}

static uint64_t edge_fact(const mwi_digest *d, const mwi_edge *a) {
  int role;
  for (role = 0; role < MWI_ROLES; role++)
    if (a->of[role] != 0 && !vertex_at(d, a->of[role])->named) return 0;
  return mwi_mix(name_by(d, a), value_hash(d, a));
}

/* Returns the sum of the facts in which a vertex takes part; an edge in which
** the vertex has two roles counts once. */
static uint64_t facts_of(const mwi_digest *d, uint32_t v) {
  const mwi_vertex *its = vertex_at(d, v);
  uint64_t sum = vertex_fact(its);
  const mwi_edge *a;
  uint32_t i;
  for (i = its->edges[MWI_PARENT]; i != 0; i = a->next[MWI_PARENT])
    sum += edge_fact(d, a = edge_at(d, i));
  for (i = its->edges[MWI_CHILD]; i != 0; i = a->next[MWI_CHILD]) {
    a = edge_at(d, i);
    if (a->of[MWI_PARENT] != v) sum += edge_fact(d, a);
  }
  for (i = its->edges[MWI_UNDER]; i != 0; i = a->next[MWI_UNDER]) {
    a = edge_at(d, i);
    if (a->of[MWI_PARENT] != v && a->of[MWI_CHILD] != v) sum += edge_fact(d, a);
  }
  return sum;
}

static void set_name(mwi_digest *d, uint32_t v, uint64_t name) {
  d->sum -= facts_of(d, v);
  vertex_at(d, v)->name = name;
  vertex_at(d, v)->named = 1;
  d->sum += facts_of(d, v);
}

static void set_own(mwi_digest *d, uint32_t v, uint64_t own) {
  mwi_vertex *its = vertex_at(d, v);
  d->sum -= vertex_fact(its);
  its->own = own;
  d->sum += vertex_fact(its);
}

/* }====================================================== */

/* {======================================================
** Lists
** ======================================================= */

static void make_dirty(mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  if (its->dirty || its->fixed) return;
  its->dirty = 1;
  its->before = 0;
  its->after = d->dirty;
  if (d->dirty != 0) vertex_at(d, d->dirty)->before = v;
  d->dirty = v;
}

static void make_clean(mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  if (!its->dirty) return;
  its->dirty = 0;
  *(its->before != 0 ? &vertex_at(d, its->before)->after : &d->dirty) =
      its->after;
  if (its->after != 0) vertex_at(d, its->after)->before = its->before;
}

static void touch(mwi_digest *d, uint32_t v, int moved) {
  mwi_vertex *its = vertex_at(d, v);
  if (moved) its->moved = 1;
  if (its->touched) return;
  its->touched = 1;
  its->touch = d->touched;
  d->touched = v;
}

/* A stale vertex with a way waits to be read. */
static void queue(mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  if (!its->stale || its->queued || its->distance == MWI_FAR) return;
  its->queued = 1;
  its->next = 0;
  *(d->last != 0 ? &vertex_at(d, d->last)->next : &d->first) = v;
  d->last = v;
}

/* Adds an element to the heap. */
static void await(mw_engine *e, mwi_digest *d, uint32_t v, uint64_t distance) {
  uint32_t i = d->n_heap;
  mwi_wait *heap =
      (mwi_wait *)mwi_grow(e, d->heap, i, &d->size_heap, sizeof(*heap));
  if (heap == NULL) {
    d->failed = 1;
    return;
  }
  d->heap = heap;
  d->n_heap++;
  for (; i > 0 && heap[(i - 1) / 2].distance > distance; i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i].vertex = v;
  heap[i].distance = distance;
}

static mwi_wait nearest(mwi_digest *d) {
  mwi_wait *heap = d->heap, first = heap[0], last = heap[--d->n_heap];
  uint32_t n = d->n_heap, i = 0, child;
  while ((child = 2 * i + 1) < n) {
    if (child + 1 < n && heap[child + 1].distance < heap[child].distance)
      child++;
    if (heap[child].distance >= last.distance) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return first;
}

/* }====================================================== */

/* {======================================================
** Edges that come and go
** ======================================================= */

/* The distance to which an edge leads. */
static uint64_t far_end(const mwi_digest *d, const mwi_edge *a) {
  uint64_t from = vertex_at(d, a->of[MWI_PARENT])->distance, key;
  if (from == MWI_FAR) return from;
  if (a->of[MWI_UNDER] == 0) return from + 1;
  key = vertex_at(d, a->of[MWI_UNDER])->distance;
  if (key == MWI_FAR) return key;
  return ((from > key ? from : key) >> 32 << 32) + (UINT64_C(1) << 32);
}

/* May an edge give the child, whose distance stays, another name? */
static int renames(const mwi_digest *d, uint32_t i) {
  const mwi_edge *a = edge_at(d, i);
  const mwi_vertex *child = vertex_at(d, a->of[MWI_CHILD]);
  if (child->fixed || child->distance == MWI_FAR) return 0;
  return child->via == i || (far_end(d, a) == child->distance &&
                             (!child->named || name_by(d, a) < child->name));
}

static void link_edge(const mwi_digest *d, uint32_t i, int role) {
  mwi_edge *a = edge_at(d, i);
  uint32_t *head;
  if (a->of[role] == 0) return;
  head = &vertex_at(d, a->of[role])->edges[role];
  a->next[role] = *head;
  if (*head != 0) edge_at(d, *head)->prev[role] = i;
  *head = i;
}

static void unlink_edge(const mwi_digest *d, uint32_t i, int role) {
  const mwi_edge *a = edge_at(d, i);
  uint32_t next = a->next[role], prev = a->prev[role];
  if (a->of[role] == 0) return;
  if (next != 0) edge_at(d, next)->prev[role] = prev;
  *(prev != 0 ? &edge_at(d, prev)->next[role]
              : &vertex_at(d, a->of[role])->edges[role]) = next;
}

/* Returns the vertex of an object, made if need be; 0 if there is no memory. A
** new vertex is to be read when a way leads there. */
static uint32_t need_vertex(mw_engine *e, mwi_digest *d, uint64_t id) {
  uint32_t v = mwi_digest_find(d, id);
  mwi_vertex *its;
  if (v != 0 || (v = take_item(e, d, VERTICES)) == 0) return v;
  its = vertex_at(d, v);
  its->id = id;
  its->distance = MWI_FAR;
  its->fresh = its->stale = 1;
  enter_item(d, VERTICES, v);
  make_dirty(d, v);
  return v;
}

/* Frees a vertex that has never been read, or is fixed, when its last edge has
** gone; all others stay until the digest is wanted. */
static void free_idle(mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  if (its->distance != MWI_FAR || its->touched || its->queued) return;
  if (!its->fresh && !its->fixed) return;
  if (its->edges[MWI_CHILD] != 0 || its->edges[MWI_UNDER] != 0) return;
  make_clean(d, v);
  d->sum -= vertex_fact(its);
  give_item(d, VERTICES, v);
}

static void add_edge(mw_engine *e, mwi_digest *d, uint32_t v,
                     const mwi_term *key, const mwi_term *value) {
  uint32_t i = take_item(e, d, EDGES), child, under;
  int role;
  mwi_edge *a;
  if (i == 0) return;
  child = (value->id == 0) ? 0 : need_vertex(e, d, value->id);
  under = (key->id == 0) ? 0 : need_vertex(e, d, key->id);
  if (d->failed) { /* the digest is of no use any more */
    mwi_pool_give(&d->edges, i, sizeof(mwi_edge));
    return;
  }
  a = edge_at(d, i);
  a->of[MWI_PARENT] = v;
  a->of[MWI_CHILD] = child;
  a->of[MWI_UNDER] = under;
  a->key = key->hash;
  a->value = value->hash;
  for (role = 0; role < MWI_ROLES; role++) link_edge(d, i, role);
  enter_item(d, EDGES, i);
  d->sum += edge_fact(d, a);
  if (under != 0) d->lost += vertex_at(d, under)->fixed;
  if (child == 0) return;
  if (far_end(d, a) < vertex_at(d, child)->distance) {
    make_dirty(d, child);
    vertex_at(d, child)->nearer = 1;
  } else if (renames(d, i)) {
    touch(d, child, 0);
  }
}

static void end_edge(mwi_digest *d, uint32_t i) {
  mwi_edge a = *edge_at(d, i);
  int role, held = a.of[MWI_CHILD] != 0 &&
                   far_end(d, &a) == vertex_at(d, a.of[MWI_CHILD])->distance;
  d->sum -= edge_fact(d, &a);
  for (role = 0; role < MWI_ROLES; role++) unlink_edge(d, i, role);
  give_item(d, EDGES, i);
  for (role = MWI_CHILD; role < MWI_ROLES; role++) {
    if (a.of[role] == 0) continue;
    if (role == MWI_CHILD) {
      mwi_vertex *child = vertex_at(d, a.of[role]);
      if (child->via == i) child->via = 0;
      if (held || child->via == 0) make_dirty(d, a.of[role]);
    }
    if (role == MWI_UNDER && a.of[MWI_CHILD] == a.of[role]) continue; /* gone */
    free_idle(d, a.of[role]);
  }
}

/* }====================================================== */

/* {======================================================
** Distances
** ======================================================= */

/* The shortest distance to which an edge leads; nothing is shorter than
** `least`. */
static uint64_t shortest(const mwi_digest *d, uint32_t v, uint64_t least) {
  uint64_t best = MWI_FAR;
  uint32_t i = vertex_at(d, v)->edges[MWI_CHILD];
  if (v == d->root) return 0;
  for (; i != 0 && best > least; i = edge_at(d, i)->next[MWI_CHILD]) {
    uint64_t end = far_end(d, edge_at(d, i));
    if (end < best) best = end;
  }
  return best;
}

/* The distance of a vertex grows from `was`, or falls: the children for which
** that may count wait. */
static void tell_children(mw_engine *e, mwi_digest *d, uint32_t v, int falls) {
  static const int roles[] = {MWI_PARENT, MWI_UNDER};
  int i;
  for (i = 0; i < 2; i++) {
    uint32_t at = vertex_at(d, v)->edges[roles[i]];
    for (; at != 0; at = edge_at(d, at)->next[roles[i]]) {
      uint32_t c = edge_at(d, at)->of[MWI_CHILD];
      uint64_t end = far_end(d, edge_at(d, at));
      if (c == 0 || vertex_at(d, c)->fixed || end == MWI_FAR) continue;
      if (falls ? end < vertex_at(d, c)->distance
                : end == vertex_at(d, c)->distance)
        await(e, d, c, end);
    }
  }
}

/* The distance stays; does the last edge of the way, too?  Where no way leads,
** the vertex may still be a key. */
static int keeps_way(const mwi_digest *d, uint32_t v) {
  const mwi_vertex *its = vertex_at(d, v);
  return v == d->root || (its->distance != MWI_FAR && its->via != 0 &&
                          far_end(d, edge_at(d, its->via)) == its->distance);
}

/* Settles the distance of the nearest vertex that waits. */
static void settle_nearest(mw_engine *e, mwi_digest *d) {
  mwi_wait w = nearest(d);
  mwi_vertex *its = vertex_at(d, w.vertex);
  uint64_t was = its->distance, now;
  now = shortest(d, w.vertex, (w.distance < was) ? w.distance : was);
  if (now == was) {
    if (!keeps_way(d, w.vertex)) touch(d, w.vertex, 0);
  } else if ((now < was ? now : was) > w.distance) {
    await(e, d, w.vertex, (now < was) ? now : was);
  } else if (now < was) {
    its->distance = now;
    touch(d, w.vertex, 1);
    queue(d, w.vertex);
    tell_children(e, d, w.vertex, 1);
  } else {
    tell_children(e, d, w.vertex, 0);
    its->distance = MWI_FAR;
    touch(d, w.vertex, 1);
    if (now != MWI_FAR) await(e, d, w.vertex, now);
  }
}

/* Finds the distances that may have changed. */
static void settle(mw_engine *e, mwi_digest *d) {
  while (d->dirty != 0 && !d->failed) {
    uint32_t v = d->dirty;
    mwi_vertex *its = vertex_at(d, v);
    uint64_t was = its->distance, now = shortest(d, v, its->nearer ? 0 : was);
    make_clean(d, v);
    its->nearer = 0;
    if (now != was)
      await(e, d, v, (now < was) ? now : was);
    else if (!keeps_way(d, v))
      touch(d, v, 0);
  }
  while (d->n_heap > 0 && !d->failed) settle_nearest(e, d);
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

static void wait_for_name(mw_engine *e, mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  if (its->waits || its->fixed || its->distance == MWI_FAR) return;
  its->waits = 1;
  await(e, d, v, its->distance);
}

/* Gives a vertex its name; the names of all that are nearer are right. */
static void name_nearest(mw_engine *e, mwi_digest *d) {
  static const int roles[] = {MWI_PARENT, MWI_UNDER};
  uint32_t v = nearest(d).vertex, at;
  mwi_vertex *its = vertex_at(d, v);
  uint64_t best = its->name;
  int moved = its->moved, i;
  its->moved = its->waits = 0;
  if (v != d->root) {
    its->via = 0;
    for (at = its->edges[MWI_CHILD]; at != 0;
         at = edge_at(d, at)->next[MWI_CHILD]) {
      uint64_t name;
      if (far_end(d, edge_at(d, at)) != its->distance) continue;
      name = name_by(d, edge_at(d, at));
      if (its->via != 0 && name >= best) continue;
      best = name;
      its->via = at;
    }
  }
  if (!its->named || best != its->name)
    set_name(d, v, best);
  else if (!moved)
    return;
  for (i = 0; i < 2; i++)
    for (at = its->edges[roles[i]]; at != 0;
         at = edge_at(d, at)->next[roles[i]])
      if (edge_at(d, at)->of[MWI_CHILD] != 0 && renames(d, at))
        wait_for_name(e, d, edge_at(d, at)->of[MWI_CHILD]);
}

/* Is a vertex to which no way leads the key of a field? */
static int is_only_key(const mwi_digest *d, uint32_t v) {
  uint32_t i = vertex_at(d, v)->edges[MWI_UNDER];
  while (i != 0 &&
         vertex_at(d, edge_at(d, i)->of[MWI_PARENT])->distance == MWI_FAR)
    i = edge_at(d, i)->next[MWI_UNDER];
  return i != 0;
}

/* Ends a vertex to which no way leads. */
static void end_vertex(mwi_digest *d, uint32_t v) {
  mwi_vertex *its = vertex_at(d, v);
  int role;
  its->touched = 1; /* stays, whatever edges go */
  for (role = 0; role < MWI_ROLES; role++)
    while (its->edges[role] != 0) end_edge(d, its->edges[role]);
  make_clean(d, v);
  d->sum -= vertex_fact(its);
  d->bad -= its->bad;
  give_item(d, VERTICES, v);
}

uint64_t mwi_digest_finish(mw_engine *e, mwi_digest *d) {
  uint32_t gone = 0, v, next;
  mwi_assert(d->first == 0 || d->failed);
  for (v = d->touched; v != 0; v = next) {
    mwi_vertex *its = vertex_at(d, v);
    next = its->touch;
    if (its->distance == MWI_FAR) {
      its->touch = gone;
      gone = v;
    } else {
      its->touched = 0;
      wait_for_name(e, d, v);
    }
  }
  d->touched = 0;
  while (d->n_heap > 0 && !d->failed) name_nearest(e, d);
  for (v = gone; v != 0; v = vertex_at(d, v)->touch)
    if (!vertex_at(d, v)->fixed) d->lost += (uint64_t)is_only_key(d, v);
  for (v = gone; v != 0; v = next) {
    next = vertex_at(d, v)->touch;
    vertex_at(d, v)->touched = 0;
    if (!vertex_at(d, v)->fixed)
      end_vertex(d, v);
    else
      free_idle(d, v);
  }
  d->writes = 0;
  return mwi_mix(d->sum, d->by_id.n);
}

/* }====================================================== */

/* {======================================================
** For the host
** ======================================================= */

mwi_digest *mwi_digest_open(mw_engine *e, uint64_t root) {
  mwi_digest *d = (mwi_digest *)mwi_new(e, sizeof(*d));
  if (d == NULL) return NULL;
  d->root = need_vertex(e, d, root);
  if (d->root == 0) {
    mwi_digest_close(e, d);
    return NULL;
  }
  set_name(d, d->root, 0);
  return d;
}

void mwi_digest_close(mw_engine *e, mwi_digest *d) {
  if (d == NULL) return;
  mwi_column_drop(e, &d->vertices.items, MWI_PAGE * sizeof(mwi_vertex));
  mwi_column_drop(e, &d->edges.items, MWI_PAGE * sizeof(mwi_edge));
  mwi_free(e, d->by_id.heads, d->by_id.size * sizeof(uint32_t));
  mwi_free(e, d->by_field.heads, d->by_field.size * sizeof(uint32_t));
  mwi_free(e, d->heap, d->size_heap * sizeof(mwi_wait));
  mwi_free(e, d->restless, d->size_restless * sizeof(uint64_t));
  mwi_free(e, d, sizeof(*d));
}

uint64_t mwi_digest_id(const mwi_digest *d, uint32_t v) {
  return vertex_at(d, v)->id;
}

int mwi_digest_is_read(const mwi_digest *d, uint32_t v) {
  return !vertex_at(d, v)->stale && !vertex_at(d, v)->fixed;
}

void mwi_digest_spoil(mwi_digest *d, uint32_t v) {
  vertex_at(d, v)->stale = 1;
  queue(d, v);
}

/* Takes the first vertex out of the queue. */
static void unqueue(mwi_digest *d) {
  mwi_vertex *its = vertex_at(d, d->first);
  its->queued = 0;
  d->first = its->next;
  if (d->first == 0) d->last = 0;
}

void mwi_digest_unrest(mw_engine *e, mwi_digest *d, uint32_t v) {
  uint64_t *list = (uint64_t *)mwi_grow(e, d->restless, d->n_restless,
                                        &d->size_restless, sizeof(*list));
  if (list == NULL) {
    d->failed = 1;
    return;
  }
  d->restless = list;
  list[d->n_restless++] = vertex_at(d, v)->id;
}

/* They are restless again when they are read. */
void mwi_digest_spoil_restless(mwi_digest *d) {
  uint32_t i;
  for (i = 0; i < d->n_restless; i++) {
    uint32_t v = mwi_digest_find(d, d->restless[i]);
    if (v != 0) mwi_digest_spoil(d, v);
  }
  d->n_restless = 0;
}

uint32_t mwi_digest_next(mw_engine *e, mwi_digest *d) {
  settle(e, d);
  while (d->first != 0 && vertex_at(d, d->first)->distance == MWI_FAR)
    unqueue(d);
  return d->failed ? 0 : d->first;
}

void mwi_digest_begin(mwi_digest *d) {
  uint32_t v = d->first;
  mwi_vertex *its = vertex_at(d, v);
  unqueue(d);
  its->fresh = its->stale = 0;
  while (its->edges[MWI_PARENT] != 0) end_edge(d, its->edges[MWI_PARENT]);
  set_own(d, v, 0);
  d->bad -= its->bad;
  its->bad = 0;
}

void mwi_digest_say(mwi_digest *d, uint32_t v, uint64_t fact) {
  set_own(d, v, vertex_at(d, v)->own + fact);
}

void mwi_digest_add(mw_engine *e, mwi_digest *d, uint32_t v,
                    const mwi_term *key, const mwi_term *value) {
  if (d->failed) return;
  if (key->id != 0 || value->id != 0)
    add_edge(e, d, v, key, value);
  else
    mwi_digest_say(d, v, mwi_mix(key->hash, value->hash));
}

void mwi_digest_take(mwi_digest *d, uint32_t v, const mwi_term *key,
                     const mwi_term *value) {
  uint32_t i;
  if (d->failed) return;
  if (key->id == 0 && value->id == 0) {
    mwi_digest_say(d, v, 0 - mwi_mix(key->hash, value->hash));
    return;
  }
  i = find_edge(d, v, key->hash);
  if (i != 0)
    end_edge(d, i);
  else
    mwi_digest_spoil(d, v);
}

void mwi_digest_refuse(mwi_digest *d, uint32_t v, int n) {
  vertex_at(d, v)->bad += (uint32_t)n;
  d->bad += (uint64_t)(int64_t)n;
}

void mwi_digest_fix(mwi_digest *d, uint32_t v, uint64_t name) {
  mwi_vertex *its = vertex_at(d, v);
  its->fixed = 1;
  d->lost += its->edges[MWI_UNDER] != 0;
  its->distance = MWI_FAR;
  its->via = 0;
  make_clean(d, v);
  set_name(d, v, name);
}

/* }====================================================== */
