// SPDX-License-Identifier: Apache-2.0
// The cuFile statistics of levels 1 to 3. Off (level 0, or stopped) they cost one load a call. Once they were started,
// other programs can look at them (statistics_region.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/outcome.h"
#include "base/strong.h"
#include "cufile.h"
#include "observe/path_counters.h"
#include "observe/thread_slot.h"
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
  sluice_path_t path = SLUICE_PATH_POSIX;
  bool in_batch = false;
};

// Transfers that ended at the same time and are alike in what is told apart: entries of a group, as a rule.
struct Transfers {
  // What they have in common.
  base::Direction direction = base::Direction::read;
  bool in_batch = false;
  sluice_path_t path = SLUICE_PATH_POSIX;
  int device = -1;
  std::uint32_t size_bucket = 0;  // of what each asked for
  std::chrono::nanoseconds duration{};
  // What is added up.
  std::uint64_t good = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unaligned = 0;   // of the good ones
  std::uint64_t last_bytes = 0;  // of the last one

  void add(base::Outcome outcome, bool is_aligned) noexcept {
    last_bytes = outcome.count();
    bytes += last_bytes;
    if (!outcome.ok()) [[unlikely]] {
      ++failed;
      return;
    }
    ++good;
    if (!is_aligned) ++unaligned;
  }
};

// One cuFileReadv or cuFileWritev, whatever it is made of.
struct VectoredTransfer {
  base::Direction direction = base::Direction::read;
  std::uint64_t requested = 0;
  std::chrono::nanoseconds duration{};
  // What went to or from each device, by ordinal.
  struct Share {
    std::uint64_t bytes = 0;
    bool by_drive = false;
    bool aligned = true;
  };
  std::array<Share, SLUICE_STATS_DEVICE_COUNT> devices{};
  sluice_path_t path = SLUICE_PATH_POSIX;  // of the last part that moved something

  // Of a part; device -1: host memory.
  void add(int device, std::uint64_t bytes, sluice_path_t way, bool aligned) noexcept {
    if (bytes > 0) path = way;
    if (device < 0 || device >= SLUICE_STATS_DEVICE_COUNT) return;
    Share& share = devices[static_cast<std::size_t>(device)];
    share.bytes += bytes;
    share.by_drive = share.by_drive || way == SLUICE_PATH_P2PDMA || way == SLUICE_PATH_NVFS;
    share.aligned = share.aligned && aligned;
  }
};

// Written by the control below; asked in every transfer.
inline constinit std::atomic<bool> something_counts{false};

// Control: the calls of the C API. A level is 0 to 3; the one that is shown is 0 from a stop until the next start or
// until a level is set.
int statistics_level() noexcept;
int shown_statistics_level() noexcept;
void set_statistics_level(int level) noexcept;
// The driver opens. A level that is configured is started, and counting goes on; where none is, it begins anew, at the
// level that the program has set in an earlier life.
void open_statistics(int configured_level) noexcept;
void start_statistics() noexcept;
void stop_statistics() noexcept;
void reset_statistics() noexcept;
// Calls are counted: the level is not 0, and nothing has stopped them. A start is not needed for that. Acquire: how
// threads share the counters out was settled before.
inline bool statistics_running() noexcept {
  return something_counts.load(std::memory_order_acquire);
}
// Since the last stop or reset, whatever the level.
bool statistics_are_started() noexcept;
// At any time in this process or in one that it was forked from.
bool statistics_were_started() noexcept;

// A forked child counts what it does itself: it starts at zero, except for the memory that is registered. Nothing of it
// is counted in the parent. The first is called before the fork, the other one after it on both sides.
void statistics_before_fork() noexcept;
void statistics_after_fork(bool in_child) noexcept;

void count(Operation operation, bool ok, std::uint64_t times = 1) noexcept;
void count_transfer(const Transfer& transfer, base::Outcome outcome) noexcept;
// Of a transfer of this device's memory a part went by the memory of other devices. Told to this process alone.
void count_by_neighbours(base::Direction direction, int device) noexcept;
std::uint64_t by_neighbours(base::Direction direction, std::size_t device) noexcept;
void count_vectored(const VectoredTransfer& transfer, base::Outcome outcome) noexcept;
// While they run. What went one way, if anything has, and what ended meanwhile; null: nothing. The counters that always
// run are path_counters.h and copy_counters.h.
void count_ended(const Way& way, const Tally& tally, const Transfers* ended, ThreadSlot thread) noexcept;
void count_carried(sluice_stats_carrier carrier, std::uint64_t times, ThreadSlot thread) noexcept;

// Device -1: host memory.
void count_registered_bytes(int device, std::int64_t bytes) noexcept;
// What others are told of a device: `pci` as sluice_stats_region has it, never 0. Both may be called from any thread.
bool knows_device(int device) noexcept;
void name_device(int device, const unsigned char (&uuid)[16], std::uint64_t pci) noexcept;

// Lives on one thread while transfers are under way: one, or those of a group with their bytes together.
class UnderWay {
 public:
  UnderWay(base::Direction direction, std::uint64_t bytes, std::uint64_t transfers = 1,
           ThreadSlot thread = thread_slot()) noexcept {
    if (transfers != 0 && statistics_running()) begin(direction, bytes, transfers, thread);
  }
  ~UnderWay() {
    if (amount_ != 0) end();
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  void begin(base::Direction direction, std::uint64_t bytes, std::uint64_t transfers, ThreadSlot thread) noexcept;
  void end() noexcept;
  void add(std::uint64_t amount) const noexcept;

  Block block_{};
  base::Direction direction_{};
  std::uint64_t amount_ = 0;
};

// Of the 32 bins that level 2 has room for, the last one also counts what is larger: NVIDIA's library fills no more.
inline constexpr std::size_t size_bins_in_use = 16;

// The counters that version 1.19 has behind those of level 1.
struct VectoredCounters {
  CUfileOpCounter_t readv_ops, writev_ops;
  std::uint64_t readv_bytes, writev_bytes;
  std::uint64_t readv_bw_bytes_per_sec, writev_bw_bytes_per_sec;
  std::uint64_t readv_lat_avg_us, writev_lat_avg_us;
  std::uint64_t readv_ops_per_sec, writev_ops_per_sec;
  std::uint64_t readv_lat_sum_us, writev_lat_sum_us;
};

// Where vectored calls are told: where nothing else tells of them, they count as reads and writes.
enum class Vectored : std::uint8_t { among_all, apart };
void read_statistics(CUfileStatsLevel1_t& out, Vectored vectored) noexcept;
void read_statistics(CUfileStatsLevel2_t& out, Vectored vectored) noexcept;
void read_statistics(CUfileStatsLevel3_t& out, Vectored vectored) noexcept;
void read_statistics(VectoredCounters& out) noexcept;

// The bucket of the size histograms: 0 for less than 4 KiB, 1 for 4 to 8 KiB, doubling.
inline std::uint32_t size_bucket(std::uint64_t bytes) noexcept {
  return std::min(static_cast<std::uint32_t>(std::bit_width(bytes >> 12)), std::uint32_t{SLUICE_STATS_SIZE_COUNT} - 1);
}

}  // namespace sluice::observe
