/*
** bind.h - what the binding's files share.
** SPDX-License-Identifier: MIT
**
** Each Lua state has one `mwB_state`, a userdata in the registry, with one
** engine.  Every function of the library has two upvalues: that userdata, and
** the array of objects (slot -> object, weak values).  The array is what tells
** the living from the dead: Lua clears an entry when it finds the object dead,
** before it runs finalisers and gives the address away again.  Its entry 0 is a
** probe that nothing else holds: it is gone after each collection. */
#ifndef MW_BIND_H
#define MW_BIND_H

#include "../engine.h"

#include <lauxlib.h>
#include <lua.h>

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A table that holds what the entries of a journal refer to: see journal.c. */
typedef struct mwB_refs {
  uint32_t n;  /* it has 1 to n */
  uint32_t id; /* never 0, and no other's */
} mwB_refs;

/* A string that such a table has already. */
typedef struct mwB_known {
  const void *string;
  uint32_t id, ref;
} mwB_known;

typedef struct mwB_state {
  mw_engine *engine; /* NULL once the Lua state is being closed */
  lua_State *L;      /* the thread in which the engine is called */
  lua_State *main;   /* the main thread */
  lua_Alloc alloc;   /* the Lua state's own */
  void *ud;
  int pending;          /* is there anything to do before the next call? */
  int queued;           /* is anybody in the queue of the dead? */
  int notifying;        /* is an on_death running? */
  mw_clock marks;       /* a clock whose tags are the dynamic classes */
  uint64_t collections; /* how many have ended */
  uint64_t refs;        /* function guards there have been */
  uint32_t *uses;       /* how often each numbered string is used */
  uint32_t strings, size_uses, free_string;
  lua_Integer notes;         /* of the batch */
  int delivering;            /* is a batch ending? */
  struct mwB_budget *budget; /* of the policy's call under way */
  mw_handle *resting;        /* objects whose traps rest, perhaps */
  uint32_t n_resting, size_resting;
  mwB_refs journal;    /* what it refers to */
  int refs_at;         /* where the registry has what they stand for */
  uint32_t refs_ids;   /* tables of references there have been */
  mwB_known known[64]; /* strings that have a reference */
  int wheres;          /* how many want to know where writes are made */
  int restoring;       /* writes are not noted */
  int ignores;         /* does the policy say that keys are ignored? */
  int sources;         /* MWB_WATCHES...: what else is traced */
  int timing;          /* are all scopes measured? */
  lua_Integer threads; /* coroutines that have a number */
  char *scratch;       /* the text of args under way */
  size_t n_scratch, size_scratch;
  const void *guard_meta; /* metatables, to compare with */
  const void *handle_meta;
  const void *scope_meta, *idle; /* idle: the scope that is none */
} mwB_state;

/* User values of the state. */
enum {
  MWB_LIBRARY = 1, /* the table of functions */
  MWB_CLOCKS,      /* name -> clock */
  MWB_CLOCK,       /* metatables: of a clock, */
  MWB_MAP,         /* a weak map, */
  MWB_EPHEMERON,   /* its table of entries, */
  MWB_BOX,         /* and an entry that tells of its key's death */
  MWB_HANDLE,      /* a watch, */
  MWB_GUARD,       /* and a guard */
  MWB_ANCHORS,     /* weak object -> its own metatable */
  MWB_STRINGS,     /* strings that the engine knows as keys <-> numbers */
  MWB_ONERROR,     /* mw.on_error's function */
  MWB_KINDS,       /* names of kinds, by number + 1 */
  MWB_HELD,        /* userdata -> its function guards */
  MWB_BATCH,       /* what is written during a batch */
  MWB_TELL,        /* the function that calls a guard of a deep watch */
  MWB_HOOKS,       /* what the policy is asked */
  MWB_EFFECTS,     /* the metatable of effects */
  MWB_CELL,        /* of cells */
  MWB_CELLS,       /* an upvalue's identity -> its cell, weakly held */
  MWB_RESTORE,     /* functions that must be there when memory is not */
  MWB_REWIND,
  MWB_TELLUNDONE,
  MWB_TRACE,    /* metatables: of a trace, */
  MWB_SCOPE,    /* of a timed scope, */
  MWB_SET,      /* and of a set among its data */
  MWB_THREADS,  /* coroutine -> its number in traces, weakly held */
  MWB_TIMERS,   /* what is called when a scope is measured */
  MWB_SOURCES,  /* name of a source -> is it traced? */
  MWB_CONTEXTS, /* the function that asks mw.context's hooks */
  MWB_QUEUE     /* the first of the dead to be told of */
};
#define MWB_USERVALUES MWB_QUEUE

