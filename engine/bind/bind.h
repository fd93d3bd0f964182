/*
** bind.h - what the binding's files share.
** SPDX-License-Identifier: MIT
**
** Each Lua state has one `mwb_state`, a userdata in the registry, with one
** engine.  Every function of the library has two upvalues: that userdata, and
** the array of objects (slot -> object, weak values).  The array is what tells
** the living from the dead: Lua clears an entry when it finds the object dead,
** before it runs finalisers and gives the address away again.  One of its
** entries is a probe that nothing else holds: the probe is gone after each
** collection. */
#ifndef MWB_BIND_H
#define MWB_BIND_H

#include "../engine.h"

#include <lauxlib.h>
#include <lua.h>

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A table that holds what the entries of a journal refer to: see journal.c. */
typedef struct mwb_refs {
  uint32_t n;  /* it has 1 to n */
  uint32_t id; /* never 0, and no other's */
} mwb_refs;

/* A string that such a table has already. */
typedef struct mwb_known {
  const void *string;
  uint32_t id, ref;
} mwb_known;

/* Lua values of the state, in the registry under the numbers in `at`; `false`
** stands for nil there. */
enum {
  MWB_OBJECTS,   /* slot -> object, weakly held */
  MWB_LIBRARY,   /* the table of functions */
  MWB_CLOCKS,    /* name -> clock */
  MWB_CLOCK,     /* metatables: of a clock, */
  MWB_MAP,       /* a weak map, */
  MWB_LIVING,    /* its table of living keys, */
  MWB_EPHEMERON, /* that of its entries, */
  MWB_BOX,       /* and an entry that tells of its key's death */
  MWB_HANDLE,    /* a watch, */
  MWB_GUARD,     /* and a guard */
  MWB_ANCHORS,   /* weak object -> its own metatable */
  MWB_STRINGS,   /* strings that the engine keeps: see key.c */
  MWB_USES,      /* and how often */
  MWB_SERVICE,   /* the thread `service` */
  MWB_CLASSES,   /* classes of which the policy has heard, weakly held */
  MWB_ONERROR,   /* mw.on_error's function */
  MWB_HELD,      /* userdata -> its function guards */
  MWB_BATCH,     /* what is written during a batch */
  MWB_HOOKS,     /* what the policy is asked */
  MWB_EFFECTS,   /* the metatable of effects */
  MWB_CELL,      /* of cells */
  MWB_CELLS,     /* an upvalue's identity -> its cell, weakly held */
  MWB_RESTORE,   /* functions that must be there when memory is not */
  MWB_REWIND,
  MWB_TELLUNDONE,
  MWB_TRACE,    /* metatables: of a trace, */
  MWB_SCOPE,    /* of a timed scope, */
  MWB_SET,      /* and of a set among its data */
  MWB_THREADS,  /* coroutine -> its number in traces, weakly held */
  MWB_TIMERS,   /* what is called when a scope is measured */
  MWB_SOURCES,  /* name of a source -> is it traced? */
  MWB_CONTEXTS, /* the function that asks mw.context's hooks */
  MWB_QUEUE,    /* the first of the dead to be told of */
  MWB_VALUES    /* how many there are */
};

#define MWB_NAMES 4

typedef struct mwb_state {
  mw_engine *engine;  /* NULL once the Lua state is being closed */
  lua_State *service; /* a thread for the engine's callbacks */
  lua_State *main;    /* the main thread */
  lua_Alloc alloc;    /* the Lua state's own */
  void *ud;
  int at[MWB_VALUES];        /* where the registry has the state's values */
  int pending;               /* is there anything to do before the next call? */
  int deserted;              /* may classes have lost their watched objects? */
  int queued;                /* is anybody in the queue of the dead? */
  int notifying;             /* is an on_death running? */
  mw_clock marks;            /* a clock whose tags are the dynamic classes */
  uint64_t collections;      /* how many have ended */
  unsigned needs;            /* what every write has to do: MWB_NOTES... */
  size_t short_string;       /* up to this length, equal strings are one */
  int names[MWB_NAMES];      /* and those of metamethods; see shadow.c */
  int kinds[MW_KINDS];       /* where the registry has their names */
  lua_Integer notes;         /* of the batch */
  int delivering;            /* is a batch ending? */
  struct mwb_budget *budget; /* of the policy's call under way */
  mwb_refs journal;          /* what it refers to */
  int refs_at;               /* where the registry has what they stand for */
  uint32_t refs_ids;         /* tables of references there have been */
  mwb_known known[64];       /* strings that have a reference */
  int wheres;                /* how many want to know where writes are made */
  int restoring;             /* writes are not noted */
  int sources;               /* MWB_WATCHES...: what else is traced */
  int timing;                /* are all scopes measured? */
  lua_Integer threads;       /* coroutines that have a number */
  int contexts;              /* does mw.context have hooks? */
  char *scratch;             /* the text of args under way */
  size_t n_scratch, size_scratch;
  const void *guard_meta; /* metatables, to compare with */
  const void *handle_meta;
  const void *scope_meta, *idle; /* idle: the scope that is none */

  mw_name write_names[MW_KINDS + 1]; /* of traced writes, by kind; in the trace
                                     ** with this base */
  uint64_t write_names_base;
} mwb_state;

