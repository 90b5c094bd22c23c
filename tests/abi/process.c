/* SPDX-License-Identifier: Apache-2.0 */
/* What the loading tests ask the kernel about their own process. */
#include "process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long entries_in(const char* directory) {
  DIR* entries = opendir(directory);
  long count = 0;
  const struct dirent* entry;
  if (entries == NULL) return -1;
  while ((entry = readdir(entries)) != NULL) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) ++count;
  }
  closedir(entries);
  return count;
}

/* The directory is open while it is counted: it counts itself, each time. */
long open_descriptors(void) {
  return entries_in("/proc/self/fd") - 1;
}

long threads(void) {
  return entries_in("/proc/self/task");
}

long mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  long lines = 0;
  int byte;
  if (maps == NULL) return -1;
  while ((byte = fgetc(maps)) != EOF) lines += byte == '\n';
  fclose(maps);
  return lines;
}

long status_kib(const char* key) {
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  if (status == NULL) return -1;
  while (kib < 0 && fgets(line, sizeof line, status) != NULL) {
    const size_t length = strlen(key);
    if (strncmp(line, key, length) == 0 && line[length] == ':') kib = strtol(line + length + 1, NULL, 10);
  }
  fclose(status);
  return kib;
}

int scratch_file(void) {
  char path[] = "./scratch.XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0 || unlink(path) != 0) {
    perror("a scratch file cannot be made in the working directory");
    exit(2);
  }
  return fd;
}

void make_directory(char* path, unsigned long room, const char* name) {
  snprintf(path, room, "./%s.XXXXXX", name);
  if (mkdtemp(path) == NULL) {
    perror("a scratch directory cannot be made in the working directory");
    exit(2);
  }
}

void* load(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "dlopen: %s\n", dlerror());
    exit(1);
  }
  return handle;
}
