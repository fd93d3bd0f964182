/*
** budget.c - calls with bounded work and memory.
** SPDX-License-Identifier: MIT
**
** A budget has VM instructions and bytes.  A count hook subtracts the
** instructions, an allocator the bytes; both are in force for a call.  Why no
** code outlasts the budget:
**
** - C functions.  Code in a box has its own versions of Lua's functions
**   (world.c and the files beside it), which pay for their work before they do
**   it, or step by step.
** - Instructions that take long: to compare long strings, to read a long
**   numeral, to follow a chain of `__index` or `__call`, to count the fields of
**   a large table.  The hook looks at the clock, and time is paid for: whatever
**   takes SLOW times as long as an instruction of an endless loop costs an
**   instruction.  So all that runs between two looks, and is not paid for
**   otherwise, takes SLOW times as long as an endless loop at most.
** - The time between two looks: MWB_INTERVAL instructions.  An instruction can
**   take long only with long data, and the allocator sees these: the longer the
**   longest string and the larger the stack (of which a chain of `__call` takes
**   the square), the fewer instructions between two looks.  The largest stack
**   is bounded.  Data of the program's are bounded by the program.
** - What catches errors: code in a box has its own `pcall` and its own
**   coroutines, which raise again once the budget is spent.  Then Lua calls the
**   hook after each instruction, so that nothing else goes on either.
**
** Time is that of a clock which is cheap to read and goes on while other
** programs run; when time seems to be lost, the processor's time counts from
** there on.
**
** `held` is what Lua's memory has grown since the budget was filled, and what
** the program's garbage gave back in between counts as well.  When more is held
** than allowed, a collection may help, if there are enough instructions to pay
** for it.
**
** What calls leave behind counts in later calls: see kept.c.
**
** A string that Lua 5.5 makes in a buffer remembers the allocator, and may be
** the last thing to be freed.  So the limiting allocator belongs to the meter,
** which the library makes before all else, without a finaliser: Lua frees such
** values last, the oldest one after all others.
*/
#include "budget.h"

#include <string.h>

#include "kept.h"
#include "os.h"

/* How many instructions between two looks a call of a C function counts for. */
#define CALL 12

#define SLOW 16

/* Time that may be lost before the processor's time counts, in nanoseconds. */
#define MOST_LATE 2000000

/* Bytes of a string, and of a stack, with which MWB_INTERVAL instructions do
** not take too long; and of the largest stack. */
#define LONG_STRING (256 * 1024)
#define LONG_STACK (24 * 1024)
#define LONGEST_STACK (96 * 1024)

/* Bytes of the heap that a collection goes through for an instruction. */
#define COLLECTED 64

/* {======================================================
** Spending
** ======================================================= */

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize);

mwb_budget *mwb_budget_of(lua_State *L) {
  void *ud;
  if (lua_getallocf(L, &ud) != limited_alloc) return NULL;
  return ((const mwb_meter *)ud)->budget;
}

static void on_count(lua_State *L, lua_Debug *ar);

static void set_hook(lua_State *L, int count) {
  lua_sethook(L, on_count, LUA_MASKCOUNT, count);
}

int mwb_is_in_box(lua_State *L, const mwb_box *box, int level,
                  mwb_line *place) {
  lua_Debug ar;
  unsigned i;
  if (!lua_getstack(L, level, &ar) || !lua_getinfo(L, "Sl", &ar) ||
      ar.currentline < 0)
    return 0;
  strcpy(place->source, ar.short_src);
  place->line = ar.currentline;
  for (i = 0; i < MWB_CHUNKS && i < box->n_chunks; i++)
    if (strcmp(box->chunks[i], ar.short_src) == 0) return 1;
  return 0;
}

/* Notes where the budget was spent: in the innermost function of the box's own
** chunks, or else in the outermost function.  Needs no memory. */
static void find_place(mwb_budget *b) {
  lua_Debug ar;
  int level;
  for (level = 0; lua_getstack(b->L, level, &ar); level++)
    if (mwb_is_in_box(b->L, b->box, level, &b->place)) break;
}

/* The same later, when the functions of the box may have ended. */
static void find_place_in_box(mwb_budget *b) {
  lua_Debug ar;
  int level;
  for (level = 0; lua_getstack(b->L, level, &ar); level++)
    if (mwb_is_in_box(b->L, b->box, level, &b->place)) return;
  b->place.line = 0;
}

/* Notes what is spent, and where. */
static void set_spent(mwb_budget *b, int what) {
  if (b->spent) return;
  b->spent = what;
  find_place(b);
  set_hook(b->L, 1);
}

