// SPDX-License-Identifier: Apache-2.0
// One measurement: how much was moved in which time, at what cost.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "client/workers.h"

namespace sluice::bench {

struct Sample {
  double seconds = 0;  // from the start of the first step to the end of the last
  std::uint64_t bytes = 0;
  std::uint64_t steps = 0;    // requests; rounds of a batch or of the streams
  double cpu_seconds = 0;     // of the whole process, the library's threads included
  double stolen_seconds = 0;  // of all processors: what the host of a virtual machine gave to others meanwhile
  double p50_us = 0;
  double p99_us = 0;
  std::optional<double> product_alone;  // what the product reached before the I/O, and with it, per second
  std::optional<double> product_with;
};

// Processor time of this process so far, in user and kernel mode.
double cpu_seconds();

// Fills p50 and p99; reorders the latencies, in microseconds.
void set_percentiles(Sample& sample, std::vector<float>& latencies);

// Lets `count` threads call step(thread) over and over, each at least once, for as long as `seconds`; a step returns
// the bytes that it moved. A tenth of the time goes ahead unmeasured: the processor and the library wake up.
Sample measure(Workers& workers, unsigned count, double seconds, const std::function<std::uint64_t(unsigned)>& step);

nlohmann::json to_json(const Sample& sample);

}  // namespace sluice::bench
