/*
** delivered.h - objects as they were before the transactions that are open.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_DELIVERED_H
#define MWB_DELIVERED_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* What an object had before, in an array: the contents of a table; the class,
** `false` for none; and whether there is a state of a userdata, with the state.
** An absent part is as it is now. */
enum { MWB_CONTENTS = 1, MWB_CLASSBEFORE, MWB_HASSTATE, MWB_STATE };

/* Pushes a table: object -> what the object had before all open transactions;
** nil if none of them has written anything. */
void mwb_push_delivered(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
