// SPDX-License-Identifier: Apache-2.0
// What the kernel maps memory and caches files by: 4 KiB on x86-64, and 4, 16 or 64 KiB on Arm, as the kernel was
// built.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace sluice::base {

inline std::size_t page_size() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));  // of the C library alone: no system call
}

constexpr std::size_t whole_pages(std::size_t bytes, std::size_t page) noexcept {
  return (bytes + page - 1) / page * page;
}

}  // namespace sluice::base
