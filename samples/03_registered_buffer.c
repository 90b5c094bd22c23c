/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is used often is registered once. The calls then name its base and an offset. */
#include "sample.h"

int main(int argc, char** argv) {
  const size_t size = 4 << 20;
  const size_t piece = 64 << 10;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);
  WANT_CUFILE(cuFileBufRegister(pointer(memory), size, 0));

  for (size_t at = 0; at < size; at += piece) {
    want(cuFileRead(handle, pointer(memory), piece, (off_t)at, (off_t)at) == (ssize_t)piece, "cuFileRead");
  }
  want_bytes(memory, size, 0);
  printf("%zu reads into one registered buffer\n", size / piece);

  /* Before the memory is freed. */
  WANT_CUFILE(cuFileBufDeregister(pointer(memory)));
  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
