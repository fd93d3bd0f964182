/*
** compiled.c - Lua files that are parsed once a program.
** SPDX-License-Identifier: MIT
**
** The list has a file's path and its bytecode; a program with thousands of
** states spends its time with their work, not with parsing.  The list belongs
** to the program, not to a state's memory.
*/
#include "compiled.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

typedef struct file {
  struct file *next;
  size_t size;
  char *code;
  char path[];
} file;

static file *files;

static int append(lua_State *L, const void *code, size_t size, void *ud) {
  file *f = (file *)ud;
  char *grown = (char *)realloc(f->code, f->size + size + 1);
  (void)L;
  if (grown == NULL) abort();
  memcpy(grown + f->size, code, size);
  f->code = grown;
  f->size += size;
  return 0;
}

/* Keeps the function on the top as that of the path. */
static void keep(lua_State *L, const char *path) {
  size_t length = strlen(path) + 1;
  file *f = (file *)calloc(1, sizeof(file) + length);
  if (f == NULL) abort();
  memcpy(f->path, path, length);
  lua_dump(L, append, f, 0);
  f->next = files;
  files = f;
}

static int load(lua_State *L, const char *path) {
  int status;
  const file *f = files;
  while (f != NULL && strcmp(f->path, path) != 0) f = f->next;
  if (f != NULL) return luaL_loadbufferx(L, f->code, f->size, path, "b");
  status = luaL_loadfile(L, path);
  if (status == LUA_OK) keep(L, path);
  return status;
}

static int do_file(lua_State *L) {
  lua_settop(L, 1);
  if (load(L, luaL_checkstring(L, 1)) != LUA_OK) return lua_error(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

/* A searcher: a module's name to its loader and path. */
static int search(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchpath");
  lua_pushvalue(L, 1);
  lua_getfield(L, -3, "path");
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2)) return 1; /* says where it looked */
  lua_pop(L, 1);
  if (load(L, lua_tostring(L, -1)) != LUA_OK) return lua_error(L);
  lua_insert(L, -2);
  return 2;
}

/* The path is short: Lua asks only once for the memory of a long text that is
** made in a buffer, and collects no garbage. */
void compiled_open(lua_State *L) {
  lua_register(L, "dofile", do_file);
  lua_getglobal(L, "package");
  lua_pushliteral(L, "lua/?.lua;lua/?/init.lua");
  lua_setfield(L, -2, "path");
  lua_getfield(L, -1, "searchers");
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}
