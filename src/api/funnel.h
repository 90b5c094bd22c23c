// The one place where C++ ends and C begins: exceptions become error codes, outcomes become counts and errno, and the
// cause is kept for sluice_last_error() and written to the log. No thread is cancelled inside.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <new>
#include <utility>

#include "base/failure.h"
#include "base/outcome.h"
#include "cufile.h"

namespace sluice::api {

// A thread that is cancelled in here would unwind through frames that do not expect it.
class NoCancellation {
 public:
  NoCancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// `call` is the C function's name. The cause of a failure is kept for this thread and logged.
CUfileError_t report(const char* call, const base::Failure& failure) noexcept;
CUfileError_t report_no_memory(const char* call) noexcept;
CUfileError_t report_unknown(const char* call) noexcept;
void report(const char* call, base::Outcome refusal) noexcept;

inline constexpr CUfileError_t success{CU_FILE_SUCCESS, {}};

template <typename Body>
CUfileError_t guarded(const char* call, Body&& body) noexcept {
  const NoCancellation calm;
  try {
    std::forward<Body>(body)();
    return success;
  } catch (const base::Failure& failure) {
    return report(call, failure);
  } catch (const std::bad_alloc&) {
    return report_no_memory(call);
  } catch (...) {
    return report_unknown(call);
  }
}

// A transfer's answer: the count, or -1 with the errno or 50xx code in errno.
ssize_t deliver(const char* call, base::Outcome outcome) noexcept;

}  // namespace sluice::api
