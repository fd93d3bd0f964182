/*
** hierarchy.c - the objects that are executing: the stacks of mw.hierarchy.
** SPDX-License-Identifier: MIT
**
** A hierarchy is a table of hierarchy.lua with hot methods in it, as in
** class.c.  The data of the methods are the number of the engine's hierarchy,
** and the stack of the coroutine that called last.  The methods handle the
** common cases, and call the functions of hierarchy.lua for all others: see
** OUTSIDE.
**
** HOLDERS and KEYS map an object's slot to the table and the key where the
** object was found.  So `enter` notices an object that was moved.
*/
#include <string.h>

#include "class.h"
#include "identity.h"
#include "shadow.h"
#include "trace.h"

typedef struct hierarchy_data {
  mwb_data data;
  mw_hierarchy number;
  int owned; /* has the engine given the number? */
  int open;
  int slow;         /* does hierarchy.lua enter and leave every object? */
  lua_State *L;     /* the coroutine that called last */
  uint64_t at;      /* number of collections at the last call */
  mwi_stack *stack; /* of that coroutine */
} hierarchy_data;

/* Upvalues of the methods, after state, objects and data. */
#define NAMES lua_upvalueindex(4)   /* number -> name */
#define KEYS lua_upvalueindex(5)    /* slot -> the key that has the object */
#define HOLDERS lua_upvalueindex(6) /* slot -> the table, weakly held */

/* User values of the data. */
enum {
  OUTSIDE = 1, /* functions of hierarchy.lua, by the numbers below */
  TOKENS,      /* depth -> the token of the depth */
  TOKEN_META,
  USERVALUES = TOKEN_META
};

/* The functions of hierarchy.lua. */
enum { ENTER = 1, LEAVE, CUT };

/* {======================================================
** How the methods begin
** ======================================================= */

static mw_engine *engine_of(const hierarchy_data *d) {
  return d->data.state->engine;
}

/* Does hierarchy.lua handle each frame, for hooks or for a trace? */
static int is_slow(const hierarchy_data *d) {
  return d->slow || (d->data.state->sources & MWB_HIERARCHIES) != 0;
}

static mwi_hierarchy *hierarchy_of(const hierarchy_data *d) {
  return mwi_hierarchy_of(&engine_of(d)->scope, d->number);
}

static hierarchy_data *data_of(lua_State *L) {
  hierarchy_data *d = (hierarchy_data *)lua_touserdata(L, MWB_UPDATA);
  if (d->data.state->pending) mwb_slice(L, d->data.state);
  if (!d->owned) luaL_error(L, "the hierarchy is gone");
  return d;
}

/* Returns the data of the hierarchy at 1, which is open, or raises. */
static hierarchy_data *self(lua_State *L, const char *name) {
  hierarchy_data *d = (hierarchy_data *)mwb_hot_self(L);
  if (d == NULL)
    luaL_error(L, "calling '%s' on bad self (hierarchy expected, got %s)", name,
               mwb_type_name(L, 1));
  else if (!d->open)
    luaL_error(L, "calling '%s' on a hierarchy that is closed", name);
  return d;
}

static void push_uservalue(lua_State *L, int i) {
  lua_getiuservalue(L, MWB_UPDATA, i);
}

static void find_stack(lua_State *L, hierarchy_data *d) {
  mwb_state *s = d->data.state;
  int top = lua_gettop(L);
  mwi_stack *stack;
  mw_handle thread;
  lua_pushthread(L);
  thread = mwb_identify(L, s, "enter", lua_gettop(L), 1);
  stack = mwi_hierarchy_need(s->engine, d->number, thread);
  if (stack == NULL) mwb_check(L, MW_NOMEM);
  d->L = L;
  d->at = s->collections;
  d->stack = stack;
  lua_settop(L, top);
}

