// SPDX-License-Identifier: Apache-2.0
// Which streams of a context wait for us, and which of ours are being made there: a driver may wait with the latter
// until the former have come to rest (gpu/own_streams.h).
//
// A maker tells that one is coming before it looks whether a stream waits; a stream's call tells that it will wait
// before it looks whether one is coming. So one of them sees the other. A captured transfer waits from then on, since
// nothing tells when its graph is launched.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/event_count.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "base/thread_number.h"

namespace sluice::gpu {

// Of one context.
class StreamWaits {
 public:
  // A stream of the program's waits for us, until that ends as often. Told before what it waits for is put into it:
  // returns when no stream of ours is being made any more, or after a while, since the driver may wait with that for
  // what the program does next.
  void begins() noexcept {
    own().begun.fetch_add(1);
    if (coming_.load() != 0) wait_until_none_comes();
  }
  void ends() noexcept { own().ended.fetch_add(1); }

  // What has ended is counted first, so no wait that lasts is missed.
  bool any() const noexcept {
    unsigned ended = 0;
    unsigned begun = 0;
    for (const Count& some : counts_) ended += some.ended.load();
    for (const Count& some : counts_) begun += some.begun.load();
    return begun != ended;
  }

  // While one lives, a stream of ours is being made, or may be.
  class Coming {
   public:
    explicit Coming(StreamWaits& waits) noexcept : waits_(waits) { waits.coming_.fetch_add(1); }
    ~Coming() {
      waits_.coming_.fetch_sub(1);
      waits_.came_.advance();
    }
    Coming(const Coming&) = delete;
    Coming& operator=(const Coming&) = delete;

   private:
    StreamWaits& waits_;
  };

 private:
  // Each side counts up, on lines of a few threads.
  struct alignas(base::line_bytes) Count {
    std::atomic<unsigned> begun{0};
    std::atomic<unsigned> ended{0};
  };

  Count& own() noexcept { return counts_[base::thread_number() % counts_.size()]; }

  [[gnu::cold]] void wait_until_none_comes() noexcept {
    const timespec deadline = base::deadline_in(std::chrono::milliseconds(100));
    for (bool in_time = true; in_time;) {
      const std::uint32_t seen = came_.now();
      if (coming_.load() == 0) return;
      in_time = came_.wait_beyond(seen, deadline);
    }
  }

  std::array<Count, 16> counts_{};
  std::atomic<unsigned> coming_{0};
  base::EventCount came_;
};

// One such wait, from begin() to end(), or to the end of this.
class StreamWait {
 public:
  StreamWait() = default;
  ~StreamWait() { end(); }
  StreamWait(StreamWait&& other) noexcept : waits_(std::exchange(other.waits_, nullptr)) {}
  StreamWait& operator=(StreamWait&& other) noexcept {
    std::swap(waits_, other.waits_);
    other.end();
    return *this;
  }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;

  void begin(StreamWaits& waits) noexcept {
    if (waits_ != nullptr) return;
    waits_ = &waits;
    waits.begins();
  }
  void end() noexcept {
    if (waits_ != nullptr) std::exchange(waits_, nullptr)->ends();
  }

 private:
  StreamWaits* waits_ = nullptr;
};

}  // namespace sluice::gpu
