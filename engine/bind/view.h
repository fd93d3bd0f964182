/*
** view.h - read-only views of the library's tables, for code in boxes.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_VIEW_H
#define MWB_VIEW_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Pushes what the view at `index` shows, or returns 0. */
int mwb_push_target(lua_State *L, const mwb_state *s, int index);

/* Replaces a table on the top by its view. */
void mwb_show(lua_State *L, const mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
