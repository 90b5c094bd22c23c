// SPDX-License-Identifier: Apache-2.0
// Entry points about events.
#include "answer.h"
#include "entry_points.h"
#include "event.h"
#include "machine.h"
#include "stream_use.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

std::shared_ptr<Event> event_of(cuda::Event handle) {
  auto event = machine().events.find(handle);
  require(event != nullptr, cuda::error_invalid_handle);
  return event;
}

// The context of an event, alive and healthy.
std::shared_ptr<Workspace> workspace_of(const Event& event) {
  auto workspace = event.workspace().lock();
  require(workspace != nullptr, cuda::error_context_is_destroyed);
  workspace->require_healthy();
  return workspace;
}

// The host cannot wait for what has only been captured. (The answer is the one that driver 580 gives on an H200 once
// the capture has ended.)
void require_outside_of_captures(const Event& event) {
  require(event.captured().capture == nullptr, cuda::error_invalid_value);
}

cuda::Result record(const char* name, cuda::Event event, cuda::Stream stream, unsigned flags) {
  constexpr unsigned external = 1;
  return answer(name, [&] {
    const auto recorded = event_of(event);
    const StreamUse use = use_stream(stream);
    require((flags & ~external) == 0);
    require(workspace_of(*recorded) == use.workspace, cuda::error_invalid_handle);
    if (machine().knobs.keeps_calls != 0 && !use.captured()) use.workspace->wait_while_brought_to_rest();
    recorded->record(use.workspace->streams(), *use.stream);
  });
}

cuda::Result elapsed(const char* name, float* milliseconds, cuda::Event start, cuda::Event end) {
  return answer(name, [&] {
    require(milliseconds != nullptr);
    const auto first = event_of(start);
    const auto second = event_of(end);
    workspace_of(*first);
    workspace_of(*second);
    require(first->has_timing() && second->has_timing(), cuda::error_invalid_handle);
    require_outside_of_captures(*first);
    require_outside_of_captures(*second);
    const auto from = first->latest();
    const auto to = second->latest();
    require(from != nullptr && to != nullptr, cuda::error_invalid_handle);
    require(from->done->done() && to->done->done(), cuda::error_not_ready);
    *milliseconds = std::chrono::duration<float, std::milli>(to->passed - from->passed).count();
  });
}

}  // namespace

cuda::Result cuEventCreate(cuda::Event* event, unsigned flags) {
  constexpr unsigned all_flags = cuda::event_blocking_sync | cuda::event_disable_timing | cuda::event_interprocess;
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(event != nullptr && (flags & ~all_flags) == 0);
    // An event that other processes see has no time.
    require((flags & cuda::event_interprocess) == 0 || (flags & cuda::event_disable_timing) != 0);
    auto made = std::make_shared<Event>(workspace, flags);
    *event = reinterpret_cast<cuda::Event>(made.get());
    machine().events.insert(std::move(made));
  });
}

cuda::Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  return record(__func__, event, stream, 0);
}

cuda::Result cuEventRecordWithFlags(cuda::Event event, cuda::Stream stream, unsigned flags) {
  return record(__func__, event, stream, flags);
}

cuda::Result cuEventQuery(cuda::Event event) {
  return answer(__func__, [&] {
    const auto asked = event_of(event);
    workspace_of(*asked);
    require_outside_of_captures(*asked);
    const auto recording = asked->latest();
    return recording == nullptr || recording->done->done() ? cuda::success : cuda::error_not_ready;
  });
}

cuda::Result cuEventSynchronize(cuda::Event event) {
  return answer(__func__, [&] {
    const auto awaited = event_of(event);
    const auto workspace = workspace_of(*awaited);
    require_outside_of_captures(*awaited);
    if (const auto recording = awaited->latest()) recording->done->wait();
    workspace->require_healthy();
  });
}

cuda::Result cuEventDestroy_v2(cuda::Event event) {
  return answer(__func__, [&] { require(machine().events.remove(event) != nullptr, cuda::error_invalid_handle); });
}

cuda::Result cuEventElapsedTime(float* milliseconds, cuda::Event start, cuda::Event end) {
  return elapsed(__func__, milliseconds, start, end);
}

cuda::Result cuEventElapsedTime_v2(float* milliseconds, cuda::Event start, cuda::Event end) {
  return elapsed(__func__, milliseconds, start, end);
}

}  // namespace sluice::softgpu
