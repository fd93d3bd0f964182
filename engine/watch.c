/*
** watch.c - the watches of an object, and the order of their calls.
** SPDX-License-Identifier: MIT
**
**     record of the object                fields, by (object, key)
**     +-------------------+               +-------------+
**     | needs, count      |    fields --> | key "hp"    | --> next field
**     | first ---------+  |               | first       |
**     +----------------|--+               +--|----------+
**                      v                     v
**                 watch <-> watch       watch <-> watch
**
** A watch of all fields stands in the list of its object, a watch of a key in
** the list of the field.  A watch of several keys is several watches, in a ring
** of twins that end together.  A write looks at two lists: watches of other
** fields cost the write nothing.
**
** Invariants.  A list holds its watches in the order in which they began, so
** `seq` ascends.  `waiting` counts the watches that wait: that have not ended
** and that no write has claimed.  While a walk is under way over the
** lists of an object, a watch that ends stays in its list, marked MWI_ENDED and
** chained from the engine's `ended`, so that a walk can follow `next` whatever
** a guard does.  A field exists while there is a watch in its list.  The
** watches of a guard that is an object are chained from the guard's record, so
** that the watches end when the engine forgets the guard.
**
** A walk goes through both lists at once, by `seq`, up to the newest watch at
** the begin of the write.  The walk first claims the one-shot watches, so that
** a write inside a guard cannot call them.  A walk allocates nothing.
*/
#include <string.h>

#include "engine.h"

/* {======================================================
** Records, watches and fields
** ======================================================= */

#define RECORDS (MWI_PAGE * sizeof(mwi_object))

#define watch_at(e, i) \
  ((mwi_watch *)mwi_pool_at(&(e)->watch.watches, i, sizeof(mwi_watch)))
#define field_at(e, i) \
  ((mwi_field *)mwi_pool_at(&(e)->watch.fields, i, sizeof(mwi_field)))

static mwi_object *record_of(const mw_engine *e, mw_handle h) {
  return mwi_object_find(&e->watch, h);
}

/* A record never moves. */
mwi_object *mwi_object_need(mw_engine *e, mw_handle h) {
  mwi_column *records = &e->watch.records;
  mwi_object *page =
      (mwi_object *)mwi_column_need(e, records, mw_slot(h), RECORDS);
  if (page == NULL) return NULL;
  page += mw_slot(h) % MWI_PAGE;
  mwi_assert(mwi_identity_is_valid(&e->identity, h));
  mwi_assert(page->obj == h || page->obj == MW_NONE);
  page->obj = h; /* the record of an earlier object went with the object */
  return page;
}

int mw_value_equal(const mw_value *a, const mw_value *b) {
  if (a->type != b->type) return 0;
  if (a->type == MW_TNIL) return 1;
  if (a->type != MW_TFLOAT) return a->u.i == b->u.i;
  return a->u.f == b->u.f || (a->u.f != a->u.f && b->u.f != b->u.f); /* NaN? */
}

uint32_t mwi_field_number(const mw_engine *e, uint32_t slot,
                          const mw_value *key) {
  const mwi_table *table = &e->watch.table;
  mwi_search at;
  uint32_t i = mwi_table_first(table, mwi_key_hash(slot, key), &at);
  for (; i != 0; i = mwi_table_next(table, &at)) {
    const mwi_field *f = field_at(e, i);
    if (f->slot == slot && mw_value_equal(&f->key, key)) break;
  }
  return i;
}

/* Returns the field, made if need be; 0 when there is no memory. */
static uint32_t need_field(mw_engine *e, mwi_object *r, const mw_value *key) {
  mwi_watches *part = &e->watch;
  uint32_t slot = mw_slot(r->obj), hash = mwi_key_hash(slot, key);
  uint32_t i = mwi_field_number(e, slot, key);
  mwi_field *f;
  if (i != 0) return i; /* does another watch have the key? */
  i = mwi_pool_take(e, &part->fields, sizeof(mwi_field));
  if (i == 0) return 0; /* no memory? */
  f = field_at(e, i);
  memset(f, 0, sizeof(*f));
  f->slot = slot;
  f->key = *key;
  if (!mwi_table_put(e, &part->table, hash, i)) {
    mwi_pool_give(&part->fields, i, sizeof(mwi_field));
    return 0;
  }
  f->next = r->fields;
  if (f->next != 0) field_at(e, f->next)->prev = i;
  r->fields = i;
  r->filter |= UINT32_C(1) << (hash >> 27);
  mwi_host_retain(e, key);
  return i;
}

/* Frees a field without watches. */
static void drop_field(mw_engine *e, mwi_object *r, uint32_t i) {
  mwi_watches *part = &e->watch;
  mwi_field *f = field_at(e, i);
  mwi_assert(f->first == 0 && mwi_field_number(e, f->slot, &f->key) == i);
  mwi_table_take(&part->table, mwi_key_hash(f->slot, &f->key), i);
  if (f->prev != 0)
    field_at(e, f->prev)->next = f->next;
  else
    r->fields = f->next;
  if (f->next != 0) field_at(e, f->next)->prev = f->prev;
  if (r->fields == 0) r->filter = 0; /* a bit may be of several keys */
  mwi_host_release(e, &f->key);
  mwi_pool_give(&part->fields, i, sizeof(mwi_field));
}

