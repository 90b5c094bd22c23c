// SPDX-License-Identifier: Apache-2.0
// A drive's partition table (GPT), read and written whole: what partitions there are, and where there is room.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::csi {

using Guid = std::array<std::uint8_t, 16>;

struct GptEntry {
  std::uint32_t number = 0;  // 1 is the first
  std::uint64_t first = 0;   // blocks, both inclusive
  std::uint64_t last = 0;
  std::string name;  // letters of ASCII, at most 36
  Guid type{};
  Guid unique{};
};

struct Extent {
  std::int64_t begin = 0;  // bytes
  std::int64_t end = 0;
  std::int64_t bytes() const { return end - begin; }
};

struct Gpt {
  std::uint32_t block = 512;  // bytes
  std::uint64_t blocks = 0;   // of the drive
  Guid disk{};
  std::vector<GptEntry> entries;  // by number

  Extent extent_of(const GptEntry& entry) const;
  // Where nothing is, in whole mebibytes, by place.
  std::vector<Extent> free_extents() const;
  const GptEntry* find(const std::string& name) const;
  // The lowest number that is free; nothing when all 128 are taken.
  std::optional<std::uint32_t> free_number() const;
};

Gpt new_gpt(std::uint32_t block, std::uint64_t blocks);

// The bytes of a table and where they belong on the drive, in the order in which they are written: the second copy
// first, so that one of both is whole at any time.
struct GptPiece {
  std::uint64_t offset = 0;
  std::string bytes;
};
std::vector<GptPiece> pieces_of(const Gpt& gpt);

// What lies at `offset`, or nothing when it cannot be read. The second copy is taken where the first one is damaged;
// nothing when both are.
using ReadAt = std::string (*)(const void* drive, std::uint64_t offset, std::size_t bytes);
std::optional<Gpt> read_gpt(const void* drive, ReadAt read, std::uint32_t block, std::uint64_t blocks);

}  // namespace sluice::csi
