/*
** feed.c - what changed since the last look: mw.feed.
** SPDX-License-Identifier: MIT
**
** A feed is a reader of what is delivered.  A look takes all entries that the
** reader has not read: as they are, or folded to one change for each field.
**
**     look:      entry 1 | entry 2 | entry 3 | entry 4 | ...
**     fold:      { 1, 3 } | { 2, 4 }     first and last entry of a field
**     items:     { 1, 3 } | { 2, 4 } | ...
**     told:            ^ object, key, new, kind | object, key, new, kind | ...
**
** The items are the fields that changed something; what was told behind an item
** are the fields of the tables that came below the root by the item, and at the
** end what has left.
**
** A feed with a root knows which objects the program knows, as of the last
** look: those with a tag of its clock.  The feed also has a reach in tree.c,
** which logs what becomes a member and what ceases to be one.  That is the
** graph of now, and the program is told of what is there as delivered; both are
** the same while no open transaction has written a table.  So a look compares
** the logged objects with the tags; or else, and where entries or the log were
** lost, all that is below the root as delivered.  What has come or gone are the
** *news*, which last as long as the look.  The program is told of the changes
** of what it knew and knows, of all fields of what it did not know, and of what
** it knew that has gone.  A userdata is a value, and has no news; of one that
** was seen below the root the feed knows which table held it.
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
** table among these has become intercepted later, nobody knows what it held,
** and there is no such feed: see `mwb_note_heard`.
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
  mwb_feed *next;  /* of the open feeds with a root */
  mw_reader id;    /* 0: closed */
  mw_handle root;  /* MW_NONE: what is written anywhere */
  mw_reach reach;  /* of the root; 0: none yet */
  uint64_t since;  /* from this number on the root has had such a feed */
  uint64_t lost;   /* of the reader, when `known` was made */
  int filters;     /* are there entries that the program does not want? */
  int busy;        /* is there a look under way? */
  int ahead;       /* has the last look perhaps read what is told of later? */
  int moved;       /* was the tree another than what was delivered? */
  mw_clock known;  /* tags what the program knows */
  mwi_pool news;   /* of a look */
  mwi_table table; /* object -> news */
};

/* An object that is not below the root as it was at the last look. */
typedef struct news {
  uint32_t put; /* the program has put it in by this entry; 0: it has not; NONE:
                ** the program is told of it all the same */
  int told;     /* have its fields been told? */
  mw_handle obj;
  int comes, goes; /* neither: it has been there in between */
} news;

/* The user values of a feed: the origin from which it wants no entries, and for
** userdata that were seen below the root the handle of a table that has held
** them, both held weakly.  A feed keeps no object alive but those of its
** entries. */
enum { NOT_FROM = 1, LEAVES };

/* Kinds of changes, next to enum mw_kind. */
enum { ATTACH = MW_KINDS, DETACH };

/* What the program gets: a field's first and last entry, then what is told. */
typedef struct item {
  uint32_t first, last; /* from 1 on */
  int kind;             /* below 0: no field */
  uint32_t told;        /* so many values are told up to the next item */
} item;

/* What the program walks through: see `next_change`. */
typedef struct changes {
  mwb_place place;
  uint32_t n, at; /* of items */
  uint32_t told;
  item items[1];
} changes;

/* The stack of a look. */
enum {
  FEED = 1,
  ENTRIES, /* a mwb_look */
  PAGES,   /* its user value */
  FOLD,
  MARKS,
  ITEMS,
  TOLD,
  DELIVERED,  /* see mwb_push_delivered; false: not asked for yet */
  ORIGIN,     /* from which the program wants no entries */
  ORIGIN_KEY, /* "origin" */
  SCRATCH = ORIGIN_KEY
};

/* What is known of an entry: the program does not want it; it is the first one
** of its field. */
enum { OWN = 1, FIRST = 2 };

typedef struct looking {
  lua_State *L;
  mwb_state *s;
  mwb_feed *f;
  mwb_look *look;
  mwb_place place; /* of its entries */
  mwb_fold fold;   /* `first` is the first one that the program wants, or 0 */
  uint8_t *marks;  /* of each entry, from 1 on; NULL: nobody asks */
  changes *walked; /* at ITEMS */
  uint32_t n_told; /* values at TOLD */
  uint32_t logged; /* by the reach, up to this look */
  int moved;       /* is the tree another than what is delivered? */
  int unseen;      /* may what the program has put in be written unseen? */
} looking;

/* {======================================================
** What the program knows, and what is news
** ======================================================= */

/* The time of the tag is twice the number of the entry that includes the
** object, the next one if a store is under way that is no rollback; or one more
** than twice that of the last one, when something else does.  Without memory,
** all objects count as late. */
void mwb_note_heard(mwb_state *s, mw_handle h) {
  uint64_t *now,
      last = 2 * mw_delivery_last(s->engine) + 1 + (s->watch->storing > 0);
  if (s->readers->feeds == NULL) return; /* does nobody ask? */
  now = &s->engine->clock.clocks[s->readers->heard].now;
  if (last > *now) *now = last; /* a clock never goes back */
  if (mw_clock_tag(s->engine, s->readers->heard, h) != MW_OK) /* no memory? */
    s->readers->unheard = last;
}

