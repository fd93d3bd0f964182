/*
** budget.c - calls of people's own rules, with bounded work and memory.
** SPDX-License-Identifier: MIT
**
** A budget has VM instructions, which a count hook subtracts, and bytes, which
** an allocator subtracts.  Hook and allocator are set for a call, and
** afterwards the previous ones are set again.  Each allocation is subtracted
** and never given back, so the bytes bound the work of functions that make new
** strings or tables.  For C functions that make neither, the script's library
** (sandbox.lua) calls `charge`.
**
** Once the budget is spent, Lua calls the hook after each instruction, so no
** pcall can go on.  An allocation that exceeds the budget by a little is
** granted, and the next instruction ends the call: if the allocation were
** refused, Lua would first collect all garbage.  An allocation that exceeds the
** budget by far is refused.
**
** A string that Lua 5.5 makes in a buffer remembers the allocator, and may be
** the last thing to be freed.  So the limiting allocator belongs to the meter,
** which the library makes before all else, without a finaliser: Lua frees such
** values last, the oldest one after all others.
*/
#include "budget.h"

/* Instructions between two calls of the hook. */
#define INTERVAL 100

/* Bytes of the largest allocation.  An instruction that compares two longer
** strings could take too long. */
#define AT_ONCE 65536

/* The state, for a hook, which has no upvalues. */
static mwb_state *find_state(lua_State *L) {
  mwb_state *s;
  mwb_push_state(L);
  s = (mwb_state *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

static void on_count(lua_State *L, lua_Debug *ar);

/* Makes Lua call the hook after each instruction. */
static void tighten(lua_State *L) {
  lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
}

void mwb_push_spent(lua_State *L, const mwb_budget *b) {
  lua_pushfstring(L, "the policy's budget of %s is spent",
                  (b->bytes < 0) ? "memory" : "instructions");
}

/* Raises, with the position of the function at `level`; in a hook, the running
** function is level 0. */
static int overspent(lua_State *L, const mwb_budget *b, int level) {
  tighten(L);
  luaL_where(L, level);
  mwb_push_spent(L, b);
  lua_concat(L, 2);
  return lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  mwb_budget *b = find_state(L)->budget;
  (void)ar;
  if (b == NULL) {
    lua_sethook(L, NULL, 0, 0); /* a coroutine that outlived the call */
    return;
  }
  b->instructions -= INTERVAL;
  b->used += INTERVAL;
  if (mwb_is_spent(b)) overspent(L, b, 0);
}

/* Is a finaliser running?  Then `lua_gc` returns -1. */
static int in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT) < 0; }

/* Subtracts an allocation from the budget; not in a finaliser, because
** finalisers are the program's own code. */
static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  const mwb_meter *meter = (const mwb_meter *)ud;
  mwb_budget *b = meter->budget;
  size_t had = (ptr == NULL) ? 0 : osize;
  if (b != NULL && nsize > had && !in_finaliser(b->L)) {
    size_t more = nsize - had;
    int refused = more > AT_ONCE || b->bytes < -AT_ONCE;
    b->bytes = refused ? -1 - AT_ONCE : b->bytes - (lua_Integer)more;
    if (b->bytes < 0) tighten(b->L);
    if (refused) return NULL;
  }
  ptr = meter->alloc(meter->ud, ptr, osize, nsize);
  if (b != NULL && ptr == NULL && nsize > 0) b->starved = 1;
  return ptr;
}

void mwb_begin_budget(lua_State *L, mwb_state *s, mwb_budget *b) {
  b->L = L;
  b->state = s;
  b->outer = s->budget;
  b->used = 0;
  b->starved = 0;
  b->hook = lua_gethook(L);
  b->mask = lua_gethookmask(L);
  b->count = lua_gethookcount(L);
  if (b->outer == NULL) {
    s->meter->alloc = lua_getallocf(L, &s->meter->ud);
    lua_setallocf(L, limited_alloc, s->meter);
  }
  s->budget = s->meter->budget = b;
  lua_sethook(L, on_count, LUA_MASKCOUNT, INTERVAL);
}

void mwb_end_budget(mwb_budget *b) {
  mwb_meter *meter = b->state->meter;
  lua_sethook(b->L, b->hook, b->mask, b->count);
  b->state->budget = meter->budget = b->outer;
  if (b->outer == NULL) {
    lua_setallocf(b->L, meter->alloc, meter->ud);
    return;
  }
  b->outer->instructions -= b->used + INTERVAL; /* the count restarts */
  if (mwb_is_spent(b->outer)) tighten(b->L);
}

int mwb_refuse_finaliser(lua_State *L) {
  if (!in_finaliser(L)) return 0;
  lua_pushliteral(L, "policies are not asked by finalisers");
  return 1;
}

/* charge(n): subtracts n instructions from the budget, if a budget is in
** force */
static int charge(lua_State *L) {
  mwb_budget *b = mwb_state_of(L)->budget;
  lua_Number n = luaL_checknumber(L, 1);
  if (b == NULL || in_finaliser(L)) return 0;
  if (!(n < (lua_Number)b->instructions))
    b->instructions = 0;
  else
    b->instructions -= (lua_Integer)n;
  return mwb_is_spent(b) ? overspent(L, b, 1) : 0;
}

/* Needs no memory: Lua always has the string "__index". */
void mwb_swap_strings(lua_State *L, int methods) {
  int top = lua_gettop(L);
  lua_pushliteral(L, "__index");
  if (lua_getmetatable(L, top + 1)) {
    lua_pushvalue(L, top + 1);
    lua_rawget(L, top + 2);
    lua_pushvalue(L, top + 1);
    lua_pushvalue(L, methods);
    lua_rawset(L, top + 2);
    lua_replace(L, methods);
  }
  lua_settop(L, top);
}

/* limited(strings, instructions, bytes, f, ...) -> results like pcall's */
static int limited(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_budget b;
  int status;
  mwb_fill_budget(&b, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a policy");
  if (mwb_refuse_finaliser(L)) {
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
  }
  mwb_swap_strings(L, 1);
  mwb_begin_budget(L, s, &b);
  status = lua_pcall(L, lua_gettop(L) - 4, LUA_MULTRET, 0);
  mwb_end_budget(&b);
  mwb_swap_strings(L, 1);
  if (status == LUA_OK && mwb_is_spent(&b)) {
    lua_settop(L, 3);
    mwb_push_spent(L, &b);
    status = LUA_ERRRUN;
  }
  lua_pushboolean(L, status == LUA_OK);
  lua_replace(L, 3);
  return lua_gettop(L) - 2;
}

void mwb_open_budget(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"charge", charge}, {"limited", limited}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
