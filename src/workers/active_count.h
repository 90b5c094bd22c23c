// SPDX-License-Identifier: Apache-2.0
// How many threads are at the same thing at once: what suits one that is alone rarely suits a crowd.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"

namespace sluice::workers {

class ActiveCount {
 public:
  // A thread that is at it, for as long as this lives; it calls nothing of the program's meanwhile. It pays two
  // additions.
  class Scope {
   public:
    explicit Scope(ActiveCount& all) noexcept
        : all_(all), count_(all.count_.fetch_add(1, std::memory_order_relaxed) + 1) {}
    ~Scope() { all_.count_.fetch_sub(1, std::memory_order_relaxed); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // This one included, when it came.
    unsigned count() const noexcept { return count_; }

   private:
    ActiveCount& all_;
    const unsigned count_;
  };

  unsigned now() const noexcept { return count_.load(std::memory_order_relaxed); }
  // A child of fork has none of its parent's other threads.
  void forget() noexcept { count_.store(0, std::memory_order_relaxed); }

 private:
  alignas(base::line_bytes) std::atomic<unsigned> count_{0};
};

namespace active_counts {

inline constinit ActiveCount small_reads;    // of buffered files, into device memory
inline constinit ActiveCount bounce_copies;  // between a bounce buffer and a device

// Writes of some size into the page cache, by the number of the file that they go to (FileRange::file). Two files may
// share a count now and then.
inline constinit std::array<ActiveCount, 64> writers;
inline ActiveCount& writers_of(std::uint64_t file) noexcept {
  return writers[file % writers.size()];
}

inline void forget() noexcept {
  small_reads.forget();
  bounce_copies.forget();
  for (ActiveCount& of_one : writers) of_one.forget();
}

}  // namespace active_counts

}  // namespace sluice::workers
