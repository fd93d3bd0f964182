/*
** shadow.h - tables that tell of their writes.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_SHADOW_H
#define MWB_SHADOW_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The trap, and its upvalues; the class only if there is one. */
int mwb_trap(lua_State *L);
enum { MWB_TRAP_STATE = 1, MWB_TRAP_HANDLE, MWB_TRAP_SHADOW, MWB_TRAP_CLASS };
#define TRAP_STATE lua_upvalueindex(MWB_TRAP_STATE)
#define TRAP_HANDLE lua_upvalueindex(MWB_TRAP_HANDLE)
#define TRAP_SHADOW lua_upvalueindex(MWB_TRAP_SHADOW)

/* Pushes the own metatable of the object at `index`, or returns 0. */
int mwb_push_own(lua_State *L, int index);

/* Pushes the table with its contents, or returns 0. */
int mwb_push_shadow(lua_State *L, int index);

/* Pushes its class: its metatable as the program sees it, or nil. */
void mwb_push_class(lua_State *L, int index);

/* Is the key at `index` one that Lua looks up raw in metatables? */
int mwb_is_meta(lua_State *L, int index);

/* Gives the object of that handle, which has a record, a shadow (a new one if
** it has one), as an instance of a class, a table or nil. */
void mwb_enshadow(lua_State *L, mwb_state *s, mw_handle h, int object,
                  int class_);

/* Sets the class of the table at `object`, by a new shadow if it has one. */
void mwb_set_class(lua_State *L, mwb_state *s, int object, int class_);

/* Gives the object back as it was.  When there is no memory for that it raises,
** and the object keeps its shadow. */
void mwb_unshadow(lua_State *L, mwb_state *s, int index);

/* Makes `#` go to the shadow: something may be put there under an integer. */
void mwb_need_len(lua_State *L, int index, mwi_object *r);

/* Pushes a field of the table at `index`, raw; returns its type. */
int mwb_raw_field(lua_State *L, int index, const char *name);

/* userdata.c: lets the class of the userdata at `index` tell of writes to one
** more of its objects, or one less. */
void mwb_patch(lua_State *L, mwb_state *s, int index);
void mwb_unpatch(lua_State *L, int index);

/* Pushes the class's own `__newindex`, of the userdata at `index`. */
void mwb_push_newindex(lua_State *L, int index);

/* Stores key and value, at 2 and 3, in the object at 1 by the `__newindex` at
** `newindex`. */
void mwb_call_newindex(lua_State *L, int newindex);

/* The places of function guards in the table at `holder`, which is the own
** metatable of their object, or for a userdata a table in MWB_HELD.  A place
** that is free has the number of the next one.  `mwb_add_guard` takes the
** function from the top. */
lua_Integer mwb_add_guard(lua_State *L, int holder, mwi_object *r);
void mwb_drop_guard(lua_State *L, int holder, mwi_object *r, lua_Integer place);

/* Pushes that table, made if need be with `make`; or nil. */
void mwb_push_guards(lua_State *L, mwb_state *s, int index, int make);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