/* Returns the stack of the running coroutine.  Only after a collection can
** another coroutine have the same address, and never the main thread's. */
static inline mwi_stack *stack_of(lua_State *L, hierarchy_data *d) {
  const mwb_state *s = d->data.state;
  if (d->L == L) {
    if (L == s->main) return d->stack;
    mwb_probe(L, d->data.state);
    if (d->at == s->collections) return d->stack;
  }
  find_stack(L, d);
  return d->stack;
}

static void push_frame(lua_State *L, hierarchy_data *d, mwi_stack *stack,
                       mw_handle h, uint32_t name) {
  if (stack->n == stack->size)
    mwb_check(L, mwi_hierarchy_grow(engine_of(d), stack));
  mwi_hierarchy_push(hierarchy_of(d), stack, h, name);
}

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

/* Does the shadow of the table at `holder` have the object at `index` under the
** slot's key in KEYS? */
static int holds_inside(lua_State *L, int holder, uint32_t slot, int index) {
  if (!mwb_push_shadow(L, holder)) return 0;
  lua_rawgeti(L, KEYS, slot);
  lua_rawget(L, -2);
  return lua_rawequal(L, -1, index);
}

/* Is the object at `index` still where the object was found?  Without a key in
** KEYS, yes. */
static int is_linked(lua_State *L, uint32_t slot, int index) {
  int top = lua_gettop(L), linked = 1;
  int type = lua_rawgeti(L, HOLDERS, slot);
  if (lua_rawgeti(L, KEYS, slot) != LUA_TNIL) {
    linked = type == LUA_TTABLE;
    if (linked) {
      lua_rawget(L, -2);
      linked =
          lua_rawequal(L, -1, index) || holds_inside(L, top + 1, slot, index);
    }
  }
  lua_settop(L, top);
  return linked;
}

/* Can the object at 2 be entered now under its name? */
static int is_placed(lua_State *L, const mwi_named *named,
                     const mwi_stack *stack) {
  if (named->parent == MW_NONE) return stack->n == 0;
  if (stack->n > 0 && stack->frames[stack->n - 1].obj != named->parent)
    return 0;
  return is_linked(L, mw_slot(named->obj), 2);
}

/* Returns the name under which the object at 2 can be entered now, or NULL. */
static const mwi_named *placed(lua_State *L, hierarchy_data *d,
                               const mwi_stack *stack) {
  mwb_state *s = d->data.state;
  uint32_t slot = mwb_slot(L, s, 2);
  const mwi_named *named = NULL;
  if (slot != 0)
    named = mwi_hierarchy_name_of(
        hierarchy_of(d), mwi_identity_handle(&s->engine->identity, slot));
  if (named != NULL && is_placed(L, named, stack)) return named;
  lua_settop(L, 2);
  return NULL;
}

/* }====================================================== */

/* {======================================================
** Hot methods
** ======================================================= */

static int done(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  (void)n;
  return 1;
}

/* Calls a function of hierarchy.lua with the values at 1 and 2. */
static int call_outside(lua_State *L, int function) {
  push_uservalue(L, OUTSIDE);
  lua_rawgeti(L, -1, function);
  lua_replace(L, -2);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_callk(L, 2, 1, 0, done);
  return 1;
}

/* Enters the object at 2.  Returns the number of its name, or 0 if
** hierarchy.lua must enter the object. */
static uint32_t enter_placed(lua_State *L, hierarchy_data *d) {
  mwi_stack *stack = stack_of(L, d);
  const mwi_named *named = is_slow(d) ? NULL : placed(L, d, stack);
  if (named == NULL) return 0;
  push_frame(L, d, stack, named->obj, named->name);
  return named->name;
}

static int enter(lua_State *L) {
  hierarchy_data *d = self(L, "enter");
  uint32_t name;
  lua_settop(L, 2);
  name = enter_placed(L, d);
  if (name == 0) {
    mwb_object(L, "enter", 2, 1);
    return call_outside(L, ENTER);
  }
  lua_rawgeti(L, NAMES, name);
  return 1;
}

