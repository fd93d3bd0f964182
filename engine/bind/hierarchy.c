/*
** hierarchy.c - the objects that are executing: the stacks of mw.hierarchy.
** SPDX-License-Identifier: MIT
**
** A hierarchy is a table of hierarchy.lua with hot methods in it, as in
** class.c.  The data of the methods are the number of the engine's hierarchy,
** which has the stacks, and what is known of names: see name.c.
**
** An error from a debug hook may come between any two instructions of a Lua
** function.  So what is entered has an owner before: an instrumented method has
** a token, which is to be closed, and enters afterwards; a scope exists before
** its object is entered.  Closing a token, or a scope, leaves what was entered
** since, if anything.
*/
#include "hierarchy.h"

#include <string.h>

#include "later.h"
#include "trace.h"

/* {======================================================
** How the methods begin
** ======================================================= */

/* Are hooks or traces to be told of each frame? */
static int is_told(const mwb_hierarchy *d) {
  return d->hooked || (d->data.state->sources & MWB_HIERARCHIES) != 0;
}

static mwb_hierarchy *data_of(lua_State *L) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  if (d->data.state->pending) mwb_slice(L, d->data.state);
  if (!d->owned) luaL_error(L, "the hierarchy is gone");
  return d;
}

/* Returns the data of the hierarchy at 1, which is open, or raises. */
static mwb_hierarchy *self(lua_State *L, const char *name) {
  mwb_hierarchy *d = (mwb_hierarchy *)mwb_hot_self(L);
  if (d == NULL)
    luaL_error(L, "calling '%s' on bad self (hierarchy expected, got %s)", name,
               mwb_type_name(L, 1));
  else if (!d->open)
    luaL_error(L, "calling '%s' on a hierarchy that is closed", name);
  return d;
}

static void find_stack(lua_State *L, mwb_hierarchy *d) {
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

/* Only after a collection can another coroutine have the same address, and
** never the main thread's. */
mwi_stack *mwb_stack_of(lua_State *L, mwb_hierarchy *d) {
  const mwb_state *s = d->data.state;
  if (d->L == L) {
    if (L == s->main) return d->stack;
    mwb_probe(L, d->data.state);
    if (d->at == s->collections) return d->stack;
  }
  find_stack(L, d);
  return d->stack;
}

/* Returns the stack of the running coroutine, which has entered an object.
** Needs no memory.  Without a look for a collection: the coroutine is alive, so
** its address is its own. */
static mwi_stack *stack_in_use(lua_State *L, mwb_hierarchy *d) {
  if (d->L != L) find_stack(L, d);
  return d->stack;
}

/* }====================================================== */

/* {======================================================
** Entering
** ======================================================= */

/* Calls the function that chooses what is recorded. */
static int is_wanted(lua_State *L, const mwb_hierarchy *d, int index) {
  int wanted;
  if (!d->has_only) return 1;
  mwb_push_outside(L, ONLY);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  wanted = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return wanted;
}

/* Returns the handle of the object at `index`, which is known, or MW_NONE.  May
** push. */
static inline mw_handle known_object(lua_State *L, const mwb_state *s,
                                     int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0 || lua_rawgeti(L, MWB_UPOBJECTS, slot) == LUA_TNIL)
    return MW_NONE;
  return mwi_identity_handle(&s->engine->identity, slot);
}

/* Finds the name of an object that is not where it was, or not known; if
** `asked`, for good. */
static uint32_t find_name(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                          int index, mw_handle obj, int asked) {
  uint32_t name;
  luaL_checkstack(L, MWB_ROOM, "names");
  name = mwb_find_name(L, d, stack, index, obj);
  if (asked && (name & UNSURE) != 0)
    name = mwb_search(L, d, stack, stack->n, index, obj);
  return name;
}

