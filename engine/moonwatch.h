/*
** moonwatch.h - the tracking engine for programs with Lua inside.
** SPDX-License-Identifier: MIT
**
** This header is the manual of the C engine, which knows nothing of Lua: a C
** program opens an engine, gives its own structs an identity, and asks which of
** the structs are new.
**
**     void *p -- mw_object_identify --> mw_handle -- mw_clock_tag --> number
**      ^                              |
**      +--------- mw_object_pointer ---------+
**
** Rules for every function here:
**
**  - Errors are codes (MW_OK is 0, the errors are negative); each description
**    names the codes that its function returns beside MW_OK.  A call that fails
**    changes nothing, its results neither.  Nothing is printed, nothing aborts.
**  - An engine is one value.  There is no global state; any number of engines
**    can live side by side.  One thread at a time may use an engine.
**  - A callback of an engine must not call this engine, unless its description
**    allows the call.
**  - All memory comes from the allocator given to `mw_engine_open`, and goes
**    back there by `mw_engine_close` at the latest.
**  - A handle may be kept for any time.  A handle whose object is gone is
**    *stale*, and never stands for another object.  Stale handles and MW_NONE
**    are allowed as arguments, and mean "not found".
**  - Clocks, owners, readers, reaches and hierarchies are numbers.  A number
**    that none of these has any more is the caller's error; a new one may get
**    the number.
*/
#ifndef MOONWATCH_H
#define MOONWATCH_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header, see `mw_version`. */
#define MW_VERSION_MAJOR 0
#define MW_VERSION_MINOR 1
#define MW_VERSION_PATCH 0

/* The same as a number to compare, and as a text. */
#define MW_VERSION_NUMBER \
  (MW_VERSION_MAJOR * 10000 + MW_VERSION_MINOR * 100 + MW_VERSION_PATCH)
#define MW_VERSION_TEXT(a, b, c) #a "." #b "." #c
#define MW_VERSION_OF(a, b, c) MW_VERSION_TEXT(a, b, c)
#define MW_VERSION \
  MW_VERSION_OF(MW_VERSION_MAJOR, MW_VERSION_MINOR, MW_VERSION_PATCH)

