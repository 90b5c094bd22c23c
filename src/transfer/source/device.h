// SPDX-License-Identifier: Apache-2.0
// What a write takes its bytes from: device memory, which the copy engine brings into the places of a staging buffer in
// the order of the chunks. StagingWords::copied tells how many are there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "staging/staging_buffer.h"

namespace sluice::transfer {

class DeviceSource {
 public:
  void begin(staging::StagingLease& lease) noexcept {
    lease_ = &lease;
    issued_ = 0;
    std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
  }

  // All chunks before it are in their places. By any thread.
  std::uint32_t ready() const noexcept { return base::load_acquire(lease_->words().copied); }
  // Where a chunk is that is ready.
  template <typename Layout>
  std::span<std::byte> bytes(const Layout& layout, std::uint32_t chunk) const noexcept {
    return lease_->bytes().subspan(layout.place(chunk), layout[chunk].length);
  }

  // The following is the caller's, with the buffer's context current.
  // Brings the chunks up to `end`, whose places are free. Neighbours on both sides go in one copy; many copies in one
  // call where the driver has it.
  template <typename Layout>
  cuda::Result copy_up_to(std::uint32_t end, const Layout& layout) noexcept {
    std::array<gpu::CopyBack, 64> copies;
    cuda::Result result = cuda::success;
    while (issued_ < end && result == cuda::success) {
      std::size_t count = 0;
      std::uint64_t memory = 0;  // of the last copy
      for (; issued_ < end; ++issued_) {
        const std::span<std::byte> to = bytes(layout, issued_);
        const auto chunk = layout[issued_];
        const cuda::DevicePtr from = chunk.from;
        if (count > 0 && memory == chunk.memory && copies[count - 1].from + copies[count - 1].size == from &&
            copies[count - 1].to + copies[count - 1].size == to.data()) {
          copies[count - 1].size += to.size();
          continue;
        }
        if (count == copies.size()) break;
        copies[count++] = {to.data(), from, to.size()};
        memory = chunk.memory;
      }
      result = lease_->device().copy_from_device(std::span(copies).first(count));
    }
    return result != cuda::success ? result : lease_->device().mark(&lease_->words().copied, issued_);
  }
  // Does what there is to do by now. success, or what the device has failed of.
  template <typename Layout>
  static cuda::Result pump(const Layout& /*layout*/) noexcept {
    return cuda::success;
  }
  cuda::Result health() const noexcept { return lease_->device().health(); }
  // Nothing more comes: what was begun is over. After a refusal a copy may still be on its way into the staging buffer.
  void finish() noexcept {
    if (ready() < issued_) lease_->device().finish_copies();
  }
  // The device refuses, or is lost.
  void give_up() noexcept { lease_->give_up(); }

 private:
  staging::StagingLease* lease_ = nullptr;
  std::uint32_t issued_ = 0;  // chunks before it are on their way to the staging buffer, or there
};

}  // namespace sluice::transfer
