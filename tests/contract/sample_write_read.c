/* SPDX-License-Identifier: Apache-2.0 */
/* A second cuFile program in C: a registered buffer, written to a file piece by piece at offsets in both, then read
 * back into another place of the same buffer.
 *
 *   sample_write_read FILE      creates FILE and removes it; exits with 0 when every byte came back */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "cufile.h"
#include "sample_gpu.h"

enum { PIECE = 65536, PIECES = 16, HALF = PIECE * PIECES, WHOLE = 2 * HALF };

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return -1;
}

/* Odd pieces first, then even ones: the order of writing is not the order in the file. */
static int write_pieces(CUfileHandle_t handle, const void* buffer) {
  int first;
  int piece;
  for (first = 1; first >= 0; --first) {
    for (piece = first; piece < PIECES; piece += 2) {
      const off_t offset = (off_t)piece * PIECE;
      if (cuFileWrite(handle, buffer, PIECE, offset, offset) != PIECE) return fail("cuFileWrite", "no full piece");
    }
  }
  return 0;
}

/* Into the second half, in pieces of another size. */
static int read_back(CUfileHandle_t handle, void* buffer) {
  const size_t step = 3 * (size_t)PIECE + 77;
  size_t done = 0;
  while (done < HALF) {
    const size_t left = HALF - done;
    const size_t size = left < step ? left : step;
    const ssize_t count = cuFileRead(handle, buffer, size, (off_t)done, (off_t)(HALF + done));
    if (count <= 0) return fail("cuFileRead", "nothing was read");
    done += (size_t)count;
  }
  return 0;
}

static int run(int fd, const sample_gpu_t* gpu, unsigned char* host) {
  void* buffer = sample_allocate(gpu, WHOLE);
  CUfileDescr_t description;
  CUfileHandle_t handle;
  CUfileError_t status;
  int result;
  int i;
  if (buffer == NULL) return fail("GPU memory", "there is none");
  for (i = 0; i < WHOLE; ++i) host[i] = (unsigned char)(i < HALF ? (i * 31) ^ (i >> 8) : 0);
  sample_put(gpu, buffer, host, WHOLE);

  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  status = cuFileHandleRegister(&handle, &description);
  if (status.err != CU_FILE_SUCCESS) return fail("cuFileHandleRegister", CUFILE_ERRSTR(status.err));
  status = cuFileBufRegister(buffer, WHOLE, 0);
  if (status.err != CU_FILE_SUCCESS) return fail("cuFileBufRegister", CUFILE_ERRSTR(status.err));

  result = write_pieces(handle, buffer) == 0 && fsync(fd) == 0 && read_back(handle, buffer) == 0 ? 0 : -1;

  status = cuFileBufDeregister(buffer);
  if (status.err != CU_FILE_SUCCESS) result = fail("cuFileBufDeregister", CUFILE_ERRSTR(status.err));
  cuFileHandleDeregister(handle);
  sample_get(gpu, host, buffer, WHOLE);
  sample_release(gpu, buffer);
  return result == 0 && memcmp(host, host + HALF, HALF) == 0 ? 0 : -1;
}

int main(int argc, char** argv) {
  static unsigned char host[WHOLE];
  const sample_gpu_t gpu = sample_gpu_open();
  int fd;
  int result;
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  fd = open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
  if (fd < 0) {
    perror(argv[1]);
    return 1;
  }
  result = run(fd, &gpu, host);
  close(fd);
  unlink(argv[1]);
  printf("%s\n", result == 0 ? "every byte came back" : "the bytes differ");
  return result == 0 ? 0 : 1;
}
