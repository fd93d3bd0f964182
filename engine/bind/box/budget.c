/*
** budget.c - calls with bounded work and memory.
** SPDX-License-Identifier: MIT
**
**     state->box->budget --> budget of the running call --> outer --> ...
**
** A budget has VM instructions and bytes.  A count hook subtracts the
** instructions; each coroutine that the box resumes has the hook meanwhile.  An
** allocator counts the bytes that are allocated and not given back while the
** call runs, and refuses objects that are too much: then Lua collects garbage,
** tries again, and raises a memory error if that was no help.  For other blocks
** Lua may not try again, so these are granted up to twice as much, and at the
** next instruction the hook asks for an object.  Bytes cost instructions, too,
** so that a loop which makes garbage of long strings ends as soon as others.
**
** When a budget is spent, `pcall` and the like of the box raise again, and Lua
** calls the hook after each instruction, so that nothing else goes on either.
** But nothing stops a C function in its middle: a budget guards against
** mistakes.
**
** What the program's garbage gives back meanwhile counts as given back: nobody
** knows whose a block is.
**
** A string that Lua 5.5 makes in a buffer remembers the allocator, and may be
** the last thing to be freed.  So the limiting allocator belongs to the meter,
** which the library makes before all else, without a finaliser: Lua frees such
** values last, the oldest one after all others.
*/
#include "box.h"

#include <stdio.h>
#include <string.h>

/* Instructions between two calls of the hook. */
#define INTERVAL 100

/* Bytes that cost as much as an instruction. */
#define BYTES 256

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize);

mwb_budget *mwb_budget_of(lua_State *L) {
  void *ud;
  if (lua_getallocf(L, &ud) != limited_alloc) return NULL;
  return ((const mwb_meter *)ud)->budget;
}

const char *mwb_kind_of_box(lua_State *L) {
  const mwb_budget *b = mwb_budget_of(L);
  return (b != NULL && b->box->is_policy) ? "policy" : "sandbox";
}

/* {======================================================
** Places
** ======================================================= */

/* Chains of calls in the called chunk are looked at so far. */
#define MOST_LEVELS 50

