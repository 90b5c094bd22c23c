// SPDX-License-Identifier: Apache-2.0
// What the statistics of a process were at one moment: the shards of all its regions added up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gds_stats/region.h"
#include "sluice_stats.h"

namespace sluice::tools {

struct Sample {
  std::string library;        // the version of Sluice
  std::size_t libraries = 0;  // copies of it in the process
  std::uint64_t level = 0;
  bool running = false;
  double seconds = 0;  // that they have run
  sluice_stats_shard sum{};
  std::array<std::uint64_t, 2> last_batch_bytes{};
  std::array<std::uint64_t, SLUICE_STATS_DEVICE_COUNT> registered_bytes{};
  std::array<std::array<unsigned char, 16>, SLUICE_STATS_DEVICE_COUNT> uuids{};
};

Sample take_sample(std::vector<std::unique_ptr<ShownRegion>>& regions);

// What came since an earlier one: counters of reads and writes, and the time, which the caller measures. Counters that
// were reset meanwhile count from zero.
Sample since(const Sample& now, const Sample& earlier, double seconds);

// Of reads, or writes.
struct Rates {
  double bytes = 0;         // a second
  double operations = 0;    // a second
  double microseconds = 0;  // each, on average
};
Rates rates_of(const sluice_stats_direction& direction, double seconds);

bool has_been_used(const sluice_stats_device& device);

}  // namespace sluice::tools
