/*
** hierarchy.c - the objects that are executing.
** SPDX-License-Identifier: MIT
**
**     hierarchy --> stacks, by slot of the thread --> frames: object, name
**              \--> names, by slot of the object  --> what is known of it
**
** Each element of both columns holds the handle of its owner, so an element
** that outlives its owner is void.  Entering and leaving touch the top of the
** stack and the element of the object, which counts the object's frames and
** knows the one that was pushed last.  So to tell whether an object executes
** takes the same at any depth.
*/
#include <string.h>

#include "engine.h"

#define STACKS (MWI_PAGE * sizeof(mwi_stack))
#define NAMES (MWI_PAGE * sizeof(mwi_named))

int mw_hierarchy_open(mw_engine *e, mw_hierarchy *scopes) {
  mwi_hierarchies *part = &e->scope;
  mwi_hierarchy *fresh;
  uint32_t i = 0;
  while (i < part->n && part->all[i] != NULL) i++; /* to a closed one, if any */
  if (!mwi_grow(e, &part->all, i, &part->size)) return MW_NOMEM;
  fresh = (mwi_hierarchy *)mwi_new(e, sizeof(mwi_hierarchy));
  if (fresh == NULL) return MW_NOMEM;
  fresh->orders = &part->orders;
  if (i == part->n) part->n++;
  part->all[i] = fresh;
  *scopes = i;
  return MW_OK;
}

void mw_hierarchy_reset(mw_engine *e, mw_hierarchy scopes) {
  mwi_hierarchy *h = mwi_hierarchy_of(&e->scope, scopes);
  mwi_stack *stack;
  uint32_t slot = 0;
  while ((stack = mwi_hierarchy_next(h, &slot)) != NULL)
    mwi_hierarchy_cut(h, stack, 0);
}

static void blocks_of(mw_engine *e, mwi_hierarchy *h, mwi_visit f) {
  const mwi_stack *stack;
  uint32_t slot = 0;
  while ((stack = mwi_hierarchy_next(h, &slot)) != NULL)
    f(e, stack->frames, stack->size * sizeof(mw_frame));
  mwi_column_blocks(e, &h->stacks, STACKS, f);
  mwi_column_blocks(e, &h->names, NAMES, f);
  f(e, h, sizeof(mwi_hierarchy));
}

void mw_hierarchy_close(mw_engine *e, mw_hierarchy scopes) {
  blocks_of(e, mwi_hierarchy_of(&e->scope, scopes), mwi_free);
  e->scope.all[scopes] = NULL;
}

size_t mw_hierarchy_frames(const mw_engine *e, mw_hierarchy scopes) {
  return mwi_hierarchy_of(&e->scope, scopes)->frames;
}

void mwi_hierarchy_blocks(mw_engine *e, mwi_visit f) {
  const mwi_hierarchies *part = &e->scope;
  uint32_t i;
  for (i = 0; i < part->n; i++)
    if (part->all[i] != NULL) blocks_of(e, part->all[i], f); /* not closed? */
  f(e, part->all, part->size * sizeof(*part->all));
}

static mwi_stack *find(const mw_engine *e, mw_hierarchy scopes,
                       mw_handle thread) {
  const mwi_hierarchy *h = mwi_hierarchy_of(&e->scope, scopes);
  mwi_stack *stack = (mwi_stack *)mwi_column_page(&h->stacks, mw_slot(thread));
  if (stack == NULL) return NULL;
  stack += mw_slot(thread) % MWI_PAGE;
  return (stack->thread == thread) ? stack : NULL; /* not a dead one's? */
}

mwi_stack *mwi_hierarchy_need(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread) {
  mwi_hierarchy *h = mwi_hierarchy_of(&e->scope, scopes);
  uint32_t slot = mw_slot(thread);
  mwi_stack *stack = (mwi_stack *)mwi_column_need(e, &h->stacks, slot, STACKS);
  if (stack == NULL) return NULL;
  stack += slot % MWI_PAGE;
  mwi_assert(stack->thread == thread || stack->frames == NULL);
  stack->thread = thread; /* that of an earlier thread went with the thread */
  return stack;
}

