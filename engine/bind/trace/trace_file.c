/*
** trace_file.c - traces as files.
** SPDX-License-Identifier: MIT
**
** A trace is written to a new file beside the one at the path, or to which a
** link there leads, and replaces that one when it is complete.  A device, or
** anything but a plain file, is written to directly.  Between opening and
** closing a file nothing can raise.
*/
#include "../base/os.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "trace.h"

/* The stack of `write_trace`. */
enum { TRACE = 1, PATH, SPEEDSCOPE, HEAD, TAIL, BESIDE };

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
  if (file == NULL) return MW_REFUSED; /* not opened? */
  code = put_all(L, s, t, file);
  problem = errno;
  if (fclose(file) == 0 || code != MW_OK) /* has closing not failed alone? */
    errno = problem;
  else
    code = MW_REFUSED;
  return code;
}

#define ATTEMPTS 20

/* Opens a file beside a place that is not there yet, and leaves its name at
** BESIDE. */
static FILE *open_beside(lua_State *L, const char *place) {
  FILE *file = NULL;
  int i;
  for (i = 0; i < ATTEMPTS && file == NULL; i++) {
    lua_settop(L, TAIL);
    lua_pushfstring(L, "%s.%d.tmp", place, i);
    file = fopen(lua_tostring(L, BESIDE), "wbx");
    if (file == NULL && errno != EEXIST) break; /* would others fail, too? */
  }
  return file;
}

static int replace_file(lua_State *L, mwb_state *s, const mw_trace *t,
                        const char *place) {
  FILE *file = open_beside(L, place);
  int problem, code = write_file(L, s, t, file);
  if (file == NULL) return code; /* nothing to remove? */
  if (code == MW_OK && !mwb_os_move(lua_tostring(L, BESIDE), place))
    code = MW_REFUSED;
  problem = errno;
  if (code != MW_OK) remove(lua_tostring(L, BESIDE));
  errno = problem;
  return code;
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
  const char *path = luaL_checkstring(L, PATH), *place;
  char buffer[MWB_OS_LONGEST];
  int code;
  lua_settop(L, TAIL);
  if (strlen(path) != lua_rawlen(L, PATH))
    return failed(L, "there is a zero in it");
  place = mwb_os_place(path, buffer);
  code = (place == NULL) ? write_file(L, s, t, fopen(path, "wb")) /* special? */
                         : replace_file(L, s, t, place);
  if (code == MW_REFUSED) return failed(L, strerror(errno));
  mwb_check(L, code);
  lua_pushboolean(L, 1);
  return 1;
}

const luaL_Reg mwb_trace_file_functions[] = {{"write_trace", write_trace},
                                             {NULL, NULL}};
