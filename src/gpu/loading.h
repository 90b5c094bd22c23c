// SPDX-License-Identifier: Apache-2.0
// Our kernels in a context: loaded once, on a thread of their own, and never taken away again.
//
// While a driver loads code it waits for every stream of the context, and holds up most other calls meanwhile. So
// loading begins when no stream there waits for us, as far as is known (stream/channel/stream_channel.h); until
// then transfers do without. Where a call has waited for it in vain, it stops before the next piece of code, unless
// another call waits: behind that call the program may let a stream wait for what it does next.
//
//   resting --- begin_loading() ---> begun --- the last piece ---> tried
//      ^                               |
//      +------ one waited in vain -----+
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>

#include "base/event_count.h"
#include "gpu/cuda_abi.h"
#include "gpu/stream_waits.h"

namespace sluice::gpu {

// Null where it is not loaded yet, or the driver or the device will not have it.
struct Kernels {
  std::atomic<cuda::Function> gather{nullptr};
  std::atomic<cuda::Function> relay{nullptr};
  std::atomic<cuda::Function> scatter{nullptr};
  std::atomic<cuda::Function> serve{nullptr};
  std::atomic<cuda::Function> stream_copy{nullptr};

  std::atomic<bool> begun{false};  // a thread is at it, or has been to its end; set with the mutex
  std::atomic<bool> tried{false};  // nothing of the above will change any more
  base::EventCount news;
  std::atomic<bool> idle_was_awaited{false};      // a thread has given a busy stream the time to come to rest
  std::atomic<bool> were_awaited_in_vain{false};  // by a call, which has gone on without: it takes long here

  std::mutex deciding;  // whether to begin, and to go on
  // With the mutex.
  unsigned load_holds = 0;  // calls that are putting something into streams
  unsigned waiting = 0;     // calls that wait until all is loaded
  bool began_awaited = false;

  // Of the thread that loads.
  cuda::Module machine_code = nullptr;
  std::size_t pieces = 0;  // tried so far

  StreamWaits stream_waits;

  const cuda::Context context;
  const unsigned long long context_id;
  Kernels* before = nullptr;  // those of the context that was seen before this one

  Kernels(cuda::Context where, unsigned long long id) : context(where), context_id(id) {}
};

// Those of a context, whether or not they are loaded. Null when there is no memory.
Kernels* kernels_of(cuda::Context context, unsigned long long context_id) noexcept;
// Of the one that is current, where one is.
Kernels* current_kernels() noexcept;

// Begins to load them on a thread of its own, or goes on with it. With the mutex, where none has begun.
void begin_loading(Kernels& kernels) noexcept;

// While one lives, loading does not begin.
class KernelLoadHold {
 public:
  // Nothing when a thread has begun.
  static std::optional<KernelLoadHold> in(Kernels& kernels) noexcept;
  KernelLoadHold(KernelLoadHold&& other) noexcept : kernels_(other.kernels_) { other.kernels_ = nullptr; }
  KernelLoadHold& operator=(KernelLoadHold&&) = delete;
  KernelLoadHold(const KernelLoadHold&) = delete;
  KernelLoadHold& operator=(const KernelLoadHold&) = delete;
  ~KernelLoadHold();

 private:
  explicit KernelLoadHold(Kernels& kernels) noexcept : kernels_(&kernels) {}
  Kernels* kernels_;
};

// Has a context got them, or none for good?
bool are_loaded(cuda::Context context, unsigned long long context_id) noexcept;
// Those that carry reads have been, in some context of this device's. The driver is not asked.
bool were_loaded_on(int ordinal) noexcept;

// Is a thread of ours at it, in any context? A process must not end meanwhile: the driver would be gone under it.
bool is_loading() noexcept;
// A child of fork does not have that thread.
void loading_after_fork_in_child() noexcept;

// Until they are loaded, or can not be, or no thread is at it; false when that takes longer.
bool wait_for(const Kernels& kernels, int milliseconds) noexcept;

// While one lives, loading that has begun goes on.
class KernelLoadWait {
 public:
  explicit KernelLoadWait(Kernels& kernels) noexcept;
  KernelLoadWait(const KernelLoadWait&) = delete;
  KernelLoadWait& operator=(const KernelLoadWait&) = delete;
  ~KernelLoadWait();

  // False: they are not loaded, or not yet.
  bool until_tried(int milliseconds) noexcept;

 private:
  Kernels& kernels_;
};

}  // namespace sluice::gpu
