// SPDX-License-Identifier: Apache-2.0
// A stream handle as the program gave it, resolved for one call.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "context.h"

namespace sluice::softgpu {

// The special handles. A null handle means the legacy stream; entry points for per-thread default streams turn it
// into the other.
inline constexpr std::uintptr_t legacy_handle = 1;
inline constexpr std::uintptr_t per_thread_handle = 2;

// What a call without a stream uses, in either of its two forms.
inline constexpr cuda::Stream default_stream = nullptr;
inline const auto per_thread_stream = reinterpret_cast<cuda::Stream>(per_thread_handle);

inline cuda::Stream per_thread_if_null(cuda::Stream handle) {
  return handle == nullptr ? reinterpret_cast<cuda::Stream>(per_thread_handle) : handle;
}

// Keeps stream and context alive for the call.
struct StreamUse {
  std::shared_ptr<Workspace> workspace;
  std::shared_ptr<Stream> stream;

  std::shared_ptr<Completion> submit(std::function<void()> body, std::vector<std::shared_ptr<Completion>> after = {},
                                     Queue queue = Queue::of_kernels) const {
    return workspace->streams().submit(*stream, std::move(body), std::move(after), queue);
  }
  bool captured() const { return workspace->streams().capture_state(*stream).status != cuda::capture_none; }
  bool idle() const { return workspace->streams().idle(*stream); }
  // Waits, then throws Refusal when the context has got a sticky error meanwhile.
  void wait(const Completion& completion) const {
    completion.wait();
    workspace->require_healthy();
  }
};

// Throws Refusal: invalid handle, or for the default streams what current_workspace() throws.
StreamUse use_stream(cuda::Stream handle);

}  // namespace sluice::softgpu
