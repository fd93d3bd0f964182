/*
** feed.c - what changed since the last look: mw.feed.
** SPDX-License-Identifier: MIT
**
** A feed is a reader of what is delivered.  A look takes all entries that the
** reader has not read: as they are, or folded to one change for each field.
**
**     look:      entry 1 | entry 2 | entry 3 | entry 4 | ...
**     fold:      { 1, 3 } | { 2, 4 }     first and last entry of a field
**     told:      change | change, object, key, value | change | ...
**
** A change has the numbers of a field's entries, and its kind; or no entry, and
** then it is followed by what the program is told of: a field of a table that
** came below the root, which stand behind the attachment of the table; or, at
** the end, what has left.
**
** A feed with a root knows which objects the program knows, as of the last
** look: those with a tag of its clock, the number of an entry, so that what was
** written to the object before is known.  The feed also has a reach in
** tree.c, which logs what becomes a member and what ceases to be one.  That is
** the graph of now, and the program is told of what is there as delivered; both
** are the same while no open transaction has written a table.  So a look
** compares the logged objects with the tags; or else, and where entries or the
** log were lost, all that is below the root as delivered.  What has come or
** gone are the *news*, which last as long as the look.  The program is told of
** the changes of what it knew and knows, of all fields of what it did not know,
** and of what it knew that has gone.  A userdata is a value, and has no news:
** once a table below the root has held it, the program is told of its changes.
**
** Invariant: what the program knows has a shadow, also after it has left, until
** the look that says so.  So no write to it is missed, and what was moved or
** away between two looks is known still.
**
** What the program has put into what it knows itself, as the origin from which
** it wants no entries, it knows once that is delivered, with all that came with
** it; but not during a look, when numbers are less than the last one.
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

struct mwb_feed {
  mwb_state *s;
  mwb_feed *next; /* of the open feeds with a root */
  mw_reader id;   /* 0: closed */
  int not_from;   /* in the registry, the origin from which the program wants
                  ** no entries; LUA_NOREF: none */
  mw_handle root; /* MW_NONE: what is written anywhere */
  mw_reach reach; /* of the root; 0: none yet */
  uint64_t since; /* from this number on the root has had such a feed */
  uint64_t lost;  /* of the reader, when `known` was made */
  int busy;       /* is there a look under way? */
  int ahead;      /* has the last look perhaps read what is told of later? */
  int moved;      /* was the tree another than what was delivered? */
  mw_clock known; /* tags what the program knows */
};

/* The user value of a feed: a weak set of the userdata that were seen below the
** root.  A feed keeps no object alive but those of its entries. */
#define LEAVES 1

/* News: an object has come, and the program is to be told of its fields, or has
** been; or the program knew it, and it has gone. */
enum { COMES = 1, TELLS, GOES };

/* Kinds of changes, next to enum mw_kind. */
enum { ATTACH = MW_KINDS, DETACH };

/* A change as an integer: the kind, and the first and the last entry. */
#define KIND_BITS 4
#define ENTRY_BITS 30

/* The stack of a look. */
enum {
  FEED = 1,
  ENTRIES, /* a mwb_look */
  PAGES,   /* its user value */
  FOLD,
  NEWS, /* handle -> news */
  TOLD,
  DELIVERED, /* see mwb_push_delivered; false: not asked for yet */
  SCRATCH = DELIVERED
};

typedef struct looking {
  lua_State *L;
  mwb_state *s;
  mwb_feed *f;
  mwb_look *look;
  mwb_place place;    /* of its entries */
  lua_Integer n_told; /* values at TOLD */
  uint32_t logged;    /* by the reach, up to this look */
  int moved;          /* is the tree another than what is delivered? */
  int has_news;       /* is there anything in NEWS? */
  int before;         /* are fields that entries have written left out? */
  mwb_fold fold; /* `first` is the first one that the program wants, or 0 */
} looking;

/* {======================================================
** What the program knows, and what is news
** ======================================================= */

