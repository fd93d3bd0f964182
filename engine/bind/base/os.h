/*
** os.h - what the binding asks of the operating system.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_OS_H
#define MWB_OS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the time: nanoseconds since some moment, never less than before. */
int64_t mwb_os_now(void);

/* A file: the time of its last change, in nanoseconds, and its size. */
typedef struct mwb_os_file {
  int64_t changed, size;
  int is_plain; /* or a device, a directory, ... */
} mwb_os_file;

/* Looks at a file.  Returns 0 if there is no such file. */
int mwb_os_look(const char *path, mwb_os_file *file);

/* Moves a file, in place of a file that has the new name.  Returns 0 after an
** error, with the reason in `errno`. */
int mwb_os_move(const char *path, const char *to);

/* Copies the path to which a link leads.  Returns 0 if there is no link. */
int mwb_os_link(const char *path, char *place, size_t size);

/* Opens a file that does not exist yet, with the mode, and if possible the
** owner, of the file `like`, if there is one.  Nobody else may read what is
** written before.  Returns NULL after an error, with the reason in `errno`. */
FILE *mwb_os_create(const char *path, const char *like);

/* Returns a number that nobody can guess. */
uint64_t mwb_os_chance(void);

#endif
