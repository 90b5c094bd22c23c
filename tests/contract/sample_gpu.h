// SPDX-License-Identifier: Apache-2.0
/* What the two C samples need of a GPU: memory and copies, by the CUDA driver when it is there, else by malloc. Plain
 * C11 against no CUDA header at all. */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sample_gpu {
  int present;
  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*synchronize)(void);
  int (*allocate)(uint64_t*, size_t);
  int (*release)(uint64_t);
  int (*to_device)(uint64_t, const void*, size_t);
  int (*to_host)(void*, uint64_t, size_t);
} sample_gpu_t;

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that both look alike. */
static inline int sample_find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static inline sample_gpu_t sample_gpu_open(void) {
  sample_gpu_t gpu;
  void* context = NULL;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  memset(&gpu, 0, sizeof gpu);
  if (library == NULL) return gpu;
  gpu.present =
      sample_find(library, "cuInit", &gpu.init) && sample_find(library, "cuDevicePrimaryCtxRetain", &gpu.retain) &&
      sample_find(library, "cuCtxSetCurrent", &gpu.set_current) &&
      sample_find(library, "cuCtxSynchronize", &gpu.synchronize) &&
      sample_find(library, "cuMemAlloc_v2", &gpu.allocate) && sample_find(library, "cuMemFree_v2", &gpu.release) &&
      sample_find(library, "cuMemcpyHtoD_v2", &gpu.to_device) &&
      sample_find(library, "cuMemcpyDtoH_v2", &gpu.to_host) && gpu.init(0) == 0 && gpu.retain(&context, 0) == 0 &&
      gpu.set_current(context) == 0;
  return gpu;
}

static inline void* sample_allocate(const sample_gpu_t* gpu, size_t size) {
  uint64_t address = 0;
  if (!gpu->present) return malloc(size);
  return gpu->allocate(&address, size) == 0 ? (void*)(uintptr_t)address : NULL;
}

static inline void sample_release(const sample_gpu_t* gpu, void* memory) {
  if (gpu->present) {
    gpu->release((uint64_t)(uintptr_t)memory);
  } else {
    free(memory);
  }
}

static inline void sample_put(const sample_gpu_t* gpu, void* memory, const void* bytes, size_t size) {
  if (gpu->present) {
    if (gpu->to_device((uint64_t)(uintptr_t)memory, bytes, size) != 0 || gpu->synchronize() != 0) abort();
  } else {
    memcpy(memory, bytes, size);
  }
}

static inline void sample_get(const sample_gpu_t* gpu, void* bytes, const void* memory, size_t size) {
  if (gpu->present) {
    if (gpu->to_host(bytes, (uint64_t)(uintptr_t)memory, size) != 0) abort();
  } else {
    memcpy(bytes, memory, size);
  }
}
