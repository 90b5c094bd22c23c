// SPDX-License-Identifier: Apache-2.0
// Between the staging places of a channel and the memory of a device, for one task: each piece is handed to the kernel
// that stands in the program's stream, which carries it in the stream's order. Where the device does not begin the
// kernel soon, the work is revoked and the copy engine does it; what the driver does not take before the kernel has
// begun after all, the kernel does.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "gpu/memory.h"
#include "stream/channel/fallback_copier.h"
#include "stream/channel/stream_channel.h"

namespace sluice::base {
class SpinBackoff;
}

namespace sluice::stream {

class StreamCopier {
 public:
  explicit StreamCopier(StreamChannel& channel) noexcept;
  StreamCopier(const StreamCopier&) = delete;
  StreamCopier& operator=(const StreamCopier&) = delete;
  ~StreamCopier() = default;

  // The next task; the one before has been finished, and the stream has got beyond it.
  void begin(const StreamTask& task) noexcept;

  // Whether device memory is to be reached through this at all. Otherwise the stream is held until all is over, by
  // other means.
  bool carries() const noexcept { return has_kernel_ || task_->prestaged_bytes > 0; }
  // By the kernel in the stream.
  bool has_kernel() const noexcept { return has_kernel_; }
  bool reaches(const facts::BufferFacts& memory) const noexcept;
  // What was known of memory at the call, if all of it lies there and stays for the task. The driver need not be asked,
  // and may have forgotten it. Null: it has to be.
  const facts::BufferFacts* remembers(std::uint64_t address, std::uint64_t length) const noexcept;

  // A place of gpu::stream_copy_slot_bytes on a page, for the next send(). Empty: failed(). Waits for the device when
  // all are taken.
  std::span<std::byte> slot() noexcept;
  // The same for those to come, `ahead` of the next one: where it is, and whether it is free. Without waiting.
  std::span<std::byte> slot_ahead(std::uint32_t ahead) const noexcept {
    return {slot_of(next_ + ahead), gpu::stream_copy_slot_bytes};
  }
  bool is_free_ahead(std::uint32_t ahead) const noexcept;
  // A moment's wait for the device. False: failed().
  bool wait_a_moment(base::SpinBackoff& backoff) noexcept;
  // What stands at `offset` of that place goes to the device.
  void send(std::uint32_t offset, std::uint32_t length, std::uint64_t address) noexcept;

  // Asks for at most gpu::stream_copy_bytes of device memory; answers under which number. At most so many at a time as
  // there are places, and each is good until as many others have been asked for.
  std::uint32_t ask(std::uint64_t address, std::uint32_t length) noexcept;
  // Waits for it. Empty: failed().
  std::span<const std::byte> answer_to(std::uint32_t number) noexcept;
  // Would it be there without waiting?
  bool has_answer_to(std::uint32_t number) const noexcept { return failure_ == cuda::success && carried_out(number); }
  // What the stream has brought by itself.
  std::optional<std::span<std::byte>> prestaged(std::uint64_t address, std::uint64_t length) const noexcept;

  // Waits until everything that was sent is in place. False: failed().
  bool settle() noexcept;
  base::Outcome failed() const noexcept { return gpu::as_outcome(failure_); }
  cuda::Result failure() const noexcept { return failure_; }

  // What its channel is to the device; a copy of it serves another thread.
  const gpu::StreamCopy& device() const noexcept { return channel_.device(); }

  // The file has its bytes in the page cache: the kernel may come meanwhile, and will not wait for long.
  void open_soon() noexcept;

  // The task is a while at its storage: by then, no thread spins any more.
  void waits_for_storage() noexcept { waits_for_storage_ = true; }
  bool waited_for_storage() const noexcept { return waits_for_storage_; }

  // Nothing more comes: lets the stream go on. The task has said what came of it, and is not needed any more.
  void finish() noexcept;
  // Behind that: does the kernel still have to begin? Then a thread has to look again, since one that does not begin
  // for long is to be revoked.
  enum class Kernel { through, awaited, overdue };
  Kernel kernel(std::chrono::steady_clock::time_point now) noexcept;
  void revoke_late() noexcept;

 private:
  std::byte* slot_of(std::uint32_t number) const noexcept;
  void post(gpu::StreamCopyKind kind, std::uint32_t offset, std::uint32_t length, std::uint64_t address) noexcept;
  void write_command(const gpu::StreamCopyCommand& command) noexcept;
  void open_gate() noexcept;
  bool begun() const noexcept;
  enum class Commit { none_yet, carries, revoked };
  Commit commit() const noexcept;
  // Commands before it are carried out.
  std::uint32_t oldest_posted() const noexcept {
    return next_ - first_ > gpu::stream_copy_slots ? next_ - gpu::stream_copy_slots : first_;
  }
  bool carried_out(std::uint32_t number) const noexcept;
  bool wait_for(std::uint32_t number) noexcept;
  void look_after(base::SpinBackoff& backoff) noexcept;
  bool grants_delay() noexcept;
  void ask_for_health() noexcept;
  void revoke() noexcept;
  bool fall_back(const gpu::StreamCopyCommand& command) noexcept;
  std::optional<cuda::Result> carry_by_engine(const gpu::StreamCopyCommand& command) noexcept;
  void leave_to_kernel(std::uint32_t number) noexcept;
  void resume() noexcept;
  void count_kernel(std::uint32_t commands) noexcept;
  void give_up(cuda::Result result) noexcept;

  StreamChannel& channel_;
  gpu::StreamCopyWords& words_;
  const StreamTask* task_ = nullptr;
  std::uint32_t first_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t gate_value_ = 0;
  bool has_kernel_ = false;
  bool gate_open_ = false;
  bool is_cached_ = false;  // the file has the bytes
  bool waits_for_storage_ = false;
  bool revoked_ = false;
  bool carries_on_ = false;           // the kernel was revoked, and has the rest after all
  std::uint32_t carried_before_ = 0;  // commands before that number were carried out when it got it
  std::shared_ptr<FallbackCopier> fallback_;
  bool through_ = true;
  bool counted_ = false;       // that the kernel carries
  bool refused_late_ = false;  // a copy, after the task had said what came of it
  unsigned delays_ = 0;        // that its kernel was granted
  facts::BufferFacts remembered_;
  ssize_t* result_word_ = nullptr;
  cuda::Result failure_ = cuda::success;
  std::chrono::steady_clock::time_point opened_{};
  std::optional<std::chrono::steady_clock::time_point> doubted_since_;  // how the context is
  std::array<gpu::StreamCopyCommand, gpu::stream_copy_slots> posted_{};
};

}  // namespace sluice::stream
