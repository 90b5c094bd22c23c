// SPDX-License-Identifier: Apache-2.0
// A small read puts each piece into the copier's next place, as far from a 16-byte boundary as it lies in memory; a
// large one is a pipeline. A write has as many pieces on their way from the device as there are places, and writes with
// one call those that have come.
#include "paths/stream_segment.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "gpu/memory.h"
#include "io/file_io.h"
#include "io/uring.h"
#include "transfer/lent_stream_read.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/stream.h"
#include "transfer/source/ring.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;

namespace {

// Several blocks of the kernel share what is not much.
constexpr std::uint64_t smallest_for_helpers = 128 << 10;  // below it one thread is as quick
constexpr std::uint64_t small_transfer = 256 << 10;
constexpr std::uint64_t small_piece = 16 << 10;
// Half of the places are on their way while the other half is written.
constexpr std::uint64_t most_asked_for = gpu::stream_copy_slots;
constexpr std::size_t most_at_once = gpu::stream_copy_slots / 2;
static_assert(most_at_once <= io::most_spans);

std::uint64_t piece_bytes(std::uint64_t length) noexcept {
  return length <= small_transfer ? small_piece : gpu::stream_copy_bytes;
}

Outcome read_by_one(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  const std::uint64_t most = piece_bytes(piece.length);
  const std::uint64_t block = file.block();
  std::uint64_t done = 0;
  while (done < piece.length) {
    const std::span<std::byte> place = copier.slot();
    if (place.empty()) return copier.failed();
    const std::uint64_t position = piece.at.value + done;
    const std::uint64_t address = piece.address + done;
    const std::uint64_t skip = position % block;  // bytes of the first block that were not asked for
    const std::uint64_t shift = block == 1 ? address % 16 : 0;
    const std::uint64_t wanted = std::min(piece.length - done, most);
    const std::uint64_t staged = (skip + wanted + block - 1) / block * block;
    if (shift + staged > place.size()) return Outcome::system_error(EINVAL);
    const Outcome read = file.read(place.subspan(shift, staged), FileOffset{position - skip});
    if (!read.ok()) return done > 0 ? Outcome::bytes(done) : read;
    if (read.count() <= skip) break;
    const std::uint64_t arrived = std::min(read.count() - skip, wanted);
    copier.send(static_cast<std::uint32_t>(shift + skip), static_cast<std::uint32_t>(arrived), address);
    done += arrived;
    if (arrived < wanted) break;
  }
  return Outcome::bytes(done);
}

// The file's end as the source of a pipeline, and of what a ring does not bring: where a disk refuses a part of a
// request, what lies in front of that still comes.
class Side {
 public:
  static constexpr bool may_wait = false;
  static constexpr bool is_asynchronous = false;
  Side(FileSide& file, std::uint32_t shift) noexcept : file_(file), shift_(shift) {}

  std::int64_t read(const transfer::Chunk& chunk, std::uint32_t /*number*/, std::byte* place) const noexcept {
    const std::uint64_t staged =
        (std::uint64_t{chunk.lead} + chunk.length + chunk.block - 1) / chunk.block * chunk.block;
    if (shift_ + staged > gpu::stream_copy_slot_bytes) return -EINVAL;
    const Outcome got = file_.read({place, staged}, FileOffset{chunk.at.value - chunk.lead});
    if (!got.ok()) return got.value();
    const std::uint64_t count = got.count();
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(count - std::min<std::uint64_t>(count, chunk.lead), chunk.length));
  }
  static bool takes(const transfer::Chunk& /*chunk*/, int /*error*/, std::uint64_t /*came*/) noexcept { return true; }
  static bool leaves(std::int64_t /*outcome*/) noexcept { return false; }

 private:
  FileSide& file_;
  std::uint32_t shift_;
};

template <typename Source>
using StreamRead = transfer::Pipeline<transfer::OneRange, Source, transfer::StreamSink>;

transfer::FileSpan span_of(const Piece& piece, FileSide& file, int fd) noexcept {
  return {fd, piece.at, piece.length, file.block(), ~std::uint64_t{0}};
}

Outcome read_by_helpers(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  const transfer::FileSpan span = span_of(piece, file, -1);
  transfer::ReadPlan plan = transfer::plan_stream_read(span, piece.address);
  plan.helpers = stream::helpers_for_a_stream(plan.helpers);
  transfer::OneRange chunks(span, plan, piece.address);
  StreamRead<Side> read(chunks, Side(file, plan.shift));
  read.run(plan, 1U, copier);
  return read.failure() ? copier.failed() : chunks.answer();
}

