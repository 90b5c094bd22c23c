/* SPDX-License-Identifier: Apache-2.0 */
/* One handle, many threads: each reads its own part into its own part of the memory. */
#include "sample.h"

#include <pthread.h>

enum { threads = 4, part = 1 << 20 };

static CUcontext context;
static CUfileHandle_t handle;
static CUdeviceptr memory;

static void* read_part(void* argument) {
  const size_t at = *(const size_t*)argument * part;
  WANT_CUDA(cuCtxSetCurrent(context));
  want(cuFileRead(handle, pointer(memory), part, (off_t)at, (off_t)at) == part, "cuFileRead");
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t readers[threads];
  size_t numbers[threads];
  context = use_gpu();
  const int file = sample_file(argc, argv, (size_t)threads * part);
  handle = register_file(file);
  memory = device_memory((size_t)threads * part);

  for (size_t i = 0; i < threads; ++i) {
    numbers[i] = i;
    want(pthread_create(&readers[i], NULL, read_part, &numbers[i]) == 0, "pthread_create");
  }
  for (size_t i = 0; i < threads; ++i) pthread_join(readers[i], NULL);
  want_bytes(memory, (size_t)threads * part, 0);
  printf("%d threads have read a part each\n", threads);

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
