/*
** restore.c - objects from the bytes of a snapshot.
** SPDX-License-Identifier: MIT
**
** The bytes come from anywhere.  They are read twice: first all is looked at,
** and nothing but strings is made; then the objects are made, with room for
** their fields, and filled.  A count is not believed unless so many bytes are
** left, so the memory that is taken is a fixed multiple of the length.  Nothing
** recurs.
**
** Into a live root: a second look finds the live object that stays in the place
** of each object, which is under the same key of a live object and of the same
** kind.  The bytes have the fields in the order of the objects' shortest paths,
** so the first field that leads to an object decides.  An object in the state
** of a userdata may come before the field that leads to it; then the look is
** taken once more.  The filling then fills new objects alone; of a live one it
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
  OBJECT, /* whose item is read */
  CONTENTS
};

/* Does the object stay, or is it new?  A field decides; objects that are in
** nothing but states of userdata are new. */
enum { UNKNOWN, LIVE, NEW };

/* What is known of an object before the object is made. */
typedef struct place {
  uint64_t name;        /* number of the string, and 1; 0: no class */
  uint64_t list, pairs; /* fields */
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
  int decides; /* does the look find what stays? */
  int late;    /* was something decided for an object that had been passed? */
} reader;

/* {======================================================
** Parts of items
** ======================================================= */

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

/* Reads the number of an object. */
static uint64_t get_object(reader *r) {
  uint64_t n = mwb_get_count(&r->in);
  if (n == 0 || n > r->objects) mwb_fail(r->L, "there is no such object");
  return n;
}

/* Keeps the string of an item, if the string has not come before. */
static void keep_string(const reader *r, const mwb_item *item) {
  if ((item->tag != MWB_TAG_STRING && item->tag != MWB_TAG_CLASS) ||
      item->bytes == NULL || r->decides)
    return;
  lua_pushlstring(r->L, item->bytes, item->len);
  lua_rawseti(r->L, STRINGS, (lua_Integer)item->n);
}

/* Reads a value, and keeps its string. */
static void get_item(reader *r, mwb_item *item) {
  mwb_get_item(&r->in, item);
  if (item->tag == MWB_TAG_INTEGER) return;
  if (item->tag == MWB_TAG_OBJECT && (item->n == 0 || item->n > r->objects))
    mwb_fail(r->L, "there is no such object");
  keep_string(r, item);
}

static void skip_value(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
}

/* Pushes a value whose string is kept. */
static void push_item(const reader *r, const mwb_item *item) {
  lua_State *L = r->L;
  switch (item->tag) {
    case MWB_TAG_OBJECT:
      lua_rawgeti(L, OBJECTS, (lua_Integer)item->n);
      break;
    case MWB_TAG_STRING:
      lua_rawgeti(L, STRINGS, (lua_Integer)item->n);
      break;
    case MWB_TAG_CLASS:
      lua_pushvalue(L, NAMED);
      lua_rawgeti(L, STRINGS, (lua_Integer)item->n);
      lua_call(L, 1, 1);
      break;
    default:
      mwb_push_item(L, item);
  }
}

static void push_value(reader *r) {
  mwb_item item;
  mwb_get_item(&r->in, &item);
  push_item(r, &item);
}

/* The fields of the table whose item is read, behind the class: those of a
** list, then pairs. */
typedef struct fields {
  uint64_t i, list; /* elements */
  uint64_t n, pairs;
} fields;

static void open_fields(reader *r, fields *f) {
  f->i = f->n = 0;
  f->list = mwb_get_length(&r->in, 1);
  f->pairs = UINT64_MAX; /* not known yet */
}

static int next_pair(reader *r, fields *f, mwb_item *key) {
  if (f->pairs == UINT64_MAX) f->pairs = mwb_get_length(&r->in, 2);
  if (f->n == f->pairs) return 0;
  f->n++;
  mwb_get_key(&r->in, key);
  return 1;
}

/* Gives the key of the next field, whose value is to be read.  Returns 0 after
** the last one. */
static inline int next_key(reader *r, fields *f, mwb_item *key) {
  if (f->i == f->list) return next_pair(r, f, key);
  key->tag = MWB_TAG_INTEGER;
  key->i = (lua_Integer)++f->i;
  return 1;
}

