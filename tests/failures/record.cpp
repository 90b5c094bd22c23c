// SPDX-License-Identifier: Apache-2.0
#include "failures/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace sluice::failures {

namespace {

constexpr std::size_t kRoom = 65536;

}  // namespace

Record::Record(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  void* const mapped = fd >= 0 && ftruncate(fd, kRoom) == 0
                           ? mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0)
                           : MAP_FAILED;
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
  close(fd);
  lines_ = static_cast<char*>(mapped);
}

void Record::tell(const char* format, ...) noexcept {
  std::array<char, 1024> line{};
  va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(line.data(), line.size() - 1, format, values);
  va_end(values);
  if (length < 0) return;
  const std::size_t size = std::min(static_cast<std::size_t>(length), line.size() - 2);
  line[size] = '\n';
  const std::size_t at = used_.fetch_add(size + 1);
  if (at + size + 1 < kRoom) std::memcpy(lines_ + at, line.data(), size + 1);
}

}  // namespace sluice::failures
