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

/* Is a transaction open, so that writes may have an owner, or a reader? */
static inline int mwb_is_recorded(const mwb_state *s) {
  return s->engine->journal.open > 0 || mwi_is_read(&s->engine->reader);
}

static inline int mwb_is_read(const mwb_state *s) {
  return mwi_is_read(&s->engine->reader);
}

static inline int mwb_appends(const mwb_state *s) {
  return mwb_is_recorded(s) && !s->restoring;
}

/* An entry that is being made. */
typedef struct mwb_entry {
  mw_entry its;
  mw_owner owner;  /* 0: nobody can take the write back */
  uint64_t order;  /* of the owner's begin */
  uint64_t stamp;  /* without an owner: when the entry was prepared */
  uint64_t number; /* of the change, or 0: see mw_entry */
  int wanted;      /* is there something to append? */
  int has_field;   /* is `field` set? */
  mw_value field;  /* as a mixed journal knows the field */
} mwb_entry;

/* Begins the entry of a write, and finds the transaction that owns the write.
** A name of a scope may be asked of the program, which may write: so the caller
** reads the old value after this call. */
void mwb_begin_entry(lua_State *L, mwb_state *s, mwb_entry *entry);

/* Fills in the rest of the entry, with key, value and old value from these
** indices, and reserves memory for the entry. */
void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int key, int value,
                 int old, mwb_entry *entry);

/* Likewise, for a change of another kind than insert, update and delete, whose
** old and new value are at these indices: of the class (MW_METATABLE), or of
** the state of a userdata (MW_CALL, with a key). */
void mwb_prepare_kind(lua_State *L, mwb_state *s, mw_handle h, int kind,
                      int key, int value, int old, mwb_entry *entry);

/* Keeps the object at `index` alive as long as its prepared entry. */
void mwb_hold_object(lua_State *L, mwb_state *s, int index,
                     const mwb_entry *entry);

/* Gives an object another class, and appends the entry: object, old class and
** new class are at OBJECT, OLD and VALUE of trap.h. */
void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h, uint64_t number);

/* Can a prepared entry still be appended?  If other code has run since, the
** owner may have ended; then the caller prepares the entry again. */
int mwb_is_prepared(const mwb_state *s, const mwb_entry *entry);

/* Appends a prepared entry. */
void mwb_append_entry(lua_State *L, mwb_state *s, const mwb_entry *entry);

/* Does the policy ignore writes to the key at KEY of the object at OBJECT? */
int mwb_is_ignored(lua_State *L, mwb_state *s);

/* The engine's callbacks: see mw_host. */
void mwb_restore(void *ud, const mw_entry *entry, void *host);
int mwb_field(void *ud, mw_owner owner, const mw_entry *entry, mw_value *key,
              void *host);
int mwb_hand(void *ud, mw_owner owner, mw_owner parent, mw_entry *entry,
             void *host);

/* In the functions below, `held` and `table` name one table of held values:
** `table` is the index of the effects that own the table, and not used for the
** values of a coroutine. */

/* Pushes the value with this number; nil for 0. */
void mwb_push_value(lua_State *L, const mwb_held *held, int table,
                    uint32_t number);

/* Puts the value at `index` into the table, which is one; returns the value's
** number. */
uint32_t mwb_hold_value(lua_State *L, mwb_held *held, int table, int index);

/* How many short strings a coroutine keeps from one transaction to the next. */
#define MWB_KEPT 8

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
    known->number = mwb_hold_value(L, held, table, index);
    if (held->kept + 1 == held->n && held->kept < MWB_KEPT &&
        lua_rawlen(L, index) <= s->short_string)
      held->kept++;
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
      value->i = mwb_hold_value(L, held, table, index);
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
  entry->type[MW_NOW] = MW_TABSENT;
  if (entry->kind == MW_INSERT) return 0;
  entry->kind = MW_DELETE;
  return 1;
}

/* Pushes a part of an entry. */
void mwb_unpack(lua_State *L, const mwb_held *held, int table,
                const mw_entry *entry, int part);

/* Releases the coroutine's values with numbers above `n`. */
void mwb_release_values(lua_State *L, mwb_coroutine *t, uint32_t n);

/* Holds the place in the program that writes now, and returns the number of its
** text "file:line"; 0 if no function of the program is running. */
uint32_t mwb_hold_where(lua_State *L, mwb_state *s, mwb_held *held);

/* Finds the nearest function of the program among the callers, with source and
** line.  Returns 0 if there is none. */
int mwb_find_caller(lua_State *L, lua_Debug *ar);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
