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
** and lengths are groups of seven bits, the lowest first, with the top bit set
** in each byte but the last.  A value begins with its tag; a string that came
** before is a number.
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
** itself.  Then, and when something is refused that may be in a class, all
** classes are looked for first, and the writing begins anew.
*/
#include "../base/base.h"

#include <stdlib.h>
#include <string.h>

#include "../journal/journal.h"
#include "../traps/traps.h"
#include "snapshot.h"

/* {======================================================
** Writing
** ======================================================= */

/* The stack of `write`.  The first are the arguments. */
enum {
  ROOT = 1,
  DESCRIBE,  /* (object, class or nil) -> name of the class, state of a userdata
            */
  ENTERS,    /* (root, parent, key, child) -> is the table part of the state? */
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
  LATER,     /* number -> fields whose keys are objects */
  READY,     /* number -> the numbers of such keys, which have got one since the
            ** object's last turn */
  WAITING,   /* object that has no number yet -> numbers of objects with a field
            ** that has this key */
  BUFFER,
  KEYS,
  PARENTS,
  TURNS,
  BEFORE, /* object -> what the object was before, or nil */
  CURRENT,
  CONTENTS,
  IGNORED /* the set of the object's fields that the policy ignores, or nil */
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
  unsigned char *bytes; /* at BUFFER */
  size_t n, size;
  sortable *keys; /* at KEYS */
  size_t size_keys;
  uint32_t *parents; /* at PARENTS, by number */
  size_t size_parents;
  lua_Integer objects, strings; /* how many there are */
  lua_Integer fields, elements; /* how many are in VALUES, and of a list */
  int tables;                   /* are there tables among VALUES? */
  int objects_as_keys;
  lua_Integer current; /* number of the object that is written */
  mw_clock marks;
  uint64_t *turns; /* at TURNS: a heap */
  size_t n_turns, size_turns;
  uint64_t turn; /* the one under way; the next ones are greater */
  mwb_classes walk;
  uint64_t seq; /* of the journal, when BEFORE was made */
} writer;

/* Makes the block at `index` larger. */
static void *grow_block(lua_State *L, int index, size_t used, size_t size) {
  void *block = lua_newuserdatauv(L, size, 0);
  if (used > 0) memcpy(block, lua_touserdata(L, index), used);
  lua_replace(L, index);
  return block;
}

static void put_fixed(unsigned char *to, uint64_t n, int size) {
  int i;
  for (i = 0; i < size; i++) to[i] = (unsigned char)(n >> (8 * i));
}

static uint64_t get_fixed(const unsigned char *from, int size) {
  uint64_t n = 0;
  while (size-- > 0) n = n << 8 | from[size];
  return n;
}

static unsigned char *need_bytes(writer *w, size_t more) {
  if (w->size - w->n < more) {
    w->size = 2 * w->size + more;
    w->bytes = (unsigned char *)grow_block(w->L, BUFFER, w->n, w->size);
  }
  return w->bytes + w->n;
}

static void put_byte(writer *w, int byte) {
  *need_bytes(w, 1) = (unsigned char)byte;
  w->n++;
}

static void put_count(writer *w, uint64_t n) {
  unsigned char *to = need_bytes(w, 10);
  while (n >= 128) {
    *to++ = (unsigned char)(n | 128);
    n >>= 7;
  }
  *to++ = (unsigned char)n;
  w->n = (size_t)(to - w->bytes);
}

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

#define ROUND (UINT64_C(1) << 32)

/* Adds a turn of the object with a number: in this round if the number is
** greater than that of the turn under way, else in the next one. */
static void add_turn(writer *w, lua_Integer number) {
  uint64_t turn = (w->turn & ~(ROUND - 1)) + (uint64_t)number;
  size_t i = w->n_turns++;
  if (turn <= w->turn) turn += ROUND;
  if (i == w->size_turns) {
    w->size_turns = 2 * i + 16;
    w->turns = (uint64_t *)grow_block(w->L, TURNS, i * sizeof(uint64_t),
                                      w->size_turns * sizeof(uint64_t));
  }
  for (; i > 0 && w->turns[(i - 1) / 2] > turn; i = (i - 1) / 2)
    w->turns[i] = w->turns[(i - 1) / 2];
  w->turns[i] = turn;
}

