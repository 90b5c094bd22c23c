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

std::uint64_t nanoseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
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
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    sample.registered_bytes[i] += head.devices[i].registered_bytes;
    if (head.devices[i].uuid[0] != 0 || head.devices[i].uuid[1] != 0) {
      std::memcpy(sample.uuids[i].data(), head.devices[i].uuid, sizeof head.devices[i].uuid);
    }
  }
}

// Vectored calls are reads and writes, too; `vectored` still tells how many of them.
void fold_vectored(sluice_stats_shard& sum) {
  for (std::size_t i = 0; i < 2; ++i) {
    const sluice_stats_vectored& vectored = sum.vectored[i];
    sluice_stats_direction& all = sum.directions[i];
    all.operations.ok += vectored.operations.ok;
    all.operations.err += vectored.operations.err;
    all.bytes += vectored.bytes;
    all.nanoseconds += vectored.nanoseconds;
  }
}

}  // namespace

Sample take_sample(std::vector<std::unique_ptr<ShownRegion>>& regions) {
  Sample sample;
  for (const std::unique_ptr<ShownRegion>& region : regions) {
    sluice_stats_region copy = region->read();
    add_head(copy.head, sample);
    const std::span sums = words(sample.sum);
    for (sluice_stats_shard& shard : copy.shards) {
      const std::span counters = words(shard);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counters[i];
    }
  }
  fold_vectored(sample.sum);
  return sample;
}

Sample since(const Sample& now, const Sample& earlier, double seconds) {
  Sample difference = now;
  difference.seconds = seconds;
  sluice_stats_shard before = earlier.sum;
  const std::span then = words(before);
  const std::span rest = words(difference.sum);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = rest[i] >= then[i] ? rest[i] - then[i] : rest[i];
  return difference;
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
