// SPDX-License-Identifier: Apache-2.0
// A node of nvidia-fs.ko, opened, and its calls.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "nvfs/protocol.h"

namespace sluice::nvfs {

class Node {
 public:
  // The first node that can be opened. The error is that of the last one else: ENOENT where there are none.
  static Node open(int& error) noexcept;

  Node() noexcept = default;
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }

  // The module's answer: a count, 0, or -errno.
  std::int64_t call(Call call, Argument& argument) const noexcept;

 private:
  explicit Node(base::UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  base::UniqueFd fd_;
};

}  // namespace sluice::nvfs
