/*
** policy.c - the policy's decisions, and the functions that ask for them.
** SPDX-License-Identifier: MIT
**
** A policy's rules are asked in order, each with its own budget.  In a
** finaliser no budget can be kept, so no rule is asked.
*/
#include "policy.h"

#include "identity.h"
#include "later.h"
#include "os.h"
#include "sandbox.h"
#include "shadow.h"

/* {======================================================
** Decisions
** ======================================================= */

/* The stack of `ask`: arguments, and the errors by rule, or nil. */
enum { RULES = 1, OBJECT, CONTEXT, ERRORS };

/* All rules of a decision together may use this many budgets. */
#define RULES_BUDGETS 4

/* Keeps the error on the top under the rule's number. */
static void keep_error(lua_State *L, lua_Integer rule) {
  if (lua_isnil(L, ERRORS)) {
    lua_newtable(L);
    lua_replace(L, ERRORS);
  }
  lua_rawseti(L, ERRORS, rule);
  lua_settop(L, ERRORS);
}

/* Calls the rule on the top; leaves the result or the error on the top.
** Returns whether there is a result.  Raises the error if memory is short,
** which is not the rule's fault. */
static int ask_rule(lua_State *L, mwb_budget *b) {
  int status;
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, CONTEXT);
  if (b != NULL) mwb_fill_budget(b, b->box->instructions, b->box->bytes);
  status = lua_pcall(L, 2, 1, 0);
  if (status == LUA_ERRMEM && (b == NULL || (b->starved && !b->spent)))
    lua_error(L);
  if (b == NULL) {
    if (status != LUA_OK) mwb_pass_spent(L); /* of a box around the call */
    return status == LUA_OK;
  }
  if (status == LUA_OK && !b->spent) return 1;
  mwb_safe_message(L, (status == LUA_OK) ? LUA_ERRRUN : status);
  return 0;
}

/* rules, object, context -> value, number of the rule (or 0), errors by rule.
** `b` is the budget of the rules, or NULL. */
static int ask(lua_State *L, mwb_budget *b) {
  lua_Integer i, before = 0, most = 0;
  lua_settop(L, ERRORS);
  if (b != NULL) {
    before = b->used;
    most = RULES_BUDGETS * b->box->instructions;
  }
  for (i = 1; lua_rawgeti(L, RULES, i) != LUA_TNIL; i++) {
    if (!ask_rule(L, b))
      keep_error(L, i);
    else if (!lua_isnil(L, -1))
      break;
    lua_settop(L, ERRORS);
    if (b != NULL && b->used - before > most) break;
  }
  if (lua_gettop(L) == ERRORS) lua_pushnil(L);
  lua_pushinteger(L, lua_isnil(L, -1) ? 0 : i);
  lua_pushvalue(L, ERRORS);
  return 3;
}

static int ask_in_box(lua_State *L) { return ask(L, mwb_budget_of(L)); }

/* decide(rules, box or nil, object, context) -> as `ask` */
static int decide(lua_State *L) {
  lua_settop(L, 4);
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a policy");
  if (lua_isnil(L, 2)) {
    lua_remove(L, 2);
    return ask(L, NULL);
  }
  if (mwb_refuse_finaliser(L)) {
    lua_settop(L, 5);
    lua_createtable(L, 1, 0);
    lua_insert(L, 5);
    lua_rawseti(L, 5, 1);
    lua_pushnil(L);
    lua_pushinteger(L, 0);
    lua_pushvalue(L, 5);
    return 3;
  }
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 3);
  lua_pushvalue(L, 4);
  return mwb_run_in_box(L, mwb_state_of(L), 2, ask_in_box, 3);
}

/* The upvalues of `recall`. */
#define UP_DECIDED lua_upvalueindex(3)
#define UP_ASK lua_upvalueindex(4)

/* recall(object, context) -> the two values that `decided` has for the object's
** metatable (or type); else the results of ask(object, context) */
static int recall(lua_State *L) {
  lua_settop(L, 2);
  if (!lua_getmetatable(L, 1)) lua_pushstring(L, luaL_typename(L, 1));
  if (lua_rawget(L, UP_DECIDED) == LUA_TTABLE) {
    lua_rawgeti(L, 3, 1);
    lua_rawgeti(L, 3, 2);
    return 2;
  }
  if (!lua_isnil(L, 2) && !lua_istable(L, 2))
    return mwb_bad_argument(L, "is_dynamic", 2, 2, "table");
  lua_pushvalue(L, UP_ASK);
  lua_insert(L, 1);
  lua_settop(L, 3);
  lua_call(L, 2, LUA_MULTRET);
  return lua_gettop(L);
}

/* recalling(decided, ask) -> recall */
static int recalling(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_insert(L, 1);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_insert(L, 2);
  lua_pushcclosure(L, recall, 4);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Questions to the policy
** ======================================================= */

/* hooks{descend, ignored, watched, unwatched, deserted, snapshot, restore};
** `false` for a question that the policy does not answer */
static int set_questions(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  mwb_need(s, MWB_IGNORES, lua_rawgeti(L, 1, MWB_IGNORED) == LUA_TFUNCTION);
  lua_settop(L, 1);
  mwb_keep(L, s, MWB_QUESTIONS);
  mwb_new_ephemeron(L, MWB_CLASSES);
  return 0;
}

int mwb_push_question(lua_State *L, const mwb_state *s, int question) {
  mwb_push(L, s, MWB_QUESTIONS);
  if (lua_rawgeti(L, -1, question) == LUA_TFUNCTION) {
    lua_replace(L, -2);
    return 1;
  }
  lua_pop(L, 2);
  return 0;
}

/* }====================================================== */

/* {======================================================
** For the library's Lua files
** ======================================================= */

/* stat(path) -> time of the last change of a policy's file (in nanoseconds),
** size; nil if there is no such file */
static int file_stat(lua_State *L) {
  mwb_os_file file;
  if (!mwb_os_look(luaL_checkstring(L, 1), &file)) return 0;
  lua_pushinteger(L, (lua_Integer)file.changed);
  lua_pushinteger(L, (lua_Integer)file.size);
  return 2;
}

/* metatable(value) -> the metatable that the program has set */
static int metatable(lua_State *L) {
  lua_settop(L, 1);
  mwb_push_class(L, 1);
  return 1;
}

/* handler() -> mw.on_error's function */
static int handler(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_ONERROR);
  return 1;
}

/* late_error(error, where): an error that no statement of the program made */
static int late_error(lua_State *L) {
  const char *where = luaL_checkstring(L, 2);
  lua_pushvalue(L, 1);
  mwb_late_error(L, mwb_state_of(L), where);
  return 0;
}

void mwb_open_policy(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {
      {"decide", decide},         {"recalling", recalling},
      {"stat", file_stat},        {"metatable", metatable},
      {"hooks", set_questions},   {"handler", handler},
      {"late_error", late_error}, {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, s, MWB_QUESTIONS);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
