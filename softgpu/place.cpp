// SPDX-License-Identifier: Apache-2.0
// Resolving addresses.
#include "place.h"

#include <algorithm>

#include "machine.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

Side side_of(MemoryKind kind) {
  if (is_host(kind)) return Side::pinned_host;
  return kind == MemoryKind::managed ? Side::managed : Side::device;
}

Place pageable(std::uint64_t address, std::uint64_t size) {
  Place place;
  place.pieces.push_back({reinterpret_cast<std::byte*>(address), size});
  return place;
}

}  // namespace

Place place_of(std::uint64_t address, std::uint64_t size) {
  require(address != 0);
  std::shared_ptr<Allocation> owner = machine().allocations.find(address);
  if (owner == nullptr) {
    // Freed or never allocated device memory must not be taken for the program's own.
    require(!machine().is_device_address(address));
    return pageable(address, size);
  }
  Place place;
  place.side = side_of(owner->kind);
  place.device = owner->device;
  while (true) {
    require(owner->readers.load() != 0);  // a mapping without access
    place.sync_memops = place.sync_memops || owner->sync_memops.load();
    const std::uint64_t here = std::min(size, owner->end() - address);
    place.pieces.push_back({owner->bytes + (address - owner->start), here});
    place.owners.push_back(owner);
    size -= here;
    address += here;
    if (size == 0) return place;
    // Only mappings may be passed from one to the next; the end of an allocation is an end.
    require(owner->kind == MemoryKind::mapped);
    owner = machine().allocations.find(address);
    require(owner != nullptr && owner->kind == MemoryKind::mapped);
  }
}

Place device_place(std::uint64_t address, std::uint64_t size) {
  Place place = place_of(address, size);
  require(place.side != Side::pageable_host);
  return place;
}

std::optional<Place> leaving_place(std::uint64_t address, std::uint64_t size) {
  const std::shared_ptr<Allocation> owner = machine().leaving.find(address);
  if (owner == nullptr || size > owner->end() - address) return std::nullopt;
  Place place;
  place.side = side_of(owner->kind);
  place.device = owner->device;
  place.pieces.push_back({owner->bytes + (address - owner->start), size});
  place.owners.push_back(owner);
  return place;
}

}  // namespace sluice::softgpu
