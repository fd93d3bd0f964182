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

/* Gives the table at `object` a mark of JSON, or with 0 none. */
static void set_mark(lua_State *L, mwb_state *s, mw_clock marks, int object,
                     int mark) {
  mw_handle h = mwb_handle_of(L, s, object);
  if (mark != 0) {
    if (mw_clock_now(s->engine, marks) % 2 != mark - 1)
      mw_clock_advance(s->engine, marks);
    h = mwb_identify(L, s, "restore", object, 1);
    mwb_check(L, mw_clock_tag(s->engine, marks, h));
  } else if (h != MW_NONE) {
    mw_clock_untag(s->engine, marks, h);
  }
}

/* set_mark(table, mark): 1 for an array, 2 for an object, 0 for none */
static int json_set_mark(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int mark = (int)luaL_checkinteger(L, 2);
  lua_settop(L, 1);
  set_mark(L, s, mwb_marks(L, s), 1, mark);
  return 0;
}

/* The stack of `read`.  The first are the arguments. */
enum {
  BYTES = 1,
  MAKE,    /* (name, is userdata) -> object */
  NAMED,   /* (name) -> class */
  FILL,    /* (userdata, state) */
  INTO,    /* the live root, or nil, */
  KIND,    /* and (object) -> name of its class */
  PLACES,  /* the block of places */
  OBJECTS, /* number -> object */
  STRINGS, /* number -> string */
  STATES,  /* number -> state of a userdata */
  CLASSES, /* those below the live root: see state.h */
  STAYS,   /* live object that stays -> true */
  CHANGES, /* object, key, value, ... that differ */
  WANTED, /* number of a live object that may have more fields -> set of keys */
  GONE,   /* such an object, its set, ... */
  MARKS,  /* live object, mark, ... that differ */
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
  mwb_input in;
  place *places; /* by number - 1 */
  uint64_t objects;
  mwb_state *s;
  mwb_classes walk;
  mwb_filter filter;
  mw_clock marks;
  int late; /* was something decided for an object that had been passed? */
} reader;

static uint64_t check_object(const reader *r, uint64_t n) {
  if (n == 0 || n > r->objects) mwb_fail(r->L, "there is no such object");
  return n;
}

/* {======================================================
** Looking: the strings are made
** ======================================================= */

/* Keeps the string of an item if it is new. */
static void keep_string(const reader *r, const mwb_item *item) {
  if ((item->tag != MWB_TAG_STRING && item->tag != MWB_TAG_CLASS) ||
      item->bytes == NULL)
    return;
  lua_pushlstring(r->L, item->bytes, item->len);
  lua_rawseti(r->L, STRINGS, (lua_Integer)item->n);
}

static void look_at_item(const reader *r, const mwb_item *item) {
  if (item->tag == MWB_TAG_OBJECT) check_object(r, item->n);
  keep_string(r, item);
}

/* Looks at a value of a field. */
static void look_at_value(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
  if (item.tag == MWB_TAG_NIL) mwb_fail(r->L, "a field has no value");
  look_at_item(r, &item);
}

static void look_at_key(reader *r) {
  mwb_item item;
  mwb_get_key(&r->in, &item);
  if (item.tag == MWB_TAG_OBJECT) mwb_fail(r->L, "a key is none");
  keep_string(r, &item);
}

/* Reads the name of a class.  Returns the string's number and 1, or 0. */
static uint64_t get_name(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
  if (item.tag == MWB_TAG_NIL) return 0;
  if (item.tag != MWB_TAG_STRING) mwb_fail(r->L, "there is no such string");
  keep_string(r, &item);
  return item.n + 1;
}

static void look_at_table(reader *r, place *its) {
  uint64_t i;
  its->mark = (uint8_t)mwb_get_byte(&r->in);
  if (its->mark > 2) mwb_fail(r->L, "a table has an unknown mark");
  its->name = get_name(r);
  its->n = mwb_get_length(&r->in, 1);
  for (i = 0; i < its->n; i++) look_at_value(r);
  its->m = mwb_get_length(&r->in, 2);
  for (i = 0; i < its->m; i++) {
    look_at_key(r);
    look_at_value(r);
  }
}

