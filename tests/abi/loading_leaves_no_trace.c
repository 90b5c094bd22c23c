/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the library and compares the process before and after: no thread, no open descriptor, no file in the places
 * where libraries like to drop them, no word on stdout or stderr, less than 1 MiB of memory.
 *
 *     loading_leaves_no_trace LIBRARY
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

enum { memory_limit_kib = 1024 };

struct Process {
  long threads;
  long descriptors;
  long data_kib;
};

static struct Process look(void) {
  const struct Process process = {threads(), open_descriptors(), status_kib("VmData")};
  return process;
}

/* The size of what stands behind a descriptor. */
static long bytes_in(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? (long)status.st_size : -1;
}

static int check(const char* what, long actual, long lowest, long highest) {
  const int holds = actual >= lowest && actual <= highest;
  printf("%s: %ld%s\n", what, actual, holds ? "" : " (wrong)");
  return holds ? 0 : 1;
}

int main(int argc, char** argv) {
  char place[64];
  char library[PATH_MAX];
  if (argc != 2 || realpath(argv[1], library) == NULL) {
    fprintf(stderr, "usage: %s LIBRARY (an existing file)\n", argv[0]);
    return 2;
  }

  /* One directory stands for all the places, so that what appears in it can only be the library's. */
  make_directory(place, sizeof place, "loading");
  if (chdir(place) != 0) return 2;
  const char* const places[] = {"HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) setenv(places[i], ".", 1);

  /* stdout and stderr become files during the load; what was in their buffers goes out before. */
  fflush(NULL);
  const int saved_out = dup(STDOUT_FILENO);
  const int saved_err = dup(STDERR_FILENO);
  const int out = scratch_file();
  const int err = scratch_file();
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);

  look(); /* the first look fills the C library's buffers */
  const struct Process before = look();
  load(library);
  fflush(NULL);
  const struct Process after = look();

  dup2(saved_out, STDOUT_FILENO);
  dup2(saved_err, STDERR_FILENO);
  int wrong = 0;
  wrong += check("new threads", after.threads - before.threads, 0, 0);
  wrong += check("new open descriptors", after.descriptors - before.descriptors, 0, 0);
  wrong += check("new files in the working directory, HOME and TMPDIR", entries_in("."), 0, 0);
  wrong += check("bytes on stdout", bytes_in(out), 0, 0);
  wrong += check("bytes on stderr", bytes_in(err), 0, 0);
  wrong += check("new memory in KiB", after.data_kib - before.data_kib, 0, memory_limit_kib);
  if (chdir("..") == 0) rmdir(place);
  return wrong == 0 ? 0 : 1;
}
