/*
** class.h - the library's own objects.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_CLASS_H
#define MWB_CLASS_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/*
** The library's objects (clocks, weak maps) are tables.  Their data are in a
** userdata, which begins with an `mwb_data` and is the third upvalue of the
** methods that are called most: these stand in the object itself, so that the
** call finds them at once, and know their data without a search.  The other
** methods stand in the metatable and get the data from one of the first kind.
*/
typedef struct mwb_data {
  mwb_state *state;
  const void *self; /* the table's address */
} mwb_data;

#define MWB_UPDATA lua_upvalueindex(3)

typedef struct mwb_class {
  const char *type;     /* for messages */
  int metatable;        /* where the state has it */
  const luaL_Reg *hot;  /* methods that stand in the object */
  const luaL_Reg *cold; /* the other methods */
  const luaL_Reg *meta; /* metamethods */
} mwb_class;

/* Makes a metatable, with methods under `__index`, and keeps it as one of the
** state's user values.  Returns its address. */
const void *mwb_new_meta(lua_State *L, int uservalue, const char *type,
                         const luaL_Reg *meta, const luaL_Reg *methods);

/* Makes the metatable of a class. */
void mwb_new_class(lua_State *L, const mwb_class *class_);

/* Takes the userdata on the top, which begins with an `mwb_data`, and pushes a
** new object with these data. */
void mwb_new_object(lua_State *L, const mwb_class *class_);

/* For the other methods: pushes the data of the object at index 1 and returns
** them, or raises. */
void *mwb_self(lua_State *L, const mwb_class *class_, const char *name);

/* For the methods that stand in the object: the data, at MWB_UPDATA.  NULL when
** index 1 is not their object. */
static inline void *mwb_hot_self(lua_State *L) {
  mwb_data *data = (mwb_data *)lua_touserdata(L, MWB_UPDATA);
  if (lua_topointer(L, 1) != data->self) return NULL;
  if (data->state->pending) mwb_slice(L, data->state);
  return data;
}

/* What is to be done then: calls the method of the object at index 1, or
** raises when it is not one of the class. */
int mwb_redirect(lua_State *L, const mwb_class *class_, const char *name);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
