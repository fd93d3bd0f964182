/*
** fold.c - what entries have changed, field by field.
** SPDX-License-Identifier: MIT
**
** No function here does other work that is due (see `mwb_enter`), so a caller
** may be in the middle of a change of its own.
**
** A fold has the fields of the entries that it was given, in the order in which
** it met them, each with the first and the last entry; a table finds them.  It
** lasts as long as one call:
**
**     entries   a.x   a.y   b.x   a.x   ...
**                ^                 ^
**                +-- first  last --+
**     fields    | a.x | a.y | b.x | ...
*/
#include "../watch/watch.h"

#include <string.h>

#include "../base/base.h"
#include "../traps/trap.h"
#include "../traps/traps.h"
#include "journal.h"

void mwb_unpack_in(lua_State *L, const mwb_place *p, const mw_entry *entry,
                   int part) {
  if (p->page == 0 || entry->type[part] != MW_TOTHER) { /* not in a page? */
    mwb_unpack(L, p->values, entry, part);
    return;
  }
  lua_rawgeti(L, p->values,
              (lua_Integer)(entry->seq / MWI_READER_PAGE + 2 - p->page));
  lua_rawgeti(L, -1, (lua_Integer)(uint32_t)entry->value[part].i);
  lua_replace(L, -2);
}

/* The keys of entries in pages have their hash: see `mwb_mark_key`. */
static uint64_t hash_key(lua_State *L, const mwb_state *s, const mwb_place *p,
                         const mw_entry *entry) {
  uint32_t hash;
  if (!mwi_is_of_field(entry->kind)) return 0; /* a class, a state? */
  if (entry->type[MW_KEY] != MW_TOTHER)        /* a number, a boolean? */
    return (uint64_t)entry->value[MW_KEY].i + 1;
  if (p->page != 0) return ((uint64_t)entry->value[MW_KEY].i >> 32) + 1;
  mwb_unpack(L, p->values, entry, MW_KEY);
  hash = mwb_hash_key(L, s, lua_gettop(L));
  lua_pop(L, 1);
  return (uint64_t)hash + 1;
}

static uint32_t hash_field(mw_handle obj, uint64_t key) {
  const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(((obj ^ key * factor) * factor) >> 32);
}

