/*
** weakmap.c - mw.weakmap.
** SPDX-License-Identifier: MIT
**
**     map --> entries: key -> value    (weak keys: ephemerons)
**         --> on_death
**
** In a map with on_death, `entries` has a box in place of a value:
**
**     box: handle and serial of the key --> value, the map, next of the queue
**
** A box has a finaliser.  The box is reachable only through its key, so the box
** dies with the key, and the finaliser, which finds the value in the box, puts
** the box into the queue.  A box dies also with its map, or when its entry is
** removed; nobody is told then.
*/
#include "base.h"

#include "../box/box.h"

typedef struct map {
  int on_death;     /* has the map an on_death? */
  lua_Integer len;  /* living entries ... */
  uint64_t counted; /* ... after this number of collections */
  uint64_t cleared; /* how often the map has been cleared */
} map;

typedef struct box {
  mw_handle key; /* MW_NONE once the entry is removed */
  lua_Integer serial;
  uint64_t cleared; /* that of the map, when the entry was added */
} box;

/* User values. */
enum { MAP_ENTRIES = 1, MAP_ONDEATH };
enum { BOX_VALUE = 1, BOX_MAP, BOX_NEXT };

/* {======================================================
** Entries; the map is at 1, the key at 2
** ======================================================= */

/* Returns the map at 1, on which the method `name` was called, or raises. */
static map *self(lua_State *L, const mwb_state *s, const char *name) {
  return (map *)mwb_check_self(L, s, name, MWB_MAP, "weakmap");
}

/* Pushes the entries, and the value or the box of the key.  Returns whether
** there is one. */
static int push_field(lua_State *L) {
  lua_getiuservalue(L, 1, MAP_ENTRIES);
  lua_pushvalue(L, 2);
  return lua_rawget(L, -2) != LUA_TNIL;
}

/* Replaces the box on the top, if the map has boxes, by its value. */
static void open_box(lua_State *L, const map *m) {
  if (!m->on_death) return;
  lua_getiuservalue(L, -1, BOX_VALUE);
  lua_replace(L, -2);
}

/* Pushes a new box for the key, with the value at 3. */
static void push_box(lua_State *L, mwb_state *s, const map *m) {
  mw_handle key = mwb_identify(L, s, "set", 2, 1);
  lua_Integer serial = mwb_serial(L, s, key);
  box *b = (box *)lua_newuserdatauv(L, sizeof(box), BOX_NEXT);
  b->key = key;
  b->serial = serial;
  b->cleared = m->cleared;
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, BOX_VALUE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, BOX_MAP);
}

/* Adds an entry for a key without one; the value is at 3.  A box gets its
** finaliser when it has its place. */
static void add(lua_State *L, mwb_state *s, map *m) {
  if (m->on_death)
    push_box(L, s, m);
  else
    lua_pushvalue(L, 3);
  lua_getiuservalue(L, 1, MAP_ENTRIES);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  m->len++;
  if (!m->on_death) return;
  lua_pop(L, 1);
  mwb_push(L, s, MWB_BOX);
  lua_setmetatable(L, -2);
}

/* Removes the key's entry, if there is one, and leaves the value or nil on the
** top. */
static void take_out(lua_State *L, map *m) {
  lua_settop(L, 2);
  if (!push_field(L)) return; /* entries and value are at 3 and 4 */
  if (m->on_death) ((box *)lua_touserdata(L, 4))->key = MW_NONE;
  lua_pushvalue(L, 2);
  lua_pushnil(L);
  lua_rawset(L, 3);
  m->len--;
  open_box(L, m);
}

/* Gives the map at `index` a table for its entries. */
static void renew_entries(lua_State *L, const mwb_state *s, int index) {
  mwb_push_ephemeron(L, s);
  lua_setiuservalue(L, index, MAP_ENTRIES);
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

static int get(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  const map *m = self(L, s, "get");
  lua_settop(L, 3);
  if (push_field(L))
    open_box(L, m);
  else
    lua_settop(L, 3); /* the default */
  return 1;
}

static int has(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  self(L, s, "has");
  lua_settop(L, 2);
  lua_pushboolean(L, push_field(L));
  return 1;
}

static int set(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  map *m = self(L, s, "set");
  mwb_object(L, "set", 2, 1);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    take_out(L, m);
  } else if (!push_field(L)) {
    add(L, s, m);
  } else if (m->on_death) {
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, BOX_VALUE);
  } else {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, -4);
  }
  return 0;
}

static int removes(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  map *m = self(L, s, "remove");
  mwb_object(L, "remove", 2, 1);
  take_out(L, m);
  return 1;
}

static int clear(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  map *m = self(L, s, "clear");
  mwb_check_nothing(L, "clear", 2);
  renew_entries(L, s, 1);
  m->cleared++;
  m->len = 0;
  return 0;
}

/* Counts the entries again if a collection has ended since the last count. */
static lua_Integer count(lua_State *L, const mwb_state *s, map *m) {
  int top = lua_gettop(L);
  if (m->counted == s->collections) return m->len;
  m->counted = s->collections;
  m->len = 0;
  lua_getiuservalue(L, 1, MAP_ENTRIES);
  for (lua_pushnil(L); lua_next(L, top + 1) != 0; lua_pop(L, 1)) m->len++;
  lua_settop(L, top);
  return m->len;
}

