/*
** column.h - arrays in pages: beside the slots of identity, and pools.
** SPDX-License-Identifier: MIT
**
**     pages[i / 256] --> 256 elements and what a page needs, or NULL
**
** A column begins as zeros; its pages come into being when they are needed, as
** zeros, and stay where they are until the column is dropped.
**
** A pool is a column whose elements are taken and given back one by one.  Those
** that are free are linked through their first field, a uint32_t; the rest of
** them stays as it was left.  Number 0 is none.
*/
#ifndef MW_COLUMN_H
#define MW_COLUMN_H

#include "moonwatch.h"

#define MWL_PAGE 256u

typedef struct mwL_column {
  void **pages;
  uint32_t n;
} mwL_column;

/* The page of an element, NULL when it was never needed. */
static inline void *mwL_page(const mwL_column *column, uint32_t index) {
  uint32_t i = index / MWL_PAGE;
  return (i < column->n) ? column->pages[i] : NULL;
}

/* The page of an element, made if need be with `size` bytes; NULL when there is
** no memory. */
MW_PRIVATE void *mwL_need(mw_engine *e, mwL_column *column, uint32_t index,
                          size_t size);

/* Frees all pages, of `size` bytes. */
MW_PRIVATE void mwL_drop(mw_engine *e, mwL_column *column, size_t size);

typedef struct mwL_pool {
  mwL_column items;
  uint32_t n;    /* numbers from 1 to n have been used */
  uint32_t free; /* the first of those that are free, 0 for none */
} mwL_pool;

/* The element of a number that was taken, of `width` bytes. */
static inline void *mwL_at(const mwL_pool *pool, uint32_t i, size_t width) {
  return (char *)pool->items.pages[i / MWL_PAGE] + (i % MWL_PAGE) * width;
}

/* Takes an element; 0 when there is no memory. */
MW_PRIVATE uint32_t mwL_take(mw_engine *e, mwL_pool *pool, size_t width);

/* Gives one back. */
MW_PRIVATE void mwL_give(mwL_pool *pool, uint32_t i, size_t width);

#endif
