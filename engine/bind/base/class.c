/*
** class.c - the classes of the library's objects.
** SPDX-License-Identifier: MIT
**
** The metatable of each class has, under a key of its own, `true` or what a
** program is to use instead of setting a field.  No field of an object can be
** set.
*/
#include "base.h"

static const char OURS = 0; /* its address is that key */

int mwb_is_ours(lua_State *L, int index) {
  int ours;
  if (!lua_getmetatable(L, index)) return 0;
  ours = lua_rawgetp(L, -1, &OURS) != LUA_TNIL;
  lua_pop(L, 2);
  return ours;
}

int mwb_is_of(lua_State *L, const mwb_state *s, int index, int meta) {
  const void *address;
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
    return 0;
  address = lua_topointer(L, -1);
  lua_pop(L, 1);
  return address == s->metas[meta];
}

void *mwb_check_self(lua_State *L, const mwb_state *s, const char *name,
                     int meta, const char *type) {
  if (!mwb_is_of(L, s, 1, meta)) /* a dot instead of a colon? */
    luaL_error(L, "calling '%s' on bad self (%s expected, got %s)", name, type,
               mwb_type_name(L, 1));
  return lua_touserdata(L, 1);
}

/* The `__newindex` of all classes. */
static int refuse_field(lua_State *L) {
  lua_settop(L, 2);
  if (lua_type(L, 2) == LUA_TSTRING) /* can the message name the field? */
    lua_pushfstring(L, "field '%s' of the ", lua_tostring(L, 2));
  else
    lua_pushfstring(L, "field (a %s) of the ", luaL_typename(L, 2));
  lua_pushfstring(L, "%s%s cannot be set", lua_tostring(L, 3),
                  mwb_type_name(L, 1));
  lua_getmetatable(L, 1);
  if (lua_rawgetp(L, -1, &OURS) != LUA_TSTRING) /* nothing to use instead? */
    return luaL_error(L, "%s", lua_tostring(L, -3));
  return luaL_error(L, "%s (use %s)", lua_tostring(L, -3), lua_tostring(L, -1));
}

void mwb_seal(lua_State *L, int index, const char *use) {
  index = lua_absindex(L, index);
  if (use == NULL) /* nothing to use instead? */
    lua_pushboolean(L, 1);
  else
    lua_pushstring(L, use);
  lua_rawsetp(L, index, &OURS);
  lua_pushliteral(L, "__newindex");
  lua_pushcfunction(L, refuse_field);
  lua_rawset(L, index);
}

/* add_class(metatable[, what to use instead of setting a field]): for classes
** of the library's Lua files */
static int add_class(lua_State *L) {
  mwb_seal(L, 1, luaL_optstring(L, 2, NULL));
  return 0;
}

/* is_ours(value) -> the name of its class, if it is an object of the library */
static int is_ours(lua_State *L) {
  lua_settop(L, 1);
  if (!mwb_is_ours(L, 1)) return 0;
  lua_pushstring(L, mwb_type_name(L, 1));
  return 1;
}

const luaL_Reg mwb_classes_functions[] = {
    {"add_class", add_class}, {"is_ours", is_ours}, {NULL, NULL}};

void mwb_new_meta(lua_State *L, int value, const char *type,
                  const luaL_Reg *meta, const luaL_Reg *methods) {
  mwb_state *s = mwb_state_of(L);
  lua_newtable(L);
  s->metas[value] = lua_topointer(L, -1);
  lua_pushstring(L, type);
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L);
  if (methods != NULL) mwb_set_funcs(L, methods);
  lua_setfield(L, -2, "__index");
  mwb_seal(L, -1, NULL);
  if (meta != NULL) mwb_set_funcs(L, meta); /* may replace __index */
  mwb_keep(L, s, value);
}
