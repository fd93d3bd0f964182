/*
** reader.c - who reads what was written.
** SPDX-License-Identifier: MIT
**
** An entry that no owner can take back any more is delivered: the entry gets
** the next number, and stands in a ring of pages until all readers have read
** the entry, or are too slow:
**
**             first                         last
**     | page . | page   | page   | page   | page .    one number an entry
**              ^              ^                ^
**              a reader       another          has read all: last + 1
**
** Invariant: all entries from `first` to `last` are in pages; `first` is the
** smallest `next` of a reader, or last + 1 without readers; no reader's `next`
** is more than the reader's capacity behind; a reader with MW_WHOLE has its
** `next` at the begin of a delivery, unless the reader has read a part of the
** delivery.  So no reader holds another up, and the ring is as long as the
** largest capacity.
**
** A delivery needs no memory in advance: what does not fit is lost, and each
** reader knows how many numbers it has missed.
*/
#include <string.h>

#include "engine.h"

#define PAGE MWI_READER_PAGE
#define PAGE_SIZE (PAGE * sizeof(mwi_delivered))

static mwi_reader *reader_at(const mw_engine *e, mw_reader reader) {
  mwi_check_call(reader > 0 && reader <= e->reader.n &&
                 e->reader.list[reader - 1].capacity > 0);
  return &e->reader.list[reader - 1];
}

static mwi_delivered **ring_page(const mwi_readers *part, uint64_t seq) {
  return &part->pages[seq / PAGE % part->n_pages];
}

static mwi_delivered *entry_at(const mwi_readers *part, uint64_t seq) {
  return &(*ring_page(part, seq))[seq % PAGE];
}

/* Calls `mwi_host_retain` or `mwi_host_release` for the strings of an entry. */
static void keep_values(const mw_engine *e, const mwi_delivered *its,
                        void (*keep)(const mw_engine *e, const mw_value *v)) {
  int i;
  for (i = 0; i < MW_PARTS; i++) {
    mw_value v;
    v.type = its->type[i];
    v.u = its->value[i];
    if (v.type == MW_TSTRING) keep(e, &v);
  }
}

/* {======================================================
** The ring
** ======================================================= */

static void free_page(mw_engine *e, mwi_delivered *page) {
  if (e->reader.spare == NULL)
    e->reader.spare = page;
  else
    mwi_free(e, page, PAGE_SIZE);
}

/* Forgets the entries with numbers below `seq`. */
static void forget_entries(mw_engine *e, uint64_t seq) {
  mwi_readers *part = &e->reader;
  const mw_host *callbacks = &e->watch.host;
  int turned = 0;
  while (part->first < seq) {
    keep_values(e, entry_at(part, part->first), mwi_host_release);
    part->first++;
    if (part->first % PAGE != 0 && part->first <= part->last) continue;
    free_page(e, *ring_page(part, part->first - 1));
    *ring_page(part, part->first - 1) = NULL;
    turned = 1;
  }
  if (!turned || callbacks->forget == NULL) return;
  mwi_quiet_begin(e);
  callbacks->forget(callbacks->ud, part->first);
  mwi_quiet_end(e);
}

/* Forgets what no reader is going to read. */
static void forget_read(mw_engine *e) {
  mwi_readers *part = &e->reader;
  uint64_t first = part->last + 1;
  uint32_t i;
  for (i = 0; i < part->n; i++)
    if (part->list[i].capacity > 0 && part->list[i].next < first)
      first = part->list[i].next;
  forget_entries(e, first);
}

/* A reader misses the next entry, and with MW_WHOLE the rest of its
** delivery. */
static void miss(const mwi_readers *part, mwi_reader *r) {
  do {
    r->next++;
    r->lost++;
  } while ((r->flags & MW_WHOLE) && r->next <= part->last &&
           !(entry_at(part, r->next)->kind & MWI_BEGINS));
}

void mwi_reader_lose(mw_engine *e) {
  mwi_readers *part = &e->reader;
  uint64_t next = part->last + 2;
  uint32_t i;
  for (i = 0; i < part->n; i++) {
    mwi_reader *r = &part->list[i];
    r->lost += next - r->next;
    r->next = next;
  }
  forget_entries(e, part->last + 1);
  part->last++;
  part->first = next;
}

/* Makes room for the entry after the last one: in a new page, or in place of
** the oldest entries. */
static int need_page(mw_engine *e) {
  mwi_readers *part = &e->reader;
  mwi_delivered **page = ring_page(part, part->last + 1);
  uint32_t i;
  if (*page != NULL) return 1;
  if (part->spare == NULL) part->spare = (mwi_delivered *)mwi_new(e, PAGE_SIZE);
  while (part->spare == NULL && part->first <= part->last) {
    for (i = 0; i < part->n; i++) {
      mwi_reader *r = &part->list[i];
      if (r->capacity > 0 && r->next == part->first) miss(part, r);
    }
    forget_read(e);
  }
  if (part->spare == NULL) return 0;
  *page = part->spare;
  part->spare = NULL;
  return 1;
}

