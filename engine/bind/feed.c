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
** something, and fields of tables that came below the root.
**
** A feed with a root has an outline: the objects that the program knows, as of
** the last look.  What is below the root is what is there as delivered, so the
** outline is made of delivered entries, and never asks the tree of tree.c.  In
** a look
**   1. the fields that were written get their ties in the outline;
**   2. what has lost all ways from the root is lost;
**   3. a table that came is linked, field by field, with what it held before
**      all open transactions;
**   4. the program is told: the changes of what it knew and knows, and all
**      fields of what it did not know.
** What was moved within a look is known still.  A table that was outside, so
** that it was not intercepted for some time, may have been written unseen: when
** it comes back, it is known no longer, see `mwb_feeds_doubt`.
**
** A feed that begins at an earlier number N trusts what the program has known
** since then, so each object that has a way since then must have been
** intercepted all the time.  Therefore the state has a column of numbers: an
** object is a base for feeds since N if its number is N or less.  The number is
** that of the last entry when the object began to be intercepted; or of the
** next entry when that ended, and when a snapshot of the object, as a root, had
** tables that nobody intercepted.  A later snapshot makes the object a base.
**
** A step may fail, for a policy's functions are called and memory is needed; so
** the reader goes on, and the outline is settled, when all else is done.  A
** feed that has lost entries, and one that begins at an earlier number, makes
** the outline anew, from what is there now by ways that were not written since.
*/
#include "feed.h"

#include <string.h>

#include "class.h"
#include "delivered.h"
#include "guard.h"
#include "identity.h"
#include "key.h"
#include "later.h"
#include "look.h"
#include "policy.h"
#include "shadow.h"
#include "trace.h"
#include "tree.h"
#include "watch.h"

#define NONE UINT32_MAX

/* How the root was tracked before the feed tracked it. */
enum { NOT_TRACKED, TRACKED_ALONE, TRACKED_BELOW };

struct mwb_feed {
  mwb_state *s;
  mwb_feed *next; /* of the open feeds with a root */
  mw_reader id;   /* 0: closed */
  mw_handle root; /* MW_NONE: what is written anywhere */
  uint64_t lost;  /* of the reader, when the outline was made */
  int before;     /* if not TRACKED_BELOW, the feed tracks the root */
  int filters;    /* are there entries that the program does not want? */
  int busy;       /* is there a look under way? 2: while the collector waits */
  uint64_t stamp; /* when the look began */
  mwi_outline outline;
};

/* User values of a feed.  The root only while the feed is opened: a feed keeps
** no object alive but those of its entries. */
enum { OF_ROOT = 1, NOT_FROM, USER_VALUES = NOT_FROM };

/* A field that was written since the last look. */
typedef struct record {
  uint32_t first; /* the first entry that the program wants, NONE for none */
  uint32_t last;
  uint32_t member; /* the object's, 0 for none or if not known yet */
  uint32_t tie;    /* the field's now, 0 for none */
} record;

/* What the program gets: of a record, or of `told` from the number `last`. */
typedef struct item {
  uint32_t first; /* NONE: of `told` */
  uint32_t last;
  int kind;
} item;

/* Kinds of items, next to enum mw_kind. */
enum { ATTACH = MW_KINDS, ATTACH_AGAIN, AGAIN };

/* The stack of a look. */
enum {
  FEED = 1,
  ENTRIES, /* a mwb_look */
  PAGES,   /* its user value */
  RECORDS,
  ITEMS,
  TOLD,
  DELIVERED, /* see mwb_push_delivered; false: not asked for yet */
  ORIGIN,    /* from which the program wants no entries */
  FIELD,     /* "origin" */
  ITERATOR,
  SCRATCH = ITERATOR
};

typedef struct looking {
  lua_State *L;
  mwb_state *s;
  mwb_feed *f;
  mwb_look *look;
  record *records;
  uint32_t n, mask; /* records, and numbers of slots - 1 */
  uint32_t *slots;  /* numbers of records */
  item *items;
  uint32_t n_items, size_items;
  uint32_t n_told;
} looking;

/* {======================================================
** Bases
** ======================================================= */

#define HEARD_PAGE (MWI_PAGE * sizeof(uint64_t))

/* Gives an object a number, unless it has a greater one.  The number that a
** dead object has left is low enough for the next object in the slot.  Without
** readers no number is good later. */
static void raise_base(mwb_state *s, mw_handle h, uint64_t number) {
  uint64_t *page;
  if (s->engine->reader.open == 0) return;
  page =
      (uint64_t *)mwi_column_need(s->engine, &s->heard, mw_slot(h), HEARD_PAGE);
  if (page == NULL)
    s->unheard = number;
  else if (page[mw_slot(h) % MWI_PAGE] < number)
    page[mw_slot(h) % MWI_PAGE] = number;
}

