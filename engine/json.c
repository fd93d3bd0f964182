/*
** json.c - numbers and strings as JSON, buffered.
** SPDX-License-Identifier: MIT
**
** No function here allocates.  After the sink has failed, all further text is
** dropped.
*/
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "json.h"

void mwi_json_flush(mwi_json *out) {
  mwi_assert(out->n <= out->size);
  if (!out->failed && out->n > 0)
    out->failed = !out->sink(out->ud, out->buffer, out->n);
  out->n = 0;
}

static void put_large(mwi_json *out, const char *text, size_t len) {
  mwi_json_flush(out);
  if (len <= out->size) { /* does it fit now? */
    memcpy(out->buffer, text, len);
    out->n = len;
  } else if (!out->failed) { /* larger than the buffer? */
    out->failed = !out->sink(out->ud, text, len);
  }
}

void mwi_json_put(mwi_json *out, const char *text, size_t len) {
  if (len > out->size - out->n) { /* no room left? */
    put_large(out, text, len);
  } else if (len > 0) { /* is there a text? */
    memcpy(out->buffer + out->n, text, len);
    out->n += len;
  }
}

/* Puts n / 10^places with all these places, of which 21 are the most. */
static void put_fixed(mwi_json *out, int64_t n, int places) {
  char text[48], *end = text + sizeof(text), *at = end;
  uint64_t m = (n < 0) ? 0 - (uint64_t)n : (uint64_t)n;
  for (; places > 0; places--, m /= 10) *--at = (char)('0' + m % 10);
  if (at < end) *--at = '.'; /* were there places? */
  do *--at = (char)('0' + m % 10);
  while ((m /= 10) > 0);
  if (n < 0) *--at = '-';
  mwi_json_put(out, at, (size_t)(end - at));
}

void mwi_json_integer(mwi_json *out, int64_t n) { put_fixed(out, n, 0); }

void mwi_json_thousandths(mwi_json *out, int64_t n) { put_fixed(out, n, 3); }

#define FEWEST 15
#define MOST 17

/* Puts n * 10^power. */
static void put_digits(mwi_json *out, int64_t n, int power) {
  for (; n % 10 == 0; power++) n /= 10;
  if (power > 0 || power < -MOST - 4) /* too many zeros? */
    mwi_json_form(out, "%de%d", n, (int64_t)power);
  else
    put_fixed(out, n, -power);
}

/* Puts a float > 0 by the fewest digits, from 15 on, of which `strtod` reads
** the float.  Only the digits are taken from what C writes: the character
** between them is the locale's. */
static void put_float(mwi_json *out, double value) {
  char text[48];
  const char *at;
  int64_t all = 0;
  int n, most;
  for (most = FEWEST; most <= MOST; most++) {
    snprintf(text, sizeof(text), "%.*e", most - 1, value);
    if (strtod(text, NULL) == value) break; /* enough digits? */
  }
  for (at = text, n = 0; *at != 'e'; at++) {
    if (*at < '0' || *at > '9') continue; /* the locale's point? */
    all = all * 10 + (*at - '0');
    n++;
  }
  put_digits(out, all, atoi(at + 1) - (n - 1));
}

#define EXACT 9007199254740992.0 /* up to here, floats are exact integers */

void mwi_json_number(mwi_json *out, double x) {
  if (x != x) {
    mwi_json_literal(out, "\"nan\"");
  } else if (x - x != 0) { /* infinite? */
    mwi_json_put(out, (x > 0) ? "\"inf\"" : "\"-inf\"", (x > 0) ? 5 : 6);
  } else if (x == 0 && 1 / x < 0) { /* -0.0? */
    mwi_json_literal(out, "-0.0");
  } else if (x >= -EXACT && x <= EXACT && x == (double)(int64_t)x) {
    mwi_json_integer(out, (int64_t)x); /* whole, and exact so */
  } else {
    if (x < 0) mwi_json_literal(out, "-");
    put_float(out, (x < 0) ? -x : x);
  }
}

/* The least code of a sequence, by its bytes. */
static const uint32_t least_code[] = {0, 0, 0x80, 0x800, 0x10000};

