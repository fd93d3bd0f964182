/*
** snapshot.c - the contents of objects as bytes, and the hash of these.
** SPDX-License-Identifier: MIT
**
**     "MWS" | version | checksum | length of the body | objects | body
**     0       3         4          8                    16        20
**
** The checksum is that of all that comes after it.  The body is a list of
** items.  Objects have numbers in the order of a search by breadth from the
** root, which is number 1: the fields of an object are visited in the order of
** their keys, booleans before numbers before strings.  Fields with objects as
** keys come when all objects that can be reached without are known, in the
** order of the objects' numbers.  So an object's number stands for its way from
** the root, the shortest with the smallest keys, and the same state gives the
** same bytes.  An item is
**
**     TABLE    mark, class, n, n values (the fields 1 to n), m, m pairs
**     USERDATA class, state
**     FIELD    number of the object, of the key, value
**
** where the first two are about the object with the next number; n is 0 where a
** key that is no field of the list would come before the list's last.  Numbers
** and lengths are counts; bytes.c says what these and values are.  A class is a
** string, its name, or nil; the mark is one of JSON, 0 for none.
**
** What transactions that are open have written is not there yet: an object that
** they have written is read from the copy in BEFORE (delivered.c).
**
** Nothing recurs: the objects of the queue are written one after the other, and
** their items refer to other objects by number.  An object's fields are first
** copied to VALUES, by steps that run no collector: a rule, or a finaliser,
** that writes to the object later changes nothing that is being written.
**
** An object with fields whose keys are objects has *turns*, in which those are
** written whose keys have got numbers since its last turn: round by round, in
** each the objects in the order of their numbers.
**
** A class can be found late, when an object of the class comes after the class
** itself.  Then, and when something is refused that may be in a class, all
** classes are looked for first, and the writing begins anew.
*/
#include "../base/base.h"

#include <stdlib.h>
#include <string.h>

#include "../journal/journal.h"
#include "../traps/traps.h"
#include "../watch/watch.h"
#include "snapshot.h"

/* {======================================================
** Writing
** ======================================================= */

/* The stack of `write`.  The first are the arguments. */
enum {
  ROOT = 1,
  DESCRIBE,  /* (object, class or nil) -> name of the class, state of a userdata
            */
  DESCEND,   /* a rule, or nil: see mwb_filter */
  NAMES,     /* class -> name */
  HASHES,    /* is only the hash of the bytes wanted? */
  CLASSES,   /* the classes that have been found: see state.h */
  WAY,       /* the array that `refuse` raises */
  NUMBERS,   /* object -> number */
  QUEUE,     /* number -> object */
  WAYS,      /* number -> the key by which the object was found */
  STRINGS,   /* string -> number */
  VALUES,    /* those of the current object's fields, */
  FIELDKEYS, /* and the keys; but not those of a list's elements, which come
             ** first */
  LATER,     /* number -> fields whose keys are objects, */
  READY,     /* and the numbers of those keys that are for the next turn */
  WAITING,   /* object that has no number yet -> numbers of objects with a field
            ** that has this key */
  BUFFER,
  KEYS,
  PARENTS,
  TURNS,
  BEFORE, /* what objects were before the open transactions: see delivered.c */
  CURRENT,
  CONTENTS, /* the fields of the current object: see state.c */
  IGNORED
};

/* A key of a table, in a form that can be sorted. */
typedef struct sortable {
  const char *string; /* NULL: not a string */
  union {
    lua_Integer i;
    lua_Number f;
    size_t len;
  } u;
  int is_float, is_boolean;
  lua_Integer at; /* in VALUES */
} sortable;

typedef struct writer {
  lua_State *L;
  mwb_state *s;
  mwb_output out; /* at BUFFER */
  sortable *keys; /* at KEYS */
  size_t size_keys;
  uint32_t *parents; /* at PARENTS, by number */
  char *turns;       /* at TURNS, by number: has it one to come? */
  size_t size_objects;
  lua_Integer objects;          /* how many there are */
  lua_Integer fields, elements; /* how many are in VALUES, and of a list */
  int has_objects;     /* are there tables among VALUES, or objects as keys? */
  lua_Integer current; /* number of the object that is written */
  mw_clock marks;
  mwb_filter filter;
  mwb_classes walk;
} writer;

