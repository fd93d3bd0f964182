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

/* Puts a step behind the last one of a history: label and effects are at these
** indices.  Returns 0, and does nothing, if that is not simple.  May raise that
** there is no memory, and then has done nothing. */
int mwb_put_step(lua_State *L, int history, int label, int effects);

/* transaction.c: runs the function at 3, whose arguments follow, in a
** transaction, as a step of the history at 1 with the label at 2.  If the step
** is not simple, calls the function at `add` for it as the transaction ends.
** Returns the results of the function, or raises its error. */
int mwb_run_step(lua_State *L, mwb_state *s, int add);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
