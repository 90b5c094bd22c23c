// SPDX-License-Identifier: Apache-2.0
// What nvidia-fs.ko is asked and answers, as it has stood since 2.17: the numbers of its calls, their arguments, and
// the page by which it tells of transfers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::nvfs {

// The module's own batch call (0x40047408) is not among them: where one entry fails as it is handed over, those that
// have begun are freed a second time, and the code does not arrive. Many asynchronous calls do the same.
enum class Call : unsigned long {
  read = 0x40047402,
  map = 0x40047403,
  write = 0x40047404,
};

inline constexpr std::uint64_t block_bytes = 4096;      // of files, of shadow buffers, of holes
inline constexpr std::uint64_t gpu_page_bytes = 65536;  // what device memory is pinned by

struct [[gnu::packed]] MapArguments {
  std::int64_t gpu_bytes;
  std::uint64_t gpu_on_bus;  // domain in the upper half, bus << 8, device and function
  std::uint64_t shadow;
  std::uint64_t gpu_address;
  std::uint64_t fence_page;
  std::uint32_t shadow_blocks;
  std::uint16_t is_bounce_buffer;
  std::uint16_t unused;
};

struct [[gnu::packed]] IoArguments {
  std::uint64_t shadow;
  std::int64_t file_offset;
  std::uint64_t length;
  std::uint64_t fence_value;  // of an asynchronous call; 0 is refused
  std::int64_t result;        // of a synchronous one; of a failure of any call its code
  std::uint64_t inode;
  std::uint32_t generation;  // 0: not compared
  std::uint32_t major;
  std::uint32_t minor;
  std::uint64_t gpu_offset;
  std::uint32_t unused_too;
  std::int32_t fd;
  std::uint8_t flags;
  std::array<std::uint8_t, 3> unused;
};
inline constexpr std::uint8_t synchronous = 1;  // of the flags

// Every call reads and writes all of it, whatever the call.
union Argument {
  MapArguments map;
  IoArguments io;
  std::array<std::byte, 104> whole;
};

static_assert(sizeof(MapArguments) == 48 && offsetof(MapArguments, shadow_blocks) == 40);
static_assert(sizeof(IoArguments) == 80 && offsetof(IoArguments, result) == 32);
static_assert(offsetof(IoArguments, gpu_offset) == 60 && offsetof(IoArguments, fd) == 72);
static_assert(offsetof(IoArguments, flags) == 76);
static_assert(sizeof(Argument) == 104);

// A run of blocks that the file does not have, counted from FencePage::file_offset.
struct Hole {
  std::uint16_t first;
  std::uint16_t count;
};

enum class State : std::int32_t {
  clean = 0,
  sparse = 1,  // there are holes, which the caller has to clear
  dead = 2,    // the device memory was freed
};

// Ordinary memory of the process, which the module holds on to as long as the mapping lives.
struct FencePage {
  static constexpr std::uint64_t magic_number = 0xabc0cba1abc2cba3;
  static constexpr std::uint32_t known_version = 1;
  static constexpr std::size_t most_holes = 768;

  std::uint64_t value;  // an asynchronous call's, once all else of it is here
  std::int64_t result;  // of that call
  std::int32_t state;   // State; it and the holes stay from one call to the next
  std::int32_t unused;
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t hole_count;
  std::int64_t file_offset;
  std::array<Hole, most_holes> holes;
};
inline constexpr std::size_t fence_page_bytes = 4096;
static_assert(offsetof(FencePage, state) == 16 && offsetof(FencePage, magic) == 24);
static_assert(offsetof(FencePage, hole_count) == 36 && offsetof(FencePage, holes) == 48);
static_assert(sizeof(FencePage) <= fence_page_bytes);

}  // namespace sluice::nvfs
