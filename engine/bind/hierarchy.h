/*
** hierarchy.h - what the files of mw.hierarchy share.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_HIERARCHY_H
#define MWB_HIERARCHY_H

#include "class.h"
#include "identity.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

/* A name: the field where an object is.  A name never changes: an object that
** is moved has another name afterwards. */
typedef struct mwb_name {
  uint32_t next;    /* another name of the object */
  uint32_t refs;    /* places that have the number of the name */
  uint32_t up;      /* the name of the holder; 0: the parent is the holder */
  uint32_t above;   /* a former name of the parent, for when it is dead */
  mw_handle parent; /* the object; MW_NONE: the name is that of a root */
  mw_handle holder; /* the table with the field; MW_NONE: nobody knows */
  uint64_t epoch;   /* the text in TEXTS is good in this epoch */
  int fixed;        /* the text is good for ever */
} mwb_name;

/* What is known of an object, or of a plain table on the way to an object. */
typedef struct mwb_site {
  mw_handle obj;      /* the owner of the element; void for another object */
  mw_handle caller;   /* executed outside when the object was entered, */
  uint64_t caller_to; /* with this `way` */
  uint64_t context;   /* with this `way`, nobody was found to hold it */
  lua_Integer last;   /* the integer key under which an object was found last */
  lua_Integer length; /* of the sequence, when the table was looked through */
  uint32_t fields;    /* those that were looked through */
  uint32_t skipped;   /* how often the table was not, since */
  uint32_t first;     /* a list of names */
  uint32_t recent[4]; /* slots of tables where objects were found last */
  uint8_t named;      /* is the first one the object's name? */
  uint8_t pending;    /* will the name be looked for when somebody asks? */
  uint8_t is_parent;  /* are there names below? */
  uint8_t walked;     /* has it been looked through? */
} mwb_site;

/* A frame as the tape has it. */
typedef struct mwb_step {
  mw_handle obj, thread;
  uint64_t order; /* of the frame */
  uint64_t epoch; /* when the name was noted */
  uint32_t name;  /* 0: not known yet */
  uint32_t outer; /* the step of the frame outside, 0 for none */
  uint32_t depth;
  int wanted; /* takes the object part in the tape? */
} mwb_step;

typedef struct mwb_tape {
  mwb_step *steps; /* number 1 is the first */
  uint32_t *left;  /* numbers of steps, in the order of leaving */
  uint32_t n, size, n_left, size_left;
} mwb_tape;

typedef struct mwb_hierarchy {
  mwb_data data;
  mw_hierarchy number;
  int owned; /* has the engine given the number? */
  int open;
  int hooked; /* are there hooks for entering or leaving? */
  int recording;
  int has_only;     /* does a function choose what is recorded? */
  int custom;       /* does a function of the program make the names? */
  int has_children; /* and one the lists of children? */
  lua_State *L;     /* the coroutine that called last */
  uint64_t at;      /* number of collections at the last call */
  mwi_stack *stack; /* of that coroutine */
  mwi_pool names;
  mwi_column places; /* by the slot of the object */
  uint64_t epoch;    /* moves when the name of a parent changes */
  uint32_t last;     /* the name that was found last */
  uint32_t long_one; /* the name whose long text is in TEXTS, or 0 */
  mwb_tape tape;
} mwb_hierarchy;

/* Upvalues of all functions, after state, objects and data. */
#define TEXTS lua_upvalueindex(4) /* name -> text */
#define KEYS lua_upvalueindex(5)  /* name -> key */

/* User values of the data. */
enum {
  OUTSIDE = 1, /* functions and tables of Lua files, by the numbers below */
  TOKENS,      /* depth -> the token of the depth */
  TOKEN_META,
  SCOPE_META,
  LEAVE_SCOPE,
  PASS_META,
  PASSES, /* coroutine -> its pass, weakly held */
  USERVALUES = PASSES
};

/* The functions and tables of Lua files. */
enum {
  PREPARE = 1, /* for a walk: see children.c */
  TOLD,        /* the list of an object's children */
  CLASS_OF,    /* an object's class */
  IS_CUSTOM,   /* does a function make the names now? */
  NAME,        /* the text of a child's name, or nil */
  ROOT,        /* a free text for the name of a root */
  SORT,        /* sorts keys */
  ENTERED,     /* tells hooks and traces */
  LEFT,
  CONFUSED,
  REVERSE, /* tells hooks in a pass */
  ONLY,    /* the function that chooses what is recorded */
  BY_NAME, /* text -> root, weakly held */
  UNTRACE, /* closes the span of a frame in the trace */
  HINTS    /* { class name -> number of roots } */
};

/* Places on the Lua stack that the search for a name needs. */
#define MWB_ROOM 100

/* A frame's name that is to be looked for when somebody asks. */
#define UNSURE 0x80000000u

