// SPDX-License-Identifier: Apache-2.0
// Work on a stream that is the program's own: a doorbell that the stream writes, a gate that it waits at, and a kernel
// that copies behind the gate: carries what the host's commands say, until one says that it is over. The words and the
// staging places lie in pinned memory that host and device share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/processor.h"
#include "gpu/cuda_api.h"
#include "gpu/kernel_protocol.h"
#include "gpu/loading.h"
#include "gpu/pin.h"

namespace sluice::gpu {

inline constexpr std::uint32_t stream_copy_slots = 32;
// What one command carries at most, and the room around it: for blocks of O_DIRECT, and for bytes that lie in their
// place as they do in memory.
inline constexpr std::uint32_t stream_copy_bytes = 32768;
inline constexpr std::uint32_t stream_copy_slot_bytes = stream_copy_bytes + 8192;

// Those that the device writes have lines of their own.
struct StreamCopyWords {
  std::array<StreamCopySlot, stream_copy_slots> commands;
  std::array<StreamCopyAck, stream_copy_slots> acked;
  // What the launches say of themselves, each by the number that it begins with.
  alignas(base::line_bytes) std::uint32_t begun;  // once a block of it runs
  std::uint32_t commit;                           // carrying() or taken_back()
  std::uint32_t left;                             // once no block of it will look at anything again
  // What a launch that was revoked is told in the end, one of both.
  alignas(base::line_bytes) std::uint32_t resume;  // all is done, and the next number to begin with
  std::uint32_t carry_on;                          // it carries after all, from this number on
  alignas(base::line_bytes) std::uint32_t doorbell;
  alignas(base::line_bytes) std::uint32_t gate;
  alignas(
      base::line_bytes) std::array<std::uint32_t, 16> first_counters;  // what the device's counters are when it begins
};
inline constexpr std::size_t stream_copy_words_bytes = 8192;
static_assert(sizeof(StreamCopyWords) <= stream_copy_words_bytes);
inline constexpr std::size_t stream_copy_staging_bytes = std::size_t{stream_copy_slots} * stream_copy_slot_bytes;

// Two pieces of whole pages. Measured: where the words stand in a huge page, the driver takes 0.2 µs longer to put a
// write of one into a stream (of 1.3 on an H100).
struct StreamCopyMemory {
  std::byte* words = nullptr;  // stream_copy_words_bytes, zeros
  std::byte* staging = nullptr;

  std::span<std::byte> all_words() const noexcept { return {words, stream_copy_words_bytes}; }
  std::span<std::byte> all_staging() const noexcept { return {staging, stream_copy_staging_bytes}; }
};

// The first number that a command has: close before that end, so that beginning anew is nothing that happens for the
// first time after weeks.
inline constexpr std::uint32_t first_stream_copy = end_of_numbers - 512;
// Does the word tell of the launch that begins with `number`, or of a later one? Numbers that began anew meanwhile are
// later ones.
constexpr bool has_reached(std::uint32_t word, std::uint32_t number) noexcept {
  return static_cast<std::int32_t>(word - number) >= 0;
}
// What a driver says of a context. An answer that does not end contexts leaves open how it is: its streams may get
// everywhere all the same.
struct Health {
  cuda::Result result = cuda::success;
  bool is_gone = false;  // none of its streams will get anywhere any more

  bool is_good() const noexcept { return result == cuda::success; }
};

// The device's side of such memory, in one context for good. Calls with that context current and in
// relaxed capture mode; one thread at a time, but for the fallback copier, which may go on beside the rest.
class StreamCopy {
 public:
  // Pins the memory. Answers why not. What was made until then is kept for the next time: giving it back would wait for
  // all streams, which may wait for the caller.
  cuda::Result attach(cuda::Context context, unsigned long long context_id, const StreamCopyMemory& memory) noexcept;
  bool is_attached() const noexcept { return context_ != nullptr; }
  // It never was attached, or that has failed, and nothing of it is another context's that lives.
  bool may_become(cuda::Context context, unsigned long long context_id) const noexcept {
    return !is_attached() && (!words_pin_.is_there() || words_pin_.is_of(context, context_id) || words_pin_.is_left());
  }
  bool serves(cuda::Context context, unsigned long long id) const noexcept {
    return context_ == context && context_id_ == id;
  }
  cuda::Context context() const noexcept { return context_; }
  StreamWaits& stream_waits() const noexcept { return kernels_->stream_waits; }
  int device() const noexcept { return device_; }

  // Into the program's stream: both at once, and one by one.
  cuda::Result ring_and_wait(cuda::Stream stream, std::uint32_t value) const noexcept;
  cuda::Result ring_doorbell(cuda::Stream stream, std::uint32_t value) const noexcept;
  cuda::Result write_gate(cuda::Stream stream, std::uint32_t value) const noexcept;
  // Waits until the gate's word has the value, or is beyond it (cyclic).
  cuda::Result wait_at_gate(cuda::Stream stream, std::uint32_t value) const noexcept;
  // No where the driver or the device will not have it, or has it not yet.
  bool has_kernel() const noexcept;
  // What the launches of this memory count with, from one to the next: once, in the stream of the first, since a stream
  // of our own might stand behind others. Does nothing where they were brought before.
  cuda::Result write_counters(cuda::Stream stream) noexcept;
  bool has_counters() const noexcept { return has_counters_; }
  // Before a launch is put into a graph, which would bring them again at each replay. Waits for a copy engine.
  cuda::Result prepare_for_graph() noexcept;
  cuda::Result launch(cuda::Stream stream, unsigned blocks) const noexcept;
  cuda::Result copy_to_host(cuda::Stream stream, std::span<std::byte> to, cuda::DevicePtr from) const noexcept;

  // By a copy engine, on a stream of our own which has nothing but such copies: when the kernel could not begin. Return
  // when the bytes are in place.
  cuda::Result fallback_to_device(cuda::DevicePtr to, std::span<const std::byte> from) const noexcept;
  cuda::Result fallback_from_device(std::span<std::byte> to, cuda::DevicePtr from) const noexcept;
  // A copy to the device that changes nothing, of the kind of one of so many bytes. Returns when the driver takes
  // copies: while it frees memory or loads code, it takes none before all streams of the context have come to rest.
  cuda::Result begin_trial(std::size_t size) const noexcept;
  // It is through: a queue was there.
  bool is_fallback_at_rest() const noexcept;

  // For long waits: has the context died on us? May be asked without a context.
  Health health() const noexcept;

 private:
  cuda::DevicePtr seen_by_device(const void* word) const noexcept {
    return words_pin_.seen_by_device() +
           static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - memory_.words);
  }
  StreamCopyWords& words() const noexcept { return *reinterpret_cast<StreamCopyWords*>(memory_.words); }
  cuda::Result prepare(cuda::Context context, unsigned long long context_id) noexcept;
  cuda::Result take_fallback_stream(cuda::Context context, unsigned long long context_id) noexcept;

  const CudaApi* driver_ = nullptr;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  int device_ = -1;
  StreamCopyMemory memory_;
  Pin words_pin_;
  Pin staging_pin_;
  cuda::DevicePtr counters_ = 0;
  bool has_counters_ = false;
  cuda::Stream fallback_stream_ = nullptr;
  Kernels* kernels_ = nullptr;
};

}  // namespace sluice::gpu
