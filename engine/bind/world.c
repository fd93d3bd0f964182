/*
** world.c - the globals of code in a box.
** SPDX-License-Identifier: MIT
**
** A box has Lua's functions but for those that reach out of it (io, load,
** require, debug...).  Where a function can work long, the box has a function
** in its place that pays for the work: see world.h.  Raw functions see through
** views and watched objects.
*/
#include "world.h"

#include <string.h>

#include "key.h"
#include "sandbox.h"
#include "shadow.h"
#include "view.h"

/* A further upvalue of every function: the box's coroutines, as weak keys. */
#define UP_OWN lua_upvalueindex(5)

/* Pushes a function with the state, the objects and the `n` values on the top
** as upvalues. */
static void push_closure(lua_State *L, lua_CFunction f, int n) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_rotate(L, -n - 2, 2);
  lua_pushcclosure(L, f, n + 2);
}

/* {======================================================
** Paying
** ======================================================= */

int mwb_pass_on(lua_State *L) {
  if (lua_toboolean(L, MWB_UPPLAIN)) return lua_tocfunction(L, MWB_UPLUA)(L);
  lua_pushvalue(L, MWB_UPLUA);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

void mwb_pay_text(lua_State *L, int first) {
  lua_Number bytes = 0;
  int i;
  for (i = lua_gettop(L); i >= first; i--)
    if (lua_type(L, i) == LUA_TSTRING) bytes += (lua_Number)lua_rawlen(L, i);
  mwb_pay(L, bytes / MWB_STEP);
}

void mwb_pay_results(lua_State *L, lua_Integer n) {
  mwb_pay(L, (lua_Number)n);
  if (n > MWB_MOST_RESULTS) luaL_error(L, "too many results");
}

int mwb_pay_all(lua_State *L) {
  mwb_pay_text(L, 1);
  return mwb_pass_on(L);
}

int mwb_pay_rest(lua_State *L) {
  mwb_pay_text(L, 2);
  return mwb_pass_on(L);
}

/* }====================================================== */

/* {======================================================
** Tables, raw
** ======================================================= */

/* Replaces the table at 1 by what the table shows, or by its contents.  Returns
** whether the table is a view. */
static int see_through(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int is_view;
  if (!lua_getmetatable(L, 1)) return 0;
  lua_pop(L, 1);
  is_view = mwb_push_target(L, s, 1);
  if (is_view) lua_replace(L, 1);
  mwb_absorb(L, s, 1);
  if (mwb_push_shadow(L, 1)) lua_replace(L, 1);
  return is_view;
}

static int give_next(lua_State *L) {
  int is_view;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  mwb_pay(L, 1);
  is_view = see_through(L);
  if (!lua_next(L, 1)) {
    lua_pushnil(L);
    return 1;
  }
  if (is_view) mwb_show(L, mwb_state_of(L));
  return 2;
}

/* The upvalue is the box's `next`. */
static int give_pairs(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  mwb_pay(L, 1);
  mwb_push_class(L, 1); /* the program's, of a watched object */
  if (!lua_isnil(L, 2) && lua_istable(L, 2) &&
      mwb_raw_field(L, 2, "__pairs") != LUA_TNIL) {
    lua_pushvalue(L, 1);
    lua_call(L, 1, 3);
    return 3;
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int give_rawget(lua_State *L) {
  int is_view;
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  is_view = see_through(L);
  lua_rawget(L, 1);
  if (is_view) mwb_show(L, mwb_state_of(L));
  return 1;
}

static int give_rawlen(lua_State *L) {
  int type = lua_type(L, 1);
  luaL_argexpected(L, type == LUA_TTABLE || type == LUA_TSTRING, 1,
                   "table or string");
  if (type == LUA_TTABLE) see_through(L);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 1));
  return 1;
}

static int give_rawset(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (mwb_push_target(L, mwb_state_of(L), 1))
    return luaL_error(L, "this is read-only here");
  return mwb_pass_on(L);
}

/* }====================================================== */

/* {======================================================
** Metatables
** ======================================================= */

static const char *kind_of_box(lua_State *L) {
  const mwb_budget *b = mwb_budget_of(L);
  return (b == NULL) ? "sandbox" : b->box->kind;
}

/* No budget counts while finalisers and closers run. */
static int give_setmetatable(lua_State *L) {
  static const char *const names[] = {"__gc", "__close", "__mode"};
  int i;
  for (i = 0; i < 3 && lua_type(L, 2) == LUA_TTABLE; i++) {
    if (mwb_raw_field(L, 2, names[i]) != LUA_TNIL)
      return luaL_error(L, "a %s may not set '%s'", kind_of_box(L), names[i]);
    lua_pop(L, 1);
  }
  return mwb_pass_on(L);
}

/* The metatable of strings belongs to the whole program. */
static int give_getmetatable(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushboolean(L, 0);
    return 1;
  }
  mwb_push_class(L, 1);
  if (lua_istable(L, 2) && mwb_raw_field(L, 2, "__metatable") == LUA_TNIL)
    lua_pop(L, 1);
  return 1;
}

