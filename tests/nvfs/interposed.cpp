// SPDX-License-Identifier: Apache-2.0
// The functions of the C library that the stand-in answers. What is not its own ends in raw system calls, so that
// neither a sanitizer's nor glibc's wrapper stands between.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "nvfs/fake_module.h"

namespace {

using sluice::nvfs_test::FakeModule;

int open_file(const char* path, int flags, mode_t mode) {
  if (FakeModule* const fake = FakeModule::present()) {
    bool is_ours = false;
    const int fd = fake->open_special(path, is_ours);
    if (is_ours) return fd;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

void* map_memory(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  FakeModule* const fake = fd >= 0 ? FakeModule::present() : nullptr;
  if (fake != nullptr && fake->owns(fd)) return fake->map_shadow(length, protection, flags, offset);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

#define SLUICE_INTERPOSE_OPEN(name)                                   \
  int name(const char* path, int flags, ...) {                        \
    mode_t mode = 0;                                                  \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
      va_list more;                                                   \
      va_start(more, flags);                                          \
      mode = va_arg(more, mode_t);                                    \
      va_end(more);                                                   \
    }                                                                 \
    return open_file(path, flags, mode);                              \
  }
SLUICE_INTERPOSE_OPEN(open)
SLUICE_INTERPOSE_OPEN(open64)
int __open_2(const char* path, int flags) {  // NOLINT(bugprone-reserved-identifier): what fortified callers use
  return open_file(path, flags, 0);
}
int __open64_2(const char* path, int flags) {  // NOLINT(bugprone-reserved-identifier)
  return open_file(path, flags, 0);
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return map_memory(address, length, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) noexcept {
  return map_memory(address, length, protection, flags, fd, offset);
}

int munmap(void* address, size_t length) noexcept {
  if (FakeModule* const fake = FakeModule::present()) {
    if (fake->unmap_shadow(address, length)) return 0;
  }
  return static_cast<int>(syscall(SYS_munmap, address, length));
}

int ioctl(int fd, unsigned long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  void* const argument = va_arg(more, void*);
  va_end(more);
  FakeModule* const fake = FakeModule::present();
  if (fake != nullptr && fake->owns(fd)) return fake->call(number, argument);
  return static_cast<int>(syscall(SYS_ioctl, fd, number, argument));
}

int close(int fd) {
  if (FakeModule* const fake = FakeModule::present()) fake->closed(fd);
  return static_cast<int>(syscall(SYS_close, fd));
}

}  // extern "C"
#pragma GCC visibility pop
