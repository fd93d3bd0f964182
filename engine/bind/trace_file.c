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
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "timed.h"
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

/* {======================================================
** What the system knows of files
** ======================================================= */

#if defined(_WIN32)

static int push_target(lua_State *L) {
  lua_pushvalue(L, PATH);
  return 1;
}

static int is_special(const char *path) {
  (void)path;
  return 0;
}

static FILE *open_new(const char *temporary, const char *target) {
  (void)target;
  return fopen(temporary, "wbx"); /* only if there is no such file */
}

static int replace(const char *temporary, const char *target) {
  remove(target);
  return rename(temporary, target) == 0;
}

static void push_chance(lua_State *L) {
  lua_pushfstring(L, "%I", (LUAI_UACINT)mwb_now(NULL));
}

#else

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
    ssize_t n = readlink(path, place, LONGEST);
    if (n < 0) return 1;
    place[n] = '\0';
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
  struct stat st;
  return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Opens a file that does not exist yet, with the mode, and if possible the
** owner, of the target.  Nobody else may read what is written before. */
static FILE *open_new(const char *temporary, const char *target) {
  struct stat st;
  int exists = stat(target, &st) == 0, fd;
  FILE *file;
  if (exists && access(target, W_OK) != 0) return NULL;
  fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, exists ? 0600 : 0666);
  if (fd < 0) return NULL;
  if (exists && fchown(fd, st.st_uid, st.st_gid) != 0) errno = 0;
  file =
      (exists && fchmod(fd, st.st_mode & 0777) != 0) ? NULL : fdopen(fd, "wb");
  if (file != NULL) return file;
  close(fd);
  remove(temporary);
  return NULL;
}

static int replace(const char *temporary, const char *target) {
  return rename(temporary, target) == 0;
}

/* Pushes a text that nobody can guess. */
static void push_chance(lua_State *L) {
  uint64_t chance = (uint64_t)mwb_now(NULL) ^ (uint64_t)getpid() << 32;
  int fd = open("/dev/urandom", O_RDONLY);
  if (fd >= 0) {
    uint64_t more;
    if (read(fd, &more, sizeof(more)) == (ssize_t)sizeof(more)) chance ^= more;
    close(fd);
  }
  lua_pushfstring(L, "%I", (LUAI_UACINT)(chance >> 1));
}

#endif

/* }====================================================== */

#define ATTEMPTS 20

/* Opens a new file beside the target, and leaves its name at TEMPORARY. */
static FILE *open_beside(lua_State *L) {
  FILE *file = NULL;
  int i;
  for (i = 0; i < ATTEMPTS && file == NULL; i++) {
    lua_settop(L, TARGET);
    push_chance(L);
    lua_pushfstring(L, "%s.%s.tmp", lua_tostring(L, TARGET),
                    lua_tostring(L, -1));
    lua_replace(L, TEMPORARY);
    file = open_new(lua_tostring(L, TEMPORARY), lua_tostring(L, TARGET));
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
  if (code == MW_OK && !replace(temporary, lua_tostring(L, TARGET)))
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

void mwb_open_trace_file(lua_State *L) {
  static const luaL_Reg functions[] = {{"write_trace", write_trace},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}
