/*
** column.h - something beside each slot of identity.
** SPDX-License-Identifier: MIT
**
**     pages[slot / 256] --> 256 elements and what a page needs, or NULL
**
** A column begins as zeros; its pages come into being when they are needed, as
** zeros, and stay where they are until the column is dropped.
*/
#ifndef MW_COLUMN_H
#define MW_COLUMN_H

#include "moonwatch.h"

#define MWL_PAGE 256u

typedef struct mwL_column {
  void **pages;
  uint32_t n;
} mwL_column;

/* The page of a slot, NULL when it was never needed. */
static inline void *mwL_page(const mwL_column *column, uint32_t slot) {
  uint32_t i = slot / MWL_PAGE;
  return (i < column->n) ? column->pages[i] : NULL;
}

/* The page of a slot, made if need be with `size` bytes; NULL when there is no
** memory. */
MW_PRIVATE void *mwL_need(mw_engine *e, mwL_column *column, uint32_t slot,
                          size_t size);

/* Frees all pages, of `size` bytes. */
MW_PRIVATE void mwL_drop(mw_engine *e, mwL_column *column, size_t size);

#endif
