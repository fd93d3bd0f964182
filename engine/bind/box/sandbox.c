/*
** sandbox.c - boxes: code that may use so much, and has globals of its own.
** SPDX-License-Identifier: MIT
**
**     box (userdata) --> a thread, in which the code runs
**                    --> its globals (lua/moonwatch/sandbox.lua)
**     state->box->budget --> budget of the running call --> outer --> ...
**
** Code runs in the box's own thread: the thread has no hook of the program's.
** A call while another call of the box runs gets a thread of its own.  A file
** of a policy is a box, too.
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
**
** The functions of a box that stand for Lua's are here, as far as they keep to
** the budget, and in view.c.
*/
#include "box.h"

#include <stdio.h>
#include <string.h>

#include "../base/base.h"

/* Where bounded calls run. */
typedef struct mwb_box {
  lua_State *thread;
  int busy;                        /* does a call run in the thread? */
  int is_policy;                   /* is it that of a policy's file? */
  lua_Integer instructions, bytes; /* of a call */
  lua_Integer used, peak;          /* of the last call */
  lua_Integer scan, left; /* the last scan that has asked, and its budget */
} mwb_box;

/* What a running call may use. */
typedef struct mwb_budget {
  mwb_state *state;
  const mwb_box *box;
  struct mwb_budget *outer;    /* of the call around this one, or NULL */
  lua_State *L;                /* the coroutine that runs */
  lua_Integer given, left;     /* instructions */
  lua_Integer held, peak;      /* bytes that are held now; the most */
  int full;                    /* has a block been granted that was too much? */
  int refused;                 /* has an allocation been refused? */
  int spent;                   /* MWB_INSTRUCTIONS, MWB_MEMORY, or 0 */
  char place[LUA_IDSIZE + 24]; /* where that was, "file:line: ", or "" */
} mwb_budget;

enum { MWB_INSTRUCTIONS = 1, MWB_MEMORY };

/* Instructions between two calls of the hook. */
#define INTERVAL 100

/* Bytes that cost as much as an instruction. */
#define BYTES 256

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize);

static mwb_budget *budget_of(lua_State *L) {
  void *ud;
  if (lua_getallocf(L, &ud) != limited_alloc) return NULL; /* no budget? */
  return ((const mwb_meter *)ud)->budget;
}

static const char *kind_of(const mwb_budget *b) {
  return (b != NULL && b->box->is_policy) ? "policy" : "sandbox";
}

const char *mwb_kind_of_box(lua_State *L) { return kind_of(budget_of(L)); }

int mwb_in_policy(const mwb_state *s) {
  return s->box->budget != NULL && s->box->budget->box->is_policy;
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
         ar->currentline > 0; /* C has none */
}

/* Notes the place of the running code: the line in the innermost function of
** the chunk that was called.  What that calls may be the program's, or the
** library's.  Needs no memory. */
static void find_place(mwb_budget *b) {
  lua_Debug outer, ar;
  int level = last_level(b->L), i;
  while (level >= 0 && !get_line(b->L, level, &outer)) level--; /* in C? */
  if (level < 0) return; /* no function in Lua runs */
  for (i = 0; i < level && i < MOST_LEVELS; i++)
    if (get_line(b->L, i, &ar) && strcmp(ar.source, outer.source) == 0) break;
  if (i == level || i == MOST_LEVELS) ar = outer; /* none further in? */
  snprintf(b->place, sizeof(b->place), "%s:%d: ", ar.short_src, ar.currentline);
}

static void note_place(lua_State *L, mwb_budget *b) {
  lua_Debug ar;
  lua_getinfo(L, ">S", &ar);
  if (ar.linedefined > 0) /* a function in Lua? */
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
              (b->spent || b->full || count < 1) ? 1 : count); /* at once? */
}

static void push_spent(lua_State *L, const mwb_budget *b) {
  lua_pushfstring(L, "%sthe %s's budget of %s is spent", b->place, kind_of(b),
                  (b->spent == MWB_MEMORY) ? "memory" : "instructions");
}

