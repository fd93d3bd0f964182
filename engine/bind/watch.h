/*
** watch.h - watched objects and their classes.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_WATCH_H
#define MWB_WATCH_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Tells the policy that the object at `index` is watched, or no longer watched,
** if the object's class may have mutators. */
void mwb_class_watched(lua_State *L, mwb_state *s, int index);
void mwb_class_unwatched(lua_State *L, mwb_state *s, int index);

/* mw.track; and ends the track of the object at 1, whose entries stay in open
** transactions. */
int mwb_track(lua_State *L);
int mwb_end_track(lua_State *L);

/* For a feed: includes what is below the table at 1, with nil at 2, and a
** function or nil (the one with which the root is tracked, if it has one) at
** `descend`.  Sets the reach, the same for the same root and
** function, also if it raises after that.  The second function ends the reach
** of a root that lives. */
void mwb_begin_reach(lua_State *L, mwb_state *s, int descend, mw_reach *reach);
void mwb_end_reach(lua_State *L, mwb_state *s, mw_handle root, mw_reach reach);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
