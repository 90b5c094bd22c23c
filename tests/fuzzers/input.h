// SPDX-License-Identifier: Apache-2.0
// What a fuzzer is given, as text, and as files of its own.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace sluice::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A fuzzer that cannot work says why; libFuzzer takes the abort for a finding.
inline void require(bool holds, const char* what) {
  if (holds) return;
  static_cast<void>(!::write(STDERR_FILENO, what, std::strlen(what)));
  std::abort();
}

// A file in memory that readers of paths can open.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) { require(fd_ >= 0, "no memfd can be had\n"); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  void holds(std::string_view text) const {
    require(::ftruncate(fd_, 0) == 0, "ftruncate failed\n");
    require(::pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "pwrite failed\n");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace sluice::fuzz
