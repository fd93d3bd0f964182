/*
** hash.c - the hash of all that a snapshot of a root would hold.
** SPDX-License-Identifier: MIT
**
** The engine computes the hash from what is read here: see digest.c.  A root
** that is tracked or watched deeply keeps its digest.  The objects of a digest
** have MWI_DIGEST, so each write to them changes the digest at once: the old
** fact goes, the new one comes.  What a write brings below the root is read
** when the hash is next asked for, and so are objects whose class or mark
** changes, or which were away.  For any other root all is read each time: a
** *walk*, for which an object's number is its address.
**
** Objects whose changes nobody hears (userdata, weak tables, tables that are in
** no tree) are *restless*: each hash reads them again, and OBJECTS keeps alive
** what only they may hold.
**
** A digest is given up, and made anew when the hash is next asked for: if the
** policy, the names or the rule change; if there is no memory; and if there are
** far more writes than objects between two looks, so that nobody pays for long
** who has asked for a hash once.
*/
#include "hash.h"

#include <string.h>

#include "class.h"
#include "identity.h"
#include "key.h"
#include "library.h"
#include "policy.h"
#include "shadow.h"
#include "snapshot.h"
#include "trap.h"

typedef struct mwb_hash mwb_hash;

struct mwb_hash {
  mwi_digest *digest; /* NULL: given up */
  mwb_state *s;
  mwb_hash *next;
  mw_handle root; /* MW_NONE: a walk */
  mw_reach reach;
  int ruled;   /* may tables below not belong to the state? */
  int busy;    /* is the hash being computed, */
  int reading; /* and is an object being read? */
  int broken;  /* has something changed meanwhile? */
};

/* The stack while objects are read. */
enum {
  ROOT = MWB_ROOT,
  NAMES = MWB_CLASSNAMES,
  OBJECTS, /* id -> object */
  HASH,
  CURRENT, /* the object that is read, */
  CONTENTS,
  IGNORED /* and the set of its fields that the policy ignores */
};

/* {======================================================
** Terms
** ======================================================= */

/* How a value takes part. */
enum { ABSENT, REFUSED, UNKNOWN, SAID };

/* What the hashes of values, and of other facts, begin with. */
enum {
  BOOLEAN_HASH = 1,
  INTEGER_HASH,
  FLOAT_HASH,
  STRING_HASH,
  NULL_HASH,
  CLASS_HASH,
  TABLE_HASH,
  USERDATA_HASH,
  STATE_HASH,
  OBJECT_HASH
};

static uint64_t number_hash(lua_State *L, int index, int is_key) {
  uint64_t bits;
  double d;
  lua_Number f;
  int whole = lua_isinteger(L, index);
  lua_Integer i = whole ? lua_tointeger(L, index) : 0;
  if (!whole && is_key) i = lua_tointegerx(L, index, &whole);
  if (whole) return mwi_mix(INTEGER_HASH, (uint64_t)i);
  f = lua_tonumber(L, index);
  d = (double)f;
  memcpy(&bits, &d, sizeof(bits));
  if (f != f) bits = UINT64_C(0x7FF8) << 48; /* one NaN */
  return mwi_mix(FLOAT_HASH, bits);
}

static uint64_t string_hash(lua_State *L, int index) {
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  return mwi_mix(STRING_HASH, mwi_hash_bytes(s, len));
}

/* The number of an object in a digest, 0 if the object has none yet. */
static uint64_t id_of(lua_State *L, mwb_state *s, int walks, int index) {
  return walks ? (uint64_t)(uintptr_t)mwb_address(L, index)
               : mwb_handle_of(L, s, index);
}

/* Reads a key or a value. */
static int read_term(lua_State *L, mwb_state *s, int walks, int index,
                     int is_key, mwi_term *term) {
  term->id = term->hash = 0;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      return ABSENT;
    case LUA_TBOOLEAN:
      term->hash = mwi_mix(BOOLEAN_HASH, (uint64_t)lua_toboolean(L, index));
      return SAID;
    case LUA_TNUMBER:
      term->hash = number_hash(L, index, is_key);
      return SAID;
    case LUA_TSTRING:
      term->hash = string_hash(L, index);
      return SAID;
    case LUA_TTABLE:
    case LUA_TUSERDATA:
      term->id = id_of(L, s, walks, index);
      term->hash = mwi_mix(OBJECT_HASH, term->id);
      return (term->id == 0) ? UNKNOWN : SAID;
    case LUA_TLIGHTUSERDATA:
      term->hash = mwi_mix(NULL_HASH, 0);
      return (is_key || lua_touserdata(L, index) != NULL) ? REFUSED : SAID;
    default:
      return REFUSED;
  }
}

