/*
** value.c - Lua's values as the engine sees them, where they are keys.
** SPDX-License-Identifier: MIT
*/
#include "bind.h"

/*
** Strings have numbers once the engine is to keep one: a table has string ->
** number, number -> string, and for a number that is free, the next free one.
** How often the engine keeps each is counted in `uses`.  0 is none.
*/

static void grow_uses(lua_State *L, mwb_state *s, uint32_t n) {
  uint32_t *uses = (uint32_t *)mwi_grow(s->engine, s->uses, n, &s->size_uses,
                                        sizeof(uint32_t));
  if (uses == NULL) mwb_check(L, MW_NOMEM);
  s->uses = uses;
}

/* Gives the string at -1 a number, in the table at -2. */
static int64_t number_string(lua_State *L, mwb_state *s) {
  uint32_t n = s->free_string, next = 0;
  if (n == 0) {
    n = s->strings + 1;
    grow_uses(L, s, n);
    lua_pushboolean(L, 0); /* takes its place before anything is changed */
    lua_rawseti(L, -3, n);
  } else {
    lua_rawgeti(L, -2, n);
    next = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pushvalue(L, -1);
  lua_pushinteger(L, n);
  lua_rawset(L, -4);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, n);
  if (s->free_string == 0) s->strings = n;
  s->free_string = next;
  s->uses[n] = 0;
  return n;
}

static int64_t string_number(lua_State *L, mwb_state *s, int index, int add) {
  int top = lua_gettop(L);
  int64_t n;
  mwb_push(L, mwb_state_of(L), MWB_STRINGS);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  n = lua_tointeger(L, -1);
  lua_settop(L, top + 1);
  lua_pushvalue(L, index);
  if (n == 0 && add) n = number_string(L, s);
  lua_settop(L, top);
  return n;
}

void mwb_retain(void *ud, const mw_value *key) {
  mwb_state *s = (mwb_state *)ud;
  if (key->type == MW_TSTRING) s->uses[key->u.i]++;
}

/* Needs no memory: the fields are there. */
void mwb_release(void *ud, const mw_value *key) {
  mwb_state *s = (mwb_state *)ud;
  lua_State *L = s->L;
  if (key->type != MW_TSTRING || --s->uses[key->u.i] > 0) return;
  mwb_push(L, mwb_state_of(L), MWB_STRINGS);
  lua_rawgeti(L, -1, key->u.i);
  lua_pushnil(L);
  lua_rawset(L, -3);
  lua_pushinteger(L, s->free_string);
  lua_rawseti(L, -2, key->u.i);
  s->free_string = (uint32_t)key->u.i;
  lua_pop(L, 1);
}

static int64_t object_number(lua_State *L, mwb_state *s, int index, int add) {
  int top = lua_gettop(L);
  mw_handle h =
      add ? mwb_identify(L, s, "watch", index, 3) : mwb_handle_of(L, s, index);
  lua_settop(L, top);
  return (int64_t)h;
}

/* The key at `index` as the engine sees it.  A float that is an integer is one,
** as in a table. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index, int add) {
  mw_value v;
  int ok;
  index = lua_absindex(L, index);
  v.type = MW_TOTHER;
  v.u.i = 0;
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
      if (ok) break;
      v.type = MW_TFLOAT;
      v.u.f = lua_tonumber(L, index);
      break;
    case LUA_TSTRING:
      v.type = MW_TSTRING;
      v.u.i = string_number(L, s, index, add);
      break;
    case LUA_TLIGHTUSERDATA:
      v.u.i = (int64_t)(uintptr_t)lua_touserdata(L, index);
      break;
    default:
      v.type = MW_TOBJECT;
      v.u.i = object_number(L, s, index, add);
  }
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
      mwb_push(L, mwb_state_of(L), MWB_STRINGS);
      lua_rawgeti(L, -1, (lua_Integer)key->u.i);
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