/* May the object have been written unseen since a time? */
static int is_late(const mwb_state *s, mw_handle h, uint64_t since) {
  return since < s->readers->unheard || /* may any be? */
         mw_clock_generation(s->engine, s->readers->heard, h) > (int64_t)since;
}

static int knows(const mwb_feed *f, mw_handle h) {
  return mw_clock_generation(f->s->engine, f->known, h) >= 0;
}

int mwb_is_known(const mwb_state *s, mw_handle h) {
  const mwb_feed *f = s->readers->feeds;
  while (f != NULL &&
         !(knows(f, h) && mwi_identity_is_valid(&s->engine->identity, f->root)))
    f = f->next;
  return f != NULL;
}

/* The program knows the object no more. */
static void forget(const mwb_feed *f, mw_handle h) {
  mw_clock_untag(f->s->engine, f->known, h);
  mwi_tree_release(f->s->engine, h);
  f->s->pending = 1;
}

static void forget_all(const mwb_feed *f) {
  mw_engine *e = f->s->engine;
  mw_walk walk;
  mw_handle h;
  mw_clock_since(e, f->known, 0, &walk);
  while ((h = mw_clock_next(e, &walk)) != MW_NONE) forget(f, h);
  mw_clock_reset(e, f->known);
}

static news *news_at(const mwb_feed *f, uint32_t i) {
  return (news *)mwi_pool_at(&f->news, i, sizeof(news));
}

static uint32_t hash_object(mw_handle h) {
  return mwi_pair_hash((uint32_t)(h >> 32), mw_slot(h));
}

/* Returns the news of an object, or NULL. */
static news *find_news(const mwb_feed *f, mw_handle h) {
  mwi_search at;
  uint32_t i = mwi_table_first(&f->table, hash_object(h), &at);
  while (i != 0 && news_at(f, i)->obj != h) i = mwi_table_next(&f->table, &at);
  return (i == 0) ? NULL : news_at(f, i);
}

/* The same; makes them if there are none, and room for what becomes known. */
static news *need_news(const looking *w, mw_handle h) {
  mwb_feed *f = w->f;
  mw_engine *e = w->s->engine;
  news *its = find_news(f, h);
  uint32_t i;
  if (its != NULL) return its;
  if (mwi_column_need(e, &e->clock.clocks[f->known].tags, mw_slot(h),
                      sizeof(mwi_clock_page)) == NULL ||
      !mwi_table_reserve(e, &f->table, 1) ||
      (i = mwi_pool_take(e, &f->news, sizeof(news))) == 0)
    mwb_check(w->L, MW_NOMEM);
  mwi_table_put(e, &f->table, hash_object(h), i);
  its = news_at(f, i);
  memset(its, 0, sizeof(*its));
  its->obj = h;
  return its;
}

/* Ends the news; may keep memory for a few. */
static void drop_news(mwb_feed *f, int keeps) {
  if (!keeps || f->news.n > MWI_PAGE) { /* none, or too much to keep? */
    mwi_column_drop(f->s->engine, &f->news.items, MWI_PAGE * sizeof(news));
    memset(&f->news, 0, sizeof(f->news));
    mwi_table_drop(f->s->engine, &f->table);
  }
  f->news.n = f->news.free = 0;
  mwi_table_empty(&f->table);
}

/* }====================================================== */

/* {======================================================
** Walking
** ======================================================= */

/* Pushes the fields of the table on the top as delivered, and a first key. */
static void push_fields(const looking *w) {
  lua_State *L = w->L;
  if (lua_isboolean(L, DELIVERED)) { /* not asked for yet? */
    mwb_push_delivered(L, w->s);
    lua_replace(L, DELIVERED);
  }
  mwb_push_fields(L, w->s, lua_gettop(L), DELIVERED, 0);
  lua_pushnil(L);
}

/* Does a walk enter the value on the top, which the table at `parent` has under
** the key below the top?  `number` is the walk's. */
typedef int (*step)(looking *w, int parent, uint32_t number);

/* Walks through the fields of the tables in the list on the top, to which it
** adds what it enters. */
static void walk(looking *w, step enter, uint32_t number) {
  lua_State *L = w->L;
  int list = lua_gettop(L), table = list + 1;
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, list);
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++, lua_settop(L, list))
    for (push_fields(w); mwb_next_field(L, table + 1); lua_pop(L, 1)) {
      if (!enter(w, table, number)) continue;
      lua_pushvalue(L, -1);
      lua_rawseti(L, list, ++n);
    }
  lua_settop(L, list);
}

/* Pushes a list of the value on the top, and walks from there. */
static void walk_from(looking *w, step enter, uint32_t number) {
  lua_createtable(w->L, 1, 0);
  lua_pushvalue(w->L, -2);
  lua_rawseti(w->L, -2, 1);
  walk(w, enter, number);
}

/* Returns the field on the top of the object at `parent`, if an entry has
** written it, or NULL. */
static const mwb_folded *written(const looking *w, int parent) {
  return mwb_fold_field(w->L, w->s, &w->fold, mwb_handle_of(w->L, w->s, parent),
                        lua_gettop(w->L) - 1);
}

