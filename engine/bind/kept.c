/*
** kept.c - what a box keeps from call to call.
** SPDX-License-Identifier: MIT
**
** Only the allocator sees an object go, and between calls Lua has the program's
** own allocator.  So what a box keeps is counted by a walk, before a call, when
** calls have asked for much memory since the last walk.
**
** The walk counts the objects that calls of the box have made and that can be
** reached: from the globals, from all that has been called in the box (the keys
** of a weak table), and from the values for the next call.  The walk goes on
** through objects of the box, and through the first LOOKED fields of the
** program's tables; what is behind the program's functions and userdata is the
** program's.
**
** Which objects are the box's?  The allocator notes the blocks that a call
** gets, and those that go during a call, in a hash table: open addressing,
** never more than half full, the size a power of 2; a block is in its home, or
** in the first free element after that.  A block that went between calls stays
** in the table, until the next walk does not meet the block.  If Lua has given
** the block to an object of the program's, of the same type, and the walk meets
** that object, it is taken for the box's: few, since the walk goes only through
** the box's objects and a few of the program's.
**
** Sizes are those that an object shows, but those of tables: Lua keeps the room
** of fields that were removed.  Lua does not say where the parts of a table
** are; but the table's own block, which always has the same size, has a pointer
** into each part.  So parts are the blocks that a call has got for no object,
** and into which a word of the table's block points.
**
** A box may outlive its finaliser, and Lua may have to leave out a finaliser.
** So the meter has a list of all records, for the end of the state.
*/
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox.h"

#define LEAST 64

/* Parts with fewer bytes than these are not noted. */
#define SMALL 64

/* Fields of the program's tables that a walk looks at. */
#define LOOKED 10000

/* Bytes that calls ask for, for each step of the last walk, before the next
** walk.  A box that keeps too much is asked again after as many instructions as
** the last walk had steps. */
#define BYTES_A_STEP 16

/* {======================================================
** The hash table
** ======================================================= */

static size_t home(const mwb_kept *kept, const void *block) {
  uint64_t hash = (uint64_t)(uintptr_t)block * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(hash >> 32) & (kept->size - 1);
}

static mwb_made *find(const mwb_kept *kept, const void *block) {
  size_t i;
  if (kept->n == 0) return NULL;
  for (i = home(kept, block);; i = (i + 1) & (kept->size - 1)) {
    if (kept->made[i].block == block) return &kept->made[i];
    if (kept->made[i].block == NULL) return NULL;
  }
}

static void put(mwb_kept *kept, const mwb_made *made) {
  size_t i = home(kept, made->block);
  while (kept->made[i].block != NULL) i = (i + 1) & (kept->size - 1);
  kept->made[i] = *made;
  kept->n++;
}

/* The objects behind the removed one move up, unless they are at home there. */
static void take(mwb_kept *kept, mwb_made *made) {
  size_t mask = kept->size - 1, hole = (size_t)(made - kept->made), i = hole;
  for (i = (i + 1) & mask; kept->made[i].block != NULL; i = (i + 1) & mask) {
    size_t at = home(kept, kept->made[i].block);
    if (((i - at) & mask) < ((i - hole) & mask)) continue;
    kept->made[hole] = kept->made[i];
    hole = i;
  }
  kept->made[hole].block = NULL;
  kept->n--;
}

/* In the allocator nothing can be collected, so the engine is not asked, only
** told. */
static void *allocate(const mwb_kept *kept, void *block, size_t osize,
                      size_t nsize) {
  const mwb_meter *meter = kept->meter;
  void *fresh = meter->alloc(meter->ud, block, osize, nsize);
  if (fresh != NULL || nsize == 0) kept->engine->bytes += nsize - osize;
  return fresh;
}

/* The program may have given Lua another allocator. */
static void find_allocator(lua_State *L, mwb_meter *meter) {
  if (meter->budget == NULL) meter->alloc = lua_getallocf(L, &meter->ud);
}

