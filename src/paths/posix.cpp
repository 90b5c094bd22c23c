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
#include <string>
#include <utility>

#include "base/processor.h"
#include "gpu/bar_mapping.h"
#include "gpu/coherent.h"
#include "gpu/session.h"
#include "io/file_io.h"
#include "io/prefetch.h"
#include "observe/copy_counters.h"
#include "paths/bounce_copier.h"
#include "paths/posix_group.h"
#include "paths/prefetch_range.h"
#include "staging/bounce_buffer.h"
#include "staging/mailbox_lease.h"
#include "transfer/device_read.h"
#include "transfer/device_write.h"
#include "transfer/plan.h"
#include "workers/active_count.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using route::SegmentMode;
using transfer::largest_for_bounce_buffer;
using transfer::SmallThrough;
using transfer::Through;

// Of writes beside others: smaller ones gain nothing.
constexpr std::uint64_t smallest_to_prefetch = std::uint64_t{128} << 10U;
// What the CPU stores into a mapping by itself.
constexpr std::uint64_t largest_for_bar_mapping = std::uint64_t{16} << 10U;

std::span<std::byte> caller_bytes(std::uint64_t address, std::uint64_t length) {
  return {reinterpret_cast<std::byte*>(address), length};
}

struct Part {
  FileOffset at;
  std::uint64_t length;
  std::uint32_t block;
  std::uint64_t known_end;  // of the file
};
transfer::FileRange range_of(File& file, facts::DescriptorCheck& now, const Part& part,
                             std::uint64_t next_range) noexcept {
  return {{file.descriptor(), part.at, part.length, part.block, part.known_end},
          now,
          file.buffered,
          file.disk,
          facts::file_number(file.facts),
          write_range_of_file(file.descriptor(), file.facts),
          next_range,
          static_cast<unsigned>(file.facts.block.members.size())};
}

// What a copier's pieces are read from and written to.
class DescriptorSide final : public FileSide {
 public:
  DescriptorSide(const Ends& ends, std::uint32_t block, bool buffered_only) noexcept
      : file_(ends.file), now_(ends.now), block_(block), buffered_only_(buffered_only) {}

