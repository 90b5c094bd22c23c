// SPDX-License-Identifier: Apache-2.0
#include "process/broken_pipe.h"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace sluice::process {

namespace {

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

void BrokenPipeHeld::hold() noexcept {
  const sigset_t held = the_signal();
  sigset_t before;
  held_before_ = ::pthread_sigmask(SIG_BLOCK, &held, &before) == 0 && ::sigismember(&before, SIGPIPE) == 1;
  waited_before_ = held_before_ && waits();
}

void BrokenPipeHeld::let_go() const noexcept {
  const int answer = errno;  // of the call that ends here
  const sigset_t held = the_signal();
  if (!waited_before_ && waits()) {
    const timespec at_once{};
    while (::sigtimedwait(&held, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  if (!held_before_) ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
  errno = answer;
}

}  // namespace sluice::process