/* Gives the hash table another size, and keeps the objects that walk `since`
** or a later one has met.  Returns 0 if there is no memory. */
static int resize(mwb_kept *kept, size_t size, unsigned since) {
  mwb_kept fresh = *kept;
  size_t i;
  fresh.made = (mwb_made *)allocate(kept, NULL, 0, size * sizeof(mwb_made));
  if (fresh.made == NULL) return 0;
  memset(fresh.made, 0, size * sizeof(mwb_made));
  fresh.size = size;
  fresh.n = 0;
  for (i = 0; i < kept->size; i++)
    if (kept->made[i].block != NULL && kept->made[i].walk >= since)
      put(&fresh, &kept->made[i]);
  if (kept->size > 0)
    allocate(kept, kept->made, kept->size * sizeof(mwb_made), 0);
  *kept = fresh;
  return 1;
}

static int is_object(int type) {
  return type == LUA_TSTRING || type == LUA_TTABLE || type == LUA_TFUNCTION ||
         type == LUA_TTHREAD;
}

static int is_part(int type) {
  return type == LUA_TNIL || type == LUA_TUSERDATA;
}

/* If there is no memory, the block is not counted. */
void mwb_note_made(mwb_kept *kept, const void *block, size_t type,
                   size_t size) {
  mwb_made made, *former;
  int is = (int)type;
  if (!is_object(is) && !(is_part(is) && size >= SMALL)) return;
  if (is == LUA_TTABLE) kept->table = size;
  memset(&made, 0, sizeof(made));
  made.block = block;
  made.type = is;
  made.bytes = is_part(is) ? (lua_Integer)size : 0;
  former = find(kept, block);
  if (former != NULL)
    *former = made;
  else if (2 * (kept->n + 1) <= kept->size ||
           resize(kept, (kept->size == 0) ? LEAST : 2 * kept->size, 0))
    put(kept, &made);
}

lua_Integer mwb_note_freed(mwb_kept *kept, const void *block) {
  mwb_made *made = find(kept, block);
  lua_Integer bytes;
  if (made == NULL) return 0;
  bytes = (made->walk != 0) ? made->bytes : 0;
  take(kept, made);
  if (bytes > kept->bytes) bytes = kept->bytes;
  kept->bytes -= bytes;
  return bytes;
}

/* }====================================================== */

/* {======================================================
** The walk
** ======================================================= */

typedef struct walk {
  lua_State *L;
  mwb_kept *kept;
  int list;         /* of tables, functions and threads to go through; the
                    ** program's tables are keys, too */
  lua_Integer n;    /* of them */
  int looked;       /* fields of the program's tables */
  mwb_made **parts; /* blocks that may be parts of objects, by address */
  size_t n_parts;
} walk;

/* The block of the object on the top. */
static const void *block_of(lua_State *L) {
  lua_State *thread = lua_tothread(L, -1);
  return (thread != NULL) ? lua_getextraspace(thread) : lua_topointer(L, -1);
}

/* Bytes of an object without what grows with its contents. */
static lua_Integer size_of(lua_State *L, int type) {
  switch (type) {
    case LUA_TSTRING:
      return 25 + (lua_Integer)lua_rawlen(L, -1);
    case LUA_TTABLE:
      return 56;
    case LUA_TFUNCTION:
      return 32;
    default:
      return 1000;
  }
}

static int compare_blocks(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)(*(mwb_made *const *)a)->block;
  uintptr_t y = (uintptr_t)(*(mwb_made *const *)b)->block;
  return (x > y) - (x < y);
}

/* Pushes the list of parts.  The hash table has its size until the walk ends,
** since no call of the box runs. */
static void push_parts(walk *w) {
  mwb_kept *kept = w->kept;
  size_t i;
  w->parts =
      (mwb_made **)lua_newuserdatauv(w->L, kept->n * sizeof(mwb_made *), 0);
  for (i = 0; i < kept->size; i++)
    if (kept->made[i].block != NULL && is_part(kept->made[i].type))
      w->parts[w->n_parts++] = &kept->made[i];
  qsort(w->parts, w->n_parts, sizeof(mwb_made *), compare_blocks);
}

/* Returns the part that has this address, or NULL. */
static mwb_made *part_at(const walk *w, uintptr_t address) {
  size_t low = 0, high = w->n_parts;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    mwb_made *part = w->parts[middle];
    uintptr_t from = (uintptr_t)part->block;
    if (address < from)
      high = middle;
    else if (address - from >= (uintptr_t)part->bytes)
      low = middle + 1;
    else
      return part;
  }
  return NULL;
}

