/*
** policy.c - running what people edit: functions that may not take too long.
** SPDX-License-Identifier: MIT
**
** A call gets a budget: of VM instructions, which a count hook takes from it,
** and of bytes, which an allocator does; both are put in place for the call and
** what was there before is put back.  Bytes are counted when they are asked for
** and never given back, so they bound the work of whatever makes new strings
** or tables.  What C functions do without either is charged by the script's
** library (sandbox.lua), which calls `charge`.
**
** Once the budget is spent the hook comes after each instruction, so no pcall
** can go on.  An allocation that is merely too much is still granted, and the
** next instruction ends the call: were it refused, Lua would collect all its
** garbage first.  Those that are far too much are refused.
**
** In a finaliser no hook is called, so nothing of a policy is.
*/
#define _POSIX_C_SOURCE 200809L

#include "bind.h"

#include <sys/stat.h>

/* {======================================================
** Budgets
** ======================================================= */

/* Instructions between two calls of the hook. */
#define INTERVAL 100

/* Bytes that may be asked for at once.  Longer strings could be compared for
** too long by one instruction. */
#define AT_ONCE 65536

struct mwb_budget {
  lua_State *L;
  mwb_state *state;
  struct mwb_budget *outer;
  lua_Integer instructions, bytes; /* left */
  lua_Integer used;                /* instructions, of all that was filled */
  int starved;                     /* was there no memory for what it allows? */
  lua_Alloc alloc;                 /* what was there before */
  void *ud;
  lua_Hook hook;
  int mask, count;
};

static mwb_state *find_state(lua_State *L) {
  mwb_state *s;
  mwb_push_state(L);
  s = (mwb_state *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

static int is_spent(const struct mwb_budget *b) {
  return b->instructions <= 0 || b->bytes < 0;
}

static void on_count(lua_State *L, lua_Debug *ar);

/* Comes after each instruction from now on. */
static void tighten(lua_State *L) {
  lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
}

static void push_spent(lua_State *L, const struct mwb_budget *b) {
  lua_pushfstring(L, "the policy's budget of %s is spent",
                  (b->bytes < 0) ? "memory" : "instructions");
}

/* Raises, with the position of the function at that level.  In a hook that is
** level 0, for the hook is none. */
static int overspent(lua_State *L, const struct mwb_budget *b, int level) {
  tighten(L);
  luaL_where(L, level);
  push_spent(L, b);
  lua_concat(L, 2);
  return lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar) {
  struct mwb_budget *b = find_state(L)->budget;
  (void)ar;
  if (b == NULL) {
    lua_sethook(L, NULL, 0, 0); /* a thread that outlived its call */
    return;
  }
  b->instructions -= INTERVAL;
  b->used += INTERVAL;
  if (is_spent(b)) overspent(L, b, 0);
}

/* Is a finaliser running?  Then the collector returns nothing. */
static int in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT) < 0; }

/* A finaliser is the program's own. */
static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  struct mwb_budget *b = (struct mwb_budget *)ud;
  size_t had = (ptr == NULL) ? 0 : osize;
  if (nsize > had && b->state->budget == b && !in_finaliser(b->L)) {
    size_t more = nsize - had;
    int refused = more > AT_ONCE || b->bytes < -AT_ONCE;
    b->bytes = refused ? -1 - AT_ONCE : b->bytes - (lua_Integer)more;
    if (b->bytes < 0) tighten(b->L);
    if (refused) return NULL;
  }
  ptr = b->alloc(b->ud, ptr, osize, nsize);
  if (ptr == NULL && nsize > 0) b->starved = 1;
  return ptr;
}

static void set_hook(struct mwb_budget *b) {
  lua_sethook(b->L, on_count, LUA_MASKCOUNT, INTERVAL);
}

static void begin_budget(lua_State *L, mwb_state *s, struct mwb_budget *b) {
  b->L = L;
  b->state = s;
  b->outer = s->budget;
  b->used = 0;
  b->starved = 0;
  b->alloc = lua_getallocf(L, &b->ud);
  b->hook = lua_gethook(L);
  b->mask = lua_gethookmask(L);
  b->count = lua_gethookcount(L);
  s->budget = b;
  lua_setallocf(L, limited_alloc, b);
  set_hook(b);
}

static void end_budget(struct mwb_budget *b) {
  lua_setallocf(b->L, b->alloc, b->ud);
  lua_sethook(b->L, b->hook, b->mask, b->count);
  b->state->budget = b->outer;
  if (b->outer == NULL) return;
  b->outer->instructions -= b->used + INTERVAL; /* counting begins anew */
  if (is_spent(b->outer)) tighten(b->L);
}

