// A large read for a stream: many hands fill the courier's places.
#pragma once

#include "paths/couriered.h"

namespace sluice::paths {

// Below it one thread is as quick.
inline constexpr std::uint64_t smallest_for_hands = 128 << 10;

base::Outcome read_by_many_hands(stream::Courier& courier, const Piece& piece, FileSide& file) noexcept;

}  // namespace sluice::paths
