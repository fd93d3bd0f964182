/*
** restore.c - objects from the bytes of a snapshot.
** SPDX-License-Identifier: MIT
**
** The bytes come from anywhere.  They are read twice, by one walk: first all is
** looked at, and nothing but strings is made; then the objects are made, with
** room for their fields, and filled.  A count is not believed unless so many
** bytes are left, so the memory that is taken is a fixed multiple of the
** length.  Nothing recurs.
**
** Into a live root: before objects are made, the live object that stays in the
** place of each is found, which is under the same key of a live object and of
** the same kind.  The bytes have the fields in the order of the objects'
** shortest paths, so the first field that leads to an object decides, and the
** objects are gone through in the order of their numbers; but one in the state
** of a userdata may come before the object whose field leads to it: then once
** more.  For each live table another one is filled, with what the live table is
** to hold, and they are compared: nothing live changes here.
*/
#include "../base/base.h"

#include <string.h>

#include "../traps/traps.h"
#include "../watch/watch.h"
#include "snapshot.h"

/* The stack of `restore`.  The first are the arguments. */
enum {
  BYTES = 1,
  MAKE,     /* (name, is userdata) -> object */
  NAMED,    /* (name) -> class */
  INTO,     /* the live root, or nil, */
  KIND,     /* and (object) -> name of its class */
  PLACES,   /* the block of places */
  STRINGS,  /* number -> string */
  KEYS,     /* number -> key of the first field that leads to the object */
  TABLES,   /* number -> table that is filled: the contents of a new table,
            ** or what a live one is to hold */
  OBJECTS,  /* number -> object: the results begin here */
  USERDATA, /* array of all userdata, */
  STATES,   /* userdata -> its state, */
  HELD,     /* and the set of objects that fields lead to, if there are any */
  STAYS,    /* live object that stays -> true */
  DIFFERS,  /* live table that differs, what it is to hold, ... */
  MARKS,    /* table, mark, ... that are to be set */
  CLASSES,  /* those below the live root: see state.c */
  OBJECT,   /* in the walk, the table that is filled */
  CONTENTS
};

/* What is known of an object before the object is made. */
typedef struct place {
  uint64_t name;        /* number of the string, and 1; 0: no class */
  uint64_t list, pairs; /* fields */
  uint32_t parent;      /* whose field is the first that leads here, or 0, */
  uint32_t by;          /* and the object that is the field's key, or 0 */
  uint8_t kind, mark;
  uint8_t live; /* does a live object stay? */
} place;

typedef struct reader {
  lua_State *L;
  mwb_input in;
  place *places; /* by number - 1 */
  uint64_t objects;
  mwb_state *s;
  mwb_classes walk;
  mw_reach reach; /* of the live root */
  mw_clock marks;
  int lives; /* is there a live root? */
  int fills; /* have objects been made, which are filled now? */
} reader;

/* {======================================================
** The walk
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
  if (r->objects == 0 || r->objects > (len - MWB_HEADER) / 4) /* too many? */
    mwb_fail(r->L, "the bytes end too early");
  r->in.L = r->L;
  r->in.at = bytes + MWB_HEADER;
  r->in.end = bytes + len;
}

static place *place_of(const reader *r, uint64_t number) {
  if (number == 0 || number > r->objects)
    mwb_fail(r->L, "there is no such object");
  return &r->places[number - 1];
}

/* Checks the number of an object, and keeps a string that has not come
** before. */
static void look_at_item(reader *r, const mwb_item *item) {
  if (item->tag == MWB_TAG_OBJECT) place_of(r, item->n);
  if ((item->tag == MWB_TAG_STRING || item->tag == MWB_TAG_CLASS) &&
      item->bytes != NULL) { /* not seen before? */
    lua_pushlstring(r->L, item->bytes, item->len);
    lua_rawseti(r->L, STRINGS, (lua_Integer)item->n);
  }
}

