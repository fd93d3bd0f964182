/*
** entry.h - the entries of writes, and the values that entries hold.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_ENTRY_H
#define MWB_ENTRY_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Are writes appended to the journal at this time? */
static inline int mwb_appends(const mwb_state *s) {
  return s->engine->journal.readers > 0 && !s->restoring;
}

/* Begins the entry of a write.  Finalisers may run, and a finaliser may roll
** back, so the caller reads the old value after this call. */
void mwb_begin_entry(lua_State *L, mwb_state *s, mw_entry *entry);

/* Fills in the rest of the entry, with key, value and old value from these
** indices, and reserves memory for the entry.  If other code runs before the
** entry is appended and the journal has released values meanwhile (the `id` of
** `s->held` is another), the caller prepares the entry again. */
void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int key, int value,
                 int old, mw_entry *entry);

/* Keeps the object at `index` alive as long as its prepared entry. */
void mwb_hold_object(lua_State *L, mwb_state *s, int index,
                     const mw_entry *entry);

/* Gives an object another class, and appends the entry: object, old class and
** new class are at OBJECT, OLD and VALUE of trap.h. */
void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h);

/* Appends a prepared entry.  No other entry may have been appended since the
** preparation, or the reserved memory is gone. */
static inline void mwb_append_entry(mwb_state *s, const mw_entry *entry) {
  if (entry->obj != MW_NONE) mwi_journal_append(&s->engine->journal, entry);
}

/* Does the policy ignore writes to the key at KEY of the object at OBJECT? */
int mwb_is_ignored(lua_State *L, mwb_state *s);

/* Restores the old value of an entry; the engine's callback of a rewind. */
void mwb_restore(void *ud, const mw_entry *entry, void *host);

typedef struct mwb_effects {
  size_t n;
  mwb_held held;
  mw_entry entries[1]; /* n of them */
} mwb_effects;

/* Returns the effects at index 1, or raises. */
mwb_effects *mwb_check_effects(lua_State *L, const char *name);

/* In the functions below, `held` and `table` name one table of held values:
** `table` is the index of the effects that own the table, or 0 for the
** journal's. */

/* Pushes the table of held values. */
void mwb_push_held(lua_State *L, const mwb_state *s, int table);

/* Puts the value at `index` into the table; returns the value's number. */
uint32_t mwb_hold_value(lua_State *L, const mwb_state *s, mwb_held *held,
                        int table, int index);

/*
** Returns the number of the string at `index`, whose address is `string`.
** Programs use a few strings as keys again and again, so recent strings are
** cached by address.  A string in the cache is held by the table, hence alive,
** so no other string has its address.
*/
static inline uint32_t mwb_hold_string(lua_State *L, mwb_state *s,
                                       mwb_held *held, int table, int index,
                                       const char *string) {
  mwb_known *known = &s->known[((uintptr_t)string >> 4) % 64];
  if (known->string != string || known->id != held->id) {
    known->number = mwb_hold_value(L, s, held, table, index);
    known->string = string;
    known->id = held->id;
  }
  return known->number;
}

/* Sets a part of an entry to the value at `index`, which must be absolute. */
void mwb_pack(lua_State *L, mwb_state *s, mwb_held *held, int table, int index,
              mw_entry *entry, int part);

/* A key that is an integral float becomes an integer, as in Lua's tables. */
static inline void mwb_pack_number(lua_State *L, int index, mw_entry *entry,
                                   int part) {
  mw_content *value = &entry->value[part];
  int ok = part == MW_KEY || lua_isinteger(L, index);
  if (ok) value->i = lua_tointegerx(L, index, &ok);
  entry->type[part] = ok ? MW_TINTEGER : MW_TFLOAT;
  if (!ok) value->f = lua_tonumber(L, index);
}

/* Like `mwb_pack`, when the Lua type of the value is already known. */
static inline void mwb_pack_as(lua_State *L, mwb_state *s, mwb_held *held,
                               int table, int index, int type, mw_entry *entry,
                               int part) {
  mw_content *value = &entry->value[part];
  switch (type) {
    case LUA_TNIL:
      entry->type[part] = MW_TNIL;
      value->i = 0;
      break;
    case LUA_TBOOLEAN:
      entry->type[part] = MW_TBOOLEAN;
      value->i = lua_toboolean(L, index);
      break;
    case LUA_TNUMBER:
      mwb_pack_number(L, index, entry, part);
      break;
    case LUA_TSTRING:
      entry->type[part] = MW_TOTHER;
      value->i =
          mwb_hold_string(L, s, held, table, index, lua_tostring(L, index));
      break;
    default:
      entry->type[part] = MW_TOTHER;
      value->i = mwb_hold_value(L, s, held, table, index);
  }
}

/* Sets the kind and marks absent values.  Returns 0 if old and new value are
** both nil: the write changes nothing. */
static inline int mwb_set_kind(mw_entry *entry) {
  entry->kind = MW_UPDATE;
  if (entry->type[MW_OLD] == MW_TNIL) {
    entry->kind = MW_INSERT;
    entry->type[MW_OLD] = MW_TABSENT;
  }
  if (entry->type[MW_NOW] != MW_TNIL) return 1;
  if (entry->kind == MW_INSERT) return 0;
  entry->kind = MW_DELETE;
  entry->type[MW_NOW] = MW_TABSENT;
  return 1;
}

/* Sets kind and object of an entry whose values are set, and reserves memory
** for the entry. */
static inline void mwb_complete(lua_State *L, mwb_state *s, mw_handle h,
                                mw_entry *entry) {
  const mwi_journal *journal = &s->engine->journal;
  entry->obj = mwb_set_kind(entry) ? h : MW_NONE;
  if (journal->n == journal->size) mwb_check(L, mw_journal_reserve(s->engine));
}

/* Pushes a part of an entry. */
void mwb_unpack(lua_State *L, const mwb_state *s, int table,
                const mw_entry *entry, int part);

/* Pops a new table from the top and makes it the journal's. */
void mwb_new_held(lua_State *L, mwb_state *s);

/* Releases the values of the journal with numbers above `n`. */
void mwb_release_held(lua_State *L, mwb_state *s, uint32_t n);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
