/*
** restore.c - objects from the bytes of a snapshot.
** SPDX-License-Identifier: MIT
**
** The bytes come from anywhere.  They are read twice: first all is looked at,
** and nothing is made; then the objects are made, with room for their fields,
** and filled.  A count is not believed unless so many bytes are left, so the
** memory that is taken is a fixed multiple of the length.  Nothing recurs.
**
** Into a live root: between the two, a pass over the fields finds the live
** object that stays in the place of each object, which is under the same key of
** a live object and of the same kind.  The bytes have the fields in the order
** of the objects' shortest paths, so the first field that leads to an object
** decides.  The second reading then fills new objects alone; of a live one it
** notes in lists what differs, and changes nothing.
*/
#include "../base/base.h"

#include <string.h>

#include "../traps/traps.h"
#include "snapshot.h"

uint32_t mwb_checksum(const unsigned char *bytes, size_t len) {
  uint32_t sum = UINT32_MAX, table[256], i, k;
  for (i = 0; i < 256; i++) {
    for (table[i] = i, k = 0; k < 8; k++)
      table[i] = (table[i] >> 1) ^ ((table[i] & 1) ? UINT32_C(0xEDB88320) : 0);
  }
  while (len-- > 0) sum = (sum >> 8) ^ table[(sum ^ *bytes++) & 255];
  return ~sum;
}

mw_clock mwb_marks(lua_State *L, mwb_state *s) {
  static const char name[] = "moonwatch.array";
  mw_clock marks = 0;
  mwb_check(L, mw_clock_open(s->engine, name, sizeof(name) - 1, &marks));
  return marks;
}

/* unmark(table): the table has no mark of JSON any more */
static int unmark(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mw_handle h = mwb_handle_of(L, s, 1);
  if (h != MW_NONE) mw_clock_untag(s->engine, mwb_marks(L, s), h);
  return 0;
}

/* The stack of `read`.  The first are the arguments. */
enum {
  BYTES = 1,
  MAKE,    /* (name, is userdata) -> object */
  NAMED,   /* (name) -> class */
  FILL,    /* (userdata, state) */
  MARKED,  /* (table, mark), or nil */
  INTO,    /* the live root, or nil, */
  KIND,    /* (object) -> name of its class, */
  ENTERS,  /* and (root, parent, key, child) -> is the table state? */
  PLACES,  /* the block of places, */
  OFFSETS, /* and of offsets */
  OBJECTS, /* number -> object */
  STRINGS, /* number -> string */
  STATES,  /* number -> state of a userdata */
  CLASSES, /* those below the live root: see state.h */
  STAYS,   /* live object that stays -> true */
  CHANGES, /* object, key, value, ... that differ */
  WANTED, /* number of a live object that may have more fields -> set of keys */
  GONE,   /* such an object, its set, ... */
  MARKS,  /* object, mark, ... that differ */
  CONTENTS /* of the object that is filled */
};

/* Does the object stay, or is it new?  A field decides; objects that are in
** nothing but states of userdata are new. */
enum { UNKNOWN, LIVE, NEW };

/* What is known of an object before the object is made. */
typedef struct place {
  uint64_t name; /* number of the string, and 1; 0: no class */
  uint64_t n, m; /* fields */
  uint8_t kind, mark, fate;
} place;

typedef struct reader {
  lua_State *L;
  const unsigned char *at, *end;
  place *places;   /* by number - 1 */
  size_t *offsets; /* of the strings' lengths, from `begin` */
  const unsigned char *begin;
  uint64_t objects;
  uint64_t strings, size_offsets; /* strings that came before */
  mwb_state *s;
  mwb_classes walk;
  mw_clock marks;
  int late; /* was something decided for an object that had been passed? */
} reader;

/* Raises an array with the message. */
static void fail(lua_State *L, const char *message) {
  lua_createtable(L, 1, 0);
  lua_pushstring(L, message);
  lua_rawseti(L, -2, 1);
  lua_error(L);
}

static int get_byte(reader *r) {
  if (r->at == r->end) fail(r->L, "the bytes end too early");
  return *r->at++;
}

