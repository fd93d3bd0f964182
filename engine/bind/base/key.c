/*
** key.c - Lua values as the engine sees them, as keys.
** SPDX-License-Identifier: MIT
**
** The engine knows a string by the address of the string's bytes.  Lua interns
** short strings, so a short string has one address.  A long string has the
** address of the first equal string that the engine kept.  While the engine
** keeps a string, MWB_STRINGS has
**
**     address (light userdata) -> string
**     address (integer)        -> how often the engine keeps it
**     string, if it is long    -> address (light userdata)
**
** The engine's callbacks run in `service`, the state's own thread: they set
** fields that exist, so they need no memory and raise nothing.
*/
#include "base.h"

/* Does Lua intern strings of this length?  Lua's build decides. */
static int is_short(const mwb_state *s, size_t len) {
  return len <= s->short_string;
}

void mwb_open_keys(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const char text[] = "0123456789012345678901234567890123456789";
  const char *one;
  size_t n = sizeof(text);
  do {
    n--;
    one = lua_pushlstring(L, text, n);
    lua_pushlstring(L, text, n);
    s->short_string = (lua_tostring(L, -1) == one) ? n : 0;
    lua_pop(L, 2);
  } while (s->short_string == 0 && n > 0); /* until two equal ones are one */
  lua_newtable(L);
  mwb_keep(L, s, MWB_STRINGS);
}

/* Returns the address of the string at `index`, 0 for a long string that is not
** kept. */
static int64_t string_address(lua_State *L, mwb_state *s, int index) {
  size_t len;
  const char *text = lua_tolstring(L, index, &len);
  if (is_short(s, len)) return (int64_t)(uintptr_t)text; /* its only address */
  mwb_push(L, s, MWB_STRINGS);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  text = (const char *)lua_touserdata(L, -1);
  lua_pop(L, 2);
  return (int64_t)(uintptr_t)text;
}

/* An integral float becomes an integer, as in Lua's tables. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index) {
  mw_value v = {MW_TOTHER, {0}};
  int ok;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      v.type = MW_TNIL;
      break;
    case LUA_TBOOLEAN:
      v.type = MW_TBOOLEAN;
      v.u.i = lua_toboolean(L, index);
      break;
    case LUA_TNUMBER:
      v.type = MW_TINTEGER;
      v.u.i = lua_tointegerx(L, index, &ok);
      if (ok) break; /* an integral float, too */
      v.type = MW_TFLOAT;
      v.u.f = lua_tonumber(L, index);
      break;
    case LUA_TSTRING:
      v.type = MW_TSTRING;
      v.u.i = string_address(L, s, index);
      break;
    case LUA_TLIGHTUSERDATA:
      v.u.i = (int64_t)(uintptr_t)lua_touserdata(L, index);
      break;
    default:
      v.type = MW_TOBJECT;
      v.u.i = (int64_t)mwb_handle_of(L, s, index);
  }
  return v;
}

/* Makes fields for a string of that address, or 0, and its count, which starts
** at 0.  Returns the address. */
static int64_t keep_string(lua_State *L, mwb_state *s, int index,
                           int64_t address) {
  int strings = lua_gettop(L) + 1;
  if (address == 0) address = (int64_t)(uintptr_t)lua_tostring(L, index);
  mwb_push(L, s, MWB_STRINGS);
  if (lua_rawgetp(L, strings, (void *)(uintptr_t)address) == LUA_TNIL) {
    lua_pushinteger(L, 0);
    lua_rawseti(L, strings, (lua_Integer)address);
    if (!is_short(s, (size_t)lua_rawlen(L, index))) { /* to be found by text? */
      lua_pushvalue(L, index);
      lua_pushlightuserdata(L, (void *)(uintptr_t)address);
      lua_rawset(L, strings);
    }
    lua_pushvalue(L, index); /* last: if this field exists, all do */
    lua_rawsetp(L, strings, (void *)(uintptr_t)address);
  }
  lua_settop(L, strings - 1);
  return address;
}

mw_value mwb_key_to_keep(lua_State *L, mwb_state *s, int index) {
  mw_value v;
  index = lua_absindex(L, index);
  v = mwb_key(L, s, index);
  if (v.type == MW_TSTRING)
    v.u.i = keep_string(L, s, index, v.u.i);
  else if (v.type == MW_TOBJECT && v.u.i == 0) /* has it no handle? */
    v.u.i = (int64_t)mwb_identify(L, s, "watch", index, 3);
  return v;
}

void mwb_push_key(lua_State *L, mwb_state *s, const mw_value *key) {
  switch (key->type) {
    case MW_TBOOLEAN:
      lua_pushboolean(L, (int)key->u.i);
      break;
    case MW_TINTEGER:
      lua_pushinteger(L, (lua_Integer)key->u.i);
      break;
    case MW_TFLOAT:
      lua_pushnumber(L, (lua_Number)key->u.f);
      break;
    case MW_TSTRING:
      mwb_push(L, s, MWB_STRINGS);
      lua_rawgetp(L, -1, (void *)(uintptr_t)key->u.i);
      lua_replace(L, -2);
      break;
    case MW_TOBJECT:
      mwb_alive(L, s, (mw_handle)key->u.i);
      break;
    case MW_TOTHER:
      lua_pushlightuserdata(L, (void *)(uintptr_t)key->u.i);
      break;
    default:
      lua_pushnil(L);
  }
}

/* Adds `n` to the count of a key that is a string, which has a count.  Returns
** the sum. */
static lua_Integer add_use(mwb_state *s, const mw_value *key, int n) {
  lua_State *L = s->service;
  lua_Integer uses;
  mwb_push(L, s, MWB_STRINGS);
  lua_rawgeti(L, -1, (lua_Integer)key->u.i);
  uses = lua_tointeger(L, -1) + n;
  lua_pushinteger(L, uses);
  lua_rawseti(L, -3, (lua_Integer)key->u.i);
  lua_pop(L, 2);
  return uses;
}

void mwb_retain(void *ud, const mw_value *key) {
  if (key->type == MW_TSTRING) add_use((mwb_state *)ud, key, 1);
}

void mwb_release(void *ud, const mw_value *key) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = s->service;
  if (key->type != MW_TSTRING || add_use(s, key, -1) > 0) return; /* in use? */
  mwb_push(L, s, MWB_STRINGS);
  mwb_push_key(L, s, key);
  lua_pushnil(L);
  lua_rawset(L, -3);
  lua_pushnil(L);
  lua_rawsetp(L, -2, (void *)(uintptr_t)key->u.i);
  lua_pushnil(L);
  lua_rawseti(L, -2, (lua_Integer)key->u.i);
  lua_pop(L, 1);
}
