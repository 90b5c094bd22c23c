// SPDX-License-Identifier: Apache-2.0
// The paths of the drive are told as they are when the transfer has ended.
#include "request/slow_log.h"

#include <fmt/format.h>
#include <time.h>

#include <string>

#include "facts/nvme_paths.h"
#include "observe/log.h"

namespace sluice::request {

namespace {

// Steps of some milliseconds will do.
std::int64_t coarse_milliseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

void write(const process::File& file, const Call& call, base::Outcome outcome, std::int64_t milliseconds) {
  const facts::BlockFacts& block = file.facts.block;
  const std::string paths =
      block.driver == "nvme" ? facts::describe_nvme_paths(block.name, facts::Root{}) : std::string();
  observe::log(config::LogLevel::warn, "request",
               fmt::format("a {} of {} bytes at {} took {}.{} s and {}: {}{}{}",
                           call.direction == base::Direction::read ? "read" : "write", call.size, call.file_offset,
                           milliseconds / 1000, milliseconds % 1000 / 100,
                           outcome.ok() ? fmt::format("moved {}", outcome.count()) : "failed",
                           facts::describe(file.facts), paths.empty() ? "" : "; ", paths));
}

}  // namespace

TransferTimer::TransferTimer() noexcept : began_(coarse_milliseconds()) {}

std::int64_t TransferTimer::so_far() const noexcept {
  return coarse_milliseconds() - began_;
}

void TransferTimer::tell(const process::File& file, const Call& call, base::Outcome outcome,
                         std::int64_t milliseconds) noexcept {
  if (!observe::log_enabled(config::LogLevel::warn)) return;
  try {
    write(file, call, outcome, milliseconds);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason to fail the transfer
  }
}

}  // namespace sluice::request