static uint64_t get_count(reader *r) {
  uint64_t n = 0;
  int shift, byte;
  for (shift = 0; shift < 64; shift += 7) {
    byte = get_byte(r);
    n |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return n;
  }
  fail(r->L, "a number is too long");
  return 0;
}

/* Reads how many elements of `size` bytes at least follow. */
static uint64_t get_length(reader *r, uint64_t size) {
  uint64_t n = get_count(r);
  if (n > (uint64_t)(r->end - r->at) / size)
    fail(r->L, "the bytes end too early");
  return n;
}

static uint64_t get_fixed(const unsigned char *from, int size) {
  uint64_t n = 0;
  while (size-- > 0) n = n << 8 | from[size];
  return n;
}

static uint64_t get_object(reader *r) {
  uint64_t n = get_count(r);
  if (n == 0 || n > r->objects) fail(r->L, "there is no such object");
  return n;
}

static lua_Number get_float(reader *r) {
  uint64_t bits;
  double d;
  if (r->end - r->at < 8) fail(r->L, "the bytes end too early");
  bits = get_fixed(r->at, 8);
  r->at += 8;
  memcpy(&d, &bits, sizeof(d));
  return (lua_Number)d;
}

static lua_Integer get_integer(reader *r) {
  uint64_t n = get_count(r);
  return (lua_Integer)((n >> 1) ^ (0 - (n & 1)));
}

/* {======================================================
** Looking
** ======================================================= */

static void grow_offsets(reader *r) {
  uint64_t size = 2 * r->size_offsets + 64;
  size_t *offsets =
      (size_t *)lua_newuserdatauv(r->L, (size_t)size * sizeof(size_t), 0);
  if (r->strings > 0)
    memcpy(offsets, r->offsets, (size_t)r->strings * sizeof(size_t));
  lua_replace(r->L, OFFSETS);
  r->offsets = offsets;
  r->size_offsets = size;
}

static void skip_string(reader *r, int tag) {
  if (tag == STRING) {
    if (r->strings == r->size_offsets) grow_offsets(r);
    r->offsets[r->strings++] = (size_t)(r->at - r->begin);
    r->at += get_length(r, 1);
  } else if (tag != KNOWN || get_count(r) >= r->strings) {
    fail(r->L, "there is no such string");
  }
}

/* Looks at a value.  Returns the tag. */
static int skip_value(reader *r) {
  int tag = get_byte(r);
  if (tag >= SMALL) return tag;
  switch (tag) {
    case NIL:
    case FALSE:
    case TRUE:
    case NULLVALUE:
      break;
    case INTEGER:
      get_count(r);
      break;
    case FLOAT:
      get_float(r);
      break;
    case STRING:
    case KNOWN:
      skip_string(r, tag);
      break;
    case OBJECTREF:
      get_object(r);
      break;
    case CLASS:
      skip_string(r, get_byte(r));
      break;
    default:
      fail(r->L, "a value has an unknown kind");
  }
  return tag;
}

static void skip_key(reader *r) {
  const unsigned char *at = r->at;
  int tag = skip_value(r);
  if (tag == NIL || tag == OBJECTREF || tag == CLASS || tag == NULLVALUE)
    fail(r->L, "a key is none");
  if (tag == FLOAT) {
    const unsigned char *next = r->at;
    lua_Number f;
    r->at = at + 1;
    f = get_float(r);
    if (f != f) fail(r->L, "a key is none");
    r->at = next;
  }
}

/* Reads the name of a class.  Returns the string's number and 1, or 0. */
static uint64_t skip_name(reader *r) {
  int tag = get_byte(r);
  uint64_t n = r->strings;
  const unsigned char *at = r->at;
  if (tag == NIL) return 0;
  skip_string(r, tag);
  if (tag == KNOWN) {
    const unsigned char *next = r->at;
    r->at = at;
    n = get_count(r);
    r->at = next;
  }
  return n + 1;
}