/* If a userdata is on the top, notes that the object `h` has held it. */
static void note_leaf(const looking *w, mw_handle h) {
  lua_State *L = w->L;
  if (w->f->root == MW_NONE || lua_type(L, -1) != LUA_TUSERDATA) return;
  lua_getiuservalue(L, FEED, LEAVES);
  lua_pushvalue(L, -2);
  lua_pushinteger(L, (lua_Integer)h);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Adds the object on the top to the set of what is below the root.  It has a
** shadow from now on. */
static void include(const looking *w, int set) {
  lua_State *L = w->L;
  int object = lua_gettop(L);
  mw_handle h = mwb_identify(L, w->s, "feed", object, 1);
  lua_pushvalue(L, object);
  lua_pushboolean(L, 1);
  lua_rawset(L, set);
  if (!mwb_push_shadow(L, object)) { /* not intercepted yet? */
    if (mwi_object_need(w->s->engine, h) == NULL) mwb_check(L, MW_NOMEM);
    mwb_push_class(L, object);
    mwb_enshadow(L, w->s, h, object, -1);
  }
  lua_settop(L, object);
  if (!knows(w->f, h)) need_news(w, h)->comes = 1; /* new to the program? */
}

/* A step of `walk_below`.  What the tree has below the parent is below. */
static int enter_below(looking *w, int parent, uint32_t before) {
  lua_State *L = w->L;
  int set = parent - 2, is_in;
  mw_handle at = mwb_handle_of(L, w->s, parent), h;
  if (before && written(w, parent) != NULL) return 0; /* changed since? */
  note_leaf(w, at);
  if (!lua_istable(L, -1)) return 0; /* only tables have news */
  lua_pushvalue(L, -1);
  is_in = lua_rawget(L, set) != LUA_TNIL;
  lua_pop(L, 1);
  if (is_in) return 0; /* met in another field before? */
  h = mwb_handle_of(L, w->s, -1);
  if (!(h != MW_NONE && mwi_tree_holds(w->s->engine, w->f->reach, at, h)) &&
      !mwb_enters(L, w->s, w->f->reach, parent))
    return 0; /* not linked, and not to be entered? */
  include(w, set);
  return 1;
}

/* Walks through all that is below the root as delivered; with `before`, only by
** fields that no entry has written.  What the program does not know are news.
** Pushes the set of the tables. */
static void walk_below(looking *w, int before) {
  lua_State *L = w->L;
  int set = lua_gettop(L) + 1;
  lua_newtable(L);
  lua_createtable(L, 1, 0); /* the list */
  mwb_alive(L, w->s, w->f->root);
  include(w, set);
  lua_rawseti(L, set + 1, 1);
  walk(w, enter_below, (uint32_t)before);
  lua_settop(L, set);
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
  if (e->journal.entries == 0) s->journal->has_tables = 0; /* all ended? */
  while (s->journal->has_tables && mwi_journal_undone(e, &walk))
    if ((walk.entry.type[MW_OLD] == MW_TOTHER || /* perhaps a table? */
         walk.entry.type[MW_NOW] == MW_TOTHER || mw_journal_is_mixed(e)) &&
        mwi_reach_has(e, f->reach, walk.entry.obj)) /* and below the root? */
      return 1;
  return 0;
}

/* Compares what the program knows with all that is below the root as delivered;
** with `before`, by fields that no entry has written. */
static void compare_all(looking *w, int before) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  mw_walk known;
  mw_handle h;
  walk_below(w, before);
  mw_clock_since(w->s->engine, w->f->known, 0, &known);
  for (; (h = mw_clock_next(w->s->engine, &known)) != MW_NONE;
       lua_settop(L, top + 1))
    if (!mwb_alive(L, w->s, h) || lua_rawget(L, top + 1) == LUA_TNIL)
      need_news(w, h)->goes = 1; /* dead, or not below any more */
  lua_settop(L, top);
}

/* What is news is known from now on. */
static void know(const looking *w) {
  mwb_feed *f = w->f;
  uint32_t i;
  for (i = 1; i <= f->news.n; i++) {
    const news *its = news_at(f, i);
    if (its->comes) mw_clock_tag(f->s->engine, f->known, its->obj);
    if (its->goes) forget(f, its->obj);
  }
  drop_news(f, 1);
}

/* The program knows what is below the root by fields that no entry has written,
** and nothing else. */
static void learn(looking *w) {
  forget_all(w->f);
  compare_all(w, 1);
  know(w);
  w->f->lost = mw_reader_lost(w->s->engine, w->f->id);
}

/* Has an entry taken out a table, or put one in? */
static int has_tables(const looking *w) {
  uint32_t i, part;
  int has = 0;
  for (i = 0; i < w->look->n && !has; i++)
    for (part = MW_OLD; part <= MW_NOW; part++) {
      if (w->look->entries[i].type[part] != MW_TOTHER) continue; /* plain? */
      mwb_unpack_in(w->L, &w->place, &w->look->entries[i], (int)part);
      has |= lua_istable(w->L, -1);
      lua_pop(w->L, 1);
    }
  return has;
}

