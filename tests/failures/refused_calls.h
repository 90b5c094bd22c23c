// SPDX-License-Identifier: Apache-2.0
// System calls that the kernel refuses this process from some time on, as a sandbox's filter does.
#pragma once

#include <span>

namespace sluice::failures {

struct SystemCall {
  const char* name;
  long number;
};

// Those that can be refused. Not among them: what every process needs to wait, to return from a signal and to end.
std::span<const SystemCall> refusable_calls();

// From now on, in all threads. False, with errno, where there are no such filters. A filter stays.
bool refuse(long number, int error);

}  // namespace sluice::failures
