// SPDX-License-Identifier: Apache-2.0
// What a device needs to work on a staging buffer, a piece of pinned host memory: streams of its own, words
// in the buffer's memory that tell how far it is, and the gather kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cuda_api.h"
#include "gpu/kernel_protocol.h"
#include "gpu/loading.h"
#include "gpu/own_streams.h"
#include "gpu/pin.h"

namespace sluice::gpu {

// One launch of the gather kernel (kernels/gather.cu), or of the relay kernel. All host addresses but `slots` lie in
// the buffer's memory.
struct Gather {
  cuda::DevicePtr slots;           // as the device sees them: a chunk waits in the place that its ticket tells
  cuda::DevicePtr target;          // where chunk 0 would go if `skip` were 0
  const Ticket* tickets;           // one a slot
  const std::uint32_t* completed;  // one a slot: number of the last chunk that was taken; or, relayed, that is in place
  const LaunchWords* words;
  std::uint32_t chunk_bytes;
  std::uint32_t stride;  // from one place to the next
  std::uint32_t skip;    // how far into its place and its target chunk 0 begins
  std::uint32_t chunks;
  std::uint32_t silent_up_to;  // with so many chunks `completed` is left alone: no place is used twice
  std::uint32_t first_number;  // of chunk 0; no slot has ever had these numbers
  std::uint32_t launch_id;     // of the launch; below 2^30
  unsigned most_blocks;        // a chunk each at a time, in so many processors of the device at most
  std::uint32_t relay_slots;   // of a target that another device reads meanwhile: chunks go round in it; 0: none
  // Source and target of a chunk must have the same distance from a 16-byte boundary.
};

// One launch of the scatter kernel (kernels/scatter.cu), whose chunks have each a target of its own. All host addresses
// lie in the buffer's memory.
struct Scatter {
  cuda::DevicePtr slots;         // the bytes begin there as far behind a 16-byte boundary as in their target
  const std::uint64_t* targets;  // one a chunk, all there before the launch
  const Ticket* tickets;         // as for the gather kernel
  const std::uint32_t* completed;
  const LaunchWords* words;
  std::uint32_t chunk_bytes;  // no chunk is longer
  std::uint32_t stride;       // from one place to the next, a multiple of 16
  std::uint32_t chunks;
  std::uint32_t silent_up_to;
  std::uint32_t first_number;
  std::uint32_t launch_id;
};

// One of several copies; the source lies in the buffer's memory.
struct Copy {
  cuda::DevicePtr to;
  const std::byte* from;
  std::size_t size;  // not 0
};

// The other way: the target lies in the buffer's memory.
struct CopyBack {
  std::byte* to;
  cuda::DevicePtr from;
  std::size_t size;  // not 0
};

// Belongs to one context for good. All calls with that context current, from one thread at a time.
class Staging {
 public:
  // Pins `memory`, which begins with 64 bytes of zeros. Answers why not. What was made until then is kept for the next
  // time: giving it back would wait for all work of the context, and some of that may be waiting for this request.
  cuda::Result attach(cuda::Context context, unsigned long long context_id, std::span<std::byte> memory) noexcept;
  // Copies that come go by the urgent stream, or by the usual one again. When nothing is on its way. Answers why not:
  // error_not_ready, where a stream would have to be made, and streams wait for us.
  cuda::Result copy_urgently(bool urgently) noexcept;
  bool serves(cuda::Context context, unsigned long long context_id) const noexcept {
    return context_ == context && context_id_ == context_id;
  }
  // It never was attached, or that has failed.
  bool serves_no_context() const noexcept { return context_ == nullptr; }
  // That, and nothing of it is another context's that lives.
  bool may_become(cuda::Context context, unsigned long long context_id) const noexcept {
    return serves_no_context() && (!pin_.is_there() || pin_.is_of(context, context_id) || pin_.is_left());
  }

  // Not loading yet (gpu/loading.h) as long as no transfer has asked for that.
  Kernels& kernels() const noexcept { return *kernels_there_; }
  // An address in the buffer's memory.
  cuda::DevicePtr seen_by_device(const void* address) const noexcept {
    return pin_.seen_by_device() + static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - memory_.data());
  }

  // Not before it is loaded.
  bool can_gather() const noexcept { return kernels_there_->gather.load(std::memory_order_acquire) != nullptr; }
  bool can_relay() const noexcept { return kernels_there_->relay.load(std::memory_order_acquire) != nullptr; }
  cuda::Result launch(const Gather& gather) noexcept;
  bool can_scatter() const noexcept { return kernels_there_->scatter.load(std::memory_order_acquire) != nullptr; }
  cuda::Result launch(const Scatter& scatter) noexcept;

  // In the order of the calls, on streams of their own. Source or target lies in the buffer's memory.
  cuda::Result copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  // At most 64 copies; by one call of the driver where it has one for that.
  cuda::Result copy_to_device(std::span<const Copy> copies) noexcept;
  bool can_copy_many() const noexcept;
  cuda::Result copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept;
  cuda::Result copy_from_device(std::span<const CopyBack> copies) noexcept;  // at most 64, as above
  // Between two places that the context's device reaches, neither of them in the buffer.
  cuda::Result copy_on_device(cuda::DevicePtr to, cuda::DevicePtr from, std::size_t size) noexcept;
  // When all copies so far are in place, `value` appears in `word`.
  cuda::Result mark(const std::uint32_t* word, std::uint32_t value) noexcept;

  // For long waits: has the device died on us? success: still at work, or at rest.
  cuda::Result health() const noexcept;
  // Waits until nothing of ours touches memory any more, except for launches that have been revoked.
  cuda::Result finish_copies() noexcept;

 private:
  struct Copies;
  cuda::Result copy_many(Copies& copies, std::size_t count) noexcept;
  static cuda::Result take(cuda::Context context, unsigned long long context_id, StreamKind kind, StreamWish wish,
                           cuda::Stream& stream) noexcept;
  cuda::Result copy_by(cuda::Context context, unsigned long long context_id, bool urgently) noexcept;

  const CudaApi* driver_ = nullptr;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  std::span<std::byte> memory_;
  Pin pin_;
  cuda::DevicePtr counters_ = 0;
  cuda::Stream copies_ = nullptr;  // one of the next two, each taken when it is wanted first
  cuda::Stream usual_ = nullptr;
  cuda::Stream urgent_ = nullptr;
  bool streams_wait_ = false;  // for the copies that come
  cuda::Stream kernels_ = nullptr;
  Kernels* kernels_there_ = nullptr;
};

}  // namespace sluice::gpu