/* Is the value at 2 the object that was entered last? */
static inline int is_last(lua_State *L, const mwi_stack *stack) {
  return stack->n > 0 && lua_gettop(L) == 2 &&
         lua_rawgeti(L, MWB_UPOBJECTS,
                     mw_slot(stack->frames[stack->n - 1].obj)) != LUA_TNIL &&
         lua_rawequal(L, 2, 3);
}

static int leave(lua_State *L) {
  hierarchy_data *d = self(L, "leave");
  mwi_stack *stack = stack_of(L, d);
  if (!is_slow(d) && is_last(L, stack)) {
    mwi_hierarchy_cut(hierarchy_of(d), stack, stack->n - 1);
    return 0;
  }
  lua_settop(L, 2);
  mwb_object(L, "leave", 2, 1);
  call_outside(L, LEAVE);
  return 0;
}

/* Pushes the token of a depth: { depth }.  Closing the token leaves the
** depth. */
static void push_token(lua_State *L, uint32_t depth) {
  push_uservalue(L, TOKENS);
  if (lua_rawgeti(L, -1, depth) != LUA_TNIL) return;
  lua_createtable(L, 1, 0);
  lua_pushinteger(L, depth);
  lua_rawseti(L, -2, 1);
  push_uservalue(L, TOKEN_META);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawseti(L, 3, depth);
}

/* Returns the stack of the running coroutine, which has entered an object.
** Needs no memory.  Without a look for a collection: the coroutine is alive, so
** its address is its own. */
static mwi_stack *stack_in_use(lua_State *L, hierarchy_data *d) {
  if (d->L != L) find_stack(L, d);
  return d->stack;
}

/* Returns the token.  The token exists by now, so this needs no memory. */
static int began(lua_State *L, int status, lua_KContext n) {
  hierarchy_data *d = (hierarchy_data *)lua_touserdata(L, MWB_UPDATA);
  (void)status;
  (void)n;
  lua_settop(L, 2);
  push_token(L, stack_in_use(L, d)->n);
  return 1;
}

/* begin(hierarchy, object) -> token: enters the object; closing the token
** leaves the object */
static int begin(lua_State *L) {
  hierarchy_data *d = self(L, "enter");
  lua_settop(L, 2);
  push_token(L, stack_of(L, d)->n + 1);
  lua_settop(L, 2);
  if (enter_placed(L, d) == 0) {
    push_uservalue(L, OUTSIDE);
    lua_rawgeti(L, -1, ENTER);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_callk(L, 2, 0, 0, began);
  }
  return began(L, LUA_OK, 0);
}

/* Is the value at 1 the token of this depth?  A reset makes new tokens. */
static int is_token(lua_State *L, lua_Integer depth) {
  int same;
  push_uservalue(L, TOKENS);
  lua_rawgeti(L, -1, depth);
  same = lua_rawequal(L, 1, -1);
  lua_settop(L, 2);
  return same;
}

