/*
** program.c - Lua with the library and the specs' support inside, for platforms
** that load no libraries.
** SPDX-License-Identifier: MIT
**
**     lua [NAME=VALUE...] SCRIPT [ARGUMENT...]
**
** Names with values stand for the environment, which some platforms do not
** give to a program.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "../../engine/bind/base/moonwatch_lua.h"

#ifdef __cplusplus
extern "C" {
#endif
int luaopen_support(lua_State *L);
#ifdef __cplusplus
}
#endif

static int getenv_here(lua_State *L) {
  lua_getfield(L, lua_upvalueindex(1), luaL_checkstring(L, 1));
  return 1;
}

/* Puts the text on the top into package.path, as LUA_PATH: ";;" stands for the
** path that is there. */
static void set_path(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  lua_pushfstring(L, ";%s;", lua_tostring(L, -1));
  luaL_gsub(L, lua_tostring(L, -4), ";;", lua_tostring(L, -1));
  lua_setfield(L, -4, "path");
  lua_pop(L, 4);
}

/* Takes names and values from the arguments.  Returns how many there are. */
static int read_environment(lua_State *L, int argc, char **argv) {
  int i;
  lua_newtable(L);
  for (i = 1; i < argc && strchr(argv[i], '=') != NULL; i++) {
    const char *at = strchr(argv[i], '=');
    lua_pushlstring(L, argv[i], (size_t)(at - argv[i]));
    lua_pushstring(L, at + 1);
    lua_rawset(L, -3);
  }
  if (i == 1) return 0;
  lua_getglobal(L, "os");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, getenv_here, 1);
  lua_setfield(L, -2, "getenv");
  lua_pop(L, 1);
  if (lua_getfield(L, -1, "LUA_PATH") == LUA_TSTRING) set_path(L);
  return i - 1;
}

static int run(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1), i, n;
  char **argv = (char **)lua_touserdata(L, 2);
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonwatch_core);
  lua_setfield(L, -2, "moonwatch.core");
  lua_pushcfunction(L, luaopen_support);
  lua_setfield(L, -2, "support");
  n = read_environment(L, argc, argv);
  lua_newtable(L);
  for (i = n; i < argc; i++) { /* the script has the number 0 */
    lua_pushstring(L, argv[(i == n) ? 0 : i]);
    lua_rawseti(L, -2, i - n - 1);
  }
  lua_setglobal(L, "arg");
  if (n + 1 >= argc) return luaL_error(L, "no script");
  if (luaL_loadfile(L, argv[n + 1]) != LUA_OK) return lua_error(L);
  for (i = n + 2; i < argc; i++) lua_pushstring(L, argv[i]);
  lua_call(L, argc - n - 2, 0);
  return 0;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  int ok;
  if (L == NULL) return 1;
  lua_pushcfunction(L, run);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  ok = lua_pcall(L, 2, 0, 0) == LUA_OK;
  if (!ok) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return ok ? 0 : 1;
}
