/*
** tape.c - what a hierarchy records, and the passes back over it.
** SPDX-License-Identifier: MIT
**
**     tape --> steps: object, name, the step of the frame outside
**         \--> left:  steps whose frames were left as they should be, in order
**     frame --> note: its step, if the step's order is that of the frame
**
** A frame that is entered while a hierarchy records gets a step.  So each frame
** that is left costs the same at any depth; a path is made when somebody asks.
** The steps go with the tape.
**
** A pass has taken the tape.  It visits what was left last first; steps that it
** has entered and not left are `open`.
*/
#include <string.h>

#include "delivery.h"
#include "hierarchy.h"
#include "later.h"

struct mwb_pass {
  mwb_hierarchy *d;
  mwb_tape tape;
  uint32_t *open; /* as long as the tape */
  uint32_t n_open;
  uint32_t size;
  uint32_t to_go; /* elements of `left` */
  uint32_t next;  /* the step that is to be visited */
  uint32_t step;  /* where the pass is */
  uint32_t first; /* frames that were there before, */
  uint64_t order; /* and the number of their last entering */
  int phase;
};

enum { NEXT, LEAVING, ENTERING, VISITING };

/* {======================================================
** Tapes
** ======================================================= */

static mwb_step *step_at(const mwb_tape *tape, uint32_t step) {
  mwi_assert(step > 0 && step <= tape->n);
  return &tape->steps[step - 1];
}

/* Returns the step of a frame, or NULL. */
static mwb_step *step_of(const mwb_tape *tape, const mw_frame *frame) {
  if (frame->note == 0 || frame->note > tape->n ||
      step_at(tape, frame->note)->order != frame->order)
    return NULL;
  return step_at(tape, frame->note);
}

static void make_room(lua_State *L, mwb_hierarchy *d) {
  mw_engine *e = mwb_engine_of(d);
  mwb_tape *tape = &d->tape;
  mwb_step *steps = (mwb_step *)mwi_grow(e, tape->steps, tape->n, &tape->size,
                                         sizeof(mwb_step));
  uint32_t *left;
  if (steps == NULL) mwb_check(L, MW_NOMEM);
  tape->steps = steps;
  left = (uint32_t *)mwi_grow(e, tape->left, tape->n, &tape->size_left,
                              sizeof(uint32_t));
  if (left == NULL) mwb_check(L, MW_NOMEM);
  tape->left = left;
}

/* Adds the step of frame number `i`, for which there is room. */
static void add_step(mwb_hierarchy *d, mwi_stack *stack, uint32_t i,
                     int wanted) {
  mwb_tape *tape = &d->tape;
  mw_frame *frame = &stack->frames[i];
  mwb_step *step;
  tape->n++;
  step = step_at(tape, tape->n);
  memset(step, 0, sizeof(mwb_step));
  step->obj = frame->obj;
  step->thread = stack->thread;
  step->order = frame->order;
  step->name = ((frame->name & UNSURE) != 0) ? 0 : frame->name;
  step->epoch = d->epoch;
  step->outer = (i > 0) ? frame[-1].note : 0;
  step->depth = i + 1;
  step->wanted = wanted;
  mwb_retain_name(d, step->name);
  frame->note = tape->n;
}

void mwb_ready_tape(lua_State *L, mwb_hierarchy *d, mwi_stack *stack) {
  uint32_t i = stack->n;
  while (i > 0 && step_of(&d->tape, &stack->frames[i - 1]) == NULL) i--;
  for (; i < stack->n; i++) { /* those from before the record */
    make_room(L, d);
    add_step(d, stack, i, 1);
  }
  make_room(L, d);
}

void mwb_tape_entered(mwb_hierarchy *d, mwi_stack *stack, int wanted) {
  add_step(d, stack, stack->n - 1, wanted);
}

void mwb_tape_left(mwb_hierarchy *d, const mwi_stack *stack) {
  const mw_frame *frame = &stack->frames[stack->n - 1];
  mwb_step *step = step_of(&d->tape, frame);
  if (step == NULL || !step->wanted) return;
  if (step->name == 0 && (frame->name & UNSURE) == 0) {
    mwb_retain_name(d, step->name = frame->name);
    step->epoch = d->epoch;
  }
  d->tape.left[d->tape.n_left++] = frame->note;
}

void mwb_clear_tape(mwb_hierarchy *d, mwb_tape *tape) {
  mw_engine *e = mwb_engine_of(d);
  uint32_t i;
  for (i = 1; i <= tape->n; i++) mwb_release_name(d, step_at(tape, i)->name);
  mwi_free(e, tape->steps, tape->size * sizeof(mwb_step));
  mwi_free(e, tape->left, tape->size_left * sizeof(uint32_t));
  memset(tape, 0, sizeof(mwb_tape));
}

/* }====================================================== */

/* {======================================================
** Names of steps
** ======================================================= */