/* Finds what has come and gone; `lost`: entries were.  As delivered, nothing
** has but by entries with tables. */
static void gather_news(looking *w, int lost) {
  mw_engine *e = w->s->engine;
  mwb_feed *f = w->f;
  const mw_handle *list;
  uint32_t i;
  mw_tree_resolve(e);
  w->moved = is_apart(w->s, f);
  w->logged = mwi_reach_news(e, f->reach, &list);
  if (!lost && (f->moved || w->moved) && !has_tables(w)) { /* nothing came? */
    w->moved = 1;
    return;
  }
  if (lost) learn(w); /* nobody knows what was lost */
  lost |= f->moved || w->moved || w->logged == MWI_MISSED;
  if (lost) compare_all(w, 0); /* do the logged objects not say it? */
  for (i = 0; w->logged != MWI_MISSED && i < w->logged; i++) {
    news *its;
    mwi_reach_news(e, f->reach, &list); /* a function has perhaps written */
    its = need_news(w, list[i]);
    if (lost) continue; /* has the walk found all? */
    its->comes = mwi_reach_has(e, f->reach, its->obj);
    its->goes = knows(f, its->obj);
    if (its->comes && its->goes) its->comes = its->goes = 0; /* still there? */
  }
}

/* Does a table below the root hold the userdata on the top?  It mostly is the
** one that has held it. */
static int is_held(looking *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), found = 0;
  const news *its;
  mw_handle h;
  lua_getiuservalue(L, FEED, LEAVES);
  lua_pushvalue(L, top);
  if (lua_rawget(L, top + 1) != LUA_TNIL) { /* ever seen below? */
    h = (mw_handle)lua_tointeger(L, -1);
    its = find_news(w->f, h);
    if (((its == NULL) ? knows(w->f, h) : its->comes) && mwb_alive(L, w->s, h))
      for (push_fields(w); !found && mwb_next_field(L, top + 4); lua_pop(L, 1))
        found = lua_rawequal(L, -1, top);
    lua_settop(L, top + 1);
    if (!found) { /* is it elsewhere? */
      lua_pushvalue(L, top);
      lua_pushinteger(L, 0);
      lua_rawset(L, top + 1);
      walk_below(w, 0);
      lua_pushvalue(L, top);
      lua_rawget(L, top + 1);
      found = lua_tointeger(L, -1) != 0;
      lua_pushvalue(L, top);
      lua_pushnil(L);
      if (!found) lua_rawset(L, top + 1); /* last, for the walk may fail */
    }
  }
  lua_settop(L, top);
  return found;
}

/* Is an object that was written, and did not come, below the root? */
static int is_below(looking *w, mw_handle h) {
  int yes = w->f->root == MW_NONE || knows(w->f, h);
  if (yes) return 1;
  yes = mwb_alive(w->L, w->s, h) && lua_isuserdata(w->L, -1) && is_held(w);
  lua_pop(w->L, 1);
  return yes;
}

/* }====================================================== */

/* {======================================================
** What the program has put in itself
** ======================================================= */

/* Is the entry of the origin from which the program wants none? */
static int is_unwanted(const looking *w, const mw_entry *entry) {
  lua_State *L = w->L;
  int top = lua_gettop(L), is = 0;
  if (!w->f->filters || entry->context == 0) return 0; /* wanted anyway? */
  lua_rawgeti(L, PAGES, mwb_page_in(w->look, entry));
  if (lua_rawgeti(L, -1, (lua_Integer)entry->context) == LUA_TTABLE) {
    lua_pushvalue(L, ORIGIN_KEY);
    lua_rawget(L, -2);
    is = lua_rawequal(L, -1, ORIGIN);
  }
  lua_settop(L, top);
  return is;
}

/* Folds the entries.  One that the program does not want is known to it: what
** the program wants begins after. */
static void fold_all(looking *w) {
  uint32_t i;
  for (i = 1; i <= w->look->n; i++) {
    mwb_folded *at = mwb_fold_find(w->L, w->s, &w->fold, i);
    int is_own = is_unwanted(w, &w->look->entries[i - 1]);
    if (w->marks != NULL) /* does the feed filter below a root? */
      w->marks[i] = (uint8_t)((is_own ? OWN : 0) | (at->last == 0 ? FIRST : 0));
    at->last = i;
    if (is_own) /* known up to here? */
      at->first = 0;
    else if (at->first == 0) /* the first that is wanted? */
      at->first = i;
  }
}

/* Does the program know of the news by an entry of its own? */
static int is_own(const news *its) {
  return its != NULL && its->put != 0 && its->put != NONE;
}

/* Is the table on the top news that entry `put` has put in, or below such? */
static int is_put(looking *w, uint32_t put) {
  mw_handle h = mwb_handle_of(w->L, w->s, -1);
  news *its = (h == MW_NONE) ? NULL : find_news(w->f, h);
  if (its == NULL || its->put != 0 || knows(w->f, h)) return 0; /* no news? */
  its->put = put;
  w->unseen |= put == NONE ||
               is_late(w->s, h, 2 * w->look->entries[put - 1].seq) ||
               mwb_intercepting_at(w->L, w->s, -1) == MW_NONE;
  return 1;
}