/* How these functions are declared.  Unless the program defines MW_API, they
** are visible only inside the program or library that contains the engine, so
** two Lua modules with an engine each do not mix. */
#ifndef MW_API
#if defined(__GNUC__) && defined(__ELF__)
#define MW_API __attribute__((visibility("hidden"))) extern
#else
#define MW_API extern
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* {======================================================
** Engine
** ======================================================= */

/* Returns the number of the engine's version: MW_VERSION_NUMBER of the header
** with which the engine was compiled. */
MW_API int mw_version(void);

/* An engine.  Opaque; whoever opens the engine closes it. */
typedef struct mw_engine mw_engine;

/* The codes that functions return. */
enum mw_code {
  MW_NEW = 1,      /* a first time: `mw_root_begin`, `mw_tree_link` */
  MW_OK = 0,       /* done */
  MW_NOMEM = -1,   /* the allocator returned NULL */
  MW_STALE = -2,   /* the object of the handle is gone, or never was */
  MW_FULL = -3,    /* a limit: 2^32 - 2 objects, clocks...; a running trace */
  MW_REFUSED = -4, /* the sink has refused the text */
  MW_BROKEN = -5   /* the engine is damaged: see `mw_verify` */
};

/* The allocator, of the shape and with the rules of Lua's `lua_Alloc`; `osize`
** is 0 when `ptr` is NULL. */
typedef void *(*mw_alloc)(void *ud, void *ptr, size_t osize, size_t nsize);

/* Opens an engine whose memory comes from `alloc(ud, ...)`.  Returns NULL when
** there is no memory.  The default clock (number MW_CLOCK) exists from the
** start, at generation 0. */
MW_API mw_engine *mw_engine_open(mw_alloc alloc, void *ud);

/* Frees the engine with all that is in it.  Calls no callback but the
** allocator.  `e` may be NULL.  Lua's engine closes with the Lua state. */
MW_API void mw_engine_close(mw_engine *e);

/* What an engine has allocated, in bytes, by part. */
typedef struct mw_memory {
  size_t objects; /* identities, generations, records of objects */
  size_t watches; /* watches, and what is below what */
  size_t journal; /* what owners and readers have */
  size_t names;   /* hierarchies */
  size_t traces;
  size_t total; /* of all; with Lua, also what its binding has allocated */
  size_t size;  /* see mw_host_set */
} mw_memory;

/* Fills `*memory`, whose `size` the caller has set.  Looks at each page. */
MW_API void mw_memory_info(mw_engine *e, mw_memory *memory);

/* }====================================================== */

/* {======================================================
** Identity
** ======================================================= */

/* A handle stands for an object for the object's whole life, and for no other
** ever.  The low half is the number of the object's slot, the high half that of
** the slot's earlier uses.  As a signed number it is positive. */
typedef uint64_t mw_handle;

#define MW_NONE ((mw_handle)0)

/* The slot of a handle: 1, 2, 3... small, dense, and used again after a death;
** for hosts that keep data of their own beside each object. */
#define mw_slot(h) ((uint32_t)(h))

/* Gives the object at address `ptr` an identity, or finds the one that it has:
** `*h` is the handle.  The engine never reads there.  MW_NOMEM, MW_FULL. */
MW_API int mw_object_identify(mw_engine *e, const void *ptr, mw_handle *h);

/* Returns the handle of the object at `ptr`, MW_NONE when the object has none.
** `ptr` may be any pointer, NULL too. */
MW_API mw_handle mw_object_find(mw_engine *e, const void *ptr);

/* Returns the address of the object of `h`, NULL when `h` is stale. */
MW_API const void *mw_object_pointer(const mw_engine *e, mw_handle h);

/* Ends the identity of `h`, with all tags, watches, links, names and stacks of
** the object.  The host calls this function when it frees the object, before
** another object can get the address.  MW_STALE. */
MW_API int mw_object_forget(mw_engine *e, mw_handle h);

/* The flags of an object; bits. */
enum mw_object_flag {
  MW_PINNED = 1 /* the host says when the object is gone, no collector does */
};

/* Makes an object MW_PINNED: `mw_reap_step` passes over it.  In an engine that
** a Lua state shares, a host pins its objects when it has identified them.
** MW_STALE. */
MW_API int mw_object_pin(mw_engine *e, mw_handle h);

/* Returns the flags of an object; 0 when `h` is stale. */
MW_API int mw_object_flags(const mw_engine *e, mw_handle h);

/* Finds the serial of `h`: 1 for the first object whose serial the host asks
** for, 2 for the next, and so on.  An object keeps it for life; no other ever
** gets it.  MW_NOMEM, MW_STALE. */
MW_API int mw_object_serial(mw_engine *e, mw_handle h, uint64_t *serial);

/* Returns the object of a serial, MW_NONE when the object is gone or the serial
** was never given. */
MW_API mw_handle mw_serial_object(mw_engine *e, uint64_t serial);

/* Returns the number of objects that have an identity now. */
MW_API size_t mw_object_count(const mw_engine *e);

/* }====================================================== */

/* {======================================================
** Reaping: for hosts with a garbage collector
**
** Such a host does not see its objects die.  When a collection has ended, each
** call of `mw_reap_step` asks the host about a bounded number of objects, and
** forgets those that have died.
** ======================================================= */

/* Returns whether the object of `h` still lives. */
typedef int (*mw_alive)(void *ud, mw_handle h);

/* Tells the engine that a collection has ended: any object may have died. */
MW_API void mw_reap_begin(mw_engine *e);

/* Returns whether there are slots that nobody has looked at since the last
** collection. */
MW_API int mw_reap_due(const mw_engine *e);

/* Asks `alive(ud, h)` about no more than `looks` objects, and forgets those for
** which it returns 0, no more than `deaths` of them.  Returns the number of
** objects that were forgotten.  Does nothing unless `mw_reap_due`. */
MW_API size_t mw_reap_step(mw_engine *e, size_t looks, size_t deaths,
                           mw_alive alive, void *ud);

/* }====================================================== */

/* {======================================================
** Clocks
**
** A clock counts generations.  A tag holds the generation in which an object
** was tagged, so a program can tell which objects are new.
** ======================================================= */

/* The number of a clock, which lasts as long as the engine. */
typedef uint32_t mw_clock;

/* The default clock. */
#define MW_CLOCK ((mw_clock)0)

/* Opens the clock called `name` (`len` bytes, any bytes; copied): the clock
** that has this name already, or else a new one at generation 0.  A NULL `name`
** opens a new clock without a name, each time.  MW_NOMEM, MW_FULL. */
MW_API int mw_clock_open(mw_engine *e, const char *name, size_t len,
                         mw_clock *c);

/* Returns the clock's generation. */
MW_API int64_t mw_clock_now(const mw_engine *e, mw_clock c);

/* Begins the next generation, and returns its number. */
MW_API int64_t mw_clock_advance(mw_engine *e, mw_clock c);

/* Tags `h` with the clock's generation, in place of an earlier tag.  MW_NOMEM,
** MW_STALE. */
MW_API int mw_clock_tag(mw_engine *e, mw_clock c, mw_handle h);

/* Removes the clock's tag from `h`, if there is one. */
MW_API void mw_clock_untag(mw_engine *e, mw_clock c, mw_handle h);

/* Returns the generation in which `h` was tagged; -1 when `h` has no tag of
** this clock, or is stale. */
MW_API int64_t mw_clock_generation(const mw_engine *e, mw_clock c, mw_handle h);

/* A walk through the objects of a clock, set by `mw_clock_since`. */
typedef struct mw_walk {
  int64_t since;
  mw_clock clock;
  uint32_t slot; /* the last slot visited */
  uint32_t end;  /* the first slot that did not exist at the start */
} mw_walk;

/* Begins a walk through the objects tagged in generation `since` or later. */
MW_API void mw_clock_since(const mw_engine *e, mw_clock c, int64_t since,
                           mw_walk *w);

/* Returns the next object of a walk, in the order of slots; MW_NONE at the end.
** Between the calls the caller may do anything with the engine: an object that
** keeps its tag is visited exactly once, one that is tagged in the meantime may
** be visited or not. */
MW_API mw_handle mw_clock_next(const mw_engine *e, mw_walk *w);

/* Sets the clock back to generation 0 and removes all its tags. */
MW_API void mw_clock_reset(mw_engine *e, mw_clock c);

/* }====================================================== */

/* {======================================================
** Values: how the engine sees the keys and values of the host
** ======================================================= */

/* The types of values, and which field of `mw_content` each uses. */
enum mw_type {
  MW_TNIL = 0,
  MW_TBOOLEAN, /* i: 0 or 1 */
  MW_TINTEGER, /* i */
  MW_TFLOAT,   /* f */
  MW_TSTRING,  /* i: the host's number of the string */
  MW_TOBJECT,  /* i: a handle */
  MW_TOTHER,   /* i: any number of the host's choice */
  MW_TABSENT   /* no value: before an insert, after a delete */
};

typedef union mw_content {
  int64_t i;
  double f;
} mw_content;

typedef struct mw_value {
  int type;
  mw_content u;
} mw_value;

/* Returns whether two values have the same type and are equal; NaN equals
** NaN. */
MW_API int mw_value_equal(const mw_value *a, const mw_value *b);

/* }====================================================== */

/* {======================================================
** Watching
**
** The host reports each write to an object before the host stores the value;
** the engine counts the write, and calls the guards of the watches.
**
**     mw_write_check --- guards of phase "check": may the write be?
**     mw_write_begin --- count + 1, one-shot watches are claimed,
**                        guards called in order
**     the host stores the value
**     mw_write_end   --- the guards of phase "after", in order
** ======================================================= */

/* The kinds of writes. */
enum mw_kind {
  MW_INSERT = 0, /* there was no value before */
  MW_UPDATE,
  MW_DELETE, /* there is no value after */
  MW_CALL,   /* a method that changes the object; the key is the name */
  MW_RAW,    /* a write that the host did not see, reported later */
  MW_METATABLE,
  MW_ROLLBACK,
  MW_APPLY,
  MW_TOUCH, /* reported by hand */
  MW_KINDS
};

/* The id of a watch; stale when the watch has ended.  0 is no watch. */
typedef uint64_t mw_watch_id;

/* One write, as the host reports the write. */
typedef struct mw_change {
  mw_value key;
  int kind;
  int same;          /* does the new value equal the old one? */
  int flags_only;    /* do all watches that fire have MW_FLAG? */
  void *host;        /* for the host's use, in `mw_call` */
  uint64_t number;   /* see mw_change_number; 0 at first */
  uint32_t reach;    /* the engine's, for `mw_change_path`; 0 at first */
  mw_watch_id watch; /* that is called, if it is a one-shot with MW_ASK */
} mw_change;

/* Calls the guard of a watch of `obj`: `ref` is the number that the watch was
** begun with, or with MW_WEAK the handle of the guard; `flags` are those of the
** watch.  The guard may call every function of the engine but
** `mw_engine_close`.  Returns 0 when the guard is dead: then the watch ends.
** For a watch with MW_CHECK, MW_REFUSES refuses the write; then no further
** guard is asked.  For a watch with MW_ASK, MW_SPARES says that the guard was
** not called; a one-shot watch waits for the next write then, and else ends
** when the callback returns, or cancels `change->watch` itself.  With `change`
** NULL, only says whether the guard lives, of watches with MW_WEAK or MW_ASK;
** then the callback must not call the engine. */
#define MW_REFUSES 2
#define MW_SPARES 3

typedef int (*mw_call)(void *ud, mw_handle obj, uint64_t ref, int flags,
                       const mw_change *change);

/* The engine keeps a copy of a value, or releases the copy: for hosts that
** number their strings. */
typedef void (*mw_keep)(void *ud, const mw_value *value);

/* Stores the old value of an entry in the entry's object again: see
** `mw_owner_rewind`.  May call the engine, but not the functions of the
** journal. */
struct mw_entry;
typedef void (*mw_restore)(void *ud, const struct mw_entry *entry, void *host);

/* An owner of writes: see mw_owner_begin.  0 stands for none. */
typedef uint32_t mw_owner;

/* Finds the field of an entry, as a value that is the same whoever owns the
** entry: the host may number its keys anew for each owner.  MW_TNIL and
** MW_TABSENT can stand for what is no field (the class, the state).  Without
** the callback, the field is the key.  Returns MW_OK, or a code with which the
** engine's function returns. */
typedef int (*mw_field)(void *ud, mw_owner owner, const struct mw_entry *entry,
                        mw_value *key, void *host);

/* Changes an entry of `owner` into one of `other`, for such a host: the parent
** of an owner that commits gets its entries; who has written a field later gets
** the old value of what is taken back.  Returns as `mw_field`. */
typedef int (*mw_hand)(void *ud, mw_owner owner, mw_owner other,
                       struct mw_entry *entry, void *host);

/* Whose values an entry has that is delivered. */
typedef struct mw_values {
  mw_owner owner;     /* has the key and the new value; 0: nobody */
  mw_owner old_owner; /* has the old value */
} mw_values;

/* Changes an entry into an entry of the readers, with the number `entry->seq`:
** the values of the entry are read until `mw_forget`.  Returns MW_OK, or a
** code: then the readers miss the entry, and all that they have not read. */
typedef int (*mw_deliver)(void *ud, struct mw_entry *entry,
                          const mw_values *values, void *host);

/* Nobody reads entries with numbers below `seq` any more; they are forgotten a
** page at a time. */
typedef void (*mw_forget)(void *ud, uint64_t seq);

/* Finds a key under which the object `parent` holds the object `child`: `*key`
** is one under which it did.  Returns 0 if there is none; then `*key` is
** unchanged. */
typedef int (*mw_key_of)(void *ud, mw_handle parent, mw_handle child,
                         mw_value *key);

/* The callbacks of a host with guards.  `restore` is needed for
** `mw_owner_rewind` only; `retain`, `release` and the callbacks below may be
** NULL. */
typedef struct mw_host {
  void *ud;
  mw_call call;
  mw_keep retain;
  mw_keep release;
  mw_restore restore;
  mw_field field;
  mw_hand hand;
  mw_deliver deliver;
  mw_forget forget;
  size_t size; /* see mw_host_set */
  mw_key_of key;
} mw_host;

/* Structs that the caller fills may get more fields with later versions, behind
** their field `size`: the size of the struct for the caller, by `sizeof`.  0
** stands for the fields of version 0.1, which end with `size`. */

/* Sets the host, of which the engine keeps a copy. */
MW_API void mw_host_set(mw_engine *e, const mw_host *host);

/* The flags of a watch; bits. */
enum mw_watch_flag {
  MW_ONCE = 1,  /* one-shot: ends when the guard is called */
  MW_AFTER = 2, /* calls the guard after the value was stored */
  MW_SKIP = 4,  /* no call for writes that store an equal value */
  MW_CHECK = 8, /* calls the guard before the write counts: `mw_write_check` */
  MW_FLAG = 16, /* makes the guard invalid instead of calling */
  MW_WEAK = 32, /* ends when the guard dies */
  MW_DEEP = 64, /* for writes below the object, too: `mw_root_begin` */
  MW_ASK = 128  /* the host decides in the call: MW_SPARES */
};

/* The options of `mw_watch_begin`, and the result of `mw_watch_info`. */
typedef struct mw_watch_options {
  int flags;
  const mw_value *keys; /* copied */
  uint32_t n_keys;      /* 0: every key, else writes to these keys only; */
                        /* of a write below: the object's key on the path */
  mw_handle guard;      /* the guard, with MW_FLAG or MW_WEAK */
  uint32_t reach;       /* with MW_DEEP: of `mw_root_begin_filtered`, or 0 */
  uint64_t ref;         /* passed to `mw_call` */
  size_t size;          /* see mw_host_set */
} mw_watch_options;

/* Begins a watch of `obj`.  The guards of a write are called in the order in
** which their watches began.  With MW_DEEP the host also begins a root, see
** `mw_root_begin`.  MW_NOMEM, MW_FULL, MW_STALE (of the object or a guard). */
MW_API int mw_watch_begin(mw_engine *e, mw_handle obj,
                          const mw_watch_options *options, mw_watch_id *id);

/* Ends a watch, whose call may be due.  MW_STALE: the watch has ended already.
** */
MW_API int mw_watch_cancel(mw_engine *e, mw_watch_id id);

/* Ends all watches of `obj`, and ends `obj` as a root.  MW_STALE: `obj` is
** neither watched nor in the tree. */
MW_API int mw_object_unwatch(mw_engine *e, mw_handle obj);

/* Returns whether `obj` is watched, or below a root that is watched: from the
** first `mw_watch_begin` to `mw_object_unwatch`. */
MW_API int mw_object_is_watched(mw_engine *e, mw_handle obj);

/* Finds the options of a watch, without the keys, and its object.  MW_STALE:
** the watch has ended. */
MW_API int mw_watch_info(const mw_engine *e, mw_watch_id id,
                         mw_watch_options *options, mw_handle *obj);

/* Returns the number of writes to `obj` since the first watch, at most
** UINT32_MAX; 0 if `obj` was never watched. */
MW_API uint64_t mw_object_mutations(mw_engine *e, mw_handle obj);

/* Returns the default clock's generation at the last counted write to `obj`; -1
** if there was none. */
MW_API int64_t mw_object_last_change(mw_engine *e, mw_handle obj);

/* Asks the guards of phase "check" whether a write to `obj` may be.  Returns
** whether no guard refuses. */
MW_API int mw_write_check(mw_engine *e, mw_handle obj, mw_change *change);

/* Reports a write to `obj` before the host stores the value: counts the write,
** and calls the guards of phase "before".  Returns a number for `mw_write_end`.
** A watch that a guard begins meanwhile begins with the next write.  Does
** nothing and returns 0 if `obj` is neither watched nor in the tree. */
MW_API uint64_t mw_write_begin(mw_engine *e, mw_handle obj, mw_change *change);

/* Reports that the host has stored the value: calls the guards of phase
** "after".  `seq` is the result of `mw_write_begin`. */
MW_API void mw_write_end(mw_engine *e, mw_handle obj, mw_change *change,
                         uint64_t seq);

/* Returns whether the guard is valid: it is until a watch with MW_FLAG makes it
** invalid. */
MW_API int mw_guard_is_valid(const mw_engine *e, mw_handle guard);

/* Makes the guard invalid, or valid again.  MW_NOMEM, MW_STALE. */
MW_API int mw_guard_set_valid(mw_engine *e, mw_handle guard, int valid);

/* }====================================================== */

/* {======================================================
** Deep watches: roots and the tree below each root
**
** A watch with MW_DEEP is for writes to its object, the root, and to every
** object below the root.  The host tells the engine which object comes into a
** field and which one leaves it, and the engine counts: an *edge* says how many
** fields of a parent hold a child.
**
**     mw_root_begin(root, &reach); if the result is MW_NEW, a *scan*:
**     mw_tree_scan; mw_tree_scan_link for each field that holds an object;
**     mw_tree_scanned; if a result was MW_NEW, the same for that child
**     a write puts an object into a field --- mw_tree_link with reach 0;
**                                             MW_NEW: the child is scanned
**     a write takes an object out         --- mw_tree_unlink
**     now and then                        --- mw_tree_released
**
** The host links what a field gets, if it is not what the field has, before it
** stores, and unlinks what the field had when it has stored.
**
** If linking the objects below a new child fails for want of memory, the host
** unlinks the child and calls `mw_tree_resolve`, so that it is new the next
** time.
**
** The keys are for paths.  The engine remembers the one with which a child was
** linked last; when that field holds another value, it asks `mw_key_of`.
**
** The guard of a deep watch is called with the root as object: `mw_tree_path`
** tells the path from there to the object that was written.
** ======================================================= */

/* The number of the tree below one root, valid while the root is a root; 0
** means the trees of all roots.  The guards of several roots above an object
** are called in the order in which the roots began, without those that begin
** meanwhile. */
typedef uint32_t mw_reach;

/* Makes `obj` a root; `*reach` is its reach.  MW_NEW: `obj` is a new root.
** MW_OK: `obj` was a root already.  MW_NOMEM, MW_STALE. */
MW_API int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach);