/* Is each member of the outline a base for a feed since the number `since`? */
static int are_bases(const mwb_feed *f, uint64_t since) {
  const mwb_state *s = f->s;
  const mwi_outline *o = &f->outline;
  uint32_t i, m;
  if (since < s->unheard) return 0;
  for (i = 0; i < o->n_heads; i++)
    for (m = o->heads[i]; m != 0; m = mwi_member_at(o, m)->chain) {
      uint32_t slot = mw_slot(mwi_member_at(o, m)->obj);
      const uint64_t *page = (uint64_t *)mwi_column_page(&s->heard, slot);
      if (page != NULL && page[slot % MWI_PAGE] > since) return 0;
    }
  return 1;
}

/* }====================================================== */

/* {======================================================
** Squashing
** ======================================================= */

/* What an entry is about: a field, the class, or the state of a userdata. */
static int aspect_of(const mw_entry *entry) {
  if (entry->kind == MW_METATABLE || entry->kind == MW_CALL) return entry->kind;
  return MW_UPDATE;
}

/* Pushes a part of an entry. */
static void push_part(const looking *w, const mw_entry *entry, int part) {
  lua_State *L = w->L;
  if (entry->type[part] == MW_TOTHER) {
    lua_rawgeti(L, PAGES, mwb_page_in(w->look, entry));
    lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
    lua_replace(L, -2);
  } else {
    mwb_unpack(L, NULL, 0, entry, part);
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
    lua_pushvalue(L, FIELD);
    lua_rawget(L, -2);
    is = lua_rawequal(L, -1, ORIGIN);
  }
  lua_settop(L, top);
  return is;
}

