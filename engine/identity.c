/*
** identity.c - from an address to a handle and back; serials; the dead.
** SPDX-License-Identifier: MIT
**
**      shards[hash >> 26]                 pages[slot / 256]
**     +------------------+             +--------------------+
**     | a table of slot  |    slot     | ptr[]: its address |
**     | numbers          | ----------> | age[]: past uses   |
**     +------------------+             +--------------------+
**
** Invariant: a slot is in the shard of its address exactly while the slot is
** taken; taken slots have different addresses; the other slots below `top` are
** linked through ptr[] from `free`, except the slots that have no uses left.
** No object has slot 0: the address there is the engine's own.
**
** Nothing here is ever resized in one go: pages stay at their addresses, and a
** shard that grows moves a 64th of the objects.  A longer pause would be felt.
*/
#include "engine.h"

#include <stdint.h>
#include <string.h>

static inline const void **address_in(const mwi_identity *part, uint32_t slot) {
  return &mwi_identity_page_of(part, slot)->ptr[slot % MWI_PAGE];
}

/* Addresses differ in their middle bits; the product's high half mixes all. */
static inline uint32_t hash_address(const void *ptr) {
  return (uint32_t)(((uint64_t)(uintptr_t)ptr * 0x9E3779B97F4A7C15u) >> 32);
}

/* Returns the slot of the object at `ptr`, or 0. */
static inline uint32_t locate(const mwi_identity *part, const void *ptr,
                              uint32_t hash) {
  const mwi_table *shard = &part->shards[hash >> 26];
  mwi_search at;
  uint32_t slot = mwi_table_first(shard, hash, &at);
  while (slot != 0 && *address_in(part, slot) != ptr) /* of the same hash? */
    slot = mwi_table_next(shard, &at);
  return slot;
}

/*
** Serials: numbers for objects, in the order in which the host asked.
**
**     given (a clock): slot -> serial     serials[serial % 64]: serial -> slot
**
** Invariant: the two are inverse to each other.  A serial is a generation of a
** clock that advances with each object it tags; so only an object whose serial
** the host has asked for takes memory.
*/

/* Returns 0 for none. */
static uint64_t serial_of(const mw_engine *e, uint32_t slot) {
  int64_t n = mwi_clock_generation(&e->clock.clocks[e->identity.given], slot);
  return (n < 0) ? 0 : (uint64_t)n; /* never asked for? */
}

static mwi_table *serials_for(const mw_engine *e, uint64_t serial) {
  return &e->identity.serials[serial % MWI_SHARDS];
}

/* In one shard, the serials count up in steps of MWI_SHARDS. */
static uint32_t hash_serial(uint64_t serial) {
  return (uint32_t)(serial / MWI_SHARDS);
}

/* Without memory, no serial is used up. */
int mw_object_serial(mw_engine *e, mw_handle h, uint64_t *serial) {
  mw_clock given = e->identity.given;
  uint64_t *now = &e->clock.clocks[given].now;
  mwi_table *shard = serials_for(e, *now + 1);
  int64_t n = mw_clock_generation(e, given, h);
  int code;
  if (n < 0) { /* the first time? */
    if (!mwi_table_reserve(e, shard, 1)) return MW_NOMEM;
    n = (int64_t)++ * now;
    code = mw_clock_tag(e, given, h);
    if (code != MW_OK) { /* stale, or no memory? */
      --*now;
      return code;
    }
    mwi_table_put(e, shard, hash_serial(*now), mw_slot(h));
  }
  *serial = (uint64_t)n;
  return MW_OK;
}

mw_handle mw_serial_object(mw_engine *e, uint64_t serial) {
  const mwi_table *shard = serials_for(e, serial);
  mwi_search at;
  uint32_t slot = mwi_table_first(shard, hash_serial(serial), &at);
  while (slot != 0 && serial_of(e, slot) != serial) /* of the same hash? */
    slot = mwi_table_next(shard, &at);
  return mwi_identity_handle(&e->identity, slot); /* slot 0 has no handle */
}

static mwi_identity_page *page_for(mw_engine *e, uint32_t slot) {
  return (mwi_identity_page *)mwi_column_need(e, &e->identity.pages, slot,
                                              sizeof(mwi_identity_page));
}

int mwi_identity_open(mw_engine *e) {
  mwi_identity *part = &e->identity;
  part->shards = (mwi_table *)mwi_new(e, 2 * MWI_SHARDS * sizeof(mwi_table));
  if (part->shards == NULL) return MW_NOMEM;
  part->serials = part->shards + MWI_SHARDS;
  part->top = part->look = 1;
  if (page_for(e, 0) == NULL) return MW_NOMEM;
  *address_in(part, 0) = e;
  return mw_clock_open(e, NULL, 0, &part->given);
}

void mwi_identity_blocks(mw_engine *e, mwi_visit f) {
  mwi_identity *part = &e->identity;
  uint32_t i;
  for (i = 0; i < 2 * MWI_SHARDS && part->shards != NULL; i++) /* opened? */
    mwi_table_blocks(e, &part->shards[i], f);
  f(e, part->shards, 2 * MWI_SHARDS * sizeof(mwi_table));
  mwi_column_blocks(e, &part->pages, sizeof(mwi_identity_page), f);
}

