/*
** sandbox.h - boxes for code that nobody has to trust.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_SANDBOX_H
#define MWB_SANDBOX_H

#include "budget.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The user values of a box: its thread, its globals, the metatable that strings
** have while the box runs, the functions (and lists of functions) that have
** been called, as weak keys, and the name of chunks that have none. */
enum {
  MWB_BOXTHREAD = 1,
  MWB_WORLD,
  MWB_BOXSTRINGS,
  MWB_BOXCALLED,
  MWB_BOXNAME
};

/* Returns the box at `index`, or NULL. */
mwb_box *mwb_to_box(lua_State *L, const mwb_state *s, int index);

/* Calls the C function `job` in the thread of the box at `index`, with a budget
** in force: with the `n` values on the top, which are popped.  Pushes the
** results and returns their number.  The job sees the budget by
** `mwb_budget_of`; an error of the job's own is raised. */
int mwb_run_in_box(lua_State *L, mwb_state *s, int index, lua_CFunction job,
                   int n);

/* Replaces the error on the top, of the given status, by a text that names the
** spent budget if one is spent.  For jobs. */
void mwb_safe_message(lua_State *L, int status);

/* world.c: fills the two tables at `world` and `strings`, the globals of a box
** and the metatable of strings.  `more` is a table of further globals, or
** nil. */
void mwb_fill_world(lua_State *L, int world, int strings, int more);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
