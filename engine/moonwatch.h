/*
** moonwatch.h - the tracking engine for programs with Lua inside.
** SPDX-License-Identifier:  MIT
**
** This header is the manual of the C engine.  The engine knows nothing of Lua:
** a C program opens one, gives its own structs an identity, and asks which of
** them are new.
**
**     void *p -- mw_object_identify --> mw_handle -- mw_clock_tag --> number
**      ^                              |
**      +--------- mw_object_pointer ---------+
**
** Rules that hold for every function here:
**
**  - Errors are codes (MW_OK is 0, the others are negative).  A call that
**    fails changes nothing.  Nothing is printed, nothing aborts.
**  - An engine is one value.  There is no global state; any number of engines
**    can live side by side.  One engine is used by one thread at a time.
**  - Reentrancy: a callback that an engine calls must not call that engine
**    back, unless its description says so.
**  - All memory comes from the allocator given to `mw_engine_open` and goes
**    back to it
**    with the sizes it was asked for; `mw_engine_close` leaves none behind.
**  - A handle may be kept for as long as one likes.  A handle whose object is
**    gone is *stale*: it is never taken for another object.  Stale handles
**    and the handle MW_NONE are fine as arguments and are "not found".
*/
#ifndef MOONWATCH_H
#define MOONWATCH_H

#include <stddef.h>
#include <stdint.h>

#define MW_VERSION "0.1.0"

/*
** How these functions are declared.  Without a say of yours they are seen only
** inside the program or library they are linked into, so that a Lua module
** with an engine in it does not mix with another's.
*/
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

/* An engine.  Opaque; owned by whoever opened it. */
typedef struct mw_engine mw_engine;

/*
** What a call returns.
*/
enum mw_code {
  MW_NEW =
      1,     /* done, for the first time: see `mw_root_begin`, `mw_tree_link` */
  MW_OK = 0, /* done */
  MW_NOMEM = -1,   /* the allocator returned NULL; nothing has changed */
  MW_STALE = -2,   /* the handle's object is gone, or there never was one */
  MW_FULL = -3,    /* a limit was reached: 2^32 - 2 objects, or clocks */
  MW_REFUSED = -4, /* what was written was not taken */
  MW_BROKEN = -5   /* the engine is not as it should be: see `mw_verify` */
};

/*
** The allocator, of the shape of Lua's `lua_Alloc`: frees `ptr` and returns
** NULL when `nsize` is 0, else returns a block of `nsize` bytes that starts
** with what `ptr` held, or NULL with `ptr` left as it was.  `osize` is the size
** of `ptr` (0 when `ptr` is NULL).
*/
typedef void *(*mw_alloc)(void *ud, void *ptr, size_t osize, size_t nsize);

/*
** Opens an engine whose memory comes from `alloc(ud, ...)`.  Returns NULL when
** there is not enough.  The default clock (number MW_CLOCK) is there from the
** start, at generation 0.
*/
MW_API mw_engine *mw_engine_open(mw_alloc alloc, void *ud);

/* Frees the engine and all it holds.  `e` may be NULL. */
MW_API void mw_engine_close(mw_engine *e);

/* }====================================================== */

/* {======================================================
** Identity
** ======================================================= */

/*
** Stands for an object for its whole life: the number of its slot in the low
** half, how often that slot was used before in the high half.  Never given to
** another object, never MW_NONE, and positive as a signed number.
*/
typedef uint64_t mw_handle;

#define MW_NONE ((mw_handle)0)

/* The slot of a handle: 1, 2, 3... small, dense, and used again after a death;
** for hosts that keep something of their own beside each object. */
#define mw_slot(h) ((uint32_t)(h))

/*
** Gives the object at address `ptr` an identity, or finds the one it has.  The
** engine never reads through `ptr`; it is a number to it.
** MW_OK: `*h` is the handle.  MW_NOMEM, MW_FULL: `*h` is untouched.
*/
MW_API int mw_object_identify(mw_engine *e, const void *ptr, mw_handle *h);

/* The handle of the object at `ptr`, MW_NONE when it has none.  `ptr` may be
** any pointer, NULL too. */
MW_API mw_handle mw_object_find(mw_engine *e, const void *ptr);

/* The address that `h` was given for, NULL when `h` is stale. */
MW_API const void *mw_object_pointer(const mw_engine *e, mw_handle h);