/* Takes the next turn.  Returns the object's number, or 0. */
static lua_Integer next_turn(writer *w) {
  uint64_t last;
  size_t i = 0, child;
  if (w->n_turns == 0) return 0;
  w->turn = w->turns[0];
  last = w->turns[--w->n_turns];
  while ((child = 2 * i + 1) < w->n_turns) {
    if (child + 1 < w->n_turns && w->turns[child + 1] < w->turns[child])
      child++;
    if (w->turns[child] >= last) break;
    w->turns[i] = w->turns[child];
    i = child;
  }
  w->turns[i] = last;
  return (lua_Integer)(w->turn & (ROUND - 1));
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
      lua_Integer parent = lua_tointeger(L, -1), ready;
      lua_rawgeti(L, READY, parent);
      ready = (lua_Integer)lua_rawlen(L, -1);
      lua_pushinteger(L, n);
      lua_rawseti(L, -2, ready + 1);
      if (ready == 0) add_turn(w, parent);
      lua_settop(L, object + 1);
    }
  }
  lua_settop(L, object);
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
  if ((size_t)n >= w->size_parents) {
    size_t used = w->size_parents;
    w->size_parents = 2 * used + 64;
    w->parents = (uint32_t *)grow_block(L, PARENTS, used * sizeof(uint32_t),
                                        w->size_parents * sizeof(uint32_t));
  }
  w->parents[n] = (uint32_t)w->current;
  end_waiting(w, n);
  return n;
}

static void put_string(writer *w, int index) {
  lua_State *L = w->L;
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  lua_pushvalue(L, index);
  if (lua_rawget(L, STRINGS) == LUA_TNUMBER) {
    put_byte(w, KNOWN);
    put_count(w, (uint64_t)lua_tointeger(L, -1));
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  lua_pushvalue(L, index);
  lua_pushinteger(L, w->strings++);
  lua_rawset(L, STRINGS);
  put_byte(w, STRING);
  put_count(w, len);
  memcpy(need_bytes(w, len), s, len);
  w->n += len;
}

static void put_integer(writer *w, lua_Integer i) {
  if (i >= 0 && i < 256 - SMALL) {
    put_byte(w, SMALL + (int)i);
    return;
  }
  put_byte(w, INTEGER);
  put_count(w, ((uint64_t)i << 1) ^ (i < 0 ? UINT64_MAX : 0));
}

static void put_float(writer *w, lua_Number f) {
  uint64_t bits;
  double d = (double)f;
  memcpy(&bits, &d, sizeof(bits));
  if (f != f) bits = UINT64_C(0x7FF8) << 48; /* one NaN */
  put_byte(w, FLOAT);
  put_fixed(need_bytes(w, 8), bits, 8);
  w->n += 8;
}

/* Pushes the set of the object's fields that the policy ignores, or nil.
** `class_` is the index of the class, or of nil. */
static void push_ignored(lua_State *L, mwb_state *s, int object, int class_) {
  if ((s->needs & MWB_IGNORES) == 0 || !mwb_push_question(L, s, MWB_IGNORED)) {
    lua_pushnil(L);
    return;
  }
  lua_pushvalue(L, object);
  lua_pushvalue(L, class_);
  lua_call(L, 2, 1);
}

/* Pushes the name of the class of an object, nil for none; of a userdata also
** the state.  `class_` is the index of another class, or 0.  Returns 0 if the
** class has no name. */
static int name_class(lua_State *L, int object, int class_) {
  int top = lua_gettop(L), userdata = lua_isuserdata(L, object);
  if (class_ != 0)
    lua_pushvalue(L, class_);
  else
    mwb_push_class(L, object);
  if (!userdata) {
    if (!lua_toboolean(L, -1) || mwb_is_no_class(L, -1)) {
      lua_settop(L, top);
      lua_pushnil(L);
      return 1;
    }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, NAMES) == LUA_TSTRING) {
      lua_replace(L, top + 1);
      return 1;
    }
  }
  lua_settop(L, top + 1);
  lua_pushvalue(L, DESCRIBE);
  lua_pushvalue(L, object);
  if (class_ != 0)
    lua_pushvalue(L, top + 1);
  else
    lua_pushnil(L);
  lua_call(L, 2, userdata ? 2 : 1);
  lua_remove(L, top + 1);
  return lua_type(L, top + 1) == LUA_TSTRING;
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
      put_byte(w, CLASS);
      put_string(w, lua_gettop(L));
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
  put_byte(w, OBJECTREF);
  put_count(w, (uint64_t)n);
}

