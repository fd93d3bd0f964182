/*
** weakmap.c - mw.weakmap.
** SPDX-License-Identifier: MIT
**
**     data of a map --> living: key -> key       (weak keys, weak values)
**                   --> entries: key -> value    (weak keys: ephemerons)
**                   --> rows: 2 p - 1 -> handle of the key at position p, or
**                                        -next free position;  2 p -> nth
**                   --> places: slot of the key -> position (*)
**                   --> on_death
**
** Invariant: a key has an entry exactly while the key is in `living`; then
** `entries` has the key's value, and the key's handle is in the row that
** `places` or the box names.
**
** Lua takes a dead key out of `living` before any finaliser runs, because there
** the key is a weak value; out of `entries` only when the key dies for good.
** So a key that a finaliser revived has no entry, and a lookup needs two Lua
** tables and nothing of the engine.
**
** Walks go along the rows: an entry stays at its position, and the positions of
** removed and dead entries are used again.  Each row has the number of its
** entry, so a walk passes over entries that were added after the walk began.
**
** (*) In maps with on_death, `places` is empty, and `entries` has a box in
** place of a value:
**
**     box: handle, position, serial --> value, the data, next of the queue
**
** A box has a finaliser.  The box is reachable only through its key, so the box
** dies with the key, and the finaliser, which finds the value in the box, puts
** the box into the queue.
*/
#include "weakmap.h"

#include "budget.h"
#include "class.h"
#include "feed.h"
#include "identity.h"
#include "later.h"

typedef struct map {
  mwb_data data;
  int on_death;     /* has the map an on_death? */
  uint32_t top;     /* positions from 1 to top have been used */
  uint32_t free;    /* the first free position, 0 for none */
  uint32_t swept;   /* the last row examined for a dead key ... */
  uint32_t unswept; /* number of rows still to examine ... */
  uint64_t sought;  /* ... after this number of collections */
  uint32_t len;     /* living entries ... */
  uint64_t counted; /* ... after this number of collections */
  uint64_t added;   /* number of entries ever added */
  uint64_t cleared; /* entries up to this number have been cleared */
} map;

typedef struct box {
  mw_handle h; /* MW_NONE once the entry is removed */
  lua_Integer serial;
  uint64_t nth;
  uint32_t pos;
} box;

/* User values. */
enum { MAP_LIVING = 1, MAP_ENTRIES, MAP_ROWS, MAP_PLACES, MAP_ONDEATH };
enum { BOX_VALUE = 1, BOX_MAP, BOX_NEXT };

MWI_API const mwb_class mwb_map_class;

/* {======================================================
** Rows; the table of rows is at index `rows`, the table of places is the next
** ======================================================= */

