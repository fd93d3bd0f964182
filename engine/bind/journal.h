/*
** journal.h - what the files that keep entries share.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_JOURNAL_H
#define MWB_JOURNAL_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* Are writes to be noted? */
static inline int mwb_noting(const mwb_state *s) {
  return s->engine->journal.readers > 0 && !s->restoring;
}

/* Begins the entry of a write.  Finalisers may run, and may take back what was
** written, so the old value is read after it. */
void mwb_begin_entry(lua_State *L, mwb_state *s, mw_entry *entry);

/* Makes the rest of it, key, value and old value at those places; there will be
** memory for it.  It is to be made again if other code has run meanwhile, and
** the journal has let go of references: then these have another id. */
void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int key, int value,
                 int old, mw_entry *entry);

/* Holds the object at `index`, of an entry that is prepared, for as long as the
** entry is there. */
void mwb_hold(lua_State *L, mwb_state *s, int index, const mw_entry *entry);

/* Gives an object another class, and notes it: object, old class and new one at
** OBJECT, OLD and VALUE of write.h. */
void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h);

/* It was made, and nothing else was noted meanwhile. */
static inline void mwb_note(mwb_state *s, const mw_entry *entry) {
  if (entry->obj != MW_NONE) mwi_journal_append(&s->engine->journal, entry);
}

/* Does the policy say that nobody is to hear of the key at 2 of the object at
** 1? */
int mwb_is_ignored(lua_State *L, mwb_state *s);

/* Restores for the engine. */
void mwb_restore(void *ud, const mw_entry *entry, void *host);

typedef struct mwb_effects {
  size_t n;
  mwb_refs refs;
  mw_entry entries[1]; /* n of them */
} mwb_effects;

/* The effects at index 1, or raises. */
mwb_effects *mwb_check_effects(lua_State *L, const char *name);

/* Whose references are meant is said by `refs` and by `table`: where the
** effects are on the stack, or 0 for the journal's. */

/* Pushes the table of references. */
void mwb_push_refs(lua_State *L, const mwb_state *s, int table);

/* A new reference to the value at `index`. */
uint32_t mwb_new_ref(lua_State *L, const mwb_state *s, mwb_refs *refs,
                     int table, int index);

/*
** A reference to the string at `index`, which is at that address.  The same
** strings come again and again, as keys; one that has a reference is alive, so
** its address is no other's.
*/
static inline uint32_t mwb_string_ref(lua_State *L, mwb_state *s,
                                      mwb_refs *refs, int table, int index,
                                      const char *string) {
  mwb_known *known = &s->known[((uintptr_t)string >> 4) % 64];
  if (known->string != string || known->id != refs->id) {
    known->ref = mwb_new_ref(L, s, refs, table, index);
    known->string = string;
    known->id = refs->id;
  }
  return known->ref;
}

/* Sets a part of an entry to the value at `index`, which must be absolute. */
void mwb_pack(lua_State *L, mwb_state *s, mwb_refs *refs, int table, int index,
              mw_entry *entry, int part);

/* Keys are as tables have them: a float that is an integer is one. */
static inline void mwb_pack_number(lua_State *L, int index, mw_entry *entry,
                                   int part) {
  mw_content *value = &entry->value[part];
  int ok = part == MW_KEY || lua_isinteger(L, index);
  if (ok) value->i = lua_tointegerx(L, index, &ok);
  entry->type[part] = ok ? MW_TINTEGER : MW_TFLOAT;
  if (!ok) value->f = lua_tonumber(L, index);
}

/* The same of a value of that type. */
static inline void mwb_pack_as(lua_State *L, mwb_state *s, mwb_refs *refs,
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
          mwb_string_ref(L, s, refs, table, index, lua_tostring(L, index));
      break;
    default:
      entry->type[part] = MW_TOTHER;
      value->i = mwb_new_ref(L, s, refs, table, index);
  }
}

/* Sets the kind, and which value is absent; 0 if both are: what was not there
** and is not there then was not changed. */
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

/* Sets what is missing in an entry whose values are set; there will be memory
** for it. */
static inline void mwb_complete(lua_State *L, mwb_state *s, mw_handle h,
                                mw_entry *entry) {
  const mwi_journal *journal = &s->engine->journal;
  entry->obj = mwb_set_kind(entry) ? h : MW_NONE;
  if (journal->n == journal->size) mwb_check(L, mw_journal_reserve(s->engine));
}

/* Pushes a part of an entry. */
void mwb_unpack(lua_State *L, const mwb_state *s, int table,
                const mw_entry *entry, int part);

/* Gives the journal the table on the top, which is removed. */
void mwb_new_refs(lua_State *L, mwb_state *s);

/* Lets go of the journal's references after the first `n`. */
void mwb_forget_refs(lua_State *L, mwb_state *s, uint32_t n);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
