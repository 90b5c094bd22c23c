// SPDX-License-Identifier: Apache-2.0
// Entry points of stream-ordered allocation.
#include <cstring>

#include "answer.h"
#include "entry_points.h"
#include "machine.h"
#include "pool_memory.h"
#include "stream_use.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

std::shared_ptr<MemoryPool> pool_of(cuda::MemoryPool handle) {
  auto pool = machine().pools.find(handle);
  require(pool != nullptr);
  return pool;
}

// The address is good at once; the memory may be used by work that the stream reaches after this.
Ptr allocate(const StreamUse& use, std::shared_ptr<MemoryPool> pool, std::size_t size) {
  if (size == 0) return 0;
  use.workspace->streams().require_not_captured(*use.stream);  // there are no allocation nodes here
  auto storage = pool->take(size, use.stream->id());
  auto allocation = std::make_shared<Allocation>();
  allocation->kind = MemoryKind::pooled;
  allocation->start = allocation->range_start = storage->address();
  allocation->size = allocation->range_size = size;
  allocation->bytes = storage->bytes();
  allocation->device = pool->device();
  allocation->storage = std::make_shared<PoolMemory>(PoolMemory{std::move(pool), std::move(storage)});
  const Ptr address = allocation->start;
  machine().allocations.insert(std::move(allocation));
  return address;
}

bool is_narrow(int attribute) {
  return attribute >= cuda::pool_reuse_follow_event_dependencies &&
         attribute <= cuda::pool_reuse_allow_internal_dependencies;
}

}  // namespace

cuda::Result cuMemAllocAsync(Ptr* pointer, std::size_t size, cuda::Stream stream) {
  return answer(__func__, [&] {
    require(pointer != nullptr);
    const StreamUse use = use_stream(stream);
    *pointer = allocate(use, use.workspace->device().current_pool(), size);
  });
}

cuda::Result cuMemAllocFromPoolAsync(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream) {
  return answer(__func__, [&] {
    require(pointer != nullptr);
    *pointer = allocate(use_stream(stream), pool_of(pool), size);
  });
}

cuda::Result cuMemFreeAsync(Ptr pointer, cuda::Stream stream) {
  return answer(__func__, [&] {
    const StreamUse use = use_stream(stream);
    if (pointer == 0) return;
    use.workspace->streams().require_not_captured(*use.stream);
    const auto leaving = take_leave(pointer, [](const Allocation& allocation) {
      return allocation.kind == MemoryKind::pooled || allocation.kind == MemoryKind::device;
    });
    require(leaving != nullptr);
    if (leaving->memory().kind == MemoryKind::device) {  // of no pool: given back when the stream gets there
      use.submit([leaving] {});
      return;
    }
    const auto memory = std::static_pointer_cast<PoolMemory>(leaving->memory().storage);
    const std::uint64_t ticket = memory->pool->free_later(memory->storage, use.stream->id());
    use.submit([memory, ticket, leaving] { memory->pool->free_reached(ticket); });
  });
}

cuda::Result cuDeviceGetDefaultMemPool(cuda::MemoryPool* pool, cuda::Device device) {
  return answer(__func__, [&] {
    require(pool != nullptr);
    *pool = device_of(device).default_pool()->handle();
  });
}

cuda::Result cuDeviceGetMemPool(cuda::MemoryPool* pool, cuda::Device device) {
  return answer(__func__, [&] {
    require(pool != nullptr);
    *pool = device_of(device).current_pool()->handle();
  });
}

cuda::Result cuDeviceSetMemPool(cuda::Device device, cuda::MemoryPool pool) {
  return answer(__func__, [&] {
    Device& chosen = device_of(device);
    auto wanted = pool_of(pool);
    require(wanted->device() == chosen.ordinal());
    chosen.set_current_pool(std::move(wanted));
  });
}

cuda::Result cuMemPoolCreate(cuda::MemoryPool* pool, const cuda::PoolProperties* properties) {
  return answer(__func__, [&] {
    require(pool != nullptr && properties != nullptr && properties->type == cuda::allocation_pinned);
    require(properties->location.type == cuda::location_device && properties->handle_types == cuda::handle_type_none,
            cuda::error_not_supported);
    Device& device = device_of(properties->location.id);
    auto made = std::make_shared<MemoryPool>(device.ordinal(), device.memory(), properties->max_size);
    *pool = made->handle();
    machine().pools.insert(std::move(made));
  });
}

cuda::Result cuMemPoolDestroy(cuda::MemoryPool pool) {
  return answer(__func__, [&] {
    const auto ended = pool_of(pool);
    Device& device = *machine().devices[static_cast<std::size_t>(ended->device())];
    require(ended != device.default_pool());
    if (device.current_pool() == ended) device.set_current_pool(device.default_pool());
    machine().pools.remove(pool);  // its allocations keep it alive until they are freed
  });
}

cuda::Result cuMemPoolTrimTo(cuda::MemoryPool pool, std::size_t bytes) {
  return answer(__func__, [&] { pool_of(pool)->trim_to(bytes); });
}

cuda::Result cuMemPoolGetAttribute(cuda::MemoryPool pool, int attribute, void* value) {
  return answer(__func__, [&] {
    require(value != nullptr);
    const std::uint64_t wide = pool_of(pool)->attribute(attribute);
    if (is_narrow(attribute)) {
      const int narrow = static_cast<int>(wide);
      std::memcpy(value, &narrow, sizeof narrow);
    } else {
      std::memcpy(value, &wide, sizeof wide);
    }
  });
}

cuda::Result cuMemPoolSetAttribute(cuda::MemoryPool pool, int attribute, void* value) {
  return answer(__func__, [&] {
    require(value != nullptr);
    std::uint64_t wide = 0;
    std::memcpy(&wide, value, is_narrow(attribute) ? sizeof(int) : sizeof wide);
    pool_of(pool)->set_attribute(attribute, wide);
  });
}

cuda::Result cuMemPoolSetAccess(cuda::MemoryPool pool, const cuda::AccessDescription* descriptions, std::size_t count) {
  return answer(__func__, [&] {
    require(descriptions != nullptr || count == 0);
    const auto chosen = pool_of(pool);
    for (std::size_t index = 0; index < count; ++index) {
      require(descriptions[index].location.type == cuda::location_device);
      const Device& device = device_of(descriptions[index].location.id);
      // A device keeps access to its own memory.
      require(device.ordinal() != chosen->device() || descriptions[index].flags == cuda::access_read_write);
      require(device.ordinal() == chosen->device() || machine().knobs.peers.join(device.ordinal(), chosen->device()),
              cuda::error_invalid_device);
    }
    for (std::size_t index = 0; index < count; ++index) {
      chosen->let(device_of(descriptions[index].location.id).ordinal(), descriptions[index].flags);
    }
  });
}

cuda::Result cuMemPoolGetAccess(int* flags, cuda::MemoryPool pool, cuda::MemoryLocation* location) {
  return answer(__func__, [&] {
    require(flags != nullptr && location != nullptr && location->type == cuda::location_device);
    *flags = pool_of(pool)->access_of(device_of(location->id).ordinal());
  });
}

}  // namespace sluice::softgpu
