// SPDX-License-Identifier: Apache-2.0
// Each chunk is read into a bounce buffer and copied on, or copied into a bounce buffer and written. O_DIRECT is met
// half-way: reads fetch the whole blocks around a range, the edges of writes go by the file's private, buffered
// description.
#include "paths/posix.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>

#include "gpu/session.h"
#include "io/file_io.h"
#include "io/prefetch.h"
#include "observe/copy_counters.h"
#include "paths/bounce_copier.h"
#include "paths/prefetch_range.h"
#include "paths/stream_segment.h"
#include "staging/bounce_buffer.h"
#include "staging/mailbox_lease.h"
#include "transfer/device_read.h"
#include "transfer/device_write.h"
#include "workers/active_count.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using route::SegmentMode;

// Up to here one read and one copy are the quickest for a thread that is alone; beyond it, doing both at once pays.
// Among others, kernels are quicker than the copies of all of them, which the device makes one after the other.
constexpr std::uint64_t largest_for_bounce_buffer = std::uint64_t{128} << 10U;
// Of writes beside others: smaller ones gain nothing.
constexpr std::uint64_t smallest_to_prefetch = std::uint64_t{128} << 10U;
// What the CPU stores into a mapping by itself.
constexpr std::uint64_t largest_for_bar_mapping = std::uint64_t{16} << 10U;

transfer::CopyEngine copy_engine_of(CopyMode copy_mode) {
  switch (copy_mode) {
    case CopyMode::kernel:
      return transfer::CopyEngine::kernel;
    case CopyMode::copy_engine:
      return transfer::CopyEngine::engine;
    default:
      return transfer::CopyEngine::automatic;
  }
}

std::span<std::byte> caller_bytes(std::uint64_t address, std::uint64_t length) {
  return {reinterpret_cast<std::byte*>(address), length};
}

// What a copier's pieces are read from and written to.
class DescriptorSide final : public FileSide {
 public:
  DescriptorSide(const OpenFile& file, std::uint32_t block, bool buffered_only) noexcept
      : file_(file), block_(block), buffered_only_(buffered_only) {}

