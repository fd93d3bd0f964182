/*
** check.h - conditions that must hold, by the engine or by its caller.
** SPDX-License-Identifier: MIT
**
** With MW_CHECKS, a condition that does not hold is reported to
** `mw_check_failed`.  Without, nothing here compiles to anything.
*/
#ifndef MWI_CHECK_H
#define MWI_CHECK_H

#include "moonwatch.h"

#ifdef MW_CHECKS
#define mwi_check(misuse, c) \
  ((c) ? (void)0 : mw_check_failed(misuse, #c, __FILE__, __LINE__))
#define mwi_checking(e, action) ((void)(action))
#else
#define mwi_check(misuse, c) ((void)0)
#define mwi_checking(e, action) ((void)(e))
#endif

/* Around a call of the host, which must not call the engine back. */
#define mwi_quiet_begin(e) mwi_checking(e, ++*mwi_quiet(e))
#define mwi_quiet_end(e) mwi_checking(e, --*mwi_quiet(e))

/* Around a call of a guard, which may call the engine back. */
#define mwi_guard_begin(e) mwi_checking(e, ++(e)->check.guards)
#define mwi_guard_end(e) mwi_checking(e, --(e)->check.guards)

/* Around the rewinding of the journal; a jump may leave the rewinding, and the
** rewinding may begin again. */
#define mwi_restoring_begin(e) mwi_checking(e, (e)->check.restoring = 1)
#define mwi_restoring_end(e) mwi_checking(e, (e)->check.restoring = 0)

/* An invariant of the engine. */
#define mwi_assert(c) mwi_check(0, c)

/* A condition that the manual asks of a caller. */
#define mwi_check_call(c) mwi_check(1, c)

/* Fails if a callback that must not call the engine has called the function. */
#define mwi_check_enter(e) mwi_check_call((e)->check.quiet == 0)

#ifdef MW_CHECKS

typedef struct mwi_checks {
  int quiet;     /* callbacks under way that must not call the engine */
  int guards;    /* guards under way */
  int restoring; /* is the journal being rewound? */
  const char
      *broken; /* the failed condition of the last `mw_verify`, or NULL */
  int line;    /* the line of the condition */
} mwi_checks;

/* The counter of callbacks; the engine may be const, for functions that only
** look call back too. */
MWI_API int *mwi_quiet(const mw_engine *e);

#endif

#endif
