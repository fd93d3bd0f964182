/*
** host.c - a C program beside Lua, with one engine.
** SPDX-License-Identifier: MIT
**
** The engine has one host, the binding.  Where the program has a host, too, the
** binding's functions pass on to that what is about a MW_PINNED object, which
** is the program's; the keys and values of such objects are of all types but
** MW_TSTRING, for strings are Lua's.
*/
#include "base.h"

#include "../journal/journal.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "../watch/watch.h"
#include "moonwatch_lua.h"

int mwb_is_pinned(const mwb_state *s, mw_handle h) {
  return (mw_object_flags(s->engine, h) & MW_PINNED) != 0;
}

static const char ATTACHED = 0; /* its address is a key of the registry */

mw_engine *mwb_attached(lua_State *L) {
  mw_engine *e;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ATTACHED);
  e = (mw_engine *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return e;
}

int mw_lua_attach(lua_State *L, mw_engine *e) {
  uint32_t slot;
  if (mw_lua_engine(L) != NULL || mwb_attached(L) != NULL) return MW_FULL;
  for (slot = 1; slot < e->identity.top; slot++)
    mw_object_pin(e, mwi_identity_handle(&e->identity, slot));
  lua_pushlightuserdata(L, e);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ATTACHED);
  return MW_OK;
}

/* Lua's transactions end as if they had never been: their objects go, too. */
static void forget_owners(mwb_state *s) {
  mw_engine *e = s->engine;
  const mwb_coroutine *t;
  for (t = s->journal->coroutines; t != NULL; t = t->next) {
    const mwb_begun *at = t->open[MWB_BY_TRANSACTION];
    for (; at != NULL; at = at->outer)
      mw_owner_forget(e, ((const mwb_transaction *)at)->its->number);
  }
}

void mwb_detach(mwb_state *s) {
  mw_engine *e = s->engine;
  uint32_t slot;
  forget_owners(s);
  mw_host_set(e, &s->base->host);
  for (slot = 1; slot < e->identity.top; slot++) {
    mw_handle h = mwi_identity_handle(&e->identity, slot);
    if (!mwb_is_pinned(s, h)) mw_object_forget(e, h); /* is it Lua's? */
  }
}

/* The state, or an error if the library is not open. */
static mwb_state *need_state(lua_State *L, const char *name) {
  mwb_state *s;
  if (mw_lua_engine(L) == NULL) /* not open, or closed already? */
    luaL_error(L, "'%s' is called before moonwatch is open", name);
  mwb_push_state(L);
  s = (mwb_state *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

void mw_lua_host(lua_State *L, const mw_host *host) {
  mwb_state *s = need_state(L, "mw_lua_host");
  s->base->host = *host;
  s->base->has_host = 1;
}

mw_owner mw_lua_owner(lua_State *L) {
  mwb_state *s = need_state(L, "mw_lua_owner");
  const mwb_transaction *tx;
  tx = mwb_transaction_now(L, s);
  if (tx == NULL) return 0; /* nobody could take the write back */
  tx->of->hides = 1;
  return tx->its->number;
}

mw_handle mw_lua_handle(lua_State *L, int index) {
  mwb_state *s = need_state(L, "mw_lua_handle");
  luaL_checkstack(L, LUA_MINSTACK, "mw_lua_handle");
  return mwb_handle_of(L, s, lua_absindex(L, index));
}

int mw_lua_push(lua_State *L, mw_handle h) {
  mwb_state *s = need_state(L, "mw_lua_push");
  luaL_checkstack(L, LUA_MINSTACK, "mw_lua_push");
  return mwb_alive(L, s, h);
}

/* Pops the old value of the field, which the contents still have, takes the
** new one out of the table, where C put it, and pushes it: from here on the
** write is made as Lua makes it, or not at all.  Needs no memory. */
static void unmake(lua_State *L, int object, int key) {
  if (!mwb_push_own(L, object)) return; /* not intercepted: it stays there */
  lua_pop(L, 2);
  lua_pushvalue(L, key);
  lua_rawget(L, object);
  lua_pushvalue(L, key);
  lua_pushnil(L);
  lua_rawset(L, object);
}

static int is_store(int kind) { return kind != MW_TOUCH && kind != MW_CALL; }

/* Makes a write of C to a table. */
static int make(lua_State *L, mwb_state *s, mw_handle h) {
  mwb_write w;
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  if (!mwb_write_check(&w)) return lua_error(L); /* a guard has refused it */
  return mwb_write_run(&w, mwb_store_contents);
}

/* touch_made(object, key, value, kind): the value is the new one of a table's
** field, which is not stored, or the old one of a userdata's. */
static int touch_made(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int kind = (int)lua_tointeger(L, 4);
  mw_handle h;
  mwb_write w;
  lua_settop(L, 3);
  h = mwb_intercepting_at(L, s, OBJECT);
  if (h == MW_NONE) return 0; /* nobody watches or tracks it */
  if (is_store(kind) && lua_istable(L, OBJECT)) return make(L, s, h);
  if (!is_store(kind)) lua_settop(L, KEY); /* no value is given */
  mwb_push_current(L, s);
  if (is_store(kind))
    lua_rotate(L, VALUE, 1); /* the new value before the old one */
  else
    lua_pushvalue(L, VALUE); /* one value for both */
  lua_pushnil(L);
  lua_rotate(L, SHADOW, 1); /* OLD is behind */
  mwb_write_open(L, s, &w, h, kind, MWB_GIVEN);
  return mwb_write_run(&w,
                       is_store(kind) ? mwb_append_stored : mwb_store_nothing);
}

void mw_lua_touch(lua_State *L, int index, int key, int kind) {
  mwb_state *s = need_state(L, "mw_lua_touch");
  luaL_checkstack(L, 8, "mw_lua_touch");
  index = lua_absindex(L, index);
  key = lua_absindex(L, key);
  if (kind != MW_UPDATE && kind != MW_DELETE) lua_pushnil(L); /* no old one? */
  if (is_store(kind) && lua_istable(L, index)) unmake(L, index, key);
  lua_pushvalue(L, index);
  lua_insert(L, -2);
  lua_pushvalue(L, key);
  lua_insert(L, -2);
  lua_pushinteger(L, kind);
  mwb_call(L, s, touch_made, 4, 0);
}
