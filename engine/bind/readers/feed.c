/*
** feed.c - what changed since the last look: mw.feed.
** SPDX-License-Identifier: MIT
**
** A feed is a reader of what is delivered.  A look takes all entries that the
** reader has not read: as they are, or squashed to one change for each field.
**
**     look:      entry 1 | entry 2 | entry 3 | entry 4 | ...
**     records:   { 1, 3 } | { 2, 4 }     first and last entry of a field
**     items:     { 1, 3 } | { 2, 4 } | { told, 1 } | { told, 4 } | ...
**     told:      object, key, new | object, key, new | ...
**
** The records are squashed by a table over object and key, which lives as long
** as the look.  The items are what the program gets: the records that changed
** something, fields of tables that came below the root, and what has left.
**
** A feed with a root has an outline: the objects that the program knows, as of
** the last look.  What is below the root is what is there as delivered, so the
** outline is made of delivered entries, and never asks the tree of tree.c.  In
** a look
**   1. the fields that were written get their ties in the outline;
**   2. what has lost all paths from the root is lost;
**   3. a table that came is linked, field by field, with what it held before
**      all open transactions;
**   4. the program is told: the changes of what it knew and knows, all fields
**      of what it did not know, and what it knew that is lost.
** What was moved within a look is known still.  A table that was outside, so
** that it was not intercepted for some time, may have been written unseen: when
** it comes back, it is known no longer, see `mwb_feeds_doubt`.
**
** What the program has put in itself, as the origin from which it wants no
** entries, it knows, from that entry on: see `find_own`.
**
** A feed that begins at an earlier number has a predecessor: a feed of the same
** root and `descend` that was open all the time.  So what is below the root by
** fields that were not written since then has been intercepted since then, but
** for tables that a column of numbers says began to be intercepted later: the
** first look tells of these anew.
**
** A policy's functions are called, which may fail; so the reader goes on, and
** the outline is settled, when all else is done.  A feed that has lost entries,
** and one that begins at an earlier number, makes the outline anew, from what
** is there now by fields that were not written since.
*/
#include "readers.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../snapshot/snapshot.h"
#include "../trace/trace.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

#define NONE UINT32_MAX

struct mwb_feed {
  mwb_state *s;
  mwb_feed *next; /* of the open feeds with a root */
  mw_reader id;   /* 0: closed */
  mw_handle root; /* MW_NONE: what is written anywhere */
  mw_reach reach; /* of the root: which tables are below; 0: none yet */
  uint64_t since; /* from this number on the root has had such a feed */
  uint64_t lost;  /* of the reader, when the outline was made */
  int filters;    /* are there entries that the program does not want? */
  int busy;       /* is there a look under way? */
  int ahead;      /* has the last look perhaps read what is told of later? */
  mwi_outline outline;
};

/* The user value of a feed: the origin from which it wants no entries.  A feed
** keeps no object alive but those of its entries. */
enum { NOT_FROM = 1 };

/* A field that was written since the last look. */
typedef struct record {
  uint32_t first; /* the first entry that the program wants, NONE for none */
  uint32_t last;
  uint32_t member; /* the object's, 0 for none */
} record;

/* What is known of an entry: it is not wanted; it is the first one of its
** field; its object was known before the look. */
enum { OWN = 1, FIRST = 2, WAS_KNOWN = 4 };

/* What the program gets: of a record, or of `told` from the number `last`. */
typedef struct item {
  uint32_t first; /* NONE: of `told` */
  uint32_t last;
  int kind;
} item;

/* Kinds of items, next to enum mw_kind. */
enum { ATTACH = MW_KINDS, ATTACH_AGAIN, AGAIN, DETACH };

/* The stack of a look. */
enum {
  FEED = 1,
  ENTRIES, /* a mwb_look */
  PAGES,   /* its user value */
  RECORDS,
  ITEMS,
  TOLD,
  DELIVERED,  /* see mwb_push_delivered; false: not asked for yet */
  ORIGIN,     /* from which the program wants no entries */
  ORIGIN_KEY, /* "origin" */
  SCRATCH = ORIGIN_KEY
};

typedef struct looking {
  lua_State *L;
  mwb_state *s;
  mwb_feed *f;
  mwb_look *look;
  record *records;
  uint32_t n;      /* of records */
  mwi_table table; /* of their fields, from 1 on */
  uint8_t *marks;  /* of each entry: OWN... */
  item *items;
  uint32_t n_items, size_items;
  uint32_t n_told;
  int ruled; /* may a function refuse what is below? */
} looking;

/* {======================================================
** What began to be intercepted late
** ======================================================= */

#define HEARD_PAGE (MWI_PAGE * sizeof(uint64_t))

/* The time in the column is twice the number of the entry that includes the
** object, the next one if a store is under way that is no rollback; or one more
** than twice that of the last one, when something else does.  The time that a
** dead object has left in the column is early enough for the next object in the
** slot.  Without memory, all objects count as late. */
void mwb_feeds_doubt(mwb_state *s, mw_handle h) {
  uint64_t *page,
      last = 2 * mw_delivery_last(s->engine) + 1 + (s->watch->storing > 0);
  mwb_feed *f = s->readers->feeds;
  if (f == NULL) return;
  for (; f != NULL; f = f->next) mwi_outline_doubt(s->engine, &f->outline, h);
  page = (uint64_t *)mwi_column_need(s->engine, &s->readers->heard, mw_slot(h),
                                     HEARD_PAGE);
  if (page == NULL)
    s->readers->unheard = last;
  else
    page[mw_slot(h) % MWI_PAGE] = last;
}

/* May the object have been written unseen since a time? */
static int is_late(const mwb_state *s, mw_handle h, uint64_t since) {
  const uint64_t *page =
      (uint64_t *)mwi_column_page(&s->readers->heard, mw_slot(h));
  return since < s->readers->unheard ||
         (page != NULL && page[mw_slot(h) % MWI_PAGE] > since);
}

