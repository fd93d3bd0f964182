/*
** writers.h - who wrote a field last, when the entry is forgotten.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_WRITERS_H
#define MWB_WRITERS_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Somebody asks for last writers from now on, or asks no longer. */
void mwb_add_keeper(lua_State *L, mwb_state *s);
void mwb_remove_keeper(lua_State *L, mwb_state *s);

/* Returns how many bytes the state has allocated for them. */
size_t mwb_writers_bytes(const mwb_state *s);

/* Frees what the state has. */
void mwb_free_writers(mwb_state *s);

/* The page with the entry before `seq` goes: keeps its writers.  Raises
** nothing. */
void mwb_keep_page(lua_State *L, mwb_state *s, uint64_t seq);

/* reader.c: sets the fields of the entry at `at` that the context on the top
** has, and pops the context. */
void mwb_set_context(lua_State *L, int at);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
