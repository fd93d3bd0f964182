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
** A feed with a root knows, for each object, whether the program knows it: a
** column over the slots, as of the last look.  The feed also has a reach in
** tree.c, which logs what becomes a member and what ceases to be one.  That is
** the graph of now, and the program is told of what is there as delivered; both
** are the same while no open transaction has written a table.  So a look
** compares the logged objects with the column; or else, and where entries or
** the log were lost, all that is below the root as delivered.  What has come
** or gone are the *news*, a table that lives as long as the look.  The program
** is told of the changes of what it knew and knows, of all fields of what it
** did not know, and of what it knew that has gone.
**
** Invariant: what the program knows has a shadow, also after it has left, until
** the look that says so.  So no write to it is missed, and what was moved or
** away between two looks is known still.
**
** What the program has put in itself, as the origin from which it wants no
** entries, it knows, from that entry on: see `find_own`.
**
** A feed that begins at an earlier number has a predecessor: a feed of the same
** root and `descend` that was open all the time.  So what is below the root by
** fields that were not written since then is what the program knows.  If a
** table among these has become intercepted later, which a column of numbers
** says, nobody knows what it held, and there is no such feed.
**
** A policy's functions are called, which may fail; so the reader goes on, and
** the news become what is known, when all else is done.
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
  mwb_feed *next;   /* of the open feeds with a root */
  mw_reader id;     /* 0: closed */
  mw_handle root;   /* MW_NONE: what is written anywhere */
  mw_reach reach;   /* of the root; 0: none yet */
  uint64_t since;   /* from this number on the root has had such a feed */
  uint64_t lost;    /* of the reader, when `known` was made */
  int filters;      /* are there entries that the program does not want? */
  int busy;         /* is there a look under way? */
  int ahead;        /* has the last look perhaps read what is told of later? */
  int moved;        /* was the tree another than what was delivered? */
  mwi_column known; /* by slot: the object, if the program knows it */
  mwi_pool news;    /* of a look */
  mwi_table table;  /* object -> news */
};

/* An object that is not below the root as it was at the last look. */
typedef struct news {
  uint32_t chain; /* the next one, in a walk */
  uint32_t put;   /* with `own`, the program knows it from this entry on; NONE:
                  ** it was written unseen since */
  mw_handle obj;
  int comes, goes; /* neither: it has been there in between */
  int told;        /* have its fields been told? */
  int own;         /* has the program put it in itself? */
} news;

/* The user values of a feed: the origin from which it wants no entries, and for
** userdata that were seen below the root a table that has held them, both held
** weakly.  A feed keeps no object alive but those of its entries. */
enum { NOT_FROM = 1, LEAVES };

/* A field that was written since the last look. */
typedef struct record {
  uint32_t first; /* the first entry that the program wants, NONE for none */
  uint32_t last;
} record;

/* What is known of an entry: it is not wanted; it is the first one of its
** field. */
enum { OWN = 1, FIRST = 2 };

/* What the program gets: of a record, or of `told` from the number `last`. */
typedef struct item {
  uint32_t first; /* NONE: of `told` */
  uint32_t last;
  int kind;
} item;

