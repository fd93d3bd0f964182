/*
** name.c - names of a hierarchy: where objects are.
** SPDX-License-Identifier: MIT
**
**     object --> place --> name --> up: the name of the plain table that holds
**                   |        |          the object, if any, and so on
**                   |        \--> parent (an object) --> its place --> ...
**                   \--> name of the same object on another way --> ...
**
** A name is a key and what the key is in; a text is made when somebody asks.
** So what is below an object that gets another name needs no other names.  A
** plain table on the way has a place, too, with a name for each parent.
**
** KEYS has the key of each name.  TEXTS keeps short texts, and the last long
** one, which is the begin of the next where objects are entered one in another.
** A text is good while the epoch is the same, which moves when a parent gets
** another name.  Texts of roots, and those that a function of the program made,
** are good for ever.
**
** An element of `places` whose object is dead is void, and gives its names back
** when another object has the slot.
*/
#include <string.h>

#include "hierarchy.h"
#include "shadow.h"

#define PLACES (MWI_PAGE * sizeof(mwb_site))

#define MOSTNAMES 16 /* of one object */
#define LONGEST 200  /* short text */

/* {======================================================
** Names and places
** ======================================================= */

void mwb_retain_name(mwb_hierarchy *d, uint32_t name) {
  if (name != 0) mwb_name_at(d, name)->refs++;
}

/* One place less has the name.  Adds the name to the list if that was the
** last. */
static uint32_t drop(mwb_hierarchy *d, uint32_t name, uint32_t list) {
  mwb_name *n;
  if (name == 0) return list;
  n = mwb_name_at(d, name);
  mwi_assert(n->refs > 0);
  if (--n->refs > 0) return list;
  n->next = list;
  return name;
}

void mwb_release_name(mwb_hierarchy *d, uint32_t name) {
  uint32_t list = drop(d, name, 0);
  while (list != 0) {
    mwb_name *n = mwb_name_at(d, name = list);
    list = drop(d, n->above, drop(d, n->up, n->next));
    mwi_pool_give(&d->names, name, sizeof(mwb_name));
  }
}

static void release_all(mwb_hierarchy *d, mwb_site *place) {
  while (place->first != 0) {
    uint32_t name = place->first;
    place->first = mwb_name_at(d, name)->next;
    mwb_release_name(d, name);
  }
}

mwb_site *mwb_need_site(lua_State *L, mwb_hierarchy *d, mw_handle obj) {
  mwb_site *place = (mwb_site *)mwi_column_need(mwb_engine_of(d), &d->places,
                                                mw_slot(obj), PLACES);
  if (place == NULL) mwb_check(L, MW_NOMEM);
  place += mw_slot(obj) % MWI_PAGE;
  if (place->obj != obj) {
    release_all(d, place);
    memset(place, 0, sizeof(mwb_site));
    place->obj = obj;
  }
  return place;
}

/* Takes the name out of the list of the place; the name stays retained. */
static void unlink_name(mwb_hierarchy *d, mwb_site *place, uint32_t name) {
  uint32_t *link = &place->first;
  while (*link != name) link = &mwb_name_at(d, *link)->next;
  *link = mwb_name_at(d, name)->next;
}

/* Puts the name at the second place of the list if the first one is the
** object's name, else at the first; forgets the last of many names. */
static void link_name(mwb_hierarchy *d, mwb_site *place, uint32_t name) {
  uint32_t *link = &place->first, n = 1;
  if (place->named) link = &mwb_name_at(d, *link)->next;
  mwb_name_at(d, name)->next = *link;
  *link = name;
  for (link = &place->first; *link != 0; n++) {
    if (n > MOSTNAMES) {
      uint32_t last = *link;
      *link = mwb_name_at(d, last)->next;
      mwb_release_name(d, last);
    } else {
      link = &mwb_name_at(d, *link)->next;
    }
  }
}

