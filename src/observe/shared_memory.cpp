// SPDX-License-Identifier: Apache-2.0
#include "observe/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice::observe {

namespace {

// Newer than the headers of the oldest systems that we build on.
constexpr unsigned memfd_noexec_seal = 0x8;
constexpr int seal_future_write = 0x10;

int create_memfd(const char* name) noexcept {
  const int fd = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_noexec_seal);
  if (fd >= 0 || errno != EINVAL) return fd;  // kernels before 6.3 do not know the last flag
  return ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

bool give_size(int fd, std::size_t size, Pages pages) noexcept {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
    errno = EFBIG;
    return false;
  }
  const auto length = static_cast<off_t>(size);
  return (pages == Pages::all_now ? ::fallocate(fd, 0, 0, length) : ::ftruncate(fd, length)) == 0;
}

}  // namespace

bool Shown::is_still_ours() const noexcept {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

int create_shared_memory(const char* name, std::size_t size, Pages pages) noexcept {
  const int fd = create_memfd(name);
  if (fd < 0 || give_size(fd, size, pages)) return fd;
  const int why = errno;
  ::close(fd);
  errno = why;
  return -1;
}

void* map_shared_memory(int fd, std::size_t size, void* place) noexcept {
  const int fixed = place == nullptr ? 0 : MAP_FIXED;
  void* const memory = ::mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void seal_shared_memory(int fd) noexcept {
  constexpr int size = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fcntl(fd, F_ADD_SEALS, size | seal_future_write | F_SEAL_SEAL) == 0) return;
  ::fcntl(fd, F_ADD_SEALS, size | F_SEAL_SEAL);  // before Linux 5.1
}

int move_out_of_the_way(int fd) noexcept {
  struct rlimit limit {};
  const rlim_t room = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 64;
  const int floor = static_cast<int>(std::clamp<rlim_t>(room / 2, 3, 512));
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, floor);
  if (moved < 0) return fd;
  ::close(fd);
  return moved;
}

Shown shown_by(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? Shown{fd, status.st_dev, status.st_ino} : Shown{};
}

}  // namespace sluice::observe
