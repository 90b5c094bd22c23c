// SPDX-License-Identifier: Apache-2.0
// The kernel that stands in a stream of the program's (stream/channel/stream_copier.h), where it stands in for kernels
// of a read by several links (sink/link_kernels.h): the bytes go into the places of the stream's channel, and no call
// of the driver's is made for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "staging/staging_buffer.h"
#include "stream/channel/stream_copier.h"
#include "transfer/sink/kernels.h"

namespace sluice::transfer {

class StreamEngine {
 public:
  // A neighbour that has nothing to do has the chunk: a thread that reads alone would find this one idle each time.
  static constexpr std::uint32_t by_hand = 1;

  StreamEngine(stream::StreamCopier& copier, staging::StagingLease& lease) noexcept : copier_(copier), lease_(lease) {}

  // The bytes have left where they were when it returns; the stream waits until they are in place.
  cuda::Result copy(std::span<const gpu::Copy> copies, std::uint32_t mark) noexcept {
    for (const gpu::Copy& copy : copies) {
      for (std::size_t done = 0; done < copy.size;) {
        const std::span<std::byte> place = copier_.slot();
        if (place.empty()) return copier_.failure();
        const auto shift = static_cast<std::uint32_t>((copy.to + done) % 16);
        const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(copy.size - done, gpu::stream_copy_bytes));
        std::memcpy(place.data() + shift, copy.from + done, length);
        copier_.send(shift, length, copy.to + done);
        done += length;
      }
    }
    copied_.store(mark, std::memory_order_release);
    return cuda::success;
  }
  std::uint32_t copied() const noexcept { return copied_.load(std::memory_order_acquire); }
  bool has_copied(std::uint32_t mark) const noexcept { return static_cast<std::int32_t>(copied() - mark) >= 0; }
  cuda::Result health() const noexcept { return lease_.device().health(); }
  // Without waiting for copies: there are none.
  void give_up() noexcept { lease_.condemn(); }
  // The copier counts what it has carried.
  static void count(const OneRange& range, bool any) noexcept {
    if (!any) GatherKernel::count(range);
  }

 private:
  stream::StreamCopier& copier_;
  staging::StagingLease& lease_;
  std::atomic<std::uint32_t> copied_{0};
};

}  // namespace sluice::transfer