/* An entry that the program does not want is known to it: what the program
** wants begins after. */
static void squash(looking *w) {
  uint32_t i;
  for (i = 0; i < w->look->n; i++) {
    const mw_entry *entry = &w->look->entries[i];
    uint32_t at = hash_of(entry) & w->mask;
    record *r;
    while (w->slots[at] != NONE &&
           !is_same_field(w, entry,
                          &w->look->entries[w->records[w->slots[at]].last]))
      at = (at + 1) & w->mask;
    if (w->slots[at] == NONE) {
      w->slots[at] = w->n;
      w->records[w->n].member = 0;
      w->records[w->n++].first = NONE;
    }
    r = &w->records[w->slots[at]];
    r->last = i;
    if (w->f->filters && is_unwanted(w, entry))
      r->first = NONE;
    else if (r->first == NONE)
      r->first = i;
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

static mwi_member *member_at(const looking *w, uint32_t m) {
  return mwi_member_at(&w->f->outline, m);
}

/* The value on the top, which the object at `parent` has under the key below
** the top, is the field's now: ties the value if it is an object that belongs
** to what is below the root.  Returns the tie, or 0. */
static uint32_t tie(const looking *w, uint32_t m, int parent) {
  lua_State *L = w->L;
  mwi_outline *o = &w->f->outline;
  int value = lua_gettop(L), is_leaf = lua_type(L, value) == LUA_TUSERDATA;
  mw_value key;
  uint32_t i;
  if (is_leaf || mwb_enters(L, w->s, w->f->root, parent)) {
    mw_handle h = mwb_identify(L, w->s, "feed", value, 1);
    key = mwb_key_to_keep(L, w->s, value - 1);
    lua_settop(L, value);
    i = mwi_outline_tie(w->s->engine, o, m, &key, h, is_leaf);
    if (i == 0) mwb_check(L, MW_NOMEM);
    return i;
  }
  if (member_at(w, m)->outs == 0) return 0;
  key = mwb_key(L, w->s, value - 1);
  mwi_outline_untie(w->s->engine, o, m, &key);
  return 0;
}

/* Returns the tie of the field whose key is below the top, if the field holds
** the value on the top; or 0. */
static uint32_t tie_of(const looking *w, uint32_t m) {
  lua_State *L = w->L;
  int value = lua_gettop(L);
  mw_handle h = mwb_handle_of(L, w->s, value);
  mw_value key = mwb_key(L, w->s, value - 1);
  return mwi_outline_tie_of(&w->f->outline, m, &key, h);
}

/* Gives the field of a record its tie.  If the member `has_come` in this look,
** the member's fields have their ties already, by what they hold: that is not
** what the record says if the member was written unseen since. */
static void tie_record(const looking *w, record *r, int has_come) {
  lua_State *L = w->L;
  const mw_entry *entry = last_of(w, r);
  uint32_t m = mwi_outline_find(&w->f->outline, entry->obj), i;
  r->member = m;
  r->tie = 0;
  if (m == 0 || member_at(w, m)->unseen || aspect_of(entry) != MW_UPDATE)
    return;
  if (entry->type[MW_NOW] != MW_TOTHER && member_at(w, m)->outs == 0) return;
  if (mwb_alive(L, w->s, entry->obj)) {
    push_part(w, entry, MW_KEY);
    push_part(w, entry, MW_NOW);
    i = has_come ? tie_of(w, m) : tie(w, m, SCRATCH + 1);
    if (i != 0) {
      mwi_tie *t = mwi_tie_at(&w->f->outline, i);
      t->look = w->f->outline.looks;
      t->own = (r->first == NONE) ? t->look : 0;
      r->tie = i;
    }
  }
  lua_settop(L, SCRATCH);
}

/* Pushes the contents of the table on the top as delivered, and the keys that
** the policy ignores there, or nil. */
static void push_contents(const looking *w) {
  lua_State *L = w->L;
  int object = lua_gettop(L);
  if (lua_isboolean(L, DELIVERED)) {
    mwb_push_delivered(L, w->s);
    lua_replace(L, DELIVERED);
  }
  if (!(lua_istable(L, DELIVERED) && mwb_push_before(L, DELIVERED, object)) &&
      !mwb_push_shadow(L, object))
    lua_pushvalue(L, object);
  lua_pushnil(L);
  if ((w->s->needs & MWB_IGNORES) && mwb_push_question(L, w->s, MWB_IGNORED)) {
    lua_pushvalue(L, object);
    lua_call(L, 1, 1);
    lua_replace(L, object + 2);
  }
}

/* Is the key below the top one that the policy ignores, by the set at
** `ignored`? */
static int is_ignored(lua_State *L, int ignored) {
  int yes;
  if (!lua_istable(L, ignored)) return 0;
  lua_pushvalue(L, -2);
  yes = lua_rawget(L, ignored) != LUA_TNIL;
  lua_pop(L, 1);
  return yes;
}

/* Ties what the fields of a member hold. */
static void scan(const looking *w, uint32_t m) {
  lua_State *L = w->L;
  if (mwb_alive(L, w->s, member_at(w, m)->obj) && lua_istable(L, -1)) {
    push_contents(w);
    for (lua_pushnil(L); lua_next(L, SCRATCH + 2) != 0; lua_pop(L, 1)) {
      int type = lua_type(L, -1);
      if ((type == LUA_TTABLE || type == LUA_TUSERDATA) &&
          !is_ignored(L, SCRATCH + 3))
        tie(w, m, SCRATCH + 1);
    }
  }
  lua_settop(L, SCRATCH);
  mwi_outline_seen(&w->f->outline, m);
}

static void scan_all(const looking *w) {
  uint32_t m;
  while ((m = mwi_outline_next(&w->f->outline)) != 0) scan(w, m);
}

/* Makes the outline of what is there, by ways that no record has written. */
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

static void update_outline(const looking *w) {
  mwi_outline *o = &w->f->outline;
  uint32_t i;
  if (o->root == 0 || w->f->lost != mw_reader_lost(w->s->engine, w->f->id))
    make_outline(w);
  mwi_outline_look(w->s->engine, o);
  for (i = 0; i < w->n; i++) tie_record(w, &w->records[i], 0);
  mwi_outline_ways(o);
  if (o->unsure) scan_all(w);
  mwi_outline_resolve(o);
  scan_all(w);
  if (!w->f->filters) return;
  for (i = 0; i < w->n; i++) /* of members that have come: see `find_own` */
    if (w->records[i].tie == 0) tie_record(w, &w->records[i], 1);
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
  uint32_t m = 0;
  if (o->root == 0 || (type != LUA_TTABLE && type != LUA_TUSERDATA)) return 0;
  m = mwi_outline_find(o, mwb_handle_of(w->L, w->s, -1));
  return (m == 0 || m == o->root || !member_at(w, m)->comes ||
          member_at(w, m)->lost)
             ? 0
             : m;
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
      push_contents(w);
      for (lua_pushnil(L); lua_next(L, top + 2) != 0; lua_pop(L, 1)) {
        if (is_ignored(L, top + 3)) continue;
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

/* Returns the kind of a record's change, or -1 if nothing has changed. */
static int kind_of(const looking *w, const record *r) {
  const mw_entry *first = first_of(w, r), *last = last_of(w, r);
  if (aspect_of(last) == MW_METATABLE) return -1; /* a class is no field */
  if (aspect_of(last) == MW_CALL) return MW_CALL;
  if (is_same_part(w, first, MW_OLD, last, MW_NOW)) return -1;
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
  int attaches = m != 0 && !told && (first != NONE || member_at(w, m)->stale);
  if (told || attaches) {
    if (first == NONE) first = r->last;
    if (kind < 0) kind = MW_UPDATE;
  }
  if (kind < 0) return;
  add_item(w, first, r->last, attaches ? ATTACH : kind);
  if (attaches) tell(w, m);
}

/* Does the program know the object of the record?  Or, of those that come, does
** the program know the object by a write of its own, which nobody tells of? */
static int is_known(const looking *w, const record *r, int comes) {
  uint32_t m = r->member;
  const mwi_member *its;
  if (w->f->root == MW_NONE) return !comes;
  if (m == 0) m = mwi_outline_find(&w->f->outline, last_of(w, r)->obj);
  if (m == 0) return 0;
  its = member_at(w, m);
  return !its->lost && !is_told(w, m) &&
         (comes ? its->own == w->f->outline.looks : !its->comes);
}

/* Adds the child of a tie to the list of what the program knows by its own
** writes, unless somebody tells of the child. */
static void add_own(const looking *w, const mwi_tie *t, uint32_t *list) {
  const mwi_outline *o = &w->f->outline;
  mwi_member *child = member_at(w, t->child);
  if (!child->comes || child->lost || child->stale || is_told(w, t->child) ||
      child->own == o->looks)
    return;
  child->own = o->looks;
  child->work = *list;
  *list = t->child;
}

/* Finds what the program knows by its own writes: the tables that it has put
** below what it knows, and all below these but what others have put there. */
static void find_own(const looking *w) {
  const mwi_outline *o = &w->f->outline;
  uint32_t i, m, list = 0;
  for (i = 0; i < w->n; i++) {
    const record *r = &w->records[i];
    if (r->first == NONE && r->tie != 0 && is_known(w, r, 0))
      add_own(w, mwi_tie_at(o, r->tie), &list);
  }
  while ((m = list) != 0) {
    list = member_at(w, m)->work;
    for (i = member_at(w, m)->outs; i != 0; i = mwi_tie_at(o, i)->next_out)
      if (mwi_tie_at(o, i)->look != o->looks ||
          mwi_tie_at(o, i)->own == o->looks)
        add_own(w, mwi_tie_at(o, i), &list);
  }
}

/* Does the program know the member otherwise than by this look?  All fields of
** other members are told of, sooner or later. */
static int is_known_before(const looking *w, uint32_t m) {
  const mwi_member *its = member_at(w, m);
  return !its->lost && !is_told(w, m) &&
         (!its->comes || its->own == w->f->outline.looks);
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
    if (t->look == o->looks || !is_known_before(w, t->parent)) continue;
    lives = mwb_alive(L, w->s, member_at(w, t->parent)->obj);
    mwb_push_key(L, w->s, &t->key); /* nil if it was weak, and has died */
    lives = lives && !lua_isnil(L, -1);
    lives = mwb_alive(L, w->s, member_at(w, m)->obj) && lives;
    if (lives) add_told(w, top + 1, told ? AGAIN : ATTACH_AGAIN);
    lua_settop(L, top);
    if (lives && !told) tell(w, m);
  }
}

static void tell_all(looking *w) {
  const mwi_outline *o = &w->f->outline;
  uint32_t i, m;
  if (o->root != 0 && member_at(w, o->root)->comes) tell(w, o->root);
  for (i = 0; i < w->n; i++)
    if (is_known(w, &w->records[i], 0)) tell_record(w, &w->records[i]);
  if (o->root == 0) return;
  if (w->f->filters) find_own(w);
  for (i = 0; w->f->filters && i < w->n; i++)
    if (is_known(w, &w->records[i], 1) ||
        (w->records[i].first == NONE && is_known(w, &w->records[i], 0)))
      tell_record(w, &w->records[i]);
  for (m = o->came; m != 0; m = member_at(w, m)->came)
    if (member_at(w, m)->stale && !member_at(w, m)->lost) tell_again(w, m);
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

#define KNOWN 0x80 /* in `kind`: was the object known before the look? */

/* Leaves the entries that the program wants. */
static void filter(const looking *w) {
  const mwi_outline *o = &w->f->outline;
  mwb_look *look = w->look;
  uint32_t i, n = 0;
  for (i = 0; i < look->n; i++) {
    mw_entry *entry = &look->entries[i];
    if (w->f->root != MW_NONE && !(entry->kind & KNOWN)) {
      uint32_t m = mwi_outline_find(o, entry->obj);
      if (m == 0 || member_at(w, m)->lost) continue;
    }
    entry->kind &= (uint8_t)~KNOWN;
    if (!w->f->filters || !is_unwanted(w, entry)) look->entries[n++] = *entry;
  }
  look->n = n;
}

static void note_known(const looking *w) {
  uint32_t i;
  for (i = 0; i < w->look->n; i++)
    if (mwi_outline_find(&w->f->outline, w->look->entries[i].obj) != 0)
      w->look->entries[i].kind |= KNOWN;
}

/* What the program walks through: see `next_change`. */
typedef struct walk {
  const mwb_look *look;
  const item *items;
  uint32_t n, at;
} walk;

/* Upvalues of `next_change`, after state and objects. */
enum { WALK = 3, WALK_PAGES, WALK_TOLD };

/* Pushes the entry's part, whose page is in the upvalue. */
static void push_walked(lua_State *L, const walk *its, const mw_entry *entry,
                        int part) {
  if (entry->type[part] == MW_TOTHER) {
    lua_rawgeti(L, lua_upvalueindex(WALK_PAGES), mwb_page_in(its->look, entry));
    lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
    lua_replace(L, -2);
  } else {
    mwb_unpack(L, NULL, 0, entry, part);
  }
}

static void push_item_kind(lua_State *L, const mwb_state *s, int kind) {
  if (kind < MW_KINDS)
    mwb_push_kind(L, s, kind);
  else if (kind == AGAIN)
    mwb_push_kind(L, s, MW_UPDATE);
  else
    lua_pushliteral(L, "attach");
}

/* Pushes object, key, old, new and kind of what was told. */
static int push_told(lua_State *L, const mwb_state *s, const item *its) {
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 1);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 2);
  if (its->kind == AGAIN || its->kind == ATTACH_AGAIN)
    lua_pushvalue(L, -1);
  else
    lua_pushnil(L);
  lua_insert(L, -2);
  push_item_kind(L, s, its->kind);
  return 5;
}

/* iterator() -> object, key, old, new, kind */
static int next_change(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
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
    push_item_kind(L, s, the->kind);
    return 5;
  }
  return 0;
}

/* Pushes an iterator of changes, which are still to come. */
static void push_changes(lua_State *L) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  memset(lua_newuserdatauv(L, sizeof(walk), 2), 0, sizeof(walk));
  lua_pushvalue(L, ENTRIES);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, PAGES);
  lua_pushvalue(L, TOLD);
  lua_pushcclosure(L, next_change, WALK_TOLD);
}

