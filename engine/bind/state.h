/*
** state.h - what a class is, which is no part of any object's state.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_STATE_H
#define MWB_STATE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The classes that a walk has found, beside those that the library knows. */
typedef struct mwb_classes {
  int found;   /* index of a table: class -> true */
  int entered; /* index of a table: what the walk has entered -> not nil */
  int any;     /* has one been found, */
  int late;    /* and one that had been entered before? */
} mwb_classes;

/* Is the table at `index` a class?  `walk` may be NULL. */
int mwb_is_class(lua_State *L, const mwb_state *s, int index,
                 const mwb_classes *walk);

/* The table on the top is a class: for the walk, or with NULL for the library,
** which lets go of the table. */
void mwb_add_class(lua_State *L, mwb_state *s, mwb_classes *walk);

/* Finds the classes of the object at `object`, likewise.  Returns whether it
** has one. */
int mwb_note_classes(lua_State *L, mwb_state *s, int object, mwb_classes *walk);

/* Is the value on the top, which the object at `parent` has under the key below
** the top, a table that is no class?  If it stands for the object's class, this
** is noted. */
int mwb_is_contents(lua_State *L, mwb_state *s, int parent, mwb_classes *walk);

/* Adds all classes below the table at `root` to the table at `found`. */
void mwb_find_classes(lua_State *L, mwb_state *s, int root, int found);

/* Does the table at `index` lose entries without a write?  Do the objects of
** the class at `index`, a table or nil? */
int mwb_is_weak(lua_State *L, int index);
int mwb_is_weak_class(lua_State *L, int index);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
