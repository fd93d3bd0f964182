/*
** pool.c - arrays in pages: beside the slots of identity, and pools.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "engine.h"

void *mwi_column_need(mw_engine *e, mwi_column *column, uint32_t index,
                      size_t size) {
  uint32_t i = index / MWI_PAGE, n = (i < 4) ? 4 : i + i / 2;
  if (i >= column->n) { /* makes room for page number `i`, at least */
    void **pages = (void **)mwi_resize(
        e, column->pages, column->n * sizeof(void *), n * sizeof(void *));
    if (pages == NULL) return NULL;
    memset(pages + column->n, 0, (n - column->n) * sizeof(void *));
    column->pages = pages;
    column->n = n;
  }
  if (column->pages[i] == NULL) column->pages[i] = mwi_new(e, size);
  return column->pages[i];
}

void mwi_column_blocks(mw_engine *e, const mwi_column *column, size_t size,
                       mwi_visit f) {
  uint32_t i;
  for (i = 0; i < column->n; i++) f(e, column->pages[i], size);
  f(e, column->pages, column->n * sizeof(void *));
}

void mwi_column_drop(mw_engine *e, mwi_column *column, size_t size) {
  mwi_column_blocks(e, column, size, mwi_free);
  column->pages = NULL;
  column->n = 0;
}

uint32_t mwi_pool_take(mw_engine *e, mwi_pool *pool, size_t width) {
  uint32_t i = pool->free;
  if (i != 0) { /* was one given back? */
    pool->free = *(uint32_t *)mwi_pool_at(pool, i, width);
    return i;
  }
  if (pool->n == UINT32_MAX ||
      mwi_column_need(e, &pool->items, pool->n + 1, MWI_PAGE * width) == NULL)
    return 0; /* no number left, or no memory */
  return ++pool->n;
}

void mwi_pool_give(mwi_pool *pool, uint32_t i, size_t width) {
  mwi_assert(i != pool->free);
  *(uint32_t *)mwi_pool_at(pool, i, width) = pool->free;
  pool->free = i;
}
