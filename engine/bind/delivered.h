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

/* What an object had before, in an array: the contents of a table, once they
** are asked for; the class, `false` for none; whether there is a state of a
** userdata, with the state; and the fields that have been written, from which
** the contents are made.  An absent part is as it is now. */
enum { MWB_CONTENTS = 1, MWB_CLASSBEFORE, MWB_HASSTATE, MWB_STATE, MWB_FIELDS };

/* Pushes a table: object -> what the object had before all open transactions;
** nil if none of them has written anything. */
void mwb_push_delivered(lua_State *L, mwb_state *s);

/* Pushes the contents that the table at `object` had, by what is at `all`, from
** the function above; or returns 0 if they are as they are now. */
int mwb_push_before(lua_State *L, int all, int object);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
