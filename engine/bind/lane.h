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

typedef struct mwb_lane {
  mw_thread number; /* in traces */
  uint32_t open;    /* scopes that are open in the coroutine */
  int64_t since;    /* when the coroutine was suspended; 0: it is not */
  int64_t waited;   /* how long it was suspended while scopes were open */
} mwb_lane;

/* Pushes the lane of the running coroutine, a new lane if it has none.  Returns
** NULL and pushes nothing if the main program runs, or if there is no
** memory. */
mwb_lane *mwb_push_lane(lua_State *L, mwb_state *s);

/* Returns the number of the running coroutine, 1 for the main program.  Returns
** 0 if there is no memory. */
mw_thread mwb_thread(lua_State *L, mwb_state *s);

/* Returns for how long the coroutine has been suspended, with scopes open. */
int64_t mwb_waited(const mwb_lane *lane);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