/* The tag is the number of the entry that includes the object, the next one if
** a store is under way that is no rollback; or that of the last one, when
** something else does.  Without memory, all objects count as late. */
void mwb_note_heard(mwb_state *s, mw_handle h) {
  uint64_t *now,
      last = mw_delivery_last(s->engine) + (s->watch->storing > 0 ? 1 : 0);
  if (s->readers->feeds == NULL) return;
  now = &s->engine->clock.clocks[s->readers->heard].now;
  if (last > *now) *now = last;
  if (mw_clock_tag(s->engine, s->readers->heard, h) != MW_OK)
    s->readers->unheard = last;
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

/* Returns the news of an object, or 0. */
static int news_of(const looking *w, mw_handle h) {
  int news;
  if (!w->has_news) return 0;
  lua_rawgeti(w->L, NEWS, (lua_Integer)h);
  news = (int)lua_tointeger(w->L, -1);
  lua_pop(w->L, 1);
  return news;
}

/* Sets the news of an object, with room for what becomes known. */
static void set_news(looking *w, mw_handle h, int news) {
  mw_engine *e = w->s->engine;
  if (mwi_column_need(e, &e->clock.clocks[w->f->known].tags, mw_slot(h),
                      sizeof(mwi_clock_page)) == NULL)
    mwb_check(w->L, MW_NOMEM);
  lua_pushinteger(w->L, news);
  lua_rawseti(w->L, NEWS, (lua_Integer)h);
  w->has_news = 1;
}

/* }====================================================== */

/* {======================================================
** What the program has put in itself
** ======================================================= */

/* know_put(feed, value): the program has put the value below the root.  If that
** is a table, the program knows it, and what the table holds, but no table
** before those below it, for memory may end. */
static int know_put(lua_State *L) {
  const mwb_feed *f = (const mwb_feed *)lua_touserdata(L, 1);
  mw_engine *e = f->s->engine;
  mw_handle h = lua_istable(L, 2) ? mwb_handle_of(L, f->s, 2) : MW_NONE;
  lua_Integer i, n = 1;
  if (knows(f, h) || !mwi_reach_has(e, f->reach, h)) return 0;
  lua_createtable(L, 1, 1); /* at 3: a list, and a set */
  lua_pushvalue(L, 2);
  lua_rawseti(L, 3, 1);
  for (i = 1; i <= n; i++, lua_settop(L, 3)) {
    lua_rawgeti(L, 3, i);
    mwb_push_contents(L, 4);
    for (lua_pushnil(L); lua_next(L, 5) != 0; lua_settop(L, 6)) {
      h = lua_istable(L, 7) ? mwb_handle_of(L, f->s, 7) : MW_NONE;
      if (h == MW_NONE || knows(f, h) ||
          !mwi_tree_holds(e, f->reach, mwb_handle_of(L, f->s, 4), h))
        continue;
      lua_pushvalue(L, 7);
      if (lua_rawget(L, 3) != LUA_TNIL) continue;
      lua_pushvalue(L, 7);
      lua_rawseti(L, 3, ++n);
      lua_pushvalue(L, 7);
      lua_pushboolean(L, 1);
      lua_rawset(L, 3);
    }
  }
  e->clock.clocks[f->known].now = mw_delivery_last(e);
  for (; n > 0; n--, lua_settop(L, 3)) {
    lua_rawgeti(L, 3, n);
    mwb_check(L, mw_clock_tag(e, f->known, mwb_handle_of(L, f->s, 4)));
  }
  return 0;
}

/* Is the entry, whose page is on the top, of the origin from which the program
** wants none?  Pops the page. */
static int is_own(lua_State *L, const mwb_feed *f, const mw_entry *entry) {
  int page = lua_gettop(L), is = 0;
  if (entry->context != 0 &&
      lua_rawgeti(L, page, (lua_Integer)entry->context) == LUA_TTABLE) {
    lua_getfield(L, -1, "origin");
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->not_from);
    is = lua_rawequal(L, -1, -2);
  }
  lua_settop(L, page - 1);
  return is;
}