static inline mw_engine *mwb_engine_of(const mwb_hierarchy *d) {
  return d->data.state->engine;
}

static inline mwi_hierarchy *mwb_stacks_of(const mwb_hierarchy *d) {
  return mwi_hierarchy_of(&mwb_engine_of(d)->scope, d->number);
}

static inline mwb_name *mwb_name_at(const mwb_hierarchy *d, uint32_t name) {
  return (mwb_name *)mwi_pool_at(&d->names, name, sizeof(mwb_name));
}

/* Returns what is known of an object, or NULL. */
static inline mwb_site *mwb_site_of(const mwb_hierarchy *d, mw_handle obj) {
  mwb_site *page = (mwb_site *)mwi_column_page(&d->places, mw_slot(obj));
  if (page == NULL || obj == MW_NONE) return NULL;
  page += mw_slot(obj) % MWI_PAGE;
  return (page->obj == obj) ? page : NULL;
}

/* Pushes a function or a table of a Lua file. */
static inline void mwb_push_outside(lua_State *L, int i) {
  lua_getiuservalue(L, MWB_UPDATA, OUTSIDE);
  lua_rawgeti(L, -1, i);
  lua_replace(L, -2);
}

/* {======================================================
** name.c
** ======================================================= */

mwb_site *mwb_need_site(lua_State *L, mwb_hierarchy *d, mw_handle obj);

/* One more, or one less, place has the number; 0 is fine. */
void mwb_retain_name(mwb_hierarchy *d, uint32_t name);
void mwb_release_name(mwb_hierarchy *d, uint32_t name);

/* Returns the name of an object, or of a plain table, by a field: a known one,
** or a new one, which `place` has then. */
uint32_t mwb_note_name(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                       const mwb_name *field, int key);

/* Makes a known name the object's name.  `text`: the index of the text that the
** program's function has made, 0 for none. */
void mwb_give_name(lua_State *L, mwb_hierarchy *d, mwb_site *place,
                   uint32_t name, int text);

/* Makes the object at `index` a root of the name at `text`. */
void mwb_give_root(lua_State *L, mwb_hierarchy *d, mwb_site *place, int text);

/* Is the object, at `index` or of a handle, still where the name says?  The
** third function looks at the holder only. */
int mwb_is_at(lua_State *L, mwb_hierarchy *d, uint32_t name, int index);
int mwb_is_there(lua_State *L, mwb_hierarchy *d, uint32_t name, mw_handle obj);
int mwb_is_held(lua_State *L, mwb_hierarchy *d, uint32_t name, mw_handle obj);

static inline int mwb_has_good_text(const mwb_hierarchy *d, const mwb_name *n) {
  return n->fixed || n->epoch == d->epoch;
}

/* Pushes the text of a name. */
void mwb_make_text(lua_State *L, mwb_hierarchy *d, uint32_t name);
static inline void mwb_push_text(lua_State *L, mwb_hierarchy *d,
                                 uint32_t name) {
  if (mwb_has_good_text(d, mwb_name_at(d, name)))
    lua_rawgeti(L, TEXTS, name);
  else
    mwb_make_text(L, d, name);
}

/* Replaces the key on the top by its text in a name: ".key", or ["a.b"]. */
void mwb_key_to_text(lua_State *L);

/* Pushes the text of the keys from the parent on. */
void mwb_push_way(lua_State *L, mwb_hierarchy *d, uint32_t name);

/* Returns the number of the name above: of the holder, or of the parent. */
uint32_t mwb_name_above(lua_State *L, mwb_hierarchy *d, uint32_t name);

/* Has the name this text? */
int mwb_has_text(lua_State *L, mwb_hierarchy *d, uint32_t name,
                 const char *text, size_t len);

/* }====================================================== */

/* {======================================================
** children.c
** ======================================================= */

/* Pushes the fields of the table at `index`, as the program sees them. */
void mwb_push_contents(lua_State *L, int index);

/* Is the value at `index` a table without a class? */
int mwb_is_plain(lua_State *L, int index);

/* Looks for the object at `index` below the object at `parent`.  `*budget` is
** the number of fields to look at, negative for all.  Returns the name or 0. */
uint32_t mwb_scan(lua_State *L, mwb_hierarchy *d, int parent, mw_handle of,
                  int index, mwb_site *place, long *budget);

/* Is `obj` the parent of `child`, or the parent's parent, and so on? */
int mwb_is_above(const mwb_hierarchy *d, mw_handle obj, mw_handle child);

/* Looks through what is below the object at `index`, which is, or is to be,
** below the object `above`; pushes the list of children that are to be
** named. */
void mwb_plan(lua_State *L, mwb_hierarchy *d, int index, mw_handle obj,
              mw_handle above);