/*
** Ends the identity of `h`, with all its tags: to be called when the object is
** freed, before its address can come back.  MW_OK, or MW_STALE.
*/
MW_API int mw_object_forget(mw_engine *e, mw_handle h);

/*
** The serial of `h`: 1 for the first object that is asked for its serial, 2 for
** the next, and so on.  A number to show, to send and to sort by; the same for
** the object's whole life and never given to another.  MW_OK: `*serial` is it.
** MW_NOMEM or MW_STALE: untouched.
*/
MW_API int mw_object_serial(mw_engine *e, mw_handle h, uint64_t *serial);

/* The object of a serial, MW_NONE when it is gone or there never was one. */
MW_API mw_handle mw_serial_object(mw_engine *e, uint64_t serial);

/* How many objects have an identity now. */
MW_API size_t mw_object_count(const mw_engine *e);

/* }====================================================== */

/* {======================================================
** Reaping: for hosts with a garbage collector
**
** Such a host does not see its objects die.  It says when a collection has
** ended; from then on, call by call, the engine asks it about a bounded number
** of slots, and forgets those that have died.
** ======================================================= */

/* Does the object of `h` still live?  Must not call the engine. */
typedef int (*mw_alive)(void *ud, mw_handle h);

/* A collection has ended: any object may have died.  May be called at any
** time, also before the former collection's dead are reaped. */
MW_API void mw_reap_begin(mw_engine *e);

/* Are there slots left to look at since the last collection? */
MW_API int mw_reap_due(const mw_engine *e);

/*
** Asks about no more than `looks` objects and forgets no more than `deaths` of
** them, those for which `alive(ud, h)` is 0.  Returns how many it forgot.
** Does nothing unless `mw_reap_due`.
*/
MW_API size_t mw_reap_step(mw_engine *e, size_t looks, size_t deaths,
                           mw_alive alive, void *ud);

/* }====================================================== */

/* {======================================================
** Clocks
**
** A clock counts generations.  Tagging an object notes the generation it was
** tagged in; so one can tell what is new since a point in time.
** ======================================================= */

/* The number of a clock in its engine.  Clocks last as long as the engine;
** passing a number that no clock has is the caller's error. */
typedef uint32_t mw_clock;

/* The default clock. */
#define MW_CLOCK ((mw_clock)0)

/*
** Opens the clock called `name` (`len` bytes, any bytes; copied): the one that
** has this name, or else a new one at generation 0.  A NULL `name` is a new
** clock without a name, each time.  MW_OK, MW_NOMEM or MW_FULL.
*/
MW_API int mw_clock_open(mw_engine *e, const char *name, size_t len,
                         mw_clock *c);

/* The clock's generation. */
MW_API int64_t mw_clock_now(const mw_engine *e, mw_clock c);

/* Begins the next generation, and returns its number. */
MW_API int64_t mw_clock_advance(mw_engine *e, mw_clock c);

/* Notes the clock's generation on `h`, in place of an earlier one.  MW_OK,
** MW_NOMEM or MW_STALE. */
MW_API int mw_clock_tag(mw_engine *e, mw_clock c, mw_handle h);

/* Takes the clock's tag from `h`, if there is one. */
MW_API void mw_clock_untag(mw_engine *e, mw_clock c, mw_handle h);

/* The generation that `h` was tagged in; -1 when it is not tagged (or stale).
 */
MW_API int64_t mw_clock_generation(const mw_engine *e, mw_clock c, mw_handle h);

/* A walk through the objects of a clock.  Set by `mw_clock_since`; the caller
** owns it and may drop it at any time. */
typedef struct mw_walk {
  int64_t since;
  mw_clock clock;
  uint32_t slot; /* the last one visited */
  uint32_t end;  /* the first one that was not there at the start */
} mw_walk;

/* Begins a walk through the objects tagged in generation `since` or later. */
MW_API void mw_clock_since(const mw_engine *e, mw_clock c, int64_t since,
                           mw_walk *w);

/*
** The next object of a walk, MW_NONE at its end; in the order of slots.  Passes
** over 256 slots at once where none is that new.  Between the calls anything
** may be done with the engine: what keeps its tag from start to end is visited
** exactly once, what is tagged meanwhile may be visited or not, and the walk
** ends.
*/
MW_API mw_handle mw_clock_next(const mw_engine *e, mw_walk *w);

