// SPDX-License-Identifier: Apache-2.0
// A pthread key instead of a thread_local object: the main thread's thread_local objects are destroyed while exit
// handlers that still use CUDA are waiting for their turn; its key values are not.
#include "thread_state.h"

#include <pthread.h>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

thread_local ThreadState* state = nullptr;

void forget(void* ended) {
  delete static_cast<ThreadState*>(ended);
  state = nullptr;
}

pthread_key_t make_key() {
  pthread_key_t key{};
  require(::pthread_key_create(&key, forget) == 0, cuda::error_out_of_memory);
  return key;
}

}  // namespace

ThreadState::~ThreadState() {
  for (const auto& stream : default_streams) {
    if (const auto workspace = stream->workspace().lock()) workspace->streams().retire(stream);
  }
}

ThreadState& this_thread() {
  if (state == nullptr) {
    static const pthread_key_t key = make_key();
    auto fresh = std::make_unique<ThreadState>();
    require(::pthread_setspecific(key, fresh.get()) == 0, cuda::error_out_of_memory);
    state = fresh.release();
  }
  return *state;
}

std::shared_ptr<Context> current_context() {
  const auto& contexts = this_thread().contexts;
  return contexts.empty() ? nullptr : contexts.back();
}

std::shared_ptr<Workspace> current_workspace() {
  const std::shared_ptr<Context> context = current_context();
  require(context != nullptr, cuda::error_invalid_context);
  std::shared_ptr<Workspace> workspace = context->living_workspace();
  workspace->require_healthy();
  return workspace;
}

bool& inside_host_function() {
  static thread_local bool inside = false;
  return inside;
}

}  // namespace sluice::softgpu
