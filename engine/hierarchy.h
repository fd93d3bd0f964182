/*
** hierarchy.h - the engine's private view of hierarchy.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_HIERARCHY_H
#define MWI_HIERARCHY_H

#include "moonwatch.h"

typedef struct mwi_stack {
  mw_handle thread; /* the owner of the stack */
  mw_frame *frames;
  uint32_t n, size;
} mwi_stack;

typedef struct mwi_named {
  mw_handle obj; /* the owner of the name; void for another object */
  mw_handle parent;
  uint32_t name;
} mwi_named;

typedef struct mwi_hierarchy {
  mwi_column stacks; /* by the slot of the thread */
  mwi_column names;  /* by the slot of the object */
  size_t frames;     /* in all stacks */
} mwi_hierarchy;

typedef struct mwi_hierarchies {
  mwi_hierarchy **all; /* NULL for a closed hierarchy */
  uint32_t n, size;
} mwi_hierarchies;

MWI_API void mwi_hierarchy_close(mw_engine *e);

/* Ends the stacks of the thread in a slot. */
MWI_API void mwi_hierarchy_forget(mw_engine *e, uint32_t slot);

/* Returns the stack of a thread, made if need be; NULL when there is no memory.
** The stack does not move before the hierarchy is closed. */
MWI_API mwi_stack *mwi_hierarchy_need(mw_engine *e, mw_hierarchy scopes,
                                      mw_handle thread);

/* Makes room for one more frame.  MW_OK or MW_NOMEM. */
MWI_API int mwi_hierarchy_grow(mw_engine *e, mwi_stack *stack);

static inline mwi_hierarchy *mwi_hierarchy_of(const mwi_hierarchies *part,
                                              mw_hierarchy i) {
  mwi_check_call(i < part->n && part->all[i] != NULL);
  return part->all[i];
}

/* Returns the name of an object, or NULL. */
static inline const mwi_named *mwi_hierarchy_name_of(const mwi_hierarchy *h,
                                                     mw_handle obj) {
  mwi_named *page = (mwi_named *)mwi_column_page(&h->names, mw_slot(obj));
  if (page == NULL || obj == MW_NONE) return NULL;
  page += mw_slot(obj) % MWI_PAGE;
  return (page->obj == obj) ? page : NULL;
}

/* Puts a frame on a stack that has room for one more. */
static inline void mwi_hierarchy_push(mwi_hierarchy *h, mwi_stack *stack,
                                      mw_handle obj, uint32_t name) {
  mwi_assert(stack->n < stack->size);
  stack->frames[stack->n].obj = obj;
  stack->frames[stack->n].name = name;
  stack->n++;
  h->frames++;
}

static inline void mwi_hierarchy_cut(mwi_hierarchy *h, mwi_stack *stack,
                                     uint32_t depth) {
  mwi_assert(depth <= stack->n && h->frames >= stack->n - depth);
  h->frames -= stack->n - depth;
  stack->n = depth;
}

#endif