/* Enters the object at `index`; if `asked`, the name is on the top then.  Other
** values may be between the name and `top`, where the top was.  Raises with
** nothing entered.  The last step cannot fail. */
static inline void enter_object(lua_State *L, mwb_hierarchy *d, int index,
                                int top, int asked) {
  mwb_state *s = d->data.state;
  mwi_hierarchy *h = mwb_stacks_of(d);
  mwi_stack *stack = mwb_stack_of(L, d);
  mw_handle obj = known_object(L, s, index);
  mwi_named *element;
  int wanted = 0;
  uint32_t name = 0;
  if (obj != MW_NONE) name = mwb_known_name(L, d, stack, index, obj);
  if (name == 0) {
    if (obj == MW_NONE) obj = mwb_identify(L, s, "enter", index, 1);
    lua_settop(L, top);
    name = find_name(L, d, stack, index, obj, asked);
  }
  if (asked) mwb_push_text(L, d, name);
  if (d->recording) {
    wanted = is_wanted(L, d, index);
    mwb_ready_tape(L, d, stack);
  }
  if (!d->open) luaL_error(L, "calling 'enter' on a hierarchy that is closed");
  element = mwi_hierarchy_ready(s->engine, h, stack, obj);
  if (element == NULL) {
    mwb_check(L, MW_NOMEM);
    return;
  }
  mwi_hierarchy_push(h, stack, element, name);
  if (d->recording) mwb_tape_entered(d, stack, wanted);
}

/* Calls a function of hierarchy.lua, and ignores errors. */
static void untrace(lua_State *L, uint32_t depth) {
  mwb_push_outside(L, UNTRACE);
  lua_pushinteger(L, depth);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* A function that was told of the frame at this depth has returned, or raised:
** then the frame is left.  The error is on the top. */
static void check_told(lua_State *L, mwb_hierarchy *d, int status,
                       lua_KContext depth) {
  mwi_stack *stack;
  if (status == LUA_OK || status == LUA_YIELD) return;
  stack = stack_in_use(L, d);
  if (d->open && stack->n >= depth)
    mwi_hierarchy_cut(mwb_stacks_of(d), stack, (uint32_t)depth - 1);
  untrace(L, (uint32_t)depth);
  lua_error(L);
}

/* Tells of the frame on the top, with the object at `index`; goes on with
** `k`. */
static int tell_entered(lua_State *L, mwb_hierarchy *d, int index,
                        lua_KFunction k) {
  uint32_t depth = stack_in_use(L, d)->n;
  if (!is_told(d)) return k(L, LUA_OK, depth);
  mwb_push_outside(L, ENTERED);
  lua_pushvalue(L, index);
  lua_pushinteger(L, depth);
  return k(L, lua_pcallk(L, 2, 0, 0, depth, k), depth);
}

static int entered(lua_State *L, int status, lua_KContext depth) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  check_told(L, d, status, depth);
  lua_settop(L, 3);
  return 1;
}

static int enter(lua_State *L) {
  mwb_hierarchy *d = self(L, "enter");
  if (lua_gettop(L) != 2) lua_settop(L, 2);
  enter_object(L, d, 2, 2, 1);
  if (!is_told(d)) return 1;
  lua_copy(L, -1, 3);
  lua_settop(L, 3);
  return tell_entered(L, d, 2, entered);
}

/* }====================================================== */

/* {======================================================
** Leaving
** ======================================================= */

void mwb_warn_hook(lua_State *L) {
  luaL_tolstring(L, -1, NULL);
  lua_warning(L, "error in a hook (", 1);
  lua_warning(L, lua_tostring(L, -1), 1);
  lua_warning(L, ")", 0);
  lua_pop(L, 1);
}

/* The way of leaving: down to a depth; is the frame there `completed`?  Is an
** error under way? */
enum { COMPLETED = 1, FAILING = 2 };

