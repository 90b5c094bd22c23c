/* SPDX-License-Identifier: Apache-2.0 */
/* What a failure looks like: -1 and errno, which holds a system error or a cuFile code; a short count at the end of the
 * file is none. */
#include "sample.h"

static void explain(const char* what, ssize_t result) {
  if (result >= 0) {
    printf("%s: %zd bytes\n", what, result);
  } else if (IS_CUFILE_ERR(errno)) {
    printf("%s: cuFile says: %s\n", what, CUFILE_ERRSTR(errno));
  } else {
    printf("%s: the system says: %s\n", what, strerror(errno));
  }
}

int main(int argc, char** argv) {
  const size_t size = 100000;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const off_t end = lseek(file, 0, SEEK_END);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);

  ssize_t count = cuFileRead(handle, pointer(memory), size, end - 40000, 0);
  explain("a read across the end", count);
  want(count == 40000, "a short count");
  count = cuFileRead(handle, pointer(memory), size, end, 0);
  explain("a read at the end", count);
  want(count == 0, "nothing");
  count = cuFileRead(handle, pointer(memory), size, -1, 0);
  explain("a negative offset", count);
  want(count == -1 && errno == CU_FILE_INVALID_VALUE, "a cuFile code");
  count = cuFileRead(NULL, pointer(memory), size, 0, 0);
  explain("no handle", count);
  want(count == -1 && errno == EINVAL, "a system error");

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