void mwi_record_blocks(mw_engine *e, mwi_visit f) {
  mwi_column_blocks(e, &e->watch.records, RECORDS, f);
}

void mwi_watch_blocks(mw_engine *e, mwi_visit f) {
  mwi_watches *part = &e->watch;
  mwi_pool_blocks(e, &part->watches, sizeof(mwi_watch), f);
  mwi_pool_blocks(e, &part->fields, sizeof(mwi_field), f);
  mwi_table_blocks(e, &part->table, f);
}

/* }====================================================== */

/* {======================================================
** Lists
** ======================================================= */

/* The phase of a watch; 0: before the store. */
#define PHASE (MW_AFTER | MW_CHECK)

/* The flags that options may have. */
#define WATCH_FLAGS \
  (MW_ONCE | PHASE | MW_SKIP | MW_FLAG | MW_WEAK | MW_DEEP | MW_ASK)

#define options_of(w) ((w)->flags & (MWI_ENDED - 1))

/* Adds a watch to the counts of waiting watches, or takes the watch away (`n`
** is 1 or -1). */
static void count_waiting(mw_engine *e, mwi_object *r, const mwi_watch *w,
                          int n) {
  mwi_watches *part = &e->watch;
  uint32_t one = (uint32_t)n;
  const int asks =
      MWI_RESULT | MW_ASK; /* reads the old value after the store */
  mwi_assert(n == 1 || r->waiting > 0);
  if ((w->flags & WATCH_FLAGS & ~(MW_DEEP | MW_WEAK)) != MW_FLAG)
    r->needs |= MWI_CALLS; /* no plain flag */
  if (w->flags & MW_SKIP) r->needs |= MWI_SKIPS;
  if (w->flags & MW_CHECK) r->needs |= MWI_CHECKS;
  if ((r->waiting += one) == 0) r->needs &= (uint16_t)~MWI_OF_WATCHES;
  if ((w->flags & MW_AFTER) || (w->flags & asks) == asks) part->after += one;
  if (w->flags & MW_CHECK) part->checks += one;
  if (w->flags & MWI_RESULT) part->results += one;
  if ((w->flags & MW_DEEP) == 0) return;
  if (w->reach == 0) r->deep += one; /* else its reach counts it */
  part->deep += one;
  if (w->flags & MW_SKIP) part->deep_skips += one;
}

/* Returns the head of the list of `w`. */
static uint32_t *list_of(const mw_engine *e, mwi_object *r,
                         const mwi_watch *w) {
  return (w->field != 0) ? &field_at(e, w->field)->first : &r->first;
}

static void append_watch(mw_engine *e, mwi_object *r, uint32_t i) {
  mwi_watch *w = watch_at(e, i);
  uint32_t *first = list_of(e, r, w);
  w->next = 0;
  if (*first == 0) { /* the only one? */
    *first = w->prev = i;
  } else {
    w->prev = watch_at(e, *first)->prev;
    watch_at(e, w->prev)->next = i;
    watch_at(e, *first)->prev = i;
  }
  r->needs |= (w->field != 0) ? MWI_KEYED : MWI_UNKEYED;
  count_waiting(e, r, w, 1);
  if (w->reach != 0) mwi_reach_hear(e, w->reach, 1); /* filtered? */
}

/* Chains a watch to the other watches of its guard, which is an object. */
static void join_guard(mw_engine *e, uint32_t i) {
  mwi_watch *w = watch_at(e, i);
  mwi_object *guard = record_of(e, w->ref);
  w->newer = 0;
  w->older = guard->guarding;
  if (w->older != 0) watch_at(e, w->older)->newer = i;
  guard->guarding = i;
}

static void leave_guard(mw_engine *e, const mwi_watch *w) {
  if (w->newer != 0) /* not its newest? */
    watch_at(e, w->newer)->older = w->older;
  else
    record_of(e, w->ref)->guarding = w->older;
  if (w->older != 0) watch_at(e, w->older)->newer = w->newer;
}

/* Takes an ended watch out of its list. */
static void unlink_watch(mw_engine *e, mwi_object *r, uint32_t i) {
  mwi_watch *w = watch_at(e, i);
  uint32_t *first = list_of(e, r, w);
  mwi_assert((w->flags & MWI_ENDED) && r->walks == 0);
  if (w->next != 0)
    watch_at(e, w->next)->prev = w->prev;
  else if (*first != i) /* the last of several? */
    watch_at(e, *first)->prev = w->prev;
  if (*first == i)
    *first = w->next;
  else
    watch_at(e, w->prev)->next = w->next;
  if (w->field != 0 && *first == 0) drop_field(e, r, w->field); /* the last? */
  if (r->first == 0) r->needs &= (uint16_t)~MWI_UNKEYED;
  if (r->fields == 0) r->needs &= (uint16_t)~MWI_KEYED;
  w->slot = 0;
  w->seq = 0;
  mwi_pool_give(&e->watch.watches, i, sizeof(mwi_watch));
}

