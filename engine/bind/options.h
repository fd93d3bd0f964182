/*
** options.h - the reader of tables of options.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_OPTIONS_H
#define MWB_OPTIONS_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A list of options ends with a NULL name. */
typedef struct mwb_option {
  const char *name;
  int type;            /* as of `lua_type`; LUA_TNONE: any */
  const char *choices; /* of a string, at least two, "a\0b\0"; or NULL: any */
} mwb_option;

/*
** Reads the table of options at argument `arg` of the function `name` (nil: no
** options) and pushes the value of each option, in the order of the list, nil
** for an absent option.  Returns a bit for each option that is not absent, the
** first option's bit being 1.  Raises for an argument, an option or a value
** outside the list.  Calls no metamethod; of an intercepted table, reads the
** contents.
*/
unsigned mwb_read_options(lua_State *L, const char *name, int arg,
                          const mwb_option *options);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
