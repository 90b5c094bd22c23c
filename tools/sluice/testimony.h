// SPDX-License-Identifier: Apache-2.0
// What `sluice run` learns about the libcufile of the program and its children: by the witness's reports, and by
// looking at the maps of processes that are still there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::tools {

struct Traffic {
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
};

class Testimony {
 public:
  // `own_library` is the canonical path of the libcufile.so.0 that was preloaded.
  explicit Testimony(std::string own_library) : own_library_(std::move(own_library)) {}

  // One datagram of the witness in process `pid`.
  void hear(pid_t pid, std::string_view message);

  // Reads the maps of `root` and its descendants. Costs a pass over a few files in /proc; call it rarely.
  void look_at(pid_t root);

  // The end of the story in one line for people, two when a foreign libcufile was seen.
  // `absence` is why the library was in none of its processes, as the end of a sentence; it counts only where that is
  // so.
  std::vector<std::string> lines(const std::string& program, const std::string& absence) const;
  bool has_own_library() const { return mapped_.contains(own_library_); }

  // By "path (reason)"; without what processes moved that were killed before they could tell.
  const std::map<std::string, Traffic>& traffic() const noexcept { return traffic_; }
  bool complete() const noexcept { return unfinished_.empty(); }

 private:
  void note_mapping(pid_t pid, std::string_view path);
  std::string traffic_words() const;

  std::string own_library_;
  std::map<std::string, std::set<pid_t>, std::less<>> mapped_;  // by canonical path of the library
  std::map<std::string, Traffic> traffic_;                      // by "path (reason)"
  std::set<pid_t> unfinished_;                                  // said hello, and nothing since
};

}  // namespace sluice::tools
