/*
** hierarchy.c - the objects that are executing: the stacks of mw.hierarchy.
** SPDX-License-Identifier: MIT
**
** The engine has a stack for each coroutine.  The functions here enter and
** leave, and know which names hold still; names, hooks and tapes are in the Lua
** files.  The program's hierarchy is the userdata with the data.
**
** An instrumented method has a token, which is to be closed: { depth }.
** Closing it leaves the frame at the depth, and all above.
*/
#include "../base/base.h"

#include <string.h>

#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../traps/traps.h"

typedef struct hierarchy {
  mwb_state *state;
  mw_hierarchy number;
  int owned; /* has the engine given the number? */
  int open;
  int told;         /* are the Lua files told of each frame? */
  uint64_t serials; /* that names have got */
  uint64_t epoch;   /* see `make_sure` */
  lua_State *L;     /* the coroutine that called last */
  uint64_t at;      /* number of collections at the last call */
  mwi_stack *stack; /* of that coroutine */
} hierarchy;

/* User values: what the Lua files have of the hierarchy, and functions of
** theirs. */
enum {
  ITS = 1,
  ENTERED,
  LEAVE,
  CONFUSED,
  TOKENS, /* depth -> its token */
  TOKEN_META,
  NAMES /* slot -> the name, weakly */
};

/* {======================================================
** Stacks
** ======================================================= */

#define UPCLASS MWB_UPDATA /* of the class's methods */

static mw_engine *engine_of(const hierarchy *d) { return d->state->engine; }

static mwi_hierarchy *stacks_of(const hierarchy *d) {
  return mwi_hierarchy_of(&engine_of(d)->scope, d->number);
}

/* Are the Lua files, or traces, told of each frame? */
static int is_told(const hierarchy *d) {
  return d->told || (d->state->trace->sources & MWB_HIERARCHIES) != 0;
}