/* The same in the allocator.  A block that changes its size may be the stack:
** from 5.4.5 on nobody may look at the stack then, and the next new or free
** block, or the next instruction, finds the place. */
static void set_spent_by(mwb_budget *b, const void *block) {
  if (b->spent) return;
  b->spent = MWB_MEMORY;
  if (block == NULL || LUA_VERSION_RELEASE_NUM < 50405) find_place(b);
  set_hook(b->L, 1);
}

void mwb_spend(mwb_budget *b, lua_Number n) {
  lua_Integer cost = b->instructions;
  if (n < (lua_Number)cost) cost = (lua_Integer)n;
  b->instructions -= cost;
  b->used += cost;
  if (b->instructions <= 0) set_spent(b, MWB_INSTRUCTIONS);
}

void mwb_push_spent(lua_State *L, const mwb_budget *b) {
  const char *what = (b->spent == MWB_MEMORY) ? "memory" : "instructions";
  if (b->place.line > 0)
    lua_pushfstring(L, "%s:%d: ", b->place.source, b->place.line);
  else
    lua_pushliteral(L, "");
  lua_pushfstring(L, "the %s's budget of %s is spent", b->box->kind, what);
  lua_concat(L, 2);
}

static int overspent(lua_State *L, mwb_budget *b) {
  set_hook(L, 1);
  if (b->place.line == 0) find_place_in_box(b);
  mwb_push_spent(L, b);
  return lua_error(L);
}

void mwb_pass_spent(lua_State *L) {
  const mwb_budget *b = mwb_budget_of(L);
  if (b == NULL || !b->spent) return;
  set_hook(L, 1);
  lua_error(L);
}

/* }====================================================== */

/* {======================================================
** Time
** ======================================================= */

/* Looks at the clock, and charges for time that the instructions since the last
** look do not explain. */
static void look(mwb_budget *b) {
  int64_t now = b->by_cpu ? mwb_os_cpu() : mwb_os_now();
  int64_t paid = b->since * b->state->pace;
  int64_t passed = (b->last != 0) ? now - b->last : 0;
  b->last = now;
  b->since = b->near = 0;
  if (passed <= paid) return;
  if (b->by_cpu) {
    mwb_spend(b, (lua_Number)((passed - paid) / b->state->pace));
  } else if ((b->late += passed - paid) > MOST_LATE) {
    b->by_cpu = 1;
    b->last = mwb_os_cpu();
  }
}

/* Collects garbage if more is held than allowed: the young, where the collector
** is generational, or else all, which is paid for. */
static void relieve(lua_State *L, mwb_budget *b) {
  lua_Integer cost = (lua_Integer)lua_gc(L, LUA_GCCOUNT) * (1024 / COLLECTED);
  if (b->held > b->bytes) lua_gc(L, LUA_GCSTEP, 0);
  if (b->held > b->bytes && cost < b->instructions) {
    mwb_spend(b, (lua_Number)cost);
    b->since += cost;
    lua_gc(L, LUA_GCCOLLECT);
  }
  if (b->held > b->bytes) set_spent(b, MWB_MEMORY);
  b->full = 0;
}

static void check_spent(lua_State *L, mwb_budget *b) {
  if (b->full && !b->spent) relieve(L, b);
  if (b->spent) overspent(L, b);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  mwb_budget *b = mwb_budget_of(L);
  int count = lua_gethookcount(L);
  (void)ar;
  if (b == NULL) {
    lua_sethook(L, NULL, 0, 0); /* a coroutine that outlived the call */
    return;
  }
  mwb_spend(b, count);
  b->since += count;
  look(b);
  check_spent(L, b);
  if (count != b->box->interval) set_hook(L, b->box->interval);
}

void mwb_need_bytes(lua_State *L, lua_Number bytes) {
  mwb_budget *b = mwb_budget_of(L);
  if (b == NULL || !(bytes > (lua_Number)b->bytes)) return;
  set_spent(b, MWB_MEMORY);
  overspent(L, b);
}

/* Is a finaliser running?  Then `lua_gc` returns -1. */
static int in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT) < 0; }

void mwb_pay(lua_State *L, lua_Number instructions) {
  mwb_budget *b = mwb_budget_of(L);
  if (b == NULL || in_finaliser(L)) return;
  if (!(instructions > 0)) instructions = 0;
  mwb_spend(b, instructions);
  if (!b->spent) {
    b->since += (lua_Integer)instructions; /* fewer than were left */
    b->near += (lua_Integer)instructions + CALL;
    if (b->near >= b->box->interval) look(b);
  }
  check_spent(L, b);
}

