/*
** trace_args.c - the args of an event: a table as the text of a JSON object.
** SPDX-License-Identifier: MIT
**
** The text is made when the event happens, so that a trace holds no object and
** shows the values of this time.  The text grows in `scratch`, which the state
** owns.  On the way, neither Lua code nor Lua's allocator is called.
*/
#include <string.h>

#include "../json.h"
#include "shadow.h"

/* Deeper tables are not shown, and a longer text gets no more fields. */
#define MAX_DEPTH 8
#define MAX_ARGS 65536

typedef struct encoder {
  lua_State *L;
  mwb_state *s;
  mwi_json out;
  char buffer[512];
} encoder;

/* The sink: appends to the scratch. */
static int append(void *ud, const char *bytes, size_t n) {
  mwb_state *s = (mwb_state *)ud;
  size_t size = s->size_scratch;
  while (s->n_scratch + n > size) size = (size == 0) ? 1024 : size * 2;
  if (size > s->size_scratch) {
    char *p = (char *)mwi_resize(s->engine, s->scratch, s->size_scratch, size);
    if (p == NULL) return 0;
    s->scratch = p;
    s->size_scratch = size;
  }
  memcpy(s->scratch + s->n_scratch, bytes, n);
  s->n_scratch += n;
  return 1;
}

static void begin(encoder *en, lua_State *L, mwb_state *s) {
  en->L = L;
  en->s = s;
  en->out.sink = append;
  en->out.ud = s;
  en->out.buffer = en->buffer;
  en->out.n = 0;
  en->out.size = sizeof(en->buffer);
  en->out.failed = 0;
  s->n_scratch = 0;
}

static const char *finish(encoder *en, size_t *len) {
  mwi_json_flush(&en->out);
  *len = en->s->n_scratch;
  return en->out.failed ? NULL : en->s->scratch;
}

static void put_string(encoder *en, int index) {
  size_t len;
  const char *s = lua_tolstring(en->L, index, &len);
  mwi_json_string(&en->out, s, len);
}

static void put_number(encoder *en, int index) {
  if (lua_isinteger(en->L, index))
    mwi_json_integer(&en->out, (int64_t)lua_tointeger(en->L, index));
  else
    mwi_json_number(&en->out, lua_tonumber(en->L, index));
}

static void put_table(encoder *en, int index, int depth);

static void put_value(encoder *en, int index, int depth) {
  lua_State *L = en->L;
  const char *name;
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      put_string(en, index);
      break;
    case LUA_TNUMBER:
      put_number(en, index);
      break;
    case LUA_TBOOLEAN:
      if (lua_toboolean(L, index))
        mwi_json_literal(&en->out, "true");
      else
        mwi_json_literal(&en->out, "false");
      break;
    case LUA_TTABLE:
      put_table(en, index, depth);
      break;
    case LUA_TNIL:
      mwi_json_literal(&en->out, "null");
      break;
    default:
      name = luaL_typename(L, index);
      mwi_json_string(&en->out, name, strlen(name));
  }
}

/* Puts a key as a string, as JSON demands. */
static void put_key(encoder *en, int index) {
  int type = lua_type(en->L, index);
  lua_Number x = lua_tonumber(en->L, index);
  int bare = type == LUA_TBOOLEAN || (type == LUA_TNUMBER && x - x == 0);
  if (bare) mwi_json_literal(&en->out, "\"");
  put_value(en, index, MAX_DEPTH);
  if (bare) mwi_json_literal(&en->out, "\"");
}

static int is_full(const encoder *en) { return en->s->n_scratch > MAX_ARGS; }

static void put_array(encoder *en, int index, int depth) {
  lua_Unsigned i, n = lua_rawlen(en->L, index);
  mwi_json_literal(&en->out, "[");
  for (i = 1; i <= n && !is_full(en); i++) {
    if (i > 1) mwi_json_literal(&en->out, ",");
    lua_rawgeti(en->L, index, (lua_Integer)i);
    put_value(en, lua_gettop(en->L), depth);
    lua_pop(en->L, 1);
  }
  mwi_json_literal(&en->out, "]");
}

static void put_object(encoder *en, int index, int depth) {
  lua_State *L = en->L;
  int follows = 0;
  mwi_json_literal(&en->out, "{");
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    int top = lua_gettop(L);
    if (is_full(en)) {
      lua_pop(L, 2);
      break;
    }
    if (follows) mwi_json_literal(&en->out, ",");
    follows = 1;
    put_key(en, top - 1);
    mwi_json_literal(&en->out, ":");
    put_value(en, top, depth);
  }
  mwi_json_literal(&en->out, "}");
}

/* Shows a table that is too deep by its type, which also ends a circle. */
static void put_table(encoder *en, int index, int depth) {
  lua_State *L = en->L;
  int top = lua_gettop(L);
  if (depth >= MAX_DEPTH || !lua_checkstack(L, LUA_MINSTACK)) {
    mwi_json_literal(&en->out, "\"table\"");
    return;
  }
  if (mwb_push_shadow(L, index)) index = lua_gettop(L);
  if (lua_rawlen(L, index) > 0 && depth > 0)
    put_array(en, index, depth + 1);
  else
    put_object(en, index, depth + 1);
  lua_settop(L, top);
}

const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len) {
  encoder en;
  begin(&en, L, s);
  put_table(&en, lua_absindex(L, index), 0);
  return finish(&en, len);
}

const char *mwb_array_args(lua_State *L, mwb_state *s, int index, size_t *len) {
  encoder en;
  begin(&en, L, s);
  put_array(&en, lua_absindex(L, index), MAX_DEPTH);
  return finish(&en, len);
}