/* Cuts the frame on the top. */
static void cut_one(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                    lua_KContext way) {
  if (d->recording && (way & COMPLETED) != 0 && stack->n == way >> 2) {
    if (mwb_push_pass(L) == NULL) mwb_tape_left(d, stack);
    lua_pop(L, 1);
  }
  mwi_hierarchy_pop(mwb_stacks_of(d), stack);
}

/* The function that was told of the frame on the top has returned, or raised:
** cuts this frame.  The first error is kept at 3. */
static void told_left(lua_State *L, mwb_hierarchy *d, int status,
                      lua_KContext way) {
  mwi_stack *stack = stack_in_use(L, d);
  lua_Integer depth = lua_tointeger(L, 4);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_createtable(L, 1, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    if (lua_isnil(L, 3)) lua_copy(L, -1, 3);
    untrace(L, (uint32_t)depth);
  }
  if (d->open && stack->n == depth) cut_one(L, d, stack, way);
  lua_settop(L, 3);
}

/* Leaves the frames down to a depth, the innermost first, and tells of each.
** What is at 3 and above is lost. */
static int unwind(lua_State *L, int status, lua_KContext way) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack = stack_in_use(L, d);
  lua_Integer depth = way >> 2;
  if (lua_gettop(L) >= 4) {
    told_left(L, d, status, way);
  } else {
    lua_settop(L, 2);
    lua_pushnil(L);
  }
  while (d->open && stack->n >= depth) {
    if (!is_told(d)) {
      cut_one(L, d, stack, way);
      continue;
    }
    lua_pushinteger(L, stack->n); /* at 4 */
    mwb_push_outside(L, LEFT);
    lua_pushinteger(L, stack->n);
    status = lua_pcallk(L, 1, 0, 0, way, unwind);
    told_left(L, d, status, way);
  }
  if (lua_isnil(L, 3)) return 0;
  lua_rawgeti(L, 3, 1);
  if ((way & FAILING) == 0) return lua_error(L);
  mwb_warn_hook(L);
  return 0;
}

/* Leaves down to the depth; the object there is left as it should be unless an
** error is under way. */
static int leave_to(lua_State *L, lua_Integer depth, int failing) {
  lua_settop(L, 2);
  return unwind(L, LUA_OK,
                (lua_KContext)(depth * 4) | (failing ? FAILING : COMPLETED));
}

/* Is the value at 2 the object that was entered last? */
static inline int is_last(lua_State *L, const mwi_stack *stack) {
  return stack->n > 0 && lua_gettop(L) == 2 &&
         lua_rawgeti(L, MWB_UPOBJECTS,
                     mw_slot(stack->frames[stack->n - 1].obj)) != LUA_TNIL &&
         lua_rawequal(L, 2, 3);
}

static int done(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  (void)n;
  return 0;
}

static int leave(lua_State *L) {
  mwb_hierarchy *d = self(L, "leave");
  mwi_stack *stack = mwb_stack_of(L, d);
  mw_handle obj;
  uint32_t depth;
  if (!d->recording && !is_told(d) && is_last(L, stack)) {
    mwi_hierarchy_pop(mwb_stacks_of(d), stack);
    return 0;
  }
  lua_settop(L, 2);
  mwb_object(L, "leave", 2, 1);
  obj = mwb_handle_of(L, d->data.state, 2);
  depth = 0;
  if (mwi_hierarchy_inside(mwb_stacks_of(d), stack, obj))
    for (depth = stack->n; stack->frames[depth - 1].obj != obj;) depth--;
  if (depth > 0) return leave_to(L, depth, 0);
  mwb_push_outside(L, CONFUSED);
  lua_pushvalue(L, 2);
  lua_callk(L, 1, 0, 0, done);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Instrumented methods
** ======================================================= */

/* Pushes the token of a depth: { depth }.  Closing the token leaves the
** depth. */
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

/* begin(object, ...) -> the token of the next depth; nil if the value cannot be
** entered */
static int begin(lua_State *L) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  if (d->data.state->pending) mwb_slice(L, d->data.state);
  if (!d->open || lua_gettop(L) == 0 || mwb_address(L, 1) == NULL) {
    lua_pushnil(L);
    return 1;
  }
  push_token(L, mwb_stack_of(L, d)->n + 1);
  return 1;
}