/* }====================================================== */

/* {======================================================
** Digests
** ======================================================= */

/* Gives a digest up. */
static void close_hash(mwb_hash *h) {
  mwb_hash **at = &h->s->hashes;
  if (h->digest == NULL) return;
  if (h->busy) {
    h->broken = 1;
    return;
  }
  while (*at != NULL && *at != h) at = &(*at)->next;
  if (*at == h) *at = h->next;
  mwi_digest_close(h->s->engine, h->digest);
  h->digest = NULL;
}

static int collect(lua_State *L) {
  mwb_hash *h = (mwb_hash *)lua_touserdata(L, 1);
  h->busy = 0;
  if (h->s->engine != NULL) close_hash(h);
  return 0;
}

void mwb_close_hashes(mwb_state *s) {
  mwb_hash *h, *next;
  for (h = s->hashes; h != NULL; h = next) {
    next = h->next;
    close_hash(h);
  }
}

/* Pushes a new hash of the object at MWB_ROOT; MW_NONE stands for a walk. */
static mwb_hash *push_hash(lua_State *L, mwb_state *s, mw_handle root) {
  mwb_hash *h = (mwb_hash *)lua_newuserdatauv(L, sizeof(*h), 0);
  int walks = root == MW_NONE;
  memset(h, 0, sizeof(*h));
  h->s = s;
  h->root = root;
  mwb_push(L, s, MWB_HASH);
  lua_setmetatable(L, -2);
  h->digest = mwi_digest_open(
      s->engine,
      walks ? (uint64_t)(uintptr_t)mwb_address(L, MWB_ROOT) : (uint64_t)root);
  if (h->digest == NULL) mwb_check(L, MW_NOMEM);
  return h;
}

/* May a table below the root not belong to the state? */
static int has_rule(lua_State *L, mwb_state *s, mw_reach reach) {
  mw_handle root;
  int top = lua_gettop(L), ruled = mwb_push_question(L, s, MWB_DESCEND);
  lua_settop(L, top);
  return ruled || mw_reach_rule(s->engine, reach, &root) != 0;
}

/* Are all writes below a root heard, so that the root can keep a digest? */
static int is_heard(const mwb_state *s, mw_handle root, mw_reach *reach) {
  const mwi_object *r = mwb_object_of(s, root);
  if (r == NULL || r->nodes == 0 || (r->tracked != 2 && r->deep == 0)) return 0;
  *reach = mw_tree_reach(s->engine, root);
  return *reach != 0;
}

/* Returns the hash that a root keeps, or NULL. */
static mwb_hash *find_hash(lua_State *L, mwb_state *s, mw_handle root) {
  mw_reach reach;
  mwb_hash *h = s->hashes;
  while (h != NULL && h->root != root) h = h->next;
  if (h == NULL || h->busy) return h;
  if (!h->digest->failed && is_heard(s, root, &reach) && reach == h->reach &&
      has_rule(L, s, reach) == h->ruled)
    return h;
  close_hash(h);
  return NULL;
}

/* Pushes a hash that its root keeps from now on. */
static mwb_hash *keep_hash(lua_State *L, mwb_state *s, mw_handle root,
                           mw_reach reach) {
  mwb_hash *h = push_hash(L, s, root);
  h->reach = reach;
  h->ruled = has_rule(L, s, reach);
  mwb_push(L, s, MWB_HASHES);
  lua_pushvalue(L, MWB_ROOT);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  h->next = s->hashes;
  s->hashes = h;
  return h;
}

/* }====================================================== */

/* {======================================================
** Reading objects
** ======================================================= */

typedef struct reader {
  lua_State *L;
  mwb_state *s;
  mwb_hash *h;
  mw_clock marks;
  uint32_t v; /* the object at CURRENT */
} reader;

/* Is the object in a tree, so that its writes are heard? */
static int is_in_tree(const mwb_state *s, uint64_t id) {
  const mwi_object *r = mwb_object_of(s, (mw_handle)id);
  return r != NULL && r->nodes != 0;
}