/* A step of `put_in`: by fields that were not written after. */
static int enter_put(looking *w, int parent, uint32_t put) {
  const mwb_folded *field;
  if (!lua_istable(w->L, -1)) return 0;
  field = written(w, parent);
  return (field == NULL || field->last < put) && is_put(w, put);
}

/* The program knows the table in a part of entry `i`, and what was below the
** table, since entry `put`.  If some of it was written unseen since, the
** program is to be told of it all the same. */
static void put_in(looking *w, uint32_t i, int part, uint32_t put) {
  lua_State *L = w->L;
  const mw_entry *entry = &w->look->entries[i - 1];
  if (entry->type[part] != MW_TOTHER) return; /* surely no table? */
  mwb_unpack_in(L, &w->place, entry, part);
  note_leaf(w, entry->obj);
  w->unseen = 0;
  if (lua_istable(L, -1) && is_put(w, put)) { /* news, and put in by it? */
    walk_from(w, enter_put, put);
    for (i = 1; w->unseen && lua_rawgeti(L, SCRATCH + 2, i) != LUA_TNIL; i++) {
      find_news(w->f, mwb_handle_of(L, w->s, -1))->put = NONE;
      lua_pop(L, 1);
    }
  }
  lua_settop(L, SCRATCH);
}

/* Finds what the program knows by its own entries: what these put into what it
** knows, and what was below that; also if others have moved it since, which the
** first entry of a field says. */
static void find_own(looking *w) {
  uint32_t i;
  for (i = 1; i <= w->look->n; i++) {
    const mw_entry *entry = &w->look->entries[i - 1];
    const news *its;
    if (w->marks[i] == 0 || !mwi_is_of_field(entry->kind)) continue;
    its = find_news(w->f, entry->obj);
    if ((w->marks[i] & OWN) && (knows(w->f, entry->obj) || is_own(its)))
      put_in(w, i, MW_NOW, i); /* into what it knows */
    else if ((w->marks[i] & OWN) && its != NULL && its->put == NONE)
      put_in(w, i, MW_NOW, NONE); /* into what it is told of all the same */
    if ((w->marks[i] & FIRST) && its != NULL && its->put != 0)
      put_in(w, i, MW_OLD, its->put); /* others may have moved it since */
  }
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Tells of a field of the object at `object`, with the key and value on the
** top, behind the last item. */
static void add_told(looking *w, int object, int kind) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  lua_pushvalue(L, object);
  lua_rawseti(L, TOLD, ++w->n_told);
  lua_pushvalue(L, top - 1);
  lua_rawseti(L, TOLD, ++w->n_told);
  lua_pushvalue(L, top);
  lua_rawseti(L, TOLD, ++w->n_told);
  lua_pushinteger(L, kind);
  lua_rawseti(L, TOLD, ++w->n_told);
}

static void add_item(const looking *w, uint32_t first, uint32_t last,
                     int kind) {
  item *its = &w->walked->items[w->walked->n++];
  its->first = first;
  its->last = last;
  its->kind = kind;
  its->told = w->n_told;
}

/* Returns the news of the value on the top, which the object `h` holds, if the
** program is to be told of it; else NULL. */
static news *coming(const looking *w, mw_handle h) {
  news *its;
  note_leaf(w, h);
  if (w->f->root == MW_NONE || !lua_istable(w->L, -1)) return NULL;
  its = find_news(w->f, mwb_handle_of(w->L, w->s, -1));
  return (its != NULL && its->comes && !is_own(its)) ? its : NULL;
}

/* Tells of each field of what comes, and of what is below and comes, too. */
static int enter_told(looking *w, int parent, uint32_t unused) {
  news *its = coming(w, mwb_handle_of(w->L, w->s, parent));
  int attaches = its != NULL && !its->told;
  (void)unused;
  add_told(w, parent, attaches ? (int)ATTACH : (int)MW_INSERT);
  if (attaches) its->told = 1;
  return attaches;
}

/* Returns the kind of a field's change, or -1 if nothing has changed.  What a
** finaliser has written in the last look is in what the look has read, and is
** an entry of this one: so what seems not to have changed may have. */
static int kind_of(const looking *w, const mw_entry *first,
                   const mw_entry *last) {
  if (last->kind == MW_CALL) return MW_CALL; /* has a method written? */
  if (mwb_is_same_part(w->L, &w->place, first, MW_OLD, last, MW_NOW)) {
    if (!w->f->ahead || last->kind == MW_METATABLE) return -1; /* unchanged? */
    return (last->type[MW_NOW] == MW_TABSENT) ? MW_DELETE : MW_UPDATE;
  }
  if (last->kind == MW_METATABLE) return MW_METATABLE;
  if (first->type[MW_OLD] == MW_TABSENT) return MW_INSERT;
  return (last->type[MW_NOW] == MW_TABSENT) ? MW_DELETE : MW_UPDATE;
}