/* Returns a new name with the key at `key`. */
static uint32_t new_name(lua_State *L, mwb_hierarchy *d, const mwb_name *field,
                         int key) {
  mwb_site *parent = NULL;
  mwb_name *n;
  uint32_t name;
  if (field->parent != MW_NONE) parent = mwb_need_site(L, d, field->parent);
  for (;;) {
    uint32_t next = (d->names.free != 0) ? d->names.free : d->names.n + 1;
    lua_pushvalue(L, key);
    lua_rawseti(L, KEYS, next);
    name = mwi_pool_take(mwb_engine_of(d), &d->names, sizeof(mwb_name));
    if (name == 0) mwb_check(L, MW_NOMEM);
    if (name == next) break; /* no finaliser has taken the number */
    mwi_pool_give(&d->names, name, sizeof(mwb_name));
  }
  n = mwb_name_at(d, name);
  *n = *field;
  n->next = n->above = n->refs = 0;
  n->epoch = 0;
  n->fixed = 0;
  mwb_retain_name(d, n->up);
  if (parent == NULL) return name;
  parent->is_parent = 1;
  if (parent->named) mwb_retain_name(d, n->above = parent->first);
  return name;
}

/* Is the key of the name the one at `key`? */
static int has_key(lua_State *L, uint32_t name, int key) {
  int same;
  lua_rawgeti(L, KEYS, name);
  same = lua_rawequal(L, -1, key);
  lua_pop(L, 1);
  return same;
}

uint32_t mwb_note_name(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                       const mwb_name *field, int key) {
  uint32_t i, name, former = 0;
  key = lua_absindex(L, key);
  for (i = place->first; i != 0; i = mwb_name_at(d, i)->next) {
    const mwb_name *n = mwb_name_at(d, i);
    if (n->parent != field->parent || n->holder != field->holder) continue;
    if (n->up == field->up && has_key(L, i, key)) return i;
    if (i != place->first || !place->named) former = i; /* it has moved */
  }
  if (former != 0 && mwb_is_held(L, d, former, place->obj)) former = 0;
  name = new_name(L, d, field, key);
  mwb_retain_name(d, name);
  if (former != 0) {
    unlink_name(d, place, former);
    mwb_release_name(d, former);
  }
  link_name(d, place, name);
  return name;
}

/* The name of the root is free again. */
static void free_root(lua_State *L, mwb_hierarchy *d, mwb_site *place) {
  int top = lua_gettop(L);
  mwb_push_outside(L, BY_NAME);
  lua_rawgeti(L, TEXTS, place->first);
  lua_pushvalue(L, -1);
  lua_rawget(L, top + 1);
  if (mwb_alive(L, d->data.state, place->obj) && lua_rawequal(L, -1, -2)) {
    lua_pushvalue(L, top + 2);
    lua_pushnil(L);
    lua_rawset(L, top + 1);
    mwb_push_outside(L, HINTS);
    lua_pushnil(L);
    lua_rawseti(L, -2, 1);
  }
  lua_settop(L, top);
}

/* Sets TEXTS for a name, for ever, and takes the text if it is free. */
static void fix_text(lua_State *L, mwb_hierarchy *d, const mwb_site *place,
                     uint32_t name, int text) {
  int top = lua_gettop(L);
  lua_pushvalue(L, text);
  lua_rawseti(L, TEXTS, name);
  mwb_name_at(d, name)->fixed = 1;
  mwb_push_outside(L, BY_NAME);
  lua_pushvalue(L, text);
  if (lua_rawget(L, -2) == LUA_TNIL &&
      mwb_alive(L, d->data.state, place->obj)) {
    lua_pushvalue(L, text);
    lua_insert(L, -2);
    lua_rawset(L, top + 1);
  }
  lua_settop(L, top);
}

void mwb_give_name(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                   uint32_t name, int text) {
  uint32_t former = place->named ? place->first : 0;
  if (former != 0 && mwb_name_at(d, former)->fixed &&
      (former != name || text != 0))
    free_root(L, d, place);
  if (text != 0) fix_text(L, d, place, name, text);
  if (former != name || text != 0) {
    d->epoch += place->is_parent;
    d->data.state->renames += former != 0 || place->is_parent;
  }
  if (former != name) {
    unlink_name(d, place, name);
    mwb_name_at(d, name)->next = place->first;
    place->first = name;
    if (former != 0 && mwb_name_at(d, former)->parent == MW_NONE) {
      unlink_name(d, place, former);
      mwb_release_name(d, former);
    }
  }
  place->named = 1;
  place->pending = 0;
  d->last = name;
}

void mwb_give_root(lua_State *L, mwb_hierarchy *d, mwb_site *place, int text) {
  static const mwb_name root = {0, 0, 0, 0, MW_NONE, MW_NONE, 0, 0};
  uint32_t name = mwb_note_name(L, d, place, &root, text);
  mwb_give_name(L, d, place, name, text);
}

/* }====================================================== */

/* {======================================================
** Is an object where its name says?
** ======================================================= */

