// SPDX-License-Identifier: Apache-2.0
// How long a test waits for what has to come: only a fault gets there.
#pragma once

#include <chrono>

namespace sluice::support {

// A sanitizer takes ten times as long for all that threads do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds long_enough{300};
#else
inline constexpr std::chrono::seconds long_enough{60};
#endif

class Deadline {
 public:
  explicit Deadline(std::chrono::seconds from_now = long_enough) : at_(std::chrono::steady_clock::now() + from_now) {}
  bool has_passed() const { return std::chrono::steady_clock::now() > at_; }

 private:
  std::chrono::steady_clock::time_point at_;
};

}  // namespace sluice::support
