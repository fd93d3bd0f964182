/*
** trap.c - the path of a write.
** SPDX-License-Identifier: MIT
**
**     look -> check -> count -> tell before -> store and append -> tell after
**
** Every change takes this path: an assignment, mw.touch, a method that mutates,
** mw.sync, mw.setmetatable, apply, rollback; of tables and of userdata.
** Changes differ in how they store.  Each step stands once in this file and
** gets the same `mwb_write`, which has the results of all lookups.  Only a
** guard can make these results wrong: then `called` is set, and the step looks
** up what the step needs again.
**
** The trap is the `__newindex` of an intercepted table.  The `needs` of the
** object and of the state name all work of a write, in one word.  So a write
** without work, or which only sets flags, is counted and stored at once.
*/
#include "trap.h"

#include <string.h>

#include "../base/base.h"
#include "../journal/journal.h"
#include "../trace/trace.h"
#include "../watch/watch.h"
#include "traps.h"

/* {======================================================
** Looking
** ======================================================= */

/* Sets `key` to the key as the engine sees it.  Returns whether one `rawset` in
** the shadow stores the field of the object of `r`, which may be NULL: the key
** is a short string, and no metamethod's name, or an integer, when `#` returns
** the shadow's length already. */
static inline int engine_key(lua_State *L, mwb_state *s, const mwi_object *r,
                             mw_value *key) {
  size_t len;
  int type = lua_type(L, KEY);
  if (type == LUA_TSTRING) {
    const char *text = lua_tolstring(L, KEY, &len);
    key->type = MW_TSTRING;
    key->u.i = (int64_t)(uintptr_t)text;
    if (len <= s->short_string) return text[0] != '_' || text[1] != '_';
  }
  if (type == LUA_TNUMBER) {
    int ok;
    key->type = MW_TINTEGER;
    key->u.i = lua_tointegerx(L, KEY, &ok);
    if (ok) return r != NULL && (r->needs & MWI_SHORT) == 0; /* is `#` ready? */
  }
  *key = mwb_key(L, s, KEY);
  return 0;
}

static void init_write(lua_State *L, mwb_state *s, mwb_write *w, mwi_object *r,
                       int kind) {
  w->L = L;
  w->s = s;
  w->r = r;
  w->seq = s->engine->watch.seq;
  w->change.kind = kind;
  w->change.same = 0;
  w->change.flags_only = 0;
  w->change.number = 0;
  w->change.host = w;
  w->change.reach = 0;
  w->owner = MW_NONE;
  w->plain = kind == MWB_PLAIN;
  w->has_old = w->shows = w->batched = w->ignored = w->called = w->failed = 0;
  w->is_stored = 0;
  w->awaited = 1;
  w->traced = 0;
}

/* A key that is an integral float becomes an integer, as in a table. */
static void normalize_key(lua_State *L) {
  int ok = 0;
  lua_Integer n = 0;
  if (lua_type(L, KEY) != LUA_TNUMBER || lua_isinteger(L, KEY)) return;
  n = lua_tointegerx(L, KEY, &ok);
  if (!ok) return; /* a fraction, or too large */
  lua_pushinteger(L, n);
  lua_replace(L, KEY);
}

void mwb_write_open(lua_State *L, mwb_state *s, mwb_write *w, mw_handle h,
                    int kind, int given) {
  init_write(L, s, w, mwi_object_find(&s->engine->watch, h), kind);
  w->obj = h;
  w->has_old = given & MWB_GIVEN;
  normalize_key(L);
  w->simple = engine_key(L, s, w->r, &w->change.key);
  lua_settop(L, w->has_old ? OLD : SHADOW);
  if ((given & MWB_FOUND) == 0) { /* are the contents not at SHADOW? */
    mwb_find_shadow(w);
  } else {
    w->shadow = SHADOW;
    if (w->r != NULL) w->layout = w->r->layout;
  }
}

