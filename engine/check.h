/*
** check.h - what must hold: by the engine's own doing, and by its caller's.
** SPDX-License-Identifier: MIT
**
** With MW_CHECKS, a condition that does not hold is told to `mw_check_failed`.
** Without, nothing here compiles to anything.
*/
#ifndef MWI_CHECK_H
#define MWI_CHECK_H

#include "moonwatch.h"

#ifdef MW_CHECKS

#define mwi_check(misuse, c) \
  ((c) ? (void)0 : mw_check_failed(misuse, #c, __FILE__, __LINE__))

/* Around a call of the host, which must not call the engine back. */
#define mwi_quiet_begin(e) ((void)++*mwi_quiet(e))
#define mwi_quiet_end(e) ((void)--*mwi_quiet(e))

/* Around a call of a guard, which may. */
#define mwi_guard_begin(e) ((void)++(e)->check.guards)
#define mwi_guard_end(e) ((void)--(e)->check.guards)

/* Around the rewinding of the journal, which may be left by a jump and begin
** again. */
#define mwi_restoring_begin(e) ((void)((e)->check.restoring = 1))
#define mwi_restoring_end(e) ((void)((e)->check.restoring = 0))

#else

#define mwi_check(misuse, c) ((void)0)
#define mwi_quiet_begin(e) ((void)(e))
#define mwi_quiet_end(e) ((void)(e))
#define mwi_guard_begin(e) ((void)(e))
#define mwi_guard_end(e) ((void)(e))
#define mwi_restoring_begin(e) ((void)(e))
#define mwi_restoring_end(e) ((void)(e))

#endif

/* An invariant of the engine. */
#define mwi_assert(c) mwi_check(0, c)

/* What the manual asks of a caller. */
#define mwi_check_call(c) mwi_check(1, c)

/* No function is called by a callback that must not call. */
#define mwi_check_enter(e) mwi_check_call((e)->check.quiet == 0)

#ifdef MW_CHECKS

typedef struct mwi_checks {
  int quiet;          /* callbacks under way that must not call the engine */
  int guards;         /* guards under way */
  int restoring;      /* is the journal being rewound? */
  const char *broken; /* what `mw_verify` has found last, or NULL */
  int line;           /* where */
} mwi_checks;

/* The counter of an engine that may be const: looking calls back, too. */
MWI_API int *mwi_quiet(const mw_engine *e);

/* What the hash tables have: how many entries, and what they find. */
MWI_API size_t mwi_identity_entries(const mw_engine *e);
MWI_API size_t mwi_serial_entries(const mw_engine *e);
MWI_API size_t mwi_field_entries(const mw_engine *e);
MWI_API size_t mwi_link_entries(const mw_engine *e);
MWI_API uint32_t mwi_field_entry(const mw_engine *e, uint32_t slot,
                                 const mw_value *key);
MWI_API uint32_t mwi_link_entry(const mw_engine *e, uint32_t parent,
                                const mw_value *key);

#endif

#endif
