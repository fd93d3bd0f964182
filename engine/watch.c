/*
** watch.c - who hears of a write.
** SPDX-License-Identifier: MIT
**
**     records, in pages by slot        watches, one pool
**     +------------------------+       +-------+    +-------+
**     | count, armed           |       | watch |--->| watch |---> 0
**     | first, last -----------------> | flags |    | flags |
**     +------------------------+       +-------+    +-------+
**
** Invariant: the list of an object holds its watches in the order in which they
** began, so their moments ascend.  A watch that has ended (MWI_ENDED) stays in
** the list while a call is under way on the object (`firing`), so whoever walks
** the list can follow `next` whatever a guard does; then it goes.
**
** A write is a moment.  First all that are called once are taken: `due` is the
** moment, and no other write will call them.  Then the list is walked, and
** called are those that were taken for this moment and those that stay, if
** they began before it.  Nothing is allocated.
*/
#include <string.h>

#include "engine.h"

/* Further flags of a watch. */
#define MWI_ENDED 0x100   /* no longer called */
#define MWI_CLAIMED 0x200 /* waits for its call, not for a write */
#define MWI_QUEUED 0x400  /* waits for the end of the batch */

/* {======================================================
** Records and the pool
** ======================================================= */

/* Watches stay where they are. */
static mwi_watch *watch_at(const mw_engine *e, uint32_t i) {
  return (mwi_watch *)mwi_pool_at(&e->watch.watches, i, sizeof(mwi_watch));
}

static mwi_object *record_of(const mw_engine *e, mw_handle h) {
  if (!mwi_identity_is_valid(&e->identity, h)) return NULL;
  return mwi_object_of(&e->watch, mw_slot(h));
}

#define PAGE_SIZE (MWI_PAGE * sizeof(mwi_object))

mwi_object *mwi_object_need(mw_engine *e, mw_handle h) {
  mwi_column *records = &e->watch.records;
  mwi_object *page =
      (mwi_object *)mwi_column_need(e, records, mw_slot(h), PAGE_SIZE);
  return (page == NULL) ? NULL : &page[mw_slot(h) % MWI_PAGE];
}

void mwi_watch_retain(const mw_engine *e, const mw_value *key) {
  const mw_host *host = &e->watch.host;
  if (host->retain != NULL) host->retain(host->ud, key);
}

void mwi_watch_release(const mw_engine *e, const mw_value *key) {
  const mw_host *host = &e->watch.host;
  if (host->release != NULL) host->release(host->ud, key);
}

static size_t size_of_keys(size_t n) {
  return sizeof(mwi_watch_keys) + (n - 1) * sizeof(mw_value);
}

static void free_watch(mw_engine *e, uint32_t i) {
  mwi_watch *w = watch_at(e, i);
  size_t k;
  if (w->keys != NULL) {
    for (k = 0; k < w->keys->n; k++) mwi_watch_release(e, &w->keys->key[k]);
    mwi_free(e, w->keys, size_of_keys(w->keys->n));
    w->keys = NULL;
  }
  w->age++;
  if (w->flags & MW_DEEP) e->watch.deep--;
  mwi_pool_give(&e->watch.watches, i, sizeof(mwi_watch));
}

/* The host hears nothing of it: it may be gone. */
void mwi_watch_close(mw_engine *e) {
  mwi_watches *part = &e->watch;
  uint32_t i;
  for (i = 1; i <= part->watches.n; i++) {
    mwi_watch_keys *keys = watch_at(e, i)->keys;
    if (keys != NULL) mwi_free(e, keys, size_of_keys(keys->n));
  }
  mwi_column_drop(e, &part->records, PAGE_SIZE);
  mwi_column_drop(e, &part->watches.items, MWI_PAGE * sizeof(mwi_watch));
}

/* }====================================================== */

/* {======================================================
** Lists
** ======================================================= */

static void append(mw_engine *e, mwi_object *r, uint32_t i) {
  watch_at(e, i)->next = 0;
  if (r->first == 0)
    r->first = i;
  else
    watch_at(e, r->last)->next = i;
  r->last = i;
  r->linked++;
  r->armed++;
}

/* Ends a watch.  It leaves the list when that is swept. */
static void end_watch(mwi_object *r, mwi_watch *w) {
  if ((w->flags & (MWI_ENDED | MWI_CLAIMED)) == 0) r->armed--;
  w->flags |= MWI_ENDED;
}

