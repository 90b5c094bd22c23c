/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest way: open a file, register it, read it into GPU memory. Nothing has to be opened or set up before. */
#include "sample.h"

int main(int argc, char** argv) {
  const size_t size = 1 << 20;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);

  const ssize_t count = cuFileRead(handle, pointer(memory), size, 0, 0);
  want(count == (ssize_t)size, "cuFileRead");
  want_bytes(memory, size, 0);
  printf("%zd bytes are in GPU memory\n", count);

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
