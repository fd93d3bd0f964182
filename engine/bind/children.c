/*
** children.c - what is below an object: walks, and searches.
** SPDX-License-Identifier: MIT
**
** A walk looks through an object's fields, and through the plain tables below,
** for children: objects that run.  Then it looks through the children that have
** not been looked through before.  The order is that of the fields: a sequence,
** then numbers, strings and booleans, each sorted; what is in a plain table
** comes where the table is.
**
** A walk plans first, because functions of the program may fail meanwhile:
**
**     plan = { child, parent, holder, up, key, gives, text, child, ... }
**
** `up` is the name of the holder, if it is a plain table; such names are facts,
** and stay if the walk fails.  If `gives` is false the name is noted only, for
** a child that keeps its own.
**
** A plain table with children, or with LARGE fields below, that a walk has
** looked through is known: the next walk looks only at what its sequence has
** got since.  All of it is looked at again when SKIPPED times the walks that
** did not are as many as the fields.  So a list that many objects share costs
** each the same, however long it is.
*/
#include <string.h>

#include "hierarchy.h"
#include "shadow.h"

#define SKIPPED 8u
#define LARGE 64
#define DEPTH 100 /* of inheritance, at most */

enum { CHILD, PARENT, HOLDER, UP, KEY, GIVES, TEXT, PLANNED };

/* A level of the way down: a plain table, or at first the parent. */
enum { TABLE = 1, LIST, AT, OWN, FIELDS, WHOLE, LEVEL = WHOLE };

typedef struct walk {
  lua_State *L;
  mwb_hierarchy *d;
  mw_handle above; /* the parent of the first object, when it has no name */
  mw_handle parent;
  lua_Integer planned, queued, levels;
  int classed; /* is the class of the parent at CLASS? */
  int entries, methods, wrappers, classes; /* see `mwb_plan` */
  int seen, queue, plan, stack, object, class_;
} walk;

void mwb_push_contents(lua_State *L, int index) {
  if (!mwb_push_shadow(L, index)) lua_pushvalue(L, index);
}

/* {======================================================
** What is a child?
** ======================================================= */

int mwb_is_plain(lua_State *L, int index) {
  int plain;
  if (lua_type(L, index) != LUA_TTABLE) return 0;
  if (!lua_getmetatable(L, index)) return 1;
  lua_pop(L, 1);
  mwb_push_class(L, index);
  plain = lua_isnil(L, -1);
  lua_pop(L, 1);
  return plain;
}

/* Pushes the `__index` of the table on the top, raw; returns the type. */
static int push_index(lua_State *L) {
  mwb_push_contents(L, lua_gettop(L));
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  lua_replace(L, -2);
  return lua_type(L, -1);
}

