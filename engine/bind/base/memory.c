/*
** memory.c - mw.memory: what the library has allocated beside Lua's own count.
** SPDX-License-Identifier: MIT
**
** The engine knows its parts, and how much it has allocated in all.  The rest
** is the binding's: the records of coroutines and transactions, which count for
** the journal, a buffer for traces, and the tapes of hierarchies.
*/
#include "../journal/journal.h"

#include <string.h>

#include "../readers/readers.h"
#include "../trace/trace.h"
#include "base.h"

static void set_bytes(lua_State *L, const char *name, size_t bytes) {
  lua_pushinteger(L, (lua_Integer)bytes);
  lua_setfield(L, -2, name);
}

/* memory() -> bytes by part */
static int memory(lua_State *L) {
  const mwb_state *s = mwb_enter_to_read(L);
  mw_memory m;
  mwb_check_nothing(L, "memory", 1);
  memset(&m, 0, sizeof(m));
  m.size = sizeof(m);
  lua_settop(L, 0);
  lua_createtable(L, 0, 6);
  mw_memory_info(s->engine, &m);
  m.journal += s->journal->n_records * sizeof(mwb_coroutine) +
               s->journal->size_transactions * sizeof(mwb_transaction);
  m.journal += mwb_writers_bytes(s) + mwb_feeds_bytes(s);
  m.traces += s->trace->size_scratch;
  m.names = m.total - (m.objects + m.watches + m.journal + m.traces);
  set_bytes(L, "objects", m.objects);
  set_bytes(L, "watches", m.watches);
  set_bytes(L, "journal", m.journal);
  set_bytes(L, "names", m.names);
  set_bytes(L, "traces", m.traces);
  set_bytes(L, "total", m.total);
  return 1;
}

const luaL_Reg mwb_memory_functions[] = {{"memory", memory}, {NULL, NULL}};
