// SPDX-License-Identifier: Apache-2.0
#include "stream/channel/settle_kernels.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "base/spin_backoff.h"
#include "gpu/cuda_api.h"
#include "stream/channel/stream_channel.h"

namespace sluice::stream {

using namespace std::chrono_literals;

namespace {

// A stream that is busy may be waiting for the caller, or for what the caller does next: it is given a moment to come
// to rest, once in a context.
constexpr auto moment_to_become_idle = 50ms;

bool becomes_idle(cuda::Stream stream, std::chrono::milliseconds within) noexcept {
  const gpu::CudaApi& driver = *gpu::driver();
  if (driver.stream_query == nullptr) return false;
  const auto end = std::chrono::steady_clock::now() + within;
  base::SpinBackoff backoff;
  cuda::Result state = driver.stream_query(stream);
  while (state == cuda::error_not_ready && std::chrono::steady_clock::now() < end) {
    backoff.wait();
    state = driver.stream_query(stream);
  }
  return state == cuda::success;
}

}  // namespace

bool settle_kernels(const gpu::StreamScope& scope, cuda::Stream stream, std::optional<gpu::KernelLoadHold>& without) {
  gpu::Kernels* const kernels = gpu::kernels_of(scope.context(), scope.context_id());
  if (kernels == nullptr) return false;
  if (kernels->tried.load(std::memory_order_acquire)) return true;
  if (!kernels->were_awaited_in_vain.load(std::memory_order_relaxed)) {
    const bool patient = !kernels->idle_was_awaited.exchange(true);
    const bool is_settled =
        kernels->begun.load(std::memory_order_acquire) || becomes_idle(stream, patient ? moment_to_become_idle : 0ms);
    if (is_settled && await_kernels_unless_streams_wait(*kernels, most_milliseconds_for_kernels)) return true;
  }
  // Another call may have it go on in between.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(most_milliseconds_for_kernels);
  do {
    gpu::wait_for(*kernels, most_milliseconds_for_kernels);
    if (auto held_off = gpu::KernelLoadHold::in(*kernels)) without.emplace(std::move(*held_off));
    if (without || kernels->tried.load(std::memory_order_acquire)) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace sluice::stream
