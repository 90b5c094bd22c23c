// SPDX-License-Identifier: Apache-2.0
// How reads that a disk has to bring are kept on their way: what the configuration has chosen, and what a file's
// storage has turned out to take.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "io/uring.h"

namespace sluice::io {

enum class DiskWay : std::uint8_t {
  automatic,  // what has proved best: rings, and threads where the kernel has none
  threads,    // workers, each of which waits in a read of its own
  rings,      // io_uring, which ends by interrupt
  polled,     // io_uring that is polled (IOPOLL)
};

// By their names in sluice.disk_reads, in this order.
inline constexpr std::array<std::string_view, 4> disk_way_names{"auto", "threads", "io_uring", "iopoll"};
DiskWay disk_way_named(std::string_view name) noexcept;

// Of one file. Any thread.
class DiskQueue {
 public:
  explicit DiskQueue(DiskWay way) noexcept : way_(way) {}
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  bool takes_rings() const noexcept { return way_ != DiskWay::threads; }
  // The ring to try first.
  CompletionMode completion() const noexcept;
  // The kind of ring that this thread's reads of the file take: the chosen one, as far as kernel and storage go along.
  CompletionMode ring_to_use() const noexcept;

  // The storage has no queues for it: not tried again. Says so once.
  void cannot_be_polled() noexcept;

  // The kernel refuses a ring that is polled: says so once a process.
  static void polling_was_refused(int error) noexcept;

 private:
  const DiskWay way_;
  std::atomic<bool> unpollable_{false};
};

}  // namespace sluice::io