/* Puts the object with a number at OBJECT, and its contents at CONTENTS. */
static void find_object(lua_State *L, uint64_t number) {
  lua_settop(L, MARKS);
  lua_rawgeti(L, OBJECTS, (lua_Integer)number);
  mwb_push_contents(L, OBJECT);
}

/* }====================================================== */

/* {======================================================
** Looking, and what stays in a live root
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

/* A field of the object `parent` leads to the object with a number: decides
** about this one, unless that is done. */
static void decide(reader *r, uint64_t parent, const mwb_item *key,
                   uint64_t number) {
  lua_State *L = r->L;
  place *its = &r->places[number - 1];
  int of = r->places[parent - 1].fate;
  if (of == UNKNOWN || its->fate != UNKNOWN ||
      (key->tag == MWB_TAG_OBJECT && r->places[key->n - 1].fate == UNKNOWN))
    return;
  its->fate = NEW;
  r->late |= number < parent;
  if (of != LIVE) return;
  push_item(r, key);
  lua_pushvalue(L, -1);
  lua_rawget(L, CONTENTS);
  if (lua_type(L, -1) ==
          (its->kind == MWB_ITEM_TABLE ? LUA_TTABLE : LUA_TUSERDATA) &&
      is_state(r, OBJECT) && fits(r, its))
    stay(r, number);
  lua_settop(L, CONTENTS);
}

/* Looks at the value of a field. */
static void look_at_field(reader *r, uint64_t parent, const mwb_item *key) {
  mwb_item value;
  get_item(r, &value);
  if (value.tag == MWB_TAG_INTEGER) return;
  if (value.tag == MWB_TAG_NIL) mwb_fail(r->L, "a field has no value");
  if (r->decides && value.tag == MWB_TAG_OBJECT)
    decide(r, parent, key, value.n);
}

/* Looks at the name of a class. */
static void look_at_name(reader *r, place *its) {
  mwb_item item;
  get_item(r, &item);
  its->name = 0;
  if (item.tag == MWB_TAG_NIL) return;
  if (item.tag != MWB_TAG_STRING) mwb_fail(r->L, "there is no such string");
  its->name = item.n + 1;
}

static void look_at_table(reader *r, uint64_t number) {
  place *its = &r->places[number - 1];
  fields f;
  mwb_item key;
  its->mark = (uint8_t)mwb_get_byte(&r->in);
  if (its->mark > 2) mwb_fail(r->L, "a table has an unknown mark");
  look_at_name(r, its);
  for (open_fields(r, &f); next_key(r, &f, &key);) {
    keep_string(r, &key);
    look_at_field(r, number, &key);
  }
  its->list = f.list;
  its->pairs = f.pairs;
}

static void look_at_userdata(reader *r, place *its) {
  mwb_item state;
  look_at_name(r, its);
  if (its->name == 0) mwb_fail(r->L, "a userdata has no class");
  get_item(r, &state);
}

/* Looks at the items. */
static void look_at_all(reader *r) {
  uint64_t n = 0;
  while (r->in.at < r->in.end) {
    int kind = mwb_get_byte(&r->in);
    uint64_t of = (kind == MWB_ITEM_FIELD) ? get_object(r) : ++n;
    if (of > r->objects) mwb_fail(r->L, "there are too many objects");
    if (r->places[of - 1].fate == LIVE) find_object(r->L, of);
    if (kind == MWB_ITEM_FIELD) {
      mwb_item key;
      if (r->places[of - 1].kind != MWB_ITEM_TABLE)
        mwb_fail(r->L, "a field is in no table");
      key.tag = MWB_TAG_OBJECT;
      key.n = get_object(r);
      look_at_field(r, of, &key);
      continue;
    }
    r->places[of - 1].kind = (uint8_t)kind;
    if (kind == MWB_ITEM_TABLE)
      look_at_table(r, of);
    else if (kind == MWB_ITEM_USERDATA)
      look_at_userdata(r, &r->places[of - 1]);
    else
      mwb_fail(r->L, "an item has an unknown kind");
  }
  if (n < r->objects) mwb_fail(r->L, "an object is missing");
}

