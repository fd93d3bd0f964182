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
** userdata, which begins with an `mwb_data`.  The hot methods, which are called
** most, have the userdata as third upvalue and stand in the object itself: so a
** call finds the method at once, and the method finds its data at once.  The
** cold methods stand in the metatable and get the data from a hot method.
*/
typedef struct mwb_data {
  mwb_state *state;
  const void *self; /* the table's address */
} mwb_data;

#define MWB_UPDATA lua_upvalueindex(3)

typedef struct mwb_class {
  const char *type;     /* for messages */
  int metatable;        /* the value of the state */
  const luaL_Reg *hot;  /* methods that stand in the object */
  const luaL_Reg *cold; /* methods that stand in the metatable */
  const luaL_Reg *meta; /* metamethods */
} mwb_class;

/* Is the value at `index` one of the library's own objects? */
int mwb_is_ours(lua_State *L, const mwb_state *s, int index);

/* Makes the metatable at `index` that of a class: objects cannot be watched,
** and setting a field raises an error, which says what to `use`, or NULL. */
void mwb_seal(lua_State *L, const mwb_state *s, int index, const char *use);

/* Makes a metatable, with methods under `__index`, and makes the metatable the
** state's value `value`.  Returns the metatable's address. */
const void *mwb_new_meta(lua_State *L, int value, const char *type,
                         const luaL_Reg *meta, const luaL_Reg *methods);

/* Makes the metatable of a class. */
void mwb_new_class(lua_State *L, const mwb_class *class_);

/* Pops the userdata on the top, which begins with an `mwb_data`, and pushes a
** new object with these data. */
void mwb_new_object(lua_State *L, const mwb_class *class_);

/* For cold methods: pushes and returns the data of the object at index 1, or
** raises. */
void *mwb_self(lua_State *L, const mwb_class *class_, const char *name);

/* For hot methods: returns the data, at MWB_UPDATA, or NULL if index 1 is not
** the method's object. */
static inline void *mwb_hot_self(lua_State *L) {
  mwb_data *data = (mwb_data *)lua_touserdata(L, MWB_UPDATA);
  if (lua_topointer(L, 1) != data->self) return NULL;
  if (data->state->pending) mwb_slice(L, data->state);
  return data;
}

/* For hot methods that got NULL: calls the method of the object at index 1, or
** raises if the value is not an object of the class. */
int mwb_redirect(lua_State *L, const mwb_class *class_, const char *name);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
