/*
** library.h - the functions with which each file adds to the library.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_LIBRARY_H
#define MWB_LIBRARY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Makes MWB_OURS, which the metatables of the other functions enter. */
void mwb_open_ours(lua_State *L, mwb_state *s);

/* Each sets public functions in the library's table on the top. */
void mwb_open_keys(lua_State *L, mwb_state *s);
void mwb_open_shadow(lua_State *L, mwb_state *s);
void mwb_open_identity(lua_State *L, mwb_state *s);
void mwb_open_clock(lua_State *L, mwb_state *s);
void mwb_open_weakmap(lua_State *L, mwb_state *s);
void mwb_open_guard(lua_State *L, mwb_state *s);
void mwb_open_watch(lua_State *L, mwb_state *s);
void mwb_open_batch(lua_State *L, mwb_state *s);
void mwb_open_touch(lua_State *L);
void mwb_open_plain(lua_State *L);
void mwb_open_trace(lua_State *L, mwb_state *s);
void mwb_open_timed(lua_State *L, mwb_state *s);
void mwb_open_lanes(lua_State *L, mwb_state *s);
void mwb_open_origins(lua_State *L);
void mwb_open_memory(lua_State *L);

/* Each sets functions for the library's own Lua files in the table on the
** top. */
void mwb_open_classes(lua_State *L);
void mwb_open_coroutines(lua_State *L, mwb_state *s);
void mwb_open_later(lua_State *L);
void mwb_open_entries(lua_State *L);
void mwb_open_effects(lua_State *L);
void mwb_open_rollback(lua_State *L);
void mwb_open_fold(lua_State *L);
void mwb_open_replay(lua_State *L);
void mwb_open_transaction(lua_State *L);
void mwb_open_tracks(lua_State *L);
void mwb_open_interception(lua_State *L);
void mwb_open_reads(lua_State *L, mwb_state *s);
void mwb_open_userdata(lua_State *L);
void mwb_open_state(lua_State *L, mwb_state *s);
void mwb_open_tree(lua_State *L);
void mwb_open_calls(lua_State *L);
void mwb_open_apply(lua_State *L);
void mwb_open_snapshots(lua_State *L);
void mwb_open_restores(lua_State *L);
void mwb_open_boxes(lua_State *L);
void mwb_open_views(lua_State *L);
void mwb_open_policy(lua_State *L, mwb_state *s);
void mwb_open_cell(lua_State *L, mwb_state *s);
void mwb_open_hierarchy(lua_State *L);
void mwb_open_timers(lua_State *L);
void mwb_open_tracing(lua_State *L);
void mwb_open_trace_file(lua_State *L);
void mwb_open_see_through(lua_State *L);
void mwb_open_memo(lua_State *L);
void mwb_open_readers(lua_State *L);
void mwb_open_writers(lua_State *L);
void mwb_open_feeds(lua_State *L);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