static void skip_table(reader *r, place *its) {
  uint64_t i, n;
  its->mark = (uint8_t)get_byte(r);
  if (its->mark > 2) fail(r->L, "a table has an unknown mark");
  its->name = skip_name(r);
  n = get_length(r, 1);
  its->n = n;
  for (i = 0; i < n; i++)
    if (skip_value(r) == NIL) fail(r->L, "a field has no value");
  n = get_length(r, 2);
  its->m = n;
  for (i = 0; i < n; i++) {
    skip_key(r);
    if (skip_value(r) == NIL) fail(r->L, "a field has no value");
  }
}

static void skip_items(reader *r) {
  uint64_t n = 0;
  while (r->at < r->end) {
    int kind = get_byte(r);
    if (kind == FIELD) {
      get_object(r);
      get_object(r);
      if (skip_value(r) == NIL) fail(r->L, "a field has no value");
      continue;
    }
    if (n == r->objects) fail(r->L, "there are too many objects");
    r->places[n].kind = (uint8_t)kind;
    if (kind == TABLE) {
      skip_table(r, &r->places[n]);
    } else if (kind == USERDATA) {
      r->places[n].name = skip_name(r);
      if (r->places[n].name == 0) fail(r->L, "a userdata has no class");
      skip_value(r);
    } else {
      fail(r->L, "an item has an unknown kind");
    }
    n++;
  }
  if (n < r->objects) fail(r->L, "an object is missing");
}

/* Finds the body. */
static void open_bytes(reader *r, const unsigned char *bytes, size_t len) {
  if (len < HEADER || memcmp(bytes, MAGIC, 3) != 0)
    fail(r->L, "the bytes are no snapshot");
  if (bytes[3] != VERSION) fail(r->L, "the version is not known here");
  if (get_fixed(bytes + 8, 8) != len - HEADER)
    fail(r->L, "the length is not right");
  if (get_fixed(bytes + 4, 4) != mwb_checksum(bytes + 8, len - 8))
    fail(r->L, "the checksum is not right");
  r->objects = get_fixed(bytes + 16, 4);
  if (r->objects == 0 || r->objects > (len - HEADER) / 4)
    fail(r->L, "the bytes end too early");
  r->at = bytes + HEADER;
  r->end = bytes + len;
}

/* }====================================================== */

/* {======================================================
** Making
** ======================================================= */

/* Pushes the string with a number. */
static void push_known(reader *r, uint64_t n) {
  lua_State *L = r->L;
  const unsigned char *at = r->at;
  uint64_t len;
  if (lua_rawgeti(L, STRINGS, (lua_Integer)n + 1) == LUA_TSTRING) return;
  lua_pop(L, 1);
  r->at = r->begin + r->offsets[n];
  len = get_count(r);
  lua_pushlstring(L, (const char *)r->at, (size_t)len);
  lua_pushvalue(L, -1);
  lua_rawseti(L, STRINGS, (lua_Integer)n + 1);
  r->at = at;
}

/* Pushes the string that begins with the tag. */
static void push_string(reader *r, int tag) {
  if (tag == STRING) {
    push_known(r, r->strings++);
    r->at += get_count(r);
  } else {
    push_known(r, get_count(r));
  }
}

static void push_value(reader *r) {
  lua_State *L = r->L;
  int tag = get_byte(r);
  switch (tag) {
    case NIL:
      lua_pushnil(L);
      break;
    case FALSE:
    case TRUE:
      lua_pushboolean(L, tag == TRUE);
      break;
    case INTEGER:
      lua_pushinteger(L, get_integer(r));
      break;
    case FLOAT:
      lua_pushnumber(L, get_float(r));
      break;
    case STRING:
    case KNOWN:
      push_string(r, tag);
      break;
    case OBJECTREF:
      lua_rawgeti(L, OBJECTS, (lua_Integer)get_count(r));
      break;
    case NULLVALUE:
      lua_pushlightuserdata(L, NULL);
      break;
    case CLASS:
      lua_pushvalue(L, NAMED);
      push_string(r, get_byte(r));
      lua_call(L, 1, 1);
      break;
    default:
      lua_pushinteger(L, tag - SMALL);
  }
}

