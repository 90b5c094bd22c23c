// SPDX-License-Identifier: Apache-2.0
// The way through a part of a file: where the next transfer lies and how large it is.
#pragma once

#include <cstdint>
#include <optional>

#include "gdsio/settings.h"

namespace sluice::tools {

struct Extent {
  std::uint64_t offset;
  std::uint64_t size;
};

class Walk {
 public:
  enum class Order : std::uint8_t { ascending, random };
  enum class End : std::uint8_t { after_one_pass, never };

  // Through `size` bytes from `begin` on. Random offsets are `begin` plus a multiple of `alignment`; the same seed
  // gives the same ones.
  Walk(std::uint64_t begin, std::uint64_t size, SizeRange sizes, Order order, std::uint64_t alignment,
       std::uint64_t seed, End end);

  // nullopt: as many bytes have been given out as the part has. An ascending walk that does not end begins anew.
  std::optional<Extent> next();

 private:
  std::uint64_t random();

  std::uint64_t begin_;
  std::uint64_t size_;
  SizeRange sizes_;
  Order order_;
  std::uint64_t alignment_;
  std::uint64_t state_;
  End end_;
  std::uint64_t given_ = 0;  // bytes of this pass
  std::uint64_t now_;        // size of the next transfer
};

}  // namespace sluice::tools
