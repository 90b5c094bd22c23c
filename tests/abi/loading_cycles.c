/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and unloads the library a hundred times. After the first ten cycles, which fill the C library's own caches of
 * freed memory, the process must not grow: no descriptor, thread, mapping or heap memory more.
 *
 *     loading_cycles LIBRARY [use]
 *
 * With "use", each cycle also opens the driver, reads a file into host memory and closes the driver.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cufile.h"
#include "process.h"

enum { cycles = 100, cycles_to_settle = 10, file_size = 10000 };

struct Process {
  long descriptors;
  long threads;
  long mappings;
  long data_kib;
  long heap_bytes;
};

static struct Process look(void) {
  const struct Process process = {open_descriptors(), threads(), mappings(), status_kib("VmData"),
                                  (long)mallinfo2().uordblks};
  return process;
}

static void* need(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return symbol;
}

static void need_success(CUfileError_t status, const char* what) {
  if (status.err == CU_FILE_SUCCESS) return;
  fprintf(stderr, "%s: %s (%d)\n", what, cufileop_status_error(status.err), (int)status.err);
  exit(1);
}

/* POSIX lets a function travel in a void*; ISO C only by way of its bytes. */
#define NEED(library, name)                       \
  __typeof__(&(name)) call_##name;                \
  do {                                            \
    void* symbol = need(library, #name);          \
    memcpy(&call_##name, &symbol, sizeof symbol); \
  } while (0)

static void use(void* library, int fd) {
  static unsigned char buffer[file_size];
  CUfileHandle_t handle = NULL;
  CUfileDescr_t descr;
  NEED(library, cuFileDriverOpen);
  NEED(library, cuFileDriverClose_v2);
  NEED(library, cuFileHandleRegister);
  NEED(library, cuFileHandleDeregister);
  NEED(library, cuFileBufRegister);
  NEED(library, cuFileBufDeregister);
  NEED(library, cuFileRead);

  memset(&descr, 0, sizeof descr);
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd;
  need_success(call_cuFileDriverOpen(), "cuFileDriverOpen");
  need_success(call_cuFileHandleRegister(&handle, &descr), "cuFileHandleRegister");
  need_success(call_cuFileBufRegister(buffer, file_size, 0), "cuFileBufRegister");
  if (call_cuFileRead(handle, buffer, file_size, 0, 0) != file_size) {
    perror("cuFileRead");
    exit(1);
  }
  need_success(call_cuFileBufDeregister(buffer), "cuFileBufDeregister");
  call_cuFileHandleDeregister(handle);
  need_success(call_cuFileDriverClose_v2(), "cuFileDriverClose_v2");
}

static int check(const char* what, long before, long after) {
  printf("%s: %ld, then %ld%s\n", what, before, after, after <= before ? "" : " (wrong: it grew)");
  return after <= before ? 0 : 1;
}

int main(int argc, char** argv) {
  const int with_use = argc == 3 && strcmp(argv[2], "use") == 0;
  struct Process before = {0, 0, 0, 0, 0};
  if (argc != 2 && !with_use) {
    fprintf(stderr, "usage: %s LIBRARY [use]\n", argv[0]);
    return 2;
  }
  const int fd = scratch_file();
  if (ftruncate(fd, file_size) != 0) {
    perror("ftruncate");
    return 2;
  }

  look(); /* the first look fills the C library's buffers */
  for (int cycle = 0; cycle < cycles; ++cycle) {
    if (cycle == cycles_to_settle) before = look();
    void* library = load(argv[1]);
    if (with_use) use(library, fd);
    if (dlclose(library) != 0) {
      fprintf(stderr, "dlclose: %s\n", dlerror());
      return 1;
    }
  }
  const struct Process after = look();

  int wrong = 0;
  wrong += check("open descriptors", before.descriptors, after.descriptors);
  wrong += check("threads", before.threads, after.threads);
  wrong += check("mappings", before.mappings, after.mappings);
  wrong += check("data in KiB", before.data_kib, after.data_kib);
  wrong += check("heap in bytes", before.heap_bytes, after.heap_bytes);
  return wrong == 0 ? 0 : 1;
}
