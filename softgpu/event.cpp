// SPDX-License-Identifier: Apache-2.0
// Recording an event.
#include "event.h"

namespace sluice::softgpu {

void Event::record(Streams& streams, Stream& stream) {
  auto recording = std::make_shared<Recording>();
  // Under the lock from submission to publication, so that of two recordings the later one stays.
  const std::lock_guard lock(mutex_);
  captured_ = streams.captured_point(stream);
  if (captured_.capture != nullptr) {
    latest_ = nullptr;
    return;
  }
  recording->done = streams.submit(stream, [stamp = recording] { stamp->passed = std::chrono::steady_clock::now(); });
  latest_ = std::move(recording);
}

CapturedPoint Event::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

std::shared_ptr<const Recording> Event::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace sluice::softgpu
