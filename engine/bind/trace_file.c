/*
** trace_file.c - traces as files.
** SPDX-License-Identifier: MIT
**
** A trace is written to a temporary file, which replaces the file at the path
** when the temporary file is complete.  A path to a device, or to anything but
** a plain file, is written to directly.  Between opening and closing a file
** nothing can raise.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os.h"
#include "trace.h"

/* The stack of `write_trace`. */
enum { TRACE = 1, PATH, SPEEDSCOPE, HEAD, TAIL, PLACE };

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

/* Sets `errno` when returning MW_REFUSED. */
static int write_file(lua_State *L, mwb_state *s, const mw_trace *t,
                      const char *place) {
  FILE *file = fopen(place, "wb");
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

/* Does the path lead to a device, or to anything but a plain file? */
static int is_special(const char *path) {
  mwb_os_file file;
  return mwb_os_look(path, &file) && !file.is_plain;
}

/* Writes to a temporary file first. */
static int replace_file(lua_State *L, mwb_state *s, const mw_trace *t,
                        const char *path, const char *place) {
  int problem, code = write_file(L, s, t, place);
  if (code == MW_OK && !mwb_os_move(place, path)) code = MW_REFUSED;
  problem = errno;
  if (code != MW_OK) remove(place);
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
  int code;
  lua_settop(L, TAIL);
  if (strlen(path) != lua_rawlen(L, PATH))
    return failed(L, "there is a zero in it");
  place = lua_pushfstring(L, "%s.%d.tmp", path, mwb_os_process());
  code = is_special(path) ? write_file(L, s, t, path)
                          : replace_file(L, s, t, path, place);
  if (code == MW_REFUSED) return failed(L, strerror(errno));
  mwb_check(L, code);
  lua_pushboolean(L, 1);
  return 1;
}

void mwb_open_trace_file(lua_State *L) {
  static const luaL_Reg functions[] = {{"write_trace", write_trace},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
