/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in the order of a CUDA stream: the call returns at once, and whatever comes behind it on the stream finds
 * the bytes. The arguments stand behind pointers, and live until the stream has passed. */
#include "sample.h"

int main(int argc, char** argv) {
  size_t size = 2 << 20;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t count = 0;
  CUstream stream;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);
  WANT_CUDA(cuStreamCreate(&stream, 0));
  /* Optional: what is known at the call already need not be looked at when the stream gets there. */
  WANT_CUFILE(cuFileStreamRegister(
      stream, CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET | CU_FILE_STREAM_FIXED_FILE_SIZE));

  WANT_CUFILE(cuFileReadAsync(handle, pointer(memory), &size, &file_offset, &memory_offset, &count, stream));
  WANT_CUDA(cuStreamSynchronize(stream));
  want(count == (ssize_t)size, "the count; a negative one is the cause");
  want_bytes(memory, size, 0);
  printf("%zd bytes in the order of a stream\n", count);

  WANT_CUFILE(cuFileStreamDeregister(stream));
  cuStreamDestroy(stream);
  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
