/*
** pool.h - arrays in pages: beside the slots of identity, and pools.
** SPDX-License-Identifier: MIT
**
**     pages[i / 256] --> 256 elements and what a page needs, or NULL
**
** A column begins as zeros; a page is allocated, as zeros, when an element of
** the page is first needed, and does not move until the column is dropped.
**
** A pool is a column whose elements are taken and given back one by one.  The
** free elements are linked through their first field, a uint32_t; the rest of a
** free element keeps its contents.  Number 0 is no element.
*/
#ifndef MWI_POOL_H
#define MWI_POOL_H

#include "check.h"

#define MWI_PAGE 256u

typedef struct mwi_column {
  void **pages;
  uint32_t n;
} mwi_column;

/* Returns the page of an element, NULL when the page was never needed. */
static inline void *mwi_column_page(const mwi_column *column, uint32_t index) {
  uint32_t i = index / MWI_PAGE;
  return (i < column->n) ? column->pages[i] : NULL;
}

/* Returns the page of an element, made if need be with `size` bytes; NULL when
** there is no memory. */
MWI_API void *mwi_column_need(mw_engine *e, mwi_column *column, uint32_t index,
                              size_t size);

/* Frees all pages, of `size` bytes. */
MWI_API void mwi_column_drop(mw_engine *e, mwi_column *column, size_t size);

/* Calls `f` with the blocks of a column with pages of `size` bytes. */
MWI_API void mwi_column_blocks(mw_engine *e, const mwi_column *column,
                               size_t size, mwi_visit f);

typedef struct mwi_pool {
  mwi_column items;
  uint32_t n;    /* numbers from 1 to n have been used */
  uint32_t free; /* the first free element, 0 for none */
} mwi_pool;

/* Returns element number `i`, which is taken, of `width` bytes. */
static inline void *mwi_pool_at(const mwi_pool *pool, uint32_t i,
                                size_t width) {
  mwi_assert(i > 0 && i <= pool->n);
  return (char *)pool->items.pages[i / MWI_PAGE] + (i % MWI_PAGE) * width;
}

/* Takes an element; returns 0 when there is no memory. */
MWI_API uint32_t mwi_pool_take(mw_engine *e, mwi_pool *pool, size_t width);

/* Calls `f` with the blocks of a pool. */
static inline void mwi_pool_blocks(mw_engine *e, const mwi_pool *pool,
                                   size_t width, mwi_visit f) {
  mwi_column_blocks(e, &pool->items, MWI_PAGE * width, f);
}

/* Gives an element back. */
MWI_API void mwi_pool_give(mwi_pool *pool, uint32_t i, size_t width);

#endif
