/*
** watch.h - watches, guards, batches, and what is below an object.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_WATCH_H
#define MWB_WATCH_H

#include "../base/base.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_HANDLE = MWB_WATCH_VALUES, /* metatables: of a watch, */
  MWB_GUARD,                     /* a guard, */
  MWB_CELL,                      /* a cell, */
  MWB_BATCH,                     /* and a batch */
  MWB_CELLS,    /* an upvalue's identity -> its cell, weakly held */
  MWB_RULES,    /* root -> the functions of its filtered reaches */
  MWB_ANY,      /* mw.any */
  MWB_EXISTING, /* f(object, guard, when, keys, path, reach of a deep one):
                ** tells a new watch of the fields that are there */
  MWB_ENDS,     /* f(path, when) -> a term that compares values at its end */
  MWB_WATCH_END
};

struct mwb_watch_state {
  int kinds[MW_KINDS];     /* kinds' names, in the registry */
  uint32_t batches;        /* the number of open batches */
  struct mwb_batch *spare; /* a batch that may be used again, or NULL */
  lua_Integer scans;       /* the number of scans that may ask the policy */
  int handled;             /* does mw.on_error have a function? */
  int deep_calls;          /* guards called at ENDLESS levels and more */
  int storing;             /* tables being stored: orphans may come back */
};

/* batch.c: ends the batches that are lost; frees what the state has. */
void mwb_end_lost_batches(lua_State *L, mwb_state *s);
void mwb_close_batches(lua_State *L, mwb_state *s);

/* }====================================================== */

/* {======================================================
** watch.c: watched objects and their classes.
** ======================================================= */

/* Tells the policy, whose mutators are wrapped for watched objects, that the
** object at `index` is watched (MWB_WATCHED), or no longer (MWB_UNWATCHED). */
void mwb_tell_class(lua_State *L, mwb_state *s, int index, int question);

/* Gives an object back if nobody intercepts its writes any more.  Without
** memory it keeps its shadow, which does no harm. */
void mwb_give_back(lua_State *L, mwb_state *s, mw_handle h);

/* For a feed: includes what is below the table at 1 by the function at
** `descend`, or for nil the one with which the root is tracked, in a reach that
** nobody shares.  Sets the reach also if it raises after that.  The second
** function ends the reach of a root that lives. */
void mwb_begin_reach(lua_State *L, mwb_state *s, int descend, mw_reach *reach);
void mwb_end_reach(lua_State *L, mwb_state *s, mw_handle root, mw_reach reach);

/* }====================================================== */

/* {======================================================
** guard.c: guards, and kinds of changes.
** ======================================================= */

/* Is there an `mw.guard` at `index`? */
int mwb_is_guard(lua_State *L, const mwb_state *s, int index);

/* Callback of the engine: calls a guard.  Of a watch with MW_ASK the table of
** guards has, at its place, a table with the guard (a function, or the handle
** of any other guard), and the function `when`, or a table with a function: see
** ends.lua. */
int mwb_call_guard(void *ud, mw_handle obj, uint64_t ref, int flags,
                   const mw_change *change);

/* Drops the guard at a place of the object at `object`. */
void mwb_end_guard(lua_State *L, mwb_state *s, int object, mwi_object *r,
                   lua_Integer place);

/* The name of a kind; the kind of the name at `index`, or raises. */
void mwb_push_kind(lua_State *L, const mwb_state *s, int kind);
int mwb_kind(lua_State *L, int index);

/* }====================================================== */

/* {======================================================
** cell.c: upvalues as objects.
** ======================================================= */

/* Is there a cell at `index`? */
int mwb_is_cell(lua_State *L, const mwb_state *s, int index);

/* Pushes the value of the cell at `index`; returns the upvalue's name or "". */
const char *mwb_push_cell(lua_State *L, int index);

/* Sets the cell at `index`, not relative to the top, to the value on the top,
** and pops the value. */
void mwb_set_cell(lua_State *L, int index);

/* }====================================================== */

/* {======================================================
** tree.c: the objects below a deeply watched one have shadows, too.
** ======================================================= */

/* Includes all objects below a root.  May raise half-way. */
void mwb_include(lua_State *L, mwb_state *s, mw_handle root);

/* A callback of the engine: finds a key under which the parent holds the
** child. */
int mwb_find_key(void *ud, mw_handle parent, mw_handle child, mw_value *key);

/* All questions to the policy from here on have one budget, up to the next
** call.  What the policy's own code does belongs to the scan that asked it. */
void mwb_begin_scan(mwb_state *s);

/* Does the table on the top, which the object at `parent` has under the key
** below the top, belong to a reach (0: one without a rule)?  May a rule refuse
** any? */
int mwb_has_rules(const mwb_state *s, mw_reach reach);
int mwb_enters(lua_State *L, mwb_state *s, mw_reach reach, int parent);

/* Gives the root at `object` a rule, the function at `function`.  Returns the
** rule's number. */
uint32_t mwb_add_rule(lua_State *L, mwb_state *s, int object, int function);

/* Gives back at most `n` objects that are no longer in a tree. */
void mwb_let_go(lua_State *L, mwb_state *s, size_t n);

/* Gives back the objects that were released after the end of an age, which no
** rollback puts back. */
void mwb_let_go_since(lua_State *L, mwb_state *s, uint32_t age);

/* May there be orphans that can be given back now? */
static inline int mwb_has_orphans(const mwb_state *s) {
  return mw_tree_has_orphans(s->engine) && s->engine->journal.entries == 0;
}

/* }====================================================== */

#endif
