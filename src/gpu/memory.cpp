// SPDX-License-Identifier: Apache-2.0
// Looking addresses up in the driver.
#include "gpu/memory.h"

#include <algorithm>
#include <array>

#include "gpu/pinnable.h"

namespace sluice::gpu {

using facts::BufferFacts;
using facts::MemoryKind;

namespace {

// What devices map at a time: no mapping ends inside of it.
constexpr std::uint64_t least_mapping = std::uint64_t{2} << 20U;

// Of an address that a program reserved, the range is the whole reservation, mapped or not. A kernel that stores where
// nothing is mapped costs the program its context, so the end of the mapping counts. Drivers before CUDA 11.7 do not
// tell it: then it is the end of all addresses.
std::uint64_t end_of_mapping(std::uint64_t address, std::uint64_t wanted) noexcept {
  constexpr std::uint64_t nowhere = ~std::uint64_t{0};
  if (address / least_mapping == (address + wanted - 1) / least_mapping) return nowhere;
  cuda::DevicePtr start = 0;
  std::size_t size = 0;
  std::array<int, 2> attributes{cuda::pointer_attribute_mapping_base_addr, cuda::pointer_attribute_mapping_size};
  std::array<void*, 2> values{&start, &size};
  const cuda::Result result = driver()->pointer_get_attributes(static_cast<unsigned>(attributes.size()),
                                                               attributes.data(), values.data(), address);
  return result == cuda::success && start != 0 && address - start < size ? start + size : nowhere;
}

}  // namespace

BufferFacts inspect(std::uint64_t address) noexcept {
  BufferFacts memory;
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return memory;
  memory.asked = true;

  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  unsigned long long id = 0;
  cuda::DevicePtr start = 0;
  std::size_t size = 0;
  cuda::Context context = nullptr;
  unsigned settled = 0;
  std::array<int, 8> attributes{cuda::pointer_attribute_memory_type,      cuda::pointer_attribute_is_managed,
                                cuda::pointer_attribute_device_ordinal,   cuda::pointer_attribute_buffer_id,
                                cuda::pointer_attribute_range_start_addr, cuda::pointer_attribute_range_size,
                                cuda::pointer_attribute_context,          cuda::pointer_attribute_sync_memops};
  std::array<void*, 8> values{&type, &managed, &ordinal, &id, &start, &size, &context, &settled};
  // Unknown addresses are no error here: they come back with a type of 0.
  const cuda::Result result = driver->pointer_get_attributes(static_cast<unsigned>(attributes.size()),
                                                             attributes.data(), values.data(), address);
  if (result != cuda::success) return memory;
  if (managed != 0) {
    memory.kind = MemoryKind::managed;
  } else if (type == cuda::memory_device) {
    memory.kind = MemoryKind::device;
  } else if (type == cuda::memory_host) {
    memory.kind = MemoryKind::pinned_host;
  } else {
    return memory;
  }
  memory.soft = driver->soft;
  memory.backed = driver->soft && memory.kind == MemoryKind::device && soft_memory_is_backed(ordinal, address);
  memory.device = ordinal;
  memory.base = start;
  memory.size = size;
  memory.id = id;
  memory.context = context;
  memory.settled = settled != 0;
  return memory;
}

// Only mappings may be passed from one to the next: the end of an allocation is an end, whatever lies behind it.
std::uint64_t contiguous_bytes(std::uint64_t address, std::uint64_t wanted) noexcept {
  std::uint64_t covered = 0;
  while (covered < wanted) {
    const BufferFacts memory = inspect(address + covered);
    if (facts::is_host(memory.kind)) break;
    if (covered > 0 && (memory.kind != MemoryKind::device || memory.context != nullptr)) break;
    const std::uint64_t behind =
        std::min(memory.base + memory.size, end_of_mapping(address + covered, wanted - covered));
    if (behind <= address + covered) break;  // a driver that knows no range: nothing more can be promised
    covered = behind - address;
    if (memory.kind != MemoryKind::device || memory.context != nullptr) break;
  }
  return std::min(covered, wanted);
}

bool outlives_its_streams(const BufferFacts& memory) noexcept {
  if (facts::is_host(memory.kind)) return false;
  if (memory.context != nullptr) return true;
  const CudaApi* const driver = gpu::driver();
  void* pool = nullptr;
  std::array<int, 1> attributes{cuda::pointer_attribute_mempool_handle};
  std::array<void*, 1> values{&pool};
  return driver != nullptr &&
         driver->pointer_get_attributes(1, attributes.data(), values.data(), memory.base) == cuda::success &&
         pool != nullptr;
}

std::uint64_t adjacent_bytes(std::uint64_t address, std::uint64_t wanted) noexcept {
  std::uint64_t covered = 0;
  while (covered < wanted) {
    const std::uint64_t more = contiguous_bytes(address + covered, wanted - covered);
    if (more == 0) break;
    covered += more;
  }
  return covered;
}

BufferFacts memory_of_device(int ordinal) noexcept {
  BufferFacts memory;
  if (ordinal < 0 || ordinal >= device_count()) return memory;
  memory.kind = MemoryKind::device;
  memory.device = ordinal;
  memory.soft = driver()->soft;
  memory.backed = memory.soft && soft_device_is_backed(ordinal);
  return memory;
}

cuda::Uuid uuid_of(int ordinal) noexcept {
  cuda::Uuid uuid{};
  cuda::Device device = 0;
  const CudaApi* const driver = gpu::driver();
  if (driver != nullptr && driver->device_get(&device, ordinal) == cuda::success) {
    driver->device_get_uuid(&uuid, device);
  }
  return uuid;
}

std::string pci_address(int ordinal) {
  std::array<char, 32> text{};
  cuda::Device device = 0;
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->device_get(&device, ordinal) != cuda::success) return {};
  if (driver->device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), device) != cuda::success) return {};
  return text.data();
}

base::Outcome as_outcome(cuda::Result result) noexcept {
  switch (result) {
    case cuda::error_invalid_value:
    case cuda::error_illegal_address:
      return base::Outcome::system_error(EFAULT);
    case cuda::error_invalid_context:
    case cuda::error_context_is_destroyed:
      return base::Outcome::refused(CU_FILE_INVALID_CONTEXT_ERROR);
    case cuda::error_out_of_memory:
      return base::Outcome::refused(CU_FILE_NOMEM_ERROR);
    default:
      return base::Outcome::refused(CU_FILE_CUDA_DRIVER_ERROR);
  }
}

}  // namespace sluice::gpu
