// SPDX-License-Identifier: Apache-2.0
// Capturing streams into a graph: what joins a capture, what ends it, what breaks it.
#include <algorithm>
#include <utility>

#include "machine.h"
#include "refusal.h"
#include "stream.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

// Whether calls that may disturb a capture are refused to the calling thread because of this one.
bool forbids_unsafe_calls(const Capture& capture, int thread_mode) {
  if (capture.mode == cuda::capture_relaxed || thread_mode == cuda::capture_relaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return thread_mode == cuda::capture_global && capture.mode == cuda::capture_global;
}

// Whether every node of `wanted` is one of `from`, or something that they depend on.
bool reaches(const Graph& graph, std::vector<std::size_t> from, const std::vector<std::size_t>& wanted) {
  std::vector<bool> seen(graph.nodes.size());
  while (!from.empty()) {
    const std::size_t node = from.back();
    from.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    from.insert(from.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::all_of(wanted.begin(), wanted.end(), [&](std::size_t node) { return seen[node]; });
}

}  // namespace

void Streams::capture(Stream& stream, std::function<void()> body) const {
  CapturedPoint& point = stream.captured_;
  require(!point.capture->invalidated, cuda::error_stream_capture_invalidated);
  auto& nodes = point.capture->graph->nodes;
  if (body == nullptr) return;  // a marker needs no node
  nodes.push_back({std::move(body), point.after});
  point.after = {nodes.size() - 1};
}

// The legacy stream would have to wait for a stream that is only captured.
void Streams::refuse_implicit_capture(const Stream& stream) const {
  if (stream.kind_ != StreamKind::legacy) return;
  for (const auto& other : streams_) {
    if (other->kind_ == StreamKind::non_blocking || other->captured_.capture == nullptr) continue;
    other->captured_.capture->invalidated = true;
    throw Refusal(cuda::error_stream_capture_implicit);
  }
}

void Streams::begin_capture(Stream& stream, cuda::CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  require(stream.kind_ != StreamKind::legacy, cuda::error_stream_capture_unsupported);
  require(stream.captured_.capture == nullptr, cuda::error_illegal_state);
  auto begun = std::make_shared<Capture>();
  begun->mode = mode;
  begun->origin = &stream;
  begun->thread = std::this_thread::get_id();
  begun->id = machine().fresh_id();
  stream.captured_ = {std::move(begun), {}};
}

std::shared_ptr<Graph> Streams::end_capture(Stream& stream) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> ended = stream.captured_.capture;
  require(ended != nullptr, cuda::error_illegal_state);
  require(ended->origin == &stream, cuda::error_stream_capture_unmatched);
  require(ended->mode == cuda::capture_relaxed || ended->thread == std::this_thread::get_id(),
          cuda::error_stream_capture_wrong_thread);
  const std::vector<std::size_t> last = stream.captured_.after;
  bool joined = true;
  for (const auto& other : streams_) {
    if (other->captured_.capture != ended) continue;
    joined = joined && reaches(*ended->graph, last, other->captured_.after);
    other->captured_ = {};
  }
  // From now on nothing can join it, by an event that was recorded in it.
  const bool broken = std::exchange(ended->invalidated, true);
  require(!broken, cuda::error_stream_capture_invalidated);
  require(joined, cuda::error_stream_capture_unjoined);
  return ended->graph;
}

Streams::CaptureState Streams::capture_state(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  const auto& current = stream.captured_.capture;
  if (current == nullptr) return {cuda::capture_none, 0};
  return {current->invalidated ? cuda::capture_invalidated : cuda::capture_active, current->id};
}

CapturedPoint Streams::captured_point(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  return stream.captured_;
}

void Streams::join_capture(Stream& stream, const CapturedPoint& point) {
  const std::lock_guard lock(mutex_);
  require(!point.capture->invalidated, cuda::error_stream_capture_invalidated);
  CapturedPoint& mine = stream.captured_;
  if (mine.capture == nullptr) {
    mine = point;
    return;
  }
  if (mine.capture != point.capture) {
    mine.capture->invalidated = true;
    point.capture->invalidated = true;
    throw Refusal(cuda::error_stream_capture_merge);
  }
  for (const std::size_t node : point.after) {
    if (std::find(mine.after.begin(), mine.after.end(), node) == mine.after.end()) mine.after.push_back(node);
  }
}

void Streams::require_not_captured(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto& current = stream.captured_.capture;
  if (current != nullptr) {
    current->invalidated = true;
    throw Refusal(cuda::error_stream_capture_unsupported);
  }
  refuse_implicit_capture(stream);
}

void Streams::require_no_capture_in_the_way() {
  const int mode = this_thread().capture_mode;
  const std::lock_guard lock(mutex_);
  bool forbidden = false;
  for (const auto& stream : streams_) {
    const auto& current = stream->captured_.capture;
    if (current == nullptr || !forbids_unsafe_calls(*current, mode)) continue;
    current->invalidated = true;
    forbidden = true;
  }
  require(!forbidden, cuda::error_stream_capture_unsupported);
}

void Streams::require_none_captured() {
  const std::lock_guard lock(mutex_);
  bool forbidden = false;
  for (const auto& stream : streams_) {
    if (stream->captured_.capture == nullptr) continue;
    stream->captured_.capture->invalidated = true;
    forbidden = true;
  }
  require(!forbidden, cuda::error_stream_capture_unsupported);
}

}  // namespace sluice::softgpu
