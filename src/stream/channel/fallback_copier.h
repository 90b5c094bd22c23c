// SPDX-License-Identifier: Apache-2.0
// The copy engine's work for a copier whose kernel has been revoked, on a thread of its own: while a driver frees
// memory or loads code for the program, it takes no copies before all streams of the context have come to rest, and one
// of these waits for the very bytes. And where all hardware queues are taken, a copy may stand behind the stream that
// waits for it. So the device is first asked for a queue, and the driver for something that does nothing. As long as
// either has not answered, the work can be had back, and a kernel that has begun meanwhile may do it; work out of a
// device until the bytes are there. (Between the driver's answer and the copy into a device, it may begin to free
// memory all the same.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/event_count.h"
#include "gpu/stream_copy.h"

namespace sluice::stream {

// A kernel that has not begun by then waits for another one to end, which may wait for these very bytes.
inline constexpr auto kernel_start_timeout = std::chrono::milliseconds(5);
// One that has begun needs nothing but the device; so long without a sign of it, it is gone with the device.
inline constexpr auto doubt_timeout = std::chrono::seconds(2);

class FallbackCopier {
 public:
  // Null where no thread can be started.
  static std::shared_ptr<FallbackCopier> begin(const gpu::StreamCopy& device, bool by_memory_operations) noexcept;
  FallbackCopier(const gpu::StreamCopy& device, bool by_memory_operations)
      : device_(device), by_memory_operations_(by_memory_operations), read_back_(gpu::stream_copy_bytes) {}
  ~FallbackCopier() = default;
  FallbackCopier(const FallbackCopier&) = delete;
  FallbackCopier& operator=(const FallbackCopier&) = delete;

  // One piece of work at a time. Its bytes stay where they are until it is done, or has been had back.
  void ask(const gpu::StreamCopyCommand& command, std::byte* slot) noexcept;
  bool is_done() const noexcept { return step_.load(std::memory_order_acquire) == Step::done; }
  // To be called now and then until it is: a driver that keeps the thread for long may wait for streams behind the
  // queue that is kept for the copy.
  void release_queue_in_time() noexcept;
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
  bool takes_turns() const noexcept { return is_to_device() && by_memory_operations_; }
  enum class Step { resting, asked, copying, done, over };
  void run_worker() noexcept;
  bool wait_for_work() noexcept;
  cuda::Result prepare() noexcept;
  cuda::Result keep_queue(std::uint32_t turn) noexcept;
  cuda::Result await_queue(std::uint32_t turn) noexcept;
  void await_driver() noexcept;
  void release_queue() noexcept;
  void enter_driver() noexcept;
  void leave_driver() noexcept;
  cuda::Result copy() noexcept;

  const gpu::StreamCopy device_;  // the channel may serve another context before the driver has answered
  const bool by_memory_operations_;
  gpu::StreamCopyCommand command_{};
  std::byte* place_ = nullptr;
  std::vector<std::byte> read_back_;  // out of the device: the place may be in use again when the driver has answered
  cuda::Result result_ = cuda::success;
  std::atomic<Step> step_{Step::resting};
  // From the asking for a turn until the copy may go.
  std::chrono::nanoseconds soon_ = std::chrono::microseconds(100);
  unsigned late_turns_ = 0;
  std::uint32_t first_turn_ = 0;                                    // drawn with the work
  std::atomic<std::uint32_t> kept_turn_{0};                         // in the stream, and not released; 0: none
  std::atomic<std::chrono::steady_clock::rep> in_driver_since_{0};  // by that clock; 0: not
  base::EventCount event_;
};

}  // namespace sluice::stream
