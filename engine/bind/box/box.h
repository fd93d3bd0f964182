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

/* An allocator that subtracts from the budget in force: see sandbox.c. */
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
** sandbox.c: calls with bounded work and memory.
** ======================================================= */

/* What messages call the box whose code runs. */
const char *mwb_kind_of_box(lua_State *L);

/* Does code of a policy's file run? */
int mwb_in_policy(const mwb_state *s);

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
