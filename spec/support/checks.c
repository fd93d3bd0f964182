/*
** checks.c - what becomes of a check that fails.
** SPDX-License-Identifier: MIT
*/
#include "checks.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static enum { ABORTS, JUMPS, GOES_ON } then;
static jmp_buf start;
static int misuses;

void mw_check_failed(int misuse, const char *condition, const char *file,
                     int line) {
  if (misuse && then == JUMPS) longjmp(start, 1);
  misuses += misuse;
  if (misuse && then == GOES_ON) return;
  fprintf(stderr, "%s:%d: %s does not hold: %s\n", file, line,
          misuse ? "what a caller must see to" : "an invariant", condition);
  abort();
}

int is_misuse(void (*f)(mw_engine *e), mw_engine *e) {
  int found = 1;
  then = JUMPS;
  if (setjmp(start) == 0) {
    f(e);
    found = 0;
  }
  then = ABORTS;
  return found;
}

int has_misuse(void (*f)(mw_engine *e), mw_engine *e) {
  misuses = 0;
  then = GOES_ON;
  f(e);
  then = ABORTS;
  return misuses > 0;
}
