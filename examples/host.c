/*
** host.c - a C program that tracks its own structs, without Lua.
** SPDX-License-Identifier: MIT
**
** cc -I engine examples/host.c engine/?*.c
*/
#include <moonwatch.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct ship {
  const char *name;
} ship;

static void *alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  (void)ud;
  (void)osize;
  if (nsize != 0) return realloc(ptr, nsize);
  free(ptr);
  return NULL;
}

/* Gives a ship an identity and tags it with the current frame. */
static int launch(mw_engine *e, const ship *s, mw_handle *h) {
  int code = mw_object_identify(e, s, h);
  return (code == MW_OK) ? mw_clock_tag(e, MW_CLOCK, *h) : code;
}

static void show_new(mw_engine *e) {
  int64_t now = mw_clock_now(e, MW_CLOCK);
  mw_walk walk;
  mw_handle h;
  mw_clock_since(e, MW_CLOCK, now, &walk);
  while ((h = mw_clock_next(e, &walk)) != MW_NONE) {
    const ship *s = (const ship *)mw_object_pointer(e, h);
    printf("frame %d: the %s is new\n", (int)now, s->name);
  }
}

static int play(mw_engine *e) {
  ship fleet[] = {{"Argo"}, {"Beagle"}, {"Calypso"}};
  mw_handle handles[3];
  int i;
  for (i = 0; i < 3; i++) {
    if (launch(e, &fleet[i], &handles[i]) != MW_OK) return 1;
    show_new(e);
    mw_clock_advance(e, MW_CLOCK);
  }
  mw_object_forget(
      e, handles[0]); /* the Argo sinks: its handle finds nothing now */
  printf("%s, %d ships left\n",
         (mw_object_pointer(e, handles[0]) == NULL) ? "sunk" : "afloat",
         (int)mw_object_count(e));
  return 0;
}

int main(void) {
  mw_engine *e = mw_engine_open(alloc, NULL);
  int status;
  if (e == NULL) return 1;
  status = play(e);
  mw_engine_close(e);
  return status;
}
