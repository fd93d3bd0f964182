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
** their keys, booleans before numbers before strings before objects that have
** been visited, by their numbers.  A field whose key is an object that has not
** waits, and comes after that object, in the order of the numbers of those that
** wait.  So an object's number stands for its way from the root, the shortest
** with the smallest keys, and the same state gives the same bytes.  An item is
**
**     TABLE    mark, class, n, n values (the fields 1 to n), m, m pairs
**     USERDATA class, state
**     FIELD    number of the object, of the key, value
**
** where the first two are about the object with the next number; the pairs are
** the fields behind the first one that is not of the list 1 to n.  Numbers and
** lengths are counts; bytes.c says what these and values are.  A class is a
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
** A class can be found late, when an object of the class comes after the class
** itself.  Then, and when something is refused that may be in a class,
** snapshot.lua looks for all classes first, and begins anew.
*/
#include "../base/base.h"

#include <stdlib.h>
#include <string.h>

#include "../journal/journal.h"
#include "../traps/traps.h"
#include "../watch/watch.h"
#include "snapshot.h"

/* The stack of `snapshot`.  The first are the arguments. */
enum {
  ROOT = 1,
  DESCRIBE,  /* (object, class or nil) -> name of the class, state of a userdata
            */
  DESCEND,   /* (parent, key, child) -> is the table part of the state?  Or nil:
             ** those are that a deep watch of the root would include */
  NAMES,     /* class -> name */
  HASHES,    /* is only the hash of the bytes wanted? */
  CLASSES,   /* the classes that have been found: see state.c */
  WAY,       /* the array that `refuse` raises */
  NUMBERS,   /* object -> number */
  QUEUE,     /* object, key by which it was found, number of its parent, ... */
  STRINGS,   /* string -> number */
  VALUES,    /* those of the current object's fields, */
  FIELDKEYS, /* and the keys; but not those of a list's elements, which come
             ** first */
  WAITING,   /* object -> number of an object with a field that has this key,
             ** its value, ... */
  BUFFER,
  KEYS,
  BEFORE, /* what objects were before the open transactions: see delivered.c */
  CURRENT,
  CONTENTS, /* the fields of the current object: see state.c */
  IGNORED
};

/* The kinds of keys, in their order. */
enum { BOOLEAN, NUMBER, STRING, OBJECT };

/* A key of a table, in a form that can be sorted. */
typedef struct sortable {
  int kind, is_float;
  lua_Number f;  /* a number, or one that is near the integer, */
  lua_Integer i; /* which may be a boolean, or the number of an object */
  const char *string;
  size_t len;
  lua_Integer at; /* in VALUES */
} sortable;

typedef struct writer {
  lua_State *L;
  mwb_state *s;
  mwb_output out; /* at BUFFER */
  sortable *keys; /* at KEYS */
  size_t size_keys;
  lua_Integer objects;          /* how many have numbers, */
  lua_Integer waiting;          /* and for how many others fields wait */
  lua_Integer fields, elements; /* how many are in VALUES, and of a list */
  int has_objects;     /* are there tables among VALUES, or objects as keys? */
  lua_Integer current; /* number of the object that is written */
  mw_clock marks;
  mw_reach reach; /* the root's, */
  int asks;       /* and may that refuse any? */
  mwb_classes walk;
} writer;