/* What the box's table of string functions does not have.  The methods that the
** program has added to its strings are for the program's own functions, which
** may be called meanwhile.  The upvalue is the program's metatable. */
static int other_method(lua_State *L) {
  const mwb_budget *b = mwb_budget_of(L);
  mwb_line place;
  lua_settop(L, 2);
  if (b == NULL || lua_isnil(L, lua_upvalueindex(3)) ||
      mwb_is_in_box(L, b->box, 1, &place))
    return 0;
  lua_getfield(L, lua_upvalueindex(3), "__index");
  if (lua_isfunction(L, 3)) {
    lua_pushliteral(L, "");
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
  } else if (lua_istable(L, 3)) {
    lua_pushvalue(L, 2);
    lua_gettable(L, 3);
  } else {
    return 0;
  }
  return 1;
}

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

static int after_pcall(lua_State *L, int status, lua_KContext extra) {
  if (status == LUA_OK || status == LUA_YIELD)
    return lua_gettop(L) - (int)extra;
  mwb_pass_spent(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int give_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  mwb_pay(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  return after_pcall(
      L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after_pcall), 0);
}

/* A handler would run without the hook after the hook has raised, so the
** handler runs after the call.  The stack: f, handler, true, results. */
static int after_xpcall(lua_State *L, int status, lua_KContext extra) {
  if (status == LUA_OK || status == LUA_YIELD)
    return lua_gettop(L) - (int)extra;
  mwb_pass_spent(L);
  lua_pushboolean(L, 0);
  lua_replace(L, 3);
  lua_pushvalue(L, 2);
  lua_insert(L, -2);
  lua_call(L, 1, LUA_MULTRET);
  return lua_gettop(L) - 2;
}

static int give_xpcall(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  mwb_pay(L, 1);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  return after_xpcall(L, lua_pcallk(L, n - 2, LUA_MULTRET, 0, 2, after_xpcall),
                      2);
}

/* }====================================================== */

/* {======================================================
** Output, iterators, dates
** ======================================================= */

/* Writes what the program's `print` writes, and pays for each byte. */
static int give_print(lua_State *L) {
  int i, n = lua_gettop(L);
  lua_Number bytes = 1;
  for (i = 1; i <= n; i++) {
    luaL_tolstring(L, i, NULL);
    bytes += (lua_Number)lua_rawlen(L, -1) + 1;
    lua_replace(L, i);
  }
  mwb_pay(L, bytes);
  lua_pushvalue(L, MWB_UPLUA);
  lua_insert(L, 1);
  lua_call(L, n, 0);
  return 0;
}

static int give_select(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING)
    mwb_pay(L, (lua_Number)lua_rawlen(L, 1) / MWB_STEP);
  return mwb_pass_on(L);
}

/* A conversion in a format takes long. */
static int give_date(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING)
    mwb_pay(L, (lua_Number)lua_rawlen(L, 1) * 16);
  return mwb_pass_on(L);
}

