/*
** clock.c - mw.clock.
** SPDX-License-Identifier: MIT
**
** A clock is a table with its methods in it, which have the data as third
** upvalue: so a call finds the method at once, and the method finds the data by
** one comparison.  The library keeps the clocks, so the address of one is never
** that of another table.
*/
#include "base.h"

#include "../trace/trace.h"

typedef struct clock_data {
  mwb_state *state;
  const void *self; /* the table's address */
  mw_clock number;
} clock_data;

static int tag(lua_State *L);

/* Returns the data of the value at 1, which is not the method's own clock, or
** raises. */
static clock_data *another(lua_State *L, const char *name) {
  clock_data *c;
  if (lua_type(L, 1) == LUA_TTABLE) {
    lua_pushliteral(L, "tag");
    lua_rawget(L, 1);
    if (lua_tocfunction(L, -1) == tag) { /* of some clock? */
      lua_getupvalue(L, -1, 3);
      c = (clock_data *)lua_touserdata(L, -1);
      lua_pop(L, 2);
      if (lua_topointer(L, 1) == c->self) return c; /* of this one? */
    }
  }
  luaL_error(L, "calling '%s' on bad self (clock expected, got %s)", name,
             mwb_type_name(L, 1));
  return NULL;
}

static inline clock_data *self(lua_State *L, const char *name) {
  clock_data *c = (clock_data *)lua_touserdata(L, MWB_UPDATA);
  mwb_state *s = c->state;
  if (lua_topointer(L, 1) != c->self) c = another(L, name); /* borrowed? */
  if (s->pending) mwb_slice(L, s);
  return c;
}

static mw_engine *engine_of(const clock_data *c) { return c->state->engine; }

/*
** Returns the slot of the value at `index`, or 0; may push.  For the hot
** methods.  A known address can belong to a dead object only if a collection's
** dead are not forgotten yet.  At other times the slot needs no look into the
** array of objects, which saves a cache miss.
*/
static uint32_t hot_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0; /* unknown to the engine */
  if (!mwb_look_for_probe(L, MWB_UPOBJECTS) && s->engine->identity.left == 0)
    return slot; /* the dead are all forgotten */
  return (lua_rawgeti(L, MWB_UPOBJECTS, slot) != LUA_TNIL) ? slot : 0;
}

static const mwi_clock *clock_of(const clock_data *c) {
  return &engine_of(c)->clock.clocks[c->number];
}

static int tag(lua_State *L) {
  clock_data *c = self(L, "tag");
  mwb_state *s = c->state;
  uint32_t slot = hot_slot(L, s, 2);
  mw_handle h;
  if (slot != 0 && mwi_clock_stamp(clock_of(c), slot)) { /* has it a page? */
    lua_pushvalue(L, 2);
    return 1;
  }
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) mwb_refuse(L);
  h = (slot != 0) ? mwi_identity_handle(&s->engine->identity, slot)
                  : mwb_enrol(L, s, "tag", 2, 1);
  mwb_check(L, mw_clock_tag(s->engine, c->number, h));
  lua_settop(L, 2);
  return 1;
}

static inline int64_t generation_at(lua_State *L, clock_data *c, int index) {
  uint32_t slot = hot_slot(L, c->state, index);
  return (slot == 0) ? -1 : mwi_clock_generation(clock_of(c), slot);
}

static int generation(lua_State *L) {
  clock_data *c = self(L, "generation");
  lua_pushinteger(L, generation_at(L, c, 2));
  return 1;
}

static int is_current(lua_State *L) {
  clock_data *c = self(L, "is_current");
  int64_t current = mw_clock_now(engine_of(c), c->number);
  lua_pushboolean(L, generation_at(L, c, 2) == current);
  return 1;
}

static int now(lua_State *L) {
  clock_data *c = self(L, "now");
  lua_pushinteger(L, mw_clock_now(engine_of(c), c->number));
  return 1;
}