/* Puts the value on the top, found under the key at `key`, and pops the
** value. */
static void put_value(writer *w, int key) {
  lua_State *L = w->L;
  switch (lua_type(L, -1)) {
    case LUA_TNIL:
      put_byte(w, NIL);
      break;
    case LUA_TBOOLEAN:
      put_byte(w, lua_toboolean(L, -1) ? TRUE : FALSE);
      break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, -1))
        put_integer(w, lua_tointeger(L, -1));
      else
        put_float(w, lua_tonumber(L, -1));
      break;
    case LUA_TSTRING:
      put_string(w, lua_gettop(L));
      break;
    case LUA_TTABLE:
    case LUA_TUSERDATA:
      put_object(w, key);
      break;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, -1) == NULL) {
        put_byte(w, NULLVALUE);
        break;
      } /* FALLTHROUGH */
    default: {
      const char *type = lua_pushfstring(L, "a %s", luaL_typename(L, -1));
      lua_pushvalue(L, key);
      refuse(w, type, 1);
    }
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
    w->keys = (sortable *)grow_block(w->L, KEYS, n * sizeof(sortable),
                                     w->size_keys * sizeof(sortable));
  }
  return &w->keys[n];
}

/* {======================================================
** The fields of the current object
** ======================================================= */

static void push_key(lua_State *L, lua_Integer at, lua_Integer elements) {
  if (at <= elements)
    lua_pushinteger(L, at);
  else
    lua_rawgeti(L, FIELDKEYS, at);
}

/* Gives elements that are elements no more their keys. */
static void cut_list(writer *w, lua_Integer elements) {
  lua_Integer i;
  for (i = elements + 1; i <= w->elements; i++) {
    lua_pushinteger(w->L, i);
    lua_rawseti(w->L, FIELDKEYS, i);
  }
  w->elements = elements;
}

/* Is the key at `index` one of 1 to `n`? */
static int is_element(lua_State *L, int index, lua_Integer n) {
  lua_Integer i;
  if (n == 0 || !lua_isinteger(L, index)) return 0;
  i = lua_tointeger(L, index);
  return i >= 1 && i <= n;
}

/* Copies the fields to VALUES and FIELDKEYS, the elements of the list first. */
static void gather(writer *w) {
  lua_State *L = w->L;
  lua_Integer n = 0;
  int type;
  w->tables = w->objects_as_keys = 0;
  while ((type = lua_rawgeti(L, CONTENTS, n + 1)) != LUA_TNIL) {
    w->tables |= type == LUA_TTABLE;
    lua_rawseti(L, VALUES, ++n);
  }
  w->elements = n;
  while (lua_next(L, CONTENTS) != 0) { /* after the nil */
    if (is_element(L, -2, w->elements)) {
      lua_pop(L, 1);
      continue;
    }
    type = lua_type(L, -2);
    w->objects_as_keys |= type == LUA_TTABLE || type == LUA_TUSERDATA;
    w->tables |= lua_istable(L, -1);
    lua_rawseti(L, VALUES, ++n);
    lua_pushvalue(L, -1);
    lua_rawseti(L, FIELDKEYS, n);
  }
  w->fields = n;
}

