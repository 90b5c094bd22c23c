// SPDX-License-Identifier: Apache-2.0
#include "trace/recording.h"

#include <ctime>

namespace sluice::tools {
namespace {

std::uint64_t time_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

std::string TracedProcess::file_name(std::int32_t fd, std::uint64_t time) const {
  const auto found = files.find(fd);
  if (found == files.end()) return {};
  const TracedFile* best = &found->second.front();
  for (const TracedFile& file : found->second) {
    if (file.since <= time) best = &file;
  }
  return best->name;
}

void Recording::look_at_clocks() {
  monotonic = time_of(CLOCK_MONOTONIC);
  boottime = time_of(CLOCK_BOOTTIME);
  realtime = time_of(CLOCK_REALTIME);
}

std::uint64_t Recording::events() const noexcept {
  std::uint64_t sum = 0;
  for (const TracedProcess& process : processes) {
    for (const TracedThread& thread : process.threads) sum += thread.events.size();
  }
  return sum;
}

std::uint64_t Recording::lost() const noexcept {
  std::uint64_t sum = 0;
  for (const TracedProcess& process : processes) {
    for (const TracedThread& thread : process.threads) sum += thread.lost;
  }
  return sum;
}

std::uint64_t Recording::threads_without_ring() const noexcept {
  std::uint64_t sum = 0;
  for (const TracedProcess& process : processes) sum += process.threads_without_ring;
  return sum;
}

}  // namespace sluice::tools
