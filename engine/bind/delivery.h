/*
** delivery.h - what the entries hold that readers have not read yet.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_DELIVERY_H
#define MWB_DELIVERY_H

#include "coroutine.h"
#include "entry.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* For readers: makes what is needed once. */
void mwb_open_delivery(lua_State *L, mwb_state *s);

/* Before a write: makes the page and the context of its entry.  Returns whether
** anything was made; then functions of the program may have run. */
int mwb_make_ready(lua_State *L, mwb_state *s);

/* Returns the held values of the next entry that is delivered. */
mwb_held *mwb_need_page(lua_State *L, mwb_state *s);

/* Is that page there, and what the entry needs of it? */
static inline int mwb_page_is_ready(const mwb_state *s) {
  return s->page == (s->engine->reader.last + 1) / MWI_READER_PAGE + 1;
}

/* The page holds the object at `index`. */
static inline void mwb_hold_in_page(lua_State *L, mwb_state *s, mwb_held *held,
                                    mw_handle h, int index) {
  mwb_known *known = &s->known_objects[mw_slot(h) % 64];
  if (known->id == held->id && known->number == mw_slot(h)) return;
  mwb_hold_value(L, held, 0, index);
  known->id = held->id;
  known->number = mw_slot(h);
}

/* Marks the key of an entry, which is at `index`, so that entries of the same
** field are found: see mw_delivery_find. */
void mwb_mark_key(lua_State *L, const mwb_state *s, int index, mw_entry *entry);

/* Returns the number of the present context among the held values. */
uint32_t mwb_hold_context(lua_State *L, mwb_state *s, mwb_held *held);

/* The same, where nothing has run since `mwb_make_ready`. */
uint32_t mwb_hold_ready(lua_State *L, mwb_state *s, mwb_held *held);

/* Something that the context has may be another now. */
static inline void mwb_turn_context(mwb_state *s) { s->context.of = NULL; }

/* Nobody wants scopes any more. */
void mwb_forget_contexts(lua_State *L, mwb_state *s);

/* Where a page has the time of its begin, in seconds. */
#define MWB_PAGETIME (-1)

/* reader.c: pushes an array of the entries of an open transaction, which is
** taken back; its field `numbers` has their numbers as causes. */
void mwb_push_entries(lua_State *L, mwb_state *s, mw_owner owner);

/* Pushes the held values of the page with the entry `seq`, or nil. */
void mwb_push_page(lua_State *L, const mwb_state *s, uint64_t seq);

/* The engine's callbacks: see mw_host. */
int mwb_deliver(void *ud, mw_entry *entry, const mw_values *values, void *host);
void mwb_forget(void *ud, uint64_t seq);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