/* The step of utf8.codes, which skips bytes. */
static int next_code(lua_State *L) {
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  lua_Unsigned first, i;
  mwb_pay_text(L, 2);
  first = i = (lua_Unsigned)lua_tointeger(L, 2);
  while (i < len && ((unsigned char)text[i] & 0xC0) == 0x80)
    if ((++i - first) % 1024 == 0) mwb_pay(L, 1024 / MWB_STEP);
  return mwb_pass_on(L);
}

static void push_given(lua_State *L, lua_CFunction f, int own);

static int give_codes(lua_State *L) {
  int n;
  mwb_pay_text(L, 2);
  n = mwb_pass_on(L);
  lua_pushvalue(L, -n);
  push_given(L, next_code, UP_OWN);
  lua_replace(L, -n - 1);
  return n;
}

/* Each result is a character. */
static int give_codepoint(lua_State *L) {
  size_t len = 0;
  lua_Integer from, to;
  mwb_pay_text(L, 2);
  luaL_checklstring(L, 1, &len);
  from = luaL_optinteger(L, 2, 1);
  to = luaL_optinteger(L, 3, from);
  if (from < 0) from += (lua_Integer)len + 1;
  if (to < 0) to += (lua_Integer)len + 1;
  if (from >= 1 && to <= (lua_Integer)len && to > from)
    mwb_pay_results(L, to - from);
  return mwb_pass_on(L);
}

/* }====================================================== */

/* {======================================================
** Coroutines
** ======================================================= */

/* Only the box's own coroutines can be resumed or closed.  A coroutine that the
** hook has ended runs without the hook from then on, so its pending closers
** stay open. */

static int is_own(lua_State *L, int index) {
  int own;
  lua_pushvalue(L, index);
  own = lua_rawget(L, UP_OWN) != LUA_TNIL;
  lua_pop(L, 1);
  return own;
}

static lua_State *check_own(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co != NULL, 1, "coroutine");
  if (!is_own(L, 1))
    luaL_error(L, "not a coroutine of this %s", kind_of_box(L));
  return co;
}

static int give_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  mwb_pay(L, 20);
  lua_settop(L, 1);
  lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, lua_tothread(L, 2), 1);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, 1);
  lua_rawset(L, UP_OWN);
  return 1;
}

/* Resumes a coroutine with the `n` values on the top.  Returns the number of
** results, or -1: an error is on the top. */
static int resume(lua_State *L, lua_State *co, int n) {
  mwb_budget *b = mwb_budget_of(L);
  int status, results = 0;
  if (!lua_checkstack(co, n)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, n);
  if (b != NULL) b->L = co;
  status = lua_resume(co, L, n, &results);
  if (b != NULL) b->L = L;
  if (status == LUA_OK || status == LUA_YIELD) {
    if (!lua_checkstack(L, results + 1)) {
      lua_pop(co, results);
      lua_pushliteral(L, "too many results to resume");
      return -1;
    }
    lua_xmove(co, L, results);
    mwb_pay(L, results + 1);
    return results;
  }
  lua_xmove(co, L, 1);
  mwb_pass_spent(L);
  return -1;
}

static int give_resume(lua_State *L) {
  lua_State *co = check_own(L);
  int n = resume(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, n >= 0);
  if (n < 0) n = 1;
  lua_insert(L, -n - 1);
  return n + 1;
}

/* The upvalue is the coroutine. */
static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(3));
  int n = resume(L, co, lua_gettop(L));
  return (n < 0) ? lua_error(L) : n;
}

static int give_wrap(lua_State *L) {
  give_create(L);
  push_closure(L, wrapped, 1);
  return 1;
}

static int give_close(lua_State *L) {
  lua_State *co = check_own(L);
  mwb_budget *b = mwb_budget_of(L);
  int n, status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) { /* dead by an error */
    lua_pushboolean(L, 1);
    return 1;
  }
  if (b != NULL && co != L && status == LUA_YIELD) b->L = co;
  n = mwb_pass_on(L);
  if (b != NULL) b->L = L;
  mwb_pay(L, 1);
  return n;
}

