/*
** trace_args.c - the args of an event: a table as the text of a JSON object.
** SPDX-License-Identifier: MIT
**
** The text is made when the event happens, so that a trace holds no object and
** shows the values of this time.  The text grows in `scratch`, which the state
** owns.  On the way, neither Lua code nor Lua's allocator is called.
*/
#include "../../json.h"

#include <string.h>

#include "../traps/traps.h"
#include "trace.h"

/* Of deeper tables, and of what comes when the text of an event is longer, the
** text says only how much it is. */
#define MAX_DEPTH 8
#define MAX_ARGS 65536

typedef struct encoder {
  lua_State *L;
  mwb_state *s;
  int is_event; /* or the text is for any reader of JSON, and whole */
  mwi_json out;
  char buffer[512];
} encoder;

/* The sink: appends to the scratch. */
static int append(void *ud, const char *bytes, size_t n) {
  mwb_state *s = (mwb_state *)ud;
  size_t size = s->trace->size_scratch;
  while (s->trace->n_scratch + n > size) size = (size == 0) ? 1024 : size * 2;
  if (size > s->trace->size_scratch) {
    char *p = (char *)mwi_resize(s->engine, s->trace->scratch,
                                 s->trace->size_scratch, size);
    if (p == NULL) return 0;
    s->trace->scratch = p;
    s->trace->size_scratch = size;
  }
  memcpy(s->trace->scratch + s->trace->n_scratch, bytes, n);
  s->trace->n_scratch += n;
  return 1;
}

static void begin(encoder *en, lua_State *L, mwb_state *s, int is_event) {
  mwi_json out = {append, s, en->buffer, 0, sizeof(en->buffer), 0};
  en->L = L;
  en->s = s;
  en->is_event = is_event;
  en->out = out;
  s->trace->n_scratch = 0;
}

/* Returns the text, or NULL if there was no memory. */
static const char *finish(encoder *en, size_t *len) {
  mwi_json_flush(&en->out);
  *len = en->s->trace->n_scratch;
  return en->out.failed ? NULL : en->s->trace->scratch;
}

/* A trace goes on without the text that it has no memory for. */
static const char *or_lost(const char *text, size_t *len) {
  static const char lost[] = "{\"lost\":\"no memory\"}";
  if (text != NULL) return text;
  *len = sizeof(lost) - 1;
  return lost;
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
      mwi_json_form(&en->out, "%s", lua_toboolean(L, index) ? "true" : "false");
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

/* {======================================================
** Keys
**
** JSON's keys are strings.  In an event, the keys of a table become different
** strings: a string stays, and another key becomes its text in brackets, [1] or
** [true] or [function].  A string that begins with a bracket, or is no UTF-8,
** becomes ["..."], with escapes.  A key that is an object is followed by its
** number among these keys.  For other readers there are no brackets.
** ======================================================= */

/* Returns the number of fields; are their keys 1 to n? */
static lua_Unsigned count_fields(lua_State *L, int index, int *is_list) {
  lua_Unsigned n = 0, most = lua_rawlen(L, index);
  *is_list = most > 0;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1), n++)
    *is_list = *is_list && lua_isinteger(L, -2) &&
               (lua_Unsigned)lua_tointeger(L, -2) - 1 < most;
  *is_list = *is_list && n == most;
  return n;
}

/* Puts a string as ["..."], as the inner part of a JSON string. */
static void put_quoted(encoder *en, const char *s, size_t len) {
  static const char hex[] = "0123456789abcdef";
  size_t i, n;
  mwi_json_literal(&en->out, "[\\\"");
  for (i = 0; i < len; i += n) {
    unsigned char c = (unsigned char)s[i];
    char escaped[] = {'\\', '\\', 'x', hex[c >> 4], hex[c & 15]};
    n = mwi_json_character(s + i, len - i);
    if (n == 0 || c < 0x20 || c == '<' || c == '"' || c == '\\') { /* escape? */
      mwi_json_put(&en->out, escaped, sizeof(escaped));
      n = 1;
    } else {
      mwi_json_put(&en->out, s + i, n);
    }
  }
  mwi_json_literal(&en->out, "\\\"]");
}

static void put_text_key(encoder *en, int index) {
  size_t len;
  const char *s = lua_tolstring(en->L, index, &len);
  if (en->is_event && ((len > 0 && *s == '[') || !mwi_json_is_utf8(s, len))) {
    mwi_json_literal(&en->out, "\""); /* ambiguous as it is */
    put_quoted(en, s, len);
    mwi_json_literal(&en->out, "\"");
  } else {
    mwi_json_string(&en->out, s, len);
  }
}

