// SPDX-License-Identifier: Apache-2.0
// A row of mailboxes in pinned host memory, and the kernel that serves them (kernels/serve.cu): small requests, each
// with its bytes in its box, that go to device memory without the copy engine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cuda_api.h"
#include "gpu/kernel_protocol.h"
#include "gpu/loading.h"
#include "gpu/pin.h"

namespace sluice::gpu {

inline constexpr std::uint32_t most_mailboxes = 64;  // in a row
inline constexpr std::size_t most_served = 16;       // by one launch

// How long a launch looks for requests: until there has been none for `idle`, at most for `life`. Nothing: one look.
struct Stay {
  std::chrono::nanoseconds idle{0};
  std::chrono::nanoseconds life{0};
};

// The device's part. Belongs to one context for good; calls with that context current, from any thread.
class Mailboxes {
 public:
  static constexpr std::size_t memory_bytes = std::size_t{mailbox_stride} * most_mailboxes;

  // Pins `memory`, which holds zeros, and begins to load the kernel. Answers why not; then the next call for
  // this context goes on with what was made (gpu/pin.h).
  cuda::Result attach(cuda::Context context, unsigned long long context_id, std::span<std::byte> memory) noexcept;
  bool serves(cuda::Context context, unsigned long long context_id) const noexcept {
    return context_ == context && context_id_ == context_id;
  }
  // False once the context has gone, as far as the driver tells.
  bool is_attached() const noexcept { return context_ != nullptr && !pin_.is_left(); }
  // It is not attached, and nothing of it is another context's that lives.
  bool may_become(cuda::Context context, unsigned long long context_id) const noexcept {
    return context_ == nullptr && (!pin_.is_there() || pin_.is_of(context, context_id) || pin_.is_left());
  }
  Kernels& kernels() const noexcept { return *kernels_there_; }
  // The kernel is there.
  bool can_serve() const noexcept { return kernels_there_->serve.load(std::memory_order_acquire) != nullptr; }

  // Serves up to most_served boxes, a block each, on `stream`, which is had when it is null: one thread at a time for
  // each stream. None of the boxes is served by a launch that has not left yet.
  cuda::Result launch(std::span<const std::uint8_t> boxes, std::uint32_t launch_id, Stay stay,
                      cuda::Stream& stream) const noexcept;

 private:
  const CudaApi* driver_ = nullptr;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  Pin pin_;
  Kernels* kernels_there_ = nullptr;
};

}  // namespace sluice::gpu