/* Is the field, whose key and value are on the top, part of the state? */
static int is_state(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), yes;
  if (lua_istable(L, IGNORED)) {
    lua_pushvalue(L, top - 1);
    yes = lua_rawget(L, IGNORED) == LUA_TNIL;
    lua_pop(L, 1);
    if (!yes) return 0;
  }
  if (!lua_istable(L, top)) return 1;
  if (!mwb_is_contents(L, w->s, CURRENT, &w->walk)) {
    lua_pushvalue(L, top);
    yes = lua_rawget(L, NAMES) != LUA_TNIL;
    lua_pop(L, 1);
    return yes;
  }
  if (lua_isnil(L, ENTERS)) return 1;
  lua_pushvalue(L, ENTERS);
  lua_pushvalue(L, ROOT);
  lua_pushvalue(L, CURRENT);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_call(L, 4, 1);
  yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* The field on the top, whose key is an object, is for later. */
static void put_off(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  if (lua_rawgeti(L, LATER, w->current) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LATER, w->current);
    add_turn(w, w->current);
  }
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_rawset(L, -3);
}

/* Takes away from VALUES what is no state, or for later. */
static void sift(writer *w) {
  lua_State *L = w->L;
  lua_Integer i, elements = w->elements;
  int all = w->objects_as_keys || !lua_isnil(L, IGNORED);
  for (i = (w->tables || all) ? 1 : w->fields + 1; i <= w->fields; i++) {
    int is_part, type;
    lua_settop(L, IGNORED);
    if (lua_rawgeti(L, VALUES, i) != LUA_TTABLE && !all) continue;
    push_key(L, i, w->elements);
    lua_insert(L, IGNORED + 1);
    is_part = is_state(w);
    type = lua_type(L, IGNORED + 1);
    if (is_part && type != LUA_TTABLE && type != LUA_TUSERDATA) continue;
    if (is_part) put_off(w);
    if (i <= elements) elements = i - 1;
    lua_pushnil(L);
    lua_rawseti(L, VALUES, i);
  }
  lua_settop(L, IGNORED);
  cut_list(w, elements);
}

/* Sorts the keys of the fields that are no elements.  Returns how many there
** are. */
static size_t sort_keys(writer *w) {
  lua_State *L = w->L;
  size_t count = 0;
  lua_Integer i;
  for (i = w->elements + 1; i <= w->fields; i++) {
    sortable *key;
    if (lua_rawgeti(L, VALUES, i) != LUA_TNIL) {
      lua_rawgeti(L, FIELDKEYS, i);
      key = need_key(w, count++);
      if (!read_key(L, -1, key)) {
        lua_pushfstring(L, "a %s as a key", luaL_typename(L, -1));
        refuse(w, lua_tostring(L, -1), 0);
      }
      key->at = i;
    }
    lua_settop(L, IGNORED);
  }
  if (count > 1) qsort(w->keys, count, sizeof(sortable), compare_keys);
  return count;
}

/* Does the key come before the field `n` of a list? */
static int is_before(const sortable *key, lua_Integer n) {
  sortable last;
  memset(&last, 0, sizeof(last));
  last.u.i = n;
  return compare_keys(key, &last) < 0;
}

/* Puts the fields that are in VALUES. */
static void put_fields(writer *w) {
  lua_State *L = w->L;
  size_t count = sort_keys(w), k;
  lua_Integer i;
  if (w->elements > 0 && count > 0 && is_before(&w->keys[0], w->elements)) {
    cut_list(w, 0);
    count = sort_keys(w);
  }
  put_count(w, (uint64_t)w->elements);
  for (i = 1; i <= w->elements; i++) {
    lua_pushinteger(L, i);
    lua_rawgeti(L, VALUES, i);
    put_value(w, IGNORED + 1);
    lua_settop(L, IGNORED);
  }
  put_count(w, count);
  for (k = 0; k < count; k++) {
    lua_rawgeti(L, FIELDKEYS, w->keys[k].at);
    lua_pushvalue(L, -1);
    put_value(w, IGNORED + 1);
    lua_rawgeti(L, VALUES, w->keys[k].at);
    put_value(w, IGNORED + 1);
    lua_settop(L, IGNORED);
  }
}