/* Upvalues of every function. */
#define MWB_UPSTATE lua_upvalueindex(1)
#define MWB_UPOBJECTS lua_upvalueindex(2)

/* The probe's slot, the first that the engine gives: its address is that of the
** state, which is no object's. */
#define MWB_PROBE 1

/*
** The library's objects (clocks, weak maps) are tables.  Their data are in a
** userdata, which begins with an `mwb_data` and is the third upvalue of the
** methods that are called most: these stand in the object itself, so that the
** call finds them at once, and know their data without a search.  The other
** methods stand in the metatable and get the data from one of the first kind.
*/
typedef struct mwb_data {
  mwb_state *state;
  const void *self; /* the table's address */
} mwb_data;

#define MWB_UPDATA lua_upvalueindex(3)

typedef struct mwb_class {
  const char *type;     /* for messages */
  int metatable;        /* where the state has it */
  const luaL_Reg *hot;  /* methods that stand in the object */
  const luaL_Reg *cold; /* the other methods */
  const luaL_Reg *meta; /* metamethods */
} mwb_class;

/* {======================================================
** engine.c: the state, errors, memory
** ======================================================= */

/* A collection has ended: the probe is gone.  Sets a new one. */
void mwb_collected(lua_State *L, mwb_state *s);

/* Does a bounded slice of what is due; raises when the state is closed. */
void mwb_slice(lua_State *L, mwb_state *s);