void mwb_find_shadow(mwb_write *w) {
  lua_State *L = w->L;
  if (lua_gettop(L) < SHADOW) lua_settop(L, SHADOW);
  mwb_push_contents(L, OBJECT);
  lua_replace(L, SHADOW);
  w->shadow = SHADOW;
  if (w->r != NULL) w->layout = w->r->layout;
}

static int get_field(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

int mwb_read_shown(lua_State *L) {
  lua_pushcfunction(L, get_field);
  lua_pushvalue(L, OBJECT);
  lua_pushvalue(L, KEY);
  return lua_pcall(L, 2, 1, 0);
}

/* Pushes what the object shows under the key; nil if the read fails. */
static void push_shown(lua_State *L) {
  if (mwb_read_shown(L) == LUA_OK) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

/* Pushes the `__newindex` of the class of the object at OBJECT, and returns
** whether there is one. */
static int push_newindex(lua_State *L) {
  mwb_push_class(L, OBJECT);
  if (lua_istable(L, -1)) {
    mwb_raw_field(L, -1, "__newindex");
    lua_replace(L, -2);
  }
  return !lua_isnil(L, -1);
}

/* Does the class keep fields elsewhere, so that only a read shows an absent
** field's value?  The contents are at `shadow`. */
static int keeps_elsewhere(lua_State *L, const mwi_object *r, int shadow) {
  int top = lua_gettop(L), away;
  if (r == NULL || (r->needs & MWI_CLASS) == 0) return 0; /* no class stores */
  if (r->elsewhere) return 1; /* it has been seen to do so */
  lua_pushnil(L);
  away = !lua_next(L, shadow); /* nothing is here */
  lua_settop(L, top);
  return away;
}

/* Pushes the value of the field in the contents at `shadow`, but for what
** finalisers have stored that is told of later.  Returns the value's type. */
static inline int push_known(lua_State *L, const mwb_state *s, int shadow) {
  int type;
  lua_pushvalue(L, KEY);
  type = lua_rawget(L, shadow);
  return (s->needs & MWB_WAITS) ? mwb_go_before(L, s) : type;
}

/* The same, but pushes what the object shows, and returns LUA_TNONE, if it
** keeps its fields elsewhere. */
static inline int push_field_of(lua_State *L, const mwb_state *s,
                                const mwi_object *r, int shadow) {
  int type = push_known(L, s, shadow);
  if (type != LUA_TNIL || !keeps_elsewhere(L, r, shadow)) return type;
  lua_pop(L, 1);
  push_shown(L);
  return LUA_TNONE;
}

void mwb_push_current(lua_State *L, mwb_state *s) {
  int shadow = lua_gettop(L) + 1;
  if (!mwb_push_shadow(L, OBJECT)) { /* a userdata, or given back? */
    push_shown(L);
    return;
  }
  push_field_of(L, s, mwb_object_at(L, s, OBJECT), shadow);
  lua_replace(L, shadow);
  lua_settop(L, shadow);
}

void mwb_look_again(mwb_write *w) {
  if (w->r->obj != w->obj) w->r = NULL; /* forgotten meanwhile? */
  if (w->r != NULL && w->r->layout == w->layout) return; /* as it was */
  mwb_find_shadow(w);
  w->simple = 0; /* perhaps the first element of this shadow */
}

/* Sets the kind of a plain write by the types of the old and the new value. */
static inline void set_plain_kind(mwb_write *w, int old_type) {
  if (!w->plain) return; /* the caller knows the kind */
  w->change.kind = lua_isnil(w->L, VALUE) ? MW_DELETE
                   : old_type == LUA_TNIL ? MW_INSERT
                                          : MW_UPDATE;
}

/* Pushes the value that the write is going to replace, and returns the value's
** type. */
static int push_stored(mwb_write *w) {
  lua_State *L = w->L;
  int type;
  if (w->shadow != TRAP_SHADOW && !lua_istable(L, OBJECT)) { /* userdata? */
    mwb_push_current(L, w->s);
    return lua_type(L, -1);
  }
  type = push_field_of(L, w->s, w->r, w->shadow);
  if (type != LUA_TNONE) return type; /* no read of the program's */
  mwb_look_again(w);                  /* the read may have done anything */
  lua_pushvalue(L, KEY);
  if (lua_rawget(L, w->shadow) != LUA_TNIL) w->shows = 1; /* by that read? */
  lua_pop(L, 1);
  return lua_type(L, -1);
}

/* No write happens between this read and the first guard, so OLD is the value
** from before all guards. */
void mwb_read_old(mwb_write *w) {
  lua_State *L = w->L;
  if (w->has_old) return;
  if (w->change.key.type == MW_TINTEGER) normalize_key(L); /* is it 1.0? */
  if (w->shadow == TRAP_SHADOW) /* is nothing at SHADOW? */
    lua_pushnil(L);             /* SHADOW */
  else
    lua_settop(L, SHADOW);
  set_plain_kind(w, push_stored(w));
  w->has_old = 1;
}

void mwb_write_compare(mwb_write *w) {
  int kind = w->change.kind;
  w->change.same =
      kind != MW_TOUCH && kind != MW_CALL && mwb_is_same(w->L, OLD, VALUE);
}

void mwb_set_kind_of(mwb_write *w) {
  set_plain_kind(w, lua_type(w->L, OLD));
  mwb_write_compare(w);
}

/* Metamethods are no contents. */
int mwb_is_ignored(lua_State *L, mwb_state *s) {
  int top = lua_gettop(L), ignored = 0;
  if (mwb_is_meta(L, KEY)) return 1;
  if ((s->needs & MWB_IGNORES) == 0 || !mwb_push_question(L, s, MWB_IGNORED))
    return 0; /* the policy ignores no field */
  lua_pushvalue(L, OBJECT);
  lua_call(L, 1, 1);
  if (lua_istable(L, -1) && !lua_isnil(L, KEY)) { /* are any ignored? */
    lua_pushvalue(L, KEY);
    ignored = lua_rawget(L, -2) != LUA_TNIL;
  }
  lua_settop(L, top);
  return ignored;
}

/* }====================================================== */

/* {======================================================
** Storing
** ======================================================= */

int mwb_is_meta(lua_State *L, int index) {
  static const char *const names[] = {
      "add", "band", "bnot", "bor",  "bxor",      "call", "close",    "concat",
      "div", "eq",   "gc",   "idiv", "index",     "le",   "len",      "lt",
      "mod", "mode", "mul",  "name", "metatable", "pow",  "newindex", "pairs",
      "shl", "shr",  "sub",  "unm",  "tostring",  NULL};
  size_t len;
  const char *name;
  int i;
  if (lua_type(L, index) != LUA_TSTRING) return 0;
  name = lua_tolstring(L, index, &len);
  if (name[0] != '_' || name[1] != '_') return 0; /* as nearly all */
  for (i = 0; names[i] != NULL; i++)
    if (strlen(names[i]) == len - 2 && memcmp(names[i], name + 2, len - 2) == 0)
      return 1;
  return 0;
}

/* Stores the pair on the top, which is a copy of KEY and VALUE, in the shadow
** at `shadow`, a metamethod in the object.  `r` may be NULL.  Raises Lua's own
** errors for keys that a table cannot have. */
static void store_in(lua_State *L, int shadow, mwi_object *r,
                     const mw_value *key) {
  switch (key->type) {
    case MW_TSTRING:
      if (!mwb_is_meta(L, KEY)) break;
      lua_rawset(L, OBJECT);
      return;
    case MW_TFLOAT:
      if (key->u.f != key->u.f) luaL_error(L, "table index is NaN");
      break;
    case MW_TINTEGER:
      if (r != NULL && (r->needs & MWI_SHORT)) mwb_need_len(L, OBJECT, r);
      break;
    case MW_TNIL:
      luaL_error(L, "table index is nil");
      break;
    default:
      break;
  }
  lua_rawset(L, shadow);
}

/* Stores VALUE under KEY. */
static inline void store_pair(const mwb_write *w) {
  lua_State *L = w->L;
  if (w->s->needs & MWB_WAITS) mwb_overtake(L, w->s); /* writes wait? */
  if (w->shadow != TRAP_SHADOW || w->has_old) {       /* or are both the top? */
    lua_pushvalue(L, KEY);
    lua_pushvalue(L, VALUE);
  }
  if (w->simple) /* neither a metamethod nor a first element? */
    lua_rawset(L, w->shadow);
  else
    store_in(L, w->shadow, w->r, &w->change.key);
}

/* Returns the held values of an entry that can be appended at once, or NULL. */
static mwb_held *find_held(const mwb_state *s, const mwb_transaction *tx) {
  const mwi_journal *journal = &s->engine->journal;
  if (tx != NULL) /* can the write be taken back? */
    return mwi_journal_is_ready(journal, tx->its) ? &tx->of->held : NULL;
  return (journal->entries == 0 && mwb_page_is_ready(s)) /* delivered now? */
             ? &s->journal->page_holder.held
             : NULL;
}

/* Stores and appends the entry, if that takes one `rawset` and there is room.
** Reads the old value anew, because a guard may have written. */
static int store_simply(mwb_write *w, const mwb_transaction *tx, int is_read) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  mwb_held *held = w->simple ? find_held(s, tx) : NULL;
  mw_entry entry;
  int top, type;
  if (held == NULL) return 0; /* it takes the long path */
  if (w->change.key.type == MW_TSTRING) {
    entry.type[MW_KEY] = MW_TOTHER;
    entry.value[MW_KEY].i = mwb_hold_string(L, s, held, 0, KEY);
  } else {
    entry.type[MW_KEY] = MW_TINTEGER;
    entry.value[MW_KEY] = w->change.key.u;
  }
  entry.context = is_read ? mwb_hold_context(L, s, held) : 0;
  entry.where = mwb_wants_where(s, tx) ? mwb_hold_where(L, s, held) : 0;
  top = lua_gettop(L);
  type = push_known(L, s, w->shadow);
  mwb_pack_as(L, s, held, 0, top + 1, type, &entry, MW_OLD);
  mwb_pack_as(L, s, held, 0, VALUE, lua_type(L, VALUE), &entry, MW_NOW);
  lua_settop(L, top);
  if (tx == NULL) { /* is it delivered at once? */
    mwb_mark_key(L, s, KEY, &entry);
    mwb_hold_in_page(L, s, held, w->obj, OBJECT);
  }
  store_pair(w);
  if (!mwb_set_kind(&entry) && (tx == NULL || !mwb_hides(s, tx)))
    return 1; /* nothing has changed, nor hides what others wrote */
  if (w->change.flags_only) entry.kind = MW_RAW; /* see `raw_set` */
  entry.obj = w->obj;
  entry.seq = mwb_write_number(w);
  entry.cause = mwb_cause(L, s);
  if (tx == NULL) {
    entry.seq = mwi_journal_stamp(&s->engine->journal, entry.seq);
    mwi_reader_put(s->engine, &entry, 1);
  } else {
    mwi_journal_append(&s->engine->journal, tx->its, &entry);
  }
  return 1;
}

/* Stores in the shadow, and appends an entry if the journal is open. */
void mwb_store_field(mwb_write *w) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  const mwi_journal *journal = &s->engine->journal;
  int is_read, top;
  mwb_entry entry;
  const mwb_transaction *tx = NULL;
  if (w->is_stored) return; /* by a finaliser, earlier */
  if ((s->needs & MWB_APPENDS) == 0 || w->ignored || s->journal->restoring) {
    store_pair(w); /* nobody wants an entry */
    return;
  }
  is_read = mwi_is_read(&s->engine->reader);
  if (is_read && mwb_make_ready(L, s)) { /* may the program have run? */
    if (w->r != NULL) mwb_look_again(w);
    is_read = mwi_is_read(&s->engine->reader);
  }
  tx = mwb_transaction_now(L, s);
  if (tx == NULL && !is_read && journal->entries == 0) {
    store_pair(w); /* nobody wants an entry */
    return;
  }
  if (store_simply(w, tx, is_read)) return;
  top = lua_gettop(L);
  if (w->r != NULL && (w->r->needs & MWI_SHORT) &&
      lua_type(L, KEY) == LUA_TNUMBER) /* may it be a first element? */
    mwb_need_len(L, OBJECT, w->r);
  push_known(L, s, w->shadow);
  mwb_prepare(L, s, w->obj, MW_UPDATE, top + 1, mwb_write_number(w), &entry);
  lua_settop(L, top);
  store_pair(w);
  if (w->change.flags_only) entry.its.kind = MW_RAW; /* see `raw_set` */
  mwb_append_entry(L, s, &entry);
}

