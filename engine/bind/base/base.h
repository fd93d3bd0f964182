/*
** base.h - the library as a Lua value: objects, keys, options, methods.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_BASE_H
#define MWB_BASE_H

#include "bind.h"

/* {======================================================
** The room's part of the state
** ======================================================= */

/* What only this room asks for. */
enum {
  MWB_LIBRARY = MWB_SHARED, /* the table of functions */
  MWB_CLOCKS,               /* name -> clock */
  MWB_CLOCK,                /* metatables: of a clock, */
  MWB_DEATH,                /* f() -> on_death, value, id, are there more? */
  MWB_CLASSY,               /* classes that the library knows: see state.c */
  MWB_QUESTIONS,            /* the policy's functions: see policy.c */
  MWB_LATER,                /* calls and writes that wait: see later.c, */
  MWB_LATE, /* and an error that the library's next call raises */
  MWB_BASE_END
};

struct mwb_base_state {
  mw_host host;        /* of the program, for its MW_PINNED objects */
  int has_host;        /* is there one? */
  int is_attached;     /* does the program own the engine? */
  const void *library; /* the table of all functions: see `mwb_check_dot` */
  int descends;        /* does the policy say what a deep watch includes? */
  int deserted;        /* may a class have lost its last watched object? */
  size_t made;         /* objects that became known, and no slice has paid */
  int queued;          /* are there deaths to be told? */
  int notifying;       /* is an on_death running? */
  int late;            /* does an error wait for the next call? */
  int ending;          /* is what waits being ended? */
};

/* }====================================================== */

/* {======================================================
** library.c: what each file adds to the library.
** ======================================================= */

/* The files with public functions, mwb_NAME_functions, and those that have more
** to make in the library's table on the top: mwb_open_NAME(L).  Then the same
** for the library's own Lua files. */
/* clang-format off */
#define MWB_PUBLIC_FUNCTIONS(each) \
  each(identity) each(plain) each(touch) each(memory)
#define MWB_PUBLIC(each) \
  each(keys) each(clock) each(guard) each(shadow) each(watch) \
  each(batch) each(trace) each(timed) each(lanes) each(origins)
#define MWB_PRIVATE_FUNCTIONS(each) \
  each(classes) each(deaths) each(calls) each(interception) each(tree) \
  each(apply) each(fold) each(writers) each(snapshots) each(restores) \
  each(replay) each(hierarchy) each(timers) each(tracing) each(trace_file)
#define MWB_PRIVATE(each) \
  each(boxes) each(views) each(policy) each(cell) each(coroutines) each(later) \
  each(entries) each(effects) each(transaction) each(reads) each(userdata) \
  each(state) each(memo) each(readers) each(feeds)
/* clang-format on */

#define MWB_FUNCTIONS(file) extern const luaL_Reg mwb_##file##_functions[];
MWB_PUBLIC_FUNCTIONS(MWB_FUNCTIONS)
MWB_PRIVATE_FUNCTIONS(MWB_FUNCTIONS)
#undef MWB_FUNCTIONS

#define MWB_OPEN(file) void mwb_open_##file(lua_State *L);
MWB_PUBLIC(MWB_OPEN)
MWB_PRIVATE(MWB_OPEN)
#undef MWB_OPEN

/* }====================================================== */

/* {======================================================
** class.c: the library's own objects.
** ======================================================= */

/* The userdata that methods of one object have as third upvalue. */
#define MWB_UPDATA lua_upvalueindex(3)

/* Is the value at `index` one of the library's own objects? */
int mwb_is_ours(lua_State *L, int index);

/* Is the value at `index` a userdata whose metatable is the state's value
** `meta`? */
int mwb_is_of(lua_State *L, const mwb_state *s, int index, int meta);

/* Returns the userdata at 1, on which the method `name` was called; raises if
** the metatable is another one. */
void *mwb_check_self(lua_State *L, const mwb_state *s, const char *name,
                     int meta, const char *type);

/* Makes the metatable at `index` that of a class: objects cannot be watched,
** and setting a field raises an error, which says what to `use`, or NULL. */
void mwb_seal(lua_State *L, int index, const char *use);

/* Makes a metatable, with methods under `__index` (either list may be NULL),
** and makes the metatable the state's value `value`. */
void mwb_new_meta(lua_State *L, int value, const char *type,
                  const luaL_Reg *meta, const luaL_Reg *methods);

/* }====================================================== */

/* {======================================================
** options.c: the reader of tables of options.
** ======================================================= */

/* All of an option is its row in a list, which ends with a NULL name. */
typedef struct mwb_option {
  const char *name;
  int type;            /* as of `lua_type`; LUA_TNONE: any */
  const char *choices; /* of a string, at least two, "a\0b\0"; or NULL: any */
  int flags
      [3];   /* what sets `false`, and `true`; each choice; any other value */
  int needs; /* the flags without which the option, unless `false`, is */
  const char *wrong; /* wrong, and the end of the message */
} mwb_option;

