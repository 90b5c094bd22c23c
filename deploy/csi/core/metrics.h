// SPDX-License-Identifier: Apache-2.0
// What Prometheus reads of the driver: calls, room, volumes with their health and what the last trial of their path
// said.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/volumes.h"

namespace sluice::csi {

// Counts calls by name and code. From any thread.
class CallCounts {
 public:
  void count(const std::string& call, int code, std::chrono::nanoseconds took);
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> calls_;
  std::map<std::string, std::chrono::nanoseconds> took_;
};

// The text format 0.0.4 of all backends and of the calls.
std::string metrics_text(const Volumes& volumes, const CallCounts& calls);

}  // namespace sluice::csi