/* Kinds of items, next to enum mw_kind. */
enum { ATTACH = MW_KINDS, DETACH };

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
  uint32_t logged; /* by the reach, up to this look */
  int moved;       /* is the tree another than what is delivered? */
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
void mwb_note_heard(mwb_state *s, mw_handle h) {
  uint64_t *page,
      last = 2 * mw_delivery_last(s->engine) + 1 + (s->watch->storing > 0);
  if (s->readers->feeds == NULL) return;
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

void mwb_free_hearings(mwb_state *s) {
  mwi_column_drop(s->engine, &s->readers->heard, HEARD_PAGE);
}

/* }====================================================== */

/* {======================================================
** Squashing
** ======================================================= */

/* What an entry is about: a field, the class, or the state of a userdata. */
static int aspect_of(const mw_entry *entry) {
  return mwi_is_of_field(entry->kind) ? (int)MW_UPDATE : entry->kind;
}

/* Pushes a part of an entry of a look, whose pages are at `pages`. */
static void push_from(lua_State *L, int pages, const mwb_look *of,
                      const mw_entry *entry, int part) {
  if (entry->type[part] == MW_TOTHER) {
    lua_rawgeti(L, pages, mwb_page_in(of, entry));
    lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
    lua_replace(L, -2);
  } else {
    mwb_unpack(L, 0, entry, part);
  }
}

static void push_part(const looking *w, const mw_entry *entry, int part) {
  push_from(w->L, PAGES, w->look, entry, part);
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
** What the program knows, and what is news
** ======================================================= */

#define KNOWN_PAGE (MWI_PAGE * sizeof(mw_handle))

static mw_handle *known_at(const mwb_feed *f, mw_handle h) {
  mw_handle *page = (mw_handle *)mwi_column_page(&f->known, mw_slot(h));
  return (page == NULL) ? NULL : &page[mw_slot(h) % MWI_PAGE];
}

static int knows(const mwb_feed *f, mw_handle h) {
  const mw_handle *its = known_at(f, h);
  return its != NULL && *its == h;
}

int mwb_is_known(const mwb_state *s, mw_handle h) {
  const mwb_feed *f = s->readers->feeds;
  while (f != NULL &&
         !(knows(f, h) && mwi_identity_is_valid(&s->engine->identity, f->root)))
    f = f->next;
  return f != NULL;
}

/* Makes room for what is known of an object. */
static mw_handle *need_known(const looking *w, mw_handle h) {
  if (mwi_column_need(w->s->engine, &w->f->known, mw_slot(h), KNOWN_PAGE) ==
      NULL)
    mwb_check(w->L, MW_NOMEM);
  return known_at(w->f, h);
}

/* Returns the next known object after a slot, and sets that to the object's;
** MW_NONE at the end. */
static mw_handle next_known(const mwb_feed *f, uint32_t *slot) {
  while (++*slot < f->known.n * MWI_PAGE) {
    const mw_handle *its = known_at(f, *slot);
    if (its != NULL && *its != MW_NONE) return *its;
  }
  return MW_NONE;
}

/* The program knows nothing any more. */
static void forget_all(mwb_feed *f) {
  mw_handle h;
  uint32_t slot = 0;
  while ((h = next_known(f, &slot)) != MW_NONE)
    mwi_tree_release(f->s->engine, h);
  mwi_column_drop(f->s->engine, &f->known, KNOWN_PAGE);
  memset(&f->known, 0, sizeof(f->known));
  f->s->pending = 1;
}

static news *news_at(const mwb_feed *f, uint32_t i) {
  return (news *)mwi_pool_at(&f->news, i, sizeof(news));
}

static uint32_t hash_object(mw_handle h) {
  return mwi_pair_hash((uint32_t)(h >> 32), mw_slot(h));
}

/* Returns the news of an object, or 0. */
static uint32_t find_news(const mwb_feed *f, mw_handle h) {
  mwi_search at;
  uint32_t i = mwi_table_first(&f->table, hash_object(h), &at);
  while (i != 0 && news_at(f, i)->obj != h) i = mwi_table_next(&f->table, &at);
  return i;
}

/* The same; makes them if there are none. */
static news *need_news(const looking *w, mw_handle h) {
  mwb_feed *f = w->f;
  mw_engine *e = w->s->engine;
  uint32_t i = find_news(f, h);
  if (i != 0) return news_at(f, i);
  need_known(w, h);
  if (!mwi_table_reserve(e, &f->table, 1) ||
      (i = mwi_pool_take(e, &f->news, sizeof(news))) == 0)
    mwb_check(w->L, MW_NOMEM);
  memset(news_at(f, i), 0, sizeof(news));
  news_at(f, i)->obj = h;
  mwi_table_put(e, &f->table, hash_object(h), i);
  return news_at(f, i);
}

static void free_news(mwb_feed *f) {
  mwi_column_drop(f->s->engine, &f->news.items, MWI_PAGE * sizeof(news));
  memset(&f->news, 0, sizeof(f->news));
  mwi_table_drop(f->s->engine, &f->table);
}

/* Ends the news; keeps memory for a few. */
static void drop_news(mwb_feed *f) {
  if (f->news.n > MWI_PAGE) free_news(f);
  f->news.n = f->news.free = 0;
  mwi_table_empty(&f->table);
}

size_t mwb_feeds_bytes(const mwb_state *s) {
  size_t bytes = mwi_column_bytes(&s->readers->heard, HEARD_PAGE);
  const mwb_feed *f;
  for (f = s->readers->feeds; f != NULL; f = f->next)
    bytes += mwi_column_bytes(&f->known, KNOWN_PAGE) +
             mwi_column_bytes(&f->news.items, MWI_PAGE * sizeof(news)) +
             mwi_table_bytes(&f->table);
  return bytes;
}

/* }====================================================== */

/* {======================================================
** Walking
** ======================================================= */

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

/* Returns the record of the field whose key and value are on the top, of the
** object at `object`; NULL for none. */
static const record *written(const looking *w, int object) {
  lua_State *L = w->L;
  mw_value key = mwb_key(L, w->s, -2);
  const record *found = NULL;
  mwi_search at;
  mw_entry field;
  uint32_t n;
  memset(&field, 0, sizeof(field));
  field.obj = mwb_handle_of(L, w->s, object);
  field.kind = MW_UPDATE;
  field.type[MW_KEY] = (uint8_t)key.type;
  field.value[MW_KEY] = key.u;
  if (key.type > MW_TFLOAT) field.type[MW_KEY] = MW_TOTHER;
  mwb_mark_key(L, w->s, lua_gettop(L) - 1, &field);
  n = mwi_table_first(&w->table, hash_of(&field), &at);
  for (; n != 0 && found == NULL; n = mwi_table_next(&w->table, &at)) {
    const mw_entry *entry = last_of(w, &w->records[n - 1]);
    if (entry->obj != field.obj || aspect_of(entry) != MW_UPDATE) continue;
    push_part(w, entry, MW_KEY);
    if (lua_rawequal(L, -1, -3)) found = &w->records[n - 1];
    lua_pop(L, 1);
  }
  return found;
}

/* The userdata on the top is in a field of the object at `parent`. */
static void note_leaf(const looking *w, int parent) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  mw_handle h = mwb_identify(L, w->s, "feed", top, 1);
  lua_getiuservalue(L, FEED, LEAVES);
  lua_pushvalue(L, top);
  lua_pushinteger(L, (lua_Integer)mwb_handle_of(L, w->s, parent));
  lua_rawset(L, -3);
  lua_settop(L, top);
  if (!knows(w->f, h)) need_news(w, h)->comes = 1;
}

/* Does the value on the top, which the object at `parent` has under the key
** below the top, belong to what is below the root?  What the tree has below the
** parent does. */
static int is_below(const looking *w, int parent) {
  lua_State *L = w->L;
  int type = lua_type(L, -1);
  mw_handle h;
  if (type == LUA_TUSERDATA) note_leaf(w, parent);
  if (type != LUA_TTABLE) return type == LUA_TUSERDATA;
  h = mwb_handle_of(L, w->s, -1);
  return (h != MW_NONE && mwi_tree_holds(w->s->engine, w->f->reach,
                                         mwb_handle_of(L, w->s, parent), h)) ||
         mwb_enters(L, w->s, w->f->reach, parent);
}

/* The places of a walk, from the top on. */
enum { SET = 1, LIST, OBJECT };

/* Adds the value on the top to the set and the list of a walk. */
static void visit(lua_State *L, int top) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, top + SET) == LUA_TNIL) {
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, top + SET);
    lua_pushvalue(L, -2);
    lua_rawseti(L, top + LIST, (lua_Integer)lua_rawlen(L, top + LIST) + 1);
  }
  lua_pop(L, 1);
}

