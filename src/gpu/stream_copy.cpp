// SPDX-License-Identifier: Apache-2.0
// Made once for each piece of pinned memory and never given back: at exit the driver may be gone before us.
#include "gpu/stream_copy.h"

#include <algorithm>

#include "gpu/engine_copy.h"
#include "gpu/own_streams.h"

namespace sluice::gpu {

namespace {

constexpr unsigned stream_copy_threads = 512;

// Behind these, CUDA says, nothing runs in the context any more.
bool ends_contexts(cuda::Result result) noexcept {
  constexpr std::array ends{cuda::error_deinitialized,
                            cuda::error_uncorrectable_memory,
                            cuda::error_contained,
                            cuda::error_uncorrectable_link,
                            cuda::error_illegal_address,
                            cuda::error_launch_timeout,
                            cuda::error_assertion,
                            cuda::error_context_is_destroyed,
                            cuda::error_hardware_stack,
                            cuda::error_illegal_instruction,
                            cuda::error_misaligned_address,
                            cuda::error_invalid_address_space,
                            cuda::error_invalid_program_counter,
                            cuda::error_launch_failed,
                            cuda::error_tensor_memory_leak,
                            cuda::error_mps_client_terminated,
                            cuda::error_external_device};
  return std::find(ends.begin(), ends.end(), result) != ends.end();
}

// The last one is written by trials.
std::span<const std::uint32_t> all_but_the_last(std::span<const std::uint32_t> counters) noexcept {
  return counters.first(counters.size() - 1);
}

}  // namespace

cuda::Result StreamCopy::attach(cuda::Context context, unsigned long long context_id,
                                const StreamCopyMemory& memory) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (driver->mem_alloc == nullptr || driver->stream_query == nullptr) return cuda::error_not_supported;
  if (is_attached() || !words_pin_.is_of(context, context_id) || words_pin_.is_left()) {
    // What a context that is gone had went with it; the pins may have survived.
    words_pin_.drop();
    staging_pin_.drop();
    *this = {};
  }
  driver_ = driver;
  memory_ = memory;
  cuda::Result result = words_pin_.make(context, context_id, memory.all_words());
  if (result == cuda::success) result = staging_pin_.make(context, context_id, memory.all_staging());
  if (result == cuda::success) result = prepare(context, context_id);
  if (result == cuda::success) {
    kernels_ = kernels_of(context, context_id);
    if (kernels_ == nullptr) result = cuda::error_out_of_memory;
  }
  if (result != cuda::success) return result;
  context_ = context;
  context_id_ = context_id;
  return cuda::success;
}

// Another channel's will do where none may be made now.
cuda::Result StreamCopy::take_fallback_stream(cuda::Context context, unsigned long long context_id) noexcept {
  OwnStream own{context, context_id, StreamKind::urgent};
  const cuda::Result result = take_stream(own, context_id != 0 ? StreamWish::shared : StreamWish::alone);
  fallback_stream_ = own.stream;
  return result;
}

cuda::Result StreamCopy::prepare(cuda::Context context, unsigned long long context_id) noexcept {
  words().first_counters = {};
  words().first_counters[at_draws] = first_stream_copy;
  words().first_counters[at_first] = first_stream_copy;
  words().first_counters[at_posted] = first_stream_copy;
  words().begun = words().left = first_stream_copy - 1;
  words().commit = committed_launch(first_stream_copy) - 1;
  cuda::Result result = driver_->ctx_get_device(&device_);
  if (result == cuda::success && fallback_stream_ == nullptr) result = take_fallback_stream(context, context_id);
  if (result == cuda::success && counters_ == 0) result = driver_->mem_alloc(&counters_, sizeof words().first_counters);
  return result;
}

cuda::Result StreamCopy::write_counters(cuda::Stream stream) noexcept {
  if (has_counters_) return cuda::success;
  const auto counters = all_but_the_last(words().first_counters);
  const cuda::Result result = driver_->memcpy_htod_async(counters_, counters.data(), counters.size_bytes(), stream);
  has_counters_ = result == cuda::success;
  return result;
}

cuda::Result StreamCopy::prepare_for_graph() noexcept {
  if (has_counters_) return cuda::success;
  const auto counters = std::as_bytes(all_but_the_last(words().first_counters));
  const cuda::Result result = copy_by_engine(*driver_, counters_, counters, fallback_stream_);
  has_counters_ = result == cuda::success;
  return has_counters_ ? driver_->stream_synchronize(fallback_stream_) : result;
}

cuda::Result StreamCopy::ring_and_wait(cuda::Stream stream, std::uint32_t value) const noexcept {
  if (driver_->stream_batch_mem_op != nullptr) {
    std::array<cuda::BatchMemoryOperation, 2> both{
        {{cuda::batch_write_value_32, seen_by_device(&words().doorbell), value, cuda::write_value_default, 0, 0},
         {cuda::batch_wait_value_32, seen_by_device(&words().gate), value, cuda::wait_value_geq, 0, 0}}};
    return driver_->stream_batch_mem_op(stream, both.size(), both.data(), 0);
  }
  const cuda::Result result = ring_doorbell(stream, value);
  return result == cuda::success ? wait_at_gate(stream, value) : result;
}

