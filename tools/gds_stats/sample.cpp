// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/sample.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "common/text.h"

namespace sluice::tools {
namespace {

std::span<std::uint64_t> words(sluice_stats_shard& shard) {
  return {reinterpret_cast<std::uint64_t*>(&shard), sizeof shard / sizeof(std::uint64_t)};
}

std::span<const std::uint64_t> words(const sluice_stats_shard& shard) {
  return {reinterpret_cast<const std::uint64_t*>(&shard), sizeof shard / sizeof(std::uint64_t)};
}

using LaterWays = decltype(sluice_stats_region::later_ways);
using LaterPaths = decltype(sluice_stats_region::later_paths);

std::span<std::uint64_t> words(LaterWays& ways) {
  return {reinterpret_cast<std::uint64_t*>(&ways), sizeof ways / sizeof(std::uint64_t)};
}

std::span<const std::uint64_t> words(const LaterWays& ways) {
  return {reinterpret_cast<const std::uint64_t*>(&ways), sizeof ways / sizeof(std::uint64_t)};
}

std::span<std::uint64_t> words(LaterPaths& ways) {
  return {reinterpret_cast<std::uint64_t*>(&ways), sizeof ways / sizeof(std::uint64_t)};
}

std::span<const std::uint64_t> words(const LaterPaths& ways) {
  return {reinterpret_cast<const std::uint64_t*>(&ways), sizeof ways / sizeof(std::uint64_t)};
}

std::uint64_t nanoseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

constexpr std::size_t latency_words = sizeof(sluice_stats_latencies) / sizeof(std::uint64_t);

void add_flows(const sluice_stats_region& region, Sample& sample) {
  for (std::size_t direction = 0; direction < 2; ++direction) {
    std::uint64_t sum = 0;
    for (const sluice_stats_flow& flow : region.flows) sum += flow.under_way[direction];
    if (sum >> 63 != 0) continue;
    sample.under_way[direction] += sum >> 40;
    sample.bytes_under_way[direction] += sum & ((std::uint64_t{1} << 40) - 1);
  }
}

void add_latencies(const sluice_stats_region& region, Sample& sample) {
  if (region.head.extent_version == 0) return;
  sample.latencies.resize(latency_words);
  for (const sluice_stats_latencies& shard : region.latencies) {
    const auto* const counts = &shard.counts[0][0][0][0];
    for (std::size_t i = 0; i < latency_words; ++i) sample.latencies[i] += counts[i];
  }
}

void add_head(const sluice_stats_head& head, Sample& sample) {
  sample.library = printable({head.library, ::strnlen(head.library, sizeof head.library)});
  ++sample.libraries;
  sample.level = std::max<std::uint64_t>(sample.level, std::min<std::uint64_t>(head.level, 3));
  sample.running = sample.running || (head.started_at != 0 && head.level != 0);
  std::uint64_t nanoseconds = head.ran;
  if (const std::uint64_t now = nanoseconds_now(); head.started_at != 0 && head.started_at < now) {
    nanoseconds += now - head.started_at;
  }
  sample.seconds = std::max(sample.seconds, static_cast<double>(nanoseconds) / 1e9);
  for (std::size_t i = 0; i < 2; ++i)
    sample.last_batch_bytes[i] = std::max(sample.last_batch_bytes[i], head.last_batch_bytes[i]);
  sample.resets += head.resets;
  sample.registered_host_bytes += head.registered_host_bytes;
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    sample.registered_bytes[i] += head.devices[i].registered_bytes;
    if (head.devices[i].uuid[0] != 0 || head.devices[i].uuid[1] != 0) {
      std::memcpy(sample.uuids[i].data(), head.devices[i].uuid, sizeof head.devices[i].uuid);
    }
  }
}

// Where they were reset meanwhile, all count from zero. A counter that has fallen without that does so alone.
void subtract(std::span<std::uint64_t> now, std::span<const std::uint64_t> earlier, bool reset) {
  if (reset || now.size() != earlier.size()) return;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] >= earlier[i]) now[i] -= earlier[i];
  }
}

}  // namespace

