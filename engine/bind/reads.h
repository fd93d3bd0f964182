/*
** reads.h - reads of tables, noted while a transaction wants reads.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_READS_H
#define MWB_READS_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Notes a read of the table at 1; of the key at 2, or with `whole` of all of
** the table. */
void mwb_note_read(lua_State *L, const mwb_state *s, int whole);

/* Lets reads of a table go by functions if transactions want reads; the own
** metatable and the shadow are at these indices. */
void mwb_heed_reads(lua_State *L, mwb_state *s, int own, int shadow);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
