/*
** trace.h - traces, and what is traced besides scopes.
** SPDX-License-Identifier: MIT
**
** Events are traced while they happen, in the middle of a write perhaps; so no
** function here raises unless its description says so.
*/
#ifndef MWB_TRACE_H
#define MWB_TRACE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Bits of `sources`, in the order of their names. */
enum {
  MWB_WATCHES = 1,
  MWB_EPOCHS = 2,
  MWB_TRANSACTIONS = 4,
  MWB_HIERARCHIES = 8
};

/* Is each write to be traced? */
static inline int mwb_tracing(const mwb_state *s) {
  return (s->sources & MWB_WATCHES) != 0;
}

/* Does a trace run? */
static inline int mwb_is_running(const mwb_state *s) {
  return s->engine->trace.running != NULL;
}

/* The number of the coroutine that runs; 1 for the main one.  0 without
** memory. */
mw_thread mwb_thread(lua_State *L, mwb_state *s);

/* Raises unless there is a userdata at 1 with one of the state's metatables. */
void mwb_check_self(lua_State *L, const mwb_state *s, const char *name,
                    int meta, const char *type);

/* A scope of a category begins in the running coroutine.  Returns the identity
** of the event, 0 if the event was lost. */
uint64_t mwb_trace_begin(lua_State *L, mwb_state *s, const char *category,
                         const char *name, size_t len);

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

/* The trace at index 1, or raises. */
mw_trace *mwb_check_trace(lua_State *L, const mwb_state *s, const char *name);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
