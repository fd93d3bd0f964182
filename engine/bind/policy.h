/*
** policy.h - what the policy is asked and told.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_POLICY_H
#define MWB_POLICY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The functions that policy.lua sets. */
enum {
  MWB_DESCEND = 1, /* (parent, key, child) -> may a deep watch go there? */
  MWB_IGNORED,     /* (object) -> a set of keys, or nil */
  MWB_CLASS,       /* (object) -> its class, or nil */
  MWB_WATCHED,     /* (class): an object of the class is, for the first time */
  MWB_UNWATCHED,   /* (class): no object of the class is any more */
  MWB_DESERTED     /* (): some class may have no watched object any more */
};

/* Pushes such a function, or returns 0. */
int mwb_push_hook(lua_State *L, const mwb_state *s, int hook);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
