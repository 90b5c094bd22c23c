// SIGPIPE from storage. The kernel's driver for NVMe/TCP sends requests in the thread that makes them, and when the
// connection breaks just then, that thread gets the signal, as if it had written to the socket. Its transfer goes on by
// another path, or when the connection is back; the program, which knows of no socket, would be ended.
#pragma once

#include <csignal>

namespace sluice::core {

// From now on: a file that lies on such storage was registered.
void expect_broken_pipes() noexcept;

// As long as it lives, what the kernel sends this thread waits; it is taken away at the end. A SIGPIPE that waited for
// the thread before, and the thread's mask, are as they were. Does nothing as long as no broken pipe is expected.
class BrokenPipeHeld {
 public:
  BrokenPipeHeld() noexcept;
  ~BrokenPipeHeld();
  BrokenPipeHeld(const BrokenPipeHeld&) = delete;
  BrokenPipeHeld& operator=(const BrokenPipeHeld&) = delete;

 private:
  bool holds_ = false;
  bool waited_before_ = false;
  sigset_t mask_before_{};
};

}  // namespace sluice::core