static void look_at_userdata(reader *r, place *its) {
  mwb_item state;
  its->name = get_name(r);
  if (its->name == 0) mwb_fail(r->L, "a userdata has no class");
  mwb_get_item(&r->in, &state);
  look_at_item(r, &state);
}

static void look_at_all(reader *r) {
  uint64_t n = 0;
  while (r->in.at < r->in.end) {
    int kind = mwb_get_byte(&r->in);
    if (kind == MWB_ITEM_FIELD) {
      check_object(r, mwb_get_count(&r->in));
      check_object(r, mwb_get_count(&r->in));
      look_at_value(r);
      continue;
    }
    if (n == r->objects) mwb_fail(r->L, "there are too many objects");
    r->places[n].kind = (uint8_t)kind;
    if (kind == MWB_ITEM_TABLE)
      look_at_table(r, &r->places[n]);
    else if (kind == MWB_ITEM_USERDATA)
      look_at_userdata(r, &r->places[n]);
    else
      mwb_fail(r->L, "an item has an unknown kind");
    n++;
  }
  if (n < r->objects) mwb_fail(r->L, "an object is missing");
}

/* Finds the body. */
static void open_bytes(reader *r, const unsigned char *bytes, size_t len) {
  if (len < MWB_HEADER || memcmp(bytes, MWB_MAGIC, 3) != 0)
    mwb_fail(r->L, "the bytes are no snapshot");
  if (bytes[3] != MWB_VERSION) mwb_fail(r->L, "the version is not known here");
  if (mwb_get_fixed(bytes + 8, 8) != len - MWB_HEADER)
    mwb_fail(r->L, "the length is not right");
  if (mwb_get_fixed(bytes + 4, 4) != mwb_checksum(bytes + 8, len - 8))
    mwb_fail(r->L, "the checksum is not right");
  r->objects = mwb_get_fixed(bytes + 16, 4);
  if (r->objects == 0 || r->objects > (len - MWB_HEADER) / 4)
    mwb_fail(r->L, "the bytes end too early");
  r->in.L = r->L;
  r->in.at = bytes + MWB_HEADER;
  r->in.end = bytes + len;
  r->in.numbers_strings = 1;
}

/* }====================================================== */

/* {======================================================
** Making
** ======================================================= */

static void push_item(const reader *r, const mwb_item *item) {
  lua_State *L = r->L;
  if (mwb_push_item(L, item)) return;
  if (item->tag == MWB_TAG_OBJECT) {
    lua_rawgeti(L, OBJECTS, (lua_Integer)item->n);
    return;
  }
  if (item->tag == MWB_TAG_CLASS) lua_pushvalue(L, NAMED);
  lua_rawgeti(L, STRINGS, (lua_Integer)item->n);
  if (item->tag == MWB_TAG_CLASS) lua_call(L, 1, 1);
}

static void push_value(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
  push_item(r, &item);
}

static void skip_value(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
}

/* Pushes a new object. */
static void make_object(reader *r, const place *its) {
  lua_State *L = r->L;
  if (its->name == 0) {
    lua_createtable(L, (int)its->n, (int)its->m);
    return;
  }
  lua_pushvalue(L, MAKE);
  lua_rawgeti(L, STRINGS, (lua_Integer)its->name - 1);
  lua_pushboolean(L, its->kind == MWB_ITEM_USERDATA);
  lua_call(L, 2, 1);
  if (lua_isuserdata(L, -1) != (its->kind == MWB_ITEM_USERDATA) ||
      !(lua_istable(L, -1) || lua_isuserdata(L, -1)))
    mwb_fail(L, "a class has made an object of another kind");
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
  mwb_push_contents(L, CONTENTS);
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
      (its->kind == MWB_ITEM_TABLE && mwb_is_weak(L, top))) {
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
    lua_rawgeti(L, STRINGS, (lua_Integer)its->name - 1);
    yes = lua_rawequal(L, -1, -2);
  }
  lua_settop(L, top);
  return yes;
}