/* Walks through all that is below the root as delivered; with `before`, only by
** fields that no record has written.  Pushes a set and a list of the objects.
*/
static void walk_below(const looking *w, int before) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  lua_Integer i;
  lua_newtable(L); /* SET */
  lua_newtable(L); /* LIST */
  if (mwb_alive(L, w->s, w->f->root)) visit(L, top);
  lua_settop(L, top + LIST);
  for (i = 1; lua_rawgeti(L, top + LIST, i) != LUA_TNIL;
       i++, lua_settop(L, top + LIST)) {
    if (!lua_istable(L, top + OBJECT)) continue;
    for (push_fields(w); mwb_next_field(L, top + OBJECT + 1); lua_pop(L, 1))
      if ((!before || written(w, top + OBJECT) == NULL) &&
          is_below(w, top + OBJECT))
        visit(L, top);
  }
  lua_settop(L, top + LIST);
}

/* The object at `object` has a shadow from now on.  Returns its handle. */
static mw_handle cover(const looking *w, int object) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  mw_handle h = mwb_identify(L, w->s, "feed", object, 1);
  if (lua_istable(L, object) && !mwb_push_shadow(L, object)) {
    if (mwi_object_need(w->s->engine, h) == NULL) mwb_check(L, MW_NOMEM);
    mwb_push_class(L, object);
    mwb_enshadow(L, w->s, h, object, -1);
  }
  lua_settop(L, top);
  return h;
}