/* The row of an option without flags. */
#define MWB_OPTION(name, type) \
  { name, type, NULL, {0, 0, 0}, 0, NULL }

/*
** Reads the table of options at argument `arg` of the function `name` (nil: no
** options) and pushes the value of each option, in the order of the list, nil
** for an absent option.  Returns `flags` and those that the options set.
** Raises for an argument, an option or a value outside the list.  Calls no
** metamethod; of an intercepted table, reads the contents.
*/
int mwb_read_options(lua_State *L, const char *name, int arg,
                     const mwb_option *options, int flags);

/* }====================================================== */

/* {======================================================
** key.c: keys as the engine sees them.
** ======================================================= */

/* Returns the key at `index`.  A key that the engine does not keep equals no
** kept key. */
mw_value mwb_key(lua_State *L, mwb_state *s, int index);

/* Like `mwb_key`, for a key that the engine will keep; until then the caller
** calls nothing by which something that has the same key may end.  Raises if
** there is no memory. */
mw_value mwb_key_to_keep(lua_State *L, mwb_state *s, int index);

/* Pushes the Lua value of a key that the engine keeps. */
void mwb_push_key(lua_State *L, mwb_state *s, const mw_value *key);

/* Callbacks of the engine, which keeps a key, or keeps a key no longer. */
void mwb_retain(void *ud, const mw_value *key);
void mwb_release(void *ud, const mw_value *key);

/* }====================================================== */

/* {======================================================
** identity.c: objects, handles and records.
** ======================================================= */

/*
** The address of the object at `index`, NULL if the value is not an object.
** Lua gives the address of a userdata's contents, which may have no bytes; then
** another object may begin at this address.  So a userdata has the address of
** the byte before.
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

/* Gives the value at `index`, which has no slot, a handle.  Raises if the value
** is not an object. */
mw_handle mwb_enrol(lua_State *L, mwb_state *s, const char *name, int index,
                    int arg);

/* Returns the handle of the object at `index`, a new handle if the object has
** none.  Raises if the value is not an object. */
mw_handle mwb_identify(lua_State *L, mwb_state *s, const char *name, int index,
                       int arg);

/* The handle of the value at `index`, or MW_NONE; the second also returns
** MW_NONE if the object's writes are not intercepted. */
mw_handle mwb_handle_of(lua_State *L, mwb_state *s, int index);
mw_handle mwb_intercepting_at(lua_State *L, mwb_state *s, int index);

/* Begins a function with `args` arguments of which the first must be an
** object. */
mwb_state *mwb_enter_object(lua_State *L, const char *name, int args);

/* Is the object of `h` alive?  If so, pushes the object, else some value. */
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

/* Looks at a few slots, and at more the more objects have become known since.
** The second function, for writes, calls nothing of the program. */
void mwb_reap_slice(lua_State *L, mwb_state *s);
void mwb_reap_made(mwb_state *s);

/* The record of an object, or NULL. */
static inline mwi_object *mwb_object_of(const mwb_state *s, mw_handle h) {
  return mwi_object_find(&s->engine->watch, h);
}
static inline mwi_object *mwb_object_at(lua_State *L, mwb_state *s, int index) {
  return mwb_object_of(s, mwb_handle_of(L, s, index));
}

/* Are the object's writes intercepted? */
static inline int mwb_intercepts(const mwb_state *s, mw_handle h) {
  const mwi_object *r = mwb_object_of(s, h);
  return r != NULL && mwi_object_intercepts(r);
}

/* Work of every write, whatever the object's record says; bits of `needs`, next
** to the bits of enum mwi_need. */
enum {
  MWB_APPENDS = 0x10000, /* the journal is open */
  MWB_TRACES = 0x20000,  /* each write is traced */
  MWB_IGNORES = 0x40000, /* the policy ignores some fields */
  MWB_BATCHES = 0x80000, /* guards hear at the end of a batch */
  MWB_WAITS = 0x100000   /* something waits for the next call: see later.c */
};

/* Sets or clears a bit of `needs`. */
static inline void mwb_need(mwb_state *s, unsigned bit, int on) {
  s->needs = on ? s->needs | bit : s->needs & ~bit;
}

/* }====================================================== */

/* {======================================================
** later.c: what waits until the library is not at work.
** ======================================================= */

/* In a finaliser that has interrupted the library: keeps the running function
** and its arguments, the whole stack, for the next call, and returns 1.  Else
** returns 0. */
int mwb_put_off(lua_State *L, mwb_state *s);

/* There: keeps a write, whose object, key and new value are at 1 to 3; the old
** value is on the top, and popped.  The caller stores the new value. */
void mwb_put_off_write(lua_State *L, mwb_state *s);