static int begun(lua_State *L, int status, lua_KContext depth) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  check_told(L, d, status, depth);
  return 0;
}

/* go(object, ...): enters the object; the token is to be closed by now */
static int go(lua_State *L) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  if (!d->open) return 0;
  lua_settop(L, 1);
  enter_object(L, d, 1, 1, 0);
  if (!is_told(d)) return 0;
  return tell_entered(L, d, 1, begun);
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
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  lua_Integer depth;
  lua_settop(L, 2);
  if (!d->open || mwb_engine_of(d) == NULL) return 0;
  stack = stack_in_use(L, d);
  lua_rawgeti(L, 1, 1);
  depth = lua_tointeger(L, -1);
  if (!is_token(L, depth) || stack->n < depth) return 0;
  if (d->recording || is_told(d)) return leave_to(L, depth, !lua_isnil(L, 2));
  mwi_hierarchy_cut(mwb_stacks_of(d), stack, (uint32_t)depth - 1);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Scopes: { [class] = { depth, order of the frame, thread, data, name } }
** ======================================================= */

enum { DEPTH = 1, ORDER, THREAD, DATA };

static lua_Integer field(lua_State *L, int i) {
  lua_Integer n;
  lua_rawgeti(L, 1, i);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void set_field(lua_State *L, int scope, int i, lua_Integer n) {
  lua_pushinteger(L, n);
  lua_rawseti(L, scope, i);
}

/* Pushes a scope that has entered nothing, and its state. */
static void push_scope(lua_State *L) {
  int i, scope = lua_gettop(L) + 1, state = scope + 1;
  lua_createtable(L, 0, 1);
  lua_createtable(L, 4, 1);
  for (i = DEPTH; i <= THREAD; i++) set_field(L, state, i, 0);
  lua_pushvalue(L, MWB_UPDATA);
  lua_rawseti(L, state, DATA);
  lua_pushliteral(L, "");
  lua_setfield(L, state, "name"); /* room for the name */
  lua_getiuservalue(L, MWB_UPDATA, SCOPE_META);
  lua_pushvalue(L, -1);
  lua_pushvalue(L, state);
  lua_rawset(L, scope);
  lua_setmetatable(L, scope);
}

static int scope_entered(lua_State *L, int status, lua_KContext depth) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  check_told(L, d, status, depth);
  lua_settop(L, 3);
  return 1;
}

/* Returns a scope that leaves the object when it is closed, or lost. */
static int scope(lua_State *L) {
  mwb_hierarchy *d = self(L, "scope");
  const mwi_stack *stack;
  lua_settop(L, 2);
  mwb_object(L, "scope", 2, 1);
  push_scope(L);
  enter_object(L, d, 2, 4, 1);
  lua_setfield(L, 4, "name");
  stack = stack_in_use(L, d);
  set_field(L, 4, DEPTH, stack->n);
  set_field(L, 4, ORDER, (lua_Integer)stack->frames[stack->n - 1].order);
  set_field(L, 4, THREAD, (lua_Integer)stack->thread);
  return tell_entered(L, d, 2, scope_entered);
}

/* Returns the stack with the frame of the scope whose state is at 1, or
** NULL. */
static mwi_stack *stack_of_scope(lua_State *L, mwb_hierarchy *d) {
  lua_Integer depth = field(L, DEPTH);
  mw_handle thread = (mw_handle)field(L, THREAD);
  mwi_stack *stack =
      (mwi_stack *)mwi_column_page(&mwb_stacks_of(d)->stacks, mw_slot(thread));
  if (stack == NULL || depth == 0) return NULL;
  stack += mw_slot(thread) % MWI_PAGE;
  if (stack->thread != thread || stack->n < depth ||
      stack->frames[depth - 1].order != (uint64_t)field(L, ORDER))
    return NULL;
  return stack;
}