static lua_Integer get_int(lua_State *L, int table, lua_Integer i) {
  lua_Integer value;
  lua_rawgeti(L, table, i);
  value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static void set_int(lua_State *L, int table, lua_Integer i, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_rawseti(L, table, i);
}

static lua_Integer row(lua_State *L, int rows, uint32_t pos) {
  return get_int(L, rows, 2 * (lua_Integer)pos - 1);
}

/* Returns the number of the row's entry. */
static uint64_t row_nth(lua_State *L, int rows, uint32_t pos) {
  return (uint64_t)get_int(L, rows, 2 * (lua_Integer)pos);
}

static int is_alive(lua_State *L, map *m, lua_Integer h) {
  int alive;
  if (h <= 0) return 0; /* a free row */
  alive = mwb_alive(L, m->data.state, (mw_handle)h);
  lua_pop(L, 1);
  return alive;
}

/* The slot may have another key by now; then `places` has this key's
** position. */
static void free_row(lua_State *L, map *m, int rows, uint32_t pos) {
  uint32_t slot = mw_slot((mw_handle)row(L, rows, pos));
  set_int(L, rows, 2 * (lua_Integer)pos - 1, -(lua_Integer)m->free);
  m->free = pos;
  if (get_int(L, rows + 1, slot) != pos) return;
  lua_pushnil(L);
  lua_rawseti(L, rows + 1, slot);
}

/* Examines no more than two rows, and frees the rows of dead keys. */
static void sweep_rows(lua_State *L, map *m, int rows) {
  int i;
  if (m->sought != m->data.state->collections) {
    m->sought = m->data.state->collections;
    m->unswept = m->top;
  }
  for (i = 0; i < 2 && m->unswept > 0; i++) {
    lua_Integer h;
    m->unswept--;
    m->swept = (m->swept < m->top) ? m->swept + 1 : 1;
    h = row(L, rows, m->swept);
    if (h > 0 && !is_alive(L, m, h)) free_row(L, m, rows, m->swept);
  }
}

/* Returns a position for one more entry, whose key is in `slot`, and reserves
** memory for the row. */
static uint32_t reserve_row(lua_State *L, map *m, int rows, uint32_t slot) {
  uint32_t pos = (m->free != 0) ? m->free : m->top + 1;
  if (pos == 0) luaL_error(L, "too many entries in a weakmap");
  if (pos > m->top) {
    set_int(L, rows, 2 * (lua_Integer)pos - 1, 0);
    set_int(L, rows, 2 * (lua_Integer)pos, 0);
  }
  if (!m->on_death) set_int(L, rows + 1, slot, pos);
  return pos;
}

static void take_row(lua_State *L, map *m, int rows, uint32_t pos,
                     mw_handle h) {
  if (pos > m->top)
    m->top = pos;
  else
    m->free = (uint32_t)-row(L, rows, pos);
  set_int(L, rows, 2 * (lua_Integer)pos - 1, (lua_Integer)h);
  set_int(L, rows, 2 * (lua_Integer)pos, (lua_Integer)++m->added);
  m->len++;
}

/* }====================================================== */

/* {======================================================
** Entries; `data` is the index of the map's data, the key is at index 2
** ======================================================= */

/* Pushes a table of the map, and the key's value in this table. */
static int push_field(lua_State *L, int data, int table) {
  lua_getiuservalue(L, data, table);
  lua_pushvalue(L, 2);
  return lua_rawget(L, -2);
}

/* The key is not in `living`.  If the key has a value, a finaliser has revived
** the key: drops the value. */
static void forget_value(lua_State *L, int data, map *m) {
  if (!m->on_death && push_field(L, data, MAP_ENTRIES) != LUA_TNIL) {
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
}

static int has_entry(lua_State *L, int data, map *m) {
  int top = lua_gettop(L);
  int has = push_field(L, data, MAP_LIVING) != LUA_TNIL;
  if (!has) forget_value(L, data, m);
  lua_settop(L, top);
  return has;
}

/* Sets the value of an entry to the value at index 3. */
static void set_value(lua_State *L, map *m) {
  if (m->on_death) {
    push_field(L, MWB_UPDATA, MAP_ENTRIES);
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, -2, BOX_VALUE);
  } else {
    lua_getiuservalue(L, MWB_UPDATA, MAP_ENTRIES);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, -3);
  }
}

/* Pushes a box, without a finaliser yet, with the value at index 3. */
static box *new_box(lua_State *L) {
  box *b = (box *)lua_newuserdatauv(L, sizeof(box), BOX_NEXT);
  b->h = MW_NONE;
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, BOX_VALUE);
  return b;
}

/* A box outlives its key by a cycle of the collector.  If such entries come and
** go, each cycle leaves more boxes behind than the last.  So this tells the
** collector of more allocation than the collector sees. */
static void hurry(lua_State *L) {
  if (lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCSTEP, 1);
}

