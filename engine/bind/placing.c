/*
** placing.c - under which name is an object entered?
** SPDX-License-Identifier: MIT
**
** An object that is entered is the child of the innermost executing object that
** holds it.  What takes the least is tried first:
**
** 1. The names that are known of the object, and of the plain tables above: is
**    the parent executing, and is the object still there?
** 2. Guesses: next to where an object was found last, the ends of a list, and
**    next to where this object was.
** 3. A look at EAGER fields of those that execute.
** 4. If somebody asks for the name: a search in what executes, the innermost
**    first.  So the frame has a name with UNSURE until then, and the object is
**    `pending`; when it has been left by then, the search begins with the
**    object that executed outside.
**
** A search that has found nobody is not made again for the same objects on the
** stack: then a look at AGAIN fields has to do.
*/
#include "hierarchy.h"

#define EAGER 64  /* fields */
#define AGAIN 256 /* fields */
#define FRAMES 24 /* objects that execute and are looked at */
#define DEEPEST 8 /* objects that execute and are searched as a whole */
#define CLIMB 32  /* plain tables on the way to an object */
#define NEAREST 3 /* objects that execute and whose lists are guessed */

/* {======================================================
** Known names
** ======================================================= */

/* The way from an object up through the plain tables that hold it. */
typedef struct climb {
  uint32_t n;               /* levels above the object */
  uint32_t name[CLIMB];     /* of what is at each level */
  mw_handle obj[CLIMB + 1]; /* at each level */
} climb;

/* Of the known names of what is at level `n`, looks for one below the innermost
** executing object; for a frame further in than `*innermost`. */
static uint32_t best_name(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                          const climb *c, uint32_t *innermost) {
  const mwb_site *place = mwb_site_of(d, c->obj[c->n]);
  const mwb_site *object = mwb_site_of(d, c->obj[0]);
  uint32_t name = place->first, best = 0, i;
  for (; name != 0; name = mwb_name_at(d, name)->next) {
    mw_handle parent = mwb_name_at(d, name)->parent;
    if (parent == MW_NONE) continue;
    i = mwi_hierarchy_inside(mwb_stacks_of(d), stack, parent);
    if (i <= *innermost || !mwb_is_there(L, d, name, c->obj[c->n])) continue;
    if (object->is_parent && mwb_is_above(d, object->obj, parent)) continue;
    best = name;
    *innermost = i;
  }
  return best;
}

/* Of the plain tables that hold what is at level `n`, by its known names, looks
** for the innermost one that executes itself.  Returns the name there, or 0. */
static uint32_t name_in_plain(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                              const climb *c, uint32_t *innermost) {
  mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  mwb_site *place = mwb_need_site(L, d, c->obj[c->n]);
  const mwb_site *object = mwb_site_of(d, c->obj[0]);
  uint32_t name = place->first, best = 0, i;
  for (; name != 0; name = mwb_name_at(d, name)->next) {
    const mwb_name *n = mwb_name_at(d, name);
    if (n->up == 0) continue;
    i = mwi_hierarchy_inside(mwb_stacks_of(d), stack, n->holder);
    if (i <= *innermost || !mwb_is_held(L, d, name, place->obj)) continue;
    if (object->is_parent && mwb_is_above(d, object->obj, n->holder)) continue;
    best = name;
    *innermost = i;
  }
  if (best == 0) return 0;
  field.parent = field.holder = mwb_name_at(d, best)->holder;
  lua_rawgeti(L, KEYS, best);
  best = mwb_note_name(L, d, place, &field, -1);
  lua_pop(L, 1);
  return best;
}

/* Goes up to the plain table that holds what is at the last level. */
static int climb_up(lua_State *L, mwb_hierarchy *d, climb *c) {
  mw_handle obj = c->obj[c->n];
  uint32_t name = mwb_site_of(d, obj)->first;
  for (; name != 0; name = mwb_name_at(d, name)->next) {
    const mwb_name *n = mwb_name_at(d, name);
    if (n->up != 0 && mwb_is_held(L, d, name, obj)) break;
  }
  if (name == 0 || c->n + 1 >= CLIMB) return 0;
  c->name[c->n++] = name;
  c->obj[c->n] = mwb_name_at(d, name)->holder;
  return mwb_site_of(d, c->obj[c->n]) != NULL;
}

