/*
** trap.c - the `__newindex` of tables that tell of writes.
** SPDX-License-Identifier: MIT
**
** A write that nobody hears of and nobody records is counted and stored here,
** and one that is only recorded is noted as well; these are what costs are
** measured by.  All others go the long way, through write.c.
*/
#include "journal.h"
#include "trace.h"

/* Upvalues: shadow, handle, state. */
#define TRAP_SHADOW lua_upvalueindex(1)
#define TRAP_HANDLE lua_upvalueindex(2)
#define TRAP_STATE lua_upvalueindex(3)

const char mwb_write_key = 0;

/* Is it a string that Lua looks up raw in metatables? */
static int is_meta(const char *s) { return s[0] == '_' && s[1] == '_'; }

int mwb_is_meta(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TSTRING && is_meta(lua_tostring(L, index));
}

/* Raises Lua's own error for a key that no table takes, at the line that wrote:
** the nearest one in Lua. */
static void bad_index(lua_State *L, const char *what) {
  lua_Debug caller;
  int level;
  luaL_where(L, 1);
  for (level = 2; lua_rawlen(L, -1) == 0; level++) {
    if (!lua_getstack(L, level, &caller)) break;
    luaL_where(L, level);
  }
  lua_pushfstring(L, "table index is %s", what);
  lua_concat(L, 2);
  lua_error(L);
}

/* Stores key and value, at 2 and 3 and on the top, in the shadow at `shadow`;
** a field that Lua looks up raw goes into the object too.  Raises Lua's own
** errors for keys that no table takes. */
void mwb_store_in(lua_State *L, int shadow, mwi_object *r) {
  switch (lua_type(L, 2)) {
    case LUA_TSTRING:
      if (!is_meta(lua_tostring(L, 2))) break;
      lua_pushvalue(L, 2);
      lua_pushvalue(L, 3);
      lua_rawset(L, 1);
      break;
    case LUA_TNUMBER:
      if (!lua_rawequal(L, 2, 2)) bad_index(L, "NaN");
      if (r != NULL && !r->lengthy) mwb_need_len(L, 1, r);
      break;
    case LUA_TNIL:
      bad_index(L, "nil");
      break;
    default:
      break;
  }
  lua_rawset(L, shadow);
}

/* Somebody is to hear of it, or the class has a say. */
static int trap_slowly(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &mwb_write_key);
  lua_insert(L, 1);
  lua_pushvalue(L, TRAP_SHADOW);
  lua_pushvalue(L, TRAP_HANDLE);
  lua_call(L, 5, 0);
  return 0;
}

/* Stores key and value, at 2 and 3, and notes it. */
void mwb_store_noted(lua_State *L, int shadow, mwi_object *r, mwb_state *s,
                     mw_handle h) {
  int old = lua_gettop(L) + 1;
  mw_entry entry;
  if (r != NULL && !r->lengthy && lua_type(L, 2) == LUA_TNUMBER)
    mwb_need_len(L, 1, r); /* finalisers may run in it, and write */
  mwb_begin_entry(L, s, &entry);
  lua_pushvalue(L, 2);
  lua_rawget(L, shadow);
  mwb_prepare(L, s, h, 2, 3, old, &entry);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  mwb_store_in(L, shadow, r);
  mwb_note(s, &entry);
  lua_settop(L, old - 1);
}

/* Is there nothing to the key but that it is stored?  The entry's key is set
** then. */
static int is_simple(lua_State *L, mwb_state *s, const mwi_object *r,
                     mw_entry *entry) {
  int type = lua_type(L, 2), ok;
  if (type == LUA_TSTRING) {
    const char *key = lua_tostring(L, 2);
    if (is_meta(key)) return 0;
    entry->type[MW_KEY] = MW_TOTHER;
    entry->value[MW_KEY].i = mwb_string_ref(L, s, &s->journal, 0, 2, key);
    return 1;
  }
  if (type != LUA_TNUMBER || !r->lengthy) return 0;
  entry->type[MW_KEY] = MW_TINTEGER;
  entry->value[MW_KEY].i = lua_tointegerx(L, 2, &ok);
  return ok;
}

/* The same with fewer steps, for the trap: its arguments are used up. */
static void trap_noted(lua_State *L, mwi_object *r, mwb_state *s, mw_handle h) {
  mw_entry entry;
  int old;
  entry.where = 0;
  if (s->wheres > 0 || !is_simple(L, s, r, &entry)) {
    mwb_store_noted(L, TRAP_SHADOW, r, s, h);
    return;
  }
  lua_pushvalue(L, 2);
  old = lua_rawget(L, TRAP_SHADOW);
  mwb_pack_as(L, s, &s->journal, 0, 4, old, &entry, MW_OLD);
  mwb_pack_as(L, s, &s->journal, 0, 3, lua_type(L, 3), &entry, MW_NOW);
  mwb_complete(L, s, h, &entry);
  lua_settop(L, 3);
  lua_rawset(L, TRAP_SHADOW);
  mwb_note(s, &entry);
}

/* Does a write below something change what is below it, or may somebody hear
** of it? */
static int concerns_others(lua_State *L, const mwb_state *s) {
  int type;
  if (s->engine->watch.deep > 0 || lua_type(L, 3) == LUA_TTABLE) return 1;
  lua_pushvalue(L, 2);
  type = lua_rawget(L, TRAP_SHADOW);
  lua_settop(L, 3);
  return type == LUA_TTABLE;
}

/* Somebody watches, or records. */
static int trap_hard(lua_State *L, mwb_state *s, mw_handle h, mwi_object *r) {
  int noting = mwb_noting(s);
  if (r->armed > 0 || r->slow || mwb_tracing(s) || (noting && s->ignores) ||
      (r->member != 0 && concerns_others(L, s)))
    return trap_slowly(L);
  if (r->watched || r->member != 0) mwi_object_count(s->engine, r);
  if (noting)
    trap_noted(L, r, s, h);
  else
    mwb_store_in(L, TRAP_SHADOW, r);
  return 0;
}

int mwb_trap(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, TRAP_STATE);
  mw_handle h = (mw_handle)lua_tointeger(L, TRAP_HANDLE);
  mwi_object *r = (s->engine == NULL) ? NULL : mwb_object_of(s, h);
  if (r != NULL) { /* else it was found dead */
    if (r->armed > 0 || r->slow || r->member != 0 ||
        s->engine->journal.readers > 0 || mwb_tracing(s))
      return trap_hard(L, s, h, r);
    if (r->watched) mwi_object_count(s->engine, r);
  }
  mwb_store_in(L, TRAP_SHADOW, r);
  return 0;
}
