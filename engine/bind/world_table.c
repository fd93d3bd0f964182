/*
** world_table.c - the functions of `table` that code in a box has.
** SPDX-License-Identifier: MIT
**
** A step may call a metamethod or follow a chain of `__index`, so each step is
** paid for by itself.  The functions do what Lua's do, in the same order.
*/
#include "world.h"

/* Pays for a step, and pushes an element of the table at `table`. */
static int get(lua_State *L, int table, lua_Integer i) {
  mwb_pay(L, 1);
  return lua_geti(L, table, i);
}

/* Pops the value on the top, and stores it. */
static void set(lua_State *L, int table, lua_Integer i) {
  mwb_pay(L, 1);
  lua_seti(L, table, i);
}

static lua_Integer length(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  mwb_pay(L, 1);
  return luaL_len(L, 1);
}

static int give_concat(lua_State *L) {
  luaL_Buffer text;
  size_t len;
  lua_Integer last = length(L), i;
  const char *separator;
  mwb_pay_text(L, 2);
  separator = luaL_optlstring(L, 2, "", &len);
  i = luaL_optinteger(L, 3, 1);
  last = luaL_optinteger(L, 4, last);
  luaL_buffinit(L, &text);
  for (; i <= last; i++) {
    int type = get(L, 1, i);
    if (type != LUA_TSTRING && type != LUA_TNUMBER)
      return luaL_error(L, "invalid value (at index %I) in table for 'concat'",
                        (LUAI_UACINT)i);
    luaL_addvalue(&text);
    if (i == last) break;
    luaL_addlstring(&text, separator, len);
  }
  luaL_pushresult(&text);
  return 1;
}

static int give_insert(lua_State *L) {
  lua_Integer end = (lua_Integer)((lua_Unsigned)length(L) + 1), at, i;
  mwb_pay_text(L, 2);
  switch (lua_gettop(L)) {
    case 2:
      at = end;
      break;
    case 3:
      at = luaL_checkinteger(L, 2);
      luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2,
                    "position out of bounds");
      for (i = end; i > at; i--) {
        get(L, 1, i - 1);
        set(L, 1, i);
      }
      break;
    default:
      return luaL_error(L, "wrong number of arguments to 'insert'");
  }
  set(L, 1, at);
  return 0;
}

static int give_remove(lua_State *L) {
  lua_Integer size = length(L), at;
  mwb_pay_text(L, 2);
  at = luaL_optinteger(L, 2, size);
  if (at != size)
    luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)size, 2,
                  "position out of bounds");
  get(L, 1, at);
  for (; at < size; at++) {
    get(L, 1, at + 1);
    set(L, 1, at);
  }
  lua_pushnil(L);
  set(L, 1, at);
  return 1;
}

static int give_move(lua_State *L) {
  lua_Integer from, last, to, i;
  int target = lua_isnoneornil(L, 5) ? 1 : 5;
  mwb_pay_text(L, 2);
  from = luaL_checkinteger(L, 2);
  last = luaL_checkinteger(L, 3);
  to = luaL_checkinteger(L, 4);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, target, LUA_TTABLE);
  if (last >= from) {
    lua_Integer n;
    luaL_argcheck(L, from > 0 || last < LUA_MAXINTEGER + from, 3,
                  "too many elements to move");
    n = last - from + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4,
                  "destination wrap around");
    if (to > last || to <= from || (target != 1 && !lua_rawequal(L, 1, 5))) {
      for (i = 0; i < n; i++) {
        get(L, 1, from + i);
        set(L, target, to + i);
      }
    } else {
      for (i = n - 1; i >= 0; i--) {
        get(L, 1, from + i);
        set(L, target, to + i);
      }
    }
  }
  lua_pushvalue(L, target);
  return 1;
}

static int give_unpack(lua_State *L) {
  lua_Integer i, last;
  lua_Unsigned n;
  mwb_pay_text(L, 2);
  i = luaL_optinteger(L, 2, 1);
  last = lua_isnoneornil(L, 3) ? length(L) : luaL_checkinteger(L, 3);
  if (i > last) return 0;
  n = (lua_Unsigned)last - (lua_Unsigned)i;
  if (n >= MWB_MOST_RESULTS || !lua_checkstack(L, (int)++n))
    return luaL_error(L, "too many results to unpack");
  for (; i < last; i++) get(L, 1, i);
  get(L, 1, last);
  return (int)n;
}

/* Strings are compared byte by byte. */
static void pay_sort(lua_State *L, int table, lua_Integer n) {
  lua_Number bytes = 0;
  lua_Integer i, rounds = 1;
  for (i = n; i > 0; i /= 2) rounds++;
  for (i = 1; i <= n; i++) {
    mwb_pay(L, 1);
    if (lua_rawgeti(L, table, i) == LUA_TSTRING)
      bytes += (lua_Number)lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  mwb_pay(L, ((lua_Number)n + bytes / MWB_STEP) * (lua_Number)rounds);
}

/* The elements of a table with a metatable are sorted in another table. */
static int give_sort(lua_State *L) {
  lua_Integer n = length(L), i;
  lua_settop(L, 2);
  if (!lua_getmetatable(L, 1)) {
    pay_sort(L, 1, n);
    return mwb_pass_on(L);
  }
  lua_newtable(L);
  for (i = 1; i <= n; i++) {
    get(L, 1, i);
    lua_rawseti(L, 4, i);
  }
  pay_sort(L, 4, n);
  lua_pushvalue(L, MWB_UPLUA);
  lua_pushvalue(L, 4);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 0);
  for (i = 1; i <= n; i++) {
    lua_rawgeti(L, 4, i);
    set(L, 1, i);
  }
  return 0;
}

const mwb_given mwb_given_table[] = {
    {"concat", give_concat}, {"insert", give_insert},
    {"move", give_move},     {"pack", NULL},
    {"remove", give_remove}, {"sort", give_sort},
    {"unpack", give_unpack}, {NULL, NULL}};