/* Back to generation 0, and no object is tagged.  The number stays valid. */
MW_API void mw_clock_reset(mw_engine *e, mw_clock c);

/* }====================================================== */

/* {======================================================
** Values: what the engine knows of keys
** ======================================================= */

/* The kinds of values. */
enum mw_type {
  MW_TNIL = 0,
  MW_TBOOLEAN, /* i: 0 or 1 */
  MW_TINTEGER, /* i */
  MW_TFLOAT,   /* f */
  MW_TSTRING,  /* i: a number that the host gives each string it uses */
  MW_TOBJECT,  /* i: a handle */
  MW_TOTHER,   /* i: whatever the host likes */
  MW_TABSENT   /* there is none: before an insert, after a delete */
};

/* What belongs to a value of a kind. */
typedef union mw_content {
  int64_t i;
  double f;
} mw_content;

/* A value: its kind and what belongs to it. */
typedef struct mw_value {
  int type;
  mw_content u;
} mw_value;

/* Are they the same value?  Of one kind and equal; NaN equals itself. */
MW_API int mw_value_equal(const mw_value *a, const mw_value *b);

/* }====================================================== */

/* {======================================================
** Watching
**
** The host reports each write to an object before it stores the value; the
** engine counts it, and calls the guards that watch.
**
**     mw_write_begin --- count + 1, the list is taken, guards called in order
**     the host stores the value
**     mw_write_end  --- the guards of phase "after", in order
** ======================================================= */

/* What happened to a key. */
enum mw_kind {
  MW_INSERT = 0, /* there was none before */
  MW_UPDATE,
  MW_DELETE, /* there is none after */
  MW_CALL,   /* a method that changes the object; the key is its name */
  MW_RAW,    /* found to have been written behind the engine's back */
  MW_METATABLE,
  MW_ROLLBACK,
  MW_APPLY,
  MW_TOUCH, /* said by hand */
  MW_KINDS
};

/* One write, as the host reports it. */
typedef struct mw_change {
  mw_value key;
  int kind;
  int same;      /* is the new value the old one? */
  void *host;    /* for the host's use, in `mw_call` and `mw_settle` */
  uint64_t note; /* likewise, for `mw_settle` */
} mw_change;

/*
** Calls a guard for a watch of `obj`: the function that the host called `ref`,
** or with MW_WEAK the object of that handle.  `flags` are the watch's.  May
** call the engine for anything but closing it: write, watch, cancel.  Returns 0
** when the guard is dead, so that the watch ends.
*/
typedef int (*mw_call)(void *ud, mw_handle obj, uint64_t ref, int flags,
                       const mw_change *change);

/*
** At the end of a batch, fills in what a watch is to hear of the last write
** that concerned it: the kind, and whether the value is the same as before the
** batch. `change` has the note of that write.  Returns 0 when there is nothing
** to hear. Must not call the engine.
*/
typedef int (*mw_settle)(void *ud, mw_handle obj, mw_change *change);

/*
** The engine keeps a copy of a value, or no longer does: for hosts that number
** their strings and would like to forget some.  Must not call the engine.
*/
typedef void (*mw_keep)(void *ud, const mw_value *value);

/*
** Gives the object of an entry of the journal the old value again: see
** `mw_journal_rewind`.  The key's and the old value's kinds are as they were
** noted.  May call the engine, but not note or rewind.
*/
struct mw_entry;
typedef void (*mw_restore)(void *ud, const struct mw_entry *entry, void *host);

/*
** What the engine needs of a host with guards.  `alive` says if an object that
** is a guard still lives; NULL: until it is forgotten.  `settle` is needed for
** batches only, `restore` for `mw_journal_rewind`; `retain` and `release` may
** be NULL.
*/
typedef struct mw_host {
  void *ud;
  mw_call call;
  mw_alive alive;
  mw_settle settle;
  mw_keep retain;
  mw_keep release;
  mw_restore restore;
} mw_host;

/* Sets the host; copied. */
MW_API void mw_host_set(mw_engine *e, const mw_host *host);

