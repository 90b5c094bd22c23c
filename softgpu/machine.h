// SPDX-License-Identifier: Apache-2.0
// All of the soft GPU in one process: made by cuInit, never destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocation.h"
#include "device.h"
#include "event.h"
#include "handle_table.h"
#include "knobs.h"
#include "module.h"
#include "pool.h"
#include "replay.h"
#include "virtual_memory.h"

namespace sluice::softgpu {

struct Machine {
  Machine();

  const Knobs knobs;
  std::vector<std::unique_ptr<Device>> devices;
  HandleTable<Context> contexts;
  HandleTable<Stream> streams;
  HandleTable<Event> events;
  AllocationTable allocations;
  AllocationTable leaving;  // what was freed and may still be reached (class Leaving)
  VirtualMemory virtual_memory;
  HandleTable<MemoryPool> pools;
  HandleTable<Graph> graphs;
  HandleTable<GraphExec> graph_execs;
  HandleTable<Module> modules;
  HandleTable<Function> functions;
  HandleTable<Library> libraries;
  HandleTable<LibraryKernel> kernels;

  // A number that nothing else in this process has.
  std::uint64_t fresh_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  // Whether a device owns this address, allocated or not: then it is no host memory.
  bool is_device_address(std::uint64_t address) const noexcept;

 private:
  std::atomic<std::uint64_t> next_id_{1};
};

// Makes the machine, once. Throws Refusal (no device, out of memory).
void start_machine();

// From now on it may be used: cuInit has answered that all is well.
void open_machine() noexcept;

// Whether there is one that this process may use: not before cuInit, and not in the child of a fork, which inherits
// neither our threads nor the device.
bool machine_is_usable() noexcept;

// This process is the child of one that had a machine.
bool machine_was_lost() noexcept;

// Only where machine_is_usable().
Machine& machine() noexcept;

// Waits for the work of the context that owns the memory, which may still use it. Memory from a pool is freed in the
// order of a stream and waits for no work.
void wait_for_users(const Allocation& allocation);

}  // namespace sluice::softgpu
