// SPDX-License-Identifier: Apache-2.0
// `sluice trace`: records what transfers are at, of a program that it starts or a process that runs already, and writes
// it as a file that Perfetto opens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <string>

#include "sluice/commands.h"
#include "trace/recording.h"

namespace sluice::tools {

struct TraceOptions {
  std::string output;  // the file; "" for sluice.pftrace, or .json
  std::string format;  // perfetto, chrome; "" by the name of the file
  std::uint64_t most_events = 8'000'000;
  pid_t process = 0;  // 0: `run` names a program
  // Of a process: how long; not given: until it ends or ^C; 0: what is there.
  double seconds = std::numeric_limits<double>::quiet_NaN();
  bool json = false;
  RunOptions run;
};

// Exit status: of a program its own, else 0.
int trace_command(const TraceOptions& options);

// Records the program of `run` and calls `ended` with what there is before this process ends as that one did. What
// `ended` throws is told on stderr, with `json` as an object, too.
struct RecordedRun {
  virtual void ended(const Recording& recording) = 0;

 protected:
  ~RecordedRun() = default;
};
int run_recorded(const RunOptions& run, std::uint64_t most_events, RecordedRun& listener, bool json = false);

}  // namespace sluice::tools