/* Raises the array at WAY: what cannot be said (nothing where a class has been
** found late), and the keys of the way to the current object, the last one
** first.  The key of the field, if any, is on the top. */
static void refuse(writer *w, const char *what, int has_key) {
  lua_State *L = w->L;
  lua_Integer at = w->current, n = 1;
  int key = lua_gettop(L);
  lua_pushvalue(L, WAY);
  lua_pushstring(L, what);
  lua_rawseti(L, -2, n++);
  if (has_key) {
    lua_pushvalue(L, key);
    lua_rawseti(L, -2, n++);
  }
  while (at > 1) {
    lua_rawgeti(L, WAYS, at);
    lua_rawseti(L, -2, n++);
    at = w->parents[at];
  }
  lua_error(L);
}

/* {======================================================
** Turns
** ======================================================= */

/* The field of the object `parent` whose key has the number `key` is for the
** object's next turn. */
static void add_turn(writer *w, lua_Integer parent, lua_Integer key) {
  lua_State *L = w->L;
  if (lua_rawgeti(L, READY, parent) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, READY, parent);
  }
  lua_pushinteger(L, key);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
  w->turns[parent] = 1;
}

/* Returns the object with the next turn: after the one with number `last` in
** this round, else the first one in the next round; or 0. */
static lua_Integer next_turn(writer *w, lua_Integer last) {
  char *turn =
      (char *)memchr(w->turns + last + 1, 1, (size_t)(w->objects - last));
  if (turn == NULL) turn = (char *)memchr(w->turns, 1, (size_t)last + 1);
  if (turn == NULL) return 0;
  *turn = 0;
  return (lua_Integer)(turn - w->turns);
}

/* The object on the top has got the number `n`: the objects that have fields
** with this key get a turn. */
static void end_waiting(writer *w, lua_Integer n) {
  lua_State *L = w->L;
  int object = lua_gettop(L);
  lua_Integer i;
  lua_pushvalue(L, object);
  if (lua_rawget(L, WAITING) == LUA_TTABLE) {
    lua_pushvalue(L, object);
    lua_pushnil(L);
    lua_rawset(L, WAITING);
    for (i = 1; lua_rawgeti(L, object + 1, i) == LUA_TNUMBER; i++) {
      add_turn(w, lua_tointeger(L, -1), n);
      lua_settop(L, object + 1);
    }
  }
  lua_settop(L, object);
}

/* The current object waits until the object on the top, a key, has a number.
** Pops the key. */
static void wait(const writer *w) {
  lua_State *L = w->L;
  int key = lua_gettop(L);
  lua_pushvalue(L, key);
  if (lua_rawget(L, WAITING) != LUA_TTABLE) {
    lua_newtable(L);
    lua_pushvalue(L, key);
    lua_pushvalue(L, -2);
    lua_rawset(L, WAITING);
    lua_replace(L, key + 1);
  }
  lua_pushinteger(L, w->current);
  lua_rawseti(L, key + 1, (lua_Integer)lua_rawlen(L, key + 1) + 1);
  lua_settop(L, key - 1);
}

/* The field on the top, whose key is an object, is for later.  Pops it. */
static void put_off(writer *w) {
  lua_State *L = w->L;
  int key = lua_gettop(L) - 1;
  if (lua_rawgeti(L, LATER, w->current) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LATER, w->current);
    lua_replace(L, key + 2);
  }
  lua_pushvalue(L, key);
  lua_pushvalue(L, key + 1);
  lua_rawset(L, key + 2);
  lua_settop(L, key);
  lua_pushvalue(L, key);
  if (lua_rawget(L, NUMBERS) == LUA_TNUMBER) {
    add_turn(w, w->current, lua_tointeger(L, -1));
    lua_settop(L, key - 1);
  } else {
    lua_settop(L, key);
    wait(w);
  }
}

/* }====================================================== */