/* Begins a method of the class.  Returns the data of the hierarchy at 1, which
** is open, or raises. */
static hierarchy *self(lua_State *L, const char *name) {
  hierarchy *d;
  mwb_enter(L);
  if (lua_type(L, 1) != LUA_TUSERDATA || !lua_getmetatable(L, 1) ||
      !lua_rawequal(L, -1, UPCLASS))
    luaL_error(L, "calling '%s' on bad self (hierarchy expected, got %s)", name,
               mwb_type_name(L, 1));
  d = (hierarchy *)lua_touserdata(L, 1);
  if (!d->open)
    luaL_error(L, "calling '%s' on a hierarchy that is closed", name);
  lua_settop(L, 2);
  return d;
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
  if (d->L == L) { /* perhaps the coroutine of the last call? */
    if (L == s->main) return d->stack; /* which lives as long as all */
    mwb_probe(L, d->state);
    if (d->at == s->collections) return d->stack; /* is it surely the same? */
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

/* }====================================================== */

/* {======================================================
** Names
** ======================================================= */

/*
** Names are made by the Lua files, which tell of those that they have looked
** for.  A name has a serial, and notes that of the parent's name; its array
** part has the keys from the parent on.  An object that is entered, by its
** parent or first of all, and is where it was, has its name still.
*/

/* Does the place that the name tells hold for the last enter? */
static int is_settled(const mwi_named *element) {
  return element->serial != 0 && element->settled == element->order;
}

/* Returns what is known of the object at `index`; NULL if it was never
** entered. */
static mwi_named *element_of(lua_State *L, const hierarchy *d, int index) {
  return mwi_hierarchy_element(stacks_of(d), mwb_handle_of(L, d->state, index));
}

static mwi_named *parent_of(const hierarchy *d, const mwi_named *element) {
  return mwi_hierarchy_element(stacks_of(d), element->parent);
}

/*
** Is the name of an element the one that the Lua files would find, and those of
** its parents?  Once found out, this holds for the epoch: until an object gets
** another name, or one that has children is entered.
*/
static int make_sure(const hierarchy *d, mwi_named *element) {
  mwi_named *it = element;
  while (is_settled(it) && it->sure != d->epoch && it->above != 0) {
    mwi_named *parent = parent_of(d, it);
    if (parent == NULL || parent->serial != it->above) return 0; /* renamed? */
    it = parent;
  }
  if (!is_settled(it)) return 0; /* entered since, or unnamed? */
  it->sure = d->epoch;
  for (; element != it; element = parent_of(d, element))
    element->sure = d->epoch;
  return 1;
}

/* Is the object at 2 where its name, at `name`, tells?  The parent is on the
** top, and is lost. */
static int is_there(lua_State *L, int name) {
  int at = lua_gettop(L), i;
  for (i = 1; lua_rawgeti(L, name, i) != LUA_TNIL; i++) {
    if (lua_type(L, at) != LUA_TTABLE) return 0; /* is the path broken? */
    if (i > 1) { /* only a table without a class is looked through */
      mwb_push_class(L, at);
      if (!lua_isnil(L, -1)) return 0;
      lua_pop(L, 1);
    }
    if (mwb_push_shadow(L, at)) lua_replace(L, at);
    lua_rawget(L, at);
    lua_replace(L, at);
  }
  return i == 1 /* a function of the program told it */ ||
         lua_rawequal(L, 2, at);
}

/* Has the object at 2 its name still if it is entered now?  Then pushes the
** text; else may push something. */
static int push_known(lua_State *L, const hierarchy *d, const mwi_stack *stack,
                      mwi_named *element) {
  int name = lua_gettop(L) + 2;
  mwi_named *parent;
  if (element->serial == 0) return 0; /* has it no name yet? */
  lua_getiuservalue(L, 1, NAMES);
  if (lua_rawgeti(L, -1, mw_slot(element->obj)) != LUA_TTABLE) return 0;
  if (element->frames > 0) { /* then it keeps the place */
    if (!make_sure(d, element)) return 0;
  } else if (element->above == 0) { /* a root; but perhaps not below another */
    if (stack->n > 0) return 0;
  } else {
    parent = parent_of(d, element);
    if (parent == NULL || parent->serial != element->above) return 0;
    if (stack->n > 0 && stack->frames[stack->n - 1].obj != parent->obj)
      return 0; /* is another one executing? */
    if (!make_sure(d, parent)) return 0;
    lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(parent->obj));
    if (!is_there(L, name)) return 0; /* has it left its place? */
  }
  lua_pushliteral(L, "text");
  return lua_rawget(L, name) == LUA_TSTRING;
}

/* named(object, name, parent): the name has been looked for, and that of the
** parent, which is nil for a root */
static int named(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element = element_of(L, d, 1), *above = element_of(L, d, 3);
  if (element == NULL) return 0; /* was it never entered? */
  if (!lua_isnil(L, 3) && (above == NULL || above->serial == 0)) {
    element->serial = 0; /* the parent's name is not known */
    return 0;
  }
  lua_settop(L, 3);
  lua_getiuservalue(L, MWB_UPDATA, NAMES);
  lua_rawgeti(L, 4, mw_slot(element->obj));
  if (element->serial == 0 || !lua_rawequal(L, 2, 5)) { /* another name? */
    lua_pushvalue(L, 2);
    lua_rawseti(L, 4, mw_slot(element->obj));
    element->serial = ++d->serials;
  }
  element->parent = (above == NULL) ? MW_NONE : above->obj; /* a root? */
  element->above = (above == NULL) ? 0 : above->serial;
  if (above != NULL) above->is_parent = 1;
  element->settled = element->order;
  element->sure = d->epoch;
  return 0;
}

/* sure(object) -> the name, if it need not be looked for */
static int sure(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element = element_of(L, d, 1);
  if (element == NULL || !make_sure(d, element)) return 0;
  lua_getiuservalue(L, MWB_UPDATA, NAMES);
  lua_rawgeti(L, -1, mw_slot(element->obj));
  return 1;
}

/* settled(object): its place holds for the last enter */
static int settled(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element = element_of(L, d, 1);
  if (element != NULL) element->settled = element->order;
  return 0;
}

/* renamed([object]): what executes is called otherwise: writes have other
** scopes */
static int renamed(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element = element_of(L, d, 1);
  if (element != NULL) element->serial = 0;
  d->epoch++;
  mwb_turn_context(d->state);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Entering and leaving
** ======================================================= */

/* Puts a frame of the object at `index` on the stack.  Returns whether the
** object is entered for the first time. */
static int push_frame(lua_State *L, hierarchy *d, mwi_stack *stack, int index) {
  mw_handle obj = mwb_identify(L, d->state, "enter", index, 1);
  mwi_hierarchy *h = stacks_of(d);
  mwi_named *element = mwi_hierarchy_ready(engine_of(d), h, stack, obj);
  int is_new = 0;
  if (element != NULL) {
    is_new = element->order == 0;
    mwi_hierarchy_push(h, stack, element, 1);
    if (element->is_parent && !is_settled(element)) d->epoch++; /* elsewhere? */
  } else
    mwb_check(L, MW_NOMEM);
  return is_new;
}

/* Puts a frame of the object at 2 on the stack if the object's name is known,
** and pushes the name. */
static int push_known_frame(lua_State *L, hierarchy *d, mwi_stack *stack) {
  mwi_identity *identity = &engine_of(d)->identity;
  const void *ptr = mwb_address(L, 2);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(engine_of(d), ptr);
  mwi_hierarchy *h = stacks_of(d);
  mwi_named *element;
  if (slot == 0) return 0;  /* unknown to the library? */
  if (identity->left > 0 && /* an address may be that of a dead object */
      lua_rawgeti(L, MWB_UPOBJECTS, slot) == LUA_TNIL)
    return 0;
  element = mwi_hierarchy_element(h, mwi_identity_handle(identity, slot));
  if (element == NULL || stack->n == stack->size) return 0; /* new, or full? */
  if (!push_known(L, d, stack, element)) return 0;
  mwi_hierarchy_push(h, stack, element, 1);
  element->settled = element->order;
  element->sure = d->epoch;
  return 1;
}

/* The Lua files have been told of the frame at the depth: if they raise, the
** frame is left. */
static int entered(lua_State *L, int status, lua_KContext depth) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, 1);
  mwi_stack *stack;
  if (status == LUA_OK || status == LUA_YIELD) return 1; /* has none raised? */
  stack = stack_in_use(L, d);
  if (d->open && stack->n >= depth) /* is the frame still there? */
    mwi_hierarchy_cut(stacks_of(d), stack, (uint32_t)depth - 1);
  return lua_error(L);
}

