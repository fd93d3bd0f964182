/*
** held.h - the blocks of memory that boxes hold.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_HELD_H
#define MWB_HELD_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* What a box has made that is there. */
typedef struct mwb_account {
  lua_Integer bytes; /* garbage included */
  size_t blocks;
} mwb_account;

typedef struct mwb_block {
  void *ptr;      /* NULL: none */
  size_t account; /* the number of the account of the box that made it */
} mwb_block;

/* Returns the number of an account for the box at `index`. */
size_t mwb_new_account(lua_State *L, const mwb_state *s, int index);

/* Returns the block at an address, or NULL. */
mwb_block *mwb_find_block(const mwb_meter *m, const void *ptr);

/* Adds a block.  Returns 0 if there is no memory: then the block is not
** counted.  A block that has just been removed needs no memory. */
int mwb_add_block(mwb_meter *m, void *ptr, size_t account);

/* Removes a block. */
void mwb_remove_block(mwb_meter *m, mwb_block *block);

/* Forgets all blocks, and frees the memory for them. */
void mwb_forget_blocks(mwb_meter *m);

/* Frees all memory. */
void mwb_free_meter(mwb_meter *m, mw_engine *engine);

void mwb_open_accounts(lua_State *L, const mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