/* Pushes a new object. */
static void make_object(reader *r, const place *its) {
  lua_State *L = r->L;
  if (its->name == 0) {
    lua_createtable(L, (int)its->n, (int)its->m);
    return;
  }
  lua_pushvalue(L, MAKE);
  push_known(r, its->name - 1);
  lua_pushboolean(L, its->kind == USERDATA);
  lua_call(L, 2, 1);
  if (lua_isuserdata(L, -1) != (its->kind == USERDATA) ||
      !(lua_istable(L, -1) || lua_isuserdata(L, -1)))
    fail(L, "a class has made an object of another kind");
}

static void make_objects(reader *r) {
  uint64_t i;
  for (i = 0; i < r->objects; i++) {
    if (r->places[i].fate == LIVE) continue;
    make_object(r, &r->places[i]);
    lua_rawseti(r->L, OBJECTS, (lua_Integer)i + 1);
  }
}

/* Pushes the object with a number, and puts the object's contents at
** CONTENTS. */
static void find_contents(lua_State *L, uint64_t number) {
  lua_settop(L, MARKS);
  lua_rawgeti(L, OBJECTS, (lua_Integer)number);
  if (!mwb_push_shadow(L, CONTENTS)) lua_pushvalue(L, CONTENTS);
  lua_insert(L, CONTENTS);
}

/* {======================================================
** Into a live root
** ======================================================= */

/* Is the live table or userdata on the top of the kind that the bytes say, and
** not taken yet? */
static int fits(reader *r, const place *its) {
  lua_State *L = r->L;
  int top = lua_gettop(L), yes;
  lua_pushvalue(L, top);
  yes = lua_rawget(L, STAYS) == LUA_TNIL;
  if (!yes || mwb_is_ours(L, r->s, top) ||
      (its->kind == TABLE && mwb_is_weak(L, top))) {
    lua_settop(L, top);
    return 0;
  }
  mwb_push_class(L, top);
  if (its->name == 0 || lua_isnil(L, -1)) {
    yes = its->name == 0 && lua_isnil(L, -1);
  } else {
    lua_pushvalue(L, KIND);
    lua_pushvalue(L, top);
    lua_call(L, 1, 1);
    push_known(r, its->name - 1);
    yes = lua_rawequal(L, -1, -2);
  }
  lua_settop(L, top);
  return yes;
}

/* Is the value on the top, which the live object at `parent` has under the key
** below the top, part of the state? */
static int is_state(reader *r, int parent) {
  lua_State *L = r->L;
  int top = lua_gettop(L), yes;
  if (lua_isuserdata(L, top)) return !lua_islightuserdata(L, top);
  if (!mwb_is_contents(L, r->s, parent, &r->walk)) return 0;
  if (lua_isnil(L, ENTERS)) return 1;
  lua_pushvalue(L, ENTERS);
  lua_pushvalue(L, INTO);
  lua_pushvalue(L, parent);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_call(L, 4, 1);
  yes = lua_toboolean(L, -1);
  lua_settop(L, top);
  return yes;
}

/* The value on the top stays in the place of the object with a number. */
static void stay(const reader *r, uint64_t number) {
  lua_State *L = r->L;
  lua_pushvalue(L, -1);
  lua_rawseti(L, OBJECTS, (lua_Integer)number);
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, STAYS);
  r->places[number - 1].fate = LIVE;
}

/* Reads the value of a field of the object `parent` whose key is on the top.
** Pops the key. */
static void decide(reader *r, uint64_t parent) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  const unsigned char *at = r->at;
  uint64_t child;
  place *its;
  if (skip_value(r) == OBJECTREF) {
    const unsigned char *next = r->at;
    r->at = at + 1;
    child = get_count(r);
    r->at = next;
    its = &r->places[child - 1];
    if (its->fate == UNKNOWN) {
      its->fate = NEW;
      r->late |= child < parent;
      if (r->places[parent - 1].fate == LIVE) {
        lua_pushvalue(L, top);
        lua_rawget(L, CONTENTS);
        if (lua_type(L, -1) ==
                (its->kind == TABLE ? LUA_TTABLE : LUA_TUSERDATA) &&
            is_state(r, CONTENTS + 1) && fits(r, its))
          stay(r, child);
      }
    }
  }
  lua_settop(L, top - 1);
}