/* }====================================================== */

/* Pushes the name of the current object's class and the state of a userdata; or
** nil for a table without a class. */
static void push_class_name(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), userdata = lua_isuserdata(L, CURRENT), said;
  if (mwb_push_part_before(L, BEFORE, CURRENT, MWB_CLASSBEFORE) != LUA_TNIL) {
    said = name_class(L, CURRENT, top + 1);
    lua_remove(L, top + 1);
  } else {
    lua_settop(L, top);
    said = name_class(L, CURRENT, 0);
  }
  if (said) return;
  refuse(w,
         userdata ? "a userdata without a name and a snapshot"
                  : "an object of a class without a name",
         0);
}

int mwb_mark_of(lua_State *L, mwb_state *s, mw_clock marks, int object) {
  mw_handle h = mwb_handle_of(L, s, object);
  int64_t said = mw_clock_generation(s->engine, marks, h);
  return (said < 0) ? 0 : 1 + (int)(said % 2);
}

/* Puts the contents of the current object at CONTENTS. */
static void push_contents(writer *w) {
  lua_State *L = w->L;
  lua_settop(L, CURRENT);
  if (lua_istable(L, BEFORE) && mwb_push_before(L, BEFORE, CURRENT)) return;
  mwb_push_all(L, CURRENT);
}

static void put_table(writer *w) {
  lua_State *L = w->L;
  put_byte(w, TABLE);
  put_byte(w, mwb_mark_of(L, w->s, w->marks, CURRENT));
  lua_settop(L, CURRENT);
  if (mwb_note_classes(L, w->s, CURRENT, &w->walk) && mwb_is_weak(L, CURRENT))
    refuse(w, "a weak table", 0);
  push_contents(w);
  mwb_push_part_before(L, BEFORE, CURRENT, MWB_CLASSBEFORE);
  push_ignored(L, w->s, CURRENT, IGNORED);
  lua_replace(L, IGNORED);
  push_class_name(w);
  lua_settop(L, IGNORED + 1);
  put_value(w, IGNORED + 1);
  gather(w);
  lua_settop(L, IGNORED);
  sift(w);
  put_fields(w);
}

