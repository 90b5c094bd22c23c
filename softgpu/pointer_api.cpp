// SPDX-License-Identifier: Apache-2.0
// Entry points that say what an address is.
#include <cstring>

#include "answer.h"
#include "copy.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "pool_memory.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

constexpr int first_pointer_attribute = cuda::pointer_attribute_context;
constexpr int last_pointer_attribute = 21;

template <typename Value>
void give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
}

// The kinds of handle by which other processes may have this memory, a bit a kind.
std::uint64_t handle_types_of(const Allocation& memory) {
  if (memory.kind != MemoryKind::mapped) return 0;
  return static_cast<std::uint64_t>(std::static_pointer_cast<PhysicalMemory>(memory.storage)->properties.handle_types);
}

// Whether the driver tells where the host finds it.
bool has_host_pointer(const Allocation& memory) {
  if (is_host(memory.kind) || memory.kind == MemoryKind::managed) return true;
  return memory.kind != MemoryKind::mapped && device_of(memory.device).memory().tells_host_addresses();
}

// Writes the value, or refuses what this memory does not have.
void give_attribute(void* data, int attribute, const Allocation& memory, Ptr pointer) {
  const bool host = is_host(memory.kind);
  switch (attribute) {
    case cuda::pointer_attribute_context:
      return give(data, reinterpret_cast<std::uint64_t>(memory.context));
    case cuda::pointer_attribute_memory_type:
      return give<unsigned>(data, host ? cuda::memory_host : cuda::memory_device);
    case cuda::pointer_attribute_device_pointer:
      return give(data, pointer);
    case cuda::pointer_attribute_host_pointer:
      require(has_host_pointer(memory));
      return give<std::uint64_t>(data, pointer);
    case cuda::pointer_attribute_sync_memops:
      return give<unsigned>(data, memory.sync_memops.load() ? 1 : 0);
    case cuda::pointer_attribute_buffer_id:
      return give<unsigned long long>(data, memory.buffer_id);
    case cuda::pointer_attribute_is_managed:
      return give<unsigned>(data, memory.kind == MemoryKind::managed ? 1 : 0);
    case cuda::pointer_attribute_device_ordinal:
      return give(data, memory.device);
    case cuda::pointer_attribute_is_legacy_ipc_capable:
      return give<unsigned>(data, 0);
    case cuda::pointer_attribute_range_start_addr:
      return give<Ptr>(data, memory.range_start);
    case cuda::pointer_attribute_range_size:
      return give<std::size_t>(data, memory.range_size);
    case cuda::pointer_attribute_mapping_base_addr:
      return give<Ptr>(data, memory.start);
    case cuda::pointer_attribute_mapping_size:
      return give<std::size_t>(data, memory.size);
    case cuda::pointer_attribute_mapped:
      return give<unsigned>(data, 1);
    case cuda::pointer_attribute_allowed_handle_types:
      return give(data, handle_types_of(memory));
    case cuda::pointer_attribute_is_rdma_capable:
      return give<unsigned>(
          data, is_host(memory.kind) || memory.kind == MemoryKind::managed || machine().knobs.rdma == 0 ? 0U : 1U);
    case cuda::pointer_attribute_access_flags:
      // Of a pool or a context, what its own device may: so says a driver (580) to every other device, too.
      return give(data, memory.kind == MemoryKind::mapped
                            ? static_cast<unsigned>(current_workspace()->access_to(memory))
                            : static_cast<unsigned>(cuda::access_read_write));
    case cuda::pointer_attribute_mempool_handle:
      if (memory.kind != MemoryKind::pooled) return give<std::uint64_t>(data, 0);
      return give(
          data, reinterpret_cast<std::uint64_t>(std::static_pointer_cast<PoolMemory>(memory.storage)->pool->handle()));
    default:
      throw Refusal(cuda::error_invalid_value);
  }
}

// Zeros of the width that the attribute has.
void give_nothing(void* data, int attribute) {
  switch (attribute) {
    case cuda::pointer_attribute_context:
    case cuda::pointer_attribute_device_pointer:
    case cuda::pointer_attribute_host_pointer:
    case cuda::pointer_attribute_buffer_id:
    case cuda::pointer_attribute_range_start_addr:
    case cuda::pointer_attribute_range_size:
    case cuda::pointer_attribute_allowed_handle_types:
    case cuda::pointer_attribute_mempool_handle:
    case cuda::pointer_attribute_mapping_base_addr:
    case cuda::pointer_attribute_mapping_size:
      return give<std::uint64_t>(data, 0);
    case cuda::pointer_attribute_device_ordinal:
      return give<int>(data, -2);  // CU_DEVICE_INVALID
    default:
      return give<unsigned>(data, 0);
  }
}

}  // namespace

cuda::Result cuPointerGetAttribute(void* value, int attribute, Ptr pointer) {
  return answer(__func__, [&] {
    require(value != nullptr && attribute >= first_pointer_attribute && attribute <= last_pointer_attribute);
    const auto memory = machine().allocations.find(pointer);
    require(memory != nullptr);
    give_attribute(value, attribute, *memory, pointer);
  });
}

cuda::Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, Ptr pointer) {
  return answer(__func__, [&] {
    require(count != 0 && attributes != nullptr && values != nullptr);
    const auto memory = machine().allocations.find(pointer);
    for (unsigned index = 0; index < count; ++index) {
      const int attribute = attributes[index];
      require(values[index] != nullptr && attribute >= first_pointer_attribute && attribute <= last_pointer_attribute);
      const bool is_there =
          memory != nullptr && (attribute != cuda::pointer_attribute_host_pointer || has_host_pointer(*memory));
      if (!is_there) {
        give_nothing(values[index], attribute);
      } else {
        give_attribute(values[index], attribute, *memory, pointer);
      }
    }
  });
}

cuda::Result cuPointerSetAttribute(const void* value, int attribute, Ptr pointer) {
  return answer(__func__, [&] {
    require(value != nullptr && attribute == cuda::pointer_attribute_sync_memops);
    const auto memory = machine().allocations.find(pointer);
    require(memory != nullptr);
    unsigned wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    memory->sync_memops.store(wanted != 0);
    // Synchronous operations that are still under way have to be over now; what waits in streams is not waited for.
    if (wanted != 0) wait_for_late_copies();
  });
}

}  // namespace sluice::softgpu
