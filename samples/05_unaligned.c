/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets and sizes need no alignment, not even with O_DIRECT: the library sees to the ragged edges. Whole blocks of
 * 4096 are quicker. */
#include "sample.h"

int main(int argc, char** argv) {
  const size_t size = 1 << 20;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  fcntl(file, F_SETFL, O_DIRECT); /* refused where the file system does not know it, and then as good without */
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);

  const size_t offsets[] = {0, 1, 4095, 4097, 500001};
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; ++i) {
    const size_t part = 99991;
    want(cuFileRead(handle, pointer(memory), part, (off_t)offsets[i], 3) == (ssize_t)part, "cuFileRead");
    want_bytes(memory + 3, part, offsets[i]);
    printf("99991 bytes from %zu on\n", offsets[i]);
  }

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