static int give_status(lua_State *L) {
  check_own(L);
  return mwb_pass_on(L);
}

static int give_running(lua_State *L) {
  int own;
  lua_settop(L, 0);
  lua_pushthread(L);
  own = is_own(L, 1);
  if (!own) lua_pushnil(L);
  lua_pushboolean(L, !own);
  return 2;
}

static int give_isyieldable(lua_State *L) {
  lua_pushthread(L);
  lua_pushboolean(L, is_own(L, -1));
  return 1;
}

/* }====================================================== */

/* {======================================================
** The world
** ======================================================= */

static const mwb_given given_base[] = {{"assert", NULL},
                                       {"error", NULL},
                                       {"getmetatable", give_getmetatable},
                                       {"ipairs", NULL},
                                       {"next", give_next},
                                       {"pairs", NULL}, /* below */
                                       {"pcall", give_pcall},
                                       {"print", give_print},
                                       {"rawequal", mwb_pay_all},
                                       {"rawget", give_rawget},
                                       {"rawlen", give_rawlen},
                                       {"rawset", give_rawset},
                                       {"select", give_select},
                                       {"setmetatable", give_setmetatable},
                                       {"tonumber", mwb_pay_all},
                                       {"tostring", NULL},
                                       {"type", NULL},
                                       {"xpcall", give_xpcall},
                                       {"_VERSION", NULL},
                                       {NULL, NULL}};

static const mwb_given given_math[] = {{"abs", mwb_pay_all},
                                       {"acos", mwb_pay_all},
                                       {"asin", mwb_pay_all},
                                       {"atan", mwb_pay_all},
                                       {"ceil", mwb_pay_all},
                                       {"cos", mwb_pay_all},
                                       {"deg", mwb_pay_all},
                                       {"exp", mwb_pay_all},
                                       {"floor", mwb_pay_all},
                                       {"fmod", mwb_pay_all},
                                       {"huge", NULL},
                                       {"log", mwb_pay_all},
                                       {"max", mwb_pay_all},
                                       {"maxinteger", NULL},
                                       {"min", mwb_pay_all},
                                       {"mininteger", NULL},
                                       {"modf", mwb_pay_all},
                                       {"pi", NULL},
                                       {"rad", mwb_pay_all},
                                       {"sin", mwb_pay_all},
                                       {"sqrt", mwb_pay_all},
                                       {"tan", mwb_pay_all},
                                       {"tointeger", mwb_pay_all},
                                       {"type", NULL},
                                       {"ult", mwb_pay_all},
                                       {NULL, NULL}};

static const mwb_given given_utf8[] = {
    {"char", mwb_pay_all}, {"charpattern", NULL}, {"codepoint", give_codepoint},
    {"codes", give_codes}, {"len", mwb_pay_all},  {"offset", mwb_pay_all},
    {NULL, NULL}};

static const mwb_given given_os[] = {{"clock", mwb_pay_all},
                                     {"date", give_date},
                                     {"difftime", mwb_pay_all},
                                     {"time", mwb_pay_all},
                                     {NULL, NULL}};

static const mwb_given given_coroutine[] = {{"close", give_close},
                                            {"create", give_create},
                                            {"isyieldable", give_isyieldable},
                                            {"resume", give_resume},
                                            {"running", give_running},
                                            {"status", give_status},
                                            {"wrap", give_wrap},
                                            {"yield", NULL},
                                            {NULL, NULL}};

/* Pops a function of Lua's, and pushes the box's function for it; the box's
** coroutines are at `own`. */
static void push_given(lua_State *L, lua_CFunction f, int own) {
  int plain = lua_tocfunction(L, -1) != NULL;
  if (plain && lua_getupvalue(L, -1, 1) != NULL) {
    plain = 0;
    lua_pop(L, 1);
  }
  lua_pushboolean(L, plain);
  lua_pushvalue(L, own);
  push_closure(L, f, 3);
}