/* Unlinks the ended watches of all objects whose lists no walk is reading. */
static void unlink_ended(mw_engine *e) {
  uint32_t *at = &e->watch.ended, i;
  while ((i = *at) != 0) {
    mwi_watch *w = watch_at(e, i);
    mwi_object *r = mwi_object_of(&e->watch, w->slot);
    if (r->walks > 0) {
      at = &w->note; /* a walk may stand on it */
    } else {
      *at = w->note;
      unlink_watch(e, r, i);
    }
  }
}

/* Ends a watch with its twins. */
static void end_watch(mw_engine *e, mwi_object *r, uint32_t i) {
  uint32_t first = i;
  do {
    mwi_watch *w = watch_at(e, i);
    if (w->flags & MWI_ENDED) return; /* with a twin, before? */
    if ((w->flags & MWI_CLAIMED) == 0) count_waiting(e, r, w, -1); /* waits? */
    if (w->reach != 0) mwi_reach_hear(e, w->reach, -1);
    if (w->flags & MWI_OBJECT) leave_guard(e, w);
    w->flags |= MWI_ENDED;
    w->note = e->watch.ended;
    e->watch.ended = i;
    i = w->twin;
  } while (i != first);
}

/* Calls `f` with each watch of the object that has not ended. */
static void for_each(mw_engine *e, mwi_object *r,
                     void (*f)(mw_engine *e, mwi_object *r, uint32_t i)) {
  uint32_t list = r->first, field = r->fields, i, next;
  for (;;) {
    for (i = list; i != 0; i = next) {
      next = watch_at(e, i)->next;
      if ((watch_at(e, i)->flags & MWI_ENDED) == 0) f(e, r, i);
    }
    if (field == 0) return; /* was it the last list? */
    list = field_at(e, field)->first;
    field = field_at(e, field)->next;
  }
}

void mwi_watch_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  uint16_t layout;
  if (r == NULL || r->obj == MW_NONE) return; /* has it no record? */
  mwi_tree_forget(e, slot);
  r->walks = 0; /* a walk under way sees that the object has gone */
  while (r->guarding != 0) { /* is it a guard? */
    uint32_t i = r->guarding;
    end_watch(e, mwi_object_of(&e->watch, watch_at(e, i)->slot), i);
  }
  for_each(e, r, end_watch);
  unlink_ended(e);
  layout = r->layout;
  memset(r, 0, sizeof(*r));
  r->layout = (uint16_t)(layout + 1);
}

/* Ends a watch with its twins if the host says that its guard is dead. */
static void end_dead(mw_engine *e, mwi_object *r, uint32_t i) {
  const mwi_watch *w = watch_at(e, i);
  const mw_host *host = &e->watch.host;
  int dead;
  if ((w->flags & (MW_WEAK | MW_ASK)) == 0 || host->call == NULL) return;
  mwi_quiet_begin(e);
  dead = host->call(host->ud, r->obj, w->ref, options_of(w), NULL) == 0;
  mwi_quiet_end(e);
  if (dead) end_watch(e, r, i);
}

/* The engine learns late of a guard's death, so the watches of dead guards are
** looked for whenever twice as many wait as did after the last search. */
static void prune(mw_engine *e, mwi_object *r) {
  uint32_t n = r->waiting;
  if (n < 8 || n >> r->prune_at == 0 || r->walks > 0) /* not worth it yet? */
    return;
  for_each(e, r, end_dead);
  unlink_ended(e);
  n = r->waiting;
  for (r->prune_at = 1; n >> r->prune_at != 0;) r->prune_at++;
  r->prune_at++;
}

/* }====================================================== */

/* {======================================================
** Guards that are flags
**
** A guard follows other guards through watches with MWI_FOLLOWS in the lists of
** those.  While a guard is invalid, so are all guards that follow the guard,
** unless the host has made them valid.
** ======================================================= */

/* Makes a guard invalid, and the guards that follow the guard.  The watches of
** the guards that are yet to be made invalid form a stack. */
static void invalidate(mw_engine *e, mwi_object *guard, mw_change *by) {
  uint32_t stack = 0, i;
  for (;;) {
    if (guard != NULL && !guard->invalid) { /* alive, and valid till now? */
      guard->invalid = 1;
      if (guard->result) /* it is not written, and needs no other stamp */
        guard->stamp = (by != NULL && mwi_is_read(&e->reader))
                           ? mw_change_number(e, by)
                           : 0; /* no write, or nobody reads */
      for (i = guard->first; i != 0; i = watch_at(e, i)->next) {
        mwi_watch *w = watch_at(e, i);
        if ((w->flags & (MWI_FOLLOWS | MWI_ENDED)) != MWI_FOLLOWS) continue;
        e->watch.calls++;
        w->note = stack;
        stack = i;
      }
    }
    if (stack == 0) return; /* is no follower left? */
    guard = record_of(e, watch_at(e, stack)->ref);
    stack = watch_at(e, stack)->note;
  }
}

/* Finds the record of an object, made if need be. */
static int need_record(mw_engine *e, mw_handle h, mwi_object **r) {
  if (!mwi_identity_is_valid(&e->identity, h)) return MW_STALE;
  *r = mwi_object_need(e, h);
  return (*r == NULL) ? MW_NOMEM : MW_OK;
}

