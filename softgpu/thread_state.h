// SPDX-License-Identifier: Apache-2.0
// What belongs to one thread of the program: its stack of contexts, its default streams, its capture mode.
#pragma once

#include <memory>
#include <vector>

#include "context.h"

namespace sluice::softgpu {

struct ThreadState {
  ThreadState() = default;
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState();

  std::vector<std::shared_ptr<Context>> contexts;  // the last one is current
  std::vector<std::shared_ptr<Stream>> default_streams;
  int capture_mode = cuda::capture_global;
};

// Made with the first use; goes when the thread ends, but not with the process: an exit handler may still call us.
ThreadState& this_thread();

// Null when no context is current.
std::shared_ptr<Context> current_context();

// The living, healthy context that is current. Throws Refusal: invalid context, context is destroyed, or its sticky
// error.
std::shared_ptr<Workspace> current_workspace();

// True on the threads that run host functions, where no CUDA call is allowed.
bool& inside_host_function();

}  // namespace sluice::softgpu