/* What is below a root in a filtered reach.  With keys, only what these keys
** lead to, one after the other; a key of type MW_TNIL stands for every key.
** Watches are then for writes under the first key to the root, under the
** second key to what the first leads to, and so on.  The keys are copied. */
typedef struct mw_filter {
  uint32_t rule; /* not 0: the host decides, see `mw_tree_ruled` */
  const mw_value *keys;
  uint32_t n_keys;
  int kept;    /* does the reach stay while no watch waits, until the root is
               ** untracked? */
  size_t size; /* see mw_host_set */
} mw_filter;

/* Makes `obj` the root of a reach with a filter, beside other reaches that
** `obj` may be the root of.  MW_NEW: the reach is new, and the host links what
** is below.  MW_OK: there was such a reach.  MW_NOMEM, MW_STALE: `*reach` may
** be anything, and `obj` need not be a root any more. */
MW_API int mw_root_begin_filtered(mw_engine *e, mw_handle obj,
                                  const mw_filter *filter, mw_reach *reach);

/* Ends a reach, which no watch has.  Returns MW_OK. */
MW_API int mw_reach_end(mw_engine *e, mw_reach reach);

/* Finds the first reach of an object after `after` (0: the first of all) that
** has a rule; returns 0 when there is none.  `mw_tree_link` with reach 0 leaves
** out such reaches: the host asks the rule and links in each that allows. */
MW_API mw_reach mw_tree_ruled(const mw_engine *e, mw_handle obj, mw_reach after,
                              mw_handle *root, uint32_t *rule);

