/*
** restore.c - objects from the bytes of a snapshot.
** SPDX-License-Identifier: MIT
**
** The bytes come from anywhere.  They are read twice: first all is looked at,
** and nothing is made; then the objects are made, with room for their fields,
** and filled.  A count is not believed unless so many bytes are left, so the
** memory that is taken is a fixed multiple of the length.  Nothing recurs.
*/
#include <string.h>

#include "class.h"
#include "identity.h"
#include "library.h"
#include "shadow.h"
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
  MARKED,  /* (table, mark) */
  PLACES,  /* the block of places, */
  OFFSETS, /* and of offsets */
  OBJECTS, /* number -> object */
  STRINGS, /* number -> string */
  STATES,  /* number -> state of a userdata */
  CONTENTS /* of the object that is filled */
};

/* What is known of an object before the object is made. */
typedef struct place {
  uint64_t name; /* number of the string, and 1; 0: no class */
  uint64_t n, m; /* fields */
  uint8_t kind, mark;
} place;

typedef struct reader {
  lua_State *L;
  const unsigned char *at, *end;
  place *places;   /* by number - 1 */
  size_t *offsets; /* of the strings' lengths, from `begin` */
  const unsigned char *begin;
  uint64_t objects;
  uint64_t strings, size_offsets; /* strings that came before */
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
  lua_createtable(r->L, (int)r->objects, 0);
  lua_replace(r->L, OBJECTS);
  for (i = 0; i < r->objects; i++) {
    make_object(r, &r->places[i]);
    lua_rawseti(r->L, OBJECTS, (lua_Integer)i + 1);
  }
}

/* Pushes the object with a number, and puts the object's contents at
** CONTENTS. */
static void find_contents(lua_State *L, uint64_t number) {
  lua_settop(L, STATES);
  lua_rawgeti(L, OBJECTS, (lua_Integer)number);
  if (!mwb_push_shadow(L, CONTENTS)) lua_pushvalue(L, CONTENTS);
  lua_insert(L, CONTENTS);
}

/* Fills the table with the next number, whose item is read. */
static void fill_table(reader *r, uint64_t number) {
  lua_State *L = r->L;
  const place *its = &r->places[number - 1];
  uint64_t i;
  int mark = get_byte(r);
  find_contents(L, number);
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
  lua_pushvalue(L, MARKED);
  lua_pushvalue(L, CONTENTS + 1);
  lua_pushinteger(L, mark);
  lua_call(L, 2, 0);
}

/* Reads the field whose key is an object. */
static void fill_field(reader *r) {
  lua_State *L = r->L;
  find_contents(L, get_count(r));
  if (!lua_istable(L, CONTENTS)) fail(L, "a field is in no table");
  lua_rawgeti(L, OBJECTS, (lua_Integer)get_count(r));
  push_value(r);
  lua_rawset(L, CONTENTS);
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
      lua_settop(L, STATES);
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
  lua_settop(L, STATES);
  for (i = r->objects; i > 0; i--) {
    if (r->places[i - 1].kind != USERDATA) continue;
    lua_pushvalue(L, FILL);
    lua_rawgeti(L, OBJECTS, (lua_Integer)i);
    lua_rawgeti(L, STATES, (lua_Integer)i);
    lua_call(L, 2, 0);
  }
}

/* read(bytes, make, named, fill, mark) -> root */
static int read(lua_State *L) {
  reader r;
  size_t len;
  const unsigned char *body;
  memset(&r, 0, sizeof(r));
  r.L = L;
  lua_settop(L, OFFSETS);
  r.begin = (const unsigned char *)lua_tolstring(L, BYTES, &len);
  open_bytes(&r, r.begin, len);
  body = r.at;
  r.places =
      (place *)lua_newuserdatauv(L, (size_t)r.objects * sizeof(place), 0);
  memset(r.places, 0, (size_t)r.objects * sizeof(place));
  lua_replace(L, PLACES);
  skip_items(&r);
  lua_newtable(L); /* OBJECTS */
  lua_createtable(L, (int)r.strings, 0);
  lua_newtable(L); /* STATES */
  make_objects(&r);
  r.at = body;
  r.strings = 0;
  fill_objects(&r);
  fill_userdata(&r);
  lua_rawgeti(L, OBJECTS, 1);
  return 1;
}

/* restore(bytes, make, named, fill, mark) -> root; nil and a message */
static int restore(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, MARKED);
  mwb_push_function(L, s, read);
  lua_insert(L, 1);
  if (lua_pcall(L, MARKED, 1, 0) == LUA_OK) return 1;
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
