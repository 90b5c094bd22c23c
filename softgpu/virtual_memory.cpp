// SPDX-License-Identifier: Apache-2.0
// Reservations, handles and mappings.
#include "virtual_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "machine.h"
#include "refusal.h"

namespace sluice::softgpu {

PhysicalMemory::PhysicalMemory(cuda::AllocationHandle number, const cuda::AllocationProperties& wanted,
                               DeviceMemory& memory, std::uint64_t size)
    : handle(number), properties(wanted) {
  storage.emplace(memory, size);
  if (wanted.handle_types != cuda::handle_type_none) shared.emplace(wanted.location.id, size);
}

PhysicalMemory::PhysicalMemory(cuda::AllocationHandle number, int descriptor) : handle(number), properties() {
  shared.emplace(descriptor);
  properties.type = cuda::allocation_pinned;
  properties.handle_types = cuda::handle_type_posix_file_descriptor;
  properties.location = {cuda::location_device, shared->device()};
}

std::uint64_t VirtualMemory::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted) {
  require(size != 0 && size % device_page == 0 && (alignment == 0 || std::has_single_bit(alignment)));
  const std::lock_guard lock(mutex_);
  if (!addresses_) {
    auto window = std::make_unique<AddressRange>(window_size_);
    addresses_.emplace(window->start(), window->size());
    range_.store(window.release(), std::memory_order_release);
  }
  std::uint64_t start = wanted;
  if (wanted == 0 || wanted % device_page != 0 || !addresses_->take_at(wanted, size)) {
    const auto found = addresses_->take(size, std::max(alignment, device_page));
    require(found.has_value(), cuda::error_out_of_memory);
    start = *found;
  }
  reservations_.emplace(start, size);
  return start;
}

void VirtualMemory::free_reservation(std::uint64_t start, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(start);
  require(found != reservations_.end() && found->second == size);
  require(!machine().allocations.overlaps(start, size));
  reservations_.erase(found);
  addresses_->give_back(start, size);
}

bool VirtualMemory::contains(std::uint64_t address) const {
  const AddressRange* const window = range_.load(std::memory_order_acquire);
  return window != nullptr && window->contains(address);
}

cuda::AllocationHandle VirtualMemory::create(std::uint64_t size, const cuda::AllocationProperties& properties) {
  require(size != 0 && size % device_page == 0);
  require(properties.type == cuda::allocation_pinned);
  require(properties.location.type == cuda::location_device, cuda::error_not_supported);
  DeviceMemory& memory = device_of(properties.location.id).memory();
  // A device mapping cannot be had piece by piece.
  const bool can_be_shared = properties.handle_types == cuda::handle_type_posix_file_descriptor && memory.has_file();
  require(properties.handle_types == cuda::handle_type_none || can_be_shared, cuda::error_not_supported);
  return keep(std::make_shared<PhysicalMemory>(machine().fresh_id(), properties, memory, size));
}

cuda::AllocationHandle VirtualMemory::import(int descriptor) {
  return keep(std::make_shared<PhysicalMemory>(machine().fresh_id(), descriptor));
}

cuda::AllocationHandle VirtualMemory::keep(std::shared_ptr<PhysicalMemory> made) {
  const std::lock_guard lock(mutex_);
  const cuda::AllocationHandle handle = made->handle;
  handles_.emplace(handle, Held{std::move(made), 1});
  return handle;
}

void VirtualMemory::retain(const std::shared_ptr<PhysicalMemory>& memory) {
  const std::lock_guard lock(mutex_);
  ++handles_.try_emplace(memory->handle, Held{memory, 0}).first->second.holders;
}

void VirtualMemory::release(cuda::AllocationHandle handle) {
  std::shared_ptr<PhysicalMemory> last;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  require(found != handles_.end());
  if (--found->second.holders == 0) {
    last = std::move(found->second.memory);
    handles_.erase(found);
  }
}

std::shared_ptr<PhysicalMemory> VirtualMemory::find(cuda::AllocationHandle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  require(found != handles_.end());
  return found->second.memory;
}

void VirtualMemory::map(std::uint64_t start, std::uint64_t size, const std::shared_ptr<PhysicalMemory>& memory) {
  require(size != 0 && start % device_page == 0 && size % device_page == 0 && size <= memory->size());
  const std::lock_guard lock(mutex_);
  auto reservation = reservations_.upper_bound(start);
  require(reservation != reservations_.begin());
  reservation = std::prev(reservation);
  const auto [range_start, range_size] = *reservation;
  require(start - range_start < range_size && range_size - (start - range_start) >= size);
  require(!machine().allocations.overlaps(start, size));
  auto mapping = std::make_shared<Allocation>();
  mapping->kind = MemoryKind::mapped;
  mapping->start = start;
  mapping->size = size;
  mapping->bytes = memory->bytes();
  mapping->device = memory->properties.location.id;
  mapping->range_start = range_start;
  mapping->range_size = range_size;
  mapping->storage = memory;
  mapping->readers.store(0);
  mapping->writers.store(0);
  machine().allocations.insert(std::move(mapping));
}

void VirtualMemory::unmap(std::uint64_t start, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto mappings = machine().allocations.covering(start, size);
  const auto is_mapping = [](const auto& mapping) { return mapping->kind == MemoryKind::mapped; };
  require(!mappings.empty() && std::all_of(mappings.begin(), mappings.end(), is_mapping));
  for (const auto& mapping : mappings) {
    machine().allocations.remove(mapping->start, [](const Allocation&) { return true; });
  }
}

}  // namespace sluice::softgpu
