/*
** history.h - the simple steps of mw.history.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_HISTORY_H
#define MWB_HISTORY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

typedef struct mwb_history mwb_history;

/* Returns the history at `index`, or NULL. */
mwb_history *mwb_to_history(lua_State *L, const mwb_state *s, int index);

/* In the functions below the history and the label are at these indices. */

/* Prepares a plain step of the writes of the transaction.  Returns 0 if the
** writes, or the history, are not plain.  May raise that there is no memory. */
int mwb_prepare_step(lua_State *L, mwb_state *s, mw_owner owner, int history,
                     int label);

/* Puts the prepared step behind the last one. */
void mwb_add_step(lua_State *L, int history);

/* Does both if the step is like the last one, so that nothing can be raised.
** Returns 0 if not. */
int mwb_add_known_step(lua_State *L, mwb_state *s, mw_owner owner, int history,
                       int label);

/* Pushes the function that adds a step that is not plain. */
void mwb_push_adder(lua_State *L, const mwb_state *s);

/* transaction.c: runs the function at 3, whose arguments follow, in a
** transaction, as a step of the history at 1 with the label at 2.  Returns the
** results of the function, or raises its error. */
int mwb_run_step(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
