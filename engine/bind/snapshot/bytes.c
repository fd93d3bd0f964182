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

void mwb_put_string(mwb_output *o, int index) {
  lua_State *L = o->L;
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  lua_pushvalue(L, index);
  if (lua_rawget(L, o->strings) == LUA_TNUMBER) { /* did it come before? */
    mwb_put_byte(o, MWB_TAG_KNOWN);
    mwb_put_count(o, (uint64_t)lua_tointeger(L, -1));
  } else {
    lua_pushvalue(L, index);
    lua_pushinteger(L, o->known++);
    lua_rawset(L, o->strings);
    mwb_put_byte(o, MWB_TAG_STRING);
    mwb_put_count(o, len);
    memcpy(mwb_need_bytes(o, len), s, len);
    o->n += len;
  }
  lua_pop(L, 1);
}

static void put_number(mwb_output *o, int index) {
  int is_integer = lua_isinteger(o->L, index);
  lua_Integer i = is_integer ? lua_tointeger(o->L, index) : -1;
  if (i >= 0 && i < 256 - MWB_TAG_SMALL) { /* does a tag stand for it? */
    mwb_put_byte(o, MWB_TAG_SMALL + (int)i);
  } else if (is_integer) { /* too large, or negative? */
    mwb_put_byte(o, MWB_TAG_INTEGER);
    mwb_put_count(o, ((uint64_t)i << 1) ^ (i < 0 ? UINT64_MAX : 0));
  } else {
    double d = (double)lua_tonumber(o->L, index);
    uint64_t bits;
    memcpy(&bits, &d, sizeof(bits));
    if (d != d) bits = UINT64_C(0x7FF8) << 48; /* one NaN */
    mwb_put_byte(o, MWB_TAG_FLOAT);
    mwb_put_fixed(mwb_need_bytes(o, 8), bits, 8);
    o->n += 8;
  }
}

int mwb_put_value(mwb_output *o, int index) {
  lua_State *L = o->L;
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      mwb_put_byte(o, MWB_TAG_NIL);
      return 1;
    case LUA_TBOOLEAN:
      mwb_put_byte(o, lua_toboolean(L, index) ? MWB_TAG_TRUE : MWB_TAG_FALSE);
      return 1;
    case LUA_TNUMBER:
      put_number(o, index);
      return 1;
    case LUA_TSTRING:
      mwb_put_string(o, index);
      return 1;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, index) != NULL) return 0; /* is it not `null`? */
      mwb_put_byte(o, MWB_TAG_NULL);
      return 1;
    default:
      return 0;
  }
}

void mwb_fail(lua_State *L, const char *message) {
  lua_createtable(L, 1, 0);
  lua_pushstring(L, message);
  lua_rawseti(L, -2, 1);
  lua_error(L);
}

uint64_t mwb_get_long_count(mwb_input *in) {
  const unsigned char *at = in->at;
  uint64_t n = 0;
  int shift;
  for (shift = 0; at < in->end && shift < 64; shift += 7, at++) {
    n |= (uint64_t)(*at & 127) << shift;
    if (*at < 128) { /* the last byte? */
      in->at = at + 1;
      return n;
    }
  }
  mwb_fail(in->L, (at == in->end) ? "the bytes end too early"
                                  : "a number is too long");
  return 0;
}

uint64_t mwb_get_length(mwb_input *in, unsigned size) {
  uint64_t n = mwb_get_count(in);
  if (n > (uint64_t)(in->end - in->at) / size) /* more than can follow? */
    mwb_fail(in->L, "the bytes end too early");
  return n;
}

/* Reads what comes behind the tag of a string. */
static inline void get_string(mwb_input *in, int tag, mwb_item *item) {
  item->bytes = NULL;
  if (tag == MWB_TAG_STRING) { /* in full? */
    item->len = (size_t)mwb_get_length(in, 1);
    item->bytes = (const char *)in->at;
    in->at += item->len;
    item->n = in->strings++;
  } else if (tag != MWB_TAG_KNOWN || /* no string at all? */
             (item->n = mwb_get_count(in)) >= in->strings) { /* yet to come? */
    mwb_fail(in->L, "there is no such string");
  }
}

void mwb_get_other(mwb_input *in, mwb_item *item, int tag) {
  uint64_t bits;
  double d;
  item->tag = tag;
  switch (tag) {
    case MWB_TAG_NIL:
    case MWB_TAG_FALSE:
    case MWB_TAG_TRUE:
    case MWB_TAG_NULL:
      break;
    case MWB_TAG_INTEGER:
      item->n = mwb_get_count(in);
      item->i = (lua_Integer)((item->n >> 1) ^ (0 - (item->n & 1)));
      break;
    case MWB_TAG_FLOAT:
      if (in->end - in->at < 8) mwb_fail(in->L, "the bytes end too early");
      bits = mwb_get_fixed(in->at, 8);
      memcpy(&d, &bits, sizeof(d));
      item->f = (lua_Number)d;
      in->at += 8;
      break;
    case MWB_TAG_STRING:
    case MWB_TAG_KNOWN:
      get_string(in, tag, item);
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