/* Returns the rule of a reach, 0 for none, and finds the root of the reach. */
MW_API uint32_t mw_reach_rule(const mw_engine *e, mw_reach reach,
                              mw_handle *root);

/* Returns whether a reach of a root has the rule. */
MW_API int mw_root_has_rule(const mw_engine *e, mw_handle obj, uint32_t rule);

/* Ends `obj` as a root.  Objects that are below no other root are released, see
** `mw_tree_released`.  Returns MW_OK, or MW_STALE when `obj` is no root. */
MW_API int mw_root_end(mw_engine *e, mw_handle obj);

/* Makes `obj` a silent root: the objects below `obj` are in the tree, but a
** watch of `obj` with MW_DEEP is not for their writes.  All silent roots share
** one reach, `*reach`.  MW_NEW: the host scans `obj`.  MW_OK: the fields of
** `obj` are linked already.  MW_NOMEM, MW_STALE. */
MW_API int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach);

/* Ends `obj` as a silent root, like `mw_root_end`.  Returns MW_OK, or MW_STALE
** when `obj` is no silent root. */
MW_API int mw_root_end_silent(mw_engine *e, mw_handle obj);

/* Returns whether `obj` is in the tree: a root, or below one; what has lost its
** last path, until `mw_tree_released`. */
MW_API int mw_tree_has(const mw_engine *e, mw_handle obj);

