// SPDX-License-Identifier: Apache-2.0
// A check that needs a fresh process with knobs of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "gpu/driver/driver_calls.h"

namespace sluice::gpu_suite {

// What went wrong; empty when nothing did.
using Verdict = std::string;

#define AND_THAT(condition)                                                                              \
  do {                                                                                                   \
    if (!(condition)) return std::string(__FILE__ ":") + std::to_string(__LINE__) + ": not " #condition; \
  } while (false)

// Sets the knobs, initialises the driver, makes the primary context of device 0 current, runs the scenario, and ends
// the process.
template <typename Scenario>
[[noreturn]] void play(std::initializer_list<std::pair<const char*, const char*>> knobs, Scenario scenario) {
  for (const auto& [name, value] : knobs) ::setenv(name, value, 1);
  cuda::Context context = nullptr;
  Verdict verdict;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&context, 0) != cuda::success ||
      cuCtxSetCurrent(context) != cuda::success) {
    verdict = "no primary context can be had";
  } else {
    verdict = scenario();
  }
  std::fputs(verdict.c_str(), stderr);
  ::_exit(verdict.empty() ? 0 : 1);
}

#define EXPECT_HOLDS(...) EXPECT_EXIT(play(__VA_ARGS__), ::testing::ExitedWithCode(0), "")

using Knobs = std::initializer_list<std::pair<const char*, const char*>>;

}  // namespace sluice::gpu_suite