/* Does the write replace, or put in, a table below the object? */
static int is_relinked(const mwb_write *w) {
  lua_State *L = w->L;
  int type = lua_type(L, VALUE);
  if (type == LUA_TTABLE) return 1;             /* one comes */
  if ((w->r->needs & MWI_LINKS) == 0) return 0; /* none can go */
  if (w->s->needs & MWB_WAITS) return 1; /* a finaliser may have replaced it */
  lua_pushvalue(L, KEY);
  type = lua_rawget(L, w->shadow);
  lua_pop(L, 1);
  return type == LUA_TTABLE;
}

void mwb_store_contents(mwb_write *w) {
  if (w->r != NULL && (w->r->needs & MWI_TREE) && is_relinked(w))
    mwb_store_linked(w); /* a table comes or goes below a root */
  else
    mwb_store_field(w);
  if (w->r != NULL && !mwi_object_intercepts(w->r) && mwb_has_orphans(w->s))
    mwb_let_go(w->L, w->s, SIZE_MAX); /* the object has left the tree */
}

void mwb_store_nothing(mwb_write *w) { (void)w; }

/* put_kept(object, key): stores the field that a class has put into the object.
** It does not disappear if there is no memory. */
static int put_kept(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle h = mwb_handle_of(L, s, OBJECT);
  mwb_write w;
  if (!mwb_take_raw(L)) return 0; /* the class has ended the watch */
  mwb_write_open(L, s, &w, h, MWB_PLAIN, 0);
  w.ignored = mwb_is_ignored(L, s);
  mwb_store_contents(&w);
  return 0;
}

