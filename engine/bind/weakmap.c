/*
** weakmap.c - mw.weakmap.
** SPDX-License-Identifier: MIT
**
**     data of a map --> entries: key -> box     (weak keys: an ephemeron table)
**                   --> rows: position -> handle  (or -next free position)
**                   --> on_death
**     box: the key's handle, its position --> value
**                             its serial  --> the data, next of the queue (*)
**
** Invariant: a key has an entry exactly while `entries` has its box and the
** box's handle is that of a living object; then rows[box.pos] is that handle.
** So a key that was found dead has no entry, even if a finaliser brought it
** back to life and Lua left its box where it was.
**
** Walks go along the rows: an entry stays at its position, and the positions
** of the removed and the dead are used again.  A walk passes over what was
** added after it began.
**
** (*) Only in maps with on_death.  Their boxes have a finaliser: a key dies and
** takes along its box, which is reachable through it alone, and the finaliser,
** which finds the value in it, puts the box into the queue.
*/
#include "bind.h"

typedef struct map {
  mwb_data data;
  uint32_t top;     /* positions from 1 to top have been used */
  uint32_t free;    /* the first free one, 0 for none */
  uint32_t swept;   /* the last one looked at for a death */
  uint32_t len;     /* entries alive ... */
  uint64_t counted; /* ... when so many collections had ended */
  uint64_t added;   /* entries there have ever been */
  uint64_t cleared; /* those up to this one were cleared away */
} map;

typedef struct box {
  mw_handle h;
  lua_Integer serial;
  uint64_t nth; /* it is the map's nth entry */
  uint32_t pos;
} box;

/* User values. */
enum { MAP_ENTRIES = 1, MAP_ROWS, MAP_ONDEATH };
enum { BOX_VALUE = 1, BOX_MAP, BOX_NEXT };

static const mwb_class map_class;

/* {======================================================
** Rows; `rows` is their table's index on the stack
** ======================================================= */

static lua_Integer row(lua_State *L, int rows, uint32_t pos) {
  lua_Integer value;
  lua_rawgeti(L, rows, pos);
  value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static void set_row(lua_State *L, int rows, uint32_t pos, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_rawseti(L, rows, pos);
}

static int is_alive(lua_State *L, map *m, lua_Integer h) {
  int alive;
  if (h <= 0) return 0; /* a free row */
  alive = mwb_alive(L, m->data.state, (mw_handle)h);
  lua_pop(L, 1);
  return alive;
}

static void free_row(lua_State *L, map *m, int rows, uint32_t pos) {
  set_row(L, rows, pos, -(lua_Integer)m->free);
  m->free = pos;
}

/* Looks at one more row, and frees it when its key is dead. */
static void sweep_row(lua_State *L, map *m, int rows) {
  lua_Integer h;
  if (m->top == 0) return;
  m->swept = (m->swept < m->top) ? m->swept + 1 : 1;
  h = row(L, rows, m->swept);
  if (h > 0 && !is_alive(L, m, h)) free_row(L, m, rows, m->swept);
}

/* A position for one more, with room made for it. */
static uint32_t reserve_row(lua_State *L, map *m, int rows) {
  if (m->free != 0) return m->free;
  if (m->top == UINT32_MAX) luaL_error(L, "too many entries in a weakmap");
  set_row(L, rows, m->top + 1, 0);
  return m->top + 1;
}

static void take_row(lua_State *L, map *m, int rows, uint32_t pos,
                     mw_handle h) {
  if (pos > m->top)
    m->top = pos;
  else
    m->free = (uint32_t)-row(L, rows, pos);
  set_row(L, rows, pos, (lua_Integer)h);
  m->len++;
}

/* }====================================================== */

/* {======================================================
** Entries; `data` is the index of the map's data, the key is at index 2
** ======================================================= */

/* The box below the top is that of a key which was found dead; here the key is
** again, so its finaliser has brought it back.  A box that has no finaliser of
** its own lets the value go. */
static void forget_value(lua_State *L) {
  if (lua_getmetatable(L, -2)) {
    lua_pop(L, 1);
  } else {
    lua_pushnil(L);
    lua_setiuservalue(L, -3, BOX_VALUE);
  }
}

/* Pushes something; if the key has an entry, its box is below the top and is
** returned, else NULL. */
static inline box *box_in(lua_State *L, int entries, map *m) {
  box *b;
  lua_pushvalue(L, 2);
  lua_rawget(L, entries);
  b = (box *)lua_touserdata(L, -1);
  if (b == NULL || mwb_alive(L, m->data.state, b->h)) return b;
  forget_value(L);
  return NULL;
}

static box *entry(lua_State *L, int data, map *m) {
  lua_getiuservalue(L, data, MAP_ENTRIES);
  return box_in(L, lua_gettop(L), m);
}

static int has_ondeath(lua_State *L) {
  int type = lua_getiuservalue(L, MWB_UPDATA, MAP_ONDEATH);
  lua_pop(L, 1);
  return type != LUA_TNIL;
}

/* Sets the value at index 3 in a box. */
static void set_value(lua_State *L, int boxindex) {
  boxindex = lua_absindex(L, boxindex);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, boxindex, BOX_VALUE);
}

