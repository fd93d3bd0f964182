/*
** budget.h - calls that may not take too long.
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
  lua_Integer used;                /* instructions, of all fillings */
  int starved;                     /* did an allocation within it fail? */
  lua_Alloc alloc;                 /* what was there before */
  void *ud;
  lua_Hook hook;
  int mask, count;
} mwb_budget;

/* Puts a budget in force in the coroutine that runs, until the end.  In between
** nothing may raise but in a protected call. */
void mwb_begin_budget(lua_State *L, mwb_state *s, mwb_budget *b);
void mwb_end_budget(mwb_budget *b);

/* What may be used from now on. */
static inline void mwb_fill_budget(mwb_budget *b, lua_Integer instructions,
                                   lua_Integer bytes) {
  b->instructions = instructions;
  b->bytes = bytes;
}

static inline int mwb_is_spent(const mwb_budget *b) {
  return b->instructions <= 0 || b->bytes < 0;
}

/* Pushes the message that says of what the budget is spent. */
void mwb_push_spent(lua_State *L, const mwb_budget *b);

/* Returns 0, or pushes a message and returns 1: a finaliser is running, where
** no hook is called, so that no budget can be kept. */
int mwb_refuse_finaliser(lua_State *L);

/* Makes the methods of strings those in the table at `methods`, which becomes
** the table of the former methods.  Needs no memory. */
void mwb_swap_strings(lua_State *L, int methods);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
