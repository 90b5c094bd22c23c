// SPDX-License-Identifier: Apache-2.0
// What is chosen, and what is said where it cannot be had.
#include "io/disk_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "observe/log.h"

namespace sluice::io {

namespace {

std::atomic<bool> refusal_told{false};

}  // namespace

DiskWay disk_way_named(std::string_view name) noexcept {
  const auto* const found = std::find(disk_way_names.begin(), disk_way_names.end(), name);
  return found == disk_way_names.end() ? DiskWay::automatic : static_cast<DiskWay>(found - disk_way_names.begin());
}

CompletionMode DiskQueue::completion() const noexcept {
  const bool polls = way_ == DiskWay::polled && !unpollable_.load(std::memory_order_relaxed);
  return polls ? CompletionMode::polled : CompletionMode::interrupt;
}

CompletionMode DiskQueue::ring_to_use() const noexcept {
  const CompletionMode chosen = completion();
  if (chosen == CompletionMode::interrupt) return chosen;
  const Uring::Use ring = Uring::of_this_thread(chosen);
  if (ring) return chosen;
  if (ring.error() != 0) polling_was_refused(ring.error());
  return CompletionMode::interrupt;
}

void DiskQueue::cannot_be_polled() noexcept {
  if (unpollable_.exchange(true, std::memory_order_relaxed)) return;
  try {
    observe::log(
        config::LogLevel::warn, "disk",
        fmt::format("sluice.disk_reads is {}, and a file's storage has no queues that can be polled: its reads "
                    "end by interrupt (NVMe drives have such queues with nvme.poll_queues=N)",
                    disk_way_names[static_cast<std::size_t>(way_)]));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the reads go on, which is what counts
  }
}

void DiskQueue::polling_was_refused(int error) noexcept {
  if (refusal_told.exchange(true, std::memory_order_relaxed)) return;
  try {
    observe::log(
        config::LogLevel::warn, "disk",
        fmt::format("the kernel refuses a ring for iopoll ({}): reads go without it", ::strerrorname_np(error)));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

}  // namespace sluice::io