static int is_alive(const mw_engine *e, mw_handle guard) {
  const mw_host *host = &e->watch.host;
  if (!mwi_identity_is_valid(&e->identity, guard)) return 0;
  return host->alive == NULL || host->alive(host->ud, guard);
}

/* Ends a watch whose guard is dead, and returns 1. */
static int is_orphan(const mw_engine *e, mwi_object *r, mwi_watch *w) {
  if ((w->flags & MW_WEAK) == 0 || is_alive(e, w->guard)) return 0;
  end_watch(r, w);
  return 1;
}

/* Gives back a watch that has ended and left its list; one that is pending is
** given back at the end of the batch. */
static void drop_watch(mw_engine *e, uint32_t i) {
  mwi_watch *w = watch_at(e, i);
  w->flags |= MWI_ENDED;
  w->obj = MW_NONE;
  if ((w->flags & MWI_QUEUED) == 0) free_watch(e, i);
}

/* Takes the ended out of the list, and with `orphans` those that should be. */
static void sweep(mw_engine *e, mwi_object *r, int orphans) {
  uint32_t *link = &r->first, i;
  uint32_t last = 0;
  if (r->firing > 0) return;
  while ((i = *link) != 0) {
    mwi_watch *w = watch_at(e, i);
    if (orphans && (w->flags & MWI_ENDED) == 0) is_orphan(e, r, w);
    if (w->flags & MWI_ENDED) {
      *link = w->next;
      r->linked--;
      drop_watch(e, i);
    } else {
      last = i;
      link = &w->next;
    }
  }
  r->last = last;
}

/* A class that is gone has no count. */
static mw_handle leave(mw_engine *e, mwi_object *r) {
  mw_handle class_ = r->class_;
  mwi_object *its = record_of(e, class_);
  if (its != NULL && --its->instances == 0) e->watch.deserted = 1;
  r->class_ = MW_NONE;
  return class_;
}

void mwi_watch_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  uint32_t i, next;
  if (r == NULL) return;
  leave(e, r);
  mwi_tree_forget(e, slot);
  for (i = r->first; i != 0; i = next) {
    next = watch_at(e, i)->next;
    drop_watch(e, i);
  }
  memset(r, 0, sizeof(*r));
}

/* Guards die silently, so their watches are sought each time the list has grown
** to twice the length that was left the last time. */
static void prune(mw_engine *e, mwi_object *r) {
  if (r->linked < 8 || r->linked >> r->sweep_at == 0) return;
  sweep(e, r, 1);
  for (r->sweep_at = 0; r->linked >> r->sweep_at != 0; r->sweep_at++)
    ;
  r->sweep_at++;
}

/* }====================================================== */

/* {======================================================
** Watching
** ======================================================= */

void mw_host_set(mw_engine *e, const mw_host *host) { e->watch.host = *host; }

static mw_watch_id id_of(const mw_engine *e, uint32_t i) {
  return (mw_watch_id)watch_at(e, i)->age << 32 | i;
}

/* The watch of an id, NULL when it has ended. */
static mwi_watch *find_watch(const mw_engine *e, mw_watch_id id) {
  uint32_t i = (uint32_t)id;
  mwi_watch *w;
  if (i == 0 || i > e->watch.watches.n) return NULL;
  w = watch_at(e, i);
  if (w->age != (uint32_t)(id >> 32) || (w->age & 1) == 0) return NULL;
  return (w->flags & MWI_ENDED) ? NULL : w;
}

/* Copies the keys into a new watch; 0 when there is no memory. */
static int copy_keys(mw_engine *e, mwi_watch *w, const mw_value *keys,
                     uint32_t n) {
  uint32_t i;
  if (n == 0) return 1;
  w->keys = (mwi_watch_keys *)mwi_new(e, size_of_keys(n));
  if (w->keys == NULL) return 0;
  w->keys->n = n;
  memcpy(w->keys->key, keys, n * sizeof(mw_value));
  for (i = 0; i < n; i++) mwi_watch_retain(e, &keys[i]);
  return 1;
}

