/*
** rollback.c - gives objects the values from before a transaction.
** SPDX-License-Identifier: MIT
**
** First all objects get their old values, and no code of the program runs.
** Then the watches are told, the last write first.  So no guard sees or
** disturbs a rollback that is half done.
*/
#include <string.h>

#include "cell.h"
#include "entry.h"
#include "identity.h"
#include "key.h"
#include "shadow.h"
#include "trap.h"

static void restore_class(lua_State *L, mwb_state *s) {
  lua_settop(L, SHADOW);
  mwb_push_class(L, OBJECT); /* OLD */
  mwb_change_class(L, s, mwb_handle_of(L, s, OBJECT));
}

/* Restores a field of a cell, or of an object that is not intercepted, and
** appends the entry of the restoring write. */
static void restore_plain(lua_State *L, mwb_state *s) {
  mw_entry entry;
  int appends = mwb_appends(s);
  if (appends) mwb_prepare_plain(L, s, &entry);
  lua_settop(L, 3);
  if (lua_istable(L, 1))
    lua_rawset(L, 1);
  else
    mwb_set_cell(L, 1);
  if (appends) mwb_append_entry(s, &entry);
}

/* restore(object, key, value, kind): stores an old value without asking the
** object's class */
static int restore(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  lua_Integer kind = lua_tointeger(L, 4);
  lua_settop(L, 3);
  if (kind == MW_METATABLE) {
    restore_class(L, s);
  } else if (lua_istable(L, 1) && mwb_push_own(L, 1)) {
    mwb_write w;
    mwb_write_open(L, s, &w, mwb_handle_of(L, s, 1), MW_ROLLBACK, 0);
    mwb_store_contents(&w);
  } else if (lua_istable(L, 1) || mwb_is_cell(L, s, 1)) {
    restore_plain(L, s);
  } else {
    mwb_push_newindex(L, 1);
    mwb_call_newindex(L, 4);
  }
  return 0;
}

/* Calls `restore` for the object on the top with the entry's key and old value,
** and pops the object.  Returns a status; unless LUA_OK, the error is on the
** top. */
static int restore_entry(lua_State *L, mwb_state *s, int table,
                         const mw_entry *entry) {
  mwb_push(L, mwb_state_of(L), MWB_RESTORE);
  lua_insert(L, -2);
  mwb_unpack(L, s, table, entry, MW_KEY);
  mwb_unpack(L, s, table, entry, MW_OLD);
  lua_pushinteger(L, entry->kind);
  return lua_pcall(L, 4, 0, 0);
}

/* The stack of a restoring function: two values of the caller, the first error,
** and the shadow of `last`. */
enum { KEPT = 1, ALSO_KEPT, FIRST_ERROR, LAST_SHADOW };

typedef struct undo {
  lua_State *L;
  mw_handle last; /* owner of LAST_SHADOW, or MW_NONE */
  int quick;      /* may the restoring function raise? */
  int short_of_memory;
} undo;

/* Pops the error on the top; keeps the first error at FIRST_ERROR. */
static void keep_error(lua_State *L) {
  if (lua_isnil(L, FIRST_ERROR))
    lua_replace(L, FIRST_ERROR);
  else
    lua_pop(L, 1);
}

/* Puts the shadow of the entry's object at LAST_SHADOW.  Returns 0 if the
** object is dead, no table, or in a tree. */
static int find_shadow(undo *u, mwb_state *s, const mw_entry *entry) {
  lua_State *L = u->L;
  const mwi_object *r = mwb_object_of(s, entry->obj);
  int top = lua_gettop(L);
  if (u->last == entry->obj) return 1;
  u->last = MW_NONE;
  if (r != NULL && r->nodes != 0) return 0;
  if (mwb_alive(L, s, entry->obj) && lua_istable(L, top + 1)) {
    mwb_push_shadow(L, top + 1);
    lua_replace(L, LAST_SHADOW);
    u->last = entry->obj;
  }
  lua_settop(L, top);
  return u->last != MW_NONE;
}

/* Restores a field of a table by one `rawset`; returns 0 if the field needs
** more. */
static int restore_quickly(undo *u, mwb_state *s, const mw_entry *entry) {
  lua_State *L = u->L;
  const mwi_object *r = mwb_object_of(s, entry->obj);
  if (entry->kind == MW_METATABLE) {
    u->last = MW_NONE; /* the object gets another shadow */
    return 0;
  }
  if (!find_shadow(u, s, entry)) return 0;
  mwb_unpack(L, s, 0, entry, MW_KEY);
  if (mwb_is_meta(L, -1) ||
      (lua_type(L, -1) == LUA_TNUMBER && r != NULL && (r->needs & MWI_SHORT))) {
    lua_pop(L, 1);
    return 0;
  }
  mwb_unpack(L, s, 0, entry, MW_OLD);
  lua_rawset(L, LAST_SHADOW);
  return 1;
}