/* Returns whether `obj` is below another root, or is a silent root. */
MW_API int mw_tree_is_below(const mw_engine *e, mw_handle obj);

/* Counts one more field of `parent`, which is in the tree, that holds `child`:
** the field `key`.  The child is below all roots then that the parent is below,
** but for those with a rule: for these, `reach` is one that `mw_tree_ruled` has
** found; else 0.  MW_OK: done.  MW_NEW: done, and the fields of the child are
** not linked yet: the host scans the child.  MW_NOMEM, MW_STALE. */
MW_API int mw_tree_link(mw_engine *e, mw_reach reach, mw_handle parent,
                        const mw_value *key, mw_handle child);

/* Begins to link the fields of an object that are not linked yet.  Which fields
** does the host link?  0: none, 1: the field `*key`, 2: any. */
MW_API int mw_tree_scan(mw_engine *e, mw_handle obj, mw_value *key);

/* As `mw_tree_link`, for a field of an object that is being scanned. */
MW_API int mw_tree_scan_link(mw_engine *e, mw_reach reach, mw_handle parent,
                             const mw_value *key, mw_handle child);

/* The fields of the object are linked.  Until then, writes to them do not
** count. */
MW_API void mw_tree_scanned(mw_engine *e, mw_handle obj);

/* Tells the engine that the field `key` of `parent`, which held `child`, does
** so no more.  Needs no memory. */
MW_API void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key,
                           mw_handle child);

/* Unlinks `obj` from all its parents: the host does not want `obj` below
** another object.  A root stays a root. */
MW_API void mw_tree_expel(mw_engine *e, mw_handle obj);

/* Returns an object that has left the tree, whose writes the host need not
** report any more, each object once; MW_NONE when there is none.  What is
** unlinked, and linked elsewhere before the next call, has moved. */
MW_API mw_handle mw_tree_released(mw_engine *e);

/* Releases unlinked objects without a path now: they are new when the host
** links them again.  Needs no memory. */
MW_API void mw_tree_resolve(mw_engine *e);

/* Returns whether `mw_tree_released` may find an object.  Costs two
** comparisons. */
MW_API int mw_tree_has_orphans(const mw_engine *e);

/* Finds a shortest path from `root` down to `obj`: stores at most `n` keys in
** `keys`, the key that leads to `obj` first, the root's own key last.  Returns
** the number of keys of the whole path; 0 if `obj` is not below the root, or is
** the root.  The host keeps the strings of the keys alive. */
MW_API uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                             mw_value *keys, uint32_t n);

/* The same, at once, in the call of a guard with MW_DEEP. */
MW_API uint32_t mw_change_path(mw_engine *e, const mw_change *change,
                               mw_handle root, mw_handle obj, mw_value *keys,
                               uint32_t n);

/* Finds a root above `obj`, and the path from there as `mw_tree_path` does.
** `*root` may be `obj`, and is MW_NONE if `obj` is not in the tree. */
MW_API uint32_t mw_tree_way(mw_engine *e, mw_handle obj, mw_handle *root,
                            mw_value *keys, uint32_t n);

/* A parent of an object below a root. */
typedef struct mw_holder {
  mw_handle parent;
  mw_value key;    /* of one of its fields that hold the object, */
  uint32_t age;    /* and the age in which this one came to hold it */
  uint32_t count;  /* of all of them */
  uint32_t others; /* the last age in which another one did */
} mw_holder;

/* Finds what leads to `obj` below `root`: stores at most `n` of the parents.
** Returns their number, which may be greater than `n`.  Parents may be among
** them that are below other roots only. */
MW_API uint32_t mw_tree_parents(mw_engine *e, mw_handle root, mw_handle obj,
                                mw_holder *holders, uint32_t n);

/* Returns the last age in which a field stopped holding `obj`, or `obj` came to
** be below `root`.  For an object that is not there, that in which the object
** last stopped being below any root; 0 if it never did. */
MW_API uint32_t mw_tree_left(mw_engine *e, mw_handle root, mw_handle obj);

/* Returns the reach in which `mw_tree_parents` looks for what is below `root`:
** one of all that is there or of what a rule allows; 0 for none. */
MW_API mw_reach mw_tree_reach(const mw_engine *e, mw_handle root);

/* }====================================================== */

/* {======================================================
** Ages: which writes came before which moment
** ======================================================= */

/* Ends an age, and returns its number. */
MW_API uint32_t mw_age_end(mw_engine *e);

/* Returns whether the last counted write to `obj` was in an age up to this one,
** or there was none. */
MW_API int mw_object_is_older(const mw_engine *e, mw_handle obj, uint32_t age);

/* }====================================================== */

/* {======================================================
** Journal: who owns a write, and what an owner takes back
**
**     owner = mw_owner_begin(e, parent, below)
**     mw_journal_reserve(e, owner, host)        before each write
**     mw_journal_append(e, owner, &entry, ...)  after the write
**     mw_owner_entries(e, owner, &n)            finds the owner's writes
**     mw_owner_commit(e, owner, ...)            keeps them: the parent's now
**     mw_owner_rewind(e, owner, host)           or restores the old values
**     mw_owner_forget(e, owner, ...)            and ends the owner
**
** While an owner or a reader is open, the host appends all writes to what is
** watched or tracked, with their owner or 0.  Owners end in any order.
** ======================================================= */