int mwb_is_same_part(lua_State *L, const mwb_place *p, const mw_entry *a,
                     int part_a, const mw_entry *b, int part_b) {
  int same, type = a->type[part_a];
  mw_content x = a->value[part_a], y = b->value[part_b];
  if (type != b->type[part_b]) return 0;
  if (type == MW_TNIL || type == MW_TABSENT) return 1;
  if (x.i == y.i && (type != MW_TOTHER || p->page == 0 || /* and one table? */
                     a->seq / MWI_READER_PAGE == b->seq / MWI_READER_PAGE))
    return 1;
  if (type != MW_TOTHER)
    return type == MW_TFLOAT && x.f != x.f && y.f != y.f; /* not a number? */
  mwb_unpack_in(L, p, a, part_a);
  mwb_unpack_in(L, p, b, part_b);
  same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* Are the entries of one field?  The state of a userdata is one field, whatever
** mutator has changed it. */
static int is_same_field(lua_State *L, const mwb_place *p, const mw_entry *a,
                         const mw_entry *b) {
  if (a->obj != b->obj) return 0;
  if (!mwi_is_of_field(a->kind) || !mwi_is_of_field(b->kind)) /* no keys? */
    return a->kind == b->kind;
  return mwb_is_same_part(L, p, a, MW_KEY, b, MW_KEY);
}

void mwb_fold_begin(lua_State *L, mwb_fold *f, const mwb_place *place,
                    size_t n) {
  uint64_t *room;
  f->place = place;
  f->n = 0;
  f->fields = f->few;
  room = f->few_room;
  if (n > MWI_FEW) { /* too many for its own room? */
    size_t size = mwi_table_room((uint32_t)n);
    room = (uint64_t *)lua_newuserdatauv(L, size + n * sizeof(mwb_folded), 0);
    f->fields = (mwb_folded *)(void *)((char *)room + size);
  } else {
    lua_pushnil(L);
  }
  mwi_table_lend(&f->table, room, (uint32_t)n);
}

mwb_folded *mwb_fold_find(lua_State *L, const mwb_state *s, mwb_fold *f,
                          uint32_t number) {
  const mw_entry *entries = f->place->entries, *entry = &entries[number - 1];
  uint32_t hash = hash_field(entry->obj, hash_key(L, s, f->place, entry)), i;
  mwi_search at;
  mwb_folded *field;
  for (i = mwi_table_first(&f->table, hash, &at); i != 0;
       i = mwi_table_next(&f->table, &at)) {
    const mw_entry *other;
    field = &f->fields[i - 1];
    other = &entries[field->last - 1];
    if (is_same_field(L, f->place, other, entry)) return field;
  }
  field = &f->fields[f->n++];
  mwi_table_put(s->engine, &f->table, hash, f->n);
  field->first = field->last = 0;
  return field;
}

const mwb_folded *mwb_fold_field(lua_State *L, mwb_state *s, const mwb_fold *f,
                                 mw_handle obj, int key) {
  mw_value v = mwb_key(L, s, key);
  uint64_t hash =
      (v.type > MW_TFLOAT) ? mwb_hash_key(L, s, key) : (uint64_t)v.u.i;
  const mwb_folded *found = NULL;
  mwi_search at;
  uint32_t i = mwi_table_first(&f->table, hash_field(obj, hash + 1), &at);
  for (; i != 0 && found == NULL; i = mwi_table_next(&f->table, &at)) {
    const mw_entry *entry = &f->place->entries[f->fields[i - 1].last - 1];
    if (entry->obj != obj || !mwi_is_of_field(entry->kind)) continue;
    mwb_unpack_in(L, f->place, entry, MW_KEY);
    if (lua_rawequal(L, -1, key)) found = &f->fields[i - 1];
    lua_pop(L, 1);
  }
  return found;
}

/* actual(object, key, kind) -> the value that a field has now */
static int actual(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int kind = (int)lua_tointeger(L, 3);
  lua_settop(L, KEY);
  if (mwb_is_cell(L, s, OBJECT))
    mwb_push_cell(L, OBJECT);
  else if (!mwb_push_aspect(L, s, kind)) /* neither class nor state? */
    lua_gettable(L, OBJECT);
  return 1;
}

/* The stack of `changed`: the effects, a function that compares states, what
** leads to the entries, memory for a fold, handle of a userdata -> sorts of its
** writes, what is found, the object of an entry, and the table that has its
** contents. */
enum {
  EFFECTS = 1,
  SAME,
  PLACE,
  MEMORY,
  SORTS,
  FOUND,
  VALUES,
  ITS_OBJECT,
  CONTENTS
};

/* Puts the object of an entry at ITS_OBJECT, and what belongs to it above.
** Returns 0 if the object is dead. */
static int find_object(lua_State *L, const mwb_state *s, mw_handle obj) {
  lua_settop(L, VALUES);
  if (!mwb_alive(L, s, obj)) return 0;
  if (lua_istable(L, ITS_OBJECT)) mwb_push_contents(L, ITS_OBJECT);
  return 1;
}

/* Pushes the value that the field of an entry has now, as it is stored.  What
** was put into a table raw is what the table shows. */
static void push_actual(lua_State *L, mwb_state *s, const mwb_place *p,
                        const mw_entry *entry) {
  if (lua_istable(L, ITS_OBJECT) && entry->kind != MW_METATABLE) {
    mwb_unpack(L, p->values, entry, MW_KEY);
    if (lua_rawget(L, ITS_OBJECT) != LUA_TNIL) return; /* put there raw? */
    mwb_unpack(L, p->values, entry, MW_KEY);
    lua_rawget(L, CONTENTS);
    return;
  }
  lua_pushvalue(L, ITS_OBJECT);
  mwb_unpack(L, p->values, entry, MW_KEY);
  lua_pushinteger(L, entry->kind);
  mwb_call(L, s, actual, 3, 1);
}

/* Are the two values on the top, of the field of an entry, the same?  The
** policy makes the state of a userdata anew each time. */
static int is_same_value(lua_State *L, const mw_entry *entry) {
  int same = mwb_is_same(L, -1, -2);
  if (same || entry->kind != MW_CALL) return same; /* no state? */
  lua_pushvalue(L, SAME);
  lua_pushvalue(L, -3);
  lua_pushvalue(L, -3);
  lua_call(L, 2, 1);
  same = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return same;
}

/* What is known of the state of a userdata, which may be written by a mutator
** and by assignments.  What its fields hold is not known once both have; it is
** taken for right, unless a field before differs. */
enum { CALLED = 1, ASSIGNED = 2, DIFFERS = 4 };

static lua_Integer note_userdata(lua_State *L, mw_handle obj, int more) {
  lua_Integer known;
  if (lua_isnil(L, SORTS)) {
    lua_newtable(L);
    lua_replace(L, SORTS);
  }
  lua_rawgeti(L, SORTS, (lua_Integer)obj);
  known = lua_tointeger(L, -1) | more;
  lua_pushinteger(L, known);
  lua_rawseti(L, SORTS, (lua_Integer)obj);
  lua_pop(L, 1);
  return known;
}

/* Pushes what the field of an entry is expected to hold before the entry is
** written: what the entry before it has left, or the actual value. */
static void push_expected(lua_State *L, mwb_state *s, mwb_fold *f,
                          const mwb_place *p, const mw_entry *entry,
                          uint32_t number, int left) {
  mwb_folded *at = mwb_fold_find(L, s, f, number);
  if (at->last == 0) /* no entry of the field before? */
    push_actual(L, s, p, entry);
  else
    mwb_unpack(L, p->values, &p->entries[at->last - 1], left);
  at->last = number;
}

/* Notes that the field of an entry holds the value on the top instead, in the
** two tables at `found`; pops the value. */
static void note_difference(lua_State *L, int found, uint32_t number) {
  if (lua_isnil(L, found)) {
    lua_newtable(L);
    lua_replace(L, found);
    lua_newtable(L);
    lua_replace(L, found + 1);
  }
  lua_pushinteger(L, (lua_Integer)number);
  lua_rawseti(L, found, (lua_Integer)lua_rawlen(L, found) + 1);
  lua_rawseti(L, found + 1, (lua_Integer)number);
}

/* changed(effects, same, back) -> nothing, if all fields hold the values from
** before the effects, or, with `back`, from after them; else an array of the
** numbers of the entries whose fields do not, and number -> what the field
** holds; `same(a, b)` compares states */
static int changed(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, EFFECTS);
  int back = lua_toboolean(L, 3), part = back ? MW_NOW : MW_OLD, lives = 0;
  int is_userdata = 0; /* is it the object at ITS_OBJECT? */
  uint32_t i, number;
  mw_handle last = MW_NONE;
  mwb_fold f;
  mwb_place p;
  lua_settop(L, SAME);
  p = mwb_find_entries(L, EFFECTS);
  mwb_fold_begin(L, &f, &p, fx->n);
  for (i = 1; i <= fx->n; i++) {
    mw_entry entry;
    number = back ? (uint32_t)fx->n + 1 - i : i;
    entry = p.entries[number - 1];
    if (entry.obj != last) {
      last = entry.obj;
      lives = find_object(L, s, last);
      is_userdata = lives && lua_isuserdata(L, ITS_OBJECT);
    }
    if (!lives) continue;
    lua_settop(L, CONTENTS);
    if (is_userdata &&
        note_userdata(L, entry.obj,
                      entry.kind == MW_CALL ? CALLED : ASSIGNED) ==
            (CALLED | ASSIGNED)) /* is the field not known? */
      continue;
    push_expected(L, s, &f, &p, &entry, number, MW_OLD + MW_NOW - part);
    if (entry.type[part] == MW_TINTEGER && lua_isinteger(L, -1) &&
        lua_tointeger(L, -1) == (lua_Integer)entry.value[part].i)
      continue; /* the same, without a call */
    mwb_unpack(L, p.values, &entry, part);
    if (is_same_value(L, &entry)) continue;
    lua_pop(L, 1);
    note_difference(L, FOUND, number);
    if (is_userdata) note_userdata(L, entry.obj, DIFFERS);
  }
  lua_settop(L, VALUES);
  return lua_isnil(L, FOUND) ? 0 : 2;
}

