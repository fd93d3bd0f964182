/*
** journal.h - transactions, entries, effects, and what is delivered.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_JOURNAL_H
#define MWB_JOURNAL_H

#include "../base/base.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

enum {
  MWB_RECORD = MWB_JOURNAL_VALUES, /* metatables: of a coroutine's record, */
  MWB_BEGUN,                       /* a transaction, */
  MWB_EFFECTS,                     /* effects, */
  MWB_ORIGIN,                      /* and an origin */
  MWB_RECORDS, /* coroutine -> its record, weakly held: see coroutine.c */
  MWB_PREPARE, /* functions for the extras of transactions, in an array, */
  MWB_TAKEN,   /* and f(array of entries, number of the last delivered one) */
  MWB_PAGES,   /* number of a page -> values of delivered entries, */
  MWB_CONTEXT, /* the context of a write now, */
  MWB_PATHS,   /* f(coroutine, with orders?) -> the names of what executes, */
  MWB_SITES,   /* and the texts of places of writes */
  MWB_JOURNAL_END
};

typedef struct mwb_coroutine mwb_coroutine; /* see below */
typedef struct mwb_transaction mwb_transaction;

/* The table that holds the values to which entries refer: see entry.c. */
typedef struct mwb_held {
  mwb_coroutine *of; /* NULL: the values are of effects, */
  int few;           /* and the effects have them without a table? */
  uint32_t n;        /* numbers in use: 1 to n */
  uint32_t kept; /* of a coroutine: the first ones, of short strings, which stay
                 ** when all transactions have ended */
  uint32_t id; /* not 0, and different for each table and after each release */
} mwb_held;

/* A string that such a table already holds. */
typedef struct mwb_known {
  const void *string;
  uint32_t id, number;
} mwb_known;

/* The context of the coroutine `of` in an epoch, which is MWB_CONTEXT, and its
** number in held values: see delivery.c. */
typedef struct mwb_context {
  lua_State *of; /* NULL: the context may have changed */
  int64_t epoch;
  uint64_t entered, frames; /* of hierarchies */
  uint32_t id, number;
} mwb_context;

/* The number of places that MWB_SITES has, by function and line. */
#define MWB_SITES_KNOWN 256

/* The number, in a page, of a context of a transaction: see delivery.c. */
typedef struct mwb_taken {
  uint64_t order;         /* of the transaction */
  uint32_t from, context; /* in the held values of its coroutine */
  uint32_t to, number;    /* in those of the page */
} mwb_taken;

/* What a coroutine begins, and the head of each of these. */
enum { MWB_BY_TRANSACTION, MWB_BY_BATCH, MWB_BY_ORIGIN, MWB_SORTS };

typedef struct mwb_begun {
  struct mwb_begun *outer; /* open, of the same sort and coroutine, or NULL */
  uint64_t order;          /* of the begin, among all of all sorts */
} mwb_begun;

/* A coroutine that has begun transactions, batches or origins. */
struct mwb_coroutine {
  mwb_held held; /* what the entries of the coroutine's transactions hold */
  mwb_state *s;
  lua_State *L;               /* NULL: the coroutine is gone */
  int place;                  /* in the registry, */
  int kept;                   /* and is the table of held values there? */
  int has_values;             /* is there such a table? */
  uint32_t shared;            /* others may need values below this number */
  int hides;                  /* are there entries that effects leave out? */
  mwb_begun *open[MWB_SORTS]; /* of each sort the last that began, or NULL; */
  uint32_t n_open;            /* how many are open in all */
  mwb_coroutine *next, *prev; /* that have something open */
};