  std::uint32_t block() const noexcept override { return block_; }
  std::optional<Disk> disk() const noexcept override {
    if (block_ == 1 || !file_.disk.takes_rings()) return std::nullopt;
    return Disk{file_.fd, file_.disk};
  }
  bool takes_many_readers() const noexcept override { return true; }
  Outcome read(std::span<std::byte> into, FileOffset at) noexcept override {
    Outcome got = Outcome::system_error(EINVAL);
    if (!buffered_only_) got = io::read_span(file_.fd, into, at, block_, file_.now.size());
    return got.error() == EINVAL ? file_.buffered.read(into, at) : got;
  }
  Outcome write(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept override {
    std::uint64_t length = 0;
    for (const std::span<const std::byte> span : from) length += span.size();
    if (file_.facts.direct || length < smallest_to_prefetch) return write_all(from, at);
    const workers::ActiveCount::Scope writer(workers::active_counts::writers_of(facts::file_number(file_.facts)));
    if (writer.count() > 1) {
      // Others write to the file, too, and wait for it (transfer/device_write.cpp).
      auto prefetch = io::Prefetch::of_write_range(write_range_of_file(file_.fd, file_.facts), at, length,
                                                   io::Prefetch::Step::of_four_pages);
      while (prefetch.step()) {
      }
    }
    return write_all(from, at);
  }

 private:
  Outcome write_all(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept {
    const bool together = !buffered_only_ && from.size() > 1;
    const Outcome taken = together ? io::write_together(file_.fd, from, at) : Outcome::bytes(0);
    if (!taken.ok()) return taken;
    return io::write_rest(from, at, block_, taken.count(),
                          [this](auto bytes, FileOffset there) { return write_one(bytes, there); });
  }

  Outcome write_one(std::span<const std::byte> from, FileOffset at) noexcept {
    Outcome written = Outcome::system_error(EINVAL);
    if (!buffered_only_) written = io::write_span(file_.fd, from, at, block_);
    return written.error() == EINVAL ? file_.buffered.write(from, at) : written;
  }

  const OpenFile& file_;
  const std::uint32_t block_;
  const bool buffered_only_;
};

class Posix final : public Path {
 public:
  constexpr Posix(CopyMode copy_mode, SmallReads small_reads) noexcept
      : copy_mode_(copy_mode), small_reads_(small_reads) {}

  Outcome move(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) noexcept override {
    // The file system may want more of O_DIRECT than it told, and the descriptor may have got that flag since it was
    // registered: the buffered description takes any alignment.
    Outcome moved = attempt(file, memory, piece);
    if (moved.error() == EINVAL && piece.carry == SegmentMode::straight) {
      Piece buffered = piece;
      buffered.carry = SegmentMode::bounce_buffered;
      moved = attempt(file, memory, buffered);
    }
    return file.now.finds_the_file() ? moved : Outcome::system_error(EBADF);
  }

 private:
  Outcome attempt(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) const noexcept {
    if (piece.carry == SegmentMode::straight) {
      return piece.direction == Direction::read ? read_straight(file, piece) : write_straight(file, piece);
    }
    if (file.copier != nullptr && !facts::is_host(memory.kind)) {
      DescriptorSide side(file, block_of(file, piece.carry), piece.carry == SegmentMode::bounce_buffered);
      return move_in_stream(*file.copier, memory, piece, side);
    }
    const std::uint64_t next_range = next_range_of(file, memory, piece);
    if (piece.length <= largest_for_bounce_buffer && is_cached_read(file, memory, piece)) {
      return read_small(file, memory, piece, next_range);
    }
    if (piece.length > largest_for_bounce_buffer || is_polled_for(file, piece)) {
      if (const auto moved = through_staging_buffer(file, memory, piece, next_range)) return *moved;
    }
    if (piece.length > largest_for_bounce_buffer && !file.now.finds_the_file()) return Outcome::system_error(EBADF);
    return through_bounce_buffer(file, memory, piece, next_range);
  }

  // How many bytes behind the piece this thread will read or write next, as far as anybody can guess: as many again,
  // where it has just done so in front of the piece.
  std::uint64_t next_range_of(const OpenFile& file, const facts::BufferFacts& memory,
                              const Piece& piece) const noexcept {
    if (copy_mode_ == CopyMode::plain || file.facts.direct || facts::is_host(memory.kind) ||
        !io::goes_on(piece.direction, file.fd, piece.at, piece.length)) {
      return 0;
    }
    if (piece.direction == Direction::write && piece.length <= largest_for_bounce_buffer) return 0;  // nobody uses it
    const std::uint64_t end = piece.at.value + piece.length;
    const std::uint64_t size = known_end(file);
    return end < size ? std::min(piece.length, size - end) : 0;
  }

  // Where the file ends, if anybody has asked. Otherwise the read finds out when nothing more comes.
  static std::uint64_t known_end(const OpenFile& file) noexcept {
    return file.now.asked() ? file.now.size() : ~std::uint64_t{0};
  }

  static staging::OverlapWork prefetch_of_next_range(const OpenFile& file, const Piece& piece,
                                                     std::uint64_t next_range) noexcept {
    return {file.now, io::Prefetch::of_next_range(next_range_of_file(file.fd, file.facts),
                                                  FileOffset{piece.at.value + piece.length}, next_range)};
  }

  bool is_cached_read(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) const noexcept {
    return piece.direction == Direction::read && memory.kind == facts::MemoryKind::device &&
           piece.carry == SegmentMode::bounce && (copy_mode_ == CopyMode::usual || copy_mode_ == CopyMode::kernel) &&
           block_of(file, piece.carry) == 1;
  }

  // Out of line: others should not save registers for it.
  [[gnu::noinline]] Outcome read_small(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece,
                                       std::uint64_t next_range) const noexcept {
    if (file.mapping != nullptr && piece.length <= largest_for_bar_mapping) {
      if (const auto moved = by_bar_mapping(file, piece)) return *moved;
    }
    const staging::ActiveScope crowd;
    std::optional<Outcome> moved;
    if (piece.length > gpu::mailbox_bytes) {
      if (crowd.is_very_crowded() && small_reads_ != SmallReads::copied) {
        moved = through_staging_buffer(file, memory, piece, next_range, Unless::no_prompt_kernel);
      }
    } else if (takes_mailbox(crowd)) {
      moved = by_mailbox(file, memory, piece, next_range);
    }
    return moved ? *moved : through_bounce_buffer(file, memory, piece, next_range);
  }

  bool takes_mailbox(const staging::ActiveScope& crowd) const noexcept {
    // Its kernel would stand behind the streams that wait for this transfer, and hold it up until it is revoked.
    if (gpu::serves_waiting_streams()) return false;
    switch (small_reads_) {
      case SmallReads::copied:
        return false;
      case SmallReads::resident:
        return true;
      default:
        return crowd.is_crowded();
    }
  }

  // Nothing where the piece has to go another way: all of it, when not all came that the file has of it. The kernel
  // stores, since it survives that the memory is freed meanwhile.
  [[gnu::noinline]] static std::optional<Outcome> by_bar_mapping(const OpenFile& file, const Piece& piece) noexcept {
    std::byte* const place = file.mapping->at(piece.address, piece.length);
    if (place == nullptr) return std::nullopt;
    if (!file.now.finds_the_file()) return Outcome::system_error(EBADF);
    const Outcome read = io::read_span(file.fd, {place, piece.length}, piece.at, 1, file.now.size());
    if (!read.ok()) return std::nullopt;
    if (read.count() < piece.length && piece.at.value + read.count() < file.now.size()) return std::nullopt;
    gpu::send_stores();
    observe::count_copy(observe::CopyCounter::bar_mapping);
    return read;
  }

  // Nothing where a bounce buffer has to do: no mailbox to be had, or a descriptor that has got O_DIRECT meanwhile.
  [[gnu::noinline]] std::optional<Outcome> by_mailbox(const OpenFile& file, const facts::BufferFacts& memory,
                                                      const Piece& piece, std::uint64_t next_range) const noexcept {
    gpu::Session session(memory);
    staging::MailboxLease delivery(session);
    if (!delivery) return std::nullopt;
    const Outcome read =
        io::read_span(file.fd, delivery.bytes(piece.address, piece.length), piece.at, 1, known_end(file));
    if (read.error() == EINVAL) return std::nullopt;
    if (!read.ok() || read.count() == 0) return read;
    const staging::OverlapWork overlap = prefetch_of_next_range(file, piece, next_range);
    const int result = delivery.by_resident(piece.address, read.count(), overlap);
    return result == cuda::success ? read : gpu::as_outcome(result);
  }

  Outcome through_bounce_buffer(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece,
                                std::uint64_t next_range) const noexcept {
    observe::count_copy(observe::CopyCounter::bounce_buffer);
    staging::BounceBuffer bounce = staging::BounceBuffer::take();
    if (!bounce) return Outcome::system_error(ENOMEM);
    BounceCopier bounce_copier(memory, copy_mode_, bounce);
    return piece.direction == Direction::read ? read_bounced(file, bounce_copier, bounce.bytes(), piece, next_range)
                                              : write_bounced(file, bounce_copier, bounce.bytes(), piece);
  }

  // Nothing where a bounce buffer has to do: host memory, the private description, no ring to be had.
  enum class Unless : std::uint8_t { no_ring, no_prompt_kernel };
  std::optional<Outcome> through_staging_buffer(const OpenFile& file, const facts::BufferFacts& memory,
                                                const Piece& piece, std::uint64_t next_range,
                                                Unless unless = Unless::no_ring) const noexcept {
    if (copy_mode_ == CopyMode::plain || memory.kind != facts::MemoryKind::device ||
        piece.carry != SegmentMode::bounce) {
      return std::nullopt;
    }
    const bool asks = piece.direction == Direction::read && block_of(file, piece.carry) == 1;
    if (!asks && !file.now.finds_the_file()) return Outcome::system_error(EBADF);
    const gpu::Session session(memory);
    staging::StagingLease ring = staging::StagingLease::take(session);
    if (!ring || (unless == Unless::no_prompt_kernel && !ring.has_prompt_kernel())) return std::nullopt;
    const transfer::FileRange range{file.fd,
                                    piece.at,
                                    piece.length,
                                    block_of(file, piece.carry),
                                    known_end(file),
                                    file.now,
                                    file.buffered,
                                    file.disk,
                                    facts::file_number(file.facts),
                                    write_range_of_file(file.fd, file.facts),
                                    next_range};
    const transfer::Target target{piece.address, memory.is_known_to_hold(piece.address, piece.length)};
    return piece.direction == Direction::read
               ? transfer::read_to_device(range, ring, target, copy_engine_of(copy_mode_))
               : transfer::write_from_device(range, ring, piece.address);
  }

  // Where that is chosen, and the storage has queues for it as far as is known: plain reads of any size wait for an
  // interrupt.
  bool is_polled_for(const OpenFile& file, const Piece& piece) const noexcept {
    return piece.direction == Direction::read && copy_mode_ == CopyMode::usual && block_of(file, piece.carry) > 1 &&
           io::is_polled(file.disk.completion());
  }

  static std::uint32_t block_of(const OpenFile& file, SegmentMode carry) noexcept {
    return file.facts.direct && carry != SegmentMode::bounce_buffered ? std::max(1u, file.facts.offset_alignment) : 1;
  }

  static Outcome read_straight(const OpenFile& file, const Piece& piece) noexcept {
    return io::read_span(file.fd, caller_bytes(piece.address, piece.length), piece.at, block_of(file, piece.carry),
                         file.now.size());
  }

  static Outcome write_straight(const OpenFile& file, const Piece& piece) noexcept {
    return io::write_span(file.fd, caller_bytes(piece.address, piece.length), piece.at, block_of(file, piece.carry));
  }

  static Outcome read_bounced(const OpenFile& file, BounceCopier& bounce_copier, std::span<std::byte> bounce,
                              const Piece& piece, std::uint64_t next_range) noexcept {
    const std::uint32_t block = block_of(file, piece.carry);
    std::uint64_t done = 0;
    while (done < piece.length) {
      const std::uint64_t position = piece.at.value + done;
      const std::uint64_t skip = position % block;  // bytes of the first block that nobody asked for
      const std::uint64_t room = bounce.size() - skip;
      const std::uint64_t wanted = std::min(piece.length - done, room);
      const std::uint64_t staged = (skip + wanted + block - 1) / block * block;
      const FileOffset from{position - skip};
      Outcome read = Outcome::system_error(EINVAL);
      if (piece.carry != SegmentMode::bounce_buffered) {
        read = io::read_span(file.fd, bounce.first(staged), from, block, known_end(file));
      }
      if (read.error() == EINVAL) read = file.buffered.read(bounce.first(staged), from);
      if (!read.ok()) return done > 0 ? Outcome::bytes(done) : read;
      if (read.count() <= skip) break;
      const std::uint64_t arrived = std::min(read.count() - skip, wanted);
      const bool is_last = done + wanted == piece.length;
      const Outcome moved = bounce_copier.to_memory(piece.address + done, bounce.subspan(skip, arrived),
                                                    prefetch_of_next_range(file, piece, is_last ? next_range : 0));
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += arrived;
      if (arrived < wanted) break;
    }
    return Outcome::bytes(done);
  }

  static Outcome write_bounced(const OpenFile& file, BounceCopier& bounce_copier, std::span<std::byte> bounce,
                               const Piece& piece) noexcept {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const auto chunk = bounce.first(std::min<std::uint64_t>(piece.length - done, bounce.size()));
      const FileOffset at{piece.at.value + done};
      const staging::OverlapWork before(
          file.now, io::Prefetch::of_write_range(write_range_of_file(file.fd, file.facts), at, chunk.size(),
                                                 io::Prefetch::Step::of_a_page));
      const Outcome moved = bounce_copier.from_memory(chunk, piece.address + done, before);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      if (!file.now.finds_the_file()) return Outcome::system_error(EBADF);
      Outcome written = Outcome::system_error(EINVAL);
      if (piece.carry != SegmentMode::bounce_buffered) {
        written = io::write_span(file.fd, chunk, at, block_of(file, piece.carry));
      }
      if (written.error() == EINVAL) written = file.buffered.write(chunk, at);
      if (!written.ok()) return done > 0 ? Outcome::bytes(done) : written;
      done += written.count();
      if (written.count() < chunk.size()) break;
    }
    return Outcome::bytes(done);
  }

  CopyMode copy_mode_;
  SmallReads small_reads_;
};

}  // namespace

bool looks_while_copying(const OpenFile& file, const facts::BufferFacts& memory, base::Direction direction,
                         std::uint64_t length) noexcept {
  return !facts::is_host(memory.kind) && (direction == Direction::read || length <= largest_for_bounce_buffer) &&
         !file.facts.direct && file.operations == nullptr && file.copier == nullptr;
}

Path& posix(CopyMode copy_mode, SmallReads small_reads) noexcept {
  using enum CopyMode;
  using enum SmallReads;
  static constinit std::array<std::array<Posix, 4>, 4> all{
      {{Posix(usual, automatic), Posix(usual, copied), Posix(usual, resident), Posix(usual, bar_mapping)},
       {Posix(kernel, automatic), Posix(kernel, copied), Posix(kernel, resident), Posix(kernel, bar_mapping)},
       {Posix(copy_engine, automatic), Posix(copy_engine, copied), Posix(copy_engine, resident),
        Posix(copy_engine, bar_mapping)},
       {Posix(plain, automatic), Posix(plain, copied), Posix(plain, resident), Posix(plain, bar_mapping)}}};
  return all[static_cast<std::size_t>(copy_mode)][static_cast<std::size_t>(small_reads)];
}

}  // namespace sluice::paths
