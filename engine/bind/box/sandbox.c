/*
** sandbox.c - boxes: code that may use so much, and has globals of its own.
** SPDX-License-Identifier: MIT
**
**     box (userdata, mwb_box) --> a thread, in which the code runs
**                             --> its globals (lua/moonwatch/sandbox.lua)
**
** Code runs in the box's own thread, with a budget (budget.c): the thread has
** no hook of the program's.  A call while another call of the box runs gets a
** thread of its own.  A file of a policy is a box, too.
**
** The functions of a box that stand for Lua's are here, as far as they keep to
** the budget, and in view.c.
*/
#include "box.h"

#include <string.h>

#include "../base/base.h"

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
  if (thread != NULL && !box->busy) {
    lua_getiuservalue(L, 1, THREAD);
    return thread;
  }
  thread = lua_newthread(L);
  if (!box->busy) {
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
    return luaL_error(L, "no text");
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
  mwb_budget *b = mwb_budget_of(L);
  int status;
  luaL_checkstack(L, LUA_MINSTACK, "too many arguments");
  lua_pushvalue(L, 1);
  lua_insert(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  if (status != LUA_OK) {
    mwb_note_failure(b, status);
    if (b->spent && b->place[0] == '\0') {
      lua_pushvalue(L, 1);
      mwb_note_place(L, b);
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
  mwb_begin_budget(thread, s, box, instructions, &b);
  status = lua_resume(thread, L, n + 1, &results);
  mwb_end_budget(&b);
  box->busy = busy;
  box->used = mwb_used(&b);
  box->peak = b.peak;
  mwb_note_failure(&b, status);
  if (status != LUA_OK && !busy) box->thread = NULL; /* the thread is dead */
  results = (status == LUA_OK) ? lua_gettop(thread) : 0;
  if (results > 0 && !b.spent && lua_checkstack(L, results + 1)) {
    lua_xmove(thread, L, results);
    return results;
  }
  lua_pushboolean(L, 0);
  if (b.spent)
    mwb_push_spent(L, &b);
  else if (status != LUA_OK)
    lua_xmove(thread, L, 1);
  else
    lua_pushstring(L, results ? "too many results" : "the call was closed");
  if (status == LUA_OK) lua_settop(thread, 0);
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
  if (scan != box->scan) box->left = box->instructions;
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
  mwb_budget *b = mwb_budget_of(L);
  const char *text, *name = lua_tostring(L, 2);
  size_t len;
  int status;
  text = lua_tolstring(L, 1, &len);
  if (luaL_loadbufferx(L, "", 0, name, "t") != LUA_OK) return lua_error(L);
  mwb_note_place(L, b);
  mwb_pay(L, (lua_Integer)len);
  status = luaL_loadbufferx(L, text, len, name, "t");
  mwb_note_failure(b, status);
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
    if (lua_isnil(L, 3)) lua_copy(L, 2, 3);
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
  mwb_pay(L, bytes);
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
  if (lua_gettop(L) == lua_tointeger(L, lua_upvalueindex(2)) &&
      lua_istable(L, 1) && lua_isinteger(L, 2)) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1) - lua_tointeger(L, 2);
    if (n > 0) mwb_pay(L, n / MOVES);
  }
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* moving(function of Lua's, arguments) -> the same for boxes: elements that it
** moves cost instructions */
static int moving(lua_State *L) {
  lua_settop(L, 2);
  if (lua_tocfunction(L, 1) != NULL)
    lua_pushcclosure(L, give_move, 2);
  else
    lua_settop(L, 1);
  return 1;
}

static int after_pcall(lua_State *L, int status, lua_KContext extra) {
  if (status == LUA_OK || status == LUA_YIELD)
    return lua_gettop(L) - (int)extra;
  mwb_pass_spent(L, status);
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
  const mwb_budget *b = mwb_budget_of(L);
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

/* Resumes a coroutine with the `n` values on the top.  Returns the number of
** results, or -status: an error is on the top, and the coroutine is closed if
** it `closes`. */
static int resume(lua_State *L, lua_State *co, int n, int closes) {
  mwb_budget *b = mwb_budget_of(L);
  int status, results = 0;
  mwb_pay(L, RESUMING);
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -LUA_ERRRUN;
  }
  lua_xmove(L, co, n);
  status = mwb_resume(co, L, n, &results);
  if (status != LUA_OK && status != LUA_YIELD) {
    if (b != NULL) mwb_note_failure(b, status);
    if (closes && !(b != NULL && b->spent)) lua_closethread(co, L);
    lua_xmove(co, L, 1);
    mwb_pass_spent(L, status);
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
  if (n < 0) n = 1;
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
