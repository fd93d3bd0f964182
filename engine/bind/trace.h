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

/* A write to the object `h`, with its key on the stack of write.h, is about to
** be made; and guards have heard of it, of all that have heard of something
** those after the first `calls`.  Without an object: of a batch. */
void mwb_trace_write(lua_State *L, mwb_state *s, mw_handle h, int kind);
void mwb_trace_heard(lua_State *L, mwb_state *s, mw_handle h, uint64_t calls);

/* The text of a JSON object for the table at `index`; good until the next one
** is made.  NULL when there is no memory. */
const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len);

/* The same with {"clock": name, "generation": now}. */
const char *mwb_clock_args(mwb_state *s, mw_clock clock, size_t *len);

/* The same with {"object": serial, "key": the one at `key`}, {"guards": how
** many, "context": the array at `context`}, or both. */
typedef struct mwb_write_args_of {
  mw_handle obj;   /* MW_NONE: no object and key */
  int key;         /* 0: no key */
  uint64_t guards; /* 0: none */
  int context;     /* 0: none */
} mwb_write_args_of;
const char *mwb_write_args(lua_State *L, mwb_state *s,
                           const mwb_write_args_of *args, size_t *len);

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
