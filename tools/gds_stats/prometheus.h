// SPDX-License-Identifier: Apache-2.0
// The counters of many processes in Prometheus's text format, version 0.0.4.
#pragma once

#include <span>
#include <string>

#include "gds_stats/follow.h"
#include "gds_stats/metrics.h"

namespace sluice::tools {

struct Exported {
  Labels labels;  // of the process
  const Sample* sample = nullptr;
};

// pid, comm and, in Kubernetes, pod_uid.
Labels process_labels(const FollowedProcess& process);

// What there is to tell of the look itself.
struct LookFacts {
  std::size_t processes = 0;
  std::size_t beyond_limit = 0;
  std::size_t unreadable = 0;
  double seconds = 0;
};

std::string prometheus_text(std::span<const Exported> processes, const LookFacts& facts);

// One look by `follower`, and its text.
std::string prometheus_text(Follower& follower);

}  // namespace sluice::tools
