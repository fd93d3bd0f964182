/*
** policy.h - the questions that the binding asks the policy.
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
  MWB_DESCEND = 1, /* (parent, key, child) -> may a deep watch include child? */
  MWB_IGNORED,     /* (object, class or nil) -> a set of keys, or nil */
  MWB_WATCHED,     /* (object) -> has the object's class mutators? */
  MWB_UNWATCHED,   /* (object): the object's last watch has ended */
  MWB_DESERTED,    /* (): watched objects may have died */
  MWB_SNAPSHOT,    /* (userdata) -> its state */
  MWB_RESTORED     /* (userdata, state): gives the userdata the state */
};

/* Pushes the policy's function for a question, or returns 0. */
int mwb_push_question(lua_State *L, const mwb_state *s, int question);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
