/*
** support.c - what specs need that Lua does not give: Lua's own warnings.
** SPDX-License-Identifier: MIT
**
** support.warnings() -> array of the warnings since the last call.
** support.userdata(metatable) -> a new userdata.
** support.checksum(bytes) -> their CRC-32.
*/
#include <lauxlib.h>
#include <lua.h>
#include <string.h>

typedef struct warnings {
  size_t len;
  char text[4096];
} warnings;

/* Takes the pieces of a warning; each ends with a newline. */
static void collect(void *ud, const char *msg, int tocont) {
  warnings *w = (warnings *)ud;
  size_t len = strlen(msg);
  if (msg[0] == '@' || w->len + len + 1 > sizeof(w->text)) return;
  memcpy(w->text + w->len, msg, len);
  w->len += len;
  if (!tocont) w->text[w->len++] = '\n';
}

static int take(lua_State *L) {
  warnings *w = (warnings *)lua_touserdata(L, lua_upvalueindex(1));
  const char *at = w->text, *end = w->text + w->len;
  lua_Integer n = 0;
  lua_newtable(L);
  while (at < end) {
    const char *stop = (const char *)memchr(at, '\n', (size_t)(end - at));
    if (stop == NULL) stop = end;
    lua_pushlstring(L, at, (size_t)(stop - at));
    lua_rawseti(L, -2, ++n);
    at = stop + 1;
  }
  w->len = 0;
  return 1;
}

static int checksum(lua_State *L) {
  size_t len;
  const unsigned char *p = (const unsigned char *)lua_tolstring(L, 1, &len);
  uint32_t sum = UINT32_MAX, k;
  for (; len > 0; len--)
    for (sum ^= *p++, k = 0; k < 8; k++)
      sum = (sum >> 1) ^ ((sum & 1) ? UINT32_C(0xEDB88320) : 0);
  lua_pushinteger(L, ~sum);
  return 1;
}

static int userdata(lua_State *L) {
  lua_newuserdatauv(L, 1, 1);
  lua_pushvalue(L, 1);
  lua_setmetatable(L, -2);
  return 1;
}

#ifdef __cplusplus
extern "C" { /* `require` looks for the C name */
#endif
LUAMOD_API int luaopen_support(lua_State *L);
#ifdef __cplusplus
}
#endif

LUAMOD_API int luaopen_support(lua_State *L) {
  static const char KEY = 0;
  lua_newtable(L);
  lua_pushcfunction(L, userdata);
  lua_setfield(L, -2, "userdata");
  lua_pushcfunction(L, checksum);
  lua_setfield(L, -2, "checksum");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &KEY) != LUA_TUSERDATA) {
    warnings *w = (warnings *)lua_newuserdatauv(L, sizeof(warnings), 0);
    w->len = 0;
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &KEY);
    lua_setwarnf(L, collect, w);
    lua_replace(L, -2);
  }
  lua_pushcclosure(L, take, 1);
  lua_setfield(L, -2, "warnings");
  return 1;
}
