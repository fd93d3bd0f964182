/*
** time.c - what time it is.
** SPDX-License-Identifier: MIT
*/
#define _POSIX_C_SOURCE 199309L /* for clock_gettime */

#include <time.h>

#include "trace.h"

int64_t mwb_now(void *ud) {
  struct timespec t;
  (void)ud;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* now() -> seconds since some moment; never goes back */
static int now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)mwb_now(NULL) / 1e9);
  return 1;
}

/* nanoseconds() -> the same as an integer */
static int nanoseconds(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mwb_now(NULL));
  return 1;
}

void mwb_open_time(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"now", now}, {"nanoseconds", nanoseconds}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