/* What the program does not come to know for want of memory, it is told of. */
void mwb_note_delivered(lua_State *L, mwb_state *s, uint64_t last) {
  mwb_feed *f = s->readers->feeds;
  int top = lua_gettop(L);
  uint64_t seq;
  mw_entry entry;
  for (; f != NULL; f = f->next) {
    if (f->not_from == LUA_NOREF || f->busy) continue;
    seq = mw_reader_next(s->engine, f->id); /* some are lost, perhaps */
    if (seq <= last) seq = last + 1;
    for (; seq <= mw_delivery_last(s->engine); seq++, lua_settop(L, top)) {
      mwi_reader_read(s->engine, seq, &entry);
      if (entry.type[MW_NOW] != MW_TOTHER || !knows(f, entry.obj)) continue;
      mwb_push_page(L, s, seq);
      lua_pushcfunction(L, know_put);
      lua_pushlightuserdata(L, f);
      mwb_unpack(L, top + 1, &entry, MW_NOW);
      lua_pushvalue(L, top + 1);
      if (is_own(L, f, &entry)) lua_pcall(L, 2, 0, 0);
    }
  }
}

/* Does the program not want the entry, because it is its own, or from before
** the program has put in the object? */
static int is_unwanted(const looking *w, const mw_entry *entry) {
  const mwb_feed *f = w->f;
  if (f->not_from == LUA_NOREF) return 0;
  if (f->root != MW_NONE &&
      (int64_t)entry->seq <=
          mw_clock_generation(w->s->engine, f->known, entry->obj))
    return 1;
  lua_rawgeti(w->L, PAGES, mwb_page_in(w->look, entry));
  return is_own(w->L, f, entry);
}

