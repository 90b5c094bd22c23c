// SPDX-License-Identifier: Apache-2.0
// Which way bytes go, and why; and in which segments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice.h"

namespace sluice::route {

using Path = sluice_path_t;
using Reason = sluice_reason_t;

// How one segment is carried. Only `direct` is not the posix path's.
enum class SegmentMode : std::uint8_t {
  straight,  // the kernel moves the bytes to or from the caller's memory
  bounce,  // through a bounce buffer, by the caller's own description; O_DIRECT reads may fetch whole blocks around it
  bounce_buffered,  // through a bounce buffer, by a private description without O_DIRECT: the ragged edges of a direct
                    // write
  direct,           // the drive itself reads or writes device memory
};

struct Segment {
  std::uint64_t begin = 0;   // relative to the start of the request
  std::uint64_t length = 0;  // never 0
  SegmentMode carry = SegmentMode::straight;

  friend bool operator==(const Segment&, const Segment&) = default;
};

// A request, cut. In file order, without gaps; together they cover it.
struct Segments {
  std::array<Segment, 3> storage{};  // ragged head, aligned body, ragged tail
  std::size_t count = 0;

  std::span<const Segment> all() const noexcept { return {storage.data(), count}; }
};

}  // namespace sluice::route
