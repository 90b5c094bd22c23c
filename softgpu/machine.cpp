// SPDX-License-Identifier: Apache-2.0
// Start of the soft GPU, and its end in a forked child.
#include "machine.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

// The address space for reservations, as a multiple of a device's memory.
constexpr std::uint64_t window_share = 32;

// Set once, never freed: threads and exit handlers may use it to the very end.
std::atomic<Machine*> the_machine{nullptr};
std::atomic<bool> is_open{false};
std::atomic<bool> lost{false};
std::mutex start_mutex;

void lose_in_child() {
  lost.store(true);
}

}  // namespace

Machine::Machine() : knobs(read_knobs()), virtual_memory((knobs.memory_mib << 20U) * window_share) {
  for (int ordinal = 0; ordinal < knobs.devices; ++ordinal) {
    devices.push_back(std::make_unique<Device>(ordinal, knobs));
  }
  for (const auto& device : devices) {
    contexts.insert(device->primary());
    pools.insert(device->default_pool());
  }
}

bool Machine::is_device_address(std::uint64_t address) const noexcept {
  if (virtual_memory.contains(address)) return true;
  return std::any_of(devices.begin(), devices.end(),
                     [address](const auto& device) { return device->memory().contains(address); });
}

void start_machine() {
  const std::lock_guard lock(start_mutex);
  if (the_machine.load() == nullptr) {
    auto fresh = std::make_unique<Machine>();
    require(!fresh->devices.empty(), cuda::error_no_device);
    ::pthread_atfork(nullptr, nullptr, lose_in_child);
    the_machine.store(fresh.release());
  }
}

void open_machine() noexcept {
  is_open.store(true, std::memory_order_release);
}

bool machine_is_usable() noexcept {
  return is_open.load(std::memory_order_acquire) && !lost.load();
}

bool machine_was_lost() noexcept {
  return lost.load();
}

Machine& machine() noexcept {
  return *the_machine.load(std::memory_order_acquire);
}

void wait_for_users(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::pooled) return;
  const auto context = machine().contexts.find(allocation.context);
  if (context == nullptr) return;
  const auto workspace = context->workspace();
  if (workspace == nullptr || workspace->id() != allocation.workspace) return;
  if (machine().knobs.keeps_calls != 0) {
    workspace->bring_to_rest();
  } else {
    workspace->streams().synchronize();
  }
}

}  // namespace sluice::softgpu
