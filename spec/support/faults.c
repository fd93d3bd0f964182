/*
** faults.c - runs each scenario with each allocation failing in turn.
** SPDX-License-Identifier: MIT
**
** For a scenario and a mode: a new Lua state on a watched heap; the scenario
** runs while the heap fails; it must do its work or end with "not enough
** memory" (it must do its work when only first tries fail: Lua collects garbage
** then, and tries again).  Then the heap gives again, and the same scenario
** must do its work in the same state.  When the state is closed, nothing is
** live.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/bind/base/moonwatch_lua.h"
#include "compiled.h"
#include "heap.h"
#include "host.h"

/* Lua 5.5 asks for a seed. */
#if LUA_VERSION_NUM >= 505
#define new_lua(alloc, ud) lua_newstate(alloc, ud, 1)
#else
#define new_lua(alloc, ud) lua_newstate(alloc, ud)
#endif

static int passed, failed;

static void report(int ok, const char *scenario, const char *mode,
                   const char *message) {
  if (ok) {
    passed++;
  } else {
    failed++;
    printf("failed: %s, %s: %s\n", scenario, mode, message);
  }
}

static void preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonwatch_core);
  lua_setfield(L, -2, "moonwatch.core");
  lua_pushcfunction(L, luaopen_host);
  lua_setfield(L, -2, "host");
  lua_pop(L, 1);
}

static void close_state(lua_State *L) {
  lua_close(L);
  host_close();
}

static int do_file(lua_State *L, const char *path) {
  lua_getglobal(L, "dofile");
  lua_pushstring(L, path);
  return lua_pcall(L, 1, LUA_MULTRET, 0);
}

/* A state with the table of scenarios at index 1. */
static lua_State *new_state(heap *h, int generational) {
  lua_State *L;
  memset(h, 0, sizeof(heap));
  L = new_lua(heap_alloc, h);
  luaL_openlibs(L);
  if (generational) lua_gc(L, LUA_GCGEN, 0, 0);
  preload(L);
  compiled_open(L);
  if (do_file(L, "spec/support/scenarios.lua") != LUA_OK)
    printf("%s\n", lua_tostring(L, -1));
  return L;
}

/* Runs the scenario; its message, or NULL when all went well. */
static const char *run(lua_State *L, const char *scenario) {
  lua_settop(L, 1);
  lua_getfield(L, 1, scenario);
  return (lua_pcall(L, 0, 0, 0) == LUA_OK) ? NULL : lua_tostring(L, -1);
}

/* Scenarios with names that begin so begin without the library; for all others
** all of it is loaded. */
#define OPENING "opening"

static int is_opening(const char *scenario) {
  return strncmp(scenario, OPENING, sizeof(OPENING) - 1) == 0;
}

/* What is live is Lua's, or what mw.memory says.  From 5.5 on Lua does not
** count the text of a string that was made in a buffer. */
static int is_accounted(lua_State *L, const heap *h) {
  size_t bytes;
  if (luaL_dostring(L, "return require 'moonwatch'.memory().total") != LUA_OK)
    return 0;
  bytes = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  bytes += (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  bytes += (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
  return LUA_VERSION_NUM < 505 ? h->bytes == bytes : h->bytes >= bytes;
}

/* Has Lua the allocator that it began with?  The program may ask for it. */
static int has_its_allocator(lua_State *L, const heap *h) {
  void *ud;
  return lua_getallocf(L, &ud) == heap_alloc && ud == h;
}

/* What a run has left behind in the stack keeps no handle alive in the next. */
static void clear_stack(lua_State *L) {
  int i, top = lua_gettop(L);
  if (!lua_checkstack(L, 500)) abort();
  for (i = 0; i < 500; i++) lua_pushnil(L);
  lua_settop(L, top);
}

/* One run with failures and one without; how many requests were refused. */
static size_t try_once(const char *scenario, heap_mode mode, size_t n,
                       int generational, char *problem, size_t size) {
  heap h;
  lua_State *L = new_state(&h, generational);
  const char *message;
  size_t refusals;
  lua_getfield(L, 1, scenario); /* so that its name is there already */
  if (!is_opening(scenario) &&
      do_file(L, "spec/support/load_all.lua") != LUA_OK)
    snprintf(problem, size, "require: %s", lua_tostring(L, -1));
  lua_settop(L, 1);
  heap_set(&h, mode, n);
  message = run(L, scenario);
  refusals = h.refusals;
  heap_set(&h, HEAP_GIVE, 0);
  clear_stack(L);
  if (message != NULL &&
      (mode == HEAP_FAIL_FIRST || strcmp(message, "not enough memory") != 0))
    snprintf(problem, size, "failing run %zu: %s", n, message);
  else if ((message = run(L, scenario)) != NULL)
    snprintf(problem, size, "run after %zu: %s", n, message);
  else if (!has_its_allocator(L, &h))
    snprintf(problem, size, "Lua has another allocator");
  else if (mode == HEAP_FAIL_FIRST && !is_accounted(L, &h))
    snprintf(problem, size, "memory is not accounted for");
  close_state(L);
  if (h.blocks != 0) snprintf(problem, size, "%zu live after %zu", h.blocks, n);
  if (h.errors != 0) snprintf(problem, size, "wrong sizes in run %zu", n);
  return refusals;
}

/* Each request fails in its turn; of those after many, every second, then every
** third, and so on, unless SOAK is set. */
#define MANY 5

static void try_all(const char *scenario, heap_mode mode, const char *name,
                    int generational) {
  char problem[400] = "";
  size_t n = 1, many = (getenv("SOAK") != NULL) ? SIZE_MAX : MANY;
  while (try_once(scenario, mode, n, generational, problem, sizeof(problem)) >
             0 &&
         problem[0] == '\0' && mode != HEAP_FAIL_FIRST)
    n += 1 + n / many;
  report(problem[0] == '\0', scenario, name, problem);
}

static void try_scenario(const char *scenario) {
  int generational;
  for (generational = 0; generational < 2; generational++) {
    try_all(scenario, HEAP_FAIL_TWICE, "two failures", generational);
    try_all(scenario, HEAP_FAIL_EVER, "failures for ever", generational);
    try_all(scenario, HEAP_FAIL_FIRST, "first tries fail", generational);
  }
}

/* The scenarios call all public functions. */
static void try_names(void) {
  heap h;
  lua_State *L = new_state(&h, 0);
  int i, n;
  if (do_file(L, "spec/support/unreached.lua") != LUA_OK) abort();
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    report(0, "public functions", "all", lua_tostring(L, -1));
    close_state(L);
    return;
  }
  n = (int)lua_rawlen(L, -1);
  report(n == 0, "public functions", "all", "some are in no scenario:");
  for (i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, i);
    printf("  %s\n", lua_tostring(L, -1));
  }
  close_state(L);
}

