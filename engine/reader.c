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
** A delivery needs no memory in advance: without memory for a page all that is
** kept is lost, and each reader knows how many numbers it has missed.
*/
#include <string.h>

#include "engine.h"

#define PAGE MWI_READER_PAGE
#define PAGE_SIZE sizeof(mwi_reader_page)

static mwi_reader *reader_at(const mw_engine *e, mw_reader reader) {
  mwi_check_call(reader > 0 && reader <= e->reader.n &&
                 e->reader.list[reader - 1].capacity > 0);
  return &e->reader.list[reader - 1];
}

static mwi_reader_page **ring_page(const mwi_readers *part, uint64_t seq) {
  return &part->pages[seq / PAGE & (part->n_pages - 1)];
}

static mw_entry *entry_at(const mwi_readers *part, uint64_t seq) {
  return &(*ring_page(part, seq))->entries[seq % PAGE];
}

/* Fields that are not the same may have the same mark. */
static uint8_t mark_of(mw_handle obj, int type, mw_content key) {
  uint64_t bits = (uint64_t)key.i;
  if (type == MW_TOTHER) bits >>= 32; /* equal keys differ in the rest */
  bits = (bits ^ mw_slot(obj)) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint8_t)(bits >> 56);
}

/* {======================================================
** The ring
** ======================================================= */

/* The entries of the spare page are zero, as those of a new one: an entry that
** is lost stays so. */
static void free_page(mw_engine *e, mwi_reader_page *page) {
  if (e->reader.spare == NULL) {
    memset(page->entries, 0, sizeof(page->entries));
    e->reader.spare = page;
  } else {
    mwi_free(e, page, PAGE_SIZE);
  }
}

/* Tells the host that the page before `first` goes, which can still be read. */
static void drop_page(mw_engine *e) {
  mwi_readers *part = &e->reader;
  const mw_host *callbacks = &e->watch.host;
  mwi_reader_page **page = ring_page(part, part->first - 1);
  if (callbacks->forget != NULL) {
    mwi_quiet_begin(e);
    callbacks->forget(callbacks->ud, part->first);
    mwi_quiet_end(e);
  }
  free_page(e, *page);
  *page = NULL;
}

/* Forgets the entries with numbers below `seq`. */
static void forget_entries(mw_engine *e, uint64_t seq) {
  mwi_readers *part = &e->reader;
  while (part->first < seq) {
    mwi_entry_keep(e, entry_at(part, part->first), mwi_host_release);
    part->first++;
    if (part->first % PAGE == 0 || part->first > part->last) drop_page(e);
  }
}