// Nothing where there is no io_uring, or it is not wanted.
std::optional<Outcome> read_by_ring(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  const std::optional<FileSide::Disk> disk = file.disk();
  if (!disk || gpu::stream_copy_bytes % file.block() != 0) return std::nullopt;
  const io::CompletionMode completion = disk->queue.ring_to_use();
  const io::Uring::Use ring = io::Uring::of_this_thread(completion);
  if (!ring) return std::nullopt;
  using Source = transfer::RingSource<Side, transfer::most_in_a_stream_request>;
  const transfer::FileSpan span = span_of(piece, file, disk->fd);
  const transfer::ReadPlan plan = transfer::plan_stream_disk_read(span);
  transfer::OneRange chunks(span, plan, piece.address);
  StreamRead<Source> read(chunks, Source(*ring, Side(file, 0)));
  read.run(plan, 1U, copier);
  if (io::is_polled(completion) && read.source().was_refused()) disk->queue.cannot_be_polled();
  return read.failure() ? copier.failed() : chunks.answer();
}

// Nothing where no neighbour lends its link.
std::optional<Outcome> read_by_links(stream::StreamCopier& copier, const facts::BufferFacts& memory, const Piece& piece,
                                     FileSide& file) noexcept {
  if (memory.kind != facts::MemoryKind::device) return std::nullopt;
  const std::optional<FileSide::Lending> lending = file.lending(piece.at, piece.length);
  if (!lending) return std::nullopt;
  return transfer::read_in_stream_by_links(lending->range, copier, memory, piece.address, lending->rules);
}

Outcome write_by_one(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  const std::uint64_t most = piece_bytes(piece.length);
  const std::uint64_t pieces = (piece.length + most - 1) / most;
  const auto length_of = [&](std::uint64_t index) { return std::min(most, piece.length - index * most); };
  std::uint64_t asked = 0;
  std::uint32_t first = 0;
  std::uint64_t done = 0;
  for (std::uint64_t index = 0; index < pieces;) {
    for (; asked < std::min(pieces, index + most_asked_for); ++asked) {
      const std::uint32_t number =
          copier.ask(piece.address + asked * most, static_cast<std::uint32_t>(length_of(asked)));
      if (asked == 0) first = number;
    }
    const std::uint64_t begin = index * most;
    std::array<std::span<const std::byte>, most_at_once> come;
    std::size_t count = 0;
    do {
      come[count] = copier.answer_to(first + static_cast<std::uint32_t>(index));
      if (come[count].empty()) return done > 0 ? Outcome::bytes(done) : copier.failed();
      ++count, ++index;
    } while (count < come.size() && index < asked && copier.has_answer_to(first + static_cast<std::uint32_t>(index)));
    const Outcome written = file.write(std::span(come).first(count), FileOffset{piece.at.value + begin});
    if (!written.ok()) return done > 0 ? Outcome::bytes(done) : written;
    done += written.count();
    if (done < std::min(index * most, piece.length)) break;
  }
  return Outcome::bytes(done);
}

}  // namespace

Outcome move_in_stream(stream::StreamCopier& copier, const facts::BufferFacts& memory, const Piece& piece,
                       FileSide& file) noexcept {
  if (piece.direction == base::Direction::write) {
    if (const auto bytes = copier.prestaged(piece.address, piece.length)) {
      const std::span<const std::byte> all = *bytes;
      return file.write(std::span(&all, 1), piece.at);
    }
  }
  if (!copier.reaches(memory)) return Outcome::system_error(EFAULT);
  // A kernel that touches what is not there ends the program's context.
  const bool is_there = copier.remembers(piece.address, piece.length) != nullptr ||
                        gpu::contiguous_bytes(piece.address, piece.length) == piece.length;
  if (!is_there) return Outcome::system_error(EFAULT);
  if (piece.direction == base::Direction::write) return write_by_one(copier, piece, file);
  if (file.block() > 1) copier.waits_for_storage();
  if (piece.length > smallest_for_helpers) {
    if (const auto read = read_by_links(copier, memory, piece, file)) return *read;
    if (const auto read = read_by_ring(copier, piece, file)) return *read;
  }
  const bool many = file.takes_many_readers() && piece.length >= smallest_for_helpers;
  return many ? read_by_helpers(copier, piece, file) : read_by_one(copier, piece, file);
}

Outcome read_back(stream::StreamCopier& copier, std::uint64_t address, std::span<std::byte> into) noexcept {
  if (const auto bytes = copier.prestaged(address, into.size())) {
    std::memcpy(into.data(), bytes->data(), into.size());
    return Outcome::bytes(into.size());
  }
  if (!copier.settle()) return copier.failed();
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t length = std::min<std::size_t>(into.size() - done, gpu::stream_copy_bytes);
    const auto bytes = copier.answer_to(copier.ask(address + done, static_cast<std::uint32_t>(length)));
    if (bytes.empty()) return copier.failed();
    std::memcpy(into.data() + done, bytes.data(), length);
    done += length;
  }
  return Outcome::bytes(into.size());
}

}  // namespace sluice::paths
