#include "core/broken_pipe.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <ctime>

namespace sluice::core {

namespace {

std::atomic<bool> expected{false};

sigset_t the_signal() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

// For this thread, which holds it back.
bool waits() noexcept {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

void expect_broken_pipes() noexcept {
  expected.store(true, std::memory_order_relaxed);
}

BrokenPipeHeld::BrokenPipeHeld() noexcept {
  if (!expected.load(std::memory_order_relaxed)) return;
  const sigset_t held = the_signal();
  ::pthread_sigmask(SIG_BLOCK, &held, &mask_before_);
  holds_ = true;
  waited_before_ = ::sigismember(&mask_before_, SIGPIPE) == 1 && waits();
}

BrokenPipeHeld::~BrokenPipeHeld() {
  if (!holds_) return;
  const int answer = errno;  // of the call that ends here
  if (!waited_before_ && waits()) {
    const sigset_t held = the_signal();
    const timespec at_once{};
    while (::sigtimedwait(&held, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = answer;
}

}  // namespace sluice::core