static void check_left(lua_State *L, mwb_budget *b) {
  if (b->left > 0 && !b->spent) return;
  if (!b->spent) find_place(b); /* is it spent just now? */
  if (!b->spent) b->spent = MWB_INSTRUCTIONS;
  set_hook(L, b);
  push_spent(L, b);
  lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  mwb_budget *b = budget_of(L);
  (void)ar;
  if (b == NULL) {
    lua_sethook(L, NULL, 0, 0); /* a coroutine that outlived the call */
    return;
  }
  b->left -= lua_gethookcount(L);
  check_left(L, b);
  if (b->full) { /* has too much been granted meanwhile? */
    b->full = 0;
    lua_newuserdatauv(L, 0, 0);
    lua_pop(L, 1);
    set_hook(L, b);
  }
  if (b->left < INTERVAL) set_hook(L, b); /* are few left? */
}

static void pay(lua_State *L, lua_Integer instructions) {
  mwb_budget *b = budget_of(L);
  if (b == NULL) return; /* called outside a budget */
  b->left -= instructions;
  check_left(L, b);
}

static void note_failure(mwb_budget *b, int status) {
  if (status == LUA_ERRMEM && b->refused && !b->spent) b->spent = MWB_MEMORY;
}

static void pass_spent(lua_State *L, int status) {
  mwb_budget *b = budget_of(L);
  if (b == NULL) return; /* likewise */
  note_failure(b, status);
  if (!b->spent) return;                  /* an error of the code's own */
  if (b->place[0] == '\0') find_place(b); /* not known yet? */
  set_hook(L, b);
  lua_error(L);
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
  if (b->spent && more < SPARE) return 1;      /* a message? */
  if (lua_gc(b->L, LUA_GCCOUNT) < 0) return 1; /* in a finaliser? */
  if ((ptr != NULL || osize == 0) && more - most <= most - b->held) {
    b->full = 1; /* no object, and not twice the budget */
    set_hook(b->L, b);
    return 1;
  }
  if (ptr == NULL) find_place(b); /* or may it be the stack? */
  b->refused = 1;
  return 0;
}

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  const mwb_meter *meter = (const mwb_meter *)ud;
  mwb_budget *b = meter->budget;
  lua_Integer more = (lua_Integer)nsize - (ptr ? (lua_Integer)osize : 0);
  void *block;
  if (b == NULL) return meter->alloc(meter->ud, ptr, osize, nsize);
  if (more > 0 && !may_grow(b, ptr, osize, more)) return NULL; /* too much */
  block = meter->alloc(meter->ud, ptr, osize, nsize);
  if (block == NULL && nsize > 0) return NULL; /* is there really none? */
  if (more > 0) b->left -= (lua_Integer)(nsize / BYTES);
  b->held += more;
  if (b->held < 0) b->held = 0; /* was garbage of the program's freed? */
  if (b->held > b->peak) b->peak = b->held;
  return block;
}

/* }====================================================== */

/* {======================================================
** Begin and end
** ======================================================= */

static void begin_budget(lua_State *L, mwb_state *s, const mwb_box *box,
                         lua_Integer instructions, mwb_budget *b) {
  memset(b, 0, sizeof(*b));
  b->state = s;
  b->box = box;
  b->outer = s->box->budget;
  b->L = L;
  b->given = b->left = instructions;
  if (b->outer == NULL) { /* does no box run yet? */
    s->box->meter->alloc = lua_getallocf(L, &s->box->meter->ud);
    lua_setallocf(L, limited_alloc, s->box->meter);
  }
  s->box->budget = s->box->meter->budget = b;
  set_hook(L, b);
}

static lua_Integer used_of(const mwb_budget *b) {
  return (b->left > 0) ? b->given - b->left : b->given;
}

/* The call around this one pays, too. */
static void end_budget(mwb_budget *b) {
  mwb_budget *outer = b->outer;
  mwb_meter *meter = b->state->box->meter;
  b->state->box->budget = meter->budget = outer;
  if (outer == NULL) {
    lua_setallocf(b->L, meter->alloc, meter->ud);
    return;
  }
  outer->left -= used_of(b);
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

/* The user values of a box. */
enum { THREAD = 1, WORLD, NAME };

/* Instructions that a coroutine costs which is resumed, beside its own. */
#define RESUMING 20

/* {======================================================
** Calls
** ======================================================= */

static mwb_box *check_self(lua_State *L, const mwb_state *s, const char *name) {
  return (mwb_box *)mwb_check_self(L, s, name, MWB_SANDBOX, "sandbox");
}

/* Pushes the thread for a call of the box at 1, and returns it. */
static lua_State *push_thread(lua_State *L, mwb_box *box) {
  lua_State *thread = box->thread;
  if (thread != NULL && !box->busy) { /* can it be used again? */
    lua_getiuservalue(L, 1, THREAD);
    return thread;
  }
  thread = lua_newthread(L);
  if (!box->busy) { /* or is it for a call within a call? */
    box->thread = thread;
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, THREAD);
  }
  return thread;
}