int mw_guard_is_valid(const mw_engine *e, mw_handle guard) {
  const mwi_object *r = record_of(e, guard);
  return r == NULL || !r->invalid; /* without a record, no watch has told it */
}

int mw_guard_set_valid(mw_engine *e, mw_handle guard, int valid) {
  mwi_object *r;
  int code = need_record(e, guard, &r);
  if (code != MW_OK) return code;
  if (!valid)
    invalidate(e, r, NULL);
  else
    r->invalid = r->lost = 0;
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Watching
** ======================================================= */

/* A later version's struct is larger: this engine reads the fields that it
** knows. */
void mw_host_set(mw_engine *e, const mw_host *host) {
  size_t size = (host->size != 0) ? host->size : offsetof(mw_host, key);
  if (size > sizeof(mw_host)) size = sizeof(mw_host); /* a later version's? */
  memset(&e->watch.host, 0, sizeof(mw_host));
  memcpy(&e->watch.host, host, size);
}

static void call_quietly(const mw_engine *e,
                         void (*f)(void *ud, const mw_value *key),
                         const mw_value *key) {
  mwi_quiet_begin(e);
  if (f != NULL) f(e->watch.host.ud, key); /* the host may need none */
  mwi_quiet_end(e);
}

void mwi_host_retain(const mw_engine *e, const mw_value *key) {
  call_quietly(e, e->watch.host.retain, key);
}

void mwi_host_release(const mw_engine *e, const mw_value *key) {
  call_quietly(e, e->watch.host.release, key);
}

static mw_watch_id id_of(const mw_engine *e, uint32_t i) {
  return watch_at(e, i)->seq << 32 | i;
}

/* Returns the watch of an id, 0 when the watch has ended. */
static uint32_t find_watch(const mw_engine *e, mw_watch_id id) {
  uint32_t i = (uint32_t)id;
  const mwi_watch *w;
  if (i == 0 || i > e->watch.watches.n) return 0; /* never given out? */
  w = watch_at(e, i); /* perhaps another one by now */
  if (w->seq == 0 || (uint32_t)w->seq != (uint32_t)(id >> 32)) return 0;
  return (w->flags & MWI_ENDED) ? 0 : i; /* in a list still, for a walk? */
}

/* Makes a watch of a key, or of all fields when `key` is NULL; 0 when there is
** no memory.  The new watch is its own twin. */
static uint32_t make_watch(mw_engine *e, mwi_object *r,
                           const mw_watch_options *options,
                           const mw_value *key) {
  const mwi_object *guard = record_of(e, options->guard);
  uint32_t field = 0, i;
  mwi_watch *w;
  if (key != NULL && (field = need_field(e, r, key)) == 0) return 0;
  i = mwi_pool_take(e, &e->watch.watches, sizeof(mwi_watch));
  if (i == 0) { /* no memory: a field that is new goes, too */
    if (field != 0 && field_at(e, field)->first == 0) drop_field(e, r, field);
    return 0;
  }
  w = watch_at(e, i);
  mwi_assert(w->seq == 0);
  w->flags = (uint16_t)options->flags;
  if ((options->flags & (MW_FLAG | MW_ASK)) && guard != NULL && guard->result) {
    w->flags |= MWI_RESULT; /* with MW_ASK, the host may have the guard */
    w->result = mw_slot(options->guard);
  }
  w->slot = mw_slot(r->obj);
  w->field = field;
  w->reach = mwi_reach_filter(e, options->reach);
  w->twin = i;
  w->seq = e->watch.seq;
  w->ref = (options->flags & MWI_OBJECT) ? options->guard : options->ref;
  append_watch(e, r, i);
  if (w->flags & MWI_OBJECT) join_guard(e, i);
  return i;
}

/* Has the key a watch of the present begin, the last one of its field, yet? */
static int is_repeated(const mw_engine *e, const mwi_object *r,
                       const mw_value *key) {
  uint32_t i = mwi_field_number(e, mw_slot(r->obj), key);
  if (i != 0) i = watch_at(e, field_at(e, i)->first)->prev; /* the last one */
  return i != 0 && watch_at(e, i)->seq == e->watch.seq;     /* of this begin? */
}

/* Makes a watch for each key, in a ring of twins.  Returns the first watch, or
** 0. */
static uint32_t make_watches(mw_engine *e, mwi_object *r,
                             const mw_watch_options *options) {
  uint32_t n, first, i;
  if (options->n_keys == 0) return make_watch(e, r, options, NULL);
  first = make_watch(e, r, options, &options->keys[0]);
  for (n = 1; first != 0 && n < options->n_keys; n++) {
    if (is_repeated(e, r, &options->keys[n])) continue;
    i = make_watch(e, r, options, &options->keys[n]);
    if (i == 0) { /* no memory: then none of them */
      end_watch(e, r, first);
      unlink_ended(e);
      return 0;
    }
    watch_at(e, i)->twin = watch_at(e, first)->twin;
    watch_at(e, first)->twin = i;
  }
  return first;
}

/* Makes the watches of a begin.  Returns a code; sets the record of the object,
** and the first watch. */
static int begin_watches(mw_engine *e, mw_handle obj,
                         const mw_watch_options *options, mwi_object **r,
                         uint32_t *first) {
  mwi_object *guard;
  int code = need_record(e, obj, r);
  mwi_check_enter(e);
  if (code == MW_OK && (options->flags & MWI_OBJECT)) /* an object as guard? */
    code = need_record(e, options->guard, &guard);
  if (code != MW_OK) return code;
  e->watch.seq++; /* a failed watch uses a number too: it may stay in a list */
  *first = make_watches(e, *r, options);
  if (*first == 0) return MW_NOMEM;
  prune(e, *r); /* those that end may have the same keys, retained by now */
  return MW_OK;
}

int mw_watch_begin(mw_engine *e, mw_handle obj, const mw_watch_options *options,
                   mw_watch_id *id) {
  mwi_object *r;
  uint32_t i;
  int code;
  mwi_check_call((options->flags & ~WATCH_FLAGS) == 0);
  mwi_check_call(options->n_keys == 0 || options->keys != NULL);
  code = begin_watches(e, obj, options, &r, &i);
  if (code != MW_OK) return code;
  if (!r->was_watched) r->count = 0; /* drop writes counted while tracked */
  r->watched = r->was_watched = 1;
  *id = id_of(e, i);
  return MW_OK;
}

int mwi_guard_follow(mw_engine *e, mw_handle guard, mw_handle other) {
  mw_watch_options options;
  mwi_object *r;
  uint32_t i;
  int code;
  memset(&options, 0, sizeof(options));
  options.flags = MW_FLAG | MW_WEAK;
  options.guard = guard;
  code = begin_watches(e, other, &options, &r, &i);
  if (code != MW_OK) return code;
  watch_at(e, i)->flags |= MWI_FOLLOWS;
  if (r->invalid) invalidate(e, record_of(e, guard), NULL); /* too late? */
  return MW_OK;
}

/* The guard of a watch with MWI_RESULT; NULL if the guard is forgotten, and for
** any other watch. */
static mwi_object *guard_of_result(const mw_engine *e, const mwi_watch *w) {
  mwi_object *guard = mwi_object_of(&e->watch, w->result);
  return ((w->flags & MWI_RESULT) && guard != NULL && guard->result) ? guard
                                                                     : NULL;
}

/* The guard of a result would not learn of further writes. */
static void lose_result(mw_engine *e, mwi_object *r, uint32_t i) {
  mwi_object *guard = guard_of_result(e, watch_at(e, i));
  (void)r;
  if (guard == NULL) return; /* of no result, or forgotten? */
  guard->lost = 1;
  invalidate(e, guard, NULL);
}

int mw_object_unwatch(mw_engine *e, mw_handle obj) {
  mwi_object *r = record_of(e, obj);
  mwi_check_enter(e);
  if (r == NULL || (!r->watched && r->nodes == 0)) /* does nobody watch? */
    return MW_STALE;
  for_each(e, r, lose_result);
  for_each(e, r, end_watch);
  unlink_ended(e);
  mwi_tree_end_roots(e, obj, 0, NULL);
  r->watched = 0;
  r->layout++;
  return MW_OK;
}

/* An object below roots that are only tracked is not watched. */
int mw_object_is_watched(mw_engine *e, mw_handle obj) {
  mwi_object *r = record_of(e, obj);
  if (r == NULL || r->watched) return r != NULL; /* else its roots say it */
  return mwi_tree_is_watched(e, r);
}

int mw_watch_cancel(mw_engine *e, mw_watch_id id) {
  uint32_t i = find_watch(e, id);
  mwi_object *r;
  mwi_check_enter(e);
  if (i == 0) return MW_STALE; /* ended before? */
  r = mwi_object_of(&e->watch, watch_at(e, i)->slot);
  end_watch(e, r, i);
  unlink_ended(e);
  return MW_OK;
}

int mw_watch_info(const mw_engine *e, mw_watch_id id, mw_watch_options *options,
                  mw_handle *obj) {
  uint32_t i = find_watch(e, id);
  const mwi_watch *w;
  if (i == 0) return MW_STALE; /* ended before? */
  w = watch_at(e, i);
  memset(options, 0, sizeof(*options));
  options->flags = options_of(w);
  options->guard = (w->flags & MWI_OBJECT) ? w->ref : MW_NONE;
  options->ref = (w->flags & MWI_OBJECT) ? 0 : w->ref;
  *obj = mwi_identity_handle(&e->identity, w->slot);
  return MW_OK;
}

/* Writes to an object that is only tracked do not count. */
uint64_t mw_object_mutations(mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  if (r == NULL || (!r->was_watched && !mw_object_is_watched(e, obj)))
    return 0; /* only tracked, or not even that */
  return r->count;
}

/* A reset of the clock makes earlier generations unknown. */
int64_t mw_object_last_change(mw_engine *e, mw_handle obj) {
  const mwi_object *r = record_of(e, obj);
  int64_t changed = (r == NULL) ? -1 : (int64_t)mwi_stamp_changed(r->stamp) - 1;
  if (mw_object_mutations(e, obj) == 0) return -1; /* no write that counts? */
  return (changed > mw_clock_now(e, MW_CLOCK)) ? -1 : changed; /* a reset? */
}

/* }====================================================== */

/* {======================================================
** Walks
** ======================================================= */

/* A write, or a row of a batch, for the watches of one object. */
typedef struct event {
  mw_change *change;
  uint64_t seq;   /* of the newest watch at the begin of the write */
  int phase;      /* MW_CHECK, 0, MW_AFTER or MWI_AT_ONCE */
  int refused;    /* has a check refused the write? */
  int others;     /* are there watches of other phases? */
  int below;      /* MW_DEEP: an object below this one was written */
  uint32_t reach; /* then: the reach, if filtered, else 0 */
  uint16_t claim; /* the number of the walk */
} event;

/* The next watch of each list; the walk goes on with the older of the two. */
typedef struct cursor {
  uint32_t all, keyed;
} cursor;

static inline cursor both_lists(const mw_engine *e, const mwi_object *r,
                                const mw_value *key) {
  cursor c = {r->first, 0};
  if (r->fields == 0) return c; /* is no single field watched? */
  c.keyed = mwi_field_number(e, mw_slot(r->obj), key);
  if (c.keyed != 0) c.keyed = field_at(e, c.keyed)->first;
  return c;
}

static inline mwi_watch *next_watch(const mw_engine *e, cursor *c,
                                    uint32_t *i) {
  mwi_watch *all = (c->all != 0) ? watch_at(e, c->all) : NULL;
  mwi_watch *keyed = (c->keyed != 0) ? watch_at(e, c->keyed) : NULL;
  if (keyed != NULL && (all == NULL || keyed->seq < all->seq)) { /* older? */
    *i = c->keyed;
    c->keyed = keyed->next;
    return keyed;
  }
  *i = c->all;
  if (all != NULL) c->all = all->next;
  return all;
}

/* Does the change concern the watch, now or later? */
static inline int concerns(const mwi_watch *w, const event *ev) {
  if (ev->below && (!(w->flags & MW_DEEP) || w->reach != ev->reach))
    return 0; /* not below in this reach */
  if (ev->change->flags_only && !(w->flags & (MW_FLAG | MWI_RESULT))) return 0;
  return (w->flags & MW_SKIP) == 0 || !ev->change->same; /* or is it news? */
}

/* In a batch: does the guard become invalid with the write, and not at the
** end? */
static int is_at_once(const mwi_watch *w) {
  return (w->flags & (MW_FLAG | MW_SKIP | MW_ASK)) == MW_FLAG ||
         (w->flags & MWI_RESULT);
}

/* Is the watch called in this phase of the write?  Until the value is stored,
** results are right. */
static inline int is_called(const mwi_watch *w, const event *ev) {
  int is_phase = (w->flags & MWI_RESULT)      ? ev->phase == MWI_RESULTS
                 : (ev->phase == MWI_AT_ONCE) ? is_at_once(w)
                                              : (w->flags & PHASE) == ev->phase;
  if ((w->flags & MWI_ENDED) || !is_phase) return 0;        /* not its turn? */
  if (w->flags & MWI_CLAIMED) return w->claim == ev->claim; /* by this walk? */
  return concerns(w, ev);
}

/* Claims a watch with its twins for a walk, or gives them back. */
static void set_claim(mw_engine *e, mwi_object *r, uint32_t i, int claims,
                      uint16_t walk) {
  uint32_t twin = i;
  do {
    mwi_watch *w = watch_at(e, twin);
    mwi_assert(claims == !(w->flags & MWI_CLAIMED));
    w->flags ^= MWI_CLAIMED;
    w->claim = walk;
    count_waiting(e, r, w, claims ? -1 : 1);
    twin = w->twin;
  } while (twin != i);
}

/* Claims the one-shot watches for this write, so that a nested write cannot
** call the watches again; but no checks, which another check may spare.  A
** watch with MW_ASK, which may not be used up, is claimed while it is called,
** for no walk. */
static void claim(mw_engine *e, mwi_object *r, cursor c, const event *ev) {
  const int those = MW_ONCE | MWI_ENDED | MWI_CLAIMED | MW_ASK;
  const mwi_watch *w;
  uint32_t i;
  while ((w = next_watch(e, &c, &i)) != NULL && w->seq <= ev->seq)
    if ((w->flags & those) == MW_ONCE && is_called(w, ev)) /* its only call? */
      set_claim(e, r, i, 1, ev->claim);
}

/* The guard may do anything, as end the watch or the object.  Returns what the
** guard returns. */
static int call_watch(mw_engine *e, mwi_object *r, uint32_t i, mwi_watch *w,
                      mw_change *change) {
  const mw_host *host = &e->watch.host;
  mw_change *cause = e->watch.cause;
  mw_handle obj = r->obj;
  int flags = options_of(w), is_claimed;
  uint64_t seq = w->seq;
  int result;
  mwi_assert(!(w->flags & MWI_ENDED) && r->walks > 0);
  e->watch.calls++;
  if ((flags & MW_FLAG) || change->flags_only) { /* nothing to call? */
    int is_result = w->flags & MWI_RESULT;
    invalidate(e, is_result ? guard_of_result(e, w) : record_of(e, w->ref),
               change);
    if (flags & MW_ONCE) end_watch(e, r, i);
    return 1;
  }
  is_claimed = (flags & MW_ONCE) && (flags & MW_ASK); /* may be spared */
  change->watch = is_claimed ? id_of(e, i) : 0;
  if (is_claimed)
    set_claim(e, r, i, 1, 0);
  else if (flags & MW_ONCE)
    end_watch(e, r, i); /* before the call: the guard may write */
  mwi_check_call(host->call != NULL);
  if (host->call == NULL) return 1;
  mwi_guard_begin(e);
  e->watch.cause = change;
  result = host->call(host->ud, obj, w->ref, flags, change);
  e->watch.cause = cause;
  mwi_guard_end(e); /* the object or the watch may have ended */
  if (result == 0 || result == MW_SPARES) e->watch.calls--; /* not called? */
  if (r->obj != obj || w->seq != seq || (w->flags & MWI_ENDED)) return result;
  if (result == 0 || (is_claimed && result != MW_SPARES))
    end_watch(e, r, i); /* dead, or used up */
  else if (is_claimed)
    set_claim(e, r, i, 0, 0); /* spared: waits for the next write */
  return result;
}

/* Calls the guards of the watches of `r`. */
static void fire(mw_engine *e, mwi_object *r, const mw_value *key, event *ev) {
  cursor c = both_lists(e, r, key);
  mw_handle obj = r->obj;
  mwi_watch *w;
  uint32_t i;
  int result;
  if (c.all == 0 && c.keyed == 0) return; /* is none there for this key? */
  ev->claim = (uint16_t)++e->watch.walks;
  r->walks++;
  if (r->waiting > 1 && ev->phase != MW_CHECK)
    claim(e, r, c, ev); /* a single watch is claimed by its call */
  while ((w = next_watch(e, &c, &i)) != NULL && w->seq <= ev->seq) {
    if (!is_called(w, ev)) {
      if ((w->flags & PHASE) != ev->phase) ev->others = 1; /* told later? */
      continue;
    }
    result = call_watch(e, r, i, w, ev->change);
    ev->refused = result == MW_REFUSES && ev->phase == MW_CHECK;
    if (r->obj != obj || ev->refused) break; /* dead, or refused? */
  }
  e->watch.walks--;
  if (r->obj != obj) return; /* the lists have gone with the object */
  if (--r->walks == 0 && e->watch.ended != 0) unlink_ended(e); /* the last? */
}

/* All that wait are flags; a walk may have left others in the list, which do
** not wait any more. */
void mwi_write_flags(mw_engine *e, mwi_object *r, const mw_value *key) {
  cursor c = both_lists(e, r, key);
  const mwi_watch *w;
  uint32_t i;
  while ((w = next_watch(e, &c, &i)) != NULL) {
    if (w->flags & (MWI_ENDED | MWI_CLAIMED)) continue; /* left by a walk? */
    e->watch.calls++;
    invalidate(e, record_of(e, w->ref), NULL);
  }
}

/* }====================================================== */

/* {======================================================
** Writes
** ======================================================= */

typedef void (*visitor)(mw_engine *e, mwi_object *r, const mw_value *key,
                        event *ev);

/* Calls `f` for the roots above the object.  The key for a root is the root's
** own field on the path to the write. */
static void visit_roots(mw_engine *e, mwi_object *r, event *ev, visitor f) {
  mw_handle obj = r->obj;
  mwi_climb climb;
  mwi_object *root;
  memset(&climb, 0, sizeof(climb));
  ev->below = MW_DEEP;
  while (r->obj == obj && !ev->refused &&
         (root = mwi_tree_next(e, r, &ev->change->key, &climb)) != NULL) {
    mw_value key = {MW_TNIL, {0}};
    ev->change->reach = climb.member->reach;
    ev->reach = mwi_reach_filter(e, ev->change->reach);
    if (root->fields != 0) mwi_tree_top(e, &climb, &key); /* watched keys? */
    f(e, root, &key, ev);
  }
}

/* Calls `f` for the written object and the roots above, if they have watches.
*/
static inline void visit_watches(mw_engine *e, mwi_object *r, event *ev,
                                 visitor f) {
  mw_handle obj = r->obj;
  if (r->first != 0 || r->fields != 0) f(e, r, &ev->change->key, ev);
  if (r->nodes != 0 && e->watch.deep > 0 && r->obj == obj && !ev->refused)
    visit_roots(e, r, ev, f); /* neither dead nor refused by now */
}

int mwi_write_check(mw_engine *e, mwi_object *r, mw_change *change,
                    int *others) {
  event ev = {change, e->watch.seq, MW_CHECK, 0, 0, 0, 0, 0};
  visit_watches(e, r, &ev, fire);
  *others = ev.others || r->nodes != 0 || e->watch.seq != ev.seq; /* or new? */
  return !ev.refused;
}

int mw_write_check(mw_engine *e, mw_handle obj, mw_change *change) {
  mwi_object *r = record_of(e, obj);
  int others;
  mwi_check_enter(e);
  return r == NULL || !mwi_write_is_checked(&e->watch, r) ||
         mwi_write_check(e, r, change, &others);
}

void mwi_write_call(mw_engine *e, mwi_object *r, mw_change *change, int phase,
                    uint64_t seq) {
  event ev = {change, seq, phase, 0, 0, 0, 0, 0};
  visit_watches(e, r, &ev, fire);
}

/* Watches newer than the write are told, too: their guards' results may be of
** the time before the store. */
void mwi_write_results(mw_engine *e, mwi_object *r, mw_change *change) {
  if (e->watch.results > 0)
    mwi_write_call(e, r, change, MWI_RESULTS, UINT64_MAX);
}

uint64_t mw_write_begin(mw_engine *e, mw_handle obj, mw_change *change) {
  mwi_object *r = record_of(e, obj);
  uint64_t seq = e->watch.seq;
  mwi_check_enter(e);
  if (r == NULL || (!r->watched && r->nodes == 0)) /* does nobody watch? */
    return 0;
  mwi_object_count(e, r);
  mwi_write_call(e, r, change, 0, seq);
  return seq;
}

void mw_write_end(mw_engine *e, mw_handle obj, mw_change *change,
                  uint64_t seq) {
  mwi_object *r = record_of(e, obj);
  mwi_check_enter(e);
  mwi_check_call(seq <= e->watch.seq);
  if (r == NULL) return; /* never watched, or dead meanwhile? */
  mwi_write_results(e, r, change);
  if (e->watch.after > 0) mwi_write_call(e, r, change, MW_AFTER, seq);
}

/* }====================================================== */

/* {======================================================
** Batches
**
** At the end of a batch, each watch is told the last of the rows that concern
** the watch.  A watch that was found has the number of this `search`, and its
** `note` is the number of its call; so have its twins.  Searches and begins of
** watches are numbered together.
** ======================================================= */

/* The search for the watches that a batch concerns. */
typedef struct search {
  event ev; /* first: an event of a search is its search */
  mwi_batch *batch;
  uint32_t number; /* of the search */
  uint32_t row;    /* the row that is looked at */
  int code;
} search;

/* Adds a call for a watch that is found for the first time. */
static void add_batch_call(mw_engine *e, uint32_t i, search *its) {
  mwi_batch *b = its->batch;
  uint32_t twin = i;
  if (!mwi_grow(e, &b->calls, b->n_calls, &b->size_calls)) {
    its->code = MW_NOMEM;
    return;
  }
  do {
    watch_at(e, twin)->search = its->number;
    watch_at(e, twin)->note = b->n_calls;
    twin = watch_at(e, twin)->twin;
  } while (twin != i);
  b->calls[b->n_calls].watch = id_of(e, i);
  b->calls[b->n_calls++].row = its->row;
}

static void find_batch_calls(mw_engine *e, mwi_object *r, const mw_value *key,
                             event *ev) {
  search *its = (search *)(void *)ev;
  const mwi_batch_row *rows = its->batch->rows;
  cursor c = both_lists(e, r, key);
  const mwi_watch *w;
  uint32_t i;
  while ((w = next_watch(e, &c, &i)) != NULL && w->seq <= ev->seq) {
    uint32_t *row;
    if (w->flags & (MWI_ENDED | MWI_CLAIMED | MW_CHECK)) continue;
    if (is_at_once(w) || !concerns(w, ev)) continue; /* told, or not its row? */
    if (w->search != its->number) { /* the first row that concerns it? */
      add_batch_call(e, i, its);
      continue;
    }
    row = &its->batch->calls[w->note].row;
    if (rows[*row].order < rows[its->row].order) *row = its->row; /* later? */
  }
}

int mwi_batch_search(mw_engine *e, mwi_batch *b) {
  mw_change change;
  search its;
  mwi_check_enter(e);
  memset(&change, 0, sizeof(change));
  memset(&its, 0, sizeof(its));
  its.ev.change = &change;
  its.batch = b;
  its.number = (uint32_t)++e->watch.seq; /* no watch has it yet */
  b->n_calls = 0;
  for (; its.row < b->n; its.row++) {
    const mwi_batch_row *row = &b->rows[its.row];
    mwi_object *r = record_of(e, row->obj);
    if (r == NULL) continue; /* dead meanwhile? */
    change.key = row->key;
    change.same = row->same;
    its.ev.seq = row->seq;
    its.ev.below = 0;
    visit_watches(e, r, &its.ev, find_batch_calls);
  }
  return its.code;
}

void mwi_batch_tell(mw_engine *e, mw_watch_id id, const mw_change *change) {
  uint32_t i = find_watch(e, id);
  mwi_watch *w;
  mwi_object *r;
  mw_change its = *change;
  mw_handle obj;
  mwi_check_enter(e);
  if (i == 0) return; /* ended by another guard? */
  w = watch_at(e, i);
  if ((w->flags & MW_SKIP) && change->same) return; /* as before, after all? */
  its.reach = w->reach;
  r = mwi_object_of(&e->watch, w->slot);
  obj = r->obj;
  r->walks++; /* a watch that ends stays in its list */
  call_watch(e, r, i, w, &its);
  if (r->obj != obj) return; /* the lists have gone with the object */
  r->walks--;
  unlink_ended(e);
}

/* }====================================================== */