/* Reads a value. */
static inline void get_item(reader *r, mwb_item *item) {
  mwb_get_item(&r->in, item);
  if (item->tag >= MWB_TAG_STRING && !r->fills) look_at_item(r, item);
}

static void push_item(const reader *r, const mwb_item *item) {
  lua_State *L = r->L;
  switch (item->tag) {
    case MWB_TAG_NIL:
      lua_pushnil(L);
      break;
    case MWB_TAG_FALSE:
    case MWB_TAG_TRUE:
      lua_pushboolean(L, item->tag == MWB_TAG_TRUE);
      break;
    case MWB_TAG_INTEGER:
      lua_pushinteger(L, item->i);
      break;
    case MWB_TAG_FLOAT:
      lua_pushnumber(L, item->f);
      break;
    case MWB_TAG_NULL:
      lua_pushlightuserdata(L, NULL);
      break;
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
  }
}

/* Appends the value at `index` to the list at `list`. */
static void append(lua_State *L, int list, int index) {
  lua_pushvalue(L, index);
  lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* The first look at a field of the object `parent`, whose key is an object if
** there is a number `by`. */
static void look_at_field(reader *r, uint64_t parent, const mwb_item *key,
                          const mwb_item *value) {
  place *its;
  if (value->tag == MWB_TAG_NIL) mwb_fail(r->L, "a field has no value");
  if (value->tag != MWB_TAG_OBJECT) return; /* does it lead nowhere? */
  its = place_of(r, value->n);
  if (its->parent != 0) return; /* not the first that leads there? */
  its->parent = (uint32_t)parent;
  if (key->tag == MWB_TAG_OBJECT) { /* a late field? */
    its->by = (uint32_t)key->n;
  } else if (r->lives) { /* are live objects looked for? */
    push_item(r, key);
    lua_rawseti(r->L, KEYS, (lua_Integer)value->n);
  }
}

/* Reads the value of a field, and stores the value in the table at OBJECT. */
static inline void read_field(reader *r, uint64_t of, const mwb_item *key) {
  mwb_item value;
  get_item(r, &value);
  if (!r->fills) { /* is this the first walk? */
    if (value.tag != MWB_TAG_INTEGER) look_at_field(r, of, key, &value);
    return;
  }
  if (key->tag != MWB_TAG_INTEGER) push_item(r, key);
  push_item(r, &value);
  if (key->tag != MWB_TAG_INTEGER)
    lua_rawset(r->L, OBJECT);
  else
    lua_rawseti(r->L, OBJECT, key->i);
}

/* Puts the table that is filled for an object at OBJECT. */
static void find_table(const reader *r, uint64_t number) {
  lua_settop(r->L, CLASSES);
  lua_rawgeti(r->L, TABLES, (lua_Integer)number);
}

static void read_name(reader *r, place *its) {
  mwb_item name;
  get_item(r, &name);
  its->name = 0;
  if (name.tag == MWB_TAG_NIL) return; /* without a class? */
  if (name.tag != MWB_TAG_STRING) mwb_fail(r->L, "there is no such string");
  its->name = name.n + 1;
}

/* Reads a key that is no object. */
static void get_key(reader *r, mwb_item *key) {
  get_item(r, key);
  if (key->tag == MWB_TAG_NIL || key->tag == MWB_TAG_OBJECT ||
      key->tag == MWB_TAG_NULL || key->tag == MWB_TAG_CLASS ||
      (key->tag == MWB_TAG_FLOAT && key->f != key->f)) /* NaN? */
    mwb_fail(r->L, "a key is none");
}

static void read_table(reader *r, uint64_t number) {
  place *its = place_of(r, number);
  mwb_item key;
  uint64_t n;
  its->mark = (uint8_t)mwb_get_byte(&r->in);
  if (its->mark > 2) mwb_fail(r->L, "a table has an unknown mark");
  read_name(r, its);
  if (r->fills) find_table(r, number); /* the second walk? */
  its->list = mwb_get_length(&r->in, 1);
  key.tag = MWB_TAG_INTEGER;
  for (n = 1; n <= its->list; n++) {
    key.i = (lua_Integer)n;
    read_field(r, number, &key);
  }
  its->pairs = mwb_get_length(&r->in, 2);
  for (n = its->pairs; n > 0; n--) {
    get_key(r, &key);
    read_field(r, number, &key);
  }
}

static void read_userdata(reader *r, uint64_t number) {
  lua_State *L = r->L;
  place *its = place_of(r, number);
  mwb_item state;
  read_name(r, its);
  if (its->name == 0) mwb_fail(L, "a userdata has no class");
  get_item(r, &state);
  if (!r->fills) return; /* are there no objects yet? */
  lua_rawgeti(L, OBJECTS, (lua_Integer)number);
  append(L, USERDATA, -1);
  push_item(r, &state);
  lua_rawset(L, STATES);
}

/* Reads the field whose key is an object. */
static void read_late_field(reader *r) {
  uint64_t number = mwb_get_count(&r->in);
  mwb_item key;
  if (place_of(r, number)->kind != MWB_ITEM_TABLE)
    mwb_fail(r->L, "a field is in no table");
  key.tag = MWB_TAG_OBJECT;
  key.n = mwb_get_count(&r->in);
  place_of(r, key.n);
  if (r->fills) find_table(r, number); /* the second walk? */
  read_field(r, number, &key);
}

/* Reads the items of the body. */
static void read_all(reader *r, const mwb_input *body) {
  uint64_t n = 0;
  r->in = *body;
  while (r->in.at < r->in.end) {
    int kind = mwb_get_byte(&r->in);
    if (kind == MWB_ITEM_FIELD) { /* a field that has waited? */
      read_late_field(r);
      continue;
    }
    if (++n > r->objects) mwb_fail(r->L, "there are too many objects");
    place_of(r, n)->kind = (uint8_t)kind;
    if (kind == MWB_ITEM_TABLE)
      read_table(r, n);
    else if (kind == MWB_ITEM_USERDATA)
      read_userdata(r, n);
    else
      mwb_fail(r->L, "an item has an unknown kind");
  }
  if (n < r->objects) mwb_fail(r->L, "an object is missing");
}

/* }====================================================== */

/* {======================================================
** What stays in a live root, and what differs
** ======================================================= */

/* Is the value on the top of the kind that the bytes say, and not taken yet? */
static int fits(const reader *r, const place *its) {
  lua_State *L = r->L;
  int top = lua_gettop(L), is_table = its->kind == MWB_ITEM_TABLE, yes;
  if (lua_type(L, top) != (is_table ? LUA_TTABLE : LUA_TUSERDATA)) return 0;
  if (mwb_is_ours(L, top) || (is_table && mwb_is_weak(L, top))) return 0;
  lua_pushvalue(L, top);
  yes = lua_rawget(L, STAYS) == LUA_TNIL;
  mwb_push_class(L, top);
  yes = yes && lua_isnil(L, -1) == (its->name == 0);
  if (yes && its->name != 0) { /* of the class of that name? */
    lua_pushvalue(L, KIND);
    lua_pushvalue(L, top);
    lua_call(L, 1, 1);
    lua_rawgeti(L, STRINGS, (lua_Integer)its->name - 1);
    yes = lua_rawequal(L, -1, -2);
  }
  lua_settop(L, top);
  return yes;
}

/* The value on the top stays in the place of the object with a number. */
static void stay(const reader *r, uint64_t number) {
  lua_State *L = r->L;
  place *its = place_of(r, number);
  lua_pushvalue(L, -1);
  lua_rawseti(L, OBJECTS, (lua_Integer)number);
  lua_pushboolean(L, 1);
  lua_rawset(L, STAYS);
  its->live = 1;
}

/* Finds the live object that stays in the place of the object with a number, if
** its parent stays.  Returns whether there is one. */
static int find_child(reader *r, uint64_t number) {
  lua_State *L = r->L;
  const place *its = place_of(r, number);
  lua_settop(L, CLASSES);
  lua_rawgeti(L, OBJECTS, its->parent); /* OBJECT */
  mwb_push_contents(L, OBJECT);
  if (its->by != 0) /* is an object the key? */
    lua_rawgeti(L, OBJECTS, its->by);
  else
    lua_rawgeti(L, KEYS, (lua_Integer)number);
  lua_pushvalue(L, -1);
  lua_rawget(L, CONTENTS);
  if (!fits(r, its)) return 0;
  if (its->kind == MWB_ITEM_TABLE &&
      (!mwb_is_contents(L, r->s, OBJECT, &r->walk) ||
       !mwb_enters(L, r->s, r->reach, OBJECT)))
    return 0; /* a class, or left out by the rule? */
  stay(r, number);
  return 1;
}

static int is_live(const reader *r, uint32_t number) {
  return number != 0 && r->places[number - 1].live;
}

/* Finds the live objects that stay, from the root on.  Returns whether the root
** does. */
static int find_live(reader *r) {
  lua_State *L = r->L;
  uint64_t n;
  int found, waits; /* has a parent become live, after one of its children? */
  r->walk.found = CLASSES;
  r->walk.entered = STAYS;
  r->reach = mw_tree_reach(r->s->engine, mwb_handle_of(L, r->s, INTO));
  mwb_begin_scan(r->s);
  if (r->reach == 0) { /* nobody has looked below it? */
    mwb_find_classes(L, r->s, INTO, CLASSES);
    r->walk.any = 1;
  }
  lua_pushvalue(L, INTO);
  if (!fits(r, r->places)) return 0; /* a root of another kind? */
  stay(r, 1);
  do {
    for (found = waits = 0, n = 2; n <= r->objects; n++) {
      const place *its = place_of(r, n);
      if (its->live) continue;
      if (is_live(r, its->parent) && (its->by == 0 || is_live(r, its->by)))
        found |= find_child(r, n);
      else
        waits |= its->parent > n || its->by > n;
    }
  } while (found && waits);
  return 1;
}

/* Does the table at CONTENTS hold other fields than the one at CONTENTS + 1? */
static int differs(lua_State *L) {
  int wanted = CONTENTS + 1, key = wanted + 1;
  size_t n = 0;
  for (lua_pushnil(L); lua_next(L, wanted) != 0; lua_settop(L, key), n++) {
    lua_pushvalue(L, key);
    lua_rawget(L, CONTENTS);
    if (!mwb_is_same(L, key + 1, key + 2)) return 1;
  }
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_pop(L, 1)) n--;
  return n != 0; /* not as many? */
}

