/*
** bytes.c - values as bytes and back: the one writer, and the one reader.
** SPDX-License-Identifier: MIT
**
** A count is a number without a sign: groups of seven bits, the lowest first,
** with the top bit set in each byte but the last.  A value is
**
**     0                     nil
**     1, 2                  false, true
**     3, count              an integer: 2i, or ~2i if i is negative
**     4, 8 bytes            a float of IEEE 754, the lowest byte first
**     5, count, bytes       a string of so many bytes
**     6, count              the string with this number: in one piece of bytes,
**                           strings are numbered from 0 as they come
**     7, count              the object with this number
**     8                     null
**     9, a value 5 or 6     the class of this name
**     16 to 255             the integers 0 to 239
**
** Snapshots (snapshot.c) have all of these.  Effects (effects/bytes.lua) number
** no strings, and have neither classes nor small integers: in them, 6 and 7 are
** what 7 and 8 are here.
**
** Bytes that are read come from anywhere: nothing is believed that they say of
** lengths, and what is wrong is raised, as an array with a message.
*/
#include "../base/base.h"

#include <string.h>

#include "snapshot.h"

uint32_t mwb_checksum(const unsigned char *bytes, size_t len) {
  uint32_t sum = UINT32_MAX, table[256], i, k;
  for (i = 0; i < 256; i++) {
    for (table[i] = i, k = 0; k < 8; k++)
      table[i] = (table[i] >> 1) ^ ((table[i] & 1) ? UINT32_C(0xEDB88320) : 0);
  }
  while (len-- > 0) sum = (sum >> 8) ^ table[(sum ^ *bytes++) & 255];
  return ~sum;
}

void mwb_put_fixed(unsigned char *to, uint64_t n, int size) {
  int i;
  for (i = 0; i < size; i++) to[i] = (unsigned char)(n >> (8 * i));
}

uint64_t mwb_get_fixed(const unsigned char *from, int size) {
  uint64_t n = 0;
  while (size-- > 0) n = n << 8 | from[size];
  return n;
}

/* {======================================================
** Writing
** ======================================================= */

void *mwb_grow_block(lua_State *L, int index, size_t used, size_t size) {
  void *block = lua_newuserdatauv(L, size, 0);
  if (used > 0) memcpy(block, lua_touserdata(L, index), used);
  lua_replace(L, index);
  return block;
}

unsigned char *mwb_need_bytes(mwb_output *o, size_t more) {
  if (o->size - o->n < more) {
    o->size = 2 * o->size + more;
    o->bytes = (unsigned char *)mwb_grow_block(o->L, o->block, o->n, o->size);
  }
  return o->bytes + o->n;
}

void mwb_put_count(mwb_output *o, uint64_t n) {
  unsigned char *to = mwb_need_bytes(o, 10);
  while (n >= 128) {
    *to++ = (unsigned char)(n | 128);
    n >>= 7;
  }
  *to++ = (unsigned char)n;
  o->n = (size_t)(to - o->bytes);
}

/* Puts a tag, as it is where strings are numbered. */
static void put_tag(mwb_output *o, int tag) {
  mwb_put_byte(o, tag - (tag > MWB_TAG_KNOWN && o->strings == 0));
}

/* Puts the string with the number that it has, or has from now on.  Returns
** whether it had one. */
static int put_known(mwb_output *o, int index) {
  lua_State *L = o->L;
  int known;
  lua_pushvalue(L, index);
  known = lua_rawget(L, o->strings) == LUA_TNUMBER;
  if (known) {
    put_tag(o, MWB_TAG_KNOWN);
    mwb_put_count(o, (uint64_t)lua_tointeger(L, -1));
  } else {
    lua_pushvalue(L, index);
    lua_pushinteger(L, o->known++);
    lua_rawset(L, o->strings);
  }
  lua_pop(L, 1);
  return known;
}

void mwb_put_string(mwb_output *o, int index) {
  size_t len;
  const char *s = lua_tolstring(o->L, index, &len);
  if (o->strings != 0 && put_known(o, index)) return;
  put_tag(o, MWB_TAG_STRING);
  mwb_put_count(o, len);
  memcpy(mwb_need_bytes(o, len), s, len);
  o->n += len;
}

static void put_integer(mwb_output *o, lua_Integer i) {
  if (i >= 0 && i < 256 - MWB_TAG_SMALL && o->strings != 0) {
    put_tag(o, MWB_TAG_SMALL + (int)i);
    return;
  }
  put_tag(o, MWB_TAG_INTEGER);
  mwb_put_count(o, ((uint64_t)i << 1) ^ (i < 0 ? UINT64_MAX : 0));
}

