// SPDX-License-Identifier: Apache-2.0
// Gathers the events of processes while they run: those that bring their memory themselves (`sluice trace -- CMD`), or
// one that is looked at (`sluice trace PID`).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/recording.h"
#include "trace/rings.h"

namespace sluice::tools {

class Collector {
 public:
  explicit Collector(std::uint64_t most_events) : room_(most_events) { recording_.look_at_clocks(); }

  // A process's memory, by a descriptor that is the collector's from now on.
  void add(pid_t process, int fd);
  // Looks for such memory in a process that runs. False: it has none yet, or is making it. Throws ToolError where it
  // may not be looked at.
  bool find(pid_t process);
  // Events before now are left out from here on, in what is added later.
  void leave_out_the_past();

  // Reads what is new in all of them.
  void read();

  const Recording& recording() const noexcept { return recording_; }
  bool is_empty() const noexcept { return sources_.empty(); }

 private:
  struct Source {
    std::size_t process;  // in the recording
    Rings rings;
  };
  static void add_to_name(TracedProcess& process, const sluice_trace_event& event);
  static void name_files(TracedProcess& process, std::size_t thread, std::size_t from);

  Recording recording_;
  std::vector<Source> sources_;
  std::uint64_t since_ = 0;
  std::uint64_t room_;
};

// Where processes bring their memory: an abstract socket that only this user, and root, is heard at.
class CollectorSocket {
 public:
  CollectorSocket();
  CollectorSocket(const CollectorSocket&) = delete;
  CollectorSocket& operator=(const CollectorSocket&) = delete;
  ~CollectorSocket();

  int fd() const noexcept { return fd_; }
  const std::string& name() const noexcept { return name_; }
  // All that have come.
  void drain(Collector& collector);

 private:
  int fd_ = -1;
  std::string name_;
  struct Connection {
    int fd;
    int looks;
  };
  std::vector<Connection> connections_;  // accepted, nothing heard yet
};

}  // namespace sluice::tools
