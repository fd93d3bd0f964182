/*
** history.c - the plain steps of mw.history.
** SPDX-License-Identifier: MIT
**
** The Lua file moonwatch/history.lua knows what a history is.  What most
** programs do most often is done here without Lua: a run of a few plain writes
** becomes a plain step, which is undone and done again while nobody hears.
** What is not plain is left to Lua.
**
**     positions   FIRST ... base | base + 1 ... at ... base + n
**     steps       as Lua has them|  step  | ... | step
**                                     |
**                   entry | entry | entry | entry ... --> held values
**
** A history is a userdata.  Its user values are what Lua knows, which is the
** state, the plain steps, their entries, a table of the values that these hold,
** and a weak table with the last shadow.  `where` of an entry is the number of
** the object among the values.  Steps that follow each other share values.
** Invariant: if a value is held for two steps, all steps between hold it too.
**
** While a history is packed, the numbers here count; else those in the state.
** Whenever Lua asks for the state, plain steps become effects, and Lua has all.
*/
#include "history.h"

#include <string.h>

#include "class.h"
#include "coroutine.h"
#include "effects.h"
#include "identity.h"
#include "library.h"
#include "shadow.h"
#include "trace.h"
#include "trap.h"

/* Fields of the state of a history: as in history.lua. */
enum { AT = 1, FIRST, LAST, SEALED, LAST_ID, BASE, SAVED, NAMES, STEPS, IDS };

/* User values of a history. */
enum { VALUES = 1, STATE, PLAIN, ENTRIES, SHADOWS, N_USER = SHADOWS };

/* The writes of a plain step, at most. */
#define FEW 8

typedef struct plain {
  lua_Integer id;
  uint32_t first, n; /* entries */
  uint32_t label;    /* number of a held value */
} plain;

/* A value that is held for the last step. */
typedef struct known_value {
  const void *value;
  uint32_t number;
} known_value;

struct mwb_history {
  mwb_held held;    /* the numbers of the values */
  int special;      /* are all runs left to Lua? */
  lua_Number limit; /* 0: none */
  int packed;
  lua_Integer first, base, at, last_id; /* of a packed history */
  int sealed;
  mw_handle object; /* whose shadow is known, */
  uint64_t shadows; /* as long as this is the state's number */
  plain *steps;
  mw_entry *entries;
  uint32_t size, size_entries;
  uint32_t front, n; /* the steps from `front` on are there */
  uint32_t n_known;
  known_value known[1 + FEW * (MW_PARTS + 1)];
};

static plain *step_at(const mwb_history *h, lua_Integer position) {
  return &h->steps[h->front + (uint32_t)(position - h->base - 1)];
}

static lua_Integer last_of(const mwb_history *h) {
  return h->base + (lua_Integer)h->n;
}

/* Returns the number after the last entry. */
static uint32_t entries_end(const mwb_history *h) {
  const plain *last;
  if (h->n == 0) return 0;
  last = &h->steps[h->front + h->n - 1];
  return last->first + last->n;
}

mwb_history *mwb_to_history(lua_State *L, const mwb_state *s, int index) {
  const void *meta;
  if (!lua_getmetatable(L, index)) return NULL;
  meta = lua_topointer(L, -1);
  lua_pop(L, 1);
  return (meta == s->history_meta) ? (mwb_history *)lua_touserdata(L, index)
                                   : NULL;
}

static mwb_history *check_history(lua_State *L, const mwb_state *s,
                                  const char *name) {
  mwb_history *h = mwb_to_history(L, s, 1);
  if (h == NULL)
    luaL_error(L, "calling '%s' on bad self (history expected, got %s)", name,
               mwb_type_name(L, 1));
  return h;
}