/* Meets the part at an address, if there is one.  Returns the part's bytes if
** that was the first time. */
static lua_Integer reach_part(const walk *w, uintptr_t address) {
  mwb_made *part = part_at(w, address);
  if (part == NULL || part->walk == w->kept->walk) return 0;
  part->walk = w->kept->walk;
  return part->bytes;
}

/* Meets the parts of a table.  Returns their bytes.  The last word in a table's
** block is the collector's, and has no value at first. */
static lua_Integer reach_parts(const walk *w, const mwb_made *made) {
  const char *word = (const char *)made->block;
  lua_Integer bytes = 0;
  size_t left = w->kept->table;
  for (; left > sizeof(uintptr_t); left -= sizeof(uintptr_t)) {
    uintptr_t address;
    memcpy(&address, word, sizeof(address));
    word += sizeof(address);
    bytes += reach_part(w, address);
  }
  return bytes;
}

/* Is the program's table on the top met for the first time? */
static int is_new(walk *w) {
  lua_pushvalue(w->L, -1);
  if (lua_rawget(w->L, w->list) != LUA_TNIL) {
    lua_pop(w->L, 1);
    return 0;
  }
  lua_pop(w->L, 1);
  lua_pushvalue(w->L, -1);
  lua_pushboolean(w->L, 1);
  lua_rawset(w->L, w->list);
  return 1;
}

/* Pops a value that is reached. */
static void reach(walk *w) {
  lua_State *L = w->L;
  int type = lua_type(L, -1), enter;
  mwb_made *made = NULL;
  if (is_object(type)) made = find(w->kept, block_of(L));
  if (type == LUA_TUSERDATA) reach_part(w, (uintptr_t)lua_touserdata(L, -1));
  if (made != NULL && made->type == type) {
    enter = made->walk != w->kept->walk;
    made->walk = w->kept->walk;
    if (enter) made->bytes = size_of(L, type);
    enter = enter && type != LUA_TSTRING;
  } else {
    enter = type == LUA_TTABLE && w->looked < LOOKED && is_new(w);
  }
  if (enter)
    lua_rawseti(L, w->list, ++w->n);
  else
    lua_pop(L, 1);
}

/* Goes through the table on the top.  Returns the bytes for its fields. */
static lua_Integer walk_table(walk *w, int is_own) {
  lua_State *L = w->L;
  lua_Integer bytes = 0, length = (lua_Integer)lua_rawlen(L, -1), n = 0;
  if (lua_getmetatable(L, -1)) reach(w);
  for (lua_pushnil(L); lua_next(L, -2) != 0; n++) {
    int in_array = lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 &&
                   lua_tointeger(L, -2) <= length;
    bytes += in_array ? 16 : 32;
    reach(w);
    if (!is_own && ++w->looked >= LOOKED) {
      lua_pop(L, 1);
      break;
    }
    lua_pushvalue(L, -1);
    reach(w);
  }
  w->kept->steps += n;
  return bytes;
}

static lua_Integer walk_function(walk *w) {
  int i;
  for (i = 1; lua_getupvalue(w->L, -1, i) != NULL; i++) reach(w);
  return 40 * (i - 1);
}

/* Goes through what a thread has on its stack. */
static lua_Integer walk_thread(walk *w) {
  lua_State *L = w->L, *co = lua_tothread(L, -1);
  lua_Integer slots = 0;
  lua_Debug ar;
  int level, i;
  if (co == L || !lua_checkstack(co, 2)) return 0;
  if (!lua_getstack(co, 0, &ar))
    for (i = lua_gettop(co); i > 0; i--, slots++) {
      lua_pushvalue(co, i);
      lua_xmove(co, L, 1);
      reach(w);
    }
  for (level = 0; lua_getstack(co, level, &ar); level++) {
    lua_getinfo(co, "f", &ar);
    lua_xmove(co, L, 1);
    reach(w);
    for (i = 1; lua_getlocal(co, &ar, i) != NULL; i++, slots++) {
      lua_xmove(co, L, 1);
      reach(w);
    }
    for (i = -1; lua_getlocal(co, &ar, i) != NULL; i--, slots++) {
      lua_xmove(co, L, 1);
      reach(w);
    }
  }
  return 16 * slots + 64 * level;
}

