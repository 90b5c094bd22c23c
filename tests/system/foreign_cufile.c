/* SPDX-License-Identifier: Apache-2.0 */
/* A libcufile.so.0 that is not Sluice's: it answers a version of its own, so that a test can tell whom a program runs
 * on, and nothing else. */
#include <stddef.h>

typedef struct {
  int err;
  int cu_err;
} Result;

Result cuFileGetVersion(int* version);
Result cuFileGetVersion(int* version) {
  const Result success = {0, 0};
  *version = 9990;
  return success;
}

/* There so that the client links; a program that runs on this library by mistake fails in them. */
static Result refuse(void) {
  const Result internal_error = {5030, 0};
  return internal_error;
}

Result cuFileHandleRegister(void** handle, void* description);
Result cuFileHandleRegister(void** handle, void* description) {
  (void)description;
  *handle = NULL;
  return refuse();
}

void cuFileHandleDeregister(void* handle);
void cuFileHandleDeregister(void* handle) {
  (void)handle;
}

long cuFileRead(void* handle, void* memory, size_t size, long offset, long memory_offset);
long cuFileRead(void* handle, void* memory, size_t size, long offset, long memory_offset) {
  (void)handle, (void)memory, (void)size, (void)offset, (void)memory_offset;
  return -1;
}
