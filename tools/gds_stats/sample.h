// SPDX-License-Identifier: Apache-2.0
// What the statistics of a process were at one moment: the shards of all its regions added up.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
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
  double seconds = 0;        // that they have run
  std::uint64_t resets = 0;  // how often the counters were set to zero; each process begins at 0
  sluice_stats_shard sum{};
  decltype(sluice_stats_region::later_ways) later_ways{};
  decltype(sluice_stats_region::later_paths) later_paths{};
  std::vector<std::uint64_t> latencies;  // as sluice_stats_latencies lays them out; see latencies_of()
  std::array<std::uint64_t, 2> under_way{};
  std::array<std::uint64_t, 2> bytes_under_way{};
  std::array<std::uint64_t, 2> last_batch_bytes{};
  std::uint64_t registered_host_bytes = 0;
  std::array<std::uint64_t, SLUICE_STATS_DEVICE_COUNT> registered_bytes{};
  std::array<std::uint64_t, SLUICE_STATS_DEVICE_COUNT> pci{};
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

// What a process shows may be anything: sums stop at what a word holds.
constexpr std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, std::numeric_limits<std::uint64_t>::max() - a);
}

// Reads, or writes, vectored calls among them.
sluice_stats_direction whole_direction(const sluice_stats_shard& sum, std::size_t direction);

// The counts of one direction, path and class of sizes; empty where the process has no latencies (version 4).
std::span<const std::uint64_t> latencies_of(const Sample& sample, std::size_t direction, std::size_t path,
                                            std::size_t size_class);

// Entries of batches that were submitted and have not ended.
std::uint64_t batch_entries_waiting(const Sample& sample);

// What went one way, for one reason.
const sluice_stats_way& way_of(const Sample& sample, int path, int reason);
sluice_stats_way& way_in(Sample& sample, int path, int reason);

bool has_been_used(const sluice_stats_device& device);

}  // namespace sluice::tools