struct mwb_journal_state {
  uint32_t held_ids;         /* the last `id` given to held values */
  lua_State *running;        /* cache: the coroutine that wrote last, */
  mwb_coroutine *coroutine;  /* and its record, or NULL */
  mwb_coroutine *coroutines; /* with open transactions, batches or origins */
  uint32_t n_coroutines;     /* how many these are */
  lua_CFunction resume;      /* Lua's own functions: coroutine.resume, */
  lua_CFunction close;       /* coroutine.close, */
  lua_CFunction wrapped;     /* and what coroutine.wrap returns */
  mwi_column transactions;   /* by owner */
  uint64_t orders;           /* the last order of a begin */
  uint32_t origins;          /* the number of open origins */
  int has_tables;            /* may entries of open transactions hold tables? */
  int restoring;             /* > 0: writes are not appended to the journal */
  uint32_t given;      /* the cause of the write that is being restored, or 0 */
  uint32_t wheres;     /* the number of readers that want places, */
  uint32_t scoped;     /* and of those that want scopes */
  mwb_known known[64]; /* cache: strings that a table holds */
  mwb_known known_objects[64]; /* cache: slots of objects that a page holds */
  mwb_coroutine page_holder;   /* has the held values of the last page */
  uint64_t page, first_page;   /* numbers and 1 of the pages; 0: none */
  mwb_context context;
  int making; /* is a context being made? */
  mwb_taken taken;
};

/* transaction.c: frees what the state has. */
void mwb_close_transactions(mwb_state *s);

/* transaction.c: takes back those that are lost.  Raises if there is no
** memory. */
void mwb_end_lost_transactions(lua_State *L, mwb_state *s);

/* }====================================================== */

/* {======================================================
** coroutine.c: the coroutines that have begun transactions and batches.
** ======================================================= */

/* What the binding knows of a transaction. */
struct mwb_transaction {
  mwb_begun begun; /* its `order` is 0 when the transaction is not open */
  mwb_coroutine *of;
  mwi_owner *its;     /* in the engine */
  uint32_t held;      /* values held at the begin */
  const void *run_of; /* the object whose run this is, or NULL */
  uint8_t where;      /* do entries have the place in the program? */
  uint8_t ending;     /* is the transaction being committed? */
  uint8_t lost;       /* its handle is lost, and its coroutine, too */
  uint8_t extras;     /* is there a table of extras? */
};

/* The record of the running coroutine, or NULL. */
mwb_coroutine *mwb_find_coroutine(lua_State *L, mwb_state *s);

static inline mwb_coroutine *mwb_own_coroutine(lua_State *L, mwb_state *s) {
  return (s->journal->running == L) ? s->journal->coroutine
                                    : mwb_find_coroutine(L, s);
}

/* Likewise; makes a record if the coroutine has none. */
mwb_coroutine *mwb_need_coroutine(lua_State *L, mwb_state *s);

/* A transaction, batch or origin of the coroutine begins or ends.  Neither
** raises; with the last end a coroutine that is gone loses its record. */
void mwb_begin(mwb_state *s, mwb_coroutine *t, int by, mwb_begun *its);
void mwb_end(lua_State *L, mwb_state *s, mwb_coroutine *t, int by,
             const mwb_begun *its);

/* Of those that are open in coroutines that wait for the running one, the one
** that began last, or NULL. */
mwb_begun *mwb_waiting(lua_State *L, const mwb_state *s, int by);

/* Returns the transaction, batch or origin that has a write which the running
** coroutine makes now, or NULL. */
static inline mwb_begun *mwb_owning(lua_State *L, mwb_state *s, int by) {
  const mwb_coroutine *t = mwb_own_coroutine(L, s);
  if (t != NULL && t->open[by] != NULL) return t->open[by];
  return (L == s->main) ? NULL : mwb_waiting(L, s, by);
}

static inline mwb_transaction *mwb_transaction_now(lua_State *L, mwb_state *s) {
  if (s->engine->journal.open == 0) return NULL;
  return (mwb_transaction *)mwb_owning(L, s, MWB_BY_TRANSACTION);
}

/* An owner's transaction does not move; one that has ended has the order 0. */
static inline mwb_transaction *mwb_transaction_of(const mwb_state *s,
                                                  mw_owner owner) {
  return (mwb_transaction *)mwi_column_page(&s->journal->transactions, owner) +
         owner % MWI_PAGE;
}

static inline mwb_coroutine *mwb_coroutine_of(const mwb_state *s,
                                              mw_owner owner) {
  return mwb_transaction_of(s, owner)->of;
}