/* The places of the values in an entry: the key, the old and the new value. */
enum { MW_KEY = 0, MW_OLD, MW_NOW, MW_PARTS };

/* One write; `type[i]` is the type of `value[i]`.  `seq` is the engine's, and
** ascends in the order of the program.  A host whose guards write sets `seq` to
** the number of the change before it appends the entry, so that these writes
** know their cause. */
typedef struct mw_entry {
  mw_handle obj;
  mw_content value[MW_PARTS];
  uint64_t seq;
  uint8_t type[MW_PARTS];
  uint8_t kind;     /* of enum mw_kind */
  uint32_t where;   /* for the host: the place in the program, */
  uint32_t context; /* and whatever else the host knows of the write */
  uint32_t cause;   /* the number of the write that caused this; 0: none */
} mw_entry;

/* Causes.  A write that a guard makes has the guard's write as its cause; a
** host that knows another cause sets `cause` itself.  A write can be a cause
** before its entry exists: it gets the number here, and with the entry's `seq`
** the number is the entry's. */
MW_API uint64_t mw_change_number(mw_engine *e, mw_change *change);

/* Returns the number of the write whose guard is being called, or 0. */
MW_API uint32_t mw_cause_now(mw_engine *e);

/* Returns the number of an entry of an owner as a cause. */
MW_API uint32_t mw_entry_number(const mw_entry *entry);

/* Begins an owner.  When it commits, `parent` gets its writes; without a parent
** they are final.  When a parent ends, its own parent takes its place.  `below`
** is the newest open owner of the same thread of the host, or 0; it is the
** parent then, and gets no entries meanwhile.  Returns 0 without memory. */
MW_API mw_owner mw_owner_begin(mw_engine *e, mw_owner parent, mw_owner below);

/* Returns the parent, or 0. */
MW_API mw_owner mw_owner_parent(const mw_engine *e, mw_owner owner);

/* Returns the entries of the owner in the order of the program, and in `*n` how
** many (NULL: none); valid until an owner gets or loses entries. */
MW_API const mw_entry *mw_owner_entries(const mw_engine *e, mw_owner owner,
                                        size_t *n);

/* Makes room for one more entry of the owner: the next append needs no memory.
** `host` is for `mw_field`.  MW_NOMEM, or the callback's code. */
MW_API int mw_journal_reserve(mw_engine *e, mw_owner owner, void *host);

/* Returns whether writers have taken turns, so that fields are looked at. */
MW_API int mw_journal_is_mixed(const mw_engine *e);

/* Appends an entry; of a write that nobody owns, `owner` is 0.  In a mixed
** journal `field` is what `mw_field` would give, or NULL: then the engine asks
** the host.  The engine retains the strings of an entry as long as the entry
** exists, but does not keep objects alive.  Returns as `mw_journal_reserve`. */
MW_API int mw_journal_append(mw_engine *e, mw_owner owner,
                             const mw_entry *entry, const mw_value *field,
                             void *host);

/* Returns whether the last write to a field was the owner's, in a mixed
** journal. */
MW_API int mw_owner_is_last(const mw_engine *e, mw_owner owner, mw_handle obj,
                            const mw_value *field);

/* Calls the host's `restore` for what the owner's writes have changed, the last
** write first, but not for objects that are gone, nor for a field that somebody
** else has written later.  The entries stay, and the function may be called
** again: see `mw_owner_forget`.  Needs memory only if writers have taken turns.
** Returns as `mw_journal_reserve`; unless MW_OK, nothing was restored. */
MW_API int mw_owner_rewind(mw_engine *e, mw_owner owner, void *host);

/* Ends an owner as if it had never written: others' entries get its old values.
** */
MW_API void mw_owner_forget(mw_engine *e, mw_owner owner);

/* Ends an owner, and gives its writes to its parent.  Returns as
** `mw_journal_reserve`; unless MW_OK, the owner is still open. */
MW_API int mw_owner_commit(mw_engine *e, mw_owner owner, void *host);

/* Returns whether the entries of an object are to be dropped. */
typedef int (*mw_dropped)(void *ud, mw_handle obj);

/* Removes the entries of the objects for which `dropped` returns not 0. */
MW_API void mw_journal_drop(mw_engine *e, mw_dropped dropped, void *ud);

/* }====================================================== */

/* {======================================================
** Readers: who reads entries that no owner can take back any more
**
**     reader = mw_reader_open(e, capacity, flags)
**     seq = mw_reader_next(e, reader)
**     while (mw_delivery_entry(e, seq, &entry) == MW_OK) ... seq++;
**     mw_reader_seek(e, reader, seq)             forgets what was read
**     mw_reader_close(e, reader)
**
** An entry is delivered when its outermost owner commits, at once if nobody
** owns the write.  `seq` counts what is delivered.  The old value is what was
** delivered last of the field, so that a reader who applies what is delivered
** has the state without the writes of open owners.  An entry is left out if a
** later write to the same field was delivered before.
** ======================================================= */

/* A reader; 0 stands for none. */
typedef uint32_t mw_reader;

/* The flags of a reader; bits. */
enum mw_reader_flag {
  MW_WHOLE = 1 /* misses all entries of an owner, or none */
};

/* Opens a reader of what is delivered from now on.  A reader that has
** `capacity` entries to read (1 or more) misses the oldest ones when more are
** delivered; other readers do not notice.  Where there is no memory for an
** entry, some 60 bytes, readers miss it.  Returns 0 without memory. */
MW_API mw_reader mw_reader_open(mw_engine *e, uint32_t capacity, int flags);

/* Closes a reader, and forgets what only this reader has not read. */
MW_API void mw_reader_close(mw_engine *e, mw_reader reader);

/* Returns the number of the entry that the reader reads next. */
MW_API uint64_t mw_reader_next(const mw_engine *e, mw_reader reader);

/* Returns how many entries the reader has missed since it was opened. */
MW_API uint64_t mw_reader_lost(const mw_engine *e, mw_reader reader);

