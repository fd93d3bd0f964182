/*
** journal.c - the writes in order, while the journal has readers.
** SPDX-License-Identifier: MIT
**
**     entries  0 1 2 3 4 5 6 7 8 9
**              ^     ^       ^   ^
**              |     |       |   n
**              marks of the readers, nested
**
** One array of entries of a fixed size serves all readers.  Invariant: entry i
** holds the change that the i-th write since the outermost reader began has
** made, so restoring the old values from the end down to a mark restores the
** state at the mark.  An entry that is void (its object is MW_NONE) has been
** retracted and stands for nothing.
*/
#include <string.h>

#include "engine.h"

/* The last close frees an array larger than this. */
#ifndef MWI_JOURNAL_KEEP
#define MWI_JOURNAL_KEEP 1024u
#endif

/* Retains or releases the strings of an entry: strings belong to the host,
** which numbers them. */
static void keep_strings(const mw_engine *e, const mw_entry *entry,
                         mw_keep keep) {
  int i;
  if (keep == NULL) return;
  for (i = 0; i < MW_PARTS; i++) {
    if (entry->type[i] == MW_TSTRING) {
      mw_value v;
      v.type = MW_TSTRING;
      v.u = entry->value[i];
      mwi_quiet_begin(e);
      keep(e->watch.host.ud, &v);
      mwi_quiet_end(e);
    }
  }
}

static void drop_entry(mw_engine *e, mw_entry *entry) {
  if (entry->obj == MW_NONE) return;
  keep_strings(e, entry, e->watch.host.release);
  entry->obj = MW_NONE;
}

size_t mw_journal_open(mw_engine *e) {
  mwi_check_enter(e);
  e->journal.readers++;
  return e->journal.n;
}

int mw_journal_is_open(const mw_engine *e) { return e->journal.readers > 0; }

int mw_journal_reserve(mw_engine *e) {
  mwi_journal *part = &e->journal;
  mw_entry *entries;
  if (part->n < part->size) return MW_OK;
  if (part->n >= UINT32_MAX / 2) return MW_NOMEM;
  entries = (mw_entry *)mwi_grow(e, part->entries, part->n, &part->size,
                                 sizeof(mw_entry));
  if (entries == NULL) return MW_NOMEM;
  part->entries = entries;
  return MW_OK;
}

int mw_journal_append(mw_engine *e, const mw_entry *entry) {
  mwi_journal *part = &e->journal;
  mwi_check_enter(e);
  mwi_check_call(e->check.restoring == 0);
  if (part->readers == 0) return MW_OK;
  if (mw_journal_reserve(e) != MW_OK) return MW_NOMEM;
  keep_strings(e, entry, e->watch.host.retain);
  part->entries[part->n++] = *entry;
  return MW_OK;
}

const mw_entry *mw_journal_entries(const mw_engine *e, size_t mark, size_t *n) {
  *n = (mark < e->journal.n) ? e->journal.n - mark : 0;
  return (*n == 0) ? NULL : e->journal.entries + mark;
}

/* Copies each entry, for the array may move while `restore` calls the
** engine. */
void mw_journal_rewind(mw_engine *e, size_t mark, void *host) {
  const mw_host *callbacks = &e->watch.host;
  size_t i;
  mwi_check_enter(e);
  mwi_check_call(callbacks->restore != NULL);
  mwi_restoring_begin(e);
  for (i = e->journal.n; i > mark; i--) {
    const mw_entry entry = e->journal.entries[i - 1];
    if (mwi_identity_is_valid(&e->identity, entry.obj))
      callbacks->restore(callbacks->ud, &entry, host);
  }
  mwi_restoring_end(e);
}

void mw_journal_retract(mw_engine *e, size_t mark, size_t n) {
  mwi_journal *part = &e->journal;
  size_t i;
  mwi_check_enter(e);
  mwi_check_call(n == 0 || mark + n <= part->n);
  for (i = mark; i < mark + n; i++) drop_entry(e, &part->entries[i]);
  if (mark + n == part->n) part->n = (uint32_t)mark;
}

static void free_entries(mw_engine *e) {
  mwi_journal *part = &e->journal;
  mwi_free(e, part->entries, part->size * sizeof(mw_entry));
  part->entries = NULL;
  part->size = 0;
}

void mw_journal_close(mw_engine *e) {
  mwi_journal *part = &e->journal;
  mwi_check_enter(e);
  mwi_check_call(part->readers > 0);
  if (part->readers == 0 || --part->readers > 0) return;
  mw_journal_retract(e, 0, part->n);
  if (part->size > MWI_JOURNAL_KEEP) free_entries(e);
}

int mw_object_track(mw_engine *e, mw_handle obj, int below, mw_reach *reach) {
  mwi_object *r;
  int code = MW_OK;
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  r = mwi_object_need(e, obj);
  if (r == NULL) return MW_NOMEM;
  if (below) code = mw_root_begin_silent(e, obj, reach);
  if (code < 0) return code;
  if (r->tracked < 2) r->tracked = below ? 2 : 1;
  return code;
}

/* Ends the silent root as well; a deep watch of `obj` keeps its own root. */
int mw_object_untrack(mw_engine *e, mw_handle obj) {
  mwi_object *r;
  int below;
  if (!mw_object_is_tracked(e, obj)) return MW_STALE;
  r = mwi_object_of(&e->watch, mw_slot(obj));
  below = r->tracked == 2;
  r->tracked = 0;
  if (below) mw_root_end_silent(e, obj);
  mwi_tree_end_roots(e, obj, 1);
  return MW_OK;
}

int mw_object_is_tracked(const mw_engine *e, mw_handle obj) {
  const mwi_object *r;
  if (!mwi_identity_is_valid(&e->identity, obj)) return 0;
  r = mwi_object_of(&e->watch, mw_slot(obj));
  return r != NULL && r->tracked;
}

/* Calls no callback, for the host may be gone: strings are not released. */
void mwi_journal_close(mw_engine *e) { free_entries(e); }
