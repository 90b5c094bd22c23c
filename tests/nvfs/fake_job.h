// SPDX-License-Identifier: Apache-2.0
// One call that moves, as the stand-in keeps it; fields by their offsets.
#pragma once

#include <cstring>

#include "nvfs/fake_module.h"

namespace sluice::nvfs_test {

template <typename T>
T field(const void* from, std::size_t offset) {
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(from) + offset, sizeof value);
  return value;
}

template <typename T>
void put(void* into, std::size_t offset, T value) {
  std::memcpy(static_cast<std::byte*>(into) + offset, &value, sizeof value);
}

struct FakeModule::Job {
  ShadowRef shadow;
  bool is_read = false;
  bool is_synchronous = false;
  int fd = -1;  // of our own: the caller's may be closed before the end
  std::int64_t at = 0;
  std::uint64_t length = 0;
  std::uint64_t gpu = 0;  // address
  std::uint64_t fence_value = 0;
  Fault fault;
};

}  // namespace sluice::nvfs_test