/* A class's `__newindex` that runs for an object, and the one around it. */
struct mwb_running {
  mw_handle obj;
  struct mwb_running *outer;
};

int mwb_in_class(const mwb_state *s, mw_handle obj) {
  const struct mwb_running *at = s->traps->running_class;
  while (at != NULL && at->obj != obj) at = at->outer;
  return at != NULL;
}

/* A class with a `__newindex` is asked about absent keys, also if the key is
** there because the library has read it. */
static int asks_class(const mwb_write *w) {
  lua_State *L = w->L;
  int top = lua_gettop(L), asked = push_newindex(L);
  if (asked) {
    lua_pushvalue(L, KEY);
    asked = lua_rawget(L, w->shadow) == LUA_TNIL || w->shows;
  }
  lua_settop(L, top);
  return asked;
}

/* A guard may have ended the watch; then the class is asked, too. */
static inline int is_asked(const mwb_write *w) {
  return (w->shadow != TRAP_SHADOW || (w->r->needs & MWI_CLASS)) &&
         asks_class(w);
}

int mwb_call_class(mwb_write *w) {
  struct mwb_running here = {w->obj, w->s->traps->running_class};
  int status;
  w->s->traps->running_class = &here;
  status = mwb_pcall_newindex(w->L, RESULT);
  w->s->traps->running_class = here.outer;
  if (status == LUA_OK)
    lua_settop(w->L, RUNNING);
  else
    lua_replace(w->L, RESULT);
  return status;
}