/* What a watch is like; bits. */
enum mw_watch_flag {
  MW_ONCE = 1,  /* ends with the first call */
  MW_AFTER = 2, /* is called after the value was stored */
  MW_SKIP = 4,  /* not for writes of the same value */
  MW_FLAG = 16, /* only makes its guard invalid, no call */
  MW_WEAK = 32, /* ends with the life of its guard */
  MW_DEEP = 64  /* for writes below its object as well: see `mw_root_begin` */
};

/* How to watch. */
typedef struct mw_watch_options {
  int flags;
  const mw_value *keys; /* copied */
  uint32_t n_keys;      /* 0: for writes to any key, else to these only */
                        /* (of the object itself, on the way to the write) */
  mw_handle guard;      /* with MW_FLAG or MW_WEAK: the guard */
  uint64_t ref;         /* for `mw_call` */
} mw_watch_options;

/* A watch; stale when it has ended.  0 is none. */
typedef uint64_t mw_watch_id;

/*
** Watches `obj`.  The same guard may watch any number of times.  MW_OK: `*id`
** is the watch.  MW_NOMEM, MW_FULL or MW_STALE (the object is gone, or a guard
** that is an object): nothing has changed.
*/
MW_API int mw_watch_begin(mw_engine *e, mw_handle obj,
                          const mw_watch_options *options, mw_watch_id *id);

/* Ends a watch, also one whose call is due.  MW_OK, or MW_STALE. */
MW_API int mw_watch_cancel(mw_engine *e, mw_watch_id id);

/* Ends all watches of `obj`, excludes it, and its count stands still, unless
** it is below another object that is included.  MW_OK or MW_STALE. */
MW_API int mw_object_unwatch(mw_engine *e, mw_handle obj);

/* Is `obj` watched?  From its first watch to `mw_object_unwatch`; and while it
** is included. */
MW_API int mw_object_is_watched(mw_engine *e, mw_handle obj);

/* Has the watch not ended?  One that is called once ends when it is called. */
MW_API int mw_watch_is_alive(const mw_engine *e, mw_watch_id id);

/* What a watch was begun with, but for its keys, and the object that it
** watches.  MW_OK, or MW_STALE. */
MW_API int mw_watch_info(const mw_engine *e, mw_watch_id id,
                         mw_watch_options *options, mw_handle *obj);

/* How many watches of `obj` itself wait for a write; one of several keys counts
** for each, and those with dead guards may be among them. */
MW_API uint32_t mw_object_waiting(const mw_engine *e, mw_handle obj);

/* How often `obj` was written since it was first watched; 0 if never. */
MW_API uint64_t mw_object_mutations(mw_engine *e, mw_handle obj);

/* The default clock's generation when `obj` was last written, as far as it was
** counted; -1 if never. */
MW_API int64_t mw_object_last_change(mw_engine *e, mw_handle obj);

/*
** `obj` is about to be written: counts the write, and calls the guards that are
** to hear of the write before.  Returns a number for `mw_write_end`; a guard
** that begins to watch meanwhile hears of the next write, not of this.  Needs
** no memory.  For an `obj` that is not watched it does nothing and returns 0.
*/
MW_API uint64_t mw_write_begin(mw_engine *e, mw_handle obj,
                               const mw_change *change);

/* The value of that write is stored: calls the guards that are to hear of the
** write after.  `seq` is what `mw_write_begin` returned.  Not to be called when
** the write failed. */
MW_API void mw_write_end(mw_engine *e, mw_handle obj, const mw_change *change,
                         uint64_t seq);

/* Begins a batch: until it ends, writes are counted but nobody is called. */
MW_API void mw_batch_begin(mw_engine *e);

/*
** Ends the innermost batch.  At the end of the outermost, each watch that was
** concerned hears once, in the order in which they were first concerned.  (A
** guard that is a flag does not wait, unless it is to compare values.)
** `host` becomes the change's.
*/
MW_API void mw_batch_end(mw_engine *e, void *host);

/* Ends the innermost batch; of the outermost, nobody hears. */
MW_API void mw_batch_drop(mw_engine *e);

/* How many batches are under way. */
MW_API uint32_t mw_batch_depth(const mw_engine *e);

/* Is the guard valid?  It is, until a watch with MW_FLAG makes it invalid. */
MW_API int mw_guard_is_valid(const mw_engine *e, mw_handle guard);

