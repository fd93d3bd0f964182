/*
** serial.h - the engine's private view of serial.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MW_SERIAL_H
#define MW_SERIAL_H

#include "moonwatch.h"

typedef struct mwS_part {
  mw_clock given; /* a clock whose generations are the serials */
  struct mwS_shard *shards;
} mwS_part;

MW_PRIVATE int mwS_open(mw_engine *e);
MW_PRIVATE void mwS_close(mw_engine *e);

/* Ends the serial of a slot, if it has one. */
MW_PRIVATE void mwS_forget(mw_engine *e, uint32_t slot);

#endif
