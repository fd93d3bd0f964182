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

/* Pushes the old value of an entry, which a transaction may have inherited from
** the values of `source`; `table` as in entry.h. */
void mwb_push_old(lua_State *L, const mwb_held *held, int table,
                  const mw_entry *entry, uint32_t source);

/* Tells the watches of the fields in the array at `list`, which MWB_UNDO has
** made, or nil; puts the first error at `error` if there is nil. */
void mwb_tell_undone(lua_State *L, mwb_state *s, int list, int error);

/* Before the end of an owner: others may inherit its old values from here on.
** With `parent`, the parent inherits all.  Pushes the heirs, or nil. */
void mwb_open_heirs(lua_State *L, mwb_state *s, mw_owner owner,
                    mw_owner parent);

/* The owner, which belongs to `t`, has ended, or not; the heirs are at `heirs`.
** Lets go the values that nobody has inherited. */
void mwb_close_heirs(lua_State *L, mwb_coroutine *t, int heirs);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
