// SPDX-License-Identifier: Apache-2.0
#include "lab/probe/system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace sluice::lab {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

File::File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
}

File::~File() {
  close(fd_);
}

void must_read(int fd, std::span<std::byte> memory, off_t offset) {
  const ssize_t count = pread(fd, memory.data(), memory.size(), offset);
  if (count < 0) throw std::system_error(errno, std::generic_category(), "a read into ordinary memory failed");
  if (static_cast<std::size_t>(count) != memory.size()) throw std::runtime_error("a read ended early");
}

void must_write(int fd, std::span<const std::byte> memory, off_t offset) {
  const ssize_t count = pwrite(fd, memory.data(), memory.size(), offset);
  if (count < 0) throw std::system_error(errno, std::generic_category(), "a write from ordinary memory failed");
  if (static_cast<std::size_t>(count) != memory.size()) throw std::runtime_error("a write ended early");
}

}  // namespace sluice::lab
