/*
** key.h - keys as the engine sees them.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_KEY_H
#define MWB_KEY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Returns the key at `index`.  A key that the engine does not keep equals no
** kept key. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index);

/* Like `mwb_key`, for a key that the engine will keep.  Raises if there is no
** memory. */
mw_value mwb_key_to_keep(lua_State *L, mwb_state *s, int index);

/* Pushes the Lua value of a key that the engine keeps. */
void mwb_push_key(lua_State *L, mwb_state *s, const mw_value *key);

/* Callbacks of the engine, which keeps a key, or keeps a key no longer. */
void mwb_retain(void *ud, const mw_value *key);
void mwb_release(void *ud, const mw_value *key);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