Sample take_sample(std::vector<std::unique_ptr<ShownRegion>>& regions) {
  Sample sample;
  for (const std::unique_ptr<ShownRegion>& region : regions) {
    const sluice_stats_region& copy = region->read();
    add_head(copy.head, sample);
    add_flows(copy, sample);
    add_latencies(copy, sample);
    for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
      if ((copy.pci[i] & SLUICE_STATS_PCI_KNOWN) != 0) sample.pci[i] = copy.pci[i];
    }
    const std::span later = words(sample.later_ways);
    for (std::size_t i = 0; i < later.size(); ++i) later[i] += words(copy.later_ways)[i];
    const std::span paths = words(sample.later_paths);
    for (std::size_t i = 0; i < paths.size(); ++i) paths[i] += words(copy.later_paths)[i];
    const std::span sums = words(sample.sum);
    for (const sluice_stats_shard& shard : copy.shards) {
      const std::span counters = words(shard);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counters[i];
    }
  }
  return sample;
}

Sample since(const Sample& now, const Sample& earlier, double seconds) {
  Sample difference = now;
  difference.seconds = seconds;
  subtract(words(difference.sum), words(earlier.sum), now.resets != earlier.resets);
  subtract(words(difference.later_ways), words(earlier.later_ways), now.resets != earlier.resets);
  subtract(words(difference.later_paths), words(earlier.later_paths), now.resets != earlier.resets);
  subtract(difference.latencies, earlier.latencies, now.resets != earlier.resets);
  return difference;
}

namespace {

template <typename AnySample>
auto& way_at(AnySample& sample, int path, int reason) {
  switch (sluice_stats_place_of(path, reason)) {
    case SLUICE_STATS_IN_LATER_WAYS:
      return sample.later_ways[path][reason - SLUICE_STATS_REASON_COUNT];
    case SLUICE_STATS_IN_LATER_PATHS:
      return sample.later_paths[path - SLUICE_STATS_PATH_COUNT][reason];
    default:
      return sample.sum.ways[path][reason];
  }
}

}  // namespace

const sluice_stats_way& way_of(const Sample& sample, int path, int reason) {
  return way_at(sample, path, reason);
}

sluice_stats_way& way_in(Sample& sample, int path, int reason) {
  return way_at(sample, path, reason);
}

sluice_stats_direction whole_direction(const sluice_stats_shard& sum, std::size_t direction) {
  sluice_stats_direction all = sum.directions[direction];
  const sluice_stats_vectored& vectored = sum.vectored[direction];
  all.operations.ok = plus(all.operations.ok, vectored.operations.ok);
  all.operations.err = plus(all.operations.err, vectored.operations.err);
  all.bytes = plus(all.bytes, vectored.bytes);
  all.nanoseconds = plus(all.nanoseconds, vectored.nanoseconds);
  return all;
}

std::span<const std::uint64_t> latencies_of(const Sample& sample, std::size_t direction, std::size_t path,
                                            std::size_t size_class) {
  if (sample.latencies.empty()) return {};
  const std::size_t row = (direction * SLUICE_PATH_COUNT + path) * SLUICE_STATS_CLASS_COUNT + size_class;
  return std::span(sample.latencies).subspan(row * SLUICE_STATS_LATENCY_COUNT, SLUICE_STATS_LATENCY_COUNT);
}

std::uint64_t batch_entries_waiting(const Sample& sample) {
  const std::uint64_t submitted = sample.sum.operations[SLUICE_STATS_BATCH_ENQUEUED].ok;
  const std::uint64_t ended = sample.sum.batch_processed.ok + sample.sum.batch_processed.err;
  return submitted - std::min(submitted, ended);
}

Rates rates_of(const sluice_stats_direction& direction, double seconds) {
  const auto count = static_cast<double>(direction.operations.ok);
  Rates rates;
  if (seconds > 0) {
    rates.bytes = static_cast<double>(direction.bytes) / seconds;
    rates.operations = count / seconds;
  }
  if (count > 0) rates.microseconds = static_cast<double>(direction.nanoseconds) / 1000 / count;
  return rates;
}

bool has_been_used(const sluice_stats_device& device) {
  const auto any = [](const sluice_stats_device_direction& part) { return part.total + part.errors != 0; };
  return any(device.directions[0]) || any(device.directions[1]) || device.registrations + device.deregistrations != 0;
}

}  // namespace sluice::tools