/* Raises the array at WAY: what cannot be said (nothing where a class has been
** found late), and the keys of the way to the current object, the last one
** first; before them the key at `key`, if that is not 0. */
static void refuse(writer *w, const char *what, int key) {
  lua_State *L = w->L;
  lua_Integer at = w->current, n = 1;
  lua_pushstring(L, what);
  lua_rawseti(L, WAY, n++);
  if (key != 0) { /* is it about a field? */
    lua_pushvalue(L, key);
    lua_rawseti(L, WAY, n++);
  }
  while (at > 1) { /* up to the root */
    lua_rawgeti(L, QUEUE, 3 * at - 1);
    lua_rawseti(L, WAY, n++);
    lua_rawgeti(L, QUEUE, 3 * at);
    at = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pushvalue(L, WAY);
  lua_error(L);
}

/* {======================================================
** Values
** ======================================================= */

/* Gives the object on the top the next number. */
static lua_Integer add_object(writer *w, int key) {
  lua_State *L = w->L;
  lua_Integer n = ++w->objects;
  lua_pushvalue(L, -1);
  lua_rawseti(L, QUEUE, 3 * n - 2);
  lua_pushvalue(L, key);
  lua_rawseti(L, QUEUE, 3 * n - 1);
  lua_pushinteger(L, w->current);
  lua_rawseti(L, QUEUE, 3 * n);
  lua_pushvalue(L, -1);
  lua_pushinteger(L, n);
  lua_rawset(L, NUMBERS);
  return n;
}

/* Returns the number of the object on the top, or 0. */
static lua_Integer number_of(const writer *w) {
  lua_Integer n;
  lua_pushvalue(w->L, -1);
  lua_rawget(w->L, NUMBERS);
  n = lua_tointeger(w->L, -1);
  lua_pop(w->L, 1);
  return n;
}

/* Puts the object on the top, found under the key at `key`. */
static void put_object(writer *w, int key) {
  lua_State *L = w->L;
  lua_Integer n = number_of(w);
  if (n == 0) { /* the first time it is met? */
    lua_pushvalue(L, -1);
    if (lua_rawget(L, NAMES) == LUA_TSTRING) { /* a class with a name? */
      mwb_put_byte(&w->out, MWB_TAG_CLASS);
      mwb_put_string(&w->out, lua_gettop(L));
      lua_pop(L, 1);
      return;
    }
    lua_pop(L, 1);
    if (mwb_is_ours(L, -1)) refuse(w, "an object of the library", key);
    n = add_object(w, key);
  }
  mwb_put_byte(&w->out, MWB_TAG_OBJECT);
  mwb_put_count(&w->out, (uint64_t)n);
}

/* Puts the value on the top, found under the key at `key`, and pops the
** value. */
static void put_value(writer *w, int key) {
  lua_State *L = w->L;
  int type = lua_type(L, -1);
  if (type == LUA_TTABLE || type == LUA_TUSERDATA) {
    put_object(w, key);
  } else if (!mwb_put_value(&w->out, lua_gettop(L))) { /* not to be saved? */
    refuse(w, lua_pushfstring(L, "a %s", luaL_typename(L, -1)), key);
  }
  lua_pop(L, 1);
}

/* }====================================================== */

/* {======================================================
** Keys
** ======================================================= */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* An integer and a float are never equal, as keys.  Where they are as floats,
** the float is 2^63. */
static int compare_keys(const void *left, const void *right) {
  const sortable *a = (const sortable *)left, *b = (const sortable *)right;
  int order = COMPARE(a->kind, b->kind);
  if (order != 0) return order; /* of different kinds? */
  if (a->kind == STRING) {
    order = memcmp(a->string, b->string, (a->len < b->len) ? a->len : b->len);
    return (order != 0) ? order : COMPARE(a->len, b->len);
  }
  order = COMPARE(a->f, b->f);
  if (order == 0) order = COMPARE(a->is_float, b->is_float); /* alike so far? */
  return (order != 0) ? order : COMPARE(a->i, b->i);
}

static void sort(sortable *keys, size_t n) {
  if (n > 1) qsort(keys, n, sizeof(sortable), compare_keys);
}

/* Pushes the key of a field in VALUES. */
static int push_key(const writer *w, lua_Integer at) {
  if (at > w->elements) return lua_rawgeti(w->L, FIELDKEYS, at);
  lua_pushinteger(w->L, at);
  return LUA_TNUMBER;
}

/* Adds the key of a field in VALUES to the `n` that are there. */
static void add_key(writer *w, size_t n, lua_Integer at) {
  lua_State *L = w->L;
  sortable *key;
  int type = push_key(w, at);
  if (n == w->size_keys) {
    w->size_keys = 2 * n + 16;
    w->keys = (sortable *)mwb_grow_block(L, KEYS, n * sizeof(sortable),
                                         w->size_keys * sizeof(sortable));
  }
  key = &w->keys[n];
  memset(key, 0, sizeof(*key));
  key->at = at;
  if (type == LUA_TSTRING) {
    key->kind = STRING;
    key->string = lua_tolstring(L, -1, &key->len);
  } else if (type == LUA_TNUMBER) {
    key->kind = NUMBER;
    key->is_float = !lua_isinteger(L, -1);
    key->i = lua_tointeger(L, -1);
    key->f = lua_tonumber(L, -1);
  } else if (type == LUA_TBOOLEAN) {
    key->i = lua_toboolean(L, -1);
  } else if (type == LUA_TTABLE || type == LUA_TUSERDATA) {
    key->kind = OBJECT;
    key->i = number_of(w);
  } else {
    refuse(w, lua_pushfstring(L, "a %s as a key", luaL_typename(L, -1)), 0);
  }
  lua_settop(L, IGNORED);
}

/* }====================================================== */

/* {======================================================
** The fields of the current object
** ======================================================= */

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
        lua_tointeger(L, -1) == n) { /* the list's next element? */
      w->elements = n;
    } else {
      lua_pushvalue(L, -1);
      lua_rawseti(L, FIELDKEYS, n);
    }
  }
  w->fields = n;
}