/* Puts a key that is no string; `objects` counts the keys that are objects. */
static void put_other_key(encoder *en, int index, lua_Unsigned *objects) {
  lua_State *L = en->L;
  const char *name = luaL_typename(L, index);
  lua_Number x = lua_tonumber(L, index);
  mwi_json_put(&en->out, "\"[", en->is_event ? 2 : 1);
  if (lua_type(L, index) == LUA_TBOOLEAN) {
    put_value(en, index, MAX_DEPTH);
  } else if (lua_type(L, index) != LUA_TNUMBER) { /* an object? */
    mwi_json_put(&en->out, name, strlen(name));
    if (++*objects > 1) { /* not the first such key? */
      mwi_json_literal(&en->out, " ");
      mwi_json_integer(&en->out, (int64_t)*objects);
    }
  } else if (x - x == 0) { /* finite? */
    put_number(en, index);
  } else { /* NaN is no key */
    mwi_json_put(&en->out, (x > 0) ? "inf" : "-inf", (x > 0) ? 3 : 4);
  }
  mwi_json_put(&en->out, en->is_event ? "]\"" : "\"", en->is_event ? 2 : 1);
}

/* }====================================================== */

static int is_full(const encoder *en) {
  return en->is_event && en->s->trace->n_scratch > MAX_ARGS;
}

/* Puts how many elements or fields the text does not have, after a comma. */
static void put_rest(encoder *en, int is_list, lua_Unsigned n) {
  if (n > 0)
    mwi_json_form(&en->out, ",%s\"\xE2\x80\xA6 %d more\"",
                  is_list ? "" : "\"[\xE2\x80\xA6]\":", (int64_t)n);
}

static void put_array(encoder *en, int index, lua_Unsigned n, int depth) {
  lua_Unsigned i;
  mwi_json_literal(&en->out, "[");
  for (i = 1; i <= n && (i == 1 || !is_full(en)); i++) { /* at least one */
    if (i > 1) mwi_json_literal(&en->out, ",");
    lua_rawgeti(en->L, index, (lua_Integer)i);
    put_value(en, lua_gettop(en->L), depth);
    lua_pop(en->L, 1);
  }
  put_rest(en, 1, n + 1 - i);
  mwi_json_literal(&en->out, "]");
}

static void put_object(encoder *en, int index, lua_Unsigned all, int depth) {
  lua_State *L = en->L;
  lua_Unsigned n = 0, objects = 0;
  mwi_json_literal(&en->out, "{");
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    int top = lua_gettop(L);
    if (n > 0 && is_full(en)) { /* at least one is shown */
      lua_pop(L, 2);
      break;
    }
    if (n++ > 0) mwi_json_literal(&en->out, ",");
    if (lua_type(L, top - 1) == LUA_TSTRING)
      put_text_key(en, top - 1);
    else
      put_other_key(en, top - 1, &objects);
    mwi_json_literal(&en->out, ":");
    put_value(en, top, depth);
  }
  put_rest(en, 0, all - n);
  mwi_json_literal(&en->out, "}");
}

/* A circle ends where it is too deep. */
static void put_table(encoder *en, int index, int depth) {
  lua_State *L = en->L;
  int top = lua_gettop(L), is_list;
  lua_Unsigned n;
  if (!lua_checkstack(L, LUA_MINSTACK)) { /* no room for what is below? */
    mwi_json_literal(&en->out, "\"\xE2\x80\xA6 a table\"");
    return;
  }
  if (mwb_push_shadow(L, index)) index = lua_gettop(L); /* intercepted? */
  n = count_fields(L, index, &is_list);
  if (depth >= MAX_DEPTH)
    mwi_json_form(&en->out,
                  "\"\xE2\x80\xA6 a table with %d field%s, deeper than 8\"",
                  (int64_t)n, (n == 1) ? "" : "s");
  else if (is_list && depth > 0) /* the outermost is an object */
    put_array(en, index, n, depth + 1);
  else
    put_object(en, index, n, depth + 1);
  lua_settop(L, top);
}

static const char *encode(lua_State *L, mwb_state *s, int index, int is_event,
                          size_t *len) {
  encoder en;
  begin(&en, L, s, is_event);
  put_table(&en, lua_absindex(L, index), 0);
  return finish(&en, len);
}

const char *mwb_json(lua_State *L, mwb_state *s, int index, size_t *len) {
  return encode(L, s, index, 0, len);
}

const char *mwb_args(lua_State *L, mwb_state *s, int index, size_t *len) {
  return or_lost(encode(L, s, index, 1, len), len);
}

const char *mwb_array_args(lua_State *L, mwb_state *s, int index, size_t *len) {
  encoder en;
  begin(&en, L, s, 1);
  put_array(&en, lua_absindex(L, index), lua_rawlen(L, index), MAX_DEPTH);
  return or_lost(finish(&en, len), len);
}