/* Folds the entries.  One that the program does not want is known to it: what
** the program wants begins after. */
static void fold_all(looking *w) {
  uint32_t i;
  for (i = 1; i <= w->look->n; i++) {
    mwb_folded *at = mwb_fold_find(w->L, w->s, &w->fold, i);
    at->last = i;
    if (is_unwanted(w, &w->look->entries[i - 1]))
      at->first = 0;
    else if (at->first == 0)
      at->first = i;
  }
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

/* Does a walk enter the value on the top, which the table at `parent` has under
** the key below the top? */
typedef int (*step)(looking *w, int parent);

/* Walks from the value on the top, through the fields of the tables in a list
** that takes the value's place, to which it adds what it enters. */
static void walk(looking *w, step enter) {
  lua_State *L = w->L;
  int list = lua_gettop(L), table = list + 1;
  lua_Integer i, n = 1;
  lua_createtable(L, 1, 0);
  lua_insert(L, list);
  lua_rawseti(L, list, 1);
  for (i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++, lua_settop(L, list))
    for (push_fields(w); mwb_next_field(L, table + 1); lua_pop(L, 1)) {
      if (!enter(w, table)) continue;
      lua_pushvalue(L, -1);
      lua_rawseti(L, list, ++n);
    }
}

/* If a userdata is on the top, notes that it was seen below the root. */
static void note_leaf(const looking *w) {
  lua_State *L = w->L;
  if (w->f->root == MW_NONE || lua_type(L, -1) != LUA_TUSERDATA) return;
  lua_getiuservalue(L, FEED, LEAVES);
  lua_pushvalue(L, -2);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* Adds the object on the top to the set of what is below the root.  It has a
** shadow from now on. */
static void include(looking *w, int set) {
  lua_State *L = w->L;
  int object = lua_gettop(L);
  mw_handle h = mwb_identify(L, w->s, "feed", object, 1);
  lua_pushvalue(L, object);
  lua_pushboolean(L, 1);
  lua_rawset(L, set);
  if (!mwb_push_shadow(L, object)) {
    if (mwi_object_need(w->s->engine, h) == NULL) mwb_check(L, MW_NOMEM);
    mwb_push_class(L, object);
    mwb_enshadow(L, w->s, h, object, -1);
  }
  lua_settop(L, object);
  if (!knows(w->f, h)) set_news(w, h, COMES);
}

/* A step of `walk_below`.  What the tree has below the parent is below. */
static int enter_below(looking *w, int parent) {
  lua_State *L = w->L;
  int set = parent - 2, is_in;
  mw_handle at = mwb_handle_of(L, w->s, parent), h;
  if (w->before && /* and has an entry written the field? */
      mwb_fold_field(L, w->s, &w->fold, at, lua_gettop(L) - 1) != NULL)
    return 0;
  note_leaf(w);
  if (!lua_istable(L, -1)) return 0;
  lua_pushvalue(L, -1);
  is_in = lua_rawget(L, set) != LUA_TNIL;
  lua_pop(L, 1);
  if (is_in) return 0;
  h = mwb_handle_of(L, w->s, -1);
  if (!(h != MW_NONE && mwi_tree_holds(w->s->engine, w->f->reach, at, h)) &&
      !mwb_enters(L, w->s, w->f->reach, parent))
    return 0;
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
  mwb_alive(L, w->s, w->f->root);
  include(w, set);
  w->before = before;
  walk(w, enter_below);
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
  if (e->journal.entries == 0) s->journal->has_tables = 0;
  while (s->journal->has_tables && mwi_journal_undone(e, &walk))
    if ((walk.entry.type[MW_OLD] == MW_TOTHER ||
         walk.entry.type[MW_NOW] == MW_TOTHER || mw_journal_is_mixed(e)) &&
        mwi_reach_has(e, f->reach, walk.entry.obj))
      return 1;
  return 0;
}

/* Compares what the program knows with all that is below the root as delivered;
** with `before`, by fields that no entry has written. */
static void compare_all(looking *w, int before) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  int set = lua_gettop(L) + 1;
  mw_walk known;
  mw_handle h;
  walk_below(w, before);
  mw_clock_since(e, w->f->known, 0, &known);
  for (; (h = mw_clock_next(e, &known)) != MW_NONE; lua_settop(L, set))
    if (!mwb_alive(L, w->s, h) || lua_rawget(L, set) == LUA_TNIL)
      set_news(w, h, GOES);
  lua_settop(L, set - 1);
}

/* What is news is known from now on, as of the entry with the number `last`. */
static void know(const looking *w, uint64_t last) {
  lua_State *L = w->L;
  mw_engine *e = w->s->engine;
  e->clock.clocks[w->f->known].now = last;
  for (lua_pushnil(L); lua_next(L, NEWS) != 0; lua_pop(L, 1)) {
    mw_handle h = (mw_handle)lua_tointeger(L, -2);
    if (lua_tointeger(L, -1) == GOES)
      forget(w->f, h);
    else
      mw_clock_tag(e, w->f->known, h);
  }
}

/* The program knows what is below the root by fields that no entry has written,
** and nothing else. */
static void learn(looking *w) {
  forget_all(w->f);
  compare_all(w, 1);
  know(w, mw_reader_next(w->s->engine, w->f->id) - 1);
  w->f->lost = mw_reader_lost(w->s->engine, w->f->id);
  lua_newtable(w->L);
  lua_replace(w->L, NEWS);
}

/* Has an entry taken out a table, or put one in? */
static int has_tables(const looking *w) {
  uint32_t i, part;
  int has = 0;
  for (i = 0; i < w->look->n && !has; i++)
    for (part = MW_OLD; part <= MW_NOW; part++) {
      if (w->look->entries[i].type[part] != MW_TOTHER) continue;
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
  if (!lost && (f->moved || w->moved) && !has_tables(w)) {
    w->moved = 1;
    return;
  }
  if (lost) learn(w);
  if (lost || f->moved || w->moved || w->logged == MWI_MISSED) {
    compare_all(w, 0);
    return;
  }
  for (i = 0; i < w->logged; i++) {
    int is_below = mwi_reach_has(e, f->reach, list[i]);
    if (is_below != knows(f, list[i]))
      set_news(w, list[i], is_below ? COMES : GOES);
  }
}

/* Is an object that was written, and did not come, below the root? */
static int is_below(const looking *w, mw_handle h) {
  lua_State *L = w->L;
  int top, yes;
  if (w->f->root == MW_NONE || knows(w->f, h)) return 1;
  top = lua_gettop(L);
  yes = mwb_alive(L, w->s, h) && lua_isuserdata(L, -1);
  if (yes) {
    lua_getiuservalue(L, FEED, LEAVES);
    lua_insert(L, -2);
    yes = lua_rawget(L, -2) != LUA_TNIL;
  }
  lua_settop(L, top);
  return yes;
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Appends the value on the top to what is told. */
static void tell(looking *w) { lua_rawseti(w->L, TOLD, ++w->n_told); }

static void tell_change(looking *w, uint64_t first, uint64_t last, int kind) {
  uint64_t change = (last << ENTRY_BITS | first) << KIND_BITS | (uint64_t)kind;
  lua_pushinteger(w->L, (lua_Integer)change);
  tell(w);
}

/* Returns COMES if the program is to be told of the fields of the value on the
** top, TELLS if that is done, and otherwise 0. */
static int coming(looking *w) {
  mw_handle h;
  int news;
  note_leaf(w);
  if (w->f->root == MW_NONE || !lua_istable(w->L, -1)) return 0;
  h = mwb_handle_of(w->L, w->s, -1);
  news = news_of(w, h);
  if (news == COMES) set_news(w, h, TELLS);
  return (news == GOES) ? 0 : news;
}

/* Tells of each field of what comes, and of what is below and comes, too. */
static int enter_told(looking *w, int parent) {
  lua_State *L = w->L;
  int value = lua_gettop(L), comes = coming(w) == COMES, i;
  const int all[] = {parent, value - 1, value};
  tell_change(w, 0, 0, comes ? (int)ATTACH : (int)MW_INSERT);
  for (i = 0; i < 3; i++) {
    lua_pushvalue(L, all[i]);
    tell(w);
  }
  return comes;
}

/* Returns the kind of a field's change, or -1 if nothing has changed.  What a
** finaliser has written in the last look is in what the look has read, and is
** an entry of this one: so what seems not to have changed may have. */
static int kind_of(const looking *w, const mw_entry *first,
                   const mw_entry *last) {
  int same;
  if (last->kind == MW_CALL) return MW_CALL;
  same = mwb_is_same_part(w->L, &w->place, first, MW_OLD, last, MW_NOW);
  if (same && (!w->f->ahead || last->kind == MW_METATABLE)) return -1;
  if (last->kind == MW_METATABLE) return MW_METATABLE;
  if (first->type[MW_OLD] == MW_TABSENT && !same) return MW_INSERT;
  return (last->type[MW_NOW] == MW_TABSENT) ? MW_DELETE : MW_UPDATE;
}

/* Tells of a field.  For a table of which the program is told anew, the program
** needs to know all fields that hold the table. */
static void tell_field(looking *w, const mwb_folded *at) {
  const mw_entry *entries = w->look->entries, *last = &entries[at->last - 1];
  uint32_t first = (at->first == 0) ? at->last : at->first;
  int kind = (at->first == 0) ? -1 : kind_of(w, &entries[first - 1], last);
  int news = 0;
  if (last->type[MW_NOW] == MW_TOTHER && mwi_is_of_field(last->kind)) {
    mwb_unpack_in(w->L, &w->place, last, MW_NOW);
    news = coming(w);
  }
  if (news == COMES) kind = ATTACH;
  if (news == TELLS && kind < 0) kind = MW_UPDATE;
  if (kind >= 0) tell_change(w, first, at->last, kind);
  if (kind == ATTACH) walk(w, enter_told);
  lua_settop(w->L, SCRATCH);
}

/* Is the field one of what the program knew and knows? */
static int is_changed(const looking *w, mw_handle h) {
  if (!mwi_identity_is_valid(&w->s->engine->identity, h)) return 0;
  return w->f->root == MW_NONE || (news_of(w, h) == 0 && is_below(w, h));
}

static void tell_all(looking *w) {
  lua_State *L = w->L;
  uint32_t i;
  lua_createtable(L, (int)w->fold.n, 0);
  lua_replace(L, TOLD);
  for (i = 0; i < w->fold.n; i++) {
    const mwb_folded *at = &w->fold.fields[i];
    if (is_changed(w, w->look->entries[at->last - 1].obj)) tell_field(w, at);
  }
  for (lua_pushnil(L); lua_next(L, NEWS) != 0; lua_settop(L, SCRATCH + 1)) {
    mw_handle h = (mw_handle)lua_tointeger(L, -2);
    if (lua_tointeger(L, -1) != GOES || !mwb_alive(L, w->s, h)) continue;
    tell_change(w, 0, 0, DETACH);
    tell(w);
    w->n_told += 2; /* no key, and no value */
  }
}

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

/* The upvalues of an iterator, after state and objects: the look, which counts
** in `n` how much has been given; its pages; and what is told. */
enum { ITS_LOOK = 3, ITS_PAGES, ITS_TOLD };

/* iterator() -> object, key, old, new, kind, mark.  The pages hold the objects
** of the entries. */
static int next_change(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_look *its = (mwb_look *)lua_touserdata(L, lua_upvalueindex(ITS_LOOK));
  mwb_place place = {its->entries, lua_upvalueindex(ITS_PAGES),
                     its->first_page + 1};
  int told = lua_upvalueindex(ITS_TOLD);
  uint64_t change, entries;
  lua_settop(L, 0);
  if (s->engine == NULL || lua_rawgeti(L, told, its->n + 1) == LUA_TNIL)
    return 0;
  change = (uint64_t)lua_tointeger(L, 1);
  entries = change >> KIND_BITS;
  its->n++;
  if (entries == 0) {
    lua_rawgeti(L, told, ++its->n);
    lua_rawgeti(L, told, ++its->n);
    lua_pushnil(L);
    lua_rawgeti(L, told, ++its->n);
  } else {
    const mw_entry *last = &its->entries[(entries >> ENTRY_BITS) - 1];
    const mw_entry *first = &its->entries[entries % (1 << ENTRY_BITS) - 1];
    lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(last->obj));
    mwb_unpack_in(L, &place, last, MW_KEY);
    mwb_unpack_in(L, &place, first, MW_OLD);
    mwb_unpack_in(L, &place, last, MW_NOW);
  }
  return push_kind(L, s, (int)(change % (1 << KIND_BITS)));
}

/* Pushes an iterator of what is told. */
static void push_changes(const looking *w) {
  lua_State *L = w->L;
  w->look->n = 0;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, ENTRIES);
  lua_pushvalue(L, PAGES);
  lua_pushvalue(L, TOLD);
  lua_pushcclosure(L, next_change, ITS_TOLD);
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
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, NEWS) != 0; lua_settop(L, top + 1))
    if (lua_tointeger(L, -1) == COMES &&
        mwb_alive(L, w->s, (mw_handle)lua_tointeger(L, -2)))
      for (push_fields(w); mwb_next_field(L, top + 4); lua_pop(L, 1))
        note_leaf(w);
  for (i = 0; i < its->n; i++) {
    const mw_entry *entry = &its->entries[i];
    if (!is_below(w, entry->obj) && news_of(w, entry->obj) != COMES) continue;
    if (entry->type[MW_NOW] == MW_TOTHER) {
      mwb_unpack_in(L, &w->place, entry, MW_NOW);
      note_leaf(w);
      lua_pop(L, 1);
    }
    if (!is_unwanted(w, entry)) its->entries[n++] = *entry;
  }
  its->n = n;
}