/* Is the field, whose key and value are on the top, part of the state? */
static int is_state(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), yes;
  if (!lua_istable(L, top)) return 1; /* only tables are asked about */
  if (!mwb_is_contents(L, w->s, CURRENT, &w->walk)) { /* is it a class? */
    lua_pushvalue(L, top);
    lua_rawget(L, NAMES);
  } else if (lua_isnil(L, DESCEND)) { /* as a deep watch would? */
    return !w->asks || mwb_enters(L, w->s, w->reach, CURRENT);
  } else {
    lua_pushvalue(L, DESCEND);
    lua_pushvalue(L, CURRENT);
    lua_pushvalue(L, top - 1);
    lua_pushvalue(L, top);
    lua_call(L, 3, 1);
  }
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* The field, whose key is an object that has not been visited, and the value,
** which are on the top, wait. */
static void wait(writer *w) {
  lua_State *L = w->L;
  int key = lua_gettop(L) - 1;
  lua_Integer n;
  lua_pushvalue(L, key);
  if (lua_rawget(L, WAITING) == LUA_TNIL) { /* the first to wait for it? */
    lua_newtable(L);
    lua_replace(L, key + 2);
    lua_pushvalue(L, key);
    lua_pushvalue(L, key + 2);
    lua_rawset(L, WAITING);
    w->waiting++;
  }
  n = (lua_Integer)lua_rawlen(L, -1);
  lua_pushinteger(L, w->current);
  lua_rawseti(L, -2, n + 1);
  lua_pushvalue(L, key + 1);
  lua_rawseti(L, -2, n + 2);
}

/* Is the field of VALUES one of those that are written now? */
static int is_now(writer *w, lua_Integer at) {
  lua_State *L = w->L;
  int type = push_key(w, at), yes;
  lua_rawgeti(L, VALUES, at);
  yes = is_state(w);
  if (yes && (type == LUA_TTABLE || type == LUA_TUSERDATA)) { /* object key? */
    lua_Integer n;
    lua_pushvalue(L, -2);
    n = number_of(w);
    lua_pop(L, 1);
    yes = n > 0 && n <= w->current; /* visited already? */
    if (!yes) wait(w);
  }
  lua_settop(L, IGNORED);
  return yes;
}

static int is_integer(const sortable *key, lua_Integer i) {
  return key->kind == NUMBER && !key->is_float && key->i == i;
}