/* Pushes what the object at `index` has under the key at `key`, or inherits,
** without calling a function; nil if there is no such field. */
static void push_member(lua_State *L, int index, int key) {
  int i, top = lua_gettop(L);
  lua_pushvalue(L, index);
  for (i = 0; i < DEPTH; i++) {
    if (lua_type(L, top + 1) == LUA_TTABLE) {
      mwb_push_contents(L, top + 1);
      lua_pushvalue(L, key);
      if (lua_rawget(L, -2) != LUA_TNIL) break;
      lua_settop(L, top + 1);
    }
    mwb_push_class(L, top + 1);
    if (lua_type(L, -1) != LUA_TTABLE || push_index(L) != LUA_TTABLE) {
      lua_pushnil(L);
      break;
    }
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* Has the object one of the methods in the list?  If `set` is not 0, the
** method's function must be in this set. */
static int has_method(lua_State *L, int index, int list, int set) {
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, list);
  int top = lua_gettop(L), has = 0;
  for (i = 1; i <= n && !has; i++) {
    lua_rawgeti(L, list, i);
    push_member(L, index, top + 1);
    if (set != 0 && !lua_isnil(L, -1)) lua_rawget(L, set);
    has = (set != 0) ? !lua_isnil(L, -1) : lua_isfunction(L, -1);
    lua_settop(L, top);
  }
  return has;
}

/* Calls CLASS_OF for the object at `index`, and pushes the class. */
static void push_class_of(lua_State *L, int index) {
  mwb_push_outside(L, CLASS_OF);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
}

/* Is the class of the object instrumented? */
static int is_instrumented(walk *w, int index) {
  lua_State *L = w->L;
  int top = lua_gettop(L), is;
  lua_pushnil(L);
  if (lua_next(L, w->classes) == 0 || mwb_is_plain(L, index)) {
    lua_settop(L, top);
    return 0;
  }
  push_class_of(L, index);
  is = !lua_isnil(L, -1) && lua_rawget(L, w->classes) != LUA_TNIL;
  lua_settop(L, top);
  return is;
}

/* Is the value a class?  A class has the methods of its objects, but is no
** child. */
static int is_class(walk *w, int index) {
  lua_State *L = w->L;
  int top = lua_gettop(L), is;
  if (lua_type(L, index) != LUA_TTABLE) return 0;
  if (!w->classed) {
    push_class_of(L, w->object);
    lua_replace(L, w->class_);
    w->classed = 1;
  }
  mwb_push_class(L, w->object);
  lua_pushvalue(L, index);
  push_index(L);
  is = lua_rawequal(L, -1, index) || lua_rawequal(L, top + 1, index) ||
       lua_rawequal(L, w->class_, index);
  lua_settop(L, top);
  return is;
}

static int runs(walk *w, int index) {
  lua_State *L = w->L;
  if (lua_type(L, index) != LUA_TTABLE && lua_type(L, index) != LUA_TUSERDATA)
    return 0;
  return has_method(L, index, w->entries, 0) ||
         has_method(L, index, w->methods, w->wrappers) ||
         is_instrumented(w, index);
}

/* }====================================================== */

/* {======================================================
** Plans
** ======================================================= */

int mwb_is_above(const mwb_hierarchy *d, mw_handle obj, mw_handle child) {
  uint32_t n;
  for (n = 0; child != MW_NONE && n <= d->names.n; n++) {
    const mwb_site *place = mwb_site_of(d, child);
    if (child == obj) return 1;
    if (place == NULL || !place->named) return 0;
    child = mwb_name_at(d, place->first)->parent;
  }
  return 0;
}

/* Is the child above its parent? */
static int is_upside_down(walk *w, const mwb_site *child) {
  const mwb_site *parent = mwb_site_of(w->d, w->parent);
  int named = parent != NULL && parent->named;
  return child->is_parent &&
         mwb_is_above(w->d, child->obj, named ? w->parent : w->above);
}

/* Does a child get its name from this parent?  Else it keeps its name. */
static int may_name(walk *w, const mwb_site *child) {
  mwb_hierarchy *d = w->d;
  const mwb_name *name;
  if (child == NULL) return 1;
  if (mwi_hierarchy_inside(mwb_stacks_of(d), mwb_stack_of(w->L, d), child->obj))
    return 0;
  if (!child->named) return 1;
  name = mwb_name_at(d, child->first);
  if (name->parent != MW_NONE && name->parent == w->parent)
    return d->custom || !mwb_is_there(w->L, d, child->first, child->obj);
  return !is_upside_down(w, child) &&
         (name->parent == MW_NONE ||
          !mwb_is_there(w->L, d, child->first, child->obj));
}

static int is_seen(walk *w, int index) {
  int seen;
  lua_pushvalue(w->L, index);
  seen = lua_rawget(w->L, w->seen) != LUA_TNIL;
  lua_pop(w->L, 1);
  return seen;
}

static void see(walk *w, int index) {
  lua_pushvalue(w->L, index);
  lua_pushboolean(w->L, 1);
  lua_rawset(w->L, w->seen);
}

/* Adds the child at `index` to the plan; the holder is at `holder`, or this is
** 0 if nobody knows. */
static void plan_child(walk *w, int index, int holder, uint32_t up, int key) {
  lua_State *L = w->L;
  lua_Integer at = w->planned * PLANNED;
  const mwb_site *place =
      mwb_site_of(w->d, mwb_handle_of(L, w->d->data.state, index));
  int gives = !is_seen(w, index) && may_name(w, place);
  if (!gives && (up != 0 || place == NULL || is_upside_down(w, place))) return;
  lua_pushvalue(L, index);
  lua_rawseti(L, w->plan, at + CHILD);
  lua_pushvalue(L, w->object);
  lua_rawseti(L, w->plan, at + PARENT);
  if (holder != 0)
    lua_pushvalue(L, holder);
  else
    lua_pushboolean(L, 0);
  lua_rawseti(L, w->plan, at + HOLDER);
  lua_pushinteger(L, up);
  lua_rawseti(L, w->plan, at + UP);
  lua_pushvalue(L, key);
  lua_rawseti(L, w->plan, at + KEY);
  lua_pushboolean(L, gives);
  lua_rawseti(L, w->plan, at + GIVES);
  lua_pushboolean(L, 0);
  lua_rawseti(L, w->plan, at + TEXT);
  mwb_retain_name(w->d, up); /* until the plan is done */
  w->planned++;
  if (!gives) return;
  see(w, index);
  if (place != NULL && place->walked && !w->d->custom) return;
  lua_pushvalue(L, index);
  lua_rawseti(L, w->queue, ++w->queued);
}

/* }====================================================== */

/* {======================================================
** The way down
** ======================================================= */

static void push_level(walk *w, lua_Integer level, int what) {
  lua_rawgeti(w->L, w->stack, level * LEVEL + what);
}

static void set_level(walk *w, lua_Integer level, int what) {
  lua_rawseti(w->L, w->stack, level * LEVEL + what);
}

static lua_Integer level_integer(walk *w, lua_Integer level, int what) {
  lua_Integer i;
  push_level(w, level, what);
  i = lua_tointeger(w->L, -1);
  lua_pop(w->L, 1);
  return i;
}

/* Pushes the key under which a level has the next one. */
static void push_key(walk *w, lua_Integer level) {
  lua_Integer at = level_integer(w, level, AT);
  push_level(w, level, LIST);
  lua_rawgeti(w->L, -1, at);
  lua_replace(w->L, -2);
}

/* Notes where the plain table of a level is, in the level before; returns the
** name. */
static uint32_t note_level(walk *w, lua_Integer level, uint32_t up) {
  lua_State *L = w->L;
  mwb_state *s = w->d->data.state;
  mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  int top = lua_gettop(L);
  mw_handle h;
  uint32_t name;
  push_level(w, level, TABLE);
  push_level(w, level - 1, TABLE);
  h = mwb_identify(L, s, "enter", top + 1, 1);
  field.parent = w->parent;
  field.up = up;
  field.holder = mwb_identify(L, s, "enter", top + 2, 1);
  push_key(w, level - 1);
  name = mwb_note_name(L, w->d, mwb_need_site(L, w->d, h), &field, -1);
  lua_settop(L, top);
  lua_pushinteger(L, name);
  set_level(w, level, OWN);
  return name;
}

/* Returns the name of the plain table of the last level, 0 for the parent. */
static uint32_t need_up(walk *w) {
  lua_Integer level = w->levels - 1;
  lua_Integer name = level_integer(w, level, OWN);
  while (name < 0) name = level_integer(w, --level, OWN);
  while (level < w->levels - 1) name = note_level(w, ++level, (uint32_t)name);
  return (uint32_t)name;
}

/* Adds the key at `key` to the list at `list` if the value on the top may lead
** to a child, and pops the value. */
static void consider(lua_State *L, int list, int key) {
  int type = lua_type(L, -1);
  lua_pop(L, 1);
  if (type != LUA_TTABLE && type != LUA_TUSERDATA) return;
  lua_pushvalue(L, key);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Is the key at `key` one outside of a sequence of `n`, and one that a name may
** have? */
static int is_other(lua_State *L, int key, lua_Integer n) {
  int type = lua_type(L, key);
  lua_Integer i;
  if (type != LUA_TNUMBER) return type == LUA_TSTRING || type == LUA_TBOOLEAN;
  if (!lua_isinteger(L, key)) return 1;
  i = lua_tointeger(L, key);
  return i < 1 || i > n;
}

/* Pushes the keys of the contents at `contents` that may lead to children, in
** order; of the sequence, those from `first` on.  With `rest`, other keys, too.
** Returns how many fields were looked at. */
static lua_Integer push_keys(walk *w, int contents, lua_Integer first, int rest,
                             lua_Integer *length) {
  lua_State *L = w->L;
  lua_Integer n = first, fields, i;
  int list = lua_gettop(L) + 1;
  lua_newtable(L);
  for (; lua_rawgeti(L, contents, n) != LUA_TNIL; n++) {
    lua_pushinteger(L, n);
    lua_insert(L, -2);
    consider(L, list, list + 1);
    lua_settop(L, list);
  }
  lua_settop(L, list);
  *length = n - 1;
  fields = n - first;
  if (!rest) return fields;
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, contents) != 0; lua_settop(L, list + 2)) {
    if (!is_other(L, list + 2, *length)) continue;
    consider(L, list + 1, list + 2);
    fields++;
  }
  if (lua_rawlen(L, list + 1) > 1) {
    mwb_push_outside(L, SORT);
    lua_pushvalue(L, list + 1);
    lua_call(L, 1, 0);
  }
  n = (lua_Integer)lua_rawlen(L, list);
  for (i = 1; lua_rawgeti(L, list + 1, i) != LUA_TNIL; i++)
    lua_rawseti(L, list, n + i);
  lua_settop(L, list);
  return fields;
}

