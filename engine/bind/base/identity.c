/*
** identity.c - mw.id, mw.object, mw.reap: objects, handles and deaths.
** SPDX-License-Identifier: MIT
**
** The engine finds a Lua object by its address.  Lua gives addresses out again,
** so the engine may still know an address for an object that is long dead.  The
** array of objects decides: the array holds the object of each slot weakly, so
** if the slot's entry exists, the object at the address is the slot's object.
*/
#include "base.h"

#include "../box/box.h"
#include "../traps/traps.h"
#include "../watch/watch.h"

void mwb_object(lua_State *L, const char *name, int index, int arg) {
  if (index == 1) mwb_check_dot(L, name, lua_gettop(L)); /* mw:name(x)? */
  if (mwb_address(L, index) == NULL)
    mwb_bad_argument(L, name, index, arg,
                     "table, userdata, function or thread");
}

mw_handle mwb_handle_of(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return MW_NONE; /* the engine knows no such address */
  mwb_push(L, s, MWB_OBJECTS);
  if (lua_rawgeti(L, -1, slot) == LUA_TNIL) slot = 0; /* which has no handle */
  lua_pop(L, 2);
  return mwi_identity_handle(&s->engine->identity, slot);
}

/* The object goes into the array first, because this may fail for lack of
** memory; so an object that the engine knows is in the array, or dead.  If the
** engine already knows the address, the address belongs to a dead object; once
** this object is forgotten, its slot is the next to be given. */
mw_handle mwb_enrol(lua_State *L, mwb_state *s, const char *name, int index,
                    int arg) {
  mw_engine *e = s->engine;
  const void *ptr = mwb_address(L, index);
  mw_handle h = MW_NONE;
  if (ptr == NULL || index == 1) mwb_object(L, name, index, arg); /* raises? */
  if (mwb_probe(L, s)) h = mwb_handle_of(L, s, index); /* by a finaliser? */
  if (h != MW_NONE) return h;
  index = lua_absindex(L, index);
  mwb_push(L, s, MWB_OBJECTS);
  for (;;) {
    uint32_t slot = mwi_identity_next(&e->identity);
    int code;
    h = MW_NONE;
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, slot);
    code = mw_object_identify(e, ptr, &h);
    if (mw_slot(h) == slot) break; /* else: no memory, or a dead object's */
    lua_pushnil(L);
    lua_rawseti(L, -2, slot);
    mwb_check(L, code);
    mw_object_forget(e, h);
  }
  s->base->made++;
  lua_pop(L, 1);
  return h;
}

mw_handle mwb_identify(lua_State *L, mwb_state *s, const char *name, int index,
                       int arg) {
  mw_handle h = mwb_handle_of(L, s, index);
  return (h != MW_NONE) ? h : mwb_enrol(L, s, name, index, arg);
}

mw_handle mwb_intercepting_at(lua_State *L, mwb_state *s, int index) {
  mw_handle h = mwb_handle_of(L, s, index);
  if (h == MW_NONE || mwb_intercepts(s, h)) return h;
  if (!mwb_push_own(L, index)) return MW_NONE; /* known, and no more? */
  lua_pop(L, 1); /* an orphan that is not given back yet */
  return h;
}

mwb_state *mwb_enter_object(lua_State *L, const char *name, int args) {
  mwb_state *s = mwb_enter(L);
  mwb_object(L, name, 1, 1);
  lua_settop(L, args);
  return s;
}

static int id(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_handle h = mwb_identify(L, s, "id", 1, 1);
  uint64_t serial = 0;
  mwb_check(L, mw_object_serial(s->engine, h, &serial));
  lua_pushinteger(L, (lua_Integer)serial);
  return 1;
}

static int object(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, 1) == LUA_TNUMBER) /* "1" is no serial */
    n = lua_tointegerx(L, 1, &ok);
  else
    mwb_check_dot(L, "object", lua_gettop(L));
  mwb_alive(L, s, ok ? mw_serial_object(s->engine, (uint64_t)n) : MW_NONE);
  return 1;
}

static int in_array(void *ud, mw_handle h) {
  const mwb_state *s = (const mwb_state *)ud;
  int alive = mwb_alive(s->service, s, h);
  lua_pop(s->service, 1);
  return alive;
}

/* Calls on_death for at most `n` entries of weak maps whose keys have died.
** Returns the number of calls.  An on_death never calls another on_death: the
** depth of calls would have no bound. */
static size_t notify(lua_State *L, mwb_state *s, size_t n) {
  size_t done;
  if (s->base->notifying) return 0; /* called by an on_death? */
  for (done = 0; s->base->queued && done < n; done++) {
    s->base->queued = 0; /* a finaliser may set it again */
    mwb_push(L, s, MWB_DEATH);
    if (lua_pcall(L, 0, 4, 0) != LUA_OK) { /* no memory? */
      lua_pop(L, 1);
      s->base->queued = 1;
      break;
    }
    s->base->queued |= lua_toboolean(L, -1);
    lua_pop(L, 1);
    s->base->notifying = 1;
    if (mwb_pcall_outside(L, s, 2, 0, 0) != LUA_OK)
      mwb_late_error(L, s, "on_death");
    s->base->notifying = 0;
  }
  return done;
}