/* enter(hierarchy, object) -> name */
static int enter(lua_State *L) {
  hierarchy *d = self(L, "enter");
  mwi_stack *stack = stack_of(L, d);
  int is_known = push_known_frame(L, d, stack), is_new = 0;
  uint32_t depth;
  if (is_known && !is_told(d)) return 1; /* is nobody to hear? */
  if (!is_known) {
    lua_settop(L, 2); /* the Lua files find the name */
    mwb_object(L, "enter", 2, 1);
    is_new = push_frame(L, d, stack, 2);
    lua_settop(L, 2);
    lua_pushnil(L);
  }
  depth = stack->n;
  lua_getiuservalue(L, 1, ENTERED);
  lua_pushvalue(L, 2);
  lua_pushinteger(L, depth);
  lua_pushboolean(L, is_new);
  lua_pushvalue(L, -5);
  return entered(L, lua_pcallk(L, 4, 1, 0, depth, entered), depth);
}

static int done(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  (void)n;
  return 0;
}

/* Is the value at 2 the object that was entered last? */
static int is_last(lua_State *L, const mwi_stack *stack) {
  if (stack->n == 0) return 0;
  lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(stack->frames[stack->n - 1].obj));
  return !lua_isnil(L, -1) && lua_rawequal(L, 2, -1);
}

