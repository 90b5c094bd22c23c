// How many threads are at the same thing at once: what suits one that is alone rarely suits a crowd.
#pragma once

#include <atomic>

namespace sluice::engine {

class Headcount {
 public:
  // A thread that is at it, for as long as this lives; it calls nothing of the program's meanwhile. It pays two
  // additions.
  class Member {
   public:
    explicit Member(Headcount& all) noexcept
        : all_(all), count_(all.count_.fetch_add(1, std::memory_order_relaxed) + 1) {}
    ~Member() { all_.count_.fetch_sub(1, std::memory_order_relaxed); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // This one included, when it came.
    unsigned count() const noexcept { return count_; }

   private:
    Headcount& all_;
    const unsigned count_;
  };

  unsigned now() const noexcept { return count_.load(std::memory_order_relaxed); }
  // A child of fork has none of its parent's other threads.
  void forget() noexcept { count_.store(0, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<unsigned> count_{0};
};

namespace headcounts {

inline constinit Headcount small_reads;    // of buffered files, into device memory
inline constinit Headcount slab_copies;    // between a slab and a device
inline constinit Headcount staged_writes;  // through a ring

inline void forget() noexcept {
  small_reads.forget();
  slab_copies.forget();
  staged_writes.forget();
}

}  // namespace headcounts

}  // namespace sluice::engine