/* Makes the guard invalid, or valid again.  MW_OK, MW_NOMEM or MW_STALE. */
MW_API int mw_guard_set_valid(mw_engine *e, mw_handle guard, int valid);

/* }====================================================== */

/* {======================================================
** Deep watches
**
** A watch with MW_DEEP hears of writes to its object and to all that is below
** it.  The host says what that is: which object is in which field.
**
**     mw_root_begin(root); then for each field of it that holds an object,
**     mw_tree_link; if that returns MW_NEW, the same for that object's fields
**     a write puts an object into a field --- mw_tree_link, and so on
**     a write takes one out               --- mw_tree_unlink
**     now and then                        --- mw_tree_released
**
** If there is no memory for linking what is below an object, the host unlinks
** the object and calls `mw_tree_resolve`; or else the object would count as one
** that moves, with all that is below it, when it is linked again.
**
** An object may be in several fields, and below itself.  The guard is called
** with the root as its object; the way down is told by `mw_tree_above`.
** ======================================================= */

/* The number of what is below a root, while it is a root; 0: of all roots. */
typedef uint32_t mw_reach;

/* Makes `obj` a root.  MW_NEW; MW_OK: it is one; `*reach` is its number.
** MW_NOMEM or MW_STALE. */
MW_API int mw_root_begin(mw_engine *e, mw_handle obj, mw_reach *reach);

/* It is no longer a root.  MW_OK, or MW_STALE when it was not. */
MW_API int mw_root_end(mw_engine *e, mw_handle obj);

/* The same for a root whom nobody hears: a watch of `obj` with MW_DEEP does not
** hear of what is below.  All silent roots share what is below them. */
MW_API int mw_root_begin_silent(mw_engine *e, mw_handle obj, mw_reach *reach);

/* It is no longer a silent root.  MW_OK, or MW_STALE when it was not. */
MW_API int mw_root_end_silent(mw_engine *e, mw_handle obj);

/* Is `obj` a root, or below one?  It may be said to be below until it was
** `mw_tree_released`. */
MW_API int mw_tree_has(const mw_engine *e, mw_handle obj);

/* Is it below a root? (That may be itself, and another one.) */
MW_API int mw_tree_is_below(const mw_engine *e, mw_handle obj);

/*
** The field `key` of `parent`, which is included, holds `child`, in place of
** what it held.  A key of type MW_TNIL can serve to hold a child for a while.
** Who begins a root links with its reach what is there; a write is linked in
** all (reach 0). MW_OK; MW_NEW: the child was not below one of the roots that
** it is below now; MW_NOMEM or MW_STALE: nothing has changed.
*/
MW_API int mw_tree_link(mw_engine *e, mw_reach reach, mw_handle parent,
                        const mw_value *key, mw_handle child);

/* The field holds no object any more.  Needs no memory. */
MW_API void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key);

/*
** An object that is no longer included, each one once; MW_NONE when there is
** none.  An object that is unlinked and linked elsewhere before this is asked
** for has moved, with what is below it, at the price of two links.
*/
MW_API mw_handle mw_tree_released(mw_engine *e);

/* Sees to what was unlinked, at once: what is not below a root is released, and
** is new when it is linked again.  Needs no memory. */
MW_API void mw_tree_resolve(mw_engine *e);

/* Is there anything to be released, perhaps?  Cheap to ask. */
MW_API int mw_tree_has_orphans(const mw_engine *e);

/* Has a field of `obj` been linked?  Else no write can unlink one. */
MW_API int mw_tree_is_parent(const mw_engine *e, mw_handle obj);

/*
** The path from `root` down to `obj`: writes at most `n` of its keys to `keys`,
** from `obj` upwards, and returns how many there are.  0:  `obj` is not below
** the root, or is the root.
*/
MW_API uint32_t mw_tree_path(mw_engine *e, mw_handle root, mw_handle obj,
                             mw_value *keys, uint32_t n);

/* }====================================================== */

/* {======================================================
** Journal
**
** What was written, in order, for as long as somebody records.
**
**     mark = mw_journal_open(e)     from now on the host notes each write:
**     mw_journal_append(e, &entry)          when the value was stored
**     mw_journal_entries(e, mark, &n)     what was written since
**     mw_journal_rewind(e, mark, ...)     takes it back, if it was a mistake
**     mw_journal_close(e)
**
** Those who record are nested: who began last ends first.  With the last one
** the entries go.
** ======================================================= */