/* Forgets what no reader is going to read. */
static void forget_read(mw_engine *e) {
  mwi_readers *part = &e->reader;
  uint64_t first = part->last + 1;
  uint32_t i;
  for (i = 0; i < part->n; i++)
    if (part->list[i].capacity > 0 && part->list[i].next < first) /* slower? */
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

/* Makes room for the entry after the last one. */
static int need_page(mw_engine *e) {
  mwi_readers *part = &e->reader;
  mwi_reader_page **page = ring_page(part, part->last + 1);
  if (*page != NULL) return 1; /* not the first of a page? */
  if (part->spare == NULL)
    part->spare = (mwi_reader_page *)mwi_new(e, PAGE_SIZE);
  if (part->spare == NULL) return 0;
  part->spare->least = UINT64_MAX;
  part->spare->most = 0;
  *page = part->spare;
  part->spare = NULL;
  return 1;
}

/* Gives the last entry to the readers, of which some miss others. */
static void give(mw_engine *e, int begins) {
  mwi_readers *part = &e->reader;
  uint32_t i;
  for (i = 0; i < part->n; i++) {
    mwi_reader *r = &part->list[i];
    if (r->capacity == 0) continue; /* closed? */
    if ((r->flags & MW_WHOLE) && r->next == part->last && !begins)
      miss(part, r); /* the reader has missed the begin */
    while (part->last + 1 - r->next > r->capacity) miss(part, r); /* too slow */
  }
  forget_read(e);
}

void mwi_reader_put(mw_engine *e, const mw_entry *entry, int begins) {
  mwi_readers *part = &e->reader;
  uint64_t seq = part->last + 1;
  uint64_t number = mwi_number_of(entry->seq);
  mwi_reader_page *page;
  mw_entry *to;
  if (!need_page(e)) {
    mwi_reader_lose(e);
    return;
  }
  page = *ring_page(part, seq);
  to = &page->entries[seq % PAGE];
  *to = *entry;
  to->seq = number;
  if (begins) to->kind |= MWI_BEGINS;
  if (number < page->least) page->least = number;
  if (number > page->most) page->most = number;
  page->marks[seq % PAGE] =
      mark_of(entry->obj, entry->type[MW_KEY], entry->value[MW_KEY]);
  mwi_entry_keep(e, to, mwi_host_retain);
  part->last = seq;
  give(e, begins);
}

void mwi_reader_deliver(mw_engine *e, const mw_entry *entry,
                        const mw_values *values, int begins, void *host) {
  const mw_host *callbacks = &e->watch.host;
  mw_entry its = *entry;
  if (callbacks->deliver == NULL) { /* do values mean the same to all? */
    mwi_reader_put(e, entry, begins);
    return;
  }
  if (mw_object_flags(e, entry->obj) & MW_PINNED)
    return; /* the values are Lua's, if there is Lua */
  its.seq = e->reader.last + 1;
  if (callbacks->deliver(callbacks->ud, &its, values, host) != MW_OK) {
    mwi_reader_lose(e);
    return;
  }
  its.seq = entry->seq;
  mwi_reader_put(e, &its, begins);
}

/* Makes the ring long enough for `capacity` entries. */
static int grow_ring(mw_engine *e, uint32_t capacity) {
  mwi_readers *part = &e->reader;
  uint32_t n = 2, old = part->n_pages;
  mwi_reader_page **pages, **former = part->pages;
  uint64_t seq;
  while (n < capacity / PAGE + 2) n *= 2;
  if (n <= old) return 1;
  pages = (mwi_reader_page **)mwi_new(e, n * sizeof(*pages));
  if (pages == NULL) return 0;
  for (seq = part->first; seq <= part->last; seq += PAGE - seq % PAGE)
    pages[seq / PAGE & (n - 1)] = former[seq / PAGE & (old - 1)];
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
  uint32_t i = 0;
  mwi_check_enter(e);
  mwi_check_call(capacity > 0);
  while (i < part->n && part->list[i].capacity > 0) i++;
  if (!grow_ring(e, capacity)) return 0;
  if (!mwi_grow(e, &part->list, i, &part->size)) return 0;
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
  if (e->reader.last + 1 - seq > r->capacity) return MW_STALE; /* too far? */
  r->next = seq;
  forget_read(e);
  return MW_OK;
}

uint64_t mw_delivery_last(const mw_engine *e) { return e->reader.last; }

uint64_t mw_delivery_first(const mw_engine *e) { return e->reader.first; }

void mwi_reader_read(const mw_engine *e, uint64_t seq, mw_entry *entry) {
  *entry = *entry_at(&e->reader, seq);
  entry->kind &= MWI_BEGINS - 1;
  entry->seq = seq;
}

int mw_delivery_entry(const mw_engine *e, uint64_t seq, mw_entry *entry) {
  if (seq < e->reader.first || seq > e->reader.last) return MW_STALE;
  mwi_reader_read(e, seq, entry);
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Searches
** ======================================================= */

/* Returns the number of the kept entry in a page that has the number `cause` as
** a cause, or 0. */
static uint64_t find_number(const mwi_readers *part, uint64_t number,
                            uint32_t cause) {
  uint64_t seq = number * PAGE, end = seq + PAGE;
  const mwi_reader_page *page;
  if (seq < part->first) seq = part->first;
  if (end > part->last + 1) end = part->last + 1;
  if (seq >= end) return 0; /* is nothing of the page kept? */
  page = *ring_page(part, seq);
  if (cause < page->least || cause > page->most) return 0; /* not there? */
  while (seq < end && page->entries[seq % PAGE].seq != cause) seq++;
  return (seq < end) ? seq : 0;
}

/* A write's cause is mostly in the same page, or in a page near. */
uint64_t mw_delivery_of(const mw_engine *e, uint32_t cause, uint64_t seq) {
  const mwi_readers *part = &e->reader;
  uint64_t page = seq / PAGE, i, found = 0;
  if (cause == 0) return 0;
  for (i = 0; found == 0; i++) {
    if (page + i > part->last / PAGE && page < part->first / PAGE + i) break;
    found = find_number(part, page + i, cause);
    if (found == 0 && i <= page) found = find_number(part, page - i, cause);
  }
  return found;
}

/* May the entry be of the field? */
static int is_alike(const mw_entry *its, mw_handle obj, const mw_value *key) {
  mw_value v;
  if (its->obj != obj || its->type[MW_KEY] != key->type) return 0;
  v.type = key->type;
  v.u = its->value[MW_KEY];
  if (key->type == MW_TOTHER) return v.u.i >> 32 == key->u.i >> 32;
  return mw_value_equal(&v, key);
}

/* Has one of the eight marks the value of all bytes of `same`? */
static int has_mark(const uint8_t *marks, uint64_t same) {
  const uint64_t ones = UINT64_C(0x0101010101010101);
  uint64_t bits;
  memcpy(&bits, marks, sizeof(bits));
  bits ^= same;
  return ((bits - ones) & ~bits & (ones << 7)) != 0;
}

/* Looks at eight marks at once. */
uint64_t mwi_reader_find(const mw_engine *e, uint64_t first, uint64_t before,
                         mw_handle obj, const mw_value *key, mw_match match,
                         void *ud) {
  const mwi_readers *part = &e->reader;
  uint8_t mark = mark_of(obj, key->type, key->u);
  uint64_t same = mark * UINT64_C(0x0101010101010101), seq = before;
  while (seq > first) {
    const mwi_reader_page *page = *ring_page(part, seq - 1);
    uint64_t at = (seq - 1) % PAGE;
    mw_entry entry;
    if (at % 8 == 7 && !has_mark(page->marks + (at - 7), same)) { /* none? */
      seq = (seq > first + 8) ? seq - 8 : first;
      continue;
    }
    seq--;
    if (page->marks[at] != mark) continue;                 /* surely another? */
    if (!is_alike(&page->entries[at], obj, key)) continue; /* alike by luck? */
    mwi_reader_read(e, seq, &entry);
    if (match == NULL || match(ud, &entry)) return seq;
  }
  return 0;
}

uint64_t mw_delivery_find(const mw_engine *e, uint64_t before, mw_handle obj,
                          const mw_value *key, mw_match match, void *ud) {
  const mwi_readers *part = &e->reader;
  if (before > part->last) before = part->last + 1;
  return mwi_reader_find(e, part->first, before, obj, key, match, ud);
}

/* }====================================================== */

void mwi_reader_blocks(mw_engine *e, mwi_visit f) {
  const mwi_readers *part = &e->reader;
  uint32_t i;
  for (i = 0; i < part->n_pages; i++) f(e, part->pages[i], PAGE_SIZE);
  f(e, part->pages, part->n_pages * sizeof(*part->pages));
  f(e, part->spare, PAGE_SIZE);
  f(e, part->list, part->size * sizeof(*part->list));
}