/* Notes what the object with a number is: one that fields lead to, for states
** of userdata; a live table that is to change; one that is to get a mark. */
static void compare(const reader *r, uint64_t number) {
  lua_State *L = r->L;
  const place *its = &r->places[number - 1];
  int mark = 0;
  if (!r->lives && its->mark == 0) return; /* nothing to note? */
  lua_settop(L, CLASSES);
  lua_rawgeti(L, OBJECTS, (lua_Integer)number); /* OBJECT */
  if (its->parent != 0 && lua_rawlen(L, USERDATA) > 0) {
    lua_pushvalue(L, OBJECT); /* a state may hold it, too */
    lua_pushboolean(L, 1);
    lua_rawset(L, HELD);
  }
  if (its->live && its->kind == MWB_ITEM_TABLE) { /* may it have to change? */
    mwb_push_contents(L, OBJECT);
    lua_rawgeti(L, TABLES, (lua_Integer)number);
    if (differs(L)) {
      append(L, DIFFERS, OBJECT);
      append(L, DIFFERS, CONTENTS + 1);
    }
    mark = mwb_mark_of(L, r->s, r->marks, OBJECT);
  }
  if (mark == its->mark) return;
  append(L, MARKS, OBJECT);
  lua_pushinteger(L, its->mark);
  append(L, MARKS, -1);
}