/* }====================================================== */

/* {======================================================
** Memory
** ======================================================= */

/* Makes looks more frequent for data of this size.  The time of an instruction
** grows with its square if `square`. */
static void shorten(mwb_budget *b, size_t size, size_t unit, int square) {
  size_t times = size / unit + 1;
  if (square) times *= times;
  times = (times < MWB_INTERVAL) ? MWB_INTERVAL / times : 1;
  if ((size_t)b->box->interval <= times) return;
  b->box->interval = (int)times;
  set_hook(b->L, (int)times);
}

/* Lua 5.4 doubles a stack, of which 5 slots of 16 bytes are extra: Lua takes
** the new block, and frees the old one.  This tells stacks from other blocks.
** (Later versions bound the chains of `__call`, so large stacks are harmless.)
*/
static void look_for_stack(mwb_budget *b, const void *block, size_t osize) {
  size_t size = b->block;
  if (size + 80 != 2 * osize) return;
  b->block = 0;
  if (size > LONG_STACK) shorten(b, size, LONG_STACK, 1);
  if (size > LONGEST_STACK) set_spent_by(b, block);
}

/* May the program have `more` bytes for a block, then of `size` bytes?  What
** exceeds the budget is granted, and the next instruction collects garbage or
** ends the call: if the allocation were refused, Lua would first collect all
** garbage.  What exceeds the budget by far is refused. */
static int may_grow(mwb_budget *b, const void *block, lua_Integer more,
                    size_t size) {
  lua_Integer room = b->bytes - b->held;
  if (size > LONG_STRING) shorten(b, size, LONG_STRING, 0);
  if (b->spent ? size > LONG_STACK
               : more > b->bytes || more > room + b->bytes + LONGEST_STACK) {
    set_spent_by(b, block);
    return 0;
  }
  if (more > room && !b->full) {
    b->full = 1;
    set_hook(b->L, 1);
  }
  return 1;
}

/* Tells the record of what the box keeps of a block that becomes one of `nsize`
** bytes at `ptr`.  What the box has kept and is freed makes room. */
static void note_block(mwb_budget *b, const void *former, const void *ptr,
                       size_t osize, size_t nsize) {
  mwb_kept *kept = b->box->kept;
  size_t had = (former == NULL) ? 0 : osize;
  if (kept == NULL) return;
  if (nsize > had) kept->grown += (lua_Integer)(nsize - had);
  if (former != NULL) {
    lua_Integer bytes = mwb_note_freed(kept, former);
    b->bytes += bytes;
    b->held += bytes;
  }
  if (nsize > 0)
    mwb_note_made(kept, ptr, (former == NULL) ? osize : LUA_TNIL, nsize);
}

/* Subtracts an allocation from the budget; not in a finaliser, because
** finalisers are the program's own code. */
static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  const mwb_meter *meter = (const mwb_meter *)ud;
  mwb_budget *b = meter->budget;
  size_t had = (ptr == NULL) ? 0 : osize;
  const void *former = ptr;
  int counts = b != NULL && nsize != had && !in_finaliser(b->L);
  if (counts && nsize > had) {
    if (ptr != NULL || osize == 0) b->block = nsize;
    if (!may_grow(b, ptr, (lua_Integer)(nsize - had), nsize)) return NULL;
  }
  if (counts && b->spent && b->place.line == 0 && (ptr == NULL || nsize == 0))
    find_place_in_box(b);
  if (counts && had > LONG_STACK / 2) look_for_stack(b, ptr, had);
  ptr = meter->alloc(meter->ud, ptr, osize, nsize);
  if (b == NULL) return ptr;
  if (ptr == NULL && nsize > 0)
    b->starved = 1;
  else if (counts) {
    note_block(b, former, ptr, osize, nsize);
    b->held += (lua_Integer)nsize - (lua_Integer)had;
  }
  if (b->held < 0) b->held = 0;
  if (b->held > b->peak) b->peak = b->held;
  return ptr;
}

/* }====================================================== */

/* {======================================================
** Begin and end
** ======================================================= */

void mwb_fill_budget(mwb_budget *b, lua_Integer instructions,
                     lua_Integer bytes) {
  const mwb_kept *kept = b->box->kept;
  lua_Integer room = b->box->most - ((kept == NULL) ? 0 : kept->bytes);
  b->instructions = instructions;
  b->bytes = (room < 0) ? 0 : (room < bytes) ? room : bytes;
  b->held = 0;
  b->full = b->spent = 0;
  b->place.line = 0;
}

