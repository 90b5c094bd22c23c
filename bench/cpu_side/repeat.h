// SPDX-License-Identifier: Apache-2.0
// The loop of a measurement: nanoseconds and heap allocations a call, as counters of Google Benchmark's.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>

#include "cpu_side/allocations.h"

namespace sluice::bench {

// work(turn), as often as Google Benchmark wants. Own clock: what it reports for several threads depends on its
// version.
template <typename Work>
void repeat(benchmark::State& state, const Work& work) {
  std::uint64_t turn = 0;
  std::uint64_t taken = 0;
  std::chrono::steady_clock::time_point begun;
  for (auto _ : state) {
    if (turn == 0) {
      // Here, and not before: all threads start together with the first turn.
      taken = allocations_of_this_thread();
      begun = std::chrono::steady_clock::now();
    }
    work(turn++);
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begun;
  const auto calls = static_cast<double>(state.iterations());
  const auto each_thread = benchmark::Counter::kAvgThreads;
  state.counters["ns"] = benchmark::Counter(spent.count() / calls, each_thread);
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(allocations_of_this_thread() - taken) / calls, each_thread);
}

}  // namespace sluice::bench
