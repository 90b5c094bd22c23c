// SPDX-License-Identifier: Apache-2.0
// The piece is cut into chunks of whole blocks, of which chunk n goes into the place that is n ahead of the first. A
// group of neighbours is read with one request, for which the disk does as much as for a single one. Groups end in any
// order; chunks are sent in file order, so nothing behind the end of the file, or behind an error, ever reaches the
// device.
//
//   open_    chunks before it have a place that is free; the device leaves places in any order
//   asked_   chunks before it are on their way to their places, or there
//   sent_    chunks before it have been given to the copier
#include "paths/stream_disk_read.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/spin_backoff.h"
#include "io/uring.h"

namespace sluice::paths {

using base::FileOffset;
using base::Outcome;
using io::Uring;
using io::UringCompletion;

namespace {

constexpr std::uint32_t chunk_bytes = gpu::stream_copy_bytes;
// As long as the places last, one request costs less than two; beyond it, half of them are filled while the other half
// is emptied.
constexpr std::uint32_t most_in_a_group = 16;
constexpr std::uint32_t chunks_in_a_group(std::uint32_t chunks) noexcept {
  return chunks <= 2 * gpu::stream_copy_slots ? most_in_a_group : 8;
}

class DiskRead {
 public:
  DiskRead(stream::StreamCopier& copier, const Piece& piece, FileSide& file, const FileSide::Disk& disk,
           Uring& uring) noexcept
      : copier_(copier),
        piece_(piece),
        file_(file),
        disk_(disk),
        uring_(uring),
        skip_(piece.at.value % file.block()),
        chunks_(static_cast<std::uint32_t>((skip_ + piece.length + chunk_bytes - 1) / chunk_bytes)),
        in_a_group_(chunks_in_a_group(chunks_)) {}

  Outcome run() noexcept {
    base::SpinBackoff backoff;
    while (on_their_way_ > 0 || !is_over()) {
      const bool sent = send_what_is_there();
      ask_for_more();
      if (on_their_way_ > 0) {
        await_completions();
        backoff = {};
      } else if (sent) {
        backoff = {};
      } else if (!is_over() && !copier_.wait_a_moment(backoff)) {
        failed_ = true;
      }
    }
    if (failed_) return copier_.failed();
    return total_ == 0 && error_ != 0 ? Outcome::system_error(error_) : Outcome::bytes(total_);
  }

  // The storage has no queues for a ring that polls.
  bool was_refused() const noexcept { return refused_; }

 private:
  // What is in a place, from the start of the chunk on.
  struct Place {
    bool arrived = false;
    std::uint32_t done = 0;
    int error = 0;
  };
  // Neighbours on their way with one request.
  struct Group {
    std::uint32_t first = 0;
    std::uint32_t count = 0;  // 0: none
    std::array<iovec, most_in_a_group> places;
  };

  bool is_over() const noexcept { return failed_ || ended_ || sent_ == chunks_; }
  std::uint32_t skip_of(std::uint32_t chunk) const noexcept {
    return chunk == 0 ? static_cast<std::uint32_t>(skip_) : 0;
  }
  // From the start of the chunk to the end of what is asked for.
  std::uint32_t span_of(std::uint32_t chunk) const noexcept {
    const std::uint64_t left = skip_ + piece_.length - std::uint64_t{chunk} * chunk_bytes;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_bytes, left));
  }
  std::uint32_t whole_blocks(std::uint32_t chunk) const noexcept {
    return (span_of(chunk) + file_.block() - 1) / file_.block() * file_.block();
  }
  FileOffset position(std::uint32_t chunk) const noexcept {
    return FileOffset{piece_.at.value - skip_ + std::uint64_t{chunk} * chunk_bytes};
  }
  std::span<std::byte> memory(std::uint32_t chunk) const noexcept {
    return copier_.slot_ahead(chunk - sent_).first(whole_blocks(chunk));
  }
  Place& place_of(std::uint32_t chunk) noexcept { return places_[chunk % gpu::stream_copy_slots]; }

  void open_places() noexcept {
    while (open_ < chunks_ && copier_.is_free_ahead(open_ - sent_)) ++open_;
  }

  void ask_for_more() noexcept {
    for (std::size_t i = 0; i < groups_.size() && !is_over() && asked_ < stop_; ++i) {
      if (groups_[i].count > 0) continue;
      const std::uint32_t count = std::min(in_a_group_, stop_ - asked_);
      open_places();
      if (asked_ + count > open_) return;
      ask_for(groups_[i], i, count);
    }
  }

