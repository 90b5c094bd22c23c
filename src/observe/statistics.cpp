// SPDX-License-Identifier: Apache-2.0
// Shards of plain words, added up by the reader. Rates are over the time that the statistics have been running.
#include "observe/statistics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#include "base/thread_number.h"
#include "observe/statistics_latency.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// Held by those that start, stop and reset, by registrations and over a fork; never by a transfer.
constinit std::mutex statistics_control;
constinit std::atomic<int> current_level{0};
constinit std::atomic<bool> stopped{false};  // nothing counts until the next start, or until a level is set
int level_set = 0;                           // by the program, in whichever life of the driver
bool started = false;                        // since the last stop
bool reset_since = false;                    // since the last start
bool started_before = false;                 // in this process or the one that it was forked from
bool counted_before = false;                 // the same

// Transfers that went by the memory of other devices, too: by direction and device.
constinit std::array<std::array<std::atomic<std::uint64_t>, SLUICE_STATS_DEVICE_COUNT>, 2> neighbour_counts{};

sluice_stats_shard& shard_of(std::size_t thread) noexcept {
  return statistics_region().shards[thread % SLUICE_STATS_SHARD_COUNT];
}

sluice_stats_shard& own_shard() noexcept {
  return shard_of(base::thread_number());
}

sluice_stats_head& head() noexcept {
  return statistics_region().head;
}

bool is_by_drive(sluice_path_t path) noexcept {
  return path == SLUICE_PATH_P2PDMA || path == SLUICE_PATH_NVFS;
}

bool is_counted(int device) noexcept {
  return device >= 0 && device < SLUICE_STATS_DEVICE_COUNT;
}

void count(sluice_stats_pair& pair, bool ok, std::uint64_t times = 1) noexcept {
  add(ok ? pair.ok : pair.err, times);
}

// With the lock held, after whether anything counts may have changed: rates are over the time that something did.
void follow_clock() noexcept {
  something_counts.store(current_level.load(relaxed) > 0 && !stopped.load(relaxed), relaxed);
  const std::uint64_t since = value(head().started_at);
  if (statistics_running() == (since != 0)) return;
  if (since != 0) add(head().ran, nanoseconds_now() - since);
  set(head().started_at, since == 0 ? nanoseconds_now() : 0);
}

void clear_neighbour_counts() noexcept {
  for (auto& of_direction : neighbour_counts) {
    for (std::atomic<std::uint64_t>& counter : of_direction) counter.store(0, relaxed);
  }
}

// With the lock held.
void clear_counters() noexcept {
  set(head().ran, 0);
  set(head().started_at, statistics_running() ? nanoseconds_now() : 0);
  for (std::uint64_t& bytes : head().last_batch_bytes) set(bytes, 0);
  for (sluice_stats_shard& shard : statistics_region().shards) {
    for (std::uint64_t& counter : words_of(shard)) set(counter, 0);
  }
  clear_neighbour_counts();
  for (auto& of_path : statistics_region().later_ways) {
    for (sluice_stats_way& way : of_path) {
      for (std::uint64_t& counter : words_of(way)) set(counter, 0);
    }
  }
  for (auto& of_path : statistics_region().later_paths) {
    for (sluice_stats_way& way : of_path) {
      for (std::uint64_t& counter : words_of(way)) set(counter, 0);
    }
  }
  // What has never been counted stays untouched memory.
  for (sluice_stats_latencies& latencies : statistics_region().latencies) {
    for (std::uint64_t& counter : words_of(latencies)) {
      if (value(counter) != 0) set(counter, 0);
    }
  }
  if (started_before) add(head().resets, 1);  // else nobody has seen them
}

inline void count_latency(sluice_stats_region& region, std::size_t thread, base::Direction direction,
                          sluice_path_t path, std::size_t bucket, std::chrono::nanoseconds duration) noexcept {
  sluice_stats_latencies& latencies = region.latencies[thread % SLUICE_STATS_LATENCY_SHARD_COUNT];
  const auto nanoseconds = static_cast<std::uint64_t>(duration.count());
  add(latencies.counts[static_cast<std::size_t>(direction)][path][class_of(bucket)][latency_place(nanoseconds)], 1);
}

// A number above, bytes below.
constexpr unsigned flow_shift = 40;
constexpr std::uint64_t most_flow_bytes = std::uint64_t{1} << 36;