/* Keeps the object at `index` alive while the hash is computed.  In a digest
** nobody hears of it, perhaps not any more, so the object is to be read. */
static void keep_object(const reader *r, int index, uint64_t id) {
  lua_State *L = r->L;
  uint32_t v;
  int kept = lua_rawgeti(L, OBJECTS, (lua_Integer)id) != LUA_TNIL;
  lua_pop(L, 1);
  if (kept) return;
  lua_pushvalue(L, index);
  lua_rawseti(L, OBJECTS, (lua_Integer)id);
  v = mwi_digest_find(r->h->digest, id);
  if (v != 0 && r->h->root != MW_NONE) mwi_digest_spoil(r->h->digest, v);
}

/* Reads a key or value. */
static int read_part(const reader *r, int index, int is_key, mwi_term *term) {
  lua_State *L = r->L;
  int walks = r->h->root == MW_NONE;
  int said = read_term(L, r->s, walks, index, is_key, term);
  if (said == UNKNOWN) {
    mwb_identify(L, r->s, "hash", index, 1);
    said = read_term(L, r->s, walks, index, is_key, term);
  }
  if (term->id != 0 && !(walks ? mwi_digest_find(r->h->digest, term->id) != 0
                               : is_in_tree(r->s, term->id)))
    keep_object(r, index, term->id);
  return said;
}

/* Adds the field whose key and value are on the top. */
static void read_field(const reader *r) {
  lua_State *L = r->L;
  int top = lua_gettop(L), key_said, said;
  mwi_term key, value;
  if (lua_istable(L, IGNORED)) {
    lua_pushvalue(L, top - 1);
    said = lua_rawget(L, IGNORED) != LUA_TNIL;
    lua_settop(L, top);
    if (said) return;
  }
  if (!mwb_is_state(L, CURRENT, top - 1)) {
    /* so that mwb_hash_class hears of it */
    if (r->h->root != MW_NONE) mwb_identify(L, r->s, "hash", top, 1);
    return;
  }
  key_said = read_part(r, top - 1, 1, &key);
  said = read_part(r, top, 0, &value);
  if (key_said == REFUSED || said == REFUSED)
    mwi_digest_refuse(r->h->digest, r->v, 1);
  else if (key_said == SAID && said == SAID)
    mwi_digest_add(r->s->engine, r->h->digest, r->v, &key, &value);
}

/* Adds what is no field: kind, class and mark. */
static void read_head(const reader *r, uint64_t fact) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  if (!mwb_push_class_name(L, CURRENT, 0))
    mwi_digest_refuse(r->h->digest, r->v, 1);
  else if (lua_type(L, top + 1) == LUA_TSTRING)
    fact = mwi_mix(fact, string_hash(L, top + 1));
  mwi_digest_say(r->h->digest, r->v, fact);
}

static void read_userdata(const reader *r) {
  lua_State *L = r->L;
  mwi_term key, value;
  lua_settop(L, IGNORED);
  read_head(r, USERDATA_HASH);
  key.id = 0;
  key.hash = STATE_HASH;
  switch (read_part(r, IGNORED + 2, 0, &value)) {
    case REFUSED:
      mwi_digest_refuse(r->h->digest, r->v, 1);
      break;
    case SAID:
      mwi_digest_add(r->s->engine, r->h->digest, r->v, &key, &value);
      break;
    default:
      break;
  }
}

static void read_table(const reader *r) {
  lua_State *L = r->L;
  uint64_t mark = (uint64_t)mwb_mark_of(L, r->s, r->marks, CURRENT);
  if (!mwb_push_shadow(L, CURRENT)) lua_pushvalue(L, CURRENT);
  mwb_push_ignored(L, r->s, CURRENT, 0);
  read_head(r, mwi_mix(TABLE_HASH, mark));
  lua_settop(L, IGNORED);
  for (lua_pushnil(L); lua_next(L, CONTENTS) != 0; lua_settop(L, IGNORED + 1))
    read_field(r);
  lua_settop(L, IGNORED);
}

