/*
** feed.h - what changed since the last look: mw.feed.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_FEED_H
#define MWB_FEED_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A table is intercepted from now on: what was written to it before was not
** recorded. */
void mwb_feeds_doubt(mwb_state *s, mw_handle h);

/* An object has died.  A table with weak keys or values loses fields then,
** without a write. */
void mwb_feeds_forget(const mwb_state *s, mw_handle h);

/* A table is intercepted no longer. */
void mwb_feeds_miss(mwb_state *s, mw_handle h);

/* A snapshot has what a table, which is intercepted, holds. */
void mwb_feeds_see(mwb_state *s, mw_handle h);

/* Returns how many bytes the feeds have allocated. */
size_t mwb_feeds_bytes(const mwb_state *s);

/* Frees what the state has. */
void mwb_free_hearings(mwb_state *s);

/* The program tracks a table, deeply or not. */
void mwb_feeds_claim(const mwb_state *s, mw_handle h, int deep);

/* The program does not track the table at 1 any more.  Returns whether a feed
** does. */
int mwb_feeds_keep(lua_State *L, mwb_state *s, mw_handle h);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