/* Tells of a field.  For a table of which the program is told anew, the program
** needs to know all fields that hold the table. */
static void tell_field(looking *w, const mwb_folded *at) {
  const mw_entry *entries = w->look->entries, *last = &entries[at->last - 1];
  int kind = (at->first == 0) ? -1 : kind_of(w, &entries[at->first - 1], last);
  news *its = NULL;
  if (last->type[MW_NOW] == MW_TOTHER && mwi_is_of_field(last->kind)) {
    mwb_unpack_in(w->L, &w->place, last, MW_NOW);
    its = coming(w, last->obj);
  }
  if (its != NULL && kind < 0) kind = MW_UPDATE; /* it holds what comes */
  if (its != NULL && !its->told) kind = ATTACH;  /* not told of yet? */
  if (kind >= 0)
    add_item(w, (at->first == 0) ? at->last : at->first, at->last, kind);
  if (kind == ATTACH) { /* all that comes with it is told of, too */
    its->told = 1;
    walk_from(w, enter_told, 0);
    w->walked->items[w->walked->n - 1].told = w->n_told;
  }
  lua_settop(w->L, SCRATCH);
}

/* Is the field of what the program knows, and news to it? */
static int is_news(looking *w, const mwb_folded *at) {
  mw_handle h = w->look->entries[at->last - 1].obj;
  const news *its;
  if (w->f->root == MW_NONE) return 1; /* is all of it wanted? */
  its = find_news(w->f, h);
  if (its != NULL && its->comes) return is_own(its) && at->last > its->put;
  return (its == NULL || !its->goes) && is_below(w, h);
}

static void tell_all(looking *w) {
  lua_State *L = w->L;
  uint32_t i;
  if (w->marks != NULL) find_own(w);
  for (i = 0; i < w->fold.n; i++)
    if (is_news(w, &w->fold.fields[i])) tell_field(w, &w->fold.fields[i]);
  for (i = 1; i <= w->f->news.n; i++, lua_settop(L, SCRATCH)) {
    if (!news_at(w->f, i)->goes || !mwb_alive(L, w->s, news_at(w->f, i)->obj))
      continue; /* stays, or has died */
    lua_pushnil(L);
    lua_pushnil(L);
    add_told(w, SCRATCH + 1, DETACH);
  }
  add_item(w, 0, 0, -1);
}

/* }====================================================== */

/* {======================================================
** Changes
** ======================================================= */

/* Upvalues of `next_change`, after state and objects. */
enum { WALK = 3, WALK_PAGES, WALK_TOLD, WALK_LOOK };

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
    if (mark < 0) return 5; /* has it no mark of JSON? */
    lua_pushstring(L, (mark % 2 == 0) ? "array" : "object");
    return 6;
  } else {
    mwb_push_kind(L, s, kind);
  }
  return 5;
}

/* iterator() -> object, key, old, new, kind, mark */
static int next_change(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  changes *its = (changes *)lua_touserdata(L, lua_upvalueindex(WALK));
  lua_settop(L, 0);
  while (s->engine != NULL) { /* until the state is closed */
    const item *the = &its->items[its->at];
    const mw_entry *last;
    if (its->at > 0 && its->told < the[-1].told) { /* told behind the last? */
      int i, kind;
      for (i = 1; i <= 4; i++)
        lua_rawgeti(L, lua_upvalueindex(WALK_TOLD), ++its->told);
      kind = (int)lua_tointeger(L, 4);
      lua_pushnil(L);
      lua_replace(L, 4);
      lua_rotate(L, 3, 1);
      return push_kind(L, s, kind);
    }
    if (its->at == its->n) break; /* was it the last item? */
    its->at++;
    if (the->kind < 0) continue; /* is there only what was told? */
    last = &its->place.entries[the->last - 1];
    if (!mwi_identity_is_valid(&s->engine->identity, last->obj) || /* dead? */
        lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(last->obj)) == LUA_TNIL) {
      lua_settop(L, 0);
      continue;
    }
    mwb_unpack_in(L, &its->place, last, MW_KEY);
    mwb_unpack_in(L, &its->place, &its->place.entries[the->first - 1], MW_OLD);
    mwb_unpack_in(L, &its->place, last, MW_NOW);
    return push_kind(L, s, the->kind);
  }
  return 0;
}

/* Makes the items of a fold. */
static void begin_items(looking *w) {
  size_t size = offsetof(changes, items) + (w->fold.n + 1) * sizeof(item);
  w->walked = (changes *)lua_newuserdatauv(w->L, size, 0);
  memset(w->walked, 0, offsetof(changes, items));
  w->walked->place = w->place;
  w->walked->place.values = lua_upvalueindex(WALK_PAGES);
  lua_replace(w->L, ITEMS);
}

