/*
** identity.c - from an address to a handle and back; the dead.
** SPDX-License-Identifier: MIT
**
**      shards[hash >> 26]                 pages[slot / 256]
**     +------------------+             +--------------------+
**     | khash: a set of  |    slot     | ptr[]: its address |
**     | slot numbers     | ----------> | age[]: past uses   |
**     +------------------+             +--------------------+
**
** Invariant: a slot is in the shard of its address exactly while it is taken;
** taken slots have different addresses; the others below `top` are linked
** through ptr[] from `free`, except those whose uses are used up.
**
** The hash table holds slot numbers alone (4 bytes) and finds the addresses in
** the pages, so an address is stored once.  The address that is asked for
** stands in the shard; its key is slot 0, which no object ever has.
**
** Nothing here is ever resized in one go: pages stay where they are, and a
** shard that grows moves a 64th of the objects.  A pause would be felt.
*/
#include "engine.h"

#include <stdint.h>
#include <string.h>

/* {======================================================
** The hash table
** ======================================================= */

#define engine_of(h) (((const struct mwi_identity_shard *)(const void *)(h))->e)

#include "hash.h"

#define asked_in(h) \
  (((const struct mwi_identity_shard *)(const void *)(h))->asked)
#define address(h, slot) (*address_in(&engine_of(h)->identity, slot))
#define slot_hash(slot) hash_of((slot) == 0 ? asked_in(h) : address(h, slot))
#define slot_equal(a, b) (address(h, a) == asked_in(h))

static inline const void **address_in(const mwi_identity *part, uint32_t slot) {
  return &mwi_identity_page_of(part, slot)->ptr[slot % MWI_PAGE];
}

/* Addresses differ in their middle bits; the product's high half mixes all. */
static inline uint32_t hash_of(const void *ptr) {
  return (uint32_t)(((uint64_t)(uintptr_t)ptr * 0x9E3779B97F4A7C15u) >> 32);
}

MWI_KLIB_BEGIN
__KHASH_TYPE(slots, uint32_t, char)
struct mwi_identity_shard {
  kh_slots_t table; /* first: a table is its shard */
  mw_engine *e;
  const void *asked;
};
__KHASH_IMPL(slots, static inline klib_unused, uint32_t, char, 0, slot_hash,
             slot_equal)
MWI_KLIB_END

#define SHARDS 64u

/* The shard that `ptr` belongs to, ready to be asked for it. */
static inline kh_slots_t *shard_for(mwi_identity *part, const void *ptr) {
  struct mwi_identity_shard *shard = &part->shards[hash_of(ptr) >> 26];
  shard->asked = ptr;
  return &shard->table;
}

/* Where `ptr` is in its shard; the number of buckets when it is not. */
static inline khint_t locate(const kh_slots_t *shard) {
  return kh_get_slots(shard, 0);
}

/* }====================================================== */

/* {======================================================
** Slots
** ======================================================= */

static int add_page(mw_engine *e) {
  mwi_identity *part = &e->identity;
  mwi_identity_page **pages = (mwi_identity_page **)mwi_grow(
      e, part->pages, part->n_pages, &part->size_pages,
      sizeof(mwi_identity_page *));
  if (pages == NULL) return MW_NOMEM;
  part->pages = pages;
  pages[part->n_pages] =
      (mwi_identity_page *)mwi_new(e, sizeof(mwi_identity_page));
  if (pages[part->n_pages] == NULL) return MW_NOMEM;
  part->n_pages++;
  return MW_OK;
}

int mwi_identity_open(mw_engine *e) {
  mwi_identity *part = &e->identity;
  uint32_t i;
  part->shards =
      (struct mwi_identity_shard *)mwi_new(e, SHARDS * sizeof(*part->shards));
  if (part->shards == NULL) return MW_NOMEM;
  for (i = 0; i < SHARDS; i++) part->shards[i].e = e;
  part->top = part->look = 1;
  return add_page(e);
}

void mwi_identity_close(mw_engine *e) {
  mwi_identity *part = &e->identity;
  uint32_t i;
  for (i = 0; i < SHARDS && part->shards != NULL; i++) {
    kh_slots_t *h = &part->shards[i].table;
    mwi_klib_clear(h);
  }
  mwi_free(e, part->shards, SHARDS * sizeof(*part->shards));
  for (i = 0; i < part->n_pages; i++)
    mwi_free(e, part->pages[i], sizeof(mwi_identity_page));
  mwi_free(e, part->pages, part->size_pages * sizeof(mwi_identity_page *));
}

/* Takes `slot`, the first free one or `top`, out of the free ones. */
static mw_handle take(mwi_identity *part, uint32_t slot, uint32_t next) {
  if (slot == part->top)
    part->top++;
  else
    part->free = next;
  part->count++;
  mwi_assert(mwi_identity_handle(part, slot) == MW_NONE);
  mwi_identity_page_of(part, slot)->age[slot % MWI_PAGE] |= MWI_TAKEN;
  return mwi_identity_handle(part, slot);
}