/* The reader reads `seq` next.  MW_STALE: not all entries from `seq` on are
** kept, or they are more than the reader's capacity. */
MW_API int mw_reader_seek(mw_engine *e, mw_reader reader, uint64_t seq);

/* Returns the number of the last entry that was delivered. */
MW_API uint64_t mw_delivery_last(const mw_engine *e);

/* Returns the number of the first entry that is kept; if none is, of the next.
** */
MW_API uint64_t mw_delivery_first(const mw_engine *e);

/* Copies the entry with a number.  MW_STALE: the entry is not kept. */
MW_API int mw_delivery_entry(const mw_engine *e, uint64_t seq, mw_entry *entry);

/* Returns the number, among kept entries, of the one whose number as a cause is
** `cause`; 0 if there is none.  Looks near `seq` first. */
MW_API uint64_t mw_delivery_of(const mw_engine *e, uint32_t cause,
                               uint64_t seq);

/* Returns whether the entry is the one that is looked for. */
typedef int (*mw_match)(void *ud, const mw_entry *entry);

/* Returns the number of the last entry of a field with a number below `before`,
** or 0.  A host may number the same key anew in each entry: then the type of
** the key is MW_TOTHER, equal keys have the same high 32 bits in `value.i`, and
** `match` (or NULL) returns whether an entry whose key has these is of the
** field. */
MW_API uint64_t mw_delivery_find(const mw_engine *e, uint64_t before,
                                 mw_handle obj, const mw_value *key,
                                 mw_match match, void *ud);

/* }====================================================== */

/* {======================================================
** Tracked objects
** ======================================================= */

/* Tracks `obj`: the host appends writes to `obj` to the journal, even if nobody
** watches.  With `below`, `obj` becomes a silent root as well, and the results
** are those of `mw_root_begin_silent`.  MW_NOMEM, MW_STALE. */
MW_API int mw_object_track(mw_engine *e, mw_handle obj, int below,
                           mw_reach *reach);

/* Stops tracking `obj`.  Objects below `obj` stay in the tree while another
** root reaches them.  MW_STALE: `obj` was not tracked. */
MW_API int mw_object_untrack(mw_engine *e, mw_handle obj);

/* Returns whether `obj` is tracked. */
MW_API int mw_object_is_tracked(const mw_engine *e, mw_handle obj);

/* }====================================================== */

/* {======================================================
** Hierarchies: the objects that are executing
**
** In a hierarchy each thread has a stack of the objects that the thread
** executes, each under a name.
**
** A thread is the handle of an object; the stack goes when the host forgets the
** thread.  A host with only one thread can pass MW_NONE.  Names are numbers of
** the host's choice, but not 0.
** ======================================================= */

/* The number of a hierarchy. */
typedef uint32_t mw_hierarchy;

/* A frame: the object that was entered, and the name. */
typedef struct mw_frame {
  mw_handle obj;
  uint32_t name;
  uint32_t before; /* the engine's */
  uint64_t order;  /* number of the enter, which ascends and is never given
                   ** twice */
  uint64_t way;    /* the same for all frames below which the stack has the same
                   ** objects, and for others hardly ever */
} mw_frame;

/* Opens a hierarchy: `*scopes` is the number.  MW_NOMEM. */
MW_API int mw_hierarchy_open(mw_engine *e, mw_hierarchy *scopes);

/* Closes a hierarchy. */
MW_API void mw_hierarchy_close(mw_engine *e, mw_hierarchy scopes);

/* Empties all stacks of a hierarchy. */
MW_API void mw_hierarchy_reset(mw_engine *e, mw_hierarchy scopes);

/* Returns the number of frames in all stacks of a hierarchy. */
MW_API size_t mw_hierarchy_frames(const mw_engine *e, mw_hierarchy scopes);

/* `thread` enters `obj` under `name`.  The thread may be in `obj` already.
** MW_NOMEM, MW_STALE. */
MW_API int mw_hierarchy_enter(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread, mw_handle obj, uint32_t name);

/* `thread` leaves the frame of `obj` that it entered last, and all frames
** entered since.  MW_STALE: the thread is not in `obj`. */
MW_API int mw_hierarchy_leave(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread, mw_handle obj);

/* Returns the frames of `thread`, the outermost first, and in `*n` how many;
** valid until the next call that enters. */
MW_API const mw_frame *mw_hierarchy_stack(const mw_engine *e,
                                          mw_hierarchy scopes, mw_handle thread,
                                          uint32_t *n);

/* }====================================================== */

/* {======================================================
** Traces: the events of a program on a line of time
**
**     mw_trace_open(e, 100000, now, ud, &t)
**     mw_trace_start(e, t)
**     name = mw_trace_name(e, "draw", 4, 0)
**     id = mw_trace_begin(e, thread, name, NULL, 0)
**     mw_trace_counter(e, thread, name, &value)
**     mw_trace_end(e, id, NULL, 0)
**     mw_trace_stop(e, t)
**     mw_trace_write(e, t, MW_CHROME, "thread", sink, ud)
**
** A trace is a ring of events: a full trace loses its oldest events.  One trace
** runs at a time.  While none runs, to add an event costs a branch.
** ======================================================= */

/* A trace.  Opaque; open until `mw_trace_close` or `mw_engine_close`. */
typedef struct mw_trace mw_trace;

/* Returns the time: nanoseconds since some moment, never less than before. */
typedef int64_t (*mw_now)(void *ud);

/* The number of a thread, of the host's choice; 1 for the first thread. */
typedef uint32_t mw_thread;

/* The number of a name in the running trace.  0 is no name. */
typedef uint64_t mw_name;

/* Opens a trace for the last `capacity` events, and allocates their memory at
** once.  MW_NOMEM. */
MW_API int mw_trace_open(mw_engine *e, size_t capacity, mw_now now, void *ud,
                         mw_trace **trace);

/* Stops and frees a trace.  `t` may be NULL. */
MW_API void mw_trace_close(mw_engine *e, mw_trace *t);

/* Starts a trace, or continues a trace that was stopped; the trace may be
** running.  MW_FULL: another trace runs. */
MW_API int mw_trace_start(mw_engine *e, mw_trace *t);