/* Pushes an iterator of the items. */
static void push_changes(const looking *w) {
  static const int kept[] = {ITEMS, PAGES, TOLD, ENTRIES};
  lua_State *L = w->L;
  int i;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  for (i = 0; i < 4; i++) lua_pushvalue(L, kept[i]);
  lua_pushcclosure(L, next_change, WALK_LOOK);
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

/* Leaves the entries that the program wants: those of what is below the root,
** before the look or after it. */
static void filter(looking *w) {
  lua_State *L = w->L;
  mwb_look *its = w->look;
  uint32_t i, n = 0;
  for (i = 1; i <= w->f->news.n; i++, lua_settop(L, SCRATCH)) {
    mw_handle h = news_at(w->f, i)->obj;
    if (!news_at(w->f, i)->comes || !mwb_alive(L, w->s, h)) continue;
    for (push_fields(w); mwb_next_field(L, SCRATCH + 2); lua_pop(L, 1))
      note_leaf(w, h);
  }
  for (i = 0; i < its->n; i++) {
    const mw_entry *entry = &its->entries[i];
    const news *found = find_news(w->f, entry->obj);
    if (!(found != NULL && found->comes) && !is_below(w, entry->obj)) continue;
    if (entry->type[MW_NOW] == MW_TOTHER) { /* perhaps a userdata? */
      mwb_unpack_in(L, &w->place, entry, MW_NOW);
      note_leaf(w, entry->obj);
      lua_pop(L, 1);
    }
    if (!is_unwanted(w, entry)) its->entries[n++] = *entry;
  }
  its->n = n;
}

/* Begins a look at all entries that wait; folds them if `folds`. */
static void begin_look(looking *w, lua_State *L, int folds) {
  const mw_engine *e;
  uint32_t n;
  memset(w, 0, offsetof(looking, fold));
  w->L = L;
  w->f = (mwb_feed *)lua_touserdata(L, FEED);
  w->s = w->f->s;
  e = w->s->engine;
  w->n_told = 0;
  w->marks = NULL;
  lua_settop(L, FEED);
  luaL_checkstack(L, 3 * LUA_MINSTACK, "look");
  drop_news(w->f, 1);
  w->look = mwb_push_look(L, w->s, mw_reader_next(e, w->f->id),
                          mw_delivery_last(e) + 1);
  n = folds ? w->look->n : 0;
  w->place.entries = w->look->entries;
  w->place.values = PAGES;
  w->place.page = w->look->first_page + 1;
  lua_getiuservalue(L, ENTRIES, 1);
  mwb_fold_begin(L, &w->fold, &w->place, n);
  if (w->f->filters && w->f->root != MW_NONE) /* may it have put some in? */
    w->marks = (uint8_t *)lua_newuserdatauv(L, n + 1, 0);
  lua_settop(L, ITEMS);
  lua_newtable(L); /* TOLD */
  lua_pushboolean(L, 0);
  lua_getiuservalue(L, FEED, NOT_FROM);
  lua_pushliteral(L, "origin");
  if (folds) fold_all(w);
}

/* Has a look nothing to look at? */
static int is_idle(const mwb_feed *f) {
  const mw_engine *e = f->s->engine;
  return mw_reader_next(e, f->id) > mw_delivery_last(e) &&
         (f->root == MW_NONE || f->lost == mw_reader_lost(e, f->id));
}

/* Pushes an iterator of what is new; `compares` what is below the root, too. */
static int look_at(lua_State *L, int squashed, int compares) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mw_engine *e = f->s->engine;
  uint64_t end = mw_delivery_last(e) + 1;
  int lost = compares && f->lost != mw_reader_lost(e, f->id);
  looking w;
  begin_look(&w, L, squashed || lost);
  if (compares) gather_news(&w, lost);
  if (squashed) {
    begin_items(&w);
    tell_all(&w);
    push_changes(&w);
  } else {
    if (f->root != MW_NONE || f->filters) filter(&w); /* is not all wanted? */
    lua_pushvalue(L, ENTRIES);
    mwb_push_entry_iterator(L, 0);
  }
  mw_reader_seek(e, f->id, end);
  f->ahead = f->root != MW_NONE && (f->s->needs & MWB_WAITS) != 0;
  if (!compares) return 1; /* are there no news? */
  mwi_reach_read(e, f->reach, w.logged);
  f->moved = w.moved;
  know(&w);
  return 1;
}

/* compare(feed, squashed) -> iterator.  If that fails, the next look is at the
** same entries. */
static int compare(lua_State *L) { return look_at(L, lua_toboolean(L, 2), 1); }

/* }====================================================== */

/* {======================================================
** Feeds
** ======================================================= */

static mwb_feed *check_feed(lua_State *L, const mwb_state *s,
                            const char *name) {
  mwb_feed *f;
  f = (mwb_feed *)mwb_check_self(L, s, name, MWB_FEED, "feed");
  if (f->id == 0) luaL_error(L, "calling '%s' on a feed that is closed", name);
  lua_settop(L, FEED);
  return f;
}

/* Nothing is below a root that has died, and one that lives cannot die in the
** look.  There the policy's functions may be called, which may not look in
** their turn. */
static int take_look(lua_State *L, const char *name, int squashed) {
  mwb_state *s = mwb_enter(L);
  mwb_feed *f = check_feed(L, s, name);
  int status;
  if (f->root != MW_NONE && !mwb_alive(L, s, f->root)) { /* is the root dead? */
    forget_all(f);
    mw_reader_seek(s->engine, f->id, mw_delivery_last(s->engine) + 1);
  }
  if (f->busy) return luaL_error(L, "the feed is being read");
  if (f->root == MW_NONE || is_idle(f)) return look_at(L, squashed, 0);
  mwb_push_function(L, s, compare);
  lua_pushvalue(L, FEED);
  lua_pushboolean(L, squashed);
  mwb_begin_scan(s);
  f->busy = 1;
  status = lua_pcall(L, 2, 1, 0);
  f->busy = 0;
  return (status == LUA_OK) ? 1 : lua_error(L);
}

