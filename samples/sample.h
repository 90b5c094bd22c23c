// SPDX-License-Identifier: Apache-2.0
/* What the samples share: the few calls of the CUDA driver that they need, a file to read, and a way to stop with a
 * sentence. With a CUDA toolkit the declarations come from <cuda.h>; without one they stand here. */
#ifndef SAMPLE_H
#define SAMPLE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cufile.h"

#ifndef CUFILE_HAS_CUDA_H
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size);
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream);
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuStreamDestroy cuStreamDestroy_v2
#endif

/* Stops the program when `good` is not so. */
static inline void want(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "this failed: %s (errno: %s)\n", what, strerror(errno));
  exit(1);
}
#define WANT_CUDA(call) want((call) == 0, #call)
#define WANT_CUFILE(call) want((call).err == CU_FILE_SUCCESS, #call)

/* Device 0, its context current on this thread. */
static inline CUcontext use_gpu(void) {
  CUdevice device;
  CUcontext context;
  WANT_CUDA(cuInit(0));
  WANT_CUDA(cuDeviceGet(&device, 0));
  WANT_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  WANT_CUDA(cuCtxSetCurrent(context));
  return context;
}

static inline CUdeviceptr device_memory(size_t size) {
  CUdeviceptr address;
  WANT_CUDA(cuMemAlloc(&address, size));
  return address;
}

/* The byte that belongs to an offset of a sample's file. */
static inline unsigned char byte_at(size_t offset) {
  return (unsigned char)(offset * 7 + offset / 4096 * 13);
}

/* The file that the command line names, or one in /tmp that is gone at the end; full of those bytes. */
static inline int sample_file(int argc, char** argv, size_t size) {
  char name[] = "/tmp/sample-XXXXXX";
  const int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644) : mkstemp(name);
  want(file >= 0, "opening the file");
  if (argc <= 1) unlink(name);
  unsigned char* bytes = malloc(size);
  want(bytes != NULL, "malloc");
  for (size_t i = 0; i < size; ++i) bytes[i] = byte_at(i);
  want(write(file, bytes, size) == (ssize_t)size, "writing the file");
  free(bytes);
  return file;
}

static inline CUfileHandle_t register_file(int file) {
  CUfileHandle_t handle;
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = file;
  WANT_CUFILE(cuFileHandleRegister(&handle, &description));
  return handle;
}

/* Stops the program when `size` bytes of device memory are not those of the file from `offset` on. */
static inline void want_bytes(CUdeviceptr memory, size_t size, size_t offset) {
  unsigned char* bytes = malloc(size);
  want(bytes != NULL, "malloc");
  WANT_CUDA(cuMemcpyDtoH(bytes, memory, size));
  for (size_t i = 0; i < size; ++i) want(bytes[i] == byte_at(offset + i), "comparing the bytes");
  free(bytes);
}

/* Device addresses are numbers to CUDA and pointers to cuFile. */
static inline void* pointer(CUdeviceptr address) {
  return (void*)(size_t)address;
}

#endif
