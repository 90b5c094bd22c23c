// SPDX-License-Identifier: Apache-2.0
// Shards of plain atomics in static storage: nothing to allocate, nothing to tear down.
#include "observe/path_counters.h"

#include <array>
#include <atomic>

#include "base/processor.h"
#include "base/thread_number.h"
#include "observe/statistics.h"

namespace sluice::observe {

namespace {

struct Cell {
  std::atomic<std::uint64_t> reads, read_bytes, writes, written_bytes, errors;
};

constexpr std::size_t shard_count = 8;

struct alignas(base::line_bytes) Shard {
  std::array<std::array<Cell, SLUICE_REASON_COUNT>, SLUICE_PATH_COUNT> cells;
};

constinit std::array<Shard, shard_count> shards{};

}  // namespace

void count_path(const Way& way, const Tally& tally, std::size_t thread) noexcept {
  Cell& cell = shards[thread % shard_count].cells[way.path][way.reason];
  constexpr auto relaxed = std::memory_order_relaxed;
  if (way.direction == base::Direction::read) {
    cell.reads.fetch_add(tally.transfers, relaxed);
    cell.read_bytes.fetch_add(tally.bytes, relaxed);
  } else {
    cell.writes.fetch_add(tally.transfers, relaxed);
    cell.written_bytes.fetch_add(tally.bytes, relaxed);
  }
  if (tally.errors > 0) cell.errors.fetch_add(tally.errors, relaxed);
  count_way(thread, way, tally);
}

void count_path(sluice_path_t path, sluice_reason_t reason, base::Direction direction, base::Outcome outcome) noexcept {
  Tally one;
  one.add(outcome);
  count_path({path, reason, direction}, one);
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
