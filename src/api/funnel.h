// SPDX-License-Identifier: Apache-2.0
// The one place where C++ ends and C begins: exceptions become error codes, outcomes become counts and errno, and the
// cause is kept for sluice_last_error() and written to the log. No thread is cancelled inside, and no SIGPIPE of the
// storage's comes out.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>

#include "base/failure.h"
#include "base/outcome.h"
#include "cufile.h"
#include "process/broken_pipe.h"
#include "request/item.h"

namespace sluice::api {

// Holds back, or lets through, the signal by which glibc cancels a thread of the asynchronous type; pthread_sigmask()
// would leave it alone. Answers whether it was held back before.
inline bool hold_back_cancelling(int how) {
  constexpr unsigned long cancelling = 1UL << (32U - 1U);
  unsigned long before = 0;
  ::syscall(SYS_rt_sigprocmask, how, &cancelling, &before, sizeof before);
  return (before & cancelling) != 0;
}

// Runs a body that throws nothing with cancellation of this thread off. A thread of the asynchronous type may be ended
// as soon as it is on again, or in the few instructions around it: the frames from here out to the C caller are unwound
// then. So nothing in them has to be destroyed, and none is noexcept; the body's own frame is another one.
//
// For a thread of that type, off is not enough: glibc's pthread_cancel() sends its signal when it has seen cancellation
// on, and the handler of some versions (2.36) does not look again. The signal waits, too, then. The type itself stays:
// calls of glibc that are cancellation points would wait for the signal, were it another.
template <typename Body>
auto undisturbed(Body body) {
  static_assert(noexcept(body()));
  int before = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  int type = PTHREAD_CANCEL_DEFERRED;
  ::pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  bool held_back = true;
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS) {
    ::pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    held_back = hold_back_cancelling(SIG_BLOCK);
  }
  const auto answer = body();
  if (!held_back) hold_back_cancelling(SIG_UNBLOCK);
  ::pthread_setcancelstate(before, nullptr);
  return answer;
}

// `call` is the C function's name. The cause of a failure is kept for this thread and logged.
CUfileError_t report(const char* call, const base::Failure& failure) noexcept;
CUfileError_t report_no_memory(const char* call) noexcept;
CUfileError_t report_unknown(const char* call) noexcept;
void report(const char* call, base::Outcome refusal) noexcept;

inline constexpr CUfileError_t success{CU_FILE_SUCCESS, {}};

template <typename Body>
[[gnu::noinline]] CUfileError_t translated(const char* call, Body& body) noexcept {
  const process::BrokenPipeHeld held;
  try {
    body();
    return success;
  } catch (const base::Failure& failure) {
    return report(call, failure);
  } catch (const std::bad_alloc&) {
    return report_no_memory(call);
  } catch (...) {
    return report_unknown(call);
  }
}

template <typename Body>
CUfileError_t guarded(const char* call, Body&& body) {
  return undisturbed([&]() noexcept { return translated(call, body); });
}

// A transfer's answer: the count, or -1 with the errno or 50xx code in errno, as NVIDIA's library gives it
// (request/answer.h); the sentence that is kept, and the log, tell the cause.
ssize_t deliver(const char* call, base::Outcome outcome, const request::Call& asked) noexcept;

// The same for a body that moves bytes. All that it can throw is that there was no memory for the driver's first call.
template <typename Body>
[[gnu::noinline]] ssize_t delivered(const char* call, Body& body, const request::Call& asked) noexcept {
  const process::BrokenPipeHeld held;
  try {
    return deliver(call, body(), asked);
  } catch (...) {
    return deliver(call, base::Outcome::system_error(ENOMEM), asked);
  }
}

template <typename Body>
ssize_t guarded_transfer(const char* call, Body&& body, const request::Call& asked = {}) {
  return undisturbed([&]() noexcept { return delivered(call, body, asked); });
}

}  // namespace sluice::api