/* The stack of `fill`: the globals, the metatable of strings, the program's
** globals for the box; the program's function or library -> the box's; the
** box's coroutines. */
enum { WORLD = 1, STRINGS, MORE, TWINS, OWN };

/* Fills the table on the top with what the box has of the library at
** `library`, which may be nil. */
static void give_all(lua_State *L, int library, const mwb_given *list) {
  int table = lua_gettop(L);
  for (; list->name != NULL && lua_istable(L, library); list++) {
    lua_pushstring(L, list->name);
    if (lua_rawget(L, library) == LUA_TNIL) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushvalue(L, -1);
    if (list->f != NULL) push_given(L, list->f, OWN);
    lua_pushvalue(L, -1);
    lua_setfield(L, table, list->name);
    if (lua_isfunction(L, -2))
      lua_rawset(L, TWINS);
    else
      lua_pop(L, 2);
  }
}

/* Gives the box a library of the program's, and pushes the box's. */
static void give_library(lua_State *L, const char *name,
                         const mwb_given *list) {
  lua_pushglobaltable(L);
  mwb_raw_field(L, lua_gettop(L), name);
  lua_newtable(L);
  give_all(L, lua_gettop(L) - 1, list);
  if (lua_istable(L, -2)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, TWINS);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, WORLD, name);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* Strings have a metatable with what the program's has; its functions in C may
** read long numerals. */
static void give_strings(lua_State *L) {
  int top = lua_gettop(L);
  give_library(L, "string", mwb_given_string);
  lua_pushliteral(L, "");
  if (!lua_getmetatable(L, -1)) lua_pushnil(L);
  lua_replace(L, -2);
  if (lua_istable(L, top + 2)) {
    for (lua_pushnil(L); lua_next(L, top + 2) != 0; lua_pop(L, 1)) {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      if (lua_iscfunction(L, -1)) push_given(L, mwb_pay_all, OWN);
      lua_rawset(L, STRINGS);
    }
  }
  lua_pushvalue(L, top + 1);
  lua_setfield(L, STRINGS, "__index");
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, top + 2);
  push_closure(L, other_method, 1);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, top + 1);
  lua_settop(L, top);
}

/* Copies the program's globals for the box; where these are Lua's own functions
** or libraries, the box has its own. */
static void give_more(lua_State *L) {
  if (!lua_istable(L, MORE)) return;
  mwb_absorb(L, mwb_state_of(L), MORE);
  if (mwb_push_shadow(L, MORE)) lua_replace(L, MORE);
  for (lua_pushnil(L); lua_next(L, MORE) != 0; lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    if (lua_rawget(L, TWINS) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushvalue(L, -2);
    }
    lua_rawset(L, WORLD);
  }
}

/* fill(world, strings, more) */
static int fill(lua_State *L) {
  lua_settop(L, MORE);
  lua_newtable(L);
  mwb_push_ephemeron(L, mwb_state_of(L));
  lua_pushglobaltable(L);
  lua_pushvalue(L, WORLD);
  give_all(L, OWN + 1, given_base);
  lua_settop(L, OWN);
  mwb_raw_field(L, WORLD, "next");
  push_closure(L, give_pairs, 1);
  lua_setfield(L, WORLD, "pairs");
  give_strings(L);
  give_library(L, "table", mwb_given_table);
  give_library(L, "math", given_math);
  give_library(L, "utf8", given_utf8);
  give_library(L, "os", given_os);
  give_library(L, "coroutine", given_coroutine);
  lua_settop(L, OWN);
  lua_pushvalue(L, WORLD);
  lua_setfield(L, WORLD, "_G");
  give_more(L);
  return 0;
}

void mwb_fill_world(lua_State *L, int world, int strings, int more) {
  world = lua_absindex(L, world);
  strings = lua_absindex(L, strings);
  more = lua_absindex(L, more);
  push_closure(L, fill, 0);
  lua_pushvalue(L, world);
  lua_pushvalue(L, strings);
  lua_pushvalue(L, more);
  lua_call(L, 3, 0);
}

/* }====================================================== */