static void decide_table(reader *r, uint64_t number) {
  lua_State *L = r->L;
  uint64_t i, n;
  get_byte(r);
  skip_name(r);
  n = get_count(r);
  for (i = 1; i <= n; i++) {
    lua_pushinteger(L, (lua_Integer)i);
    decide(r, number);
  }
  n = get_count(r);
  for (i = 0; i < n; i++) {
    const unsigned char *at = r->at;
    uint64_t strings = r->strings;
    skip_value(r);
    if (*r->at == OBJECTREF) {
      r->at = at;
      r->strings = strings;
      push_value(r); /* the key */
      decide(r, number);
    } else {
      skip_value(r);
    }
  }
}

/* Passes the item of an object of which nothing is known. */
static void pass(reader *r, int kind) {
  place unused;
  if (kind == TABLE) {
    skip_table(r, &unused);
  } else {
    skip_name(r);
    skip_value(r);
  }
}

/* Decides about the object in a field whose key is an object. */
static void decide_field(reader *r, uint64_t number) {
  uint64_t key = get_count(r);
  if (r->places[number - 1].fate == UNKNOWN ||
      r->places[key - 1].fate == UNKNOWN) {
    skip_value(r);
  } else {
    lua_rawgeti(r->L, OBJECTS, (lua_Integer)key);
    decide(r, number);
  }
}

/* Reads the items, and decides which objects stay, as far as that is known. */
static void decide_all(reader *r) {
  lua_State *L = r->L;
  uint64_t number = 0;
  while (r->at < r->end) {
    int kind = get_byte(r);
    uint64_t of = (kind == FIELD) ? get_count(r) : ++number;
    int fate = r->places[of - 1].fate;
    lua_settop(L, MARKS);
    if (fate == LIVE) find_contents(L, of);
    lua_settop(L, CONTENTS + 1);
    if (kind == FIELD)
      decide_field(r, of);
    else if (kind == TABLE && fate != UNKNOWN)
      decide_table(r, of);
    else
      pass(r, kind);
  }
}

/* Finds the live objects that stay, from the root on.  Returns whether the root
** does.  An object in the state of a userdata may come before the field that
** leads to it; then all is read again. */
static int find_live(reader *r, const unsigned char *body) {
  lua_State *L = r->L;
  lua_settop(L, MARKS);
  lua_pushvalue(L, INTO);
  if (r->places[0].kind != TABLE || !fits(r, &r->places[0])) return 0;
  stay(r, 1);
  do {
    r->late = 0;
    r->at = body;
    r->strings = 0;
    decide_all(r);
  } while (r->late);
  return 1;
}

/* Appends the value on the top to the list at `list`.  Pops the value. */
static void append(lua_State *L, int list) {
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Notes the field of the object at CONTENTS + 1, whose key and new value are on
** the top, if it differs.  Pops both.  Returns whether the field is there. */
static int compare_field(const reader *r) {
  lua_State *L = r->L;
  int top = lua_gettop(L), is;
  lua_pushvalue(L, top - 1);
  is = lua_rawget(L, CONTENTS) != LUA_TNIL;
  if (!mwb_is_same(L, top, top + 1)) {
    lua_pushvalue(L, CONTENTS + 1);
    append(L, CHANGES);
    lua_pushvalue(L, top - 1);
    append(L, CHANGES);
    lua_pushvalue(L, top);
    append(L, CHANGES);
  }
  lua_settop(L, top - 2);
  return is;
}

/* Compares the fields that are read.  Returns how many of them are there. */
static uint64_t compare_fields(reader *r) {
  lua_State *L = r->L;
  uint64_t i, n = get_count(r), found = 0;
  for (i = 1; i <= n; i++) {
    lua_pushinteger(L, (lua_Integer)i);
    push_value(r);
    found += (uint64_t)compare_field(r);
  }
  n = get_count(r);
  for (i = 0; i < n; i++) {
    push_value(r);
    push_value(r);
    found += (uint64_t)compare_field(r);
  }
  return found;
}

/* Puts the keys of the fields that are read into the set on the top. */
static void put_keys(reader *r) {
  lua_State *L = r->L;
  uint64_t i, n = get_count(r);
  for (i = 1; i <= n; i++) {
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, (lua_Integer)i);
    skip_value(r);
  }
  n = get_count(r);
  for (i = 0; i < n; i++) {
    push_value(r);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    skip_value(r);
  }
}