/* The values of an entry. */
enum { MW_KEY = 0, MW_OLD, MW_NOW, MW_PARTS };

/* One write: of the value `i`, its kind is in `type[i]`. */
typedef struct mw_entry {
  mw_handle obj; /* MW_NONE: the entry is void */
  mw_content value[MW_PARTS];
  uint8_t type[MW_PARTS];
  uint8_t kind;   /* of enum mw_kind */
  uint32_t where; /* for the host: where in the program */
} mw_entry;

/* Begins to record.  Returns the number of the next entry. */
MW_API size_t mw_journal_open(mw_engine *e);

/* Is anybody recording?  Else there is no need to note. */
MW_API int mw_journal_is_open(const mw_engine *e);

/*
** Notes a write; does nothing when nobody records.  Strings are retained for
** as long as the entry is there, objects are not kept alive.  MW_OK or
** MW_NOMEM.
*/
MW_API int mw_journal_append(mw_engine *e, const mw_entry *entry);

/* Makes sure that there is memory for the next entry.  MW_OK or MW_NOMEM. */
MW_API int mw_journal_reserve(mw_engine *e);

/* The entries from number `mark` on, and how many; good until the next call
** that notes, rewinds or ends.  Some may be void. */
MW_API const mw_entry *mw_journal_entries(const mw_engine *e, size_t mark,
                                          size_t *n);

/*
** Calls the host's `restore(ud, entry, host)` for the entries from number
** `mark` on, the last one first, but not for objects that are gone.  They are
** still there then: see `mw_journal_retract`.  Needs no memory.
*/
MW_API void mw_journal_rewind(mw_engine *e, size_t mark, void *host);

/* Forgets the entries from `mark` on, `n` of them; those that follow stay, and
** keep their numbers. */
MW_API void mw_journal_retract(mw_engine *e, size_t mark, size_t n);

/* Ends what the last `mw_journal_open` began. */
MW_API void mw_journal_close(mw_engine *e);

/*
** Makes `obj` one whose writes are to be noted, though nobody may watch it.
** With `below`, what is below it too, as in a deep watch: the host is to say
** what that is (see `mw_root_begin_silent`).  MW_NEW when it is to be included,
** MW_OK, MW_NOMEM or MW_STALE.
*/
MW_API int mw_object_track(mw_engine *e, mw_handle obj, int below,
                           mw_reach *reach);

/* Ends that; what was below it stays included for those who watch it.  MW_OK,
** or MW_STALE when it was not tracked. */
MW_API int mw_object_untrack(mw_engine *e, mw_handle obj);

/* Is it? */
MW_API int mw_object_is_tracked(const mw_engine *e, mw_handle obj);

/* }====================================================== */

/* {======================================================
** Scopes: what is executing
**
** In a hierarchy each thread has a stack of the objects that it executes, each
** under a name.
**
**     mw_hierarchy_enter(e, scopes, thread, player, name)
**         mw_hierarchy_enter(e, scopes, thread, sword, another_name)
**         mw_hierarchy_leave(e, scopes, thread, sword)
**     mw_hierarchy_leave(e, scopes, thread, player)
**
** A thread is a handle, so that its stack goes when it is forgotten; MW_NONE
** will do for a host that has only one.  Names are numbers that the host gives,
** but not 0.
** ======================================================= */

/* The number of a hierarchy in its engine; passing one that is not open is the
** caller's error. */
typedef uint32_t mw_hierarchy;

/* What was entered, and as what. */
typedef struct mw_frame {
  mw_handle obj;
  uint32_t name;
} mw_frame;

/* Opens a hierarchy.  MW_OK: `*scopes` is its number.  MW_NOMEM. */
MW_API int mw_hierarchy_open(mw_engine *e, mw_hierarchy *scopes);

/* Closes it; its number may be given again. */
MW_API void mw_hierarchy_close(mw_engine *e, mw_hierarchy scopes);

/* Empties all its stacks; names stay. */
MW_API void mw_hierarchy_reset(mw_engine *e, mw_hierarchy scopes);

/* How many frames there are in all its stacks: when there are none, the names
** in use are those of objects. */
MW_API size_t mw_hierarchy_frames(const mw_engine *e, mw_hierarchy scopes);

