// SPDX-License-Identifier: Apache-2.0
// No signal is delivered to this thread while it has something that a handler of the program's may wait for: a handler
// can make a transfer.
#pragma once

#include <signal.h>

namespace sluice::base {

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace sluice::base
