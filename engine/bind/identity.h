/*
** identity.h - objects, handles and records.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_IDENTITY_H
#define MWB_IDENTITY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/*
** The address of the object at `index`, NULL if the value is not an object.
** Lua gives the address of a userdata's contents, which may have no bytes; then
** another object may begin at this address.  So a userdata has the address of
** the byte before.
*/
static inline const void *mwb_address(lua_State *L, int index) {
  const char *ptr = (const char *)lua_topointer(L, index);
  switch (lua_type(L, index)) {
    case LUA_TTABLE:
    case LUA_TFUNCTION:
    case LUA_TTHREAD:
      return ptr;
    case LUA_TUSERDATA:
      return ptr - 1;
    default:
      return NULL;
  }
}

/* Raises unless there is an object at `index`. */
void mwb_object(lua_State *L, const char *name, int index, int arg);

/* Returns the slot of the value at `index`, and pushes the value; returns 0 if
** the value has no slot, and may push something. */
static inline uint32_t mwb_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0;
  mwb_push(L, s, MWB_OBJECTS);
  if (lua_rawgeti(L, -1, slot) == LUA_TNIL) return 0;
  lua_replace(L, -2);
  return slot;
}

/*
** Returns the slot of the value at `index`, or 0; may push.  For the hot
** methods.  A known address can belong to a dead object only if a collection's
** dead are not forgotten yet.  At other times the slot needs no look into the
** array of objects, which saves a cache miss.
*/
static inline uint32_t mwb_hot_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0;
  if (!mwb_look_for_probe(L, MWB_UPOBJECTS) && s->engine->identity.left == 0)
    return slot;
  return (lua_rawgeti(L, MWB_UPOBJECTS, slot) != LUA_TNIL) ? slot : 0;
}

/* Gives the value at `index`, which has no slot, a handle.  Raises if the value
** is not an object. */
mw_handle mwb_enrol(lua_State *L, mwb_state *s, const char *name, int index,
                    int arg);

/* Returns the handle of the object at `index`, a new handle if the object has
** none.  Raises if the value is not an object. */
mw_handle mwb_identify(lua_State *L, mwb_state *s, const char *name, int index,
                       int arg);

/* The handle of the value at `index`, or MW_NONE; the second also returns
** MW_NONE if the object's writes are not intercepted. */
mw_handle mwb_handle_of(lua_State *L, mwb_state *s, int index);
mw_handle mwb_intercepting_at(lua_State *L, mwb_state *s, int index);

/* Begins a function with `args` arguments of which the first must be an
** object. */
mwb_state *mwb_enter_object(lua_State *L, const char *name, int args);

/* Returns the serial of `h`, whose object must be alive. */
lua_Integer mwb_serial(lua_State *L, mwb_state *s, mw_handle h);

/* Is the object of `h` alive?  If so, pushes the object, else some value. */
static inline int mwb_alive(lua_State *L, const mwb_state *s, mw_handle h) {
  if (!mwi_identity_is_valid(&s->engine->identity, h)) {
    lua_pushnil(L);
    return 0;
  }
  mwb_push(L, s, MWB_OBJECTS);
  lua_rawgeti(L, -1, mw_slot(h));
  lua_replace(L, -2);
  return !lua_isnil(L, -1);
}

/* Looks at no more than `looks` slots, and handles no more than `deaths`
** deaths.  Returns the number of deaths handled. */
size_t mwb_reap(lua_State *L, mwb_state *s, size_t looks, size_t deaths);

/* Looks at a few slots, and at more the more objects have become known since.
** The second function, for writes, calls nothing of the program. */
void mwb_reap_slice(lua_State *L, mwb_state *s);
void mwb_reap_made(mwb_state *s);

/* The record of an object, or NULL. */
static inline mwi_object *mwb_object_of(const mwb_state *s, mw_handle h) {
  return mwi_object_find(&s->engine->watch, h);
}
static inline mwi_object *mwb_object_at(lua_State *L, mwb_state *s, int index) {
  return mwb_object_of(s, mwb_handle_of(L, s, index));
}

/* Are the object's writes intercepted? */
static inline int mwb_intercepts(const mwb_state *s, mw_handle h) {
  const mwi_object *r = mwb_object_of(s, h);
  return r != NULL && mwi_object_intercepts(r);
}

/* Work of every write, whatever the object's record says; bits of `needs`, next
** to the bits of enum mwi_need. */
enum {
  MWB_APPENDS = 0x10000, /* the journal is open */
  MWB_TRACES = 0x20000,  /* each write is traced */
  MWB_IGNORES = 0x40000, /* the policy ignores some fields */
  MWB_BATCHES = 0x80000, /* guards hear at the end of a batch */
  MWB_WAITS = 0x100000   /* something waits for the next call: see later.c */
};

/* Sets or clears a bit of `needs`. */
static inline void mwb_need(mwb_state *s, unsigned bit, int on) {
  s->needs = on ? s->needs | bit : s->needs & ~bit;
}

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