/* error object -> its text, which has no address: the same error has the same
** text. */
static int to_text(lua_State *L) {
  if (lua_type(L, 1) != LUA_TNUMBER && !luaL_getmetafield(L, 1, "__tostring"))
    return luaL_error(L, "no text"); /* an address is none */
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Replaces the error object on the top by a text, which code of the box may
** make.  If that spends the budget, that is not what has failed. */
static void make_text(lua_State *L, mwb_budget *b) {
  int object = lua_gettop(L), spent = b->spent;
  if (lua_type(L, object) == LUA_TSTRING) return;
  lua_pushcfunction(L, to_text);
  lua_pushvalue(L, object);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK)
    lua_pushfstring(L, "(error object is a %s value)",
                    luaL_typename(L, object));
  b->spent = spent;
  lua_replace(L, object);
  lua_settop(L, object);
}

/* in the box: f, ... -> true, results, or false, a text.  Here code of the box
** cannot yield: there is nobody to resume. */
static int call_job(lua_State *L) {
  mwb_budget *b = budget_of(L);
  int status;
  luaL_checkstack(L, LUA_MINSTACK, "too many arguments");
  lua_pushvalue(L, 1);
  lua_insert(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  if (status != LUA_OK) {
    note_failure(b, status);
    if (b->spent && b->place[0] == '\0') { /* is its place unknown? */
      lua_pushvalue(L, 1);
      note_place(L, b);
    }
    make_text(L, b);
  }
  lua_pushboolean(L, status == LUA_OK);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* Calls the function below the `n` arguments on the top in the box at 1.
** Leaves true and the results, or false and a text, and returns how many. */
static int call_in_box(lua_State *L, mwb_state *s, lua_Integer instructions,
                       int n) {
  mwb_box *box = (mwb_box *)lua_touserdata(L, 1);
  int top = lua_gettop(L) - n - 1, busy = box->busy, status, results;
  lua_State *thread;
  mwb_budget b;
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a box");
  thread = push_thread(L, box);
  lua_insert(L, top + 1);
  if (!lua_checkstack(thread, n + LUA_MINSTACK))
    return luaL_error(L, "too many arguments");
  lua_pushcfunction(thread, call_job);
  lua_xmove(L, thread, n + 1);
  box->busy = 1;
  begin_budget(thread, s, box, instructions, &b);
  status = lua_resume(thread, L, n + 1, &results);
  end_budget(&b);
  box->busy = busy;
  box->used = used_of(&b);
  box->peak = b.peak;
  note_failure(&b, status);
  if (status != LUA_OK && !busy) box->thread = NULL; /* the thread is dead */
  results = (status == LUA_OK) ? lua_gettop(thread) : 0;
  if (results > 0 && !b.spent && lua_checkstack(L, results + 1)) {
    lua_xmove(thread, L, results);
    return results;
  }
  lua_pushboolean(L, 0);
  if (b.spent)
    push_spent(L, &b);
  else if (status != LUA_OK)
    lua_xmove(thread, L, 1);
  else
    lua_pushstring(L, results ? "too many results" : "the call was closed");
  if (status == LUA_OK) lua_settop(thread, 0); /* for the next call */
  return 2;
}

/* box:call(f, ...) */
static int box_call(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mwb_box *box = check_self(L, s, "call");
  if (!lua_isfunction(L, 2))
    return mwb_bad_argument(L, "call", 2, 1, "function");
  return call_in_box(L, s, box->instructions, lua_gettop(L) - 2);
}

/* call_in_scan(box, scan, f, ...): like box:call, but all calls of one scan
** have one budget of instructions */
static int call_in_scan(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_box *box = check_self(L, s, "call");
  lua_Integer scan = luaL_checkinteger(L, 2);
  int results;
  lua_remove(L, 2);
  if (scan != box->scan) box->left = box->instructions; /* a new one? */
  box->scan = scan;
  results = call_in_box(L, s, box->left, lua_gettop(L) - 2);
  box->left -= box->used;
  return results;
}

static int box_used(lua_State *L) {
  const mwb_box *box = check_self(L, mwb_enter(L), "used");
  lua_pushinteger(L, box->used);
  lua_pushinteger(L, box->peak);
  return 2;
}

/* }====================================================== */

/* {======================================================
** Loading
** ======================================================= */

/* in the box: text, name, globals -> function.  A byte of the text costs an
** instruction. */
static int load_job(lua_State *L) {
  mwb_budget *b = budget_of(L);
  const char *text, *name = lua_tostring(L, 2);
  size_t len;
  int status;
  text = lua_tolstring(L, 1, &len);
  if (luaL_loadbufferx(L, "", 0, name, "t") != LUA_OK) return lua_error(L);
  note_place(L, b);
  pay(L, (lua_Integer)len);
  status = luaL_loadbufferx(L, text, len, name, "t");
  note_failure(b, status);
  if (status != LUA_OK) return lua_error(L);
  lua_newuserdatauv(L, 0, 0); /* no hook has looked at the memory */
  lua_pop(L, 1);
  lua_pushvalue(L, 3);
  if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  return 1;
}

/* box:load(text[, chunkname]) */
static int box_load(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mwb_box *box = check_self(L, s, "load");
  if (lua_type(L, 2) != LUA_TSTRING)
    return mwb_bad_argument(L, "load", 2, 1, "string");
  if (!lua_isnoneornil(L, 3) && lua_type(L, 3) != LUA_TSTRING)
    return mwb_bad_argument(L, "load", 3, 2, "string");
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    lua_getiuservalue(L, 1, NAME);
    lua_replace(L, 3);
    if (lua_isnil(L, 3)) lua_copy(L, 2, 3); /* as `load` names it */
  }
  lua_pushcfunction(L, load_job);
  lua_insert(L, 2);
  lua_getiuservalue(L, 1, WORLD);
  call_in_box(L, s, box->instructions, 3);
  if (lua_toboolean(L, -2)) return 1;
  lua_pushnil(L);
  lua_replace(L, -3);
  return 2;
}

/* }====================================================== */

/* {======================================================
** Functions of code in a box
** ======================================================= */

/* Writes what the program's `print` writes; a byte costs an instruction. */
static int give_print(lua_State *L) {
  int i, n = lua_gettop(L);
  lua_Integer bytes = 1;
  for (i = 1; i <= n; i++) {
    luaL_tolstring(L, i, NULL);
    bytes += (lua_Integer)lua_rawlen(L, -1) + 1;
    lua_replace(L, i);
  }
  pay(L, bytes);
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  lua_call(L, n, 0);
  return 0;
}

/* Elements of a list that move for an instruction. */
#define MOVES 8

/* table.insert or table.remove at a place; the upvalues are Lua's function, and
** how many arguments it has then. */
static int give_move(lua_State *L) {
  if (lua_gettop(L) == lua_tointeger(L, lua_upvalueindex(2)) && /* a place? */
      lua_istable(L, 1) && lua_isinteger(L, 2)) { /* or an error of Lua's? */
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1) - lua_tointeger(L, 2);
    if (n > 0) pay(L, n / MOVES);
  }
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* moving(function of Lua's, arguments) -> the same for boxes: elements that it
** moves cost instructions */
static int moving(lua_State *L) {
  lua_settop(L, 2);
  if (lua_tocfunction(L, 1) != NULL && lua_getupvalue(L, 1, 1) == NULL)
    lua_pushcclosure(L, give_move, 2); /* Lua's own function */
  else
    lua_settop(L, 1);
  return 1;
}

static int after_pcall(lua_State *L, int status, lua_KContext extra) {
  if (status == LUA_OK || status == LUA_YIELD) /* returned, now or later? */
    return lua_gettop(L) - (int)extra;
  pass_spent(L, status);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int give_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  return after_pcall(
      L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after_pcall), 0);
}

/* The handler of an error, which is the upvalue, is not asked when the budget
** is spent: no hook counts then. */
static int handle_error(lua_State *L) {
  const mwb_budget *b = budget_of(L);
  if (b != NULL && b->spent) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

/* The stack: f, handler, true, f, ... */
static int give_xpcall(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, handle_error, 1);
  lua_replace(L, 2);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  return after_pcall(L, lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, after_pcall),
                     2);
}

