/*
** main.c - runs the engine's tests.
** SPDX-License-Identifier: MIT
*/
#include <stdio.h>
#include <string.h>

#include "../../engine/engine.h"
#include "check.h"

static int failures_of_this;

void check_failed(const char *file, int line, const char *condition) {
  printf("%s:%d: %s\n", file, line, condition);
  failures_of_this++;
}

static int print(void *ud, const char *bytes, size_t n) {
  (void)ud;
  return fwrite(bytes, 1, n, stdout) == n;
}

int is_alive(const mw_engine *e, mw_watch_id id) {
  mw_watch_options options;
  mw_handle obj;
  return mw_watch_info(e, id, &options, &obj) == MW_OK;
}

uint32_t n_waiting(const mw_engine *e, mw_handle obj) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return (r == NULL) ? 0 : r->waiting;
}

uint64_t note_write(mw_engine *e, mw_handle obj, mw_change *change) {
  mwi_object *r = mwi_object_find(&e->watch, obj);
  uint64_t seq = e->watch.seq;
  if (r == NULL || (!r->watched && r->nodes == 0)) return 0;
  mwi_object_count(e, r);
  mwi_write_call(e, r, change, MWI_AT_ONCE, seq);
  r = mwi_object_find(&e->watch, obj);
  if (r != NULL) mwi_write_results(e, r, change);
  return seq;
}

int is_accounted(mw_engine *e, const heap *h) {
  mw_memory m;
  memset(&m, 0, sizeof(m));
  mw_memory_info(e, &m);
  return m.total == h->bytes &&
         m.total == m.objects + m.watches + m.journal + m.names + m.traces;
}

static int passes(const test *t) {
  heap h;
  mw_engine *e;
  memset(&h, 0, sizeof(h));
  failures_of_this = 0;
  e = mw_engine_open(heap_alloc, &h);
  if (e == NULL) return 0;
  t->run(e, &h);
  heap_set(&h, HEAP_GIVE, 0);
  if (mw_verify(e) != MW_OK) {
    mw_dump(e, print, NULL);
    check_failed(t->name, 0, "all invariants hold");
  }
  if (!is_accounted(e, &h))
    check_failed(t->name, 0, "each byte belongs to a part");
  mw_engine_close(e);
  if (h.blocks != 0 || h.bytes != 0)
    check_failed(t->name, 0, "nothing is live");
  if (h.errors != 0) check_failed(t->name, 0, "sizes are told right");
  return failures_of_this == 0;
}

int main(void) {
  const test *const suites[] = {
      check_tests,  identity_tests, clock_tests, watch_tests,  deep_tests,
      random_tests, journal_tests,  scope_tests, memory_tests, age_tests,
      reader_tests, trace_tests,    table_tests};
  int passed = 0, failed = 0;
  size_t i;
  for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
    const test *t;
    for (t = suites[i]; t->name != NULL; t++) {
      if (passes(t)) {
        passed++;
      } else {
        failed++;
        printf("failed: %s\n", t->name);
      }
    }
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