cuda::Result StreamCopy::ring_doorbell(cuda::Stream stream, std::uint32_t value) const noexcept {
  if (driver_->stream_write_value_32 == nullptr) return cuda::error_not_supported;
  return driver_->stream_write_value_32(stream, seen_by_device(&words().doorbell), value, cuda::write_value_default);
}

cuda::Result StreamCopy::write_gate(cuda::Stream stream, std::uint32_t value) const noexcept {
  if (driver_->stream_write_value_32 == nullptr) return cuda::error_not_supported;
  return driver_->stream_write_value_32(stream, seen_by_device(&words().gate), value, cuda::write_value_default);
}

cuda::Result StreamCopy::wait_at_gate(cuda::Stream stream, std::uint32_t value) const noexcept {
  if (driver_->stream_wait_value_32 == nullptr) return cuda::error_not_supported;
  return driver_->stream_wait_value_32(stream, seen_by_device(&words().gate), value, cuda::wait_value_geq);
}

bool StreamCopy::has_kernel() const noexcept {
  return kernels_->stream_copy.load(std::memory_order_acquire) != nullptr;
}

cuda::Result StreamCopy::launch(cuda::Stream stream, unsigned blocks) const noexcept {
  StreamCopyWords& shared = words();
  cuda::DevicePtr staging = staging_pin_.seen_by_device();
  cuda::DevicePtr commands = seen_by_device(shared.commands.data());
  cuda::DevicePtr acked = seen_by_device(shared.acked.data());
  cuda::DevicePtr launch_words = seen_by_device(&shared.begun);
  cuda::DevicePtr resume = seen_by_device(&shared.resume);
  cuda::DevicePtr counters = counters_;
  std::uint32_t slot_bytes = stream_copy_slot_bytes;
  std::uint32_t slots = stream_copy_slots;
  std::array<void*, 8> arguments{&staging, &commands, &acked, &launch_words, &resume, &counters, &slot_bytes, &slots};
  return driver_->launch_kernel(kernels_->stream_copy.load(std::memory_order_acquire), blocks, 1, 1,
                                stream_copy_threads, 1, 1, 0, stream, arguments.data(), nullptr);
}

cuda::Result StreamCopy::copy_to_host(cuda::Stream stream, std::span<std::byte> to,
                                      cuda::DevicePtr from) const noexcept {
  return driver_->memcpy_dtoh_async(to.data(), from, to.size(), stream);
}

cuda::Result StreamCopy::fallback_to_device(cuda::DevicePtr to, std::span<const std::byte> from) const noexcept {
  const cuda::Result result = copy_by_engine(*driver_, to, from, fallback_stream_);
  const cuda::Result waited = driver_->stream_synchronize(fallback_stream_);
  return result != cuda::success ? result : waited;
}

cuda::Result StreamCopy::fallback_from_device(std::span<std::byte> to, cuda::DevicePtr from) const noexcept {
  const cuda::Result result = driver_->memcpy_dtoh_async(to.data(), from, to.size(), fallback_stream_);
  const cuda::Result waited = driver_->stream_synchronize(fallback_stream_);
  return result != cuda::success ? result : waited;
}

cuda::Result StreamCopy::begin_trial(std::size_t size) const noexcept {
  const auto unused = std::as_bytes(std::span(&words().first_counters.back(), 1));
  const auto at = counters_ + sizeof words().first_counters - unused.size();
  return copy_by_engine(*driver_, at, unused.first(std::min(size, unused.size())), fallback_stream_);
}

bool StreamCopy::is_fallback_at_rest() const noexcept {
  return driver_->stream_query(fallback_stream_) != cuda::error_not_ready;
}

Health StreamCopy::health() const noexcept {
  if (!is_attached()) return {cuda::error_context_is_destroyed, !words_pin_.is_there() || words_pin_.is_left()};
  // Drivers crash on a stream that went with its context; they do know that memory is gone.
  unsigned type = 0;
  cuda::Context owner = nullptr;
  std::array<int, 2> attributes{cuda::pointer_attribute_memory_type, cuda::pointer_attribute_context};
  std::array<void*, 2> values{&type, &owner};
  const cuda::Result known = driver_->pointer_get_attributes(static_cast<unsigned>(attributes.size()),
                                                             attributes.data(), values.data(), counters_);
  if (known != cuda::success) return {known, known == cuda::error_invalid_value || ends_contexts(known)};
  if (type == 0 || owner != context_) return {cuda::error_context_is_destroyed, true};
  // A primary context that was reset has the handle of the one before it, and soon its addresses.
  unsigned long long id = 0;
  const bool told = driver_->ctx_get_id != nullptr && driver_->ctx_get_id(owner, &id) == cuda::success;
  if (told && id != context_id_) return {cuda::error_context_is_destroyed, true};
  const cuda::Result result = driver_->stream_query(fallback_stream_);
  if (result == cuda::error_not_ready) return {};
  return {result, result == cuda::error_invalid_handle || ends_contexts(result)};
}

}  // namespace sluice::gpu