/* The program knows the members that were not written since the number `since`;
** of those that began to be intercepted later nobody can say. */
static void doubt_late(mwb_feed *f, uint64_t since) {
  const mwi_outline *o = &f->outline;
  uint32_t i, m;
  for (i = 0; i < o->objects.n_buckets; i++) {
    if ((m = mwi_table_at(&o->objects, i)) == 0) continue;
    if (is_late(f->s, mwi_known_at(o, m)->obj, 2 * since + 1))
      mwi_outline_doubt(f->s->engine, &f->outline, mwi_known_at(o, m)->obj);
  }
}

void mwb_free_hearings(mwb_state *s) {
  mwi_column_drop(s->engine, &s->readers->heard, HEARD_PAGE);
}

size_t mwb_feeds_bytes(const mwb_state *s) {
  size_t bytes = mwi_column_bytes(&s->readers->heard, HEARD_PAGE);
  const mwb_feed *f;
  for (f = s->readers->feeds; f != NULL; f = f->next)
    bytes += mwi_outline_bytes(&f->outline);
  return bytes;
}

/* }====================================================== */

/* {======================================================
** Squashing
** ======================================================= */

/* What an entry is about: a field, the class, or the state of a userdata. */
static int aspect_of(const mw_entry *entry) {
  return mwi_is_of_field(entry->kind) ? (int)MW_UPDATE : entry->kind;
}

/* Pushes a part of an entry. */
static void push_part(const looking *w, const mw_entry *entry, int part) {
  lua_State *L = w->L;
  if (entry->type[part] == MW_TOTHER) {
    lua_rawgeti(L, PAGES, mwb_page_in(w->look, entry));
    lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
    lua_replace(L, -2);
  } else {
    mwb_unpack(L, 0, entry, part);
  }
}

/* Is a part of an entry the same as a part of another? */
static int is_same_part(const looking *w, const mw_entry *a, int i,
                        const mw_entry *b, int j) {
  int same;
  if (a->type[i] != b->type[j]) return 0;
  if (a->type[i] == MW_TFLOAT && a->value[i].f != a->value[i].f)
    return b->value[j].f != b->value[j].f;
  if (a->type[i] != MW_TOTHER)
    return a->type[i] == MW_TNIL || a->type[i] == MW_TABSENT ||
           a->value[i].i == b->value[j].i;
  push_part(w, a, i);
  push_part(w, b, j);
  same = lua_rawequal(w->L, -1, -2);
  lua_pop(w->L, 2);
  return same;
}

static int is_same_field(const looking *w, const mw_entry *a,
                         const mw_entry *b) {
  int64_t left = a->value[MW_KEY].i, right = b->value[MW_KEY].i;
  if (a->obj != b->obj || aspect_of(a) != aspect_of(b)) return 0;
  if (aspect_of(a) != MW_UPDATE) return 1;
  if (a->type[MW_KEY] != b->type[MW_KEY]) return 0;
  if (left == right && (a->type[MW_KEY] != MW_TOTHER ||
                        a->seq / MWI_READER_PAGE == b->seq / MWI_READER_PAGE))
    return 1;
  return a->type[MW_KEY] == MW_TOTHER && left >> 32 == right >> 32 &&
         is_same_part(w, a, MW_KEY, b, MW_KEY);
}

