// SPDX-License-Identifier: Apache-2.0
// How long a test waits for what has to come: only a fault gets there.
#pragma once

#include <chrono>

namespace sluice::support {

class Deadline {
 public:
  explicit Deadline(std::chrono::seconds from_now = std::chrono::seconds(60))
      : at_(std::chrono::steady_clock::now() + from_now) {}
  bool has_passed() const { return std::chrono::steady_clock::now() > at_; }

 private:
  std::chrono::steady_clock::time_point at_;
};

}  // namespace sluice::support
