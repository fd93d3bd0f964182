/*
** write.h - a report of a write: its stack and what goes with it.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_WRITE_H
#define MWB_WRITE_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The stack of a function that reports, also when something else than a write
** is reported. */
enum { OBJECT = 1, KEY, VALUE, SHADOW, OLD, HANDLER, FAILURE };

typedef struct write_frame {
  lua_State *L;
  mwb_state *state;
  mw_change change;
  mw_handle obj;
  int failed; /* is there an error at FAILURE? */
} write_frame;

/* Makes the stack what the calls of guards expect. */
mwb_state *mwb_begin_report(lua_State *L, write_frame *f);

/* Does the change on the stack leave things as they were?  And of which kind is
** it, if it is a write? */
int mwb_is_same(lua_State *L, int kind);
int mwb_write_kind(lua_State *L);

/* In a batch: the note of the key of a write; and what is to be heard of it at
** the end, for the engine. */
uint64_t mwb_note_write(lua_State *L, int kind);
int mwb_settle(void *ud, mw_handle obj, mw_change *change);

/* Makes a change of the object, key, value, shadow and old value on the stack;
** `h` is the object's. */
void mwb_set_change(lua_State *L, write_frame *f, mw_handle h, int kind);

/* Begins a report of that: tells those who are to hear before.  Returns the
** moment. */
uint64_t mwb_begin_write(lua_State *L, write_frame *f, mw_handle h, int kind);

/* Ends it: tells the others; raises what a guard raised. */
void mwb_end_write(write_frame *f, uint64_t moment);

/* Prepares the entry of a write to what does not tell of it, or to a cell; with
** object, key and value on the stack. */
void mwb_prepare_plain(lua_State *L, mwb_state *s, mw_entry *entry);

/* Pushes the value that the object has now at the key; nil if it has none, or
** if a userdata does not tell. */
void mwb_push_current(lua_State *L);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