/* Gives the object on the top the next number. */
static lua_Integer add_object(writer *w, int key) {
  lua_State *L = w->L;
  lua_Integer n = ++w->objects;
  lua_pushvalue(L, -1);
  lua_rawseti(L, QUEUE, n);
  lua_pushvalue(L, -1);
  lua_pushinteger(L, n);
  lua_rawset(L, NUMBERS);
  lua_pushvalue(L, key);
  lua_rawseti(L, WAYS, n);
  if ((size_t)n >= w->size_objects) {
    size_t used = w->size_objects, size = 2 * used + 64;
    w->parents = (uint32_t *)mwb_grow_block(L, PARENTS, used * sizeof(uint32_t),
                                            size * sizeof(uint32_t));
    w->turns = (char *)mwb_grow_block(L, TURNS, used, size);
    memset(w->turns + used, 0, size - used);
    w->size_objects = size;
  }
  w->parents[n] = (uint32_t)w->current;
  end_waiting(w, n);
  return n;
}

/* Puts the object on the top, found under the key at `key`. */
static void put_object(writer *w, int key) {
  lua_State *L = w->L;
  lua_Integer n;
  lua_pushvalue(L, -1);
  if (lua_rawget(L, NUMBERS) == LUA_TNUMBER) {
    n = lua_tointeger(L, -1);
    lua_pop(L, 1);
  } else {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, NAMES) == LUA_TSTRING) {
      mwb_put_byte(&w->out, MWB_TAG_CLASS);
      mwb_put_string(&w->out, lua_gettop(L));
      lua_pop(L, 1);
      return;
    }
    lua_pop(L, 1);
    if (mwb_is_ours(L, w->s, -1)) {
      lua_pushvalue(L, key);
      refuse(w, "an object of the library", 1);
    }
    n = add_object(w, key);
  }
  mwb_put_object(&w->out, (uint64_t)n);
}

/* Puts the value on the top, found under the key at `key`, and pops the
** value. */
static void put_value(writer *w, int key) {
  lua_State *L = w->L;
  int type = lua_type(L, -1);
  if (type == LUA_TTABLE || type == LUA_TUSERDATA) {
    put_object(w, key);
  } else if (!mwb_put_value(&w->out, lua_gettop(L))) {
    const char *what = lua_pushfstring(L, "a %s", luaL_typename(L, -1));
    lua_pushvalue(L, key);
    refuse(w, what, 1);
  }
  lua_pop(L, 1);
}

static int compare_numbers(const sortable *a, const sortable *b) {
  if (!a->is_float && !b->is_float)
    return (a->u.i > b->u.i) - (a->u.i < b->u.i);
  if (a->is_float && b->is_float) return (a->u.f > b->u.f) - (a->u.f < b->u.f);
  if (a->is_float) return -compare_numbers(b, a);
  if (b->u.f >= 9223372036854775808.0) return -1;
  if (b->u.f < -9223372036854775808.0) return 1;
  if (a->u.i != (lua_Integer)b->u.f)
    return (a->u.i > (lua_Integer)b->u.f) ? 1 : -1;
  return (b->u.f > (lua_Number)(lua_Integer)b->u.f) ? -1 : 1;
}

/* Booleans come before numbers, numbers before strings; no two keys of a table
** are equal. */
static int compare_keys(const void *left, const void *right) {
  const sortable *a = (const sortable *)left, *b = (const sortable *)right;
  size_t len;
  int order;
  if (a->string == NULL || b->string == NULL) {
    if (a->string != NULL || b->string != NULL) return a->string ? 1 : -1;
    if (a->is_boolean != b->is_boolean) return b->is_boolean ? 1 : -1;
    return compare_numbers(a, b);
  }
  len = (a->u.len < b->u.len) ? a->u.len : b->u.len;
  order = memcmp(a->string, b->string, len);
  if (order != 0) return order;
  return (a->u.len > b->u.len) - (a->u.len < b->u.len);
}

static void sort(sortable *keys, size_t n) {
  if (n > 1) qsort(keys, n, sizeof(sortable), compare_keys);
}

static void set_integer(sortable *key, lua_Integer i) {
  memset(key, 0, sizeof(*key));
  key->u.i = i;
}