/* Adds an entry for a key without one.  Steps that may run other code come
** first, because a finaliser may add the key.  Then come all steps that need
** memory, and last the steps that make the entry. */
static void add(lua_State *L, map *m) {
  enum { KEY = 2, CONTENT = 4, LIVING, ENTRIES, ROWS, PLACES };
  mwb_state *s = m->data.state;
  box *b = NULL;
  mw_handle h;
  uint32_t pos;
  if (m->on_death && m->added % 4 == 0) hurry(L);
  if (m->on_death)
    b = new_box(L);
  else
    lua_pushvalue(L, 3);
  h = mwb_identify(L, s, "set", KEY, 1);
  if (b != NULL) b->serial = mwb_serial(L, s, h);
  if (has_entry(L, MWB_UPDATA, m)) {
    set_value(L, m);
    return;
  }
  lua_settop(L, CONTENT);
  lua_getiuservalue(L, MWB_UPDATA, MAP_LIVING);
  lua_getiuservalue(L, MWB_UPDATA, MAP_ENTRIES);
  lua_getiuservalue(L, MWB_UPDATA, MAP_ROWS);
  lua_getiuservalue(L, MWB_UPDATA, MAP_PLACES);
  if (b == NULL) sweep_rows(L, m, ROWS); /* a box's finaliser frees its row */
  pos = reserve_row(L, m, ROWS, mw_slot(h));
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, CONTENT);
  lua_rawset(L, ENTRIES);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, KEY);
  lua_rawset(L, LIVING);
  take_row(L, m, ROWS, pos, h);
  if (b == NULL) return;
  b->h = h;
  b->nth = m->added;
  b->pos = pos;
  lua_pushvalue(L, MWB_UPDATA);
  lua_setiuservalue(L, CONTENT, BOX_MAP);
  mwb_push(L, s, MWB_BOX);
  lua_setmetatable(L, CONTENT);
}

/* Removes the key's entry, if the key has one, and leaves the value or nil on
** the top. */
static void take_out(lua_State *L, int data, map *m) {
  int top = lua_gettop(L), table;
  uint32_t slot, pos;
  if (!has_entry(L, data, m)) {
    lua_pushnil(L);
    return;
  }
  slot = mwb_slot(L, m->data.state, 2);
  lua_settop(L, top);
  push_field(L, data, MAP_ENTRIES); /* the value or the box is at top + 2 */
  lua_getiuservalue(L, data, MAP_ROWS);
  lua_getiuservalue(L, data, MAP_PLACES);
  if (!m->on_death) {
    pos = (uint32_t)get_int(L, top + 4, slot);
  } else {
    box *b = (box *)lua_touserdata(L, top + 2);
    pos = b->pos;
    b->h = MW_NONE;
    lua_getiuservalue(L, top + 2, BOX_VALUE);
    lua_replace(L, top + 2);
  }
  if (pos != 0) free_row(L, m, top + 3, pos);
  lua_getiuservalue(L, data, MAP_LIVING);
  for (table = top + 1; table <= top + 5; table += 4) {
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
  m->len--;
  lua_settop(L, top + 2);
}

static void push_weak(lua_State *L, int metatable) {
  lua_newtable(L);
  mwb_push(L, mwb_state_of(L), metatable);
  lua_setmetatable(L, -2);
}

/* Gives the data at `data` new tables; leaves `living` and `entries` on the
** top.  Deaths of keys in the old tables call no on_death. */
static void renew_tables(lua_State *L, int data, map *m) {
  int top = lua_gettop(L);
  data = lua_absindex(L, data);
  push_weak(L, MWB_LIVING);
  push_weak(L, MWB_EPHEMERON);
  lua_pushvalue(L, top + 1);
  lua_pushvalue(L, top + 2);
  lua_newtable(L);
  lua_newtable(L);
  lua_setiuservalue(L, data, MAP_PLACES);
  lua_setiuservalue(L, data, MAP_ROWS);
  lua_setiuservalue(L, data, MAP_ENTRIES);
  lua_setiuservalue(L, data, MAP_LIVING);
  m->top = m->free = m->swept = m->unswept = m->len = 0;
  m->cleared = m->added;
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

/* `get`, the method called most, has tables as upvalues. */
#define UPLIVING lua_upvalueindex(4)
#define UPENTRIES lua_upvalueindex(5)

static int get(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  if (m == NULL) return mwb_redirect(L, &mwb_map_class, "get");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, UPLIVING) != LUA_TNIL) {
    lua_pushvalue(L, 2);
    lua_rawget(L, UPENTRIES);
    if (m->on_death) lua_getiuservalue(L, -1, BOX_VALUE);
    return 1;
  }
  lua_pop(L, 1);
  lua_settop(L, 3); /* index 3 is the default */
  forget_value(L, MWB_UPDATA, m);
  lua_settop(L, 3);
  return 1;
}

