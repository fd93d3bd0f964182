/*
** hierarchy.c - the objects that are executing: the stacks of mw.hierarchy.
** SPDX-License-Identifier: MIT
**
** The engine has a stack for each coroutine.  The functions here enter and
** leave, and tell what executes; names, hooks and tapes are in the Lua files.
**
** An instrumented method has a token, which is to be closed: { depth }.
** Closing it leaves the frame at the depth, and all above.
*/
#include <string.h>

#include "class.h"
#include "delivery.h"
#include "identity.h"
#include "later.h"
#include "trace.h"

typedef struct hierarchy {
  mwb_state *state;
  mw_hierarchy number;
  int owned; /* has the engine given the number? */
  int open;
  int told;         /* are the Lua files told of each frame that is left? */
  lua_State *L;     /* the coroutine that called last */
  uint64_t at;      /* number of collections at the last call */
  mwi_stack *stack; /* of that coroutine */
} hierarchy;

/* User values of the data. */
enum { TOKENS = 1, /* depth -> its token */ TOKEN_META, LEAVE };

/* {======================================================
** Stacks
** ======================================================= */

static mw_engine *engine_of(const hierarchy *d) { return d->state->engine; }

static mwi_hierarchy *stacks_of(const hierarchy *d) {
  return mwi_hierarchy_of(&engine_of(d)->scope, d->number);
}

/* Are the Lua files, or traces, told of each frame that is left? */
static int is_told(const hierarchy *d) {
  return d->told || (d->state->sources & MWB_HIERARCHIES) != 0;
}

static hierarchy *data_of(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwb_enter_to_read(L);
  if (!d->owned) luaL_error(L, "the hierarchy is gone");
  return d;
}

static void find_stack(lua_State *L, hierarchy *d) {
  mwb_state *s = d->state;
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

/* Only after a collection can another coroutine have the same address, and
** never the main thread's. */
static mwi_stack *stack_of(lua_State *L, hierarchy *d) {
  const mwb_state *s = d->state;
  if (d->L == L) {
    if (L == s->main) return d->stack;
    mwb_probe(L, d->state);
    if (d->at == s->collections) return d->stack;
  }
  find_stack(L, d);
  return d->stack;
}

/* Returns the stack of the running coroutine, which has entered an object.
** Without a look for a collection: the coroutine is alive, so its address is
** its own. */
static mwi_stack *stack_in_use(lua_State *L, hierarchy *d) {
  if (d->L != L) find_stack(L, d);
  return d->stack;
}

/* Puts a frame of the object at 1 on the stack.  Returns whether the object is
** entered for the first time. */
static int push_frame(lua_State *L, hierarchy *d, mwi_stack *stack) {
  mw_handle obj = mwb_identify(L, d->state, "enter", 1, 1);
  mwi_hierarchy *h = stacks_of(d);
  mwi_named *element = mwi_hierarchy_ready(engine_of(d), h, stack, obj);
  int is_new = 0;
  if (element != NULL) {
    is_new = element->order == 0;
    mwi_hierarchy_push(h, stack, element, 1);
  } else
    mwb_check(L, MW_NOMEM);
  return is_new;
}

/* }====================================================== */

/* {======================================================
** Entering and leaving
** ======================================================= */

/* enter(object) -> depth, is it the first time?  Nothing if the value is no
** object. */
static int enter(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_stack *stack;
  int is_new;
  lua_settop(L, 1);
  if (mwb_address(L, 1) == NULL) return 0;
  stack = stack_of(L, d);
  is_new = push_frame(L, d, stack);
  lua_pushinteger(L, stack->n);
  lua_pushboolean(L, is_new);
  return 2;
}

/* leave(object) -> nothing if the object was on the top and nobody is told:
** then it has been left; else the depth of its innermost frame, 0 for none. */
static int leave(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_stack *stack = stack_of(L, d);
  mw_handle obj = mwb_handle_of(L, d->state, 1);
  uint32_t depth = stack->n;
  if (depth > 0 && stack->frames[depth - 1].obj == obj && !is_told(d)) {
    mwi_hierarchy_pop(stacks_of(d), stack);
    return 0;
  }
  if (mwi_hierarchy_inside(stacks_of(d), stack, obj) == 0) depth = 0;
  while (depth > 0 && stack->frames[depth - 1].obj != obj) depth--;
  lua_pushinteger(L, depth);
  return 1;
}

/* cut(depth): leaves what is above the depth.  Needs no memory: it ends what
** has failed. */
static int cut(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  lua_Integer depth = lua_tointeger(L, 1);
  if (!d->owned || engine_of(d) == NULL) return 0;
  stack = stack_in_use(L, d);
  if (depth < stack->n) mwi_hierarchy_cut(stacks_of(d), stack, (uint32_t)depth);
  return 0;
}

/* Pushes the token of a depth. */
static void push_token(lua_State *L, uint32_t depth) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, MWB_UPDATA, TOKENS);
  if (lua_rawgeti(L, -1, depth) == LUA_TNIL) {
    lua_createtable(L, 1, 0);
    lua_pushinteger(L, depth);
    lua_rawseti(L, -2, 1);
    lua_getiuservalue(L, MWB_UPDATA, TOKEN_META);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, top + 1, depth);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* begin(object, ...) -> token, depth, is it the first time?  Nothing if the
