/*
** options.c - the reader of tables of options.
** SPDX-License-Identifier: MIT
*/
#include "base.h"

#include <string.h>

#include "../traps/traps.h"

static int is_text(lua_State *L, int index, const char *text) {
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  return len == strlen(text) && memcmp(s, text, len) == 0;
}

/* The number of the choice on the top, from 0 on; -1 if it is none. */
static int find_choice(lua_State *L, const char *choices) {
  int i;
  if (lua_type(L, -1) != LUA_TSTRING) return -1; /* 1 is not "1" */
  for (i = 0; *choices != '\0'; i++, choices += strlen(choices) + 1)
    if (is_text(L, -1, choices)) return i;
  return -1;
}

/* "neither 'a' nor 'b'", or "none of 'a', 'b', 'c'" */
static void push_choices(lua_State *L, const char *choices) {
  const char *second = choices + strlen(choices) + 1;
  const char *third = second + strlen(second) + 1;
  if (*third == '\0') { /* are there only two? */
    lua_pushfstring(L, "neither '%s' nor '%s'", choices, second);
    return;
  }
  lua_pushfstring(L, "none of '%s'", choices);
  for (; *second != '\0'; second += strlen(second) + 1) {
    lua_pushfstring(L, ", '%s'", second);
    lua_concat(L, 2);
  }
}

/* Pops what is wrong with the option, and raises it. */
static int bad_option(lua_State *L, const char *name, int arg,
                      const mwb_option *option) {
  return luaL_error(L, "bad argument #%d to '%s' (option '%s' is %s)", arg,
                    name, option->name, lua_tostring(L, -1));
}

/* Returns the flags for the value on the top, or raises. */
static int read_value(lua_State *L, const char *name, int arg,
                      const mwb_option *option) {
  int which = 0;
  if (option->choices != NULL) {
    which = find_choice(L, option->choices);
    if (which >= 0) return option->flags[which];
    push_choices(L, option->choices);
  } else {
    if (option->type == LUA_TBOOLEAN) which = lua_toboolean(L, -1);
    if (option->type == LUA_TNONE || lua_type(L, -1) == option->type) /* any? */
      return option->flags[which];
    lua_pushfstring(L, "not a %s", lua_typename(L, option->type));
  }
  return bad_option(L, name, arg, option);
}

/* Raises if an option, whose values begin at `first`, needs a flag that is not
** set. */
static void check_needs(lua_State *L, const char *name, int arg,
                        const mwb_option *options, int first, int flags) {
  int i;
  for (i = 0; options[i].name != NULL; i++) {
    if ((options[i].needs & ~flags) == 0) continue; /* all needed is set */
    if (!lua_toboolean(L, first + i)) continue;     /* absent, or `false`? */
    lua_pushstring(L, options[i].wrong);
    bad_option(L, name, arg, &options[i]);
  }
}

/* The number of the option whose name is at -2, or raises. */
static int find_option(lua_State *L, const char *name, int arg,
                       const mwb_option *options) {
  int i, type = lua_type(L, -2);
  for (i = 0; type == LUA_TSTRING && options[i].name != NULL; i++)
    if (is_text(L, -2, options[i].name)) return i;
  if (type == LUA_TSTRING || type == LUA_TNUMBER) /* has the name a text? */
    luaL_tolstring(L, -2, NULL);
  else
    lua_pushfstring(L, "(a %s)", lua_typename(L, type));
  return luaL_error(L, "bad argument #%d to '%s' (unknown option '%s')", arg,
                    name, lua_tostring(L, -1));
}

int mwb_read_options(lua_State *L, const char *name, int arg,
                     const mwb_option *options, int flags) {
  int none = lua_isnoneornil(L, arg), first = lua_gettop(L) + 1, table, n, i;
  mwb_check_dot(L, name, 2);
  if (!none && !lua_istable(L, arg))
    mwb_bad_argument(L, name, arg, arg, "table");
  for (n = 0; options[n].name != NULL; n++)
    ;
  luaL_checkstack(L, n + LUA_MINSTACK, NULL);
  lua_settop(L, first - 1 + n);
  if (none) return flags;
  table = mwb_push_shadow(L, arg) ? lua_gettop(L) : arg; /* is it watched? */
  for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
    i = find_option(L, name, arg, options);
    flags |= read_value(L, name, arg, &options[i]);
    lua_copy(L, -1, first + i);
  }
  check_needs(L, name, arg, options, first, flags);
  lua_settop(L, first - 1 + n);
  return flags;
}
