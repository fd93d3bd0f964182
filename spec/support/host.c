/*
** host.c - a C program with Lua inside: a ship, which is a struct of the
** program, crates, which are userdata, and writes of C to Lua's tables.
** SPDX-License-Identifier: MIT
*/
#include "host.h"

#include <lauxlib.h>
#include <string.h>

#include "../../engine/bind/base/moonwatch_lua.h"

#define NO_MEMORY "not enough memory"

static int check(lua_State *L, int code) {
  if (code == MW_OK) return 0;
  lua_pushliteral(L, NO_MEMORY);
  return lua_error(L);
}

/* {======================================================
** The ship
** ======================================================= */

enum { HULL = 1 }; /* the ship's field, as a key */

static struct {
  lua_Integer hull;
  int calls; /* of the ship's guard */
} ship;

static int call(void *ud, mw_handle obj, uint64_t ref, int flags,
                const mw_change *change) {
  (void)ud;
  (void)obj;
  (void)ref;
  (void)flags;
  (void)change;
  ship.calls++;
  return 1;
}

static void restore(void *ud, const mw_entry *entry, void *host) {
  (void)ud;
  (void)host;
  ship.hull = entry->value[MW_OLD].i;
}

static mw_host host_of_ship(void) {
  mw_host host;
  memset(&host, 0, sizeof(host));
  host.call = call;
  host.restore = restore;
  return host;
}

/* Gives the ship an identity and a watch. */
static int launch_ship(mw_engine *e) {
  mw_watch_options options;
  mw_watch_id id;
  mw_handle h;
  int code = mw_object_identify(e, &ship, &h);
  if (code != MW_OK || mw_object_is_watched(e, h)) return code;
  mw_object_pin(e, h);
  memset(&options, 0, sizeof(options));
  options.flags = MW_AFTER;
  return mw_watch_begin(e, h, &options, &id);
}

/* launch(hull) */
static int launch(lua_State *L) {
  mw_host host = host_of_ship();
  mw_lua_host(L, &host);
  ship.hull = luaL_checkinteger(L, 1);
  ship.calls = 0;
  return check(L, launch_ship(mw_lua_engine(L)));
}

/* sail(hull): a write to the ship */
static int sail(lua_State *L) {
  mw_engine *e = mw_lua_engine(L);
  mw_handle h = mw_object_find(e, &ship);
  mw_owner owner = mw_lua_owner(L);
  mw_change change;
  mw_entry entry;
  uint64_t seq;
  memset(&change, 0, sizeof(change));
  memset(&entry, 0, sizeof(entry));
  check(L, mw_journal_reserve(e, owner, NULL));
  change.key.type = MW_TINTEGER;
  change.key.u.i = HULL;
  change.kind = MW_UPDATE;
  seq = mw_write_begin(e, h, &change);
  entry.obj = h;
  entry.kind = MW_UPDATE;
  entry.type[MW_KEY] = entry.type[MW_OLD] = entry.type[MW_NOW] = MW_TINTEGER;
  entry.value[MW_KEY].i = HULL;
  entry.value[MW_OLD].i = ship.hull;
  entry.value[MW_NOW].i = ship.hull = luaL_checkinteger(L, 1);
  mw_write_end(e, h, &change, seq);
  return check(L, mw_journal_append(e, owner, &entry, NULL, NULL));
}

/* ship() -> hull, calls of the guard */
static int look(lua_State *L) {
  lua_pushinteger(L, ship.hull);
  lua_pushinteger(L, ship.calls);
  return 2;
}

/* }====================================================== */

/* {======================================================
** Crates and tables
** ======================================================= */

#define CRATE "a crate of the host"

static lua_Integer *check_crate(lua_State *L) {
  return (lua_Integer *)luaL_checkudata(L, 1, CRATE);
}

static int read_crate(lua_State *L) {
  lua_pushinteger(L, *check_crate(L));
  return 1;
}

static int write_crate(lua_State *L) {
  *check_crate(L) = luaL_checkinteger(L, 3);
  return 0;
}

static int new_crate(lua_State *L) {
  *(lua_Integer *)lua_newuserdatauv(L, sizeof(lua_Integer), 0) = 0;
  luaL_setmetatable(L, CRATE);
  return 1;
}

/* fill(crate, weight): C writes, and reports the write */
static int fill(lua_State *L) {
  lua_Integer *weight = check_crate(L);
  lua_pushliteral(L, "weight");
  lua_pushinteger(L, *weight);
  *weight = luaL_checkinteger(L, 2);
  mw_lua_touch(L, 1, 3, MW_UPDATE);
  return 0;
}

/* shake(crate): a change without an old value */
static int shake(lua_State *L) {
  check_crate(L);
  lua_pushnil(L);
  mw_lua_touch(L, 1, 2, MW_TOUCH);
  return 0;
}

/* put(table, key, value): the same of a table */
static int put(lua_State *L) {
  int kind = lua_isnil(L, 3) ? MW_DELETE : MW_UPDATE;
  lua_pushvalue(L, 2);
  if (lua_gettable(L, 1) == LUA_TNIL) kind = MW_INSERT;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, 1);
  if (kind == MW_INSERT) lua_pop(L, 1);
  mw_lua_touch(L, 1, 2, kind);
  return 0;
}

/* handle(object) -> whether the object is known, and the object again */
static int handle(lua_State *L) {
  mw_handle h = mw_lua_handle(L, 1);
  lua_pushboolean(L, h != MW_NONE);
  mw_lua_push(L, h);
  return 2;
}

/* }====================================================== */

static mw_engine *own; /* the program's engine, or NULL */

static struct {
  lua_Alloc f;
  void *ud;
} memory;

/* The program's allocator, which tries twice. */
static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize) {
  void *fresh = memory.f(memory.ud, ptr, osize, nsize);
  (void)ud;
  if (fresh == NULL && nsize > 0)
    fresh = memory.f(memory.ud, ptr, osize, nsize);
  return fresh;
}

/* attach(): Lua is to have an engine of the program, in which the ship is */
static int attach(lua_State *L) {
  mw_host host = host_of_ship();
  memory.f = lua_getallocf(L, &memory.ud);
  if (own == NULL) own = mw_engine_open(allocate, NULL);
  if (own == NULL) return check(L, MW_NOMEM);
  mw_host_set(own, &host);
  check(L, launch_ship(own));
  if (mw_lua_engine(L) == NULL) mw_lua_attach(L, own);
  lua_pushboolean(L, mw_lua_attach(L, own) == MW_FULL);
  return 1;
}

void host_close(void) {
  if (own != NULL) mw_engine_close(own);
  own = NULL;
}

int luaopen_host(lua_State *L) {
  static const luaL_Reg functions[] = {{"attach", attach},   {"launch", launch},
                                       {"sail", sail},       {"ship", look},
                                       {"crate", new_crate}, {"fill", fill},
                                       {"shake", shake},     {"put", put},
                                       {"handle", handle},   {NULL, NULL}};
  luaL_newmetatable(L, CRATE);
  lua_pushcfunction(L, read_crate);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, write_crate);
  lua_setfield(L, -2, "__newindex");
  luaL_newlib(L, functions);
  return 1;
}