** value cannot be entered. */
static int begin(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  mwb_enter(L);
  if (!d->open || lua_gettop(L) == 0 || mwb_address(L, 1) == NULL) return 0;
  lua_settop(L, 1);
  stack = stack_of(L, d);
  push_token(L, stack->n + 1);
  lua_pushinteger(L, stack->n + 1);
  lua_pushboolean(L, push_frame(L, d, stack));
  lua_settop(L, 4);
  return 3;
}

static int done(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  (void)n;
  return 0;
}

/* Is the value at 1 the token of this depth?  A reset makes new tokens. */
static int is_token(lua_State *L, lua_Integer depth) {
  int same;
  lua_getiuservalue(L, MWB_UPDATA, TOKENS);
  lua_rawgeti(L, -1, depth);
  same = lua_rawequal(L, 1, -1);
  lua_settop(L, 2);
  return same;
}

/* Closes a token, perhaps for an error. */
static int finish(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  lua_Integer depth;
  lua_settop(L, 2);
  if (!d->open || engine_of(d) == NULL) return 0;
  stack = stack_in_use(L, d);
  lua_rawgeti(L, 1, 1);
  depth = lua_tointeger(L, -1);
  if (!is_token(L, depth) || stack->n < depth) return 0;
  if (!is_told(d)) {
    mwi_hierarchy_cut(stacks_of(d), stack, (uint32_t)depth - 1);
    return 0;
  }
  lua_getiuservalue(L, MWB_UPDATA, LEAVE);
  lua_pushinteger(L, depth);
  lua_pushvalue(L, 2);
  lua_callk(L, 2, 0, 0, done);
  return 0;
}

/* lose(coroutine's handle, depth, order): leaves the frame of a scope that is
** lost, if it is still there, and what is above */
static int lose(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mw_handle thread = (mw_handle)lua_tointeger(L, 1);
  lua_Integer depth = lua_tointeger(L, 2);
  mwi_stack *stack;
  if (!d->owned || engine_of(d) == NULL) return 0;
  stack = (mwi_stack *)mwi_column_page(&stacks_of(d)->stacks, mw_slot(thread));
  if (stack == NULL) return 0;
  stack += mw_slot(thread) % MWI_PAGE;
  if (stack->thread == thread && stack->n >= depth &&
      stack->frames[depth - 1].order == (uint64_t)lua_tointeger(L, 3))
    mwi_hierarchy_cut(stacks_of(d), stack, (uint32_t)depth - 1);
  return 0;
}