/* Reads the item of the live table with a number, which is at CONTENTS + 1. */
static void compare_table(reader *r, uint64_t number, int mark) {
  lua_State *L = r->L;
  int object = CONTENTS + 1;
  const unsigned char *at;
  uint64_t strings, more = 0;
  if (mwb_mark_of(L, r->s, r->marks, object) != mark) {
    lua_pushvalue(L, object);
    append(L, MARKS);
    lua_pushinteger(L, mark);
    append(L, MARKS);
  }
  skip_name(r);
  at = r->at;
  strings = r->strings;
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_pop(L, 1)) more++;
  if (compare_fields(r) == more) return;
  r->at = at;
  r->strings = strings;
  lua_pushvalue(L, object);
  append(L, GONE);
  lua_newtable(L);
  put_keys(r);
  lua_pushvalue(L, -1);
  append(L, GONE);
  lua_rawseti(L, WANTED, (lua_Integer)number);
}

/* }====================================================== */

/* Fills the table with the next number, whose item is read. */
static void fill_table(reader *r, uint64_t number) {
  lua_State *L = r->L;
  const place *its = &r->places[number - 1];
  uint64_t i;
  int mark = get_byte(r);
  find_contents(L, number);
  if (its->fate == LIVE) {
    compare_table(r, number, mark);
    return;
  }
  push_value(r);
  lua_pop(L, 1);
  get_count(r);
  for (i = 1; i <= its->n; i++) {
    push_value(r);
    lua_rawseti(L, CONTENTS, (lua_Integer)i);
  }
  get_count(r);
  for (i = 0; i < its->m; i++) {
    push_value(r);
    push_value(r);
    lua_rawset(L, CONTENTS);
  }
  if (mark == 0) return;
  if (lua_isnil(L, MARKED)) { /* is it put into a live root? */
    lua_pushvalue(L, CONTENTS + 1);
    append(L, MARKS);
    lua_pushinteger(L, mark);
    append(L, MARKS);
    return;
  }
  lua_pushvalue(L, MARKED);
  lua_pushvalue(L, CONTENTS + 1);
  lua_pushinteger(L, mark);
  lua_call(L, 2, 0);
}

