/*
** trace.h - what the files share that trace.
** SPDX-License-Identifier: MIT
**
** What happens is traced while it happens, in the middle of a write perhaps;
** so nothing here raises unless it says so.
*/
#ifndef MWB_TRACE_H
#define MWB_TRACE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Does a trace run? */
static inline int mwb_is_running(const mwb_state *s) {
  return s->engine->trace.running != NULL;
}

/* The number of the coroutine that runs; 1 for the main one.  0 without
** memory. */
mw_thread mwb_thread(lua_State *L, mwb_state *s);

/* Is there a userdata at 1 with one of the state's metatables?  And raises if
** not. */
int mwb_has_meta(lua_State *L, int uservalue);
void mwb_check_self(lua_State *L, const char *name, int uservalue,
                    const char *type);

/* Something begins in the running coroutine, in a category; and ends.  To be
** called while its source is traced.  Returns an identity, 0 if that was
** lost. */
uint64_t mwb_trace_begin(lua_State *L, mwb_state *s, const char *category,
                         const char *name, size_t len);
void mwb_trace_end(mwb_state *s, uint64_t id);

/* A clock was advanced. */
void mwb_trace_advance(lua_State *L, mwb_state *s, mw_clock clock);

/* A write to the object `h`, with the key at `key` of the stack, is about to be
** made. */
void mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int key,
                     int kind);

/* `guards` guards have heard of a write; MW_NONE: of a batch, which has no key.
** May call the hooks of mw.context. */
void mwb_trace_heard(lua_State *L, mwb_state *s, mw_handle h, int key,
                     uint64_t guards);

/* The text of a JSON object for the table at `index`; good until the next text
** is made.  NULL when there is no memory. */
const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Like `mwb_args`, for a JSON array of what the table has at 1, 2, ... */
const char *mwb_array_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Nanoseconds since some moment. */
int64_t mwb_now(void *ud);

/* Functions of the library, and of its Lua files. */
void mwb_open_trace(lua_State *L);
void mwb_open_timed(lua_State *L, mwb_state *s);
void mwb_open_timers(lua_State *L);
void mwb_open_tracing(lua_State *L);
void mwb_open_trace_file(lua_State *L);

/* The trace at index 1, or raises. */
mw_trace *mwb_check_trace(lua_State *L, const char *name);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