/* }====================================================== */

/* {======================================================
** What executes
** ======================================================= */

static int depth_of(lua_State *L) {
  hierarchy *d = data_of(L);
  lua_pushinteger(L, stack_of(L, d)->n);
  return 1;
}

/* frame(i) -> object (nil when dead), order, coroutine's handle; frame 1 is the
** outermost */
static int frame(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_stack *stack = stack_of(L, d);
  lua_Integer i = lua_tointeger(L, 1);
  if (i < 1 || i > stack->n) return 0;
  mwb_alive(L, d->state, stack->frames[i - 1].obj);
  lua_pushinteger(L, (lua_Integer)stack->frames[i - 1].order);
  lua_pushinteger(L, (lua_Integer)stack->thread);
  return 3;
}

/* way(i) -> a number for what executes from frame 1 to `i` */
static int way(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_stack *stack = stack_of(L, d);
  lua_Integer i = lua_tointeger(L, 1);
  lua_pushinteger(L, (i < 1) ? 0 : (lua_Integer)stack->frames[i - 1].way);
  return 1;
}

/* Returns the frame that got this order, from 1 on, or 0.  Orders ascend. */
static uint32_t frame_of(const mwi_stack *stack, uint64_t order) {
  uint32_t low = 0, high = stack->n;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (stack->frames[mid].order < order)
      low = mid + 1;
    else
      high = mid;
  }
  return (low < stack->n && stack->frames[low].order == order) ? low + 1 : 0;
}

/* where(object) -> how it was entered last: order, 0 for never; the frame, 0
** if that is not on the running coroutine's stack any more; the object that
** executed outside, or nil */
static int where(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_stack *stack = stack_of(L, d);
  const mwi_named *element =
      mwi_hierarchy_element(stacks_of(d), mwb_handle_of(L, d->state, 1));
  if (element == NULL) {
    lua_pushinteger(L, 0);
    return 1;
  }
  lua_pushinteger(L, (lua_Integer)element->order);
  lua_pushinteger(L, frame_of(stack, element->order));
  mwb_alive(L, d->state, element->caller);
  return 3;
}

/* forget(object): it was never entered */
static int forget(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element =
      mwi_hierarchy_element(stacks_of(d), mwb_handle_of(L, d->state, 1));
  if (element != NULL) element->order = 0;
  return 0;
}

/* inside(object) -> a frame of the object on the running coroutine's stack, 0
** for none; how many frames has it in all stacks? */
static int inside(lua_State *L) {
  hierarchy *d = data_of(L);
  mw_handle obj = mwb_handle_of(L, d->state, 1);
  const mwi_named *element = mwi_hierarchy_element(stacks_of(d), obj);
  lua_pushinteger(L, mwi_hierarchy_inside(stacks_of(d), stack_of(L, d), obj));
  lua_pushinteger(L, (element == NULL) ? 0 : element->frames);
  return 2;
}

/* list(coroutine) -> arrays of what executes there: objects, false for a dead
** one, and orders */
static int list(lua_State *L) {
  hierarchy *d = data_of(L);
  mw_handle thread = mwb_handle_of(L, d->state, 1);
  const mw_frame *frames;
  uint32_t i, n;
  lua_settop(L, 1);
  lua_newtable(L);
  lua_newtable(L);
  frames = mw_hierarchy_stack(engine_of(d), d->number, thread, &n);
  for (i = 0; i < n; i++) {
    if (!mwb_alive(L, d->state, frames[i].obj)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, 2, i + 1);
    lua_pushinteger(L, (lua_Integer)frames[i].order);
    lua_rawseti(L, 3, i + 1);
  }
  return 2;
}