/* Upvalues of every function. */
#define MWB_UPSTATE lua_upvalueindex(1)
#define MWB_UPOBJECTS lua_upvalueindex(2)

/*
** The library's objects (clocks, weak maps) are tables.  Their data are in a
** userdata, which begins with an `mwB_data` and is the third upvalue of the
** methods that are called most: these stand in the object itself, so that the
** call finds them at once, and know their data without a search.  The other
** methods stand in the metatable and get the data from one of the first kind.
*/
typedef struct mwB_data {
  mwB_state *state;
  const void *self; /* the table's address */
} mwB_data;

#define MWB_UPDATA lua_upvalueindex(3)

typedef struct mwB_class {
  const char *type;     /* for messages */
  int metatable;        /* where the state has it */
  const luaL_Reg *hot;  /* methods that stand in the object */
  const luaL_Reg *cold; /* the other methods */
  const luaL_Reg *meta; /* metamethods */
} mwB_class;

/* {======================================================
** engine.c: the state, errors, memory
** ======================================================= */

/* A collection has ended: the weak probe in slot 0 is gone.  Sets a new one. */
void mwB_collected(lua_State *L, mwB_state *s);

/* Does a bounded slice of what is due; raises when the state is closed. */
void mwB_slice(lua_State *L, mwB_state *s);

/* Has a collection ended since the last time?  Then anything may run. */
static inline int mwB_probe(lua_State *L, mwB_state *s) {
  int ended = lua_rawgeti(L, MWB_UPOBJECTS, 0) == LUA_TNIL;
  lua_pop(L, 1);
  if (ended) mwB_collected(L, s);
  return ended;
}

/* Each function begins with this or with a `self`. */
static inline mwB_state *mwB_enter(lua_State *L) {
  mwB_state *s = (mwB_state *)lua_touserdata(L, MWB_UPSTATE);
  mwB_probe(L, s);
  if (s->pending) mwB_slice(L, s);
  return s;
}

/* Pushes the state, when there are no upvalues. */
void mwB_pushstate(lua_State *L);

/* Pushes one of the state's user values. */
void mwB_push(lua_State *L, int uservalue);

/* Makes one of the state's user values a table with weak keys. */
void mwB_newephemeron(lua_State *L, int uservalue);

/* Sets functions in the table on the top, with the upvalues of every function
** (taken from the running one). */
void mwB_setfuncs(lua_State *L, const luaL_Reg *list);

/* Pushes a function with those upvalues. */
void mwB_pushfunction(lua_State *L, lua_CFunction f);

/* What the value at `index` is, for a message.  May push. */
const char *mwB_typename(lua_State *L, int index);

/* Raises "bad argument": `index` on the stack, `arg` in the message. */
int mwB_badarg(lua_State *L, const char *name, int index, int arg,
               const char *expected);

/* The integer at `index`, or raises. */
lua_Integer mwB_integer(lua_State *L, const char *name, int index, int arg);

/* Raises what a code says, unless it is MW_OK. */
void mwB_check(lua_State *L, int code);

/* }====================================================== */

/* {======================================================
** object.c: the library's objects
** ======================================================= */

/* Makes a metatable, with methods under `__index`, and keeps it as one of the
** state's user values.  Answers its address. */
const void *mwB_newmeta(lua_State *L, int uservalue, const char *type,
                        const luaL_Reg *meta, const luaL_Reg *methods);

/* Makes the metatable of a class. */
void mwB_newclass(lua_State *L, const mwB_class *class_);

/* Takes the userdata on the top, which begins with an `mwB_data`, and pushes a
** new object with these data. */
void mwB_newobject(lua_State *L, const mwB_class *class_);

/* For the other methods: pushes the data of the object at index 1 and answers
** them, or raises. */
void *mwB_self(lua_State *L, const mwB_class *class_, const char *name);

/* For the methods that stand in the object: the data, at MWB_UPDATA.  NULL when
** index 1 is not their object. */
static inline void *mwB_hotself(lua_State *L) {
  mwB_data *data = (mwB_data *)lua_touserdata(L, MWB_UPDATA);
  if (lua_topointer(L, 1) != data->self) return NULL;
  if (data->state->pending) mwB_slice(L, data->state);
  return data;
}

/* What is to be done then: calls the method of the object at index 1, or
** raises when it is not one of the class. */
int mwB_redirect(lua_State *L, const mwB_class *class_, const char *name);

/* }====================================================== */

/* {======================================================
** identity.c: objects and handles
** ======================================================= */

