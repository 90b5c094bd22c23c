/* SPDX-License-Identifier: Apache-2.0 */
/* The other way: GPU memory into a new file. The count says how much was written; fsync makes it last. */
#include "sample.h"

int main(int argc, char** argv) {
  enum { size = 300000 };
  static unsigned char bytes[size];
  use_gpu();
  const int file = new_file(argc > 1 ? argv[1] : NULL, 1);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = byte_at(i);
  WANT_CUDA(cuMemcpyHtoD(memory, bytes, size));

  want(cuFileWrite(handle, pointer(memory), size, 0, 0) == size, "cuFileWrite");
  want(fsync(file) == 0, "fsync");

  static unsigned char found[size];
  want(pread(file, found, size, 0) == size && memcmp(found, bytes, size) == 0, "reading it back");
  printf("%d bytes of GPU memory are in the file\n", size);

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
