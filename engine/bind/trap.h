/*
** trap.h - a write on its way: what has been looked up, and the stack.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TRAP_H
#define MWB_TRAP_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* The stack of a write.  OWN is the table with the function guards of the
** object; OWN and what follows are there once a guard has been called. */
enum { OBJECT = 1, KEY, VALUE, SHADOW, OLD, OWN, HANDLER, FAILURE };

typedef struct mwb_write mwb_write;

/* Stores what is at KEY and VALUE. */
typedef void (*mwb_storer)(mwb_write *w);

struct mwb_write {
  lua_State *L;
  mwb_state *s;
  mw_handle obj;
  mwi_object *r;   /* the object's record; records never move */
  uint16_t layout; /* the record's, when the shadow was looked up */
  int shadow;      /* where the contents are: SHADOW, or the trap's upvalue */
  uint64_t seq;    /* who began to watch later does not hear of the write */
  mw_change change;
  mw_handle owner;       /* whose guards are at OWN, */
  uint16_t owner_layout; /* as it was then */
  int plain;             /* is the kind told by old and new value? */
  int has_old;           /* is the old value at OLD?  MWB_GIVEN: for good */
  int ignored; /* does the policy say that the field is not to be noted? */
  int told;    /* has a guard been called, so that anything may have changed? */
  int failed;  /* is there an error at FAILURE? */
};

#define MWB_GIVEN 2

/* The kind of a plain write is told by its old and new value. */
#define MWB_PLAIN (-1)

/* Begins a change of the object at OBJECT, with key and value at KEY and VALUE;
** has_old is 0, or MWB_GIVEN when the old value is at OLD.  The rest of the
** stack goes. */
void mwb_write_open(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                    int kind, int has_old);

/* Counts it. */
static inline void mwb_write_count(mwb_write *w) {
  if (w->r != NULL) mwi_object_count(w->s->engine, w->r);
}

/* Calls those who are to hear of it before the value is stored. */
void mwb_write_before(mwb_write *w);

/* Calls those who are to hear of it after.  Returns whether there is an error
** at FAILURE, which is the top. */
int mwb_write_after(mwb_write *w);

/* The whole way: before, store, after; raises the first error of a guard. */
int mwb_write_run(mwb_write *w, mwb_storer store);

/* Storers: by the rules of the object's class; in the shadow, whatever the
** class says; nothing at all. */
void mwb_store_value(mwb_write *w);
void mwb_store_contents(mwb_write *w);
void mwb_store_nothing(mwb_write *w);

/* userdata.c: by the class's `__newindex`. */
void mwb_store_userdata(mwb_write *w);

/* Puts the table with the contents of the object at SHADOW, or the object
** itself. */
void mwb_find_shadow(mwb_write *w);

/* Reads the value from before the write to OLD, unless it is there; sets the
** kind of a plain write. */
void mwb_read_old(mwb_write *w);

/* tree.c: stores in the shadow of an object that is below a root. */
void mwb_store_linked(mwb_write *w);

/* Stores in the shadow, and notes the write if somebody records. */
void mwb_store_noted(mwb_write *w);

/* A key that is an integral float becomes an integer, as in a table. */
void mwb_normalize_key(lua_State *L);

/* batch.c: what is to be heard at the end of a batch, for the engine; and the
** number of the row of the written field. */
int mwb_settle(void *ud, mw_handle obj, mw_change *change);
uint64_t mwb_note_write(mwb_write *w);

/* Sets whether the value at VALUE is the same as that at OLD. */
void mwb_write_compare(mwb_write *w);

/* Pushes the value that the object has now at the key; nil if it has none, or
** if a userdata does not tell. */
void mwb_push_current(lua_State *L);

/* Prepares the entry of a write to what does not tell of its writes, or to a
** cell; with object, key and value on the stack. */
void mwb_prepare_plain(lua_State *L, mwb_state *s, mw_entry *entry);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
