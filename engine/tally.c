/*
** tally.c - counts of the values that were seen in each place.
** SPDX-License-Identifier: MIT
*/
#include "tally.h"

#include <string.h>

size_t mwi_tally_bytes(uint32_t size) {
  return sizeof(mwi_tally) +
         size * (sizeof(mwi_tally_entry) + 2 * sizeof(uint32_t));
}

static mwi_tally_entry *entries(mwi_tally *t) {
  return (mwi_tally_entry *)(void *)(t + 1);
}

static uint32_t *index_of(mwi_tally *t) {
  return (uint32_t *)(void *)(entries(t) + t->size);
}

mwi_tally_entry *mwi_tally_at(mwi_tally *t, uint32_t i) {
  mwi_assert(i < t->n);
  return entries(t) + i;
}

void mwi_tally_init(mwi_tally *t, uint32_t size) {
  mwi_assert(size > 0 && (size & (size - 1)) == 0);
  t->n = t->last = 0;
  t->size = size;
  memset(index_of(t), 0, 2 * size * sizeof(uint32_t));
}

static uint64_t mixed(uint64_t x) {
  x *= UINT64_C(0x9E3779B97F4A7C15);
  return x ^ (x >> 29);
}

static uint32_t hash(const mwi_tally_key *key) {
  uint64_t x = key->key ^ ((uint64_t)key->place << 20) ^
               ((uint64_t)key->kind << 56) ^ ((uint64_t)key->key_kind << 60);
  return (uint32_t)(mixed(mixed(x) ^ key->value) >> 32);
}

static int same(const mwi_tally_key *a, const mwi_tally_key *b) {
  return a->key == b->key && a->value == b->value && a->place == b->place &&
         a->key_kind == b->key_kind && a->kind == b->kind;
}

/* Returns the place of a key in the index, or the empty place for the key. */
static uint32_t *spot(mwi_tally *t, const mwi_tally_key *key) {
  uint32_t *index = index_of(t), mask = 2 * t->size - 1;
  uint32_t i = hash(key) & mask;
  while (index[i] != 0 && !same(&entries(t)[index[i] - 1].key, key))
    i = (i + 1) & mask;
  return index + i;
}

