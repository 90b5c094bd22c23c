// SPDX-License-Identifier: Apache-2.0
// Entry points about where managed memory should be. It never moves here, so they check what they are given, and keep
// their place in the stream.
#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "stream_use.h"

namespace sluice::softgpu {

namespace {

constexpr int location_of_a_host_node = 3;
constexpr int location_of_this_host_node = 4;
constexpr cuda::Device the_host = -1;

void require_managed(Ptr pointer, std::size_t size) {
  const auto allocation = machine().allocations.find(pointer);
  require(allocation != nullptr && allocation->kind == MemoryKind::managed);
  require(size != 0 && allocation->end() - pointer >= size);
}

void require_location(const cuda::MemoryLocation& location) {
  if (location.type == cuda::location_device) {
    device_of(location.id);
    return;
  }
  require(location.type == cuda::location_host || location.type == location_of_a_host_node ||
          location.type == location_of_this_host_node);
}

cuda::MemoryLocation location_of(cuda::Device device) {
  return device == the_host ? cuda::MemoryLocation{cuda::location_host, 0}
                            : cuda::MemoryLocation{cuda::location_device, device};
}

cuda::Result prefetch(const char* name, Ptr pointer, std::size_t size, const cuda::MemoryLocation& location,
                      cuda::Stream stream) {
  return answer(name, [&] {
    const StreamUse use = use_stream(stream);
    require_managed(pointer, size);
    require_location(location);
    use.submit(nullptr);
  });
}

cuda::Result advise(const char* name, Ptr pointer, std::size_t size, int advice, const cuda::MemoryLocation& location) {
  return answer(name, [&] {
    require(advice >= cuda::advise_read_mostly && advice <= cuda::advise_not_accessed_by);
    require_managed(pointer, size);
    const bool has_place = advice == cuda::advise_preferred_location || advice == cuda::advise_accessed_by ||
                           advice == cuda::advise_not_accessed_by;
    if (has_place) require_location(location);
  });
}

}  // namespace

cuda::Result cuMemPrefetchAsync(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream) {
  return prefetch(__func__, pointer, size, location_of(device), stream);
}

cuda::Result cuMemPrefetchAsync_ptsz(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream) {
  return prefetch("cuMemPrefetchAsync", pointer, size, location_of(device), per_thread_if_null(stream));
}

cuda::Result cuMemPrefetchAsync_v2(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                                   cuda::Stream stream) {
  if (flags != 0) return answer(__func__, [] { throw Refusal(cuda::error_invalid_value); });
  return prefetch(__func__, pointer, size, location, stream);
}

cuda::Result cuMemPrefetchAsync_v2_ptsz(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                                        cuda::Stream stream) {
  return cuMemPrefetchAsync_v2(pointer, size, location, flags, per_thread_if_null(stream));
}

cuda::Result cuMemAdvise(Ptr pointer, std::size_t size, int advice, cuda::Device device) {
  return advise(__func__, pointer, size, advice, location_of(device));
}

cuda::Result cuMemAdvise_v2(Ptr pointer, std::size_t size, int advice, cuda::MemoryLocation location) {
  return advise(__func__, pointer, size, advice, location);
}

}  // namespace sluice::softgpu