/* The changes are the items, which the iterator keeps. */
static void fill_changes(const looking *w) {
  lua_State *L = w->L;
  walk *its;
  lua_getupvalue(L, ITERATOR, WALK);
  its = (walk *)lua_touserdata(L, -1);
  its->look = w->look;
  its->items = w->items;
  its->n = w->n_items;
  lua_pushvalue(L, ITEMS);
  lua_setiuservalue(L, -2, 2);
  lua_pop(L, 1);
}

/* Makes what a look at `n` entries needs. */
static void prepare(looking *w, uint64_t first, uint64_t end, int squashed) {
  lua_State *L = w->L;
  size_t n = (size_t)(end - first), slots = 16;
  if (!lua_checkstack(L, 3 * LUA_MINSTACK)) mwb_check(L, MW_NOMEM);
  w->look = mwb_new_look(L, w->s, first, end);
  lua_getiuservalue(L, ENTRIES, 1);
  if (!squashed && w->f->root == MW_NONE) n = 0; /* no records, no items */
  while (slots < 2 * n) slots *= 2;
  w->records = (record *)lua_newuserdatauv(
      L, n * sizeof(record) + slots * sizeof(uint32_t), 0);
  w->slots = (uint32_t *)(void *)(w->records + n);
  memset(w->slots, 0xFF, slots * sizeof(uint32_t));
  w->mask = (uint32_t)slots - 1;
  w->items = (item *)lua_newuserdatauv(L, (n + 1) * sizeof(item), 0);
  w->size_items = (uint32_t)n + 1;
  lua_newtable(L); /* TOLD */
  lua_pushboolean(L, 0);
  lua_getiuservalue(L, FEED, NOT_FROM);
  lua_pushliteral(L, "origin");
  if (squashed) {
    push_changes(L);
  } else {
    lua_pushvalue(L, ENTRIES);
    mwb_push_entry_iterator(L, 0);
  }
}

