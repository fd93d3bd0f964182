/*
** column.c - something beside each slot of identity.
** SPDX-License-Identifier: MIT
*/
#include <string.h>

#include "engine.h"

/* Makes room for as many pages as identity has. */
static int widen(mw_engine *e, mwL_column *column) {
  uint32_t n = e->identity.size_pages;
  void **pages = (void **)mwE_resize(
      e, column->pages, column->n * sizeof(void *), n * sizeof(void *));
  if (pages == NULL) return 0;
  memset(pages + column->n, 0, (n - column->n) * sizeof(void *));
  column->pages = pages;
  column->n = n;
  return 1;
}

void *mwL_need(mw_engine *e, mwL_column *column, uint32_t slot, size_t size) {
  uint32_t i = slot / MWL_PAGE;
  if (i >= column->n && !widen(e, column)) return NULL;
  if (column->pages[i] == NULL) column->pages[i] = mwE_new(e, size);
  return column->pages[i];
}

void mwL_drop(mw_engine *e, mwL_column *column, size_t size) {
  uint32_t i;
  for (i = 0; i < column->n; i++) mwE_free(e, column->pages[i], size);
  mwE_free(e, column->pages, column->n * sizeof(void *));
  column->pages = NULL;
  column->n = 0;
}