/* Leaves the depth, also when a function of hierarchy.lua has raised. */
static int finished(lua_State *L, int status, lua_KContext depth) {
  hierarchy_data *d = (hierarchy_data *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack = stack_in_use(L, d);
  if (d->open && (lua_KContext)stack->n >= depth)
    mwi_hierarchy_cut(hierarchy_of(d), stack, (uint32_t)depth - 1);
  return (status == LUA_OK || status == LUA_YIELD) ? 0 : lua_error(L);
}

static int finish_outside(lua_State *L, lua_Integer depth) {
  push_uservalue(L, OUTSIDE);
  lua_rawgeti(L, -1, CUT);
  lua_pushinteger(L, depth);
  lua_pushvalue(L, 2);
  return finished(L, lua_pcallk(L, 2, 0, 0, (lua_KContext)depth, finished),
                  (lua_KContext)depth);
}

/* Closes a token, perhaps for an error. */
static int finish(lua_State *L) {
  hierarchy_data *d = (hierarchy_data *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  lua_Integer depth;
  lua_settop(L, 2);
  if (!d->open || engine_of(d) == NULL) return 0;
  stack = stack_in_use(L, d);
  lua_rawgeti(L, 1, 1);
  depth = lua_tointeger(L, -1);
  if (!is_token(L, depth) || stack->n < depth) return 0;
  if (is_slow(d)) return finish_outside(L, depth);
  mwi_hierarchy_cut(hierarchy_of(d), stack, (uint32_t)depth - 1);
  return 0;
}

/* }====================================================== */

/* {======================================================
** For hierarchy.lua
** ======================================================= */

/* push(object, number): enters the object under the name with this number */
static int push(lua_State *L) {
  hierarchy_data *d = data_of(L);
  mw_handle h = mwb_identify(L, d->data.state, "enter", 1, 1);
  push_frame(L, d, stack_of(L, d), h, (uint32_t)lua_tointeger(L, 2));
  return 0;
}

/* cut(depth): leaves all deeper frames */
static int cut(lua_State *L) {
  hierarchy_data *d = data_of(L);
  mwi_stack *stack = stack_of(L, d);
  lua_Integer depth = lua_tointeger(L, 1);
  if (depth < stack->n)
    mwi_hierarchy_cut(hierarchy_of(d), stack, (uint32_t)depth);
  return 0;
}

static int depth(lua_State *L) {
  hierarchy_data *d = data_of(L);
  lua_pushinteger(L, stack_of(L, d)->n);
  return 1;
}

/* frame(i) -> object (nil when dead), number of its name; frame 1 is the
** outermost */
static int frame(lua_State *L) {
  hierarchy_data *d = data_of(L);
  mwi_stack *stack = stack_of(L, d);
  uint32_t i = (uint32_t)lua_tointeger(L, 1) - 1;
  if (i >= stack->n) return 0;
  lua_settop(L, 0);
  if (!mwb_alive(L, d->data.state, stack->frames[i].obj)) {
    lua_settop(L, 0);
    lua_pushnil(L);
  }
  lua_pushinteger(L, stack->frames[i].name);
  return 2;
}

/* frames() -> number of frames on all stacks */
static int frames(lua_State *L) {
  hierarchy_data *d = data_of(L);
  lua_pushinteger(L, (lua_Integer)mw_hierarchy_frames(engine_of(d), d->number));
  return 1;
}

/* name(object, number, parent, holder, key): sets the name of an object, and
** where the object was found; key: nil when unknown */
static int name(lua_State *L) {
  hierarchy_data *d = data_of(L);
  mwb_state *s = d->data.state;
  mw_handle h, parent = MW_NONE;
  lua_settop(L, 5);
  h = mwb_identify(L, s, "enter", 1, 1);
  if (!lua_isnil(L, 3)) parent = mwb_identify(L, s, "enter", 3, 1);
  lua_pushvalue(L, 5);
  lua_rawseti(L, KEYS, mw_slot(h));
  lua_pushvalue(L, 4);
  lua_rawseti(L, HOLDERS, mw_slot(h));
  mwb_check(L, mw_hierarchy_set_name(s->engine, d->number, h, parent,
                                     (uint32_t)lua_tointeger(L, 2)));
  return 0;
}

/* used() -> { [number] = true } for the names of all living objects */
static int used(lua_State *L) {
  hierarchy_data *d = data_of(L);
  const mwi_identity *identity = &engine_of(d)->identity;
  uint32_t i;
  lua_settop(L, 0);
  lua_newtable(L);
  for (i = 1; i < identity->top; i++) {
    mw_handle h = mwi_identity_handle(identity, i);
    const mwi_named *named_as = mwi_hierarchy_name_of(hierarchy_of(d), h);
    lua_settop(L, 1);
    if (named_as == NULL || !mwb_alive(L, d->data.state, h)) continue;
    lua_pushboolean(L, 1);
    lua_rawseti(L, 1, named_as->name);
  }
  lua_settop(L, 1);
  return 1;
}

/* named(object) -> number of its name, parent (false when the parent is dead,
** absent when there is no parent); nothing when the object has no name */
static int named(lua_State *L) {
  hierarchy_data *d = data_of(L);
  mwb_state *s = d->data.state;
  mw_handle parent = MW_NONE;
  uint32_t number =
      mw_hierarchy_name(s->engine, d->number, mwb_handle_of(L, s, 1), &parent);
  if (number == 0) return 0;
  lua_pushinteger(L, number);
  if (parent == MW_NONE) return 1;
  if (!mwb_alive(L, s, parent)) lua_pushboolean(L, 0);
  return 2;
}

/* linked(object) -> is the object still where the object was found? */
static int linked(lua_State *L) {
  hierarchy_data *d = data_of(L);
  uint32_t slot = mwb_slot(L, d->data.state, 1);
  lua_pushboolean(L, slot != 0 && is_linked(L, slot, 1));
  return 1;
}

/* slow(on): makes hierarchy.lua enter and leave every object, or not */
static int set_slow(lua_State *L) {
  data_of(L)->slow = lua_toboolean(L, 1);
  return 0;
}

static int reset(lua_State *L) {
  hierarchy_data *d = data_of(L);
  lua_newtable(L);
  lua_setiuservalue(L, MWB_UPDATA, TOKENS);
  mw_hierarchy_reset(engine_of(d), d->number);
  return 0;
}

static int shut(lua_State *L) {
  reset(L);
  data_of(L)->open = 0;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Making one
** ======================================================= */

static const luaL_Reg methods[] = {
    {"enter", enter}, {"leave", leave}, {NULL, NULL}};
static const luaL_Reg inner[] = {
    {"begin", begin},   {"push", push},     {"cut", cut},     {"depth", depth},
    {"frame", frame},   {"frames", frames}, {"name", name},   {"named", named},
    {"linked", linked}, {"slow", set_slow}, {"reset", reset}, {"shut", shut},
    {"used", used},     {NULL, NULL}};
static const luaL_Reg token[] = {{"__close", finish}, {NULL, NULL}};

/* The finaliser of the data. */
static int free_data(lua_State *L) {
  hierarchy_data *d = (hierarchy_data *)lua_touserdata(L, 1);
  if (d->owned && engine_of(d) != NULL)
    mw_hierarchy_close(engine_of(d), d->number);
  d->owned = d->open = 0;
  return 0;
}

/* Sets functions whose upvalues are state, objects, the data at 3, and NAMES,
** KEYS and HOLDERS at 4, 5 and 6. */
static void set_methods(lua_State *L, const luaL_Reg *list) {
  int i;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  for (i = 3; i <= 6; i++) lua_pushvalue(L, i);
  luaL_setfuncs(L, list, 6);
}

static hierarchy_data *new_data(lua_State *L, mwb_state *s) {
  hierarchy_data *d = (hierarchy_data *)lua_newuserdatauv(
      L, sizeof(hierarchy_data), USERVALUES);
  memset(d, 0, sizeof(hierarchy_data));
  d->data.state = s;
  d->data.self = lua_topointer(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_data);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  mwb_check(L, mw_hierarchy_open(s->engine, &d->number));
  d->owned = 1;
  return d;
}

/* scopes(hierarchy, { enter, leave, cut, names, keys, holders }) -> the inner
** functions; sets the hot methods in the table `hierarchy`. */
static int open_hierarchy(lua_State *L) {
  hierarchy_data *d;
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 2);
  d = new_data(L, s);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 3, OUTSIDE);
  lua_getfield(L, 2, "names");
  lua_getfield(L, 2, "keys");
  lua_getfield(L, 2, "holders");
  lua_newtable(L);
  lua_setiuservalue(L, 3, TOKENS);
  lua_newtable(L);
  set_methods(L, token);
  lua_setiuservalue(L, 3, TOKEN_META);
  lua_pushvalue(L, 1);
  set_methods(L, methods);
  lua_newtable(L);
  set_methods(L, inner);
  d->open = 1;
  return 1;
}

void mwb_open_hierarchy(lua_State *L) {
  static const luaL_Reg functions[] = {{"scopes", open_hierarchy},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
