/*
** time.c - what time it is.
** SPDX-License-Identifier: MIT
*/
#define _POSIX_C_SOURCE 199309L /* for clock_gettime */

#include <time.h>

#include "bind.h"

/* now() -> seconds since some moment; never goes back */
static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (lua_Number)t.tv_sec + (lua_Number)t.tv_nsec / 1e9);
  return 1;
}

void mwB_opentime(lua_State *L) {
  static const luaL_Reg functions[] = {{"now", now}, {NULL, NULL}};
  mwB_setfuncs(L, functions);
}