/* Is the value on the top, which the live object at `parent` has under the key
** below the top, part of the state? */
static int is_state(reader *r, int parent) {
  lua_State *L = r->L;
  if (lua_isuserdata(L, -1)) return !lua_islightuserdata(L, -1);
  return mwb_is_contents(L, r->s, parent, &r->walk) &&
         mwb_is_part(L, r->s, &r->filter, parent);
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

/* Decides about the object that is the value of a field of the object `parent`
** whose key is on the top.  Pops the key. */
static void decide(reader *r, uint64_t parent, const mwb_item *value) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  if (value->tag == MWB_TAG_OBJECT) {
    place *its = &r->places[value->n - 1];
    if (its->fate == UNKNOWN) {
      its->fate = NEW;
      r->late |= value->n < parent;
      if (r->places[parent - 1].fate == LIVE) {
        lua_pushvalue(L, top);
        lua_rawget(L, CONTENTS);
        if (lua_type(L, -1) ==
                (its->kind == MWB_ITEM_TABLE ? LUA_TTABLE : LUA_TUSERDATA) &&
            is_state(r, CONTENTS + 1) && fits(r, its))
          stay(r, value->n);
      }
    }
  }
  lua_settop(L, top - 1);
}

static void decide_table(reader *r, uint64_t number) {
  lua_State *L = r->L;
  mwb_item key, value;
  uint64_t i, n;
  mwb_get_byte(&r->in);
  skip_value(r);
  n = mwb_get_count(&r->in);
  for (i = 1; i <= n; i++) {
    mwb_get_item(&r->in, &value);
    lua_pushinteger(L, (lua_Integer)i);
    decide(r, number, &value);
  }
  n = mwb_get_count(&r->in);
  for (i = 0; i < n; i++) {
    mwb_get_item(&r->in, &key);
    mwb_get_item(&r->in, &value);
    push_item(r, &key);
    decide(r, number, &value);
  }
}

/* Passes the item of an object of which nothing is known. */
static void pass(reader *r, int kind) {
  place unused;
  if (kind == MWB_ITEM_TABLE)
    look_at_table(r, &unused);
  else
    look_at_userdata(r, &unused);
}

/* Decides about the object in a field whose key is an object. */
static void decide_field(reader *r, uint64_t number) {
  uint64_t key = mwb_get_count(&r->in);
  mwb_item value;
  mwb_get_item(&r->in, &value);
  if (r->places[number - 1].fate == UNKNOWN ||
      r->places[key - 1].fate == UNKNOWN)
    return;
  lua_rawgeti(r->L, OBJECTS, (lua_Integer)key);
  decide(r, number, &value);
}

/* Reads the items, and decides which objects stay, as far as that is known. */
static void decide_all(reader *r) {
  lua_State *L = r->L;
  uint64_t number = 0;
  while (r->in.at < r->in.end) {
    int kind = mwb_get_byte(&r->in);
    uint64_t of = (kind == MWB_ITEM_FIELD) ? mwb_get_count(&r->in) : ++number;
    int fate = r->places[of - 1].fate;
    lua_settop(L, MARKS);
    if (fate == LIVE) find_contents(L, of);
    lua_settop(L, CONTENTS + 1);
    if (kind == MWB_ITEM_FIELD)
      decide_field(r, of);
    else if (kind == MWB_ITEM_TABLE && fate != UNKNOWN)
      decide_table(r, of);
    else
      pass(r, kind);
  }
}

