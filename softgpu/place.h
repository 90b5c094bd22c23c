// SPDX-License-Identifier: Apache-2.0
// Where the bytes of an operand are: addresses that a program gave, resolved and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "allocation.h"

namespace sluice::softgpu {

enum class Side { device, managed, pinned_host, pageable_host };

// Keeps the memory of the driver alive; pageable memory is the program's own affair.
struct Place {
  struct Piece {
    std::byte* bytes;
    std::uint64_t size;
  };
  Side side = Side::pageable_host;
  int device = -1;
  bool sync_memops = false;
  std::vector<Piece> pieces;  // more than one where mappings lie next to each other
  std::size_t rows = 1;       // of an area
  std::vector<std::shared_ptr<Allocation>> owners;

  bool on_host() const { return side == Side::pinned_host || side == Side::pageable_host; }
};

// An address that may be anything. Throws Refusal (invalid value), as do the others.
Place place_of(std::uint64_t address, std::uint64_t size);
// An address that a device can work on: not pageable memory.
Place device_place(std::uint64_t address, std::uint64_t size);
// One that the program has freed, and that work from before may still reach; nothing where there is none.
std::optional<Place> leaving_place(std::uint64_t address, std::uint64_t size);

}  // namespace sluice::softgpu