/*
** The address of the object at `index`, NULL when it is not an object.  That
** of a userdata is its contents', which may be no bytes at all; then, behind
** them, another object may begin.  So it is taken to be one byte less.
*/
static inline const void *mwB_address(lua_State *L, int index) {
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
void mwB_object(lua_State *L, const char *name, int index, int arg);

/* The slot of the value at `index`, 0 when it has none; if it has one, pushes
** the value, else perhaps something. */
static inline uint32_t mwB_slot(lua_State *L, mwB_state *s, int index) {
  const void *ptr = mwB_address(L, index);
  uint32_t slot = (ptr == NULL) ? 0 : mwI_find(s->engine, ptr);
  if (slot == 0 || lua_rawgeti(L, MWB_UPOBJECTS, slot) == LUA_TNIL) return 0;
  return slot;
}

/* Gives the value at `index`, which has no slot, an identity; raises when it is
** not an object. */
mw_handle mwB_enrol(lua_State *L, mwB_state *s, const char *name, int index,
                    int arg);

/* The handle of the object at `index`, given one when it has none; anything
** that is not an object raises. */
mw_handle mwB_identify(lua_State *L, mwB_state *s, const char *name, int index,
                       int arg);

/* The handle of the value at `index`, MW_NONE when it has none; and MW_NONE too
** when its writes are not reported. */
mw_handle mwB_handleof(lua_State *L, mwB_state *s, int index);
mw_handle mwB_reportsat(lua_State *L, mwB_state *s, int index);

/* Begins a function whose first argument must be an object, and that looks at
** `args` of them. */
mwB_state *mwB_enterobject(lua_State *L, const char *name, int args);

/* The serial of `h`, whose object must be alive. */
lua_Integer mwB_serial(lua_State *L, mwB_state *s, mw_handle h);

/* Does the object of `h` still live?  If so, pushes it, else anything. */
static inline int mwB_alive(lua_State *L, mwB_state *s, mw_handle h) {
  if (mwI_valid(&s->engine->identity, h))
    return lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(h)) != LUA_TNIL;
  lua_pushnil(L);
  return 0;
}

/* Does death work: no more than `looks` slots, no more than `deaths` deaths.
** Answers how many deaths it dealt with. */
size_t mwB_reap(lua_State *L, mwB_state *s, size_t looks, size_t deaths);

/* }====================================================== */

/* {======================================================
** weakmap.c
** ======================================================= */

/* Calls on_death for at most `n` entries whose keys have died; answers for how
** many. */
size_t mwB_notify(lua_State *L, mwB_state *s, size_t n);

/* }====================================================== */

/* {======================================================
** shadow.c: tables that tell of writes
** ======================================================= */

/* trap.c: the trap, with its upvalues shadow, handle, state; where the registry
** has what it calls when somebody is to hear of a write. */
int mwB_trap(lua_State *L);
extern const char mwB_writekey;

/* Stores key and value, at 2 and 3 (and on the top), in the shadow; or notes it
** as well. */
void mwB_storein(lua_State *L, int shadow, mwW_record *r);
void mwB_storenoted(lua_State *L, int shadow, mwW_record *r, mwB_state *s,
                    mw_handle h);

/* In an object's own metatable. */
enum { MWB_OWNCLASS = 1, MWB_OWNGUARDS, MWB_OWNTRAP };

/* Pushes the own metatable of the object at `index`, or answers 0. */
int mwB_pushown(lua_State *L, int index);

/* Pushes the table with its contents, or answers 0. */
int mwB_pushshadow(lua_State *L, int index);

/* Pushes its class: its metatable as the program sees it, or nil. */
void mwB_pushclass(lua_State *L, int index);

/* Is the key at `index` one that Lua looks up raw in metatables? */
int mwB_ismeta(lua_State *L, int index);

/* Gives the object, which has an identity, a shadow (a new one if it has one),
** as an instance of a class, a table or nil. */
void mwB_enshadow(lua_State *L, int object, int class_);

/* Sets the class of the table at `object`, by a new shadow if it has one. */
void mwB_setclass(lua_State *L, int object, int class_);

/* Gives it back as it was.  The second is for a shadow just made, when there is
** no memory: it needs none, for the object has room for what it had. */
void mwB_unshadow(lua_State *L, int index);
void mwB_undoshadow(lua_State *L, int index);

/* Stores key and value, at 2 and 3, in the object at 1 with the shadow at
** `shadow` and that record (or NULL); the first by the rules of its class. */
void mwB_store(lua_State *L, int shadow, mwW_record *r);
void mwB_put(lua_State *L, int shadow, mwW_record *r);