void mwb_end_class(mwb_write *w, int status) {
  lua_State *L = w->L;
  if (w->r != NULL && w->r->obj != w->obj) w->r = NULL; /* forgotten since? */
  if (status != LUA_OK) {     /* perhaps after storing */
    w->change.flags_only = 1; /* nobody is asked in an error */
    if (w->r != NULL) mwi_write_results(w->s->engine, w->r, &w->change);
    lua_settop(L, RESULT);
    lua_error(L);
  }
  lua_settop(L, w->called ? FAILURE : OLD);
  mwb_find_shadow(w);
}

/* A table's class has returned or raised: what it has kept under the written
** key is this write. */
static void keep_field(mwb_write *w, int status) {
  lua_State *L = w->L;
  mwi_object *r = w->r;
  if (lua_isnil(L, KEY)) return; /* no table has kept that */
  lua_pushvalue(L, KEY);
  if (lua_rawget(L, OBJECT) != LUA_TNIL) { /* is it raw in the object? */
    mwb_push_function(L, w->s, put_kept);
    lua_pushvalue(L, OBJECT);
    lua_pushvalue(L, KEY);
    lua_call(L, 2, 0);
  } else if (r != NULL && r->obj == w->obj && status == LUA_OK &&
             !lua_isnil(L, VALUE)) { /* a value that is not there? */
    r->elsewhere = 1;                /* it keeps its fields elsewhere */
  }
  lua_pop(L, 1);
}

