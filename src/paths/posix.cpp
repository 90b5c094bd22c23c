// Each chunk is read into a slab and copied on, or copied into a slab and written. O_DIRECT is met half-way: reads
// fetch the whole blocks around a range, the edges of writes go by the file's private, buffered description.
#include "paths/posix.h"

#include <algorithm>
#include <span>

#include "engine/file_io.h"
#include "engine/slab.h"
#include "paths/mover.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using route::Carry;

std::span<std::byte> caller_bytes(std::uint64_t address, std::uint64_t length) {
  return {reinterpret_cast<std::byte*>(address), length};
}

class Posix final : public Path {
 public:
  explicit constexpr Posix(Manner manner) noexcept : manner_(manner) {}

  Outcome move(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) noexcept override {
    const Outcome first = attempt(file, memory, piece);
    // The file system wants more of O_DIRECT than it told: the buffered description takes any alignment.
    if (first.error() == EINVAL && file.facts.direct && piece.carry != Carry::bounce_buffered) {
      Piece buffered = piece;
      buffered.carry = Carry::bounce_buffered;
      return attempt(file, memory, buffered);
    }
    return first;
  }

 private:
  Outcome attempt(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) const noexcept {
    if (piece.carry == Carry::straight) {
      return piece.direction == Direction::read ? read_straight(file, piece) : write_straight(file, piece);
    }
    engine::Slab slab = engine::Slab::take();
    if (!slab) return Outcome::system_error(ENOMEM);
    Mover mover(memory, manner_, slab);
    return piece.direction == Direction::read ? read_bounced(file, mover, slab.bytes(), piece)
                                              : write_bounced(file, mover, slab.bytes(), piece);
  }

  static std::uint32_t block_of(const OpenFile& file, Carry carry) noexcept {
    return file.facts.direct && carry != Carry::bounce_buffered ? std::max(1u, file.facts.offset_alignment) : 1;
  }

  static Outcome read_straight(const OpenFile& file, const Piece& piece) noexcept {
    return engine::read_span(file.fd, caller_bytes(piece.address, piece.length), piece.at, block_of(file, piece.carry),
                             file.size);
  }

  static Outcome write_straight(const OpenFile& file, const Piece& piece) noexcept {
    return engine::write_span(file.fd, caller_bytes(piece.address, piece.length), piece.at,
                              block_of(file, piece.carry));
  }

  static Outcome read_bounced(const OpenFile& file, Mover& mover, std::span<std::byte> slab,
                              const Piece& piece) noexcept {
    const std::uint32_t block = block_of(file, piece.carry);
    std::uint64_t done = 0;
    while (done < piece.length) {
      const std::uint64_t position = piece.at.value + done;
      const std::uint64_t skip = position % block;  // bytes of the first block that nobody asked for
      const std::uint64_t room = slab.size() - skip;
      const std::uint64_t wanted = std::min(piece.length - done, room);
      const std::uint64_t fetched = (skip + wanted + block - 1) / block * block;
      const FileOffset from{position - skip};
      const Outcome read = piece.carry == Carry::bounce_buffered
                               ? file.buffered.read(slab.first(fetched), from)
                               : engine::read_span(file.fd, slab.first(fetched), from, block, file.size);
      if (!read.ok()) return done > 0 ? Outcome::bytes(done) : read;
      if (read.count() <= skip) break;
      const std::uint64_t arrived = std::min(read.count() - skip, wanted);
      const Outcome moved = mover.to_memory(piece.address + done, slab.subspan(skip, arrived));
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += arrived;
      if (arrived < wanted) break;
    }
    return Outcome::bytes(done);
  }

  static Outcome write_bounced(const OpenFile& file, Mover& mover, std::span<std::byte> slab,
                               const Piece& piece) noexcept {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const auto chunk = slab.first(std::min<std::uint64_t>(piece.length - done, slab.size()));
      const FileOffset at{piece.at.value + done};
      const Outcome moved = mover.from_memory(chunk, piece.address + done);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      const Outcome written = piece.carry == Carry::bounce_buffered
                                  ? file.buffered.write(chunk, at)
                                  : engine::write_span(file.fd, chunk, at, block_of(file, piece.carry));
      if (!written.ok()) return done > 0 ? Outcome::bytes(done) : written;
      done += written.count();
      if (written.count() < chunk.size()) break;
    }
    return Outcome::bytes(done);
  }

  Manner manner_;
};

}  // namespace

Path& posix(Manner manner) noexcept {
  static Posix usual(Manner::usual);
  static Posix plain(Manner::plain);
  return manner == Manner::plain ? plain : usual;
}

}  // namespace sluice::paths
