// Reads into device memory that wait for a disk: one thread keeps many of them on their way, and copies each to its
// place when it has come.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/ring.h"
#include "engine/scattered_read.h"
#include "engine/uring.h"

namespace sluice::engine {

// One of the reads, by any descriptor.
struct DiskParcel {
  Parcel parcel;
  std::uint32_t block = 1;  // what O_DIRECT wants of offsets and lengths: at most a page; 1 for a buffered descriptor
};

// A read is at most so long.
inline constexpr std::uint64_t most_in_a_disk_parcel = 512 << 10;

// The state of such reads, for one run at a time.
class DeepRead {
 public:
  // With the ring's context current, to which all parcels' memory belongs. What the disk's ring refuses is left over.
  void run(std::span<DiskParcel> parcels, RingLoan& ring, Uring& disk) noexcept;

 private:
  // A place of the staging ring, and the read that has it.
  struct Place {
    std::size_t parcel = 0;
    std::uint64_t begin = 0;  // in the file, where a block begins
    std::uint64_t skip = 0;   // bytes from there that nobody asked for
    std::uint64_t whole = 0;
    std::uint64_t done = 0;
    std::uint64_t from = 0;  // where the present request starts, at most `done`
    int refusals = 0;
    bool reading = false;
    std::uint32_t copy = 0;  // the number of the copy that empties it
  };

  std::span<std::byte> bytes_of(std::size_t place) const noexcept;
  bool is_free(const Place& place) noexcept;
  bool start_more() noexcept;
  void submit(std::size_t place) noexcept;
  void settle(const UringAnswer& answer) noexcept;
  void end(Place& place, int error) noexcept;
  void copy(Place& place, std::uint64_t count) noexcept;
  void mark_copies() noexcept;
  void wait_for_copies() noexcept;
  void lose_disk() noexcept;

  std::span<DiskParcel> parcels_;
  RingLoan* ring_ = nullptr;
  Uring* disk_ = nullptr;
  std::size_t place_bytes_ = 0;
  std::size_t place_count_ = 0;
  std::size_t next_ = 0;
  unsigned reading_ = 0;
  std::uint32_t copies_ = 0;
  std::uint32_t marked_ = 0;
  int failure_ = 0;
  std::array<Place, Uring::depth> places_;
};

}  // namespace sluice::engine
