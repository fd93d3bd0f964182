/*
** trace_file.c - traces as files.
** SPDX-License-Identifier: MIT
**
** A trace is written to a temporary file, which replaces the file at the path
** when the temporary file is complete.  A link is followed first, so the link
** stays, and the new file gets the mode of the old one.  A path to a device, or
** to anything but a plain file, is written to directly.  Between opening and
** closing a file nothing can raise.
*/
#include "../base/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "trace.h"

/* The stack of `write_trace`. */
enum { TRACE = 1, PATH, SPEEDSCOPE, HEAD, TAIL, TARGET, TEMPORARY };

static int put(void *ud, const char *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)ud) == n;
}

static int put_text(lua_State *L, int index, FILE *file) {
  size_t len;
  const char *s = lua_tolstring(L, index, &len);
  return s == NULL || put(file, s, len);
}

static int put_all(lua_State *L, mwb_state *s, const mw_trace *t, FILE *file) {
  enum mw_format format =
      lua_toboolean(L, SPEEDSCOPE) ? MW_SPEEDSCOPE : MW_CHROME;
  int code;
  if (!put_text(L, HEAD, file)) return MW_REFUSED;
  code = mw_trace_write(s->engine, t, format, "coroutine", put, file);
  if (code != MW_OK) return code;
  return put_text(L, TAIL, file) ? MW_OK : MW_REFUSED;
}

/* Closes the file.  Sets `errno` when returning MW_REFUSED. */
static int write_file(lua_State *L, mwb_state *s, const mw_trace *t,
                      FILE *file) {
  int code, problem;
  if (file == NULL) return MW_REFUSED;
  code = put_all(L, s, t, file);
  problem = errno;
  if (fclose(file) == 0 || code != MW_OK)
    errno = problem;
  else
    code = MW_REFUSED;
  return code;
}

#define LONGEST 4096 /* path in a link */
#define MOST_LINKS 40

/* Pushes the path to which the links at PATH lead; there may be no file yet.
** Returns 0 and sets `errno` if the links do not end. */
static int push_target(lua_State *L) {
  char place[LONGEST + 1];
  int i;
  lua_pushvalue(L, PATH);
  for (i = 0; i < MOST_LINKS; i++) {
    const char *path = lua_tostring(L, -1), *name = strrchr(path, '/');
    if (!mwb_os_link(path, place, sizeof(place))) return 1;
    if (place[0] == '/' || name == NULL) {
      lua_pushstring(L, place);
    } else {
      lua_pushlstring(L, path, (size_t)(name - path) + 1);
      lua_pushstring(L, place);
      lua_concat(L, 2);
    }
    lua_replace(L, -2);
  }
  errno = ELOOP;
  return 0;
}

/* Does the path lead to a device, or to anything but a plain file? */
static int is_special(const char *path) {
  mwb_os_file file;
  return mwb_os_look(path, &file) && !file.is_plain;
}

#define ATTEMPTS 20

/* Opens a new file beside the target, and leaves its name at TEMPORARY. */
static FILE *open_beside(lua_State *L) {
  FILE *file = NULL;
  int i;
  for (i = 0; i < ATTEMPTS && file == NULL; i++) {
    lua_settop(L, TARGET);
    lua_pushfstring(L, "%s.%I.tmp", lua_tostring(L, TARGET),
                    (LUAI_UACINT)(mwb_os_chance() >> 1));
    file = mwb_os_create(lua_tostring(L, TEMPORARY), lua_tostring(L, TARGET));
    if (file == NULL && errno != EEXIST) break;
  }
  return file;
}

/* Writes to a temporary file first. */
static int replace_file(lua_State *L, mwb_state *s, const mw_trace *t) {
  FILE *file = open_beside(L);
  const char *temporary = lua_tostring(L, TEMPORARY);
  int problem, code;
  if (file == NULL) return MW_REFUSED;
  code = write_file(L, s, t, file);
  if (code == MW_OK && !mwb_os_move(temporary, lua_tostring(L, TARGET)))
    code = MW_REFUSED;
  problem = errno;
  if (code != MW_OK) remove(temporary);
  errno = problem;
  return code;
}

static int write_target(lua_State *L, mwb_state *s, const mw_trace *t) {
  const char *path = lua_tostring(L, PATH);
  if (is_special(path)) return write_file(L, s, t, fopen(path, "wb"));
  return push_target(L) ? replace_file(L, s, t) : MW_REFUSED;
}

static int failed(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushfstring(L, "cannot write '%s': %s", lua_tostring(L, PATH), why);
  return 2;
}

/* write_trace(trace, path, for speedscope?, head, tail) -> true; or nil,
** message.  Head and tail are texts around the trace, or nil. */
static int write_trace(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  const mw_trace *t = mwb_check_trace(L, s, "write");
  const char *path = luaL_checkstring(L, PATH);
  int code;
  lua_settop(L, TAIL);
  if (strlen(path) != lua_rawlen(L, PATH))
    return failed(L, "there is a zero in it");
  code = write_target(L, s, t);
  if (code == MW_REFUSED) return failed(L, strerror(errno));
  mwb_check(L, code);
  lua_pushboolean(L, 1);
  return 1;
}

const luaL_Reg mwb_trace_file_functions[] = {{"write_trace", write_trace},
                                             {NULL, NULL}};
