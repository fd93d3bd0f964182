/*
** json.h - the engine's private view of json.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_JSON_H
#define MWI_JSON_H

#include "moonwatch.h"

/* Text on its way to a sink, by way of a buffer that is its caller's. */
typedef struct mwi_json {
  mw_sink sink;
  void *ud;
  char *buffer;
  size_t n, size;
  int failed; /* has the sink refused something? */
} mwi_json;

/* A buffer must have room for the longest text that is put at once by these
** functions' own doing: a number. */
#define MWI_JSON_MINIMUM 64

MWI_API void mwi_json_put(mwi_json *out, const char *text, size_t len);
MWI_API void mwi_json_flush(mwi_json *out);

/* Puts a literal. */
#define mwi_json_literal(out, text) mwi_json_put(out, text, sizeof(text) - 1)

MWI_API void mwi_json_integer(mwi_json *out, int64_t n);

/* A number with 15 digits; the strings "nan" and "inf" for numbers that JSON
** does not have. */
MWI_API void mwi_json_number(mwi_json *out, double x);

/* A time of so many thousandths, 12345 as 12.345. */
MWI_API void mwi_json_thousandths(mwi_json *out, int64_t n);

/* Any bytes as a string of JSON with its quotes: what is not UTF-8 becomes
** U+FFFD, and there is no "<", so that it can stand in HTML. */
MWI_API void mwi_json_string(mwi_json *out, const char *s, size_t len);

#endif
