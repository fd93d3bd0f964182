/*
** cell.c - upvalues as objects.
** SPDX-License-Identifier: MIT
**
** A cell stands for one upvalue, whichever closures share the upvalue: the cell
** has one of the closures as its user value, and the upvalue's place in the
** closure.  While the cell lives the upvalue lives, so no other upvalue gets
** its address.  A new cell, which has no value yet, is that of a closure of its
** own.
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

/* is_cell(value); also the function of new cells */
static int is_cell(lua_State *L) {
  lua_pushboolean(L, mwb_is_cell(L, mwb_state_of(L), 1));
  return 1;
}

/* cell(function, place) -> cell; nil if there is no such upvalue.  cell() -> a
** new cell, without a value. */
static int make_cell(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_Integer place = lua_tointeger(L, 2);
  int empty = lua_isnoneornil(L, 1);
  void *id;
  cell *c;
  lua_settop(L, 1);
  if (empty) { /* is the upvalue new, too? */
    lua_pushnil(L);
    lua_pushcclosure(L, is_cell, 1);
    lua_replace(L, 1);
    place = 1;
  }
  id = (place > 0 && place < 256) ? lua_upvalueid(L, 1, (int)place) : NULL;
  if (id == NULL) return 0; /* the function has no such upvalue */
  mwb_push(L, s, MWB_CELLS);
  if (lua_rawgetp(L, -1, id) != LUA_TNIL) return 1; /* has it a cell? */
  c = (cell *)lua_newuserdatauv(L, sizeof(cell), 1);
  c->place = (int)place;
  c->empty = empty;
  mwb_push(L, s, MWB_CELL);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 2, id);
  return 1;
}

const char *mwb_push_cell(lua_State *L, int index) {
  const char *name;
  lua_getiuservalue(L, index, 1);
  name = lua_getupvalue(L, -1, ((cell *)lua_touserdata(L, index))->place);
  lua_replace(L, -2);
  return name;
}

void mwb_set_cell(lua_State *L, int index) {
  cell *c = (cell *)lua_touserdata(L, index);
  c->empty = 0;
  lua_getiuservalue(L, index, 1);
  lua_insert(L, -2);
  lua_setupvalue(L, -2, c->place);
  lua_pop(L, 1);
}

/* cell_value(cell) -> has the cell a value?, value, the upvalue's name or "" */
static int cell_value(lua_State *L) {
  if (!mwb_is_cell(L, mwb_state_of(L), 1))
    return luaL_error(L, "cell expected");
  lua_pushboolean(L, !((cell *)lua_touserdata(L, 1))->empty);
  lua_pushstring(L, mwb_push_cell(L, 1));
  return 3;
}

void mwb_open_cell(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg functions[] = {{"cell", make_cell},
                                       {"cell_value", cell_value},
                                       {"is_cell", is_cell},
                                       {NULL, NULL}};
  mwb_new_meta(L, MWB_CELL, "cell", NULL, NULL);
  mwb_push_weak(L, "v");
  mwb_keep(L, s, MWB_CELLS);
  mwb_set_funcs(L, functions);
}
