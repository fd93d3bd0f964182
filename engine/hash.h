/*
** hash.h - klib's hash table with the memory of an engine.
** SPDX-License-Identifier: MIT
**
** klib allocates through four macros, which have no argument for the owner of
** the memory; but all klib functions call their table `h`.  So a table is the
** head of a struct that knows the engine, and the including file defines
** `engine_of(h)` before the include, to get from the table to the engine.
** kh_init and kh_destroy are not used: tables are parts of other structs, and
** begin as zeros.
*/
#ifndef MWI_HASH_H
#define MWI_HASH_H

#define kcalloc(N, Z) NULL
#define kmalloc(Z) mwi_klib_resize(engine_of(h), NULL, Z)
#define krealloc(P, Z) mwi_klib_resize(engine_of(h), P, Z)
#define kfree(P) mwi_klib_free(engine_of(h), P)

#if !defined(__has_include)
#include <khash.h>
#elif __has_include(<khash.h>)
#include <khash.h>
#elif __has_include(<htslib/khash.h>)
#include <htslib/khash.h>
#else
#error "klib's khash.h is needed: from libhts-dev, or a klib checkout (KLIB)"
#endif

/* Around klib's code, which converts freely. */
#if defined(__GNUC__)
#define MWI_KLIB_BEGIN \
  _Pragma("GCC diagnostic push") \
      _Pragma("GCC diagnostic ignored \"-Wconversion\"") \
          _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define MWI_KLIB_END _Pragma("GCC diagnostic pop")
#else
#define MWI_KLIB_BEGIN
#define MWI_KLIB_END
#endif

/* Frees the contents of a table. */
#define mwi_klib_clear(h) \
  (kfree((h)->flags), kfree((void *)(h)->keys), kfree((void *)(h)->vals))

/* Returns the bytes of the contents of a table. */
#define mwi_klib_table_bytes(h) \
  (mwi_klib_bytes((h)->flags) + mwi_klib_bytes((h)->keys) + \
   mwi_klib_bytes((h)->vals))

#endif
