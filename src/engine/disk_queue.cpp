// What is chosen, and what is said where it cannot be had.
#include "engine/disk_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "observe/log.h"

namespace sluice::engine {

namespace {

std::atomic<bool> refusal_told{false};

}  // namespace

DiskWay disk_way_named(std::string_view name) noexcept {
  const auto* const found = std::find(disk_way_names.begin(), disk_way_names.end(), name);
  return found == disk_way_names.end() ? DiskWay::automatic : static_cast<DiskWay>(found - disk_way_names.begin());
}

Completion DiskQueue::completion() const noexcept {
  const bool polls = way_ == DiskWay::polled && !unpollable_.load(std::memory_order_relaxed);
  return polls ? Completion::polled : Completion::interrupt;
}

void DiskQueue::cannot_be_polled() noexcept {
  if (unpollable_.exchange(true, std::memory_order_relaxed)) return;
  try {
    observe::log(config::LogLevel::warn, "disk",
                 "sluice.disk_reads is iopoll, and a file's storage has no queues that can be polled: its reads end by "
                 "interrupt (NVMe drives have such queues with nvme.poll_queues=N)");
  } catch (...) {  // NOLINT(bugprone-empty-catch): the reads go on, which is what counts
  }
}

void DiskQueue::refused(int error) noexcept {
  if (refusal_told.exchange(true, std::memory_order_relaxed)) return;
  try {
    observe::log(
        config::LogLevel::warn, "disk",
        fmt::format("the kernel refuses a ring for iopoll ({}): reads go without it", ::strerrorname_np(error)));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

}  // namespace sluice::engine