/* Pushes a box without a finaliser. */
static box *new_box(lua_State *L, int ondeath) {
  box *b = (box *)lua_newuserdatauv(L, sizeof(box), ondeath ? BOX_NEXT : 1);
  b->h = MW_NONE;
  b->serial = 0;
  b->nth = 0;
  b->pos = 0;
  return b;
}

/* Gives the box at 4 its map and its finaliser. */
static void arm_box(lua_State *L) {
  lua_pushvalue(L, MWB_UPDATA);
  lua_setiuservalue(L, 4, BOX_MAP);
  mwb_push(L, mwb_state_of(L), MWB_BOX);
  lua_setmetatable(L, 4);
}

/* Adds the box at 4, all of whose memory is there. */
static void insert(lua_State *L, map *m, box *b, mw_handle h, int ondeath) {
  lua_getiuservalue(L, MWB_UPDATA, MAP_ROWS);    /* 5 */
  lua_getiuservalue(L, MWB_UPDATA, MAP_ENTRIES); /* 6 */
  if (!ondeath) {
    sweep_row(L, m, 5);
    sweep_row(L, m, 5);
  }
  b->pos = reserve_row(L, m, 5);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 4);
  lua_rawset(L, 6);
  b->h = h;
  b->nth = ++m->added;
  take_row(L, m, 5, b->pos, h);
  if (ondeath) arm_box(L);
}

/* A box with a finaliser outlives its key by a cycle of the collector.  Where
** such entries come and go, each cycle would leave more behind than the last,
** so the collector is told that more was allocated than it sees. */
static void hurry(lua_State *L) {
  if (lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCSTEP, 1);
}

/* Adds an entry for a key that had none.  What may run other code comes first;
** a finaliser may add the key meanwhile. */
static void add(lua_State *L, map *m) {
  mwb_state *s = m->data.state;
  int ondeath = has_ondeath(L);
  box *b;
  mw_handle h;
  if (ondeath && m->added % 4 == 0) hurry(L);
  b = new_box(L, ondeath);
  h = mwb_identify(L, s, "set", 2, 1);
  if (ondeath) b->serial = mwb_serial(L, s, h);
  if (entry(L, MWB_UPDATA, m) == NULL) {
    lua_settop(L, 4);
    set_value(L, 4);
    insert(L, m, b, h, ondeath);
  } else {
    set_value(L, -2);
  }
}

/* Removes the entry of a box. */
static void drop(lua_State *L, int data, map *m, box *b) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, data, MAP_ROWS);
  free_row(L, m, top + 1, b->pos);
  b->h = MW_NONE;
  lua_getiuservalue(L, data, MAP_ENTRIES);
  lua_pushvalue(L, 2);
  lua_pushnil(L);
  lua_rawset(L, top + 2);
  m->len--;
  lua_settop(L, top);
}

