/*
** trap.h - a write on its path: the results of lookups, and the stack.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TRAP_H
#define MWB_TRAP_H

#include "../base/bind.h"

/* The stack of a write.  OWN is the table with the function guards of the
** object.  OWN and the places above are filled once a guard has been called. */
enum { OBJECT = 1, KEY, VALUE, SHADOW, OLD, OWN, HANDLER, FAILURE };

typedef struct mwb_write mwb_write;

/* Stores the value at VALUE under the key at KEY. */
typedef void (*mwb_storer)(mwb_write *w);

struct mwb_write {
  lua_State *L;
  mwb_state *s;
  mw_handle obj;
  mwi_object *r;   /* the object's; records never move */
  uint16_t layout; /* r->layout when the shadow was looked up */
  int shadow;      /* index of the contents: SHADOW, or the trap's upvalue */
  int simple;      /* does one `rawset` in the shadow store the field? */
  uint64_t seq;    /* later watches do not hear of this write */
  mw_change change;
  mw_handle owner;       /* the object whose guards are at OWN, */
  uint16_t owner_layout; /* with the layout of that time */
  int plain;             /* do old and new value decide the kind? */
  int has_old;           /* is the old value at OLD? MWB_GIVEN: by the caller */
  int shows;             /* has a read put the field into the contents? */
  int batched;           /* do guards hear at the end of a batch? */
  int is_stored;         /* do only the links of a tree change? see later.c */
  int ignored;           /* does the policy ignore writes to this key? */
  int called;            /* has a guard been called, which may do anything? */
  int awaited;           /* may a guard wait for the write, after checks? */
  int failed;            /* is there an error at FAILURE? */
  uint64_t traced;       /* the write's event in the trace, or 0 */
};

#define MWB_GIVEN 2
#define MWB_FOUND 4 /* the contents are at SHADOW already */

/* While a class's `__newindex` runs, the stack of the write has more places.
** RUNNING belongs to the caller of `mwb_call_class`. */
enum { RUNNING = FAILURE + 1, RESULT };

/* The kind of a plain write follows from the old and the new value. */
#define MWB_PLAIN (-1)

/* Begins a change of the object at OBJECT, with key and value at KEY and VALUE;
** `given` is MWB_GIVEN when the old value is at OLD, MWB_FOUND, or 0.  Pops the
** rest of the stack. */
void mwb_write_open(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                    int kind, int given);

/* The number of the write as a cause, for its entry; 0 if nobody needs it.
** Guards that have written need the number; those that are called after the
** store may need it, and memos. */
static inline uint64_t mwb_write_number(mwb_write *w) {
  const mwi_watches *watch = &w->s->engine->watch;
  if (watch->after > 0 || watch->results > 0)
    mw_change_number(w->s->engine, &w->change);
  return w->change.number;
}

/* Counts the write. */
static inline void mwb_write_count(mwb_write *w) {
  if (w->r != NULL) mwi_object_count(w->s->engine, w->r);
}

/* Asks the guards of phase "check".  Returns 0 if one refuses; the error is on
** the top then. */
int mwb_write_check(mwb_write *w);

/* Sets flags and calls guards of the phase "before". */
void mwb_write_before(mwb_write *w);

/* Calls guards of the phase "after".  Returns whether there is an error at
** FAILURE, which is the top then. */
int mwb_write_after(mwb_write *w);

/* The path from the count on.  Raises the first error of a guard. */
int mwb_write_run(mwb_write *w, mwb_storer store);

/* Calls the `__newindex` of the object's class, which is at RESULT, the top,
** and may not yield.  Returns a status; an error is at RESULT. */
int mwb_call_class(mwb_write *w);

/* Ends that, after what the class has stored is appended: raises its error. */
void mwb_end_class(mwb_write *w, int status);

/* Storers: by the rules of the object's class; in the shadow, without asking
** the class; no store at all. */
void mwb_store_value(mwb_write *w);
void mwb_store_contents(mwb_write *w);
void mwb_store_nothing(mwb_write *w);

/* userdata.c: appends the entry of a write that is stored already, with the
** values at VALUE and OLD, if the journal is open. */
void mwb_append_stored(mwb_write *w);

/* userdata.c: stores by the `__newindex` of the userdata's class. */
void mwb_store_userdata(mwb_write *w);

/* userdata.c: gives the userdata the state at VALUE by the policy's `restore`,
** and appends the entry; the method's name is at KEY, the present state at OLD.
** A failed `restore` may have changed the state, so there is an entry, too. */
void mwb_store_state(mwb_write *w);

/* userdata.c: pushes what the policy's `snapshot` gives for the userdata at
** OBJECT. */
void mwb_push_state_of(lua_State *L, mwb_state *s);

/* Puts the table with the object's contents at SHADOW: the shadow, or without
** one the object itself. */
void mwb_find_shadow(mwb_write *w);

/* Code of the program may have ended the watch, or changed the class: the same,
** if so. */
void mwb_look_again(mwb_write *w);

/* Puts the value from before the write at OLD, unless OLD is filled; sets the
** kind of a plain write. */
void mwb_read_old(mwb_write *w);

/* tree.c: stores in the shadow of an object in a tree, and relinks. */
void mwb_store_linked(mwb_write *w);

/* Stores in the shadow, and appends an entry if the journal is open. */
void mwb_store_field(mwb_write *w);

/* batch.c: notes a write in the batch that owns the write.  Returns 0 if there
** is no such batch. */
int mwb_note_write(mwb_write *w);

/* batch.c: would a batch own a write now? */
int mwb_in_batch(lua_State *L, mwb_state *s);

/* touch.c: takes the field with the key at KEY out of the object at OBJECT, in
** which it was put raw, and puts it at VALUE.  Metamethods stay.  There is room
** for the field in the shadow then.  Returns 0 if there is no shadow. */
int mwb_take_raw(lua_State *L);

/* Sets `change.same`: are the values at OLD and VALUE equal? */
void mwb_write_compare(mwb_write *w);

/* The value at VALUE is another now: sets kind and `change.same` again. */
void mwb_set_kind_of(mwb_write *w);

/* Pushes the present value of the key, but for writes of finalisers that wait;
** nil if the key is absent, or if the read of a userdata fails. */
void mwb_push_current(lua_State *L, mwb_state *s);

/* Pushes what the object shows under the key, or the error of the read.
** Returns a status. */
int mwb_read_shown(lua_State *L);

#endif
