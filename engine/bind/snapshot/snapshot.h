/*
** snapshot.h - the state of what is below a root, as bytes and back.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_SNAPSHOT_H
#define MWB_SNAPSHOT_H

#include "../base/base.h"

/* {======================================================
** snapshot.c: the parts of a snapshot: see snapshot.c.
** ======================================================= */

#define MAGIC "MWS"
#define VERSION 1
#define HEADER 20

/* Items. */
enum { TABLE = 1, USERDATA, FIELD };

/* Tags of values; from SMALL on, the tag is an integer and SMALL. */
enum {
  NIL,
  FALSE,
  TRUE,
  INTEGER,
  FLOAT,
  STRING,
  KNOWN, /* a string that came before */
  OBJECTREF,
  NULLVALUE,
  CLASS, /* a name */
  SMALL = 16
};

/* Returns 0, or the mark of JSON of the table at `object`. */
int mwb_mark_of(lua_State *L, mwb_state *s, mw_clock marks, int object);

/* restore.c: the CRC-32 of some bytes. */
uint32_t mwb_checksum(const unsigned char *bytes, size_t len);

/* restore.c: the clock whose tags are the marks of JSON. */
mw_clock mwb_marks(lua_State *L, mwb_state *s);

/* }====================================================== */

#endif
