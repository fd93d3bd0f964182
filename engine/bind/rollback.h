/*
** rollback.h - gives objects the values from before a transaction.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_ROLLBACK_H
#define MWB_ROLLBACK_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Tells the watches of the fields in the array at `list`, which MWB_UNDO has
** made, or nil; puts the first error at `error` if there is nil.  `numbers`, if
** not NULL, has the number of each entry's restoring write as a cause. */
void mwb_tell_undone(lua_State *L, mwb_state *s, int list, int error,
                     const uint32_t *numbers);

/* Before an owner is forgotten, whose writes were taken back: effects that look
** at entries which get its old values get copies.  Raises if there is no
** memory. */
void mwb_freeze_heirs(lua_State *L, mwb_state *s, mw_owner owner);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