static int len(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  map *m = self(L, s, "len");
  lua_pushinteger(L, count(L, s, m));
  return 1;
}

/* Upvalues after state and objects: the map, the keys that the map had when the
** walk began, weakly held, and the number of the last one. */
static int next_entry(lua_State *L) {
  lua_Integer i = lua_tointeger(L, lua_upvalueindex(5)), n;
  mwb_enter_to_read(L);
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(3));
  n = (lua_Integer)lua_tointeger(L, lua_upvalueindex(6));
  while (i < n) {
    lua_settop(L, 1);
    if (lua_rawgeti(L, lua_upvalueindex(4), ++i) == LUA_TNIL) continue;
    if (!push_field(L)) continue;
    open_box(L, (const map *)lua_touserdata(L, 1));
    lua_pushinteger(L, i);
    lua_replace(L, lua_upvalueindex(5));
    lua_replace(L, 3);
    return 2;
  }
  return 0;
}

static int pairs(lua_State *L) {
  lua_Integer n = 0;
  self(L, mwb_enter_to_read(L), "pairs");
  lua_settop(L, 1);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 1);
  mwb_push_weak(L); /* at 5 */
  lua_getiuservalue(L, 1, MAP_ENTRIES);
  for (lua_pushnil(L); lua_next(L, 6) != 0; lua_pop(L, 1)) {
    lua_pushvalue(L, 7);
    lua_rawseti(L, 5, ++n);
  }
  lua_settop(L, 5);
  lua_pushinteger(L, 0);
  lua_pushinteger(L, n);
  lua_pushcclosure(L, next_entry, 6);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Deaths
** ======================================================= */

/* Has the key of the box at 1 died, and had the key an entry? */
static int is_dead_entry(lua_State *L, const mwb_state *s, const box *b) {
  if (b->key == MW_NONE || mwb_alive(L, s, b->key)) return 0;
  lua_getiuservalue(L, 1, BOX_MAP);
  return b->cleared == ((const map *)lua_touserdata(L, -1))->cleared;
}

/* Needs no memory, so that no death gets lost, unless Lua has no memory to call
** this finaliser. */
static int box_gc(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const box *b = (const box *)lua_touserdata(L, 1);
  if (s->engine == NULL || !is_dead_entry(L, s, b)) return 0;
  mwb_push(L, s, MWB_QUEUE);
  lua_setiuservalue(L, 1, BOX_NEXT);
  lua_pushvalue(L, 1);
  mwb_keep(L, s, MWB_QUEUE);
  s->base->queued = s->pending = 1;
  return 0;
}

/* Takes the first box out of the queue and calls its on_death. */
static void tell(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L);
  const box *b;
  mwb_push(L, s, MWB_QUEUE);
  b = (const box *)lua_touserdata(L, -1);
  s->base->queued = lua_getiuservalue(L, top + 1, BOX_NEXT) != LUA_TNIL;
  mwb_keep(L, s, MWB_QUEUE);
  lua_getiuservalue(L, top + 1, BOX_MAP);
  lua_getiuservalue(L, top + 2, MAP_ONDEATH);
  lua_getiuservalue(L, top + 1, BOX_VALUE);
  lua_pushinteger(L, b->serial);
  s->base->notifying = 1;
  if (mwb_pcall_outside(L, s, 2, 0, 0) != LUA_OK)
    mwb_late_error(L, s, "on_death");
  s->base->notifying = 0;
  lua_settop(L, top);
}

/* An on_death never calls another on_death: the depth of calls would have no
** bound. */
size_t mwb_notify(lua_State *L, mwb_state *s, size_t n) {
  size_t done = 0;
  if (s->base->notifying) return 0;
  for (; s->base->queued && done < n; done++) tell(L, s);
  return done;
}

/* }====================================================== */

static int weakmap(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  map *m;
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && !lua_isfunction(L, 1))
    return mwb_bad_argument(L, "weakmap", 1, 1, "function");
  m = (map *)lua_newuserdatauv(L, sizeof(map), MAP_ONDEATH);
  m->on_death = !lua_isnil(L, 1);
  m->counted = s->collections;
  m->cleared = 0;
  m->len = 0;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, MAP_ONDEATH);
  renew_entries(L, s, 2);
  mwb_push(L, s, MWB_MAP);
  lua_setmetatable(L, 2);
  return 1;
}

void mwb_open_weakmap(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  static const luaL_Reg methods[] = {
      {"get", get},     {"has", has}, {"set", set},     {"remove", removes},
      {"clear", clear}, {"len", len}, {"pairs", pairs}, {NULL, NULL}};
  static const luaL_Reg meta[] = {
      {"__len", len}, {"__pairs", pairs}, {NULL, NULL}};
  static const luaL_Reg box_meta[] = {{"__gc", box_gc}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"weakmap", weakmap}, {NULL, NULL}};
  mwb_new_meta(L, MWB_MAP, "weakmap", meta, methods);
  mwb_push(L, s, MWB_MAP);
  mwb_seal(L, s, -1, "map:set");
  lua_pop(L, 1);
  lua_newtable(L);
  mwb_set_funcs(L, box_meta);
  mwb_keep(L, s, MWB_BOX);
  mwb_set_funcs(L, functions);
}
