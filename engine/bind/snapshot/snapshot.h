/*
** snapshot.h - the state of what is below a root, as bytes and back.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_SNAPSHOT_H
#define MWB_SNAPSHOT_H

#include "../base/base.h"

/* {======================================================
** bytes.c: values as bytes and back.
** ======================================================= */

/* The tags of values; from MWB_TAG_SMALL on, the tag is an integer and that. */
enum {
  MWB_TAG_NIL,
  MWB_TAG_FALSE,
  MWB_TAG_TRUE,
  MWB_TAG_INTEGER,
  MWB_TAG_FLOAT,
  MWB_TAG_STRING,
  MWB_TAG_KNOWN,
  MWB_TAG_OBJECT,
  MWB_TAG_NULL,
  MWB_TAG_CLASS,
  MWB_TAG_SMALL = 16
};

/* What is written, in a userdata. */
typedef struct mwb_output {
  lua_State *L;
  unsigned char *bytes;
  size_t n, size;
  int block;         /* index of the userdata */
  int strings;       /* index of a table: string -> number */
  lua_Integer known; /* strings that have numbers */
} mwb_output;

/* Makes the block at `index` larger, of which `used` bytes are kept. */
void *mwb_grow_block(lua_State *L, int index, size_t used, size_t size);

unsigned char *mwb_need_bytes(mwb_output *o, size_t more);
static inline void mwb_put_byte(mwb_output *o, int byte) {
  if (o->n == o->size) mwb_need_bytes(o, 1);
  o->bytes[o->n++] = (unsigned char)byte;
}
void mwb_put_count(mwb_output *o, uint64_t n);

/* Puts the value at `index`; returns 0 if the bytes can have none such, or it
** is an object. */
int mwb_put_value(mwb_output *o, int index);
void mwb_put_string(mwb_output *o, int index);

/* What is read. */
typedef struct mwb_input {
  lua_State *L;
  const unsigned char *at, *end;
  uint64_t strings; /* that came before */
} mwb_input;

/* A value that has been read. */
typedef struct mwb_item {
  int tag;
  lua_Integer i;
  lua_Number f;
  uint64_t n;        /* number of the object or string */
  const char *bytes; /* of a string, or NULL if it came before */
  size_t len;
} mwb_item;

/* Raises an array with the message. */
void mwb_fail(lua_State *L, const char *message);

static inline int mwb_get_byte(mwb_input *in) {
  if (in->at == in->end) mwb_fail(in->L, "the bytes end too early");
  return *in->at++;
}
uint64_t mwb_get_long_count(mwb_input *in);
static inline uint64_t mwb_get_count(mwb_input *in) {
  if (in->at < in->end && *in->at < 128) return *in->at++;
  return mwb_get_long_count(in);
}

/* Reads how many elements of `size` bytes at least follow. */
uint64_t mwb_get_length(mwb_input *in, unsigned size);

/* Reads a value.  The tag of a small integer is that of any. */
void mwb_get_other(mwb_input *in, mwb_item *item, int tag);
static inline void mwb_get_item(mwb_input *in, mwb_item *item) {
  int tag = mwb_get_byte(in);
  item->tag = MWB_TAG_INTEGER;
  item->i = tag - MWB_TAG_SMALL;
  if (tag < MWB_TAG_SMALL) mwb_get_other(in, item, tag);
}

/* Numbers of `size` bytes, the lowest first. */
void mwb_put_fixed(unsigned char *to, uint64_t n, int size);
uint64_t mwb_get_fixed(const unsigned char *from, int size);

/* The CRC-32 of some bytes. */
uint32_t mwb_checksum(const unsigned char *bytes, size_t len);

/* }====================================================== */

/* {======================================================
** snapshot.c
** ======================================================= */

#define MWB_MAGIC "MWS"
#define MWB_VERSION 1
#define MWB_HEADER 20

/* Items. */
enum { MWB_ITEM_TABLE = 1, MWB_ITEM_USERDATA, MWB_ITEM_FIELD };

/* The clock whose tags are the marks of JSON; a table's mark, or 0. */
mw_clock mwb_marks(lua_State *L, mwb_state *s);
int mwb_mark_of(lua_State *L, mwb_state *s, mw_clock marks, int object);

/* }====================================================== */

#endif
