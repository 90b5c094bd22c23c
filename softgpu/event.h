// SPDX-License-Identifier: Apache-2.0
// Events: a point in a stream, and the time when the stream passed it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "context.h"

namespace sluice::softgpu {

// One recording of an event.
struct Recording {
  std::shared_ptr<Completion> done;
  std::chrono::steady_clock::time_point passed;  // written before `done` is
};

class Event {
 public:
  Event(std::weak_ptr<Workspace> workspace, unsigned flags) : workspace_(std::move(workspace)), flags_(flags) {}

  const std::weak_ptr<Workspace>& workspace() const { return workspace_; }
  bool has_timing() const { return (flags_ & cuda::event_disable_timing) == 0; }

  void record(Streams& streams, Stream& stream);
  // The latest recording; null before the first, and when it was recorded in a capture.
  std::shared_ptr<const Recording> latest() const;
  // Where in a capture it was recorded last; no capture when it was recorded in none.
  CapturedPoint captured() const;

 private:
  std::weak_ptr<Workspace> workspace_;
  unsigned flags_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Recording> latest_;
  CapturedPoint captured_;
};

}  // namespace sluice::softgpu