void mwb_store_value(mwb_write *w) {
  int status;
  if (!is_asked(w)) { /* has the class no say? */
    mwb_store_contents(w);
    return;
  }
  lua_settop(w->L, RUNNING);
  push_newindex(w->L);
  status = mwb_call_class(w);
  keep_field(w, status);
  mwb_end_class(w, status);
}

/* }====================================================== */

/* {======================================================
** Telling
** ======================================================= */

/* Does a guard that is called wait for the write? */
static int is_awaited(const mwb_write *w) {
  mw_engine *e = w->s->engine;
  const mwi_object *r = w->r;
  if ((r->needs & MWI_CALLS) && /* are some no plain flags? */
      ((r->needs & MWI_UNKEYED) || mwi_field_is_watched(e, r, &w->change.key)))
    return 1;                                  /* a watch of its own */
  return r->nodes != 0 && e->watch.deep > 0 && /* or one of a root above? */
         !mwi_tree_is_quiet(e, r, &w->change.key);
}

/* Does a watch, a batch or a trace read the old value, or must a guard's be
** read now?  A function of the class that shows the old value may do anything,
** so the function is called before the guards are looked for. */
static int needs_old(const mwb_write *w, unsigned needs) {
  const mwi_watches *watch = &w->s->engine->watch;
  int shown = w->shadow != TRAP_SHADOW && !lua_istable(w->L, OBJECT);
  if (needs & (MWI_SKIPS | MWB_TRACES)) return 1; /* compared, or traced */
  if (watch->deep_skips > 0 && w->r->nodes != 0) return 1; /* perhaps above */
  if (needs & MWI_CLASS)
    shown = shown || keeps_elsewhere(w->L, w->r, w->shadow);
  return (watch->after > 0 || shown) && is_awaited(w); /* by a guard? */
}

int mwb_write_check(mwb_write *w) {
  mw_engine *e = w->s->engine;
  if (w->r == NULL || !mwi_write_is_checked(&e->watch, w->r)) return 1;
  if (w->s->traps->depth == 0) w->s->traps->endless = 0; /* in no guard? */
  mwb_read_old(w);
  mwb_write_compare(w);
  if (w->r == NULL) return 1; /* that read may do anything */
  if (!mwi_write_check(e, w->r, &w->change, &w->awaited)) {
    lua_settop(w->L, FAILURE);
    return 0;
  }
  if (w->called) mwb_look_again(w); /* and so may a check */
  return 1;
}

