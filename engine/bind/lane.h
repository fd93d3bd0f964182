/*
** lane.h - a coroutine in traces and measured times.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_LANE_H
#define MWB_LANE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

#define MWB_MAIN 1 /* the number of the main program's lane */

enum { MWB_ELEMENTS = 1, MWB_HANDLES }; /* user values of a lane: see timed.c */

/* The lists of a coroutine's scopes: those that are open, and those of them
** whose time is added to what is spent.  See timed.c. */
enum { MWB_OPEN, MWB_COUNTING, MWB_LISTS };

typedef struct mwb_scopes {
  struct mwb_scope *innermost, *outermost;
} mwb_scopes;

typedef struct mwb_lane {
  mw_thread number; /* in traces */
  uint32_t open;    /* scopes that are open in the coroutine */
  int64_t since;    /* when the coroutine was suspended; 0: it is not */
  int64_t waited;   /* how long it was suspended while scopes were open */
  mwb_scopes scopes[MWB_LISTS];
} mwb_lane;

/* Returns the lane of the running coroutine, or NULL.  Needs no memory. */
mwb_lane *mwb_known_lane(lua_State *L, const mwb_state *s);

/* Pushes the lane of the running coroutine, a new lane if it has none.  Returns
** NULL and pushes nothing if there is no memory. */
mwb_lane *mwb_push_lane(lua_State *L, mwb_state *s);

/* Returns the number of the running coroutine, 1 for the main program.  Returns
** 0 if there is no memory. */
mw_thread mwb_thread(lua_State *L, mwb_state *s);

/* Somebody begins to measure or trace, or ends. */
void mwb_note_measuring(lua_State *L, mwb_state *s);

/* Returns for how long the coroutine has been suspended, with scopes open. */
int64_t mwb_waited(const mwb_lane *lane);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
