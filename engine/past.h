/*
** past.h - the engine's private view of past.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_PAST_H
#define MWI_PAST_H

#include "moonwatch.h"

/* The stamp of a write: the age in the high half, the default clock's
** generation + 1 in the low half. */
#define mwi_stamp_age(stamp) ((uint32_t)((stamp) >> 32))
#define mwi_stamp_changed(stamp) ((uint32_t)(stamp))

typedef struct mwi_past {
  uint64_t stamp;   /* of a write now */
  mw_move *moves;   /* the last moves, the oldest first */
  uint32_t n, size; /* moves in use, and allocated */
  uint64_t lost;    /* moves that are no longer here */
  uint64_t asked;   /* the number of moves when somebody asked last */
  int wanted;       /* are moves noted? */
} mwi_past;

MWI_API void mwi_past_close(mw_engine *e);

/* Returns the bytes that the part has allocated. */
MWI_API size_t mwi_past_bytes(const mw_engine *e);

#endif