/* Returns a number of the state, which is at `state`. */
static lua_Integer number_of(lua_State *L, int state, int field) {
  lua_Integer n;
  lua_rawgeti(L, state, field);
  n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void set_number(lua_State *L, int state, int field, lua_Integer n) {
  lua_pushinteger(L, n);
  lua_rawseti(L, state, field);
}

static int end_call(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

/* What Lua does, in MWB_HISTORIES. */
enum { RUN = 1, ADD, UNDO, REDO };

/* Calls the Lua function with all arguments instead. */
static int leave_to(lua_State *L, const mwb_state *s, int function) {
  mwb_push(L, s, MWB_HISTORIES);
  lua_rawgeti(L, -1, function);
  lua_replace(L, -2);
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, end_call);
  return end_call(L, LUA_OK, 0);
}

/* {======================================================
** Held values
** ======================================================= */

/* The numbers of the values that a step holds. */
static int numbers_of(const mwb_history *h, const plain *step,
                      uint32_t *numbers) {
  uint32_t i;
  int n = 0, part;
  numbers[n++] = step->label;
  for (i = step->first; i < step->first + step->n; i++) {
    const mw_entry *entry = &h->entries[i];
    numbers[n++] = entry->where;
    for (part = 0; part < MW_PARTS; part++)
      if (entry->type[part] == MW_TOTHER)
        numbers[n++] = (uint32_t)entry->value[part].i;
  }
  return n;
}

/* Lets the values of the step go that the other step, or NULL, does not hold.
** Needs no memory. */
static void release(lua_State *L, int history, const mwb_history *h,
                    const plain *step, const plain *other) {
  uint32_t its[1 + FEW * (MW_PARTS + 1)], kept[1 + FEW * (MW_PARTS + 1)];
  int n = numbers_of(h, step, its), i, k;
  int n_kept = (other == NULL) ? 0 : numbers_of(h, other, kept);
  lua_getiuservalue(L, history, VALUES);
  for (i = 0; i < n; i++) {
    for (k = 0; k < n_kept && kept[k] != its[i]; k++) continue;
    if (k < n_kept) continue;
    if (lua_rawgeti(L, -1, (lua_Integer)its[i]) != LUA_TNIL) {
      lua_pushnil(L);
      lua_rawseti(L, -3, (lua_Integer)its[i]);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The values that a new step holds, and those of the step before. */
typedef struct holding {
  int values; /* index of the table */
  uint32_t number;
  known_value own[1 + FEW * (MW_PARTS + 1)], *last;
  uint32_t n, n_last;
} holding;

static uint32_t find_known(const known_value *list, uint32_t n,
                           const void *value) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (list[i].value == value) return list[i].number;
  return 0;
}

/* The address of the value at `index`, of a string that of its text; NULL if
** that is not for this value alone. */
static const void *address_of(lua_State *L, int index) {
  int type = lua_type(L, index);
  if (type == LUA_TSTRING) return lua_tostring(L, index);
  return (type == LUA_TLIGHTUSERDATA) ? NULL : lua_topointer(L, index);
}

/* Pops a value and returns its number. */
static uint32_t hold(lua_State *L, holding *its) {
  const void *value = address_of(L, -1);
  uint32_t number = 0;
  if (value != NULL) {
    number = find_known(its->own, its->n, value);
    if (number == 0) number = find_known(its->last, its->n_last, value);
  }
  if (number == 0) {
    number = ++its->number;
    lua_rawseti(L, its->values, (lua_Integer)number);
  } else {
    lua_pop(L, 1);
  }
  its->own[its->n].value = value;
  its->own[its->n++].number = number;
  return number;
}

/* }====================================================== */

/* {======================================================
** From Lua and back
** ======================================================= */

/* The core gets the numbers, if no step is undone.  Returns whether the history
** is packed. */
static int pack(lua_State *L, int history, mwb_history *h) {
  int state = lua_gettop(L) + 1;
  if (h->packed) return 1;
  lua_getiuservalue(L, history, STATE);
  h->at = number_of(L, state, AT);
  if (!h->special && h->at == number_of(L, state, LAST)) {
    h->first = number_of(L, state, FIRST);
    h->last_id = number_of(L, state, LAST_ID);
    lua_rawgeti(L, state, SEALED);
    h->sealed = lua_toboolean(L, -1);
    h->base = h->at;
    h->front = h->n = h->n_known = 0;
    h->packed = 1;
  }
  lua_settop(L, state - 1);
  return h->packed;
}

/* Pushes the first plain step as effects.  Finalisers may run. */
static void push_effects(lua_State *L, mwb_state *s, int history,
                         const mwb_history *h) {
  const plain *step = &h->steps[h->front];
  mw_entry entries[FEW];
  uint32_t i, n = step->n;
  for (i = 0; i < n; i++) {
    entries[i] = h->entries[step->first + i];
    entries[i].where = 0;
  }
  lua_getiuservalue(L, history, VALUES);
  mwb_push_copies(L, s, entries, n, lua_gettop(L));
  lua_replace(L, -2);
}

/* Puts the value on the top into an array of the state, and pops the value. */
static void put_at(lua_State *L, int state, int field, lua_Integer position) {
  lua_rawgeti(L, state, field);
  lua_insert(L, -2);
  lua_rawseti(L, -2, position);
  lua_pop(L, 1);
}

/* The first plain step becomes one of Lua's. */
static void unpack_first(lua_State *L, mwb_state *s, int history, int state,
                         mwb_history *h) {
  lua_Integer id = h->steps[h->front].id;
  const plain *step;
  push_effects(L, s, history, h);
  step = &h->steps[h->front];
  if (h->n == 0 || step->id != id) { /* a finaliser was here */
    lua_pop(L, 1);
    return;
  }
  put_at(L, state, STEPS, h->base + 1);
  lua_getiuservalue(L, history, VALUES);
  lua_rawgeti(L, -1, (lua_Integer)step->label);
  lua_replace(L, -2);
  put_at(L, state, NAMES, h->base + 1);
  lua_pushinteger(L, id);
  put_at(L, state, IDS, h->base + 1);
  h->base++;
  h->front++;
  h->n--;
}

/* Lua gets all steps and the numbers.  Pushes the state.  If there is no memory
** for all, the core has the rest. */
static void unpack(lua_State *L, mwb_state *s, int history, mwb_history *h) {
  int state = lua_gettop(L) + 1;
  lua_getiuservalue(L, history, STATE);
  if (!h->packed) return;
  while (h->n > 0) unpack_first(L, s, history, state, h);
  if (!h->packed) return;
  set_number(L, state, AT, h->at);
  set_number(L, state, FIRST, h->first);
  set_number(L, state, LAST, h->base);
  set_number(L, state, LAST_ID, h->last_id);
  lua_pushboolean(L, h->sealed);
  lua_rawseti(L, state, SEALED);
  lua_pushnil(L);
  lua_setiuservalue(L, history, VALUES);
  h->held.n = 0;
  h->packed = 0;
}

/* history_state(value) -> the state of a history; nil if it is none.  May be
** called where a transaction ends, so other work waits. */
static int history_state(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_history *h;
  lua_settop(L, 1);
  h = mwb_to_history(L, s, 1);
  if (h == NULL) return 0;
  unpack(L, s, 1, h);
  return 1;
}

/* make_special(history): all runs are left to Lua from now on */
static int make_special(lua_State *L) {
  mwb_to_history(L, mwb_state_of(L), 1)->special = 1;
  return 0;
}

/* new_history(state, special, limit or 0) -> history */
static int new_history(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_history *h;
  lua_settop(L, 3);
  mwb_push_weak(L);
  h = (mwb_history *)lua_newuserdatauv(L, sizeof(*h), N_USER);
  memset(h, 0, sizeof(*h));
  h->special = lua_toboolean(L, 2);
  h->limit = lua_tonumber(L, 3);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, STATE);
  lua_pushboolean(L, 0);
  lua_rawseti(L, 4, 1); /* a place for a shadow */
  lua_pushvalue(L, 4);
  lua_setiuservalue(L, -2, SHADOWS);
  mwb_push(L, s, MWB_HISTORY);
  lua_setmetatable(L, -2);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Runs
** ======================================================= */

static int has_room(lua_State *L, int history, const mwb_history *h,
                    uint32_t n) {
  int has_values = lua_getiuservalue(L, history, VALUES) != LUA_TNIL;
  lua_pop(L, 1);
  return has_values && h->front + h->n < h->size &&
         entries_end(h) + n <= h->size_entries;
}

static uint32_t size_for(uint32_t size, uint32_t used) {
  if (size < 4) return 4;
  return (used > size / 2) ? 2 * size : size;
}

/* Makes room for a step of up to FEW entries.  Finalisers may run. */
static void make_room(lua_State *L, int history, mwb_history *h) {
  uint32_t from = (h->n == 0) ? 0 : h->steps[h->front].first, i;
  uint32_t n = size_for(h->size, h->n);
  uint32_t m = size_for(h->size_entries, entries_end(h) - from + FEW);
  plain *steps;
  mw_entry *entries;
  lua_newtable(L);
  steps = (plain *)lua_newuserdatauv(L, n * sizeof(*steps), 0);
  entries = (mw_entry *)lua_newuserdatauv(L, m * sizeof(*entries), 0);
  from = (h->n == 0) ? 0 : h->steps[h->front].first;
  if (h->n >= n || entries_end(h) - from > m) { /* a finaliser was here */
    lua_pop(L, 3);
    return;
  }
  if (h->n > 0) {
    memcpy(steps, h->steps + h->front, h->n * sizeof(*steps));
    memcpy(entries, h->entries + from,
           (entries_end(h) - from) * sizeof(*entries));
  }
  for (i = 0; i < h->n; i++) steps[i].first -= from;
  lua_setiuservalue(L, history, ENTRIES);
  lua_setiuservalue(L, history, PLAIN);
  h->front = 0;
  h->steps = steps;
  h->entries = entries;
  h->size = n;
  h->size_entries = m;
  if (lua_getiuservalue(L, history, VALUES) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_setiuservalue(L, history, VALUES);
  } else {
    lua_pop(L, 2);
  }
}

/* Is the value on the top no key of a plain write? */
static int is_odd_key(lua_State *L, const mwb_state *s) {
  return mwb_is_meta(L, -1) || (lua_type(L, -1) == LUA_TSTRING &&
                                lua_rawlen(L, -1) > s->short_string);
}

/* Are the entries plain writes? */
static int are_plain(const mwb_state *s, const mw_entry *entries, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (entries[i].kind > MW_DELETE || entries[i].where != 0 ||
        (mw_object_flags(s->engine, entries[i].obj) & MW_PINNED) != 0)
      return 0;
  return n > 0 && n <= FEW;
}

/* Does the entry change its field?  The history holds the values. */
static int is_change(lua_State *L, int history, const mwb_history *h,
                     const mw_entry *entry) {
  int same;
  if (entry->kind != MW_UPDATE) return 1;
  mwb_unpack(L, &h->held, history, entry, MW_OLD);
  mwb_unpack(L, &h->held, history, entry, MW_NOW);
  same = mwb_is_same(L, -1, -2);
  lua_pop(L, 2);
  return !same;
}

/* Does an entry before `i` have the same field? */
static int is_again(const mw_entry *entries, size_t i) {
  size_t k;
  for (k = 0; k < i; k++)
    if (entries[k].obj == entries[i].obj &&
        entries[k].type[MW_KEY] == entries[i].type[MW_KEY] &&
        entries[k].value[MW_KEY].i == entries[i].value[MW_KEY].i)
      return 1;
  return 0;
}

/* Copies the entries of the transaction behind the last ones, with the values.
** Returns 0 if the writes are not plain after all: a key is odd, a field is
** written twice, or nothing changes. */
static int copy_entries(lua_State *L, mwb_state *s, int history,
                        const mwb_history *h, const mwb_coroutine *t,
                        const mw_entry *from, size_t n, holding *its) {
  mw_entry *to = h->entries + entries_end(h);
  int part, changes = 0;
  size_t i;
  for (i = 0; i < n; i++) {
    to[i] = from[i];
    if (!mwb_alive(L, s, from[i].obj)) return 0;
    to[i].where = hold(L, its);
    for (part = 0; part < MW_PARTS; part++) {
      if (from[i].type[part] != MW_TOTHER) continue;
      mwb_unpack(L, &t->held, 0, &from[i], part);
      if (part == MW_KEY && is_odd_key(L, s)) return 0;
      to[i].value[part].i = hold(L, its);
    }
    if (is_again(to, i)) return 0;
    changes = changes || is_change(L, history, h, &to[i]);
  }
  return changes;
}

/* Finalisers may run until there is room; then all begins again. */
int mwb_prepare_step(lua_State *L, mwb_state *s, mw_owner owner, int history,
                     int label) {
  mwb_history *h = (mwb_history *)lua_touserdata(L, history);
  const mwb_coroutine *t = mwb_coroutine_of(s, owner);
  int top = lua_gettop(L), ok;
  const mw_entry *from;
  holding its;
  plain *step;
  size_t n;
  for (;;) {
    from = mw_owner_entries(s->engine, owner, &n);
    if (s->engine->journal.open != 1 || t->viewed > 0 ||
        !are_plain(s, from, n) || !pack(L, history, h) || h->at < h->base ||
        h->held.n > UINT32_MAX / 2)
      return 0;
    if (has_room(L, history, h, (uint32_t)n)) break;
    make_room(L, history, h);
  }
  lua_getiuservalue(L, history, VALUES);
  its.values = top + 1;
  its.number = h->held.n;
  its.last = h->known;
  its.n = 0;
  its.n_last = (h->at == last_of(h)) ? h->n_known : 0;
  step = &h->steps[h->front + h->n];
  step->first = entries_end(h);
  step->n = (uint32_t)n;
  lua_pushvalue(L, label);
  step->label = hold(L, &its);
  ok = copy_entries(L, s, history, h, t, from, n, &its);
  lua_settop(L, its.values);
  for (; !ok && its.number > h->held.n; its.number--) {
    lua_pushnil(L);
    lua_rawseti(L, its.values, (lua_Integer)its.number);
  }
  lua_settop(L, top);
  if (!ok) return 0;
  h->held.n = its.number;
  h->n_known = its.n;
  memcpy(h->known, its.own, its.n * sizeof(known_value));
  return 1;
}

/* Forgets the steps that are undone.  The step behind them stays. */
static void cut(lua_State *L, int history, mwb_history *h) {
  uint32_t i, to = (uint32_t)(h->at - h->base);
  plain *steps = h->steps + h->front, its = steps[h->n];
  uint32_t first = (to == h->n) ? its.first : steps[to].first;
  if (to == h->n) return;
  for (i = to; i < h->n; i++)
    release(L, history, h, &steps[i], (to == 0) ? NULL : &steps[to - 1]);
  memmove(h->entries + first, h->entries + its.first, its.n * sizeof(mw_entry));
  its.first = first;
  steps[to] = its;
  h->n = to;
}

/* The limit makes room for the step behind the last one. */
static void drop_oldest(lua_State *L, int history, mwb_history *h) {
  int state = lua_gettop(L) + 1, field;
  lua_getiuservalue(L, history, STATE);
  if (h->first > h->base) {
    set_number(L, state, BASE, h->steps[h->front].id);
    release(L, history, h, &h->steps[h->front], &h->steps[h->front + 1]);
    h->front++;
    h->n--;
    h->base++;
  } else {
    lua_rawgeti(L, state, IDS);
    lua_rawgeti(L, -1, h->first);
    lua_rawseti(L, state, BASE);
    for (field = NAMES; field <= IDS; field++) {
      lua_rawgeti(L, state, field);
      lua_pushnil(L);
      lua_rawseti(L, -2, h->first);
    }
  }
  h->first++;
  lua_settop(L, state - 1);
}

void mwb_add_step(lua_State *L, int history) {
  mwb_history *h = (mwb_history *)lua_touserdata(L, history);
  cut(L, history, h);
  h->steps[h->front + h->n].id = ++h->last_id;
  if (h->limit > 0 && (lua_Number)(h->at + 1 - h->first) >= h->limit)
    drop_oldest(L, history, h);
  h->n++;
  h->at++;
  h->sealed = 0;
}

/* Is the value with that number in the coroutine the string that the last step
** holds?  Only the cache is asked. */
static int is_known_string(const mwb_state *s, const mwb_held *held,
                           int64_t number, const mwb_history *h,
                           uint32_t own_number) {
  uint32_t i;
  for (i = 0; i < h->n_known; i++) {
    if (h->known[i].number == own_number) {
      const void *string = h->known[i].value;
      const mwb_known *cached = &s->known[((uintptr_t)string >> 4) % 64];
      return string != NULL && cached->string == string &&
             cached->id == held->id && cached->number == number;
    }
  }
  return 0;
}

int mwb_add_known_step(lua_State *L, mwb_state *s, mw_owner owner, int history,
                       int label) {
  mwb_history *h = (mwb_history *)lua_touserdata(L, history);
  const mwb_held *held = &mwb_coroutine_of(s, owner)->held;
  const plain *last;
  const mw_entry *model;
  mw_entry *to;
  plain *step;
  size_t n;
  const mw_entry *from = mw_owner_entries(s->engine, owner, &n);
  if (n != 1 || !h->packed || h->n == 0 || h->at != last_of(h) ||
      h->front + h->n >= h->size || entries_end(h) >= h->size_entries)
    return 0;
  last = step_at(h, h->at);
  model = &h->entries[last->first];
  if (last->n != 1 || from->obj != model->obj || from->where != 0 ||
      from->kind != MW_UPDATE || from->type[MW_OLD] != MW_TINTEGER ||
      from->type[MW_NOW] != MW_TINTEGER ||
      from->value[MW_OLD].i == from->value[MW_NOW].i ||
      from->type[MW_KEY] != model->type[MW_KEY] ||
      find_known(h->known, 1, lua_tostring(L, label)) == 0)
    return 0;
  if (from->type[MW_KEY] == MW_TOTHER &&
      !is_known_string(s, held, from->value[MW_KEY].i, h,
                       (uint32_t)model->value[MW_KEY].i))
    return 0;
  to = &h->entries[entries_end(h)];
  *to = *from;
  to->where = model->where;
  if (from->type[MW_KEY] == MW_TOTHER) to->value[MW_KEY] = model->value[MW_KEY];
  step = &h->steps[h->front + h->n];
  step->first = entries_end(h);
  step->n = 1;
  step->label = last->label;
  mwb_add_step(L, history);
  return 1;
}

/* run(history, label, function, ...) -> results */
static int run(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mwb_history *h = check_history(L, s, "run");
  if (lua_type(L, 2) != LUA_TSTRING || !lua_isfunction(L, 3)) {
    int arg = (lua_type(L, 2) != LUA_TSTRING) ? 1 : 2;
    lua_settop(L, 3);
    return mwb_bad_argument(L, "run", arg + 1, arg,
                            (arg == 1) ? "string" : "function");
  }
  if (s->engine->journal.open > 0 || h->special) return leave_to(L, s, RUN);
  return mwb_run_step(L, s);
}

void mwb_push_adder(lua_State *L, const mwb_state *s) {
  mwb_push(L, s, MWB_HISTORIES);
  lua_rawgeti(L, -1, ADD);
  lua_replace(L, -2);
}

/* }====================================================== */

/* {======================================================
** Undo and redo
** ======================================================= */

/* Can writes to tables be made by `rawset`, because nothing waits, and nobody
** hears or records them or has a say? */
static int is_silent(const mwb_state *s) {
  return s->engine != NULL && !s->pending && s->batches == 0 &&
         s->engine->watch.results == 0 && !mwb_tracing(s) &&
         (s->needs & (MWB_APPENDS | MWB_IGNORES)) == 0;
}

/* Does a write to the object need more? */
static int needs_more(const mwi_object *r, const mw_entry *entry) {
  unsigned more = MWI_CLASS | MWI_META;
  if (entry->type[MW_KEY] == MW_TINTEGER) more |= MWI_SHORT;
  return r == NULL || r->watched || r->nodes != 0 || (r->needs & more) != 0;
}

/* Pushes the shadow of the object on the top, and remembers it.  Returns 0 if
** there is none. */
static int find_shadow(lua_State *L, const mwb_state *s, mwb_history *h,
                       mw_handle obj) {
  if (!lua_getmetatable(L, -1)) return 0;
  mwb_push_name(L, s, MWB_NEWINDEX);
  lua_rawget(L, -2);
  if (lua_tocfunction(L, -1) != mwb_trap) return 0;
  lua_getupvalue(L, -1, MWB_TRAP_SHADOW);
  lua_getiuservalue(L, 1, SHADOWS);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, 1); /* there is a place */
  lua_pop(L, 1);
  h->object = obj;
  h->shadows = s->shadows;
  return 1;
}

/* Pushes the shadow of the object.  Returns 0 if there is none, or if something
** was put raw into the object.  No finaliser runs. */
static int push_contents(lua_State *L, const mwb_state *s, mwb_history *h,
                         mw_handle obj) {
  if (lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(obj)) != LUA_TTABLE) return 0;
  lua_pushnil(L);
  if (lua_next(L, -2)) return 0;
  if (h->object != obj || h->shadows != s->shadows)
    return find_shadow(L, s, h, obj);
  lua_getiuservalue(L, 1, SHADOWS);
  return lua_rawgeti(L, -1, 1) == LUA_TTABLE;
}

/* Pushes a part of an entry; the held values are at `values`. */
static void push_part(lua_State *L, int values, const mw_entry *entry,
                      int part) {
  if (entry->type[part] == MW_TOTHER)
    lua_rawgeti(L, values, (lua_Integer)entry->value[part].i);
  else
    mwb_unpack(L, NULL, 0, entry, part);
}

/* Is the value on the top that part of the entry? */
static int is_part(lua_State *L, int values, const mw_entry *entry, int part) {
  if (entry->type[part] == MW_TINTEGER)
    return lua_isinteger(L, -1) &&
           lua_tointeger(L, -1) == (lua_Integer)entry->value[part].i;
  push_part(L, values, entry, part);
  return mwb_is_same(L, -2, -1);
}

/* Writes the part `to` of an entry, if the field holds the part `from`, and
** `writes`.  Returns 0 if that is not all. */
static int write_entry(lua_State *L, mwb_state *s, mwb_history *h, int values,
                       const mw_entry *entry, int from, int to, int writes) {
  mwi_object *r = mwb_object_of(s, entry->obj);
  int shadow;
  if (needs_more(r, entry) || !push_contents(L, s, h, entry->obj)) return 0;
  shadow = lua_gettop(L);
  push_part(L, values, entry, MW_KEY);
  lua_rawget(L, shadow);
  if (!is_part(L, values, entry, from)) return 0;
  if (!writes) return 1;
  push_part(L, values, entry, MW_KEY);
  push_part(L, values, entry, to);
  lua_rawset(L, shadow);
  mwi_object_renew(s->engine, r);
  return 1;
}

/* Writes the parts `to` of the step's entries, if all fields hold the parts
** `from`, and nobody hears.  Returns 0 if it has done nothing.  Only a single
** write may need memory, for else half of the step might be done. */
static int write_step(lua_State *L, mwb_state *s, mwb_history *h,
                      const plain *step, int from, int to) {
  const mw_entry *entries = &h->entries[step->first];
  int values = lua_gettop(L), writes;
  uint32_t i;
  if (step->n == 1) return write_entry(L, s, h, values, entries, from, to, 1);
  for (writes = 0; writes < 2; writes++) {
    for (i = 0; i < step->n; i++) {
      if (entries[i].type[from] == MW_TABSENT ||
          !write_entry(L, s, h, values, &entries[i], from, to, writes))
        return 0;
      lua_settop(L, values);
    }
  }
  return 1;
}

/* Undoes (-1) or does again (1) a step, if that is simple, and pushes the
** label; or returns 0. */
static int travel_simply(lua_State *L, mwb_state *s, mwb_history *h, int by) {
  int from = (by < 0) ? MW_NOW : MW_OLD, values;
  const plain *step;
  if (!h->packed || !is_silent(s)) return 0;
  if ((by < 0) ? h->at <= h->base : h->at < h->base || h->at == last_of(h))
    return 0;
  step = step_at(h, (by < 0) ? h->at : h->at + 1);
  lua_getiuservalue(L, 1, VALUES);
  values = lua_gettop(L);
  if (!write_step(L, s, h, step, from, MW_OLD + MW_NOW - from)) return 0;
  h->at += by;
  h->sealed = 1;
  lua_rawgeti(L, values, (lua_Integer)step->label);
  return 1;
}

/* `function` is what Lua does.  What a step holds is alive, so there is no look
** for collections. */
static int travel(lua_State *L, const char *name, int by, int function) {
  mwb_state *s = mwb_state_of(L);
  mwb_history *h = check_history(L, s, name);
  if (travel_simply(L, s, h, by)) return 1;
  lua_settop(L, 1);
  mwb_enter(L);
  return leave_to(L, s, function);
}

/* undo(history) -> label */
static int undo(lua_State *L) { return travel(L, "undo", -1, UNDO); }

/* redo(history) -> label */
static int redo(lua_State *L) { return travel(L, "redo", 1, REDO); }

/* }====================================================== */

/* {======================================================
** What a history knows
** ======================================================= */

/* Returns a number, from the core or from the state at `state`. */
static lua_Integer known_number(lua_State *L, const mwb_history *h, int state,
                                int field) {
  if (!h->packed) return number_of(L, state, field);
  return (field == AT) ? h->at : (field == FIRST) ? h->first : last_of(h);
}

/* Pushes the id of the present state: that of the last step, or of the step
** that the limit has dropped last. */
static void push_id(lua_State *L, const mwb_history *h, int state) {
  lua_Integer at = known_number(L, h, state, AT);
  if (at < known_number(L, h, state, FIRST)) {
    lua_rawgeti(L, state, BASE);
  } else if (h->packed && at > h->base) {
    lua_pushinteger(L, step_at(h, at)->id);
  } else {
    lua_rawgeti(L, state, IDS);
    lua_rawgeti(L, -1, at);
    lua_replace(L, -2);
  }
}

/* Begins a method without arguments; the state is at 2. */
static mwb_history *begin_method(lua_State *L, const char *name) {
  mwb_history *h = check_history(L, mwb_state_of(L), name);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, STATE);
  return h;
}