/* Moves when something is written. */
static uint64_t stamp_of(const mwb_state *s) {
  return s->engine->journal.seq + s->engine->reader.last;
}

/* Looks at the entries from `first` to `end`.  If that fails, the next look is
** at the same entries.  Without a root no memory is needed. */
static void look_at(looking *w, uint64_t first, uint64_t end, int squashed) {
  mw_engine *e = w->s->engine;
  mwi_outline *o = &w->f->outline;
  int has_root = w->f->root != MW_NONE;
  mwb_fill_look(w->L, w->s, ENTRIES, first, end);
  if (has_root && !mwb_alive(w->L, w->s, w->f->root)) {
    mwi_outline_end(e, o); /* nothing is below what has died */
    w->look->n = 0;
    has_root = 0;
  }
  lua_settop(w->L, SCRATCH);
  if (squashed || has_root) squash(w);
  if (has_root) {
    if (!squashed) note_known(w);
    update_outline(w);
  }
  if (squashed) {
    tell_all(w);
    fill_changes(w);
  } else if (has_root || w->f->filters) {
    filter(w);
  }
  if (w->f->busy == 1 && w->f->stamp != stamp_of(w->s))
    luaL_error(w->L, "something was written during a look");
  mw_reader_seek(e, w->f->id, end);
  if (has_root) mwi_outline_settle(e, o);
}