void count_in_batch(sluice_stats_shard& shard, const Transfer& transfer, base::Outcome outcome) noexcept {
  count(shard.batch_processed, outcome.ok());
  if (is_by_drive(transfer.path)) count(shard.batch_processed_by_drive, outcome.ok());
  const auto direction = static_cast<std::size_t>(transfer.direction);
  add(shard.directions[direction].batch_bytes, outcome.count());
  set(head().last_batch_bytes[direction], outcome.count());
}

void count_on_device(sluice_stats_device_direction& part, const Transfer& transfer, base::Outcome outcome) noexcept {
  if (!outcome.ok()) return add(part.errors, 1);
  add(part.total, 1);
  add(part.bytes, outcome.count());
  add(part.nanoseconds, static_cast<std::uint64_t>(transfer.duration.count()));
  if (is_by_drive(transfer.path)) add(part.by_drive, 1);
  if (!transfer.aligned) add(part.unaligned, 1);
}

// With the lock held.
void take_level(int level) noexcept {
  current_level.store(level, relaxed);
  counted_before = counted_before || level > 0;
  set(head().level, static_cast<std::uint64_t>(level));
  follow_clock();
}

}  // namespace

int statistics_level() noexcept {
  return current_level.load(relaxed);
}

int shown_statistics_level() noexcept {
  return stopped.load(relaxed) ? 0 : statistics_level();
}

// What was counted before a stop is gone with the next level, as with NVIDIA's library, and so is what was counted
// before the first start.
void set_statistics_level(int level) noexcept {
  const std::lock_guard lock(statistics_control);
  if (stopped.load(relaxed)) clear_counters();
  level_set = level;
  stopped.store(false, relaxed);
  take_level(level);
}

void open_statistics(int configured_level) noexcept {
  {
    const std::lock_guard lock(statistics_control);
    if (configured_level == 0 || stopped.load(relaxed)) clear_counters();
    if (configured_level > 0) stopped.store(false, relaxed);
    take_level(configured_level > 0 ? configured_level : level_set);
  }
  if (configured_level > 0) start_statistics();
}

void start_statistics() noexcept {
  const std::lock_guard lock(statistics_control);
  show_statistics_region();
  if (!started && !stopped.load(relaxed)) clear_counters();
  started = started_before = true;
  reset_since = false;
  stopped.store(false, relaxed);
  follow_clock();
}

bool statistics_are_started() noexcept {
  const std::lock_guard lock(statistics_control);
  return started && !reset_since;
}

bool statistics_were_started() noexcept {
  const std::lock_guard lock(statistics_control);
  return started_before;
}

void stop_statistics() noexcept {
  const std::lock_guard lock(statistics_control);
  started = false;
  stopped.store(true, relaxed);
  follow_clock();
}

void reset_statistics() noexcept {
  const std::lock_guard lock(statistics_control);
  reset_since = true;
  clear_counters();
}

void statistics_before_fork() noexcept {
  statistics_control.lock();
}

void statistics_after_fork(bool in_child) noexcept {
  if (in_child && (counted_before || started_before)) {
    renew_statistics_region_in_child();
    clear_neighbour_counts();
    set(head().ran, 0);
    set(head().started_at, statistics_running() ? nanoseconds_now() : 0);
  }
  statistics_control.unlock();
}

void count(Operation operation, bool ok, std::uint64_t times) noexcept {
  if (!statistics_running()) return;
  count(own_shard().operations[static_cast<std::size_t>(operation)], ok, times);
}

void count_transfer(const Transfer& transfer, base::Outcome outcome, std::size_t thread) noexcept {
  if (!statistics_running()) return;
  const auto direction = static_cast<std::size_t>(transfer.direction);
  sluice_stats_region& region = statistics_region();
  sluice_stats_shard& shard = region.shards[thread % SLUICE_STATS_SHARD_COUNT];
  sluice_stats_direction& sum = shard.directions[direction];
  count(sum.operations, outcome.ok());
  if (outcome.ok()) {
    add(sum.bytes, outcome.count());
    add(sum.nanoseconds, static_cast<std::uint64_t>(transfer.duration.count()));
    const std::size_t bucket = size_bucket(transfer.requested);
    add(sum.sizes[bucket], 1);
    count_latency(region, thread, transfer.direction, transfer.path, bucket, transfer.duration);
  }
  if (transfer.in_batch) count_in_batch(shard, transfer, outcome);
  if (is_counted(transfer.device)) {
    count_on_device(shard.devices[transfer.device].directions[direction], transfer, outcome);
  }
}

