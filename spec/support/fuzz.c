/*
** fuzz.c - `make fuzz`: hostile bytes for mw.patch_bytes.
** SPDX-License-Identifier: MIT
**
** The first byte says whether the rest is a whole message or its body, which
** then gets a header that is right.  Aborts when the library raises, or changes
** a document that it says it did not.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

#include "../../engine/bind/base/moonwatch_lua.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static lua_State *L;

static void begin(void) {
  L = luaL_newstate();
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonwatch_core);
  lua_setfield(L, -2, "moonwatch.core");
  lua_settop(L, 0);
  if (luaL_dofile(L, "spec/support/fuzz.lua")) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (L == NULL) begin();
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, size);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_warning(L, lua_tostring(L, -1), 0);
    abort();
  }
  return 0;
}
