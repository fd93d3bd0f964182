/*
** kept.h - what a box keeps from call to call.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_KEPT_H
#define MWB_KEPT_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A block that a call has got: an object, or a part of one. */
typedef struct mwb_made {
  const void *block; /* NULL: none */
  int type;          /* of the object; LUA_TNIL, LUA_TUSERDATA: a part */
  unsigned walk;     /* the last walk that has met the block, or 0 */
  lua_Integer bytes; /* which that walk has counted; of a part: its size */
} mwb_made;

typedef struct mwb_kept {
  mw_engine *engine;
  mwb_meter *meter;
  struct mwb_kept *next, **link; /* in the list of the meter */
  mwb_made *made;                /* a hash table: see kept.c */
  size_t n, size;
  size_t table;      /* the size of a table's block; 0: no call has made one */
  unsigned walk;     /* the number of the last walk */
  lua_Integer steps; /* of that walk */
  lua_Integer bytes; /* that the box keeps, by that walk */
  lua_Integer grown; /* bytes that calls have asked for since then */
  lua_Integer spent; /* and instructions */
} mwb_kept;

/* Returns a record of what a new box keeps, until it is freed or the state is
** closed. */
mwb_kept *mwb_new_kept(lua_State *L, const mwb_state *s);
void mwb_free_kept(lua_State *L, mwb_kept *kept);
void mwb_free_all_kept(lua_State *L, const mwb_meter *meter);

/* For the allocator: the running call has got a block of a type, as Lua tells
** the allocator, and of a size; a block goes.  The second returns the bytes
** that the last walk has counted for the block. */
void mwb_note_made(mwb_kept *kept, const void *block, size_t type, size_t size);
lua_Integer mwb_note_freed(mwb_kept *kept, const void *block);

/* Counts what the box at `index` keeps, if the last count may be wrong by much.
** The `n` values on the top are for the next call. */
void mwb_count_kept(lua_State *L, mwb_kept *kept, lua_Integer most, int index,
                    int n);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