/* Notes what `obj` is called, and below which object (or MW_NONE), until it is
** forgotten.  MW_OK, MW_NOMEM or MW_STALE. */
MW_API int mw_hierarchy_set_name(mw_engine *e, mw_hierarchy scopes,
                                 mw_handle obj, mw_handle parent,
                                 uint32_t name);

/* What was noted; 0 when nothing was, and then `*parent` is untouched. */
MW_API uint32_t mw_hierarchy_name(const mw_engine *e, mw_hierarchy scopes,
                                  mw_handle obj, mw_handle *parent);

/* `thread` enters `obj`, under a name, which need not be what was noted.  It
** may be in it already.  MW_OK, MW_NOMEM or MW_STALE. */
MW_API int mw_hierarchy_enter(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread, mw_handle obj, uint32_t name);

/* It leaves what it entered last as `obj`, and all that it entered since, which
** an error may have skipped.  MW_OK; MW_STALE: it is not in it. */
MW_API int mw_hierarchy_leave(mw_engine *e, mw_hierarchy scopes,
                              mw_handle thread, mw_handle obj);

/* It leaves all but the `depth` outermost. */
MW_API void mw_hierarchy_cut(mw_engine *e, mw_hierarchy scopes,
                             mw_handle thread, uint32_t depth);

/* What it is in, the outermost first, and how many; good until the next call
** that enters.  The handles of objects that died meanwhile are stale. */
MW_API const mw_frame *mw_hierarchy_stack(const mw_engine *e,
                                          mw_hierarchy scopes, mw_handle thread,
                                          uint32_t *n);

/* How often the name is among them. */
MW_API uint32_t mw_hierarchy_count(const mw_engine *e, mw_hierarchy scopes,
                                   mw_handle thread, uint32_t name);

/* }====================================================== */

/* {======================================================
** Traces: what happened when
**
**     mw_trace_open(e, 100000, now, ud, &t)
**     mw_trace_start(e, t)
**     name = mw_trace_name(e, "draw", 4, 0)
**     id = mw_trace_begin(e, thread, name, NULL, 0)
**     mw_trace_counter(e, thread, name, 60)
**     mw_trace_end(e, id, NULL, 0)
**     mw_trace_stop(e, t)
**     mw_trace_write(e, t, MW_CHROME, "thread", sink, ud)
**
** A trace is a ring of events of a fixed size: when it is full, the oldest are
** lost.  One runs at a time.  While none does, the functions that note
** something cost a branch.
** ======================================================= */

/* A trace.  Opaque; owned by whoever opened it, until it is closed or the
** engine is. */
typedef struct mw_trace mw_trace;

/* What time it is: nanoseconds since some moment, which never go back.  Must
** not call the engine. */
typedef int64_t (*mw_now)(void *ud);

/* A number by which the host knows one of its threads; 1 for the first. */
typedef uint32_t mw_thread;

/* The number of a name in the trace that runs.  0 is no name. */
typedef uint32_t mw_name;

/* Opens a trace for the last `capacity` events, whose memory is taken at once.
** MW_OK, or MW_NOMEM. */
MW_API int mw_trace_open(mw_engine *e, size_t capacity, mw_now now, void *ud,
                         mw_trace **trace);

/* Stops and frees it.  `t` may be NULL. */
MW_API void mw_trace_close(mw_engine *e, mw_trace *t);

/* Starts it, or goes on with it.  MW_OK (it may be running); MW_FULL: another
** one is. */
MW_API int mw_trace_start(mw_engine *e, mw_trace *t);

/* Stops it, if it runs: what is open then ends there. */
MW_API void mw_trace_stop(mw_engine *e, mw_trace *t);

/* The one that runs, or NULL. */
MW_API mw_trace *mw_trace_running(const mw_engine *e);

/*
** The number of a name (`len` bytes, any bytes; copied) in a category, which is
** a name too, or 0.  Returns 0 when no trace runs and when there is no memory;
** events with that name are lost.
*/
MW_API mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                             mw_name category);

/*
** Something begins in a thread.  Returns an identity for `mw_trace_end`, never
** 0 unless it was not noted.  `args`, if not NULL, is the text of a JSON
** object, `len` bytes; it is copied, not looked at, and left out if there is no
** memory.
*/
MW_API uint64_t mw_trace_begin(mw_engine *e, mw_thread thread, mw_name name,
                               const char *args, size_t len);