/* Goes down to the table at `index`: from sequence element `first` on, and with
** `rest` all other fields. */
static void go_down(walk *w, int index, lua_Integer first, int rest) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  lua_Integer fields, length;
  mwb_push_contents(L, index);
  fields = push_keys(w, top + 1, first, rest, &length);
  set_level(w, w->levels, LIST);
  lua_pushvalue(L, index);
  set_level(w, w->levels, TABLE);
  lua_pushinteger(L, 0);
  set_level(w, w->levels, AT);
  lua_pushinteger(L, (w->levels == 0) ? 0 : -1);
  set_level(w, w->levels, OWN);
  lua_pushinteger(L, fields);
  set_level(w, w->levels, FIELDS);
  lua_pushboolean(L, rest);
  set_level(w, w->levels, WHOLE);
  w->levels++;
  lua_settop(L, top);
}

/* The plain table of the last level, which is on the top, has been looked
** through, with this many fields. */
static void know(walk *w, lua_Integer fields, int whole) {
  lua_State *L = w->L;
  mwb_site *place =
      mwb_site_of(w->d, mwb_handle_of(L, w->d->data.state, lua_gettop(L)));
  if (place == NULL) return;
  mwb_push_contents(L, lua_gettop(L));
  place->walked = 1;
  place->length = (lua_Integer)lua_rawlen(L, -1);
  if (!whole) return;
  place->fields = (uint32_t)fields;
  place->skipped = 0;
}