/* }====================================================== */

/* {======================================================
** News
** ======================================================= */

/* May what was delivered have other tables below the root than there are now?
** Then the first step that differs on a path is from a table that is below the
** root in both.  In a mixed journal the walk meets only the first write of a
** field, whose value need not be that which is there. */
static int is_apart(const mwb_state *s, const mwb_feed *f) {
  mw_engine *e = s->engine;
  mwi_undone walk;
  memset(&walk, 0, sizeof(walk));
  if (e->journal.entries == 0) s->journal->has_tables = 0;
  while (s->journal->has_tables && mwi_journal_undone(e, &walk))
    if ((walk.entry.type[MW_OLD] == MW_TOTHER ||
         walk.entry.type[MW_NOW] == MW_TOTHER || mw_journal_is_mixed(e)) &&
        mwi_reach_has(e, f->reach, walk.entry.obj))
      return 1;
  return 0;
}

/* Compares what the program knows with all that is below the root as delivered;
** with `before`, by fields that no record has written. */
static void compare_all(const looking *w, int before) {
  lua_State *L = w->L;
  const mwb_feed *f = w->f;
  int top = lua_gettop(L);
  lua_Integer n;
  uint32_t slot = 0;
  mw_handle h;
  walk_below(w, before);
  for (n = 1; lua_rawgeti(L, top + LIST, n) != LUA_TNIL;
       n++, lua_settop(L, top + LIST)) {
    h = cover(w, top + OBJECT);
    if (!knows(f, h)) need_news(w, h)->comes = 1;
  }
  lua_settop(L, top + LIST);
  for (; (h = next_known(f, &slot)) != MW_NONE; lua_settop(L, top + LIST))
    if (!mwb_alive(L, w->s, h) || lua_rawget(L, top + SET) == LUA_TNIL)
      need_news(w, h)->goes = 1;
  lua_settop(L, top);
}

/* What is news is known from now on. */
static void know(const looking *w) {
  mwb_feed *f = w->f;
  uint32_t i;
  for (i = 1; i <= f->news.n; i++) {
    const news *its = news_at(f, i);
    if (its->comes) *known_at(f, its->obj) = its->obj;
    if (!its->goes) continue;
    *known_at(f, its->obj) = MW_NONE;
    mwi_tree_release(w->s->engine, its->obj);
    w->s->pending = 1;
  }
  drop_news(f);
}

/* The program knows what is below the root by fields that no record has
** written, and nothing else. */
static void learn(const looking *w) {
  forget_all(w->f);
  compare_all(w, 1);
  know(w);
  w->f->lost = mw_reader_lost(w->s->engine, w->f->id);
}

