// SPDX-License-Identifier: Apache-2.0
// Streams are had once a box and never given back: at exit the driver may be gone before us.
#include "gpu/mailbox.h"

#include "gpu/own_streams.h"

namespace sluice::gpu {

namespace {

constexpr unsigned threads_a_mailbox = 512;  // as the kernel has it

}  // namespace

cuda::Result Mailboxes::attach(cuda::Context context, unsigned long long context_id,
                               std::span<std::byte> memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (driver->stream_query == nullptr || driver->launch_kernel == nullptr) return cuda::error_not_supported;
  if (context_ != nullptr || !pin_.is_of(context, context_id) || pin_.is_left()) {
    // What a row had in a context that is gone went with it; the pin may have survived.
    pin_.drop();
    *this = {};
  }
  if (const cuda::Result result = pin_.make(context, context_id, memory); result != cuda::success) return result;
  Kernels* const kernels = kernels_of(context, context_id);
  if (kernels == nullptr) return cuda::error_out_of_memory;
  driver_ = driver;
  context_ = context;
  context_id_ = context_id;
  kernels_there_ = kernels;
  return cuda::success;
}

cuda::Result Mailboxes::launch(std::span<const std::uint8_t> boxes, std::uint32_t launch_id, Stay stay,
                               cuda::Stream& stream) const noexcept {
  if (stream == nullptr) {
    OwnStream own{context_, context_id_, StreamKind::usual};
    if (const cuda::Result result = take_stream(own, StreamWish::spare); result != cuda::success) return result;
    stream = own.stream;
  }
  cuda::DevicePtr base = pin_.seen_by_device();
  std::array<std::uint64_t, 2> indices{};  // a byte each
  for (std::size_t i = 0; i < boxes.size(); ++i) indices[i / 8] |= std::uint64_t{boxes[i]} << (i % 8 * 8);
  std::array<std::uint32_t, 5> numbers{mailbox_stride, mailbox_data, launch_id,
                                       static_cast<std::uint32_t>(stay.idle.count()),
                                       static_cast<std::uint32_t>(stay.life.count())};
  std::array<void*, 8> arguments{&base,       &indices[0], &indices[1], &numbers[0],
                                 &numbers[1], &numbers[2], &numbers[3], &numbers[4]};
  return driver_->launch_kernel(kernels_there_->serve.load(std::memory_order_acquire),
                                static_cast<unsigned>(boxes.size()), 1, 1, threads_a_mailbox, 1, 1, 0, stream,
                                arguments.data(), nullptr);
}

}  // namespace sluice::gpu
