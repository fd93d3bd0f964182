/*
** cell.c - upvalues as objects.
** SPDX-License-Identifier: MIT
**
** A cell stands for one upvalue, whichever closures share the upvalue: the cell
** has one of the closures as its user value, and the upvalue's place in the
** closure.  While the cell lives the upvalue lives, so no other upvalue gets
** its address.  A cell without a function (place 0) holds its value itself, or
** no value yet.
*/
#include "watch.h"

#include "../base/base.h"

typedef struct cell {
  int place;
  int empty; /* has the cell no value yet? */
} cell;

int mwb_is_cell(lua_State *L, const mwb_state *s, int index) {
  return mwb_is_of(L, s, index, MWB_CELL);
}

static cell *check_cell(lua_State *L, const mwb_state *s) {
  if (!mwb_is_cell(L, s, 1)) luaL_error(L, "cell expected");
  return (cell *)lua_touserdata(L, 1);
}

static cell *new_cell(lua_State *L, const mwb_state *s) {
  cell *c = (cell *)lua_newuserdatauv(L, sizeof(cell), 1);
  c->place = 0;
  c->empty = 1;
  mwb_push(L, s, MWB_CELL);
  lua_setmetatable(L, -2);
  return c;
}

/* cell(function, place) -> cell; nil if there is no such upvalue.  cell() -> a
** new cell, without a value. */
static int make_cell(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer place = lua_tointeger(L, 2);
  void *id;
  cell *c;
  lua_settop(L, 2);
  if (lua_isnil(L, 1)) {
    new_cell(L, s);
    return 1;
  }
  id = (place > 0 && place < 256) ? lua_upvalueid(L, 1, (int)place) : NULL;
  if (id == NULL) return 0;
  mwb_push(L, s, MWB_CELLS);
  if (lua_rawgetp(L, -1, id) != LUA_TNIL) return 1;
  c = new_cell(L, s);
  c->place = (int)place;
  c->empty = 0;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 3, id);
  return 1;
}

void mwb_push_cell(lua_State *L, int index) {
  cell *c = (cell *)lua_touserdata(L, index);
  lua_getiuservalue(L, index, 1);
  if (c->place == 0) return;
  lua_getupvalue(L, -1, c->place);
  lua_replace(L, -2);
}

/* cell_value(cell) -> has the cell a value?, value */
static int cell_value(lua_State *L) {
  cell *c = check_cell(L, mwb_state_of(L));
  lua_pushboolean(L, !c->empty);
  mwb_push_cell(L, 1);
  return 2;
}

void mwb_set_cell(lua_State *L, int index) {
  cell *c = (cell *)lua_touserdata(L, index);
  index = lua_absindex(L, index);
  c->empty = 0;
  if (c->place == 0) {
    lua_setiuservalue(L, index, 1);
  } else {
    lua_getiuservalue(L, index, 1);
    lua_insert(L, -2);
    lua_setupvalue(L, -2, c->place);
    lua_pop(L, 1);
  }
}

/* is_cell(value) */
static int is_cell(lua_State *L) {
  lua_pushboolean(L, mwb_is_cell(L, mwb_state_of(L), 1));
  return 1;
}

/* cell_name(cell) -> the upvalue's name, or "" */
static int cell_name(lua_State *L) {
  const cell *c = check_cell(L, mwb_state_of(L));
  const char *name = NULL;
  if (c->place > 0) {
    lua_getiuservalue(L, 1, 1);
    name = lua_getupvalue(L, -1, c->place);
  }
  lua_pushstring(L, (name == NULL) ? "" : name);
  return 1;
}

void mwb_open_cell(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {{"cell", make_cell},
                                       {"cell_value", cell_value},
                                       {"cell_name", cell_name},
                                       {"is_cell", is_cell},
                                       {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  mwb_new_meta(L, MWB_CELL, "cell", none, none);
  mwb_push_weak(L);
  mwb_keep(L, s, MWB_CELLS);
  mwb_set_funcs(L, functions);
}