/* Reads the field whose key is an object. */
static void fill_field(reader *r) {
  lua_State *L = r->L;
  uint64_t number = get_count(r), key;
  find_contents(L, number);
  if (!lua_istable(L, CONTENTS)) fail(L, "a field is in no table");
  key = get_count(r);
  lua_rawgeti(L, OBJECTS, (lua_Integer)key);
  push_value(r);
  if (r->places[number - 1].fate != LIVE) {
    lua_rawset(L, CONTENTS);
    return;
  }
  compare_field(r);
  if (lua_rawgeti(L, WANTED, (lua_Integer)number) == LUA_TTABLE) {
    lua_rawgeti(L, OBJECTS, (lua_Integer)key);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
}

static void fill_objects(reader *r) {
  lua_State *L = r->L;
  uint64_t number = 0;
  while (r->at < r->end) {
    int kind = get_byte(r);
    if (kind == FIELD) {
      fill_field(r);
    } else if (kind == TABLE) {
      fill_table(r, ++number);
    } else {
      lua_settop(L, MARKS);
      push_value(r);
      lua_pop(L, 1);
      push_value(r);
      lua_rawseti(L, STATES, (lua_Integer)++number);
    }
  }
}

/* Gives the userdata their states, the last one first: a state may contain
** others. */
static void fill_userdata(const reader *r) {
  lua_State *L = r->L;
  uint64_t i;
  lua_settop(L, MARKS);
  for (i = r->objects; i > 0; i--) {
    if (r->places[i - 1].kind != USERDATA) continue;
    lua_pushvalue(L, FILL);
    lua_rawgeti(L, OBJECTS, (lua_Integer)i);
    lua_rawgeti(L, STATES, (lua_Integer)i);
    lua_call(L, 2, 0);
  }
}

/* Pushes what the writes to userdata need: an array of all userdata, userdata
** -> state, and the set of the objects that fields lead to. */
static void push_userdata(const reader *r) {
  lua_State *L = r->L;
  lua_Integer n = 0, i;
  int list = MARKS + 1, states = list + 1, held = states + 1;
  lua_settop(L, MARKS);
  while (lua_gettop(L) < held) lua_newtable(L);
  for (i = 1; i <= (lua_Integer)r->objects; i++) {
    const place *its = &r->places[i - 1];
    lua_rawgeti(L, OBJECTS, i);
    if (its->kind == USERDATA) {
      lua_pushvalue(L, -1);
      lua_rawseti(L, list, ++n);
      lua_pushvalue(L, -1);
      lua_rawgeti(L, STATES, i);
      lua_rawset(L, states);
    }
    if (its->fate != UNKNOWN) {
      lua_pushboolean(L, 1);
      lua_rawset(L, held);
    }
    lua_settop(L, held);
  }
}

/* Reads the bytes whose body is at `body`, into the live root if there is one.
** Returns how many results are on the top. */
static int make(reader *r, const unsigned char *body) {
  lua_State *L = r->L;
  int lives = !lua_isnil(L, INTO);
  if (lives && !find_live(r, body)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  lua_settop(L, MARKS);
  make_objects(r);
  r->at = body;
  r->strings = 0;
  fill_objects(r);
  if (!lives) fill_userdata(r);
  lua_settop(L, MARKS);
  if (!lives) {
    lua_rawgeti(L, OBJECTS, 1);
    return 1;
  }
  push_userdata(r);
  lua_pushvalue(L, CHANGES);
  lua_pushvalue(L, GONE);
  lua_pushvalue(L, MARKS);
  lua_pushvalue(L, STAYS);
  lua_pushvalue(L, CLASSES);
  return 8;
}

/* Gives the walk the classes below the live root. */
static void find_classes(reader *r) {
  lua_State *L = r->L;
  r->walk.found = CLASSES;
  r->walk.entered = STAYS;
  r->marks = mwb_marks(L, r->s);
  if (mw_tree_reach(r->s->engine, mwb_handle_of(L, r->s, INTO)) != 0) return;
  mwb_find_classes(L, r->s, INTO, CLASSES);
  r->walk.any = 1;
}

/* read(bytes, make, named, fill, mark) -> root
** read(bytes, make, named, nil, nil, into, kind, enters) -> userdata, their
** states, objects that fields lead to, changes, gone, marks, objects that
** stay, classes that the library does not know; false if the root is of another
** kind */
static int read(lua_State *L) {
  reader r;
  size_t len;
  const unsigned char *body;
  memset(&r, 0, sizeof(r));
  r.L = L;
  r.s = mwb_state_of(L);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "cannot read");
  lua_settop(L, OFFSETS);
  r.begin = (const unsigned char *)lua_tolstring(L, BYTES, &len);
  open_bytes(&r, r.begin, len);
  body = r.at;
  r.places =
      (place *)lua_newuserdatauv(L, (size_t)r.objects * sizeof(place), 0);
  memset(r.places, 0, (size_t)r.objects * sizeof(place));
  lua_replace(L, PLACES);
  skip_items(&r);
  lua_createtable(L, (int)r.objects, 0); /* OBJECTS */
  lua_createtable(L, (int)r.strings, 0);
  while (lua_gettop(L) < MARKS) lua_newtable(L);
  if (!lua_isnil(L, INTO)) find_classes(&r);
  return make(&r, body);
}

/* restore(bytes, ...) -> what `read` returns; nil and a message */
static int restore(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, ENTERS);
  mwb_push_function(L, s, read);
  lua_insert(L, 1);
  if (lua_pcall(L, ENTERS, LUA_MULTRET, 0) == LUA_OK) return lua_gettop(L);
  if (!lua_istable(L, -1)) return lua_error(L);
  lua_rawgeti(L, -1, 1);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* }====================================================== */

void mwb_open_restores(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"restore", restore}, {"unmark", unmark}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
