// The cuFile statistics of levels 1 to 3. Off (level 0, or stopped) they cost one load a call. Once they run, other
// programs can look at them (statistics_region.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/outcome.h"
#include "base/strong.h"
#include "cufile.h"
#include "observe/path_counters.h"
#include "sluice_stats.h"

namespace sluice::observe {

// Calls that are counted as ok or failed.
enum class Operation : std::uint8_t {
  handle_register = SLUICE_STATS_HANDLE_REGISTER,
  handle_deregister = SLUICE_STATS_HANDLE_DEREGISTER,
  buffer_register = SLUICE_STATS_BUFFER_REGISTER,
  buffer_deregister = SLUICE_STATS_BUFFER_DEREGISTER,
  batch_submit = SLUICE_STATS_BATCH_SUBMIT,
  batch_complete = SLUICE_STATS_BATCH_COMPLETE,
  batch_setup = SLUICE_STATS_BATCH_SETUP,
  batch_cancel = SLUICE_STATS_BATCH_CANCEL,
  batch_destroy = SLUICE_STATS_BATCH_DESTROY,
  batch_enqueued = SLUICE_STATS_BATCH_ENQUEUED,
};

// One transfer, as the statistics see it.
struct Transfer {
  base::Direction direction = base::Direction::read;
  std::uint64_t requested = 0;
  bool aligned = true;
  int device = -1;  // -1: host memory
  std::chrono::nanoseconds duration{};
  bool by_drive = false;  // storage and device exchanged it; else the CPU carried it
  bool in_batch = false;
};

// Control: the calls of the C API. `level()` is 0 to 3.
int statistics_level() noexcept;
void set_statistics_level(int level) noexcept;
void start_statistics() noexcept;
void stop_statistics() noexcept;
void reset_statistics() noexcept;
// Level > 0, started, and neither stopped nor reset since.
bool statistics_running() noexcept;

// A forked child counts what it does itself: it starts at zero, except for the memory that is registered. Nothing of it
// is counted in the parent. The first is called before the fork, the other one after it on both sides.
void statistics_before_fork() noexcept;
void statistics_after_fork(bool in_child) noexcept;

void count(Operation operation, bool ok, std::uint64_t times = 1) noexcept;
void count_transfer(const Transfer& transfer, base::Outcome outcome) noexcept;
// The part of it that went one way. The counters that always run are path_counters.h and carriers.h.
void count_way(const Way& way, const Tally& tally) noexcept;
void count_carried(sluice_stats_carrier carrier, std::uint64_t times) noexcept;

void count_registered_bytes(int device, std::int64_t bytes) noexcept;
// What level 3 shows of a device; called when it is first seen.
void name_device(int device, const unsigned char (&uuid)[16]) noexcept;

void read_statistics(CUfileStatsLevel1_t& out) noexcept;
void read_statistics(CUfileStatsLevel2_t& out) noexcept;
void read_statistics(CUfileStatsLevel3_t& out) noexcept;

// The bucket of the size histograms: 0 for less than 4 KiB, 1 for 4 to 8 KiB, doubling.
std::size_t size_bucket(std::uint64_t bytes) noexcept;

}  // namespace sluice::observe