/* Finds what has come and gone. */
static void gather_news(looking *w) {
  mw_engine *e = w->s->engine;
  mwb_feed *f = w->f;
  const mw_handle *list;
  uint32_t i;
  int lost = f->lost != mw_reader_lost(e, f->id);
  mw_tree_resolve(e);
  w->moved = is_apart(w->s, f);
  w->logged = mwi_reach_news(e, f->reach, &list);
  if (lost) learn(w);
  lost |= f->moved || w->moved || w->logged == MWI_MISSED;
  if (lost) compare_all(w, 0);
  for (i = 0; w->logged != MWI_MISSED && i < w->logged; i++) {
    news *its;
    mwi_reach_news(e, f->reach, &list); /* a function has perhaps written */
    its = need_news(w, list[i]);
    if (lost) continue;
    its->comes = mwi_reach_has(e, f->reach, its->obj);
    its->goes = knows(f, its->obj);
    if (its->comes && its->goes) its->comes = its->goes = 0;
  }
}

/* The look has ended. */
static void settle(const looking *w) {
  mwb_feed *f = w->f;
  mwi_reach_read(w->s->engine, f->reach, w->logged);
  f->moved = w->moved;
  know(w);
}

/* Does a table below the root hold a userdata that was seen there?  It mostly
** is the one that has held it. */
static int is_held(const looking *w, mw_handle h) {
  lua_State *L = w->L;
  const mwb_feed *f = w->f;
  int top = lua_gettop(L), found = 0;
  mw_handle holder;
  uint32_t i;
  mwb_alive(L, w->s, h);
  lua_getiuservalue(L, FEED, LEAVES);
  lua_pushvalue(L, top + 1);
  lua_rawget(L, -2);
  holder = (mw_handle)lua_tointeger(L, -1);
  i = find_news(f, holder);
  if ((i == 0) ? knows(f, holder) : news_at(f, i)->comes) {
    if (mwb_alive(L, w->s, holder)) {
      int fields = lua_gettop(L) + 1;
      for (push_fields(w); !found && mwb_next_field(L, fields); lua_pop(L, 1))
        found = lua_rawequal(L, -1, top + 1);
    }
  }
  lua_settop(L, top + 1);
  if (!found) {
    walk_below(w, 0);
    lua_pushvalue(L, top + 1);
    found = lua_rawget(L, top + 1 + SET) != LUA_TNIL;
    need_news(w, h)->goes = !found;
  }
  lua_settop(L, top);
  return found;
}

/* }====================================================== */

/* {======================================================
** What the program has put in itself
** ======================================================= */

/* Does the program know of the news since an entry of its own? */
static int is_own(const mwb_feed *f, uint32_t i) {
  return news_at(f, i)->own && news_at(f, i)->put != NONE;
}

/* What the program has put in, which was not there: the chain from `first` to
** `last`, 0 for none.  If some of it was written `unseen` since, the program is
** to be told of it all the same. */
typedef struct putting {
  uint32_t first, last;
  int unseen;
} putting;

/* Adds the object on the top, in a field of the object at `parent`, which entry
** `i` has put in, or what holds it. */
static void add_own(const looking *w, uint32_t i, int parent, putting *its) {
  const mwb_feed *f = w->f;
  int is_leaf = lua_type(w->L, -1) == LUA_TUSERDATA;
  mw_handle h;
  uint32_t k;
  if (is_leaf) note_leaf(w, parent);
  h = mwb_handle_of(w->L, w->s, -1);
  k = (h == MW_NONE) ? 0 : find_news(f, h);
  if (k == 0 || news_at(f, k)->own || knows(f, h)) return;
  news_at(f, k)->own = 1;
  news_at(f, k)->put = i;
  news_at(f, k)->chain = 0;
  if (its->last != 0)
    news_at(f, its->last)->chain = k;
  else
    its->first = k;
  its->last = k;
  its->unseen |= i == NONE || is_late(w->s, h, 2 * w->look->entries[i].seq) ||
                 (!is_leaf && mwb_intercepting_at(w->L, w->s, -1) == MW_NONE);
}

