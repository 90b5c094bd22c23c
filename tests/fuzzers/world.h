// SPDX-License-Identifier: Apache-2.0
// What transfers of a fuzzer have: a file, and memory between guards that nothing may write.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cufile.h"
#include "input.h"

namespace sluice::fuzz {

inline constexpr std::size_t memory_bytes = 1 << 16;

class World {
 public:
  World() {
    const int fd = ::memfd_create("fuzz-transfers", MFD_CLOEXEC);
    require(fd >= 0 && ::ftruncate(fd, memory_bytes) == 0, "no file for transfers\n");
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    require(cuFileHandleRegister(&handle_, &description).err == CU_FILE_SUCCESS, "the file is refused\n");
  }

  CUfileHandle_t handle() const { return handle_; }
  std::uint8_t* memory() { return bytes_.data() + guard_bytes; }
  void require_whole_guards() const {
    require(is_guard(bytes_.data()), "bytes in front of the memory changed\n");
    require(is_guard(bytes_.data() + guard_bytes + memory_bytes), "bytes behind the memory changed\n");
  }

 private:
  static constexpr std::size_t guard_bytes = 1 << 16;
  static constexpr std::uint8_t guard = 0xa5;

  static bool is_guard(const std::uint8_t* bytes) {
    return std::all_of(bytes, bytes + guard_bytes, [](std::uint8_t byte) { return byte == guard; });
  }

  CUfileHandle_t handle_ = nullptr;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(memory_bytes + 2 * guard_bytes, guard);
};

// Little-endian, wherever the input ends.
inline std::uint64_t number(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  return value;
}

}  // namespace sluice::fuzz