/* Reads the key at `index` if the key is not an object. */
static int read_key(lua_State *L, int index, sortable *key) {
  memset(key, 0, sizeof(*key));
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
      key->is_boolean = 1;
      key->u.i = lua_toboolean(L, index);
      return 1;
    case LUA_TNUMBER:
      key->is_float = !lua_isinteger(L, index);
      if (key->is_float)
        key->u.f = lua_tonumber(L, index);
      else
        key->u.i = lua_tointeger(L, index);
      return 1;
    case LUA_TSTRING:
      key->string = lua_tolstring(L, index, &key->u.len);
      return 1;
    default:
      return 0;
  }
}

/* Returns the place for key number `n`, from 0 on. */
static sortable *need_key(writer *w, size_t n) {
  if (n == w->size_keys) {
    w->size_keys = 2 * n + 16;
    w->keys = (sortable *)mwb_grow_block(w->L, KEYS, n * sizeof(sortable),
                                         w->size_keys * sizeof(sortable));
  }
  return &w->keys[n];
}

/* {======================================================
** The fields of the current object
** ======================================================= */

/* Pushes the key of a field in VALUES. */
static void push_key(const writer *w, lua_Integer at) {
  if (at <= w->elements)
    lua_pushinteger(w->L, at);
  else
    lua_rawgeti(w->L, FIELDKEYS, at);
}

/* Copies the fields to VALUES, and to FIELDKEYS the keys; but not those of a
** list's elements, which come first. */
static void gather(writer *w) {
  lua_State *L = w->L;
  lua_Integer n = 0;
  w->elements = w->has_objects = 0;
  for (lua_pushnil(L); mwb_next_field(L, CONTENTS);) {
    int type = lua_type(L, -2);
    w->has_objects |=
        type == LUA_TTABLE || type == LUA_TUSERDATA || lua_istable(L, -1);
    lua_rawseti(L, VALUES, ++n);
    if (w->elements == n - 1 && type == LUA_TNUMBER && lua_isinteger(L, -1) &&
        lua_tointeger(L, -1) == n) {
      w->elements = n;
    } else {
      lua_pushvalue(L, -1);
      lua_rawseti(L, FIELDKEYS, n);
    }
  }
  w->fields = n;
}

void mwb_open_filter(lua_State *L, mwb_state *s, mwb_filter *filter, int root,
                     int rule) {
  filter->rule = (rule != 0 && lua_isnil(L, rule)) ? 0 : rule;
  filter->reach = mw_tree_reach(s->engine, mwb_handle_of(L, s, root));
  filter->asks = mwb_has_rules(L, s, filter->reach);
  mwb_begin_scan(s);
}