#if LUA_VERSION_RELEASE_NUM < 50406
#define lua_closethread(co, from) lua_resetthread(co)
#endif

/* Resumes a coroutine, in which the budget's hook counts meanwhile, with `n`
** values on the top.  Returns the number of results, or -status: an error is on
** the top, and the coroutine is closed if it `closes`. */
static int resume(lua_State *L, lua_State *co, int n, int closes) {
  mwb_budget *b = budget_of(L);
  lua_Hook hook = lua_gethook(co);
  int mask = lua_gethookmask(co), count = lua_gethookcount(co);
  int status, results = 0;
  pay(L, RESUMING);
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -LUA_ERRRUN;
  }
  lua_xmove(L, co, n);
  if (b != NULL) {
    b->L = co;
    set_hook(co, b);
  }
  status = lua_resume(co, L, n, &results);
  if (b != NULL) {
    b->L = L;
    lua_sethook(co, hook, mask, count);
  }
  if (status != LUA_OK && status != LUA_YIELD) { /* has it raised? */
    if (b != NULL) note_failure(b, status);
    if (closes && !(b != NULL && b->spent)) lua_closethread(co, L);
    lua_xmove(co, L, 1);
    pass_spent(L, status);
    return -status;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -LUA_ERRRUN;
  }
  lua_xmove(co, L, results);
  return results;
}

