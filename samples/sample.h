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
#include <sys/stat.h>
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

/* The byte that belongs to an offset of a new file. */
static inline unsigned char byte_at(size_t offset) {
  return (unsigned char)(offset * 7 + offset / 4096 * 13);
}

/* What a sample's file holds, to compare with: the first `size` bytes that its sample_file() was asked for. */
static unsigned char* sample_bytes;

/* Stops the program: it works on no file that it cannot use, and changes none that was there. */
static inline void refuse_file(const char* name, const char* why, const char* remedy) {
  fprintf(stderr, "%s %s.\n%s\n", name, why, remedy);
  exit(1);
}

/* A new file, full of those bytes: by the name that the command line gives, or in /tmp and gone at the end. */
static inline int new_file(const char* given, size_t size) {
  char name[] = "/tmp/sample-XXXXXX";
  const int file = given != NULL ? open(given, O_RDWR | O_CREAT | O_EXCL, 0644) : mkstemp(name);
  if (file < 0 && errno == EEXIST) {
    refuse_file(given, "is there already, and this sample writes", "Name a file that is not there yet.");
  }
  want(file >= 0, "making the file");
  if (given == NULL) unlink(name);
  sample_bytes = malloc(size);
  want(sample_bytes != NULL, "malloc");
  for (size_t i = 0; i < size; ++i) sample_bytes[i] = byte_at(i);
  want(write(file, sample_bytes, size) == (ssize_t)size, "writing the file");
  return file;
}

/* A file to read `size` bytes of: the one that the command line names, as it is, or a new one. */
static inline int sample_file(int argc, char** argv, size_t size) {
  struct stat status;
  if (argc <= 1) return new_file(NULL, size);
  if (stat(argv[1], &status) != 0) return new_file(argv[1], size);
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    refuse_file(argv[1], "is neither a file nor a block device", "Name one, or a file that is not there yet.");
  }
  const int file = open(argv[1], O_RDONLY);
  want(file >= 0, "opening the file");
  sample_bytes = malloc(size);
  want(sample_bytes != NULL, "malloc");
  for (size_t done = 0; done < size;) {
    const ssize_t count = pread(file, sample_bytes + done, size - done, (off_t)done);
    want(count >= 0, "reading the file without cuFile");
    if (count == 0) {
      char why[100];
      snprintf(why, sizeof why, "has %zu bytes, and this sample reads %zu", done, size);
      refuse_file(argv[1], why, "Name a larger file, or one that is not there yet.");
    }
    done += (size_t)count;
  }
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
  for (size_t i = 0; i < size; ++i) want(bytes[i] == sample_bytes[offset + i], "comparing the bytes");
  free(bytes);
}

/* Device addresses are numbers to CUDA and pointers to cuFile. */
static inline void* pointer(CUdeviceptr address) {
  return (void*)(size_t)address;
}

#endif
