/*
** world_string.c - the functions of `string` that code in a box has.
** SPDX-License-Identifier: MIT
*/
#include "world.h"

#include <string.h>

static size_t length_of(lua_State *L, int index) {
  return (lua_type(L, index) == LUA_TSTRING) ? (size_t)lua_rawlen(L, index)
                                             : 32; /* of a number */
}

/* {======================================================
** Patterns
** ======================================================= */

/* The end of the set that begins before `p`, as Lua finds it. */
static const char *end_of_set(const char *p, const char *end) {
  if (p < end && *p == '^') p++;
  do {
    if (p >= end) return end;
    if (*p++ == '%' && p < end) p++;
  } while (p < end && *p != ']');
  return (p < end) ? p + 1 : end;
}

/*
** The number of steps that matching may take.  Each item that can match more or
** less (and the start, if the pattern has no anchor) divides the rest of the
** subject; n such items can divide the subject in as many ways as n things can
** be put between its bytes.  A set is searched at each step.
*/
static lua_Number pattern_steps(size_t subject, const char *p, size_t len,
                                int anchored) {
  const char *end = p + len;
  lua_Number ways = 1;
  int items = 1, i;
  if (anchored && p < end && *p == '^') {
    items = 0;
    p++;
  }
  while (p < end) {
    char c = *p++;
    if (c == '%' && p < end) {
      c = *p++;
      if (c == 'b' || (c >= '0' && c <= '9')) items++;
    } else if (c == '[') {
      p = end_of_set(p, end);
    } else if (c == '*' || c == '+' || c == '-') {
      items++;
    } else if (c == '?') {
      ways *= 2;
    }
  }
  for (i = 1; i <= items; i++)
    ways *= ((lua_Number)subject + i) / (lua_Number)i;
  return ways * (1 + (lua_Number)len / 32);
}

/* Pays for matching the subject at 1 with the pattern at 2, from the place at
** `init` on. */
static void pay_pattern(lua_State *L, int anchored, int init) {
  size_t len = 0, subject = length_of(L, 1);
  const char *pattern = lua_tolstring(L, 2, &len);
  lua_Integer from = (init != 0) ? lua_tointeger(L, init) : 1;
  mwb_pay_text(L, 2);
  if (from < 0) from += (lua_Integer)subject + 1;
  if (from > 1)
    subject -= ((size_t)from - 1 < subject) ? (size_t)from - 1 : subject;
  if (pattern != NULL)
    mwb_pay(L, pattern_steps(subject, pattern, len, anchored) / MWB_STEP);
}

static int give_find(lua_State *L) {
  if (lua_toboolean(L, 4)) {
    size_t len = length_of(L, 2), subject = length_of(L, 1);
    mwb_pay_text(L, 2);
    mwb_pay(L, (lua_Number)subject * (1 + (lua_Number)len / 32) / MWB_STEP);
  } else {
    pay_pattern(L, 1, 3);
  }
  return mwb_pass_on(L);
}

static int give_match(lua_State *L) {
  pay_pattern(L, 1, 3);
  return mwb_pass_on(L);
}

/* The steps of a walk go through the subject once.  In a walk '^' is no
** anchor. */
static int give_gmatch(lua_State *L) {
  pay_pattern(L, 0, 0);
  return mwb_pass_on(L);
}

/* The field of a table that takes the place of a match. */
static int replacement(lua_State *L) {
  mwb_pay(L, 1);
  lua_settop(L, 1);
  lua_gettable(L, MWB_UPLUA);
  return 1;
}

static int give_gsub(lua_State *L) {
  pay_pattern(L, 1, 0);
  if (lua_type(L, 3) == LUA_TTABLE && lua_getmetatable(L, 3)) {
    lua_pop(L, 1);
    lua_pushvalue(L, MWB_UPSTATE);
    lua_pushvalue(L, MWB_UPOBJECTS);
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, replacement, 3);
    lua_replace(L, 3);
  }
  return mwb_pass_on(L);
}

/* }====================================================== */

/* {======================================================
** Other functions
** ======================================================= */

static lua_Number number_at(lua_State *L, int index, lua_Number none) {
  return lua_isnoneornil(L, index) ? none : lua_tonumber(L, index);
}

/* The empty string costs as well, if repeated a billion times. */
static int give_rep(lua_State *L) {
  lua_Number n, bytes;
  mwb_pay_text(L, 1);
  n = number_at(L, 2, 0);
  bytes = (lua_Number)length_of(L, 1) +
          ((lua_type(L, 3) == LUA_TSTRING) ? (lua_Number)lua_rawlen(L, 3) : 0);
  if (n > 0) {
    mwb_need_bytes(L, n * bytes);
    mwb_pay(L, n * (bytes + 1) / MWB_STEP);
  }
  return mwb_pass_on(L);
}

/* Each result is a byte. */
static int give_byte(lua_State *L) {
  lua_Number from, to, len = (lua_Number)length_of(L, 1);
  mwb_pay_text(L, 2);
  from = number_at(L, 2, 1);
  to = number_at(L, 3, from);
  if (from < 0) from += len + 1;
  if (to < 0) to += len + 1;
  if (to > len) to = len;
  if (from < 1) from = 1;
  if (to > from) mwb_pay_results(L, (lua_Integer)(to - from));
  return mwb_pass_on(L);
}

/* A format may ask for many bytes of padding. */
static int give_pack(lua_State *L) {
  size_t len = 0, i;
  const char *format = lua_tolstring(L, 1, &len);
  lua_Number size = 0, all = 0;
  mwb_pay_text(L, 1);
  for (i = 0; i < len; i++) {
    int digit = format[i] >= '0' && format[i] <= '9';
    size = digit ? size * 10 + (format[i] - '0') : 0;
    all += size;
  }
  mwb_need_bytes(L, all);
  mwb_pay(L, all / MWB_STEP);
  return mwb_pass_on(L);
}

/* A format has a result for each of its bytes at most. */
static int give_unpack(lua_State *L) {
  mwb_pay_text(L, 1);
  mwb_pay_results(L, (lua_Integer)length_of(L, 1));
  return mwb_pass_on(L);
}

/* }====================================================== */

const mwb_given mwb_given_string[] = {{"byte", give_byte},
                                      {"char", mwb_pay_all},
                                      {"find", give_find},
                                      {"format", mwb_pay_all},
                                      {"gmatch", give_gmatch},
                                      {"gsub", give_gsub},
                                      {"len", mwb_pay_rest},
                                      {"lower", mwb_pay_all},
                                      {"match", give_match},
                                      {"pack", give_pack},
                                      {"packsize", mwb_pay_all},
                                      {"rep", give_rep},
                                      {"reverse", mwb_pay_all},
                                      {"sub", mwb_pay_rest},
                                      {"unpack", give_unpack},
                                      {"upper", mwb_pay_all},
                                      {NULL, NULL}};