/* Keys that are not numbers have a mark in the high half. */
static uint32_t hash_of(const mw_entry *entry) {
  uint64_t n = entry->obj;
  if (aspect_of(entry) == MW_UPDATE) {
    uint64_t key = (uint64_t)entry->value[MW_KEY].i;
    if (entry->type[MW_KEY] == MW_TOTHER) key >>= 32;
    n ^= (key + 1) * UINT64_C(0x9E3779B97F4A7C15);
  }
  return (uint32_t)((n * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

/* Is the entry of the origin from which the program wants none? */
static int is_unwanted(const looking *w, const mw_entry *entry) {
  lua_State *L = w->L;
  int top = lua_gettop(L), is = 0;
  if (entry->context == 0) return 0;
  lua_rawgeti(L, PAGES, mwb_page_in(w->look, entry));
  if (lua_rawgeti(L, -1, (lua_Integer)entry->context) == LUA_TTABLE) {
    lua_pushvalue(L, ORIGIN_KEY);
    lua_rawget(L, -2);
    is = lua_rawequal(L, -1, ORIGIN);
  }
  lua_settop(L, top);
  return is;
}

/* Returns the record of an entry's field, a new one if there is none. */
static record *record_of(looking *w, uint32_t i) {
  const mw_entry *entries = w->look->entries;
  mwi_search at;
  uint32_t hash = hash_of(&entries[i]),
           n = mwi_table_first(&w->table, hash, &at);
  while (n != 0 &&
         !is_same_field(w, &entries[i], &entries[w->records[n - 1].last]))
    n = mwi_table_next(&w->table, &at);
  if (n == 0) {
    n = ++w->n;
    mwi_table_put(w->s->engine, &w->table, hash, n);
    w->records[n - 1].member = 0;
    w->records[n - 1].first = NONE;
    w->marks[i] |= FIRST;
  }
  return &w->records[n - 1];
}

/* An entry that the program does not want is known to it: what the program
** wants begins after. */
static void squash(looking *w) {
  uint32_t i;
  for (i = 0; i < w->look->n; i++) {
    record *r = record_of(w, i);
    r->last = i;
    if (w->f->filters && is_unwanted(w, &w->look->entries[i])) {
      w->marks[i] |= OWN;
      r->first = NONE;
    } else if (r->first == NONE) {
      r->first = i;
    }
  }
}

static const mw_entry *first_of(const looking *w, const record *r) {
  return &w->look->entries[r->first];
}

static const mw_entry *last_of(const looking *w, const record *r) {
  return &w->look->entries[r->last];
}

/* }====================================================== */

/* {======================================================
** The outline
** ======================================================= */

static mwi_known *member_at(const looking *w, uint32_t m) {
  return mwi_known_at(&w->f->outline, m);
}

/* Pushes the fields of the table on the top as delivered, and a first key. */
static void push_fields(const looking *w) {
  lua_State *L = w->L;
  if (lua_isboolean(L, DELIVERED)) {
    mwb_push_delivered(L, w->s);
    lua_replace(L, DELIVERED);
  }
  mwb_push_fields(L, w->s, lua_gettop(L), DELIVERED, 0);
  lua_pushnil(L);
}

/* Does the value on the top, which the object at `parent` has under the key
** below the top, belong to what is below the root?  What a parent holds already
** does. */
static int is_below(const looking *w, uint32_t m, int parent) {
  int enters;
  if (lua_type(w->L, -1) == LUA_TUSERDATA) return 1;
  if (w->ruled && lua_istable(w->L, -1)) {
    mw_handle h = mwb_handle_of(w->L, w->s, -1);
    if (h != MW_NONE && mwi_outline_holds(&w->f->outline, m, h)) return 1;
  }
  enters = mwb_enters(w->L, w->s, w->f->reach, parent);
  if (!enters && w->ruled && lua_istable(w->L, -1))
    member_at(w, m)->refuses = 1;
  return enters;
}

/* The value on the top is what the field of a member, whose key is below the
** top, holds now: ties the value if it is below the root. */
static void tie(const looking *w, uint32_t m, int parent) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  mwi_outline *o = &w->f->outline;
  int value = lua_gettop(L), is_leaf = lua_type(L, value) == LUA_TUSERDATA;
  mw_value key;
  if (is_below(w, m, parent)) {
    mw_handle h = mwb_identify(L, w->s, "feed", value, 1);
    key = mwb_key_to_keep(L, w->s, value - 1);
    if (mwi_outline_tie(e, o, m, &key, h, is_leaf) == 0) mwb_check(L, MW_NOMEM);
  } else if (member_at(w, m)->outs != 0) {
    key = mwb_key(L, w->s, value - 1);
    mwi_outline_untie(e, o, m, &key);
  }
  lua_settop(L, value);
}

/* A field of the member, which is on the top, holds the child no more: other
** fields may do so that were left out under their keys. */
static void tie_elsewhere(const looking *w, uint32_t m, mw_handle child) {
  lua_State *L = w->L;
  mwi_outline *o = &w->f->outline;
  int object = lua_gettop(L);
  for (push_fields(w); mwb_next_field(L, object + 1); lua_pop(L, 1)) {
    mw_value key;
    if (mwb_handle_of(L, w->s, -1) != child) continue;
    key = mwb_key_to_keep(L, w->s, -2);
    if (mwi_outline_tie(w->s->engine, o, m, &key, child, 0) == 0)
      mwb_check(L, MW_NOMEM);
  }
  lua_settop(L, object);
}

/* Gives the field of a record its tie. */
static void tie_record(const looking *w, record *r) {
  lua_State *L = w->L;
  const mwi_outline *o = &w->f->outline;
  const mw_entry *entry = last_of(w, r);
  uint32_t m = mwi_outline_find(o, entry->obj);
  mw_handle former = MW_NONE;
  r->member = m;
  if (m == 0 || member_at(w, m)->unseen || aspect_of(entry) != MW_UPDATE)
    return;
  if (entry->type[MW_NOW] != MW_TOTHER && member_at(w, m)->outs == 0) return;
  if (!mwb_alive(L, w->s, entry->obj)) {
    lua_settop(L, SCRATCH);
    return;
  }
  push_part(w, entry, MW_KEY);
  push_part(w, entry, MW_NOW);
  if (member_at(w, m)->refuses) {
    mw_value key = mwb_key(L, w->s, SCRATCH + 2);
    former = mwi_outline_child(o, m, &key);
  }
  tie(w, m, SCRATCH + 1);
  lua_settop(L, SCRATCH + 1);
  if (former != MW_NONE && !mwi_outline_holds(o, m, former))
    tie_elsewhere(w, m, former);
  lua_settop(L, SCRATCH);
}

/* Ties what the fields of a member hold. */
static void scan(const looking *w, uint32_t m) {
  lua_State *L = w->L;
  if (mwb_alive(L, w->s, member_at(w, m)->obj) && lua_istable(L, -1)) {
    for (push_fields(w); mwb_next_field(L, SCRATCH + 2); lua_pop(L, 1)) {
      int type = lua_type(L, -1);
      if (type == LUA_TTABLE || type == LUA_TUSERDATA) tie(w, m, SCRATCH + 1);
    }
  }
  lua_settop(L, SCRATCH);
  mwi_outline_seen(&w->f->outline, m);
}

static void scan_all(const looking *w) {
  uint32_t m;
  while ((m = mwi_outline_next(&w->f->outline)) != 0) scan(w, m);
}

/* Makes the outline of what is there, by fields that no record has written. */
static void make_outline(const looking *w) {
  mw_engine *e = w->s->engine;
  mwi_outline *o = &w->f->outline;
  uint32_t i;
  mwi_outline_end(e, o);
  mwb_check(w->L, mwi_outline_begin(e, o, w->f->root));
  mwi_outline_look(e, o);
  scan_all(w);
  for (i = 0; i < w->n; i++) {
    const mw_entry *entry = last_of(w, &w->records[i]);
    uint32_t m = mwi_outline_find(o, entry->obj);
    mw_value key;
    if (m == 0 || aspect_of(entry) != MW_UPDATE) continue;
    push_part(w, entry, MW_KEY);
    key = mwb_key(w->L, w->s, SCRATCH + 1);
    mwi_outline_untie(e, o, m, &key);
    lua_settop(w->L, SCRATCH);
  }
  mwi_outline_resolve(o);
  mwi_outline_settle(e, o);
  w->f->lost = mw_reader_lost(e, w->f->id);
}

/* Notes which ties the look has written. */
static void note_written(const looking *w) {
  lua_State *L = w->L;
  const mwi_outline *o = &w->f->outline;
  uint32_t n;
  for (n = 0; n < w->n; n++) {
    record *r = &w->records[n];
    const mw_entry *entry = last_of(w, r);
    mw_value key;
    uint32_t i;
    if (r->member == 0) r->member = mwi_outline_find(o, entry->obj);
    if (r->member == 0 || aspect_of(entry) != MW_UPDATE ||
        entry->type[MW_NOW] != MW_TOTHER)
      continue;
    push_part(w, entry, MW_KEY);
    push_part(w, entry, MW_NOW);
    key = mwb_key(L, w->s, SCRATCH + 1);
    i = mwi_outline_tie_of(o, r->member, &key,
                           mwb_handle_of(L, w->s, SCRATCH + 2));
    lua_settop(L, SCRATCH);
    if (i == 0) continue;
    mwi_tie_at(o, i)->look = o->looks;
    mwi_tie_at(o, i)->at = r->last;
    mwi_tie_at(o, i)->own = (r->first == NONE) ? o->looks : 0;
  }
}

static void update_outline(const looking *w) {
  mwi_outline *o = &w->f->outline;
  uint32_t i;
  if (o->root == 0 || w->f->lost != mw_reader_lost(w->s->engine, w->f->id))
    make_outline(w);
  mwi_outline_look(w->s->engine, o);
  for (i = 0; i < w->n; i++) tie_record(w, &w->records[i]);
  mwi_outline_ways(o);
  if (o->unsure) scan_all(w);
  mwi_outline_resolve(o);
  scan_all(w);
  note_written(w);
}

/* }====================================================== */

/* {======================================================
** What the program has put in itself
** ======================================================= */

/* Does the program know the member since an entry of its own? */
static int is_own(const looking *w, uint32_t m) {
  const mwi_known *its = member_at(w, m);
  return its->own == w->f->outline.looks && its->put != NONE;
}

/* Does the program know the member otherwise than by being told in this look?
** All fields of other members are told of, sooner or later. */
static int is_known(const looking *w, uint32_t m) {
  const mwi_known *its = member_at(w, m);
  return !its->lost && its->told != w->f->outline.looks &&
         (!its->comes || is_own(w, m));
}

/* May the member have been written unseen since entry `i`?  A table that an
** open transaction has taken out may not be tracked. */
static int is_unseen(const looking *w, uint32_t m, uint32_t i) {
  mw_handle h = member_at(w, m)->obj;
  int tracked = !mwb_alive(w->L, w->s, h) || lua_isuserdata(w->L, -1) ||
                mwb_intercepting_at(w->L, w->s, -1) != MW_NONE;
  lua_settop(w->L, SCRATCH);
  return !tracked || member_at(w, m)->stale ||
         is_late(w->s, h, 2 * w->look->entries[i].seq);
}

/* Adds a member that the program has put in by entry `i`, for the first time in
** the look, to the list of such; with the number NONE if the program is to be
** told of the member all the same.  So it is with what is below. */
static void add_own(const looking *w, uint32_t m, uint32_t i, uint32_t *list) {
  mwi_known *its = member_at(w, m);
  if (!its->comes || its->own == w->f->outline.looks) return;
  its->own = w->f->outline.looks;
  its->put = (i == NONE || is_unseen(w, m, i)) ? NONE : i;
  its->work = *list;
  *list = m;
}

/* The program knows the object in a part of entry `i`, and what was below the
** object, since entry `put`; or not, if `put` is NONE. */
static void put_in(const looking *w, uint32_t i, int part, uint32_t put) {
  const mwi_outline *o = &w->f->outline;
  const mw_entry *entry = &w->look->entries[i];
  uint32_t m, list = 0, t;
  if (entry->type[part] != MW_TOTHER) return;
  push_part(w, entry, part);
  m = mwi_outline_find(o, mwb_handle_of(w->L, w->s, -1));
  lua_settop(w->L, SCRATCH);
  if (m != 0) add_own(w, m, put, &list);
  while ((m = list) != 0) {
    list = member_at(w, m)->work;
    put = member_at(w, m)->put;
    for (t = member_at(w, m)->outs; t != 0; t = mwi_tie_at(o, t)->next_out) {
      const mwi_tie *its = mwi_tie_at(o, t);
      if (its->look != o->looks || its->own == o->looks || its->at < put)
        add_own(w, its->child, put, &list);
    }
  }
}

/* Finds what the program knows by its own entries: what these put into what it
** knows, and what was below that; also if others have moved it since, which the
** first entry of a field says. */
static void find_own(const looking *w) {
  const mwi_outline *o = &w->f->outline;
  uint32_t i;
  for (i = 0; i < w->look->n; i++) {
    const mw_entry *entry = &w->look->entries[i];
    const mwi_known *its;
    uint32_t m;
    if (w->marks[i] == 0 || aspect_of(entry) != MW_UPDATE) continue;
    m = mwi_outline_find(o, entry->obj);
    if (m == 0) continue;
    its = member_at(w, m);
    if ((w->marks[i] & OWN) && (its->known || its->own == o->looks))
      put_in(w, i, MW_NOW,
             (is_own(w, m) || (its->known && !its->stale)) ? i : NONE);
    if ((w->marks[i] & FIRST) && its->own == o->looks)
      put_in(w, i, MW_OLD, its->put);
  }
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

static void add_item(looking *w, uint32_t first, uint32_t last, int kind) {
  item *its;
  if (w->n_items == w->size_items) {
    uint32_t size = 2 * w->size_items + 16;
    item *more = (item *)lua_newuserdatauv(w->L, size * sizeof(item), 0);
    if (w->n_items > 0) memcpy(more, w->items, w->n_items * sizeof(item));
    lua_replace(w->L, ITEMS);
    w->items = more;
    w->size_items = size;
  }
  its = &w->items[w->n_items++];
  its->first = first;
  its->last = last;
  its->kind = kind;
}

/* Adds an item of the object at `object`, and of the key and value on the top;
** leaves these. */
static void add_told(looking *w, int object, int kind) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  add_item(w, NONE, w->n_told + 1, kind);
  lua_pushvalue(L, object);
  lua_rawseti(L, TOLD, ++w->n_told);
  lua_pushvalue(L, top - 1);
  lua_rawseti(L, TOLD, ++w->n_told);
  lua_pushvalue(L, top);
  lua_rawseti(L, TOLD, ++w->n_told);
}

/* Returns the member of the value on the top if the program does not know it
** yet, or not any more; else 0. */
static uint32_t coming(const looking *w) {
  const mwi_outline *o = &w->f->outline;
  int type = lua_type(w->L, -1);
  const mwi_known *its;
  uint32_t m;
  if (o->root == 0 || (type != LUA_TTABLE && type != LUA_TUSERDATA)) return 0;
  m = mwi_outline_find(o, mwb_handle_of(w->L, w->s, -1));
  if (m == 0 || m == o->root) return 0;
  its = member_at(w, m);
  return (its->comes && !its->lost && !is_own(w, m)) ? m : 0;
}

static int is_told(const looking *w, uint32_t m) {
  return member_at(w, m)->told == w->f->outline.looks;
}

/* Tells of each field of a member, and of what is below and not known. */
static void tell(looking *w, uint32_t m) {
  lua_State *L = w->L;
  const mwi_outline *o = &w->f->outline;
  int top = lua_gettop(L);
  uint32_t last = m, child;
  member_at(w, m)->told = o->looks;
  member_at(w, m)->work = 0;
  for (; m != 0; m = member_at(w, m)->work) {
    if (mwb_alive(L, w->s, member_at(w, m)->obj) && lua_istable(L, -1)) {
      for (push_fields(w); mwb_next_field(L, top + 2); lua_pop(L, 1)) {
        child = coming(w);
        if (child != 0 && is_told(w, child)) child = 0;
        add_told(w, top + 1, child == 0 ? (int)MW_INSERT : (int)ATTACH);
        if (child == 0) continue;
        member_at(w, child)->told = o->looks;
        member_at(w, child)->work = 0;
        member_at(w, last)->work = child;
        last = child;
      }
    }
    lua_settop(L, top);
  }
}

/* Returns the kind of a record's change, or -1 if nothing has changed.  What a
** finaliser has written in the last look is in what the look has read, and is
** an entry of this one: so what seems not to have changed may have. */
static int kind_of(const looking *w, const record *r) {
  const mw_entry *first = first_of(w, r), *last = last_of(w, r);
  if (aspect_of(last) == MW_CALL) return MW_CALL;
  if (is_same_part(w, first, MW_OLD, last, MW_NOW)) {
    if (!w->f->ahead || aspect_of(last) == MW_METATABLE) return -1;
    return (last->type[MW_NOW] == MW_TABSENT) ? MW_DELETE : MW_UPDATE;
  }
  if (aspect_of(last) == MW_METATABLE) return MW_METATABLE;
  if (first->type[MW_OLD] == MW_TABSENT) return MW_INSERT;
  return (last->type[MW_NOW] == MW_TABSENT) ? MW_DELETE : MW_UPDATE;
}

/* Returns the member that a field holds after the record, if the program does
** not know the member; else 0. */
static uint32_t coming_with(const looking *w, const record *r) {
  const mw_entry *last = last_of(w, r);
  uint32_t m;
  if (w->f->root == MW_NONE || last->type[MW_NOW] != MW_TOTHER ||
      aspect_of(last) != MW_UPDATE)
    return 0;
  push_part(w, last, MW_NOW);
  m = coming(w);
  lua_pop(w->L, 1);
  return m;
}

/* Tells of a record.  For a table of which the program is told anew, the
** program needs to know all fields that hold the table. */
static void tell_record(looking *w, const record *r) {
  uint32_t first = r->first, m = coming_with(w, r);
  int kind = (first == NONE) ? -1 : kind_of(w, r);
  int told = m != 0 && is_told(w, m);
  int attaches = m != 0 && !told;
  if (told || attaches) {
    if (first == NONE) first = r->last;
    if (kind < 0) kind = MW_UPDATE;
  }
  if (kind < 0) return;
  add_item(w, first, r->last, attaches ? ATTACH : kind);
  if (attaches) tell(w, m);
}

/* Is the record about what the program knows, and news to it? */
static int is_news(const looking *w, const record *r) {
  const mwi_known *its;
  if (w->f->root == MW_NONE) return 1;
  if (r->member == 0 || !is_known(w, r->member)) return 0;
  its = member_at(w, r->member);
  return !is_own(w, r->member) || r->last > its->put;
}

/* Tells of the fields, not written, that hold a table which the program does
** not know any more. */
static void tell_again(looking *w, uint32_t m) {
  lua_State *L = w->L;
  const mwi_outline *o = &w->f->outline;
  uint32_t i = member_at(w, m)->ins, next;
  for (; i != 0; i = next) {
    const mwi_tie *t = mwi_tie_at(o, i);
    int top = lua_gettop(L), told = is_told(w, m), lives;
    next = t->next_in;
    if (t->look == o->looks || !is_known(w, t->parent)) continue;
    lives = mwb_alive(L, w->s, member_at(w, t->parent)->obj);
    mwb_push_key(L, w->s, &t->key);
    lives = mwb_alive(L, w->s, member_at(w, m)->obj) && lives;
    if (lives) add_told(w, top + 1, told ? AGAIN : ATTACH_AGAIN);
    lua_settop(L, top);
    if (lives && !told) tell(w, m);
  }
}

/* Tells of what the program knew and is below the root no more. */
static void tell_lost(looking *w) {
  lua_State *L = w->L;
  uint32_t m;
  for (m = w->f->outline.doubt; m != 0; m = member_at(w, m)->doubt) {
    if (!member_at(w, m)->lost || !member_at(w, m)->known) continue;
    if (mwb_alive(L, w->s, member_at(w, m)->obj)) {
      lua_pushnil(L);
      lua_pushnil(L);
      add_told(w, SCRATCH + 1, DETACH);
    }
    lua_settop(L, SCRATCH);
  }
}

static void tell_all(looking *w) {
  const mwi_outline *o = &w->f->outline;
  uint32_t i, m;
  if (w->f->filters && o->root != 0) find_own(w);
  if (o->root != 0 && member_at(w, o->root)->comes) tell(w, o->root);
  for (i = 0; i < w->n; i++)
    if (is_news(w, &w->records[i])) tell_record(w, &w->records[i]);
  for (m = o->came; m != 0; m = member_at(w, m)->came)
    if (member_at(w, m)->stale && !member_at(w, m)->lost) tell_again(w, m);
  tell_lost(w);
}

/* }====================================================== */

/* {======================================================
** Changes
** ======================================================= */

/* What the program walks through: see `next_change`. */
typedef struct walk {
  const mwb_look *look;
  const item *items;
  uint32_t n, at;
} walk;

/* Upvalues of `next_change`, after state and objects. */
enum { WALK = 3, WALK_PAGES, WALK_TOLD, WALK_ITEMS, WALK_LOOK };

/* Pushes the entry's part, whose page is in the upvalue. */
static void push_walked(lua_State *L, const walk *its, const mw_entry *entry,
                        int part) {
  if (entry->type[part] == MW_TOTHER) {
    lua_rawgeti(L, lua_upvalueindex(WALK_PAGES), mwb_page_in(its->look, entry));
    lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
    lua_replace(L, -2);
  } else {
    mwb_unpack(L, 0, entry, part);
  }
}

/* With object, key, old and new pushed: pushes the kind, and with an attachment
** the mark of the new value, if it has one.  Returns the number of values. */
static int push_kind(lua_State *L, mwb_state *s, int kind) {
  int64_t mark;
  if (kind == MW_METATABLE || kind == DETACH) {
    lua_pushstring(L, (kind == DETACH) ? "detach" : "class");
  } else if (kind == ATTACH || kind == ATTACH_AGAIN) {
    mark = mw_clock_generation(s->engine, mwb_marks(L, s),
                               mwb_handle_of(L, s, -1));
    lua_pushliteral(L, "attach");
    if (mark < 0) return 5;
    lua_pushstring(L, (mark % 2 == 0) ? "array" : "object");
    return 6;
  } else {
    mwb_push_kind(L, s, (kind == AGAIN) ? MW_UPDATE : kind);
  }
  return 5;
}

/* Pushes object, key, old, new and kind of what was told. */
static int push_told(lua_State *L, mwb_state *s, const item *its) {
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 1);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 2);
  if (its->kind == AGAIN || its->kind == ATTACH_AGAIN)
    lua_pushvalue(L, -1);
  else
    lua_pushnil(L);
  lua_insert(L, -2);
  return push_kind(L, s, its->kind);
}