/* changes(effects) -> whether there is a field that has another value after the
** effects than before them; "state" if only the states of userdata have, which
** the policy makes anew each time; and whether a list may be of another length
*/
static int changes(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  const mwb_effects *fx = (const mwb_effects *)lua_touserdata(L, 1);
  uint32_t i;
  int longer = 0;
  mwb_fold f;
  mwb_place p;
  lua_settop(L, 1);
  p = mwb_find_entries(L, 1);
  mwb_fold_begin(L, &f, &p, fx->n);
  for (i = 1; i <= fx->n; i++) {
    mwb_folded *at = mwb_fold_find(L, s, &f, i);
    const mw_entry *entry = &p.entries[i - 1];
    if (at->first == 0) at->first = i; /* the field's first? */
    at->last = i;
    if (entry->type[MW_KEY] == MW_TINTEGER && entry->value[MW_KEY].i > 0 &&
        (entry->type[MW_OLD] == MW_TABSENT) !=
            (entry->type[MW_NOW] == MW_TABSENT)) /* an element comes or goes? */
      longer = 1;
  }
  lua_pushboolean(L, 0);
  for (i = 0; i < f.n; i++) {
    const mw_entry *first = &p.entries[f.fields[i].first - 1];
    const mw_entry *last = &p.entries[f.fields[i].last - 1];
    int was = first->type[MW_OLD] != MW_TABSENT;
    if (was == (last->type[MW_NOW] != MW_TABSENT) &&
        mwb_is_same_part(L, &p, first, MW_OLD, last, MW_NOW)) /* as before? */
      continue;
    lua_pop(L, 1);
    if (first->kind != MW_CALL) {
      lua_pushboolean(L, 1);
      break;
    }
    lua_pushliteral(L, "state");
  }
  lua_pushboolean(L, longer);
  return 2;
}

