// SPDX-License-Identifier: Apache-2.0
// Working in the context that some memory belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "facts/buffer.h"
#include "gpu/cuda_api.h"
#include "gpu/own_streams.h"

namespace sluice::gpu {

// When the driver was asked last whether it knows the memory that is to be copied.
enum class Asked : std::uint8_t { just_now, a_while_ago };

// From now on this thread's sessions copy on urgent streams: for threads that do nothing but what streams wait for.
void serve_waiting_streams() noexcept;
bool serves_waiting_streams() noexcept;

// The same for a while, for what streams may wait for.
class UrgentCopies {
 public:
  explicit UrgentCopies(bool wanted) noexcept;
  ~UrgentCopies();
  UrgentCopies(const UrgentCopies&) = delete;
  UrgentCopies& operator=(const UrgentCopies&) = delete;

 private:
  const StreamKind before_;
};

// The context of some memory made current on this thread, with a stream of ours that waits for no legacy
// stream; what was current before comes back in the end. Capture modes of the caller are left in peace. Cheap: the
// stream is the thread's own, but where there are very many threads, and is kept.
class Session {
 public:
  explicit Session(const facts::BufferFacts& memory) noexcept;
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // success, or why nothing can be copied.
  cuda::Result status() const noexcept { return status_; }

  // The thread had no stream in that context yet.
  bool took_long() const noexcept { return took_long_; }

  // What is current while this lives. The id tells a new context at an old address; 0 with drivers without ids.
  cuda::Context context() const noexcept { return context_; }
  unsigned long long context_id() const noexcept { return context_id_; }

  // Both return when the bytes are in place.
  cuda::Result copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  cuda::Result copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept;
  // The same in two steps, for a caller that has a better way to wait than the driver's: a word that the device writes
  // behind the copies so far. finish() waits for all of them; where nothing has begun there is nothing to wait for.
  cuda::Result begin_copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  cuda::Result begin_copy_from_device(std::span<std::byte> to, cuda::DevicePtr from,
                                      Asked memory = Asked::a_while_ago) noexcept;
  cuda::Result mark(cuda::DevicePtr word, std::uint32_t value) noexcept;
  cuda::Result finish() noexcept;
  // The same by the driver's plainest call, on pageable memory.
  cuda::Result copy_to_device_plainly(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  cuda::Result copy_from_device_plainly(std::span<std::byte> to, cuda::DevicePtr from) noexcept;

  // Just now, the driver still knows memory of this context there. The copies above ask by themselves, unless told that
  // this has just been done.
  bool still_there(cuda::DevicePtr at) const noexcept;
  // For long waits for a kernel that writes there: has the device, or the memory, died on us? success: neither.
  cuda::Result health(cuda::DevicePtr at) const noexcept;

 private:
  const CudaApi* driver_;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  cuda::Stream stream_ = nullptr;
  int capture_mode_ = cuda::capture_relaxed;
  bool mode_changed_ = false;
  bool pushed_ = false;
  bool took_long_ = false;
  cuda::Result status_ = cuda::success;
};

}  // namespace sluice::gpu