static void put_float(mwb_output *o, lua_Number f) {
  uint64_t bits;
  double d = (double)f;
  memcpy(&bits, &d, sizeof(bits));
  if (f != f) bits = UINT64_C(0x7FF8) << 48; /* one NaN */
  put_tag(o, MWB_TAG_FLOAT);
  mwb_put_fixed(mwb_need_bytes(o, 8), bits, 8);
  o->n += 8;
}

void mwb_put_object(mwb_output *o, uint64_t n) {
  put_tag(o, MWB_TAG_OBJECT);
  mwb_put_count(o, n);
}

int mwb_put_value(mwb_output *o, int index) {
  lua_State *L = o->L;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      put_tag(o, MWB_TAG_NIL);
      return 1;
    case LUA_TBOOLEAN:
      put_tag(o, lua_toboolean(L, index) ? MWB_TAG_TRUE : MWB_TAG_FALSE);
      return 1;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index))
        put_integer(o, lua_tointeger(L, index));
      else
        put_float(o, lua_tonumber(L, index));
      return 1;
    case LUA_TSTRING:
      mwb_put_string(o, index);
      return 1;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, index) != NULL) return 0;
      put_tag(o, MWB_TAG_NULL);
      return 1;
    default:
      return 0;
  }
}

/* }====================================================== */

/* {======================================================
** Reading
** ======================================================= */

void mwb_fail(lua_State *L, const char *message) {
  lua_createtable(L, 1, 0);
  lua_pushstring(L, message);
  lua_rawseti(L, -2, 1);
  lua_error(L);
}

uint64_t mwb_get_long_count(mwb_input *in) {
  uint64_t n = 0;
  int shift, byte;
  for (shift = 0; shift < 64; shift += 7) {
    byte = mwb_get_byte(in);
    n |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return n;
  }
  mwb_fail(in->L, "a number is too long");
  return 0;
}

static lua_Number get_float(mwb_input *in) {
  uint64_t bits;
  double d;
  if (in->end - in->at < 8) mwb_fail(in->L, "the bytes end too early");
  bits = mwb_get_fixed(in->at, 8);
  in->at += 8;
  memcpy(&d, &bits, sizeof(d));
  return (lua_Number)d;
}

/* Reads what comes behind the tag of a string. */
static void get_string(mwb_input *in, int tag, mwb_item *item) {
  item->bytes = NULL;
  if (tag == MWB_TAG_STRING) {
    item->len = (size_t)mwb_get_length(in, 1);
    item->bytes = (const char *)in->at;
    in->at += item->len;
    item->n = in->strings++;
  } else if (tag != MWB_TAG_KNOWN ||
             (item->n = mwb_get_count(in)) >= in->strings) {
    mwb_fail(in->L, "there is no such string");
  }
}

/* Reads what comes behind other tags than that of an integer. */
static void get_other(mwb_input *in, mwb_item *item) {
  switch (item->tag) {
    case MWB_TAG_NIL:
    case MWB_TAG_FALSE:
    case MWB_TAG_TRUE:
    case MWB_TAG_NULL:
      break;
    case MWB_TAG_FLOAT:
      item->f = get_float(in);
      break;
    case MWB_TAG_STRING:
    case MWB_TAG_KNOWN:
      get_string(in, item->tag, item);
      item->tag = MWB_TAG_STRING;
      break;
    case MWB_TAG_OBJECT:
      item->n = mwb_get_count(in);
      break;
    case MWB_TAG_CLASS:
      get_string(in, mwb_get_byte(in), item);
      break;
    default:
      mwb_fail(in->L, "a value has an unknown kind");
  }
}

void mwb_get_long_item(mwb_input *in, mwb_item *item) {
  item->tag = mwb_get_byte(in);
  if (item->tag == MWB_TAG_INTEGER) {
    item->n = mwb_get_count(in);
    item->i = (lua_Integer)((item->n >> 1) ^ (0 - (item->n & 1)));
    return;
  }
  if (!in->numbers_strings && item->tag >= MWB_TAG_KNOWN) {
    if (item->tag >= MWB_TAG_NULL)
      mwb_fail(in->L, "a value has an unknown kind");
    item->tag++;
  }
  get_other(in, item);
}