static int has(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  if (m == NULL) return mwb_redirect(L, &mwb_map_class, "has");
  lua_settop(L, 2);
  lua_pushboolean(L, has_entry(L, MWB_UPDATA, m));
  return 1;
}

static int set(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  if (m == NULL) return mwb_redirect(L, &mwb_map_class, "set");
  mwb_object(L, "set", 2, 1);
  lua_settop(L, 3);
  if (lua_isnil(L, 3))
    take_out(L, MWB_UPDATA, m);
  else if (has_entry(L, MWB_UPDATA, m))
    set_value(L, m);
  else
    add(L, m);
  return 0;
}

static int removes(lua_State *L) {
  map *m;
  lua_settop(L, 2);
  m = (map *)mwb_self(L, &mwb_map_class, "remove"); /* 3 */
  mwb_object(L, "remove", 2, 1);
  take_out(L, 3, m);
  return 1;
}

/* All changes come after the last step that could run other code. */
static int clear(lua_State *L) {
  map *m;
  lua_settop(L, 2);
  m = (map *)mwb_self(L, &mwb_map_class, "clear");
  mwb_check_nothing(L, "clear", 2);
  lua_replace(L, 2);
  lua_pushliteral(L, "get");
  lua_rawget(L, 1); /* 3 */
  renew_tables(L, 2, m);
  lua_setupvalue(L, 3, 5);
  lua_setupvalue(L, 3, 4);
  return 0;
}

/* Counts again if a collection has ended since the last count. */
static int len(lua_State *L) {
  map *m = (map *)mwb_self(L, &mwb_map_class, "len");
  int rows = lua_gettop(L) + 1;
  uint32_t pos;
  lua_getiuservalue(L, -1, MAP_ROWS);
  if (m->counted != m->data.state->collections) {
    m->counted = m->data.state->collections;
    m->len = 0;
    for (pos = 1; pos <= m->top; pos++)
      m->len += (uint32_t)is_alive(L, m, row(L, rows, pos));
  }
  lua_pushinteger(L, m->len);
  return 1;
}

/* Pushes key and value of the entry at `pos`.  Returns 0 if no living entry of
** the first `n` is there.  The stack has the rows only. */
static int push_entry(lua_State *L, map *m, uint32_t pos, uint64_t n) {
  lua_Integer h = row(L, 1, pos);
  if (h <= 0 || row_nth(L, 1, pos) > n) return 0;
  if (!mwb_alive(L, m->data.state, (mw_handle)h)) return 0;
  push_field(L, MWB_UPDATA, MAP_ENTRIES);
  if (m->on_death) lua_getiuservalue(L, -1, BOX_VALUE);
  lua_replace(L, 3);
  lua_settop(L, 3);
  return 1;
}

/* Upvalues after state and objects: the map's data, the last position, and the
** number of entries ever added when the walk began. */
static int next_entry(lua_State *L) {
  map *m = (map *)lua_touserdata(L, MWB_UPDATA);
  uint64_t n = (uint64_t)lua_tointeger(L, lua_upvalueindex(5));
  uint32_t pos;
  int found = 0;
  mwb_enter(L); /* may run this very walk */
  pos = (uint32_t)lua_tointeger(L, lua_upvalueindex(4));
  while (pos < m->top && !found) {
    lua_settop(L, 0);
    lua_getiuservalue(L, MWB_UPDATA, MAP_ROWS);
    found = push_entry(L, m, ++pos, n);
  }
  lua_pushinteger(L, pos);
  lua_replace(L, lua_upvalueindex(4));
  return found ? 2 : 0;
}

static int pairs(lua_State *L) {
  map *m = (map *)mwb_self(L, &mwb_map_class, "pairs");
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_rotate(L, -3, -1);
  lua_pushinteger(L, 0);
  lua_pushinteger(L, (lua_Integer)m->added);
  lua_pushcclosure(L, next_entry, 5);
  return 1;
}

static const luaL_Reg hot[] = {
    {"get", get}, {"has", has}, {"set", set}, {NULL, NULL}};
static const luaL_Reg cold[] = {{"remove", removes},
                                {"clear", clear},
                                {"len", len},
                                {"pairs", pairs},
                                {NULL, NULL}};