/* The same for an object that no deep watch includes. */
void mwB_putshallow(lua_State *L, int shadow, mwW_record *r);

/* The record of an object, or NULL. */
static inline mwW_record *mwB_recordof(const mwB_state *s, mw_handle h) {
  if (!mwI_valid(&s->engine->identity, h)) return NULL;
  return mwW_recordof(&s->engine->watch, mw_slot(h));
}
mwW_record *mwB_recordat(lua_State *L, mwB_state *s, int index);

/* Does the object tell of its writes? */
static inline int mwB_reports(const mwB_state *s, mw_handle h) {
  const mwW_record *r = mwB_recordof(s, h);
  return r != NULL && mwW_reports(r);
}

/* Makes `#` go to the shadow: something may be put there under an integer. */
void mwB_needlen(lua_State *L, int index, mwW_record *r);

/* Pushes a field of the table at `index`, raw; answers its type. */
int mwB_rawfield(lua_State *L, int index, const char *name);

/* Sets what the trap calls when somebody is to hear of a write:
** write(object, key, value, shadow, handle). */
void mwB_openshadow(lua_State *L, lua_CFunction write);

/* }====================================================== */

/* {======================================================
** rest.c: traps that rest
** ======================================================= */

/* Lets the trap of the object at `index` rest if nobody needs it; and sets it
** again, or all that rest.  The object's record may be NULL. */
void mwB_rest(lua_State *L, mwW_record *r, int index);
void mwB_wake(lua_State *L, int index);
void mwB_wakeall(lua_State *L, mwB_state *s);

/* }====================================================== */

/* {======================================================
** userdata.c: userdata that tell of writes
** ======================================================= */

/* Stores key and value, at 2 and 3, in the object at 1 by the `__newindex` at
** `newindex`. */
void mwB_callnewindex(lua_State *L, int newindex);

/* Lets the class of the userdata at `index` tell of writes to one more of its
** objects, or one less. */
void mwB_patch(lua_State *L, int index);
void mwB_unpatch(lua_State *L, int index);

/* Pushes the class's own `__newindex`, of the userdata at `index`. */
void mwB_pushnewindex(lua_State *L, int index);

/* Sets what the trap calls when somebody is to hear of a write:
** write(userdata, key, value, the class's own `__newindex`, handle). */
void mwB_openuserdata(lua_State *L, lua_CFunction write);

/* }====================================================== */

/* {======================================================
** trace.c: what is traced besides scopes; see trace.h
** ======================================================= */

/* Bits of `sources`, in the order of their names. */
enum {
  MWB_WATCHES = 1,
  MWB_EPOCHS = 2,
  MWB_TRANSACTIONS = 4,
  MWB_HIERARCHIES = 8
};

/* Is each write to be traced? */
static inline int mwB_tracing(const mwB_state *s) {
  return (s->sources & MWB_WATCHES) != 0;
}

/* }====================================================== */

/* {======================================================
** journal.c: what is noted of writes, and undo.c
** ======================================================= */

/* Are writes to be noted? */
static inline int mwB_noting(const mwB_state *s) {
  return s->engine->journal.readers > 0 && !s->restoring;
}

/* Begins the entry of a write.  Finalisers may run, and may take back what was
** written, so the old value is read after it. */
void mwB_beginentry(lua_State *L, mwB_state *s, mw_entry *entry);

/* Makes the rest of it, key, value and old value at those places; there will be
** memory for it.  It is to be made again if other code has run meanwhile, and
** the journal has let go of references: then these have another id. */
void mwB_prepare(lua_State *L, mwB_state *s, mw_handle h, int key, int value,
                 int old, mw_entry *entry);

/* Holds the object at `index`, of an entry that is prepared, for as long as the
** entry is there. */
void mwB_hold(lua_State *L, mwB_state *s, int index, const mw_entry *entry);

/* Gives an object another class, and notes it: object, old class and new one at
** OBJECT, OLD and VALUE of write.h. */
void mwB_changeclass(lua_State *L, mwB_state *s, mw_handle h);

/* It was made, and nothing else was noted meanwhile. */
static inline void mwB_note(mwB_state *s, const mw_entry *entry) {
  if (entry->obj != MW_NONE) mwJ_append(&s->engine->journal, entry);
}

/* Does the policy say that nobody is to hear of the key at 2 of the object at
** 1? */
int mwB_isignored(lua_State *L);

/* Restores for the engine. */
void mwB_restore(void *ud, const mw_entry *entry, void *host);

