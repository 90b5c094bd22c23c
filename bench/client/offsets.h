// SPDX-License-Identifier: Apache-2.0
// Where in the file the next request lies.
#pragma once

#include <cstdint>

namespace sluice::bench {

// A stretch of the file and the way through it. One thread's.
class Offsets {
 public:
  enum class Order { ascending, random };

  // Requests of `size` bytes between `begin` and `end`; that there is room for one is the caller's to see to.
  Offsets(std::uint64_t begin, std::uint64_t end, std::uint64_t size, Order order, std::uint64_t seed);

  // A multiple of `size` from the start of the stretch; ascending ones begin anew after the last.
  std::uint64_t next();
  // Any place, as long as it is a multiple of `alignment` from the start.
  std::uint64_t anywhere(std::uint64_t alignment);

 private:
  std::uint64_t random();

  std::uint64_t begin_;
  std::uint64_t room_;  // of the stretch
  std::uint64_t size_;
  std::uint64_t slots_;
  std::uint64_t slot_;
  Order order_;
  std::uint64_t state_;
};

}  // namespace sluice::bench