static void put_userdata(writer *w) {
  lua_State *L = w->L;
  put_byte(w, USERDATA);
  push_class_name(w);
  if (mwb_push_part_before(L, BEFORE, CURRENT, MWB_HASSTATE) != LUA_TNIL) {
    mwb_push_part_before(L, BEFORE, CURRENT, MWB_STATE);
    lua_replace(L, -3);
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_replace(L, CONTENTS);
  put_string(w, lua_gettop(L) - 1);
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

/* The object on the top, a key of the current object, has no number yet: the
** current object waits for it. */
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
  lua_settop(L, key);
}

/* Collects the numbers of the keys in the table on the top, which are objects.
** Returns how many; for keys without a number the object waits. */
static size_t collect_objects(writer *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  size_t count = 0;
  for (lua_pushnil(L); lua_next(L, top) != 0; lua_settop(L, top + 1)) {
    lua_pushvalue(L, top + 1);
    if (lua_rawget(L, NUMBERS) == LUA_TNUMBER) {
      read_key(L, -1, need_key(w, count++));
    } else {
      lua_settop(L, top + 1);
      wait(w);
    }
  }
  return count;
}

/* Likewise, of those that have got a number since, which are in the array on
** the top. */
static size_t collect_ready(writer *w) {
  lua_State *L = w->L;
  size_t count = 0;
  while (lua_rawgeti(L, -1, (lua_Integer)count + 1) == LUA_TNUMBER) {
    read_key(L, -1, need_key(w, count++));
    lua_pop(L, 1);
  }
  return count;
}

/* Puts the fields of an object whose keys are objects that have got a number
** since the last time. */
static void put_turn(writer *w, lua_Integer number) {
  lua_State *L = w->L;
  size_t count, i;
  w->current = number;
  lua_settop(L, BEFORE);
  lua_rawgeti(L, QUEUE, number);
  lua_rawgeti(L, LATER, number);
  if (lua_rawgeti(L, READY, number) == LUA_TTABLE) {
    count = collect_ready(w);
  } else {
    lua_settop(L, CONTENTS);
    count = collect_objects(w);
  }
  lua_newtable(L);
  lua_rawseti(L, READY, number);
  if (count > 1) qsort(w->keys, count, sizeof(sortable), compare_keys);
  for (i = 0; i < count; i++) {
    lua_Integer key = w->keys[i].u.i;
    lua_settop(L, IGNORED);
    put_byte(w, FIELD);
    put_count(w, (uint64_t)number);
    put_count(w, (uint64_t)key);
    lua_rawgeti(L, QUEUE, key);
    lua_pushvalue(L, -1);
    lua_rawget(L, CONTENTS);
    put_value(w, IGNORED + 1);
  }
}

/* Puts the fields that were left for later, and what they lead to: one object's
** fields after the other's, round by round, as long as keys get numbers. */
static void put_later(writer *w, lua_Integer done) {
  lua_State *L = w->L;
  lua_Integer number;
  while ((number = next_turn(w)) != 0) {
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
  for (; len >= 8; len -= 8, p += 8) h = mix(h, get_fixed(p, 8));
  return mix(h, get_fixed(p, (int)len));
}

/* write(root, describe, enters, names, hashes, classes, way) -> bytes, or their
** hash */
static int write(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  unsigned char *bytes;
  writer w;
  lua_Integer done;
  memset(&w, 0, sizeof(w));
  w.L = L;
  w.s = s;
  w.marks = mwb_marks(L, s);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "cannot write");
  lua_settop(L, WAY);
  while (lua_gettop(L) < WAITING) lua_newtable(L);
  lua_settop(L, BEFORE);
  w.walk.found = CLASSES;
  w.walk.entered = NUMBERS;
  lua_pushnil(L);
  w.walk.any = lua_next(L, CLASSES) != 0;
  lua_settop(L, BEFORE);
  w.seq = s->engine->journal.seq;
  mwb_push_delivered(L, s);
  lua_replace(L, BEFORE);
  need_bytes(&w, 1024);
  w.n = HEADER;
  lua_pushvalue(L, ROOT);
  lua_pushnil(L);
  lua_insert(L, -2);
  add_object(&w, lua_gettop(L) - 1);
  done = put_objects(&w, 1);
  put_later(&w, done);
  bytes = w.bytes;
  put_fixed(bytes + 16, (uint64_t)w.objects, 4);
  if (lua_toboolean(L, HASHES)) {
    lua_pushinteger(L, (lua_Integer)hash_bytes(bytes + 16, w.n - 16));
    return 1;
  }
  memcpy(bytes, MAGIC, 3);
  bytes[3] = VERSION;
  put_fixed(bytes + 8, w.n - HEADER, 8);
  put_fixed(bytes + 4, mwb_checksum(bytes + 8, w.n - 8), 4);
  lua_pushlstring(L, (const char *)bytes, w.n);
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

/* snapshot(root, describe, enters, names) -> bytes, number of the last entry
** that was delivered before; nil and what cannot be said, with the way to it */
static int snapshot(lua_State *L) {
  uint64_t last = mw_delivery_last(mwb_state_of(L)->engine);
  if (!call_write(L, 0)) return 2;
  lua_pushinteger(L, (lua_Integer)last);
  return 2;
}

/* hash(root, describe, enters, names) -> hash; nil and what cannot be said,
** with the way to it */
static int hash(lua_State *L) { return call_write(L, 1) ? 1 : 2; }

/* }====================================================== */

void mwb_open_snapshots(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"snapshot", snapshot}, {"hash", hash}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
