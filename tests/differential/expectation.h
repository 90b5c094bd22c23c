// SPDX-License-Identifier: Apache-2.0
// What transfers, one behind the other, have to leave in memory and files. It knows neither of the two libraries: what
// is "wrong" here is so whatever the other one answers.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "differential/world.h"

namespace sluice::differential {

// A transfer, and the count that it was answered with.
struct Move {
  Place place;
  std::ptrdiff_t shift = 0;
  std::size_t size = 0;
  long long offset = 0;
  File* file = nullptr;
  bool reads = false;
  long long count = 0;
};

class Expectation {
 public:
  // A write makes its file hold what it is to hold from here on. What cannot be known makes it uncertain.
  void add(const Move& move);
  // These transfers meet, and it is not known in which order they are done.
  void give_up();
  // Answers "wrong=count" where a transfer has moved more than there is, or less.
  void tell_counts() const;
  // What a buffer has to hold; null where that is not known.
  const std::vector<char>* of(const Buffer& buffer) const;

 private:
  struct Memory {
    std::vector<char> bytes;
    bool is_known = true;
  };
  Memory& memory(const Buffer& buffer);
  void read(const Move& move);
  void write(const Move& move);

  std::map<const Buffer*, Memory> memory_;
  bool count_is_wrong_ = false;
  bool given_up_ = false;
};

}  // namespace sluice::differential
