/*
** hierarchy.c - what is executing, and what it is called.
** SPDX-License-Identifier: MIT
**
**     hierarchy --> stacks, by slot of the thread --> frames: object, name
**              \--> names, by slot of the object  --> name, parent
**
** Both columns know whose an entry is by its handle, so that an entry that
** outlives its object is void.  The names that are executing are read off the
** stack: entering and leaving touch its top and nothing else.
*/
#include <string.h>

#include "engine.h"

#define STACKS (MWI_PAGE * sizeof(mwi_stack))
#define NAMES (MWI_PAGE * sizeof(mwi_named))

/* {======================================================
** Hierarchies
** ======================================================= */

int mw_hierarchy_open(mw_engine *e, mw_hierarchy *scopes) {
  mwi_hierarchies *part = &e->scope;
  mwi_hierarchy **all, *fresh;
  uint32_t i = 0;
  while (i < part->n && part->all[i] != NULL) i++;
  all = (mwi_hierarchy **)mwi_grow(e, part->all, i, &part->size,
                                   sizeof(part->all));
  if (all == NULL) return MW_NOMEM;
  part->all = all;
  fresh = (mwi_hierarchy *)mwi_new(e, sizeof(mwi_hierarchy));
  if (fresh == NULL) return MW_NOMEM;
  if (i == part->n) part->n++;
  part->all[i] = fresh;
  *scopes = i;
  return MW_OK;
}

static void free_stack(mw_engine *e, mwi_hierarchy *its, mwi_stack *stack) {
  mwi_hierarchy_cut(its, stack, 0);
  mwi_free(e, stack->frames, stack->size * sizeof(mw_frame));
  memset(stack, 0, sizeof(mwi_stack));
}

/* The stacks in page number `i`, or NULL. */
static mwi_stack *page_of(const mwi_hierarchy *its, uint32_t i) {
  return (mwi_stack *)its->stacks.pages[i];
}

void mw_hierarchy_reset(mw_engine *e, mw_hierarchy scopes) {
  mwi_hierarchy *its = mwi_hierarchy_of(&e->scope, scopes);
  uint32_t i, j;
  for (i = 0; i < its->stacks.n; i++)
    for (j = 0; j < MWI_PAGE && page_of(its, i) != NULL; j++)
      mwi_hierarchy_cut(its, page_of(its, i) + j, 0);
}

void mw_hierarchy_close(mw_engine *e, mw_hierarchy scopes) {
  mwi_hierarchy *its = mwi_hierarchy_of(&e->scope, scopes);
  uint32_t i, j;
  for (i = 0; i < its->stacks.n; i++)
    for (j = 0; j < MWI_PAGE && page_of(its, i) != NULL; j++)
      free_stack(e, its, page_of(its, i) + j);
  mwi_column_drop(e, &its->stacks, STACKS);
  mwi_column_drop(e, &its->names, NAMES);
  mwi_free(e, its, sizeof(mwi_hierarchy));
  e->scope.all[scopes] = NULL;
}

size_t mw_hierarchy_frames(const mw_engine *e, mw_hierarchy scopes) {
  return mwi_hierarchy_of(&e->scope, scopes)->frames;
}

void mwi_hierarchy_close(mw_engine *e) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++)
    if (e->scope.all[i] != NULL) mw_hierarchy_close(e, i);
  mwi_free(e, e->scope.all, e->scope.size * sizeof(e->scope.all));
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

int mw_hierarchy_set_name(mw_engine *e, mw_hierarchy scopes, mw_handle obj,
                          mw_handle parent, uint32_t name) {
  mwi_hierarchy *its = mwi_hierarchy_of(&e->scope, scopes);
  mwi_named *page;
  mwi_check_enter(e);
  mwi_check_call(name != 0);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  page = (mwi_named *)mwi_column_need(e, &its->names, mw_slot(obj), NAMES);
  if (page == NULL) return MW_NOMEM;
  page += mw_slot(obj) % MWI_PAGE;
  page->obj = obj;
  page->parent = parent;
  page->name = name;
  return MW_OK;
}

uint32_t mw_hierarchy_name(const mw_engine *e, mw_hierarchy scopes,
                           mw_handle obj, mw_handle *parent) {
  const mwi_named *named =
      mwi_hierarchy_name_of(mwi_hierarchy_of(&e->scope, scopes), obj);
  if (named == NULL) return 0;
  *parent = named->parent;
  return named->name;
}

