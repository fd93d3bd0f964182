/*
** cell.h - upvalues as objects.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_CELL_H
#define MWB_CELL_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Is there a cell at `index`? */
int mwb_is_cell(lua_State *L, const mwb_state *s, int index);

/* Pushes the value of the cell at `index`. */
void mwb_push_cell(lua_State *L, int index);

/* Sets the cell at `index` to the value on the top, and pops the value. */
void mwb_set_cell(lua_State *L, int index);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
