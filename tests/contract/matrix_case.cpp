// SPDX-License-Identifier: Apache-2.0
// Generation of the matrix.
#include "contract/matrix_case.h"

#include <algorithm>
#include <iterator>

#include "support/random.h"

namespace sluice::contract {
namespace {

constexpr const char* kDirectionNames[] = {"read", "write"};
constexpr const char* kOpeningNames[] = {"buffered", "direct", "sync"};
constexpr const char* kBufferNames[] = {
    "device", "device_registered", "device_interior", "managed",         "managed_registered",
    "pinned", "pinned_registered", "plain",           "plain_registered"};
constexpr const char* kAlignmentNames[] = {"aligned", "sector", "odd", "ragged_head", "ragged_tail", "within_block"};
static_assert(std::size(kBufferNames) == kBuffers && std::size(kAlignmentNames) == kAlignments);

const char* access_name(const Case& test_case) {
  if (test_case.access == Access::both_ways) return "rdwr";
  return test_case.direction == Direction::read ? "rdonly" : "wronly";
}

template <typename Enum>
const char* pick(const char* const* names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}
std::uint64_t round_down(std::uint64_t value, std::uint64_t step) {
  return value / step * step;
}

// Rounded to what the alignment demands. Where that makes two size classes one, only one of them applies.
std::uint64_t size_of(const Case& test_case) {
  if (test_case.alignment == Alignment::aligned) return round_up(test_case.size_class, kBlock);
  if (test_case.alignment == Alignment::sector) return round_up(test_case.size_class, 512);
  return test_case.size_class;
}

bool applies(const Case& test_case) {
  const std::uint64_t size = test_case.size_class;
  const bool whole_blocks = size % kBlock == 0;
  switch (test_case.alignment) {
    case Alignment::aligned:
      return whole_blocks || size > 2 * kMebibyte;
    case Alignment::sector:
      return size == 511 || (size > 0 && whole_blocks) || (size > kBlock && size % kBlock == 1) || size > 2 * kMebibyte;
    case Alignment::odd:
      return true;
    case Alignment::ragged_head:
    case Alignment::ragged_tail:
      return !whole_blocks;
    case Alignment::within_block:
      return size > 0 && size + 2 <= kBlock;
  }
  return false;
}

// A multiple of 512 that is none of 4096, and an odd number, both below 4096.
std::uint64_t some_sector(support::Random& random) {
  return 512 * (1 + random.below(7));
}
std::uint64_t some_odd(support::Random& random) {
  return 1 + 2 * random.below(kBlock / 2);
}

// The first byte, moved down from `wanted` to where the alignment allows it.
std::uint64_t align_offset(const Case& test_case, std::uint64_t wanted, std::uint64_t size, support::Random& random) {
  const std::uint64_t block = round_down(wanted, kBlock);
  switch (test_case.alignment) {
    case Alignment::aligned:
    case Alignment::ragged_tail:
      return block;
    case Alignment::sector:
      return block + some_sector(random);
    case Alignment::odd:
      return block + some_odd(random);
    case Alignment::ragged_head:
      return block + round_up(size, kBlock) - size;
    case Alignment::within_block:
      return block + 1 + random.below(kBlock - size - 1);
  }
  return block;
}

// Half of the ragged shapes have memory and file in step, so that their body could move without a copy.
std::uint64_t choose_buffer_offset(const Case& test_case, std::uint64_t file_offset, support::Random& random) {
  const std::uint64_t block = kGuard + kBlock * random.below(4);
  switch (test_case.alignment) {
    case Alignment::aligned:
      return block;
    case Alignment::sector:
      return block + some_sector(random);
    case Alignment::odd:
    case Alignment::within_block:
      return block + some_odd(random);
    case Alignment::ragged_head:
    case Alignment::ragged_tail:
      return block + (random.below(2) == 0 ? file_offset % kBlock : 0);
  }
  return block;
}

// Most begin anywhere inside the file, some cross its end, some lie past it.
std::uint64_t choose_begin(std::uint64_t size, std::uint64_t file_size, Growth growth, bool reading,
                           support::Random& random) {
  const std::uint64_t kind = random.below(10);
  const std::uint64_t room = file_size - std::min(file_size, size + 2 * kBlock);
  const bool past_end_allowed = growth == Growth::may_grow || reading;
  if (kind == 0 && past_end_allowed) return file_size + random.below(3 * kBlock);
  if (kind <= 2 && past_end_allowed) return file_size - random.below(std::min(size, file_size) + 1);
  return random.below(room + 1);
}

}  // namespace

std::string group_of(const Case& test_case) {
  return test_case.place + "/" + pick(kDirectionNames, test_case.direction) + "/" +
         pick(kOpeningNames, test_case.opening) + "/" + access_name(test_case);
}

std::string name_of(const Case& test_case) {
  return group_of(test_case) + "/" + pick(kBufferNames, test_case.buffer) + "/" +
         pick(kAlignmentNames, test_case.alignment) + "/" + std::to_string(test_case.size_class);
}

std::vector<Case> all_cases(const std::string& place, Direction direction) {
  std::vector<Case> cases;
  for (std::size_t group = 0; group < kOpenings * kAccesses; ++group) {
    for (std::size_t memory = 0; memory < kBuffers * kAlignments; ++memory) {
      for (const std::uint64_t size : kSizes) {
        const Case candidate{place,
                             direction,
                             static_cast<Opening>(group / kAccesses),
                             static_cast<Access>(group % kAccesses),
                             static_cast<Buffer>(memory / kAlignments),
                             static_cast<Alignment>(memory % kAlignments),
                             size};
        if (applies(candidate)) cases.push_back(candidate);
      }
    }
  }
  return cases;
}

bool sampled(const Case& test_case, unsigned percent) {
  // In a hundred thousand, by the work that a case is.
  const std::uint64_t size = test_case.size_class;
  std::uint64_t chance = 40000;
  if (size > 8 * kMebibyte) {
    chance = 4000;
  } else if (size > 2 * kMebibyte) {
    chance = 10000;
  } else if (size > 128 * 1024) {
    chance = 20000;
  }
  const std::uint64_t drawn = support::mix(support::hash_of(name_of(test_case)) ^ support::run_seed()) % 100000;
  return drawn < chance * percent / 100;
}

Shape shape_of(const Case& test_case, std::uint64_t file_size, Growth growth) {
  support::Random random(support::hash_of(name_of(test_case)) ^ support::mix(support::run_seed()));
  Shape shape;
  shape.size = size_of(test_case);
  const bool reading = test_case.direction == Direction::read;
  const std::uint64_t begin = choose_begin(shape.size, file_size, growth, reading, random);
  shape.file_offset = align_offset(test_case, begin, shape.size, random);
  shape.buffer_offset = choose_buffer_offset(test_case, shape.file_offset, random);
  if (test_case.buffer == Buffer::device_interior) {
    shape.base_offset =
        test_case.alignment == Alignment::odd ? 1 + random.below(shape.buffer_offset) : kBlock * (1 + random.below(2));
  }
  return shape;
}

}  // namespace sluice::contract
