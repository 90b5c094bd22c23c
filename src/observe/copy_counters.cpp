// SPDX-License-Identifier: Apache-2.0
// Shards, as for the paths.
#include "observe/copy_counters.h"

#include <array>
#include <cstddef>

#include "base/processor.h"
#include "observe/statistics.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

constexpr std::size_t copy_shard_count = 32;
constexpr std::size_t alone_copy_shards = 24;

struct alignas(base::line_bytes) CopyShard {
  std::array<std::uint64_t, SLUICE_STATS_CARRIER_COUNT> counts;
};

constinit std::array<CopyShard, copy_shard_count> copy_shards{};

std::uint64_t sum(CopyCounter who) noexcept {
  std::uint64_t total = 0;
  for (CopyShard& shard : copy_shards) total += value(shard.counts[static_cast<std::size_t>(who)]);
  return total;
}

}  // namespace

void count_copy(CopyCounter who, std::uint64_t times) noexcept {
  const ThreadSlot thread = thread_slot();
  const Block block = block_of(thread, alone_copy_shards, copy_shard_count);
  std::uint64_t& counter = copy_shards[block.number].counts[static_cast<std::size_t>(who)];
  if (block.is_alone) {
    base::add_alone(counter, times);
  } else {
    add(counter, times);
  }
  count_carried(static_cast<sluice_stats_carrier>(who), times, thread);
}

sluice_carrier_counts_t copy_counters() noexcept {
  sluice_carrier_counts_t counters{};
  counters.kernel = sum(CopyCounter::kernel);
  counters.kernel_called_off = sum(CopyCounter::kernel_revoked);
  counters.copy_engine = sum(CopyCounter::copy_engine);
  counters.scatter_kernel = sum(CopyCounter::scatter_kernel);
  counters.many_copies = sum(CopyCounter::many_copies);
  counters.slab = sum(CopyCounter::bounce_buffer);
  counters.resident_kernel = sum(CopyCounter::resident_kernel);
  counters.cpu_window = sum(CopyCounter::bar_mapping);
  counters.coherent = sum(CopyCounter::coherent);
  return counters;
}

}  // namespace sluice::observe