/* Leaves the last level.  Its fields count for the level above as well, unless
** the table is known from now on. */
static void go_up(walk *w) {
  lua_State *L = w->L;
  lua_Integer level = w->levels - 1;
  lua_Integer fields = level_integer(w, level, FIELDS);
  int top = lua_gettop(L), known;
  if (level > 0) {
    if (fields >= LARGE) need_up(w);
    known = level_integer(w, level, OWN) > 0;
    push_level(w, level, WHOLE);
    push_level(w, level, TABLE);
    if (known) know(w, fields, lua_toboolean(L, top + 1));
    lua_settop(L, top);
    lua_pushinteger(L,
                    level_integer(w, level - 1, FIELDS) + (known ? 1 : fields));
    set_level(w, level - 1, FIELDS);
  }
  w->levels = level;
  lua_settop(L, top);
}

/* Goes down to the plain table at `index`, the value of the last level's key,
** or notes only where it is. */
static void meet_plain(walk *w, int index) {
  lua_State *L = w->L;
  mwb_site *place =
      mwb_site_of(w->d, mwb_handle_of(L, w->d->data.state, index));
  int seen = is_seen(w, index), known = place != NULL && place->walked;
  lua_Integer first = 1;
  int rest = 1;
  if ((seen && !known) || is_class(w, index)) return;
  if (known && (seen || ++place->skipped * SKIPPED < place->fields)) {
    first = place->length + 1;
    rest = 0;
  }
  see(w, index);
  go_down(w, index, first, rest);
  if (known) need_up(w);
}

/* Goes through the fields of the object and the plain tables below. */
static void look_through(walk *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  go_down(w, w->object, 1, 1);
  while (w->levels > 0) {
    lua_Integer level = w->levels - 1;
    lua_pushinteger(L, level_integer(w, level, AT) + 1);
    set_level(w, level, AT);
    push_key(w, level);
    if (lua_isnil(L, -1)) {
      go_up(w);
    } else {
      push_level(w, level, TABLE);
      mwb_push_contents(L, top + 2);
      lua_pushvalue(L, top + 1);
      lua_rawget(L, -2);
      lua_replace(L, top + 3); /* key, table, value */
      if (!runs(w, top + 3))
        meet_plain(w, top + 3);
      else if (!is_class(w, top + 3))
        plan_child(w, top + 3, top + 2, need_up(w), top + 1);
    }
    lua_settop(L, top);
  }
}