void mwi_reader_deliver(mw_engine *e, const mw_entry *entry,
                        const mw_values *values, int begins, void *host) {
  mwi_readers *part = &e->reader;
  const mw_host *callbacks = &e->watch.host;
  mw_entry its = *entry;
  mwi_delivered *to;
  uint32_t i;
  its.seq = part->last + 1;
  if (callbacks->deliver != NULL && /* the values are Lua's, if there is Lua */
      (mw_object_flags(e, entry->obj) & MW_PINNED))
    return;
  if (!need_page(e) ||
      (callbacks->deliver != NULL &&
       callbacks->deliver(callbacks->ud, &its, values, host) != MW_OK)) {
    mwi_reader_lose(e);
    return;
  }
  to = entry_at(part, its.seq);
  to->obj = its.obj;
  memcpy(to->value, its.value, sizeof(to->value));
  memcpy(to->type, its.type, sizeof(to->type));
  to->kind = (uint8_t)(its.kind | (begins ? MWI_BEGINS : 0));
  to->where = its.where;
  keep_values(e, to, mwi_host_retain);
  part->last++;
  for (i = 0; i < part->n; i++) {
    mwi_reader *r = &part->list[i];
    if (r->capacity == 0) continue;
    if ((r->flags & MW_WHOLE) && r->next == part->last && !begins)
      miss(part, r); /* the reader has missed the begin */
    while (part->last + 1 - r->next > r->capacity) miss(part, r);
  }
  forget_read(e);
}

/* Makes the ring long enough for `capacity` entries. */
static int grow_ring(mw_engine *e, uint32_t capacity) {
  mwi_readers *part = &e->reader;
  uint32_t n = capacity / PAGE + 2, old = part->n_pages;
  mwi_delivered **pages, **former = part->pages;
  uint64_t seq;
  if (n <= old) return 1;
  pages = (mwi_delivered **)mwi_new(e, n * sizeof(*pages));
  if (pages == NULL) return 0;
  for (seq = part->first; seq <= part->last; seq += PAGE - seq % PAGE)
    pages[seq / PAGE % n] = former[seq / PAGE % old];
  mwi_free(e, former, old * sizeof(*former));
  part->pages = pages;
  part->n_pages = n;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Readers
** ======================================================= */

mw_reader mw_reader_open(mw_engine *e, uint32_t capacity, int flags) {
  mwi_readers *part = &e->reader;
  mwi_reader *list;
  uint32_t i = 0;
  mwi_check_enter(e);
  mwi_check_call(capacity > 0);
  while (i < part->n && part->list[i].capacity > 0) i++;
  if (!grow_ring(e, capacity)) return 0;
  if (i == part->size) {
    list = (mwi_reader *)mwi_grow(e, part->list, part->n, &part->size,
                                  sizeof(*list));
    if (list == NULL) return 0;
    part->list = list;
  }
  if (i == part->n) part->n++;
  if (part->open++ == 0) part->first = ++part->last + 1;
  part->list[i].next = part->last + 1;
  part->list[i].lost = 0;
  part->list[i].capacity = capacity;
  part->list[i].flags = flags;
  return i + 1;
}

static void free_pages(mw_engine *e) {
  mwi_readers *part = &e->reader;
  if (part->spare != NULL) mwi_free(e, part->spare, PAGE_SIZE);
  mwi_free(e, part->pages, part->n_pages * sizeof(*part->pages));
  part->spare = NULL;
  part->pages = NULL;
  part->n_pages = 0;
}

void mw_reader_close(mw_engine *e, mw_reader reader) {
  mwi_check_enter(e);
  reader_at(e, reader)->capacity = 0;
  e->reader.open--;
  forget_read(e);
  if (e->reader.open == 0) free_pages(e);
}

uint64_t mw_reader_next(const mw_engine *e, mw_reader reader) {
  return reader_at(e, reader)->next;
}

uint64_t mw_reader_lost(const mw_engine *e, mw_reader reader) {
  return reader_at(e, reader)->lost;
}

int mw_reader_seek(mw_engine *e, mw_reader reader, uint64_t seq) {
  mwi_reader *r = reader_at(e, reader);
  mwi_check_enter(e);
  if (seq < e->reader.first || seq > e->reader.last + 1) return MW_STALE;
  if (e->reader.last + 1 - seq > r->capacity) return MW_STALE;
  r->next = seq;
  forget_read(e);
  return MW_OK;
}

uint64_t mw_delivery_last(const mw_engine *e) { return e->reader.last; }

int mw_delivery_entry(const mw_engine *e, uint64_t seq, mw_entry *entry) {
  const mwi_readers *part = &e->reader;
  const mwi_delivered *its;
  if (seq < part->first || seq > part->last) return MW_STALE;
  its = entry_at(part, seq);
  entry->obj = its->obj;
  memcpy(entry->value, its->value, sizeof(entry->value));
  memcpy(entry->type, its->type, sizeof(entry->type));
  entry->kind = (uint8_t)(its->kind & ~MWI_BEGINS);
  entry->where = its->where;
  entry->seq = seq;
  return MW_OK;
}

/* }====================================================== */

/* Calls no callback, for the host may be gone: strings are not released. */
void mwi_reader_close(mw_engine *e) {
  mwi_readers *part = &e->reader;
  while (part->first <= part->last) {
    mwi_delivered **page = ring_page(part, part->first);
    mwi_free(e, *page, PAGE_SIZE);
    part->first += PAGE - part->first % PAGE;
  }
  free_pages(e);
  mwi_free(e, part->list, part->size * sizeof(*part->list));
}

size_t mwi_reader_bytes(const mw_engine *e) {
  const mwi_readers *part = &e->reader;
  size_t bytes =
      part->size * sizeof(*part->list) + part->n_pages * sizeof(*part->pages);
  uint32_t i;
  if (part->spare != NULL) bytes += PAGE_SIZE;
  for (i = 0; i < part->n_pages; i++)
    if (part->pages[i] != NULL) bytes += PAGE_SIZE;
  return bytes;
}
