// SPDX-License-Identifier: Apache-2.0
// Other processes in a test: a forked child that says what it did not like, and the program of scenarios beside this
// one.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice::life {

// Forks; the child runs the body, says what it answers and leaves without any handler. Empty when the body answered an
// empty text: all was well. Otherwise the text, or of what the child died, or what it was at when it took too long.
std::string in_child(const std::function<std::string()>& body);

// ThreadSanitizer takes threads that a child starts for those of its parent that had the same memory, and ends it.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool children_may_start_threads = false;
#else
inline constexpr bool children_may_start_threads = true;
#endif

// How a program ended, and all that it wrote.
struct Ended {
  int status = -1;  // of exit
  int signal = 0;   // that ended it
  std::string output;
  bool skipped() const { return status == 77; }
};

// Runs a program that lies beside this one to its end, with `environment` added to ours. One that takes too long is
// killed, and its output closes with what it was at.
Ended run_beside(const std::string& program, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment = {});

// Where a program beside this one lies.
std::string path_beside(const std::string& program);

}  // namespace sluice::life