/* It ends, with what began later in its thread and has not ended.  If its begin
** was lost or is in another trace, this is nothing; `id` may be 0. */
MW_API void mw_trace_end(mw_engine *e, uint64_t id, const char *args,
                         size_t len);

/* Something happens. */
MW_API void mw_trace_instant(mw_engine *e, mw_thread thread, mw_name name,
                             const char *args, size_t len);

/* What an event says of a change. */
typedef struct mw_trace_details {
  mw_handle obj;
  mw_value key;       /* MW_TABSENT: neither the object nor a key is said */
  const char *string; /* the key, if it is a string; `key.u` is not read then */
  size_t len;         /* of the string */
  uint64_t guards;    /* how many have heard of the change; 0: not said */
  const char *context; /* the text of a JSON array; NULL: not said */
  size_t context_len;
  int same_time; /* has the event the time of the event before it?  That saves
                 ** a look at the clock, which costs more than the rest */
} mw_trace_details;

/*
** An object is changed.  The key is nil, a boolean, a number or a string; texts
** are copied.  The details become JSON when the trace is written, except where
** there is a context, a key of more than 64 bytes, or one key more than the
** trace has room for events: then they become JSON at once, in a block of
** memory, and are left out if there is none.
*/
MW_API void mw_trace_change(mw_engine *e, mw_thread thread, mw_name name,
                            const mw_trace_details *details);

/* A clock has come to the generation it has now. */
MW_API void mw_trace_advance(mw_engine *e, mw_thread thread, mw_name name,
                             mw_clock clock);

/* Something has that many, which must be finite, or it is lost. */
MW_API void mw_trace_counter(mw_engine *e, mw_thread thread, mw_name name,
                             double value);

/* How many events it has. */
MW_API size_t mw_trace_len(const mw_trace *t);

/* And how many it has lost. */
MW_API uint64_t mw_trace_lost(const mw_trace *t);

/* Takes some bytes of a text; returns 0 when it cannot.  Must not call the
** engine. */
typedef int (*mw_sink)(void *ud, const char *bytes, size_t n);

/* How a trace can be written. */
enum mw_format {
  MW_CHROME,    /* Chrome's trace events, which Perfetto opens */
  MW_SPEEDSCOPE /* the profiles of speedscope.app */
};

/*
** Writes a trace, which may be running, as JSON.  In each thread what begins
** ends, properly nested, and times do not go back: ends whose begin was lost
** are left out, and what has not ended ends when the trace was stopped, or now.
** Thread 1 is called "main", others `thread` and their number.  MW_OK;
** MW_NOMEM; MW_REFUSED when the sink has refused something.
*/
MW_API int mw_trace_write(mw_engine *e, const mw_trace *t,
                          enum mw_format format, const char *thread,
                          mw_sink sink, void *ud);

/* }====================================================== */

/* {======================================================
** For those who debug
**
** Compiled with MW_CHECKS defined, the library checks how it is called (a clock
** that nobody opened, a batch that ends twice, a callback that calls what it
** must not) and, on the way, its own invariants.  That costs little, and
** nothing at all without MW_CHECKS.
** ======================================================= */

#ifdef MW_CHECKS

/*
** The program defines this function: a check has failed.  `misuse` is 1 when
** the caller has done something wrong, 0 when the engine has.  If the function
** returns, the engine goes on as if nothing was, and may crash.
*/
MW_API void mw_check_failed(int misuse, const char *condition, const char *file,
                            int line);

#endif

/*
** Walks through all there is and looks if it fits together; may take seconds,
** and some memory for the time of the call.  MW_OK; MW_BROKEN: `mw_dump` says
** what is wrong.  May be called by a guard.  Without MW_CHECKS it is MW_OK.
*/
MW_API int mw_verify(mw_engine *e);

/*
** Writes a text that shows the engine: objects with their watches, what is
** below which root and the path there, batches, the journal, clocks,
** hierarchies, traces.  It is for people, and may change with each version.
** MW_OK; MW_REFUSED when the sink has refused something.  Needs no memory.
*/
MW_API int mw_dump(const mw_engine *e, mw_sink write, void *ud);

/* }====================================================== */

#ifdef __cplusplus
}
#endif

#endif
