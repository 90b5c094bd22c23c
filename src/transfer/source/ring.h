// SPDX-License-Identifier: Apache-2.0
// A source that keeps many chunks on their way by io_uring, for one thread that sleeps while the disk works. What the
// ring refuses, or does not bring, is asked of another source (`Rest`), which also says what that is.
//
// Each request brings one chunk, or up to `Group` neighbours, for which a disk does as much as for a single one.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "io/ring_span.h"
#include "io/uring.h"
#include "transfer/layout.h"

namespace sluice::transfer {

template <typename Rest, std::uint32_t Group = 1>
class RingSource {
 public:
  static constexpr bool may_wait = false;
  static constexpr bool is_asynchronous = true;
  static constexpr std::uint32_t most_in_a_request = Group;

  RingSource(io::Uring& ring, Rest rest) noexcept : ring_(&ring), rest_(rest) {
    for (std::uint32_t tag = 0; tag < most_requests; ++tag) free_[tag] = static_cast<std::uint8_t>(tag);
  }

  bool is_busy() const noexcept { return free_count_ < most_requests; }
  bool has_room() const noexcept { return free_count_ > 0; }
  // The storage has no queues for a ring that polls.
  bool was_refused() const noexcept { return refused_; }
  bool leaves(std::int64_t outcome) const noexcept { return rest_.leaves(outcome); }

  // `count` neighbours from `first` on. The host, a pipeline, tells of a chunk where it goes and whether it is still
  // wanted, and is told what has become of it.
  template <typename Host>
  void start(Host& host, std::uint32_t first, std::uint32_t count) noexcept {
    const std::uint32_t tag = free_[--free_count_];
    Request& request = requests_[tag];
    request.first = first;
    request.count = count;
    request.span = span_of(host.chunk(first), host.place_of(first));
    if (count == 1) return request.span.submit(*ring_, tag);
    if constexpr (Group > 1) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const io::RingSpan span = span_of(host.chunk(first + i), host.place_of(first + i));
        request.parts[i] = {span.memory, span.length};
      }
      ring_->add(
          {.fd = request.span.fd, .vectors = std::span(request.parts).first(count), .at = request.span.at, .tag = tag});
    }
  }

  // Waits until something has come. Visits to the kernel, and copies, are cheaper
  // together: where `gathers`, it waits for a third of what is on its way, but not for long, since it may be that
  // nothing more comes. Answers how many requests have ended.
  template <typename Host>
  int await(Host& host, bool gathers) noexcept {
    constexpr unsigned part_awaited = 3;
    constexpr auto longest_gathering = std::chrono::milliseconds(4);
    std::array<io::UringCompletion, io::Uring::depth> answers;
    const unsigned least = std::max(1U, (most_requests - free_count_) / part_awaited);
    const int count = gathers ? ring_->wait_a_while(answers, least, longest_gathering) : ring_->wait(answers);
    for (int i = 0; i < count; ++i) {
      const io::UringCompletion& answer = answers[static_cast<std::size_t>(i)];
      Request& request = requests_[answer.tag];
      refused_ = refused_ || answer.result == -EOPNOTSUPP;
      if (request.count > 1) {
        request.span.done = static_cast<std::uint64_t>(std::max(0, answer.result));
        end(host, request, 0);
      } else if (const std::optional<int> error = request.span.settle(*ring_, answer)) {
        end(host, request, *error);
      }
    }
    if (count < 0) lose(host);
    return count;
  }

 private:
  static constexpr std::uint32_t most_requests = io::Uring::depth;
  struct Request {
    std::uint32_t first = 0;
    std::uint32_t count = 0;  // 0: none
    io::RingSpan span;        // of the first one
    std::array<iovec, Group == 1 ? 0 : Group> parts;
  };

  // Whole blocks, where O_DIRECT wants them.
  static io::RingSpan span_of(const Chunk& chunk, std::byte* place) noexcept {
    const std::uint32_t ahead = chunk.block > 1 ? 0 : chunk.lead;
    const std::uint32_t before = chunk.lead - ahead;
    const std::uint64_t length = std::uint64_t{before} + chunk.length;
    return {.fd = chunk.fd,
            .memory = place + ahead,
            .length = (length + chunk.block - 1) / chunk.block * chunk.block,
            .at = base::FileOffset{chunk.at.value - before},
            .block = chunk.block,
            .file_size = chunk.file_size};
  }

  template <typename Host>
  void end(Host& host, Request& request, int error) noexcept {
    std::uint64_t bytes = request.span.done;
    const std::uint32_t first = request.first;
    const std::uint32_t count = std::exchange(request.count, 0);
    free_[free_count_++] = static_cast<std::uint8_t>(&request - requests_.data());
    for (std::uint32_t number = first; number < first + count; ++number) {
      const Chunk chunk = host.chunk(number);
      std::byte* const place = host.place_of(number);
      const io::RingSpan span = span_of(chunk, place);
      const std::uint64_t before = chunk.at.value - span.at.value;
      const std::uint64_t done = std::min(bytes, span.length);
      bytes -= done;
      const std::uint64_t came = std::min<std::uint64_t>(done - std::min(done, before), chunk.length);
      std::int64_t outcome = came == 0 && error != 0 ? -error : static_cast<std::int64_t>(came);
      if (came < chunk.length && host.is_wanted(number) && rest_.takes(chunk, error, came)) {
        outcome = rest_.read(chunk, number, place);
      }
      host.has_come(number, outcome);
    }
  }

  // It takes nothing more, and has nothing of ours any more: what it had is asked of the other source.
  template <typename Host>
  void lose(Host& host) noexcept {
    for (Request& request : requests_) {
      if (request.count > 0) end(host, request, ECANCELED);
    }
  }

  io::Uring* ring_;
  [[no_unique_address]] Rest rest_;
  bool refused_ = false;
  std::uint32_t free_count_ = most_requests;
  std::array<std::uint8_t, most_requests> free_;
  std::array<Request, most_requests> requests_;
};

// Chunks of many requests that the ring does not bring are left: what a descriptor or this kernel refuses in principle,
// another way may do. EIO, and an end where the file has none, may be no request's: a read by itself finds out.
struct LeftToOthers {
  static constexpr std::int64_t left = std::numeric_limits<std::int64_t>::min();
  static bool takes(const Chunk& chunk, int error, std::uint64_t came) noexcept {
    const bool stops_early =
        error == 0 && chunk.file_size != ~std::uint64_t{0} && chunk.at.value + came < chunk.file_size;
    return stops_early || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EIO ||
           io::was_not_tried(error);
  }
  static std::int64_t read(const Chunk& /*chunk*/, std::uint32_t /*number*/, std::byte* /*place*/) noexcept {
    return left;
  }
  static bool leaves(std::int64_t outcome) noexcept { return outcome == left; }
};

}  // namespace sluice::transfer