/* Finds the live objects that stay, from the root on.  Returns whether the root
** does. */
static int find_live(reader *r, const mwb_input *body) {
  lua_State *L = r->L;
  r->walk.found = CLASSES;
  r->walk.entered = STAYS;
  mwb_open_filter(L, r->s, &r->filter, INTO, 0);
  if (r->filter.reach == 0) {
    mwb_find_classes(L, r->s, INTO, CLASSES);
    r->walk.any = 1;
  }
  lua_pushvalue(L, INTO);
  if (r->places[0].kind != MWB_ITEM_TABLE || !fits(r, &r->places[0])) return 0;
  stay(r, 1);
  r->decides = 1;
  do {
    r->late = 0;
    r->in = *body;
    look_at_all(r);
  } while (r->late);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Making and filling
** ======================================================= */

/* Pushes a new object. */
static void make_object(reader *r, const place *its) {
  lua_State *L = r->L;
  if (its->name == 0) {
    lua_createtable(L, (int)its->list, (int)its->pairs);
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

/* Appends the value on the top to the list at `list`.  Pops the value. */
static void append(lua_State *L, int list) {
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* Stores the field whose key and new value are on the top in a new object; of a
** live one, notes the field if it differs.  Pops both.  Returns whether the
** live object has the field. */
static int put_field(const reader *r, int is_live) {
  lua_State *L = r->L;
  int top = lua_gettop(L), is, i;
  if (!is_live) {
    lua_rawset(L, CONTENTS);
    return 0;
  }
  lua_pushvalue(L, top - 1);
  is = lua_rawget(L, CONTENTS) != LUA_TNIL;
  if (!mwb_is_same(L, top, top + 1)) {
    static const int parts[] = {OBJECT, -1, 0};
    for (i = 0; i < 3; i++) {
      lua_pushvalue(L, parts[i] > 0 ? parts[i] : top + parts[i]);
      append(L, CHANGES);
    }
  }
  lua_settop(L, top - 2);
  return is;
}

/* Puts the keys of the fields that are read into the set on the top. */
static void put_keys(reader *r) {
  fields f;
  mwb_item key;
  for (open_fields(r, &f); next_key(r, &f, &key);) {
    push_item(r, &key);
    lua_pushboolean(r->L, 1);
    lua_rawset(r->L, -3);
    skip_value(r);
  }
}

/* The live object at OBJECT has the mark, if it differs. */
static void note_mark(const reader *r, int mark) {
  lua_State *L = r->L;
  if (mwb_mark_of(L, r->s, r->marks, OBJECT) == mark) return;
  lua_pushvalue(L, OBJECT);
  append(L, MARKS);
  lua_pushinteger(L, mark);
  append(L, MARKS);
}

/* The live object with a number has other fields than those that were read: the
** set of these, which are read again, goes to GONE and WANTED. */
static void note_gone(reader *r, uint64_t number) {
  lua_State *L = r->L;
  lua_pushvalue(L, OBJECT);
  append(L, GONE);
  lua_newtable(L);
  put_keys(r);
  lua_pushvalue(L, -1);
  append(L, GONE);
  lua_rawseti(L, WANTED, (lua_Integer)number);
}

/* Fills the table with a number, whose item is read. */
static void fill_table(reader *r, uint64_t number) {
  lua_State *L = r->L;
  int mark = mwb_get_byte(&r->in);
  int is_live = r->places[number - 1].fate == LIVE;
  uint64_t more = 0;
  mwb_input start;
  fields f;
  mwb_item key;
  find_object(L, number);
  skip_value(r); /* the class */
  start = r->in;
  for (open_fields(r, &f); next_key(r, &f, &key);) {
    if (is_live || f.n > 0) push_item(r, &key);
    push_value(r);
    if (is_live || f.n > 0)
      more -= (uint64_t)put_field(r, is_live);
    else
      lua_rawseti(L, CONTENTS, key.i);
  }
  if (!is_live) {
    if (mark != 0) set_mark(L, r->s, r->marks, OBJECT, mark);
    return;
  }
  note_mark(r, mark);
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_pop(L, 1)) more++;
  if (more == 0) return;
  r->in = start;
  note_gone(r, number);
}

/* Reads the field whose key is an object. */
static void fill_field(reader *r) {
  lua_State *L = r->L;
  uint64_t number = mwb_get_count(&r->in), key = mwb_get_count(&r->in);
  find_object(L, number);
  lua_rawgeti(L, OBJECTS, (lua_Integer)key);
  push_value(r);
  put_field(r, r->places[number - 1].fate == LIVE);
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