/* Sorts the keys of the fields that are written now, but for those of a list
** whose elements come first.  Returns the length of the list; `*n` is the
** number of keys. */
static lua_Integer sort_fields(writer *w, size_t *n) {
  lua_Integer list = w->has_objects ? 0 : w->elements, i;
  size_t count = 0;
  for (i = list + 1; i <= w->fields; i++) {
    if (w->has_objects && !is_now(w, i)) continue; /* no state, or later? */
    if (i == list + 1 && i <= w->elements) /* does it lengthen the list? */
      list = i;
    else
      add_key(w, count++, i);
  }
  sort(w->keys, count);
  if (list > 0 && count > 0 && /* must a key stand before an element? */
      (w->keys[0].kind < NUMBER ||
       (w->keys[0].kind == NUMBER && w->keys[0].f < (lua_Number)list))) {
    for (; list > 0; list--) add_key(w, count++, list);
    sort(w->keys, count);
  }
  *n = count;
  return list;
}

/* Puts the value of a field of VALUES. */
static void put_element(writer *w, lua_Integer at) {
  lua_State *L = w->L;
  lua_rawgeti(L, VALUES, at);
  if (!mwb_put_value(&w->out, IGNORED + 1)) { /* an object, or refused? */
    push_key(w, at);
    lua_insert(L, IGNORED + 1);
    put_value(w, IGNORED + 1);
  }
  lua_settop(L, IGNORED);
}

static void put_late_field(writer *w, lua_Integer of, lua_Integer key) {
  mwb_put_byte(&w->out, MWB_ITEM_FIELD);
  mwb_put_count(&w->out, (uint64_t)of);
  mwb_put_count(&w->out, (uint64_t)key);
}

static void put_fields(writer *w) {
  lua_State *L = w->L;
  size_t n, i, pairs = 0, more = 0;
  lua_Integer list = sort_fields(w, &n), at;
  while (more < n && is_integer(&w->keys[more], list + (lua_Integer)more + 1))
    more++;
  mwb_put_count(&w->out, (uint64_t)list + more);
  for (at = 1; at <= list; at++) put_element(w, at);
  for (i = 0; i < more; i++) put_element(w, w->keys[i].at);
  for (pairs = more; pairs < n && w->keys[pairs].kind < OBJECT;) pairs++;
  mwb_put_count(&w->out, pairs - more);
  for (; i < n; i++) {
    if (i >= pairs) { /* is the key an object? */
      put_late_field(w, w->current, w->keys[i].i);
    } else {
      push_key(w, w->keys[i].at);
      mwb_put_value(&w->out, IGNORED + 1);
      lua_settop(L, IGNORED);
    }
    put_element(w, w->keys[i].at);
  }
}

/* Puts the fields that have waited for the current object. */
static void put_waiting(writer *w) {
  lua_State *L = w->L;
  lua_Integer n = w->current, i;
  lua_settop(L, BEFORE);
  lua_rawgeti(L, QUEUE, 3 * n - 2); /* CURRENT */
  lua_pushvalue(L, CURRENT);
  if (lua_rawget(L, WAITING) == LUA_TNIL) return; /* do no fields wait? */
  for (i = 1; lua_rawgeti(L, CURRENT + 1, i) != LUA_TNIL; i += 2) {
    w->current = lua_tointeger(L, -1);
    put_late_field(w, w->current, n);
    lua_rawgeti(L, CURRENT + 1, i + 1);
    put_value(w, CURRENT);
    lua_pop(L, 1);
  }
  w->current = n;
  w->waiting--;
  lua_settop(L, CURRENT);
  lua_pushnil(L);
  lua_rawset(L, WAITING);
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
    lua_pop(L, 1); /* the class is as it is now */
    mwb_push_class(L, CURRENT);
  }
  if (is_table && (!lua_toboolean(L, -1) || mwb_is_no_class(L, -1))) {
    lua_settop(L, top); /* no class to be named */
    lua_pushnil(L);
    return;
  }
  lua_pushvalue(L, -1);
  if (is_table && lua_rawget(L, NAMES) == LUA_TSTRING) { /* is it named? */
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return;
  }
  lua_settop(L, top + 3);
  lua_call(L, 2, is_table ? 1 : 2);
  if (lua_type(L, top + 1) == LUA_TSTRING) return; /* has it been named? */
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
  lua_settop(L, IGNORED);
  push_class_name(w);
  if (mwb_push_part_before(L, BEFORE, CURRENT, MWB_STATE) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1); /* as before open transactions */
    lua_replace(L, -3);
  }
  lua_pop(L, 1);
  mwb_put_string(&w->out, IGNORED + 1);
  lua_pushliteral(L, "state");
  lua_insert(L, -2);
  put_value(w, lua_gettop(L) - 1);
}

