// SPDX-License-Identifier: Apache-2.0
// What programs ask in order to let network cards reach device memory. No card does: stand-ins of verbs may.
#include <cstring>

#include "address_space.h"
#include "answer.h"
#include "device.h"
#include "entry_points.h"
#include "machine.h"
#include "refusal.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

constexpr int dma_buf_type = 1;
constexpr std::uint64_t host_page_bytes = 4096;
constexpr unsigned exports = 2;  // of Knobs::dma_buf

constexpr int flush_current_context = 0;
constexpr int flush_to_owner = 100;
constexpr int flush_to_all = 200;

}  // namespace

cuda::Result cuMemGetHandleForAddressRange(void* handle, Ptr pointer, std::size_t size, int type,
                                           unsigned long long flags) {
  return answer(__func__, [&] {
    require(handle != nullptr && size != 0 && type != 0 && flags == 0);
    const auto allocation = machine().allocations.find(pointer);
    require(allocation != nullptr);
    const Device& device = device_of(allocation->device);
    require(type == dma_buf_type && device.knobs().dma_buf == exports, cuda::error_not_supported);
    require(pointer % host_page_bytes == 0 && size % host_page_bytes == 0);
    // The last page may have more than the allocation: programs export whole pages.
    const std::uint64_t end = (allocation->end() + host_page_bytes - 1) / host_page_bytes * host_page_bytes;
    require(size <= end - pointer);
    const std::byte* const bytes = allocation->bytes + (pointer - allocation->start);
    const DeviceMemory& memory = machine().devices[static_cast<std::size_t>(allocation->device)]->memory();
    require(memory.holds(bytes), cuda::error_not_supported);
    const int descriptor = memory.open_at(bytes);
    std::memcpy(handle, &descriptor, sizeof descriptor);
  });
}

// Stand-ins write with the CPU: what they have written is seen.
cuda::Result cuFlushGPUDirectRDMAWrites(int target, int scope) {
  return answer(__func__, [&] {
    require(target == flush_current_context && (scope == flush_to_owner || scope == flush_to_all));
    const auto workspace = current_workspace();
    require(workspace->device().knobs().rdma == 1, cuda::error_not_supported);
  });
}

}  // namespace sluice::softgpu