/* Returns the name of the object below the parent of `name`, which is that of
** the table at `level`. */
static uint32_t climb_down(lua_State *L, mwb_hierarchy *d, const climb *c,
                           uint32_t name, uint32_t level) {
  mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  field.parent = mwb_name_at(d, name)->parent;
  while (level > 0) {
    field.up = name;
    field.holder = c->obj[level--];
    lua_rawgeti(L, KEYS, c->name[level]);
    name = mwb_note_name(L, d, mwb_need_site(L, d, c->obj[level]), &field, -1);
    lua_pop(L, 1);
  }
  return name;
}

/* Returns the name of the object below the innermost executing object that is
** known to hold it, or 0. */
static uint32_t below_executing(lua_State *L, mwb_hierarchy *d,
                                mwi_stack *stack, mw_handle obj) {
  uint32_t innermost = 0, best = 0, level = 0;
  climb c;
  c.n = 0;
  c.obj[0] = obj;
  if (stack->n == 0 || mwb_site_of(d, obj) == NULL) return 0;
  do {
    uint32_t name = name_in_plain(L, d, stack, &c, &innermost), other = 0;
    if (innermost < stack->n) other = best_name(L, d, stack, &c, &innermost);
    if (other != 0) name = other;
    if (name == 0) continue;
    best = name;
    level = c.n;
  } while (innermost < stack->n && climb_up(L, d, &c));
  return (best == 0) ? 0 : climb_down(L, d, &c, best, level);
}

/* }====================================================== */

/* {======================================================
** Guesses
** ======================================================= */

typedef struct guess {
  mwi_stack *stack;
  int index; /* of the object */
  mwb_site *place;
  int table; /* index of the contents of the table that is tried */
  mw_handle holder;
} guess;

/* Remembers that an object was found in the table. */
static void remember(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  const mwb_name *n = mwb_name_at(d, name);
  mwb_site *parent = mwb_need_site(L, d, n->parent);
  uint32_t slot = mw_slot(n->holder), i;
  if (n->holder == MW_NONE) return;
  lua_rawgeti(L, KEYS, name);
  if (lua_isinteger(L, -1))
    mwb_need_site(L, d, n->holder)->last = lua_tointeger(L, -1);
  lua_pop(L, 1);
  for (i = 0; i < 3 && parent->recent[i] != slot; i++)
    ;
  for (; i > 0; i--) parent->recent[i] = parent->recent[i - 1];
  parent->recent[0] = slot;
}

/* Returns the object's name with this key in the table, which holds it. */
static uint32_t name_in(lua_State *L, mwb_hierarchy *d, guess *g,
                        lua_Integer key) {
  mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  uint32_t name;
  field.parent = field.holder = g->holder;
  if (!mwi_hierarchy_inside(mwb_stacks_of(d), g->stack, g->holder)) {
    if (mwb_is_plain(L, g->table - 1))
      field.up = below_executing(L, d, g->stack, g->holder);
    if (field.up == 0) return 0;
    field.parent = mwb_name_at(d, field.up)->parent;
  }
  if (g->place->is_parent && mwb_is_above(d, g->place->obj, field.parent))
    return 0;
  lua_pushinteger(L, key);
  name = mwb_note_name(L, d, g->place, &field, -1);
  lua_pop(L, 1);
  remember(L, d, name);
  return name;
}

static uint32_t try_key(lua_State *L, mwb_hierarchy *d, guess *g,
                        lua_Integer key) {
  int same;
  lua_rawgeti(L, g->table, key);
  same = lua_rawequal(L, -1, g->index);
  lua_pop(L, 1);
  return same ? name_in(L, d, g, key) : 0;
}

