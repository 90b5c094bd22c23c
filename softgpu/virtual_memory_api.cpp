// SPDX-License-Identifier: Apache-2.0
// Entry points of virtual memory management. None needs a current context.
#include <algorithm>
#include <cstring>
#include <span>

#include "answer.h"
#include "entry_points.h"
#include "machine.h"

namespace sluice::softgpu {

namespace {

std::uint64_t bit_of(const cuda::MemoryLocation& location) {
  require(location.type == cuda::location_device);
  return std::uint64_t{1} << static_cast<unsigned>(device_of(location.id).ordinal());
}

// The mappings that a range consists of; every byte must be mapped.
std::vector<std::shared_ptr<Allocation>> mappings_of(Ptr start, std::size_t size) {
  auto mappings = machine().allocations.covering(start, size);
  const auto is_mapping = [](const auto& mapping) { return mapping->kind == MemoryKind::mapped; };
  require(!mappings.empty() && std::all_of(mappings.begin(), mappings.end(), is_mapping));
  return mappings;
}

std::shared_ptr<Allocation> mapping_at(Ptr address) {
  auto mapping = machine().allocations.find(address);
  require(mapping != nullptr && mapping->kind == MemoryKind::mapped);
  return mapping;
}

void set_bit(std::atomic<std::uint64_t>& mask, std::uint64_t bit, bool on) {
  if (on) {
    mask.fetch_or(bit);
  } else {
    mask.fetch_and(~bit);
  }
}

}  // namespace

cuda::Result cuMemAddressReserve(Ptr* pointer, std::size_t size, std::size_t alignment, Ptr wanted,
                                 unsigned long long flags) {
  return answer(__func__, [&] {
    require(pointer != nullptr && flags == 0);
    *pointer = machine().virtual_memory.reserve(size, alignment, wanted);
  });
}

cuda::Result cuMemAddressFree(Ptr pointer, std::size_t size) {
  return answer(__func__, [&] { machine().virtual_memory.free_reservation(pointer, size); });
}

cuda::Result cuMemCreate(cuda::AllocationHandle* handle, std::size_t size, const cuda::AllocationProperties* properties,
                         unsigned long long flags) {
  return answer(__func__, [&] {
    require(handle != nullptr && properties != nullptr && flags == 0);
    *handle = machine().virtual_memory.create(size, *properties);
  });
}

cuda::Result cuMemRelease(cuda::AllocationHandle handle) {
  return answer(__func__, [&] { machine().virtual_memory.release(handle); });
}

cuda::Result cuMemMap(Ptr pointer, std::size_t size, std::size_t offset, cuda::AllocationHandle handle,
                      unsigned long long flags) {
  return answer(__func__, [&] {
    require(flags == 0);
    require(offset == 0, cuda::error_not_supported);  // as CUDA has it
    machine().virtual_memory.map(pointer, size, machine().virtual_memory.find(handle));
  });
}

cuda::Result cuMemUnmap(Ptr pointer, std::size_t size) {
  return answer(__func__, [&] { machine().virtual_memory.unmap(pointer, size); });
}

cuda::Result cuMemSetAccess(Ptr pointer, std::size_t size, const cuda::AccessDescription* descriptions,
                            std::size_t count) {
  return answer(__func__, [&] {
    require(descriptions != nullptr && count != 0);
    const auto mappings = mappings_of(pointer, size);
    const std::span wanted(descriptions, count);
    for (const auto& description : wanted) {
      bit_of(description.location);
      require(description.flags == cuda::access_none || description.flags == cuda::access_read ||
              description.flags == cuda::access_read_write);
    }
    for (const auto& mapping : mappings) {
      for (const auto& description : wanted) {
        const std::uint64_t bit = bit_of(description.location);
        set_bit(mapping->readers, bit, description.flags != cuda::access_none);
        set_bit(mapping->writers, bit, description.flags == cuda::access_read_write);
      }
    }
  });
}

cuda::Result cuMemGetAccess(unsigned long long* flags, const cuda::MemoryLocation* location, Ptr pointer) {
  return answer(__func__, [&] {
    require(flags != nullptr && location != nullptr);
    const auto mapping = mapping_at(pointer);
    const std::uint64_t bit = bit_of(*location);
    *flags = cuda::access_none;
    if ((mapping->readers.load() & bit) != 0) *flags = cuda::access_read;
    if ((mapping->writers.load() & bit) != 0) *flags = cuda::access_read_write;
  });
}

cuda::Result cuMemGetAllocationGranularity(std::size_t* granularity, const cuda::AllocationProperties* properties,
                                           int option) {
  return answer(__func__, [&] {
    require(granularity != nullptr && properties != nullptr);
    require(option == cuda::granularity_minimum || option == cuda::granularity_recommended);
    require(properties->type == cuda::allocation_pinned && properties->location.type == cuda::location_device);
    device_of(properties->location.id);
    *granularity = device_page;
  });
}

cuda::Result cuMemGetAllocationPropertiesFromHandle(cuda::AllocationProperties* properties,
                                                    cuda::AllocationHandle handle) {
  return answer(__func__, [&] {
    require(properties != nullptr);
    *properties = machine().virtual_memory.find(handle)->properties;
  });
}

cuda::Result cuMemRetainAllocationHandle(cuda::AllocationHandle* handle, void* address) {
  return answer(__func__, [&] {
    require(handle != nullptr);
    const auto mapping = mapping_at(reinterpret_cast<Ptr>(address));
    const auto memory = std::static_pointer_cast<PhysicalMemory>(mapping->storage);
    machine().virtual_memory.retain(memory);
    *handle = memory->handle;
  });
}

cuda::Result cuMemExportToShareableHandle(void* shared, cuda::AllocationHandle handle, int type,
                                          unsigned long long flags) {
  return answer(__func__, [&] {
    require(shared != nullptr && flags == 0);
    const auto memory = machine().virtual_memory.find(handle);
    require(type == cuda::handle_type_posix_file_descriptor && memory->properties.handle_types == type);
    const int descriptor = memory->shared->share();
    std::memcpy(shared, &descriptor, sizeof descriptor);
  });
}

cuda::Result cuMemImportFromShareableHandle(cuda::AllocationHandle* handle, void* shared, int type) {
  return answer(__func__, [&] {
    require(handle != nullptr);
    require(type == cuda::handle_type_posix_file_descriptor, cuda::error_not_supported);
    *handle = machine().virtual_memory.import(static_cast<int>(reinterpret_cast<std::intptr_t>(shared)));
  });
}

}  // namespace sluice::softgpu