/* Returns a number for the value on the top, which other values do not share,
** but by chance. */
static uint64_t hash_value(lua_State *L) {
  lua_Number n = lua_tonumber(L, -1);
  uint64_t hash = 0;
  if (lua_isinteger(L, -1)) return (uint64_t)lua_tointeger(L, -1);
  if (lua_isboolean(L, -1)) return 1024u + (uint64_t)lua_toboolean(L, -1);
  if (lua_type(L, -1) != LUA_TNUMBER)
    return (uint64_t)(uintptr_t)lua_topointer(L, -1) << 3;
  memcpy(&hash, &n, sizeof(n) < sizeof(hash) ? sizeof(n) : sizeof(hash));
  return ~hash;
}

/* sum(table, from, to) -> a number that is another one if one of the positions
** holds another value, but by chance */
static int sum(lua_State *L) {
  lua_Integer i = lua_tointeger(L, 2), to = lua_tointeger(L, 3);
  uint64_t hash = 0;
  lua_settop(L, 1);
  if (mwb_push_shadow(L, 1)) lua_replace(L, 1); /* intercepted? */
  for (; i <= to; i++) {
    lua_rawgeti(L, 1, i);
    hash = (hash ^ hash_value(L)) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)hash);
  return 1;
}

const luaL_Reg mwb_fold_functions[] = {
    {"changed", changed}, {"changes", changes}, {"sum", sum}, {NULL, NULL}};
