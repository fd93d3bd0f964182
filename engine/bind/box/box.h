/*
** box.h - what a call in a box may use, and what it sees.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_BOX_H
#define MWB_BOX_H

#include "../base/base.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_SANDBOX = MWB_BOX_VALUES, /* metatables: of a box for untrusted code, */
  MWB_VIEW,                     /* and of a read-only view */
  MWB_VIEWS,                    /* table -> its view, weakly held, */
  MWB_TARGETS,                  /* and view -> what it shows, weakly held */
  MWB_BOX_END
};

/* An allocator that subtracts from the budget in force: see budget.c. */
typedef struct mwb_meter {
  lua_Alloc alloc; /* the allocator without a budget */
  void *ud;
  struct mwb_budget *budget; /* or NULL */
} mwb_meter;

struct mwb_box_state {
  struct mwb_budget *budget; /* of the running call in a box */
  mwb_meter *meter;
};

/* }====================================================== */

/* {======================================================
** budget.c: calls with bounded work and memory.
** ======================================================= */

/* Where bounded calls run: see sandbox.c. */
typedef struct mwb_box {
  lua_State *thread;
  int busy;                        /* does a call run in the thread? */
  int is_policy;                   /* is it that of a policy's file? */
  lua_Integer instructions, bytes; /* of a call */
  lua_Integer used, peak;          /* of the last call */
  lua_Integer scan, left; /* the last scan that has asked, and its budget */
} mwb_box;

/* What a running call may use. */
typedef struct mwb_budget {
  mwb_state *state;
  const mwb_box *box;
  struct mwb_budget *outer;    /* of the call around this one, or NULL */
  lua_State *L;                /* the coroutine that runs */
  lua_Integer given, left;     /* instructions */
  lua_Integer held, peak;      /* bytes that are held now; the most */
  int full;                    /* has a block been granted that was too much? */
  int refused;                 /* has an allocation been refused? */
  int spent;                   /* MWB_INSTRUCTIONS, MWB_MEMORY, or 0 */
  char place[LUA_IDSIZE + 24]; /* where that was, "file:line: ", or "" */
} mwb_budget;

enum { MWB_INSTRUCTIONS = 1, MWB_MEMORY };

/* Puts a budget in force for calls in the coroutine L, and out of force.
** Between both, only protected calls may raise. */
void mwb_begin_budget(lua_State *L, mwb_state *s, const mwb_box *box,
                      lua_Integer instructions, mwb_budget *b);
void mwb_end_budget(mwb_budget *b);

/* The instructions that have been used. */
lua_Integer mwb_used(const mwb_budget *b);

/* The budget in force, or NULL; and what messages call the box of it. */
mwb_budget *mwb_budget_of(lua_State *L);
const char *mwb_kind_of_box(lua_State *L);

/* Does code of a policy's file run? */
static inline int mwb_in_policy(const mwb_state *s) {
  return s->box->budget != NULL && s->box->budget->box->is_policy;
}

/* Subtracts instructions for the work of a C function.  Raises if too few are
** left.  Does nothing where no budget is in force. */
void mwb_pay(lua_State *L, lua_Integer instructions);

/* After a protected call that has failed with this status: raises again if the
** budget is spent, so that no code in the box goes on. */
void mwb_pass_spent(lua_State *L, int status);

/* Notes that the call has failed with this status. */
void mwb_note_failure(mwb_budget *b, int status);

/* Writes where the function on the top, which is popped, is defined. */
void mwb_note_place(lua_State *L, mwb_budget *b);

/* Pushes the message that the budget is spent. */
void mwb_push_spent(lua_State *L, const mwb_budget *b);

/* Like lua_resume: what the coroutine does counts. */
int mwb_resume(lua_State *co, lua_State *L, int n, int *results);

int mwb_pcall_paused(lua_State *L, mwb_state *s, int args, int results,
                     int handler);

/* Like lua_pcall, for functions of the program that must not be stopped because
** a box has caused the call: they run outside the budget. */
static inline int mwb_pcall_outside(lua_State *L, mwb_state *s, int args,
                                    int results, int handler) {
  if (s->box->budget == NULL) return lua_pcall(L, args, results, handler);
  return mwb_pcall_paused(L, s, args, results, handler);
}

/* }====================================================== */

#endif
