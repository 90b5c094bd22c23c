// SPDX-License-Identifier: Apache-2.0
// The path for every file and memory: pread and pwrite, and for device memory a bounce buffer in between.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

class Posix final : public Path {
 public:
  constexpr Posix() noexcept : Path({.id = SLUICE_PATH_POSIX, .cpu_moves = true, .doubts_short = true}) {}

  // A mapping for the CPU's stores, where small reads are to go by one.
  std::unique_ptr<Attachment> of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                        const Options& options) const override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  // It does so while a device copies or begins to: of what a write of 4 KiB takes beside the copy and the write, asking
  // is half. A small read that finds out so late has brought bytes of another file, and fails.
  bool checks_descriptor(const Ends& ends, base::Direction direction, std::uint64_t length) const noexcept override;
  Grouping grouping(const Facts& facts, const route::Segment& all) const noexcept override;
  std::unique_ptr<GroupMover> group_mover(GroupClass group_class) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
  std::string words(const Facts& facts) const override;
};

extern const Posix posix;

}  // namespace sluice::paths