static int call_busy(lua_State *L, mwb_feed *f, lua_CFunction function,
                     int value, int busy) {
  int status;
  mwb_push_function(L, f->s, function);
  lua_pushvalue(L, FEED);
  lua_pushboolean(L, value);
  f->stamp = stamp_of(f->s);
  f->busy = busy;
  status = lua_pcall(L, 2, 1, 0);
  f->busy = 0;
  return status;
}

/* Calls a function with the feed at 1 and a value, and returns its result.  The
** root cannot die meanwhile.  A finaliser might write, and what was read would
** not be of one moment: then the function is called again while the collector
** waits.  At first the collector runs, because a collector that had to wait
** begins a cycle afterwards, before its time. */
static int call_alone(lua_State *L, mwb_feed *f, lua_CFunction function,
                      int value) {
  int had_outline = f->outline.root != 0, top, status;
  uint64_t lost = f->lost;
  if (f->busy) return luaL_error(L, "the feed is being read");
  mwb_alive(L, f->s, f->root);
  top = lua_gettop(L);
  status = call_busy(L, f, function, value, 1);
  if (f->stamp != stamp_of(f->s)) {
    int runs = lua_gc(L, LUA_GCISRUNNING, 0);
    lua_settop(L, top);
    if (!had_outline || f->lost != lost)
      f->lost = UINT64_MAX; /* the outline has to be made once more */
    lua_gc(L, LUA_GCSTOP, 0);
    status = call_busy(L, f, function, value, 2);
    if (runs) lua_gc(L, LUA_GCRESTART, 0);
  }
  return (status == LUA_OK) ? 1 : lua_error(L);
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

/* look(feed, squashed) -> iterator.  Where there is nothing to look at, the
** collector may run. */
static int look(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  int squashed = lua_toboolean(L, 2);
  uint64_t first, end;
  looking w;
  if (f->root != MW_NONE && !f->busy && !is_idle(f))
    return call_alone(L, f, look, squashed);
  do {
    memset(&w, 0, sizeof(w));
    w.L = L;
    w.s = s;
    w.f = f;
    lua_settop(L, FEED);
    first = mw_reader_next(s->engine, f->id);
    end = mw_delivery_last(s->engine) + 1;
    prepare(&w, first, end, squashed);
    if (f->id == 0) return luaL_error(L, "the feed is closed");
  } while (mw_reader_next(s->engine, f->id) != first ||
           mw_delivery_last(s->engine) + 1 != end);
  if (!is_idle(f)) {
    if (f->root != MW_NONE && !f->busy) /* a finaliser has written */
      return call_alone(L, f, look, squashed);
    look_at(&w, first, end, squashed);
  } else if (squashed) {
    fill_changes(&w); /* there are none */
  }
  lua_settop(L, ITERATOR);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Feeds
** ======================================================= */

static mwb_feed *check_feed(lua_State *L, const char *name) {
  mwb_state *s = mwb_enter_to_read(L);
  mwb_feed *f;
  mwb_check_self(L, s, name, MWB_FEED, "feed");
  f = (mwb_feed *)lua_touserdata(L, FEED);
  if (f->id == 0) luaL_error(L, "calling '%s' on a feed that is closed", name);
  lua_settop(L, FEED);
  return f;
}

static int take_look(lua_State *L, const char *name, int squashed) {
  mwb_feed *f = check_feed(L, name);
  mwb_enter(L);
  if (f->busy) return luaL_error(L, "the feed is being read");
  lua_pushboolean(L, squashed);
  return look(L);
}

/* feed:read() -> iterator of entries */
static int feed_read(lua_State *L) { return take_look(L, "read", 0); }

/* feed:changes() -> iterator of object, key, old, new, kind */
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

/* Returns the open feed of a root that tracks it, or else any; or NULL. */
static mwb_feed *feed_of(const mwb_state *s, mw_handle h) {
  mwb_feed *f, *any = NULL;
  for (f = s->feeds; f != NULL; f = f->next) {
    if (f->root != h) continue;
    if (f->before != TRACKED_BELOW) return f;
    any = f;
  }
  return any;
}

void mwb_feeds_doubt(mwb_state *s, mw_handle h) {
  mwb_feed *f;
  uint64_t last = mw_delivery_last(s->engine);
  for (f = s->feeds; f != NULL; f = f->next)
    mwi_outline_doubt(s->engine, &f->outline, h);
  s->hearings++;
  raise_base(s, h, last);
}

void mwb_feeds_forget(const mwb_state *s, mw_handle h) {
  mwb_feed *f;
  for (f = s->feeds; f != NULL; f = f->next)
    mwi_outline_forget(s->engine, &f->outline, h);
}

void mwb_feeds_miss(mwb_state *s, mw_handle h) {
  raise_base(s, h, mw_delivery_last(s->engine) + 1);
}

void mwb_feeds_see(mwb_state *s, mw_handle h) {
  uint64_t last = mw_delivery_last(s->engine);
  uint64_t *page = (uint64_t *)mwi_column_page(&s->heard, mw_slot(h));
  if (page != NULL && page[mw_slot(h) % MWI_PAGE] > last)
    page[mw_slot(h) % MWI_PAGE] = last;
}

/* miss(root): a snapshot was taken of a root and of tables that nobody
** intercepts */
static int miss(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  if (s->engine->reader.open == 0) return 0;
  mwb_feeds_miss(s, mwb_identify(L, s, "snapshot", 1, 1));
  return 0;
}

void mwb_free_hearings(mwb_state *s) {
  mwi_column_drop(s->engine, &s->heard, HEARD_PAGE);
}

size_t mwb_feeds_bytes(const mwb_state *s) {
  size_t bytes = mwi_column_bytes(&s->heard, HEARD_PAGE);
  const mwb_feed *f;
  for (f = s->feeds; f != NULL; f = f->next)
    bytes += mwi_outline_bytes(&f->outline);
  return bytes;
}

void mwb_feeds_claim(const mwb_state *s, mw_handle h, int deep) {
  mwb_feed *f = feed_of(s, h);
  int how = deep ? TRACKED_BELOW : TRACKED_ALONE;
  if (f != NULL && f->before < how) f->before = how;
}

/* Tracks the root at 1 deeply. */
static void track_root(lua_State *L, const mwb_state *s, int root) {
  mwb_push_function(L, s, mwb_track);
  lua_pushvalue(L, root);
  lua_createtable(L, 0, 1);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "deep");
  lua_call(L, 2, 0);
}

int mwb_feeds_keep(lua_State *L, mwb_state *s, mw_handle h) {
  mwb_feed *f = feed_of(s, h);
  if (f == NULL) return 0;
  if (mwb_object_of(s, h)->tracked != 2) track_root(L, s, 1);
  mwi_tree_end_roots(s->engine, h, 1);
  f->before = NOT_TRACKED;
  return 1;
}

/* How is the root tracked? */
static int tracked_how(const mwb_state *s, mw_handle h) {
  const mwi_object *r = mwb_object_of(s, h);
  mw_handle root;
  mw_reach reach;
  if (r == NULL || !r->tracked) return NOT_TRACKED;
  if (r->tracked == 2) return TRACKED_BELOW;
  reach = mw_tree_reach(s->engine, h);
  return (reach != 0 && mw_reach_rule(s->engine, reach, &root) != 0)
             ? TRACKED_BELOW
             : TRACKED_ALONE;
}

/* Ends that the feed tracks the root, unless another feed needs that. */
static void untrack_root(lua_State *L, mwb_feed *f) {
  mwb_state *s = f->s;
  mwb_feed *other = feed_of(s, f->root);
  mwi_object *r = mwb_object_of(s, f->root);
  if (f->before == TRACKED_BELOW || r == NULL) return;
  if (other != NULL) {
    other->before = f->before;
  } else if (f->before == TRACKED_ALONE) {
    r->tracked = 1;
    mw_root_end_silent(s->engine, f->root);
    mwb_let_go(L, s, SIZE_MAX);
  } else {
    mwb_push_function(L, s, mwb_end_track);
    if (mwb_alive(L, s, f->root)) lua_call(L, 1, 0);
  }
}

/* close(feed); again does nothing */
static int close_feed(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mwb_state *s = f->s;
  mwb_feed **at = &s->feeds;
  if (f->id == 0 || s->engine == NULL || mwb_put_off(L, s)) return 0;
  if (f->busy) return luaL_error(L, "the feed is being read");
  mw_reader_close(s->engine, f->id);
  f->id = 0;
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (f->root == MW_NONE) return 0;
  while (*at != NULL && *at != f) at = &(*at)->next;
  if (*at != NULL) *at = f->next;
  mwi_outline_end(s->engine, &f->outline);
  untrack_root(L, f);
  return 0;
}

static int feed_close(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  mwb_check_self(L, s, "close", MWB_FEED, "feed");
  return close_feed(L);
}

/* begin(feed): makes the outline of a feed with a root */
static int begin(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  uint64_t first = mw_reader_next(s->engine, f->id);
  uint64_t end = mw_delivery_last(s->engine) + 1;
  looking w;
  memset(&w, 0, sizeof(w));
  w.L = L;
  w.s = s;
  w.f = f;
  lua_settop(L, FEED);
  prepare(&w, first, end, 1);
  mwb_fill_look(L, s, ENTRIES, first, end);
  squash(&w);
  make_outline(&w);
  return 0;
}

/* start(feed, since) -> whether the root is a base for a feed since a number:
** what opening a feed with a root does with the root */
static int start(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mwb_state *s = f->s;
  uint64_t since = (uint64_t)lua_tointeger(L, 2), hearings = s->hearings;
  int is_late = !lua_isnil(L, 2), is_base;
  lua_settop(L, FEED);
  lua_getiuservalue(L, FEED, OF_ROOT);
  f->root = mwb_identify(L, s, "feed", 2, 1);
  f->before = tracked_how(s, f->root);
  if (f->before != TRACKED_BELOW) {
    int before = f->before;
    f->before = TRACKED_BELOW; /* in case that this fails */
    track_root(L, s, 2);
    f->before = before;
  }
  f->next = s->feeds;
  s->feeds = f;
  lua_settop(L, FEED);
  is_base = !is_late || s->hearings == hearings;
  call_alone(L, f, begin, 0);
  lua_pushboolean(L, is_base && (!is_late || are_bases(f, since)));
  return 1;
}

/* Opens the feed at 1, which has a root, since the number at 2.  Returns
** whether the root is a base for such a feed; if not, the feed is closed. */
static int open_root(lua_State *L, const mwb_state *s) {
  int status;
  mwb_push_function(L, s, start);
  lua_pushvalue(L, FEED);
  lua_pushvalue(L, 2);
  status = lua_pcall(L, 2, 1, 0);
  if (status == LUA_OK && lua_toboolean(L, -1)) return 1;
  lua_replace(L, 2);
  lua_settop(L, 2);
  close_feed(L);
  lua_settop(L, 2);
  return (status == LUA_OK) ? 0 : lua_error(L);
}

/* open_feed(capacity, root, origin, since) -> feed; or nil if not all entries
** since are kept, and whether they are, but not all that was written */
static int open_feed(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer capacity = lua_tointeger(L, 1), since = lua_tointeger(L, 4);
  mwb_feed *f;
  lua_settop(L, 4);
  f = (mwb_feed *)lua_newuserdatauv(L, sizeof(*f), USER_VALUES);
  memset(f, 0, sizeof(*f));
  f->s = s;
  f->filters = !lua_isnil(L, 3);
  mwb_push(L, s, MWB_FEED);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, OF_ROOT);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, NOT_FROM);
  if (capacity > UINT32_MAX / 2) capacity = UINT32_MAX / 2;
  mwb_open_delivery(L, s);
  f->id = mw_reader_open(s->engine, (uint32_t)capacity, MW_WHOLE);
  if (f->id == 0) mwb_check(L, MW_NOMEM);
  mwb_need(s, MWB_APPENDS, 1);
  lua_replace(L, FEED);
  if (!lua_isnil(L, 4) &&
      mw_reader_seek(s->engine, f->id, (uint64_t)since + 1) != MW_OK) {
    close_feed(L);
    return 0;
  }
  if (!lua_isnil(L, 2)) {
    lua_replace(L, 2);
    if (!open_root(L, s)) {
      lua_pushnil(L);
      lua_pushboolean(L, 1);
      return 2;
    }
    lua_pushnil(L);
    lua_setiuservalue(L, FEED, OF_ROOT);
  }
  lua_settop(L, FEED);
  return 1;
}

void mwb_open_feeds(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open_feed", open_feed}, {"miss", miss}, {NULL, NULL}};
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
