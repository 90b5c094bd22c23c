// Our kernels in a context: loaded once, on a thread of their own, and never taken away again.
//
// While a driver loads code it waits for every stream of the context, and holds up most other calls meanwhile. So it
// begins when somebody knows that no stream waits for us or for the calling thread; best when a file is registered:
// prepare_kernels(). Until then transfers do without.
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

  std::atomic<bool> begun{false};  // to be loaded
  std::atomic<bool> tried{false};  // nothing of the above will change any more
  base::EventCount news;
  std::atomic<bool> rest_was_awaited{false};  // somebody has given a busy stream the time to come to rest

  const cuda::Context context;
  const unsigned long long context_id;

  Kernels(cuda::Context where, unsigned long long id) : context(where), context_id(id) {}
};

// Those of a context, whether or not they are loaded. Null when there is no memory.
Kernels* kernels_of(cuda::Context context, unsigned long long context_id) noexcept;

// Begins to load them, unless somebody has. On a thread of its own.
void begin_loading(Kernels& kernels) noexcept;

// Waits until they are loaded, or can not be; false when that takes longer.
bool wait_for(const Kernels& kernels, int milliseconds) noexcept;

// Loads them into the context that is current, where one is, and waits for that for a moment.
void prepare_kernels() noexcept;

}  // namespace sluice::gpu
