// SPDX-License-Identifier: Apache-2.0
// What one stream of the program's works with while it has transfers of ours: pinned staging memory of its own with the
// doorbell, the gate and the commands in it, and the transfers that stand in the stream. Gated work takes from no pool
// that others need, so any number of streams may wait.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/event_count.h"
#include "base/processor.h"
#include "facts/buffer.h"
#include "gpu/stream_copy.h"
#include "gpu/stream_waits.h"
#include "stream/channel/task_queue.h"

namespace sluice::stream {

class ChannelPool;
class StreamCopier;
class StreamChannel;

// One transfer in a stream. It is run once the stream has got there, by a stream worker.
class StreamTask : public Linked<StreamTask> {
 public:
  StreamTask() = default;
  virtual ~StreamTask() = default;
  StreamTask(const StreamTask&) = delete;
  StreamTask& operator=(const StreamTask&) = delete;

  // Moves the bytes and says what came of it, before later work of the stream runs.
  virtual void run(StreamCopier& copier) noexcept = 0;
  // Will run() be over in some microseconds, as far as can be told? Asked at its turn, outside of all locks.
  virtual bool is_quick() noexcept = 0;
  // It will not be run again. Destroys it.
  virtual void end() noexcept = 0;

  // What the task is to do with, for those that ask whether anything of it is still waiting.
  const void* subject = nullptr;
  // How many blocks carry, where the kernel does; 0: there is nothing to carry, or not by it.
  unsigned blocks = 0;
  // How many threads should help, where the file has the bytes in the page cache.
  unsigned helpers = 0;
  // Memory whose bytes the stream itself puts into the staging memory on its way: of a write that is known by then.
  std::uint64_t prestaged_from = 0;
  std::uint32_t prestaged_bytes = 0;
  // What its memory was at the call, where that stays until the stream has got beyond the task, also when the program
  // frees it behind the task and the driver forgets it at once.
  facts::BufferFacts remembered;
  // Where it says how many bytes were moved, or why none.
  ssize_t* result_word = nullptr;
  // A small read: where the file has its bytes in the page cache, the kernel need not wait for them at the gate.
  bool is_small_read = false;
  // A node of a graph: run with every replay, never ended.
  bool repeats = false;

 private:
  friend class ChannelPool;
  friend class StreamCopier;
  friend class StreamChannel;
  StreamChannel* channel_ = nullptr;
  gpu::StreamWait wait_;
  std::uint32_t gate_value_ = 0;
  bool gated_ = true;  // the stream waits at the gate; otherwise its kernel alone keeps it
  bool rung_by_call_ = false;

  // While its kernel is being launched behind the gate, a driver may wait for that very stream before it launches
  // anything. So the stream is let through in the end: its kernel alone keeps it then.
  enum class Stage { submitting, release_gate, submitted };
  bool is_submitted() const noexcept { return stage_.load(std::memory_order_acquire) == Stage::submitted; }
  bool is_released() const noexcept { return stage_.load(std::memory_order_acquire) == Stage::release_gate; }
  // Submitting is over, or lets through. No: the other came first.
  bool becomes(Stage stage) noexcept {
    Stage submitting = Stage::submitting;
    return stage_.compare_exchange_strong(submitting, stage);
  }
  std::atomic<Stage> stage_{Stage::submitting};
  // While submitting; guarded by the pool's lock.
  std::optional<std::chrono::steady_clock::time_point> rung_since_;
};

// Null, and why there is none.
struct TakenChannel {
  StreamChannel* channel = nullptr;
  cuda::Result result = cuda::error_out_of_memory;
};

class StreamChannel {
 public:
  // What stream workers do with it. Changed by the pool alone, with its lock:
  //
  //   resting --- doorbell ---> running --- kernel has yet to begin ---> departing
  //      ^                       |   ^                                    |    |
  //      +----- over ------------+   +---- doorbell, or overdue ----------+    |
  //      +----------------------------------------------- it has begun --------+
  enum class State : std::uint8_t {
    resting,    // tasks of its stream may wait for their doorbell
    running,    // a worker runs a task, or revokes the kernel of the last one
    departing,  // the last task is over but for its kernel, which may have to be revoked
  };

  // For a stream of that context; with the context current. Null when there is no memory to be had, or the driver
  // refuses.
  static StreamChannel* take(cuda::Context context, unsigned long long context_id) noexcept;
  static TakenChannel take_or_tell(cuda::Context context, unsigned long long context_id) noexcept;
  // When the last task is through, it serves the next stream. (A task that repeats has its channel for good.)
  void give_back() noexcept;

  // Nothing of ours stands in its stream.
  bool is_idle() noexcept;

  // Puts the task into the stream: behind what stands there, before what comes. Answers the driver's refusal; then
  // nothing has happened. With the context current.
  cuda::Result submit(cuda::Stream stream, StreamTask& task) noexcept;
  // The same while the stream is being captured into a graph, behind what has to be done before it.
  cuda::Result prepare_for_graph(const StreamTask& task) noexcept;
  cuda::Result submit_captured(cuda::Stream stream, StreamTask& task) noexcept;

  // A stream worker runs what is due: a task, or with none the end of a kernel that does not begin. Answers whether
  // storage was waited for.
  bool run(StreamTask* task) noexcept;