/* Does anybody want the place of a write that the transaction owns, if any? */
static inline int mwb_wants_where(const mwb_state *s,
                                  const mwb_transaction *tx) {
  return s->journal->wheres > 0 || (tx != NULL && tx->where);
}

/* Returns the coroutine of those that wait for the running one which is nearest
** and for which `f` returns not 0, or NULL. */
lua_State *mwb_nearest_coroutine(lua_State *L, mwb_state *s,
                                 int (*f)(lua_State *of, mwb_state *s));

/* Is an entry needed for a write of nil to a field that is absent?  Effects
** leave the entry out.  It says that the owner has written the field later than
** others, who would restore another value. */
static inline int mwb_hides(const mwb_state *s, const mwb_transaction *tx) {
  if (!mwi_journal_has_others(&s->engine->journal, tx->its)) return 0;
  tx->of->hides = 1;
  return 1;
}

static inline int mwb_is_hidden(const mw_entry *entry) {
  return entry->type[MW_OLD] == MW_TABSENT && entry->type[MW_NOW] == MW_TABSENT;
}

/* Pushes the coroutine's table of held values. */
void mwb_push_values(lua_State *L, const mwb_coroutine *t);

/* Makes what is on the top the coroutine's table of held values, and pops it;
** `false`: there is none. */
void mwb_set_values(lua_State *L, mwb_coroutine *t);

/* transaction.c: pushes the label of an open transaction, or a number. */
void mwb_push_label(lua_State *L, const mwb_transaction *tx);

/* }====================================================== */

/* {======================================================
** entry.c: the entries of writes, and the values that entries hold.
** ======================================================= */

/* Is a transaction open, so that writes may have an owner, or a reader? */
static inline int mwb_is_recorded(const mwb_state *s) {
  return s->engine->journal.open > 0 || mwi_is_read(&s->engine->reader);
}

static inline int mwb_is_read(const mwb_state *s) {
  return mwi_is_read(&s->engine->reader);
}

static inline int mwb_appends(const mwb_state *s) {
  return mwb_is_recorded(s) && !s->journal->restoring;
}

/* The entry of a write, which is being made. */
typedef struct mwb_entry {
  mw_entry its;
  mwb_transaction *tx; /* NULL: nobody can take the write back */
  uint64_t order;      /* of its begin */
  uint64_t stamp;      /* without one: when the entry was prepared */
  int kind, old;       /* as `mwb_prepare` was told */
  int wanted;          /* is there something to append? */
  int has_field;       /* is `field` set? */
  mw_value field;      /* as a mixed journal knows the field */
} mwb_entry;

/* Makes an entry with key and value at KEY and VALUE of trap.h, and the old
** value at `old`, and reserves memory; `kind` is MW_UPDATE for insert and
** delete, too, and `number` is that of the change, or 0.  May run functions of
** the program, as `mwb_make_ready`. */
void mwb_prepare(lua_State *L, mwb_state *s, mw_handle h, int kind, int old,
                 uint64_t number, mwb_entry *entry);

/* Appends the entry.  Code of the program may have run since that of a class or
** a state was prepared, and ended the owner: then it is prepared again. */
void mwb_append_entry(lua_State *L, mwb_state *s, mwb_entry *entry);

/* Pushes the class, or the state, of the object at OBJECT, whichever a write of
** the kind changes; returns 0, and pushes nothing, for a field. */
int mwb_push_aspect(lua_State *L, mwb_state *s, int kind);

/* Gives an object another class, and appends the entry: object, old class and
** new class are at OBJECT, OLD and VALUE of trap.h. */
void mwb_change_class(lua_State *L, mwb_state *s, mw_handle h, uint64_t number);

/* Does the policy ignore writes to the key at KEY of the object at OBJECT? */
int mwb_is_ignored(lua_State *L, mwb_state *s);

/* The engine's callbacks: see mw_host. */
void mwb_restore(void *ud, const mw_entry *entry, void *host);
int mwb_field(void *ud, mw_owner owner, const mw_entry *entry, mw_value *key,
              void *host);
