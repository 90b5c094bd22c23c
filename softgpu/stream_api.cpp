// SPDX-License-Identifier: Apache-2.0
// Entry points about streams and what is put into them.
#include <algorithm>

#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "event.h"
#include "machine.h"
#include "stream_use.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

cuda::Result create(const char* name, cuda::Stream* stream, unsigned flags, int priority) {
  return answer(name, [&] {
    const auto workspace = current_workspace();
    require(stream != nullptr && (flags & ~cuda::stream_non_blocking) == 0);
    workspace->wait_while_brought_to_rest();
    if (workspace->streams().next_wants_rest()) workspace->bring_to_rest();
    const auto kind = flags == cuda::stream_non_blocking ? StreamKind::non_blocking : StreamKind::blocking;
    auto made = workspace->streams().create(workspace, kind, std::clamp(priority, greatest_priority, least_priority));
    *stream = reinterpret_cast<cuda::Stream>(made.get());
    machine().streams.insert(std::move(made));
  });
}

// A host function on the context's one thread for them, while the stream waits.
void run_host_function(const StreamUse& use, std::function<void()> function) {
  auto channel = use.workspace->streams().host_functions();
  use.submit([channel = std::move(channel), function = std::move(function)] {
    auto done = std::make_shared<Completion>();
    channel->submit({{},
                     [&function] {
                       inside_host_function() = true;
                       function();
                       inside_host_function() = false;
                     },
                     done,
                     std::make_shared<Health>()});
    done->wait();
  });
}

}  // namespace

cuda::Result cuStreamCreate(cuda::Stream* stream, unsigned flags) {
  return create(__func__, stream, flags, 0);
}

cuda::Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int priority) {
  return create(__func__, stream, flags, priority);
}

cuda::Result cuStreamDestroy_v2(cuda::Stream stream) {
  return answer(__func__, [&] {
    const auto ended = machine().streams.remove(stream);
    require(ended != nullptr, cuda::error_invalid_handle);
    if (const auto workspace = ended->workspace().lock()) workspace->streams().retire(ended);
  });
}

cuda::Result cuStreamSynchronize(cuda::Stream stream) {
  return answer(__func__, [&] {
    const StreamUse use = use_stream(stream);
    use.workspace->streams().require_not_captured(*use.stream);
    use.workspace->streams().synchronize(*use.stream);
    use.workspace->require_healthy();
  });
}

cuda::Result cuStreamQuery(cuda::Stream stream) {
  return answer(__func__, [&] {
    const StreamUse use = use_stream(stream);
    use.workspace->streams().require_not_captured(*use.stream);
    return use.idle() ? cuda::success : cuda::error_not_ready;
  });
}

cuda::Result cuStreamGetCtx(cuda::Stream stream, cuda::Context* context) {
  return answer(__func__, [&] {
    require(context != nullptr);
    *context = use_stream(stream).workspace->context().handle();
  });
}

cuda::Result cuStreamGetCtx_v2(cuda::Stream stream, cuda::Context* context, void** green_context) {
  return answer(__func__, [&] {
    require(context != nullptr);
    *context = use_stream(stream).workspace->context().handle();
    if (green_context != nullptr) *green_context = nullptr;
  });
}

cuda::Result cuStreamGetDevice(cuda::Stream stream, cuda::Device* device) {
  return answer(__func__, [&] {
    require(device != nullptr);
    *device = use_stream(stream).workspace->device().ordinal();
  });
}

cuda::Result cuStreamGetId(cuda::Stream stream, unsigned long long* id) {
  return answer(__func__, [&] {
    require(id != nullptr);
    const StreamUse use = use_stream(stream);
    use.workspace->streams().require_not_captured(*use.stream);
    *id = use.stream->id();
  });
}

cuda::Result cuStreamGetFlags(cuda::Stream stream, unsigned* flags) {
  return answer(__func__, [&] {
    require(flags != nullptr);
    const bool non_blocking = use_stream(stream).stream->kind() == StreamKind::non_blocking;
    *flags = non_blocking ? cuda::stream_non_blocking : 0;
  });
}

cuda::Result cuStreamGetPriority(cuda::Stream stream, int* priority) {
  return answer(__func__, [&] {
    require(priority != nullptr);
    *priority = use_stream(stream).stream->priority();
  });
}

cuda::Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags) {
  constexpr unsigned external = 1;
  return answer(__func__, [&] {
    const StreamUse use = use_stream(stream);
    const auto awaited = machine().events.find(event);
    require(awaited != nullptr, cuda::error_invalid_handle);
    require((flags & ~external) == 0);
    if (const CapturedPoint point = awaited->captured(); point.capture != nullptr) {
      use.workspace->streams().join_capture(*use.stream, point);
      return;
    }
    const auto recording = awaited->latest();
    require(!use.captured() || recording == nullptr, cuda::error_stream_capture_isolation);
    if (recording != nullptr && !recording->done->done()) use.submit(nullptr, {recording->done});
  });
}

cuda::Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return answer(__func__, [&] {
    require(mode != nullptr && *mode >= cuda::capture_global && *mode <= cuda::capture_relaxed);
    std::swap(*mode, this_thread().capture_mode);
  });
}

cuda::Result cuLaunchHostFunc(cuda::Stream stream, HostFunction function, void* data) {
  return answer(__func__, [&] {
    require(function != nullptr);
    run_host_function(use_stream(stream), [function, data] { function(data); });
  });
}

cuda::Result cuStreamAddCallback(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags) {
  return answer(__func__, [&] {
    require(callback != nullptr && flags == 0);
    run_host_function(use_stream(stream), [callback, stream, data] { callback(stream, cuda::success, data); });
  });
}

}  // namespace sluice::softgpu