/* }====================================================== */

/* Makes the object with a number, if none stays, and the table that is
** filled. */
static void make_object(const reader *r, uint64_t number) {
  lua_State *L = r->L;
  const place *its = &r->places[number - 1];
  int is_userdata = its->kind == MWB_ITEM_USERDATA;
  lua_settop(L, CLASSES);
  if (its->live || its->name == 0) { /* is a plain table enough? */
    lua_createtable(L, (int)its->list, (int)its->pairs);
  } else {
    lua_pushvalue(L, MAKE);
    lua_rawgeti(L, STRINGS, (lua_Integer)its->name - 1);
    lua_pushboolean(L, is_userdata);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != (is_userdata ? LUA_TUSERDATA : LUA_TTABLE))
      mwb_fail(L, "a class has made an object of another kind");
  }
  if (!is_userdata) {
    if (its->name == 0) /* surely not intercepted? */
      lua_pushvalue(L, OBJECT);
    else
      mwb_push_contents(L, OBJECT);
    lua_rawseti(L, TABLES, (lua_Integer)number);
  }
  if (!its->live) lua_rawseti(L, OBJECTS, (lua_Integer)number); /* is it new? */
}

/* restore(bytes, make, named, into, kind) -> the root, and what is on the stack
** behind OBJECTS; false if the live root is of another kind; raises an array
** with a message */
static int restore(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  reader r;
  size_t len;
  const char *bytes = lua_tolstring(L, BYTES, &len);
  mwb_input body;
  uint64_t n;
  memset(&r, 0, sizeof(r));
  r.L = L;
  r.s = s;
  r.marks = mwb_marks(L, r.s);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "cannot read");
  lua_settop(L, KIND);
  r.lives = !lua_isnil(L, INTO);
  open_bytes(&r, (const unsigned char *)bytes, len);
  body = r.in;
  r.places =
      (place *)lua_newuserdatauv(L, (size_t)r.objects * sizeof(place), 0);
  memset(r.places, 0, (size_t)r.objects * sizeof(place));
  r.places[0].parent = 1;
  while (lua_gettop(L) < KEYS) lua_newtable(L);
  lua_createtable(L, (int)r.objects, 0); /* TABLES */
  lua_createtable(L, (int)r.objects, 0); /* OBJECTS */
  while (lua_gettop(L) < CLASSES) lua_newtable(L);
  read_all(&r, &body);
  if (r.lives && !find_live(&r)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  for (n = 1; n <= r.objects; n++) make_object(&r, n);
  r.fills = 1;
  read_all(&r, &body);
  for (n = 1; n <= r.objects; n++) compare(&r, n);
  lua_rawgeti(L, OBJECTS, 1);
  lua_replace(L, OBJECTS);
  lua_settop(L, CLASSES);
  return CLASSES - OBJECTS + 1;
}

/* set_mark(table, mark): a mark of JSON, 1 for an array, 2 for an object, 0 for
** none */
static int set_mark(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int mark = (int)luaL_checkinteger(L, 2);
  mw_clock marks = mwb_marks(L, s);
  lua_settop(L, 1);
  if (mark == 0) { /* is the mark taken away? */
    mw_handle h = mwb_handle_of(L, s, 1);
    if (h != MW_NONE) mw_clock_untag(s->engine, marks, h);
    return 0;
  }
  if (mw_clock_now(s->engine, marks) % 2 != mark - 1) /* of the other mark? */
    mw_clock_advance(s->engine, marks);
  mwb_check(
      L, mw_clock_tag(s->engine, marks, mwb_identify(L, s, "restore", 1, 1)));
  return 0;
}

const luaL_Reg mwb_restores_functions[] = {
    {"restore", restore}, {"set_mark", set_mark}, {NULL, NULL}};
