/*
** traps.h - tables whose writes and reads are intercepted.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TRAPS_H
#define MWB_TRAPS_H

#include "../base/base.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_NOCLASS = MWB_TRAPS_VALUES, /* what objects without a class show */
  MWB_HERITAGES, /* `__index` of classes -> the heritage with it */
  MWB_FUNCTIONS, /* userdata -> its function guards, */
  MWB_TRAPS,     /* class of userdata -> the number of watched ones */
  MWB_NOTE,      /* the function that notes reads */
  MWB_RESTING,   /* tables whose reads are not noted, weakly held */
  MWB_TRAPS_END
};

struct mwb_traps_state {
  struct mwb_running *running_class; /* the innermost: see trap.c */
  int depth;                         /* guards under way, one in another */
  int endless;         /* have the writes under way been stopped? */
  mw_handle quiet;     /* whose state the policy reads or sets, or MW_NONE */
  int heeds;           /* do tables have functions for reads? see reads.c */
  int reading;         /* are reads noted now? */
  lua_Integer resting; /* the number of tables in MWB_RESTING */
};

/* }====================================================== */

/* {======================================================
** shadow.c: tables whose writes are intercepted.
** ======================================================= */

/* The trap and the trap's upvalues; MWB_TRAP_CLASS only if the object has a
** class. */
int mwb_trap(lua_State *L);
enum { MWB_TRAP_STATE = 1, MWB_TRAP_HANDLE, MWB_TRAP_SHADOW, MWB_TRAP_CLASS };
#define TRAP_STATE lua_upvalueindex(MWB_TRAP_STATE)
#define TRAP_HANDLE lua_upvalueindex(MWB_TRAP_HANDLE)
#define TRAP_SHADOW lua_upvalueindex(MWB_TRAP_SHADOW)

/* Pushes the own metatable of the object at `index`, or returns 0. */
int mwb_push_own(lua_State *L, int index);

/* Pushes the next intercepted table with a slot above `*slot`, which is set,
** and the own metatable; returns 0 if there is none. */
int mwb_push_next(lua_State *L, const mwb_state *s, uint32_t *slot);

/* Pushes the shadow of the object at `index`, or returns 0. */
int mwb_push_shadow(lua_State *L, int index);

/* Pushes the table that has the contents of the table at `index`: the shadow,
** or the table itself. */
void mwb_push_contents(lua_State *L, int index);

/* Pushes a table with the contents of the table at `index`, and what was put
** raw into the object; only to be read. */
void mwb_push_all(lua_State *L, int index);

/* Adds what is raw in the intercepted table at `index` to its contents, or
** former ones, on the top: replaces these if there is anything. */
void mwb_add_raw(lua_State *L, int index);

/* Pushes the class of the object at `index`, which is the metatable that the
** program sees, or nil. */
void mwb_push_class(lua_State *L, int index);

/* Is the table at `index` the one that objects without a class show as their
** metatable? */
int mwb_is_no_class(lua_State *L, int index);

/* Is the key at `index` one that Lua looks up raw in metatables? */
int mwb_is_meta(lua_State *L, int index);

/* Is the `__newindex` of the object's class running for the object? */
int mwb_in_class(const mwb_state *s, mw_handle obj);

/* Gives the objects of the class at `class_` what the class has now.  Returns
** how many. */
lua_Integer mwb_refresh(lua_State *L, mwb_state *s, int class_);

/* Gives the object of handle `h`, which has a record, a shadow, or a new shadow
** in place of the old one, and pushes it; `class_` is the index of the class, a
** table or nil. */
void mwb_enshadow(lua_State *L, mwb_state *s, mw_handle h, int object,
                  int class_);

/* Sets the class of the table at `object`.  A table with a shadow gets a new
** one. */
void mwb_set_class(lua_State *L, mwb_state *s, int object, int class_);

/* Gives the contents back to the object, and its class.  Returns a status; with
** an error, which is on the top, the object keeps its shadow. */
int mwb_unshadow(lua_State *L, mwb_state *s, int index);

/* Gives the own metatable at `own` a `__len` for the shadow at `shadow`, if
** there is no `__len`. */
void mwb_set_len(lua_State *L, int own, int shadow);

/* Makes `#` return the shadow's length; called before the first store under an
** integer. */
void mwb_need_len(lua_State *L, int index, mwi_object *r);

/* Pushes a field of the table at `index`, raw; returns its type. */
int mwb_raw_field(lua_State *L, int index, const char *name);

/* userdata.c: makes the class of the userdata at `index` intercept writes to
** one more of its objects, or to one less. */
void mwb_wrap_class(lua_State *L, mwb_state *s, int index);
void mwb_unwrap_class(lua_State *L, mwb_state *s, int index);

/* Stores the value at 3 under the key at 2 in the object at 1, by the
** `__newindex` at index `newindex`.  The second one returns a status; an error
** is on the top. */
void mwb_call_newindex(lua_State *L, int newindex);
int mwb_pcall_newindex(lua_State *L, int newindex);

/* The function guards of an object are in the table at `holder`, each at its
** place: in the own metatable, or for userdata in a table of MWB_FUNCTIONS.  A
** free place has the number of the next free place.  `mwb_add_guard` pops the
** function from the top. */
lua_Integer mwb_add_guard(lua_State *L, int holder, mwi_object *r);
void mwb_drop_guard(lua_State *L, int holder, mwi_object *r, lua_Integer place);

/* Pushes the table with the guards of the object at `index`.  For userdata
** without guards, makes one if `make`, else pushes nil. */
void mwb_push_guards(lua_State *L, mwb_state *s, int index, int make);

/* }====================================================== */

/* {======================================================
** reads.c: reads of tables, noted while a transaction wants reads.
** ======================================================= */

/* Notes a read of the table at 1; of the key at 2, or with `whole` of all of
** the table. */
void mwb_note_read(lua_State *L, const mwb_state *s, int whole);

/* Lets reads of a table go by functions if transactions want reads; the own
** metatable and the shadow are at these indices. */
void mwb_heed_reads(lua_State *L, mwb_state *s, int own, int shadow);

/* }====================================================== */

#endif