int mwb_is_part(lua_State *L, mwb_state *s, const mwb_filter *filter,
                int parent) {
  int top = lua_gettop(L), yes;
  if (filter->rule == 0)
    return !filter->asks || mwb_enters(L, s, filter->reach, parent);
  lua_pushvalue(L, filter->rule);
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_call(L, 3, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* Is the field, whose key and value are on the top, part of the state? */
static int is_state(writer *w) {
  lua_State *L = w->L;
  int yes;
  if (!lua_istable(L, -1)) return 1;
  if (mwb_is_contents(L, w->s, CURRENT, &w->walk))
    return mwb_is_part(L, w->s, &w->filter, CURRENT);
  lua_pushvalue(L, -1);
  yes = lua_rawget(L, NAMES) != LUA_TNIL;
  lua_pop(L, 1);
  return yes;
}

/* Is the field of VALUES one of those that are written now?  One whose key is
** an object is put off. */
static int is_now(writer *w, lua_Integer at) {
  lua_State *L = w->L;
  int type, yes;
  push_key(w, at);
  type = lua_type(L, -1);
  lua_rawgeti(L, VALUES, at);
  yes = is_state(w);
  if (yes && (type == LUA_TTABLE || type == LUA_TUSERDATA)) {
    put_off(w);
    return 0;
  }
  lua_settop(L, IGNORED);
  return yes;
}

/* Sorts the keys of the fields that are written now.  Returns how many there
** are. */
static size_t sort_fields(writer *w) {
  lua_State *L = w->L;
  size_t count = 0, list = 0;
  lua_Integer i;
  for (i = 1; i <= w->fields; i++) {
    sortable *key;
    lua_settop(L, IGNORED);
    if (w->has_objects && !is_now(w, i)) continue;
    key = need_key(w, count++);
    if (i <= w->elements) {
      set_integer(key, i);
      list = count;
    } else {
      lua_rawgeti(L, FIELDKEYS, i);
      if (!read_key(L, -1, key)) {
        lua_pushfstring(L, "a %s as a key", luaL_typename(L, -1));
        refuse(w, lua_tostring(L, -1), 0);
      }
    }
    key->at = i;
  }
  lua_settop(L, IGNORED);
  if (count > list + 1) sort(w->keys + list, count - list);
  if (count > list && list > 0 &&
      compare_keys(&w->keys[list - 1], &w->keys[list]) > 0)
    sort(w->keys, count);
  return count;
}

/* Is the key the integer `n`? */
static int is_integer(const sortable *key, size_t n) {
  return key->string == NULL && !key->is_float && !key->is_boolean &&
         key->u.i == (lua_Integer)n;
}

/* Returns the length of the list with which the sorted keys begin; 0 if another
** key stands between those of the list. */
static size_t list_length(const writer *w, size_t count) {
  size_t n = 0, i;
  while (n < count && is_integer(&w->keys[n], n + 1)) n++;
  for (i = n; i < count && w->keys[i].is_float; i++) continue;
  return (i > n && i < count && is_integer(&w->keys[i], n + 1)) ? 0 : n;
}

/* Puts a field of VALUES, or with `only_value` its value. */
static void put_field(writer *w, lua_Integer at, int only_value) {
  lua_State *L = w->L;
  lua_rawgeti(L, VALUES, at);
  if (!only_value || !mwb_put_value(&w->out, IGNORED + 1)) {
    push_key(w, at);
    lua_insert(L, IGNORED + 1);
    if (!only_value) mwb_put_value(&w->out, IGNORED + 1);
    put_value(w, IGNORED + 1);
  }
  lua_settop(L, IGNORED);
}

static void put_fields(writer *w) {
  size_t count = sort_fields(w), n = list_length(w, count), i;
  mwb_put_count(&w->out, n);
  for (i = 0; i < n; i++) put_field(w, w->keys[i].at, 1);
  mwb_put_count(&w->out, count - n);
  for (; i < count; i++) put_field(w, w->keys[i].at, 0);
}

/* }====================================================== */

/* Pushes the name of the current object's class, and of a userdata the state;
** or nil for a table without a class. */
static void push_class_name(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), is_table = lua_istable(L, CURRENT);
  lua_pushvalue(L, DESCRIBE);
  lua_pushvalue(L, CURRENT);
  if (mwb_push_part_before(L, BEFORE, CURRENT, MWB_CLASSBEFORE) == LUA_TNIL) {
    lua_pop(L, 1);
    mwb_push_class(L, CURRENT);
  }
  if (is_table && (!lua_toboolean(L, -1) || mwb_is_no_class(L, -1))) {
    lua_settop(L, top);
    lua_pushnil(L);
    return;
  }
  lua_pushvalue(L, -1);
  if (is_table && lua_rawget(L, NAMES) == LUA_TSTRING) {
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return;
  }
  lua_settop(L, top + 3);
  lua_call(L, 2, is_table ? 1 : 2);
  if (lua_type(L, top + 1) == LUA_TSTRING) return;
  refuse(w,
         is_table ? "an object of a class without a name"
                  : "a userdata without a name and a snapshot",
         0);
}

mw_clock mwb_marks(lua_State *L, mwb_state *s) {
  static const char name[] = "moonwatch.array";
  mw_clock marks = 0;
  mwb_check(L, mw_clock_open(s->engine, name, sizeof(name) - 1, &marks));
  return marks;
}

int mwb_mark_of(lua_State *L, mwb_state *s, mw_clock marks, int object) {
  mw_handle h = mwb_handle_of(L, s, object);
  int64_t said = mw_clock_generation(s->engine, marks, h);
  return (said < 0) ? 0 : 1 + (int)(said % 2);
}

static void put_table(writer *w) {
  lua_State *L = w->L;
  mwb_put_byte(&w->out, MWB_ITEM_TABLE);
  mwb_put_byte(&w->out, mwb_mark_of(L, w->s, w->marks, CURRENT));
  lua_settop(L, CURRENT);
  if (mwb_note_classes(L, w->s, CURRENT, &w->walk) && mwb_is_weak(L, CURRENT))
    refuse(w, "a weak table", 0);
  mwb_push_fields(L, w->s, CURRENT, BEFORE, 1);
  push_class_name(w);
  put_value(w, IGNORED + 1);
  gather(w);
  put_fields(w);
}

static void put_userdata(writer *w) {
  lua_State *L = w->L;
  mwb_put_byte(&w->out, MWB_ITEM_USERDATA);
  push_class_name(w);
  if (mwb_push_part_before(L, BEFORE, CURRENT, MWB_HASSTATE) != LUA_TNIL) {
    mwb_push_part_before(L, BEFORE, CURRENT, MWB_STATE);
    lua_replace(L, -3);
  }
  lua_pop(L, 1);
  mwb_put_string(&w->out, IGNORED + 1);
  lua_pushliteral(L, "state");
  lua_insert(L, -2);
  put_value(w, lua_gettop(L) - 1);
}

/* Puts the objects of the queue from a number on.  Returns the number after the
** last one. */
static lua_Integer put_objects(writer *w, lua_Integer from) {
  lua_State *L = w->L;
  for (; from <= w->objects; from++) {
    w->current = from;
    lua_settop(L, BEFORE);
    lua_rawgeti(L, QUEUE, from);
    if (lua_istable(L, CURRENT)) {
      put_table(w);
    } else {
      lua_settop(L, IGNORED);
      put_userdata(w);
    }
    if (w->walk.late) refuse(w, NULL, 0);
  }
  return from;
}

/* Puts the fields of an object whose keys are ready. */
static void put_turn(writer *w, lua_Integer number) {
  lua_State *L = w->L;
  size_t count = 0, i;
  w->current = number;
  lua_settop(L, BEFORE);
  lua_rawgeti(L, QUEUE, number); /* CURRENT */
  lua_rawgeti(L, LATER, number); /* CONTENTS */
  lua_rawgeti(L, READY, number);
  lua_pushnil(L);
  lua_rawseti(L, READY, number);
  while (lua_rawgeti(L, IGNORED, (lua_Integer)count + 1) == LUA_TNUMBER) {
    set_integer(need_key(w, count++), lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  sort(w->keys, count);
  for (i = 0; i < count; i++) {
    lua_Integer key = w->keys[i].u.i;
    lua_settop(L, IGNORED);
    mwb_put_byte(&w->out, MWB_ITEM_FIELD);
    mwb_put_count(&w->out, (uint64_t)number);
    mwb_put_count(&w->out, (uint64_t)key);
    lua_rawgeti(L, QUEUE, key);
    lua_pushvalue(L, -1);
    lua_rawget(L, CONTENTS);
    put_value(w, IGNORED + 1);
  }
}

/* Puts the fields that were left for later, and what they lead to, as long as
** keys get numbers. */
static void put_later(writer *w, lua_Integer done) {
  lua_State *L = w->L;
  lua_Integer number = 0;
  while ((number = next_turn(w, number)) != 0) {
    put_turn(w, number);
    done = put_objects(w, done);
  }
  lua_settop(L, BEFORE);
  w->current = 0;
  for (lua_pushnil(L); lua_next(L, WAITING) != 0; lua_settop(L, BEFORE + 1)) {
    lua_rawgeti(L, -1, 1);
    if (w->current == 0 || lua_tointeger(L, -1) < w->current)
      w->current = lua_tointeger(L, -1);
  }
  if (w->current > 0) refuse(w, "an object that is nothing but a key", 0);
}

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = a * UINT64_C(0x9E3779B97F4A7C15);
  b = (b ^ b >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  h ^= (b << 31 | b >> 33) + UINT64_C(0x632BE59BD9B4E019);
  h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  h = (h ^ h >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
  return h ^ h >> 32;
}

/* Returns a hash that is the same on every machine. */
static uint64_t hash_bytes(const unsigned char *p, size_t len) {
  uint64_t h = len;
  for (; len >= 8; len -= 8, p += 8) h = mix(h, mwb_get_fixed(p, 8));
  return mix(h, mwb_get_fixed(p, (int)len));
}

/* write(root, describe, descend, names, hashes, classes, way) -> bytes, or
** their hash */
static int write(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  unsigned char *bytes;
  writer w;
  size_t n;
  memset(&w, 0, sizeof(w));
  w.L = w.out.L = L;
  w.s = s;
  w.marks = mwb_marks(L, s);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "cannot write");
  lua_settop(L, WAY);
  while (lua_gettop(L) < WAITING) lua_newtable(L);
  lua_settop(L, TURNS);
  mwb_push_delivered(L, s); /* BEFORE */
  w.walk.found = CLASSES;
  w.walk.entered = NUMBERS;
  lua_pushnil(L);
  w.walk.any = lua_next(L, CLASSES) != 0;
  lua_settop(L, BEFORE);
  w.out.block = BUFFER;
  w.out.strings = STRINGS;
  mwb_need_bytes(&w.out, 1024);
  w.out.n = MWB_HEADER;
  mwb_open_filter(L, s, &w.filter, ROOT, DESCEND);
  lua_pushnil(L);
  lua_pushvalue(L, ROOT);
  add_object(&w, BEFORE + 1);
  put_later(&w, put_objects(&w, 1));
  bytes = w.out.bytes;
  n = w.out.n;
  mwb_put_fixed(bytes + 16, (uint64_t)w.objects, 4);
  if (lua_toboolean(L, HASHES)) {
    lua_pushinteger(L, (lua_Integer)hash_bytes(bytes + 16, n - 16));
    return 1;
  }
  memcpy(bytes, MWB_MAGIC, 3);
  bytes[3] = MWB_VERSION;
  mwb_put_fixed(bytes + 8, n - MWB_HEADER, 8);
  mwb_put_fixed(bytes + 4, mwb_checksum(bytes + 8, n - 8), 4);
  lua_pushlstring(L, (const char *)bytes, n);
  return 1;
}

/* Calls `write` for the arguments, from ROOT to NAMES, until no class is found
** late.  Returns whether that went well; if not, nil and what cannot be said,
** with the way to it, are on the top. */
static int call_write(lua_State *L, int hashes) {
  mwb_state *s = mwb_enter_to_read(L);
  int searched = 0, is_late, i;
  lua_settop(L, NAMES);
  lua_pushboolean(L, hashes);
  lua_newtable(L); /* CLASSES */
  for (;;) {
    lua_settop(L, CLASSES);
    lua_newtable(L); /* WAY */
    mwb_push_function(L, s, write);
    for (i = ROOT; i <= WAY; i++) lua_pushvalue(L, i);
    if (lua_pcall(L, WAY, 1, 0) == LUA_OK) return 1;
    if (!lua_rawequal(L, -1, WAY)) lua_error(L); /* a rule's own error */
    is_late = lua_rawgeti(L, WAY, 1) == LUA_TNIL;
    if (searched && !is_late) break;
    if (!searched) mwb_find_classes(L, s, ROOT, CLASSES);
    searched = 1;
  }
  lua_settop(L, WAY);
  lua_pushnil(L);
  lua_insert(L, WAY);
  return 0;
}

/* snapshot(root, describe, descend, names) -> bytes, number of the last entry
** that was delivered before; nil and what cannot be said, with the way to it */
static int snapshot(lua_State *L) {
  uint64_t last = mw_delivery_last(mwb_state_of(L)->engine);
  if (!call_write(L, 0)) return 2;
  lua_pushinteger(L, (lua_Integer)last);
  return 2;
}

/* hash(root, describe, descend, names) -> hash; nil and what cannot be said,
** with the way to it */
static int hash(lua_State *L) { return call_write(L, 1) ? 1 : 2; }

/* }====================================================== */

void mwb_open_snapshots(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"snapshot", snapshot}, {"hash", hash}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