/* leave_scope(state, error, lost): leaves the object, once.  A lost scope may
** be that of another coroutine; then hooks are not told. */
static int leave_scope(lua_State *L) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, MWB_UPDATA);
  int lost = lua_toboolean(L, 3);
  mwi_stack *stack;
  lua_settop(L, 2);
  if (!d->open || mwb_engine_of(d) == NULL) return 0;
  stack = stack_of_scope(L, d);
  if (stack == NULL) return 0;
  if (stack == stack_in_use(L, d))
    return leave_to(L, field(L, DEPTH), !lua_isnil(L, 2));
  if (lost)
    mwi_hierarchy_cut(mwb_stacks_of(d), stack, (uint32_t)field(L, DEPTH) - 1);
  return 0;
}

/* Calls `leave_scope` of the scope at 1. */
static int pass_on(lua_State *L, int lost) {
  lua_settop(L, 2);
  if (lua_type(L, 1) != LUA_TTABLE || !lua_getmetatable(L, 1) ||
      !lua_rawequal(L, 3, lua_upvalueindex(3)))
    return luaL_error(L, "calling 'close' on bad self (scope expected, got %s)",
                      mwb_type_name(L, 1));
  lua_settop(L, 2);
  if (mwb_put_off(L, mwb_state_of(L))) return 0;
  lua_pushvalue(L, lua_upvalueindex(3));
  if (lua_rawget(L, 1) == LUA_TNIL) return 0;
  lua_replace(L, 1);
  lua_rawgeti(L, 1, DATA);
  lua_getiuservalue(L, -1, LEAVE_SCOPE);
  lua_replace(L, -2);
  lua_insert(L, 1);
  lua_pushboolean(L, lost);
  lua_callk(L, 3, 0, 0, done);
  return 0;
}

/* The methods of all scopes: they know no hierarchy. */
static int close_scope(lua_State *L) { return pass_on(L, 0); }
static int lose_scope(lua_State *L) { return pass_on(L, 1); }

/* }====================================================== */

/* {======================================================
** For hierarchy.lua
** ======================================================= */

static int depth(lua_State *L) {
  lua_pushinteger(L, mwb_stack_of(L, data_of(L))->n);
  return 1;
}

/* Pushes the name of frame number `i`. */
static void push_frame_text(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                            uint32_t i) {
  uint32_t name = mwb_settle_frame(L, d, stack, i);
  if (name == 0)
    lua_pushliteral(L, "?"); /* it was dead before anybody asked */
  else
    mwb_push_text(L, d, name);
}

/* frame(i) -> object (nil when dead), its name; frame 1 is the outermost */
static int frame(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mwi_stack *stack = mwb_stack_of(L, d);
  lua_Integer i = lua_tointeger(L, 1);
  lua_settop(L, 0);
  if (i < 1 || i > stack->n) return 0;
  push_frame_text(L, d, stack, (uint32_t)i);
  mwb_alive(L, d->data.state, stack->frames[i - 1].obj);
  lua_insert(L, 1);
  return 2;
}

/* current() -> name, object, depth of what executes */
static int current(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mwi_stack *stack = mwb_stack_of(L, d);
  const mwb_pass *pass = mwb_push_pass(L);
  uint32_t outer = 0, first = 0;
  if (pass != NULL) {
    lua_newtable(L);
    first = mwb_pass_first(pass);
    outer = mwb_add_path(L, d, pass);
  }
  lua_settop(L, 0);
  if (stack->n > first) {
    push_frame_text(L, d, stack, stack->n);
    mwb_alive(L, d->data.state, stack->frames[stack->n - 1].obj);
  } else if (pass != NULL) {
    mwb_push_visited(L, d, pass);
  } else {
    return 0;
  }
  lua_pushinteger(L, (lua_Integer)(stack->n - first) + outer);
  return 3;
}

