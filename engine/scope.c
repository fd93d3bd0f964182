/*
** scope.c - what is executing, and what it is called.
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

#define STACKS (MWL_PAGE * sizeof(mwP_stack))
#define NAMES (MWL_PAGE * sizeof(mwP_named))

/* {======================================================
** Hierarchies
** ======================================================= */

int mw_scopes_open(mw_engine *e, mw_scopes *scopes) {
  mwP_part *part = &e->scope;
  mwP_scopes **all, *fresh;
  uint32_t i = 0;
  while (i < part->n && part->all[i] != NULL) i++;
  all =
      (mwP_scopes **)mwE_grow(e, part->all, i, &part->size, sizeof(part->all));
  if (all == NULL) return MW_NOMEM;
  part->all = all;
  fresh = (mwP_scopes *)mwE_new(e, sizeof(mwP_scopes));
  if (fresh == NULL) return MW_NOMEM;
  if (i == part->n) part->n++;
  part->all[i] = fresh;
  *scopes = i;
  return MW_OK;
}

static void free_stack(mw_engine *e, mwP_scopes *its, mwP_stack *stack) {
  mwP_cut(its, stack, 0);
  mwE_free(e, stack->frames, stack->size * sizeof(mw_frame));
  memset(stack, 0, sizeof(mwP_stack));
}

/* The stacks in page number `i`, or NULL. */
static mwP_stack *page_of(const mwP_scopes *its, uint32_t i) {
  return (mwP_stack *)its->stacks.pages[i];
}

void mw_scopes_reset(mw_engine *e, mw_scopes scopes) {
  mwP_scopes *its = mwP_scopesof(&e->scope, scopes);
  uint32_t i, j;
  for (i = 0; i < its->stacks.n; i++)
    for (j = 0; j < MWL_PAGE && page_of(its, i) != NULL; j++)
      mwP_cut(its, page_of(its, i) + j, 0);
}

void mw_scopes_close(mw_engine *e, mw_scopes scopes) {
  mwP_scopes *its = mwP_scopesof(&e->scope, scopes);
  uint32_t i, j;
  for (i = 0; i < its->stacks.n; i++)
    for (j = 0; j < MWL_PAGE && page_of(its, i) != NULL; j++)
      free_stack(e, its, page_of(its, i) + j);
  mwL_drop(e, &its->stacks, STACKS);
  mwL_drop(e, &its->names, NAMES);
  mwE_free(e, its, sizeof(mwP_scopes));
  e->scope.all[scopes] = NULL;
}

size_t mw_scopes_frames(const mw_engine *e, mw_scopes scopes) {
  return mwP_scopesof(&e->scope, scopes)->frames;
}

void mwP_close(mw_engine *e) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++)
    if (e->scope.all[i] != NULL) mw_scopes_close(e, i);
  mwE_free(e, e->scope.all, e->scope.size * sizeof(e->scope.all));
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

int mw_scope_name(mw_engine *e, mw_scopes scopes, mw_handle obj,
                  mw_handle parent, uint32_t name) {
  mwP_scopes *its = mwP_scopesof(&e->scope, scopes);
  mwP_named *page;
  if (!mwI_valid(&e->identity, obj)) return MW_STALE;
  page = (mwP_named *)mwL_need(e, &its->names, mw_slot(obj), NAMES);
  if (page == NULL) return MW_NOMEM;
  page += mw_slot(obj) % MWL_PAGE;
  page->obj = obj;
  page->parent = parent;
  page->name = name;
  return MW_OK;
}

uint32_t mw_scope_named(const mw_engine *e, mw_scopes scopes, mw_handle obj,
                        mw_handle *parent) {
  const mwP_named *named = mwP_nameof(mwP_scopesof(&e->scope, scopes), obj);
  if (named == NULL) return 0;
  *parent = named->parent;
  return named->name;
}

/* }====================================================== */

/* {======================================================
** Stacks
** ======================================================= */

static mwP_stack *find(const mw_engine *e, mw_scopes scopes, mw_handle thread) {
  const mwP_scopes *its = mwP_scopesof(&e->scope, scopes);
  mwP_stack *stack = (mwP_stack *)mwL_page(&its->stacks, mw_slot(thread));
  if (stack == NULL) return NULL;
  stack += mw_slot(thread) % MWL_PAGE;
  return (stack->thread == thread) ? stack : NULL;
}

mwP_stack *mwP_need(mw_engine *e, mw_scopes scopes, mw_handle thread) {
  mwP_scopes *its = mwP_scopesof(&e->scope, scopes);
  uint32_t slot = mw_slot(thread);
  mwP_stack *stack = (mwP_stack *)mwL_need(e, &its->stacks, slot, STACKS);
  if (stack == NULL) return NULL;
  stack += slot % MWL_PAGE;
  stack->thread = thread; /* a former one's went when it was forgotten */
  return stack;
}

int mwP_grow(mw_engine *e, mwP_stack *stack) {
  mw_frame *frames = (mw_frame *)mwE_grow(e, stack->frames, stack->n,
                                          &stack->size, sizeof(mw_frame));
  if (frames == NULL) return MW_NOMEM;
  stack->frames = frames;
  return MW_OK;
}

int mw_scope_enter(mw_engine *e, mw_scopes scopes, mw_handle thread,
                   mw_handle obj, uint32_t name) {
  mwP_stack *stack;
  if (!mwI_valid(&e->identity, obj)) return MW_STALE;
  if (thread != MW_NONE && !mwI_valid(&e->identity, thread)) return MW_STALE;
  stack = mwP_need(e, scopes, thread);
  if (stack == NULL || mwP_grow(e, stack) != MW_OK) return MW_NOMEM;
  mwP_push(mwP_scopesof(&e->scope, scopes), stack, obj, name);
  return MW_OK;
}

int mw_scope_leave(mw_engine *e, mw_scopes scopes, mw_handle thread,
                   mw_handle obj) {
  mwP_stack *stack = find(e, scopes, thread);
  uint32_t i = (stack == NULL) ? 0 : stack->n;
  while (i > 0 && stack->frames[i - 1].obj != obj) i--;
  if (i == 0) return MW_STALE;
  mwP_cut(mwP_scopesof(&e->scope, scopes), stack, i - 1);
  return MW_OK;
}

void mw_scope_cut(mw_engine *e, mw_scopes scopes, mw_handle thread,
                  uint32_t depth) {
  mwP_stack *stack = find(e, scopes, thread);
  if (stack != NULL && depth < stack->n)
    mwP_cut(mwP_scopesof(&e->scope, scopes), stack, depth);
}

const mw_frame *mw_scope_frames(const mw_engine *e, mw_scopes scopes,
                                mw_handle thread, uint32_t *n) {
  const mwP_stack *stack = find(e, scopes, thread);
  *n = (stack == NULL) ? 0 : stack->n;
  return (*n == 0) ? NULL : stack->frames;
}

uint32_t mw_scope_count(const mw_engine *e, mw_scopes scopes, mw_handle thread,
                        uint32_t name) {
  uint32_t i, n, count = 0;
  const mw_frame *frames = mw_scope_frames(e, scopes, thread, &n);
  for (i = 0; i < n; i++) count += frames[i].name == name;
  return count;
}

void mwP_forget(mw_engine *e, uint32_t slot) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++) {
    mwP_scopes *its = e->scope.all[i];
    mwP_stack *stack;
    if (its == NULL) continue;
    stack = (mwP_stack *)mwL_page(&its->stacks, slot);
    if (stack != NULL) free_stack(e, its, stack + slot % MWL_PAGE);
  }
}

/* }====================================================== */
