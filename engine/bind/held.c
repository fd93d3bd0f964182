/*
** held.c - the blocks of memory that boxes hold.
** SPDX-License-Identifier: MIT
**
** A hash table with open addressing, never more than half full, whose size is a
** power of 2: a block is in its home, or in the first free element after that.
** The allocator of a budget fills it, so nothing here calls Lua.
**
** Nearly all blocks that are asked for are the program's.  So behind the table
** there is a filter of WIDE times as many bytes, which count the blocks by
** their hashes, up to 255 for good: most questions read one byte, which is 0.
**
** A block may outlast its box, and Lua may have to leave out a finaliser.  So
** what a box holds is counted in an account, which the meter has; once the
** account has no blocks and the box is dead, another box gets the account.
*/
#include "held.h"

#include <string.h>

#define LEAST 256
#define WIDE 8

static size_t hash_of(const void *ptr) {
  uint64_t hash = (uint64_t)(uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(hash >> 32);
}

static uint8_t *filter_of(const mwb_meter *m, const void *ptr) {
  uint8_t *filter = (uint8_t *)(m->blocks + m->size);
  return filter + (hash_of(ptr) & (WIDE * m->size - 1));
}

static size_t home(const mwb_meter *m, const void *ptr) {
  return hash_of(ptr) & (m->size - 1);
}

mwb_block *mwb_find_block(const mwb_meter *m, const void *ptr) {
  mwb_block *block;
  size_t i;
  if (m->n == 0 || *filter_of(m, ptr) == 0) return NULL;
  for (i = home(m, ptr);; i = (i + 1) & (m->size - 1)) {
    block = m->blocks + i;
    if (block->ptr == ptr) return block;
    if (block->ptr == NULL) return NULL;
  }
}

static void put(mwb_meter *m, void *ptr, size_t account) {
  size_t i = home(m, ptr);
  while (m->blocks[i].ptr != NULL) i = (i + 1) & (m->size - 1);
  m->blocks[i].ptr = ptr;
  m->blocks[i].account = account;
  m->n++;
  if (*filter_of(m, ptr) < UINT8_MAX) ++*filter_of(m, ptr);
}

/* The blocks behind the removed one move up, unless they are at home there. */
void mwb_remove_block(mwb_meter *m, mwb_block *block) {
  size_t mask = m->size - 1, hole = (size_t)(block - m->blocks), i = hole;
  m->n--;
  m->accounts[block->account].blocks--;
  if (*filter_of(m, block->ptr) < UINT8_MAX) --*filter_of(m, block->ptr);
  for (;;) {
    i = (i + 1) & mask;
    if (m->blocks[i].ptr == NULL) break;
    if (((i - home(m, m->blocks[i].ptr)) & mask) < ((i - hole) & mask))
      continue;
    m->blocks[hole] = m->blocks[i];
    hole = i;
  }
  m->blocks[hole].ptr = NULL;
}

static size_t bytes_of(size_t size) {
  return size * (sizeof(mwb_block) + WIDE);
}

static void free_blocks(const mwb_meter *m) {
  if (m->size > 0) m->alloc(m->ud, m->blocks, bytes_of(m->size), 0);
}

/* Makes room for one more block.  Returns 0 if there is no memory. */
static int reserve(mwb_meter *m) {
  mwb_meter larger = *m;
  size_t i;
  if (2 * (m->n + 1) <= m->size) return 1;
  larger.size = (m->size == 0) ? LEAST : 2 * m->size;
  larger.blocks = (mwb_block *)m->alloc(m->ud, NULL, 0, bytes_of(larger.size));
  if (larger.blocks == NULL) return 0;
  memset(larger.blocks, 0, bytes_of(larger.size));
  larger.n = 0;
  for (i = 0; i < m->size; i++)
    if (m->blocks[i].ptr != NULL)
      put(&larger, m->blocks[i].ptr, m->blocks[i].account);
  free_blocks(m);
  *m = larger;
  return 1;
}

int mwb_add_block(mwb_meter *m, void *ptr, size_t account) {
  if (!reserve(m)) return 0;
  put(m, ptr, account);
  m->accounts[account].blocks++;
  return 1;
}

void mwb_forget_blocks(mwb_meter *m) {
  free_blocks(m);
  m->blocks = NULL;
  m->n = m->size = 0;
  if (m->n_accounts > 0)
    memset(m->accounts, 0, m->n_accounts * sizeof(mwb_account));
}

void mwb_free_meter(mwb_meter *m, mw_engine *engine) {
  free_blocks(m);
  mwi_free(engine, m->accounts, m->n_accounts * sizeof(mwb_account));
  m->blocks = NULL;
  m->accounts = NULL;
  m->n = m->size = m->n_accounts = 0;
}

/* Pushes the table of accounts, and returns the number of an account that no
** box has. */
static size_t push_free_account(lua_State *L, const mwb_state *s) {
  mwb_meter *m = s->meter;
  size_t i, n = m->n_accounts, more = (n == 0) ? 4 : 2 * n;
  mwb_account *larger;
  mwb_push(L, s, MWB_ACCOUNTS);
  for (i = 0; i < n; i++) {
    int taken = m->accounts[i].blocks > 0 ||
                lua_rawgeti(L, -1, (lua_Integer)i + 1) != LUA_TNIL;
    if (m->accounts[i].blocks == 0) lua_pop(L, 1);
    if (!taken) return i;
  }
  larger = (mwb_account *)mwi_resize(
      s->engine, m->accounts, n * sizeof(*larger), more * sizeof(*larger));
  if (larger == NULL) {
    mwb_check(L, MW_NOMEM);
    return n;
  }
  memset(larger + n, 0, (more - n) * sizeof(mwb_account));
  m->accounts = larger;
  m->n_accounts = more;
  return n;
}

size_t mwb_new_account(lua_State *L, const mwb_state *s, int index) {
  size_t account = push_free_account(L, s);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)account + 1);
  lua_pop(L, 1);
  return account;
}

void mwb_open_accounts(lua_State *L, const mwb_state *s) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  mwb_keep(L, s, MWB_ACCOUNTS);
}
