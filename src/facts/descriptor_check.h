// SPDX-License-Identifier: Apache-2.0
// A registered descriptor as it is just now.
#pragma once

#include <cstdint>

#include "facts/file.h"

namespace sluice::facts {

// The system is asked once, when it is first needed.
class DescriptorCheck {
 public:
  DescriptorCheck(int fd, const FileFacts& registered) noexcept : fd_(fd), registered_(registered) {}

  // Does the descriptor still belong to the file that was registered? Where not, nothing is to be done with it.
  bool finds_the_file() noexcept {
    if (!asked_) ask();
    return found_;
  }
  // Where the file ends; ~0 where a size means nothing (block devices), 0 where the descriptor belongs to another.
  std::uint64_t size() noexcept {
    if (!asked_) ask();
    return size_;
  }
  bool asked() const noexcept { return asked_; }

  // Asked anew: has the number gone to another file? Not where it is closed: nothing was moved but by the file's own.
  bool belongs_to_another() const noexcept;

 private:
  void ask() noexcept;

  const int fd_;
  const FileFacts& registered_;
  bool asked_ = false;
  bool found_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace sluice::facts