/* The program knows the object in a part of entry `i`, and what was below the
** object, since entry `put`; or not, if `put` is NONE. */
static void put_in(const looking *w, uint32_t i, int part, uint32_t put) {
  lua_State *L = w->L;
  putting its = {0, 0, 0};
  uint32_t k;
  if (w->look->entries[i].type[part] != MW_TOTHER) return;
  mwb_alive(L, w->s, w->look->entries[i].obj);
  push_part(w, &w->look->entries[i], part);
  add_own(w, put, SCRATCH + 1, &its);
  lua_settop(L, SCRATCH);
  for (k = its.first; k != 0; k = news_at(w->f, k)->chain) {
    if (mwb_alive(L, w->s, news_at(w->f, k)->obj) && lua_istable(L, -1))
      for (push_fields(w); mwb_next_field(L, SCRATCH + 2); lua_pop(L, 1)) {
        const record *r = lua_istable(L, -1) ? written(w, SCRATCH + 1) : NULL;
        if (r == NULL || r->last < put) add_own(w, put, SCRATCH + 1, &its);
      }
    lua_settop(L, SCRATCH);
  }
  for (k = its.first; its.unseen && k != 0; k = news_at(w->f, k)->chain)
    news_at(w->f, k)->put = NONE;
}

/* Finds what the program knows by its own entries: what these put into what it
** knows, and what was below that; also if others have moved it since, which the
** first entry of a field says. */
static void find_own(const looking *w) {
  const mwb_feed *f = w->f;
  uint32_t i;
  for (i = 0; i < w->look->n; i++) {
    const mw_entry *entry = &w->look->entries[i];
    uint32_t k;
    if (w->marks[i] == 0 || aspect_of(entry) != MW_UPDATE) continue;
    k = find_news(f, entry->obj);
    if ((w->marks[i] & OWN) && knows(f, entry->obj))
      put_in(w, i, MW_NOW, i);
    else if ((w->marks[i] & OWN) && k != 0 && news_at(f, k)->own)
      put_in(w, i, MW_NOW, is_own(f, k) ? i : NONE);
    if ((w->marks[i] & FIRST) && k != 0 && news_at(f, k)->own)
      put_in(w, i, MW_OLD, news_at(f, k)->put);
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

/* Returns the news of the value on the top, which the object at `parent` holds,
** if the program is to be told of it; else 0. */
static uint32_t coming(const looking *w, int parent) {
  int type = lua_type(w->L, -1);
  uint32_t i;
  if (w->f->root == MW_NONE || (type != LUA_TTABLE && type != LUA_TUSERDATA))
    return 0;
  if (type == LUA_TUSERDATA) note_leaf(w, parent);
  i = find_news(w->f, mwb_handle_of(w->L, w->s, -1));
  return (i != 0 && news_at(w->f, i)->comes && !is_own(w->f, i)) ? i : 0;
}

/* Tells of each field of what comes, and of what is below and comes, too. */
static void tell(looking *w, uint32_t i) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  uint32_t last = i, child;
  news_at(w->f, i)->told = 1;
  news_at(w->f, i)->chain = 0;
  for (; i != 0; i = news_at(w->f, i)->chain, lua_settop(L, top)) {
    if (!mwb_alive(L, w->s, news_at(w->f, i)->obj) || !lua_istable(L, -1))
      continue;
    for (push_fields(w); mwb_next_field(L, top + 2); lua_pop(L, 1)) {
      child = coming(w, top + 1);
      if (child != 0 && news_at(w->f, child)->told) child = 0;
      add_told(w, top + 1, child == 0 ? (int)MW_INSERT : (int)ATTACH);
      if (child == 0) continue;
      news_at(w->f, child)->told = 1;
      news_at(w->f, child)->chain = 0;
      news_at(w->f, last)->chain = child;
      last = child;
    }
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

/* Tells of a record.  For a table of which the program is told anew, the
** program needs to know all fields that hold the table. */
static void tell_record(looking *w, const record *r) {
  const mw_entry *last = last_of(w, r);
  uint32_t first = r->first, i = 0;
  int kind = (first == NONE) ? -1 : kind_of(w, r), attaches;
  if (last->type[MW_NOW] == MW_TOTHER && aspect_of(last) == MW_UPDATE &&
      mwb_alive(w->L, w->s, last->obj)) {
    push_part(w, last, MW_NOW);
    i = coming(w, SCRATCH + 1);
  }
  lua_settop(w->L, SCRATCH);
  attaches = i != 0 && !news_at(w->f, i)->told;
  if (i != 0 && first == NONE) first = r->last;
  if (i != 0 && kind < 0) kind = MW_UPDATE;
  if (kind < 0) return;
  add_item(w, first, r->last, attaches ? ATTACH : kind);
  if (attaches) tell(w, i);
}

/* Is the record about what the program knows, and news to it? */
static int is_news(const looking *w, const record *r) {
  mw_handle h = last_of(w, r)->obj;
  uint32_t i;
  int is_leaf;
  if (w->f->root == MW_NONE) return 1;
  i = find_news(w->f, h);
  if (i != 0 && news_at(w->f, i)->comes)
    return is_own(w->f, i) && r->last > news_at(w->f, i)->put;
  if (!knows(w->f, h) || (i != 0 && news_at(w->f, i)->goes)) return 0;
  is_leaf = mwb_alive(w->L, w->s, h) && lua_isuserdata(w->L, -1);
  lua_pop(w->L, 1);
  return !is_leaf || is_held(w, h);
}

static void tell_all(looking *w) {
  lua_State *L = w->L;
  uint32_t i;
  if (w->f->filters && w->f->root != MW_NONE) find_own(w);
  for (i = 0; i < w->n; i++)
    if (is_news(w, &w->records[i])) tell_record(w, &w->records[i]);
  for (i = 1; i <= w->f->news.n; i++) {
    if (news_at(w->f, i)->goes && mwb_alive(L, w->s, news_at(w->f, i)->obj) &&
        lua_istable(L, -1)) {
      lua_pushnil(L);
      lua_pushnil(L);
      add_told(w, SCRATCH + 1, DETACH);
    }
    lua_settop(L, SCRATCH);
  }
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

/* With object, key, old and new pushed: pushes the kind, and with an attachment
** the mark of the new value, if it has one.  Returns the number of values. */
static int push_kind(lua_State *L, mwb_state *s, int kind) {
  int64_t mark;
  if (kind == MW_METATABLE || kind == DETACH) {
    lua_pushstring(L, (kind == DETACH) ? "detach" : "class");
  } else if (kind == ATTACH) {
    mark = mw_clock_generation(s->engine, mwb_marks(L, s),
                               mwb_handle_of(L, s, -1));
    lua_pushliteral(L, "attach");
    if (mark < 0) return 5;
    lua_pushstring(L, (mark % 2 == 0) ? "array" : "object");
    return 6;
  } else {
    mwb_push_kind(L, s, kind);
  }
  return 5;
}

/* Pushes object, key, old, new and kind of what was told. */
static int push_told(lua_State *L, mwb_state *s, const item *its) {
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 1);
  lua_pushnil(L);
  lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), its->last + 2);
  return push_kind(L, s, its->kind);
}

/* iterator() -> object, key, old, new, kind, mark */
static int next_change(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  walk *its = (walk *)lua_touserdata(L, lua_upvalueindex(WALK));
  const int pages = lua_upvalueindex(WALK_PAGES);
  while (its->at < its->n && s->engine != NULL) {
    const item *the = &its->items[its->at++];
    const mw_entry *last;
    lua_settop(L, 0);
    if (the->first == NONE) return push_told(L, s, the);
    last = &its->look->entries[the->last];
    if (!mwi_identity_is_valid(&s->engine->identity, last->obj) ||
        lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(last->obj)) == LUA_TNIL)
      continue;
    push_from(L, pages, its->look, last, MW_KEY);
    push_from(L, pages, its->look, &its->look->entries[the->first], MW_OLD);
    push_from(L, pages, its->look, last, MW_NOW);
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

/* Leaves the entries that the program wants: those of what is below the root,
** before the look or after it. */
static void filter(const looking *w) {
  const mwb_feed *f = w->f;
  mwb_look *look = w->look;
  uint32_t i, k, n = 0;
  for (i = 0; i < look->n; i++) {
    const mw_entry *entry = &look->entries[i];
    if (f->root != MW_NONE && !knows(f, entry->obj)) {
      k = find_news(f, entry->obj);
      if (k == 0 || !news_at(f, k)->comes) continue;
    }
    if (!f->filters || !is_unwanted(w, entry)) look->entries[n++] = *entry;
  }
  look->n = n;
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
  drop_news(w->f);
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
  return mw_reader_next(e, f->id) > mw_delivery_last(e) &&
         (f->root == MW_NONE || f->lost == mw_reader_lost(e, f->id));
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
    forget_all(f);
    first = end;
  }
  begin_look(&w, L, first, end, squashed);
  if (is_new && (squashed || has_root)) squash(&w);
  if (is_new && has_root) gather_news(&w);
  if (squashed || has_root) tell_all(&w);
  if (squashed) {
    push_changes(&w);
  } else {
    if (has_root || f->filters) filter(&w);
    lua_pushvalue(L, ENTRIES);
    mwb_push_entry_iterator(L, 0);
  }
  mw_reader_seek(e, f->id, end);
  if (is_new && has_root) settle(&w);
  mwb_push(L, f->s, MWB_LATER);
  f->ahead = has_root && lua_rawlen(L, -1) > 0;
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
  const mw_engine *e = f->s->engine;
  lua_pushinteger(
      L, (lua_Integer)(mw_delivery_last(e) + 1 - mw_reader_next(e, f->id)));
  return 1;
}

/* Returns another open feed of the root and `descend` of a feed, the one that
** has had a predecessor for the longest time; or NULL. */
static const mwb_feed *other_feed(const mwb_feed *f) {
  const mw_engine *e = f->s->engine;
  const mwb_feed *its, *found = NULL;
  mw_handle root;
  for (its = f->s->readers->feeds; its != NULL; its = its->next)
    if (its != f && its->root == f->root && its->reach != 0 &&
        mw_reach_rule(e, its->reach, &root) ==
            mw_reach_rule(e, f->reach, &root) &&
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
  forget_all(f);
  free_news(f);
  if (f->reach != 0 && mwi_identity_is_valid(&s->engine->identity, f->root))
    mwb_end_reach(L, s, f->root, f->reach);
  return 0;
}

static int feed_close(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  mwb_check_self(L, s, "close", MWB_FEED, "feed");
  return close_feed(L);
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
** a feed since the number; what the program knows is as of that number */
static int open_root(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mw_engine *e = f->s->engine;
  const mwb_feed *other;
  uint64_t first = mw_reader_next(e, f->id);
  uint32_t slot = 0;
  int late = !lua_isnil(L, 3), ok = 1;
  mw_handle h;
  looking w;
  mwb_push_function(L, f->s, include);
  lua_pushvalue(L, 2);
  lua_pushnil(L);
  lua_pushvalue(L, 4);
  lua_pushvalue(L, FEED);
  lua_call(L, 4, 0);
  other = other_feed(f);
  f->since = (other != NULL) ? other->since : mw_delivery_last(e);
  if (late && (other == NULL || other->since >= first)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  mwb_begin_scan(f->s);
  begin_look(&w, L, first, mw_delivery_last(e) + 1, 1);
  squash(&w);
  learn(&w);
  mwi_reach_read(e, f->reach, MWI_MISSED);
  f->moved = late || is_apart(f->s, f);
  while (late && ok && (h = next_known(f, &slot)) != MW_NONE)
    ok = !is_late(f->s, h, 2 * first - 1);
  lua_pushboolean(L, ok);
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
  f = (mwb_feed *)lua_newuserdatauv(L, sizeof(*f), LEAVES);
  memset(f, 0, sizeof(*f));
  f->s = s;
  f->filters = !lua_isnil(L, 2);
  mwb_push(L, s, MWB_FEED);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, NOT_FROM);
  mwb_push_weak(L, "k");
  lua_setiuservalue(L, -2, LEAVES);
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