/* {======================================================
** States
** ======================================================= */

static const char *pass_around(lua_State *L) {
  static const char code[] =
      "local mw = require 'moonwatch'\n"
      "assert(mw == require 'moonwatch')\n"
      "package.loaded['moonwatch'], package.loaded['moonwatch.core'] = nil\n"
      "local again = require 'moonwatch'\n"
      "KEEP = KEEP or {}\n"
      "assert(mw.id(KEEP) == again.id(KEEP) and again.id(KEEP) == 1)\n"
      "again.clock('x'):tag(KEEP)\n"
      "assert(mw.clock('x') == again.clock('x'))\n"
      "assert(mw.clock('x'):is_current(KEEP))\n";
  return (luaL_dostring(L, code) == LUA_OK) ? NULL : lua_tostring(L, -1);
}

static void try_states(void) {
  heap heaps[3];
  lua_State *states[3];
  int i, round;
  for (i = 0; i < 3; i++) states[i] = new_state(&heaps[i], i % 2);
  for (round = 0; round < 3; round++) {
    for (i = round; i < 3; i++) {
      const char *message = pass_around(states[i]);
      report(message == NULL, "states", "side by side", message);
    }
    close_state(states[round]);
    report(heaps[round].blocks == 0, "states", "closed", "something is live");
  }
}

static int done(lua_State *L) {
  (void)L;
  passed++;
  return 0;
}

/* A finaliser that is older than the library runs after it was closed. */
static void try_late_finaliser(void) {
  static const char code[] =
      "local mw, map, clock\n"
      "OLD = setmetatable({}, { __gc = function(self)\n"
      "  assert(not pcall(mw.id, {}))\n"
      "  assert(not pcall(clock.tag, clock, {}))\n"
      "  assert(not pcall(clock.now, clock))\n"
      "  done()\n"
      "end })\n"
      "mw = require 'moonwatch'\n"
      "map, clock = mw.weakmap(print), mw.clock()\n"
      "map:set(OLD, 1)\n";
  heap h;
  lua_State *L = new_state(&h, 0);
  int before;
  lua_register(L, "done", done);
  if (luaL_dostring(L, code) != LUA_OK)
    report(0, "states", "late finaliser", lua_tostring(L, -1));
  before = passed;
  close_state(L);
  report(passed > before, "states", "late finaliser", "did not end well");
  report(h.blocks == 0, "states", "late finaliser", "something is live");
}

/* Bytes that are in use when nothing is left to collect. */
static size_t in_use(lua_State *L, heap *h) {
  size_t before = SIZE_MAX;
  while (h->bytes < before) {
    before = h->bytes;
    lua_gc(L, LUA_GCCOLLECT);
    if (luaL_dostring(L, "require 'moonwatch'.reap()") != LUA_OK) abort();
  }
  return h->bytes;
}

