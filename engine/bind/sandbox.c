/*
** sandbox.c - mw.sandbox: boxes for code that nobody has to trust.
** SPDX-License-Identifier: MIT
**
**     box (userdata, mwb_box) --> a thread, in which the code runs
**                             --> its globals (world.c)
**                             --> a metatable for strings
**
** Code runs in the box's own thread, with the box's budget (budget.c), and
** strings have the box's metatable meanwhile.  The thread has no hook of the
** program's, and its stack is small, whatever the program's stack is like.  A
** call while another call of the box runs gets a thread of its own.
**
** A file of a policy is a box, too.
*/
#include "sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "class.h"
#include "kept.h"
#include "library.h"
#include "options.h"

/* Instructions that a call counts for, beside those that are used. */
#define A_CALL 1000

/* What a call may use if the program does not say. */
#define INSTRUCTIONS 1000000
#define BYTES (16 * 1024 * 1024)

mwb_box *mwb_to_box(lua_State *L, const mwb_state *s, int index) {
  int same;
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
    return NULL;
  mwb_push(L, s, MWB_SANDBOX);
  same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? (mwb_box *)lua_touserdata(L, index) : NULL;
}

static mwb_box *check_self(lua_State *L, const mwb_state *s, const char *name) {
  mwb_box *box = mwb_to_box(L, s, 1);
  if (box == NULL)
    luaL_error(L, "calling '%s' on bad self (sandbox expected, got %s)", name,
               mwb_type_name(L, 1));
  return box;
}

/* {======================================================
** Calls
** ======================================================= */

/* Pushes the thread for a call, and returns it. */
static lua_State *push_thread(lua_State *L, mwb_box *box, int index) {
  lua_State *thread = box->thread;
  if (box->busy || thread == NULL) {
    thread = lua_newthread(L);
    if (box->busy) return thread;
    box->thread = thread;
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, index, MWB_BOXTHREAD);
  } else {
    lua_getiuservalue(L, index, MWB_BOXTHREAD);
  }
  return thread;
}

static int resume(lua_State *thread, lua_State *L, int n) {
  int results;
  return lua_resume(thread, L, n, &results);
}

/* Remembers the first of the `n` values on the top, if that is a function or a
** table of functions: what functions refer to, the box keeps. */
static void note_called(lua_State *L, int index, int n) {
  int first = lua_gettop(L) - n + 1;
  if (!lua_isfunction(L, first) && !lua_istable(L, first)) return;
  lua_getiuservalue(L, index, MWB_BOXCALLED);
  lua_pushvalue(L, first);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pushvalue(L, first);
    lua_pushboolean(L, 1);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

/* Adds up what a call has used. */
static void note_used(mwb_box *box, const mwb_budget *b) {
  box->used = (b->used < box->instructions) ? b->used : box->instructions;
  box->peak = b->peak;
  if (box->kept != NULL) box->kept->spent += box->used + A_CALL;
}

int mwb_run_in_box(lua_State *L, mwb_state *s, int index, lua_CFunction job,
                   int n) {
  mwb_box *box = (mwb_box *)lua_touserdata(L, index);
  mwb_budget b;
  int top = lua_gettop(L) - n, status, results, busy = box->busy;
  lua_State *thread;
  luaL_checkstack(L, LUA_MINSTACK, "cannot call a box");
  note_called(L, index, n);
  if (box->kept != NULL && !busy)
    mwb_count_kept(L, box->kept, box->most, index, n);
  thread = push_thread(L, box, index);
  lua_insert(L, top + 1);
  luaL_checkstack(thread, n + LUA_MINSTACK, "cannot call a box");
  lua_pushcfunction(thread, job);
  lua_xmove(L, thread, n);
  lua_getiuservalue(L, index, MWB_BOXSTRINGS);
  mwb_swap_strings(L);
  if (s->budget == NULL) {
    lua_pushvalue(L, -1);
    mwb_keep(L, s, MWB_STRINGMETA);
  }
  box->busy = 1;
  mwb_begin_budget(thread, s, box, &b);
  status = resume(thread, L, n);
  mwb_end_budget(&b);
  box->busy = busy;
  mwb_swap_strings(L);
  note_used(box, &b);
  results = lua_gettop(thread);
  if (status != LUA_OK || !lua_checkstack(L, results + 1)) {
    if (status == LUA_OK) lua_settop(thread, 0);
    if (!busy) box->thread = NULL; /* the thread is dead */
    lua_settop(L, top);
    if (status == LUA_OK) return luaL_error(L, "too many results");
    lua_xmove(thread, L, 1);
    return lua_error(L);
  }
  lua_settop(L, top);
  lua_xmove(thread, L, results);
  return results;
}

/* The text of an error object that says how: no address, so that the same error
** has the same text. */
static int to_text(lua_State *L) {
  if (lua_type(L, 1) != LUA_TNUMBER && !luaL_getmetafield(L, 1, "__tostring"))
    return luaL_error(L, "no text");
  luaL_tolstring(L, 1, NULL);
  return 1;
}

void mwb_safe_message(lua_State *L, int status) {
  const mwb_budget *b = mwb_budget_of(L);
  int top = lua_gettop(L), type = lua_type(L, top);
  if (b->spent) {
    mwb_push_spent(L, b);
  } else if (status != LUA_ERRMEM && type != LUA_TSTRING) {
    lua_pushcfunction(L, to_text);
    lua_pushvalue(L, top);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK || b->spent)
      lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, top));
  } else {
    return;
  }
  lua_replace(L, top);
  lua_settop(L, top);
}

