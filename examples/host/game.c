/*
** game.c - a C program with Lua inside, and one engine for both.
** SPDX-License-Identifier: MIT
**
** The program has an allocator of its own, structs (ships) and userdata
** (crates).  C watches the ships, Lua watches the crates; a failed transaction
** of Lua takes back what both have written; one trace has the spans of both.
** After `make dist`, with a static Lua, the program needs no other file:
**
**   cc -I dist examples/host/game.c dist/moonwatch.c dist/moonwatch_lua.c
**      liblua.a -lm
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <moonwatch_lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ship {
  const char *name;
  int64_t hull;
  mw_handle handle;
} ship;

enum { HULL = 1 }; /* the fields of a ship, as keys */

typedef struct game {
  size_t bytes; /* in use, of Lua and of the engine */
  mw_engine *engine;
  lua_State *L;
  ship argo;
} game;

static void *alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  game *g = (game *)ud;
  void *fresh = NULL;
  if (ptr == NULL) osize = 0; /* Lua says the type of a new block */
  if (nsize == 0)
    free(ptr);
  else if ((fresh = realloc(ptr, nsize)) == NULL)
    return NULL;
  g->bytes += nsize - osize;
  return fresh;
}

/* {======================================================
** Ships: structs of the program
** ======================================================= */

/* Writes the hull of a ship: guarded by the engine, and taken back with the
** transaction of Lua that is open, if there is one. */
static int set_hull(game *g, ship *s, int64_t hull) {
  mw_owner owner = mw_lua_owner(g->L);
  mw_change change;
  mw_entry entry;
  uint64_t seq;
  int code = mw_journal_reserve(g->engine, owner, NULL);
  if (code != MW_OK) return code;
  memset(&change, 0, sizeof(change));
  change.key.type = MW_TINTEGER;
  change.key.u.i = HULL;
  change.kind = MW_UPDATE;
  change.same = (s->hull == hull);
  seq = mw_write_begin(g->engine, s->handle, &change);
  memset(&entry, 0, sizeof(entry));
  entry.obj = s->handle;
  entry.kind = MW_UPDATE;
  entry.type[MW_KEY] = entry.type[MW_OLD] = entry.type[MW_NOW] = MW_TINTEGER;
  entry.value[MW_KEY].i = HULL;
  entry.value[MW_OLD].i = s->hull;
  entry.value[MW_NOW].i = hull;
  s->hull = hull;
  mw_write_end(g->engine, s->handle, &change, seq);
  return mw_journal_append(g->engine, owner, &entry, NULL, NULL);
}

/* The guard of a ship. */
static int look_out(void *ud, mw_handle obj, uint64_t ref, int flags,
                    const mw_change *change) {
  const game *g = (const game *)ud;
  const ship *s = (const ship *)mw_object_pointer(g->engine, obj);
  (void)ref;
  (void)flags;
  (void)change;
  printf("C: the hull of the %s has changed to %d\n", s->name, (int)s->hull);
  return 1;
}

static void restore(void *ud, const mw_entry *entry, void *host) {
  const game *g = (const game *)ud;
  ship *s = (ship *)(uintptr_t)mw_object_pointer(g->engine, entry->obj);
  (void)host;
  s->hull = entry->value[MW_OLD].i;
  printf("C: the hull of the %s is %d again\n", s->name, (int)s->hull);
}

/* Gives a ship an identity, and watches the ship. */
static int launch(game *g, ship *s) {
  mw_watch_options options;
  mw_watch_id id;
  int code = mw_object_identify(g->engine, s, &s->handle);
  if (code == MW_OK) code = mw_object_pin(g->engine, s->handle);
  memset(&options, 0, sizeof(options));
  options.flags = MW_AFTER;
  if (code == MW_OK) code = mw_watch_begin(g->engine, s->handle, &options, &id);
  return code;
}

/* }====================================================== */

/* {======================================================
** Crates: userdata
** ======================================================= */

typedef struct crate {
  lua_Integer weight;
} crate;

static crate *check_crate(lua_State *L) {
  return (crate *)luaL_checkudata(L, 1, "crate");
}

static int read_crate(lua_State *L) {
  lua_pushinteger(L, check_crate(L)->weight);
  return 1;
}

static int write_crate(lua_State *L) {
  check_crate(L)->weight = luaL_checkinteger(L, 3);
  return 0;
}

/* fill(crate, weight): the program writes, and then reports the write. */
static int fill(lua_State *L) {
  crate *c = check_crate(L);
  lua_pushliteral(L, "weight");
  lua_pushinteger(L, c->weight); /* the old value */
  c->weight = luaL_checkinteger(L, 2);
  mw_lua_touch(L, 1, 3, MW_UPDATE);
  return 0;
}

