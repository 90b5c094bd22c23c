// Our kernels in a context: loaded once, on a thread of their own, and never taken away again.
//
// While a driver loads code it waits for every stream of the context, and holds up most other calls meanwhile. So it is
// best done before the program has put anything into its streams that waits for us: prepare_kernels().
#pragma once

#include <atomic>

#include "base/event_count.h"
#include "gpu/cuda_abi.h"

namespace sluice::gpu {

// Null where it is not loaded yet, or the driver or the device will not have it.
struct Kernels {
  std::atomic<cuda::Function> gather{nullptr};
  std::atomic<cuda::Function> scatter{nullptr};
  std::atomic<cuda::Function> serve{nullptr};
  std::atomic<cuda::Function> errand{nullptr};

  std::atomic<bool> tried{false};  // nothing of the above will change any more
  base::EventCount news;
};

// Begins to load them with the first call for a context. Null when there is no memory.
const Kernels* kernels_of(cuda::Context context, unsigned long long context_id) noexcept;

// Waits until they are loaded, or can not be; false when that takes longer.
bool wait_for(const Kernels& kernels, int milliseconds) noexcept;

// Loads them into the context that is current, where one is, and waits for that for a moment.
void prepare_kernels() noexcept;

}  // namespace sluice::gpu
