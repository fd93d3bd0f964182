/*
** os.c - what the binding asks of the operating system.
** SPDX-License-Identifier: MIT
**
** All functions that ISO C does not have are called here, and nowhere else.
*/
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* for nanoseconds of files */
#elif !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700 /* likewise, and for clock_gettime and realpath */
#endif

#include "os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

int64_t mwb_os_now(void) {
  LARGE_INTEGER ticks, frequency; /* ticks a second */
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&frequency);
  return ticks.QuadPart / frequency.QuadPart * 1000000000 +
         ticks.QuadPart % frequency.QuadPart * 1000000000 / frequency.QuadPart;
}

static int64_t join(DWORD high, DWORD low) {
  return (int64_t)((uint64_t)high << 32 | low);
}

int mwb_os_look(const char *path, int64_t *changed, int64_t *size) {
  WIN32_FILE_ATTRIBUTE_DATA data;
  if (!GetFileAttributesExA(path, GetFileExInfoStandard, &data)) return 0;
  *changed = 100 * join(data.ftLastWriteTime.dwHighDateTime,
                        data.ftLastWriteTime.dwLowDateTime);
  *size = join(data.nFileSizeHigh, data.nFileSizeLow);
  return 1;
}

const char *mwb_os_place(const char *path, char *place) {
  DWORD is = GetFileAttributesA(path);
  int special = is != INVALID_FILE_ATTRIBUTES &&
                (is & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE |
                       FILE_ATTRIBUTE_REPARSE_POINT)) != 0;
  (void)place;
  return special ? NULL : path;
}

int mwb_os_move(const char *path, const char *to) {
  if (MoveFileExA(path, to, MOVEFILE_REPLACE_EXISTING)) return 1;
  errno = (GetLastError() == ERROR_FILE_NOT_FOUND) ? ENOENT : EACCES;
  return 0;
}

#else

#include <sys/stat.h>
#include <time.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

static int64_t nanoseconds_of(const struct timespec *t) {
  return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

int64_t mwb_os_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return nanoseconds_of(&t);
}

int mwb_os_look(const char *path, int64_t *changed, int64_t *size) {
  struct stat st;
  if (stat(path, &st) != 0) return 0;
  *changed = nanoseconds_of(&st.st_mtim);
  *size = (int64_t)st.st_size;
  return 1;
}

const char *mwb_os_place(const char *path, char *place) {
  struct stat st;
  if (strncmp(path, "/dev/", 5) == 0) return NULL; /* as /dev/stdout */
  if (lstat(path, &st) != 0 || S_ISREG(st.st_mode)) return path; /* or new */
  return (stat(path, &st) == 0 && S_ISREG(st.st_mode)) ? realpath(path, place)
                                                       : NULL;
}

int mwb_os_move(const char *path, const char *to) {
  struct stat st;
  if (stat(to, &st) == 0 && chmod(path, st.st_mode & 0777) != 0) return 0;
  return rename(path, to) == 0;
}

#endif
