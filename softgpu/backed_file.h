// SPDX-License-Identifier: Apache-2.0
// Files that memory of devices consists of.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice::softgpu {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// Asked before a file grows: what is beyond the limit (ulimit -f) ends a process by SIGXFSZ, without a word.
inline std::uint64_t largest_file() {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

// Readable and writable, shared with all that map the file, but for forked children and core dumps. Throws Refusal.
std::byte* map_shared(int file, std::uint64_t offset, std::uint64_t size);

}  // namespace sluice::softgpu
