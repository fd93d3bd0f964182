/*
** check.h - what the engine's tests are written with.
** SPDX-License-Identifier: MIT
**
** A test is a function that gets an open engine on a watched heap.  After it,
** the engine is closed and nothing may be live.
*/
#ifndef CHECK_H
#define CHECK_H

#include "../../engine/moonwatch.h"
#include "../support/heap.h"

typedef struct test {
  const char *name;
  void (*run)(mw_engine *e, heap *h);
} test;

/* Ends the test as failed unless the condition holds. */
#define check(condition) \
  do { \
    if (!(condition)) { \
      check_failed(__FILE__, __LINE__, #condition); \
      return; \
    } \
  } while (0)

/* Has the watch not ended? */
int is_alive(const mw_engine *e, mw_watch_id id);

/* Returns how many watches of the object wait. */
uint32_t n_waiting(const mw_engine *e, mw_handle obj);

/* Reports a write in a batch; returns the `seq` of the batch's row. */
uint64_t note_write(mw_engine *e, mw_handle obj, mw_change *change);

void check_failed(const char *file, int line, const char *condition);

/* Does each byte that is live belong to a part of the engine? */
int is_accounted(mw_engine *e, const heap *h);

extern const test check_tests[], identity_tests[], clock_tests[], watch_tests[],
    deep_tests[], random_tests[], journal_tests[], scope_tests[],
    memory_tests[], age_tests[], reader_tests[], trace_tests[], table_tests[];

#endif
