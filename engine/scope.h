/*
** scope.h - the engine's private view of scope.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_SCOPE_H
#define MW_SCOPE_H

#include "moonwatch.h"

typedef struct mwP_stack {
  mw_handle thread; /* whose it is */
  mw_frame *frames;
  uint32_t n, size;
} mwP_stack;

typedef struct mwP_named {
  mw_handle obj; /* the entry is void when it is another's */
  mw_handle parent;
  uint32_t name;
} mwP_named;

typedef struct mwP_scopes {
  mwL_column stacks; /* by the slot of the thread */
  mwL_column names;  /* by the slot of the object */
  size_t frames;     /* in all stacks */
} mwP_scopes;

typedef struct mwP_part {
  mwP_scopes **all; /* NULL where one was closed */
  uint32_t n, size;
} mwP_part;

MW_PRIVATE void mwP_close(mw_engine *e);

/* Ends the stacks of a thread that was in a slot. */
MW_PRIVATE void mwP_forget(mw_engine *e, uint32_t slot);

/* The stack of a thread, which stays at its place until the hierarchy is
** closed; made if need be.  NULL when there is no memory. */
MW_PRIVATE mwP_stack *mwP_need(mw_engine *e, mw_scopes scopes,
                               mw_handle thread);

/* Makes room for one more frame.  MW_OK or MW_NOMEM. */
MW_PRIVATE int mwP_grow(mw_engine *e, mwP_stack *stack);

static inline mwP_scopes *mwP_scopesof(const mwP_part *part, mw_scopes i) {
  return part->all[i];
}

/* What an object is called, or NULL. */
static inline const mwP_named *mwP_nameof(const mwP_scopes *its,
                                          mw_handle obj) {
  mwP_named *page = (mwP_named *)mwL_page(&its->names, mw_slot(obj));
  if (page == NULL || obj == MW_NONE) return NULL;
  page += mw_slot(obj) % MWL_PAGE;
  return (page->obj == obj) ? page : NULL;
}

/* Puts a frame on a stack that has room for it. */
static inline void mwP_push(mwP_scopes *its, mwP_stack *stack, mw_handle obj,
                            uint32_t name) {
  stack->frames[stack->n].obj = obj;
  stack->frames[stack->n].name = name;
  stack->n++;
  its->frames++;
}

static inline void mwP_cut(mwP_scopes *its, mwP_stack *stack, uint32_t depth) {
  its->frames -= stack->n - depth;
  stack->n = depth;
}

#endif