  std::uint32_t block() const noexcept override { return block_; }
  std::optional<Disk> disk() const noexcept override {
    if (block_ == 1 || !file_.disk.takes_rings()) return std::nullopt;
    return Disk{file_.descriptor(), file_.disk};
  }
  std::optional<Lending> lending(FileOffset at, std::uint64_t length) noexcept override {
    if (!file_.options.lending.on || buffered_only_) return std::nullopt;
    return Lending{range_of(file_, now_, {at, length, block_, now_.asked() ? now_.size() : ~std::uint64_t{0}}, 0),
                   file_.options.lending};
  }
  bool takes_many_readers() const noexcept override { return true; }
  Outcome read(std::span<std::byte> into, FileOffset at) noexcept override {
    Outcome got = Outcome::system_error(EINVAL);
    if (!buffered_only_) got = io::read_span(file_.descriptor(), into, at, block_, now_.size());
    return got.error() == EINVAL ? file_.buffered.read(into, at) : got;
  }
  Outcome write(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept override {
    std::uint64_t length = 0;
    for (const std::span<const std::byte> span : from) length += span.size();
    if (file_.facts.direct || length < smallest_to_prefetch) return write_all(from, at);
    const workers::ActiveCount::Scope writer(workers::active_counts::writers_of(facts::file_number(file_.facts)));
    if (writer.count() > 1) {
      // Others write to the file, too, and wait for it (transfer/device_write.cpp).
      auto prefetch = io::Prefetch::of_write_range(write_range_of_file(file_.descriptor(), file_.facts), at, length,
                                                   io::Prefetch::Step::of_four_pages);
      while (prefetch.step()) {
      }
    }
    return write_all(from, at);
  }

 private:
  Outcome write_all(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept {
    const bool together = !buffered_only_ && from.size() > 1;
    const Outcome taken = together ? io::write_together(file_.descriptor(), from, at) : Outcome::bytes(0);
    if (!taken.ok()) return taken;
    return io::write_rest(from, at, block_, taken.count(),
                          [this](auto bytes, FileOffset there) { return write_one(bytes, there); });
  }

  Outcome write_one(std::span<const std::byte> from, FileOffset at) noexcept {
    Outcome written = Outcome::system_error(EINVAL);
    if (!buffered_only_) written = io::write_span(file_.descriptor(), from, at, block_);
    return written.error() == EINVAL ? file_.buffered.write(from, at) : written;
  }

  File& file_;
  facts::DescriptorCheck& now_;
  const std::uint32_t block_;
  const bool buffered_only_;
};

// What small reads may store into.
struct MappedBuffer final : Attachment {
  explicit MappedBuffer(gpu::BarMapping made) noexcept : mapping(std::move(made)) {}
  gpu::BarMapping mapping;
};

const gpu::BarMapping* mapping_of(const Ends& ends) noexcept {
  const Attachment* const kept = ends.registered != nullptr ? ends.registered->of(SLUICE_PATH_POSIX) : nullptr;
  return kept != nullptr ? &static_cast<const MappedBuffer*>(kept)->mapping : nullptr;
}

// Large reads out of the page cache are left to several threads and a kernel, unless everything is to go in place: one
// thread stores 7 to 9 GiB a second. (That was measured on x86-64; no coherent machine was tried.)
bool is_reached(const File& file, const facts::BufferFacts& memory) noexcept {
  return !facts::is_host(memory.kind) && gpu::cpu_reaches(memory, file.options.coherent);
}
bool is_in_place(const File& file, const facts::BufferFacts& memory, Direction direction,
                 std::uint64_t length) noexcept {
  if (!is_reached(file, memory)) return false;
  const bool several_threads = direction == Direction::read && !file.facts.direct &&
                               memory.kind == facts::MemoryKind::device && length > largest_for_bounce_buffer;
  return !several_threads || file.options.coherent == gpu::Coherent::always;
}

// Of one request.
class ByCpu {
 public:
  explicit ByCpu(const Ends& ends) noexcept
      : ends_(ends), file_(ends.file), now_(ends.now), memory_(ends.memory), copy_mode_(file_.options.copy_mode) {}

  Outcome move(const Piece& piece) const noexcept {
    // The file system may want more of O_DIRECT than it told, and the descriptor may have got that flag since it was
    // registered: the buffered description takes any alignment.
    Outcome moved = attempt(piece);
    if (moved.error() == EINVAL && piece.carry == SegmentMode::straight) {
      Piece buffered = piece;
      buffered.carry = SegmentMode::bounce_buffered;
      moved = attempt(buffered);
    }
    return now_.finds_the_file() ? moved : Outcome::system_error(EBADF);
  }

 private:
  Outcome attempt(const Piece& piece) const noexcept {
    if (piece.carry == SegmentMode::straight) {
      return piece.direction == Direction::read ? read_straight(piece) : write_straight(piece);
    }
    return is_reached(file_, memory_) && goes_in_place(piece) ? in_place(piece) : by_copies(piece);
  }

  // Out of line, as some below: what goes straight should not save registers for it.
  [[gnu::noinline]] Outcome by_copies(const Piece& piece) const noexcept {
    if (ends_.device != nullptr && !facts::is_host(memory_.kind)) {
      DescriptorSide side(ends_, block_of(piece.carry), piece.carry == SegmentMode::bounce_buffered);
      return ends_.device->move(memory_, piece, side);
    }
    const std::uint64_t next_range = next_range_of(piece);
    const bool cached_read = is_cached_read(piece);
    const Through way = transfer::way_of(
        {.length = piece.length, .cached_read = cached_read, .polled = !cached_read && is_polled_for(piece)});
    if (way == Through::small_read) return read_small(piece, next_range);
    if (way == Through::staging_buffer) {
      if (const auto moved = through_staging_buffer(piece, next_range)) return *moved;
    }
    if (piece.length > largest_for_bounce_buffer && !now_.finds_the_file()) return Outcome::system_error(EBADF);
    return through_bounce_buffer(piece, next_range);
  }

  // O_DIRECT takes whole blocks alone, and would fill the one that the file ends in.
  [[gnu::noinline]] bool goes_in_place(const Piece& piece) const noexcept {
    if (piece.carry != SegmentMode::bounce || !is_in_place(file_, memory_, piece.direction, piece.length)) return false;
    const std::uint64_t block = block_of(piece.carry);
    return block == 1 || ((piece.at.value | piece.length) % block == 0 &&
                          (piece.direction == Direction::write || piece.at.value + piece.length <= now_.size()));
  }

  // The kernel moves the bytes, and survives that the memory is freed meanwhile. Where it stops before the file does,
  // or cannot pin the memory for O_DIRECT, the rest goes by copies, which tell what is wrong with the memory.
  [[gnu::noinline]] Outcome in_place(const Piece& piece) const noexcept {
    Outcome moved = Outcome::system_error(EFAULT);
    if (std::byte* const place = gpu::cpu_address(memory_, piece.address, piece.length)) {
      const std::uint32_t block = block_of(piece.carry);
      moved = piece.direction == Direction::read
                  ? io::read_span(file_.descriptor(), {place, piece.length}, piece.at, block, now_.size())
                  : io::write_span(file_.descriptor(), {place, piece.length}, piece.at, block);
    }
    const std::uint64_t done = moved.count();
    if (done > 0) observe::count_copy(observe::CopyCounter::coherent);
    const bool refused = moved.error() == EFAULT || moved.error() == EINVAL;
    const bool at_end =
        done == piece.length || (piece.direction == Direction::read && piece.at.value + done >= now_.size());
    if (!refused && (!moved.ok() || at_end)) return moved;
    const Outcome rest = by_copies(
        {piece.direction, piece.carry, FileOffset{piece.at.value + done}, piece.address + done, piece.length - done});
    return done > 0 ? Outcome::bytes(done + rest.count()) : rest;
  }

  // How many bytes behind the piece this thread will read or write next, as far as can be guessed: as many again,
  // where it has just done so in front of the piece.
  std::uint64_t next_range_of(const Piece& piece) const noexcept {
    if (copy_mode_ == CopyMode::plain || file_.facts.direct || facts::is_host(memory_.kind) ||
        !io::goes_on(piece.direction, file_.descriptor(), piece.at, piece.length)) {
      return 0;
    }
    if (piece.direction == Direction::write && piece.length <= largest_for_bounce_buffer)
      return 0;  // it would not be used
    const std::uint64_t end = piece.at.value + piece.length;
    const std::uint64_t size = known_end();
    return end < size ? std::min(piece.length, size - end) : 0;
  }

  // Where the file ends, if a thread has asked. Otherwise the read finds out when nothing more comes.
  std::uint64_t known_end() const noexcept { return now_.asked() ? now_.size() : ~std::uint64_t{0}; }

  staging::OverlapWork prefetch_of_next_range(const Piece& piece, std::uint64_t next_range) const noexcept {
    return {now_, io::Prefetch::of_next_range(next_range_of_file(file_.descriptor(), file_.facts),
                                              FileOffset{piece.at.value + piece.length}, next_range)};
  }

  bool is_cached_read(const Piece& piece) const noexcept {
    return piece.direction == Direction::read && memory_.kind == facts::MemoryKind::device &&
           piece.carry == SegmentMode::bounce && (copy_mode_ == CopyMode::usual || copy_mode_ == CopyMode::kernel) &&
           block_of(piece.carry) == 1;
  }

  // Out of line: others should not save registers for it.
  [[gnu::noinline]] Outcome read_small(const Piece& piece, std::uint64_t next_range) const noexcept {
    if (piece.length <= largest_for_bar_mapping) {
      if (const gpu::BarMapping* const mapping = mapping_of(ends_)) {
        if (const auto moved = by_bar_mapping(*mapping, piece)) return *moved;
      }
    }
    const staging::ActiveScope crowd;
    std::optional<Outcome> moved;
    switch (transfer::small_way_of({.length = piece.length,
                                    .copies_wanted = file_.options.small_reads == SmallReads::copied,
                                    .kernels_wanted = file_.options.small_reads == SmallReads::resident,
                                    .crowded = crowd.is_crowded(),
                                    .very_crowded = crowd.is_very_crowded(),
                                    .streams_wait = gpu::serves_waiting_streams()})) {
      case SmallThrough::prompt_kernel:
        moved = through_staging_buffer(piece, next_range, Unless::no_prompt_kernel);
        break;
      case SmallThrough::mailbox:
        moved = by_mailbox(piece, next_range);
        break;
      case SmallThrough::copy:
        break;
    }
    return moved ? *moved : through_bounce_buffer(piece, next_range);
  }

  // Nothing where the piece has to go another way: all of it, when not all came that the file has of it. The kernel
  // stores, since it survives that the memory is freed meanwhile.
  [[gnu::noinline]] std::optional<Outcome> by_bar_mapping(const gpu::BarMapping& mapping,
                                                          const Piece& piece) const noexcept {
    std::byte* const place = mapping.at(piece.address, piece.length);
    if (place == nullptr) return std::nullopt;
    if (!now_.finds_the_file()) return Outcome::system_error(EBADF);
    const Outcome read = io::read_span(file_.descriptor(), {place, piece.length}, piece.at, 1, now_.size());
    if (!read.ok()) return std::nullopt;
    if (read.count() < piece.length && piece.at.value + read.count() < now_.size()) return std::nullopt;
    base::send_stores();
    observe::count_copy(observe::CopyCounter::bar_mapping);
    return read;
  }

  // Nothing where a bounce buffer has to do: no mailbox to be had, or a descriptor that has got O_DIRECT meanwhile.
  [[gnu::noinline]] std::optional<Outcome> by_mailbox(const Piece& piece, std::uint64_t next_range) const noexcept {
    gpu::Session session(memory_);
    staging::MailboxLease delivery(session);
    if (!delivery) return std::nullopt;
    const Outcome read =
        io::read_span(file_.descriptor(), delivery.bytes(piece.address, piece.length), piece.at, 1, known_end());
    if (read.error() == EINVAL) return std::nullopt;
    if (!read.ok() || read.count() == 0) return read;
    const staging::OverlapWork overlap = prefetch_of_next_range(piece, next_range);
    const cuda::Result result = delivery.by_resident(piece.address, read.count(), overlap);
    return result == cuda::success ? read : gpu::as_outcome(result);
  }

  Outcome through_bounce_buffer(const Piece& piece, std::uint64_t next_range) const noexcept {
    observe::count_copy(observe::CopyCounter::bounce_buffer);
    staging::BounceBuffer bounce = staging::BounceBuffer::take();
    if (!bounce) return Outcome::system_error(ENOMEM);
    BounceCopier bounce_copier(memory_, copy_mode_, bounce);
    return piece.direction == Direction::read ? read_bounced(bounce_copier, bounce.bytes(), piece, next_range)
                                              : write_bounced(bounce_copier, bounce.bytes(), piece);
  }

  // Nothing where a bounce buffer has to do: host memory, the private description, no staging buffer to be had.
  enum class Unless : std::uint8_t { no_staging_buffer, no_prompt_kernel };
  std::optional<Outcome> through_staging_buffer(const Piece& piece, std::uint64_t next_range,
                                                Unless unless = Unless::no_staging_buffer) const noexcept {
    if (copy_mode_ == CopyMode::plain || memory_.kind != facts::MemoryKind::device ||
        piece.carry != SegmentMode::bounce) {
      return std::nullopt;
    }
    const bool asks = piece.direction == Direction::read && block_of(piece.carry) == 1;
    if (!asks && !now_.finds_the_file()) return Outcome::system_error(EBADF);
    const gpu::Session session(memory_);
    staging::StagingLease lease = staging::StagingLease::take(session);
    if (!lease || (unless == Unless::no_prompt_kernel && !lease.has_prompt_kernel())) return std::nullopt;
    const transfer::FileRange range =
        range_of(file_, now_, {piece.at, piece.length, block_of(piece.carry), known_end()}, next_range);
    const staging::LendingRules& lending = file_.options.lending;
    const transfer::Target target{piece.address,
                                  memory_.is_known_to_hold(piece.address, piece.length),
                                  memory_.device,
                                  &session,
                                  lending.on && gpu::known_device_count() > 1 ? &lending : nullptr,
                                  &memory_};
    return piece.direction == Direction::read
               ? transfer::read_to_device(range, lease, target, copy_engine_of(copy_mode_))
               : transfer::write_from_device(range, lease, target);
  }

  // Where that is chosen, and the storage has queues for it as far as is known: plain reads of any size wait for an
  // interrupt.
  bool is_polled_for(const Piece& piece) const noexcept {
    return piece.direction == Direction::read && copy_mode_ == CopyMode::usual && block_of(piece.carry) > 1 &&
           io::is_polled(file_.disk.completion());
  }

  std::uint32_t block_of(SegmentMode carry) const noexcept {
    return file_.facts.direct && carry != SegmentMode::bounce_buffered ? std::max(1u, file_.facts.offset_alignment) : 1;
  }

  Outcome read_straight(const Piece& piece) const noexcept {
    return io::read_span(file_.descriptor(), caller_bytes(piece.address, piece.length), piece.at, block_of(piece.carry),
                         now_.size());
  }

  Outcome write_straight(const Piece& piece) const noexcept {
    return io::write_span(file_.descriptor(), caller_bytes(piece.address, piece.length), piece.at,
                          block_of(piece.carry));
  }

  Outcome read_bounced(BounceCopier& bounce_copier, std::span<std::byte> bounce, const Piece& piece,
                       std::uint64_t next_range) const noexcept {
    const std::uint32_t block = block_of(piece.carry);
    std::uint64_t done = 0;
    while (done < piece.length) {
      const std::uint64_t position = piece.at.value + done;
      const std::uint64_t skip = position % block;  // bytes of the first block that were not asked for
      const std::uint64_t room = bounce.size() - skip;
      const std::uint64_t wanted = std::min(piece.length - done, room);
      const std::uint64_t staged = (skip + wanted + block - 1) / block * block;
      const FileOffset from{position - skip};
      Outcome read = Outcome::system_error(EINVAL);
      if (piece.carry != SegmentMode::bounce_buffered) {
        read = io::read_span(file_.descriptor(), bounce.first(staged), from, block, known_end());
      }
      if (read.error() == EINVAL) read = file_.buffered.read(bounce.first(staged), from);
      if (!read.ok()) return done > 0 ? Outcome::bytes(done) : read;
      if (read.count() <= skip) break;
      const std::uint64_t arrived = std::min(read.count() - skip, wanted);
      const bool is_last = done + wanted == piece.length;
      const Outcome moved = bounce_copier.to_memory(piece.address + done, bounce.subspan(skip, arrived),
                                                    prefetch_of_next_range(piece, is_last ? next_range : 0));
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += arrived;
      if (arrived < wanted) break;
    }
    return Outcome::bytes(done);
  }

  Outcome write_bounced(BounceCopier& bounce_copier, std::span<std::byte> bounce, const Piece& piece) const noexcept {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const auto chunk = bounce.first(std::min<std::uint64_t>(piece.length - done, bounce.size()));
      const FileOffset at{piece.at.value + done};
      const staging::OverlapWork before(
          now_, io::Prefetch::of_write_range(write_range_of_file(file_.descriptor(), file_.facts), at, chunk.size(),
                                             io::Prefetch::Step::of_a_page));
      const Outcome moved = bounce_copier.from_memory(chunk, piece.address + done, before);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      if (!now_.finds_the_file()) return Outcome::system_error(EBADF);
      Outcome written = Outcome::system_error(EINVAL);
      if (piece.carry != SegmentMode::bounce_buffered) {
        written = io::write_span(file_.descriptor(), chunk, at, block_of(piece.carry));
      }
      if (written.error() == EINVAL) written = file_.buffered.write(chunk, at);
      if (!written.ok()) return done > 0 ? Outcome::bytes(done) : written;
      done += written.count();
      if (written.count() < chunk.size()) break;
    }
    return Outcome::bytes(done);
  }

  const Ends& ends_;
  File& file_;
  facts::DescriptorCheck& now_;
  const facts::BufferFacts& memory_;
  const CopyMode copy_mode_;
};

}  // namespace

