// SPDX-License-Identifier: Apache-2.0
// Marking memory, and the moment that copies under way are given.
#include "gpu/settle.h"

#include <chrono>

#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "gpu/session.h"

namespace sluice::gpu {

namespace {

constexpr auto longest = std::chrono::microseconds(100);

// Any answer but "not ready" ends it. Asked about the legacy stream while another one is captured, a driver may break
// that capture: so whether it may be asked is asked first.
void await_idle(const CudaApi& driver, cuda::Stream stream) noexcept {
  int capturing = cuda::capture_none;
  if (driver.stream_is_capturing(stream, &capturing) != cuda::success || capturing != cuda::capture_none) return;
  if (driver.stream_query(stream) != cuda::error_not_ready) return;
  const auto end = std::chrono::steady_clock::now() + longest;
  while (driver.stream_query(stream) == cuda::error_not_ready && std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

void settle(const facts::BufferFacts& memory, std::uint64_t address) noexcept {
  if (memory.kind != facts::MemoryKind::device || memory.settled) return;
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->stream_query == nullptr) return;
  unsigned on = 1;
  const cuda::DevicePtr base = memory.base != 0 ? memory.base : address;
  if (driver->pointer_set_attribute != nullptr &&
      driver->pointer_set_attribute(&on, cuda::pointer_attribute_sync_memops, base) == cuda::success) {
    return;
  }
  const Session session(memory);
  if (session.status() != cuda::success) return;
  await_idle(*driver, cuda::legacy_stream());
  await_idle(*driver, cuda::per_thread_stream());
}

}  // namespace sluice::gpu