/* Is the object at `index` under the name's key in the table on the top?  May
** push. */
static int holds(lua_State *L, uint32_t name, int index) {
  int holder = lua_gettop(L);
  if (lua_rawgeti(L, KEYS, name) == LUA_TNIL) return 0;
  lua_rawget(L, holder);
  if (lua_rawequal(L, -1, index)) return 1;
  if (!mwb_push_shadow(L, holder)) return 0;
  lua_rawgeti(L, KEYS, name);
  lua_rawget(L, -2);
  return lua_rawequal(L, -1, index);
}

/* Pushes the holder, a table.  Returns 0 if it is dead. */
static int push_holder(lua_State *L, const mwb_hierarchy *d, mw_handle holder) {
  return mwi_identity_is_valid(&mwb_engine_of(d)->identity, holder) &&
         lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(holder)) == LUA_TTABLE;
}

int mwb_is_at(lua_State *L, mwb_hierarchy *d, uint32_t name, int index) {
  int top = lua_gettop(L), there = 1;
  for (;;) {
    const mwb_name *n = mwb_name_at(d, name);
    if (n->holder == MW_NONE) break;
    there = push_holder(L, d, n->holder) && holds(L, name, index);
    name = n->up;
    if (!there || name == 0) break;
    lua_settop(L, top + ((index > top) ? 2 : 1));
    if (index > top) lua_remove(L, index);
    index = top + 1;
  }
  lua_settop(L, top);
  return there;
}

int mwb_is_held(lua_State *L, mwb_hierarchy *d, uint32_t name, mw_handle obj) {
  int top = lua_gettop(L);
  int held = mwb_alive(L, d->data.state, obj) &&
             push_holder(L, d, mwb_name_at(d, name)->holder) &&
             holds(L, name, top + 1);
  lua_settop(L, top);
  return held;
}

int mwb_is_there(lua_State *L, mwb_hierarchy *d, uint32_t name, mw_handle obj) {
  int top = lua_gettop(L);
  int there =
      mwb_alive(L, d->data.state, obj) && mwb_is_at(L, d, name, top + 1);
  lua_settop(L, top);
  return there;
}

/* }====================================================== */

/* {======================================================
** Texts
** ======================================================= */

/* Does a key stand as it is, after a dot?  Not if it would be read as another
** key. */
static int is_plain_word(const char *s, size_t len) {
  size_t i, digits = strspn(s + (*s == '-'), "0123456789") + (*s == '-');
  if (digits == len || strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
    return 0;
  for (i = 0; i < len; i++)
    if ((unsigned char)s[i] < ' ' || strchr(".\"'[]\\", s[i])) return 0;
  return 1;
}

/* Pushes ["key"], with escapes as in Lua. */
static void push_quoted(lua_State *L, const char *s, size_t len) {
  luaL_Buffer b;
  size_t i;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "[\"");
  for (i = 0; i < len; i++) {
    char escape[8];
    if (s[i] == '"' || s[i] == '\\') luaL_addchar(&b, '\\');
    if ((unsigned char)s[i] >= ' ') {
      luaL_addchar(&b, s[i]);
    } else {
      escape[0] = '\\';
      escape[1] = (char)('0' + (unsigned char)s[i] / 100);
      escape[2] = (char)('0' + (unsigned char)s[i] / 10 % 10);
      escape[3] = (char)('0' + (unsigned char)s[i] % 10);
      luaL_addlstring(&b, escape, 4);
    }
  }
  luaL_addstring(&b, "\"]");
  luaL_pushresult(&b);
}

void mwb_key_to_text(lua_State *L) {
  size_t len;
  const char *s;
  if (lua_type(L, -1) == LUA_TSTRING) {
    s = lua_tolstring(L, -1, &len);
    if (is_plain_word(s, len))
      lua_pushfstring(L, ".%s", s);
    else
      push_quoted(L, s, len);
  } else if (lua_isinteger(L, -1)) {
    lua_pushfstring(L, ".%I", (LUAI_UACINT)lua_tointeger(L, -1));
  } else if (lua_type(L, -1) == LUA_TNUMBER) {
    luaL_tolstring(L, -1, NULL);
    lua_pushfstring(L, "[%s]", lua_tostring(L, -1));
    lua_replace(L, -2);
  } else {
    luaL_tolstring(L, -1, NULL);
    lua_pushfstring(L, ".%s", lua_tostring(L, -1));
    lua_replace(L, -2);
  }
  lua_replace(L, -2);
}

