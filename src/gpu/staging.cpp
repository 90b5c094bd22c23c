// SPDX-License-Identifier: Apache-2.0
// Streams and counters are had once a staging buffer and never given back: at exit the driver may be gone before us.
#include "gpu/staging.h"

#include <algorithm>
#include <array>

#include "gpu/engine_copy.h"
#include "gpu/memory.h"
#include "gpu/own_streams.h"
#include "gpu/session.h"
#include "observe/probes.h"

namespace sluice::gpu {

namespace {

constexpr std::size_t counter_bytes = 64;
constexpr unsigned copiers_a_block = 512;
constexpr unsigned copiers_of_small_chunks = 128;
constexpr unsigned ushers_warp = 32;

}  // namespace

cuda::Result Staging::attach(cuda::Context context, unsigned long long context_id,
                             std::span<std::byte> memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (driver->stream_write_value_32 == nullptr || driver->stream_query == nullptr || driver->mem_alloc == nullptr) {
    return cuda::error_not_supported;
  }
  if (!serves_no_context() || !pin_.is_of(context, context_id) || pin_.is_left()) {
    // What a staging buffer had in a context that is gone went with it; the pin may have survived.
    pin_.drop();
    *this = {};
  }
  driver_ = driver;
  memory_ = memory;
  cuda::Result result = pin_.make(context, context_id, memory);
  if (result == cuda::success) result = take(context, context_id, StreamKind::usual, StreamWish::alone, kernels_);
  if (result == cuda::success) result = copy_by(context, context_id, serves_waiting_streams());
  if (result == cuda::success && counters_ == 0) result = driver->mem_alloc(&counters_, counter_bytes);
  // Zeros by the copy engine: a fill is a kernel, and a device may be too busy to begin one.
  if (result == cuda::success) result = copy_by_engine(*driver, counters_, memory.first(counter_bytes), copies_);
  if (result == cuda::success) result = driver->stream_synchronize(copies_);
  if (result == cuda::success) kernels_there_ = kernels_of(context, context_id);
  if (result == cuda::success && kernels_there_ == nullptr) result = cuda::error_out_of_memory;
  if (result != cuda::success) return result;
  context_ = context;
  context_id_ = context_id;
  return cuda::success;
}

cuda::Result Staging::take(cuda::Context context, unsigned long long context_id, StreamKind kind, StreamWish wish,
                           cuda::Stream& stream) noexcept {
  if (stream != nullptr) return cuda::success;
  OwnStream own{context, context_id, kind};
  const cuda::Result result = take_stream(own, wish);
  stream = own.stream;
  return result;
}

// Where no usual one can be had now, an urgent one does, and the other way round.
cuda::Result Staging::copy_by(cuda::Context context, unsigned long long context_id, bool urgently) noexcept {
  cuda::Result result = cuda::success;
  if (!urgently) result = take(context, context_id, StreamKind::usual, StreamWish::spare, usual_);
  const bool wants_urgent = urgently || (usual_ == nullptr && result == cuda::error_not_ready);
  if (wants_urgent) result = take(context, context_id, StreamKind::urgent, StreamWish::alone, urgent_);
  const cuda::Stream wanted = wants_urgent ? urgent_ : usual_;
  if (wanted == nullptr && usual_ == nullptr) return result;
  copies_ = wanted != nullptr ? wanted : usual_;
  streams_wait_ = urgently;
  return cuda::success;
}

cuda::Result Staging::copy_urgently(bool urgently) noexcept {
  return copy_by(context_, context_id_, urgently);
}

cuda::Result Staging::launch(const Gather& gather) noexcept {
  observe::PhaseProbe phase(SLUICE_TRACE_LAUNCH);
  cuda::DevicePtr slots = gather.slots;
  cuda::DevicePtr target = gather.target;
  cuda::DevicePtr tickets = seen_by_device(gather.tickets);
  cuda::DevicePtr completed = seen_by_device(gather.completed);
  cuda::DevicePtr words = seen_by_device(gather.words);
  cuda::DevicePtr counters = counters_;
  std::array<std::uint32_t, 8> numbers{gather.chunk_bytes,  gather.stride,       gather.skip,      gather.chunks,
                                       gather.silent_up_to, gather.first_number, gather.launch_id, gather.relay_slots};
  // The last one is the relay kernel's alone.
  std::array<void*, 14> arguments{&slots,      &target,     &tickets,    &completed,  &words,
                                  &counters,   &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                                  &numbers[4], &numbers[5], &numbers[6], &numbers[7]};
  const unsigned blocks = std::clamp(gather.chunks, 1U, std::max(1U, gather.most_blocks));
  const std::atomic<cuda::Function>& kernel = gather.relay_slots > 0 ? kernels_there_->relay : kernels_there_->gather;
  return phase.ends(driver_->launch_kernel(kernel.load(std::memory_order_acquire), blocks, 1, 1,
                                           copiers_a_block + ushers_warp, 1, 1, 0, kernels_, arguments.data(),
                                           nullptr));
}

cuda::Result Staging::launch(const Scatter& scatter) noexcept {
  observe::PhaseProbe phase(SLUICE_TRACE_LAUNCH);
  cuda::DevicePtr slots = scatter.slots;
  cuda::DevicePtr targets = seen_by_device(scatter.targets);
  cuda::DevicePtr tickets = seen_by_device(scatter.tickets);
  cuda::DevicePtr completed = seen_by_device(scatter.completed);
  cuda::DevicePtr words = seen_by_device(scatter.words);
  cuda::DevicePtr counters = counters_;
  std::array<std::uint32_t, 5> numbers{scatter.stride, scatter.chunks, scatter.silent_up_to, scatter.first_number,
                                       scatter.launch_id};
  std::array<void*, 11> arguments{&slots,      &targets,    &tickets,    &completed,  &words,     &counters,
                                  &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4]};
  // Measured: a chunk is a block's work, so small ones want many small blocks. More of the others would only take
  // processors from the program's own kernels.
  constexpr unsigned most_blocks = 24;
  const unsigned copiers = scatter.chunk_bytes <= 4096 ? copiers_of_small_chunks : copiers_a_block;
  const unsigned blocks = std::clamp(scatter.chunks, 1U, scatter.chunk_bytes <= 16384 ? 64U : most_blocks);
  return phase.ends(driver_->launch_kernel(kernels_there_->scatter.load(std::memory_order_acquire), blocks, 1, 1,
                                           copiers + ushers_warp, 1, 1, 0, kernels_, arguments.data(), nullptr));
}

