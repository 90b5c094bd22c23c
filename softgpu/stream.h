// SPDX-License-Identifier: Apache-2.0
// Streams, and the order among the streams of one context.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "channel.h"
#include "gpu/cuda_abi.h"
#include "graph.h"

namespace sluice::softgpu {

class Device;
class Workspace;

// Lower numbers come first; the soft GPU notes a priority and does not act on it, as CUDA allows.
inline constexpr int least_priority = 0;
inline constexpr int greatest_priority = -5;

enum class StreamKind {
  legacy,        // the default stream of a context: synchronises with every blocking stream
  per_thread,    // a thread's own default stream: a blocking stream
  blocking,      // made without flags
  non_blocking,  // CU_STREAM_NON_BLOCKING: in no other stream's way
};

class Stream {
 public:
  Stream(std::weak_ptr<Workspace> workspace, StreamKind kind, int priority, std::uint64_t id,
         std::shared_ptr<Channel> channel)
      : workspace_(std::move(workspace)), kind_(kind), priority_(priority), id_(id), channels_{std::move(channel)} {}

  const std::weak_ptr<Workspace>& workspace() const { return workspace_; }
  StreamKind kind() const { return kind_; }
  int priority() const { return priority_; }
  std::uint64_t id() const { return id_; }

 private:
  friend class Streams;

  std::weak_ptr<Workspace> workspace_;
  StreamKind kind_;
  int priority_;
  std::uint64_t id_;
  std::array<std::shared_ptr<Channel>, queue_kinds> channels_;  // by Queue; those of copies when they are used first
  // Guarded by Streams:
  Queue last_queue_ = Queue::of_kernels;
  std::shared_ptr<Completion> last_;  // of the work given to it
  CapturedPoint captured_;            // while it is captured
};

// The streams of one context. Every submission passes one lock, so "earlier" has one meaning in a context. An
// operation waits only for earlier ones, so nothing here can wait in a circle. Any thread may call.
class Streams {
 public:
  Streams(Device& device, std::shared_ptr<const Health> health) : device_(device), health_(std::move(health)) {}

  std::shared_ptr<Stream> create(const std::weak_ptr<Workspace>& workspace, StreamKind kind, int priority);
  // As an H200's driver has it: some of those that are made wait until all have come to rest. Memory of streams that
  // were destroyed serves others without that.
  bool next_wants_rest();
  // Its work is still done; nothing more may be submitted to it.
  void retire(const std::shared_ptr<Stream>& stream);
  std::vector<std::shared_ptr<Stream>> all() const;

  // Done when the body has run; the body runs after everything that the stream has to wait for.
  std::shared_ptr<Completion> submit(Stream& stream, std::function<void()> body,
                                     std::vector<std::shared_ptr<Completion>> after = {},
                                     Queue queue = Queue::of_kernels);
  // Capturing: what is submitted to the stream becomes nodes of a graph. All may throw Refusal, and a refusal that
  // CUDA defines so invalidates the capture.
  void begin_capture(Stream& stream, cuda::CaptureMode mode);
  std::shared_ptr<Graph> end_capture(Stream& stream);
  struct CaptureState {
    cuda::CaptureStatus status;
    std::uint64_t id;
  };
  CaptureState capture_state(const Stream& stream) const;
  // Where the stream stands in its capture; no capture when it is in none.
  CapturedPoint captured_point(const Stream& stream) const;
  // The stream waits for a captured point, and so becomes part of that capture.
  void join_capture(Stream& stream, const CapturedPoint& point);
  // Refuses what waits for the stream while it is captured.
  void require_not_captured(const Stream& stream);
  // Refuses what waits for every stream of the context, or changes its memory, while this thread must not do so.
  void require_no_capture_in_the_way();
  void require_none_captured();

  // Nothing is pending that work submitted to this stream now would have to wait for.
  bool idle(const Stream& stream) const;
  // Waits for all that work submitted to this stream now would have to wait for. That takes no queue.
  void synchronize(const Stream& stream) const;
  // Waits for all that was submitted to any stream before.
  void synchronize() const;
  // The one thread that runs host functions.
  std::shared_ptr<Channel> host_functions();
  // Ends the threads, after what they have still to do.
  void close();

 private:
  using Pending = std::vector<std::shared_ptr<Completion>>;
  struct LeftBehind {
    StreamKind kind;
    std::shared_ptr<Completion> last;
  };
  Pending earlier_for(const Stream& stream) const;
  // With the lock held: makes the work a node of the stream's capture.
  void capture(Stream& stream, std::function<void()> body) const;
  void refuse_implicit_capture(const Stream& stream) const;

  Device& device_;
  std::shared_ptr<const Health> health_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::size_t most_streams_ = 0;  // at a time, so far
  std::vector<LeftBehind> left_;  // the last work of streams that were destroyed
  std::shared_ptr<Channel> host_functions_;
};

}  // namespace sluice::softgpu
