/*
** coroutine.h - the coroutines that have begun transactions and batches.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_THREAD_H
#define MWB_THREAD_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

struct mwb_coroutine {
  mwb_held held; /* what the entries of the coroutine's transactions hold */
  mwb_state *s;
  lua_State *L;       /* NULL: the coroutine is gone */
  lua_Integer number; /* in MWB_HELDS */
  int place;          /* in the registry, */
  int kept;           /* and is the table of held values there? */
  int has_values;     /* is there such a table? */
  int shared;         /* may others need values of ended transactions? */
  mw_owner newest;    /* the open transaction that began last, or 0 */
  int hides;          /* are there entries that effects leave out? */
  uint32_t viewed;    /* effects look at the entries below this number */
  mwb_batch *batch;   /* the open batch that began last, or NULL, */
  uint64_t batched;   /* and the order of its begin */
  mwb_origin *origin; /* the open origin that began last, or NULL */
  mwb_coroutine *next, *prev; /* with open transactions or batches */
};

/* What the binding knows of a transaction; the number of the owner is the index
** in `s->transactions`. */
typedef struct mwb_transaction {
  mwb_coroutine *of;
  uint64_t order;     /* of the begin; 0: not open */
  uint32_t held;      /* values held at the begin */
  const void *run_of; /* the object whose run this is, or NULL */
  uint8_t begun;      /* does the program have a handle? */
  uint8_t where;      /* do entries have the place in the program? */
  uint8_t ending;     /* is the transaction being committed? */
  uint8_t lost;       /* its handle is lost, and its coroutine, too */
  uint8_t extras;     /* is there a table of extras? */
} mwb_transaction;

/* Returns the record of the running coroutine; makes a record if the coroutine
** has none. */
mwb_coroutine *mwb_need_coroutine(lua_State *L, mwb_state *s);

/* The record of the running coroutine, or NULL. */
mwb_coroutine *mwb_find_coroutine(lua_State *L, mwb_state *s);

/* Of the coroutines that wait for the running one, the one whose open
** transaction, batch or origin began last; or NULL. */
enum { MWB_BY_TRANSACTION, MWB_BY_BATCH, MWB_BY_ORIGIN };
const mwb_coroutine *mwb_waiting_coroutine(lua_State *L, const mwb_state *s,
                                           int by);

/* Returns the transaction that owns a write which the running coroutine makes
** now, or 0. */
static inline mw_owner mwb_owner_of(lua_State *L, mwb_state *s) {
  const mwb_coroutine *t =
      (s->running == L) ? s->coroutine : mwb_find_coroutine(L, s);
  if (t != NULL && t->newest != 0) return t->newest;
  t = (L == s->main) ? NULL : mwb_waiting_coroutine(L, s, MWB_BY_TRANSACTION);
  return (t == NULL) ? 0 : t->newest;
}

/* Returns the batch that owns such a write, or NULL. */
static inline mwb_batch *mwb_batch_of(lua_State *L, mwb_state *s) {
  const mwb_coroutine *t =
      (s->running == L) ? s->coroutine : mwb_find_coroutine(L, s);
  if (t != NULL && t->batch != NULL) return t->batch;
  t = (L == s->main) ? NULL : mwb_waiting_coroutine(L, s, MWB_BY_BATCH);
  return (t == NULL) ? NULL : t->batch;
}

static inline mwb_coroutine *mwb_coroutine_of(const mwb_state *s,
                                              mw_owner owner) {
  return s->transactions[owner].of;
}

/* Does anybody want the place of a write of the owner? */
static inline int mwb_wants_where(const mwb_state *s, mw_owner owner) {
  return s->wheres > 0 || (owner != 0 && s->transactions[owner].where);
}

/* Pushes the coroutine of those that wait for the running one which is nearest
** and for which `f` returns not 0, and returns it; or returns NULL. */
lua_State *mwb_push_nearest(lua_State *L, mwb_state *s,
                            int (*f)(lua_State *of, mwb_state *s));

/* Is an entry needed for a write of nil to a field that is absent?  Effects
** leave the entry out.  It says that the owner has written the field later than
** others, who would restore another value. */
static inline int mwb_hides(const mwb_state *s, mw_owner owner) {
  if (!mwi_journal_has_others(&s->engine->journal, owner)) return 0;
  mwb_coroutine_of(s, owner)->hides = 1;
  return 1;
}

static inline int mwb_is_hidden(const mw_entry *entry) {
  return entry->type[MW_OLD] == MW_TABSENT && entry->type[MW_NOW] == MW_TABSENT;
}

/* Pushes the coroutine's table of held values. */
void mwb_push_values(lua_State *L, const mwb_coroutine *t);

/* Pops a table from the top and makes it the table of held values of the
** running coroutine. */
void mwb_set_values(lua_State *L, mwb_coroutine *t);

/* The coroutine has no held values from now on. */
void mwb_drop_values(lua_State *L, mwb_coroutine *t);

/* The coroutine is about to have an open transaction or batch, or has one less:
** the record is in a list as long as there are any. */
void mwb_link_coroutine(mwb_state *s, mwb_coroutine *t);
void mwb_unlink_coroutine(lua_State *L, mwb_state *s, mwb_coroutine *t);

/* transaction.c: pushes the label of an open transaction, or a number. */
void mwb_push_label(lua_State *L, const mwb_state *s, mw_owner owner);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
