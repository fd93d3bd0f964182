/*
** checks.h - what becomes of a check that fails.
** SPDX-License-Identifier: MIT
*/
#ifndef CHECKS_H
#define CHECKS_H

#include "../../engine/moonwatch.h"

/* Calls f(e), and stops when the library finds that `f` misuses the engine.
** Returns whether the library did. */
int is_misuse(void (*f)(mw_engine *e), mw_engine *e);

/* The same, but `f` goes on: the misuse is in a callback, which returns. */
int has_misuse(void (*f)(mw_engine *e), mw_engine *e);

#endif