constinit const Posix posix;

std::unique_ptr<Attachment> Posix::of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                             const Options& options) const {
  // Not where everything is to go one certain way.
  const bool free_to_choose = options.copy_mode == CopyMode::usual || options.copy_mode == CopyMode::kernel;
  if (!free_to_choose || options.small_reads != SmallReads::bar_mapping || facts.kind != facts::MemoryKind::device) {
    return nullptr;
  }
  gpu::BarMapping mapping = gpu::BarMapping::onto(address, size);
  return mapping ? std::make_unique<MappedBuffer>(std::move(mapping)) : nullptr;
}

std::optional<route::Reason> Posix::refuses(const Facts& /*facts*/) const noexcept {
  return std::nullopt;
}

route::Cutting Posix::cutting(const Facts& facts) const noexcept {
  return route::cut_for_cpu(facts.file.facts, facts.memory.kind, facts.file.options.rules);
}

bool Posix::checks_descriptor(const Ends& ends, Direction direction, std::uint64_t length) const noexcept {
  return !facts::is_host(ends.memory.kind) && (direction == Direction::read || length <= largest_for_bounce_buffer) &&
         !ends.file.facts.direct && ends.file.operations == nullptr && ends.device == nullptr &&
         !(is_reached(ends.file, ends.memory) && is_in_place(ends.file, ends.memory, direction, length));
}

Grouping Posix::grouping(const Facts& facts, const route::Segment& all) const noexcept {
  const bool one_by_one = facts.file.options.copy_mode == CopyMode::plain || facts.file.operations != nullptr;
  if (all.carry != SegmentMode::bounce || one_by_one) return {};
  if (is_in_place(facts.file, facts.memory, facts.direction, all.length)) return {};
  const GroupClass group_class = facts.direction == Direction::write ? GroupClass::write
                                 : facts.file.facts.direct           ? GroupClass::disk
                                                                     : GroupClass::cached;
  return through_staging(group_class, facts.file, all.length);
}

std::unique_ptr<GroupMover> Posix::group_mover(GroupClass group_class) const noexcept {
  return staging_group(group_class);
}

std::string Posix::words(const Facts& facts) const {
  return gpu::words_of_cpu_reach(facts.memory, facts.file.options.coherent);
}

void Posix::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  for (Item& item : items) item.outcome = ByCpu(*item.ends).move(item.piece);
}

}  // namespace sluice::paths
