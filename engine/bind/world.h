/*
** world.h - the functions that code in a box has.
** SPDX-License-Identifier: MIT
**
** A function of a box takes the place of one of Lua's, which is its upvalue.
** It pays (budget.h) for the work and then lets Lua's function do the work.
*/
#ifndef MWB_WORLD_H
#define MWB_WORLD_H

#include "budget.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Upvalues of a box's function after the state and the objects: Lua's function,
** and whether that is in C and has no upvalues. */
#define MWB_UPLUA lua_upvalueindex(3)
#define MWB_UPPLAIN lua_upvalueindex(4)

/* Bytes that a C function goes through for an instruction. */
#define MWB_STEP 8

/* Results that a function may have, which all take room in a stack. */
#define MWB_MOST_RESULTS 1000

/* Lets Lua's function do the work, in the running function's own frame where
** that goes, so that messages name the caller's line. */
int mwb_pass_on(lua_State *L);

/* Pays for the strings among the arguments from `first` on. */
void mwb_pay_text(lua_State *L, int first);

/* Pays for `n` results; raises if there are too many. */
void mwb_pay_results(lua_State *L, lua_Integer n);

/* A name of a function, and the box's function; NULL: the box has Lua's. */
typedef struct mwb_given {
  const char *name;
  lua_CFunction f;
} mwb_given;

extern const mwb_given mwb_given_string[], mwb_given_table[];

/* Functions that pay for all of their strings, or for all but the first. */
int mwb_pay_all(lua_State *L);
int mwb_pay_rest(lua_State *L);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
