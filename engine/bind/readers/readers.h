/*
** readers.h - what readers get: looks, feeds, last writers.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_READERS_H
#define MWB_READERS_H

#include "../journal/journal.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_READER = MWB_READERS_VALUES, /* metatables: of a reader, */
  MWB_LOOK,                        /* what a reader has looked at, */
  MWB_FEED,                        /* and a feed */
  MWB_EACH,                        /* f(look, how many entries, how many of
                                   ** them not) -> an iterator of the others */
  MWB_WRITERS,                     /* what last writers hold: see writers.c */
  MWB_READERS_END
};

typedef struct mwb_writers mwb_writers; /* see writers.c */
typedef struct mwb_feed mwb_feed;       /* see feed.c */

struct mwb_readers_state {
  mwb_feed *feeds;    /* the open feeds with a root */
  mw_clock heard;     /* tags a table when it becomes intercepted; */
  uint64_t unheard;   /* since when any may be: see feed.c */
  uint32_t keepers;   /* the number of readers that ask for last writers, */
  uint64_t kept_from; /* from this entry on */
  mwb_writers *writers;
};

/* }====================================================== */

/* {======================================================
** reader.c: entries that somebody has looked at.
** ======================================================= */

typedef struct mwb_look {
  uint32_t n;
  uint64_t first_page;
  mw_entry entries[1];
} mwb_look;

/* Pushes a look at the entries from `first` to `end`, without the last. */
mwb_look *mwb_push_look(lua_State *L, const mwb_state *s, uint64_t first,
                        uint64_t end);

/* Pushes an iterator of the entries of the look on the top, but the first ones,
** and pops the look. */
void mwb_push_entry_iterator(lua_State *L, lua_Integer skip);

/* Pushes a number, or for 0 nil. */
void mwb_push_number(lua_State *L, uint64_t n);

/* Returns the place of an entry's page in the user value of a look. */
static inline lua_Integer mwb_page_in(const mwb_look *its,
                                      const mw_entry *entry) {
  return (lua_Integer)(entry->seq / MWI_READER_PAGE - its->first_page + 1);
}

/* }====================================================== */

/* {======================================================
** writers.c: who wrote a field last, when the entry is forgotten.
** ======================================================= */

/* Somebody asks for last writers from now on, or asks no longer. */
void mwb_add_keeper(lua_State *L, mwb_state *s);
void mwb_remove_keeper(lua_State *L, mwb_state *s);

/* Frees what the state has. */
void mwb_free_writers(mwb_state *s);

/* The page with the entry before `seq` goes: keeps its writers.  Raises
** nothing. */
void mwb_keep_page(lua_State *L, mwb_state *s, uint64_t seq);

/* }====================================================== */

/* {======================================================
** feed.c: what changed since the last look: mw.feed.
** ======================================================= */

/* A table is intercepted from now on: what was written to it before was not
** recorded. */
void mwb_note_heard(mwb_state *s, mw_handle h);

/* Does the program know the object by a feed, so that it keeps its shadow? */
int mwb_is_known(const mwb_state *s, mw_handle h);

/* }====================================================== */

#endif