/* Is the object at CURRENT a class with a name?  If so, pushes the name.  As in
** a snapshot, the root is no class. */
static int is_class(lua_State *L) {
  if (lua_rawequal(L, CURRENT, ROOT)) return 0;
  lua_pushvalue(L, CURRENT);
  return lua_rawget(L, NAMES) == LUA_TSTRING;
}

/* May the table at CURRENT lose fields without a write? */
static int is_weak(lua_State *L) {
  int top = lua_gettop(L), weak;
  mwb_push_class(L, CURRENT);
  weak = lua_istable(L, -1) && mwb_raw_field(L, -1, "__mode") != LUA_TNIL;
  lua_settop(L, top);
  return weak;
}

/* Begins to hear of writes to the object at CURRENT. */
static void listen(const reader *r) {
  mwi_object *its = mwb_object_at(r->L, r->s, CURRENT);
  if (r->h->root == MW_NONE) return;
  if (lua_istable(r->L, CURRENT) && its != NULL && its->nodes != 0)
    its->needs |= MWI_DIGEST;
  if (!lua_istable(r->L, CURRENT) || its == NULL || its->nodes == 0 ||
      is_weak(r->L)) {
    lua_pushvalue(r->L, CURRENT);
    lua_rawseti(r->L, OBJECTS, (lua_Integer)mwi_digest_id(r->h->digest, r->v));
    mwi_digest_unrest(r->s->engine, r->h->digest, r->v);
  }
}

/* Reads the object at CURRENT, the next one of the digest. */
static void read_object(reader *r, uint64_t id) {
  lua_State *L = r->L;
  mwi_digest *d = r->h->digest;
  int is_table = lua_istable(L, CURRENT), named = is_class(L);
  int ours = !named && mwb_is_ours(L, r->s, CURRENT);
  lua_settop(L, CURRENT + 1);
  if (is_table && !named && !ours) mwb_absorb(L, r->s, CURRENT);
  r->v = mwi_digest_next(r->s->engine, d);
  if (r->v == 0 || mwi_digest_id(d, r->v) != id) return; /* it has gone */
  r->h->reading = 1;
  mwi_digest_begin(d);
  if (named) {
    lua_settop(L, CURRENT + 1);
    mwi_digest_fix(d, r->v, mwi_mix(CLASS_HASH, string_hash(L, CURRENT + 1)));
  } else if (ours) {
    mwi_digest_refuse(d, r->v, 1);
  } else {
    listen(r);
    lua_settop(L, CURRENT);
    if (is_table)
      read_table(r);
    else
      read_userdata(r);
  }
  r->h->reading = 0;
}

/* Reads all that is to be read. */
static void read_all(reader *r) {
  lua_State *L = r->L;
  uint32_t v;
  while ((v = mwi_digest_next(r->s->engine, r->h->digest)) != 0) {
    uint64_t id = mwi_digest_id(r->h->digest, v);
    lua_settop(L, HASH);
    if (r->h->root == MW_NONE)
      lua_rawgeti(L, OBJECTS, (lua_Integer)id);
    else if (!mwb_alive(L, r->s, (mw_handle)id))
      mwi_digest_begin(r->h->digest); /* of a state that has gone */
    if (lua_gettop(L) == CURRENT && !lua_isnil(L, CURRENT)) read_object(r, id);
  }
  lua_settop(L, HASH);
}

/* }====================================================== */

/* {======================================================
** Hashing
** ======================================================= */

/* Pushes the hash of what has been read; returns 0 if there is none. */
static int push_result(lua_State *L, mwb_hash *h) {
  mwi_digest *d = h->digest;
  uint64_t result = mwi_digest_finish(h->s->engine, d);
  if (d->failed) {
    close_hash(h);
    mwb_check(L, MW_NOMEM);
  }
  if (d->bad > 0 || d->lost > 0) return 0;
  lua_pushinteger(L, (lua_Integer)result);
  return 1;
}

/* Computes the hash at HASH.  Returns 0 if there is none. */
static int compute(lua_State *L, mwb_state *s, mwb_hash *h) {
  reader r;
  memset(&r, 0, sizeof(r));
  r.L = L;
  r.s = s;
  r.h = h;
  r.marks = mwb_marks(L, s);
  h->busy = 1;
  h->broken = 0;
  mwi_digest_spoil_restless(h->digest);
  read_all(&r);
  h->busy = 0;
  return !h->broken && push_result(L, h);
}

