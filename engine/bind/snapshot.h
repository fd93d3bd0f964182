/*
** snapshot.h - the parts of a snapshot: see snapshot.c.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_SNAPSHOT_H
#define MWB_SNAPSHOT_H

#include "bind.h"

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden) /* to its end */
#endif

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

/* The first places on the stack of who reads a state. */
enum {
  MWB_ROOT = 1,
  MWB_DESCRIBE,  /* (object, class or nil) -> name of the class, state of a
                 ** userdata */
  MWB_ENTERS,    /* (root, parent, key, child) -> is the table part of the
                 ** state? */
  MWB_CLASSNAMES /* class -> name */
};

/* Is the value on the top, which the object at `parent` has under the key at
** `key`, part of the state?  Others than tables are. */
int mwb_is_state(lua_State *L, int parent, int key);

/* Pushes the set of the object's fields that the policy ignores, or nil.
** `class_` is the index of another class, or of nil, or 0. */
void mwb_push_ignored(lua_State *L, mwb_state *s, int object, int class_);

/* Pushes the name of the class of an object, nil for none; of a userdata also
** the state.  `class_` is the index of another class, or 0.  Returns 0 if the
** class has no name. */
int mwb_push_class_name(lua_State *L, int object, int class_);

/* Returns 0, or the mark of JSON of a table. */
int mwb_mark_of(lua_State *L, mwb_state *s, mw_clock marks, int object);

/* restore.c: the CRC-32 of some bytes. */
uint32_t mwb_checksum(const unsigned char *bytes, size_t len);

/* restore.c: the clock whose tags are the marks of JSON. */
mw_clock mwb_marks(lua_State *L, mwb_state *s);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif

#endif
