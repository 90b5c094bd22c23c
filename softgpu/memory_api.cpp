// SPDX-License-Identifier: Apache-2.0
// Entry points for device and managed memory.
#include <algorithm>

#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "pool_memory.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

std::uint64_t allocate(const std::shared_ptr<Workspace>& workspace, std::uint64_t size) {
  require(size != 0);
  workspace->streams().require_no_capture_in_the_way();
  const auto storage = std::make_shared<DeviceStorage>(workspace->device().memory(), size);
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = MemoryKind::device;
  allocation->start = allocation->range_start = storage->address();
  allocation->size = allocation->range_size = size;
  allocation->bytes = storage->bytes();
  allocation->device = workspace->device().ordinal();
  allocation->context = workspace->context().handle();
  allocation->workspace = workspace->id();
  allocation->storage = storage;
  machine().allocations.insert(std::move(allocation));
  return storage->address();
}

}  // namespace

cuda::Result cuSluiceSoftGpuBackingAddress(Ptr pointer, std::size_t size, void** address, std::size_t* length) {
  return answer(__func__, [&] {
    require(size != 0 && address != nullptr && length != nullptr);
    const auto allocation = machine().allocations.find(pointer);
    require(allocation != nullptr);
    const bool on_device = !is_host(allocation->kind) && allocation->kind != MemoryKind::managed;
    require(on_device && device_of(allocation->device).memory().is_given(), cuda::error_not_supported);
    *address = allocation->bytes + (pointer - allocation->start);
    *length = std::min<std::size_t>(size, allocation->end() - pointer);
  });
}

cuda::Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return answer(__func__, [&] {
    require(free != nullptr && total != nullptr);
    const DeviceMemory& memory = current_workspace()->device().memory();
    *free = memory.available();
    *total = memory.size();
  });
}

cuda::Result cuMemAlloc_v2(Ptr* pointer, std::size_t size) {
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(pointer != nullptr);
    workspace->wait_while_brought_to_rest();
    *pointer = allocate(workspace, size);
  });
}

cuda::Result cuMemAllocPitch_v2(Ptr* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                                unsigned element) {
  constexpr std::size_t granule = 512;
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(pointer != nullptr && pitch != nullptr && (element == 4 || element == 8 || element == 16));
    require(width != 0 && height != 0);
    const std::size_t row = (width + granule - 1) / granule * granule;
    *pointer = allocate(workspace, row * height);
    *pitch = row;
  });
}

cuda::Result cuMemFree_v2(Ptr pointer) {
  return answer(__func__, [&] {
    // The memory says whose it is: no context has to be current.
    if (pointer == 0) return;
    if (current_context() != nullptr) current_workspace()->streams().require_no_capture_in_the_way();
    const auto leaving = take_leave(pointer, [](const Allocation& allocation) {
      return allocation.kind == MemoryKind::device || allocation.kind == MemoryKind::managed ||
             allocation.kind == MemoryKind::pooled;
    });
    require(leaving != nullptr);
    wait_for_users(leaving->memory());
    if (leaving->memory().kind == MemoryKind::pooled) {
      const auto memory = std::static_pointer_cast<PoolMemory>(leaving->memory().storage);
      memory->pool->free_now(memory->storage);
    }
  });
}

cuda::Result cuMemAllocManaged(Ptr* pointer, std::size_t size, unsigned flags) {
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(pointer != nullptr && size != 0 && (flags == cuda::attach_global || flags == cuda::attach_host));
    const auto storage = std::make_shared<HostStorage>(size);
    auto allocation = std::make_shared<Allocation>();
    allocation->kind = MemoryKind::managed;
    allocation->bytes = storage->bytes();
    allocation->start = allocation->range_start = reinterpret_cast<std::uint64_t>(allocation->bytes);
    allocation->size = allocation->range_size = size;
    allocation->device = workspace->device().ordinal();
    allocation->context = workspace->context().handle();
    allocation->workspace = workspace->id();
    allocation->storage = storage;
    *pointer = allocation->start;
    machine().allocations.insert(std::move(allocation));
  });
}

cuda::Result cuMemGetAddressRange_v2(Ptr* base, std::size_t* size, Ptr pointer) {
  return answer(__func__, [&] {
    current_workspace();
    const auto allocation = machine().allocations.find(pointer);
    require(allocation != nullptr, cuda::error_not_found);
    if (base != nullptr) *base = allocation->start;
    if (size != nullptr) *size = allocation->size;
  });
}

}  // namespace sluice::softgpu
