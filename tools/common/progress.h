// SPDX-License-Identifier: Apache-2.0
// The line that tells, on a terminal, how far a run of some length has come; anywhere else nothing is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::tools {

class Progress {
 public:
  // `what` begins the line.
  explicit Progress(std::string_view what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Takes the line away.
  ~Progress();

  // Shows bytes so far and, where a share between 0 and 1 is known, per cent. Nothing in the first 2 s; after that call
  // it as often as is convenient, by one thread.
  void show(std::uint64_t bytes, std::optional<double> share);

 private:
  std::string_view what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool terminal_;
  bool shown_ = false;
};

}  // namespace sluice::tools