/* Removes the key's entry, if any, and leaves its value or nil on the top. */
static void take_out(lua_State *L, int data, map *m) {
  box *b = entry(L, data, m);
  if (b == NULL) {
    lua_pushnil(L);
  } else {
    drop(L, data, m, b);
    lua_getiuservalue(L, -2, BOX_VALUE);
  }
}

/* Pushes new tables for entries and rows. */
static void new_tables(lua_State *L) {
  lua_newtable(L);
  mwb_push(L, mwb_state_of(L), MWB_EPHEMERON);
  lua_setmetatable(L, -2);
  lua_newtable(L);
}

/* Gives the data two tables, which are on the top, and leaves that of entries
** there.  Nobody is told of the deaths of what was there. */
static void set_tables(lua_State *L, int data, map *m) {
  lua_setiuservalue(L, data, MAP_ROWS);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, data, MAP_ENTRIES);
  m->top = m->free = m->swept = m->len = 0;
  m->cleared = m->added;
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

/* The fourth upvalue of `get`, the method called most, is `entries` itself. */
#define UPENTRIES lua_upvalueindex(4)

static int get(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  int top = lua_gettop(L);
  box *b;
  if (m == NULL) return mwb_redirect(L, &map_class, "get");
  if (top < 2) lua_settop(L, 2);
  b = box_in(L, UPENTRIES, m);
  if (b != NULL)
    lua_getiuservalue(L, -2, BOX_VALUE);
  else if (top >= 3)
    lua_pushvalue(L, 3);
  else
    lua_pushnil(L);
  return 1;
}

static int has(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  if (m == NULL) return mwb_redirect(L, &map_class, "has");
  lua_settop(L, 2);
  lua_pushboolean(L, entry(L, MWB_UPDATA, m) != NULL);
  return 1;
}

static int set(lua_State *L) {
  map *m = (map *)mwb_hot_self(L);
  if (m == NULL) return mwb_redirect(L, &map_class, "set");
  mwb_object(L, "set", 2, 1);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    take_out(L, MWB_UPDATA, m);
  } else if (entry(L, MWB_UPDATA, m) != NULL) {
    set_value(L, -2);
  } else {
    lua_settop(L, 3);
    add(L, m);
  }
  return 0;
}

static int removes(lua_State *L) {
  map *m;
  lua_settop(L, 2);
  m = (map *)mwb_self(L, &map_class, "remove"); /* 3 */
  mwb_object(L, "remove", 2, 1);
  take_out(L, 3, m);
  return 1;
}

/* Changes all at once, after the last thing that could run other code. */
static int clear(lua_State *L) {
  map *m;
  lua_settop(L, 1);
  m = (map *)mwb_self(L, &map_class, "clear"); /* 2 */
  lua_pushliteral(L, "get");
  lua_rawget(L, 1); /* 3 */
  new_tables(L);
  set_tables(L, 2, m);
  lua_setupvalue(L, 3, 4);
  return 0;
}

/* Counts again when a collection has ended since the last time. */
static int len(lua_State *L) {
  map *m = (map *)mwb_self(L, &map_class, "len");
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

/* Pushes key and value of the entry with handle `h`, or returns 0 when there is
** none that was among the first `n` entries. */
static int push_entry(lua_State *L, map *m, lua_Integer h, uint64_t n) {
  int top = lua_gettop(L);
  const box *b;
  if (h <= 0 || !mwb_alive(L, m->data.state, (mw_handle)h)) return 0;
  lua_getiuservalue(L, MWB_UPDATA, MAP_ENTRIES);
  lua_pushvalue(L, top + 1);
  lua_rawget(L, top + 2);
  b = (const box *)lua_touserdata(L, -1);
  if (b->nth > n) return 0;
  lua_getiuservalue(L, -1, BOX_VALUE);
  lua_replace(L, top + 2);
  lua_settop(L, top + 2);
  return 1;
}

/* Upvalues after the usual two: the map's data, the last position, and how many
** entries there had been when the walk began. */
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
    found = push_entry(L, m, row(L, 1, ++pos), n);
  }
  lua_pushinteger(L, pos);
  lua_replace(L, lua_upvalueindex(4));
  return found ? 2 : 0;
}

