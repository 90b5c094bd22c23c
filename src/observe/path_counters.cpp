// SPDX-License-Identifier: Apache-2.0
// Shards of words in static storage: nothing to allocate, nothing to tear down. Most threads have one alone.
#include "observe/path_counters.h"

#include <array>

#include "base/processor.h"
#include "observe/statistics.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

struct Cell {
  std::uint64_t reads, read_bytes, writes, written_bytes, errors;
};

constexpr std::size_t shard_count = 26;
constexpr std::size_t alone_count = 20;

struct alignas(base::line_bytes) Shard {
  std::array<std::array<Cell, SLUICE_REASON_COUNT>, SLUICE_PATH_COUNT> cells;
};

constinit std::array<Shard, shard_count> shards{};

template <typename Add>
void count_in(Cell& cell, const Way& way, const Tally& tally, const Add& add) noexcept {
  const bool reads = way.direction == base::Direction::read;
  add(reads ? cell.reads : cell.writes, tally.transfers);
  add(reads ? cell.read_bytes : cell.written_bytes, tally.bytes);
  if (tally.errors > 0) add(cell.errors, tally.errors);
}

}  // namespace

void count_path(const Way& way, const Tally& tally, ThreadSlot thread, const Transfers* ended) noexcept {
  if (tally.transfers > 0) {
    const Block block = block_of(thread, alone_count, shard_count);
    Cell& cell = shards[block.number].cells[way.path][way.reason];
    if (block.is_alone) {
      count_in(cell, way, tally, base::add_alone);
    } else {
      count_in(cell, way, tally, observe::add);
    }
  }
  if (statistics_running()) [[unlikely]]
    count_ended(way, tally, ended, thread);
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
      for (Shard& shard : shards) {
        Cell& cell = shard.cells[static_cast<std::size_t>(path)][static_cast<std::size_t>(reason)];
        sum.reads += value(cell.reads);
        sum.read_bytes += value(cell.read_bytes);
        sum.writes += value(cell.writes);
        sum.written_bytes += value(cell.written_bytes);
        sum.errors += value(cell.errors);
      }
      if (sum.reads + sum.writes != 0) entries.push_back(sum);
    }
  }
  return entries;
}

}  // namespace sluice::observe
