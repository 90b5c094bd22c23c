// SPDX-License-Identifier: Apache-2.0
// Pieces of a file to and from device memory by a stream's copier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "io/disk_queue.h"
#include "paths/path.h"
#include "stream/channel/stream_copier.h"

namespace sluice::paths {

// The file's end of the way. `block` is what offsets and lengths of reads have to be multiples of.
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
  // Several threads may read at once.
  virtual bool takes_many_readers() const noexcept = 0;
  virtual base::Outcome read(std::span<std::byte> into, base::FileOffset at) noexcept = 0;
  // At most io::most_spans, which lie one behind the other in the file.
  virtual base::Outcome write(std::span<const std::span<const std::byte>> from, base::FileOffset at) noexcept = 0;

 protected:
  ~FileSide() = default;
};

// As Path::move() answers. The bytes of a read are in place for what comes later in the stream.
base::Outcome move_in_stream(stream::StreamCopier& copier, const facts::BufferFacts& memory, const Piece& piece,
                             FileSide& file) noexcept;

// What device memory holds when all that went before is in place.
base::Outcome read_back(stream::StreamCopier& copier, std::uint64_t address, std::span<std::byte> into) noexcept;

}  // namespace sluice::paths