void mwb_restore(void *ud, const mw_entry *entry, void *host) {
  mwb_state *s = (mwb_state *)ud;
  undo *u = (undo *)host;
  lua_State *L = u->L;
  if (u->quick && restore_quickly(u, s, entry)) return;
  if (!mwb_alive(L, s, entry->obj)) {
    lua_pop(L, 1);
  } else {
    int status = restore_entry(L, s, 0, entry);
    if (status != LUA_OK) keep_error(L);
    if (status == LUA_ERRMEM) u->short_of_memory = 1;
  }
}

static int restore_all(lua_State *L, mwb_state *s, size_t mark, int quick) {
  undo u = {L, MW_NONE, quick, 0};
  lua_settop(L, ALSO_KEPT);
  lua_settop(L, LAST_SHADOW);
  mw_journal_rewind(s->engine, mark, &u);
  lua_settop(L, FIRST_ERROR);
  return u.short_of_memory;
}

/* rewind_quickly(mark) -> the first error.  Raises if memory runs out. */
static int rewind_quickly(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  if (restore_all(L, s, (size_t)lua_tointeger(L, 1), 1)) mwb_check(L, MW_NOMEM);
  return 1; /* FIRST_ERROR */
}

/* Gives all objects their old values and leaves the first error on the stack.
** Restoring may start again from the mark, so the quick attempt, which may
** raise half-way, comes first.  Returns 0 if memory runs out in the careful
** attempt too; the entries stay, so the caller may try again later. */
static int restore_to(lua_State *L, mwb_state *s, size_t mark) {
  int failed = 0;
  lua_settop(L, ALSO_KEPT);
  mwb_push(L, mwb_state_of(L), MWB_REWIND);
  lua_pushinteger(L, (lua_Integer)mark);
  s->restoring++;
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) failed = restore_all(L, s, mark, 0);
  s->restoring--;
  return !failed;
}

/* tell_undone(object, key, old, new): tells the watches that the old value is
** there again */
static int tell_undone(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_write w;
  lua_settop(L, 4);
  lua_pushnil(L);
  lua_insert(L, SHADOW); /* OLD is the new value then */
  mwb_write_open(L, s, &w, mwb_handle_of(L, s, OBJECT), MW_ROLLBACK, MWB_GIVEN);
  mwb_write_count(&w);
  return mwb_write_run(&w, mwb_store_nothing);
}

/* Tells the watches of the object of an entry that was undone. */
static void tell(lua_State *L, mwb_state *s, int table, const mw_entry *entry) {
  const mwi_object *r = mwb_object_of(s, entry->obj);
  int part, top = lua_gettop(L);
  if (r == NULL || (!r->watched && r->nodes == 0)) return;
  mwb_push(L, mwb_state_of(L), MWB_TELLUNDONE);
  if (mwb_alive(L, s, entry->obj)) {
    for (part = 0; part < MW_PARTS; part++)
      mwb_unpack(L, s, table, entry, part);
    if (lua_pcall(L, 4, 0, 0) != LUA_OK) keep_error(L);
  }
  lua_settop(L, top);
}

/* Makes the memos of an entry's object out of date.  This comes before the
** first guard is called, for a guard may ask for the memo of another object. */
static void tell_memos(lua_State *L, mwb_state *s, int table,
                       const mw_entry *entry) {
  mwi_object *r = mwb_object_of(s, entry->obj);
  mw_change change;
  if (s->engine->watch.results == 0 || r == NULL) return;
  memset(&change, 0, sizeof(change));
  mwb_unpack(L, s, table, entry, MW_KEY);
  change.key = mwb_key(L, s, -1);
  mwi_write_results(s->engine, r, &change);
  lua_pop(L, 1);
}

/* Undoes the entries after the mark, then tells the watches; a guard's writes
** are appended and stay.  Releases the values with numbers above `held` if no
** entry is left and another journal is open; otherwise `cut` may have given the
** table of values to effects.  Leaves KEPT, ALSO_KEPT and the first error;
** returns 0 if memory ran out. */
static int rewind_to(lua_State *L, mwb_state *s, size_t mark, uint32_t held) {
  size_t n, ignored, i;
  if (!restore_to(L, s, mark)) return 0;
  mw_journal_entries(s->engine, mark, &n);
  for (i = mark; i < mark + n; i++)
    tell_memos(L, s, 0, mw_journal_entries(s->engine, i, &ignored));
  for (i = mark + n; i > mark; i--) {
    const mw_entry entry = *mw_journal_entries(s->engine, i - 1, &ignored);
    tell(L, s, 0, &entry);
  }
  mw_journal_retract(s->engine, mark, n);
  mw_journal_entries(s->engine, mark, &n);
  if (n == 0 && s->engine->journal.readers > 1) mwb_release_held(L, s, held);
  lua_settop(L, FIRST_ERROR);
  return 1;
}

