// SPDX-License-Identifier: Apache-2.0
// The file's end of a way through host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "io/disk_queue.h"
#include "transfer/file_range.h"

namespace sluice::paths {

// `block` is what offsets and lengths of reads have to be multiples of.
class FileSide {
 public:
  FileSide() = default;
  FileSide(const FileSide&) = delete;
  FileSide& operator=(const FileSide&) = delete;

  virtual std::uint32_t block() const noexcept = 0;
  // Where reads have to wait for a disk, and io_uring may do them: what that needs.
  struct Disk {
    int fd;
    io::DiskQueue& queue;
  };
  virtual std::optional<Disk> disk() const noexcept { return std::nullopt; }
  // Where neighbours' links may carry a part of what is read: what may be read so, and by which rules.
  struct Lending {
    transfer::FileRange range;
    const staging::LendingRules& rules;
  };
  virtual std::optional<Lending> lending(base::FileOffset /*at*/, std::uint64_t /*length*/) noexcept {
    return std::nullopt;
  }
  // Several threads may read at once.
  virtual bool takes_many_readers() const noexcept = 0;
  virtual base::Outcome read(std::span<std::byte> into, base::FileOffset at) noexcept = 0;
  // At most io::most_spans, which lie one behind the other in the file.
  virtual base::Outcome write(std::span<const std::span<const std::byte>> from, base::FileOffset at) noexcept = 0;

 protected:
  ~FileSide() = default;
};

}  // namespace sluice::paths
