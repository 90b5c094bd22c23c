// SPDX-License-Identifier: Apache-2.0
// The cases of the I/O matrix: every combination of place, direction, open flags, memory, alignment and size that makes
// sense, each with a name from which, with the seed, its exact offsets follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::contract {

enum class Direction : std::uint8_t { read, write };
enum class Opening : std::uint8_t { buffered, direct, synchronous };
enum class Access : std::uint8_t { one_way, both_ways };  // O_RDONLY or O_WRONLY; O_RDWR
enum class Buffer : std::uint8_t {
  device,
  device_registered,
  device_interior,  // registered, and the call gets a pointer into it
  managed,
  managed_registered,
  pinned,
  pinned_registered,
  plain,
  plain_registered,
};
enum class Alignment : std::uint8_t {
  aligned,       // file offset, buffer offset and size are multiples of 4096
  sector,        // multiples of 512, the offsets none of 4096
  odd,           // both offsets odd
  ragged_head,   // begins inside a block, ends with one
  ragged_tail,   // begins with a block, ends inside one
  within_block,  // touches one block, neither its first byte nor its last
};

inline constexpr std::size_t kDirections = 2;
inline constexpr std::size_t kOpenings = 3;
inline constexpr std::size_t kAccesses = 2;
inline constexpr std::size_t kBuffers = 9;
inline constexpr std::size_t kAlignments = 6;

inline constexpr std::uint64_t kBlock = 4096;
inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
// The size classes; an alignment may round one up, see applies().
inline constexpr std::uint64_t kSizes[] = {0,
                                           1,
                                           511,
                                           4095,
                                           4096,
                                           4097,
                                           65535,
                                           65536,
                                           65537,
                                           kMebibyte - 1,
                                           kMebibyte,
                                           kMebibyte + 1,
                                           4 * kMebibyte + 3,
                                           33 * kMebibyte + 17};

struct Case {
  std::string place;
  Direction direction = Direction::read;
  Opening opening = Opening::buffered;
  Access access = Access::both_ways;
  Buffer buffer = Buffer::device;
  Alignment alignment = Alignment::aligned;
  std::uint64_t size_class = 0;
};

// "ext4/read/direct/rdonly/device_registered/odd/4097"
std::string name_of(const Case& test_case);
// "ext4/read/direct/rdonly": the cases that share one descriptor and one handle.
std::string group_of(const Case& test_case);

// All cases of one place and direction, groups together.
std::vector<Case> all_cases(const std::string& place, Direction direction);

// Whether a sampled run includes the case: drawn by seed and name, large sizes less often. percent 100 is the usual
// sample, 0 none; SLUICE_TEST_FULL=1 takes all whatever it says.
bool sampled(const Case& test_case, unsigned percent);

// Where the bytes lie. All of it follows from the case, the seed and the size of the file.
struct Shape {
  std::uint64_t file_offset = 0;
  std::uint64_t buffer_offset = 0;  // from the start of the allocation
  std::uint64_t base_offset = 0;    // what the call gets as its base; buffer_offset - base_offset is its offset
  std::uint64_t size = 0;
};

// Bytes around the range that are checked in the buffer and in the file.
inline constexpr std::uint64_t kGuard = 2 * kBlock;
// What an allocation must have so that each shape and its guards fit.
inline constexpr std::uint64_t kBufferSize = 34 * kMebibyte;

enum class Growth : std::uint8_t { may_grow, fixed };  // a raw device ends where it ends

Shape shape_of(const Case& test_case, std::uint64_t file_size, Growth growth);

}  // namespace sluice::contract
