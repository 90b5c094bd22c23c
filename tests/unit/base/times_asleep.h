// SPDX-License-Identifier: Apache-2.0
// How a wait gives its processor away.
#pragma once

#include <sys/resource.h>

namespace sluice::base {

// Of this thread. A thread that yields does not sleep.
inline long times_asleep() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace sluice::base