  void ask_for(Group& group, std::size_t index, std::uint32_t count) noexcept {
    group.first = asked_;
    group.count = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      place_of(asked_ + i) = {};
      const std::span<std::byte> place = memory(asked_ + i);
      group.places[i] = {place.data(), place.size()};
    }
    uring_.add({.direction = base::Direction::read,
                .fd = disk_.fd,
                .vectors = std::span(group.places).first(count),
                .at = position(asked_),
                .tag = index});
    asked_ += count;
    ++on_their_way_;
  }

  void await_completions() noexcept {
    std::array<UringCompletion, Uring::depth> answers;
    const int count = uring_.wait(answers);
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    if (count >= 0) return;
    // It takes nothing more, and has nothing of ours any more: what it had is read without it.
    for (Group& group : groups_) {
      if (group.count > 0) arrive(group, 0);
    }
  }

  void settle(const UringCompletion& answer) noexcept {
    refused_ = refused_ || answer.result == -EOPNOTSUPP;
    arrive(groups_[answer.tag], static_cast<std::uint32_t>(std::max(0, answer.result)));
  }

  // The request brought so many bytes. What is missing is read in turn: where a disk refuses a part of it, what lies in
  // front of that still comes.
  void arrive(Group& group, std::uint32_t bytes) noexcept {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const std::uint32_t chunk = group.first + i;
      Place& place = place_of(chunk);
      place.done = std::min(bytes, whole_blocks(chunk));
      bytes -= place.done;
      if (place.done < span_of(chunk) && chunk < stop_) read_in_turn(chunk);
      if (place.done < span_of(chunk)) stop_ = std::min(stop_, chunk);
      place.arrived = true;
    }
    group.count = 0;
    --on_their_way_;
  }

  void read_in_turn(std::uint32_t chunk) noexcept {
    const Outcome got = file_.read(memory(chunk), position(chunk));
    place_of(chunk).done = static_cast<std::uint32_t>(got.count());
    place_of(chunk).error = got.error();
  }

  bool send_what_is_there() noexcept {
    const std::uint32_t before = sent_;
    while (!is_over() && sent_ < asked_ && place_of(sent_).arrived) {
      const Place& place = place_of(sent_);
      const std::uint32_t end = std::min(place.done, span_of(sent_));
      const std::uint32_t begin = skip_of(sent_);
      ended_ = end < span_of(sent_);
      if (ended_) error_ = place.error;
      if (end > begin) {
        copier_.send(begin, end - begin, piece_.address + std::uint64_t{sent_} * chunk_bytes + begin - skip_);
        total_ += end - begin;
      }
      ++sent_;
    }
    return sent_ > before;
  }

  stream::StreamCopier& copier_;
  const Piece& piece_;
  FileSide& file_;
  const FileSide::Disk disk_;
  Uring& uring_;
  const std::uint64_t skip_;
  const std::uint32_t chunks_;
  const std::uint32_t in_a_group_;
  std::array<Place, gpu::stream_copy_slots> places_{};
  std::array<Group, gpu::stream_copy_slots / 8> groups_{};
  std::uint32_t stop_ = chunks_;  // the first one that came short: none behind it is wanted
  std::uint32_t open_ = 0;
  std::uint32_t asked_ = 0;
  std::uint32_t sent_ = 0;
  unsigned on_their_way_ = 0;  // groups
  bool ended_ = false;         // what was sent last was the end
  bool failed_ = false;
  bool refused_ = false;
  int error_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

std::optional<Outcome> read_by_disk_queue(stream::StreamCopier& copier, const Piece& piece, FileSide& file) noexcept {
  const std::optional<FileSide::Disk> disk = file.disk();
  if (!disk || chunk_bytes % file.block() != 0) return std::nullopt;
  const io::CompletionMode completion = disk->queue.ring_to_use();
  const Uring::Use uring = Uring::of_this_thread(completion);
  if (!uring) return std::nullopt;
  DiskRead read(copier, piece, file, *disk, *uring);
  const Outcome outcome = read.run();
  if (io::is_polled(completion) && read.was_refused()) disk->queue.cannot_be_polled();
  return outcome;
}

}  // namespace sluice::paths
