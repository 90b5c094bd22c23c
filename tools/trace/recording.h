// SPDX-License-Identifier: Apache-2.0
// What was recorded of one or several processes: their events in order, thread by thread, and what is needed to name
// things.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sluice_trace.h"

namespace sluice::tools {

struct TracedThread {
  pid_t number = 0;  // as the process's namespace has it
  std::string name;
  std::vector<sluice_trace_event> events;  // in the order in which they were written
  std::uint64_t lost = 0;                  // written over before they were read, or beyond the limit
};

struct TracedFile {
  std::uint64_t since = 0;  // nanoseconds of CLOCK_MONOTONIC
  std::string name;
};

struct TracedProcess {
  pid_t number = 0;  // as we see it
  std::string name;
  std::string library;  // version
  std::vector<TracedThread> threads;
  std::map<std::int32_t, std::vector<TracedFile>> files;  // by descriptor, as it was when it was first seen
  std::uint64_t threads_without_ring = 0;

  // Of a descriptor at that time; "" when it is not known.
  std::string file_name(std::int32_t fd, std::uint64_t time) const;
};

struct Recording {
  std::vector<TracedProcess> processes;
  // One moment by three clocks, in nanoseconds: those of events, of the machine's life, and of the wall.
  std::uint64_t monotonic = 0;
  std::uint64_t boottime = 0;
  std::uint64_t realtime = 0;

  void look_at_clocks();
  std::uint64_t events() const noexcept;
  std::uint64_t lost() const noexcept;
  std::uint64_t threads_without_ring() const noexcept;
};

}  // namespace sluice::tools
