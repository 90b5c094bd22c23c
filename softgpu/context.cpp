// SPDX-License-Identifier: Apache-2.0
// The life of a context.
#include "context.h"

#include <bit>

#include "device.h"
#include "event.h"
#include "machine.h"
#include "pool_memory.h"
#include "refusal.h"
#include "thread_state.h"

namespace sluice::softgpu {

Workspace::Workspace(Context& context, Device& device, unsigned flags)
    : context_(context),
      device_(device),
      id_(machine().fresh_id()),
      health_(std::make_shared<Health>()),
      streams_(device, health_),
      flags_(flags) {}

void Workspace::open() {
  legacy_ = streams_.create(weak_from_this(), StreamKind::legacy, 0);
}

void Workspace::bring_to_rest() {
  const std::lock_guard lock(resting_);
  streams_.synchronize();
}

std::shared_ptr<Stream> Workspace::per_thread_stream() {
  auto& mine = this_thread().default_streams;
  std::erase_if(mine, [](const auto& stream) { return stream->workspace().expired(); });
  for (const auto& stream : mine) {
    if (stream->workspace().lock().get() == this) return stream;
  }
  return mine.emplace_back(streams_.create(weak_from_this(), StreamKind::per_thread, 0));
}

void Workspace::require_healthy() const {
  const cuda::Result fault = health_->fault.load();
  if (fault != cuda::success) throw Refusal(fault);
}

void Workspace::break_down(cuda::Result why) {
  cuda::Result none = cuda::success;
  health_->fault.compare_exchange_strong(none, why);
  device_.residency().look_again();
}

bool Workspace::enable_peer(const Context& peer) {
  const std::lock_guard lock(peers_mutex_);
  return peers_.insert(&peer).second;
}

bool Workspace::disable_peer(const Context& peer) {
  const std::lock_guard lock(peers_mutex_);
  return peers_.erase(&peer) != 0;
}

int Workspace::access_to(const Allocation& memory) {
  if (is_host(memory.kind) || memory.kind == MemoryKind::managed) return cuda::access_read_write;
  if (memory.kind == MemoryKind::mapped) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(device_.ordinal());
    if ((memory.writers.load() & bit) != 0) return cuda::access_read_write;
    return (memory.readers.load() & bit) != 0 ? cuda::access_read : cuda::access_none;
  }
  if (memory.device == device_.ordinal()) return cuda::access_read_write;
  if (memory.kind == MemoryKind::pooled) {
    return std::static_pointer_cast<PoolMemory>(memory.storage)->pool->access_of(device_.ordinal());
  }
  const std::lock_guard lock(peers_mutex_);
  const bool is_enabled = peers_.contains(reinterpret_cast<const Context*>(memory.context));
  return is_enabled ? cuda::access_read_write : cuda::access_none;
}

void Workspace::tear_down() {
  // From here on queued bodies are skipped and waits for values end, so the streams run dry.
  health_->gone.store(true, std::memory_order_release);
  device_.residency().look_again();
  streams_.synchronize();
  for (const auto& stream : streams_.all()) machine().streams.remove(stream.get());
  const auto belongs_here = [this](const auto& object) { return object.workspace().lock().get() == this; };
  machine().events.remove_if(belongs_here);
  machine().modules.remove_if(belongs_here);
  machine().functions.remove_if(belongs_here);
  streams_.close();
  machine().allocations.remove_all_of(id_);
}

std::shared_ptr<Workspace> Context::workspace() const {
  const std::lock_guard lock(mutex_);
  return workspace_;
}

std::shared_ptr<Workspace> Context::living_workspace() const {
  std::shared_ptr<Workspace> alive = workspace();
  require(alive != nullptr, cuda::error_context_is_destroyed);
  return alive;
}

void Context::open(unsigned flags) {
  auto fresh = std::make_shared<Workspace>(*this, device_, flags);
  fresh->open();
  const std::lock_guard lock(mutex_);
  workspace_ = std::move(fresh);
}

void Context::close() {
  std::shared_ptr<Workspace> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(workspace_);
    workspace_ = nullptr;
  }
  if (ended != nullptr) ended->tear_down();
}

std::shared_ptr<Context> context_of(cuda::Context handle) {
  std::shared_ptr<Context> context = machine().contexts.find(handle);
  require(context != nullptr, cuda::error_invalid_context);
  return context;
}

void require_context_flags(unsigned flags) {
  constexpr unsigned all_flags = 0xff;
  constexpr unsigned scheduling_flags = 0x7;
  require((flags & ~all_flags) == 0 && std::popcount(flags & scheduling_flags) <= 1);
}

}  // namespace sluice::softgpu