static const char NO_FINALISER[] = "policies are not asked by finalisers";

static void fill(struct mwb_budget *b, lua_Integer instructions,
                 lua_Integer bytes) {
  b->instructions = instructions;
  b->bytes = bytes;
}

/* charge(n): takes n instructions from the budget, if there is one. */
static int charge(lua_State *L) {
  struct mwb_budget *b = find_state(L)->budget;
  lua_Number n = luaL_checknumber(L, 1);
  if (b == NULL || in_finaliser(L)) return 0;
  if (!(n < (lua_Number)b->instructions))
    b->instructions = 0;
  else
    b->instructions -= (lua_Integer)n;
  return is_spent(b) ? overspent(L, b, 1) : 0;
}

/* }====================================================== */

/* {======================================================
** Calls
** ======================================================= */

/* Makes the methods of strings those of the table at `methods`, which is then
** the table that they were in before.  Needs no memory: Lua always has the one
** string that is used. */
static void swap_strings(lua_State *L, int methods) {
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

/* limited(strings, instructions, bytes, f, ...) -> as pcall */
static int limited(lua_State *L) {
  struct mwb_budget b;
  int status;
  fill(&b, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a policy");
  if (in_finaliser(L)) {
    lua_pushboolean(L, 0);
    lua_pushstring(L, NO_FINALISER);
    return 2;
  }
  swap_strings(L, 1);
  begin_budget(L, find_state(L), &b);
  status = lua_pcall(L, lua_gettop(L) - 4, LUA_MULTRET, 0);
  end_budget(&b);
  swap_strings(L, 1);
  if (status == LUA_OK && is_spent(&b)) {
    lua_settop(L, 3);
    push_spent(L, &b);
    status = LUA_ERRRUN;
  }
  lua_pushboolean(L, status == LUA_OK);
  lua_replace(L, 3);
  return lua_gettop(L) - 2;
}

/* The stack of `decide`. */
enum { RULES = 1, STRINGS, INSTRUCTIONS, BYTES, OBJECT, CONTEXT, ERRORS };

/* How many budgets all rules of a decision may use. */
#define RULES_BUDGETS 4

/* The status of a rule that ended before anybody noticed that the budget was
** spent; and of one for which there was no memory. */
#define SPENT (-1)
#define STARVED (-2)

static int has_budget(lua_State *L) {
  return lua_tointeger(L, INSTRUCTIONS) != 0;
}

/* Sets up the budget, if there is one, or takes it away.  In between nothing
** may raise. */
static void begin_rules(lua_State *L, struct mwb_budget *b) {
  if (!has_budget(L)) return;
  swap_strings(L, STRINGS);
  begin_budget(L, find_state(L), b);
}

static void end_rules(lua_State *L, struct mwb_budget *b) {
  if (!has_budget(L)) return;
  end_budget(b);
  swap_strings(L, STRINGS);
}

/* Keeps the error on the top under the rule's number. */
static void keep_error(lua_State *L, lua_Integer rule) {
  if (lua_isnil(L, ERRORS)) {
    lua_newtable(L);
    lua_replace(L, ERRORS);
  }
  lua_rawseti(L, ERRORS, rule);
}

/* Asks a rule, which is on the top; leaves the answer or the error there. */
static int ask_rule(lua_State *L, struct mwb_budget *b) {
  int status;
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, CONTEXT);
  fill(b, lua_tointeger(L, INSTRUCTIONS), lua_tointeger(L, BYTES));
  status = lua_pcall(L, 2, 1, 0);
  if (has_budget(L) && is_spent(b)) return (status == LUA_OK) ? SPENT : status;
  if (status == LUA_ERRMEM && (!has_budget(L) || b->starved)) return STARVED;
  return status;
}

/* Keeps an error, which may raise another one, so without the budget.  That
** there was no memory is not the rule's fault, and goes on. */
static void rule_failed(lua_State *L, struct mwb_budget *b, int status,
                        lua_Integer rule) {
  end_rules(L, b);
  if (status == STARVED) lua_error(L);
  if (status == SPENT) push_spent(L, b);
  keep_error(L, rule);
  lua_settop(L, ERRORS);
  begin_rules(L, b);
}

/* Asks the rules until one returns, and leaves the answer on the top.  Returns
** that rule's number, 0 when there is none. */
static lua_Integer ask_rules(lua_State *L) {
  struct mwb_budget b;
  lua_Integer i, instructions = lua_tointeger(L, INSTRUCTIONS);
  lua_Integer left = RULES_BUDGETS * instructions;
  begin_rules(L, &b);
  for (i = 1; left >= 0 && lua_rawgeti(L, RULES, i) != LUA_TNIL; i++) {
    int status = ask_rule(L, &b);
    if (status == LUA_OK && !lua_isnil(L, -1)) break;
    left -= instructions - b.instructions;
    if (status == LUA_OK)
      lua_pop(L, 1);
    else
      rule_failed(L, &b, status, i);
  }
  end_rules(L, &b);
  if (left >= 0 && !lua_isnil(L, -1)) return i;
  lua_pushnil(L);
  return 0;
}

/* decide(rules, strings, instructions, bytes, object, context) -> value, number
** of the rule (or 0), errors by rule.  No budget for 0 instructions. */
static int decide(lua_State *L) {
  lua_Integer rule = 0;
  lua_settop(L, ERRORS);
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a policy");
  if (lua_tointeger(L, INSTRUCTIONS) > 0 && in_finaliser(L)) {
    lua_pushstring(L, NO_FINALISER);
    keep_error(L, 1);
    lua_pushnil(L);
  } else {
    rule = ask_rules(L);
  }
  lua_pushinteger(L, rule);
  lua_pushvalue(L, ERRORS);
  return 3;
}

/* }====================================================== */

/* The upvalues of `recall`. */
#define UP_ANSWERS lua_upvalueindex(3)
#define UP_ASK lua_upvalueindex(4)

/* recall(object, context) -> what `returns` has for its metatable (or type):
** the two values in there; else what ask(object, context) returns */
static int recall(lua_State *L) {
  lua_settop(L, 2);
  if (!lua_getmetatable(L, 1)) lua_pushstring(L, luaL_typename(L, 1));
  if (lua_rawget(L, UP_ANSWERS) == LUA_TTABLE) {
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

/* recalling(returns, ask) -> recall */
static int recalling(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_insert(L, 1);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_insert(L, 2);
  lua_pushcclosure(L, recall, 4);
  return 1;
}

/* stat(path) -> time of the last change (in nanoseconds), size; nil if there is
** no such file */
static int file_stat(lua_State *L) {
  struct stat st;
  if (stat(luaL_checkstring(L, 1), &st) != 0) return 0;
  lua_pushinteger(L, (lua_Integer)st.st_mtim.tv_sec * 1000000000 +
                         (lua_Integer)st.st_mtim.tv_nsec);
  lua_pushinteger(L, (lua_Integer)st.st_size);
  return 2;
}

/* metatable(value) -> its metatable as the program set it */
static int metatable(lua_State *L) {
  lua_settop(L, 1);
  mwb_push_class(L, 1);
  return 1;
}

/* hooks{descend, ignored, class, watched, unwatched, deserted}; `false` for
** those that are not needed */
static int set_hooks(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  s->ignores = lua_rawgeti(L, 1, MWB_IGNORED) == LUA_TFUNCTION;
  lua_settop(L, 1);
  mwb_keep(L, mwb_state_of(L), MWB_HOOKS);
  return 0;
}

int mwb_push_hook(lua_State *L, int hook) {
  mwb_push(L, mwb_state_of(L), MWB_HOOKS);
  if (lua_rawgeti(L, -1, hook) == LUA_TFUNCTION) {
    lua_replace(L, -2);
    return 1;
  }
  lua_pop(L, 2);
  return 0;
}

/* instances(class) -> how many of its objects are watched */
static int instances(lua_State *L) {
  mwb_state *s = mwb_enter_object(L, "instances", 1);
  const mwi_object *r = mwb_object_at(L, s, 1);
  lua_pushinteger(L, (r == NULL) ? 0 : r->instances);
  return 1;
}

/* handler() -> mw.on_error's function, which is left in place */
static int handler(lua_State *L) {
  mwb_push(L, mwb_state_of(L), MWB_ONERROR);
  return 1;
}

void mwb_open_policy(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"charge", charge},       {"limited", limited},
      {"decide", decide},       {"recalling", recalling},
      {"stat", file_stat},      {"metatable", metatable},
      {"hooks", set_hooks},     {"handler", handler},
      {"instances", instances}, {NULL, NULL}};
  lua_newtable(L);
  mwb_keep(L, mwb_state_of(L), MWB_HOOKS);
  mwb_set_funcs(L, functions);
}