/* Stops a trace, if the trace runs.  Events that have begun and not ended end
** at this moment. */
MW_API void mw_trace_stop(mw_engine *e, mw_trace *t);

/* Returns the running trace, or NULL. */
MW_API mw_trace *mw_trace_running(const mw_engine *e);

/* Forgets all events and all names.  A trace that runs goes on. */
MW_API void mw_trace_clear(mw_engine *e, mw_trace *t);

/* Returns the number of a name (`len` bytes, any bytes; copied) in a category,
** which is a name too, or 0.  Returns 0 when no trace runs or knows the
** category, and without memory; events with the name 0 are lost.
**
** A trace forgets a name that no event in the ring has and for which nobody has
** asked since its oldest event, when as many new names have come as the ring
** has places.  The number of a forgotten name, or of another trace, is no name.
** */
MW_API mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                             mw_name category);

/* Returns whether a number is that of a name in the running trace. */
MW_API int mw_trace_has_name(const mw_engine *e, mw_name name);

/* Adds the begin of a span in a thread.  Returns an id for `mw_trace_end`; 0
** when the event was lost.  `args`, if not NULL, is the text of a JSON object
** of `len` bytes, which is copied without a check. */
MW_API uint64_t mw_trace_begin(mw_engine *e, mw_thread thread, mw_name name,
                               const char *args, size_t len);

/* Ends a span, and with the span all later spans of the thread that have not
** ended.  Does nothing if the begin was lost or is in another trace; `id` may
** be 0. */
MW_API void mw_trace_end(mw_engine *e, uint64_t id, const char *args,
                         size_t len);

/* Adds an event without a duration. */
MW_API void mw_trace_instant(mw_engine *e, mw_thread thread, mw_name name,
                             const char *args, size_t len);

/* A value in an event.  MW_TNIL and MW_TABSENT are left out.  `string` has the
** bytes of a string; the label of an object, whose handle is in `value.u.i`, or
** NULL; the name of the type of MW_TOTHER. */
typedef struct mw_trace_value {
  mw_value value;
  const char *string;
  size_t len;
} mw_trace_value;

/* The details of a change. */
typedef struct mw_trace_details {
  mw_handle obj;
  const char *label; /* what people call the object; NULL: left out; read only
                     ** if `mw_trace_has_object` says no */
  size_t label_len;
  mw_value key;       /* MW_TABSENT: no object and no key in the event */
  const char *string; /* a string key; then `key.u` is not read */
  size_t len;         /* of the string */
  mw_trace_value old; /* the value before, */
  mw_trace_value now; /* and after */
  const char *where;  /* the place in the program; NULL: left out */
  size_t where_len;
  uint64_t guards;     /* how many guards were called; 0: left out */
  const char *context; /* the text of a JSON array; NULL: left out */
  size_t context_len;
  size_t size; /* see mw_host_set */
} mw_trace_details;

/* Returns whether the running trace knows the object, and with it a label. */
MW_API int mw_trace_has_object(const mw_engine *e, mw_handle obj);

/* Adds a change of an object, and returns an id for `mw_trace_heard`; 0 when
** the event was lost.  The key is nil, a boolean, a number or a string.  A key
** of more than 1,024 bytes and a value of more than 256 are cut. */
MW_API uint64_t mw_trace_change(mw_engine *e, mw_thread thread, mw_name name,
                                const mw_trace_details *details);

/* Says that `guards` more guards were called for a change.  The context, the
** text of a JSON array, is kept if the change has none. */
MW_API void mw_trace_heard(mw_engine *e, uint64_t id, uint64_t guards,
                           const char *context, size_t len);

/* Adds the generation of a clock. */
MW_API void mw_trace_advance(mw_engine *e, mw_thread thread, mw_name name,
                             mw_clock clock);

/* Adds a value of a counter, an integer or a float.  In the file, a value that
** is not finite is a text: "inf", "-inf" or "nan". */
MW_API void mw_trace_counter(mw_engine *e, mw_thread thread, mw_name name,
                             const mw_value *value);

/* Returns the number of events in the trace. */
MW_API size_t mw_trace_len(const mw_trace *t);

/* Returns the number of events that the trace has lost. */
MW_API uint64_t mw_trace_lost(const mw_trace *t);

/* Receives the next `n` bytes of a text; returns 0 to refuse. */
typedef int (*mw_sink)(void *ud, const char *bytes, size_t n);

/* The formats of `mw_trace_write`. */
enum mw_format {
  MW_CHROME,    /* Chrome's trace events, which Perfetto opens */
  MW_SPEEDSCOPE /* the profiles of speedscope.app */
};

/* Writes a trace, which may be running, as JSON.  In each thread spans are
** nested: ends whose begin was lost are left out, and spans that have not ended
** end when the trace was stopped, or now.  Thread 1 is called "main", each
** other `thread` and its number.  MW_NOMEM, MW_REFUSED. */
MW_API int mw_trace_write(mw_engine *e, const mw_trace *t,
                          enum mw_format format, const char *thread,
                          mw_sink sink, void *ud);

/* }====================================================== */

/* {======================================================
** Debugging
**
** Compiled with MW_CHECKS defined, the library checks its callers (a clock that
** nobody opened, a callback that calls a forbidden function) and, on the way,
** its own invariants.
** ======================================================= */

#ifdef MW_CHECKS

/* The program defines this function; the engine calls it when a check has
** failed.  `misuse` is 1 when the caller is wrong, 0 when the engine is.  If
** the function returns, the engine goes on, and may crash. */
MW_API void mw_check_failed(int misuse, const char *condition, const char *file,
                            int line);

#endif

/* Checks all invariants of the engine; may take seconds, and some memory during
** the call (else paths are not checked).  A guard may call it.  MW_BROKEN:
** `mw_dump` shows what does not hold.  Without MW_CHECKS, always MW_OK. */
MW_API int mw_verify(mw_engine *e);

/* Writes a text that shows the engine to people, and may change with each
** version.  Needs no memory.  MW_REFUSED. */
MW_API int mw_dump(const mw_engine *e, mw_sink write, void *ud);

/* }====================================================== */

#ifdef __cplusplus
}
#endif

#endif
