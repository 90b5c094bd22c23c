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

constexpr std::uint64_t end_unknown = ~std::uint64_t{0};

// Appends [from, to), if there is anything in it, to the segment before it when both are carried alike.
void add(Segments& segments, std::uint64_t from, std::uint64_t to, SegmentMode carry) noexcept {
  if (from >= to) return;
  if (segments.count > 0 && segments.storage[segments.count - 1].carry == carry) {
    segments.storage[segments.count - 1].length += to - from;
    return;
  }
  segments.storage[segments.count++] = {from, to - from, carry};
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

void cut_read(Segments& segments, const Cutting& cutting, const Shape& shape) noexcept {
  const Body body = before_end(whole_blocks(shape, cutting.offset_alignment), shape, cutting.offset_alignment);
  const bool all = body.length() == shape.size;
  const bool fits = body.length() > 0 && is_aligned(shape.address, body.begin, cutting.memory_alignment) &&
                    (all || body.length() >= smallest_cut_body);
  if (!fits) {
    add(segments, 0, shape.size, SegmentMode::bounce);
    return;
  }
  add(segments, 0, body.begin, SegmentMode::bounce);
  add(segments, body.begin, body.end, cutting.whole);
  add(segments, body.end, shape.size, SegmentMode::bounce);
}

// A write may not touch the bytes around it, and fetching the blocks first would race with other writers (or be
// refused by a descriptor without read access): the ragged edges go through the page cache. Whole pages only are
// written past it, also where the device takes smaller blocks: a page that one writer has in the cache while another
// writes a part of it past the cache would be written back with stale bytes.
void cut_write(Segments& segments, const Cutting& cutting, const Shape& shape) noexcept {
  const bool any_will_do = cutting.offset_alignment == 1;
  const Body body = whole_blocks(shape, any_will_do ? 1 : std::max(cutting.offset_alignment, cutting.cache_page));
  const bool fits = is_aligned(shape.address, body.begin, cutting.memory_alignment);
  add(segments, 0, body.begin, SegmentMode::bounce_buffered);
  add(segments, body.begin, body.end, fits ? cutting.whole : SegmentMode::bounce);
  add(segments, body.end, shape.size, SegmentMode::bounce_buffered);
}

}  // namespace

Cutting uncut(MemoryKind kind) noexcept {
  return {false, is_host(kind) ? SegmentMode::straight : SegmentMode::bounce};
}

Cutting cut_for_cpu(const facts::FileFacts& file, MemoryKind kind, const Rules& rules) noexcept {
  if (!file.direct) return uncut(kind);
  return {true, is_host(kind) && !rules.plain ? SegmentMode::straight : SegmentMode::bounce,
          std::max<std::uint64_t>(1, file.memory_alignment), std::max<std::uint64_t>(1, file.offset_alignment),
          file.cache_page};
}

Cutting cut_for_drive(const facts::FileFacts& file) noexcept {
  return {true, SegmentMode::direct, std::max<std::uint64_t>(trusted_memory_alignment, file.memory_alignment),
          std::max<std::uint64_t>(1, file.offset_alignment), file.cache_page};
}

void cut(Segments& segments, const Cutting& cutting, const Shape& shape) noexcept {
  segments.count = 0;
  if (!cutting.by_blocks) {
    add(segments, 0, shape.size, cutting.whole);
  } else if (shape.direction == base::Direction::write) {
    cut_write(segments, cutting, shape);
  } else if (cutting.whole != SegmentMode::bounce) {
    cut_read(segments, cutting, shape);
  } else {
    // One segment even when it is ragged: a bounce buffer has room for the whole blocks around it.
    add(segments, 0, shape.size, SegmentMode::bounce);
  }
}

}  // namespace sluice::route
