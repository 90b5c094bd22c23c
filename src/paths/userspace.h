// SPDX-License-Identifier: Apache-2.0
// Files whose handle came with read and write operations of its own: those are called, with host memory.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

class Userspace final : public Path {
 public:
  // Callers hear of their own operations as these answer, so a short count is taken for what it says. Its reason is
  // what kept the request from `rdma`, the path before.
  constexpr Userspace() noexcept : Path({.id = SLUICE_PATH_USERSPACE}) {}

  bool concerns(const File& file) const noexcept override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
};

extern const Userspace userspace;

// A plain read of a file's bytes into host memory, by what serves them: the caller's own operation where there is
// one, else the private description.
base::Outcome read_plainly(const Ends& ends, std::span<std::byte> into, base::FileOffset at) noexcept;

}  // namespace sluice::paths