/* iterator() -> object, key, old, new, kind, mark */
static int next_change(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  walk *its = (walk *)lua_touserdata(L, lua_upvalueindex(WALK));
  while (its->at < its->n && s->engine != NULL) {
    const item *the = &its->items[its->at++];
    const mw_entry *last;
    lua_settop(L, 0);
    if (the->first == NONE) return push_told(L, s, the);
    last = &its->look->entries[the->last];
    if (!mwi_identity_is_valid(&s->engine->identity, last->obj) ||
        lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(last->obj)) == LUA_TNIL)
      continue;
    push_walked(L, its, last, MW_KEY);
    push_walked(L, its, &its->look->entries[the->first], MW_OLD);
    push_walked(L, its, last, MW_NOW);
    return push_kind(L, s, the->kind);
  }
  return 0;
}

/* Pushes an iterator of the items. */
static void push_changes(const looking *w) {
  static const int kept[] = {PAGES, TOLD, ITEMS, ENTRIES};
  lua_State *L = w->L;
  walk *its;
  int i;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  its = (walk *)lua_newuserdatauv(L, sizeof(*its), 0);
  its->look = w->look;
  its->items = w->items;
  its->n = w->n_items;
  its->at = 0;
  for (i = 0; i < 4; i++) lua_pushvalue(L, kept[i]);
  lua_pushcclosure(L, next_change, WALK_LOOK);
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

/* Leaves the entries that the program wants. */
static void filter(const looking *w) {
  const mwi_outline *o = &w->f->outline;
  mwb_look *look = w->look;
  uint32_t i, n = 0;
  for (i = 0; i < look->n; i++) {
    const mw_entry *entry = &look->entries[i];
    if (w->f->root != MW_NONE && !(w->marks[i] & WAS_KNOWN)) {
      uint32_t m = mwi_outline_find(o, entry->obj);
      if (m == 0 || member_at(w, m)->lost) continue;
    }
    if (!w->f->filters || !is_unwanted(w, entry)) look->entries[n++] = *entry;
  }
  look->n = n;
}

static void note_known(const looking *w) {
  uint32_t i;
  for (i = 0; i < w->look->n; i++)
    if (mwi_outline_find(&w->f->outline, w->look->entries[i].obj) != 0)
      w->marks[i] |= WAS_KNOWN;
}

/* Makes what a look at the entries from `first` to `end` needs. */
static void begin_look(looking *w, lua_State *L, uint64_t first, uint64_t end,
                       int squashed) {
  size_t n = (size_t)(end - first), room;
  char *memory;
  memset(w, 0, sizeof(*w));
  w->L = L;
  w->f = (mwb_feed *)lua_touserdata(L, FEED);
  w->s = w->f->s;
  lua_settop(L, FEED);
  luaL_checkstack(L, 3 * LUA_MINSTACK, "look");
  w->ruled = mwb_push_question(L, w->s, MWB_DESCEND) ||
             mwi_reach_filter(w->s->engine, w->f->reach) != 0;
  lua_settop(L, FEED);
  w->look = mwb_push_look(L, w->s, first, end);
  lua_getiuservalue(L, ENTRIES, 1);
  if (!squashed && w->f->root == MW_NONE) n = 0; /* no records, no items */
  room = mwi_table_room((uint32_t)n);
  memory = (char *)lua_newuserdatauv(L, room + n * (sizeof(record) + 1), 0);
  mwi_table_lend(&w->table, memory, (uint32_t)n);
  w->records = (record *)(void *)(memory + room);
  w->marks = (uint8_t *)(w->records + n);
  memset(w->marks, 0, n);
  w->items = (item *)lua_newuserdatauv(L, (n + 1) * sizeof(item), 0);
  w->size_items = (uint32_t)n + 1;
  lua_newtable(L); /* TOLD */
  lua_pushboolean(L, 0);
  lua_getiuservalue(L, FEED, NOT_FROM);
  lua_pushliteral(L, "origin");
}

/* Has a look nothing to look at? */
static int is_idle(const mwb_feed *f) {
  const mw_engine *e = f->s->engine;
  const mwi_outline *o = &f->outline;
  return mw_reader_next(e, f->id) > mw_delivery_last(e) &&
         (f->root == MW_NONE ||
          (o->root != 0 && o->doubt == 0 && o->scan == 0 && o->came == 0 &&
           f->lost == mw_reader_lost(e, f->id)));
}

/* look(feed, squashed) -> iterator.  If that fails, the next look is at the
** same entries.  Nothing is below a root that has died. */
static int look(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mw_engine *e = f->s->engine;
  int squashed = lua_toboolean(L, 2), is_new = !is_idle(f);
  int has_root = f->root != MW_NONE && mwb_alive(L, f->s, f->root);
  uint64_t first = mw_reader_next(e, f->id), end = mw_delivery_last(e) + 1;
  looking w;
  if (f->root != MW_NONE && !has_root) {
    mwi_outline_end(e, &f->outline);
    first = end;
  }
  begin_look(&w, L, first, end, squashed);
  if (is_new && (squashed || has_root)) squash(&w);
  if (is_new && has_root) {
    if (!squashed) note_known(&w);
    update_outline(&w);
  }
  if (squashed) {
    tell_all(&w);
    push_changes(&w);
  } else {
    if (has_root || f->filters) filter(&w);
    lua_pushvalue(L, ENTRIES);
    mwb_push_entry_iterator(L, 0);
  }
  mw_reader_seek(e, f->id, end);
  if (is_new && has_root) mwi_outline_settle(e, &f->outline);
  mwb_push(L, f->s, MWB_LATER);
  f->ahead = has_root && lua_istable(L, -1);
  lua_pop(L, 1);
  return 1;
}

/* Calls a function with the feed at 1 and a value, and returns its result.  The
** policy's functions may be called, which may not look in their turn.  The root
** cannot die meanwhile. */
static int call_alone(lua_State *L, mwb_feed *f, lua_CFunction function,
                      int value) {
  int status;
  if (f->busy) return luaL_error(L, "the feed is being read");
  mwb_alive(L, f->s, f->root);
  mwb_push_function(L, f->s, function);
  lua_pushvalue(L, FEED);
  lua_pushboolean(L, value);
  mwb_begin_scan(f->s);
  f->busy = 1;
  status = lua_pcall(L, 2, 1, 0);
  f->busy = 0;
  return (status == LUA_OK) ? 1 : lua_error(L);
}

/* }====================================================== */

/* {======================================================
** Feeds
** ======================================================= */

static mwb_feed *check_feed(lua_State *L, const char *name) {
  mwb_state *s = mwb_enter_to_read(L);
  mwb_feed *f;
  f = (mwb_feed *)mwb_check_self(L, s, name, MWB_FEED, "feed");
  if (f->id == 0) luaL_error(L, "calling '%s' on a feed that is closed", name);
  lua_settop(L, FEED);
  return f;
}

static int take_look(lua_State *L, const char *name, int squashed) {
  mwb_feed *f = check_feed(L, name);
  mwb_enter(L);
  if (f->root != MW_NONE && !is_idle(f))
    return call_alone(L, f, look, squashed);
  lua_pushboolean(L, squashed);
  return look(L);
}

/* feed:read() -> iterator of entries */
static int feed_read(lua_State *L) { return take_look(L, "read", 0); }

/* feed:changes() -> iterator of object, key, old, new, kind, mark */
static int feed_changes(lua_State *L) { return take_look(L, "changes", 1); }

/* feed:lost() -> how many entries were forgotten */
static int feed_lost(lua_State *L) {
  const mwb_feed *f = check_feed(L, "lost");
  lua_pushinteger(L, (lua_Integer)mw_reader_lost(f->s->engine, f->id));
  return 1;
}

/* feed:seq() -> number of the last entry that was looked at */
static int feed_seq(lua_State *L) {
  const mwb_feed *f = check_feed(L, "seq");
  lua_pushinteger(L, (lua_Integer)mw_reader_next(f->s->engine, f->id) - 1);
  return 1;
}

/* feed:pending() -> how many entries the next look is at */
static int feed_pending(lua_State *L) {
  const mwb_feed *f = check_feed(L, "pending");
  mw_engine *e = f->s->engine;
  uint64_t next = mw_reader_next(e, f->id);
  lua_pushinteger(L, (lua_Integer)(mw_delivery_last(e) + 1 - next));
  return 1;
}

/* Returns another open feed of the root and `descend` of a feed, the one that
** has had a predecessor for the longest time; or NULL. */
static const mwb_feed *other_feed(const mwb_feed *f) {
  const mwb_feed *its, *found = NULL;
  for (its = f->s->readers->feeds; its != NULL; its = its->next)
    if (its != f && its->root == f->root && its->reach == f->reach &&
        (found == NULL || its->since < found->since))
      found = its;
  return found;
}

/* close(feed); again does nothing */
static int close_feed(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mwb_state *s = f->s;
  mwb_feed **at = &s->readers->feeds;
  if (f->id == 0 || s->engine == NULL || mwb_put_off(L, s)) return 0;
  if (f->busy) return luaL_error(L, "the feed is being read");
  mw_reader_close(s->engine, f->id);
  f->id = 0;
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (f->root == MW_NONE) return 0;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  mwi_outline_end(s->engine, &f->outline);
  if (f->reach != 0 && other_feed(f) == NULL &&
      mwi_identity_is_valid(&s->engine->identity, f->root))
    mwb_end_reach(L, s, f->root, f->reach);
  return 0;
}

static int feed_close(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  mwb_check_self(L, s, "close", MWB_FEED, "feed");
  return close_feed(L);
}

/* begin(feed, late): makes the outline of a feed with a root; since an earlier
** number if it is late */
static int begin(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mw_engine *e = f->s->engine;
  uint64_t first = mw_reader_next(e, f->id);
  int late = lua_toboolean(L, 2);
  looking w;
  begin_look(&w, L, first, mw_delivery_last(e) + 1, 1);
  squash(&w);
  make_outline(&w);
  if (late) doubt_late(f, first - 1);
  return 0;
}

/* include(root, nil, descend, feed): tracks what is below the root */
static int include(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, 4);
  f->root = mwb_identify(L, f->s, "feed", 1, 1);
  f->next = f->s->readers->feeds;
  f->s->readers->feeds = f;
  lua_settop(L, 3);
  mwb_begin_reach(L, f->s, 3, &f->reach);
  return 0;
}

