// SPDX-License-Identifier: Apache-2.0
// Entry points about contexts and the stack of them that each thread has.
#include <algorithm>

#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

cuda::Result create(const char* name, cuda::Context* context, unsigned flags, cuda::Device device,
                    unsigned api_version) {
  return answer(name, [&] {
    require(context != nullptr);
    require_context_flags(flags);
    auto made = std::make_shared<Context>(device_of(device), ContextKind::created, api_version);
    made->open(flags);
    this_thread().contexts.push_back(made);
    *context = made->handle();
    machine().contexts.insert(std::move(made));
  });
}

// The context that is meant: the given one, or with null the current one.
std::shared_ptr<Context> chosen_context(cuda::Context handle) {
  if (handle != nullptr) return context_of(handle);
  auto context = current_context();
  require(context != nullptr, cuda::error_invalid_context);
  return context;
}

void synchronize(Workspace& workspace) {
  workspace.streams().require_none_captured();
  workspace.streams().synchronize();
  workspace.require_healthy();
}

}  // namespace

cuda::Result cuCtxCreate_v2(cuda::Context* context, unsigned flags, cuda::Device device) {
  return create(__func__, context, flags, device, 3020);
}

cuda::Result cuCtxCreate_v3(cuda::Context* context, void* affinity, int affinities, unsigned flags,
                            cuda::Device device) {
  if (affinity != nullptr || affinities != 0) return cuda::error_not_supported;
  return create(__func__, context, flags, device, 3020);
}

cuda::Result cuCtxCreate_v4(cuda::Context* context, void* parameters, unsigned flags, cuda::Device device) {
  if (parameters != nullptr) return cuda::error_not_supported;
  return create(__func__, context, flags, device, 3020);
}

cuda::Result cuCtxDestroy_v2(cuda::Context context) {
  return answer(__func__, [&] {
    const auto ended = context_of(context);
    require(ended->kind() == ContextKind::created, cuda::error_invalid_context);
    machine().contexts.remove(context);
    ended->close();
    // It stays on the stacks of other threads, which learn there that it is destroyed.
    auto& stack = this_thread().contexts;
    if (!stack.empty() && stack.back() == ended) stack.pop_back();
  });
}

cuda::Result cuCtxPushCurrent_v2(cuda::Context context) {
  return answer(__func__, [&] {
    require(context != nullptr);
    auto pushed = context_of(context);
    this_thread().contexts.push_back(std::move(pushed));
  });
}

cuda::Result cuCtxPopCurrent_v2(cuda::Context* context) {
  return answer(__func__, [&] {
    auto& stack = this_thread().contexts;
    require(!stack.empty(), cuda::error_invalid_context);
    if (context != nullptr) *context = stack.back()->handle();
    stack.pop_back();
  });
}

cuda::Result cuCtxSetCurrent(cuda::Context context) {
  return answer(__func__, [&] {
    auto& stack = this_thread().contexts;
    if (context == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return;
    }
    auto chosen = context_of(context);
    if (stack.empty()) {
      stack.push_back(std::move(chosen));
    } else {
      stack.back() = std::move(chosen);
    }
  });
}

cuda::Result cuCtxGetCurrent(cuda::Context* context) {
  return answer(__func__, [&] {
    require(context != nullptr);
    const auto current = current_context();
    *context = current != nullptr ? current->handle() : nullptr;
  });
}

cuda::Result cuCtxGetDevice(cuda::Device* device) {
  return cuCtxGetDevice_v2(device, nullptr);
}

cuda::Result cuCtxGetDevice_v2(cuda::Device* device, cuda::Context context) {
  return answer("cuCtxGetDevice", [&] {
    require(device != nullptr);
    // Also of a primary context that was reset: it is still the device's.
    const auto chosen = chosen_context(context);
    if (chosen->kind() == ContextKind::created) chosen->living_workspace();
    *device = chosen->device().ordinal();
  });
}

cuda::Result cuCtxGetFlags(unsigned* flags) {
  return answer(__func__, [&] {
    require(flags != nullptr);
    *flags = current_workspace()->flags().load();
  });
}

cuda::Result cuCtxSetFlags(unsigned flags) {
  return answer(__func__, [&] {
    require_context_flags(flags);
    current_workspace()->flags().store(flags);
  });
}

cuda::Result cuCtxGetId(cuda::Context context, unsigned long long* id) {
  return answer(__func__, [&] {
    require(id != nullptr);
    *id = chosen_context(context)->living_workspace()->id();
  });
}

cuda::Result cuCtxGetApiVersion(cuda::Context context, unsigned* version) {
  return answer(__func__, [&] {
    require(version != nullptr);
    *version = chosen_context(context)->api_version();
  });
}

cuda::Result cuCtxSynchronize() {
  return answer(__func__, [&] { synchronize(*current_workspace()); });
}

cuda::Result cuCtxSynchronize_v2(cuda::Context context) {
  return answer(__func__, [&] { synchronize(*chosen_context(context)->living_workspace()); });
}

cuda::Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return answer(__func__, [&] {
    current_workspace();
    if (least != nullptr) *least = least_priority;
    if (greatest != nullptr) *greatest = greatest_priority;
  });
}

cuda::Result cuCtxEnablePeerAccess(cuda::Context peer, unsigned flags) {
  return answer(__func__, [&] {
    require(flags == 0);
    const auto workspace = current_workspace();
    const auto other = context_of(peer);
    other->living_workspace();
    require(&other->device() != &workspace->device(), cuda::error_invalid_device);
    require(machine().knobs.peers.join(workspace->device().ordinal(), other->device().ordinal()),
            cuda::error_peer_access_unsupported);
    require(workspace->enable_peer(*other), cuda::error_peer_access_already_enabled);
  });
}

cuda::Result cuCtxDisablePeerAccess(cuda::Context peer) {
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(workspace->disable_peer(*context_of(peer)), cuda::error_peer_access_not_enabled);
  });
}

}  // namespace sluice::softgpu
