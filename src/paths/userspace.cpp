// SPDX-License-Identifier: Apache-2.0
// The caller's operations may move less than they were asked for; they are asked again until nothing more comes.
#include "paths/userspace.h"

#include <algorithm>
#include <cerrno>

#include "io/file_io.h"
#include "paths/stream_segment.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;

// An operation answers a count, or -1 with errno. An errno of 0 would read as success: it is an I/O error.
Outcome refusal() noexcept {
  return Outcome::system_error(errno > 0 ? errno : EIO);
}

Outcome read_all(const OpenFile& file, std::span<std::byte> into, FileOffset at) noexcept {
  std::uint64_t done = 0;
  while (done < into.size()) {
    errno = 0;
    const ssize_t got = file.operations->read(file.handle, reinterpret_cast<char*>(into.data() + done),
                                              into.size() - done, static_cast<off_t>(at.value + done), nullptr);
    if (got < 0) {
      if (errno == EINTR) continue;
      return done > 0 ? Outcome::bytes(done) : refusal();
    }
    if (got == 0) break;
    done += std::min<std::uint64_t>(static_cast<std::uint64_t>(got), into.size() - done);
  }
  return Outcome::bytes(done);
}

Outcome write_all(const OpenFile& file, std::span<const std::byte> from, FileOffset at) noexcept {
  std::uint64_t done = 0;
  while (done < from.size()) {
    errno = 0;
    const ssize_t put = file.operations->write(file.handle, reinterpret_cast<const char*>(from.data() + done),
                                               from.size() - done, static_cast<off_t>(at.value + done), nullptr);
    if (put < 0) {
      if (errno == EINTR) continue;
      return done > 0 ? Outcome::bytes(done) : refusal();
    }
    if (put == 0) return done > 0 ? Outcome::bytes(done) : Outcome::system_error(ENOSPC);
    done += std::min<std::uint64_t>(static_cast<std::uint64_t>(put), from.size() - done);
  }
  return Outcome::bytes(done);
}

class OperationsSide final : public FileSide {
 public:
  explicit OperationsSide(const OpenFile& file) noexcept : file_(file) {}

  std::uint32_t block() const noexcept override { return 1; }
  bool takes_many_readers() const noexcept override { return false; }
  Outcome read(std::span<std::byte> into, FileOffset at) noexcept override { return read_all(file_, into, at); }
  Outcome write(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept override {
    return io::write_rest(from, at, block(), 0,
                          [this](auto bytes, FileOffset there) { return write_all(file_, bytes, there); });
  }

 private:
  const OpenFile& file_;
};

class Userspace final : public Path {
 public:
  explicit constexpr Userspace(CopyMode copy_mode) noexcept : copy_mode_(copy_mode) {}

  Outcome move(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) noexcept override {
    if (piece.carry == route::SegmentMode::straight) {
      const std::span bytes(reinterpret_cast<std::byte*>(piece.address), piece.length);
      return piece.direction == Direction::read ? read_all(file, bytes, piece.at) : write_all(file, bytes, piece.at);
    }
    if (file.copier != nullptr && !facts::is_host(memory.kind)) {
      OperationsSide side(file);
      return move_in_stream(*file.copier, memory, piece, side);
    }
    staging::BounceBuffer bounce = staging::BounceBuffer::take();
    if (!bounce) return Outcome::system_error(ENOMEM);
    BounceCopier bounce_copier(memory, copy_mode_, bounce);
    std::uint64_t done = 0;
    while (done < piece.length) {
      const auto chunk = bounce.bytes().first(std::min<std::uint64_t>(piece.length - done, bounce.bytes().size()));
      const Outcome moved =
          piece.direction == Direction::read
              ? read_chunk(file, bounce_copier, chunk, {piece.at.value + done}, piece.address + done)
              : write_chunk(file, bounce_copier, chunk, {piece.at.value + done}, piece.address + done);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += moved.count();
      if (moved.count() < chunk.size()) break;
    }
    return Outcome::bytes(done);
  }

 private:
  static Outcome read_chunk(const OpenFile& file, BounceCopier& bounce_copier, std::span<std::byte> chunk,
                            FileOffset at, std::uint64_t address) noexcept {
    const Outcome read = read_all(file, chunk, at);
    return read.count() == 0 ? read : bounce_copier.to_memory(address, chunk.first(read.count()));
  }

  static Outcome write_chunk(const OpenFile& file, BounceCopier& bounce_copier, std::span<std::byte> chunk,
                             FileOffset at, std::uint64_t address) noexcept {
    const Outcome staged = bounce_copier.from_memory(chunk, address);
    return staged.ok() ? write_all(file, chunk, at) : staged;
  }

  CopyMode copy_mode_;
};

}  // namespace

Path& userspace(CopyMode copy_mode) noexcept {
  static Userspace usual(CopyMode::usual);
  static Userspace plain(CopyMode::plain);
  return copy_mode == CopyMode::plain ? plain : usual;
}

Outcome read_plainly(const OpenFile& file, std::span<std::byte> into, FileOffset at) noexcept {
  const bool own = file.operations != nullptr && file.operations->read != nullptr;
  return own ? read_all(file, into, at) : file.buffered.read(into, at);
}

}  // namespace sluice::paths
