// SPDX-License-Identifier: Apache-2.0
// Entry points for pinned host memory.
#include <sys/mman.h>

#include <vector>

#include "address_space.h"
#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

constexpr unsigned host_alloc_flags =
    cuda::host_alloc_portable | cuda::host_alloc_device_map | cuda::host_alloc_write_combined;
constexpr unsigned host_register_flags = cuda::host_register_portable | cuda::host_register_device_map |
                                         cuda::host_register_io_memory | cuda::host_register_read_only;

// Enters host memory into the table. With unified addressing every pinned range is mapped for every device, at the
// host's own address.
void enter(const Workspace& workspace, MemoryKind kind, std::byte* bytes, std::uint64_t size, unsigned flags,
           std::shared_ptr<void> storage) {
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = kind;
  allocation->bytes = bytes;
  allocation->start = allocation->range_start = reinterpret_cast<std::uint64_t>(bytes);
  allocation->size = allocation->range_size = size;
  allocation->device = workspace.device().ordinal();
  allocation->context = workspace.context().handle();
  allocation->workspace = workspace.id();
  allocation->flags = flags | cuda::host_alloc_device_map;
  allocation->storage = std::move(storage);
  machine().allocations.insert(std::move(allocation));
}

void* allocate(std::uint64_t size, unsigned flags) {
  const auto workspace = current_workspace();
  require(size != 0 && (flags & ~host_alloc_flags) == 0);
  workspace->streams().require_no_capture_in_the_way();
  const auto storage = std::make_shared<HostStorage>(size);
  enter(*workspace, MemoryKind::pinned, storage->bytes(), size, flags, storage);
  return storage->bytes();
}

// Whether every page of the range is there: memory that does not exist cannot be pinned.
bool is_mapped(const void* pointer, std::uint64_t size) {
  const std::uint64_t page = host_page_size();
  const std::uint64_t start = reinterpret_cast<std::uint64_t>(pointer) & ~(page - 1);
  const std::uint64_t length = reinterpret_cast<std::uint64_t>(pointer) + size - start;
  // Room for the smallest pages that there are: an emulator that plays larger ones counts by its own.
  constexpr std::uint64_t smallest_page = 4096;
  std::vector<unsigned char> residence((length + smallest_page - 1) / smallest_page);
  return ::mincore(reinterpret_cast<void*>(start), length, residence.data()) == 0;
}

std::shared_ptr<Allocation> pinned_range_of(const void* pointer) {
  auto allocation = machine().allocations.find(reinterpret_cast<std::uint64_t>(pointer));
  require(allocation != nullptr && is_host(allocation->kind));
  return allocation;
}

}  // namespace

cuda::Result cuMemAllocHost_v2(void** pointer, std::size_t size) {
  return answer(__func__, [&] {
    require(pointer != nullptr);
    *pointer = size != 0 ? allocate(size, 0) : nullptr;
  });
}

cuda::Result cuMemHostAlloc(void** pointer, std::size_t size, unsigned flags) {
  return answer(__func__, [&] {
    require(pointer != nullptr);
    *pointer = size != 0 ? allocate(size, flags) : nullptr;
  });
}

cuda::Result cuMemFreeHost(void* pointer) {
  return answer(__func__, [&] {
    // The memory says whose it is: no context has to be current.
    if (pointer == nullptr) return;
    if (current_context() != nullptr) current_workspace()->streams().require_no_capture_in_the_way();
    const auto freed = machine().allocations.remove(
        reinterpret_cast<std::uint64_t>(pointer),
        [](const Allocation& allocation) { return allocation.kind == MemoryKind::pinned; });
    require(freed != nullptr);
    wait_for_users(*freed);
  });
}

cuda::Result cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags) {
  return answer(__func__, [&] {
    const auto workspace = current_workspace();
    require(pointer != nullptr && size != 0 && (flags & ~host_register_flags) == 0);
    workspace->streams().require_no_capture_in_the_way();
    workspace->wait_while_brought_to_rest();
    const auto start = reinterpret_cast<std::uint64_t>(pointer);
    require(!machine().is_device_address(start));
    require(!machine().allocations.overlaps(start, size), cuda::error_host_memory_already_registered);
    require(is_mapped(pointer, size));
    enter(*workspace, MemoryKind::registered, static_cast<std::byte*>(pointer), size, flags, nullptr);
  });
}

cuda::Result cuMemHostUnregister(void* pointer) {
  return answer(__func__, [&] {
    require(pointer != nullptr);
    const auto ended = machine().allocations.remove(
        reinterpret_cast<std::uint64_t>(pointer),
        [](const Allocation& allocation) { return allocation.kind == MemoryKind::registered; });
    if (ended == nullptr) {
      const auto around = machine().allocations.find(reinterpret_cast<std::uint64_t>(pointer));
      const bool inside = around != nullptr && around->kind == MemoryKind::registered;
      throw Refusal(inside ? cuda::error_invalid_value : cuda::error_host_memory_not_registered);
    }
    wait_for_users(*ended);
  });
}

cuda::Result cuMemHostGetDevicePointer_v2(Ptr* device_pointer, void* pointer, unsigned flags) {
  return answer(__func__, [&] {
    current_workspace();
    require(device_pointer != nullptr && flags == 0);
    pinned_range_of(pointer);
    *device_pointer = reinterpret_cast<Ptr>(pointer);
  });
}

cuda::Result cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return answer(__func__, [&] {
    current_workspace();
    require(flags != nullptr);
    *flags = pinned_range_of(pointer)->flags;
  });
}

}  // namespace sluice::softgpu
