/*
** undo.c - what was written, taken back.
** SPDX-License-Identifier: MIT
**
** First all objects get their old values, by no other code than this; then
** those who watch are told, the last write first.  So nobody sees or disturbs
** what is half done.
*/
#include "journal.h"
#include "write.h"

/* restore(object, key, value, kind): gives an object an old value again, as it
** was stored, whatever its class says. */
static int restore(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  lua_Integer kind = lua_tointeger(L, 4);
  lua_settop(L, 3);
  if (kind == MW_METATABLE) {
    mwB_setclass(L, 1, 3);
  } else if (mwB_iscell(L, 1)) {
    mwB_setcell(L, 1);
  } else if (lua_istable(L, 1)) {
    if (mwB_pushshadow(L, 1))
      mwB_put(L, 4, mwB_recordat(L, s, 1));
    else
      lua_rawset(L, 1);
  } else {
    mwB_pushnewindex(L, 1);
    mwB_callnewindex(L, 4);
  }
  return 0;
}

/* Calls `restore` for the object on the top, which goes, with key and value at
** these references.  If there is no memory, there may be after a collection. */
static int restore_entry(lua_State *L, mwB_state *s, int table,
                         const mw_entry *entry) {
  int object = lua_gettop(L), tries, status = LUA_OK;
  for (tries = 0; tries < 2; tries++) {
    mwB_push(L, MWB_RESTORE);
    lua_pushvalue(L, object);
    mwB_unpack(L, s, table, entry, MW_KEY);
    mwB_unpack(L, s, table, entry, MW_OLD);
    lua_pushinteger(L, entry->kind);
    status = lua_pcall(L, 4, 0, 0);
    if (status != LUA_ERRMEM) break;
    lua_settop(L, object);
    lua_gc(L, LUA_GCCOLLECT);
  }
  lua_remove(L, object);
  return status;
}

/* The stack of who restores: the first error. */
#define FIRST_ERROR 1

/* Keeps the error on the top if it is the first; the stack is as before. */
static void keep_error(lua_State *L) {
  if (lua_isnil(L, FIRST_ERROR))
    lua_replace(L, FIRST_ERROR);
  else
    lua_pop(L, 1);
}

void mwB_restore(void *ud, const mw_entry *entry, void *host) {
  mwB_state *s = (mwB_state *)ud;
  lua_State *L = (lua_State *)host;
  if (!mwB_alive(L, s, entry->obj))
    lua_pop(L, 1);
  else if (restore_entry(L, s, 0, entry) != LUA_OK)
    keep_error(L);
  s->L = L;
}

/* tell_undone(object, key, old, new, kind): tells who watches that the old
** value is there again. */
static int tell_undone(lua_State *L) {
  write_frame f;
  uint64_t moment;
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  lua_settop(L, 4);
  lua_pushnil(L);
  lua_insert(L, SHADOW); /* then the new one is at OLD */
  moment = mwB_beginwrite(L, &f, mwB_handleof(L, s, OBJECT), MW_ROLLBACK);
  mwB_endwrite(&f, moment);
  return 0;
}

/* Tells of an entry that was undone. */
static void tell(lua_State *L, mwB_state *s, int table, const mw_entry *entry) {
  const mwW_record *r = mwB_recordof(s, entry->obj);
  int part, top = lua_gettop(L);
  if (r == NULL || (!r->watched && r->member == 0)) return;
  mwB_push(L, MWB_TELLUNDONE);
  if (mwB_alive(L, s, entry->obj)) {
    for (part = 0; part < MW_PARTS; part++)
      mwB_unpack(L, s, table, entry, part);
    if (lua_pcall(L, 4, 0, 0) != LUA_OK) keep_error(L);
  }
  lua_settop(L, top);
}

/* rewind(mark, references) -> the first error: undoes what was noted since,
** then tells who watches; what they write then is noted and stays.  If nobody
** else records, effects may have the references. */
static int rewind_journal(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  size_t mark = (size_t)lua_tointeger(L, 1), n, ignored, i;
  uint32_t refs = (uint32_t)lua_tointeger(L, 2);
  if (s->engine == NULL) return 0;
  lua_settop(L, 0);
  lua_pushnil(L);
  s->L = L;
  s->restoring++;
  mw_rewind(s->engine, mark, L);
  s->restoring--;
  mw_entries(s->engine, mark, &n);
  for (i = mark + n; i > mark; i--) {
    const mw_entry entry = *mw_entries(s->engine, i - 1, &ignored);
    tell(L, s, 0, &entry);
  }
  s->L = L;
  mw_retract(s->engine, mark, n);
  mw_entries(s->engine, mark, &n);
  if (n == 0 && s->engine->journal.readers > 1) mwB_forgetrefs(L, s, refs);
  lua_settop(L, 1);
  return 1;
}

/* undo(effects) -> the first error: gives all objects their old values, and
** tells who watches.  That is noted like all writes. */
static int undo_effects(lua_State *L) {
  mwB_state *s = mwB_enter(L);
  const mwB_effects *fx = mwB_checkeffects(L, "rollback");
  size_t i;
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_insert(L, FIRST_ERROR);
  for (i = fx->n; i > 0; i--) {
    if (!mwB_alive(L, s, fx->entries[i - 1].obj))
      lua_pop(L, 1);
    else if (restore_entry(L, s, 2, &fx->entries[i - 1]) != LUA_OK)
      return lua_error(L);
  }
  for (i = fx->n; i > 0; i--) tell(L, s, 2, &fx->entries[i - 1]);
  lua_settop(L, 1);
  return 1;
}

void mwB_openundo(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"rewind", rewind_journal}, {"undo", undo_effects}, {NULL, NULL}};
  mwB_pushfunction(L, restore);
  lua_setiuservalue(L, MWB_UPSTATE, MWB_RESTORE);
  mwB_pushfunction(L, tell_undone);
  lua_setiuservalue(L, MWB_UPSTATE, MWB_TELLUNDONE);
  mwB_setfuncs(L, functions);
}
