// SPDX-License-Identifier: Apache-2.0
// Pieces that are on their way by one link, first in, first out. Their numbers grow for as long as the line lives.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::transfer {

template <typename Piece, std::uint32_t Room>
struct PieceLine {
  static constexpr std::uint32_t room = Room;
  std::array<Piece, Room> pieces;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t count() const noexcept { return end - begin; }
  Piece& at(std::uint32_t number) noexcept { return pieces[number % Room]; }
};

}  // namespace sluice::transfer