mwi_tally_entry *mwi_tally_find(mwi_tally *t, const mwi_tally_key *key) {
  mwi_tally_entry *entry = entries(t), *last = NULL;
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

mwi_tally_entry *mwi_tally_add(mwi_tally *t, const mwi_tally_key *key) {
  mwi_tally_entry *entry = entries(t) + t->n;
  mwi_assert(t->n < t->size && *spot(t, key) == 0);
  memset(entry, 0, sizeof(mwi_tally_entry));
  entry->key = *key;
  *spot(t, key) = ++t->n;
  return entry;
}

void mwi_tally_move(mwi_tally *t, uint32_t size, const mwi_tally *from) {
  uint32_t i;
  mwi_tally_init(t, size);
  memcpy(entries(t), from + 1, from->n * sizeof(mwi_tally_entry));
  for (i = 0; i < from->n; i++) *spot(t, &entries(t)[i].key) = i + 1;
  t->n = from->n;
}

/* Does the entry stand for all numbers from `low` on, and the key for a number
** of this type? */
static int is_range(const mwi_tally_entry *entry, const mwi_tally_key *key) {
  return entry->key.place == key->place && entry->key.key == key->key &&
         entry->key.key_kind == key->key_kind &&
         ((entry->key.kind == MWI_TALLY_INTEGERS &&
           key->kind == MWI_TALLY_INTEGER) ||
          (entry->key.kind == MWI_TALLY_FLOATS &&
           key->kind == MWI_TALLY_FLOAT));
}

/* Returns the entry of all numbers from `low` on, or NULL. */
static mwi_tally_entry *range(mwi_tally *t, const mwi_tally_key *key) {
  mwi_tally_key all = *key;
  all.kind =
      (key->kind == MWI_TALLY_INTEGER) ? MWI_TALLY_INTEGERS : MWI_TALLY_FLOATS;
  all.value = 0;
  return mwi_tally_find(t, &all);
}

/* Widens an entry of numbers up to a number; 0 if the number is less than
** `low`. */
static int extend(mwi_tally_entry *entry, uint64_t bits) {
  mwi_tally_number number;
  memcpy(&number, &bits, sizeof(number));
  if (entry->key.kind == MWI_TALLY_INTEGERS) {
    if (number.i < entry->low.i) return 0;
    if (number.i > entry->high.i) entry->high.i = number.i;
  } else {
    if (!(number.d >= entry->low.d)) return 0; /* less, or NaN */
    if (number.d > entry->high.d) entry->high.d = number.d;
  }
  return 1;
}

/* Returns the entry expected next, if the entry is a range for the key. */
static mwi_tally_entry *expected_range(mwi_tally *t, const mwi_tally_key *key) {
  mwi_tally_entry *entry;
  uint32_t i;
  if (t->last == 0) return NULL;
  i = entries(t)[t->last - 1].next;
  if (i == 0) return NULL;
  entry = entries(t) + (i - 1);
  return is_range(entry, key) ? entry : NULL;
}

int mwi_tally_count(mwi_tally *t, const mwi_tally_key *key) {
  mwi_tally_entry *entry = expected_range(t, key);
  if (entry != NULL && extend(entry, key->value)) {
    t->last = entries(t)[t->last - 1].next;
    entry->n++;
    return 1;
  }
  entry = mwi_tally_find(t, key);
  if (entry == NULL) {
    if (key->kind != MWI_TALLY_INTEGER && key->kind != MWI_TALLY_FLOAT)
      return 0;
    entry = range(t, key);
    if (entry == NULL || !extend(entry, key->value)) return 0;
  }
  entry->n++;
  return 1;
}

uint32_t mwi_tally_count_table(mwi_tally *t, const mwi_tally_key *key,
                               int64_t length) {
  mwi_tally_entry *entry = mwi_tally_find(t, key);
  if (entry == NULL || length < entry->low.i || length > entry->high.i)
    return 0;
  entry->n++;
  return entry->below;
}

static mwi_tally_address *addresses(const mwi_tally_met *met) {
  return (mwi_tally_address *)(void *)(uintptr_t)(met + 1);
}

size_t mwi_tally_met_bytes(uint32_t size) {
  return sizeof(mwi_tally_met) + size * sizeof(mwi_tally_address);
}

void mwi_tally_met_init(mwi_tally_met *met, uint32_t size) {
  memset(met, 0, mwi_tally_met_bytes(size));
  met->walk = 1;
  met->size = size;
}

void mwi_tally_met_none(mwi_tally_met *met) {
  met->walk++;
  met->n = 0;
}

static mwi_tally_address *place_of_address(const mwi_tally_met *met,
                                           const void *ptr) {
  mwi_tally_address *list = addresses(met);
  uint32_t mask = met->size - 1;
  uint32_t i = (uint32_t)(mixed((uint64_t)(uintptr_t)ptr) >> 20) & mask;
  while (list[i].walk == met->walk && list[i].ptr != ptr) i = (i + 1) & mask;
  return list + i;
}

int mwi_tally_is_met(mwi_tally_met *met, const void *ptr) {
  return place_of_address(met, ptr)->walk == met->walk;
}

int mwi_tally_meet(mwi_tally_met *met, const void *ptr) {
  mwi_tally_address *place = place_of_address(met, ptr);
  if (place->walk == met->walk) return 1;
  place->ptr = ptr;
  place->walk = met->walk;
  met->n++;
  mwi_assert(met->n < met->size); /* so a search ends */
  return 0;
}

void mwi_tally_met_move(mwi_tally_met *met, uint32_t size,
                        const mwi_tally_met *from) {
  uint32_t i;
  mwi_tally_met_init(met, size);
  for (i = 0; i < from->size; i++)
    if (addresses(from)[i].walk == from->walk)
      mwi_tally_meet(met, addresses(from)[i].ptr);
}
