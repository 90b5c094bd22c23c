/* SPDX-License-Identifier: Apache-2.0 */
/* A small cuFile program in C11: reads a file into memory through the public API, prints its size and checksum, and
 * says which way the bytes came. Usage: reader FILE
 *
 * It reads into host memory, so that it needs no CUDA at all; cuFileRead takes a device pointer in the same place. */
#define _POSIX_C_SOURCE 200809L
#include <cufile.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static uint32_t checksum(uint32_t sum, const unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) sum = (sum << 5 | sum >> 27) ^ bytes[i];
  return sum;
}

static int complain(const char* what, const char* why) {
  fprintf(stderr, "reader: %s: %s\n", what, why);
  return 1;
}

/* Reads to the end of the file; returns the exit status. */
static int read_all(CUfileHandle_t file, unsigned char* memory) {
  uint32_t sum = 0;
  off_t offset = 0;
  ssize_t count;
  while ((count = cuFileRead(file, memory, PIECE, offset, 0)) > 0) {
    sum = checksum(sum, memory, (size_t)count);
    offset += count;
  }
  if (count < 0) return complain("cuFileRead", IS_CUFILE_ERR(errno) ? CUFILE_ERRSTR(errno) : strerror(errno));

  sluice_explanation_t way;
  if (sluice_explain(file, memory, 0, CUFILE_READ, PIECE, 0, &way).err != CU_FILE_SUCCESS) {
    return complain("sluice_explain", sluice_last_error());
  }
  printf("%jd bytes, checksum %08" PRIx32 ", by %s: %s\n", (intmax_t)offset, sum, way.path_name, way.sentence);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return complain("usage", "reader FILE");
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return complain(argv[1], strerror(errno));

  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t file;
  const CUfileError_t registered = cuFileHandleRegister(&file, &description);
  if (registered.err != CU_FILE_SUCCESS) return complain(argv[1], cufileop_status_error(registered.err));

  unsigned char* memory = malloc(PIECE);
  const int status = memory == NULL ? complain("malloc", strerror(errno)) : read_all(file, memory);
  free(memory);
  cuFileHandleDeregister(file);
  close(fd);
  return status;
}