static uint32_t make_watch(mw_engine *e, mw_handle obj,
                           const mw_watch_options *options) {
  uint32_t i = mwi_pool_take(e, &e->watch.watches, sizeof(mwi_watch));
  mwi_watch *w;
  if (i == 0) return 0;
  w = watch_at(e, i);
  w->age++;
  w->flags = 0;
  if (!copy_keys(e, w, options->keys, options->n_keys)) {
    free_watch(e, i);
    return 0;
  }
  w->guard = options->guard;
  w->ref = options->ref;
  w->flags = options->flags;
  if (w->flags & MW_DEEP) e->watch.deep++;
  w->moment = ++e->watch.moment;
  w->due = 0;
  w->obj = obj;
  return i;
}

int mw_watch_begin(mw_engine *e, mw_handle obj, const mw_watch_options *options,
                   mw_watch_id *id) {
  mwi_object *r;
  uint32_t i;
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if ((options->flags & MW_FLAG) && !mwi_object_need(e, options->guard))
    return MW_NOMEM;
  r = mwi_object_need(e, obj);
  if (r == NULL || (i = make_watch(e, obj, options)) == 0) return MW_NOMEM;
  if (!r->known) r->count = 0; /* while it was tracked */
  r->watched = r->known = 1;
  prune(e, r);
  append(e, r, i);
  *id = id_of(e, i);
  return MW_OK;
}

int mw_object_unwatch(mw_engine *e, mw_handle obj) {
  mwi_object *r = record_of(e, obj);
  uint32_t i;
  if (r == NULL || (!r->watched && r->member == 0)) return MW_STALE;
  if (r->tracked < 2) mw_root_end(e, obj);
  for (i = r->first; i != 0; i = watch_at(e, i)->next)
    end_watch(r, watch_at(e, i));
  sweep(e, r, 0);
  leave(e, r);
  r->watched = r->counted = 0;
  if (r->member == 0) r->slow = r->lengthy = 0;
  return MW_OK;
}

int mwi_class_join(mw_engine *e, mw_handle obj, mw_handle class_) {
  mwi_object *its = mwi_object_need(e, class_), *r = record_of(e, obj);
  if (its == NULL) return MW_NOMEM;
  if (r == NULL || !r->watched || r->class_ != MW_NONE) return MW_OK;
  r->class_ = class_;
  return (its->instances++ == 0) ? MW_NEW : MW_OK;
}

mw_handle mwi_class_leave(mw_engine *e, mw_handle obj) {
  mwi_object *r = record_of(e, obj);
  return (r == NULL) ? MW_NONE : leave(e, r);
}

/* An object may be below one that is only tracked. */
int mw_object_is_watched(mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  mw_value key;
  uint32_t after = 0;
  mw_handle root;
  if (r == NULL || r->watched) return r != NULL;
  while ((root = mwi_tree_root(e, obj, &after, &key)) != MW_NONE)
    if (record_of(e, root)->watched) return 1;
  return 0;
}

int mw_watch_cancel(mw_engine *e, mw_watch_id id) {
  mwi_watch *w = find_watch(e, id);
  mwi_object *r;
  if (w == NULL) return MW_STALE;
  r = mwi_object_of(&e->watch, mw_slot(w->obj));
  end_watch(r, w);
  sweep(e, r, 0);
  return MW_OK;
}

int mw_watch_is_alive(const mw_engine *e, mw_watch_id id) {
  return find_watch(e, id) != NULL;
}

uint32_t mw_object_waiting(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  return (r == NULL) ? 0 : r->armed;
}

/* While it was only tracked, nobody counted. */
uint64_t mw_object_mutations(mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  if (r == NULL || (!r->known && !mw_object_is_watched(e, obj))) return 0;
  return r->count;
}

/* After the clock was reset, what was before it is not known. */
int64_t mw_object_last_change(mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  int64_t changed = (r == NULL) ? -1 : (int64_t)r->changed - 1;
  if (mw_object_mutations(e, obj) == 0) return -1;
  return (changed > mw_clock_now(e, MW_CLOCK)) ? -1 : changed;
}

int mw_guard_is_valid(const mw_engine *e, mw_handle guard) {
  const mwi_object *r = record_of(e, guard);
  return r == NULL || !r->invalid;
}