/* Appends the names of the frames from number `i` on to the array on the top,
** which has `n`.  With the place of another array in `orders`, appends there
** the numbers of the frames' entering. */
static void add_frames(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                       uint32_t i, uint32_t n, int orders) {
  for (; i < stack->n; i++) {
    push_frame_text(L, d, stack, i + 1);
    lua_rawseti(L, -2, ++n);
    if (orders == 0) continue;
    lua_pushinteger(L, (lua_Integer)stack->frames[i].order);
    lua_rawseti(L, orders, n);
  }
}

/* Pushes a new array if the value at `index` is true.  Returns its place, or
** 0. */
static int push_orders(lua_State *L, int index) {
  if (!lua_toboolean(L, index)) return 0;
  lua_newtable(L);
  return lua_gettop(L);
}

/* path(wants orders) -> names of all that executes, the outermost first, and
** perhaps the numbers of their entering; what a pass visits has that of the
** pass's begin */
static int path(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mwi_stack *stack = mwb_stack_of(L, d);
  const mwb_pass *pass;
  uint32_t i = 0, n = 0, first = 0;
  int orders;
  lua_settop(L, 1);
  orders = push_orders(L, 1);
  pass = mwb_push_pass(L);
  lua_newtable(L);
  if (pass != NULL) {
    n = mwb_add_path(L, d, pass);
    first = mwb_pass_first(pass);
  }
  for (; orders != 0 && i < n; i++) {
    lua_pushinteger(L, (lua_Integer)mwb_pass_order(pass));
    lua_rawseti(L, orders, i + 1);
  }
  add_frames(L, d, stack, first, n, orders);
  if (orders == 0) return 1;
  lua_pushvalue(L, orders);
  return 2;
}

/* path_of(coroutine, wants orders) -> the same of all that executes there */
static int path_of(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mw_engine *e = mwb_engine_of(d);
  mw_handle thread = mwb_handle_of(L, d->data.state, 1);
  mwi_stack *stack = NULL;
  uint32_t n;
  int orders;
  lua_settop(L, 2);
  orders = push_orders(L, 2);
  lua_newtable(L);
  mw_hierarchy_stack(e, d->number, thread, &n);
  if (n > 0) stack = mwi_hierarchy_need(e, d->number, thread);
  if (stack != NULL) add_frames(L, d, stack, 0, 0, orders);
  if (orders == 0) return 1;
  lua_pushvalue(L, orders);
  return 2;
}

/* is_reverse() -> is the running coroutine in a pass? */
static int is_reverse(lua_State *L) {
  data_of(L);
  lua_pushboolean(L, mwb_push_pass(L) != NULL);
  return 1;
}

static int frames(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  lua_pushinteger(
      L, (lua_Integer)mw_hierarchy_frames(mwb_engine_of(d), d->number));
  return 1;
}

/* name_of(object) -> its name, or nil */
static int name_of(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mw_handle obj = mwb_handle_of(L, d->data.state, 1);
  uint32_t name = (obj == MW_NONE) ? 0 : mwb_settle(L, d, obj);
  if (name == 0) return 0;
  mwb_push_text(L, d, name);
  return 1;
}

/* key_path(object) -> keys from the root on, or nil */
static int key_path(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  mw_handle obj = mwb_handle_of(L, d->data.state, 1);
  uint32_t name = (obj == MW_NONE) ? 0 : mwb_settle(L, d, obj), above, n = 0;
  lua_settop(L, 1);
  if (name == 0) return 0;
  for (above = name; above != 0; n++) above = mwb_name_above(L, d, above);
  lua_createtable(L, (int)n - 1, 0);
  for (; n > 1; n--) {
    lua_rawgeti(L, KEYS, name);
    lua_rawseti(L, 2, n - 1);
    name = mwb_name_above(L, d, name);
  }
  return 1;
}

