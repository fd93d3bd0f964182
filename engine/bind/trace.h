/*
** trace.h - traces, and the events of a trace besides scopes.
** SPDX-License-Identifier: MIT
**
** Events are traced while they happen, perhaps in the middle of a write, so no
** function in this file raises unless its description says so.
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
  MWB_HIERARCHIES = 8,
  MWB_WHERE = 16 /* and the option `where` */
};

/* Is each write traced? */
static inline int mwb_tracing(const mwb_state *s) {
  return (s->sources & MWB_WATCHES) != 0;
}

/* Does a trace run? */
static inline int mwb_is_running(const mwb_state *s) {
  return s->engine->trace.running != NULL;
}

/* Raises unless there is a userdata at 1 with one of the state's metatables. */
void mwb_check_self(lua_State *L, const mwb_state *s, const char *name,
                    int meta, const char *type);

/* Traces the begin of a scope in the running coroutine.  Returns the identity
** of the event, 0 if the event was lost. */
uint64_t mwb_trace_begin(lua_State *L, mwb_state *s, const char *category,
                         const char *name, size_t len);

/* Traces the advance of a clock. */
void mwb_trace_advance(lua_State *L, mwb_state *s, mw_clock clock);

/* Traces a write to the object `h`, before the write, which is on the stack as
** in trap.h, with the old value.  Returns the identity of the event, 0 if the
** event was lost.  May run finalisers. */
uint64_t mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int kind);

/* Traces that the write of an event has called `guards` guards, or that a batch
** has.  May call the hooks of mw.context. */
void mwb_trace_heard(lua_State *L, mwb_state *s, uint64_t id, uint64_t guards);
void mwb_trace_batch(lua_State *L, mwb_state *s, uint64_t guards);

/* Returns the text of a JSON object for the table at `index`, valid until the
** next text is made; NULL if there is no memory. */
const char *mwb_json(lua_State *L, mwb_state *s, int index, size_t *len);

/* The same for a trace; if there is no memory, the object says so. */
const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Like `mwb_args`, for a JSON array of the table's values at 1, 2, ... */
const char *mwb_array_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* Returns the trace at index 1, or raises. */
mw_trace *mwb_check_trace(lua_State *L, const mwb_state *s, const char *name);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
