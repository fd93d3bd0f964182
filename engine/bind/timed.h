/*
** timed.h - timed scopes, and the time.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_TIMED_H
#define MWB_TIMED_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Nanoseconds since a fixed moment; never goes back.  An `mw_now`. */
int64_t mwb_now(void *ud);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
