/*
** past.c - what can be told of the state before the last writes.
** SPDX-License-Identifier: MIT
**
**     moves   lost ... lost | move | move | move
**             0                 ^ number `lost`   ^ number `lost + n`
**
** Time is divided into ages.  The record of each object has the age of the
** object's last write, so one comparison says whether an object is as it was at
** the end of an age.
**
** A move is a write to a field that held or holds an object of a tree.  The
** field's former object stands in the move, so the moves since a moment, read
** from the first on, say which object each of their fields held then.  Whoever
** asks for the number of moves can get the moves since, as long as there is
** memory and there are no more than MWI_MOVES.  After so many moves nothing is
** noted any more, until somebody asks for the number again.
*/
#include <string.h>

#include "engine.h"

#ifndef MWI_MOVES
#define MWI_MOVES 4096u
#endif

/* Forgets the first `n` moves. */
static void forget_moves(mw_engine *e, uint32_t n) {
  mwi_past *past = &e->past;
  uint32_t i;
  for (i = 0; i < n; i++) mwi_host_release(e, &past->moves[i].key);
  past->n -= n;
  past->lost += n;
  if (past->n > 0 && n > 0)
    memmove(past->moves, past->moves + n, past->n * sizeof(mw_move));
}

/* Makes room for one more move, if need be by forgetting others.  Returns 0 if
** there is no memory at all. */
static int reserve_move(mw_engine *e) {
  mwi_past *past = &e->past;
  mw_move *moves;
  if (past->n < past->size) return 1;
  if (past->size < 2 * MWI_MOVES) {
    moves = (mw_move *)mwi_grow(e, past->moves, past->n, &past->size,
                                sizeof(mw_move));
    if (moves != NULL) past->moves = moves;
    if (moves != NULL) return 1;
  }
  forget_moves(e, past->n - past->n / 2);
  return past->size > 0;
}

void mw_move_note(mw_engine *e, mw_handle parent, const mw_value *key,
                  mw_handle former) {
  mwi_past *past = &e->past;
  mw_move *move;
  mwi_check_enter(e);
  if (!past->wanted) return;
  if (past->lost + past->n >= past->asked + MWI_MOVES || !reserve_move(e)) {
    forget_moves(e, past->n);
    past->lost++; /* this move */
    past->wanted = 0;
    return;
  }
  move = &past->moves[past->n++];
  move->parent = parent;
  move->former = former;
  move->key = *key;
  mwi_host_retain(e, key);
}

int mw_move_is_noted(const mw_engine *e) { return e->past.wanted; }

uint64_t mw_move_now(mw_engine *e) {
  e->past.wanted = 1;
  return e->past.asked = e->past.lost + e->past.n;
}

int mw_move_since(const mw_engine *e, uint64_t number, const mw_move **moves,
                  size_t *n) {
  const mwi_past *past = &e->past;
  if (number < past->lost || number > past->lost + past->n) return MW_STALE;
  *n = past->n - (size_t)(number - past->lost);
  *moves = (*n == 0) ? NULL : past->moves + (number - past->lost);
  return MW_OK;
}

uint32_t mw_age_end(mw_engine *e) {
  uint32_t age = mwi_stamp_age(e->past.stamp);
  if (age < UINT32_MAX) e->past.stamp += UINT64_C(1) << 32;
  return age;
}

int mw_object_is_older(const mw_engine *e, mw_handle obj, uint32_t age) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return r == NULL || (mwi_stamp_age(r->stamp) <= age && age < UINT32_MAX);
}

/* Calls no callback, for the host may be gone: keys are not released. */
void mwi_past_close(mw_engine *e) {
  mwi_free(e, e->past.moves, e->past.size * sizeof(mw_move));
}

size_t mwi_past_bytes(const mw_engine *e) {
  return e->past.size * sizeof(mw_move);
}
