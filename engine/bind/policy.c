/*
** policy.c - the policy's decisions, and the functions that ask for them.
** SPDX-License-Identifier: MIT
**
** A policy's rules are asked in order, each with its own budget.  In a
** finaliser no budget can be kept, so no rule is asked.
*/
#include "policy.h"

#include "budget.h"
#include "identity.h"
#include "os.h"
#include "shadow.h"

/* {======================================================
** Decisions
** ======================================================= */

/* The stack of `decide`. */
enum { RULES = 1, STRINGS, INSTRUCTIONS, BYTES, OBJECT, CONTEXT, ERRORS };

/* All rules of a decision together may use this many budgets. */
#define RULES_BUDGETS 4

/* The status of a rule that returned before the hook noticed the spent budget;
** and of a rule for which there was no memory. */
#define SPENT (-1)
#define STARVED (-2)

static int has_budget(lua_State *L) {
  return lua_tointeger(L, INSTRUCTIONS) != 0;
}

static void begin_rules(lua_State *L, mwb_state *s, mwb_budget *b) {
  if (!has_budget(L)) return;
  mwb_swap_strings(L, STRINGS);
  mwb_begin_budget(L, s, b);
}

static void end_rules(lua_State *L, mwb_budget *b) {
  if (!has_budget(L)) return;
  mwb_end_budget(b);
  mwb_swap_strings(L, STRINGS);
}

/* Keeps the error on the top under the rule's number. */
static void keep_error(lua_State *L, lua_Integer rule) {
  if (lua_isnil(L, ERRORS)) {
    lua_newtable(L);
    lua_replace(L, ERRORS);
  }
  lua_rawseti(L, ERRORS, rule);
}

/* Calls the rule on the top; leaves the result or the error on the top. */
static int ask_rule(lua_State *L, mwb_budget *b) {
  int status;
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, CONTEXT);
  mwb_fill_budget(b, lua_tointeger(L, INSTRUCTIONS), lua_tointeger(L, BYTES));
  status = lua_pcall(L, 2, 1, 0);
  if (has_budget(L) && mwb_is_spent(b))
    return (status == LUA_OK) ? SPENT : status;
  if (status == LUA_ERRMEM && (!has_budget(L) || b->starved)) return STARVED;
  return status;
}

/* Keeps the error on the top.  Keeping may raise, so the budget is out of force
** meanwhile.  Raises the error if memory is short, which is not the rule's
** fault. */
static void rule_failed(lua_State *L, mwb_state *s, mwb_budget *b, int status,
                        lua_Integer rule) {
  end_rules(L, b);
  if (status == STARVED) lua_error(L);
  if (status == SPENT) mwb_push_spent(L, b);
  keep_error(L, rule);
  lua_settop(L, ERRORS);
  begin_rules(L, s, b);
}

/* Asks the rules until one returns a value, and leaves the value on the top.
** Returns the number of this rule, or 0. */
static lua_Integer ask_rules(lua_State *L, mwb_state *s) {
  mwb_budget b;
  lua_Integer i, instructions = lua_tointeger(L, INSTRUCTIONS);
  lua_Integer left = RULES_BUDGETS * instructions;
  begin_rules(L, s, &b);
  for (i = 1; left >= 0 && lua_rawgeti(L, RULES, i) != LUA_TNIL; i++) {
    int status = ask_rule(L, &b);
    if (status == LUA_OK && !lua_isnil(L, -1)) break;
    left -= instructions - b.instructions;
    if (status == LUA_OK)
      lua_pop(L, 1);
    else
      rule_failed(L, s, &b, status, i);
  }
  end_rules(L, &b);
  if (left >= 0 && !lua_isnil(L, -1)) return i;
  lua_pushnil(L);
  return 0;
}

/* decide(rules, strings, instructions, bytes, object, context) -> value, number
** of the rule (or 0), errors by rule.  0 instructions: no budget. */
static int decide(lua_State *L) {
  lua_Integer rule = 0;
  lua_settop(L, ERRORS);
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a policy");
  if (has_budget(L) && mwb_refuse_finaliser(L)) {
    keep_error(L, 1);
    lua_pushnil(L);
  } else {
    rule = ask_rules(L, mwb_state_of(L));
  }
  lua_pushinteger(L, rule);
  lua_pushvalue(L, ERRORS);
  return 3;
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

void mwb_open_policy(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"decide", decide},
                                       {"recalling", recalling},
                                       {"stat", file_stat},
                                       {"metatable", metatable},
                                       {"hooks", set_questions},
                                       {"handler", handler},
                                       {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, s, MWB_QUESTIONS);
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
