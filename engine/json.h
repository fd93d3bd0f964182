/*
** json.h - the engine's private view of json.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_JSON_H
#define MWI_JSON_H

#include "engine.h"

/* A writer of JSON text to a sink, through a buffer of the caller's. */
typedef struct mwi_json {
  mw_sink sink;
  void *ud;
  char *buffer;
  size_t n, size;
  int failed; /* has the sink refused a text? */
} mwi_json;

MWI_API void mwi_json_put(mwi_json *out, const char *text, size_t len);
MWI_API void mwi_json_flush(mwi_json *out);

/* Puts a literal. */
#define mwi_json_literal(out, text) mwi_json_put(out, text, sizeof(text) - 1)

/* Puts a text in which these stand for arguments, which have to be of these
** types: %s a text that ends with 0, %q a string's bytes (const char *) and how
** many (size_t), %u a uint32_t, %d an int64_t, %h a handle, %t an int64_t as
** thousandths. */
MWI_API void mwi_json_form(mwi_json *out, const char *form, ...);

MWI_API void mwi_json_integer(mwi_json *out, int64_t n);

/* Puts a number from which a reader gets the same number; the strings "nan",
** "inf" and "-inf" for numbers without JSON. */
MWI_API void mwi_json_number(mwi_json *out, double x);

/* Puts `n` thousandths: 12345 as 12.345. */
MWI_API void mwi_json_thousandths(mwi_json *out, int64_t n);

/* Returns the length of the UTF-8 character that begins at `s`; 0 if none
** does.  `len` is not 0. */
MWI_API size_t mwi_json_character(const char *s, size_t len);

MWI_API int mwi_json_is_utf8(const char *s, size_t len);

/* Puts any bytes as a JSON string with its quotes: bytes outside UTF-8 become
** U+FFFD, and "<" is escaped, so the text can stand in HTML. */
MWI_API void mwi_json_string(mwi_json *out, const char *s, size_t len);

#endif
