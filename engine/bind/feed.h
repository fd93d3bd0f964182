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

/* Returns how many bytes the feeds have allocated. */
size_t mwb_feeds_bytes(const mwb_state *s);

/* Frees what the state has. */
void mwb_free_hearings(mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