/* in the box: f, ... -> true, results, or false, a text */
static int call_job(lua_State *L) {
  mwb_budget *b = mwb_budget_of(L);
  int status = LUA_OK;
  mwb_spend(b, 1);
  if (!b->spent) status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  if (status != LUA_OK || b->spent) {
    if (status == LUA_OK) {
      lua_settop(L, 0);
      lua_pushnil(L);
    }
    mwb_safe_message(L, status);
  }
  lua_pushboolean(L, status == LUA_OK && !b->spent);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* box:call(f, ...) */
static int box_call(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  check_self(L, s, "call");
  if (!lua_isfunction(L, 2))
    return mwb_bad_argument(L, "call", 2, 1, "function");
  if (mwb_refuse_finaliser(L)) {
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
  }
  return mwb_run_in_box(L, s, 1, call_job, lua_gettop(L) - 1);
}

static int box_used(lua_State *L) {
  const mwb_box *box = check_self(L, mwb_enter(L), "used");
  lua_pushinteger(L, box->used);
  lua_pushinteger(L, box->peak);
  return 2;
}

/* }====================================================== */

/* {======================================================
** Loading
** ======================================================= */

/* Pieces in which a text is paid for: an instruction for each byte. */
#define PIECE 512

typedef struct source {
  const char *path; /* of a file, or NULL: */
  const char *text;
  FILE *file;
  size_t left;
  int begun;
  int spent; /* was the budget spent in no line? */
  char piece[PIECE];
} source;

/* Skips a mark of the byte order, and a first line that begins with '#' but for
** its end. */
static void skip_begin(lua_State *L, FILE *file) {
  static const char mark[] = "\xEF\xBB\xBF";
  int c = getc(file), i, n = 0;
  for (i = 0; i < 3 && c == (unsigned char)mark[i]; i++) c = getc(file);
  if (c == '#')
    while ((c = getc(file)) != EOF && c != '\n')
      if (++n % PIECE == 0) mwb_pay(L, PIECE);
  if (c != EOF) ungetc(c, file);
}

static const char *read_piece(lua_State *L, void *ud, size_t *size) {
  source *from = (source *)ud;
  const char *piece = from->piece;
  if (from->file != NULL) {
    if (!from->begun) skip_begin(L, from->file);
    from->begun = 1;
    *size = fread(from->piece, 1, PIECE, from->file);
  } else {
    piece = from->text;
    *size = (from->left < PIECE) ? from->left : PIECE;
    from->text += *size;
    from->left -= *size;
  }
  mwb_pay(L, (lua_Number)*size);
  return piece;
}

/* Loads the source's file.  While the file is open, nothing raises. */
static int load_opened(lua_State *L, source *from, const char *name) {
  int status, error;
  from->file = fopen(from->path, "r");
  if (from->file == NULL) {
    lua_pushfstring(L, "cannot open %s (%s)", from->path, strerror(errno));
    return LUA_ERRRUN;
  }
  status = lua_load(L, read_piece, from, name, "t");
  error = ferror(from->file) ? errno : 0;
  fclose(from->file);
  if (error == 0) return status;
  lua_pushfstring(L, "cannot read %s (%s)", from->path, strerror(error));
  return LUA_ERRRUN;
}

/* in the box: source, name -> true, function, or false, a text */
static int load_job(lua_State *L) {
  source *from = (source *)lua_touserdata(L, 1);
  const char *name = lua_tostring(L, 2);
  const mwb_budget *b = mwb_budget_of(L);
  int status = (from->path != NULL) ? load_opened(L, from, name)
                                    : lua_load(L, read_piece, from, name, "t");
  if (status != LUA_OK || b->spent) mwb_safe_message(L, status);
  from->spent = b->spent && b->place.line == 0;
  lua_pushboolean(L, status == LUA_OK && !b->spent);
  lua_insert(L, -2);
  return 2;
}

/* Remembers the name of a chunk as messages show the name, and returns that. */
static const char *add_chunk(lua_State *L, mwb_box *box, const char *name) {
  lua_Debug ar;
  unsigned i;
  if (luaL_loadbufferx(L, "", 0, name, "t") != LUA_OK) lua_error(L);
  lua_getinfo(L, ">S", &ar);
  for (i = 0; i < MWB_CHUNKS && i < box->n_chunks; i++)
    if (strcmp(box->chunks[i], ar.short_src) == 0) return box->chunks[i];
  i = box->n_chunks++ % MWB_CHUNKS;
  return strcpy(box->chunks[i], ar.short_src);
}

/* Loads the source, whose chunk has the name on the top.  Returns the function,
** or nil and a text. */
static int load(lua_State *L, mwb_state *s, source *from) {
  int name = lua_gettop(L);
  const char *chunk =
      add_chunk(L, (mwb_box *)lua_touserdata(L, 1), lua_tostring(L, name));
  if (mwb_refuse_finaliser(L)) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  lua_pushlightuserdata(L, from);
  lua_pushvalue(L, name);
  mwb_run_in_box(L, s, 1, load_job, 2);
  if (!lua_toboolean(L, -2)) {
    if (from->spent && from->path == NULL)
      lua_pushfstring(L, "%s: %s", chunk, lua_tostring(L, -1));
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  lua_getiuservalue(L, 1, MWB_WORLD);
  if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  return 1;
}

/* box:load(text[, chunkname]) */
static int box_load(lua_State *L) {
  mwb_state *s = mwb_enter(L);
  source from;
  check_self(L, s, "load");
  if (lua_type(L, 2) != LUA_TSTRING)
    return mwb_bad_argument(L, "load", 2, 1, "string");
  if (!lua_isnoneornil(L, 3) && lua_type(L, 3) != LUA_TSTRING)
    return mwb_bad_argument(L, "load", 3, 2, "string");
  memset(&from, 0, sizeof(from));
  from.text = lua_tolstring(L, 2, &from.left);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    lua_getiuservalue(L, 1, MWB_BOXNAME);
    lua_replace(L, 3);
    if (lua_isnil(L, 3)) lua_copy(L, 2, 3);
  }
  return load(L, s, &from);
}

/* load_file(box, path) -> like box:load */
static int load_file(lua_State *L) {
  source from;
  memset(&from, 0, sizeof(from));
  from.path = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_pushfstring(L, "@%s", from.path);
  return load(L, mwb_state_of(L), &from);
}

/* }====================================================== */

/* {======================================================
** New boxes
** ======================================================= */

static int box_gc(lua_State *L) {
  mwb_box *box = (mwb_box *)lua_touserdata(L, 1);
  if (box->kept != NULL) mwb_free_kept(L, box->kept);
  box->kept = NULL;
  return 0;
}

/* Makes the globals of the box, and those of its libraries that are not in the
** table at `env`, objects of the box: what code adds there counts. */
static void own_world(lua_State *L, mwb_box *box, int world, int env) {
  mwb_note_made(box->kept, lua_topointer(L, world), LUA_TTABLE, 0);
  for (lua_pushnil(L); lua_next(L, world) != 0; lua_pop(L, 1)) {
    int given = 0;
    if (lua_istable(L, env)) {
      lua_pushvalue(L, -2);
      lua_rawget(L, env);
      given = lua_rawequal(L, -1, -2);
      lua_pop(L, 1);
    }
    if (lua_istable(L, -1) && !given)
      mwb_note_made(box->kept, lua_topointer(L, -1), LUA_TTABLE, 0);
  }
}

/* Pushes a new box with the globals in the table at `env`, or nil; the name of
** its chunks is on the top, or nil, and is popped. */
static mwb_box *push_box(lua_State *L, mwb_state *s, int env) {
  int name = lua_gettop(L), box;
  mwb_box *b = (mwb_box *)lua_newuserdatauv(L, sizeof(mwb_box), MWB_BOXNAME);
  memset(b, 0, sizeof(*b));
  box = name + 1;
  b->interval = MWB_INTERVAL;
  b->kind = "sandbox";
  b->instructions = INSTRUCTIONS;
  b->bytes = b->most = BYTES;
  mwb_push(L, s, MWB_SANDBOX);
  lua_setmetatable(L, box);
  b->kept = mwb_new_kept(L, s);
  mwb_push_ephemeron(L, s);
  lua_setiuservalue(L, box, MWB_BOXCALLED);
  if (!lua_isnil(L, name)) {
    lua_pushfstring(L, "=%s", lua_tostring(L, name));
    lua_setiuservalue(L, box, MWB_BOXNAME);
  }
  lua_newtable(L);
  lua_newtable(L);
  mwb_fill_world(L, box + 1, box + 2, env);
  own_world(L, b, box + 1, env);
  lua_setiuservalue(L, box, MWB_BOXSTRINGS);
  lua_setiuservalue(L, box, MWB_WORLD);
  b->thread = lua_newthread(L);
  lua_setiuservalue(L, box, MWB_BOXTHREAD);
  mwb_measure_pace(L, s, b);
  lua_replace(L, name);
  return b;
}

/* The number of the option on the stack, if it is given. */
static lua_Integer count_option(lua_State *L, int index, const char *name,
                                lua_Integer none) {
  int exact;
  lua_Integer n = lua_tointegerx(L, index, &exact);
  if (lua_isnil(L, index)) return none;
  if (!exact || n < 1)
    luaL_error(L, "bad argument #1 to 'sandbox' (option '%s' is not a count)",
               name);
  return n;
}

/* sandbox{env, instructions, memory, name} */
static int sandbox(lua_State *L) {
  static const mwb_option options[] = {{"env", LUA_TTABLE, NULL},
                                       {"instructions", LUA_TNUMBER, NULL},
                                       {"memory", LUA_TNUMBER, NULL},
                                       {"name", LUA_TSTRING, NULL},
                                       {NULL, 0, NULL}};
  enum { ENV = 2, COUNT, MEMORY, NAME };
  mwb_state *s = mwb_enter(L);
  lua_Integer instructions, bytes;
  mwb_box *box;
  mwb_check_dot(L, "sandbox", lua_gettop(L));
  lua_settop(L, 1);
  mwb_read_options(L, "sandbox", 1, options);
  instructions = count_option(L, COUNT, "instructions", INSTRUCTIONS);
  bytes = count_option(L, MEMORY, "memory", BYTES);
  box = push_box(L, s, ENV);
  box->instructions = instructions;
  box->bytes = box->most = bytes;
  return 1;
}

/* policy_box(env or nil) -> a box for a file of a policy */
static int policy_box(lua_State *L) {
  lua_settop(L, 1);
  lua_pushnil(L);
  push_box(L, mwb_state_of(L), 1)->kind = "policy";
  return 1;
}

/* limit(box, instructions, bytes, most): what each call may use from now on,
** and what the box may keep */
static int limit(lua_State *L) {
  mwb_box *box = (mwb_box *)lua_touserdata(L, 1);
  box->instructions = luaL_checkinteger(L, 2);
  box->bytes = luaL_checkinteger(L, 3);
  box->most = luaL_checkinteger(L, 4);
  return 0;
}

void mwb_open_sandbox(lua_State *L) {
  static const luaL_Reg functions[] = {{"sandbox", sandbox}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", box_gc}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"load", box_load}, {"call", box_call}, {"used", box_used}, {NULL, NULL}};
  mwb_new_meta(L, MWB_SANDBOX, "sandbox", meta, methods);
  mwb_set_funcs(L, functions);
}

void mwb_open_boxes(lua_State *L) {
  static const luaL_Reg functions[] = {{"policy_box", policy_box},
                                       {"load_file", load_file},
                                       {"limit", limit},
                                       {NULL, NULL}};
  mwb_set_funcs(L, functions);
}

/* }====================================================== */
