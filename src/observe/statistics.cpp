// SPDX-License-Identifier: Apache-2.0
// Levels, starts, stops and resets, and what is told of devices. What is counted is in statistics_counting.cpp.
#include "observe/statistics.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "observe/statistics_turn.h"
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

sluice_stats_head& head() noexcept {
  return statistics_region().head;
}

// With the lock held, after whether anything counts may have changed: rates are over the time that something did.
void follow_clock() noexcept {
  something_counts.store(current_level.load(relaxed) > 0 && !stopped.load(relaxed), std::memory_order_release);
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
  const TurnsPaused paused;
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
  if (started_before) add(head().resets, 1);  // else no reader has seen them
}

// With the lock held.
void take_level(int level) noexcept {
  if (level > 0) allow_turns_alone();
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
  if (in_child) turns_after_fork_in_child();
  if (in_child && (counted_before || started_before)) {
    renew_statistics_region_in_child();
    clear_neighbour_counts();
    set(head().ran, 0);
    set(head().started_at, statistics_running() ? nanoseconds_now() : 0);
  }
  statistics_control.unlock();
}

void count_by_neighbours(base::Direction direction, int device) noexcept {
  if (!statistics_running() || !is_counted(device)) return;
  neighbour_counts[static_cast<std::size_t>(direction)][static_cast<std::size_t>(device)].fetch_add(1, relaxed);
}

std::uint64_t by_neighbours(base::Direction direction, std::size_t device) noexcept {
  return neighbour_counts[static_cast<std::size_t>(direction)][device].load(relaxed);
}

void count_registered_bytes(int device, std::int64_t bytes) noexcept {
  const std::lock_guard lock(statistics_control);
  // Registered memory is a level, not an event: it is kept whether or not the statistics run.
  if (device < 0) return add(head().registered_host_bytes, static_cast<std::uint64_t>(bytes));
  if (!is_counted(device)) return;
  add(head().devices[device].registered_bytes, static_cast<std::uint64_t>(bytes));
  if (!statistics_running()) return;
  sluice_stats_device& entry = shared_shard(thread_slot()).devices[device];
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

}  // namespace sluice::observe