/* Pushes the text of a child's name: what the program's function says, else
** that of the parent, at `text`, with the keys.  `up` is the name of a plain
** table that holds the child, or 0. */
void mwb_push_child_text(lua_State *L, mwb_hierarchy *d, int text, uint32_t up,
                         int key, int child);

/* Makes the texts that the program's function makes, in the list on the top;
** `text` is the index of the object's own text. */
void mwb_plan_texts(lua_State *L, mwb_hierarchy *d, int index, int text);

/* Names the children in the list on the top, and pops the list. */
void mwb_do_plan(lua_State *L, mwb_hierarchy *d);

/* }====================================================== */

/* {======================================================
** placing.c
** ======================================================= */

/* Returns the name under which the object at `index` is entered, perhaps with
** UNSURE.  Looks through what is below, the first time. */
uint32_t mwb_find_name(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                       int index, mw_handle obj);

/* Is the object at `index` in a field of its parent, which is no intercepted
** table?  The common case of `mwb_is_at`.  May push. */
static inline int mwb_is_field(lua_State *L, const mwb_hierarchy *d,
                               const mwb_name *n, uint32_t name, int index) {
  if (n->holder != n->parent ||
      !mwi_identity_is_valid(&mwb_engine_of(d)->identity, n->holder) ||
      lua_rawgeti(L, MWB_UPOBJECTS, mw_slot(n->holder)) != LUA_TTABLE)
    return 0;
  lua_rawgeti(L, KEYS, name);
  lua_rawget(L, -2);
  return lua_rawequal(L, -1, index);
}

/* Returns the name of the object at `index` if the name is known and as before;
** else 0.  May push. */
static inline uint32_t mwb_known_name(lua_State *L, mwb_hierarchy *d,
                                      const mwi_stack *stack, int index,
                                      mw_handle obj) {
  const mwb_site *place = mwb_site_of(d, obj);
  const mwb_name *name;
  if (place == NULL || !place->named || !place->walked) return 0;
  name = mwb_name_at(d, place->first);
  if (name->parent == MW_NONE) return (stack->n == 0) ? place->first : 0;
  if (stack->n > 0 && stack->frames[stack->n - 1].obj != name->parent) return 0;
  if (!mwb_is_field(L, d, name, place->first, index) &&
      !mwb_is_at(L, d, place->first, index))
    return 0;
  return d->last = place->first;
}

/* Searches for whose child the object at `index` is, with the `n` outermost
** objects of the stack outside, and gives the name. */
uint32_t mwb_search(lua_State *L, mwb_hierarchy *d, const mwi_stack *stack,
                    uint32_t n, int index, mw_handle obj);

/* Returns the name of frame number `i`, from 1 on, which somebody asks for. */
uint32_t mwb_settle_frame(lua_State *L, mwb_hierarchy *d, mwi_stack *stack,
                          uint32_t i);

/* Returns the name of an object that somebody asks for, 0 for none. */
uint32_t mwb_settle(lua_State *L, mwb_hierarchy *d, mw_handle obj);

/* }====================================================== */

/* {======================================================
** tape.c
** ======================================================= */

typedef struct mwb_pass mwb_pass;

/* Makes room for a frame that is to be entered, and for the step of a frame
** that goes without. */
void mwb_ready_tape(lua_State *L, mwb_hierarchy *d, mwi_stack *stack);

/* Adds a step for the frame on the top, for which there is room. */
void mwb_tape_entered(mwb_hierarchy *d, mwi_stack *stack, int wanted);

/* The frame on the top is left as it should be. */
void mwb_tape_left(mwb_hierarchy *d, const mwi_stack *stack);

void mwb_clear_tape(mwb_hierarchy *d, mwb_tape *tape);

/* backward(hierarchy, fn): visits what is on the tape */
int mwb_backward(lua_State *L, mwb_hierarchy *d);

extern const luaL_Reg mwb_pass_meta[];

/* Returns the pass of the running coroutine, or NULL.  Pushes the pass, or
** nil. */
mwb_pass *mwb_push_pass(lua_State *L);

/* Pushes name and object where the pass is. */
void mwb_push_visited(lua_State *L, mwb_hierarchy *d, const mwb_pass *pass);

/* Appends the names of the path there to the array on the top.  Returns how
** many. */
uint32_t mwb_add_path(lua_State *L, mwb_hierarchy *d, const mwb_pass *pass);

/* The frames of the running coroutine from this number on belong to the
** pass. */
uint32_t mwb_pass_first(const mwb_pass *pass);

/* Returns the number of the last entering before the pass. */
uint64_t mwb_pass_order(const mwb_pass *pass);

/* }====================================================== */

/* Warns of the error of a hook that is on the top. */
void mwb_warn_hook(lua_State *L);

/* The stack of the running coroutine. */
mwi_stack *mwb_stack_of(lua_State *L, mwb_hierarchy *d);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
