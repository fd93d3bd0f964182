/*
** os.h - what the binding asks of the operating system.
** SPDX-License-Identifier: MIT
*/
#ifndef MWB_OS_H
#define MWB_OS_H

#include <stdint.h>

/* Returns the time: nanoseconds since some moment, never less than before. */
int64_t mwb_os_now(void);

/* Looks at a file: the time of its last change, in nanoseconds, and its size.
** Returns 0 if there is no such file. */
int mwb_os_look(const char *path, int64_t *changed, int64_t *size);

#define MWB_OS_LONGEST 4096 /* path, with the zero at its end */

/* Returns the path of the plain file that is at a path, or is to be: `path`, or
** the one to which links lead, in `place`, which has room for the longest one.
** Returns NULL for a device, a directory, a link that leads nowhere, and where
** the system does not tell. */
const char *mwb_os_place(const char *path, char *place);

/* Moves a file, in place of a file that has the new name, and gives it the mode
** of that one.  Returns 0 after an error, with the reason in `errno`. */
int mwb_os_move(const char *path, const char *to);

#endif
