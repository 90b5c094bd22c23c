// SPDX-License-Identifier: Apache-2.0
// How a request is cut for its path.
//
// Everything is reckoned relative to the start of the request, by remainders only: file_offset + size is never formed,
// because it may lie beyond what 64 bits hold.
#include <algorithm>
#include <cstdint>

#include "route/route.h"

namespace sluice::route {

namespace {

using facts::MemoryKind;

// Cutting costs a second transfer at the edges; below this, one copy of everything is cheaper than that.
constexpr std::uint64_t smallest_cut_body = 65536;

constexpr std::uint64_t cache_page = 4096;
constexpr std::uint64_t end_unknown = ~std::uint64_t{0};

// Appends [from, to), if there is anything in it, to the segment before it when both are carried alike.
void add(Decision& decision, std::uint64_t from, std::uint64_t to, SegmentMode carry) noexcept {
  if (from >= to) return;
  if (decision.count > 0 && decision.storage[decision.count - 1].carry == carry) {
    decision.storage[decision.count - 1].length += to - from;
    return;
  }
  decision.storage[decision.count++] = {from, to - from, carry};
}

// The part of a request that consists of whole blocks of the file; empty where there is none.
struct Body {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t length() const noexcept { return end - begin; }
};

Body whole_blocks(const Shape& shape, std::uint64_t block) noexcept {
  const std::uint64_t into_block = shape.file_offset % block;
  const std::uint64_t head = into_block == 0 ? 0 : block - into_block;
  if (head >= shape.size) return {};
  const std::uint64_t rest = shape.size - head;
  return {head, head + (rest - rest % block)};
}

// The body of a read without the block that the file ends in.
Body before_end(Body body, const Shape& shape, std::uint64_t block) noexcept {
  if (shape.file_end == end_unknown || block == 1) return body;
  const std::uint64_t last_whole = shape.file_end - shape.file_end % block;
  const std::uint64_t reach = last_whole > shape.file_offset ? last_whole - shape.file_offset : 0;
  if (reach <= body.begin) return {};
  return {body.begin, std::min(body.end, reach)};
}

// The sum of two addresses may wrap, the sum of two remainders does not.
bool is_aligned(std::uint64_t address, std::uint64_t distance, std::uint64_t alignment) noexcept {
  return (address % alignment + distance % alignment) % alignment == 0;
}

struct Alignment {
  std::uint64_t memory;
  std::uint64_t offset;
};

// `whole` says how the body goes where it can go there as it is: in place, or straight to the device.
void cut_direct_read(Decision& decision, const Shape& shape, const Alignment& alignment, SegmentMode whole) noexcept {
  const Body body = before_end(whole_blocks(shape, alignment.offset), shape, alignment.offset);
  const bool all = body.length() == shape.size;
  const bool fits = body.length() > 0 && is_aligned(shape.address, body.begin, alignment.memory) &&
                    (all || body.length() >= smallest_cut_body);
  if (!fits) {
    add(decision, 0, shape.size, SegmentMode::bounce);
    return;
  }
  add(decision, 0, body.begin, SegmentMode::bounce);
  add(decision, body.begin, body.end, whole);
  add(decision, body.end, shape.size, SegmentMode::bounce);
}

// A write may not touch the bytes around it, and fetching the blocks first would race with other writers (or be
// refused by a descriptor without read access): the ragged edges go through the page cache. Whole pages only are
// written past it, also where the device takes smaller blocks: a page that one writer has in the cache while another
// writes a part of it past the cache would be written back with stale bytes.
void cut_direct_write(Decision& decision, const Shape& shape, const Alignment& alignment, SegmentMode whole) noexcept {
  const bool any_will_do = alignment.offset == 1;
  const Body body = whole_blocks(shape, any_will_do ? 1 : std::max(alignment.offset, cache_page));
  const bool fits = is_aligned(shape.address, body.begin, alignment.memory);
  add(decision, 0, body.begin, SegmentMode::bounce_buffered);
  add(decision, body.begin, body.end, fits ? whole : SegmentMode::bounce);
  add(decision, body.end, shape.size, SegmentMode::bounce_buffered);
}

// How the aligned body of an O_DIRECT request goes: device memory by the drive where that is the path, host memory in
// place, all else through a bounce buffer.
SegmentMode mode_of_body(const Decision& decision, MemoryKind kind, const Rules& rules) noexcept {
  if (decision.path == SLUICE_PATH_P2PDMA) return SegmentMode::direct;
  return is_host(kind) && !rules.plain ? SegmentMode::straight : SegmentMode::bounce;
}

void cut(Decision& decision, const facts::FileFacts& file, MemoryKind kind, const Rules& rules,
         const Shape& shape) noexcept {
  // The caller's own operations take any range; O_DIRECT is a matter of their descriptor.
  if (!file.direct || decision.path == SLUICE_PATH_USERSPACE) {
    add(decision, 0, shape.size, is_host(kind) ? SegmentMode::straight : SegmentMode::bounce);
    return;
  }
  const SegmentMode whole = mode_of_body(decision, kind, rules);
  const std::uint64_t least = whole == SegmentMode::direct ? trusted_memory_alignment : 1;
  const Alignment alignment{std::max<std::uint64_t>(least, file.memory_alignment),
                            std::max<std::uint64_t>(1, file.offset_alignment)};
  if (shape.direction == base::Direction::write) {
    cut_direct_write(decision, shape, alignment, whole);
  } else if (whole != SegmentMode::bounce) {
    cut_direct_read(decision, shape, alignment, whole);
  } else {
    // One segment even when it is ragged: a bounce buffer has room for the whole blocks around it.
    add(decision, 0, shape.size, SegmentMode::bounce);
  }
}

bool goes_direct(const Segment& segment) noexcept {
  return segment.carry == SegmentMode::direct;
}

}  // namespace

Decision decide(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                const Rules& rules, const Shape& shape, facts::TrialResult reach) noexcept {
  const RouteChoice choice = judge(file, buffer, machine, rules, shape.direction, reach);
  Decision decision;
  decision.path = choice.path;
  decision.reason = choice.reason;
  if (shape.size > 0) cut(decision, file, buffer.kind, rules, shape);
  const auto segments = decision.segments();
  if (decision.path == SLUICE_PATH_P2PDMA && shape.size > 0 &&
      std::none_of(segments.begin(), segments.end(), goes_direct)) {
    decision.path = SLUICE_PATH_POSIX;
    decision.reason = SLUICE_REASON_RAGGED_REQUEST;
  }
  return decision;
}

}  // namespace sluice::route
