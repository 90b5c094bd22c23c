// SPDX-License-Identifier: Apache-2.0
#include "trace/command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "common/written.h"
#include "sluice/statuses.h"
#include "trace/collector.h"
#include "trace/perfetto.h"
#include "trace/remote_switch.h"

namespace sluice::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A ring holds 16384 events of a thread: some 5 ms of the busiest one.
constexpr milliseconds between_looks{4};
constexpr const char* what_it_is = "The trace";

std::string name_of_output(const TraceOptions& options) {
  if (!options.output.empty()) return options.output;
  return options.format == "chrome" ? "sluice.json" : "sluice.pftrace";
}

bool as_chrome(const TraceOptions& options) {
  if (!options.format.empty()) return options.format == "chrome";
  return name_of_output(options).ends_with(".json");
}

void print_object(const nlohmann::ordered_json& json) {
  tools::tell("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Of no process: that there is nothing, and no file.
void tell(const TraceOptions& options, const Recording& recording, std::size_t bytes) {
  const std::string name = name_of_output(options);
  std::size_t threads = 0;
  for (const TracedProcess& process : recording.processes) threads += process.threads.size();
  if (options.json) {
    nlohmann::ordered_json json = {{"file", name},
                                   {"format", as_chrome(options) ? "chrome" : "perfetto"},
                                   {"bytes", bytes},
                                   {"processes", recording.processes.size()},
                                   {"threads", threads},
                                   {"events", recording.events()},
                                   {"lost", recording.lost()},
                                   {"threads_without_ring", recording.threads_without_ring()}};
    if (recording.processes.empty()) json["file"] = nullptr;
    print_object(json);
    return;
  }
  if (recording.processes.empty()) {
    tools::tell("sluice: there is nothing to trace: no process of {} has opened cuFile\n",
                printable(options.run.command.front()));
    return;
  }
  tools::tell("sluice: {} events of {} thread{} in {}, {}; open it with https://ui.perfetto.dev\n", recording.events(),
              threads, threads == 1 ? "" : "s", printable(name), format_bytes(bytes));
  if (recording.lost() > 0) {
    tools::tell("sluice: {} events were lost: they came quicker than they were read, or beyond --events\n",
                recording.lost());
  }
  if (recording.threads_without_ring() > 0) {
    tools::tell("sluice: {} threads have no events: {} are traced at a time\n", recording.threads_without_ring(),
                static_cast<int>(SLUICE_TRACE_RING_COUNT));
  }
}

void write_trace(const TraceOptions& options, const Recording& recording, OutputFile& output) {
  const std::string content = as_chrome(options) ? chrome_trace(recording) : perfetto_trace(recording);
  output.write(content);
  tell(options, recording, content.size());
}

// Reads along while `sluice run` watches the program.
class RunCompanion final : public Companion {
 public:
  RunCompanion(std::uint64_t most_events, bool json, RecordedRun& listener)
      : collector_(most_events), json_(json), listener_(listener) {
    setenv("SLUICE_TRACE", socket_.name().c_str(), 1);
  }
  int fd() const noexcept override { return socket_.fd(); }
  milliseconds pause() const noexcept override { return between_looks; }
  void look() override {
    socket_.drain(collector_);
    collector_.read();
  }
  void ended() override {
    look();
    try {
      listener_.ended(collector_.recording());
    } catch (const ToolError& error) {
      // Told here: where the program ended by a signal, this process is about to end by the same.
      has_failed_ = true;
      tools::tell("sluice: {}\n        {}\n", error.what(), error.remedy());
      if (json_) print_object({{"error", error.what()}, {"remedy", error.remedy()}});
    }
  }
  bool has_failed() const noexcept { return has_failed_; }

 private:
  CollectorSocket socket_;
  Collector collector_;
  bool json_;
  bool has_failed_ = false;
  RecordedRun& listener_;
};

class WritesTrace final : public RecordedRun {
 public:
  explicit WritesTrace(const TraceOptions& options)
      : options_(options), output_(name_of_output(options), what_it_is, status_own_failure) {}
  void ended(const Recording& recording) override {
    if (recording.processes.empty()) {
      tell(options_, recording, 0);
    } else {
      write_trace(options_, recording, output_);
    }
  }

 private:
  const TraceOptions& options_;
  OutputFile output_;
};

// ^C and its like arrive here in place of ending the tool: the switch has to be set back.
class Interrupts {
 public:
  Interrupts() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, signal);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    fd_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() { close(fd_); }
  int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// A year. What is longer is a slip, and no end at all is meant by leaving it out.
constexpr double most_seconds = 366.0 * 24 * 3600;

void want_sound(const TraceOptions& options) {
  const bool has_seconds = !std::isnan(options.seconds);
  if (has_seconds && !(options.seconds >= 0 && options.seconds <= most_seconds)) {
    throw ToolError(fmt::format("--seconds {:g} is no time to trace for.", options.seconds),
                    "Write seconds, 0 for what is there already, or leave --seconds out to go on until ^C.",
                    status_usage);
  }
  if (!options.run.command.empty() && options.process != 0) {
    throw ToolError(fmt::format("There are a process, {}, and a program, {}.", options.process,
                                printable(options.run.command.front())),
                    "Write a process: sluice trace PID, or a program: sluice trace -- CMD ARG...", status_usage);
  }
  if (options.process == 0 && has_seconds) {
    throw ToolError("--seconds is for a process that runs already.",
                    "Write its number: sluice trace PID --seconds 10; a program is traced until it ends.",
                    status_usage);
  }
}

int trace_process(const TraceOptions& options) {
  OutputFile output(name_of_output(options), what_it_is);
  Collector collector(options.most_events);
  const Interrupts interrupts;
  const int process = static_cast<int>(syscall(SYS_pidfd_open, options.process, 0));
  if (options.seconds != 0) collector.leave_out_the_past();
  const bool records_already = collector.find(options.process);
  std::optional<RemoteSwitch> remote;
  if (!records_already || options.seconds != 0) {
    // What it has recorded of its own accord is there to be read; else its recorder has to be switched on.
    try {
      remote.emplace(options.process);
      if (remote->is_on()) {
        remote.reset();
      } else {
        remote->set(true);
      }
    } catch (const ToolError&) {
      if (process >= 0) close(process);
      throw;
    }
  }
  const auto end = steady_clock::now() + std::chrono::duration_cast<milliseconds>(
                                             std::chrono::duration<double>(options.seconds >= 0 ? options.seconds : 0));
  bool is_known = records_already;
  while (true) {
    if (!is_known) {
      try {
        is_known = collector.find(options.process);
      } catch (const ToolError&) {  // it has ended
        break;
      }
    }
    collector.read();
    if (options.seconds >= 0 && steady_clock::now() >= end) break;
    std::array<pollfd, 2> sources{{{interrupts.fd(), POLLIN, 0}, {process, POLLIN, 0}}};
    if (poll(sources.data(), sources.size(), static_cast<int>(between_looks.count())) > 0) break;
  }
  if (remote) remote->set(false);
  try {
    is_known = is_known || collector.find(options.process);
  } catch (const ToolError&) {  // it has ended
  }
  collector.read();
  if (process >= 0) close(process);
  if (!is_known) {
    throw ToolError(
        fmt::format("Process {} has made no transfer meanwhile: there is nothing to trace.", options.process),
        "Trace it for longer (--seconds), or while it works.");
  }
  write_trace(options, collector.recording(), output);
  return 0;
}

}  // namespace

int run_recorded(const RunOptions& run, std::uint64_t most_events, RecordedRun& listener, bool json) {
  RunCompanion companion(most_events, json, listener);
  RunOptions watched = run;
  watched.companion = &companion;
  const int status = run_command(watched);
  return status == 0 && companion.has_failed() ? status_own_failure : status;
}

int trace_command(const TraceOptions& options) {
  want_sound(options);
  if (options.process != 0) return trace_process(options);
  WritesTrace listener(options);
  return run_recorded(options.run, options.most_events, listener, options.json);
}

}  // namespace sluice::tools