int mwb_hand(void *ud, mw_owner owner, mw_owner parent, mw_entry *entry,
             void *host);

/* Returns the engine's code for the status of a protected call, and pops the
** error. */
static inline int mwb_code_of(lua_State *L, int status) {
  if (status == LUA_OK) return MW_OK;
  lua_pop(L, 1);
  return MW_NOMEM;
}

/* In the functions below, `values` is the index of a table of held values, or
** of effects that have the values themselves.  Who adds values names the table
** by `held` and `table`: the latter is the index of the effects that own the
** table, and not used for the values of a coroutine. */

/* Pushes the value with this number, nil for 0; adds the value at `index`, and
** returns its number. */
void mwb_push_value(lua_State *L, int values, uint32_t number);
uint32_t mwb_hold_value(lua_State *L, mwb_held *held, int table, int index);

/* How many short strings a coroutine keeps from one transaction to the next. */
#define MWB_KEPT 64

/* Returns the number of the string at `index`.  Recent strings are cached by
** address: one in the cache is held by the table, so no other one has it.  (The
** engine's key of a long string is the address of an equal one, which may go
** before.) */
static inline uint32_t mwb_hold_string(lua_State *L, mwb_state *s,
                                       mwb_held *held, int table, int index) {
  const char *string = lua_tostring(L, index);
  mwb_known *known = &s->journal->known[((uintptr_t)string >> 4) % 64];
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
      value->i = mwb_hold_string(L, s, held, table, index);
      break;
    default:
      entry->type[part] = MW_TOTHER;
      value->i = mwb_hold_value(L, held, table, index);
      if (type == LUA_TTABLE && held->of != NULL &&
          held->of != &s->journal->page_holder)
        s->journal->has_tables = 1;
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
void mwb_unpack(lua_State *L, int values, const mw_entry *entry, int part);

/* Releases the coroutine's values with numbers above `n`, but for those that
** others may need. */
void mwb_release_values(lua_State *L, mwb_coroutine *t, uint32_t n);

/* Holds the place in the program that writes now, and returns the number of its
** text "file:line"; 0 if no function of the program is running. */
uint32_t mwb_hold_where(lua_State *L, mwb_state *s, mwb_held *held);

/* Finds the nearest function of the program among the callers, with source and
** line.  Returns 0 if there is none. */
int mwb_find_caller(lua_State *L, lua_Debug *ar);

/* }====================================================== */

/* {======================================================
** effects.c: effects: entries as a value.
** ======================================================= */

typedef struct mwb_effects {
  size_t n;
  uint32_t made;  /* the age that they ended, of several the first */
  uint32_t last;  /* `made`; for the inverse of several, that of the last */
  uint32_t began; /* the age that ended when they were about to be undone, */
  uint32_t seen;  /* and that in which they were undone; or `made` */
  int inverted;   /* are they the inverse of effects that were done? */
  int turned;     /* are they, or a part of them, made as an inverse? */
  int undone;     /* is `context` of each entry the number of its undoing? */
  mwb_held held;
  mw_entry entries[1]; /* n of them */
} mwb_effects;

/* The entries of effects, and the index of their values. */
typedef struct mwb_place {
  mw_entry *entries;
  int values;
  uint64_t page; /* of delivered entries the number of the first page, from 1
                 ** on: `values` has a table for each page; else 0 */
} mwb_place;

/* Was what happened in that age before the effects, or part of them? */
static inline int mwb_knows_age(const mwb_effects *fx, uint32_t age) {
  return age <= fx->made || (age > fx->began && age <= fx->seen);
}

/* Returns the effects at `index`, or NULL. */
mwb_effects *mwb_to_effects(lua_State *L, int index);

/* Finds the entries of the effects at `index`.  Pushes a value, which must stay
** as long as the place is used. */
mwb_place mwb_find_entries(lua_State *L, int index);

/* Has none of the objects that the effects wrote been written since? */
int mwb_is_intact(const mwb_state *s, const mwb_effects *fx);

/* Pushes effects with the entries of an open transaction, or (`some`) with
** those that effects have.  Many, of the only transaction of the coroutine,
** share the table of values, which is the coroutine's no longer when its
** transactions have ended. */
void mwb_push_effects(lua_State *L, const mwb_transaction *tx, int some);

/* }====================================================== */

/* {======================================================
** fold.c: what entries have changed, field by field.
** ======================================================= */

/* The numbers of a field's first and last entry, from 1 on; 0 for a field that
** was just met, until the caller says them. */
typedef struct mwb_folded {
  uint32_t first, last;
} mwb_folded;

typedef struct mwb_fold {
  const mwb_place *place;
  uint32_t n;         /* of fields, */
  mwb_folded *fields; /* in the order in which they were met, from 1 on */
  mwi_table table;
  mwb_folded few[MWI_FEW]; /* for a fold that needs no other memory */
  uint64_t few_room[MWI_FEW_ROOM];
} mwb_fold;

/* Begins a fold of at most `n` entries.  Pushes a value, which must stay as
** long as the fold is used. */
void mwb_fold_begin(lua_State *L, mwb_fold *f, const mwb_place *place,
                    size_t n);

/* Returns the field of the entry with the number; a new one if it has none,
** whose `last` the caller sets.  That of a field that is there may move to any
** other of its entries. */
mwb_folded *mwb_fold_find(lua_State *L, const mwb_state *s, mwb_fold *f,
                          uint32_t number);

/* Returns the field of an object with the key at `key`, an absolute index, or
** NULL. */
const mwb_folded *mwb_fold_field(lua_State *L, mwb_state *s, const mwb_fold *f,
                                 mw_handle obj, int key);

/* Pushes a part of an entry of a place; do two of them have the same value? */
void mwb_unpack_in(lua_State *L, const mwb_place *p, const mw_entry *entry,
                   int part);
int mwb_is_same_part(lua_State *L, const mwb_place *p, const mw_entry *a,
                     int part_a, const mw_entry *b, int part_b);

/* }====================================================== */

/* {======================================================
** delivery.c: what the entries hold that readers have not read yet.
** ======================================================= */

/* For readers: makes what is needed once. */
void mwb_open_delivery(lua_State *L, mwb_state *s);

/* Before a write: makes the page and the context of its entry.  Returns whether
** anything was made; then functions of the program may have run. */
int mwb_make_ready(lua_State *L, mwb_state *s);

/* Returns the held values of the next entry that is delivered. */
mwb_held *mwb_need_page(lua_State *L, mwb_state *s);

/* Is that page there, and what the entry needs of it? */
static inline int mwb_page_is_ready(const mwb_state *s) {
  return s->journal->page == (s->engine->reader.last + 1) / MWI_READER_PAGE + 1;
}

/* The page holds the object at `index`. */
static inline void mwb_hold_in_page(lua_State *L, mwb_state *s, mwb_held *held,
                                    mw_handle h, int index) {
  mwb_known *known = &s->journal->known_objects[mw_slot(h) % 64];
  if (known->id == held->id && known->number == mw_slot(h)) return;
  mwb_hold_value(L, held, 0, index);
  known->id = held->id;
  known->number = mw_slot(h);
}

/* Returns a hash of a string, or of an object, which is a key. */
uint32_t mwb_hash_key(lua_State *L, const mwb_state *s, int index);

/* Marks the key of an entry, which is at `index`, so that entries of the same
** field are found: see mw_delivery_find. */
static inline void mwb_mark_key(lua_State *L, const mwb_state *s, int index,
                                mw_entry *entry) {
  int64_t *key = &entry->value[MW_KEY].i;
  if (entry->type[MW_KEY] != MW_TOTHER) return;
  *key = (int64_t)((uint64_t)mwb_hash_key(L, s, index) << 32 | (uint32_t)*key);
}

/* Returns the number of the context among the held values, where nothing has
** run since `mwb_make_ready`. */
uint32_t mwb_hold_context(lua_State *L, mwb_state *s, mwb_held *held);

/* Something that the context has may be another now. */
static inline void mwb_turn_context(mwb_state *s) {
  s->journal->context.of = NULL;
}

/* Where a page has the time of its begin, in seconds. */
#define MWB_PAGETIME (-1)

/* reader.c: pushes an array of the entries of an open transaction, which is
** taken back, each as an array of what `push_owned` pushes; the order is 0
** where a final write has followed. */
void mwb_push_entries(lua_State *L, mwb_state *s, mw_owner owner);

/* Pushes the held values of the page with the entry `seq`, or nil. */
void mwb_push_page(lua_State *L, const mwb_state *s, uint64_t seq);

/* The engine's callbacks: see mw_host. */
int mwb_deliver(void *ud, mw_entry *entry, const mw_values *values, void *host);
void mwb_forget(void *ud, uint64_t seq);

/* }====================================================== */

/* {======================================================
** apply.c: writes that the library makes for the program.
** ======================================================= */

/* write_back(object, key, old value, entry): restores it, and tells nobody */
int mwb_write_back(lua_State *L);

/* }====================================================== */

/* {======================================================
** rollback.c: gives objects the values from before a transaction.
** ======================================================= */

/* Of `n` entries, the last one first: folds those of whose fields somebody may
** hear, counts the writes of the others, and pushes a value, which must stay as
** long as the fold is used.  `owner` is the transaction that is taken back, or
** 0: fields that others have written later have not changed. */
void mwb_fold_heard(lua_State *L, mwb_state *s, mwb_fold *heard,
                    const mwb_place *p, size_t n, mw_owner owner);

/* Makes memos that depend on the fields in the fold out of date, and tells the
** watches of those that have another value now than after the effects at `fx`;
** puts the first error at `error` if there is nil.  `numbers`, if not NULL, has
** the number of each entry's restoring write as a cause. */
void mwb_tell_undone(lua_State *L, mwb_state *s, const mwb_fold *heard, int fx,
                     int error, const uint32_t *numbers);

/* Gives all objects the values from before a transaction.  Pushes the first
** error or nil, the value of the fold, and effects to tell of, or nil.  Raises
** if there is no memory; then the caller may try again. */
void mwb_undo(lua_State *L, mwb_transaction *tx, mwb_fold *heard);

/* }====================================================== */

/* {======================================================
** origin.c: who writes, and because of what.
** ======================================================= */

/* Pushes the origin of a write that the coroutine `of` makes now, or nil. */
void mwb_push_origin(lua_State *L, mwb_state *s, lua_State *of);

/* The cause of a write made now, if that is no guard's write, or 0. */
uint32_t mwb_other_cause(lua_State *L, mwb_state *s);

/* The number of the write that is the cause of a write made now, or 0. */
static inline uint32_t mwb_cause(lua_State *L, mwb_state *s) {
  uint32_t cause = s->journal->given;
  if (cause == 0 && s->journal->origins > 0) cause = mwb_other_cause(L, s);
  return (cause != 0) ? cause : mw_cause_now(s->engine);
}

/* because(number) -> origin: writes until it is closed have this cause */
int mwb_because(lua_State *L);

/* }====================================================== */

/* {======================================================
** delivered.c: objects as they were before the transactions that are open.
** ======================================================= */

/* What an object had before, in an array: the contents of a table, once they
** are asked for; the class, `false` for none; the state of a userdata, in a
** table; and the fields that have been written, from which the contents are
** made.  An absent part is as it is now. */
enum { MWB_CONTENTS = 1, MWB_CLASSBEFORE, MWB_STATE, MWB_FIELDS };

/* Pushes a table: object -> what the object had before all open transactions;
** nil if none of them has written anything. */
void mwb_push_delivered(lua_State *L, mwb_state *s);

/* Pushes the contents that the table at `object` had, by what is at `all`, from
** the function above; or returns 0 if they are as they are now. */
int mwb_push_before(lua_State *L, int all, int object);

/* Pushes another part of what the object had, and returns the type; nil if the
** part is as it is now.  `all` may be 0: everything is. */
int mwb_push_part_before(lua_State *L, int all, int object, int part);

/* }====================================================== */

#endif
