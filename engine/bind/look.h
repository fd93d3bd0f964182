/*
** look.h - entries that somebody has looked at: see reader.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_LOOK_H
#define MWB_LOOK_H

#include "delivery.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

typedef struct mwb_look {
  const void *mark; /* an address with which no other userdata begins */
  uint32_t n;
  uint64_t first_page;
  mw_entry entries[1];
} mwb_look;

/* Pushes a look at the entries from `first` to `end`, without the last. */
mwb_look *mwb_push_look(lua_State *L, const mwb_state *s, uint64_t first,
                        uint64_t end);

/* Pushes an iterator of the entries of the look on the top, from number `first`
** of the look on, and pops the look. */
void mwb_push_entry_iterator(lua_State *L, lua_Integer first);

/* Returns the place of an entry's page in the user value of a look. */
static inline lua_Integer mwb_page_in(const mwb_look *its,
                                      const mw_entry *entry) {
  return (lua_Integer)(entry->seq / MWI_READER_PAGE - its->first_page + 1);
}

/* Pushes a part of an entry, whose page is at `page`. */
static inline void mwb_push_part(lua_State *L, int page, const mw_entry *entry,
                                 int part) {
  if (entry->type[part] == MW_TOTHER)
    lua_rawgeti(L, page, (lua_Integer)(uint32_t)entry->value[part].i);
  else
    mwb_unpack(L, NULL, 0, entry, part);
}

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