static int new_crate(lua_State *L) {
  crate *c = (crate *)lua_newuserdatauv(L, sizeof(crate), 0);
  c->weight = 0;
  luaL_setmetatable(L, "crate");
  return 1;
}

/* }====================================================== */

static game *game_of(lua_State *L) {
  return (game *)lua_touserdata(L, lua_upvalueindex(1));
}

/* ram(damage): a span of C in the trace, with a write to a ship */
static int ram(lua_State *L) {
  game *g = game_of(L);
  ship *s = &g->argo;
  mw_name name = mw_trace_name(g->engine, "ram", 3, 0);
  uint64_t id = mw_trace_begin(g->engine, 1, name, NULL, 0);
  int code = set_hull(g, s, s->hull - luaL_checkinteger(L, 1));
  mw_trace_end(g->engine, id, NULL, 0);
  return (code == MW_OK) ? 0 : luaL_error(L, "not enough memory");
}

static const char SCRIPT[] =
    "local mw = require 'moonwatch'\n"
    "local crate, chest = new_crate(), { gold = 10 }\n"
    "mw.watch(crate, function(_, key, old, new)\n"
    "  print('Lua: ' .. key .. ' of the crate: ' .. old .. ' -> ' .. new)\n"
    "end, { once = false })\n"
    "mw.track(chest)\n"
    "local trace = mw.trace():start()\n"
    "local ok, message = mw.transaction(function()\n"
    "  local scope <close> = mw.timed 'battle'\n"
    "  chest.gold = 3\n"
    "  fill(crate, 50)\n"
    "  ram(60)\n"
    "  error('the mast breaks', 0)\n"
    "end)\n"
    "print('Lua: ' .. message .. '; gold ' .. chest.gold .. ', weight ' ..\n"
    "  crate.weight)\n"
    "local history = mw.history()\n"
    "history:run('load', function() fill(crate, 7) end)\n"
    "print('Lua: undone: ' .. history:undo() .. ', weight ' .. crate.weight)\n"
    "ram(10)\n"
    "trace:stop()\n"
    "print('Lua: ' .. trace:len() .. ' events in the trace')\n"
    "mw.clock():advance()\n";

static int open_lua(lua_State *L) {
  game *g = (game *)lua_touserdata(L, 1);
  luaL_openlibs(L);
  luaL_requiref(L, "moonwatch", luaopen_moonwatch, 0);
  luaL_newmetatable(L, "crate");
  lua_pushcfunction(L, read_crate);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, write_crate);
  lua_setfield(L, -2, "__newindex");
  lua_register(L, "new_crate", new_crate);
  lua_register(L, "fill", fill);
  lua_pushlightuserdata(L, g);
  lua_pushcclosure(L, ram, 1);
  lua_setglobal(L, "ram");
  if (luaL_loadstring(L, SCRIPT) != LUA_OK) return lua_error(L);
  lua_call(L, 0, 0);
  return 0;
}

static lua_State *new_lua(game *g) {
#if LUA_VERSION_NUM >= 505
  return lua_newstate(alloc, g, luaL_makeseed(NULL));
#else
  return lua_newstate(alloc, g);
#endif
}

static int play(game *g) {
  int ok;
  if (mw_lua_attach(g->L, g->engine) != MW_OK) return 0;
  if (launch(g, &g->argo) != MW_OK) return 0;
  lua_pushcfunction(g->L, open_lua);
  lua_pushlightuserdata(g->L, g);
  ok = lua_pcall(g->L, 1, 0, 0) == LUA_OK;
  if (!ok) printf("%s\n", lua_tostring(g->L, -1));
  return ok;
}

int main(void) {
  game g;
  mw_host host;
  int ok = 0;
  memset(&g, 0, sizeof(g));
  g.argo.name = "Argo";
  g.argo.hull = 100;
  g.engine = mw_engine_open(alloc, &g);
  if (g.engine == NULL) return 1;
  memset(&host, 0, sizeof(host));
  host.ud = &g;
  host.call = look_out;
  host.restore = restore;
  mw_host_set(g.engine, &host);
  g.L = new_lua(&g);
  if (g.L != NULL) {
    ok = play(&g);
    lua_close(g.L);
  }
  /* the engine, its clock and the ship are still there */
  printf("C: without Lua: generation %d, %d object, hull %d\n",
         (int)mw_clock_now(g.engine, MW_CLOCK), (int)mw_object_count(g.engine),
         (int)g.argo.hull);
  mw_engine_close(g.engine);
  printf("C: %d bytes in use\n", (int)g.bytes);
  return ok ? 0 : 1;
}