void mwb_begin_budget(lua_State *L, mwb_state *s, mwb_box *box, mwb_budget *b) {
  b->state = s;
  b->box = box;
  b->outer = s->budget;
  b->L = L;
  b->used = b->peak = 0;
  b->since = b->near = 0;
  b->last = b->late = 0;
  b->by_cpu = b->starved = 0;
  b->block = 0;
  mwb_fill_budget(b, box->instructions, box->bytes);
  if (b->outer == NULL) {
    s->meter->alloc = lua_getallocf(L, &s->meter->ud);
    lua_setallocf(L, limited_alloc, s->meter);
  }
  s->budget = s->meter->budget = b;
  set_hook(L, box->interval);
}

void mwb_end_budget(mwb_budget *b) {
  mwb_budget *outer = b->outer;
  mwb_meter *meter = b->state->meter;
  b->state->budget = meter->budget = outer;
  if (outer == NULL) {
    lua_setallocf(b->L, meter->alloc, meter->ud);
    return;
  }
  outer->held += b->held;
  if (outer->held > outer->bytes) outer->full = 1;
  mwb_spend(outer, (lua_Number)b->used + 1);
  if (outer->full) set_hook(outer->L, 1);
}

int mwb_refuse_finaliser(lua_State *L) {
  if (!in_finaliser(L)) return 0;
  lua_pushliteral(L, "policies are not asked by finalisers");
  return 1;
}

void mwb_swap_strings(lua_State *L) {
  lua_pushliteral(L, "");
  if (!lua_getmetatable(L, -1)) lua_pushnil(L);
  lua_insert(L, -3); /* former, new, "" */
  lua_insert(L, -2); /* former, "", new */
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/* A guard that a box's write calls costs the box this much, whatever the guard
** does: what the library does for the call, and the instructions since the hook
** was called. */
#define PAUSE 100

int mwb_pcall_paused(lua_State *L, mwb_state *s, int args, int results,
                     int handler) {
  mwb_budget *b = s->budget, *each;
  int status, strings, count = lua_gethookcount(L);
  int hooked = lua_gethook(L) == on_count;
  if (in_finaliser(L) || !lua_checkstack(L, 4))
    return lua_pcall(L, args, results, handler);
  mwb_spend(b, PAUSE);
  lua_setallocf(L, s->meter->alloc, s->meter->ud);
  if (hooked) lua_sethook(L, NULL, 0, 0);
  s->budget = s->meter->budget = NULL;
  strings = lua_gettop(L) - args;
  mwb_push(L, s, MWB_STRINGMETA);
  mwb_swap_strings(L);
  lua_insert(L, strings); /* below the function */
  status = lua_pcall(L, args, results, handler);
  lua_pushvalue(L, strings);
  mwb_swap_strings(L);
  lua_pop(L, 1);
  lua_remove(L, strings);
  s->budget = s->meter->budget = b;
  if (hooked) set_hook(L, b->spent ? 1 : count); /* the count restarts */
  lua_setallocf(L, limited_alloc, s->meter);
  for (each = b; each != NULL; each = each->outer) each->last = 0;
  return status;
}

/* }====================================================== */

/* {======================================================
** The pace
** ======================================================= */

#define LOOPS 5
#define LOOP_INSTRUCTIONS 20000

/* Leaves the program's hook and memory alone: the loop runs in the box. */
void mwb_measure_pace(lua_State *L, mwb_state *s, mwb_box *box) {
  int64_t least = INT64_MAX;
  int i;
  if (s->pace != 0) return;
  if (luaL_loadstring(L, "while true do end") != LUA_OK) lua_error(L);
  luaL_checkstack(box->thread, LUA_MINSTACK, NULL);
  for (i = 0; i < LOOPS; i++) {
    mwb_budget b;
    int64_t begun;
    s->pace = INT32_MAX;
    lua_pushvalue(L, -1);
    lua_xmove(L, box->thread, 1);
    mwb_begin_budget(box->thread, s, box, &b);
    mwb_fill_budget(&b, LOOP_INSTRUCTIONS, box->bytes);
    begun = mwb_os_now();
    lua_pcall(box->thread, 0, 0, 0);
    begun = mwb_os_now() - begun;
    mwb_end_budget(&b);
    lua_settop(box->thread, 0);
    if (b.spent == MWB_INSTRUCTIONS && begun < least) least = begun;
  }
  s->pace = (least == INT64_MAX) ? 0 : SLOW * least / LOOP_INSTRUCTIONS + 1;
  if (s->pace == 0) mwb_check(L, MW_NOMEM);
  lua_pop(L, 1);
}

/* }====================================================== */
