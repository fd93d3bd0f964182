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
** The address of the object at `index`, NULL when it is not an object.  That
** of a userdata is its contents', which may be no bytes at all; then, behind
** them, another object may begin.  So it is taken to be one byte less.
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

/* The slot of the value at `index`, 0 when it has none; if it has one, pushes
** the value, else perhaps something. */
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
** The slot of the value at `index`, 0 when it has none; may push.  For methods
** that stand in their object and are called most.  An address that the engine
** knows can be that of a dead object only after a collection whose dead are yet
** to be forgotten; at other times the array need not be looked at for a slot,
** which saves a cache miss.
*/
static inline uint32_t mwb_hot_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0;
  if (lua_rawgeti(L, MWB_UPOBJECTS, MWB_PROBE) != LUA_TNIL &&
      s->engine->identity.left == 0)
    return slot;
  return (lua_rawgeti(L, MWB_UPOBJECTS, slot) != LUA_TNIL) ? slot : 0;
}

/* Gives the value at `index`, which has no slot, an identity; raises when it is
** not an object. */
mw_handle mwb_enrol(lua_State *L, mwb_state *s, const char *name, int index,
                    int arg);

/* The handle of the object at `index`, given one when it has none; anything
** that is not an object raises. */
mw_handle mwb_identify(lua_State *L, mwb_state *s, const char *name, int index,
                       int arg);

/* The handle of the value at `index`, MW_NONE when it has none; and MW_NONE too
** when its writes are not reported. */
mw_handle mwb_handle_of(lua_State *L, mwb_state *s, int index);
mw_handle mwb_intercepting_at(lua_State *L, mwb_state *s, int index);

/* Begins a function whose first argument must be an object, and that looks at
** `args` of them. */
mwb_state *mwb_enter_object(lua_State *L, const char *name, int args);

/* The serial of `h`, whose object must be alive. */
lua_Integer mwb_serial(lua_State *L, mwb_state *s, mw_handle h);

/* Does the object of `h` still live?  If so, pushes it, else anything. */
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

/* Does death work: no more than `looks` slots, no more than `deaths` deaths.
** Returns how many deaths it dealt with. */
size_t mwb_reap(lua_State *L, mwb_state *s, size_t looks, size_t deaths);

/* The record of an object, or NULL. */
static inline mwi_object *mwb_object_of(const mwb_state *s, mw_handle h) {
  return mwi_object_find(&s->engine->watch, h);
}
static inline mwi_object *mwb_object_at(lua_State *L, mwb_state *s, int index) {
  return mwb_object_of(s, mwb_handle_of(L, s, index));
}

/* Does the object tell of its writes? */
static inline int mwb_intercepts(const mwb_state *s, mw_handle h) {
  const mwi_object *r = mwb_object_of(s, h);
  return r != NULL && mwi_object_intercepts(r);
}

/* What every write has to do besides what the object's record says; bits of
** `needs`, next to those of enum mwi_need. */
enum {
  MWB_NOTES = 0x100,   /* somebody records */
  MWB_TRACES = 0x200,  /* each write is traced */
  MWB_IGNORES = 0x400, /* the policy says that some fields are ignored */
  MWB_BATCHES = 0x800  /* guards hear at the end of a batch */
};

/* Sets or clears a bit of `needs`. */
static inline void mwb_need(mwb_state *s, unsigned bit, int on) {
  s->needs = on ? s->needs | bit : s->needs & ~bit;
}

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