/* Takes the children that a function of the program tells. */
static void listen(walk *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  lua_Integer i;
  mwb_push_outside(L, TOLD);
  lua_pushvalue(L, w->object);
  lua_call(L, 1, 1);
  for (i = 1; lua_rawgeti(L, top + 1, i) != LUA_TNIL; i += 2) {
    lua_rawgeti(L, top + 1, i + 1);
    plan_child(w, top + 2, 0, 0, top + 3);
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
}

void mwb_plan(lua_State *L, mwb_hierarchy *d, int index, mw_handle obj,
              mw_handle above) {
  int top = lua_gettop(L);
  lua_Integer i;
  walk w;
  memset(&w, 0, sizeof(walk));
  w.L = L;
  w.d = d;
  w.above = above;
  luaL_checkstack(L, MWB_ROOM, "names");
  lua_newtable(L);
  w.plan = top + 1;
  mwb_push_outside(L, PREPARE);
  lua_call(L, 0, 4);
  w.entries = top + 2;
  w.methods = top + 3;
  w.wrappers = top + 4;
  w.classes = top + 5;
  lua_newtable(L);
  w.seen = top + 6;
  lua_newtable(L);
  w.queue = top + 7;
  lua_newtable(L);
  w.stack = top + 8;
  lua_pushvalue(L, index);
  w.object = top + 9;
  lua_pushnil(L);
  w.class_ = top + 10;
  see(&w, index);
  w.parent = obj;
  for (i = 0;;) {
    if (d->has_children)
      listen(&w);
    else if (lua_type(L, w.object) == LUA_TTABLE)
      look_through(&w);
    if (i == w.queued) break;
    lua_rawgeti(L, w.queue, ++i);
    lua_replace(L, w.object);
    w.parent = mwb_identify(L, d->data.state, "enter", w.object, 1);
    lua_settop(L, w.class_);
    w.classed = 0;
  }
  lua_settop(L, top + 1);
}

/* Pushes a field of the planned child at `at`. */
static void push_planned(lua_State *L, int plan, lua_Integer at, int what) {
  lua_rawgeti(L, plan, at + what);
}

/* Pushes the text of the child's name: what the function says, else that of the
** parent with the keys.  The parent's text is at `text`. */
static void push_child_text(lua_State *L, mwb_hierarchy *d, int plan,
                            lua_Integer at, int text) {
  int top = lua_gettop(L);
  uint32_t up;
  push_planned(L, plan, at, UP);
  up = (uint32_t)lua_tointeger(L, -1);
  push_planned(L, plan, at, KEY);
  push_planned(L, plan, at, CHILD);
  mwb_push_child_text(L, d, text, up, top + 2, top + 3);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void mwb_push_child_text(lua_State *L, mwb_hierarchy *d, int text, uint32_t up,
                         int key, int child) {
  int top = lua_gettop(L);
  const char *way;
  if (up != 0)
    mwb_push_way(L, d, up);
  else
    lua_pushliteral(L, "");
  lua_pushvalue(L, key);
  mwb_key_to_text(L);
  lua_concat(L, 2);
  way = lua_tostring(L, -1);
  mwb_push_outside(L, NAME);
  lua_pushvalue(L, text);
  if (up == 0)
    lua_pushvalue(L, key);
  else
    lua_pushstring(L, way + (*way == '.'));
  lua_pushvalue(L, child);
  lua_call(L, 3, 1);
  if (lua_type(L, -1) != LUA_TSTRING) {
    lua_pop(L, 1);
    lua_pushvalue(L, text);
    lua_pushvalue(L, top + 1);
    lua_concat(L, 2);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void mwb_plan_texts(lua_State *L, mwb_hierarchy *d, int index, int text) {
  int plan = lua_gettop(L), texts = plan + 1;
  lua_Integer at;
  lua_newtable(L); /* object -> text */
  lua_pushvalue(L, index);
  lua_pushvalue(L, text);
  lua_rawset(L, texts);
  for (at = 0; lua_rawgeti(L, plan, at + GIVES) != LUA_TNIL; at += PLANNED) {
    if (lua_toboolean(L, -1)) {
      push_planned(L, plan, at, PARENT);
      lua_rawget(L, texts);
      push_child_text(L, d, plan, at, lua_gettop(L));
      push_planned(L, plan, at, CHILD);
      lua_pushvalue(L, -2);
      lua_rawset(L, texts);
      lua_rawseti(L, plan, at + TEXT);
    }
    lua_settop(L, texts);
  }
  lua_settop(L, plan);
}

void mwb_do_plan(lua_State *L, mwb_hierarchy *d) {
  mwb_state *s = d->data.state;
  int plan = lua_gettop(L);
  lua_Integer at;
  for (at = 0; lua_rawgeti(L, plan, at + CHILD) != LUA_TNIL; at += PLANNED) {
    mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
    mw_handle child = mwb_identify(L, s, "enter", plan + 1, 1);
    mwb_site *place;
    uint32_t name;
    lua_settop(L, plan + 1);
    push_planned(L, plan, at, PARENT);
    field.parent = mwb_identify(L, s, "enter", plan + 2, 1);
    lua_settop(L, plan + 2);
    push_planned(L, plan, at, HOLDER);
    if (lua_toboolean(L, -1))
      field.holder = mwb_identify(L, s, "enter", plan + 3, 1);
    lua_settop(L, plan + 3);
    push_planned(L, plan, at, UP);
    field.up = (uint32_t)lua_tointeger(L, -1);
    push_planned(L, plan, at, KEY);
    place = mwb_need_site(L, d, child);
    name = mwb_note_name(L, d, place, &field, plan + 5);
    push_planned(L, plan, at, GIVES);
    push_planned(L, plan, at, TEXT);
    if (lua_toboolean(L, plan + 6)) {
      mwb_give_name(L, d, place, name, lua_toboolean(L, -1) ? plan + 7 : 0);
      place->walked = 1;
    }
    mwb_release_name(d, field.up);
    lua_settop(L, plan);
  }
  lua_settop(L, plan - 1);
}

/* }====================================================== */

/* {======================================================
** Searches
** ======================================================= */

/* The tables to look at, in a queue of this many values each. */
enum { TABLE_AT = 1, FROM, KEY_AT, QUEUED };

/* Does the key on the top come before the key at `best`? */
static int precedes(lua_State *L, int best) {
  int a = lua_type(L, -1), b = lua_type(L, best);
  if (lua_isnil(L, best)) return 1;
  if (a != b) return a == LUA_TNUMBER || (a == LUA_TSTRING && b != LUA_TNUMBER);
  if (a == LUA_TBOOLEAN) return !lua_toboolean(L, -1);
  return lua_compare(L, -1, best, LUA_OPLT);
}

/* Looks for the object at `index` in the contents on the top.  Leaves the key
** instead, the first in order, or nil; adds the plain tables to the queue. */
static void look_in(lua_State *L, int queue, int seen, int index,
                    lua_Integer from, lua_Integer *n, long *budget) {
  int contents = lua_gettop(L), best = contents + 1, key = contents + 2;
  lua_pushnil(L);
  for (lua_pushnil(L); lua_next(L, contents) != 0; lua_settop(L, key)) {
    if (*budget == 0) break;
    if (*budget > 0) --*budget;
    if (lua_rawequal(L, -1, index)) {
      lua_pushvalue(L, key);
      if (is_other(L, key, 0) && precedes(L, best)) lua_replace(L, best);
    } else if (lua_type(L, -1) == LUA_TTABLE && is_other(L, key, 0) &&
               mwb_is_plain(L, lua_gettop(L))) {
      if (lua_isnil(L, seen)) {
        lua_newtable(L);
        lua_replace(L, queue);
        lua_newtable(L);
        lua_replace(L, seen);
      }
      lua_pushvalue(L, -1);
      if (lua_rawget(L, seen) != LUA_TNIL) continue;
      lua_pushvalue(L, key + 1);
      lua_pushboolean(L, 1);
      lua_rawset(L, seen);
      lua_pushvalue(L, key + 1);
      lua_rawseti(L, queue, *n * QUEUED + TABLE_AT);
      lua_pushinteger(L, from);
      lua_rawseti(L, queue, *n * QUEUED + FROM);
      lua_pushvalue(L, key);
      lua_rawseti(L, queue, *n * QUEUED + KEY_AT);
      ++*n;
    }
  }
  lua_settop(L, best);
  lua_replace(L, contents);
}

/* Notes the names of the plain tables on the way to table number `at` in the
** queue; sets `up` and `holder` of the field.  Table 0 is the parent. */
static void note_way(lua_State *L, mwb_hierarchy *d, int queue, lua_Integer at,
                     mwb_name *field) {
  int top = lua_gettop(L);
  lua_Integer i, n = 0;
  lua_newtable(L); /* the way, backward */
  while (at != 0) {
    lua_pushinteger(L, at);
    lua_rawseti(L, top + 1, ++n);
    lua_rawgeti(L, queue, at * QUEUED + FROM);
    at = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  field->up = 0;
  field->holder = field->parent;
  for (i = n; i > 0; i--) {
    mw_handle h;
    lua_rawgeti(L, top + 1, i);
    at = lua_tointeger(L, -1);
    lua_rawgeti(L, queue, at * QUEUED + TABLE_AT);
    lua_rawgeti(L, queue, at * QUEUED + KEY_AT);
    h = mwb_identify(L, d->data.state, "enter", top + 3, 1);
    lua_settop(L, top + 4);
    field->up = mwb_note_name(L, d, mwb_need_site(L, d, h), field, top + 4);
    field->holder = h;
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
}

/* Notes where the other objects of a table are that nobody knows yet, and names
** those that wait for a name below the same caller: so they need no search. */
static void note_others(lua_State *L, mwb_hierarchy *d, int contents,
                        const mwb_name *field, mw_handle caller) {
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, contents) != 0; lua_settop(L, top + 1)) {
    mwb_site *place;
    mw_handle h;
    uint32_t name;
    int type = lua_type(L, -1);
    if (!is_other(L, top + 1, 0)) continue;
    if (type != LUA_TUSERDATA &&
        (type != LUA_TTABLE || mwb_is_plain(L, top + 2)))
      continue;
    h = mwb_identify(L, d->data.state, "enter", top + 2, 1);
    lua_settop(L, top + 2);
    place = mwb_need_site(L, d, h);
    if (place->first != 0 && !(place->pending && place->caller == caller))
      continue;
    name = mwb_note_name(L, d, place, field, top + 1);
    if (place->pending && place->caller == caller && !d->custom &&
        !mwi_hierarchy_inside(mwb_stacks_of(d), mwb_stack_of(L, d), h))
      mwb_give_name(L, d, place, name, 0);
  }
  lua_settop(L, top);
}

/* Looks for the object among the children that a function of the program
** tells. */
static uint32_t scan_told(lua_State *L, mwb_hierarchy *d, int parent,
                          mwb_name *field, int index, mwb_site *place) {
  int top = lua_gettop(L);
  uint32_t name = 0;
  lua_Integer i;
  mwb_push_outside(L, TOLD);
  lua_pushvalue(L, parent);
  lua_call(L, 1, 1);
  field->holder = MW_NONE;
  for (i = 1; lua_rawgeti(L, top + 1, i) != LUA_TNIL && name == 0; i += 2) {
    lua_rawgeti(L, top + 1, i + 1);
    if (lua_rawequal(L, top + 2, index))
      name = mwb_note_name(L, d, place, field, top + 3);
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
  return name;
}

uint32_t mwb_scan(lua_State *L, mwb_hierarchy *d, int parent, mw_handle of,
                  int index, mwb_site *place, long *budget) {
  mwb_name field = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  int top = lua_gettop(L);
  lua_Integer i, n = 1;
  uint32_t name = 0;
  field.parent = field.holder = of;
  luaL_checkstack(L, MWB_ROOM, "names");
  if (d->has_children) return scan_told(L, d, parent, &field, index, place);
  if (lua_type(L, parent) != LUA_TTABLE) return 0;
  lua_pushnil(
      L); /* the queue, and the set of the tables in it: both are made */
  lua_pushnil(L); /* when there is a plain table */
  for (i = 0; i < n && name == 0 && *budget != 0; i++) {
    if (*budget > 0) --*budget;
    if (i == 0)
      lua_pushvalue(L, parent);
    else
      lua_rawgeti(L, top + 1, i * QUEUED + TABLE_AT);
    mwb_push_contents(L, top + 3);
    lua_pushvalue(L, top + 4);
    look_in(L, top + 1, top + 2, index, i, &n, budget);
    if (!lua_isnil(L, -1)) {
      note_way(L, d, top + 1, i, &field);
      name = mwb_note_name(L, d, place, &field, top + 5);
      if (*budget < 0) note_others(L, d, top + 4, &field, place->caller);
    }
    lua_settop(L, top + 2);
  }
  lua_settop(L, top);
  return name;
}

/* }====================================================== */
