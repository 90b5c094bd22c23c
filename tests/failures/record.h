// SPDX-License-Identifier: Apache-2.0
// What a play tells the program that started it: lines in a file that is mapped before anything fails, so that telling
// needs no memory and no system call, and outlives a crash.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::failures {

class Record {
 public:
  // Maps `path`, a file that is made with room for the lines. Throws where that cannot be.
  explicit Record(const char* path);
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // Adds a line; what there is no room for is left out.
  [[gnu::format(printf, 2, 3)]] void tell(const char* format, ...) noexcept;

 private:
  char* lines_ = nullptr;  // mapped to the end of the process
  std::atomic<std::size_t> used_{0};
};

}  // namespace sluice::failures