uint32_t mwb_name_above(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  const mwb_name *n = mwb_name_at(d, name);
  uint32_t above;
  if (n->up != 0) return n->up;
  if (n->parent == MW_NONE) return 0;
  above = mwb_settle(L, d, n->parent);
  return (above != 0) ? above : n->above;
}

/* Returns how many names, from this one upward, have no good text; `*above` is
** the first one that has. */
static uint32_t count_new(lua_State *L, mwb_hierarchy *d, uint32_t name,
                          uint32_t *above) {
  uint32_t n = 0;
  while (name != 0 && !mwb_has_good_text(d, mwb_name_at(d, name)) &&
         n <= d->names.n) {
    name = mwb_name_above(L, d, name);
    n++;
  }
  *above = name;
  return n;
}

/* Adds the text of the keys of `n` names, from the uppermost on, to the
** buffer. */
static void add_keys(lua_State *L, luaL_Buffer *b, const uint32_t *names,
                     uint32_t n) {
  while (n > 0) {
    lua_rawgeti(L, KEYS, names[--n]);
    mwb_key_to_text(L);
    luaL_addvalue(b);
  }
}

/* Keeps the text on the top. */
static void keep_text(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  if (lua_rawlen(L, -1) > LONGEST) {
    mwb_name *former = (d->long_one != 0) ? mwb_name_at(d, d->long_one) : NULL;
    if (former != NULL && !former->fixed) {
      lua_pushnil(L);
      lua_rawseti(L, TEXTS, d->long_one);
      former->epoch = 0;
    }
    d->long_one = 0;
  }
  lua_pushvalue(L, -1);
  lua_rawseti(L, TEXTS, name);
  mwb_name_at(d, name)->epoch = d->epoch;
  if (lua_rawlen(L, -1) > LONGEST) d->long_one = name;
}

void mwb_make_text(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  luaL_Buffer b;
  uint32_t above, i, n, *names, first = name;
  int top = lua_gettop(L);
  luaL_checkstack(L, MWB_ROOM, "names");
  n = count_new(L, d, name, &above);
  names = (uint32_t *)lua_newuserdatauv(L, n * sizeof(uint32_t), 0);
  for (i = 0; i < n; i++) {
    names[i] = name;
    name = mwb_name_above(L, d, name);
  }
  luaL_buffinit(L, &b);
  if (above == 0) {
    luaL_addstring(&b, "?");
  } else {
    lua_rawgeti(L, TEXTS, above);
    luaL_addvalue(&b);
  }
  add_keys(L, &b, names, n);
  luaL_pushresult(&b);
  keep_text(L, d, first);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void mwb_push_way(lua_State *L, mwb_hierarchy *d, uint32_t name) {
  uint32_t i, n = 0, *names;
  luaL_Buffer b;
  for (i = name; i != 0; i = mwb_name_at(d, i)->up) n++;
  names = (uint32_t *)lua_newuserdatauv(L, n * sizeof(uint32_t), 0);
  for (i = 0; i < n; i++, name = mwb_name_at(d, name)->up) names[i] = name;
  luaL_buffinit(L, &b);
  add_keys(L, &b, names, n);
  luaL_pushresult(&b);
  lua_replace(L, -2);
}

/* Does the text end with that of the key on the top?  Pops the key, and takes
** the end away. */
static int ends_with_key(lua_State *L, const char *text, size_t *len) {
  size_t n;
  const char *s;
  int ends;
  mwb_key_to_text(L);
  s = lua_tolstring(L, -1, &n);
  ends = n <= *len && memcmp(text + *len - n, s, n) == 0;
  if (ends) *len -= n;
  lua_pop(L, 1);
  return ends;
}

int mwb_has_text(lua_State *L, mwb_hierarchy *d, uint32_t name,
                 const char *text, size_t len) {
  while (name != 0 && !mwb_name_at(d, name)->fixed) {
    lua_rawgeti(L, KEYS, name);
    if (!ends_with_key(L, text, &len)) return 0;
    name = mwb_name_above(L, d, name);
  }
  if (name == 0) return 0;
  lua_rawgeti(L, TEXTS, name);
  {
    size_t n;
    const char *s = lua_tolstring(L, -1, &n);
    int same = n == len && memcmp(s, text, n) == 0;
    lua_pop(L, 1);
    return same;
  }
}

/* }====================================================== */