/* Replaces the value on the top, which the field at OBJECT and KEY of a write
** holds, by what it held before the writes of it that wait.  Returns the
** type. */
int mwb_go_before(lua_State *L, const mwb_state *s);

/* The field at OBJECT and KEY is written now, after the writes of it that
** wait.  No finaliser may run between this and the store. */
void mwb_overtake(lua_State *L, const mwb_state *s);

/* Something waits for the next call.  Needs no memory. */
void mwb_wait(mwb_state *s);

/* Does what waits.  Raises only if there is no memory; the rest still waits
** then. */
void mwb_end_waiting(lua_State *L, mwb_state *s);

/* Gives the error on the top to mw.on_error's function, with `where`.  Returns
** whether that took it; else there is an error on the top. */
int mwb_hand_error(lua_State *L, mwb_state *s, const char *where);

/* Pops an error that no statement of the program has made: gives it to
** mw.on_error's function, with `where`; without that function, or if that
** raises, the next call raises the first such error. */
void mwb_late_error(lua_State *L, mwb_state *s, const char *where);

/* Raises an error that has waited for a call. */
void mwb_raise_late(lua_State *L, mwb_state *s);

/* }====================================================== */

/* {======================================================
** state.c: which fields an object's state has, and what a class is, which is no
** part of any.
** ======================================================= */

/* The classes that a walk has found, beside those that the library knows. */
typedef struct mwb_classes {
  int found;   /* index of a table: class -> true */
  int entered; /* index of a table: what the walk has entered -> not nil */
  int any;     /* has one been found, */
  int late;    /* and one that had been entered before? */
} mwb_classes;

/* Is the table at `index` a class?  `walk` may be NULL. */
int mwb_is_class(lua_State *L, const mwb_state *s, int index,
                 const mwb_classes *walk);

/* Finds the classes of the object at `object`, likewise.  Returns whether it
** has one. */
int mwb_note_classes(lua_State *L, mwb_state *s, int object, mwb_classes *walk);

/* Is the value on the top, which the object at `parent` has under the key below
** the top, a table that is no class?  If it stands for the object's class, this
** is noted. */
int mwb_is_contents(lua_State *L, mwb_state *s, int parent, mwb_classes *walk);

/* The same, and may a walk enter the table, which is neither weak nor the
** library's own? */
int mwb_may_enter(lua_State *L, mwb_state *s, int parent, mwb_classes *walk);

/* Adds all classes below the table at `root` to the table at `found`. */
void mwb_find_classes(lua_State *L, mwb_state *s, int root, int found);

/* Pushes the fields of the state of the table at `object`: a table, which is
** only to be read, and the set of the keys in it that the policy ignores, or
** nil.  With `all`, they are those of the whole state, else those whose writes
** are told of, without what was put raw into the object.  `before` is the index
** of what objects were before the open transactions (see delivered.c), or 0:
** the fields are as they are now. */
void mwb_push_fields(lua_State *L, mwb_state *s, int object, int before,
                     int all);

/* Replaces the key on the top by the next key and its value, of the fields that
** were pushed at `fields`.  Pops the last key, and returns 0, at the end. */
int mwb_next_field(lua_State *L, int fields);

/* Does the table at `index` lose entries without a write?  Do the objects of
** the class at `index`, a table or nil? */
int mwb_is_weak(lua_State *L, int index);
int mwb_is_weak_class(lua_State *L, int index);

/* }====================================================== */

/* {======================================================
** policy.c: the questions that the binding asks the policy.
** ======================================================= */

/* The functions that policy.lua sets. */
enum {
  MWB_DESCEND = 1, /* (parent, key, child) -> may a deep watch include child? */
  MWB_IGNORED,     /* (object, class or nil) -> a set of keys, or nil */
  MWB_WATCHED,     /* (object): the object is watched now; */
  MWB_UNWATCHED,   /* (object): its last watch has ended */
  MWB_DESERTED,    /* (): watched objects may have died */
  MWB_SNAPSHOT,    /* (userdata) -> its state */
  MWB_RESTORED     /* (userdata, state): gives the userdata the state */
};

/* Pushes the policy's function for a question, or returns 0. */
int mwb_push_question(lua_State *L, const mwb_state *s, int question);

/* }====================================================== */

/* {======================================================
** host.c: a C program beside Lua, with one engine.
** ======================================================= */

/* Returns the engine that the program has attached, or NULL. */
mw_engine *mwb_attached(lua_State *L);

/* Is the object the program's?  Then it is a matter of the program's host, if
** there is one (`has_host`). */
int mwb_is_pinned(const mwb_state *s, mw_handle h);

/* Gives the engine back to the program, without Lua's objects. */
void mwb_detach(mwb_state *s);

/* }====================================================== */

#endif