static void give_back(mwi_identity *part, uint32_t slot) {
  mwi_identity_page *page = mwi_identity_page_of(part, slot);
  uint32_t *age = &page->age[slot % MWI_PAGE];
  mwi_assert((*age & MWI_TAKEN) && part->count > 0);
  *age = (*age ^ MWI_TAKEN) + 1;
  page->flags[slot % MWI_PAGE] = 0;
  part->count--;
  if (*age == MWI_MAXAGE)
    return; /* used up: a next handle could repeat an old one */
  page->ptr[slot % MWI_PAGE] = (const void *)(uintptr_t)part->free;
  part->free = slot;
}

int mw_object_pin(mw_engine *e, mw_handle h) {
  uint32_t slot = mw_slot(h);
  if (!mwi_identity_is_valid(&e->identity, h)) return MW_STALE;
  mwi_identity_page_of(&e->identity, slot)->flags[slot % MWI_PAGE] = MW_PINNED;
  return MW_OK;
}

int mw_object_flags(const mw_engine *e, mw_handle h) {
  uint32_t slot = mw_slot(h);
  if (!mwi_identity_is_valid(&e->identity, h)) return 0;
  return mwi_identity_page_of(&e->identity, slot)->flags[slot % MWI_PAGE];
}

int mw_object_identify(mw_engine *e, const void *ptr, mw_handle *h) {
  mwi_identity *part = &e->identity;
  uint32_t hash = hash_address(ptr), slot = locate(part, ptr, hash);
  mwi_check_enter(e);
  if (slot == 0) { /* a new object? */
    mwi_identity_page *page;
    slot = mwi_identity_next(part);
    if (slot > MWI_MAXSLOT) return MW_FULL;
    page = page_for(e, slot);
    if (page == NULL ||
        !mwi_table_put(e, &part->shards[hash >> 26], hash, slot))
      return MW_NOMEM;
    if (slot != part->top) { /* used before, and given back? */
      part->free = (uint32_t)(uintptr_t)page->ptr[slot % MWI_PAGE];
    } else {
      part->top++;
      if (part->left > 0) part->left++; /* else as many others are not seen */
    }
    part->count++;
    page->ptr[slot % MWI_PAGE] = ptr;
    page->age[slot % MWI_PAGE] |= MWI_TAKEN;
  }
  *h = mwi_identity_handle(part, slot);
  return MW_OK;
}

/* Objects are often visited in the order in which they were made, also by a
** list whose elements move: then, from the second object on, the search needs
** no hash. */
uint32_t mwi_identity_find(mw_engine *e, const void *ptr) {
  mwi_identity *part = &e->identity;
  uint32_t slot = part->found + 2, last = (slot > 3) ? slot - 3 : 1;
  for (; part->is_near && slot >= last; slot--)
    if (slot < part->top && *address_in(part, slot) == ptr &&
        mwi_identity_handle(part, slot) != MW_NONE)
      return part->found = slot;
  slot = locate(part, ptr, hash_address(ptr));
  if (slot == 0) return 0;
  part->is_near = slot + 1 - part->found <= 3;
  return part->found = slot;
}

mw_handle mw_object_find(mw_engine *e, const void *ptr) {
  return mwi_identity_handle(
      &e->identity, mwi_identity_find(e, ptr)); /* slot 0 has no handle */
}

const void *mw_object_pointer(const mw_engine *e, mw_handle h) {
  const mwi_identity *part = &e->identity;
  return mwi_identity_is_valid(part, h) ? *address_in(part, mw_slot(h)) : NULL;
}

int mw_object_forget(mw_engine *e, mw_handle h) {
  mwi_identity *part = &e->identity;
  uint32_t slot = mw_slot(h), hash;
  uint64_t serial;
  mwi_check_enter(e);
  if (!mwi_identity_is_valid(part, h)) return MW_STALE;
  serial = serial_of(e, slot);
  hash = hash_address(*address_in(part, slot));
  mwi_table_take(&part->shards[hash >> 26], hash, slot);
  mwi_watch_forget(e, slot);
  if (serial != 0) /* did the host ask for one? */
    mwi_table_take(serials_for(e, serial), hash_serial(serial), slot);
  mwi_clock_forget(e, slot);
  mwi_hierarchy_forget(e, slot);
  give_back(part, slot);
  return MW_OK;
}

size_t mw_object_count(const mw_engine *e) { return e->identity.count; }

/* Reaping: `left` slots are to be looked at, from `look` on and round. */
void mw_reap_begin(mw_engine *e) { e->identity.left = e->identity.top - 1; }

int mw_reap_due(const mw_engine *e) { return e->identity.left > 0; }

size_t mw_reap_step(mw_engine *e, size_t looks, size_t deaths, mw_alive alive,
                    void *ud) {
  mwi_identity *part = &e->identity;
  size_t n = 0;
  mwi_check_enter(e);
  while (part->left > 0 && looks > 0 && n < deaths) { /* within the budget? */
    mw_handle h = mwi_identity_handle(part, part->look++);
    int lives;
    part->left--;
    if (part->look >= part->top) part->look = 1; /* round again */
    if (h == MW_NONE) continue; /* a free slot does not count as a look */
    looks--;
    if (mw_object_flags(e, h) & MW_PINNED) continue; /* the host's to forget */
    mwi_quiet_begin(e);
    lives = alive(ud, h);
    mwi_quiet_end(e);
    if (lives) continue;
    mw_object_forget(e, h);
    n++;
  }
  return n;
}
