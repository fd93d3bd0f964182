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

/* The key at `index`; one that the engine does not keep is equal to none that
** it keeps. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index);

/* The same for a key that the engine is to keep; raises when there is no
** memory. */
mw_value mwb_key_to_keep(lua_State *L, mwb_state *s, int index);

/* Pushes the key of a value that the engine keeps. */
void mwb_push_key(lua_State *L, mwb_state *s, const mw_value *key);

/* Counts what the engine keeps; for the engine. */
void mwb_retain(void *ud, const mw_value *key);
void mwb_release(void *ud, const mw_value *key);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
