// SPDX-License-Identifier: Apache-2.0
// A large read has its links to itself, and does not need them to its end: while the last of its chunks are read, what
// comes next may begin. Who wants to know that is told, once, by the thread that reads.
#pragma once

#include <utility>

namespace sluice::transfer {

// For reads of this thread, while it lives.
class HandOn {
 public:
  HandOn() noexcept : before_(std::exchange(of_this_thread, this)) {}
  HandOn(const HandOn&) = delete;
  HandOn& operator=(const HandOn&) = delete;

  virtual void links_are_free() noexcept = 0;

  // Others may wait for it.
  static bool is_awaited() noexcept { return of_this_thread != nullptr; }
  static void tell() noexcept {
    HandOn* const told = of_this_thread;
    if (told != nullptr && !std::exchange(told->was_told_, true)) told->links_are_free();
  }

 protected:
  ~HandOn() { of_this_thread = before_; }

 private:
  static inline constinit thread_local HandOn* of_this_thread = nullptr;
  HandOn* const before_;
  bool was_told_ = false;
};

}  // namespace sluice::transfer