/* all() -> an array of the live objects that were ever entered */
static int all(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_column *names = &stacks_of(d)->names;
  lua_Integer n = 0;
  uint32_t slot;
  lua_settop(L, 0);
  lua_newtable(L);
  for (slot = 0; slot < names->n * MWI_PAGE; slot++) {
    const mwi_named *element = (const mwi_named *)mwi_column_page(names, slot);
    if (element == NULL) {
      slot |= MWI_PAGE - 1;
      continue;
    }
    element += slot % MWI_PAGE;
    if (element->order != 0 && mwb_alive(L, d->state, element->obj))
      lua_rawseti(L, 1, ++n);
    lua_settop(L, 1);
  }
  return 1;
}

static int frames(lua_State *L) {
  hierarchy *d = data_of(L);
  lua_pushinteger(L, (lua_Integer)mw_hierarchy_frames(engine_of(d), d->number));
  return 1;
}

/* order() -> the number of the last enter in any hierarchy */
static int last_order(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)engine_of(data_of(L))->scope.orders);
  return 1;
}

/* }====================================================== */

/* told(on): is `leave` to be called for what is left? */
static int set_told(lua_State *L) {
  data_of(L)->told = lua_toboolean(L, 1);
  return 0;
}

/* renamed(): what executes is called otherwise: writes have other scopes */
static int renamed(lua_State *L) {
  hierarchy *d = data_of(L);
  d->state->renames++;
  mwb_turn_context(d->state);
  return 0;
}

static int reset(lua_State *L) {
  hierarchy *d = data_of(L);
  lua_newtable(L);
  lua_setiuservalue(L, MWB_UPDATA, TOKENS);
  mw_hierarchy_reset(engine_of(d), d->number);
  return 0;
}

static int shut(lua_State *L) {
  hierarchy *d = data_of(L);
  d->open = d->told = 0;
  mw_hierarchy_reset(engine_of(d), d->number);
  return 0;
}

/* The finaliser of the data. */
static int free_data(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, 1);
  if (engine_of(d) == NULL || mwb_put_off(L, d->state)) return 0;
  if (d->owned) mw_hierarchy_close(engine_of(d), d->number);
  d->owned = d->open = 0;
  return 0;
}

/* Sets functions whose upvalues are state, objects, and the data at 2. */
static void set_methods(lua_State *L, const luaL_Reg *functions) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 2);
  luaL_setfuncs(L, functions, 3);
}

/* stacks(leave) -> the functions of a new hierarchy; `leave(depth, error)` is
** called for a token that is closed */
static int stacks(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"enter", enter},   {"leave", leave},     {"cut", cut},
      {"begin", begin},   {"lose", lose},       {"depth", depth_of},
      {"frame", frame},   {"way", way},         {"where", where},
      {"inside", inside}, {"forget", forget},   {"list", list},
      {"all", all},       {"frames", frames},   {"order", last_order},
      {"told", set_told}, {"renamed", renamed}, {"reset", reset},
      {"shut", shut},     {NULL, NULL}};
  static const luaL_Reg token[] = {{"__close", finish}, {NULL, NULL}};
  mwb_state *s = mwb_enter(L);
  hierarchy *d;
  lua_settop(L, 1);
  d = (hierarchy *)lua_newuserdatauv(L, sizeof(hierarchy), LEAVE);
  memset(d, 0, sizeof(hierarchy));
  d->state = s;
  lua_createtable(L, 0, 1);
  mwb_push_function(L, s, free_data);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, 2);
  mwb_check(L, mw_hierarchy_open(s->engine, &d->number));
  d->owned = d->open = 1;
  lua_newtable(L);
  lua_setiuservalue(L, 2, TOKENS);
  lua_newtable(L);
  set_methods(L, token);
  lua_setiuservalue(L, 2, TOKEN_META);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, LEAVE);
  lua_newtable(L);
  set_methods(L, methods);
  return 1;
}

void mwb_open_hierarchy(lua_State *L) {
  static const luaL_Reg functions[] = {{"stacks", stacks}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