int mw_guard_set_valid(mw_engine *e, mw_handle guard, int valid) {
  mwi_object *r;
  if (!mwi_identity_is_valid(&e->identity, guard)) return MW_STALE;
  r = mwi_object_need(e, guard);
  if (r == NULL) return MW_NOMEM;
  r->invalid = !valid;
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Firing
** ======================================================= */

int mw_value_equal(const mw_value *a, const mw_value *b) {
  if (a->type != b->type) return 0;
  if (a->type == MW_TNIL) return 1;
  if (a->type != MW_TFLOAT) return a->u.i == b->u.i;
  return a->u.f == b->u.f || (a->u.f != a->u.f && b->u.f != b->u.f);
}

/* A write, as those hear of it who watch one object. */
typedef struct event {
  const mw_change *change;
  const mw_value *key; /* of that object, on the way to the write */
  int below;           /* was it an object below that one that was written? */
  int phase;
  uint64_t moment;
} event;

static int has_key(const mwi_watch *w, const mw_value *key) {
  size_t i;
  if (w->keys == NULL) return 1;
  for (i = 0; i < w->keys->n; i++)
    if (mw_value_equal(&w->keys->key[i], key)) return 1;
  return 0;
}

/* Is it a change that the watch wants to hear of, now or later? */
static int concerns(const mwi_watch *w, const event *ev) {
  if (ev->below && (w->flags & MW_DEEP) == 0) return 0;
  if ((w->flags & MW_SKIP) && ev->change->same) return 0;
  return has_key(w, ev->key);
}

static int wants(const mwi_watch *w, const event *ev) {
  return (w->flags & MW_AFTER) == ev->phase && concerns(w, ev);
}

/* Takes those that are called once; others that fire cannot call them now. */
static void take(mw_engine *e, mwi_object *r, const event *ev) {
  uint32_t i;
  for (i = r->first; i != 0; i = watch_at(e, i)->next) {
    mwi_watch *w = watch_at(e, i);
    if (w->moment > ev->moment) break;
    if ((w->flags & MW_ONCE) == 0 || (w->flags & (MWI_ENDED | MWI_CLAIMED)))
      continue;
    if (!wants(w, ev)) continue;
    w->flags |= MWI_CLAIMED;
    w->due = ev->moment;
    r->armed--;
  }
}

/* A write of one moment may be heard of by its object, then by its roots. */
static int is_called(const mwi_watch *w, const event *ev) {
  if (w->flags & MWI_ENDED) return 0;
  if (w->flags & MW_ONCE)
    return (w->flags & MWI_CLAIMED) && w->due == ev->moment &&
           (w->flags & MW_AFTER) == ev->phase;
  return wants(w, ev);
}

/* It does no harm to a guard that is dead and not yet known to be. */
static void raise_flag(mw_engine *e, mwi_object *r, mwi_watch *w) {
  mwi_object *guard = record_of(e, w->guard);
  if (guard != NULL) guard->invalid = 1;
  if (guard == NULL || (w->flags & MW_ONCE)) end_watch(r, w);
}

static void call(mw_engine *e, mwi_object *r, mw_handle obj, mwi_watch *w,
                 const mw_change *change) {
  const mw_host *host = &e->watch.host;
  e->watch.calls++;
  if (w->flags & MW_FLAG) {
    raise_flag(e, r, w);
    return;
  }
  if (is_orphan(e, r, w)) return;
  if (w->flags & MW_ONCE) end_watch(r, w);
  host->call(host->ud, obj, w->ref, change);
}

/* Does something for the object that is written, and for each root above. */
typedef void (*hearing)(mw_engine *e, mwi_object *r, mw_handle obj,
                        const event *ev);

static void for_all(mw_engine *e, mwi_object *r, mw_handle obj,
                    const event *own, hearing f) {
  event ev = *own;
  mw_value key;
  uint32_t after = 0;
  mw_handle root;
  f(e, r, obj, &ev);
  ev.key = &key;
  ev.below = 1;
  while ((root = mwi_tree_root(e, obj, &after, &key)) != MW_NONE)
    f(e, record_of(e, root), root, &ev);
}

/* }====================================================== */

/* {======================================================
** Batches: `first_pending` and on through `pending`
** ======================================================= */

static void pend(mw_engine *e, uint32_t i, const mw_change *change) {
  mwi_watches *part = &e->watch;
  mwi_watch *w = watch_at(e, i);
  w->due = change->note;
  if (w->flags & MWI_QUEUED) return;
  w->flags |= MWI_QUEUED;
  w->pending = 0;
  if (part->first_pending == 0)
    part->first_pending = i;
  else
    watch_at(e, part->last_pending)->pending = i;
  part->last_pending = i;
}

/* Whether the value is the same in the end is seen then.  A guard that is a
** flag can be told at once. */
static void pend_all(mw_engine *e, mwi_object *r, mw_handle obj,
                     const event *ev) {
  uint32_t i;
  r->firing++;
  for (i = r->first; i != 0; i = watch_at(e, i)->next) {
    mwi_watch *w = watch_at(e, i);
    if (w->flags & (MWI_ENDED | MWI_CLAIMED)) continue;
    if (!concerns(w, ev)) continue;
    if ((w->flags & (MW_FLAG | MW_SKIP)) == MW_FLAG)
      call(e, r, obj, w, ev->change);
    else
      pend(e, i, ev->change);
  }
  r->firing--;
  sweep(e, r, 0);
}

/* The first that is pending, no longer pending then; 0 at the end. */
static uint32_t next_pending(mw_engine *e) {
  mwi_watches *part = &e->watch;
  uint32_t i = part->first_pending;
  if (i == 0) return 0;
  part->first_pending = watch_at(e, i)->pending;
  watch_at(e, i)->flags &= ~MWI_QUEUED;
  return i;
}

/* While `firing`, a watch that ends stays in its list. */
static void settle(mw_engine *e, mwi_watch *w, void *hosts) {
  const mw_host *host = &e->watch.host;
  mw_handle obj = w->obj;
  mwi_object *r = mwi_object_of(&e->watch, mw_slot(obj));
  mw_change change;
  int heard;
  memset(&change, 0, sizeof(change));
  change.host = hosts;
  change.note = w->due;
  r->firing++;
  heard = host->settle(host->ud, obj, &change);
  if (!mwi_identity_is_valid(&e->identity, obj)) return;
  if (heard && !(w->flags & MWI_ENDED) &&
      !((w->flags & MW_SKIP) && change.same))
    call(e, r, obj, w, &change);
  if (!mwi_identity_is_valid(&e->identity, obj)) return;
  r->firing--;
  sweep(e, r, 0);
}

void mw_batch_begin(mw_engine *e) { e->watch.batches++; }

void mw_batch_end(mw_engine *e, void *host) {
  uint32_t i;
  if (--e->watch.batches > 0) return;
  while ((i = next_pending(e)) != 0) {
    if (watch_at(e, i)->obj == MW_NONE)
      free_watch(e, i);
    else if ((watch_at(e, i)->flags & MWI_ENDED) == 0)
      settle(e, watch_at(e, i), host);
  }
}

void mw_batch_drop(mw_engine *e) {
  uint32_t i;
  if (--e->watch.batches > 0) return;
  while ((i = next_pending(e)) != 0)
    if (watch_at(e, i)->obj == MW_NONE) free_watch(e, i);
}

uint32_t mw_batch_depth(const mw_engine *e) { return e->watch.batches; }

/* }====================================================== */

/* {======================================================
** Writes
** ======================================================= */

/* A guard may end the object itself; then its list is gone. */
static void fire(mw_engine *e, mwi_object *r, mw_handle obj, const event *ev) {
  uint32_t i;
  if (r->first == 0) return;
  take(e, r, ev);
  r->firing++;
  for (i = r->first; i != 0; i = watch_at(e, i)->next) {
    mwi_watch *w = watch_at(e, i);
    if (w->moment > ev->moment) break;
    if (!is_called(w, ev)) continue;
    call(e, r, obj, w, ev->change);
    if (!mwi_identity_is_valid(&e->identity, obj)) return;
  }
  r->firing--;
  sweep(e, r, 0);
}

static event event_of(const mw_change *change, int phase, uint64_t moment) {
  event ev = {change, &change->key, 0, phase, moment};
  return ev;
}

uint64_t mw_write_begin(mw_engine *e, mw_handle obj, const mw_change *change) {
  mwi_object *r = record_of(e, obj);
  event ev;
  if (r == NULL || (!r->watched && r->member == 0)) return 0;
  mwi_object_count(e, r);
  ev = event_of(change, 0, ++e->watch.moment);
  for_all(e, r, obj, &ev, e->watch.batches > 0 ? pend_all : fire);
  return ev.moment;
}

void mw_write_end(mw_engine *e, mw_handle obj, const mw_change *change,
                  uint64_t moment) {
  mwi_object *r = record_of(e, obj);
  event ev = event_of(change, MW_AFTER, moment);
  if (r != NULL && e->watch.batches == 0) for_all(e, r, obj, &ev, fire);
}

/* }====================================================== */