/* rewind(mark, number of held values) -> the first error */
static int rewind_journal(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  size_t mark = (size_t)lua_tointeger(L, 1);
  uint32_t held = (uint32_t)lua_tointeger(L, 2);
  if (s->engine == NULL) return 0;
  mwb_absorb_metas(L, s);
  if (!rewind_to(L, s, mark, held)) mwb_check(L, MW_NOMEM);
  return 1;
}

/* Returns the integer in a field of the table at 1. */
static lua_Integer integer_field(lua_State *L, const char *name) {
  lua_Integer n;
  mwb_raw_field(L, 1, name);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* Is the transaction at 1 open? */
static int is_open(lua_State *L) {
  int open;
  mwb_raw_field(L, 1, "open");
  open = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return open;
}

static void set_ending(lua_State *L, int ending) {
  lua_pushboolean(L, ending);
  lua_setfield(L, 1, "ending");
}

static int absorb_metas(lua_State *L) {
  mwb_absorb_metas(L, (mwb_state *)lua_touserdata(L, 1));
  return 0;
}

/* Ends `protect`: the function has returned or raised. */
static int end_protect(lua_State *L, int status, lua_KContext context) {
  mwb_state *s = mwb_state_of(L);
  (void)context;
  if (status == LUA_OK || status == LUA_YIELD) {
    lua_pushboolean(L, 1);
    lua_replace(L, 1);
    return lua_gettop(L);
  }
  if (s->metas && s->engine != NULL) { /* an error here is not the first */
    lua_pushcfunction(L, absorb_metas);
    lua_pushlightuserdata(L, s);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
  }
  if (is_open(L)) { /* f has not ended the transaction */
    size_t mark = (size_t)integer_field(L, "mark");
    uint32_t held = (uint32_t)integer_field(L, "refs");
    int done;
    set_ending(L, 1);
    done = rewind_to(L, s, mark, held);
    set_ending(L, 0);
    if (!done) mwb_check(L, MW_NOMEM);
  }
  lua_pushboolean(L, 0);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* protect(transaction, f, ...) -> true, and the results of f(...).  If f
** raises: undoes the writes since the transaction's begin -> false, the error
** of f, and the first error of the undoing.  This is one function because there
** may be no memory for a second call. */
static int protect(lua_State *L) {
  int args = lua_gettop(L) - 2;
  luaL_checkstack(L, LUA_MINSTACK, "too many arguments");
  return end_protect(L, lua_pcallk(L, args, LUA_MULTRET, 0, 0, end_protect), 0);
}

/* undo(effects) -> the first error: gives all objects their old values, and
** tells the watches.  The restoring writes are appended to the journal, as all
** writes are. */
static int undo_effects(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mwb_effects *fx = mwb_check_effects(L, "rollback");
  size_t i;
  lua_settop(L, FIRST_ERROR); /* the effects are at KEPT */
  for (i = fx->n; i > 0; i--) {
    if (!mwb_alive(L, s, fx->entries[i - 1].obj))
      lua_pop(L, 1);
    else if (restore_entry(L, s, KEPT, &fx->entries[i - 1]) != LUA_OK)
      return lua_error(L);
  }
  for (i = 0; i < fx->n; i++) tell_memos(L, s, KEPT, &fx->entries[i]);
  for (i = fx->n; i > 0; i--) tell(L, s, KEPT, &fx->entries[i - 1]);
  lua_settop(L, FIRST_ERROR);
  return 1;
}

void mwb_open_rollback(lua_State *L) {
  static const luaL_Reg functions[] = {{"rewind", rewind_journal},
                                       {"protect", protect},
                                       {"undo", undo_effects},
                                       {NULL, NULL}};
  mwb_push_function(L, mwb_state_of(L), restore);
  mwb_keep(L, mwb_state_of(L), MWB_RESTORE);
  mwb_push_function(L, mwb_state_of(L), rewind_quickly);
  mwb_keep(L, mwb_state_of(L), MWB_REWIND);
  mwb_push_function(L, mwb_state_of(L), tell_undone);
  mwb_keep(L, mwb_state_of(L), MWB_TELLUNDONE);
  mwb_set_funcs(L, functions);
}
