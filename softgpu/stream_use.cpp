// SPDX-License-Identifier: Apache-2.0
// From a handle to a stream.
#include "stream_use.h"

#include "machine.h"
#include "refusal.h"
#include "thread_state.h"

namespace sluice::softgpu {

StreamUse use_stream(cuda::Stream handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value <= per_thread_handle) {
    auto workspace = current_workspace();
    auto stream = value == per_thread_handle ? workspace->per_thread_stream() : workspace->legacy_stream();
    return {std::move(workspace), std::move(stream)};
  }
  auto stream = machine().streams.find(handle);
  require(stream != nullptr, cuda::error_invalid_handle);
  auto workspace = stream->workspace().lock();
  require(workspace != nullptr, cuda::error_context_is_destroyed);
  workspace->require_healthy();
  return {std::move(workspace), std::move(stream)};
}

}  // namespace sluice::softgpu