mwi_named *mwi_hierarchy_make_room(mw_engine *e, mwi_hierarchy *h,
                                   mwi_stack *stack, mw_handle obj) {
  mwi_named *page =
      (mwi_named *)mwi_column_need(e, &h->names, mw_slot(obj), NAMES);
  if (!mwi_grow(e, &stack->frames, stack->n, &stack->size) || page == NULL)
    return NULL;
  page += mw_slot(obj) % MWI_PAGE;
  if (page->obj != obj) memset(page, 0, sizeof(mwi_named)); /* a dead one's? */
  page->obj = obj;
  return page;
}

void mwi_hierarchy_cut(mwi_hierarchy *h, mwi_stack *stack, uint32_t depth) {
  mwi_assert(depth <= stack->n && h->frames >= stack->n - depth);
  while (stack->n > depth) mwi_hierarchy_pop(h, stack);
}

uint32_t mwi_hierarchy_inside(const mwi_hierarchy *h, const mwi_stack *stack,
                              mw_handle obj) {
  const mwi_named *element = mwi_hierarchy_element(h, obj);
  uint32_t i;
  if (element == NULL || element->frames == 0) return 0; /* in no stack? */
  i = element->at;
  if (element->stack == mw_slot(stack->thread) && i > 0 && i <= stack->n &&
      stack->frames[i - 1].obj == obj) /* was it pushed last, and here? */
    return i;
  for (i = stack->n; i > 0; i--)
    if (stack->frames[i - 1].obj == obj) return i;
  return 0;
}

int mw_hierarchy_enter(mw_engine *e, mw_hierarchy scopes, mw_handle thread,
                       mw_handle obj, uint32_t name) {
  mwi_hierarchy *h = mwi_hierarchy_of(&e->scope, scopes);
  mwi_named *element;
  mwi_stack *stack;
  mwi_check_enter(e);
  mwi_check_call(name != 0);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (thread != MW_NONE && !mwi_identity_is_valid(&e->identity, thread))
    return MW_STALE;
  stack = mwi_hierarchy_need(e, scopes, thread);
  if (stack == NULL) return MW_NOMEM;
  element = mwi_hierarchy_ready(e, h, stack, obj);
  if (element == NULL) return MW_NOMEM;
  mwi_hierarchy_push(h, stack, element, name);
  return MW_OK;
}

int mw_hierarchy_leave(mw_engine *e, mw_hierarchy scopes, mw_handle thread,
                       mw_handle obj) {
  mwi_hierarchy *h = mwi_hierarchy_of(&e->scope, scopes);
  mwi_stack *stack = find(e, scopes, thread);
  uint32_t i = (stack == NULL) ? 0 : stack->n;
  while (i > 0 && stack->frames[i - 1].obj != obj) i--;
  if (i == 0) return MW_STALE; /* not entered by the thread? */
  mwi_hierarchy_cut(h, stack, i - 1);
  return MW_OK;
}

const mw_frame *mw_hierarchy_stack(const mw_engine *e, mw_hierarchy scopes,
                                   mw_handle thread, uint32_t *n) {
  const mwi_stack *stack = find(e, scopes, thread);
  *n = (stack == NULL) ? 0 : stack->n;
  return (*n == 0) ? NULL : stack->frames;
}

void mwi_hierarchy_forget(mw_engine *e, uint32_t slot) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++) {
    mwi_hierarchy *h = e->scope.all[i];
    mwi_stack *stack;
    if (h == NULL) continue; /* closed? */
    stack = (mwi_stack *)mwi_column_page(&h->stacks, slot);
    if (stack == NULL) continue; /* has no thread of the page a stack? */
    stack += slot % MWI_PAGE;
    mwi_hierarchy_cut(h, stack, 0);
    mwi_free(e, stack->frames, stack->size * sizeof(mw_frame));
    memset(stack, 0, sizeof(mwi_stack));
  }
}
