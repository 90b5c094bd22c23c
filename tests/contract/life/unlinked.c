/* SPDX-License-Identifier: Apache-2.0 */
/* life_unlinked LIBCUFILE [stream]: a program that is not linked with the library. It loads it, closes it while one
   thread is inside a transfer and another opens and closes it all the time, and ends with everything open. `stream`:
   it closes it while a transfer waits in a stream; status 77 where there is no device. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cufile.h"

enum { bytes = 100003 };

static atomic_int inside, open_gate, stop;
static char source[bytes], target[bytes];
static const char* path;
static ssize_t (*read_file)(CUfileHandle_t, void*, size_t, off_t, off_t);

static ssize_t gated_read(void* handle, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
  (void)handle;
  (void)info;
  atomic_store(&inside, 1);
  while (!atomic_load(&open_gate)) usleep(1000);
  memcpy(buffer, source + offset, size);
  return (ssize_t)size;
}

static void require(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "failed: %s\n", what);
  _exit(1);
}

static void* load(void) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  require(library != NULL, "dlopen");
  return library;
}

static void* find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  require(symbol != NULL, name);
  return symbol;
}

static void* transfer(void* handle) {
  require(read_file(handle, target, bytes, 0, 0) == bytes, "the transfer");
  return NULL;
}

static void* load_and_unload(void* nothing) {
  while (!atomic_load(&stop)) dlclose(load());
  return nothing;
}

static void need(int result, const char* what) {
  require(result == 0, what);
}

static int close_under_a_stream(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = driver != NULL ? find(driver, "cuInit") : NULL;
  if (init == NULL || init(0) != 0) {
    puts("no CUDA device");
    return 77;
  }
  int (*retain)(void**, int) = find(driver, "cuDevicePrimaryCtxRetain");
  int (*push)(void*) = find(driver, "cuCtxPushCurrent_v2");
  int (*allocate)(unsigned long long*, size_t) = find(driver, "cuMemAlloc_v2");
  int (*allocate_host)(void**, size_t) = find(driver, "cuMemAllocHost_v2");
  int (*create)(void**, unsigned) = find(driver, "cuStreamCreate");
  int (*hold)(void*, unsigned long long, uint32_t, unsigned) = find(driver, "cuStreamWaitValue32_v2");
  int (*synchronize)(void*) = find(driver, "cuStreamSynchronize");
  int (*fetch)(void*, unsigned long long, size_t) = find(driver, "cuMemcpyDtoH_v2");
  void* context = NULL;
  void* gate = NULL;
  void* stream = NULL;
  unsigned long long memory = 0;
  need(retain(&context, 0), "the context");
  need(push(context), "making it current");
  need(allocate(&memory, bytes), "device memory");
  need(allocate_host(&gate, 64), "pinned memory");
  need(create(&stream, 1), "a stream");
  atomic_store((atomic_int*)gate, 0);

  char name[] = "/tmp/sluice-unlinked-XXXXXX";
  int fd = mkstemp(name);
  require(fd >= 0 && write(fd, source, bytes) == bytes, "a file");
  unlink(name);

  void* library = load();
  CUfileError_t (*register_handle)(CUfileHandle_t*, CUfileDescr_t*) = find(library, "cuFileHandleRegister");
  CUfileError_t (*read_async)(CUfileHandle_t, void*, size_t*, off_t*, off_t*, ssize_t*, CUstream) =
      find(library, "cuFileReadAsync");
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t handle = NULL;
  require(register_handle(&handle, &description).err == CU_FILE_SUCCESS, "registering");
  size_t size = bytes;
  off_t file_offset = 0, buffer_offset = 0;
  ssize_t moved = -77;
  need(hold(stream, (unsigned long long)(uintptr_t)gate, 1, 0), "making the stream wait");
  require(read_async(handle, (void*)(uintptr_t)memory, &size, &file_offset, &buffer_offset, &moved, stream).err ==
              CU_FILE_SUCCESS,
          "putting a read into the stream");
  require(dlclose(library) == 0, "dlclose");
  require(moved == -77, "it did not wait");
  atomic_store((atomic_int*)gate, 1);
  need(synchronize(stream), "the stream");
  require(moved == bytes, "the count");
  need(fetch(target, memory, bytes), "looking at the memory");
  require(memcmp(source, target, bytes) == 0, "what was read");
  puts("done");
  return 0;
}

int main(int argc, char** argv) {
  require(argc >= 2, "the library's path");
  path = argv[1];
  alarm(200);
  for (int i = 0; i < bytes; ++i) source[i] = (char)(i * 7 + 1);
  if (argc > 2 && strcmp(argv[2], "stream") == 0) return close_under_a_stream();

  void* library = load();
  read_file = (ssize_t(*)(CUfileHandle_t, void*, size_t, off_t, off_t))find(library, "cuFileRead");
  CUfileError_t (*register_handle)(CUfileHandle_t*, CUfileDescr_t*) = find(library, "cuFileHandleRegister");

  char name[] = "/tmp/sluice-unlinked-XXXXXX";
  int fd = mkstemp(name);
  require(fd >= 0, "a file");
  unlink(name);
  CUfileFSOps_t operations;
  memset(&operations, 0, sizeof operations);
  operations.read = gated_read;
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
  description.handle.fd = fd;
  description.fs_ops = &operations;
  CUfileHandle_t handle = NULL;
  require(register_handle(&handle, &description).err == CU_FILE_SUCCESS, "registering");

  pthread_t reader, loader;
  require(pthread_create(&reader, NULL, transfer, handle) == 0, "a thread");
  while (!atomic_load(&inside)) usleep(1000);
  require(pthread_create(&loader, NULL, load_and_unload, NULL) == 0, "a thread");
  require(dlclose(library) == 0, "dlclose");
  atomic_store(&open_gate, 1);
  pthread_join(reader, NULL);
  atomic_store(&stop, 1);
  pthread_join(loader, NULL);
  require(memcmp(source, target, bytes) == 0, "what was read");

  /* It is the same library still, with the same driver open. */
  library = load();
  long (*use_count)(void) = find(library, "cuFileUseCount");
  require(use_count() == 1, "the use count after dlclose");
  require(find(library, "cuFileRead") == (void*)read_file, "the library's address");
  require(read_file(handle, target, bytes, 0, 0) == bytes, "a transfer after dlclose");
  require(dlclose(library) == 0, "dlclose");
  puts("done");
  return 0;
}
