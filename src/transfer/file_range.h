// SPDX-License-Identifier: Apache-2.0
// What a transfer between a file and device memory is asked for.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "io/disk_queue.h"
#include "io/prefetch.h"
#include "io/private_files.h"
#include "staging/neighbour.h"

namespace sluice::transfer {

struct FileSpan {
  int fd;
  base::FileOffset at;
  std::uint64_t length;
  std::uint32_t block;      // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  std::uint64_t file_size;  // a hint; ~0 when unknown

  // Chunks of the range begin on multiples of it, but for the first one. Where the kernel's pages are larger, two
  // neighbours may share one: no matter to either.
  std::uint64_t unit() const noexcept { return block > least_unit ? block : least_unit; }
  static constexpr std::uint32_t least_unit = 4096;
};

struct FileRange : FileSpan {
  facts::DescriptorCheck& now;  // a read into the device asks it, before any byte gets there
  io::PrivateFile& buffered;    // for what O_DIRECT refuses after all
  io::DiskQueue& disk;          // how O_DIRECT reads are kept on their way
  // Of a write into the page cache:
  std::uint64_t file;        // the same for the same file, whatever descriptor it is written through
  io::PrefetchRange place;   // what may be prefetched of it
  std::uint64_t next_range;  // bytes behind the range that are likely to be written next; 0: not known
  // Of a read past the page cache: the drives of the array below, as far as is known.
  unsigned drives = 1;
};

// One of many reads into device memory that go together. Each reader takes in another one: a line of memory.
struct ReadItem {
  int fd = -1;
  std::uint32_t block = 1;  // what O_DIRECT wants of offsets and lengths; 1 without it
  base::FileOffset at;
  std::uint64_t length = 0;
  std::uint64_t file_size = 0;  // a hint; ~0 when unknown
  cuda::DevicePtr to = 0;
  std::uint64_t memory = 0;  // whose id the driver gives: a copy never leaves its allocation, whatever lies behind it

  // What came of it. Memory behind the count is as it was, but where it is left for the device's sake.
  base::Outcome outcome = base::Outcome::bytes(0);
  bool remains = false;  // the rest is for others: the page cache does not have it, the device refused a copy
};
static_assert(sizeof(ReadItem) == 64);

inline constexpr std::uint64_t most_in_a_read_item = std::uint64_t{4} << 20U;

// What carries bytes between the staging buffer and the device.
enum class CopyEngine : std::uint8_t {
  automatic,  // the kernel for what is cached, the copy engine for what a disk has to bring first
  kernel,     // the gather kernel wherever it can
  engine,     // the copy engine
};

// Device memory that is read into, or written from.
struct Target {
  cuda::DevicePtr at;
  bool is_one_allocation;  // is known to be just now; else it is asked where it matters
  int device = -1;         // ordinal
  // Whether other GPUs may carry a part; null: none may.
  const gpu::Session* session = nullptr;
  const staging::LendingRules* lending = nullptr;
  const facts::BufferFacts* memory = nullptr;
};

}  // namespace sluice::transfer