/* leave(hierarchy, object) */
static int leave(lua_State *L) {
  hierarchy *d = self(L, "leave");
  mwi_stack *stack = stack_of(L, d);
  mw_handle obj;
  uint32_t depth;
  if (!is_told(d) && is_last(L, stack)) { /* on the top, and nobody hears? */
    mwi_hierarchy_pop(stacks_of(d), stack);
    return 0;
  }
  lua_settop(L, 2);
  mwb_object(L, "leave", 2, 1);
  obj = mwb_handle_of(L, d->state, 2);
  depth = stack->n;
  if (mwi_hierarchy_inside(stacks_of(d), stack, obj) == 0) depth = 0;
  while (depth > 0 && stack->frames[depth - 1].obj != obj) depth--;
  if (depth > 0 && !is_told(d)) { /* with others above, which go, too? */
    mwi_hierarchy_cut(stacks_of(d), stack, depth - 1);
    return 0;
  }
  lua_getiuservalue(L, 1, (depth > 0) ? LEAVE : CONFUSED);
  if (depth > 0) /* was it entered? */
    lua_pushinteger(L, depth);
  else
    lua_pushvalue(L, 2);
  lua_callk(L, 1, 0, 0, done);
  return 0;
}

/* cut(depth): leaves what is above the depth.  Needs no memory: it ends what
** has failed. */
static int cut(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  mwi_stack *stack;
  lua_Integer depth = lua_tointeger(L, 1);
  if (!d->owned || engine_of(d) == NULL) return 0; /* is it all over? */
  stack = stack_in_use(L, d);
  if (depth < stack->n) mwi_hierarchy_cut(stacks_of(d), stack, (uint32_t)depth);
  return 0;
}

