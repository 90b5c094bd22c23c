// SPDX-License-Identifier: Apache-2.0
// All processes of this machine that show statistics, followed from look to look. What a process shows may be anything:
// its counters here never fall, and its names stay what they were at first sight.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gds_stats/process.h"
#include "gds_stats/region.h"
#include "gds_stats/sample.h"

namespace sluice::tools {

// `now` with the counters of `total`, raised by what came since `earlier`; and what of it is no counter.
void accumulate(Sample& total, const Sample& now, const Sample& earlier);

// Of a path in /proc/PID/cgroup: the UID of the pod that it belongs to, with dashes; "" outside of Kubernetes.
std::string pod_of(std::string_view cgroup);

class FollowedProcess {
 public:
  FollowedProcess(pid_t pid, uid_t owner, std::uint64_t started);

  // Reads what it shows now. False when it shows nothing that can be read.
  bool look();
  // Its counters were last read when it ended; they are told for a while after that.
  bool has_ended() const noexcept { return ended_; }
  std::chrono::steady_clock::time_point ended_at() const noexcept { return ended_at_; }

  pid_t pid() const noexcept { return process_.pid(); }
  uid_t owner() const noexcept { return owner_; }
  std::uint64_t started() const noexcept { return started_; }
  const std::string& program() const noexcept { return process_.program(); }
  const std::string& pod() const noexcept { return pod_; }
  const Sample& total() const noexcept { return total_; }
  // Another process had this number and name, and what it counted is told under them.
  void go_on_from(const FollowedProcess& earlier);

 private:
  struct Region {
    std::vector<std::unique_ptr<ShownRegion>> memory;  // one
    Sample last;
  };
  void open_new(const std::vector<ShownMapping>& mappings);
  void read_all();

  WatchedProcess process_;
  uid_t owner_;
  std::uint64_t started_;
  std::string pod_;
  std::vector<Region> regions_;
  Sample total_;
  bool ended_ = false;
  std::chrono::steady_clock::time_point ended_at_{};
};

class Follower {
 public:
  // At most so many processes, at most half of them of one user other than root.
  explicit Follower(std::size_t most) : most_(most) {}

  // Looks once. What has ended stays for five minutes.
  void look();

  const std::vector<std::unique_ptr<FollowedProcess>>& processes() const noexcept { return processes_; }
  std::size_t beyond_limit() const noexcept { return beyond_limit_; }
  std::size_t unreadable() const noexcept { return unreadable_; }

 private:
  // A process that shows nothing is looked at less and less often, up to every fourth time; one that shows what cannot
  // be read, which it may make costly to find out, up to every 64th.
  struct Other {
    std::uint64_t started = 0;
    unsigned wait = 0;
    unsigned left = 0;
    bool unreadable = false;
  };
  void look_later(Other& other, std::uint64_t started, bool unreadable);
  void look_at(pid_t pid);
  bool has_room_for(uid_t owner) const;

  std::size_t most_;
  std::vector<std::unique_ptr<FollowedProcess>> processes_;
  std::map<pid_t, Other> others_;
  std::size_t beyond_limit_ = 0;
  std::size_t unreadable_ = 0;
};

}  // namespace sluice::tools