// Drivers give short ones of many to no engine (gpu/engine_copy.h).
bool Staging::can_copy_many() const noexcept {
  if (streams_wait_) return false;
  return driver_->memcpy_batch_async_v2 != nullptr || driver_->memcpy_batch_async != nullptr;
}

// As the driver takes them.
struct Staging::Copies {
  static constexpr std::size_t most = 64;
  std::array<cuda::DevicePtr, most> to;
  std::array<cuda::DevicePtr, most> from;
  std::array<std::size_t, most> sizes;
};

cuda::Result Staging::copy_many(Copies& copies, std::size_t count) noexcept {
  const observe::PhaseProbe phase(SLUICE_TRACE_COPY);
  cuda::CopyAttributes attributes{};
  attributes.source_access = cuda::source_in_stream_order;
  std::size_t first = 0;
  if (driver_->memcpy_batch_async_v2 != nullptr) {
    return driver_->memcpy_batch_async_v2(copies.to.data(), copies.from.data(), copies.sizes.data(), count, &attributes,
                                          &first, 1, copies_);
  }
  std::size_t failed = 0;
  return driver_->memcpy_batch_async(copies.to.data(), copies.from.data(), copies.sizes.data(), count, &attributes,
                                     &first, 1, &failed, copies_);
}

cuda::Result Staging::copy_to_device(std::span<const Copy> copies) noexcept {
  if (copies.size() < 2 || copies.size() > Copies::most || !can_copy_many()) {
    cuda::Result result = cuda::success;
    for (const Copy& copy : copies) {
      if (result == cuda::success) result = copy_to_device(copy.to, {copy.from, copy.size});
    }
    return result;
  }
  Copies all;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    all.to[i] = copies[i].to;
    all.from[i] = reinterpret_cast<cuda::DevicePtr>(copies[i].from);
    all.sizes[i] = copies[i].size;
  }
  return copy_many(all, copies.size());
}

cuda::Result Staging::copy_from_device(std::span<const CopyBack> copies) noexcept {
  if (copies.size() < 2 || copies.size() > Copies::most || !can_copy_many()) {
    cuda::Result result = cuda::success;
    for (const CopyBack& copy : copies) {
      if (result == cuda::success) result = copy_from_device({copy.to, copy.size}, copy.from);
    }
    return result;
  }
  Copies all;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    all.to[i] = reinterpret_cast<cuda::DevicePtr>(copies[i].to);
    all.from[i] = copies[i].from;
    all.sizes[i] = copies[i].size;
  }
  return copy_many(all, copies.size());
}

cuda::Result Staging::copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  observe::PhaseProbe phase(SLUICE_TRACE_COPY, from.size());
  return phase.ends(gpu::copy_to_device(*driver_, to, from, copies_, streams_wait_));
}

cuda::Result Staging::copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  observe::PhaseProbe phase(SLUICE_TRACE_COPY, to.size());
  return phase.ends(driver_->memcpy_dtoh_async(to.data(), from, to.size(), copies_));
}

cuda::Result Staging::copy_on_device(cuda::DevicePtr to, cuda::DevicePtr from, std::size_t size) noexcept {
  if (driver_->memcpy_dtod_async == nullptr) return cuda::error_not_supported;
  observe::PhaseProbe phase(SLUICE_TRACE_COPY, size);
  return phase.ends(driver_->memcpy_dtod_async(to, from, size, copies_));
}

cuda::Result Staging::mark(const std::uint32_t* word, std::uint32_t value) noexcept {
  return driver_->stream_write_value_32(copies_, seen_by_device(word), value, cuda::write_value_default);
}

cuda::Result Staging::health() const noexcept {
  const auto ask = [this](cuda::Stream stream) {
    const cuda::Result result = driver_->stream_query(stream);
    return result == cuda::error_not_ready ? cuda::success : result;
  };
  for (const cuda::Stream stream : {usual_, urgent_, kernels_}) {
    if (stream == nullptr || ask(stream) == cuda::success) continue;
    // A device that is lost says so each time. One refusal says nothing of it, and its copies and kernels go on.
    if (const cuda::Result result = ask(stream); result != cuda::success) return result;
  }
  return cuda::success;
}

cuda::Result Staging::finish_copies() noexcept {
  return driver_->stream_synchronize(copies_);
}

}  // namespace sluice::gpu