void mwB_openjournal(lua_State *L);
void mwB_opencell(lua_State *L);
void mwB_openeffects(lua_State *L);
void mwB_openundo(lua_State *L);

/* }====================================================== */

/* {======================================================
** value.c, write.c and guard.c
** ======================================================= */

/* What a guard's ref may have besides: it is no function; it is called once; it
** hears of what is below. */
#define MWB_REFWEAK ((uint64_t)1 << 63)
#define MWB_REFONCE ((uint64_t)1 << 62)
#define MWB_REFDEEP ((uint64_t)1 << 61)
#define MWB_REFBITS (MWB_REFWEAK | MWB_REFONCE | MWB_REFDEEP)

/* Pushes the table of function guards of the object at `index`, or nil. */
void mwB_pushguards(lua_State *L, int index);

/* The key at `index` as the engine sees it.  With `add`, an object or a string
** that has no number yet gets one. */
mw_value mwB_key(lua_State *L, mwB_state *s, int index, int add);

/* Is there an `mw.guard` at `index`? */
int mwB_isguard(lua_State *L, const mwB_state *s, int index);

/* The name of a kind, and the kind of the name at `index`; raises. */
void mwB_pushkind(lua_State *L, int kind);
int mwB_kind(lua_State *L, int index);

/* Pushes the key of a value that came from `mwB_key`. */
void mwB_pushkey(lua_State *L, mwB_state *s, const mw_value *key);

/* Counts what the engine keeps; for its host. */
void mwB_retain(void *ud, const mw_value *key);
void mwB_release(void *ud, const mw_value *key);

/* }====================================================== */

/* {======================================================
** deep.c: what is below an object
** ======================================================= */

/* Includes what is below the table at `index`, a root; may raise half-way. */
void mwB_include(lua_State *L, mwB_state *s, int index);

/* Gives back at most `n` objects that are no longer included. */
void mwB_letgo(lua_State *L, mwB_state *s, size_t n);

/* May there be some? */
static inline int mwB_unsettled(const mwB_state *s) {
  return mw_unsettled(s->engine) && !mw_recording(s->engine);
}

/* `mwB_put` for an object that is included. */
void mwB_putdeep(lua_State *L, int shadow);

/* Makes tell(guard, root, object, key, old, new, kind). */
void mwB_opendeep(lua_State *L);

/* }====================================================== */

/* {======================================================
** policy.c
** ======================================================= */

/* What the policy is asked and told, by functions that policy.lua sets. */
enum {
  MWB_DESCEND = 1, /* (parent, key, child) -> may a deep watch go there? */
  MWB_IGNORED,     /* (object) -> a set of keys, or nil */
  MWB_CLASS,       /* (object) -> its class, or nil */
  MWB_WATCHED,     /* (class): one of its objects is, for the first time */
  MWB_UNWATCHED,   /* (class): none is any more */
  MWB_DESERTED     /* (): that may be so with some class */
};

/* Pushes a hook, or answers 0. */
int mwB_pushhook(lua_State *L, int hook);

/* Sets the functions that only the library's own Lua files use in the table on
** the top. */
void mwB_openpolicy(lua_State *L);
void mwB_opencalls(lua_State *L);
void mwB_openassign(lua_State *L);
void mwB_opentime(lua_State *L);

/* }====================================================== */

/* {======================================================
** watch.c
** ======================================================= */

/* Counts the object at `index` among the watched of its class; tells the policy
** when it is the first. */
void mwB_join(lua_State *L, mwB_state *s, int index);

/* One has left: tells the policy when it was the last. */
void mwB_left(lua_State *L, mwB_state *s, mw_handle class_);

/* Raises unless there is a table or a userdata at 1 that can tell of writes. */
void mwB_trackable(lua_State *L, const char *name);

/* Is the value at `index` an object of the library, which knows its own
** metatable? */
int mwB_isours(lua_State *L, int index);

/* }====================================================== */

/* Each concept's part of the library: sets functions in the table on top. */
void mwB_openidentity(lua_State *L, mwB_state *s);
void mwB_openclock(lua_State *L, mwB_state *s);
void mwB_openweakmap(lua_State *L, mwB_state *s);
void mwB_openguard(lua_State *L, mwB_state *s);
void mwB_openwatch(lua_State *L, mwB_state *s);
void mwB_openwrite(lua_State *L, mwB_state *s);
void mwB_openbatch(lua_State *L);
void mwB_openreport(lua_State *L);
void mwB_opentrack(lua_State *L);
void mwB_openreports(lua_State *L);
void mwB_openscope(lua_State *L);
void mwB_opentally(lua_State *L);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