/* Slots that a call examines after a collection, at least. */
#define LOOKS 4

/* Looks at no more than `looks` slots, and handles no more than `deaths`
** deaths.  Returns the number of deaths handled. */
static size_t reap_some(lua_State *L, mwb_state *s, size_t looks,
                        size_t deaths) {
  size_t n = notify(L, s, deaths);
  n += mw_reap_step(s->engine, looks, deaths - n, in_array, s);
  if (s->watch->storing == 0) mwb_let_go(L, s, looks); /* can none come back? */
  if (s->base->deserted && !mw_reap_due(s->engine)) {  /* all dead are found? */
    /* The policy looks at all wrapped classes, so one call serves all deaths of
    ** a collection.  The policy's call may end up here again. */
    s->base->deserted = 0;
    if (mwb_push_question(L, s, MWB_DESERTED) && /* does it want to know? */
        mwb_pcall_outside(L, s, 0, 0, 0) != LUA_OK) {
      s->base->deserted = 1;
      lua_error(L);
    }
  }
  s->pending = s->base->queued || mw_reap_due(s->engine) ||
               mwb_has_orphans(s) || s->base->late ||
               (s->needs & MWB_WAITS) != 0;
  return n;
}

/* A slice finds more deaths than there can be new ones: for each object that
** has become known since the last slice, it looks at EACH slots.  So the dead
** that wait are fewer than the living, however few calls a program makes.  What
** is more than MOST objects is for the next slices. */
#define EACH 8
#define MOST 256

static size_t take_made(mwb_state *s) {
  size_t n = (s->base->made < MOST) ? s->base->made : MOST;
  s->base->made -= n;
  return n;
}

void mwb_reap_slice(lua_State *L, mwb_state *s) {
  size_t made = take_made(s);
  reap_some(L, s, LOOKS + EACH * made, 1 + EACH / 2 * made);
  if (!mw_reap_due(s->engine)) s->base->made = 0; /* no slot is left? */
}

void mwb_reap_made(mwb_state *s) {
  size_t made;
  if (!mw_reap_due(s->engine)) return; /* all slots have been looked at */
  made = take_made(s);
  mw_reap_step(s->engine, EACH * made, EACH / 2 * made, in_array, s);
}

/* A look for deaths is cheap, so a budget allows many looks for each death.  If
** all looks find the living, `reap` looks on for the next death: a budget above
** 0 makes progress while a death is due. */
#define FREE_LOOKS 10000

static int reap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer budget = LUA_MAXINTEGER;
  size_t n, looks = SIZE_MAX;
  if (!lua_isnoneornil(L, 1)) budget = mwb_integer(L, "reap", 1, 1);
  if (budget < 0)
    return luaL_error(L, "bad argument #1 to 'reap' (must not be negative)");
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) mwb_refuse(L);
  if (s->engine == NULL) mwb_slice(L, s); /* raises */
  mwb_probe(L, s);
  mwb_end_waiting(L, s);
  mwb_raise_late(L, s);
  if ((uint64_t)budget < SIZE_MAX / 200) /* else as many as it takes */
    looks = FREE_LOOKS + 100 * (size_t)budget;
  n = reap_some(L, s, looks, (size_t)budget);
  if (n == 0 && budget > 0) n = reap_some(L, s, s->engine->identity.left, 1);
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

/* is_dead(id) -> has the object died?  Then a death is to be told.  Needs no
** memory. */
static int is_dead(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  uint64_t serial = (uint64_t)lua_tointeger(L, 1);
  int dead = s->engine != NULL &&
             !mwb_alive(L, s, mw_serial_object(s->engine, serial));
  if (dead) s->base->queued = s->pending = 1;
  lua_pushboolean(L, dead);
  return 1;
}

/* is_object(value) */
static int is_object(lua_State *L) {
  lua_pushboolean(L, mwb_address(L, 1) != NULL);
  return 1;
}

/* collections() -> how many have ended */
static int collections(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_pushinteger(L, (lua_Integer)s->collections);
  return 1;
}

const luaL_Reg mwb_deaths_functions[] = {{"is_dead", is_dead},
                                         {"is_object", is_object},
                                         {"collections", collections},
                                         {NULL, NULL}};

const luaL_Reg mwb_identity_functions[] = {
    {"id", id}, {"object", object}, {"reap", reap}, {NULL, NULL}};