/* Returns the step outside whose object it is, or 0. */
static uint32_t outer_step(const mwb_tape *tape, uint32_t step, mw_handle obj) {
  do {
    step = step_at(tape, step)->outer;
  } while (step != 0 && step_at(tape, step)->obj != obj);
  return step;
}

/* Appends the text of a name as it was when the step was made: the parents'
** names are those of the steps outside. */
static void push_former(lua_State *L, mwb_hierarchy *d, const mwb_tape *tape,
                        uint32_t step) {
  uint32_t name = step_at(tape, step)->name;
  int n = 0;
  while (name != 0) {
    mw_handle parent = mwb_name_at(d, name)->parent;
    uint32_t outer = outer_step(tape, step, parent);
    luaL_checkstack(L, MWB_ROOM, "names");
    if (parent == MW_NONE || outer == 0 || step_at(tape, outer)->name == 0 ||
        mwb_name_at(d, name)->fixed) {
      mwb_push_text(L, d, name);
      name = 0;
    } else {
      mwb_push_way(L, d, name);
      name = step_at(tape, step = outer)->name;
    }
    lua_insert(L, -1 - n);
    if (n > 0) lua_concat(L, 2);
    n = 1;
  }
}

static void push_step_text(lua_State *L, mwb_hierarchy *d, const mwb_tape *tape,
                           uint32_t step) {
  const mwb_step *s = step_at(tape, step);
  uint32_t name = s->name;
  if (name == 0) name = mwb_settle(L, d, s->obj);
  if (name == 0)
    lua_pushliteral(L, "?");
  else if (name != s->name || s->epoch == d->epoch)
    mwb_push_text(L, d, name);
  else
    push_former(L, d, tape, step);
}

/* }====================================================== */

/* {======================================================
** Passes
** ======================================================= */

mwb_pass *mwb_push_pass(lua_State *L) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, MWB_UPDATA, PASSES);
  lua_pushthread(L);
  lua_rawget(L, -2);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return (mwb_pass *)lua_touserdata(L, -1);
}

void mwb_push_visited(lua_State *L, mwb_hierarchy *d, const mwb_pass *pass) {
  push_step_text(L, d, &pass->tape, pass->step);
  mwb_alive(L, d->data.state, step_at(&pass->tape, pass->step)->obj);
}

uint32_t mwb_add_path(lua_State *L, mwb_hierarchy *d, const mwb_pass *pass) {
  uint32_t step = pass->step, depth = step_at(&pass->tape, step)->depth;
  for (; step != 0; step = step_at(&pass->tape, step)->outer) {
    push_step_text(L, d, &pass->tape, step);
    lua_rawseti(L, -2, step_at(&pass->tape, step)->depth);
  }
  return depth;
}

uint32_t mwb_pass_first(const mwb_pass *pass) { return pass->first; }

uint64_t mwb_pass_order(const mwb_pass *pass) { return pass->order; }

/* Something else is visited: writes have other scopes. */
static void turn(const mwb_hierarchy *d) {
  d->data.state->renames++;
  mwb_turn_context(d->data.state);
}

/* Sets the pass of the running coroutine to the value on the top. */
static void set_pass(lua_State *L, const mwb_hierarchy *d) {
  turn(d);
  lua_getiuservalue(L, MWB_UPDATA, PASSES);
  lua_pushthread(L);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

/* Pushes a function, event, object and name for a call of the hooks. */
static void push_event(lua_State *L, mwb_hierarchy *d, mwb_pass *pass,
                       const char *event, uint32_t step) {
  pass->step = step;
  turn(d);
  mwb_push_outside(L, REVERSE);
  lua_pushstring(L, event);
  mwb_push_visited(L, d, pass);
  lua_insert(L, -2);
}

/* Keeps the first error of hooks with the pass. */
static void keep_error(lua_State *L, int status, int pass) {
  if (status == LUA_OK || status == LUA_YIELD) return;
  if (lua_getiuservalue(L, pass, 2) == LUA_TNIL) {
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, 1);
    lua_setiuservalue(L, pass, 2);
  }
}

/* Finds the next step to visit, of an object that is alive. */
static int find_next(lua_State *L, mwb_pass *pass) {
  while (pass->to_go > 0) {
    int alive;
    pass->next = pass->tape.left[--pass->to_go];
    alive = mwb_alive(L, pass->d->data.state,
                      step_at(&pass->tape, pass->next)->obj);
    lua_pop(L, 1);
    if (alive) return 1;
  }
  return 0;
}

/* Is the step that was opened last to be left before the next one? */
static int must_leave(const mwb_pass *pass) {
  const mwb_step *next = step_at(&pass->tape, pass->next), *last;
  if (pass->n_open == 0) return 0;
  last = step_at(&pass->tape, pass->open[pass->n_open - 1]);
  return last->depth >= next->depth || last->thread != next->thread;
}