static const luaL_Reg meta[] = {
    {"__len", len}, {"__pairs", pairs}, {NULL, NULL}};

const mwb_class mwb_map_class = {"weakmap", MWB_MAP, hot, cold, meta};

/* }====================================================== */

/* {======================================================
** Deaths
** ======================================================= */

/* Is the key of the box at 1 dead, and had the key an entry?  Otherwise the map
** died, or the entry was removed.  If so, rows and places are at 3 and 4. */
static int is_dead_entry(lua_State *L, box *b) {
  map *m;
  if (b->h == MW_NONE) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, BOX_MAP);
  lua_getiuservalue(L, 2, MAP_ROWS);
  lua_getiuservalue(L, 2, MAP_PLACES);
  m = (map *)lua_touserdata(L, 2);
  return b->nth > m->cleared && !is_alive(L, m, (lua_Integer)b->h);
}

/* Needs no memory, so that no death gets lost, unless Lua has no memory to call
** this finaliser. */
static int box_gc(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  box *b = (box *)lua_touserdata(L, 1);
  if (s->engine == NULL || !is_dead_entry(L, b)) return 0;
  mwb_feeds_forget(s, b->h);
  mw_object_forget(s->engine, b->h);
  free_row(L, (map *)lua_touserdata(L, 2), 3, b->pos);
  mwb_push(L, mwb_state_of(L), MWB_QUEUE);
  lua_setiuservalue(L, 1, BOX_NEXT);
  lua_pushvalue(L, 1);
  mwb_keep(L, mwb_state_of(L), MWB_QUEUE);
  s->queued = s->pending = 1;
  return 0;
}

/* Takes the first box out of the queue and calls its on_death. */
static void tell(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L);
  box *b;
  mwb_push(L, mwb_state_of(L), MWB_QUEUE);
  b = (box *)lua_touserdata(L, -1);
  s->queued = lua_getiuservalue(L, top + 1, BOX_NEXT) != LUA_TNIL;
  mwb_keep(L, mwb_state_of(L), MWB_QUEUE);
  lua_getiuservalue(L, top + 1, BOX_MAP);
  lua_getiuservalue(L, top + 2, MAP_ONDEATH);
  lua_getiuservalue(L, top + 1, BOX_VALUE);
  lua_pushinteger(L, b->serial);
  s->notifying = 1;
  if (mwb_pcall_outside(L, s, 2, 0, 0) != LUA_OK)
    mwb_late_error(L, s, "on_death");
  s->notifying = 0;
  lua_settop(L, top);
}

/* An on_death never calls another on_death: the depth of calls would have no
** bound. */
size_t mwb_notify(lua_State *L, mwb_state *s, size_t n) {
  size_t done = 0;
  if (s->notifying) return 0;
  for (; s->queued && done < n; done++) tell(L, s);
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
  m->counted = m->sought = s->collections;
  m->added = m->cleared = 0;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, MAP_ONDEATH);
  lua_pushvalue(L, 2);
  mwb_new_object(L, &mwb_map_class); /* 3 */
  lua_pushliteral(L, "get");
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 2);
  renew_tables(L, 2, m);
  lua_pushcclosure(L, get, 5);
  lua_rawset(L, 3);
  return 1;
}

void mwb_open_weakmap(lua_State *L, mwb_state *s) {
  static const luaL_Reg box_meta[] = {{"__gc", box_gc}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"weakmap", weakmap}, {NULL, NULL}};
  (void)s;
  mwb_new_class(L, &mwb_map_class);
  mwb_push(L, mwb_state_of(L), MWB_MAP);
  mwb_seal(L, mwb_state_of(L), -1, "map:set");
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  mwb_keep(L, mwb_state_of(L), MWB_EPHEMERON);
  lua_newtable(L);
  lua_pushliteral(L, "kv");
  lua_setfield(L, -2, "__mode");
  mwb_keep(L, mwb_state_of(L), MWB_LIVING);
  lua_newtable(L);
  mwb_set_funcs(L, box_meta);
  mwb_keep(L, mwb_state_of(L), MWB_BOX);
  mwb_set_funcs(L, functions);
}