/* Begins a look at all entries that wait; folds them if `folds`. */
static void begin_look(looking *w, lua_State *L, int folds) {
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, FEED);
  const mw_engine *e = f->s->engine;
  memset(w, 0, offsetof(looking, fold));
  w->L = L;
  w->f = f;
  w->s = f->s;
  lua_settop(L, FEED);
  luaL_checkstack(L, 3 * LUA_MINSTACK, "look");
  w->look =
      mwb_push_look(L, w->s, mw_reader_next(e, f->id), mw_delivery_last(e) + 1);
  w->place.entries = w->look->entries;
  w->place.values = PAGES;
  w->place.page = w->look->first_page + 1;
  lua_getiuservalue(L, ENTRIES, 1);
  mwb_fold_begin(L, &w->fold, &w->place, folds ? w->look->n : 0);
  lua_newtable(L);       /* NEWS */
  lua_pushnil(L);        /* TOLD */
  lua_pushboolean(L, 0); /* DELIVERED */
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
    tell_all(&w);
    push_changes(&w);
  } else {
    if (f->root != MW_NONE || f->not_from != LUA_NOREF) filter(&w);
    lua_pushvalue(L, ENTRIES);
    mwb_push_entry_iterator(L, 0);
  }
  mw_reader_seek(e, f->id, end);
  f->ahead = f->root != MW_NONE && (f->s->needs & MWB_WAITS) != 0;
  if (!compares) return 1;
  mwi_reach_read(e, f->reach, w.logged);
  f->moved = w.moved;
  know(&w, end - 1);
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
  if (f->root != MW_NONE && !mwb_alive(L, s, f->root)) {
    forget_all(f);
    mw_reader_seek(s->engine, f->id, mw_delivery_last(s->engine) + 1);
  }
  if (f->root == MW_NONE || is_idle(f)) return look_at(L, squashed, 0);
  if (f->busy) return luaL_error(L, "the feed is being read");
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
  luaL_unref(L, LUA_REGISTRYINDEX, f->not_from);
  mwb_need(s, MWB_APPENDS, mwb_is_recorded(s));
  if (f->root == MW_NONE) return 0;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  forget_all(f);
  if (f->reach != 0 && mwi_identity_is_valid(&s->engine->identity, f->root))
    mwb_end_reach(L, s, f->root, f->reach);
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
  mw_engine *e = s->engine;
  mwb_feed *f = (mwb_feed *)lua_touserdata(L, 2);
  const mwb_feed *other;
  uint64_t first = mw_reader_next(e, f->id);
  char name[] = "moonwatch.feed....";
  int late = !lua_isnil(L, 3), ok = 1;
  mw_walk known;
  mw_handle h;
  looking w;
  memcpy(name + sizeof(name) - 5, &f->id, sizeof(f->id));
  mwb_check(L, mw_clock_open(e, name, sizeof(name), &f->known));
  if (s->readers->heard == 0)
    mwb_check(L, mw_clock_open(e, NULL, 0, &s->readers->heard));
  f->root = mwb_identify(L, s, "feed", 1, 1);
  f->next = s->readers->feeds;
  s->readers->feeds = f;
  mwb_begin_reach(L, s, 4, &f->reach);
  other = other_feed(f);
  f->since = (other != NULL) ? other->since : mw_delivery_last(e);
  if (late && (other == NULL || other->since >= first)) return 0;
  mwb_begin_scan(s);
  lua_settop(L, 2);
  lua_insert(L, FEED);
  begin_look(&w, L, 1);
  learn(&w);
  mwi_reach_read(e, f->reach, MWI_MISSED);
  f->moved = w.look->n > 0 || is_apart(s, f);
  mw_clock_since(e, f->known, 0, &known);
  while (late && ok && (h = mw_clock_next(e, &known)) != MW_NONE)
    ok = s->readers->unheard < first &&
         mw_clock_generation(e, s->readers->heard, h) < (int64_t)first;
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
  f->not_from = LUA_NOREF;
  mwb_push(L, s, MWB_FEED);
  lua_setmetatable(L, -2);
  mwb_push_weak(L, "k");
  lua_setiuservalue(L, -2, LEAVES);
  if (capacity >= 1 << ENTRY_BITS) capacity = (1 << ENTRY_BITS) - 1;
  f->id = mw_reader_open(s->engine, (uint32_t)capacity, MW_WHOLE);
  if (f->id == 0) mwb_check(L, MW_NOMEM);
  mwb_need(s, MWB_APPENDS, 1);
  if (!lua_isnil(L, 2)) {
    lua_pushvalue(L, 2);
    f->not_from = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  if (lua_isnil(L, 3) ||
      mw_reader_seek(s->engine, f->id, (uint64_t)since + 1) == MW_OK)
    return 1;
  lua_replace(L, FEED);
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
