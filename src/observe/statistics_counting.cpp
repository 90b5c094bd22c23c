// SPDX-License-Identifier: Apache-2.0
// What is counted of calls and transfers: plain words in shards, added up by the reader.
#include <algorithm>

#include "observe/statistics.h"
#include "observe/statistics_latency.h"
#include "observe/statistics_turn.h"

namespace sluice::observe {

namespace {

bool is_by_drive(sluice_path_t path) noexcept {
  return path == SLUICE_PATH_P2PDMA || path == SLUICE_PATH_NVFS;
}

void count(sluice_stats_pair& pair, bool ok, std::uint64_t times = 1) noexcept {
  add(ok ? pair.ok : pair.err, times);
}

inline std::uint64_t& latency_of(sluice_stats_latencies& latencies, base::Direction direction, sluice_path_t path,
                                 std::size_t bucket, std::chrono::nanoseconds duration) noexcept {
  const auto nanoseconds = static_cast<std::uint64_t>(duration.count());
  return latencies.counts[static_cast<std::size_t>(direction)][path][class_of(bucket)][latency_place(nanoseconds)];
}

// Ways of later paths and reasons have no shards.
[[gnu::cold]] sluice_stats_way& way_behind_shards(int path, int reason) noexcept {
  if (reason >= SLUICE_STATS_REASON_COUNT) {
    return statistics_region().later_ways[path][reason - SLUICE_STATS_REASON_COUNT];
  }
  return statistics_region().later_paths[path - SLUICE_STATS_PATH_COUNT][reason];
}

template <typename How>
void count_way(How how, sluice_stats_way& counts, base::Direction direction, const Tally& tally) noexcept {
  const bool reads = direction == base::Direction::read;
  how.add(reads ? counts.reads : counts.writes, tally.transfers);
  how.add(reads ? counts.read_bytes : counts.written_bytes, tally.bytes);
  if (tally.errors > 0) how.add(counts.errors, tally.errors);
}

template <typename How>
void count_in_batch(How how, sluice_stats_shard& shard, const Transfers& ended) noexcept {
  const auto count = [&](sluice_stats_pair& pair) {
    how.add(pair.ok, ended.good);
    how.add(pair.err, ended.failed);
  };
  count(shard.batch_processed);
  if (is_by_drive(ended.path)) count(shard.batch_processed_by_drive);
  const auto direction = static_cast<std::size_t>(ended.direction);
  how.add(shard.directions[direction].batch_bytes, ended.bytes);
  set(statistics_region().head.last_batch_bytes[direction], ended.last_bytes);
}

template <typename How>
void count_on_device(How how, sluice_stats_device_direction& part, const Transfers& ended,
                     std::uint64_t nanoseconds) noexcept {
  if (ended.failed > 0) [[unlikely]]
    how.add(part.errors, ended.failed);
  if (ended.good == 0) return;
  how.add(part.total, ended.good);
  how.add(part.bytes, ended.bytes);
  how.add(part.nanoseconds, nanoseconds);
  if (is_by_drive(ended.path)) how.add(part.by_drive, ended.good);
  if (ended.unaligned > 0) how.add(part.unaligned, ended.unaligned);
}

template <typename How, typename HowLatencies>
void count_transfers(How how, sluice_stats_shard& shard, HowLatencies how_latencies, sluice_stats_latencies& latencies,
                     const Transfers& ended) noexcept {
  const auto direction = static_cast<std::size_t>(ended.direction);
  const std::uint64_t nanoseconds = ended.good * static_cast<std::uint64_t>(ended.duration.count());
  sluice_stats_direction& sum = shard.directions[direction];
  if (ended.failed > 0) [[unlikely]]
    how.add(sum.operations.err, ended.failed);
  if (ended.good > 0) [[likely]] {
    how.add(sum.operations.ok, ended.good);
    how.add(sum.bytes, ended.bytes);
    how.add(sum.nanoseconds, nanoseconds);
    how.add(sum.sizes[ended.size_bucket], ended.good);
    how_latencies.add(latency_of(latencies, ended.direction, ended.path, ended.size_bucket, ended.duration),
                      ended.good);
  }
  if (ended.in_batch) count_in_batch(how, shard, ended);
  if (is_counted(ended.device)) {
    count_on_device(how, shard.devices[ended.device].directions[direction], ended, nanoseconds);
  }
}

// A number above, bytes below.
constexpr unsigned flow_shift = 40;
constexpr std::uint64_t most_flow_bytes = std::uint64_t{1} << 36;

}  // namespace

void count(Operation operation, bool ok, std::uint64_t times) noexcept {
  if (!statistics_running()) return;
  count(shared_shard(thread_slot()).operations[static_cast<std::size_t>(operation)], ok, times);
}

void count_ended(const Way& way, const Tally& tally, const Transfers* ended, ThreadSlot thread) noexcept {
  in_turn(thread, [&](auto how, sluice_stats_shard& shard, auto how_latencies, sluice_stats_latencies& latencies) {
    if (tally.transfers > 0) {
      if (sluice_stats_place_of(way.path, way.reason) == SLUICE_STATS_IN_SHARDS) [[likely]] {
        count_way(how, shard.ways[way.path][way.reason], way.direction, tally);
      } else {
        count_way(Shared{}, way_behind_shards(way.path, way.reason), way.direction, tally);
      }
    }
    if (ended != nullptr) count_transfers(how, shard, how_latencies, latencies, *ended);
  });
}

void count_transfer(const Transfer& transfer, base::Outcome outcome) noexcept {
  if (!statistics_running()) return;
  Transfers one{.direction = transfer.direction,
                .in_batch = transfer.in_batch,
                .path = transfer.path,
                .device = transfer.device,
                .size_bucket = size_bucket(transfer.requested),
                .duration = transfer.duration};
  one.add(outcome, transfer.aligned);
  count_ended({}, {}, &one, thread_slot());
}

void count_vectored(const VectoredTransfer& transfer, base::Outcome outcome) noexcept {
  if (!statistics_running()) return;
  const auto direction = static_cast<std::size_t>(transfer.direction);
  const ThreadSlot thread = thread_slot();
  sluice_stats_shard& shard = shared_shard(thread);
  sluice_stats_vectored& sum = shard.vectored[direction];
  count(sum.operations, outcome.ok());
  if (outcome.ok()) {
    add(sum.bytes, outcome.count());
    add(sum.nanoseconds, static_cast<std::uint64_t>(transfer.duration.count()));
    const std::size_t bucket = size_bucket(transfer.requested);
    add(shard.directions[direction].sizes[bucket], 1);
    add(latency_of(shared_latencies(thread.number), transfer.direction, transfer.path, bucket, transfer.duration), 1);
  }
  for (std::size_t device = 0; device < transfer.devices.size(); ++device) {
    const VectoredTransfer::Share& share = transfer.devices[device];
    if (share.bytes == 0) continue;
    sluice_stats_device_direction& part = shard.devices[device].directions[direction];
    add(part.total, 1);
    add(part.bytes, share.bytes);
    add(part.nanoseconds, static_cast<std::uint64_t>(transfer.duration.count()));
    if (share.by_drive) add(part.by_drive, 1);
    if (!share.aligned) add(part.unaligned, 1);
  }
}

void count_carried(sluice_stats_carrier carrier, std::uint64_t times, ThreadSlot thread) noexcept {
  if (!statistics_running()) return;
  in_turn(thread, [&](auto how, sluice_stats_shard& shard, auto, sluice_stats_latencies&) {
    how.add(shard.carriers[carrier], times);
  });
}

// A reset leaves these words, so that a thread that has one alone needs no turn for it.
void UnderWay::add(std::uint64_t amount) const noexcept {
  std::uint64_t& word = statistics_region().flows[block_.number].under_way[static_cast<std::size_t>(direction_)];
  if (block_.is_alone) {
    base::add_alone(word, amount);
  } else {
    observe::add(word, amount);
  }
}

void UnderWay::begin(base::Direction direction, std::uint64_t bytes, std::uint64_t transfers,
                     ThreadSlot thread) noexcept {
  block_ = block_of(thread, alone_shards, SLUICE_STATS_SHARD_COUNT);
  direction_ = direction;
  amount_ = (transfers << flow_shift) + std::min(bytes, most_flow_bytes);
  add(amount_);
}

void UnderWay::end() noexcept {
  add(0 - amount_);
}

}  // namespace sluice::observe
