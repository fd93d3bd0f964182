/*
** serial.h - the engine's private view of serial.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWI_SERIAL_H
#define MWI_SERIAL_H

#include "moonwatch.h"

typedef struct mwi_serials {
  mw_clock given; /* a clock whose generations are the serials */
  struct mwi_serial_shard *shards;
} mwi_serials;

MWI_API int mwi_serial_open(mw_engine *e);
MWI_API void mwi_serial_close(mw_engine *e);

/* Ends the serial of a slot, if it has one. */
MWI_API void mwi_serial_forget(mw_engine *e, uint32_t slot);

#endif
