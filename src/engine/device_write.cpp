// A few chunks are always on their way from the device while one is being written. Writing is left to one thread: a
// file system lets one writer at a time into a file that it buffers.
#include "engine/device_write.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "engine/file_io.h"
#include "gpu/memory.h"
#include "observe/carriers.h"

namespace sluice::engine {

using base::FileOffset;
using base::Outcome;

namespace {

// Small enough that what has just arrived is still in the cache when it is written.
constexpr std::uint64_t buffered_chunk = 256 << 10;
// A disk wants much at once.
constexpr std::uint64_t direct_chunk = 1 << 20;

class DeviceWrite {
 public:
  DeviceWrite(const FileRange& range, RingLoan& ring, cuda::DevicePtr from) noexcept
      : range_(range),
        ring_(ring),
        from_(from),
        chunk_bytes_(range.block > 1 ? direct_chunk : buffered_chunk),
        chunks_(static_cast<std::uint32_t>((range.length + chunk_bytes_ - 1) / chunk_bytes_)),
        places_(static_cast<std::uint32_t>(ring_bytes / chunk_bytes_)) {}

  Outcome run() noexcept {
    std::atomic_ref(ring_.words().copied).store(0, std::memory_order_relaxed);
    std::uint64_t done = 0;
    Outcome refusal = Outcome::bytes(0);
    for (std::uint32_t chunk = 0; chunk < chunks_ && failure_ == cuda::success; ++chunk) {
      fetch_up_to(std::min(chunks_, chunk + places_));
      wait_for(chunk);
      if (failure_ != cuda::success) break;
      const FileOffset at{range_.at.value + std::uint64_t{chunk} * chunk_bytes_};
      Outcome written = write_span(range_.fd, place(chunk), at, range_.block);
      if (written.error() == EINVAL) written = range_.buffered.write(place(chunk), at);
      if (!written.ok()) refusal = written;
      done += written.count();
      if (written.count() < length(chunk)) break;
    }
    // After a refusal copies may still be on their way into the ring.
    if (issued_ > 0 && copied() < issued_) ring_.device().finish_copies();
    observe::count_carrier(observe::CarriedBy::copy_engine);
    if (done > 0) return Outcome::bytes(done);
    return failure_ != cuda::success ? gpu::as_outcome(failure_) : refusal;
  }

 private:
  std::uint64_t length(std::uint32_t chunk) const noexcept {
    return std::min(chunk_bytes_, range_.length - std::uint64_t{chunk} * chunk_bytes_);
  }
  std::span<std::byte> place(std::uint32_t chunk) const noexcept {
    return ring_.bytes().subspan(std::size_t{chunk % places_} * chunk_bytes_, length(chunk));
  }
  std::uint32_t copied() const noexcept {
    return std::atomic_ref(ring_.words().copied).load(std::memory_order_acquire);
  }

  void fetch_up_to(std::uint32_t end) noexcept {
    while (issued_ < end && failure_ == cuda::success) {
      gpu::Staging& device = ring_.device();
      int result = device.copy_from_device(place(issued_), from_ + std::uint64_t{issued_} * chunk_bytes_);
      if (result == cuda::success) result = device.mark(&ring_.words().copied, ++issued_);
      if (result != cuda::success) give_up(result);
    }
  }

  void wait_for(std::uint32_t chunk) noexcept {
    if (failure_ != cuda::success) return;
    if (const int result = ring_.await_copied(chunk + 1); result != cuda::success) give_up(result);
  }

  void give_up(int result) noexcept {
    failure_ = result;
    ring_.give_up();
  }

  const FileRange& range_;
  RingLoan& ring_;
  const cuda::DevicePtr from_;
  const std::uint64_t chunk_bytes_;
  const std::uint32_t chunks_;
  const std::uint32_t places_;
  std::uint32_t issued_ = 0;
  int failure_ = cuda::success;
};

}  // namespace

Outcome write_from_device(const FileRange& range, RingLoan& ring, cuda::DevicePtr from) noexcept {
  return DeviceWrite(range, ring, from).run();
}

}  // namespace sluice::engine
