/*
** os.c - what the binding asks of the operating system.
** SPDX-License-Identifier: MIT
**
** All functions that ISO C does not have are called here, and nowhere else.
*/
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* for nanoseconds of files */
#elif !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* likewise, and for clock_gettime */
#endif

#include "os.h"

#include <errno.h>
#include <stdio.h>

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

int mwb_os_look(const char *path, mwb_os_file *file) {
  WIN32_FILE_ATTRIBUTE_DATA data;
  if (!GetFileAttributesExA(path, GetFileExInfoStandard, &data)) return 0;
  file->changed = 100 * join(data.ftLastWriteTime.dwHighDateTime,
                             data.ftLastWriteTime.dwLowDateTime);
  file->size = join(data.nFileSizeHigh, data.nFileSizeLow);
  file->is_plain = (data.dwFileAttributes &
                    (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) == 0;
  return 1;
}

int mwb_os_move(const char *path, const char *to) {
  if (MoveFileExA(path, to, MOVEFILE_REPLACE_EXISTING)) return 1;
  errno = (GetLastError() == ERROR_FILE_NOT_FOUND) ? ENOENT : EACCES;
  return 0;
}

int mwb_os_link(const char *path, char *place, size_t size) {
  (void)path;
  (void)place;
  (void)size;
  return 0;
}

FILE *mwb_os_create(const char *path, const char *like) {
  (void)like;
  return fopen(path, "wbx"); /* only if there is no such file */
}

uint64_t mwb_os_chance(void) {
  return (uint64_t)mwb_os_now() ^ (uint64_t)GetCurrentProcessId() << 32;
}

#else

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

int mwb_os_look(const char *path, mwb_os_file *file) {
  struct stat st;
  if (stat(path, &st) != 0) return 0;
  file->changed = nanoseconds_of(&st.st_mtim);
  file->size = (int64_t)st.st_size;
  file->is_plain = S_ISREG(st.st_mode);
  return 1;
}

int mwb_os_move(const char *path, const char *to) {
  return rename(path, to) == 0;
}

int mwb_os_link(const char *path, char *place, size_t size) {
  ssize_t n = readlink(path, place, size - 1);
  if (n < 0) return 0;
  place[n] = '\0';
  return 1;
}

FILE *mwb_os_create(const char *path, const char *like) {
  struct stat st;
  int exists = stat(like, &st) == 0, fd;
  FILE *file;
  if (exists && access(like, W_OK) != 0) return NULL;
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL, exists ? 0600 : 0666);
  if (fd < 0) return NULL;
  if (exists && fchown(fd, st.st_uid, st.st_gid) != 0) errno = 0;
  file =
      (exists && fchmod(fd, st.st_mode & 0777) != 0) ? NULL : fdopen(fd, "wb");
  if (file != NULL) return file;
  close(fd);
  remove(path);
  return NULL;
}

uint64_t mwb_os_chance(void) {
  uint64_t chance = (uint64_t)mwb_os_now() ^ (uint64_t)getpid() << 32, more;
  int fd = open("/dev/urandom", O_RDONLY);
  if (fd < 0) return chance;
  if (read(fd, &more, sizeof(more)) == (ssize_t)sizeof(more)) chance ^= more;
  close(fd);
  return chance;
}

#endif
