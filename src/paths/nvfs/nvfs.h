// SPDX-License-Identifier: Apache-2.0
// The path `nvfs`: the drive, or a file system's own transport, moves the bytes to and from device memory by
// nvidia-fs.ko.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

// For whole blocks of files whose storage is proven with the device, and memory of a registered buffer. Short of Path's
// promise: blocks behind one that failed may have arrived, so memory behind the count, within the piece, need not be
// as it was. What it does not move of an item it goes on with no more, and the pair has heard of it.
class Nvfs final : public Path {
 public:
  // Two lines of the table, of which sluice.nvfs has one taken.
  enum class Line : std::uint8_t { before_p2pdma, behind_p2pdma };

  explicit constexpr Nvfs(Line line) noexcept
      : Path({.id = SLUICE_PATH_NVFS, .taken = SLUICE_REASON_DIRECT, .whole_blocks_only = true}), line_(line) {}

  std::unique_ptr<SessionAttachment> of_session(const Options& options) const override;
  std::unique_ptr<Attachment> of_file(const File& file, SessionAttachment* session) const override;
  std::unique_ptr<Attachment> of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                        const Options& options) const override;
  bool concerns(const File& file) const noexcept override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  void try_out(const Ends& ends, Need need) const noexcept override;
  Grouping grouping(const Facts& facts, const route::Segment& all) const noexcept override;
  std::unique_ptr<GroupMover> group_mover(GroupClass group_class) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
  std::string words(const Facts& facts) const override;

 private:
  bool is_taken(const Options& options) const noexcept {
    return options.rules.use_nvfs && options.rules.nvfs_first == (line_ == Line::before_p2pdma);
  }

  const Line line_;
};

extern const Nvfs nvfs_before_p2pdma;
extern const Nvfs nvfs_behind_p2pdma;

}  // namespace sluice::paths