static int can_undo(lua_State *L) {
  const mwb_history *h = begin_method(L, "can_undo");
  lua_pushboolean(L, known_number(L, h, 2, AT) >= known_number(L, h, 2, FIRST));
  return 1;
}

static int can_redo(lua_State *L) {
  const mwb_history *h = begin_method(L, "can_redo");
  lua_pushboolean(L, known_number(L, h, 2, AT) < known_number(L, h, 2, LAST));
  return 1;
}

/* labels(history) -> array of the labels of the steps that are done */
static int labels(lua_State *L) {
  const mwb_history *h = begin_method(L, "labels");
  lua_Integer i, n = 0, at;
  lua_newtable(L); /* at 3; finalisers may run */
  lua_rawgeti(L, 2, NAMES);
  lua_getiuservalue(L, 1, VALUES);
  at = known_number(L, h, 2, AT);
  for (i = known_number(L, h, 2, FIRST); i <= at; i++) {
    if (h->packed && i > h->base)
      lua_rawgeti(L, 5, (lua_Integer)step_at(h, i)->label);
    else
      lua_rawgeti(L, 4, i);
    lua_rawseti(L, 3, ++n);
  }
  lua_settop(L, 3);
  return 1;
}

/* mark_saved(history): the program has saved the present state */
static int mark_saved(lua_State *L) {
  push_id(L, begin_method(L, "mark_saved"), 2);
  lua_rawseti(L, 2, SAVED);
  return 0;
}