static int pairs(lua_State *L) {
  map *m = (map *)mwb_self(L, &map_class, "pairs");
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

static const mwb_class map_class = {"weakmap", MWB_MAP, hot, cold, meta};

/* }====================================================== */

/* {======================================================
** Deaths
** ======================================================= */

/* Is the box at 1 that of an entry whose key is dead?  It may as well be the
** map that died, or the entry was removed.  If so, its rows are at 3. */
static int is_dead_entry(lua_State *L, box *b) {
  map *m;
  if (b->h == MW_NONE) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, BOX_MAP);
  lua_getiuservalue(L, 2, MAP_ROWS);
  m = (map *)lua_touserdata(L, 2);
  return b->nth > m->cleared && !is_alive(L, m, (lua_Integer)b->h);
}

/* Needs no memory, so that no death gets lost (but for those for whom Lua has
** not even the memory to call this). */
static int box_gc(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  box *b = (box *)lua_touserdata(L, 1);
  if (s->engine == NULL || !is_dead_entry(L, b)) return 0;
  mw_object_forget(s->engine, b->h);
  free_row(L, (map *)lua_touserdata(L, 2), 3, b->pos);
  mwb_push(L, mwb_state_of(L), MWB_QUEUE);
  lua_setiuservalue(L, 1, BOX_NEXT);
  lua_pushvalue(L, 1);
  mwb_keep(L, mwb_state_of(L), MWB_QUEUE);
  s->queued = s->pending = 1;
  return 0;
}

/* As Lua does with an error in a finaliser.  Needs no memory. */
static void warn(lua_State *L) {
  const char *message = (lua_type(L, -1) == LUA_TSTRING)
                            ? lua_tostring(L, -1)
                            : "error object is not a string";
  lua_warning(L, "error in on_death (", 1);
  lua_warning(L, message, 1);
  lua_warning(L, ")", 0);
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
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) warn(L);
  s->notifying = 0;
  lua_settop(L, top);
}

/* Not from within an on_death: the depth of calls would have no bound. */
size_t mwb_notify(lua_State *L, mwb_state *s, size_t n) {
  size_t done = 0;
  if (s->notifying) return 0;
  for (; s->queued && done < n; done++) tell(L, s);
  return done;
}

/* }====================================================== */

/* Gives `get`, in the map on the top, its upvalues; entries are at index 2. */
static void bind_get(lua_State *L) {
  lua_pushliteral(L, "get");
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, get, 4);
  lua_rawset(L, -3);
}

static int weakmap(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  map *m;
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && !lua_isfunction(L, 1))
    return mwb_bad_argument(L, "weakmap", 1, 1, "function");
  m = (map *)lua_newuserdatauv(L, sizeof(map), MAP_ONDEATH);
  m->counted = s->collections;
  m->added = m->cleared = 0;
  lua_insert(L, 1);
  lua_setiuservalue(L, 1, MAP_ONDEATH);
  new_tables(L);
  set_tables(L, 1, m);
  lua_pushvalue(L, 1);
  mwb_new_object(L, &map_class);
  bind_get(L);
  return 1;
}

void mwb_open_weakmap(lua_State *L, mwb_state *s) {
  static const luaL_Reg box_meta[] = {{"__gc", box_gc}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"weakmap", weakmap}, {NULL, NULL}};
  (void)s;
  mwb_new_class(L, &map_class);
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  mwb_keep(L, mwb_state_of(L), MWB_EPHEMERON);
  lua_newtable(L);
  mwb_set_funcs(L, box_meta);
  mwb_keep(L, mwb_state_of(L), MWB_BOX);
  mwb_set_funcs(L, functions);
}
