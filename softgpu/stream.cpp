// SPDX-License-Identifier: Apache-2.0
// What waits for what.
#include "stream.h"

#include <utility>

#include "device.h"
#include "machine.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

bool pending(const std::shared_ptr<Completion>& completion) {
  return completion != nullptr && !completion->done();
}

}  // namespace

std::shared_ptr<Stream> Streams::create(const std::weak_ptr<Workspace>& workspace, StreamKind kind, int priority) {
  const std::uint64_t id = machine().fresh_id();
  auto stream = std::make_shared<Stream>(workspace, kind, priority, id, device_.channel_for_stream(priority));
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream;
}

bool Streams::next_wants_rest() {
  // Measured with driver 580: beside the legacy stream the 36th, 79th, 122nd, 164th and so on, three in 128.
  constexpr std::size_t first = 37;
  const auto rests_up_to = [](std::size_t streams) { return streams < first ? 0 : (streams - first) * 3 / 128 + 1; };
  const std::lock_guard lock(mutex_);
  const std::size_t with_it = streams_.size() + 1;
  if (with_it <= most_streams_) return false;
  return rests_up_to(with_it) > rests_up_to(std::exchange(most_streams_, with_it));
}

void Streams::retire(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  if (std::erase(streams_, stream) == 0) return;
  std::erase_if(left_, [](const LeftBehind& left) { return left.last->done(); });
  if (pending(stream->last_)) left_.push_back({stream->kind_, stream->last_});
  device_.release_channel(*stream->channels_.front());
}

std::vector<std::shared_ptr<Stream>> Streams::all() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

// What the legacy stream waits for: all blocking streams. What a blocking stream waits for: the legacy stream.
Streams::Pending Streams::earlier_for(const Stream& stream) const {
  Pending earlier;
  if (stream.kind_ == StreamKind::non_blocking) return earlier;
  const bool legacy = stream.kind_ == StreamKind::legacy;
  for (const auto& other : streams_) {
    const bool concerns = legacy ? other->kind_ != StreamKind::non_blocking : other->kind_ == StreamKind::legacy;
    if (other.get() != &stream && concerns && pending(other->last_)) earlier.push_back(other->last_);
  }
  if (legacy) {
    for (const LeftBehind& left : left_) {
      if (left.kind != StreamKind::non_blocking && pending(left.last)) earlier.push_back(left.last);
    }
  }
  return earlier;
}

std::shared_ptr<Completion> Streams::submit(Stream& stream, std::function<void()> body, Pending after, Queue queue) {
  auto done = std::make_shared<Completion>();
  const std::lock_guard lock(mutex_);
  if (stream.captured_.capture != nullptr) {
    require(after.empty(), cuda::error_stream_capture_isolation);  // work outside of the capture
    capture(stream, std::move(body));
    done->mark();
    return done;
  }
  refuse_implicit_capture(stream);
  for (auto& earlier : earlier_for(stream)) after.push_back(std::move(earlier));
  if (!device_.has_copy_queues()) queue = Queue::of_kernels;
  if (queue == Queue::as_before) queue = stream.last_queue_;
  const bool works = pending(stream.last_);
  const bool same = stream.last_queue_ == queue;
  if (works && !same) after.push_back(stream.last_);
  auto& channel = stream.channels_[static_cast<unsigned>(queue)];
  device_.choose_channel(queue, channel, !works || !same);
  channel->submit({std::move(after), std::move(body), done, health_});
  stream.last_ = done;
  stream.last_queue_ = queue;
  return done;
}

bool Streams::idle(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  return !pending(stream.last_) && earlier_for(stream).empty();
}

void Streams::synchronize(const Stream& stream) const {
  Pending all;
  {
    const std::lock_guard lock(mutex_);
    all = earlier_for(stream);
    if (pending(stream.last_)) all.push_back(stream.last_);
  }
  for (const auto& completion : all) completion->wait();
}

void Streams::synchronize() const {
  Pending all;
  {
    const std::lock_guard lock(mutex_);
    for (const LeftBehind& left : left_) all.push_back(left.last);
    for (const auto& stream : streams_) {
      if (pending(stream->last_)) all.push_back(stream->last_);
    }
  }
  for (const auto& completion : all) completion->wait();
}

std::shared_ptr<Channel> Streams::host_functions() {
  const std::lock_guard lock(mutex_);
  if (host_functions_ == nullptr) host_functions_ = std::make_shared<Channel>();
  return host_functions_;
}

void Streams::close() {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) device_.release_channel(*stream->channels_.front());
  streams_.clear();
  if (host_functions_ != nullptr) host_functions_->close();
}

}  // namespace sluice::softgpu