/* Returns the length of the UTF-8 sequence that begins at `s`, 0 if there is
** none. */
static size_t sequence(const unsigned char *s, size_t len) {
  size_t n = (*s >= 0xF0) ? 4 : (*s >= 0xE0) ? 3 : 2, i; /* by the first byte */
  uint32_t code = *s & (0xFFu >> (n + 1));
  if (*s < 0xC2 || *s > 0xF4 || n > len) return 0; /* no start, or cut off? */
  for (i = 1; i < n; i++) {
    if ((s[i] & 0xC0) != 0x80) return 0; /* no byte that goes on? */
    code = code << 6 | (s[i] & 0x3Fu);
  }
  if (code < least_code[n] || code > 0x10FFFF) return 0; /* not by Unicode? */
  return (code >= 0xD800 && code <= 0xDFFF) ? 0 : n;     /* a surrogate? */
}

size_t mwi_json_character(const char *s, size_t len) {
  const unsigned char *at = (const unsigned char *)s;
  return (*at < 0x80) ? 1 : sequence(at, len); /* ASCII? */
}

int mwi_json_is_utf8(const char *s, size_t len) {
  size_t i, n;
  for (i = 0; i < len; i += n)
    if ((n = mwi_json_character(s + i, len - i)) == 0) return 0;
  return 1;
}

static void put_escape(mwi_json *out, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  char text[6] = {'\\', 'u', '0', '0', 0, 0};
  text[4] = hex[c >> 4];
  text[5] = hex[c & 15];
  if (c == '"' || c == '\\') { /* will a backslash do? */
    text[1] = (char)c;
    mwi_json_put(out, text, 2);
  } else {
    mwi_json_put(out, text, sizeof(text));
  }
}

static int is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '<';
}

/* Puts the character at the start of `s`, which is not plain; returns the bytes
** of the character. */
static size_t put_special(mwi_json *out, const unsigned char *s, size_t len) {
  size_t n;
  if (*s < 0x80) { /* ASCII? */
    put_escape(out, *s);
    return 1;
  }
  n = sequence(s, len);
  if (n > 0) { /* is it UTF-8? */
    mwi_json_put(out, (const char *)s, n);
    return n;
  }
  mwi_json_literal(out, "\\ufffd");
  return 1;
}

void mwi_json_string(mwi_json *out, const char *text, size_t len) {
  const unsigned char *s = (const unsigned char *)text;
  size_t from = 0, at = 0;
  mwi_json_literal(out, "\"");
  while (at < len) {
    if (is_plain(s[at])) { /* put with its neighbours */
      at++;
      continue;
    }
    mwi_json_put(out, text + from, at - from);
    at += put_special(out, s + at, len - at);
    from = at;
  }
  mwi_json_put(out, text + from, at - from);
  mwi_json_literal(out, "\"");
}

static void put_handle(mwi_json *out, mw_handle h) {
  uint32_t age = (uint32_t)(h >> 32);
  mwi_json_form(out,
                (h == MW_NONE) ? "none"
                : (age == 0)   ? "%u" /* the slot's first use */
                               : "%u#%u",
                mw_slot(h), age);
}

void mwi_json_form(mwi_json *out, const char *form, ...) {
  const char *at, *text;
  va_list args;
  va_start(args, form);
  for (; (at = strchr(form, '%')) != NULL; form = at + 2) {
    mwi_json_put(out, form, (size_t)(at - form));
    switch (at[1]) {
      case 's':
        text = va_arg(args, const char *);
        mwi_json_put(out, text, strlen(text));
        break;
      case 'q':
        text = va_arg(args, const char *);
        mwi_json_string(out, text, va_arg(args, size_t));
        break;
      case 'u':
        mwi_json_integer(out, va_arg(args, uint32_t));
        break;
      case 'd':
        mwi_json_integer(out, va_arg(args, int64_t));
        break;
      case 'h':
        put_handle(out, va_arg(args, mw_handle));
        break;
      default:
        mwi_json_thousandths(out, va_arg(args, int64_t));
    }
  }
  mwi_json_put(out, form, strlen(form));
  va_end(args);
}
