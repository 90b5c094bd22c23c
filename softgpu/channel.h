// SPDX-License-Identifier: Apache-2.0
// A queue of work with a thread of its own: what a hardware queue is to a GPU.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/cuda_abi.h"
#include "sync.h"

namespace sluice::softgpu {

// How a context fares, shared with all the work that was given to it.
struct Health {
  std::atomic<bool> gone{false};                   // destroyed: nothing of it runs any more
  std::atomic<cuda::Result> fault{cuda::success};  // a sticky error: nothing runs, every call answers it

  bool broken() const noexcept { return gone.load(std::memory_order_acquire) || fault.load() != cuda::success; }
};

struct Operation {
  std::vector<std::shared_ptr<Completion>> after;  // what must be done first
  std::function<void()> body;                      // may be empty: a marker
  std::shared_ptr<Completion> done;
  std::shared_ptr<const Health> health;
};

// Which of a device's queues: with SLUICE_SOFTGPU_QUEUES_FOR_ALL its copy engines have some of their own. What goes as
// before takes the one that the stream's last work took, at rest or not.
enum class Queue : unsigned { of_kernels, to_device, to_host, as_before };
inline constexpr unsigned queue_kinds = 3;

// Runs operations one after the other, in the order of submission. The thread is made by the first operation and ends
// when the channel is closed and empty. Any thread may call.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  void submit(Operation operation);
  bool is_free();  // nothing stands in it
  void close() noexcept;

 private:
  void work();

  std::mutex mutex_;
  Condition changed_;
  std::deque<Operation> queue_;
  bool works_ = false;
  bool started_ = false;
  bool closed_ = false;
};

}  // namespace sluice::softgpu
