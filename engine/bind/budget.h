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

/* Instructions between two looks at the clock, at most. */
#define MWB_INTERVAL 100

/* Names of chunks that a box knows as its own; the oldest go first. */
#define MWB_CHUNKS 8

/* Where untrusted code runs: see sandbox.c. */
typedef struct mwb_box {
  lua_State *thread;
  int busy;         /* does a call run in the thread? */
  int interval;     /* instructions between two looks at the clock */
  const char *kind; /* what messages call the box */
  lua_Integer instructions, bytes; /* of a call */
  lua_Integer used, peak;          /* of the last call */
  lua_Integer most;                /* bytes that the box may keep */
  struct mwb_kept *kept;           /* NULL: the box has been collected */
  unsigned n_chunks;               /* how many chunks have been named */
  char chunks[MWB_CHUNKS][LUA_IDSIZE];
} mwb_box;

/* A line of a chunk; line 0: none. */
typedef struct mwb_line {
  char source[LUA_IDSIZE];
  int line;
} mwb_line;

/* The budget of a call. */
typedef struct mwb_budget {
  mwb_state *state;
  mwb_box *box;
  struct mwb_budget *outer;
  lua_State *L;                  /* the coroutine that runs */
  lua_Integer instructions;      /* left */
  lua_Integer bytes, held, peak; /* limit; held by this filling; most held */
  lua_Integer used;              /* instructions, summed over all fillings */
  lua_Integer since;             /* instructions since the last look, and with
                                 ** what is added for calls of C functions */
  lua_Integer near;
  int64_t last, late; /* time of the last look; time that was not paid */
  size_t block;       /* size of the last block that may be a stack */
  int by_cpu;         /* is `last` a time of the processor? */
  int full;           /* is more held than `bytes`? */
  int spent;          /* MWB_INSTRUCTIONS, MWB_MEMORY, or 0 */
  int starved;        /* did an allocation inside the budget fail? */
  mwb_line place;     /* where the budget was spent */
} mwb_budget;

enum { MWB_INSTRUCTIONS = 1, MWB_MEMORY };

/* Puts a budget in force for calls in the coroutine L, which has no hook of the
** program's, and out of force.  Between both calls, only protected calls may
** raise. */
void mwb_begin_budget(lua_State *L, mwb_state *s, mwb_box *box, mwb_budget *b);
void mwb_end_budget(mwb_budget *b);

/* Sets the instructions and bytes that may be used from this call on. */
void mwb_fill_budget(mwb_budget *b, lua_Integer instructions,
                     lua_Integer bytes);

/* The budget in force, or NULL. */
mwb_budget *mwb_budget_of(lua_State *L);

/* Subtracts instructions, at most those that are left. */
void mwb_spend(mwb_budget *b, lua_Number n);

/* Charges for work that a C function is going to do.  Raises if the budget is
** spent.  Does nothing where no budget is in force. */
void mwb_pay(lua_State *L, lua_Number instructions);

/* Raises if a C function is going to need more bytes than the budget has. */
void mwb_need_bytes(lua_State *L, lua_Number bytes);

/* Raises the error on the top again if the budget is spent, so that no code in
** the budget can go on after an error. */
void mwb_pass_spent(lua_State *L);

/* Pushes the message that the budget is spent. */
void mwb_push_spent(lua_State *L, const mwb_budget *b);

/* Is the function at `level` of the box's own chunks?  Writes the function's
** place, unless the function is in C. */
int mwb_is_in_box(lua_State *L, const mwb_box *box, int level, mwb_line *place);

/* Returns 0, or pushes a message and returns 1 if a finaliser is running: Lua
** calls no hook in finalisers, so no budget can be kept. */
int mwb_refuse_finaliser(lua_State *L);

/* Exchanges the metatable of strings with the value on the top, a table or
** nil.  Needs no memory. */
void mwb_swap_strings(lua_State *L);

/* Measures how long an endless loop takes, once for each state. */
void mwb_measure_pace(lua_State *L, mwb_state *s, mwb_box *box);

int mwb_pcall_paused(lua_State *L, mwb_state *s, int args, int results,
                     int handler);

/* Like lua_pcall, for functions of the program that must not be stopped because
** a box has caused the call: they run outside the budget. */
static inline int mwb_pcall_outside(lua_State *L, mwb_state *s, int args,
                                    int results, int handler) {
  if (s->budget == NULL) return lua_pcall(L, args, results, handler);
  return mwb_pcall_paused(L, s, args, results, handler);
}

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