void mwb_write_before(mwb_write *w) {
  mwb_state *s = w->s;
  mw_engine *e = s->engine;
  uint64_t calls = e->watch.calls;
  unsigned needs;
  if (w->r == NULL) return; /* nobody watches or tracks it */
  needs = s->needs | w->r->needs;
  if (s->traps->depth == 0) s->traps->endless = 0; /* in no guard? */
  if (w->has_old == MWB_GIVEN || (!w->has_old && needs_old(w, needs))) {
    /* is the old value to be compared, or read now? */
    mwb_read_old(w);
    mwb_write_compare(w);
    if (w->r == NULL) return; /* that read may do anything */
  }
  if (needs & MWB_TRACES) {
    w->traced = mwb_trace_write(w->L, s, w->obj, w->change.kind);
  }
  if ((needs & MWB_BATCHES) && !w->change.flags_only) /* may a batch own it? */
    w->batched = mwb_note_write(w);
  if (w->r == NULL) return;     /* likewise */
  if (w->batched || w->awaited) /* or would nobody hear? */
    mwi_write_call(e, w->r, &w->change, w->batched ? MWI_AT_ONCE : 0, w->seq);
  if (w->traced != 0)
    mwb_trace_heard(w->L, s, w->traced, e->watch.calls - calls);
  if (!w->called) return;
  mwb_look_again(w); /* a guard may have written */
  if (w->has_old == MWB_GIVEN || e->watch.after == 0) return; /* OLD stays */
  set_plain_kind(w, push_stored(w));
  lua_replace(w->L, OLD);
  mwb_write_compare(w);
}

int mwb_write_after(mwb_write *w) {
  mw_engine *e = w->s->engine;
  uint64_t calls = e->watch.calls;
  int lives = !w->ignored && w->r != NULL && w->r->obj == w->obj;
  if (lives) mwi_write_results(e, w->r, &w->change);
  if (lives && e->watch.after > 0 && !w->batched) { /* told now? */
    mwi_write_call(e, w->r, &w->change, MW_AFTER, w->seq);
    if (w->traced != 0)
      mwb_trace_heard(w->L, w->s, w->traced, e->watch.calls - calls);
  }
  if (w->failed) lua_settop(w->L, FAILURE);
  return w->failed;
}