/* feed:read() -> iterator of entries */
static int feed_read(lua_State *L) { return take_look(L, "read", 0); }

/* feed:changes() -> iterator of object, key, old, new, kind, mark */
static int feed_changes(lua_State *L) { return take_look(L, "changes", 1); }

/* feed:lost() -> how many entries were forgotten */
static int feed_lost(lua_State *L) {
  const mwb_feed *f = check_feed(L, mwb_enter_to_read(L), "lost");
  lua_pushinteger(L, (lua_Integer)mw_reader_lost(f->s->engine, f->id));
  return 1;
}

/* feed:seq() -> number of the last entry that was looked at */
static int feed_seq(lua_State *L) {
  const mwb_feed *f = check_feed(L, mwb_enter_to_read(L), "seq");
  lua_pushinteger(L, (lua_Integer)mw_reader_next(f->s->engine, f->id) - 1);
  return 1;
}

/* feed:pending() -> how many entries the next look is at */
static int feed_pending(lua_State *L) {
  const mwb_feed *f = check_feed(L, mwb_enter_to_read(L), "pending");
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
    if (its != f && its->root == f->root && its->reach != 0 && /* ready? */
        mw_reach_rule(e, its->reach, &root) ==
            mw_reach_rule(e, f->reach, &root) &&      /* the same `descend`? */
        (found == NULL || its->since < found->since)) /* for longer? */
      found = its;
  return found;
}

/* close(feed); again does nothing */
static int close_feed(lua_State *L) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  mwb_state *s = f->s;
  mwb_feed **at = &s->readers->feeds;
  if (f->id == 0 || s->engine == NULL || mwb_put_off(L, s)) return 0;
  if (f->busy) return luaL_error(L, "the feed is being read"); /* by a rule? */
  mw_reader_close(s->engine, f->id);
  f->id = 0;
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (f->root == MW_NONE) return 0; /* not in the list of feeds? */
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  drop_news(f, 0);
  forget_all(f);
  if (f->reach != 0 && mwi_identity_is_valid(&s->engine->identity, f->root))
    mwb_end_reach(L, s, f->root, f->reach); /* a dead root's has ended */
  return 0;
}

static int feed_close(lua_State *L) {
  const mwb_state *s = mwb_state_of(L);
  mwb_check_self(L, s, "close", MWB_FEED, "feed");
  return close_feed(L);
}

/* open_root(root, feed, since or nil, descend or nil) -> whether there was such
** a feed since the number; what the program knows is as of that number */
static int open_root(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, 2);
  const mwb_feed *other;
  uint64_t first = mw_reader_next(s->engine, f->id);
  char name[] = "moonwatch.feed....";
  int late = !lua_isnil(L, 3), ok = 1;
  mw_walk known;
  mw_handle h;
  looking w;
  memcpy(name + sizeof(name) - 5, &f->id, sizeof(f->id));
  mwb_check(L, mw_clock_open(s->engine, name, sizeof(name), &f->known));
  if (s->readers->heard == 0) /* the first feed with a root ever? */
    mwb_check(L, mw_clock_open(s->engine, NULL, 0, &s->readers->heard));
  f->root = mwb_identify(L, s, "feed", 1, 1);
  f->next = s->readers->feeds;
  s->readers->feeds = f;
  mwb_begin_reach(L, s, 4, &f->reach);
  other = other_feed(f);
  f->since = (other != NULL) ? other->since : mw_delivery_last(s->engine);
  if (late && (other == NULL || other->since >= first)) return 0;
  mwb_begin_scan(s);
  lua_settop(L, 2);
  lua_insert(L, FEED);
  begin_look(&w, L, 1);
  learn(&w);
  mwi_reach_read(s->engine, f->reach, MWI_MISSED);
  f->moved = w.look->n > 0 || is_apart(s, f);
  mw_clock_since(s->engine, f->known, 0, &known);
  while (late && ok && (h = mw_clock_next(s->engine, &known)) != MW_NONE)
    ok = !is_late(s, h, 2 * first - 1);
  lua_pushboolean(L, ok);
  return 1;
}

/* open_feed(capacity, origin, since or nil) -> feed; nothing if not all entries
** since are kept */
static int open_feed(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer capacity = lua_tointeger(L, 1), since = lua_tointeger(L, 3);
  mwb_feed *f;
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
  if (capacity > UINT32_MAX / 2) capacity = UINT32_MAX / 2;
  f->id = mw_reader_open(s->engine, (uint32_t)capacity, MW_WHOLE);
  if (f->id == 0) mwb_check(L, MW_NOMEM);
  mwb_need(s, MWB_APPENDS, 1);
  if (lua_isnil(L, 3) || /* from now on? */
      mw_reader_seek(s->engine, f->id, (uint64_t)since + 1) == MW_OK)
    return 1;
  lua_replace(L, FEED); /* some are forgotten */
  return close_feed(L);
}

void mwb_open_feeds(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open_feed", open_feed}, {"open_root", open_root}, {NULL, NULL}};
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