static void give_back(mwi_identity *part, uint32_t slot) {
  uint32_t *age = &mwi_identity_page_of(part, slot)->age[slot % MWI_PAGE];
  mwi_assert((*age & MWI_TAKEN) && part->count > 0);
  *age = (*age ^ MWI_TAKEN) + 1;
  part->count--;
  if (*age == MWI_MAXAGE) return; /* used up: its next handle might be known */
  *address_in(part, slot) = (const void *)(uintptr_t)part->free;
  part->free = slot;
}

int mw_object_identify(mw_engine *e, const void *ptr, mw_handle *h) {
  mwi_identity *part = &e->identity;
  kh_slots_t *shard = shard_for(part, ptr);
  uint32_t slot = (part->free != 0) ? part->free : part->top;
  const void *next;
  khint_t at;
  int fresh;
  mwi_check_enter(e);
  if (slot > MWI_MAXSLOT) return MW_FULL;
  if (slot / MWI_PAGE == part->n_pages && add_page(e) != MW_OK) return MW_NOMEM;
  next = *address_in(part, slot);
  *address_in(part, slot) = ptr; /* the table looks for its hash there */
  at = kh_put_slots(shard, slot, &fresh);
  if (fresh > 0) {
    *h = take(part, slot, (uint32_t)(uintptr_t)next);
    return MW_OK;
  }
  *address_in(part, slot) = next;
  if (fresh < 0) return MW_NOMEM;
  *h = mwi_identity_handle(part, shard->keys[at]);
  return MW_OK;
}

/* Objects are often visited in the order in which they were made. */
static int is_next(const mwi_identity *part, const void *ptr) {
  uint32_t slot = part->found + 1;
  return slot < part->top && *address_in(part, slot) == ptr &&
         mwi_identity_handle(part, slot) != MW_NONE;
}

uint32_t mwi_identity_find(mw_engine *e, const void *ptr) {
  mwi_identity *part = &e->identity;
  kh_slots_t *shard;
  khint_t at;
  if (is_next(part, ptr)) return ++part->found;
  shard = shard_for(part, ptr);
  at = locate(shard);
  if (at == shard->n_buckets) return 0;
  return part->found = shard->keys[at];
}

mw_handle mw_object_find(mw_engine *e, const void *ptr) {
  return mwi_identity_handle(&e->identity,
                             mwi_identity_find(e, ptr)); /* slot 0 has none */
}

const void *mw_object_pointer(const mw_engine *e, mw_handle h) {
  const mwi_identity *part = &e->identity;
  return mwi_identity_is_valid(part, h) ? *address_in(part, mw_slot(h)) : NULL;
}

int mw_object_forget(mw_engine *e, mw_handle h) {
  mwi_identity *part = &e->identity;
  uint32_t slot = mw_slot(h);
  kh_slots_t *shard;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(part, h)) return MW_STALE;
  shard = shard_for(part, *address_in(part, slot));
  kh_del_slots(shard, locate(shard));
  mwi_watch_forget(e, slot);
  mwi_serial_forget(e, slot);
  mwi_clock_forget(e, slot);
  mwi_hierarchy_forget(e, slot);
  give_back(part, slot);
  return MW_OK;
}

size_t mw_object_count(const mw_engine *e) { return e->identity.count; }

/* }====================================================== */

/* {======================================================
** Reaping: `left` slots are to be looked at, from `look` on and round
** ======================================================= */

void mw_reap_begin(mw_engine *e) { e->identity.left = e->identity.top - 1; }

int mw_reap_due(const mw_engine *e) { return e->identity.left > 0; }

static uint32_t next_look(mwi_identity *part) {
  uint32_t slot = part->look++;
  mwi_assert(slot > 0 && slot < part->top);
  if (part->look >= part->top) part->look = 1;
  part->left--;
  return slot;
}

size_t mw_reap_step(mw_engine *e, size_t looks, size_t deaths, mw_alive alive,
                    void *ud) {
  mwi_identity *part = &e->identity;
  size_t n = 0;
  mwi_check_enter(e);
  while (part->left > 0 && looks > 0 && n < deaths) {
    mw_handle h = mwi_identity_handle(part, next_look(part));
    int lives;
    if (h == MW_NONE) continue; /* costs nothing */
    looks--;
    mwi_quiet_begin(e);
    lives = alive(ud, h);
    mwi_quiet_end(e);
    if (lives) continue;
    mw_object_forget(e, h);
    n++;
  }
  return n;
}

/* }====================================================== */

#ifdef MW_CHECKS
size_t mwi_identity_entries(const mw_engine *e) {
  size_t i, n = 0;
  for (i = 0; i < SHARDS; i++) n += e->identity.shards[i].table.size;
  return n;
}
#endif
