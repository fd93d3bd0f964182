/*
** moonwatch_lua.h - moonwatch for C programs with Lua inside.
** SPDX-License-Identifier: MIT
**
** For programs that are linked with the engine and the binding; moonwatch.h
** describes the functions of an engine.  Such a program gives its own copy of
** the library to Lua before Lua requires another one:
**
**     luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
**     lua_pushcfunction(L, luaopen_moonwatch_core);
**     lua_setfield(L, -2, "moonwatch.core");
**     lua_pop(L, 1);
**
** With moonwatch_lua.c, which has the library's Lua files inside, this is
** `luaL_requiref(L, "moonwatch", luaopen_moonwatch, 0)` instead, and Lua needs
** no file.
**
** The functions here raise Lua's errors where their description says so.
*/
#ifndef MOONWATCH_LUA_H
#define MOONWATCH_LUA_H

#include "../../moonwatch.h"

/* How the functions that Lua calls are declared. */
#ifndef MW_MODULE
#if defined(_WIN32)
#define MW_MODULE __declspec(dllexport) extern
#elif defined(__GNUC__) && defined(__ELF__)
#define MW_MODULE __attribute__((visibility("default"))) extern
#else
#define MW_MODULE extern
#endif
#endif

#ifdef __cplusplus
extern "C" { /* also where Lua is C++: `require` looks for the C name */
#endif

struct lua_State;

/* Opens the module `moonwatch.core`, which `require "moonwatch"` loads. */
MW_MODULE int luaopen_moonwatch_core(struct lua_State *L);

/* In moonwatch_lua.c: opens the module `moonwatch`.  From then on `require`
** finds all modules of the library inside the program. */
MW_MODULE int luaopen_moonwatch(struct lua_State *L);

/*
** Returns the engine of a Lua state; NULL if the module is not open there.  The
** engine is Lua's, which closes it with the Lua state, or the one that the
** program has attached.  The program must not close Lua's engine.  Through the
** engine, program and Lua have one clock, one journal, one trace, and see each
** other's hierarchies.
*/
MW_API mw_engine *mw_lua_engine(struct lua_State *L);

/*
** Makes an engine of the program the engine of a Lua state; to be called before
** `luaopen_moonwatch_core`.  All objects that the engine has become MW_PINNED,
** and the engine's host stays the host of the program's objects.  When the Lua
** state is closed, Lua's objects leave the engine, and the engine stays with
** the program, which closes the engine after the Lua state.  Returns MW_OK, or
** MW_FULL when the Lua state has an engine already.
*/
MW_API int mw_lua_attach(struct lua_State *L, mw_engine *e);

/*
** Sets the host of the program's objects, beside Lua's, after the module was
** opened; `mw_host_set` is not for an engine that a Lua state uses.  The
** program's objects are the MW_PINNED ones.  Their keys and values are of any
** type but MW_TSTRING, which is Lua's.  `call` and `ask` get the watches of
** such objects, `restore` gets their entries, with NULL for the last argument;
** the host's other callbacks are not called.  Raises if the module is not open.
*/
MW_API void mw_lua_host(struct lua_State *L, const mw_host *host);

/*
** Returns the owner of a write that the program makes now, on behalf of the
** running code of Lua: the owner for `mw_journal_reserve` and
** `mw_journal_append` (their host is NULL).  When Lua's transaction is taken
** back, so is the write, by `restore`; effects and histories of Lua have only
** the writes to Lua's objects.  0 while no transaction is open.
*/
MW_API mw_owner mw_lua_owner(struct lua_State *L);

/* Returns the handle of the object at `index`, which Lua or `mw_lua_touch` has
** made known to the engine, or MW_NONE. */
MW_API mw_handle mw_lua_handle(struct lua_State *L, int index);

/* Pushes the object of a handle and returns 1; pushes nil and returns 0 when
** the handle is stale or not that of an object of Lua. */
MW_API int mw_lua_push(struct lua_State *L, mw_handle h);

/*
** Reports a write that C code has made to an object of Lua, the table or
** userdata at `index`: the field with the key at `key` has its new value
** already.  `kind` is MW_INSERT, MW_UPDATE, MW_DELETE, or MW_TOUCH for a change
** that has no old value.  For MW_UPDATE and MW_DELETE, the old value is on the
** top of the stack, and is popped.  Then the write is guarded, recorded and
** undone as a write of Lua's.  C code has written a table by `lua_rawset`: the
** library takes the value out, and makes the write anew, after its guards; a
** field is deleted by the report alone.  The new value of a userdata is what
** the userdata shows, and an undo writes the old value through the class's
** `__newindex`.  Does nothing if nobody watches or tracks the object.  Raises
** what a write of Lua's would raise.  Where there is no memory for the write,
** or a guard of phase "check" refuses the write, the field of a table has its
** old value; a userdata is not asked about, and keeps the new value.
*/
MW_API void mw_lua_touch(struct lua_State *L, int index, int key, int kind);

#ifdef __cplusplus
}
#endif

#endif