/* }====================================================== */

/* {======================================================
** Stacks
** ======================================================= */

static mwi_stack *find(const mw_engine *e, mw_hierarchy scopes,
                       mw_handle thread) {
  const mwi_hierarchy *its = mwi_hierarchy_of(&e->scope, scopes);
  mwi_stack *stack =
      (mwi_stack *)mwi_column_page(&its->stacks, mw_slot(thread));
  if (stack == NULL) return NULL;
  stack += mw_slot(thread) % MWI_PAGE;
  return (stack->thread == thread) ? stack : NULL;
}

mwi_stack *mwi_hierarchy_need(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread) {
  mwi_hierarchy *its = mwi_hierarchy_of(&e->scope, scopes);
  uint32_t slot = mw_slot(thread);
  mwi_stack *stack =
      (mwi_stack *)mwi_column_need(e, &its->stacks, slot, STACKS);
  if (stack == NULL) return NULL;
  stack += slot % MWI_PAGE;
  mwi_assert(stack->thread == thread || stack->frames == NULL);
  stack->thread = thread; /* a former one's went when it was forgotten */
  return stack;
}

int mwi_hierarchy_grow(mw_engine *e, mwi_stack *stack) {
  mw_frame *frames = (mw_frame *)mwi_grow(e, stack->frames, stack->n,
                                          &stack->size, sizeof(mw_frame));
  if (frames == NULL) return MW_NOMEM;
  stack->frames = frames;
  return MW_OK;
}

int mw_hierarchy_enter(mw_engine *e, mw_hierarchy scopes, mw_handle thread,
                       mw_handle obj, uint32_t name) {
  mwi_stack *stack;
  mwi_check_enter(e);
  mwi_check_call(name != 0);
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (thread != MW_NONE && !mwi_identity_is_valid(&e->identity, thread))
    return MW_STALE;
  stack = mwi_hierarchy_need(e, scopes, thread);
  if (stack == NULL || mwi_hierarchy_grow(e, stack) != MW_OK) return MW_NOMEM;
  mwi_hierarchy_push(mwi_hierarchy_of(&e->scope, scopes), stack, obj, name);
  return MW_OK;
}

int mw_hierarchy_leave(mw_engine *e, mw_hierarchy scopes, mw_handle thread,
                       mw_handle obj) {
  mwi_stack *stack = find(e, scopes, thread);
  uint32_t i = (stack == NULL) ? 0 : stack->n;
  while (i > 0 && stack->frames[i - 1].obj != obj) i--;
  if (i == 0) return MW_STALE;
  mwi_hierarchy_cut(mwi_hierarchy_of(&e->scope, scopes), stack, i - 1);
  return MW_OK;
}

void mw_hierarchy_cut(mw_engine *e, mw_hierarchy scopes, mw_handle thread,
                      uint32_t depth) {
  mwi_stack *stack = find(e, scopes, thread);
  if (stack != NULL && depth < stack->n)
    mwi_hierarchy_cut(mwi_hierarchy_of(&e->scope, scopes), stack, depth);
}

const mw_frame *mw_hierarchy_stack(const mw_engine *e, mw_hierarchy scopes,
                                   mw_handle thread, uint32_t *n) {
  const mwi_stack *stack = find(e, scopes, thread);
  *n = (stack == NULL) ? 0 : stack->n;
  return (*n == 0) ? NULL : stack->frames;
}

uint32_t mw_hierarchy_count(const mw_engine *e, mw_hierarchy scopes,
                            mw_handle thread, uint32_t name) {
  uint32_t i, n, count = 0;
  const mw_frame *frames = mw_hierarchy_stack(e, scopes, thread, &n);
  for (i = 0; i < n; i++) count += frames[i].name == name;
  return count;
}

void mwi_hierarchy_forget(mw_engine *e, uint32_t slot) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++) {
    mwi_hierarchy *its = e->scope.all[i];
    mwi_stack *stack;
    if (its == NULL) continue;
    stack = (mwi_stack *)mwi_column_page(&its->stacks, slot);
    if (stack != NULL) free_stack(e, its, stack + slot % MWI_PAGE);
  }
}

/* }====================================================== */
