// SPDX-License-Identifier: Apache-2.0
#include "rdma/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/unique_fd.h"
#include "gpu/cuda_api.h"
#include "gpu/pinnable.h"
#include "gpu/session.h"

namespace sluice::rdma {

namespace {

// CUdevice_attribute
constexpr int gpu_direct_rdma_supported = 116;
constexpr int gpu_direct_rdma_flush_options = 117;
constexpr int gpu_direct_rdma_writes_ordering = 118;
constexpr int dma_buf_supported = 124;

constexpr int flush_by_host = 1;
constexpr int dma_buf_descriptor = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
constexpr int flush_current_context = 0;
constexpr int flush_to_owner = 100;

int attribute_of(int device, int attribute) noexcept {
  const gpu::CudaApi* const driver = gpu::driver();
  int value = 0;
  if (driver == nullptr || driver->device_get_attribute == nullptr) return 0;
  return driver->device_get_attribute(&value, attribute, device) == cuda::success ? value : 0;
}

struct Exported {
  base::UniqueFd descriptor;
  std::uint64_t offset = 0;
  std::string why_not;
};

// Whole pages around the range: the driver exports nothing else, also where the allocation ends inside of one.
Exported export_range(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t length) {
  const gpu::CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->mem_handle_for_range == nullptr ||
      attribute_of(memory.device, dma_buf_supported) == 0) {
    return {{}, 0, "the driver exports no dma-buf of this device"};
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = address / page * page;
  const std::uint64_t end = (address + length + page - 1) / page * page;
  const gpu::Session session(memory);
  int descriptor = -1;
  const cuda::Result answer = driver->mem_handle_for_range(&descriptor, begin, end - begin, dma_buf_descriptor, 0);
  if (answer != cuda::success) {
    return {{}, 0, fmt::format("the driver's export of a dma-buf answers {}", gpu::error_name(answer))};
  }
  return {base::UniqueFd(descriptor), address - begin, ""};
}

Registered refused(std::string why_not) {
  Registered nothing;
  nothing.why_not = std::move(why_not);
  return nothing;
}

Registered by_address(const Client& client, unsigned adapter, Way way, std::uint64_t address, std::uint64_t length,
                      unsigned access) {
  Registered made;
  made.way = way;
  made.there = address;
  if (client.region_open(adapter, address, length, -1, 0, access, &made.region, &made.rkey) == 0) return made;
  return refused(client.error());
}

Registered by_dma_buf(const Client& client, unsigned adapter, const facts::BufferFacts& memory, std::uint64_t address,
                      std::uint64_t length, unsigned access) {
  const Exported exported = export_range(memory, address, length);
  if (exported.descriptor.get() < 0) return refused(exported.why_not);
  Registered made;
  made.way = Way::dma_buf;
  made.there = address;
  if (client.region_open(adapter, address, length, exported.descriptor.get(), exported.offset, access, &made.region,
                         &made.rkey) == 0) {
    return made;
  }
  return refused(client.error());
}

}  // namespace

const char* words_of(Way way) noexcept {
  switch (way) {
    case Way::host:
      return "host memory";
    case Way::dma_buf:
      return "dma-buf";
    case Way::peer_memory:
      return "peer memory";
    case Way::none:
      break;
  }
  return "none";
}

Registered register_with(const Client& client, unsigned adapter, const facts::BufferFacts& memory,
                         std::uint64_t address, std::uint64_t length, unsigned access, PeerType wanted) {
  if (facts::is_host(memory.kind)) return by_address(client, adapter, Way::host, address, length, access);
  if (visibility_of(memory) == Visibility::unknown) {
    return refused("the device sees writes of adapters late, and its driver has no flush for the host");
  }
  Registered made;
  if (wanted != PeerType::peer_memory) {
    made = by_dma_buf(client, adapter, memory, address, length, access);
    if (made.region != nullptr || wanted == PeerType::dma_buf) return made;
  }
  const std::uint64_t there = gpu::kernel_address(memory, address, length);
  Registered second = there != 0 ? by_address(client, adapter, Way::peer_memory, there, length, access)
                                 : refused("the kernel has no address for this memory");
  if (second.region == nullptr && !made.why_not.empty()) second.why_not = made.why_not + "; " + second.why_not;
  return second;
}

Visibility visibility_of(const facts::BufferFacts& memory) noexcept {
  if (memory.kind != facts::MemoryKind::device || attribute_of(memory.device, gpu_direct_rdma_supported) == 0 ||
      attribute_of(memory.device, gpu_direct_rdma_writes_ordering) != 0) {
    return Visibility::in_order;
  }
  const gpu::CudaApi* const driver = gpu::driver();
  const bool by_host = (attribute_of(memory.device, gpu_direct_rdma_flush_options) & flush_by_host) != 0;
  return by_host && driver != nullptr && driver->flush_rdma_writes != nullptr ? Visibility::flushed
                                                                              : Visibility::unknown;
}

cuda::Result flush(const facts::BufferFacts& memory) noexcept {
  const gpu::CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->flush_rdma_writes == nullptr) return cuda::error_not_supported;
  const gpu::Session session(memory);
  return driver->flush_rdma_writes(flush_current_context, flush_to_owner);
}

}  // namespace sluice::rdma