/* Tries the table, around a key and at the ends. */
static uint32_t try_table(lua_State *L, mwb_hierarchy *d, guess *g,
                          mw_handle holder, lua_Integer key) {
  int top = lua_gettop(L);
  const mwb_site *place;
  uint32_t name = 0;
  if (holder == MW_NONE || !mwb_alive(L, d->data.state, holder) ||
      lua_type(L, -1) != LUA_TTABLE) {
    lua_settop(L, top);
    return 0;
  }
  mwb_push_contents(L, top + 1);
  g->table = top + 2;
  g->holder = holder;
  place = mwb_site_of(d, holder);
  if (place != NULL && key != place->last) {
    lua_Integer last = place->last;
    if ((name = try_key(L, d, g, last + 1)) == 0 &&
        (name = try_key(L, d, g, last)) == 0)
      name = try_key(L, d, g, last - 1);
  }
  if (name == 0 && (name = try_key(L, d, g, key + 1)) == 0 &&
      (name = try_key(L, d, g, key)) == 0 &&
      (name = try_key(L, d, g, key - 1)) == 0 &&
      (name = try_key(L, d, g, (lua_Integer)lua_rawlen(L, g->table))) == 0)
    name = try_key(L, d, g, 1);
  lua_settop(L, top);
  return name;
}

/* Tries the table that holds what has the name, around its key. */
static uint32_t try_name(lua_State *L, mwb_hierarchy *d, guess *g,
                         uint32_t name) {
  lua_Integer key;
  mw_handle holder = mwb_name_at(d, name)->holder;
  if (holder == MW_NONE) return 0;
  lua_rawgeti(L, KEYS, name);
  key = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
  lua_pop(L, 1);
  return try_table(L, d, g, holder, key);
}

/* Tries the tables in which the object's children were found last. */
static uint32_t try_parent(lua_State *L, mwb_hierarchy *d, guess *g,
                           mw_handle parent) {
  const mwb_site *place = mwb_site_of(d, parent);
  uint32_t i, name = 0;
  if (place == NULL) return 0;
  for (i = 0; i < 4 && name == 0; i++) {
    uint32_t slot = place->recent[i];
    mw_handle holder;
    if (slot == 0) break;
    holder = mwi_identity_handle(&mwb_engine_of(d)->identity, slot);
    if (mwb_site_of(d, holder) == NULL) continue; /* it is dead */
    name = try_table(L, d, g, holder, mwb_site_of(d, holder)->last);
  }
  return name;
}

static uint32_t guess_name(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                           int index, mwb_site *place) {
  guess g;
  uint32_t name = 0, i = place->first;
  if (stack->n == 0 || d->has_children) return 0;
  g.stack = stack;
  g.index = index;
  g.place = place;
  if (d->last != 0 && mwb_name_at(d, d->last)->refs > 0)
    name = try_name(L, d, &g, d->last);
  if (name == 0 && i != 0 && mwb_name_at(d, i)->holder != MW_NONE)
    name = try_name(L, d, &g, i);
  for (i = 0; i < NEAREST && i < stack->n && name == 0; i++)
    name = try_parent(L, d, &g, stack->frames[stack->n - 1 - i].obj);
  return name;
}

/* }====================================================== */

/* {======================================================
** Naming
** ======================================================= */

static int is_custom(lua_State *L, mwb_hierarchy *d) {
  mwb_push_outside(L, IS_CUSTOM);
  lua_call(L, 0, 1);
  d->custom = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return d->custom;
}

