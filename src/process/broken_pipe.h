// SPDX-License-Identifier: Apache-2.0
// SIGPIPE from storage. The kernel's driver for NVMe/TCP sends requests in the thread that makes them, and when the
// connection breaks just then, that thread gets the signal, as if it had written to the socket. Its transfer goes on by
// another path, or when the connection is back; the program, which knows of no socket, would be ended.
#pragma once

#include <atomic>

namespace sluice::process {

// Whether a file that lies on such storage was registered.
inline constinit std::atomic<bool> broken_pipes_expected{false};

// As long as it lives, what the kernel sends this thread waits; it is taken away at the end. A SIGPIPE that waited for
// the thread before, and the thread's mask, are as they were. Does nothing as long as no broken pipe is expected.
class BrokenPipeHeld {
 public:
  BrokenPipeHeld() noexcept : holds_(broken_pipes_expected.load(std::memory_order_relaxed)) {
    if (holds_) hold();
  }
  ~BrokenPipeHeld() {
    if (holds_) let_go();
  }
  BrokenPipeHeld(const BrokenPipeHeld&) = delete;
  BrokenPipeHeld& operator=(const BrokenPipeHeld&) = delete;

 private:
  void hold() noexcept;
  void let_go() const noexcept;

  const bool holds_;
  bool held_before_ = false;  // by the program
  bool waited_before_ = false;
};

}  // namespace sluice::process