/* Calls `f` for each live object with a name, which stands on the top; until it
** returns 1. */
static int each_named(lua_State *L, mwb_hierarchy *d,
                      int (*f)(lua_State *, mwb_hierarchy *, uint32_t)) {
  int top = lua_gettop(L);
  uint32_t slot;
  for (slot = 0; slot < d->places.n * MWI_PAGE; slot++) {
    const mwb_site *place = (const mwb_site *)mwi_column_page(&d->places, slot);
    uint32_t name;
    if (place == NULL) {
      slot |= MWI_PAGE - 1;
      continue;
    }
    place += slot % MWI_PAGE;
    if (!place->named && !place->pending) continue;
    if (mwb_alive(L, d->data.state, place->obj)) {
      lua_settop(L, top + 1);
      name = mwb_settle(L, d, place->obj);
      if (name != 0 && f(L, d, name)) return 1;
    }
    lua_settop(L, top);
  }
  return 0;
}

static int add_text(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  mwb_push_text(L, d, name);
  lua_rawseti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1);
  return 0;
}

/* names() -> the names of all live objects, in no order */
static int names(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  lua_settop(L, 0);
  lua_newtable(L);
  each_named(L, d, add_text);
  lua_settop(L, 1);
  return 1;
}

static int is_text(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  size_t len;
  const char *text = lua_tolstring(L, 1, &len);
  return mwb_has_text(L, d, name, text, len);
}

/* find(name) -> a live object of this name, or nil */
static int find(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  lua_settop(L, 1);
  if (!each_named(L, d, is_text)) return 0;
  lua_settop(L, 2);
  return 1;
}

/* hooked(on): are there hooks that are told of entering and leaving? */
static int set_hooked(lua_State *L) {
  data_of(L)->hooked = lua_toboolean(L, 1);
  return 0;
}

/* record(on, only?): begins or ends the record; ONLY is set if `only` */
static int record(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  d->recording = lua_toboolean(L, 1);
  d->has_only = lua_toboolean(L, 2);
  if (!d->recording) mwb_clear_tape(d, &d->tape);
  return 0;
}

/* backward(hierarchy, fn) */
static int backward(lua_State *L) {
  mwb_hierarchy *d = self(L, "backward");
  if (lua_type(L, 2) != LUA_TFUNCTION)
    return mwb_bad_argument(L, "backward", 2, 1, "function");
  return mwb_backward(L, d);
}

static int reset(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  lua_settop(L, 0);
  lua_newtable(L);
  mwb_push_ephemeron(L, d->data.state);
  lua_setiuservalue(L, MWB_UPDATA, PASSES);
  lua_setiuservalue(L, MWB_UPDATA, TOKENS);
  mwb_clear_tape(d, &d->tape);
  mw_hierarchy_reset(mwb_engine_of(d), d->number);
  return 0;
}