/* Pushes the token of a depth. */
static void push_token(lua_State *L, uint32_t depth) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, MWB_UPDATA, TOKENS);
  if (lua_rawgeti(L, -1, depth) == LUA_TNIL) { /* not so deep before? */
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
  int is_new;
  mwb_enter(L);
  if (!d->open || lua_gettop(L) == 0 || mwb_address(L, 1) == NULL) return 0;
  lua_settop(L, 1);
  stack = stack_of(L, d);
  push_token(L, stack->n + 1);
  lua_pushinteger(L, stack->n + 1);
  is_new = push_frame(L, d, stack, 1);
  lua_settop(L, 3);
  lua_pushboolean(L, is_new);
  return 3;
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
  if (!d->open || engine_of(d) == NULL) return 0; /* closed meanwhile? */
  stack = stack_in_use(L, d);
  lua_rawgeti(L, 1, 1);
  depth = lua_tointeger(L, -1);
  if (!is_token(L, depth) || stack->n < depth) return 0; /* left already? */
  if (!is_told(d)) { /* does nobody hear of what is left? */
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
  if (!d->owned || engine_of(d) == NULL) return 0; /* is it all over? */
  stack = (mwi_stack *)mwi_column_page(&stacks_of(d)->stacks, mw_slot(thread));
  if (stack == NULL) return 0;
  stack += mw_slot(thread) % MWI_PAGE;
  if (stack->thread == thread && stack->n >= depth && /* is it still there? */
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

/* frame(i) -> object (nil when dead), order, coroutine's handle, and a number
** for what executes from frame 1, the outermost, to this one */
static int frame(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_stack *stack = stack_of(L, d);
  lua_Integer i = lua_tointeger(L, 1);
  if (i < 1 || i > stack->n) return 0;
  mwb_alive(L, d->state, stack->frames[i - 1].obj);
  lua_pushinteger(L, (lua_Integer)stack->frames[i - 1].order);
  lua_pushinteger(L, (lua_Integer)stack->thread);
  lua_pushinteger(L, (lua_Integer)stack->frames[i - 1].way);
  return 4;
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
** executed outside, or nil; does the place hold for it? */
static int where(lua_State *L) {
  hierarchy *d = data_of(L);
  const mwi_stack *stack = stack_of(L, d);
  const mwi_named *element = element_of(L, d, 1);
  if (element == NULL) { /* was it never entered? */
    lua_pushinteger(L, 0);
    return 1;
  }
  lua_pushinteger(L, (lua_Integer)element->order);
  lua_pushinteger(L, frame_of(stack, element->order));
  mwb_alive(L, d->state, element->caller);
  lua_pushboolean(L, element->settled == element->order);
  return 4;
}

/* forget(object): it was never entered */
static int forget(lua_State *L) {
  hierarchy *d = data_of(L);
  mwi_named *element = element_of(L, d, 1);
  if (element != NULL) element->order = element->settled = element->serial = 0;
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

/* The hierarchy is lost. */
static int free_data(lua_State *L) {
  hierarchy *d = (hierarchy *)lua_touserdata(L, MWB_UPDATA);
  if (engine_of(d) == NULL || mwb_put_off(L, d->state)) return 0;
  if (d->owned) mw_hierarchy_close(engine_of(d), d->number);
  d->owned = d->open = 0;
  return 0;
}

/* Sets functions whose upvalues are state, objects, and the value at `data`. */
static void set_methods(lua_State *L, const luaL_Reg *functions, int data) {
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, data);
  luaL_setfuncs(L, functions, 3);
}

/* hierarchy_class(class): gives the class its methods in C */
static int make_class(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"enter", enter}, {"leave", leave}, {NULL, NULL}};
  lua_settop(L, 1);
  set_methods(L, methods, 1);
  return 0;
}

/* hierarchy(class, its, entered, leave, confused) -> hierarchy, functions.
** `entered(object, depth, is new, name)` is called for what is entered if the
** name, then nil, is not known, or somebody is to be told, and returns the
** name; `leave(depth, error)` if somebody is to be told. */
static int new_hierarchy(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"cut", cut},         {"begin", begin},      {"lose", lose},
      {"depth", depth_of},  {"frame", frame},      {"where", where},
      {"inside", inside},   {"forget", forget},    {"list", list},
      {"frames", frames},   {"order", last_order}, {"told", set_told},
      {"named", named},     {"sure", sure},        {"settled", settled},
      {"renamed", renamed}, {"reset", reset},      {"shut", shut},
      {"free", free_data},  {NULL, NULL}};
  static const luaL_Reg token[] = {{"__close", finish}, {NULL, NULL}};
  mwb_state *s = mwb_enter(L);
  hierarchy *d;
  int i;
  lua_settop(L, 5);
  d = (hierarchy *)lua_newuserdatauv(L, sizeof(hierarchy), NAMES);
  memset(d, 0, sizeof(hierarchy));
  d->state = s;
  d->epoch = 1;
  for (i = ITS; i <= CONFUSED; i++) {
    lua_pushvalue(L, i + 1);
    lua_setiuservalue(L, 6, i);
  }
  lua_newtable(L);
  lua_setiuservalue(L, 6, TOKENS);
  lua_newtable(L);
  set_methods(L, token, 6);
  lua_setiuservalue(L, 6, TOKEN_META);
  mwb_push_weak(L, "v");
  lua_setiuservalue(L, 6, NAMES);
  lua_newtable(L);
  set_methods(L, functions, 6);
  mwb_check(L, mw_hierarchy_open(s->engine, &d->number));
  d->owned = d->open = 1;
  lua_pushvalue(L, 1);
  lua_setmetatable(L, 6);
  return 2;
}

/* its(hierarchy) -> what the Lua files have of it */
static int its(lua_State *L) {
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, ITS);
  return 1;
}

const luaL_Reg mwb_hierarchy_functions[] = {{"hierarchy_class", make_class},
                                            {"hierarchy", new_hierarchy},
                                            {"its", its},
                                            {NULL, NULL}};