/* keep(root, describe, enters, names) -> the hash, nil if something cannot be
** said; `false` if the root keeps no digest */
static int keep(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mw_handle root = mwb_handle_of(L, s, MWB_ROOT);
  mw_reach reach;
  mwb_hash *h = find_hash(L, s, root);
  lua_newtable(L); /* OBJECTS */
  if ((h != NULL && h->busy) || !is_heard(s, root, &reach)) {
    lua_pushboolean(L, 0);
    return 1;
  }
  if (h == NULL)
    h = keep_hash(L, s, root, reach);
  else
    lua_pushnil(L); /* the hash is in MWB_HASHES */
  if (compute(L, s, h)) return 1;
  if (h->broken)
    lua_pushboolean(L, 0);
  else
    lua_pushnil(L);
  close_hash(h);
  return 1;
}

/* walk(root, describe, enters, names) -> the hash, or nil */
static int walk(lua_State *L) {
  mwb_state *s = mwb_state_of(L);
  mwb_hash *h;
  lua_newtable(L); /* OBJECTS */
  lua_pushvalue(L, MWB_ROOT);
  lua_rawseti(L, OBJECTS, (lua_Integer)(uintptr_t)mwb_address(L, MWB_ROOT));
  h = push_hash(L, s, MW_NONE);
  if (!compute(L, s, h)) lua_pushnil(L);
  close_hash(h);
  return 1;
}

/* Calls `keep` or `walk`.  Returns a status. */
static int call(lua_State *L, mwb_state *s, lua_CFunction f) {
  int i;
  lua_settop(L, NAMES);
  mwb_push_function(L, s, f);
  for (i = MWB_ROOT; i <= NAMES; i++) lua_pushvalue(L, i);
  return lua_pcall(L, NAMES, 1, 0);
}

/* After an error, gives up the digest that the root keeps.  Returns whether a
** finaliser has changed what was being read. */
static int give_up(lua_State *L, mwb_state *s) {
  mw_handle root = mwb_handle_of(L, s, MWB_ROOT);
  mwb_hash *h = s->hashes;
  int broken;
  while (h != NULL && h->root != root) h = h->next;
  if (h == NULL || !h->busy) return 0;
  broken = h->broken;
  h->busy = h->reading = 0;
  close_hash(h);
  return broken;
}

/* hash(root, describe, enters, names) -> the hash; nil if something cannot be
** said.  No finaliser runs during a walk, which knows objects by address. */
static int hash(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  int runs, status = call(L, s, keep);
  if (status != LUA_OK && !give_up(L, s)) return lua_error(L);
  if (status == LUA_OK && !lua_isboolean(L, -1)) return 1;
  runs = lua_gc(L, LUA_GCISRUNNING, 0);
  lua_gc(L, LUA_GCSTOP, 0);
  status = call(L, s, walk);
  if (runs) lua_gc(L, LUA_GCRESTART, 0);
  return (status == LUA_OK) ? 1 : lua_error(L);
}

/* kept_hash(root) -> the hash, if the root keeps a digest that is up to date;
** else nothing */
static int kept_hash(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  mwb_hash *h;
  lua_settop(L, 1);
  mwb_absorb(L, s, 1);
  if (s->metas) mwb_absorb_metas(L, s);
  h = find_hash(L, s, mwb_handle_of(L, s, 1));
  if (h == NULL || h->busy || h->digest->n_restless > 0 ||
      mwi_digest_next(s->engine, h->digest) != 0)
    return 0;
  return push_result(L, h);
}

/* }====================================================== */

/* {======================================================
** Writes
** ======================================================= */

void mwb_hash_before(const mwb_write *w, mwb_hashed *change) {
  lua_State *L = w->L;
  mwb_state *s = w->s;
  int top = lua_gettop(L);
  change->key_said = read_term(L, s, 0, KEY, 1, &change->key);
  lua_pushvalue(L, KEY);
  lua_rawget(L, w->shadow);
  change->old_said = read_term(L, s, 0, top + 1, 0, &change->old);
  lua_settop(L, top);
  change->now_said = read_term(L, s, 0, VALUE, 0, &change->now);
  change->is_table = lua_istable(L, VALUE);
  if (change->is_table) change->field = mwb_key(L, s, KEY);
  change->hashed = s->hashed;
  if (s->changing != MW_NONE) mwb_hash_spoil(s, s->changing);
  s->changing = w->obj;
}

