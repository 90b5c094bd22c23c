// SPDX-License-Identifier: Apache-2.0
// A path that no release has: it moves the bytes of regular files by a mapping of them. It stands for every path that
// is still to come, and shows what one costs: this file, its source, and a line in the table (memory_table.cpp).
#pragma once

#include "paths/path.h"

namespace sluice::paths {

class MemoryPath final : public Path {
 public:
  // The enumeration of names is closed: this one counts under a name that no path of the test's table has.
  constexpr MemoryPath() noexcept : Path({.id = SLUICE_PATH_NVFS, .taken = SLUICE_REASON_DIRECT}) {}

  std::unique_ptr<Attachment> of_file(const File& file, SessionAttachment* session) const override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
};

extern const MemoryPath memory;

}  // namespace sluice::paths