/* is_saved(history): is the present state the saved one? */
static int is_saved(lua_State *L) {
  push_id(L, begin_method(L, "is_saved"), 2);
  lua_rawgeti(L, 2, SAVED);
  lua_pushboolean(L, lua_rawequal(L, -1, -2));
  return 1;
}

/* }====================================================== */

/* prepare_histories(run, add, undo, redo): sets the functions of Lua */
static int prepare(lua_State *L) {
  int i;
  lua_settop(L, REDO);
  lua_createtable(L, REDO, 0);
  lua_insert(L, 1);
  for (i = REDO; i >= RUN; i--) lua_rawseti(L, 1, i);
  mwb_keep(L, mwb_state_of(L), MWB_HISTORIES);
  return 0;
}

void mwb_open_histories(lua_State *L) {
  static const luaL_Reg functions[] = {{"new_history", new_history},
                                       {"history_state", history_state},
                                       {"make_special", make_special},
                                       {"prepare_histories", prepare},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"run", run},
                                     {"undo", undo},
                                     {"redo", redo},
                                     {"can_undo", can_undo},
                                     {"can_redo", can_redo},
                                     {"labels", labels},
                                     {"mark_saved", mark_saved},
                                     {"is_saved", is_saved},
                                     {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}};
  mwb_state *s = mwb_state_of(L);
  s->history_meta = mwb_new_meta(L, MWB_HISTORY, "history", none, methods);
  mwb_set_funcs(L, functions);
  mwb_push(L, s, MWB_HISTORY);
  lua_getfield(L, -1, "__index");
  lua_setfield(L, -3, "history_methods");
  lua_pop(L, 1);
}