void count_by_neighbours(base::Direction direction, int device) noexcept {
  if (!statistics_running() || !is_counted(device)) return;
  neighbour_counts[static_cast<std::size_t>(direction)][static_cast<std::size_t>(device)].fetch_add(1, relaxed);
}

std::uint64_t by_neighbours(base::Direction direction, std::size_t device) noexcept {
  return neighbour_counts[static_cast<std::size_t>(direction)][device].load(relaxed);
}

void count_vectored(const VectoredTransfer& transfer, base::Outcome outcome) noexcept {
  if (!statistics_running()) return;
  const auto direction = static_cast<std::size_t>(transfer.direction);
  const std::size_t thread = base::thread_number();
  sluice_stats_shard& shard = shard_of(thread);
  sluice_stats_vectored& sum = shard.vectored[direction];
  count(sum.operations, outcome.ok());
  if (outcome.ok()) {
    add(sum.bytes, outcome.count());
    add(sum.nanoseconds, static_cast<std::uint64_t>(transfer.duration.count()));
    const std::size_t bucket = size_bucket(transfer.requested);
    add(shard.directions[direction].sizes[bucket], 1);
    count_latency(statistics_region(), thread, transfer.direction, transfer.path, bucket, transfer.duration);
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

namespace {

sluice_stats_way& counts_of(std::size_t thread, int path, int reason) noexcept {
  switch (sluice_stats_place_of(path, reason)) {
    case SLUICE_STATS_IN_LATER_WAYS:
      return statistics_region().later_ways[path][reason - SLUICE_STATS_REASON_COUNT];
    case SLUICE_STATS_IN_LATER_PATHS:
      return statistics_region().later_paths[path - SLUICE_STATS_PATH_COUNT][reason];
    default:
      return shard_of(thread).ways[path][reason];
  }
}

}  // namespace

void count_way(std::size_t thread, const Way& way, const Tally& tally) noexcept {
  if (!statistics_running()) return;
  sluice_stats_way& counts = counts_of(thread, way.path, way.reason);
  const bool reads = way.direction == base::Direction::read;
  add(reads ? counts.reads : counts.writes, tally.transfers);
  add(reads ? counts.read_bytes : counts.written_bytes, tally.bytes);
  if (tally.errors > 0) add(counts.errors, tally.errors);
}

void count_carried(sluice_stats_carrier carrier, std::uint64_t times) noexcept {
  if (statistics_running()) add(own_shard().carriers[carrier], times);
}

void count_registered_bytes(int device, std::int64_t bytes) noexcept {
  const std::lock_guard lock(statistics_control);
  // Registered memory is a level, not an event: it is kept whether or not the statistics run.
  if (device < 0) return add(head().registered_host_bytes, static_cast<std::uint64_t>(bytes));
  if (!is_counted(device)) return;
  add(head().devices[device].registered_bytes, static_cast<std::uint64_t>(bytes));
  if (!statistics_running()) return;
  sluice_stats_device& entry = own_shard().devices[device];
  add(bytes >= 0 ? entry.registrations : entry.deregistrations, 1);
}

bool knows_device(int device) noexcept {
  if (!is_counted(device)) return true;  // nothing is to be told of it
  return value(statistics_region().pci[device]) != 0;
}

void name_device(int device, const unsigned char (&uuid)[16], std::uint64_t pci) noexcept {
  if (!is_counted(device)) return;
  std::uint64_t words[2];
  std::memcpy(words, uuid, sizeof uuid);
  for (std::size_t i = 0; i < 2; ++i) set(head().devices[device].uuid[i], words[i]);
  set(statistics_region().pci[device], pci);
}

void UnderWay::begin(base::Direction direction, std::uint64_t bytes, std::uint64_t transfers,
                     std::size_t thread) noexcept {
  place_ = (thread % SLUICE_STATS_SHARD_COUNT) * 2 + static_cast<std::size_t>(direction);
  amount_ = (transfers << flow_shift) + std::min(bytes, most_flow_bytes);
  add(statistics_region().flows[place_ / 2].under_way[place_ % 2], amount_);
}

void UnderWay::end() noexcept {
  add(statistics_region().flows[place_ / 2].under_way[place_ % 2], 0 - amount_);
}

std::size_t size_bucket(std::uint64_t bytes) noexcept {
  return std::min(static_cast<std::size_t>(std::bit_width(bytes >> 12)), std::size_t{SLUICE_STATS_SIZE_COUNT} - 1);
}

}  // namespace sluice::observe