/* Puts the objects of the queue. */
static void put_objects(writer *w) {
  lua_State *L = w->L;
  while (w->current < w->objects) {
    w->current++;
    lua_settop(L, BEFORE);
    lua_rawgeti(L, QUEUE, 3 * w->current - 2);
    if (lua_istable(L, CURRENT))
      put_table(w);
    else
      put_userdata(w);
    if (w->walk.late) refuse(w, NULL, 0); /* was a class taken for state? */
    if (w->waiting > 0) put_waiting(w);   /* perhaps for this object? */
  }
}

/* Refuses the first object that has a field which still waits. */
static void refuse_waiting(writer *w) {
  lua_State *L = w->L;
  lua_settop(L, BEFORE);
  for (lua_pushnil(L); lua_next(L, WAITING) != 0; lua_settop(L, BEFORE + 1)) {
    lua_rawgeti(L, -1, 1);
    if (lua_tointeger(L, -1) < w->current) w->current = lua_tointeger(L, -1);
  }
  refuse(w, "an object that is nothing but a key", 0);
}

/* Returns a hash that is the same on every machine.  Each step is one to one,
** so bytes that differ in eight of them differ in the hash. */
static uint64_t hash_bytes(const unsigned char *p, size_t len) {
  uint64_t h = len;
  for (; len > 0; p += 8) {
    int n = (len < 8) ? (int)len : 8;
    h = (h ^ mwb_get_fixed(p, n)) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 29;
    len -= (size_t)n;
  }
  return h;
}

/* snapshot(root, describe, descend, names, hashes, classes, way) -> bytes, or
** their hash, and the number of the last entry that was delivered before; see
** snapshot.lua */
static int snapshot(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  uint64_t last = mw_delivery_last(s->engine);
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
  lua_settop(L, KEYS);
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
  w.reach = mw_tree_reach(s->engine, mwb_handle_of(L, s, ROOT));
  w.asks = mwb_has_rules(s, w.reach);
  mwb_begin_scan(s);
  lua_pushnil(L);
  lua_pushvalue(L, ROOT);
  add_object(&w, BEFORE + 1);
  put_objects(&w);
  if (w.waiting > 0) refuse_waiting(&w); /* a key nothing else leads to? */
  bytes = w.out.bytes;
  n = w.out.n;
  mwb_put_fixed(bytes + 16, (uint64_t)w.objects, 4);
  if (lua_toboolean(L, HASHES)) {
    lua_pushinteger(L, (lua_Integer)hash_bytes(bytes + 16, n - 16));
  } else {
    memcpy(bytes, MWB_MAGIC, 3);
    bytes[3] = MWB_VERSION;
    mwb_put_fixed(bytes + 8, n - MWB_HEADER, 8);
    mwb_put_fixed(bytes + 4, mwb_checksum(bytes + 8, n - 8), 4);
    lua_pushlstring(L, (const char *)bytes, n);
  }
  lua_pushinteger(L, (lua_Integer)last);
  return 2;
}

const luaL_Reg mwb_snapshots_functions[] = {{"snapshot", snapshot},
                                            {NULL, NULL}};
