// SPDX-License-Identifier: Apache-2.0
// A process that is looked at from outside, through /proc: what it has mapped, what it shows, when it ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::tools {

// A mapping of the memory that a process shows its statistics in.
struct ShownMapping {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

struct ProcessMaps {
  std::vector<ShownMapping> shown;     // by the name of the memory alone: what is in it may be anything
  std::vector<std::string> libraries;  // paths of every libcufile, as the process sees them
};

// The mappings of statistics in /proc/PID/maps, read in pieces and up to 16 MiB: a process decides how long that is.
// Empty when it cannot be read.
std::vector<ShownMapping> find_shown(pid_t pid);

class WatchedProcess {
 public:
  // Throws ToolError when there is no such process.
  explicit WatchedProcess(pid_t pid);
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;
  ~WatchedProcess();

  pid_t pid() const noexcept { return pid_; }
  // "reader"; "" when it cannot be known.
  const std::string& program() const noexcept { return program_; }
  // "1234 (reader)".
  const std::string& name() const noexcept { return name_; }
  // /proc/PID/`part`.
  std::string path(const std::string& part) const;

  // What it has mapped now. Throws ToolError when that may not be seen, or it has ended.
  ProcessMaps maps() const;
  // Its number as it sees it itself, in its namespace; nullopt when the kernel does not tell.
  std::optional<std::uint64_t> own_number() const;
  // Does a seccomp filter stand between it and the kernel?
  bool sandboxed() const;

  bool has_ended() const { return ends_within(std::chrono::milliseconds(0)); }
  // Waits, for `time` at most.
  bool ends_within(std::chrono::milliseconds time) const;

 private:
  std::string status_line(const char* key) const;

  pid_t pid_;
  int handle_ = -1;  // pidfd: names this process even when its number is used again
  std::string program_;
  std::string name_;
};

}  // namespace sluice::tools