/* The stack of `mwb_backward`. */
enum { HIERARCHY = 1, FUNCTION, PASS };

/* Goes on with a pass. */
static int go_on(lua_State *L, int status, lua_KContext ctx) {
  mwb_pass *pass = (mwb_pass *)lua_touserdata(L, PASS);
  mwb_hierarchy *d = pass->d;
  (void)ctx;
  for (;;) {
    keep_error(L, status, PASS);
    lua_settop(L, PASS);
    status = LUA_OK;
    switch (pass->phase) {
      case NEXT:
        if (!d->open || !find_next(L, pass)) return 0;
        pass->phase = LEAVING;
        break;
      case LEAVING:
        if (must_leave(pass)) {
          uint32_t step = pass->open[--pass->n_open];
          push_event(L, d, pass, "reverse_leave", step);
          status = lua_pcallk(L, 3, 0, 0, 0, go_on);
        } else {
          pass->phase = ENTERING;
        }
        break;
      case ENTERING:
        pass->phase = VISITING;
        push_event(L, d, pass, "reverse_enter", pass->next);
        status = lua_pcallk(L, 3, 0, 0, 0, go_on);
        break;
      default:
        pass->phase = NEXT;
        pass->open[pass->n_open++] = pass->step = pass->next;
        turn(d);
        lua_pushvalue(L, FUNCTION);
        mwb_push_visited(L, d, pass);
        lua_insert(L, -2);
        lua_callk(L, 2, 0, 0, go_on);
        break;
    }
  }
}

/* Leaves what a pass has entered, also when a hook raises.  The error of a hook
** must not replace an error that is under way. */
static int leave_open(lua_State *L, int status, lua_KContext ctx) {
  mwb_pass *pass = (mwb_pass *)lua_touserdata(L, 1);
  (void)ctx;
  keep_error(L, status, 1);
  lua_settop(L, 2);
  while (pass->d->open && pass->n_open > 0) {
    uint32_t step = pass->open[--pass->n_open];
    push_event(L, pass->d, pass, "reverse_leave", step);
    status = lua_pcallk(L, 3, 0, 0, 0, leave_open);
    keep_error(L, status, 1);
    lua_settop(L, 2);
  }
  lua_getiuservalue(L, 1, 1);
  set_pass(L, pass->d);
  if (lua_getiuservalue(L, 1, 2) == LUA_TNIL) return 0;
  lua_rawgeti(L, -1, 1);
  if (lua_isnil(L, 2)) return lua_error(L);
  mwb_warn_hook(L);
  return 0;
}

/* The pass ends, perhaps for an error. */
static int close_pass(lua_State *L) {
  if (mwb_put_off(L, mwb_state_of(L))) return 0;
  lua_settop(L, 2);
  return leave_open(L, LUA_OK, 0);
}

static int free_pass(lua_State *L) {
  mwb_pass *pass = (mwb_pass *)lua_touserdata(L, 1);
  mwb_hierarchy *d = pass->d;
  if (d == NULL || mwb_engine_of(d) == NULL) return 0;
  if (mwb_put_off(L, mwb_state_of(L))) return 0;
  if (!d->owned) pass->tape.n = 0; /* the names are gone */
  mwb_clear_tape(d, &pass->tape);
  mwi_free(mwb_engine_of(d), pass->open, pass->size * sizeof(uint32_t));
  pass->d = NULL;
  return 0;
}

const luaL_Reg mwb_pass_meta[] = {
    {"__close", close_pass}, {"__gc", free_pass}, {NULL, NULL}};

int mwb_backward(lua_State *L, mwb_hierarchy *d) {
  mwb_pass *pass;
  if (!d->recording || d->tape.n_left == 0) return 0;
  lua_settop(L, FUNCTION);
  pass = (mwb_pass *)lua_newuserdatauv(L, sizeof(mwb_pass), 2);
  memset(pass, 0, sizeof(mwb_pass));
  pass->d = d;
  lua_getiuservalue(L, MWB_UPDATA, PASS_META);
  lua_setmetatable(L, PASS);
  mwb_push_pass(L);
  lua_setiuservalue(L, PASS, 1);
  pass->open =
      (uint32_t *)mwi_new(mwb_engine_of(d), d->tape.n_left * sizeof(uint32_t));
  if (pass->open == NULL) mwb_check(L, MW_NOMEM);
  pass->size = d->tape.n_left;
  lua_pushvalue(L, PASS);
  set_pass(L, d); /* the last that needs memory */
  lua_settop(L, PASS);
  lua_toclose(L, PASS);
  pass->tape = d->tape;
  pass->to_go = pass->tape.n_left;
  pass->first = mwb_stack_of(L, d)->n;
  pass->order = mwb_engine_of(d)->scope.orders;
  memset(&d->tape, 0, sizeof(mwb_tape));
  return go_on(L, LUA_OK, 0);
}

/* }====================================================== */