static int shut(lua_State *L) {
  mwb_hierarchy *d = data_of(L);
  d->open = d->recording = d->hooked = 0;
  mwb_clear_tape(d, &d->tape);
  mw_hierarchy_reset(mwb_engine_of(d), d->number);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Making one
** ======================================================= */

static const luaL_Reg methods[] = {{"enter", enter},
                                   {"leave", leave},
                                   {"scope", scope},
                                   {"backward", backward},
                                   {NULL, NULL}};
static const luaL_Reg inner[] = {{"begin", begin},
                                 {"go", go},
                                 {"depth", depth},
                                 {"frame", frame},
                                 {"current", current},
                                 {"path", path},
                                 {"path_of", path_of},
                                 {"frames", frames},
                                 {"is_reverse", is_reverse},
                                 {"name_of", name_of},
                                 {"key_path", key_path},
                                 {"names", names},
                                 {"find", find},
                                 {"record", record},
                                 {"hooked", set_hooked},
                                 {"reset", reset},
                                 {"shut", shut},
                                 {NULL, NULL}};
static const luaL_Reg token[] = {{"__close", finish}, {NULL, NULL}};
static const luaL_Reg of_scope[] = {{"close", close_scope},
                                    {"__close", close_scope},
                                    {"__gc", lose_scope},
                                    {NULL, NULL}};
static const luaL_Reg of_scopes[] = {{"leave_scope", leave_scope},
                                     {NULL, NULL}};

/* The finaliser of the data. */
static int free_data(lua_State *L) {
  mwb_hierarchy *d = (mwb_hierarchy *)lua_touserdata(L, 1);
  mw_engine *e = mwb_engine_of(d);
  if (e == NULL || mwb_put_off(L, d->data.state)) return 0;
  if (d->owned) mw_hierarchy_close(e, d->number);
  d->tape.n = 0; /* the names go at once */
  mwb_clear_tape(d, &d->tape);
  mwi_column_drop(e, &d->names.items, MWI_PAGE * sizeof(mwb_name));
  mwi_column_drop(e, &d->places, MWI_PAGE * sizeof(mwb_site));
  d->owned = d->open = 0;
  return 0;
}

/* Sets functions whose upvalues are state, objects, the data at 4, and TEXTS
** and KEYS at 5 and 6. */
static void set_methods(lua_State *L, const luaL_Reg *list) {
  int i;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  for (i = 4; i <= 6; i++) lua_pushvalue(L, i);
  luaL_setfuncs(L, list, 5);
}

static mwb_hierarchy *new_data(lua_State *L, mwb_state *s) {
  mwb_hierarchy *d =
      (mwb_hierarchy *)lua_newuserdatauv(L, sizeof(mwb_hierarchy), USERVALUES);
  memset(d, 0, sizeof(mwb_hierarchy));
  d->data.state = s;
  d->data.self = lua_topointer(L, 1);
  d->epoch = 1;
  d->data.state->renames++;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, free_data);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  mwb_check(L, mw_hierarchy_open(s->engine, &d->number));
  d->owned = 1;
  return d;
}

/* scopes(hierarchy, { functions and tables }, class of scopes, has children?)
** -> the inner functions; sets the hot methods in the table `hierarchy`. */
static int open_hierarchy(lua_State *L) {
  mwb_hierarchy *d;
  mwb_state *s = mwb_enter(L);
  int has_children = lua_toboolean(L, 4);
  lua_settop(L, 3);
  d = new_data(L, s); /* at 4 */
  d->has_children = has_children;
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 4, OUTSIDE);
  lua_newtable(L); /* TEXTS, at 5, */
  lua_newtable(L); /* and KEYS */
  lua_newtable(L);
  lua_setiuservalue(L, 4, TOKENS);
  lua_newtable(L);
  set_methods(L, token);
  lua_setiuservalue(L, 4, TOKEN_META);
  mwb_push_ephemeron(L, d->data.state);
  lua_setiuservalue(L, 4, PASSES);
  lua_newtable(L);
  set_methods(L, mwb_pass_meta);
  lua_setiuservalue(L, 4, PASS_META);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, 4, SCOPE_META);
  lua_newtable(L);
  set_methods(L, of_scopes);
  lua_getfield(L, -1, of_scopes[0].name);
  lua_setiuservalue(L, 4, LEAVE_SCOPE);
  lua_settop(L, 6);
  lua_pushvalue(L, 1);
  set_methods(L, methods);
  lua_newtable(L);
  set_methods(L, inner);
  d->open = 1;
  return 1;
}

/* scope_class(class): sets the methods of scopes */
static int scope_class(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 1);
  luaL_setfuncs(L, of_scope, 3);
  return 0;
}

void mwb_open_hierarchy(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"scopes", open_hierarchy}, {"scope_class", scope_class}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