/* Finds the live objects that stay, from the root on.  Returns whether the root
** does.  An object in the state of a userdata may come before the field that
** leads to it; then all is read again. */
static int find_live(reader *r, const mwb_input *body) {
  lua_State *L = r->L;
  lua_settop(L, MARKS);
  lua_pushvalue(L, INTO);
  if (r->places[0].kind != MWB_ITEM_TABLE || !fits(r, &r->places[0])) return 0;
  stay(r, 1);
  do {
    r->late = 0;
    r->in = *body;
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
  uint64_t i, n = mwb_get_count(&r->in), found = 0;
  for (i = 1; i <= n; i++) {
    lua_pushinteger(L, (lua_Integer)i);
    push_value(r);
    found += (uint64_t)compare_field(r);
  }
  n = mwb_get_count(&r->in);
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
  uint64_t i, n = mwb_get_count(&r->in);
  for (i = 1; i <= n; i++) {
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, (lua_Integer)i);
    skip_value(r);
  }
  n = mwb_get_count(&r->in);
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
  mwb_input fields;
  uint64_t more = 0;
  if (mwb_mark_of(L, r->s, r->marks, object) != mark) {
    lua_pushvalue(L, object);
    append(L, MARKS);
    lua_pushinteger(L, mark);
    append(L, MARKS);
  }
  skip_value(r);
  fields = r->in;
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_pop(L, 1)) more++;
  if (compare_fields(r) == more) return;
  r->in = fields;
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
  int mark = mwb_get_byte(&r->in);
  find_contents(L, number);
  if (its->fate == LIVE) {
    compare_table(r, number, mark);
    return;
  }
  skip_value(r); /* the class */
  mwb_get_count(&r->in);
  for (i = 1; i <= its->n; i++) {
    push_value(r);
    lua_rawseti(L, CONTENTS, (lua_Integer)i);
  }
  mwb_get_count(&r->in);
  for (i = 0; i < its->m; i++) {
    push_value(r);
    push_value(r);
    lua_rawset(L, CONTENTS);
  }
  if (mark != 0) set_mark(L, r->s, r->marks, CONTENTS + 1, mark);
}

/* Reads the field whose key is an object. */
static void fill_field(reader *r) {
  lua_State *L = r->L;
  uint64_t number = mwb_get_count(&r->in), key = mwb_get_count(&r->in);
  find_contents(L, number);
  if (!lua_istable(L, CONTENTS)) mwb_fail(L, "a field is in no table");
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
  while (r->in.at < r->in.end) {
    int kind = mwb_get_byte(&r->in);
    if (kind == MWB_ITEM_FIELD) {
      fill_field(r);
    } else if (kind == MWB_ITEM_TABLE) {
      fill_table(r, ++number);
    } else {
      lua_settop(L, MARKS);
      skip_value(r); /* the class */
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
    if (r->places[i - 1].kind != MWB_ITEM_USERDATA) continue;
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
    if (its->kind == MWB_ITEM_USERDATA) {
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
static int make(reader *r, const mwb_input *body) {
  lua_State *L = r->L;
  int lives = !lua_isnil(L, INTO);
  if (lives && !find_live(r, body)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  lua_settop(L, MARKS);
  make_objects(r);
  r->in = *body;
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
  mwb_open_filter(L, r->s, &r->filter, INTO, 0);
  if (r->filter.reach != 0) return;
  mwb_find_classes(L, r->s, INTO, CLASSES);
  r->walk.any = 1;
}

/* read(bytes, make, named, fill) -> root
** read(bytes, make, named, nil, into, kind) -> userdata, their states, objects
** that fields lead to, changes, gone, marks, objects that stay, classes that
** the library does not know; false if the root is of another kind */
static int read(lua_State *L) {
  reader r;
  size_t len;
  const char *bytes;
  mwb_input body;
  memset(&r, 0, sizeof(r));
  r.L = L;
  r.s = mwb_state_of(L);
  r.marks = mwb_marks(L, r.s);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "cannot read");
  lua_settop(L, KIND);
  bytes = lua_tolstring(L, BYTES, &len);
  open_bytes(&r, (const unsigned char *)bytes, len);
  body = r.in;
  r.places =
      (place *)lua_newuserdatauv(L, (size_t)r.objects * sizeof(place), 0);
  memset(r.places, 0, (size_t)r.objects * sizeof(place));
  lua_createtable(L, (int)r.objects, 0); /* OBJECTS */
  while (lua_gettop(L) < MARKS) lua_newtable(L);
  look_at_all(&r);
  if (!lua_isnil(L, INTO)) find_classes(&r);
  return make(&r, &body);
}

/* restore(bytes, ...) -> what `read` returns; nil and a message */
static int restore(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, KIND);
  mwb_push_function(L, s, read);
  lua_insert(L, 1);
  if (lua_pcall(L, KIND, LUA_MULTRET, 0) == LUA_OK) return lua_gettop(L);
  if (!lua_istable(L, -1)) return lua_error(L);
  lua_rawgeti(L, -1, 1);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* }====================================================== */

void mwb_open_restores(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"restore", restore}, {"set_mark", json_set_mark}, {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
