/*
** rest.c - traps that nobody needs for a while.
** SPDX-License-Identifier: MIT
**
** A trap that rests is in the own metatable's [3], and __newindex is the
** shadow, so writes run at the speed of the VM.  Those that do are in a list,
** and perhaps some that no longer do, to be woken when somebody records.
*/
#include "bind.h"
#include "trace.h"

/* The dead leave the list before it grows. */
static int grow_resting(mwb_state *s) {
  mw_handle *list = s->resting;
  uint32_t i, n = 0;
  for (i = 0; i < s->n_resting; i++)
    if (mwi_identity_is_valid(&s->engine->identity, list[i]))
      list[n++] = list[i];
  s->n_resting = n;
  if (n < s->size_resting / 2) return 1;
  list = (mw_handle *)mwi_grow(s->engine, list, s->size_resting,
                               &s->size_resting, sizeof(mw_handle));
  if (list != NULL) s->resting = list;
  return list != NULL;
}

/* Puts the object at `index` in the list of those to be woken. */
static int list_resting(lua_State *L, mwi_object *r, int index) {
  mwb_state *s = mwb_state_of(L);
  if (r->resting) return 1;
  if (s->n_resting == s->size_resting && !grow_resting(s)) return 0;
  s->resting[s->n_resting++] = mwb_handle_of(L, s, index);
  r->resting = 1;
  return 1;
}

/* May the trap rest? */
static int may_rest(const mwb_state *s, const mwi_object *r) {
  if (r == NULL || r->armed > 0 || r->slow || r->counted) return 0;
  return r->watched && r->member == 0 && !r->tracked && !mwb_noting(s) &&
         !mwb_tracing(s);
}

void mwb_rest(lua_State *L, mwi_object *r, int index) {
  int top = lua_gettop(L);
  index = lua_absindex(L, index);
  if (!may_rest(mwb_state_of(L), r)) return;
  if (!mwb_push_own(L, index)) return;
  mwb_need_len(L, index, r); /* it will not see when that is needed */
  if (!list_resting(L, r, index)) {
    lua_settop(L, top);
    return;
  }
  if (lua_rawgeti(L, top + 1, MWB_OWNTRAP) == LUA_TNIL) {
    mwb_raw_field(L, top + 1, "__newindex");
    lua_rawseti(L, top + 1, MWB_OWNTRAP);
    lua_pushliteral(L, "__newindex");
    mwb_raw_field(L, top + 1, "__index");
    lua_rawset(L, top + 1);
  }
  lua_settop(L, top);
}

void mwb_wake(lua_State *L, int index) {
  int top = lua_gettop(L);
  if (!mwb_push_own(L, index)) return;
  if (lua_rawgeti(L, -1, MWB_OWNTRAP) != LUA_TNIL) {
    lua_pushliteral(L, "__newindex");
    lua_insert(L, -2);
    lua_rawset(L, top + 1);
    lua_pushnil(L);
    lua_rawseti(L, top + 1, MWB_OWNTRAP);
  }
  lua_settop(L, top);
}

void mwb_wake_all(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L);
  for (; s->n_resting > 0; s->n_resting--) {
    mw_handle h = s->resting[s->n_resting - 1];
    if (mwb_alive(L, s, h)) {
      mwb_wake(L, top + 1);
      mwb_object_of(s, h)->resting = 0;
    }
    lua_settop(L, top);
  }
}
