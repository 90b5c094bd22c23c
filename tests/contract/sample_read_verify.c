/* SPDX-License-Identifier: Apache-2.0 */
/* A first cuFile program in C: reads a file into GPU memory in one call and verifies it.
 *
 *   sample_read_verify FILE     creates FILE, reads it, removes it; exits with 0 when every byte was right */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cufile.h"
#include "sample_gpu.h"

#define FILE_SIZE ((size_t)(1 << 20) + 321)

static const char* cause_of(ssize_t result) {
  if (result != -1) return CUFILE_ERRSTR(result);
  return IS_CUFILE_ERR(errno) ? CUFILE_ERRSTR(errno) : strerror(errno);
}

static int create_file(const char* path, unsigned char* content) {
  const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  size_t i;
  for (i = 0; i < FILE_SIZE; ++i) content[i] = (unsigned char)((i * 2654435761u) >> 13);
  if (fd < 0 || write(fd, content, FILE_SIZE) != (ssize_t)FILE_SIZE) return -1;
  return close(fd);
}

static int read_and_compare(const char* path, const unsigned char* content, unsigned char* found) {
  const sample_gpu_t gpu = sample_gpu_open();
  CUfileDescr_t description;
  CUfileHandle_t handle;
  CUfileError_t status;
  ssize_t count;
  void* memory = sample_allocate(&gpu, FILE_SIZE);
  const int fd = open(path, O_RDONLY | O_DIRECT);
  if (memory == NULL || fd < 0) return -1;

  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  status = cuFileHandleRegister(&handle, &description);
  if (status.err != CU_FILE_SUCCESS) {
    fprintf(stderr, "cuFileHandleRegister: %s\n", CUFILE_ERRSTR(status.err));
    return -1;
  }
  count = cuFileRead(handle, memory, FILE_SIZE, 0, 0);
  if (count < 0) fprintf(stderr, "cuFileRead: %s\n", cause_of(count));
  cuFileHandleDeregister(handle);
  close(fd);
  sample_get(&gpu, found, memory, FILE_SIZE);
  sample_release(&gpu, memory);
  return count == (ssize_t)FILE_SIZE && memcmp(content, found, FILE_SIZE) == 0 ? 0 : -1;
}

int main(int argc, char** argv) {
  static unsigned char content[FILE_SIZE];
  static unsigned char found[FILE_SIZE];
  CUfileError_t status;
  int result;
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  if (create_file(argv[1], content) != 0) {
    perror(argv[1]);
    return 1;
  }
  status = cuFileDriverOpen();
  if (status.err != CU_FILE_SUCCESS) {
    fprintf(stderr, "cuFileDriverOpen: %s\n", CUFILE_ERRSTR(status.err));
    return 1;
  }
  result = read_and_compare(argv[1], content, found);
  status = cuFileDriverClose();
  unlink(argv[1]);
  printf("%s\n", result == 0 ? "every byte is right" : "the bytes differ");
  return result == 0 && status.err == CU_FILE_SUCCESS ? 0 : 1;
}
