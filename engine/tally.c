/*
** tally.c - how often which value was seen in which place.
** SPDX-License-Identifier: MIT
*/
#include "tally.h"

#include <string.h>

size_t mwY_bytes(uint32_t size) {
  return sizeof(mwY_tally) + size * (sizeof(mwY_entry) + 2 * sizeof(uint32_t));
}

static mwY_entry *entries(mwY_tally *t) { return (mwY_entry *)(void *)(t + 1); }

static uint32_t *index_of(mwY_tally *t) {
  return (uint32_t *)(void *)(entries(t) + t->size);
}

mwY_entry *mwY_at(mwY_tally *t, uint32_t i) { return entries(t) + i; }

void mwY_init(mwY_tally *t, uint32_t size) {
  t->n = t->last = 0;
  t->size = size;
  memset(index_of(t), 0, 2 * size * sizeof(uint32_t));
}

static uint64_t mixed(uint64_t x) {
  x *= UINT64_C(0x9E3779B97F4A7C15);
  return x ^ (x >> 29);
}

static uint32_t hash(const mwY_key *key) {
  uint64_t x = key->key ^ ((uint64_t)key->place << 20) ^
               ((uint64_t)key->kind << 56) ^ ((uint64_t)key->key_kind << 60);
  return (uint32_t)(mixed(mixed(x) ^ key->value) >> 32);
}

static int same(const mwY_key *a, const mwY_key *b) {
  return a->key == b->key && a->value == b->value && a->place == b->place &&
         a->key_kind == b->key_kind && a->kind == b->kind;
}

/* Where the index has a key, or would have it. */
static uint32_t *spot(mwY_tally *t, const mwY_key *key) {
  uint32_t *index = index_of(t), mask = 2 * t->size - 1;
  uint32_t i = hash(key) & mask;
  while (index[i] != 0 && !same(&entries(t)[index[i] - 1].key, key))
    i = (i + 1) & mask;
  return index + i;
}

mwY_entry *mwY_find(mwY_tally *t, const mwY_key *key) {
  mwY_entry *entry = entries(t), *last = NULL;
  uint32_t i = 0;
  if (t->last != 0) {
    last = entry + (t->last - 1);
    i = last->next;
  }
  if (i == 0 || !same(&entry[i - 1].key, key)) {
    i = *spot(t, key);
    if (i == 0) return NULL;
    if (last != NULL) last->next = i;
  }
  t->last = i;
  return entry + (i - 1);
}

mwY_entry *mwY_add(mwY_tally *t, const mwY_key *key) {
  mwY_entry *entry = entries(t) + t->n;
  memset(entry, 0, sizeof(mwY_entry));
  entry->key = *key;
  *spot(t, key) = ++t->n;
  return entry;
}

void mwY_move(mwY_tally *t, uint32_t size, const mwY_tally *from) {
  uint32_t i;
  mwY_init(t, size);
  memcpy(entries(t), from + 1, from->n * sizeof(mwY_entry));
  for (i = 0; i < from->n; i++) *spot(t, &entries(t)[i].key) = i + 1;
  t->n = from->n;
}

/* Is an entry that of all numbers from one on, and a key that of a number? */
static int is_range(const mwY_entry *entry, const mwY_key *key) {
  return entry->key.place == key->place && entry->key.key == key->key &&
         entry->key.key_kind == key->key_kind &&
         ((entry->key.kind == MWT_INTEGERS && key->kind == MWT_INTEGER) ||
          (entry->key.kind == MWT_FLOATS && key->kind == MWT_FLOAT));
}

/* The entry of all numbers from one on, or NULL. */
static mwY_entry *range(mwY_tally *t, const mwY_key *key) {
  mwY_key all = *key;
  all.kind = (key->kind == MWT_INTEGER) ? MWT_INTEGERS : MWT_FLOATS;
  all.value = 0;
  return mwY_find(t, &all);
}

/* Notes a number in such an entry, if it is one of them. */
static int widen(mwY_entry *entry, uint64_t bits) {
  mwY_number number;
  memcpy(&number, &bits, sizeof(number));
  if (entry->key.kind == MWT_INTEGERS) {
    if (number.i < entry->low.i) return 0;
    if (number.i > entry->high.i) entry->high.i = number.i;
  } else {
    if (!(number.d >= entry->low.d)) return 0; /* perhaps it is NaN */
    if (number.d > entry->high.d) entry->high.d = number.d;
  }
  return 1;
}

/* The entry that is expected now, if it is such a range. */
static mwY_entry *expected_range(mwY_tally *t, const mwY_key *key) {
  mwY_entry *entry;
  uint32_t i;
  if (t->last == 0) return NULL;
  i = entries(t)[t->last - 1].next;
  if (i == 0) return NULL;
  entry = entries(t) + (i - 1);
  return is_range(entry, key) ? entry : NULL;
}

int mwY_count(mwY_tally *t, const mwY_key *key) {
  mwY_entry *entry = expected_range(t, key);
  if (entry != NULL && widen(entry, key->value)) {
    t->last = entries(t)[t->last - 1].next;
    entry->n++;
    return 1;
  }
  entry = mwY_find(t, key);
  if (entry == NULL) {
    if (key->kind != MWT_INTEGER && key->kind != MWT_FLOAT) return 0;
    entry = range(t, key);
    if (entry == NULL || !widen(entry, key->value)) return 0;
  }
  entry->n++;
  return 1;
}

uint32_t mwY_counttable(mwY_tally *t, const mwY_key *key, int64_t length) {
  mwY_entry *entry = mwY_find(t, key);
  if (entry == NULL || length < entry->low.i || length > entry->high.i)
    return 0;
  entry->n++;
  return entry->below;
}

static mwY_address *addresses(const mwY_met *met) {
  return (mwY_address *)(void *)(uintptr_t)(met + 1);
}

size_t mwY_metbytes(uint32_t size) {
  return sizeof(mwY_met) + size * sizeof(mwY_address);
}

void mwY_metinit(mwY_met *met, uint32_t size) {
  memset(met, 0, mwY_metbytes(size));
  met->walk = 1;
  met->size = size;
}

void mwY_metnone(mwY_met *met) {
  met->walk++;
  met->n = 0;
}

static mwY_address *place_of(const mwY_met *met, const void *ptr) {
  mwY_address *list = addresses(met);
  uint32_t mask = met->size - 1;
  uint32_t i = (uint32_t)(mixed((uint64_t)(uintptr_t)ptr) >> 20) & mask;
  while (list[i].walk == met->walk && list[i].ptr != ptr) i = (i + 1) & mask;
  return list + i;
}

int mwY_ismet(mwY_met *met, const void *ptr) {
  return place_of(met, ptr)->walk == met->walk;
}

int mwY_meet(mwY_met *met, const void *ptr) {
  mwY_address *place = place_of(met, ptr);
  if (place->walk == met->walk) return 1;
  place->ptr = ptr;
  place->walk = met->walk;
  met->n++;
  return 0;
}

void mwY_metmove(mwY_met *met, uint32_t size, const mwY_met *from) {
  uint32_t i;
  mwY_metinit(met, size);
  for (i = 0; i < from->size; i++)
    if (addresses(from)[i].walk == from->walk)
      mwY_meet(met, addresses(from)[i].ptr);
}