void mwb_get_key(mwb_input *in, mwb_item *item) {
  mwb_get_item(in, item);
  switch (item->tag) {
    case MWB_TAG_NIL:
    case MWB_TAG_OBJECT:
    case MWB_TAG_NULL:
    case MWB_TAG_CLASS:
      mwb_fail(in->L, "a key is none");
      break;
    case MWB_TAG_FLOAT:
      if (item->f != item->f) mwb_fail(in->L, "a key is none");
  }
}

int mwb_push_other(lua_State *L, const mwb_item *item) {
  switch (item->tag) {
    case MWB_TAG_NIL:
      lua_pushnil(L);
      return 1;
    case MWB_TAG_FALSE:
    case MWB_TAG_TRUE:
      lua_pushboolean(L, item->tag == MWB_TAG_TRUE);
      return 1;
    case MWB_TAG_FLOAT:
      lua_pushnumber(L, item->f);
      return 1;
    case MWB_TAG_NULL:
      lua_pushlightuserdata(L, NULL);
      return 1;
    default:
      return 0;
  }
}

/* }====================================================== */

/* {======================================================
** For the bytes of effects
** ======================================================= */

/* checksum(string) -> its CRC-32 */
static int checksum(lua_State *L) {
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  lua_pushinteger(L, mwb_checksum((const unsigned char *)bytes, len));
  return 1;
}

/* Begins a piece of bytes, in a block on the top. */
static void begin_output(lua_State *L, mwb_output *o) {
  memset(o, 0, sizeof(*o));
  o->L = L;
  o->size = 32;
  o->bytes = (unsigned char *)lua_newuserdatauv(L, o->size, 0);
  o->block = lua_gettop(L);
}

static int push_output(const mwb_output *o) {
  lua_pushlstring(o->L, (const char *)o->bytes, o->n);
  return 1;
}

/* count_bytes(n) -> the bytes of a count */
static int count_bytes(lua_State *L) {
  mwb_output o;
  lua_settop(L, 1);
  begin_output(L, &o);
  mwb_put_count(&o, (uint64_t)luaL_checkinteger(L, 1));
  return push_output(&o);
}

/* value_bytes(value, numbers) -> the bytes of a value; `numbers` has those of
** objects */
static int value_bytes(lua_State *L) {
  mwb_output o;
  lua_settop(L, 2);
  begin_output(L, &o);
  if (!mwb_put_value(&o, 1)) {
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 2) != LUA_TNUMBER)
      mwb_fail(L,
               lua_pushfstring(L, "a %s cannot be sent", luaL_typename(L, 1)));
    mwb_put_object(&o, (uint64_t)lua_tointeger(L, -1));
  }
  return push_output(&o);
}

/* Begins to read a string at an argument, from a position on. */
static void begin_input(lua_State *L, mwb_input *in) {
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  memset(in, 0, sizeof(*in));
  in->L = L;
  in->at = (const unsigned char *)bytes + luaL_checkinteger(L, 2) - 1;
  in->end = (const unsigned char *)bytes + len;
}

/* Pushes the position after what has been read. */
static int push_position(const mwb_input *in) {
  const unsigned char *bytes = (const unsigned char *)lua_tostring(in->L, 1);
  lua_pushinteger(in->L, in->at - bytes + 1);
  return 2;
}

/* read_count(bytes, i[, size]) -> a count, and the position after it; with
** `size`, the length of a list whose elements have so many bytes at least */
static int read_count(lua_State *L) {
  mwb_input in;
  lua_Integer size = luaL_optinteger(L, 3, 0);
  uint64_t n;
  begin_input(L, &in);
  n = (size > 0) ? mwb_get_length(&in, (unsigned)size) : mwb_get_count(&in);
  lua_pushinteger(L, (lua_Integer)n);
  return push_position(&in);
}

/* read_value(bytes, i, objects) -> a value, and the position after it;
** `objects` has those with numbers */
static int read_value(lua_State *L) {
  mwb_input in;
  mwb_item item;
  lua_settop(L, 3);
  begin_input(L, &in);
  mwb_get_item(&in, &item);
  if (item.tag == MWB_TAG_STRING)
    lua_pushlstring(L, item.bytes, item.len);
  else if (!mwb_push_item(L, &item) &&
           lua_rawgeti(L, 3, (lua_Integer)item.n) == LUA_TNIL)
    mwb_fail(L, "there is no such object");
  return push_position(&in);
}

/* }====================================================== */

void mwb_open_bytes(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"checksum", checksum},       {"count_bytes", count_bytes},
      {"value_bytes", value_bytes}, {"read_count", read_count},
      {"read_value", read_value},   {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