  // By host functions and not by stream memory operations, from now on.
  static void use_host_functions() noexcept;

  bool has_kernel() const noexcept {
    return !condemned_.load(std::memory_order_relaxed) && !kernel_refused_.load(std::memory_order_relaxed) &&
           device_.has_kernel();
  }
  const gpu::StreamCopy& device() const noexcept { return device_; }

  // Memory of tasks that are gone, for the next ones; of one size, since one class of tasks keeps it here. Null: there
  // is none. No: there is room enough.
  void* take_task_memory() noexcept;
  bool keep_task_memory(void* memory) noexcept;
  // Fetches so many bytes of what take_room() is likely to answer into this processor's caches, while the caller does
  // something else: a stream worker has written there last.
  void prefetch_task_memory(std::size_t size) const noexcept;

 private:
  friend class ChannelPool;
  friend class StreamCopier;  // a part of this
  explicit StreamChannel(const gpu::StreamCopyMemory& memory);
  ~StreamChannel();

  gpu::StreamCopyWords& words() const noexcept { return *reinterpret_cast<gpu::StreamCopyWords*>(memory_.words); }
  std::span<std::byte> staging() const noexcept { return memory_.all_staging(); }
  cuda::Result put_into_stream(cuda::Stream stream, StreamTask& task) noexcept;
  bool needs_gate(const StreamTask& task) const noexcept;
  cuda::Result launch(cuda::Stream stream, StreamTask& task) noexcept;
  cuda::Result end_submission(cuda::Stream stream, StreamTask& task) noexcept;
  // Of a task that the stream itself rings.
  bool is_being_submitted(const StreamTask& task) const noexcept { return !task.rung_by_call_ && !task.is_submitted(); }
  bool has_rung(const StreamTask& task) const noexcept;
  // Its caller may be kept by a driver that waits for this stream.
  void release_gate_in_time(StreamTask& task) noexcept;
  void release_gate(StreamTask& task) noexcept;
  // The last launch may still look at the words.
  bool is_kernel_inside() const noexcept;
  void wait_at_gate_on_host(std::uint32_t value) const noexcept;
  static void doorbell_by_call(void* task);
  static void doorbell_and_wait_by_call(void* task);

  // Calls and stream workers each write lines of memory that the other does not look at all the time.
  static constexpr std::size_t line = base::line_bytes;

  gpu::StreamCopyMemory memory_;
  gpu::StreamCopy device_;

  // Of calls:
  alignas(line) std::mutex submitting_;  // what stands in the stream and what stands in `pending_` have one order
  std::uint32_t sequence_ = 0;
  std::atomic<void*> last_task_memory_{nullptr};

  // Of both:
  alignas(line) std::atomic<bool> condemned_{false};
  std::atomic<bool> kernel_refused_{false};      // to the stream that it serves
  std::atomic<const void*> cached_of_{nullptr};  // whose bytes were in the page cache at the last task, where they were
  // Where one task follows the other: the next comes before the stream worker has ended the one before, and no third.
  std::array<std::atomic<void*>, 2> task_memory_{};

  // Of stream workers:
  alignas(line) base::EventCount gate_event_;           // for host functions that wait at the gate
  std::uint32_t next_number_ = gpu::first_stream_copy;  // of the one task that runs
  // Guarded by the pool's lock:
  TaskQueue<StreamTask> pending_;
  std::vector<StreamTask*> rung_;  // by a call, while the task before was still at work; one of a graph twice, perhaps
  std::unique_ptr<StreamCopier> copier_;
  State state_ = State::resting;
  gpu::StreamWait wait_;                      // of the last task, until its kernel has begun
  bool busy_ = false;                         // it counts as such
  bool polled_ = false;                       // it stands among those that are
  bool kept_ = true;                          // by the stream that it serves
  std::optional<std::uint32_t> last_launch_;  // the number that it begins with; none that looks at the words any more
};

// Waits until no task with this subject waits or runs, as long as one of them ends every so many milliseconds. Answers
// whether none does. Control plane.
bool wait_for_stream_tasks(const void* subject, int milliseconds) noexcept;

// Is there a thread that would attend to a stream? Without one nothing may be put into it that waits for us.
enum class Attendance : std::uint8_t { there, no_memory, no_thread };
Attendance attendance_of_streams() noexcept;

// How many streams have work of ours now; and at a time, as far as can be told.
unsigned busy_streams() noexcept;
unsigned peak_streams() noexcept;
// How many helpers each of them may have, so that all of them together, the program's thread and the one that watches
// find a processor.
unsigned helpers_for_a_stream(unsigned wanted) noexcept;

// Begins to load the kernels of a context unless one of its streams waits for us: the driver would wait for that
// stream, and most of its other calls would wait for the driver.
void load_unless_streams_wait(gpu::Kernels& kernels) noexcept;
// The same, and waits for it. False: they are not loaded, or not yet.
bool await_kernels_unless_streams_wait(gpu::Kernels& kernels, int milliseconds) noexcept;

// How many channels there are, in use or not: what is pinned for streams.
std::size_t stream_channel_count() noexcept;

// Around fork: the child has no streams.
void channels_before_fork() noexcept;
void channels_after_fork(bool in_child) noexcept;

}  // namespace sluice::stream