/* The field of the object, a vertex, has another value. */
static void change_field(const mwb_write *w, mwb_hash *h, uint32_t v,
                         const mwb_hashed *c) {
  mw_engine *e = w->s->engine;
  int said = c->now_said, tables = c->old.id != 0 || c->now.id != 0;
  if (c->hashed != w->s->hashed || c->key_said == UNKNOWN ||
      c->old_said == UNKNOWN || said == UNKNOWN ||
      (c->key_said == REFUSED && tables)) {
    mwi_digest_spoil(h->digest, v);
    return;
  }
  if (h->ruled && said == SAID && c->is_table &&
      !mwi_tree_links(e, h->reach, w->obj, &c->field, c->now.id)) {
    mwi_digest_spoil(h->digest, v); /* a class with a name, or left out */
    return;
  }
  if (c->key_said == REFUSED) {
    mwi_digest_refuse(h->digest, v, (said != ABSENT) - (c->old_said != ABSENT));
    return;
  }
  mwi_digest_refuse(h->digest, v, (said == REFUSED) - (c->old_said == REFUSED));
  if (c->old_said == SAID) mwi_digest_take(h->digest, v, &c->key, &c->old);
  if (said == SAID) mwi_digest_add(e, h->digest, v, &c->key, &c->now);
}

/* Are there so many writes that the digest does not pay? */
static int is_idle(mwi_digest *d) {
  return ++d->writes / 64 > (uint64_t)d->by_id.n + 1000;
}

void mwb_hash_after(const mwb_write *w, const mwb_hashed *change) {
  mwb_hash *h, *next;
  int found = 0;
  for (h = w->s->hashes; h != NULL; h = next) {
    uint32_t v = mwi_digest_find(h->digest, w->obj);
    next = h->next;
    if (v == 0) continue;
    found = 1;
    if (h->reading)
      h->broken = 1;
    else if (is_idle(h->digest))
      close_hash(h);
    else if (mwi_digest_is_read(h->digest, v))
      change_field(w, h, v, change);
  }
  if (!found && w->r != NULL) w->r->needs &= (uint16_t)~MWI_DIGEST;
  w->s->hashed++;
  w->s->changing = MW_NONE;
}

void mwb_hash_spoil(mwb_state *s, mw_handle obj) {
  mwb_hash *h;
  for (h = s->hashes; h != NULL; h = h->next) {
    uint32_t v = mwi_digest_find(h->digest, obj);
    if (v == 0) continue;
    if (h->reading)
      h->broken = 1;
    else
      mwi_digest_spoil(h->digest, v);
  }
}

void mwb_hash_class(mwb_state *s, mw_handle obj) {
  mwb_hash *h, *next;
  if (obj == MW_NONE) return;
  mwb_hash_spoil(s, obj);
  for (h = s->hashes; h != NULL; h = next) {
    next = h->next;
    if (h->ruled) close_hash(h);
  }
}

void mwb_hash_spoil_class(mwb_state *s, mw_handle obj) {
  const mwi_object *r = mwb_object_of(s, obj);
  if (r != NULL && (r->needs & MWI_DIGEST)) mwb_close_hashes(s);
}

void mwb_hash_forget(mwb_state *s, mw_handle root) {
  mwb_hash *h = s->hashes;
  mw_reach reach;
  while (h != NULL && h->root != root) h = h->next;
  if (h != NULL && !is_heard(s, root, &reach)) close_hash(h);
}

/* spoil_hash([object]): the object is to be read again; without one, all */
static int spoil_hash(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  lua_settop(L, 1);
  if (s->hashes == NULL) return 0;
  if (lua_isnil(L, 1))
    mwb_close_hashes(s);
  else
    mwb_hash_spoil(s, mwb_handle_of(L, s, 1));
  return 0;
}

/* }====================================================== */

void mwb_open_hashes(lua_State *L, mwb_state *s) {
  static const luaL_Reg functions[] = {{"hash", hash},
                                       {"kept_hash", kept_hash},
                                       {"spoil_hash", spoil_hash},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
  lua_newtable(L);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  mwb_keep(L, s, MWB_HASH);
  mwb_push_ephemeron(L, s);
  mwb_keep(L, s, MWB_HASHES);
}