/* Pushes the text that the program's function makes for the name, or nil. */
static void push_custom_text(lua_State *L, mwb_hierarchy *d, uint32_t name,
                             int index) {
  int top = lua_gettop(L);
  const mwb_name *n = mwb_name_at(d, name);
  uint32_t parent = mwb_settle(L, d, n->parent);
  if (parent != 0)
    mwb_push_text(L, d, parent);
  else
    lua_pushliteral(L, "?");
  lua_rawgeti(L, KEYS, name);
  mwb_push_child_text(L, d, top + 1, n->up, top + 2, index);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* Gives the object at `index` a name that was noted, or with 0 that of a root,
** and names what is below it if that has not been looked through. */
static uint32_t assign(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                       int index, uint32_t name) {
  int top = lua_gettop(L), again;
  int changes = !place->named || place->first != name;
  mw_handle above = MW_NONE;
  luaL_checkstack(L, MWB_ROOM, "names");
  if (name != 0) above = mwb_name_at(d, name)->parent;
  if (name == 0) {
    mwb_push_outside(L, ROOT);
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
  } else if (d->custom && changes) {
    push_custom_text(L, d, name, index);
  } else if (d->custom) {
    mwb_push_text(L, d, name);
  } else {
    lua_pushnil(L);
  }
  again = !place->walked || (d->custom && changes && place->is_parent);
  if (again) mwb_plan(L, d, index, place->obj, above);
  if (again && d->custom) mwb_plan_texts(L, d, index, top + 1);
  if (name == 0)
    mwb_give_root(L, d, place, top + 1);
  else
    mwb_give_name(L, d, place, name, (d->custom && changes) ? top + 1 : 0);
  if (again) mwb_do_plan(L, d);
  place->walked = 1;
  lua_settop(L, top);
  return place->first;
}

/* Nobody that executes holds the object: returns its name, that of a root if
** there is no other. */
static uint32_t assign_alone(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                             int index) {
  uint32_t name = place->named ? place->first : 0;
  if (name != 0 && mwb_name_at(d, name)->parent != MW_NONE &&
      !mwb_is_there(L, d, name, place->obj))
    name = 0;
  return assign(L, d, place, index, name);
}

/* Searches in the `n` outermost objects on the stack, the innermost first: in
** `whole` of them everywhere, then at `few` fields.  `*all`: was everything
** looked at? */
static uint32_t search(lua_State *L, mwb_hierarchy *d, const mwi_stack *stack,
                       uint32_t n, int index, mwb_site *place, uint32_t whole,
                       long few, int *all) {
  int top = lua_gettop(L);
  uint32_t name = 0, frames = FRAMES;
  mw_handle last = MW_NONE;
  for (; n > 0 && name == 0 && frames-- > 0; n--) {
    mw_handle of = stack->frames[n - 1].obj;
    long everything = -1;
    if (of == last || of == place->obj) continue;
    last = of;
    if (place->is_parent && mwb_is_above(d, place->obj, of)) continue;
    if (whole == 0 && few-- <= 0) break;
    if (mwb_alive(L, d->data.state, of))
      name = mwb_scan(L, d, top + 1, of, index, place,
                      (whole > 0) ? &everything : &few);
    whole -= whole > 0;
    lua_settop(L, top);
  }
  *all = n == 0 && few > 0;
  if (name != 0) remember(L, d, name);
  return name;
}

static uint64_t way_of(const mwi_stack *stack, uint32_t n) {
  return (n == 0) ? 1 : stack->frames[n - 1].way;
}

uint32_t mwb_search(lua_State *L, mwb_hierarchy *d, const mwi_stack *stack,
                    uint32_t n, int index, mw_handle obj) {
  mwb_site *place = mwb_need_site(L, d, obj);
  uint64_t way = way_of(stack, n);
  int all;
  uint32_t name = search(L, d, stack, n, index, place,
                         (place->context == way) ? 0 : DEEPEST, AGAIN, &all);
  if (name != 0) return assign(L, d, place, index, name);
  place->context = way;
  return assign_alone(L, d, place, index);
}

/* Nobody is known to hold the object: looks at a few fields, and leaves the
** rest until somebody asks. */
static uint32_t look_around(lua_State *L, mwb_hierarchy *d,
                            const mwi_stack *stack, int index,
                            mwb_site *place) {
  uint64_t way = way_of(stack, stack->n);
  uint32_t name = 0;
  int all = 0;
  if (d->custom || d->has_children)
    return mwb_search(L, d, stack, stack->n, index, place->obj);
  if (place->caller_to != way && place->context != way) {
    name = search(L, d, stack, stack->n, index, place, 0, EAGER, &all);
    if (name != 0) return assign(L, d, place, index, name);
    if (all) place->context = way;
    if (all) return assign_alone(L, d, place, index);
  }
  place->caller_to = way;
  place->caller = stack->frames[stack->n - 1].obj;
  place->pending = 1;
  if (!place->walked) {
    mwb_plan(L, d, index, place->obj, place->caller);
    mwb_do_plan(L, d);
    place->walked = 1;
  }
  return UNSURE | (place->named ? place->first : 0);
}

uint32_t mwb_find_name(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                       int index, mw_handle obj) {
  mwb_site *place = mwb_need_site(L, d, obj);
  uint32_t i = mwi_hierarchy_inside(mwb_stacks_of(d), stack, obj), name;
  if (i != 0) return stack->frames[i - 1].name;
  is_custom(L, d);
  name = below_executing(L, d, stack, obj);
  if (name == 0) name = guess_name(L, d, stack, index, place);
  if (name != 0) return assign(L, d, place, index, name);
  if (stack->n == 0) return assign_alone(L, d, place, index);
  return look_around(L, d, stack, index, place);
}

/* }====================================================== */

/* {======================================================
** Names that somebody asks for
** ======================================================= */

uint32_t mwb_settle_frame(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                          uint32_t i) {
  mw_frame *frame = &stack->frames[i - 1];
  int top = lua_gettop(L);
  mwb_site *place;
  uint32_t name = frame->name & ~UNSURE;
  if ((frame->name & UNSURE) == 0) return name;
  luaL_checkstack(L, MWB_ROOM, "names");
  if (!mwb_alive(L, d->data.state, frame->obj)) {
    lua_settop(L, top);
    return name;
  }
  place = mwb_need_site(L, d, frame->obj);
  if (place->pending) {
    is_custom(L, d);
    name = mwb_search(L, d, stack, i - 1, top + 1, place->obj);
  } else {
    name = place->first;
  }
  stack->frames[i - 1].name = name;
  lua_settop(L, top);
  return name;
}

/* Searches in the object that executed outside when the object at `index` was
** entered, and in what was above. */
static uint32_t search_above(lua_State *L, mwb_hierarchy *d, int index,
                             mwb_site *place) {
  int top = lua_gettop(L), i;
  long few = AGAIN, everything = -1;
  long *budget = (place->context == place->caller_to) ? &few : &everything;
  mw_handle of = place->caller;
  uint32_t name = 0;
  for (i = 0; i < DEEPEST && of != MW_NONE && name == 0; i++) {
    const mwb_site *parent;
    if (mwb_alive(L, d->data.state, of) &&
        !(place->is_parent && mwb_is_above(d, place->obj, of)))
      name = mwb_scan(L, d, top + 1, of, index, place, budget);
    lua_settop(L, top);
    parent = mwb_site_of(d, of);
    of = (parent != NULL && parent->named)
             ? mwb_name_at(d, parent->first)->parent
             : MW_NONE;
  }
  if (name == 0) place->context = place->caller_to;
  return name;
}

uint32_t mwb_settle(lua_State *L, mwb_hierarchy *d, mw_handle obj) {
  mwb_site *place = mwb_site_of(d, obj);
  int top = lua_gettop(L);
  mwi_stack *stack;
  uint32_t i, name;
  if (place == NULL) return 0;
  name = place->named ? place->first : 0;
  if (!place->pending) return name;
  stack = mwb_stack_of(L, d);
  i = mwi_hierarchy_inside(mwb_stacks_of(d), stack, obj);
  if (i != 0 && (stack->frames[i - 1].name & UNSURE) != 0)
    return mwb_settle_frame(L, d, stack, i);
  if (!mwb_alive(L, d->data.state, obj)) {
    lua_settop(L, top);
    return name;
  }
  luaL_checkstack(L, MWB_ROOM, "names");
  is_custom(L, d);
  i = mwi_hierarchy_inside(mwb_stacks_of(d), stack, place->caller);
  if (i != 0 && stack->frames[i - 1].way == place->caller_to) {
    name = mwb_search(L, d, stack, i, top + 1, obj);
    lua_settop(L, top);
    return name;
  }
  name = search_above(L, d, top + 1, place);
  if (name != 0)
    name = assign(L, d, place, top + 1, name);
  else
    name = assign_alone(L, d, place, top + 1);
  lua_settop(L, top);
  return name;
}

/* }====================================================== */