static void walk_object(walk *w, lua_Integer i) {
  lua_State *L = w->L;
  int type = lua_rawgeti(L, w->list, i);
  mwb_made *made = find(w->kept, block_of(L));
  lua_Integer bytes, in_parts = 0;
  if (made != NULL && made->walk != w->kept->walk) made = NULL;
  if (type == LUA_TTABLE)
    bytes = walk_table(w, made != NULL);
  else
    bytes = (type == LUA_TFUNCTION) ? walk_function(w) : walk_thread(w);
  if (made != NULL && type == LUA_TTABLE) in_parts = reach_parts(w, made);
  if (made != NULL && bytes > in_parts) made->bytes += bytes - in_parts;
  w->kept->steps++;
  lua_pop(L, 1);
}

/* Reaches what the walk begins with: see above. */
static void reach_roots(walk *w, int index, int first, int n) {
  lua_State *L = w->L;
  int i;
  lua_getiuservalue(L, index, MWB_WORLD);
  reach(w);
  lua_getiuservalue(L, index, MWB_BOXCALLED);
  for (lua_pushnil(L); lua_next(L, -2) != 0;) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    reach(w);
  }
  lua_pop(L, 1);
  for (i = 0; i < n; i++) {
    lua_pushvalue(L, first + i);
    reach(w);
  }
}

/* Forgets the objects that the walk has not met, and adds the others up. */
static void add_up(mwb_kept *kept) {
  size_t i, n = 0, size = LEAST;
  kept->bytes = 0;
  for (i = 0; i < kept->size; i++) {
    if (kept->made[i].block == NULL || kept->made[i].walk != kept->walk)
      continue;
    kept->bytes += kept->made[i].bytes;
    n++;
  }
  while (size < 4 * n) size *= 2;
  if (kept->n == n || resize(kept, size, kept->walk)) return;
  for (i = kept->size; i > 0; i--)
    if (kept->made[i - 1].block != NULL && kept->made[i - 1].walk != kept->walk)
      take(kept, &kept->made[i - 1]);
}

void mwb_count_kept(lua_State *L, mwb_kept *kept, lua_Integer most, int index,
                    int n) {
  int first = lua_gettop(L) - n + 1;
  lua_Integer i;
  walk w;
  if (kept->grown < most / 4 + BYTES_A_STEP * kept->steps &&
      (kept->bytes < most || kept->spent < kept->steps))
    return;
  memset(&w, 0, sizeof(w));
  find_allocator(L, kept->meter);
  lua_newtable(L);
  w.L = L;
  w.kept = kept;
  w.list = lua_gettop(L);
  kept->walk++;
  kept->steps = 0;
  push_parts(&w);
  reach_roots(&w, index, first, n);
  for (i = 1; i <= w.n; i++) walk_object(&w, i);
  lua_settop(L, w.list - 1);
  add_up(kept);
  kept->grown = kept->spent = 0;
}

/* }====================================================== */

/* {======================================================
** Life
** ======================================================= */

mwb_kept *mwb_new_kept(lua_State *L, const mwb_state *s) {
  mwb_meter *meter = s->meter;
  mwb_kept *kept = (mwb_kept *)mwi_new(s->engine, sizeof(mwb_kept));
  if (kept == NULL) {
    mwb_check(L, MW_NOMEM);
    return NULL;
  }
  kept->engine = s->engine;
  kept->meter = meter;
  kept->link = &meter->kept;
  kept->next = meter->kept;
  if (kept->next != NULL) kept->next->link = &kept->next;
  meter->kept = kept;
  return kept;
}

void mwb_free_kept(lua_State *L, mwb_kept *kept) {
  find_allocator(L, kept->meter);
  if (kept->size > 0)
    allocate(kept, kept->made, kept->size * sizeof(mwb_made), 0);
  *kept->link = kept->next;
  if (kept->next != NULL) kept->next->link = kept->link;
  mwi_free(kept->engine, kept, sizeof(*kept));
}

void mwb_free_all_kept(lua_State *L, const mwb_meter *meter) {
  while (meter->kept != NULL) mwb_free_kept(L, meter->kept);
}

/* }====================================================== */