/* The number of the outermost function on the stack. */
static int last_level(lua_State *L) {
  lua_Debug ar;
  int low = 0, high = 1;
  while (lua_getstack(L, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (low + 1 < high) {
    int middle = low + (high - low) / 2;
    if (lua_getstack(L, middle, &ar))
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Looks at the function at a level.  Is it in Lua? */
static int get_line(lua_State *L, int level, lua_Debug *ar) {
  return lua_getstack(L, level, ar) && lua_getinfo(L, "Sl", ar) &&
         ar->currentline > 0;
}

/* Notes the place of the running code: the line in the innermost function of
** the chunk that was called.  What that calls may be the program's, or the
** library's.  Needs no memory. */
static void find_place(mwb_budget *b) {
  lua_Debug outer, ar;
  int level = last_level(b->L), i;
  while (level >= 0 && !get_line(b->L, level, &outer)) level--;
  if (level < 0) return;
  for (i = 0; i < level && i < MOST_LEVELS; i++)
    if (get_line(b->L, i, &ar) && strcmp(ar.source, outer.source) == 0) break;
  if (i == level || i == MOST_LEVELS) ar = outer;
  snprintf(b->place, sizeof(b->place), "%s:%d: ", ar.short_src, ar.currentline);
}

void mwb_note_place(lua_State *L, mwb_budget *b) {
  lua_Debug ar;
  lua_getinfo(L, ">S", &ar);
  if (ar.linedefined > 0)
    snprintf(b->place, sizeof(b->place), "%s:%d: ", ar.short_src,
             ar.linedefined);
  else if (ar.linedefined == 0) /* a chunk */
    snprintf(b->place, sizeof(b->place), "%s: ", ar.short_src);
}

/* }====================================================== */

/* {======================================================
** Spending
** ======================================================= */

static void on_count(lua_State *L, lua_Debug *ar);

static void set_hook(lua_State *L, const mwb_budget *b) {
  int count = (b->left < INTERVAL) ? (int)b->left : INTERVAL;
  lua_sethook(L, on_count, LUA_MASKCOUNT,
              (b->spent || b->full || count < 1) ? 1 : count);
}

void mwb_push_spent(lua_State *L, const mwb_budget *b) {
  lua_pushfstring(L, "%sthe %s's budget of %s is spent", b->place,
                  b->box->is_policy ? "policy" : "sandbox",
                  (b->spent == MWB_MEMORY) ? "memory" : "instructions");
}

static void check_left(lua_State *L, mwb_budget *b) {
  if (b->left > 0 && !b->spent) return;
  if (!b->spent) find_place(b);
  if (!b->spent) b->spent = MWB_INSTRUCTIONS;
  set_hook(L, b);
  mwb_push_spent(L, b);
  lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  mwb_budget *b = mwb_budget_of(L);
  (void)ar;
  if (b == NULL) {
    lua_sethook(L, NULL, 0, 0); /* a coroutine that outlived the call */
    return;
  }
  b->left -= lua_gethookcount(L);
  check_left(L, b);
  if (b->full) {
    b->full = 0;
    lua_newuserdatauv(L, 0, 0);
    lua_pop(L, 1);
    set_hook(L, b);
  }
  if (b->left < INTERVAL) set_hook(L, b);
}

void mwb_pay(lua_State *L, lua_Integer instructions) {
  mwb_budget *b = mwb_budget_of(L);
  if (b == NULL) return;
  b->left -= instructions;
  check_left(L, b);
}

void mwb_note_failure(mwb_budget *b, int status) {
  if (status == LUA_ERRMEM && b->refused && !b->spent) b->spent = MWB_MEMORY;
}

void mwb_pass_spent(lua_State *L, int status) {
  mwb_budget *b = mwb_budget_of(L);
  if (b == NULL) return;
  mwb_note_failure(b, status);
  if (!b->spent) return;
  if (b->place[0] == '\0') find_place(b);
  set_hook(L, b);
  lua_error(L);
}

int mwb_resume(lua_State *co, lua_State *L, int n, int *results) {
  mwb_budget *b = mwb_budget_of(L);
  lua_Hook hook = lua_gethook(co);
  int mask = lua_gethookmask(co), count = lua_gethookcount(co), status;
  if (b == NULL) return lua_resume(co, L, n, results);
  b->L = co;
  set_hook(co, b);
  status = lua_resume(co, L, n, results);
  b->L = L;
  lua_sethook(co, hook, mask, count);
  return status;
}

/* }====================================================== */

/* {======================================================
** Memory
** ======================================================= */

/* What may still be allocated when the budget is spent: messages. */
#define SPARE 10000

/* May a block grow by `more` bytes?  It is the begin of an object, whose type
** is `osize`, or of another block (0), or `ptr`, which may be the stack: from
** 5.4.5 on nobody may look at the stack then.  In finalisers, which are the
** program's, nothing is refused. */
static int may_grow(mwb_budget *b, const void *ptr, size_t osize,
                    lua_Integer more) {
  lua_Integer most = b->box->bytes;
  if (more <= most - b->held) return 1;
  if (b->spent && more < SPARE) return 1;
  if (lua_gc(b->L, LUA_GCCOUNT) < 0) return 1;
  if ((ptr != NULL || osize == 0) && more - most <= most - b->held) {
    b->full = 1;
    set_hook(b->L, b);
    return 1;
  }
  if (ptr == NULL) find_place(b);
  b->refused = 1;
  return 0;
}

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  const mwb_meter *meter = (const mwb_meter *)ud;
  mwb_budget *b = meter->budget;
  lua_Integer more = (lua_Integer)nsize - (ptr ? (lua_Integer)osize : 0);
  void *block;
  if (b == NULL) return meter->alloc(meter->ud, ptr, osize, nsize);
  if (more > 0 && !may_grow(b, ptr, osize, more)) return NULL;
  block = meter->alloc(meter->ud, ptr, osize, nsize);
  if (block == NULL && nsize > 0) return NULL;
  if (more > 0) b->left -= (lua_Integer)(nsize / BYTES);
  b->held += more;
  if (b->held < 0) b->held = 0;
  if (b->held > b->peak) b->peak = b->held;
  return block;
}

/* }====================================================== */

/* {======================================================
** Begin and end
** ======================================================= */

void mwb_begin_budget(lua_State *L, mwb_state *s, const mwb_box *box,
                      lua_Integer instructions, mwb_budget *b) {
  memset(b, 0, sizeof(*b));
  b->state = s;
  b->box = box;
  b->outer = s->box->budget;
  b->L = L;
  b->given = b->left = instructions;
  if (b->outer == NULL) {
    s->box->meter->alloc = lua_getallocf(L, &s->box->meter->ud);
    lua_setallocf(L, limited_alloc, s->box->meter);
  }
  s->box->budget = s->box->meter->budget = b;
  set_hook(L, b);
}

lua_Integer mwb_used(const mwb_budget *b) {
  return (b->left > 0) ? b->given - b->left : b->given;
}

/* The call around this one pays, too. */
void mwb_end_budget(mwb_budget *b) {
  mwb_budget *outer = b->outer;
  mwb_meter *meter = b->state->box->meter;
  b->state->box->budget = meter->budget = outer;
  if (outer == NULL) {
    lua_setallocf(b->L, meter->alloc, meter->ud);
    return;
  }
  outer->left -= mwb_used(b);
  outer->held += b->held;
  if (outer->held > outer->peak) outer->peak = outer->held;
}

/* The hook's count begins anew after the function, so the pause costs what may
** not have been counted. */
int mwb_pcall_paused(lua_State *L, mwb_state *s, int args, int results,
                     int handler) {
  mwb_budget *b = s->box->budget;
  int status, hooked = lua_gethook(L) == on_count;
  b->left -= INTERVAL;
  lua_setallocf(L, s->box->meter->alloc, s->box->meter->ud);
  if (hooked) lua_sethook(L, NULL, 0, 0);
  s->box->budget = s->box->meter->budget = NULL;
  status = lua_pcall(L, args, results, handler);
  s->box->budget = s->box->meter->budget = b;
  if (hooked) set_hook(L, b);
  lua_setallocf(L, limited_alloc, s->box->meter);
  return status;
}

/* }====================================================== */
