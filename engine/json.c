/*
** json.c - numbers and strings as JSON, buffered.
** SPDX-License-Identifier: MIT
**
** No function here allocates.  After the sink has failed, all further text is
** dropped.
*/
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
  if (len <= out->size) {
    memcpy(out->buffer, text, len);
    out->n = len;
  } else if (!out->failed) {
    out->failed = !out->sink(out->ud, text, len);
  }
}

void mwi_json_put(mwi_json *out, const char *text, size_t len) {
  if (len > out->size - out->n) {
    put_large(out, text, len);
  } else if (len > 0) {
    memcpy(out->buffer + out->n, text, len);
    out->n += len;
  }
}

/* {======================================================
** Numbers
** ======================================================= */

/* Writes the digits of `n`, at least `least` of them, so that the last is
** before `end`; returns the place of the first. */
static char *digits(char *end, uint64_t n, int least) {
  for (; n > 0 || least > 0; n /= 10, least--) *--end = (char)('0' + n % 10);
  return end;
}

static void put_from(mwi_json *out, const char *from, const char *end) {
  mwi_json_put(out, from, (size_t)(end - from));
}

static uint64_t magnitude(int64_t n) {
  return (n < 0) ? 0 - (uint64_t)n : (uint64_t)n;
}

void mwi_json_integer(mwi_json *out, int64_t n) {
  char text[24], *end = text + sizeof(text);
  char *at = digits(end, magnitude(n), 1);
  if (n < 0) *--at = '-';
  put_from(out, at, end);
}

void mwi_json_thousandths(mwi_json *out, int64_t n) {
  char text[28], *end = text + sizeof(text);
  uint64_t m = magnitude(n);
  char *at = digits(end, m % 1000, 3);
  *--at = '.';
  at = digits(at, m / 1000, 1);
  if (n < 0) *--at = '-';
  put_from(out, at, end);
}

#define DIGITS 15
#define GREATEST 1e15 /* the first number with more digits */

/* Puts n / 10^places. */
static void put_decimals(mwi_json *out, uint64_t n, int places) {
  char text[2 * DIGITS + 8], *end = text + sizeof(text), *at = end;
  for (; places > 0; places--, n /= 10) *--at = (char)('0' + n % 10);
  *--at = '.';
  put_from(out, digits(at, n, 1), end);
}

/* Puts x > 0, not an integer or too large for one. */
static void put_scaled(mwi_json *out, double x) {
  int exponent = 0;
  uint64_t n;
  for (; x >= 1e30; exponent += 16) x /= 1e16;
  for (; x >= GREATEST; exponent++) x /= 10;
  for (; x < 1e-2; exponent -= 16) x *= 1e16;
  for (; x < GREATEST / 10; exponent--) x *= 10;
  n = (uint64_t)(x + 0.5);
  for (; n % 10 == 0; exponent++) n /= 10;
  if (exponent < 0 && exponent >= -DIGITS - 3) {
    put_decimals(out, n, -exponent);
    return;
  }
  mwi_json_integer(out, (int64_t)n);
  mwi_json_literal(out, "e");
  mwi_json_integer(out, exponent);
}

void mwi_json_number(mwi_json *out, double x) {
  if (!(x - x == 0)) {
    if (x != x)
      mwi_json_literal(out, "\"nan\"");
    else
      mwi_json_literal(out, "\"inf\"");
    return;
  }
  if (x > -GREATEST && x < GREATEST && x == (double)(int64_t)x) {
    mwi_json_integer(out, (int64_t)x);
    return;
  }
  if (x < 0) mwi_json_literal(out, "-");
  put_scaled(out, (x < 0) ? -x : x);
}

/* }====================================================== */

/* {======================================================
** Strings
** ======================================================= */

static int is_tail(unsigned char c) { return (c & 0xC0) == 0x80; }

/* The least code of a sequence, by its bytes. */
static const uint32_t least_code[] = {0, 0, 0x80, 0x800, 0x10000};

/* Returns the length of the UTF-8 sequence that begins at `s`, 0 if there is
** none. */
static size_t sequence(const unsigned char *s, size_t len) {
  size_t n = (*s >= 0xF0) ? 4 : (*s >= 0xE0) ? 3 : 2, i;
  uint32_t code = *s & (0xFFu >> (n + 1));
  if (*s < 0xC2 || *s > 0xF4 || n > len) return 0;
  for (i = 1; i < n; i++) {
    if (!is_tail(s[i])) return 0;
    code = code << 6 | (s[i] & 0x3Fu);
  }
  if (code < least_code[n] || code > 0x10FFFF) return 0;
  return (code >= 0xD800 && code <= 0xDFFF) ? 0 : n;
}

static void put_escape(mwi_json *out, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  char text[6] = {'\\', 'u', '0', '0', 0, 0};
  text[4] = hex[c >> 4];
  text[5] = hex[c & 15];
  if (c == '"' || c == '\\') {
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
  if (*s < 0x80) {
    put_escape(out, *s);
    return 1;
  }
  n = sequence(s, len);
  if (n > 0) {
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
    if (is_plain(s[at])) {
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

/* }====================================================== */
