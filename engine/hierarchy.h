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
  mw_handle obj;      /* the owner of the element; void for another object */
  mw_handle parent;   /* the host's, and so are these: */
  uint64_t serial;    /* of the name, 0: none */
  uint64_t above;     /* serial of the parent's name */
  uint64_t settled;   /* the `order` for which the name holds */
  uint64_t sure;      /* when the host was sure of the name */
  uint32_t is_parent; /* of others */
  uint32_t frames;    /* in all stacks */
  uint32_t at;        /* a frame, counted from 1: see `mwi_hierarchy_inside` */
  uint32_t stack;     /* the slot of the stack with this frame */
  uint64_t order;     /* of the last enter while the object was in no frame, */
  mw_handle caller;   /* and the frame's object below, MW_NONE for none */
} mwi_named;

typedef struct mwi_hierarchy {
  mwi_column stacks; /* by the slot of the thread */
  mwi_column names;  /* by the slot of the object */
  size_t frames;     /* in all stacks */
  uint64_t *orders;  /* that of all hierarchies */
} mwi_hierarchy;

typedef struct mwi_hierarchies {
  mwi_hierarchy **all; /* NULL for a closed hierarchy */
  uint64_t orders;     /* how often objects have been entered, in all */
  uint32_t n, size;
} mwi_hierarchies;

MWI_API void mwi_hierarchy_blocks(mw_engine *e, mwi_visit f);

/* Ends the stacks of the thread in a slot. */
MWI_API void mwi_hierarchy_forget(mw_engine *e, uint32_t slot);

/* Returns the stack of a thread, made if need be; NULL when there is no memory.
** The stack does not move before the hierarchy is closed. */
MWI_API mwi_stack *mwi_hierarchy_need(mw_engine *e, mw_hierarchy scopes,
                                      mw_handle thread);

/* Makes room for a frame of the object, and returns the object's element; NULL
** when there is no memory. */
MWI_API mwi_named *mwi_hierarchy_make_room(mw_engine *e, mwi_hierarchy *h,
                                           mwi_stack *stack, mw_handle obj);

/* Leaves all frames of the stack but the `depth` outermost. */
MWI_API void mwi_hierarchy_cut(mwi_hierarchy *h, mwi_stack *stack,
                               uint32_t depth);

/* Returns a frame in which the stack executes the object, counted from 1, or 0.
** The number is known at once, except for an object in which several threads
** are. */
MWI_API uint32_t mwi_hierarchy_inside(const mwi_hierarchy *h,
                                      const mwi_stack *stack, mw_handle obj);

static inline mwi_hierarchy *mwi_hierarchy_of(const mwi_hierarchies *part,
                                              mw_hierarchy i) {
  mwi_check_call(i < part->n && part->all[i] != NULL);
  return part->all[i];
}

/* Returns the next stack that was ever made, from `*slot` on, and moves `*slot`
** behind it; NULL at the end.  The stack may be empty. */
static inline mwi_stack *mwi_hierarchy_next(const mwi_hierarchy *h,
                                            uint32_t *slot) {
  while (*slot < h->stacks.n * MWI_PAGE) {
    mwi_stack *page = (mwi_stack *)mwi_column_page(&h->stacks, *slot);
    if (page != NULL) return page + (*slot)++ % MWI_PAGE;
    *slot += MWI_PAGE;
  }
  return NULL;
}

/* Returns the element of an object, or NULL. */
static inline mwi_named *mwi_hierarchy_element(const mwi_hierarchy *h,
                                               mw_handle obj) {
  mwi_named *page = (mwi_named *)mwi_column_page(&h->names, mw_slot(obj));
  if (page == NULL || obj == MW_NONE) return NULL;
  page += mw_slot(obj) % MWI_PAGE;
  return (page->obj == obj) ? page : NULL;
}

/* The same, at once if there is room. */
static inline mwi_named *mwi_hierarchy_ready(mw_engine *e, mwi_hierarchy *h,
                                             mwi_stack *stack, mw_handle obj) {
  mwi_named *element = mwi_hierarchy_element(h, obj);
  if (element != NULL && stack->n < stack->size) return element;
  return mwi_hierarchy_make_room(e, h, stack, obj);
}

/* Puts a frame of the element's object on a stack that has room. */
static inline void mwi_hierarchy_push(mwi_hierarchy *h, mwi_stack *stack,
                                      mwi_named *element, uint32_t name) {
  mw_frame *frame = &stack->frames[stack->n];
  mw_handle obj = element->obj;
  uint64_t below = (stack->n > 0) ? frame[-1].way : 1;
  mwi_assert(stack->n < stack->size);
  frame->obj = obj;
  frame->name = name;
  frame->order = ++*h->orders;
  frame->way = (below ^ obj) * 0x9E3779B97F4A7C15u;
  frame->way ^= frame->way >> 32;
  frame->before = element->at;
  stack->n++;
  h->frames++;
  if (element->frames++ == 0) {
    element->order = frame->order;
    element->caller = (stack->n > 1) ? frame[-1].obj : MW_NONE;
  }
  element->at = stack->n;
  element->stack = mw_slot(stack->thread);
}

/* Leaves the frame on the top. */
static inline void mwi_hierarchy_pop(mwi_hierarchy *h, mwi_stack *stack) {
  const mw_frame *frame = &stack->frames[--stack->n];
  mwi_named *element = mwi_hierarchy_element(h, frame->obj);
  h->frames--;
  if (element == NULL) return; /* the object is dead */
  element->frames--;
  if (element->stack == mw_slot(stack->thread)) element->at = frame->before;
}

#endif
