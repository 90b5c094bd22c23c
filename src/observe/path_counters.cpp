// Shards of plain atomics in static storage: nothing to allocate, nothing to tear down.
#include "observe/path_counters.h"

#include <array>
#include <atomic>

#include "base/thread_number.h"
#include "observe/statistics.h"

namespace sluice::observe {

namespace {

struct Cell {
  std::atomic<std::uint64_t> reads, read_bytes, writes, written_bytes, errors;
};

constexpr std::size_t shard_count = 8;

struct alignas(64) Shard {
  std::array<std::array<Cell, SLUICE_REASON_COUNT>, SLUICE_PATH_COUNT> cells;
};

constinit std::array<Shard, shard_count> shards{};

}  // namespace

void count_path(sluice_path_t path, sluice_reason_t reason, base::Direction direction, base::Outcome outcome) noexcept {
  Cell& cell = shards[base::thread_number() % shard_count].cells[path][reason];
  constexpr auto relaxed = std::memory_order_relaxed;
  if (direction == base::Direction::read) {
    cell.reads.fetch_add(1, relaxed);
    cell.read_bytes.fetch_add(outcome.count(), relaxed);
  } else {
    cell.writes.fetch_add(1, relaxed);
    cell.written_bytes.fetch_add(outcome.count(), relaxed);
  }
  if (!outcome.ok()) cell.errors.fetch_add(1, relaxed);
  count_way(path, reason, direction, outcome);
}

std::vector<sluice_path_counter_t> path_counters() {
  std::vector<sluice_path_counter_t> entries;
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
      sluice_path_counter_t sum{};
      sum.path = static_cast<sluice_path_t>(path);
      sum.reason = static_cast<sluice_reason_t>(reason);
      for (const Shard& shard : shards) {
        const Cell& cell = shard.cells[static_cast<std::size_t>(path)][static_cast<std::size_t>(reason)];
        sum.reads += cell.reads.load(std::memory_order_relaxed);
        sum.read_bytes += cell.read_bytes.load(std::memory_order_relaxed);
        sum.writes += cell.writes.load(std::memory_order_relaxed);
        sum.written_bytes += cell.written_bytes.load(std::memory_order_relaxed);
        sum.errors += cell.errors.load(std::memory_order_relaxed);
      }
      if (sum.reads + sum.writes != 0) entries.push_back(sum);
    }
  }
  return entries;
}

}  // namespace sluice::observe
