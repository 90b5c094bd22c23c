// SPDX-License-Identifier: Apache-2.0
#include "paths/through_host.h"

#include <algorithm>
#include <cerrno>

#include "paths/bounce_copier.h"
#include "staging/bounce_buffer.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;

namespace {

Outcome write_to(FileSide& side, std::span<const std::byte> bytes, FileOffset at) noexcept {
  return side.write({&bytes, 1}, at);
}

Outcome read_chunk(FileSide& side, BounceCopier& copier, std::span<std::byte> chunk, FileOffset at,
                   std::uint64_t address) noexcept {
  const Outcome read = side.read(chunk, at);
  return read.count() == 0 ? read : copier.to_memory(address, chunk.first(read.count()));
}

Outcome write_chunk(FileSide& side, BounceCopier& copier, std::span<std::byte> chunk, FileOffset at,
                    std::uint64_t address) noexcept {
  const Outcome staged = copier.from_memory(chunk, address);
  return staged.ok() ? write_to(side, chunk, at) : staged;
}

}  // namespace

Outcome move_through_host(const Ends& ends, const Piece& piece, FileSide& side) noexcept {
  const bool reads = piece.direction == base::Direction::read;
  if (piece.carry == route::SegmentMode::straight) {
    const std::span bytes(reinterpret_cast<std::byte*>(piece.address), piece.length);
    return reads ? side.read(bytes, piece.at) : write_to(side, bytes, piece.at);
  }
  if (ends.device != nullptr && !facts::is_host(ends.memory.kind)) return ends.device->move(ends.memory, piece, side);
  staging::BounceBuffer bounce = staging::BounceBuffer::take();
  if (!bounce) return Outcome::system_error(ENOMEM);
  BounceCopier copier(ends.memory, ends.file.options.copy_mode, bounce);
  std::uint64_t done = 0;
  while (done < piece.length) {
    const auto chunk = bounce.bytes().first(std::min<std::uint64_t>(piece.length - done, bounce.bytes().size()));
    const FileOffset at{piece.at.value + done};
    const Outcome moved = reads ? read_chunk(side, copier, chunk, at, piece.address + done)
                                : write_chunk(side, copier, chunk, at, piece.address + done);
    if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
    done += moved.count();
    if (moved.count() < chunk.size()) break;
  }
  return Outcome::bytes(done);
}

}  // namespace sluice::paths
