// SPDX-License-Identifier: Apache-2.0
// What a script's calls have answered so far. It lies in one array, so that a signal handler can still write it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::differential {

class Answers {
 public:
  void begin(const std::string& script);
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  // Writes everything to standard output; `last` is one more line. Safe in a signal handler.
  void deliver(const char* last);

 private:
  std::size_t length_ = 0;
  char text_[std::size_t{1} << 18] = {};
};

Answers& answers();

// What a library prints on standard output goes to standard error.
void keep_output_to_ourselves();

// A signal that would end the process becomes the answer "signal N"; a call that takes longer than its time "hang".
void guard_against_crashes();
void limit_time(unsigned milliseconds);  // for what follows; 0 lifts the limit

std::uint64_t digest(const void* bytes, std::size_t size);

}  // namespace sluice::differential
