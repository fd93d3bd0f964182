/*
** output.h - the engine's private view of output.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_OUTPUT_H
#define MW_OUTPUT_H

#include "moonwatch.h"

/* Text on its way to a sink, by way of a buffer that is its caller's. */
typedef struct mwO_out {
  mw_sink sink;
  void *ud;
  char *buffer;
  size_t n, size;
  int failed; /* has the sink refused something? */
} mwO_out;

/* A buffer must have room for the longest text that is put at once by these
** functions' own doing: a number. */
#define MWO_MINIMUM 64

MW_PRIVATE void mwO_put(mwO_out *out, const char *text, size_t len);
MW_PRIVATE void mwO_flush(mwO_out *out);

/* Puts a literal. */
#define mwO_literal(out, text) mwO_put(out, text, sizeof(text) - 1)

MW_PRIVATE void mwO_integer(mwO_out *out, int64_t n);

/* A number as JSON has them: 15 digits; 0 for what is not finite. */
MW_PRIVATE void mwO_number(mwO_out *out, double x);

/* A time of so many thousandths, 12345 as 12.345. */
MW_PRIVATE void mwO_thousandths(mwO_out *out, int64_t n);

/* Any bytes as a string of JSON with its quotes: what is not UTF-8 becomes
** U+FFFD, and there is no "<", so that it can stand in HTML. */
MW_PRIVATE void mwO_string(mwO_out *out, const char *s, size_t len);

#endif
