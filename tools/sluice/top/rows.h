// SPDX-License-Identifier: Apache-2.0
// What `sluice top` tells of each process: what it did since the look before.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gds_stats/follow.h"
#include "sluice.h"

namespace sluice::tools {

struct GpuShare {
  std::size_t gpu = 0;
  std::string name;  // "GPU-..."
  double bytes = 0;  // a second, in the busier direction
  double share = 0;  // of its link; 0 where the link is not known
};

struct TopRow {
  pid_t pid = 0;
  std::uint64_t started = 0;
  std::string program;
  bool ended = false;
  std::uint64_t level = 0;
  double read_bytes = 0;   // a second
  double write_bytes = 0;  // a second
  double p50 = 0;          // nanoseconds; 0 where nothing ended
  double p99 = 0;
  std::uint64_t errors = 0;
  std::uint64_t under_way = 0;
  bool has_way = false;  // the way of most bytes: of this look or, where nothing moved, of all
  sluice_path_t path = SLUICE_PATH_POSIX;
  sluice_reason_t reason = SLUICE_REASON_HOST_MEMORY;
  bool has_detour = false;  // the reason that kept most bytes from the drive's own way
  sluice_reason_t detour = SLUICE_REASON_HOST_MEMORY;
  std::vector<GpuShare> gpus;
  std::vector<double> history;  // bytes a second, oldest first, at most 60
};

class TopRows {
 public:
  TopRows() : follower_(256) {}

  // Looks, and tells of the time since the look before. The busiest comes first.
  std::vector<TopRow> look();
  // What look() measured over, in seconds.
  double seconds() const noexcept { return seconds_; }

 private:
  struct Before {
    Sample sample;
    std::deque<double> history;
  };
  using Key = std::pair<pid_t, std::uint64_t>;

  Follower follower_;
  std::map<Key, Before> before_;
  std::chrono::steady_clock::time_point then_{};
  double seconds_ = 0;
};

nlohmann::ordered_json top_json(const std::vector<TopRow>& rows, double seconds);

}  // namespace sluice::tools