int mwb_write_run(mwb_write *w, mwb_storer store) {
  mwb_write_count(w);
  mwb_write_before(w);
  store(w);
  if (mwb_write_after(w)) return lua_error(w->L);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The trap
** ======================================================= */

/* A finaliser writes while the library is at work: the write is stored, and
** made when that work is over. */
static void store_at_work(mwb_write *w) {
  lua_State *L = w->L;
  const mw_value *key = &w->change.key;
  if (key->type == MW_TNIL || (key->type == MW_TFLOAT && key->u.f != key->u.f))
    store_in(L, TRAP_SHADOW, w->r, key); /* no key: raises */
  if (is_asked(w)) {                     /* the class stores where it likes */
    push_newindex(L);
    mwb_call_newindex(L, lua_gettop(L));
    return;
  }
  lua_pushvalue(L, KEY);
  lua_rawget(L, TRAP_SHADOW);
  mwb_put_off_write(L, w->s);
  lua_pushvalue(L, KEY);
  lua_pushvalue(L, VALUE);
  store_in(L, TRAP_SHADOW, w->r, key);
}

/* The path of a write with more work than flags.  A write that is only recorded
** has no guards to look for. */
static int trap_write(lua_State *L, mwb_state *s, mwi_object *r,
                      const mw_value *key, int simple, unsigned needs) {
  const mwi_watches *watch = &s->engine->watch;
  int heard = (needs & ~(unsigned)(MWB_APPENDS | MWB_IGNORES | MWI_CLASS)) != 0;
  mwb_write w;
  init_write(L, s, &w, r, MWB_PLAIN);
  w.obj = r->obj;
  w.shadow = TRAP_SHADOW;
  w.layout = r->layout;
  w.change.key = *key;
  w.simple = simple;
  if (mwb_in_finaliser(L) && mwb_is_at_work(L, s)) { /* in its middle? */
    store_at_work(&w);
    return 0;
  }
  if ((needs & MWB_WAITS) && !s->base->ending) { /* what waits comes first */
    mwb_end_waiting(L, s);
    lua_settop(L, VALUE);
    if (r->obj != w.obj || r->layout != w.layout) { /* lies it otherwise now? */
      lua_settable(L, OBJECT);
      return 0;
    }
    heard = 1;
  }
  w.ignored = (s->needs & MWB_IGNORES) != 0 && mwb_is_ignored(L, s);
  if (!w.ignored) {
    if (heard && watch->checks > 0 && !mwb_write_check(&w)) return lua_error(L);
    if (w.r != NULL) mwi_object_count(s->engine, w.r);
    if (heard) mwb_write_before(&w);
  }
  mwb_store_value(&w);
  if ((w.failed || watch->after > 0 || watch->results > 0) && /* any left? */
      mwb_write_after(&w))
    return lua_error(L); /* a guard's, before or after */
  return 0;
}

/* A metamethod is written that is not there: its class stores it, or it is put
** into the object, and nobody is told. */
static int trap_meta(lua_State *L, const mwi_object *r) {
  if (r != NULL && (r->needs & MWI_CLASS) && push_newindex(L)) /* a class's? */
    mwb_call_newindex(L, lua_gettop(L));
  else
    lua_rawset(L, OBJECT);
  return 0;
}

/* Clears the bits of `needs` without work for this write: KEYED if no watch has
** this key, and TREE if no watch above waits for writes and no table comes or
** goes. */
static inline unsigned needs_left(lua_State *L, const mwb_state *s,
                                  const mwi_object *r, const mw_value *key,
                                  unsigned needs) {
  if ((needs & (MWI_UNKEYED | MWI_KEYED)) == MWI_KEYED &&
      !mwi_field_is_watched(s->engine, r, key)) /* only other fields? */
    needs &= ~(unsigned)(MWI_KEYED | MWI_CALLS);
  if ((needs & (MWI_TREE | MWI_LINKS)) == MWI_TREE && /* no table goes, */
      lua_type(L, VALUE) != LUA_TTABLE &&             /* none comes, */
      (s->engine->watch.deep == 0 || mwi_tree_is_quiet(s->engine, r, key)))
    needs &= ~(unsigned)MWI_TREE;
  return needs;
}

/* Bits of `needs` without work of their own. */
#define IDLE ((unsigned)(MWI_SHORT | MWI_SKIPS))

int mwb_trap(lua_State *L) {
  mwb_state *s = (mwb_state *)lua_touserdata(L, TRAP_STATE);
  mw_handle h = (mw_handle)lua_tointeger(L, TRAP_HANDLE);
  mwi_object *r =
      (s->engine == NULL) ? NULL : mwi_object_find(&s->engine->watch, h);
  unsigned needs;
  mw_value key;
  int simple;
  if (r == NULL) { /* the object is dead, or the engine closed */
    if (mwb_is_meta(L, KEY)) return trap_meta(L, NULL);
    lua_rawset(L, TRAP_SHADOW);
    return 0;
  }
  simple = engine_key(L, s, r, &key);
  if (!simple && mwb_is_meta(L, KEY)) return trap_meta(L, r);
  needs = (r->needs | s->needs) & ~IDLE;
  if (needs != 0) needs = needs_left(L, s, r, &key, needs); /* of this field? */
  if (needs & ~(unsigned)(MWI_UNKEYED | MWI_KEYED)) /* more than flags? */
    return trap_write(L, s, r, &key, simple, needs);
  mwi_object_count(s->engine, r);
  if (needs != 0) mwi_write_flags(s->engine, r, &key);
  if (simple)
    lua_rawset(L, TRAP_SHADOW);
  else
    store_in(L, TRAP_SHADOW, r, &key);
  return 0;
}

/* }====================================================== */