/* Pushes one of the state's values. */
static inline void mwb_push(lua_State *L, const mwb_state *s, int value) {
  if (lua_rawgeti(L, LUA_REGISTRYINDEX, s->at[value]) != LUA_TBOOLEAN) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Sets one of them to the value on the top, which is removed.  Needs no
** memory. */
static inline void mwb_keep(lua_State *L, const mwb_state *s, int value) {
  if (lua_isnil(L, -1)) { /* luaL_ref would give the place to others */
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
  }
  lua_rawseti(L, LUA_REGISTRYINDEX, s->at[value]);
}

/* The state, for the functions that Lua calls.  All others get the state as a
** parameter. */
static inline mwb_state *mwb_state_of(lua_State *L) {
  return (mwb_state *)lua_touserdata(L, MWB_UPSTATE);
}

/* Has a collection ended since the last time?  Then anything may run. */
static inline int mwb_probe(lua_State *L, mwb_state *s) {
  int ended;
  mwb_push(L, s, MWB_OBJECTS);
  ended = lua_rawgeti(L, -1, MWB_PROBE) == LUA_TNIL;
  lua_pop(L, 2);
  if (ended) mwb_collected(L, s);
  return ended;
}

/* Each function begins with this or with a `self`. */
static inline mwb_state *mwb_enter(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  int ended = lua_rawgeti(L, MWB_UPOBJECTS, MWB_PROBE) == LUA_TNIL;
  lua_pop(L, 1);
  if (ended) mwb_collected(L, s);
  if (s->pending) mwb_slice(L, s);
  return s;
}

/* Pushes the state, when there are no upvalues. */
void mwb_push_state(lua_State *L);

/* Makes one of the state's values a table with weak keys. */
void mwb_new_ephemeron(lua_State *L, int value);

/* Sets functions in the table on the top, with the upvalues of every function
** (taken from the running one). */
void mwb_set_funcs(lua_State *L, const luaL_Reg *list);

/* Pushes such a function, from anywhere. */
void mwb_push_function(lua_State *L, const mwb_state *s, lua_CFunction f);

/* What the value at `index` is, for a message.  May push. */
const char *mwb_type_name(lua_State *L, int index);

/* Raises "bad argument": `index` on the stack, `arg` in the message. */
int mwb_bad_argument(lua_State *L, const char *name, int index, int arg,
                     const char *expected);

/* The integer at `index`, or raises. */
lua_Integer mwb_integer(lua_State *L, const char *name, int index, int arg);

/* Raises what a code says, unless it is MW_OK. */
void mwb_check(lua_State *L, int code);

/* }====================================================== */

/* {======================================================
** object.c: the library's objects
** ======================================================= */

/* Makes a metatable, with methods under `__index`, and keeps it as one of the
** state's user values.  Returns its address. */
const void *mwb_new_meta(lua_State *L, int uservalue, const char *type,
                         const luaL_Reg *meta, const luaL_Reg *methods);

/* Makes the metatable of a class. */
void mwb_new_class(lua_State *L, const mwb_class *class_);

/* Takes the userdata on the top, which begins with an `mwb_data`, and pushes a
** new object with these data. */
void mwb_new_object(lua_State *L, const mwb_class *class_);

/* For the other methods: pushes the data of the object at index 1 and returns
** them, or raises. */
void *mwb_self(lua_State *L, const mwb_class *class_, const char *name);

/* For the methods that stand in the object: the data, at MWB_UPDATA.  NULL when
** index 1 is not their object. */
static inline void *mwb_hot_self(lua_State *L) {
  mwb_data *data = (mwb_data *)lua_touserdata(L, MWB_UPDATA);
  if (lua_topointer(L, 1) != data->self) return NULL;
  if (data->state->pending) mwb_slice(L, data->state);
  return data;
}

/* What is to be done then: calls the method of the object at index 1, or
** raises when it is not one of the class. */
int mwb_redirect(lua_State *L, const mwb_class *class_, const char *name);

/* }====================================================== */

/* {======================================================
** identity.c: objects and handles
** ======================================================= */

/*
** The address of the object at `index`, NULL when it is not an object.  That
** of a userdata is its contents', which may be no bytes at all; then, behind
** them, another object may begin.  So it is taken to be one byte less.
*/
static inline const void *mwb_address(lua_State *L, int index) {
  const char *ptr = (const char *)lua_topointer(L, index);
  switch (lua_type(L, index)) {
    case LUA_TTABLE:
    case LUA_TFUNCTION:
    case LUA_TTHREAD:
      return ptr;
    case LUA_TUSERDATA:
      return ptr - 1;
    default:
      return NULL;
  }
}

/* Raises unless there is an object at `index`. */
void mwb_object(lua_State *L, const char *name, int index, int arg);

/* The slot of the value at `index`, 0 when it has none; if it has one, pushes
** the value, else perhaps something. */
static inline uint32_t mwb_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0;
  mwb_push(L, s, MWB_OBJECTS);
  if (lua_rawgeti(L, -1, slot) == LUA_TNIL) return 0;
  lua_replace(L, -2);
  return slot;
}

/*
** The slot of the value at `index`, 0 when it has none; may push.  For methods
** that stand in their object and are called most.  An address that the engine
** knows can be that of a dead object only after a collection whose dead are yet
** to be forgotten; at other times the array need not be looked at for a slot,
** which saves a cache miss.
*/
static inline uint32_t mwb_hot_slot(lua_State *L, mwb_state *s, int index) {
  const void *ptr = mwb_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwi_identity_find(s->engine, ptr);
  if (slot == 0) return 0;
  if (lua_rawgeti(L, MWB_UPOBJECTS, MWB_PROBE) != LUA_TNIL &&
      s->engine->identity.left == 0)
    return slot;
  return (lua_rawgeti(L, MWB_UPOBJECTS, slot) != LUA_TNIL) ? slot : 0;
}

/* Gives the value at `index`, which has no slot, an identity; raises when it is
** not an object. */
mw_handle mwb_enrol(lua_State *L, mwb_state *s, const char *name, int index,
                    int arg);

/* The handle of the object at `index`, given one when it has none; anything
** that is not an object raises. */
mw_handle mwb_identify(lua_State *L, mwb_state *s, const char *name, int index,
                       int arg);

/* The handle of the value at `index`, MW_NONE when it has none; and MW_NONE too
** when its writes are not reported. */
mw_handle mwb_handle_of(lua_State *L, mwb_state *s, int index);
mw_handle mwb_intercepting_at(lua_State *L, mwb_state *s, int index);

/* Begins a function whose first argument must be an object, and that looks at
** `args` of them. */
mwb_state *mwb_enter_object(lua_State *L, const char *name, int args);

