// Shards, as for the paths.
#include "observe/carriers.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "base/thread_number.h"
#include "observe/statistics.h"

namespace sluice::observe {

namespace {

constexpr std::size_t carrier_shard_count = 8;

struct alignas(64) CarrierShard {
  std::array<std::atomic<std::uint64_t>, SLUICE_STATS_CARRIER_COUNT> counts;
};

constinit std::array<CarrierShard, carrier_shard_count> carrier_shards{};

std::uint64_t sum(CarriedBy who) noexcept {
  std::uint64_t total = 0;
  for (const CarrierShard& shard : carrier_shards)
    total += shard.counts[static_cast<std::size_t>(who)].load(std::memory_order_relaxed);
  return total;
}

}  // namespace

void count_carrier(CarriedBy who, std::uint64_t times) noexcept {
  carrier_shards[base::thread_number() % carrier_shard_count].counts[static_cast<std::size_t>(who)].fetch_add(
      times, std::memory_order_relaxed);
  count_carried(static_cast<sluice_stats_carrier>(who), times);
}

sluice_carrier_counts_t carrier_counters() noexcept {
  sluice_carrier_counts_t counters{};
  counters.kernel = sum(CarriedBy::kernel);
  counters.kernel_called_off = sum(CarriedBy::kernel_called_off);
  counters.copy_engine = sum(CarriedBy::copy_engine);
  counters.scatter_kernel = sum(CarriedBy::scatter_kernel);
  counters.many_copies = sum(CarriedBy::many_copies);
  counters.slab = sum(CarriedBy::slab);
  counters.resident_kernel = sum(CarriedBy::resident_kernel);
  counters.small_together = sum(CarriedBy::small_together);
  counters.cpu_window = sum(CarriedBy::cpu_window);
  return counters;
}

}  // namespace sluice::observe
