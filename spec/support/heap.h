/*
** heap.h - an allocator that looks on, for tests.
** SPDX-License-Identifier: MIT
**
** It keeps each block's size in front of it and compares it with what the
** caller says; fills new and freed memory with rubbish; counts what is live;
** and refuses memory on demand.
*/
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

typedef enum heap_mode {
  HEAP_GIVE,       /* always gives */
  HEAP_FAIL_ONCE,  /* the nth request from now fails */
  HEAP_FAIL_TWICE, /* the nth and the next: also after a collection */
  HEAP_FAIL_EVER,  /* the nth and all after it fail */
  HEAP_FAIL_FIRST  /* each request for an object of Lua fails the first time */
} heap_mode;

#define HEAP_REFUSED 16

typedef struct heap {
  heap_mode mode;
  size_t n;        /* for the modes with an nth request */
  size_t requests; /* made since the mode was set */
  size_t refusals; /* of these */
  size_t blocks;   /* live */
  size_t bytes;    /* live */
  size_t errors;   /* wrong sizes told so far */
  struct {
    const void *ptr;
    size_t size;
  } refused[HEAP_REFUSED]; /* requests that failed and were not repeated yet */
  size_t n_refused;
} heap;

/* Begins a mode: counts of requests and refusals start anew. */
void heap_set(heap *h, heap_mode mode, size_t n);

/* The allocator, of lua_Alloc's shape; `ud` is a `heap`, zeros at first. */
void *heap_alloc(void *ud, void *ptr, size_t osize, size_t nsize);

#endif