/* The serial of `h`, whose object must be alive. */
lua_Integer mwb_serial(lua_State *L, mwb_state *s, mw_handle h);

/* Does the object of `h` still live?  If so, pushes it, else anything. */
static inline int mwb_alive(lua_State *L, const mwb_state *s, mw_handle h) {
  if (!mwi_identity_is_valid(&s->engine->identity, h)) {
    lua_pushnil(L);
    return 0;
  }
  mwb_push(L, s, MWB_OBJECTS);
  lua_rawgeti(L, -1, mw_slot(h));
  lua_replace(L, -2);
  return !lua_isnil(L, -1);
}

/* Does death work: no more than `looks` slots, no more than `deaths` deaths.
** Returns how many deaths it dealt with. */
size_t mwb_reap(lua_State *L, mwb_state *s, size_t looks, size_t deaths);

/* }====================================================== */

/* {======================================================
** weakmap.c
** ======================================================= */

/* Calls on_death for at most `n` entries whose keys have died; returns for how
** many. */
size_t mwb_notify(lua_State *L, mwb_state *s, size_t n);

/* }====================================================== */

/* {======================================================
** Records
** ======================================================= */

/* The record of an object, or NULL. */
static inline mwi_object *mwb_object_of(const mwb_state *s, mw_handle h) {
  return mwi_object_find(&s->engine->watch, h);
}
static inline mwi_object *mwb_object_at(lua_State *L, mwb_state *s, int index) {
  return mwb_object_of(s, mwb_handle_of(L, s, index));
}

/* Does the object tell of its writes? */
static inline int mwb_intercepts(const mwb_state *s, mw_handle h) {
  const mwi_object *r = mwb_object_of(s, h);
  return r != NULL && mwi_object_intercepts(r);
}

/* What every write has to do besides what the object's record says; bits of
** `needs`, next to those of enum mwi_need. */
enum {
  MWB_NOTES = 0x100,   /* somebody records */
  MWB_TRACES = 0x200,  /* each write is traced */
  MWB_IGNORES = 0x400, /* the policy says that some fields are ignored */
  MWB_BATCHES = 0x800  /* guards hear at the end of a batch */
};

/* Sets or clears a bit of `needs`. */
static inline void mwb_need(mwb_state *s, unsigned bit, int on) {
  s->needs = on ? s->needs | bit : s->needs & ~bit;
}

/* }====================================================== */

/* {======================================================
** journal.c: what is noted of writes, and undo.c
** ======================================================= */

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

void mwb_open_journal(lua_State *L);
void mwb_open_effects(lua_State *L);
void mwb_open_rollback(lua_State *L);

/* }====================================================== */

/* {======================================================
** key.c: keys as the engine sees them
** ======================================================= */

/* The key at `index`; one that the engine does not keep is equal to none that
** it keeps. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index);

/* The same for a key that the engine is to keep; raises when there is no
** memory. */
mw_value mwb_key_to_keep(lua_State *L, mwb_state *s, int index);

/* Pushes the key of a value that the engine keeps. */
void mwb_push_key(lua_State *L, mwb_state *s, const mw_value *key);

/* Counts what the engine keeps; for the engine. */
void mwb_retain(void *ud, const mw_value *key);
void mwb_release(void *ud, const mw_value *key);

void mwb_open_keys(lua_State *L, mwb_state *s);
void mwb_open_shadow(lua_State *L, mwb_state *s);

/* }====================================================== */

/* {======================================================
** watch.c
** ======================================================= */

/* Tells the policy that the object at `index` is watched, or no longer, if its
** class may have mutators. */
void mwb_class_watched(lua_State *L, mwb_state *s, int index);
void mwb_class_unwatched(lua_State *L, mwb_state *s, int index);

/* Is the value at `index` an object of the library, which knows its own
** metatable? */
int mwb_is_ours(lua_State *L, const mwb_state *s, int index);

/* }====================================================== */

/* Each concept's part of the library: sets functions in the table on top. */
void mwb_open_identity(lua_State *L, mwb_state *s);
void mwb_open_clock(lua_State *L, mwb_state *s);
void mwb_open_weakmap(lua_State *L, mwb_state *s);
void mwb_open_guard(lua_State *L, mwb_state *s);
void mwb_open_watch(lua_State *L, mwb_state *s);
void mwb_open_batch(lua_State *L);
void mwb_open_touch(lua_State *L);
void mwb_open_interception(lua_State *L);
void mwb_open_calls(lua_State *L);
void mwb_open_assign(lua_State *L);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
