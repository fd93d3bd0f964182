/*
** budget.h - calls with bounded work and memory.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_BUDGET_H
#define MWB_BUDGET_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

typedef struct mwb_budget {
  lua_State *L;
  mwb_state *state;
  struct mwb_budget *outer;
  lua_Integer instructions, bytes; /* left */
  lua_Integer used;                /* instructions, summed over all fillings */
  int starved;   /* did an allocation inside the budget fail? */
  lua_Hook hook; /* the hook before the budget */
  int mask, count;
} mwb_budget;

/* Puts a budget in force in the running coroutine, and out of force.  Between
** both calls, only protected calls may raise. */
void mwb_begin_budget(lua_State *L, mwb_state *s, mwb_budget *b);
void mwb_end_budget(mwb_budget *b);

/* Sets the instructions and bytes that may be used from this call on. */
static inline void mwb_fill_budget(mwb_budget *b, lua_Integer instructions,
                                   lua_Integer bytes) {
  b->instructions = instructions;
  b->bytes = bytes;
}

static inline int mwb_is_spent(const mwb_budget *b) {
  return b->instructions <= 0 || b->bytes < 0;
}

/* Pushes the message that the budget is spent, of instructions or of memory. */
void mwb_push_spent(lua_State *L, const mwb_budget *b);

/* Returns 0, or pushes a message and returns 1 if a finaliser is running: Lua
** calls no hook in finalisers, so no budget can be kept. */
int mwb_refuse_finaliser(lua_State *L);

/* Exchanges the methods of strings with the table at `methods`, so that a
** second call undoes the first.  Needs no memory. */
void mwb_swap_strings(lua_State *L, int methods);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