static int give_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int n;
  luaL_argexpected(L, co != NULL, 1, "coroutine");
  n = resume(L, co, lua_gettop(L) - 1, 0);
  lua_pushboolean(L, n >= 0);
  if (n < 0) n = 1; /* the error */
  lua_insert(L, -n - 1);
  return n + 1;
}

/* The upvalue is the coroutine.  As from Lua's function, an error has the place
** of the call, but for a memory error. */
static int wrapped(lua_State *L) {
  int n = resume(L, lua_tothread(L, lua_upvalueindex(1)), lua_gettop(L), 1);
  if (n >= 0) return n;
  if (n != -LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int give_wrap(lua_State *L) {
  lua_State *co;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

/* }====================================================== */

/* {======================================================
** New boxes
** ======================================================= */

/* new_box(globals, instructions, bytes, name or nil, is_policy) -> box */
static int new_box(lua_State *L) {
  mwb_box *box;
  lua_settop(L, 5);
  box = (mwb_box *)lua_newuserdatauv(L, sizeof(mwb_box), NAME);
  memset(box, 0, sizeof(*box));
  box->is_policy = lua_toboolean(L, 5);
  box->instructions = luaL_checkinteger(L, 2);
  box->bytes = luaL_checkinteger(L, 3);
  mwb_push(L, mwb_state_of(L), MWB_SANDBOX);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, WORLD);
  if (!lua_isnil(L, 4)) {
    lua_pushfstring(L, "=%s", lua_tostring(L, 4));
    lua_setiuservalue(L, -2, NAME);
  }
  return 1;
}

void mwb_open_boxes(lua_State *L) {
  static const luaL_Reg functions[] = {{"new_box", new_box},
                                       {"call_in_scan", call_in_scan},
                                       {"moving", moving},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"load", box_load}, {"call", box_call}, {"used", box_used}, {NULL, NULL}};
  static const luaL_Reg given[] = {
      {"pcall", give_pcall},   {"xpcall", give_xpcall}, {"print", give_print},
      {"resume", give_resume}, {"wrap", give_wrap},     {NULL, NULL}};
  mwb_new_meta(L, MWB_SANDBOX, "sandbox", NULL, methods);
  mwb_set_funcs(L, functions);
  lua_newtable(L);
  mwb_set_funcs(L, given);
  lua_setfield(L, -2, "for_boxes");
}

/* }====================================================== */
