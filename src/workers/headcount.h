// How many threads are at the same thing at once: what suits one that is alone rarely suits a crowd.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace sluice::workers {

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

inline constinit Headcount small_reads;  // of buffered files, into device memory
inline constinit Headcount slab_copies;  // between a slab and a device

// Writes of some size into the page cache, by the number of the file that they go to (FileRange::file). Two files may
// share a count now and then.
inline constinit std::array<Headcount, 64> writers;
inline Headcount& writers_of(std::uint64_t file) noexcept {
  return writers[file % writers.size()];
}

inline void forget() noexcept {
  small_reads.forget();
  slab_copies.forget();
  for (Headcount& of_one : writers) of_one.forget();
}

}  // namespace headcounts

}  // namespace sluice::workers