static int advance(lua_State *L) {
  clock_data *c = self(L, "advance");
  mwb_state *s = c->state;
  mwb_check_nothing(L, "advance", 2);
  lua_pushinteger(L, mw_clock_advance(s->engine, c->number));
  if (s->trace->sources & MWB_EPOCHS) mwb_trace_advance(L, s, c->number);
  return 1;
}

static int reset(lua_State *L) {
  clock_data *c = self(L, "reset");
  mwb_check_nothing(L, "reset", 2);
  mw_clock_reset(engine_of(c), c->number);
  return 0;
}

/* Upvalue 3 is the walk. */
static int next_tagged(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  mw_walk *walk = (mw_walk *)lua_touserdata(L, lua_upvalueindex(3));
  mw_handle h;
  do {
    h = mw_clock_next(s->engine, walk);
    lua_settop(L, 0);
  } while (h != MW_NONE && !mwb_alive(L, s, h)); /* dead, not forgotten? */
  if (h == MW_NONE) return 0;                    /* the end of the walk */
  lua_pushinteger(L, mw_clock_generation(s->engine, walk->clock, h));
  return 2;
}

static int since(lua_State *L) {
  clock_data *c = self(L, "since");
  lua_Integer n = mwb_integer(L, "since", 2, 1);
  mw_walk *walk;
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  walk = (mw_walk *)lua_newuserdatauv(L, sizeof(mw_walk), 0);
  mw_clock_since(engine_of(c), c->number, n, walk);
  lua_pushcclosure(L, next_tagged, 3);
  return 1;
}

/* Pushes a new object for the clock whose name is at index 1, if any. */
static void new_clock(lua_State *L, mwb_state *s) {
  static const luaL_Reg methods[] = {{"tag", tag},
                                     {"generation", generation},
                                     {"is_current", is_current},
                                     {"now", now},
                                     {"advance", advance},
                                     {"since", since},
                                     {"reset", reset},
                                     {NULL, NULL}};
  clock_data *c;
  size_t len = 0;
  const char *name = lua_tolstring(L, 1, &len);
  int at;
  lua_createtable(L, 0, sizeof(methods) / sizeof(methods[0]) - 1);
  at = lua_gettop(L);
  lua_pushvalue(L, MWB_UPSTATE);
  lua_pushvalue(L, MWB_UPOBJECTS);
  c = (clock_data *)lua_newuserdatauv(L, sizeof(clock_data), 0);
  c->state = s;
  c->self = lua_topointer(L, at);
  c->number = MW_CLOCK;
  luaL_setfuncs(L, methods, 3);
  if (name != NULL) /* not the default one? */
    mwb_check(L, mw_clock_open(s->engine, name, len, &c->number));
  mwb_push(L, s, MWB_CLOCK);
  lua_setmetatable(L, at);
}

/* Clocks are kept by name; the default one by `false`. */
static int named_clock(lua_State *L) {
  mwb_state *s = mwb_enter_to_read(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1) && lua_type(L, 1) != LUA_TSTRING)
    return mwb_bad_argument(L, "clock", 1, 1, "string");
  mwb_push(L, mwb_state_of(L), MWB_CLOCKS);
  if (lua_isnil(L, 1)) /* the default one? */
    lua_pushboolean(L, 0);
  else
    lua_pushvalue(L, 1);
  lua_pushvalue(L, 3);
  if (lua_rawget(L, 2) != LUA_TNIL) return 1; /* made before? */
  lua_settop(L, 3);
  new_clock(L, s);
  lua_pushvalue(L, 4);
  lua_insert(L, 3);
  lua_rawset(L, 2);
  return 1;
}

void mwb_open_clock(lua_State *L) {
  static const luaL_Reg functions[] = {{"clock", named_clock}, {NULL, NULL}};
  mwb_new_meta(L, MWB_CLOCK, "clock", NULL, NULL);
  lua_newtable(L);
  mwb_keep(L, mwb_state_of(L), MWB_CLOCKS);
  mwb_set_funcs(L, functions);
}