/* open_root(feed, root, since or nil, descend or nil) -> whether there was such
** a feed since the number */
static int open_root(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  const mwb_feed *other;
  mwb_push_function(L, f->s, include);
  lua_pushvalue(L, 2);
  lua_pushnil(L);
  lua_pushvalue(L, 4);
  lua_pushvalue(L, FEED);
  lua_call(L, 4, 0);
  other = other_feed(f);
  f->since = (other != NULL) ? other->since : mw_delivery_last(f->s->engine);
  if (!lua_isnil(L, 3) &&
      (other == NULL || other->since > (uint64_t)lua_tointeger(L, 3))) {
    lua_pushboolean(L, 0);
    return 1;
  }
  call_alone(L, f, begin, !lua_isnil(L, 3));
  lua_pushboolean(L, 1);
  return 1;
}

/* open_feed(capacity, origin, root, since, descend) -> feed; or nil if not all
** entries since are kept, and whether they are, but the root had no feed */
static int open_feed(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer capacity = lua_tointeger(L, 1), since = lua_tointeger(L, 4);
  int status = LUA_OK, is_open = 1, i;
  mwb_feed *f;
  lua_settop(L, 5);
  if (capacity > UINT32_MAX / 2) capacity = UINT32_MAX / 2;
  mwb_open_delivery(L, s);
  f = (mwb_feed *)lua_newuserdatauv(L, sizeof(*f), 1);
  memset(f, 0, sizeof(*f));
  f->s = s;
  f->filters = !lua_isnil(L, 2);
  mwb_push(L, s, MWB_FEED);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, NOT_FROM);
  lua_replace(L, FEED);
  f->id = mw_reader_open(s->engine, (uint32_t)capacity, MW_WHOLE);
  if (f->id == 0) mwb_check(L, MW_NOMEM);
  mwb_need(s, MWB_APPENDS, 1);
  if (!lua_isnil(L, 4) &&
      mw_reader_seek(s->engine, f->id, (uint64_t)since + 1) != MW_OK) {
    close_feed(L);
    return 0;
  }
  if (!lua_isnil(L, 3)) {
    mwb_push_function(L, s, open_root);
    lua_pushvalue(L, FEED);
    for (i = 3; i <= 5; i++) lua_pushvalue(L, i);
    status = lua_pcall(L, 4, 1, 0);
    is_open = status == LUA_OK && lua_toboolean(L, -1);
  }
  if (!is_open) close_feed(L);
  if (status != LUA_OK) return lua_error(L);
  lua_pushnil(L);
  lua_pushboolean(L, 1);
  if (is_open) lua_pushvalue(L, FEED);
  return is_open ? 1 : 2;
}

void mwb_open_feeds(lua_State *L) {
  static const luaL_Reg functions[] = {{"open_feed", open_feed}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"read", feed_read}, {"changes", feed_changes}, {"lost", feed_lost},
      {"seq", feed_seq},   {"pending", feed_pending}, {"close", feed_close},
      {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__close", close_feed}, {"__gc", close_feed}, {NULL, NULL}};
  mwb_new_meta(L, MWB_FEED, "feed", meta, methods);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