/* What comes and goes leaves nothing, in Lua or in the engine: less than four
** bytes each time, for hash tables still grow at times. */
static void try_growth(void) {
  static const char code[] =
      "local mw = require 'moonwatch'\n"
      "local clock, map, h = mw.clock('x'), mw.weakmap(), mw.hierarchy()\n"
      "local stays = mw.track({}, { deep = true })\n"
      "local function nothing() end\n"
      "collectgarbage('stop')\n"
      "for i = 1, 1000 do\n"
      "  local t = clock:tag({ mw.id })\n"
      "  map:set(t, mw.id(t))\n"
      "  mw.watch(t, nothing, { key = i }):cancel()\n"
      "  mw.watch(stays, nothing, { once = false }):cancel()\n"
      "  mw.watch(stays, mw.guard())\n"
      "  stays.x = t\n"
      "  mw.transaction(function() stays.x, t.y = nil, i end)\n"
      "  mw.batch(function() stays.y = i end)\n"
      "  h:enter(t)\n"
      "  h:leave(t)\n"
      "  mw.timed('scope'):close()\n"
      "end\n"
      "collectgarbage('restart')\n";
  heap h;
  lua_State *L = new_state(&h, 0);
  size_t before = 0, now = 0;
  int round;
  for (round = 1; round <= 10; round++) {
    if (luaL_dostring(L, code) != LUA_OK)
      report(0, "states", "growth", lua_tostring(L, -1));
    lua_settop(L, 0);
    now = in_use(L, &h);
    if (round == 4) before = now;
  }
  report(now <= before + 20000, "states", "growth", "there is more");
  close_state(L);
}

typedef struct arena {
  char *next;
  size_t left;
} arena;

/* Puts blocks one behind the other with nothing between, and frees none. */
static void *packed_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  arena *a = (arena *)ud;
  size_t size = (nsize + 7) / 8 * 8;
  char *fresh = a->next;
  if (nsize == 0 || size > a->left) return NULL;
  a->next += size;
  a->left -= size;
  if (ptr != NULL) memcpy(fresh, ptr, (osize < nsize) ? osize : nsize);
  return fresh;
}

/* A userdata without contents has the address of what comes behind it. */
static void try_packed(void) {
  static char memory[4 << 20];
  arena a = {memory, sizeof(memory)};
  lua_State *L = new_lua(packed_alloc, &a);
  const void *behind;
  int ok;
  luaL_openlibs(L);
  preload(L);
  lua_newuserdatauv(L, 0, 0);
  lua_newtable(L);
  behind = lua_topointer(L, -1);
  report(lua_topointer(L, -2) == behind, "states", "packed", "not packed");
  lua_setglobal(L, "after");
  lua_setglobal(L, "empty");
  ok = luaL_dostring(L,
                     "local mw = require 'moonwatch'\n"
                     "assert(mw.id(empty) == 1 and mw.id(after) == 2)\n"
                     "assert(mw.id(empty) == 1)") == LUA_OK;
  report(ok, "states", "packed", lua_tostring(L, -1));
}

/* }====================================================== */

static int take_text(void *ud, const char *bytes, size_t n) {
  strncat((char *)ud, bytes, n);
  return 1;
}

/* A scope of C with one of Lua in it, in one trace. */
static void try_shared_trace(lua_State *L, mw_engine *e) {
  static const char begin[] = "trace = require 'moonwatch'.trace():start()";
  static const char inner[] =
      "local s <close> = require 'moonwatch'.timed 'of Lua'";
  char text[10000] = "";
  const char *outer, *within;
  uint64_t id;
  if (luaL_dostring(L, begin) != LUA_OK) abort();
  id = mw_trace_begin(e, 1, mw_trace_name(e, "of C", 4, 0), NULL, 0);
  if (luaL_dostring(L, inner) != LUA_OK) abort();
  mw_trace_end(e, id, NULL, 0);
  mw_trace_write(e, mw_trace_running(e), MW_CHROME, "main", take_text, text);
  outer = strstr(text, "of C");
  within = strstr(text, "of Lua");
  report(outer != NULL && within > outer && strstr(within, "of C") != NULL,
         "states", "shared", "the scopes are not one in the other");
}

/* A C program and Lua have one engine. */
static void try_shared(void) {
  static const char before[] = "require 'moonwatch'";
  static const char after[] = "return require 'moonwatch'.clock():now() == 1";
  heap h;
  lua_State *L = new_state(&h, 0);
  mw_engine *e;
  report(mw_lua_engine(L) == NULL, "states", "shared", "there is none yet");
  if (luaL_dostring(L, before) != LUA_OK) abort();
  e = mw_lua_engine(L);
  report(e != NULL && mw_clock_advance(e, MW_CLOCK) == 1, "states", "shared",
         "there is no engine");
  report(luaL_dostring(L, after) == LUA_OK && lua_toboolean(L, -1), "states",
         "shared", "it is another clock");
  try_shared_trace(L, e);
  close_state(L);
}

/* Is the scenario among the names, or are there none? */
static int is_wanted(int n, char **names, const char *scenario) {
  int i = 0;
  while (i < n && strcmp(names[i], scenario) != 0) i++;
  return i < n || n == 0;
}

/* Arguments are names of scenarios: only these then. */
int main(int argc, char **argv) {
  heap h;
  lua_State *L = new_state(&h, 0);
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1))
    if (is_wanted(argc - 1, argv + 1, lua_tostring(L, -2)))
      try_scenario(lua_tostring(L, -2));
  close_state(L);
  try_names();
  try_states();
  try_late_finaliser();
  try_growth();
  try_packed();
  try_shared();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
