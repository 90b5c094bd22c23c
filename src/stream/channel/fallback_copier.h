// SPDX-License-Identifier: Apache-2.0
// The copy engine's work for a copier whose kernel has been revoked, on a thread of its own: while a driver frees
// memory or loads code for the program, it takes no copies before all streams of the context have come to rest, and one
// of these waits for the very bytes. And copies of the program's, behind streams that wait, may have all queues of the
// engines. So a copy to the device has a trial before it. As long as that is not through, the work can be had back, and
// a kernel that has begun meanwhile may do it; work out of a device until the bytes are there. (Between the trial's end
// and the copy into a device, either may begin all the same.)
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/event_count.h"
#include "gpu/stream_copy.h"

namespace sluice::stream {

// One that has begun needs nothing but the device; so long without a sign of it, it is gone with the device.
inline constexpr auto doubt_timeout = std::chrono::seconds(2);

class FallbackCopier {
 public:
  // Null where no thread can be started.
  static std::shared_ptr<FallbackCopier> begin(const gpu::StreamCopy& device) noexcept;
  explicit FallbackCopier(const gpu::StreamCopy& device) : device_(device), read_back_(gpu::stream_copy_bytes) {}
  ~FallbackCopier() = default;
  FallbackCopier(const FallbackCopier&) = delete;
  FallbackCopier& operator=(const FallbackCopier&) = delete;

  // One piece of work at a time. Its bytes stay where they are until it is done, or has been had back.
  void ask(const gpu::StreamCopyCommand& command, std::byte* slot) noexcept;
  bool is_done() const noexcept { return step_.load(std::memory_order_acquire) == Step::done; }
  // Then: what the driver said. Bytes out of the device are in their place.
  cuda::Result result() noexcept;
  // Then it will not be done, and nothing more can be asked for.
  bool have_back() noexcept;
  // Nothing more comes.
  void end() noexcept;

  // On the calling thread, as it is done here.
  static cuda::Result carry(const gpu::StreamCopy& device, const gpu::StreamCopyCommand& command,
                            std::byte* slot) noexcept;

 private:
  bool is_to_device() const noexcept { return command_.kind == gpu::StreamCopyKind::to_device; }
  enum class Step { resting, asked, copying, done, over };
  void run_worker() noexcept;
  bool wait_for_work() noexcept;
  cuda::Result await_engine() noexcept;
  cuda::Result await_trial() noexcept;

  const gpu::StreamCopy device_;  // the channel may serve another context before the driver has answered
  gpu::StreamCopyCommand command_{};
  std::byte* place_ = nullptr;
  std::vector<std::byte> read_back_;  // out of the device: the place may be in use again when the driver has answered
  cuda::Result result_ = cuda::success;
  std::atomic<Step> step_{Step::resting};
  std::chrono::nanoseconds soon_ = std::chrono::microseconds(100);  // what a trial may take to tell of now
  base::EventCount event_;
};

}  // namespace sluice::stream
